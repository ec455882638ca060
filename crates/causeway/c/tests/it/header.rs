//! What the headers declare is what the library has, and they compile alone in every dialect.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_c::error::CODES;
use causeway_testkit::{has_program, temp_dir};

use crate::installed::succeed;

pub const HEADERS: [&str; 2] = ["causeway.h", "causeway-bus.h"];

/// A function that a header declares.
pub struct Function {
    pub name: String,
    pub returns: String,
    pub parameters: Vec<String>,
}

pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text_of(header: &str) -> String {
    let text = std::fs::read_to_string(package().join("include").join(header)).unwrap();
    let mut code = String::new();
    for (index, part) in text.split("/*").enumerate() {
        code += if index == 0 { part } else { part.split_once("*/").expect("a comment ends").1 };
    }
    code.lines().filter(|line| !line.starts_with('#')).fold(String::new(), |text, line| text + line + " ")
}

/// All functions of both headers.
pub fn functions() -> Vec<Function> {
    let mut found = Vec::new();
    for statement in HEADERS.map(text_of).concat().split([';', '{', '}']) {
        let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some((before, parameters)) = words.split_once('(') else { continue };
        let at = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        if before[at..].starts_with("cw") && !words.starts_with("typedef") {
            let parameters = parameters.trim_end_matches(')').split(", ").map(str::to_owned).collect();
            found.push(Function {
                name: before[at..].into(),
                returns: before[..at].trim().into(),
                parameters,
            });
        }
    }
    assert!(found.len() > 90, "{} functions", found.len());
    found
}

/// Names of the functions that the sources export.
fn exported() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(package().join("src")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let is_name = |name: &str| name.starts_with("cw_") || name.starts_with("cwb_");
        for (before, name) in words.iter().zip(&words[1..]).filter(|(_, name)| is_name(name)) {
            if *before == "fn" || name.ends_with("_free") && !["unsafe", "use"].contains(before) {
                names.insert((*name).to_owned());
            }
        }
        // Functions that one macro makes of each text of a message.
        let texts = text.split("\ntexts! {").nth(1).unwrap_or_default();
        let texts = texts.lines().filter_map(|line| line.trim().split_once(": |").map(|(name, _)| name));
        names.extend(texts.map(str::to_owned));
    }
    names.remove("cw_test_panic_in");
    names
}

#[test]
fn headers_version_script_and_library_have_the_same_functions() {
    let declared: BTreeSet<_> = functions().into_iter().map(|function| function.name).collect();
    assert_eq!(declared, exported(), "left: the headers, right: the sources");
    let map = std::fs::read_to_string(package().join("causeway.map")).unwrap();
    let mapped = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let mapped: BTreeSet<_> = mapped.filter(|name| name.starts_with("cw")).map(str::to_owned).collect();
    assert_eq!(declared, mapped, "left: the headers, right: causeway.map");
}

#[test]
fn every_code_is_explicit_and_unique_and_failures_are_no_error_numbers_of_the_kernel() {
    let text = HEADERS.map(text_of).concat();
    let declared = text.split("enum ").skip(1).flat_map(|list| {
        list.split(['{', '}']).nth(1).expect("a list").split(',').map(|one| one.trim().to_owned())
    });
    let declared: BTreeSet<_> = declared.filter(|one| !one.is_empty()).collect();
    let codes: BTreeSet<_> = CODES.iter().map(|(name, number)| format!("{name} = {number}")).collect();
    assert_eq!(declared, codes);
    let numbers: BTreeSet<_> = CODES.iter().map(|(_, number)| number).collect();
    assert_eq!(numbers.len(), CODES.len());
    for (name, number) in CODES {
        let is_failure = name.contains("_E_");
        assert!(if is_failure { *number < -4096 } else { *number > 0 }, "{name} is {number}");
    }
}

