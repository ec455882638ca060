//! Every function of the headers with a panic in it, with null pointers, after a fork. The calls are made from the headers,
//! so that none is forgotten.

use std::fmt::Write as _;
use std::process::Command;

use crate::Bus;
use crate::header::{Function, functions};
use crate::installed::{compiled, installed, succeed};

/// The field of `struct all` that stands for a handle; `None` where the first argument is none.
fn handle(function: &Function) -> Option<&str> {
    let first = function.parameters.first()?;
    let (of, name) = first.rsplit_once('*')?;
    let of = of.trim();
    (!of.ends_with('*') && !of.starts_with("const") && !name.is_empty())
        .then(|| of.trim_start_matches("cwb_").trim_start_matches("cw_"))
}

fn calls() -> String {
    let mut text = String::new();
    let functions: Vec<_> =
        functions().into_iter().filter(|function| !function.name.starts_with("cw_error_")).collect();
    for function in &functions {
        let Function { name, returns, parameters } = function;
        let field = handle(function);
        let rest = ", 0".repeat(parameters.len() - 1);
        let nulls = format!("{name}(0{rest})");
        let with = field.map_or(nulls.clone(), |field| format!("{name}(all->{field}{rest})"));
        let _ = writeln!(text, "static void try_{name}(struct all *all, enum mode mode) {{\n    (void)all;");
        let _ = match (returns.as_str(), field) {
            ("int", field) => writeln!(
                text,
                "    if (mode == NULLS) must({nulls}, 0, \"{name}\");\n    if (mode == PANIC) {{\n        \
                 cw_test_panic_in(\"{name}\");\n        must({with}, CW_E_PANIC, \"{name}\");\n        {}\n    }}\n    {}",
                if field.is_some() {
                    format!("must({with}, CW_E_POISONED, \"{name}\");")
                } else {
                    String::new()
                },
                if field.is_some() {
                    format!("if (mode == FORKED) must({with}, CW_E_FORKED, \"{name}\");")
                } else {
                    String::new()
                },
            ),
            ("void", Some(field)) => writeln!(
                text,
                "    if (mode == NULLS) {nulls};\n    if (mode == PANIC) {{\n        cw_test_panic_in(\"{name}\");\n        \
                 {with};\n        all->{field} = 0;\n    }}"
            ),
            (_, Some(_)) => writeln!(
                text,
                "    if (mode == PANIC) cw_test_panic_in(\"{name}\");\n    if ((mode == NULLS ? {nulls} : {with}) != 0) \
                 must(0, CW_E_PANIC, \"{name}\");"
            ),
            other => panic!("{name} is of a kind that is not tested: {other:?}"),
        };
        text += "}\n\n";
    }
    text += "static void (*const ALL[])(struct all *, enum mode) = {\n";
    for function in &functions {
        let _ = writeln!(text, "    try_{},", function.name);
    }
    text + "};\n"
}

fn run(mode: &str) {
    let Some(root) = installed() else { return };
    let made = root.join(format!("every-{mode}"));
    std::fs::create_dir_all(&made).unwrap();
    std::fs::write(made.join("every.h"), calls()).unwrap();
    // The shared library does not export the function that injects.
    let (include, library) = (format!("-I{}", made.display()), root.join("opt/causeway/lib/libcauseway.a"));
    let flags = [&include, library.to_str().unwrap(), "-lgcc_s", "-lpthread", "-lm", "-ldl"];
    let program = compiled(root, "tests/c/every.c", &format!("every-{mode}/every"), &[], &flags);
    let bus = Bus::start();
    let output = succeed(Command::new(program).arg(mode).arg(bus.folder.path()).arg(bus.path("bus")));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

#[test]
fn a_panic_in_any_function_is_a_code_and_poisons_the_handle_and_the_host_lives() {
    run("panic");
}

#[test]
fn null_pointers_are_errors_in_every_function() {
    run("null");
}

#[test]
fn a_forked_child_gets_an_error_of_every_function_and_takes_nothing_from_its_parent() {
    run("forked");
}

#[test]
fn a_handle_that_another_thread_uses_is_busy_and_stays_when_it_is_freed() {
    run("busy");
}
