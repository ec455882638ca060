//! The output of other tools as a record, and the series of a case over many records.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{folder, said, shown, valid_record};

/// A file that a tool wrote, of the tests of the crate that reads it.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/record/tests/files").join(name)
}

#[test]
fn what_other_tools_wrote_becomes_a_record_that_report_shows() {
    let folder = folder();
    let names = ["hyperfine.json", "fio.json", "sockperf.txt"];
    let files = names.map(|name| file(name).display().to_string()).join(" ");
    said(folder.path(), &format!("import {files} --out record.jsonl --commit 1a2b3c4")).with(0);
    let reading = valid_record(folder.path().join("record.jsonl"));
    assert!(reading.lines.len() > 10);
    for format in ["table", "markdown", "csv", "json", "html"] {
        let shown = shown(folder.path(), &format!("report record.jsonl --format {format}"));
        assert!(shown.replace('\\', "").contains("hyperfine:sleep_0.01"), "{format}: {shown}");
        assert!(format != "table" || shown.contains("only the average over the job"), "{shown}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_the_others_kept() {
    let folder = folder();
    fs::write(folder.path().join("letter.txt"), "Dear reader,\n").unwrap();
    let whole = fs::read_to_string(file("hyperfine.json")).unwrap();
    fs::write(folder.path().join("cut.json"), &whole[..whole.len() / 2]).unwrap();
    let words =
        format!("import letter.txt cut.json missing {} --out record.jsonl", file("go-bench.txt").display());
    let stderr = said(folder.path(), &words).with(3).stderr;
    assert!(stderr.contains("`letter.txt` is not the output of a tool"), "{stderr}");
    assert!(stderr.contains("`cut.json`, line ") && stderr.contains("ends in the middle"), "{stderr}");
    assert!(stderr.contains("cannot read `missing`"), "{stderr}");
    valid_record(folder.path().join("record.jsonl"));
    said(folder.path(), "import letter.txt --out none.jsonl").with(3);
    assert!(!folder.path().join("none.jsonl").exists());
}

#[test]
fn skipped_entries_are_listed_with_their_lines_and_are_no_failure() {
    let folder = folder();
    let words = format!("import {} --out record.jsonl", file("versions/google-benchmark-1.9.json").display());
    let stderr = said(folder.path(), &words).with(0).stderr;
    assert!(stderr.contains("1.9.json`, line 50: `BM_Device`: no such device"), "{stderr}");
    assert!(stderr.contains("2 figures of google-benchmark from 6 entries"), "{stderr}");
    let shown = shown(folder.path(), "report record.jsonl");
    assert!(shown.contains("no such device"), "{shown}");
}

#[test]
fn a_file_that_is_no_utf8_text_is_refused_with_a_way_out() {
    let folder = folder();
    let json = r#"{"results": [{"command": "work", "times": [1.0]}]}"#;
    let utf16: Vec<u8> = json.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(folder.path().join("utf16.json"), [&[0xff, 0xfe][..], &utf16].concat()).unwrap();
    fs::write(folder.path().join("latin.txt"), b"Benchmark\xe9 9 4 ns/op\n").unwrap();
    fs::write(folder.path().join("nothing"), "").unwrap();
    fs::write(folder.path().join("marked.json"), format!("\u{feff}{json}")).unwrap();
    let stderr =
        said(folder.path(), "import utf16.json latin.txt nothing . --out record.jsonl").with(3).stderr;
    for part in [
        "`utf16.json` is UTF-16 text",
        "iconv -f UTF-16",
        "`latin.txt`, line 1: is not UTF-8",
        "`nothing` is empty",
        "cannot read `.`",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!folder.path().join("record.jsonl").exists());
    said(folder.path(), "import marked.json --out record.jsonl").with(0);
}

/// A file without an end is as good as one that is too large.
#[test]
fn a_file_beyond_the_limit_is_refused() {
    let folder = folder();
    let large = fs::File::create(folder.path().join("large.json")).unwrap();
    large.set_len((1 << 30) + 1).unwrap();
    let stderr = said(folder.path(), "import large.json --out record.jsonl").with(3).stderr;
    assert!(stderr.contains("larger than 1 GiB") && stderr.contains("split it"), "{stderr}");
}

/// Statements about hubs, sessions, counters and rankings hold of what this program measures, and not of what others did.
#[test]
fn a_report_of_imported_benchmarks_claims_only_what_their_files_tell() {
    const FOREIGN: [&str; 12] = [
        "Linux",
        "best median",
        "hub",
        "session",
        "counter check",
        "precision asked",
        "between processes",
        "max-runs",
        "0 B",
        "seed",
        "at unknown",
        "not usable",
    ];
    let folder = folder();
    shown(folder.path(), &format!("import {} --out go.jsonl", file("versions/go-1.21-darwin.txt").display()));
    for format in ["table", "markdown", "html"] {
        let shown = shown(folder.path(), &format!("report go.jsonl --format {format}"));
        let shown =
            shown.split("<style>").next().unwrap().to_owned() + shown.split("</style>").last().unwrap();
        // The script of a page serves all reports.
        let shown = shown.split("<script").next().unwrap();
        for claim in FOREIGN {
            assert!(!shown.contains(claim), "{format}: {claim} in {shown}");
        }
        assert!(
            shown.contains("darwin arm64") && shown.contains("does not say when it was measured"),
            "{format}: {shown}"
        );
    }
    let table = shown(folder.path(), "report go.jsonl");
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("go:P") && line.contains('(')).collect();
    assert!(
        rows.len() == 2 && rows[0].contains("go:Push") && rows.iter().all(|row| !row.contains('*')),
        "{table}"
    );
    shown(
        folder.path(),
        &format!("import {} --out old.jsonl", file("versions/google-benchmark-1.4.json").display()),
    );
    let old = shown(folder.path(), "report old.jsonl").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        old.contains("2026-01-02T03:04:05Z (by a clock whose time zone the file does not tell, read as UTC)"),
        "{old}"
    );
    // hyperfine itself says which of its commands is the fastest.
    shown(folder.path(), &format!("import {} --out ranked.jsonl", file("hyperfine.json").display()));
    let ranked = shown(folder.path(), "report ranked.jsonl");
    assert!(ranked.contains("*552") && ranked.contains("best median"), "{ranked}");
}