/// Every kind of failure of the libraries has a code of its own: a new one is not `CW_E_UNKNOWN` unseen.
#[test]
fn every_failure_of_the_libraries_has_a_code() {
    let mapping = std::fs::read_to_string(package().join("src/error.rs")).unwrap();
    for (file, kind, name) in [
        ("../causeway/src/error.rs", "Error", "Error"),
        ("../causeway/src/call/error.rs", "CallError", "CallError"),
        ("../causeway/src/call/error.rs", "ReplyError", "ReplyError"),
        ("../bus/src/error.rs", "Error", "BusError"),
    ] {
        let text = std::fs::read_to_string(package().join(file)).unwrap();
        let list = text.split(&format!("pub enum {kind} {{\n")).nth(1).unwrap().split("\n}").next().unwrap();
        let variants = list.lines().filter_map(|line| line.strip_prefix("    "));
        let variants = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
        let variants: Vec<_> = variants.map(|line| line.trim_end_matches([',', '{', ' '])).collect();
        assert!(variants.len() > 3, "{variants:?}");
        for variant in variants {
            let variant = variant.split('(').next().unwrap();
            let is_mapped = mapping
                .split(&format!(" {name}::{variant}"))
                .nth(1)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
            assert!(is_mapped, "{name}::{variant} has no code in src/error.rs");
        }
    }
}

macro_rules! layouts {
    ($($module:ident::$name:ident { $($field:ident)* })*) => {{
        let mut checks = String::new();
        $(
            let (name, size) = (stringify!($name), size_of::<causeway_c::$module::$name>());
            let _ = writeln!(checks, "typedef char size_of_{name}[sizeof({name}) == {size} ? 1 : -1];");
            $(
                let (field, at) = (stringify!($field), offset_of!(causeway_c::$module::$name, $field));
                let _ = writeln!(
                    checks,
                    "typedef char {name}_{field}[offsetof({name}, {field}) == {at} ? 1 : -1];"
                );
            )*
        )*
        checks
    }};
}

#[test]
fn headers_compile_alone_in_every_dialect_and_structures_have_the_layout_of_the_library() {
    let checks = layouts! {
        group::cw_group_options { capacity_bytes flags remote_publishers publisher_rate_max trust most_patient
            most_patient_value most_patient_for_others format most_patient_for_others_value publishers
            publisher_count subscribers subscriber_count }
        group::cw_peer { pid uid gid }
        subscriber::cw_sub_options { policy flags policy_value timeout_ns topics topic_count }
        subscriber::cw_message { data bytes position publisher sequence topic lost_before lost_messages lost_bytes }
        subscriber::cw_health { server_is_gone demoted publishers unfinished_by given_up killed_publishers }
        large::cw_pool_options { payload_bytes_max files kind }
        call::cw_serve_options { capacity_bytes flags reserved patience_ns clients client_count }
        call::cw_request { data bytes fds fd_count pid uid gid reserved }
        bus::cwb_options { outbox_bytes call_timeout_ns laggard_deadline_ns spin_ns inbox_bytes pending_calls flags reserved }
    };
    let folder = temp_dir("c");
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let shims = "#define CW_NO_STDINT\ntypedef int int32_t;\ntypedef long int64_t;\ntypedef unsigned int uint32_t;\n\
                 typedef unsigned long uint64_t;\n";
    let mut files = vec![write("layout.c", &format!("#include <causeway-bus.h>\n{checks}"))];
    for header in HEADERS {
        files.push(write(&format!("{header}.c"), &format!("#include <{header}>\nextern int none;\n")));
    }
    let without_stdint = write("shims.c", &format!("{shims}#include <causeway-bus.h>\n{checks}"));
    for (compiler, of_cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        if !has_program(compiler) {
            continue;
        }
        let has_cxx = has_program(of_cxx);
        for dialect in ["c89", "c11", "c2x", "c++11", "c++20"] {
            let language = if dialect.contains('+') { "c++" } else { "c" };
            if language == "c++" && !has_cxx {
                continue;
            }
            for file in files.iter().chain((dialect == "c89").then_some(&without_stdint)) {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", language]);
                command.arg(format!("-std={dialect}")).arg("-I").arg(package().join("include")).arg(file);
                succeed(&mut command);
            }
        }
    }
}
