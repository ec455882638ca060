//! Mechanisms of the user: what they get, and that nothing that is wrong with them is wrong with anything else.
//!
//! They are compiled here, where there is a compiler for C.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::{has_header, has_program};

use super::*;

mod fans;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/targets/own");
const DEFECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/own/defects.c");

/// A folder to compile in, where there is a compiler. Otherwise that has been said.
pub fn with_compiler() -> Option<TempDir> {
    has_program("cc").then(folder)
}

/// A shared object made of a source; its path.
#[track_caller]
fn compiled(folder: &Path, name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let object = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-I", SOURCES]).args(flags);
    let made = cc.arg(source).arg("-o").arg(&object).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    object
}

pub fn doorbell(folder: &Path) {
    compiled(folder, "libdoorbell.so", &Path::new(SOURCES).join("doorbell.c"), &[]);
}

/// Why each case of a record has no figure.
fn reasons(lines: &[Line]) -> BTreeMap<&str, String> {
    let skipped = all!(lines, Skipped).into_iter();
    skipped.map(|line| (line.case.mechanism.as_str(), format!("{}: {}", line.step, line.why))).collect()
}

/// Those of all that have a figure.
fn measured_of(lines: &[Line]) -> Vec<String> {
    all!(lines, Summary).iter().map(|summary| summary.case.mechanism.clone()).collect()
}

#[test]
fn the_example_of_the_documents_is_measured_beside_ours_and_its_counters_are_right() {
    let Some(folder) = with_compiler() else { return };
    doorbell(folder.path());
    let cases = "roundtrip/doorbell/64/same-cpu roundtrip/doorbell/0/free stream/doorbell/4096/free self/doorbell/64/same-cpu \
                 roundtrip/doorbell/64/free/peers=thread roundtrip/pipe/64/same-cpu";
    let lines = measured(folder.path(), &format!("--target ./libdoorbell.so {cases} --runs 3"));
    assert_eq!(reasons(&lines), BTreeMap::new());
    assert_eq!(measured_of(&lines).iter().filter(|name| *name == "doorbell").count(), 5);
    let header = all!(lines, Header)[0];
    assert_eq!(header.settings["target"], "./libdoorbell.so");
    let path = folder.path().join("libdoorbell.so").canonicalize().unwrap();
    for case in all!(lines, Case).iter().filter(|case| case.mechanism == "doorbell") {
        assert_eq!(case.facts["target_file"], path.to_str().unwrap(), "{:?}", case.facts);
        assert_eq!((case.facts["target_fnv1a"].len(), &case.facts["target_version"][..]), (16, "1"));
    }
    for run in all!(lines, Run).iter().filter(|run| run.case.mechanism == "doorbell") {
        // A debug build's own loop and what other programs do are no defects of a mechanism.
        let counters = ["page faults", "switches", "did not wait", "bytes"];
        let said = run.flags.iter().filter(|flag| counters.iter().any(|word| flag.contains(word)));
        assert_eq!(said.collect::<Vec<_>>(), [""; 0], "{}", run.case);
    }
}

#[test]
fn a_target_is_listed_planned_and_a_part_of_suites_like_ours() {
    let Some(folder) = with_compiler() else { return };
    doorbell(folder.path());
    let of = |words: &str| shown(folder.path(), &format!("{words} --target ./libdoorbell.so"));
    let listed = of("list doorbell");
    assert!(listed.contains("zero copy") && listed.contains("patterns: roundtrip, stream, self"), "{listed}");
    assert!(of("list --format json").contains("\"doorbell\""));
    assert!(of("plan roundtrip/doorbell").contains("roundtrip/doorbell/4096/same-cpu"));
    let quick = of("plan --suite quick");
    assert!(quick.contains("doorbell"), "{quick}");
    let refused = said(folder.path(), "plan roundtrip/doorbell").with(2);
    assert!(refused.stderr.contains("`roundtrip/doorbell` selects nothing"), "{}", refused.stderr);
}

#[test]
fn two_settings_of_a_target_are_compared_and_its_cost_is_explained() {
    let Some(folder) = with_compiler() else { return };
    doorbell(folder.path());
    let compare = "compare --target ./libdoorbell.so roundtrip/doorbell/64/same-cpu --b env:MALLOC_ARENA_MAX=1 --runs 10..10 \
                   --budget 20s --no-system-calls --out c.jsonl --html none --quiet";
    let code = said(folder.path(), compare).code;
    // A against itself may differ on a machine that does other things meanwhile; that a case has a verdict is what is looked at.
    assert!([Some(0), Some(1), Some(4)].contains(&code), "{code:?}");
    let record = valid_record(folder.path().join("c.jsonl"));
    assert!(!all!(record.lines, Verdict).is_empty());
    let explain =
        "explain --target ./libdoorbell.so roundtrip/doorbell/64/same-cpu --budget 20s --out e.jsonl --quiet";
    said(folder.path(), explain).with(0);
    let record = text(folder.path().join("e.jsonl"));
    assert!(record.contains("roundtrip/doorbell/64/same-cpu"), "{record}");
}

