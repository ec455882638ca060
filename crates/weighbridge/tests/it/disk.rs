//! A disk that fills up. What was measured until then is kept and shown.

use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, skipped};
use weighbridge_record::Line;

use crate::emulator::Emulator;
use crate::{PROGRAM, Said, all, files, folder, text, valid_record};

/// Runs the program beside a small disk, mounted at `disk` below this folder; nothing where this process may not mount one. `script` is of
/// the shell, in which `$@` runs the program.
fn on_small_disk(
    folder: &Path,
    bytes: &str,
    script: &str,
    words: &str,
    more: &[(&str, &str)],
) -> Option<Said> {
    std::fs::create_dir(folder.join("disk")).unwrap();
    let script = format!("mount -t tmpfs -o size={bytes} none disk || exit 99; {script}");
    let mut command = Command::new("unshare");
    command.current_dir(folder).args(["--map-root-user", "--mount", "sh", "-c", &script, "sh", PROGRAM]);
    command.args(words.split(' ')).envs(more.iter().copied()).stdin(Stdio::null());
    match command.output() {
        Ok(output) if !matches!(output.status.code(), Some(1 | 99)) => Some(Said::of(output)),
        refused => {
            skipped(Cause::Rights("namespaces"), format!("no small disk can be mounted: {refused:?}"));
            None
        }
    }
}

/// In the disk's folder; the files are copied from it afterwards.
const THERE: &str = "cd disk; \"$@\"; code=$?; for file in *; do cp \"$file\" ..; done; exit $code";

/// A run with more lines than 40 KiB hold.
fn long_run() -> String {
    let latencies: Vec<String> = (100_001..=100_020).map(|latency: u32| latency.to_string()).collect();
    format!("run roundtrip/mock/1/free --quiet --set latency-ns={}", latencies.join(","))
}

#[test]
fn a_disk_that_fills_up_in_the_middle_leaves_a_valid_record_and_a_table() {
    let folder = folder();
    let words = long_run() + " --out r.jsonl --html none";
    let Some(said) = on_small_disk(folder.path(), "40k", THERE, &words, &[]) else { return };
    let Said { stdout, stderr, .. } = said.with(3);
    let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    let full = "error: cannot write to `r.jsonl`: No space left on device (os error 28); it holds what was measured until then";
    assert_eq!(errors, [full]);
    assert!(
        stdout.contains("■ roundtrip at free, µs/roundtrip") && stdout.contains("Ended early"),
        "{stdout}"
    );
    let path = folder.path().join("r.jsonl");
    assert!(text(&path).ends_with("}\n"));
    let lines = valid_record(path).lines;
    assert!(lines.iter().any(|line| matches!(line, Line::Run(_))));
    assert!(!lines.iter().any(|line| matches!(line, Line::End(_))), "there was no room for an end");
}

#[test]
fn a_page_that_does_not_fit_leaves_the_record_and_the_table() {
    let folder = folder();
    let words = "run roundtrip/mock/1/free --out r.jsonl -q";
    let Some(said) = on_small_disk(folder.path(), "40k", THERE, words, &[]) else { return };
    let Said { stdout, stderr, .. } = said.with(3);
    assert!(stderr.contains("error: cannot create `r.html`: No space left on device"), "{stderr}");
    let how = "`weighbridge report r.jsonl --format html --out FILE` makes the page";
    assert!(stderr.contains(how) && stdout.contains("■ roundtrip at free"), "{stderr}{stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
    assert!(!folder.path().join("r.html").exists(), "half a page is not a page");
}

/// The store is on the disk, the current folder is not.
#[test]
fn a_store_that_fills_up_hands_the_record_over_to_the_current_folder() {
    let folder = folder();
    let script = "export XDG_STATE_HOME=$PWD/disk; \"$@\"; code=$?; ls disk/weighbridge >&2; exit $code";
    let Some(said) = on_small_disk(folder.path(), "40k", script, &long_run(), &[]) else { return };
    let stderr = said.with(0).stderr;
    let full = "No space left on device (os error 28); the record goes on as `weighbridge-";
    assert!(stderr.contains(full), "{stderr}");
    let is_left = stderr.lines().any(|line| line.starts_with("weighbridge-"));
    assert!(!is_left, "nothing is left in the store: {stderr}");
    let names = files(folder.path());
    let record = names.iter().find(|name| name.ends_with(".jsonl")).unwrap();
    assert!(names.contains(&record.replace(".jsonl", ".html")), "{names:?}");
    let lines = valid_record(folder.path().join(record)).lines;
    assert!(all!(lines, Run).len() >= 20 * 6, "every run is in it");
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
}

#[test]
fn standard_output_that_is_full_is_an_error_and_the_record_is_kept() {
    let folder = folder();
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        return skipped(Cause::Missing("/dev/full"), "");
    };
    let words = "run roundtrip/mock/1/free --out r.jsonl --html none -q";
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder.path()).args(words.split(' ')).stdout(full).stderr(Stdio::piped());
    let stderr = Said::of(command.output().unwrap()).with(3).stderr;
    assert!(stderr.contains("error: cannot write to standard output: No space left on device"), "{stderr}");
    valid_record(folder.path().join("r.jsonl"));
}

#[test]
fn what_a_guest_measured_is_shown_where_its_record_does_not_fit() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "cat \"$(dirname \"$0\")/answer\" >&4; exec sleep 1000");
    emulator.answers_with_a_record();
    let words =
        format!("guest run --kernel {} --accel tcg --out r.jsonl roundtrip/mock/1/free", emulator.kernel);
    let path = [("PATH", emulator.path.to_str().unwrap())];
    let Some(said) = on_small_disk(folder.path(), "4k", THERE, &words, &path) else { return };
    let Said { stdout, stderr, .. } = said.with(3);
    assert!(stderr.contains("error: cannot write to `r.jsonl`: No space left on device"), "{stderr}");
    assert!(stdout.contains("■ roundtrip at free"), "what took minutes is shown: {stdout}");
    emulator.is_gone();
}
