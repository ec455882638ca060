//! The output of other tools as a record, and the series of a case over many records.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{folder, valid_record, weighbridge};

/// A file that a tool wrote, of the tests of the crate that reads it.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/record/tests/files").join(name)
}

#[test]
fn what_other_tools_wrote_becomes_a_record_that_report_shows() {
    let folder = folder();
    let names = ["hyperfine.json", "fio.json", "sockperf.txt"];
    weighbridge(folder.path())
        .arg("import")
        .args(names.map(file))
        .args(["--out", "record.jsonl", "--commit", "1a2b3c4"])
        .assert()
        .success();
    let reading = valid_record(folder.path().join("record.jsonl"));
    assert!(reading.lines.len() > 10);
    for format in ["table", "markdown", "csv", "json", "html"] {
        let output =
            weighbridge(folder.path()).args(["report", "record.jsonl", "--format", format]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
        let plain = shown.replace('\\', "");
        assert!(plain.contains("hyperfine:sleep_0.01"), "{format}: {shown}");
        if format == "table" {
            assert!(shown.contains("only the average over the job"), "{shown}");
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_others_kept() {
    let folder = folder();
    fs::write(folder.path().join("letter.txt"), "Dear reader,\n").unwrap();
    let whole = fs::read_to_string(file("hyperfine.json")).unwrap();
    fs::write(folder.path().join("cut.json"), &whole[..whole.len() / 2]).unwrap();
    let output = weighbridge(folder.path())
        .args(["import", "letter.txt", "cut.json", "missing"])
        .arg(file("go-bench.txt"))
        .args(["--out", "record.jsonl"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("`letter.txt`, line 1: not the output of a tool"), "{stderr}");
    assert!(stderr.contains("`cut.json`, line ") && stderr.contains("ends in the middle"), "{stderr}");
    assert!(stderr.contains("cannot read `missing`"), "{stderr}");
    valid_record(folder.path().join("record.jsonl"));
    let nothing =
        weighbridge(folder.path()).args(["import", "letter.txt", "--out", "none.jsonl"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(!folder.path().join("none.jsonl").exists());
}

/// A hyperfine file of one command that always takes the same.
fn imported(folder: &Path, name: &str, seconds: f64, commit: &str) {
    let file = json!({"results": [{"command": "work", "times": vec![seconds; 8]}]});
    fs::write(folder.join("now.json"), file.to_string()).unwrap();
    weighbridge(folder).args(["import", "now.json", "--out", name, "--commit", commit]).assert().success();
}

/// A record with another time and host in its header.
fn changed(path: &Path, started: &str, host: &str) {
    let record = fs::read_to_string(path).unwrap();
    let (first, rest) = record.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(first).unwrap();
    header["started"] = started.into();
    header["machine"]["hostname"] = host.into();
    fs::write(path, format!("{header}\n{rest}")).unwrap();
}

#[test]
fn a_step_of_a_tenth_at_record_12_of_20_is_found_and_machines_are_not_mixed_unasked() {
    let folder = folder();
    for index in 0..20 {
        let level = if index < 12 { 0.010 } else { 0.011 };
        let seconds = level * (1.0 + 0.001 * (f64::from(index * 7 % 11) - 5.0));
        let name = format!("r{index:02}.jsonl");
        imported(folder.path(), &name, seconds, if index < 12 { "old" } else { "new" });
        changed(&folder.path().join(&name), &format!("2026-01-01T00:00:{index:02}Z"), "here");
    }
    let history = |args: &[&str]| {
        let output = weighbridge(folder.path()).args(["history", "."]).args(args).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, found, _) = history(&["--by", "commit", "--format", "json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    let changes = found["series"][0]["changes"].as_array().unwrap();
    assert_eq!((code, changes.len(), &changes[0]["at"]), (Some(0), 1, &json!(12)), "{found}");
    assert!((changes[0]["ratio"].as_f64().unwrap() - 1.1).abs() < 0.01, "{found}");
    assert_eq!(
        (&found["records"][11]["commit"], &found["records"][12]["commit"]),
        (&json!("old"), &json!("new"))
    );
    for format in ["table", "markdown", "html"] {
        let (code, shown, stderr) = history(&["--changes", "--by", "commit", "--format", format]);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(shown.contains("12: old") && shown.contains("13: new"), "{format}: {shown}");
    }
    changed(&folder.path().join("r19.jsonl"), "2026-01-01T00:00:19Z", "elsewhere");
    let (code, _, stderr) = history(&["--changes"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("2 machines") && stderr.contains("--across-machines"), "{stderr}");
    let (_, found, _) = history(&["--across-machines", "--format", "json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert!(found["series"][0]["across_machines"].as_str().unwrap().contains("elsewhere"), "{found}");
    let (code, shown, _) = history(&["--across-machines", "--format", "markdown"]);
    assert_eq!(code, Some(0));
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("| imported/")).collect();
    assert!(rows.len() > 1 && rows.iter().all(|row| row.contains("across 2 machines")), "{shown}");
}