#[test]
fn each_defect_of_a_target_ends_its_case_in_a_sentence_and_no_other_case() {
    let Some(folder) = with_compiler() else { return };
    compiled(folder.path(), "defects.so", Path::new(DEFECTS), &[]);
    let wanted = [
        ("create-crash", "plan", "its function `create` ended its process: signal 11 (SIGSEGV)"),
        ("create-exit", "plan", "its function `create` ended its process without an answer: exit code 0"),
        ("create-refuse", "plan", "its function `create` failed: Permission denied"),
        ("create-closed", "plan", "its function `create` handed over the descriptor 99: Bad file descriptor"),
        ("create-many", "plan", "handed over 1000 descriptors and 3 bytes; 128 and 1024 are the most"),
        ("attach-crash", "attach", "ended: signal 11 (SIGSEGV)"),
        ("attach-exit", "attach", "ended: exit code 0"),
        ("own-error", "attach", "its function `attach` failed: the moon is full"),
        ("loan-short", "verify", "its function `loan` gave 63 bytes, asked were 64"),
        ("loan-nowhere", "verify", "its function `loan` gave no place for 64 bytes"),
        ("commit-crash", "", "ended: signal 11 (SIGSEGV)"),
        ("take-short", "verify", "message 0 has 63 bytes, sent were 64"),
        ("take-long", "verify", "`take` gave a message of 65 bytes; the largest of this case has 64"),
        ("take-nowhere", "verify", "its function `take` gave no place for 64 bytes"),
        ("damage", "verify", "message 0 does not hold what its sender wrote"),
        ("damage-late", "", "arrived damaged"),
        ("release-fail", "verify", "its function `release` failed: Input/output error"),
        ("close-crash", "report", "ended: signal 11 (SIGSEGV)"),
        ("attach-close-all", "attach", "closed the socket to this program and went on; it was killed"),
        (
            "position-still",
            "report",
            "its function `position` says 12345 before the first message and after the last",
        ),
    ];
    let names: Vec<&str> = wanted.iter().map(|(name, ..)| *name).collect();
    let cases = format!("roundtrip/{{sound,pipe,{}}}/64/same-cpu", names.join(","));
    // Where the places of runs are.
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let words = format!("run --target ./defects.so {cases} --runs 2 --out r.jsonl --html none --quiet");
    let run = weighbridge(folder.path()).args(words.split_whitespace()).env("TMPDIR", &temporary);
    Said::by(run).with(0);
    assert_eq!(files(&temporary), [""; 0], "nothing is left of a place, whatever has died there");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let why = reasons(&lines);
    assert_eq!(why.len(), wanted.len(), "{why:?}");
    for (name, step, words) in wanted {
        let why = why.get(name).unwrap_or_else(|| panic!("{name} has no reason: {why:?}"));
        assert!(why.starts_with(step) && why.contains(words), "{name}: {why}");
    }
    let measured = measured_of(&lines);
    assert!(["sound", "pipe"].iter().all(|name| measured.iter().any(|it| it == name)), "{measured:?}");
}

/// Processes whose environment has this.
fn processes_with(variable: &str) -> Vec<String> {
    let folders = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let has_it = |folder: &PathBuf| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|of| of == variable.as_bytes())
    };
    folders.filter(has_it).map(|folder| folder.display().to_string()).collect()
}

#[test]
fn processes_that_a_target_starts_and_leaves_end_with_their_run() {
    let Some(folder) = with_compiler() else { return };
    compiled(folder.path(), "defects.so", Path::new(DEFECTS), &[]);
    let mark = ("LEFT_BY", folder.path().display().to_string());
    let words = "run --target ./defects.so roundtrip/{create-leave,attach-leave}/64/same-cpu --runs 2 --out r.jsonl --html none --quiet";
    let run = weighbridge(folder.path()).args(words.split_whitespace()).env(mark.0, &mark.1);
    Said::by(run).with(0);
    assert_eq!(processes_with(&format!("{}={}", mark.0, mark.1)), [""; 0]);
    let mut measured = measured_of(&valid_record(folder.path().join("r.jsonl")).lines);
    measured.sort_unstable();
    assert_eq!(
        measured,
        ["attach-leave", "create-leave", "noop"],
        "a process beside it is not a defect of a mechanism"
    );
}

#[test]
fn a_file_that_never_ends_is_no_target() {
    let folder = folder();
    let said = Said::by(weighbridge(folder.path()).args(["list", "--target", "/dev/zero"])).fails();
    assert!(said.stderr.contains("it is no regular file"), "{}", said.stderr);
}