/// A hyperfine file of one command that always takes the same.
fn imported(folder: &Path, name: &str, seconds: f64, commit: &str) {
    let file = json!({"results": [{"command": "work", "times": vec![seconds; 8]}]});
    fs::write(folder.join("now.json"), file.to_string()).unwrap();
    shown(folder, &format!("import now.json --out {name} --commit {commit}"));
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
    let history = |words: &str| said(folder.path(), &format!("history . {words}"));
    let found = history("--by commit --format json").with(0).json();
    let changes = found["series"][0]["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["at"]), (1, &json!(12)), "{found}");
    assert!((changes[0]["ratio"].as_f64().unwrap() - 1.1).abs() < 0.01, "{found}");
    let commits = [11, 12].map(|at| &found["records"][at]["commit"]);
    assert_eq!(commits, [&json!("old"), &json!("new")]);
    for format in ["table", "markdown", "html"] {
        let shown = history(&format!("--changes --by commit --format {format}")).with(0).stdout;
        assert!(shown.contains("12: old") && shown.contains("13: new"), "{format}: {shown}");
    }
    changed(&folder.path().join("r19.jsonl"), "2026-01-01T00:00:19Z", "elsewhere");
    let stderr = history("--changes").with(2).stderr;
    assert!(stderr.contains("2 machines") && stderr.contains("--across-machines"), "{stderr}");
    let found = history("--across-machines --format json").json();
    assert!(found["series"][0]["across_machines"].as_str().unwrap().contains("elsewhere"), "{found}");
    let shown = history("--across-machines --format markdown").with(0).stdout;
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("| imported/")).collect();
    assert!(rows.len() > 1 && rows.iter().all(|row| row.contains("across 2 machines")), "{shown}");
}
