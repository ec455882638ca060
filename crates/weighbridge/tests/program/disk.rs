//! A disk that fills up. What was measured until then is kept and shown.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use weighbridge_record::Line;

use crate::emulator::Emulator;
use crate::{PROGRAM, folder, text, valid_record, weighbridge};

/// Runs the program with its files on a disk of `bytes` bytes, and takes the record from it afterwards; nothing where
/// this process may not mount one.
fn on_small_disk(folder: &Path, bytes: &str, args: &[&str]) -> Option<Output> {
    on_small_disk_with_path(folder, bytes, args, &std::env::var_os("PATH").unwrap_or_default())
}

/// The same with programs from these folders.
fn on_small_disk_with_path(folder: &Path, bytes: &str, args: &[&str], path: &OsStr) -> Option<Output> {
    let disk = folder.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let script = r#"
        mount -t tmpfs -o size="$1" none "$2" || exit 99
        cd "$2" && shift 2
        "$@"
        code=$?
        for file in *; do cp "$file" ..; done
        exit $code
    "#;
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh", bytes])
        .arg(&disk)
        .arg(PROGRAM)
        .args(args)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.code() != Some(99) && output.status.code() != Some(1) => Some(output),
        refused => {
            println!("skipped: no small disk can be mounted here: {refused:?}");
            None
        }
    }
}

fn latencies() -> String {
    let values: Vec<String> = (100_001..=100_020).map(|latency| latency.to_string()).collect();
    format!("latency-ns={}", values.join(","))
}

#[test]
fn a_disk_that_fills_up_in_the_middle_leaves_a_valid_record_and_a_table() {
    let folder = folder();
    let set = latencies();
    let args = ["run", "roundtrip/mock/1/free", "--set", &set, "--out", "r.jsonl", "--html", "none", "-q"];
    let Some(output) = on_small_disk(folder.path(), "40k", &args) else { return };
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(
        errors,
        [
            "error: cannot write to `r.jsonl`: No space left on device (os error 28); it holds what was measured until then"
        ]
    );
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("■ roundtrip at free, µs/roundtrip"), "{stdout}");
    assert!(stdout.contains("Ended early"), "{stdout}");
    let path = folder.path().join("r.jsonl");
    assert!(text(&path).ends_with("}\n"));
    let lines = valid_record(path).lines;
    assert!(lines.iter().any(|line| matches!(line, Line::Run(_))));
    assert!(!lines.iter().any(|line| matches!(line, Line::End(_))), "there was no room for an end");
}

#[test]
fn a_page_that_does_not_fit_leaves_the_record_and_the_table() {
    let folder = folder();
    let args = ["run", "roundtrip/mock/1/free", "--out", "r.jsonl", "-q"];
    let Some(output) = on_small_disk(folder.path(), "1m", &args) else { return };
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("error: cannot create `r.html`: No space left on device"), "{stderr}");
    assert!(
        stderr.contains("`weighbridge report r.jsonl --format html --out FILE` makes the page"),
        "{stderr}"
    );
    assert!(String::from_utf8(output.stdout).unwrap().contains("■ roundtrip at free"), "the table is shown");
    assert!(
        matches!(valid_record(folder.path().join("r.jsonl")).lines.last(), Some(Line::End(end)) if end.complete)
    );
    assert!(!folder.path().join("r.html").exists(), "half a page is no page");
}

#[test]
fn standard_output_that_is_full_is_an_error_and_the_record_is_kept() {
    let folder = folder();
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let output = Command::new(PROGRAM)
        .current_dir(folder.path())
        .args(["run", "roundtrip/mock/1/free", "--out", "r.jsonl", "--html", "none", "-q"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("error: cannot write to standard output: No space left on device"), "{stderr}");
    valid_record(folder.path().join("r.jsonl"));
}

#[test]
fn what_a_guest_measured_is_shown_where_its_record_does_not_fit() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000");
    let args = ["run", "roundtrip/mock/1/free", "--out", "m.jsonl", "--html", "none", "-q"];
    assert!(weighbridge(folder.path()).args(args).output().unwrap().status.success());
    emulator.answers(&std::fs::read(folder.path().join("m.jsonl")).unwrap());
    let args = [
        "guest",
        "run",
        "--kernel",
        &emulator.kernel,
        "--accel",
        "tcg",
        "--out",
        "r.jsonl",
        "roundtrip/mock/1/free",
    ];
    let Some(output) = on_small_disk_with_path(folder.path(), "4k", &args, &emulator.path) else { return };
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("error: cannot write to `r.jsonl`: No space left on device"), "{stderr}");
    assert!(stdout.contains("■ roundtrip at free"), "what took minutes is shown: {stdout}");
    emulator.is_gone();
}