#[test]
fn a_target_that_never_returns_ends_its_case_within_a_time_limit() {
    let Some(folder) = with_compiler() else { return };
    compiled(folder.path(), "defects.so", Path::new(DEFECTS), &[]);
    let cases = "roundtrip/{create-hang,attach-hang,sound}/64/same-cpu";
    let lines = measured(folder.path(), &format!("--target ./defects.so {cases} --runs 2 --budget 2m"));
    let why = reasons(&lines);
    let of = |name: &str| why.get(name).unwrap_or_else(|| panic!("{name} has no reason: {why:?}"));
    assert!(of("create-hang").contains("`create` did not return within 10 s"), "{why:?}");
    assert!(of("attach-hang").starts_with("attach: "), "{why:?}");
    assert!(measured_of(&lines).contains(&"sound".to_owned()));
}

#[test]
fn a_target_that_changes_while_it_is_measured_is_refused() {
    let Some(folder) = with_compiler() else { return };
    let itself = format!("-DSELF=\"{}\"", folder.path().join("defects.so").display());
    compiled(folder.path(), "defects.so", Path::new(DEFECTS), &[&itself]);
    let cases = "roundtrip/change/64/same-cpu roundtrip/pipe/64/same-cpu";
    let lines = measured(folder.path(), &format!("--target ./defects.so {cases} --runs 2"));
    let why = reasons(&lines);
    assert!(why["change"].contains("it has changed since this program began; start again"), "{why:?}");
}

/// The adapters of rivals, of those whose headers are installed.
#[test]
fn libraries_of_others_are_measured_beside_ours_through_their_adapters() {
    let Some(folder) = with_compiler() else { return };
    let rivals = Path::new(SOURCES).join("rivals");
    let out = format!("OUT={}", folder.path().display());
    if !has_program("make") {
        return;
    }
    let made = Command::new("make").arg("-C").arg(&rivals).arg(out).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for (name, mechanisms, header) in [
        ("zeromq", "zeromq-{ipc,tcp}", "zmq.h"),
        ("nng", "nng-{ipc,tcp}", "nng/nng.h"),
        ("cyclone", "cyclone", "dds/dds.h"),
    ] {
        if !folder.path().join(format!("{name}.so")).exists() {
            let installed = has_header(header) && (name != "cyclone" || has_program("idlc"));
            assert!(!installed, "{header} is installed, and no {name}.so was made");
            continue;
        }
        let cases = format!("roundtrip/{mechanisms}/{{0,100000}}/free stream/{mechanisms}/64/free");
        let temporary = folder.path().join(format!("temporary-{name}"));
        std::fs::create_dir(&temporary).unwrap();
        let words =
            format!("run --target ./{name}.so {cases} --runs 2 --out {name}.jsonl --html none --quiet");
        let run = weighbridge(folder.path()).args(words.split_whitespace()).env("TMPDIR", &temporary);
        Said::by(run).with(0);
        assert_eq!(files(&temporary), [""; 0]);
        let lines = valid_record(folder.path().join(format!("{name}.jsonl"))).lines;
        assert_eq!(reasons(&lines), BTreeMap::new());
        let of_it = |case: &&String| case.starts_with(name);
        let count = if mechanisms.contains(',') { 6 } else { 3 };
        assert_eq!(measured_of(&lines).iter().filter(of_it).count(), count, "{:?}", measured_of(&lines));
    }
}

#[test]
fn rivals_without_headers_are_left_out() {
    if !has_program("cc") || !has_program("make") {
        return;
    }
    let include = folder();
    std::fs::write(include.path().join("zmq.h"), "").unwrap();
    let mut make = Command::new("make");
    make.arg("-C").arg(Path::new(SOURCES).join("rivals")).arg("--dry-run").arg("OUT=/nonexistent");
    // Headers of this machine do not count.
    make.arg(format!("CFLAGS=-nostdinc -I{}", include.path().display()));
    let made = make.output().unwrap();
    let output = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "{output}{}", String::from_utf8_lossy(&made.stderr));
    for (name, is_built) in [("zeromq", true), ("nng", false), ("cyclone", false)] {
        assert_eq!(output.contains(&format!("{name}.so")), is_built, "{output}");
        assert_eq!(output.contains(&format!("left out: {name}, because")), !is_built, "{output}");
    }
}

/// A mechanism compiled with a header that has one more function at the end of its struct.
fn of_longer_header(function: &str) -> String {
    format!(
        "#include <stddef.h>\n#define weighbridge_targets of_this_header\n#include \"weighbridge-target.h\"\n#undef weighbridge_targets\n\
         struct longer {{ struct weighbridge_target begin; int (*more)(void); }};\n\
         static int it(void) {{ return 0; }}\n\
         __attribute__((unused)) static void *any = (void *)it;\n\
         const struct longer weighbridge_targets[] = {{\n\
         {{{{.version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct longer), .name = \"first\", .about = \"a test\", \
         .measured_version = \"1\", .waits = \"block\", .attach = (void *)it, .loan = (void *)it, .commit = (void *)it, \
         .take = (void *)it}}, NULL}},\n\
         {{{{.version = WEIGHBRIDGE_TARGET_VERSION, .struct_bytes = sizeof(struct longer), .name = \"second\", .about = \"a test\", \
         .measured_version = \"1\", .waits = \"block\", .attach = (void *)it, .loan = (void *)it, .commit = (void *)it, \
         .take = (void *)it}}, {function}}}, {{{{0}}, NULL}}}};\n"
    )
}

#[test]
fn a_target_of_a_longer_header_is_read_where_it_uses_nothing_of_what_is_new() {
    let Some(folder) = with_compiler() else { return };
    let file = folder.path().join("longer.c");
    std::fs::write(&file, of_longer_header("NULL")).unwrap();
    compiled(folder.path(), "longer.so", &file, &["-Wno-cast-function-type"]);
    let listed = shown(folder.path(), "list --target ./longer.so --format json");
    assert!(listed.contains("\"first\"") && listed.contains("\"second\""), "{listed}");
}

#[test]
fn what_is_no_target_is_refused_in_a_sentence_before_anything_is_measured() {
    let Some(folder) = with_compiler() else { return };
    let path = folder.path();
    let entry = |more: &str| {
        format!(
            "#include <stdlib.h>\n#include \"weighbridge-target.h\"\n\
             static int it(void) {{ return 0; }}\n\
             __attribute__((unused)) static void *any = (void *)it;\n\
             const struct weighbridge_target weighbridge_targets[] = {{{{.version = WEIGHBRIDGE_TARGET_VERSION, \
             .struct_bytes = sizeof(struct weighbridge_target), .name = \"mine\", .about = \"a test\", .measured_version = \"1\", \
             .waits = \"block\", .attach = (void *)it, .loan = (void *)it, .commit = (void *)it, .take = (void *)it, {more}}}, {{0}}}};\n"
        )
    };
    let initializer = |does: &str| {
        format!(
            "#include <unistd.h>\n{}__attribute__((constructor)) static void begin(void) {{ {does}; }}\n",
            entry("")
        )
    };
    std::fs::write(path.join("text.so"), "no shared object").unwrap();
    let sources = [
        ("empty", "int nothing;\n".to_owned(), "it exports no weighbridge_targets"),
        (
            "undefined",
            entry("") + "int nowhere(void); int call(void) { return nowhere(); }\n",
            "undefined symbol: nowhere",
        ),
        ("version", entry(".version = 7,"), "its entry 0 has version 7"),
        ("size", entry(".struct_bytes = 8,"), "its entry 0 has version 2 and 8 bytes"),
        ("newer", of_longer_header("it"), "its entry 1 uses what a newer weighbridge-target.h has"),
        ("no-take", entry(".take = NULL,"), "its mechanism mine has no function `take`"),
        ("no-about", entry(".about = NULL,"), "it has a mechanism without about"),
        ("bad-name", entry(".name = \"Mine/1\","), "its name \"Mine/1\" is none for a case id"),
        ("bad-wait", entry(".waits = \"sleep\","), "has the way to wait `sleep`; there are block"),
        ("taken", entry(".name = \"pipe\","), "its mechanism pipe has the name of another one"),
        (
            "crash",
            initializer("*(volatile int *)16 = 0"),
            "looking at its table ended its process: signal 11",
        ),
        (
            "exit",
            initializer("_exit(3)"),
            "looking at its table ended its process without an answer: exit code 3",
        ),
        ("hang", initializer("for (;;) pause()"), "looking at its table did not return within 10 s"),
    ];
    let refuses = |name: &str, words: &str| {
        let said =
            said(path, &format!("run --target ./{name}.so roundtrip/pipe/1/same-cpu --out r.jsonl")).with(2);
        let begins = format!("error: --target ./{name}.so: ");
        assert!(said.stderr.starts_with(&begins) && said.stderr.contains(words), "{name}: {}", said.stderr);
        assert_eq!(said.stderr.trim_end().lines().count(), 1, "{name}: {}", said.stderr);
        assert!(!path.join("r.jsonl").exists(), "{name}");
    };
    refuses("not-there", "it cannot be read: No such file");
    refuses("text", "it cannot be loaded: ");
    for (name, source, words) in sources {
        let file = path.join(format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let quiet = ["-Wno-override-init", "-Wno-cast-function-type"];
        compiled(path, &format!("{name}.so"), &file, &quiet);
        refuses(name, words);
    }
}
