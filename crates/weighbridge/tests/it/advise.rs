//! `weighbridge advise`: from a stored record, from a short session, and where nothing follows.

use std::path::Path;

use serde_json::Value;

use crate::{files, folder, said, text};

const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/before-the-laws.jsonl");

fn of_old(folder: &Path, options: &str) -> crate::Said {
    said(folder, &format!("advise --record {OLD} --no-measure --cpus 1 --payload 1 {options}"))
}

/// A record of an older program tells no properties: what this program knows of its cases counts.
#[test]
fn a_stored_record_answers_without_measuring() {
    let folder = folder();
    let shown = "■ Advice
  1 B there and back, 1,000 a second, on one CPU; users that do not trust each other
  Take pipe: [..]
...
  Runner-up: unix-stream: [..], not told apart
...
";
    let said = of_old(folder.path(), "--users any").with(0).shows(shown);
    said.says("...\nby default: --receivers 1 --rate 1000\n...");
    of_old(folder.path(), "--users any --ascii --quiet").with(0).shows("# Advice\n...");
    assert!(
        std::fs::read_dir(folder.path())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().ends_with(".jsonl") })
    );
}

#[test]
fn demands_that_nothing_meets_are_a_code_and_a_sentence() {
    let folder = folder();
    let shown = "...
  Nothing that was measured meets all demands; giving up \"with message boundaries\" would leave pipe:
...
";
    of_old(folder.path(), "--boundaries --pollable --quiet").with(1).shows(shown);
}

#[test]
fn a_record_without_an_answer_says_what_to_do() {
    let folder = folder();
    let said = of_old(folder.path(), "--receivers 8 --quiet").with(3);
    said.says("...\nerror: the record compares no two cases of fan-out at same-cpu[..]leave --no-measure out to measure what is missing\n");
}

/// One short session: its record holds the candidates, and the answer for programs has all of it.
#[test]
fn what_is_missing_is_measured_and_the_answer_is_one_document() {
    let folder = folder();
    let typed = "advise --payload 64 --cpus 1 --users any --pollable --budget 12s --quiet --out a.jsonl --format json";
    let said = said(folder.path(), typed).with(0);
    let advice: Value = said.json();
    let choice = advice["choice"].as_u64().expect("something meets these demands") as usize;
    let has = &advice["contenders"][choice]["properties"]["has"];
    for demand in ["other-users", "pollable"] {
        assert!(has.as_array().unwrap().iter().any(|own| own == demand), "{demand}: {advice:#}");
    }
    let excluded: Vec<&str> =
        advice["excluded"].as_array().unwrap().iter().map(|of| of["demand"].as_str().unwrap()).collect();
    assert!(excluded.contains(&"users that do not trust each other"), "{excluded:?}");
    assert!(folder.path().join("a.jsonl").exists());
}

/// Nothing is compared with a figure of another session: what a record has in front is measured again beside what it lacks.
#[test]
fn of_a_record_only_what_it_lacks_is_measured_and_it_stays_as_it_is() {
    let folder = folder();
    let advise = |among: &str, rest: &str| {
        let typed = format!(
            "advise --payload 64 --cpus 1 --rate 100 --users same --receivers 1 --among {among} --format json {rest}"
        );
        said(folder.path(), &typed).with(0)
    };
    advise("pipe,unix-stream,tcp", "--quiet --budget 6s --out a.jsonl");
    let before = text(folder.path().join("a.jsonl"));
    let again = advise("pipe,unix-stream,tcp", "--record a.jsonl");
    assert!(again.stderr.contains("a.jsonl has all"), "{}", again.stderr);
    assert_eq!(files(folder.path()), ["a.jsonl"]);
    let more = advise("pipe,unix-stream,tcp,fifo", "--record a.jsonl --budget 6s --out b.jsonl");
    // Which of them depends on what was told apart on a machine that does other things, too.
    let is_measured =
        ["a.jsonl leaves", "a.jsonl decides nothing"].iter().any(|said| more.stderr.contains(said));
    assert!(is_measured, "{}", more.stderr);
    // On a machine that does other things, too, few seconds may not be enough for a figure; that it was asked for is in the record.
    let asked = text(folder.path().join("b.jsonl"));
    assert!(["roundtrip/fifo/64/", "roundtrip/pipe/64/"].iter().all(|case| asked.contains(case)), "{asked}");
    assert_eq!(text(folder.path().join("a.jsonl")), before);
}

/// Another machine's order is none of this one.
#[test]
fn of_a_record_of_another_machine_all_is_measured_here() {
    let folder = folder();
    let typed = format!(
        "advise --payload 1 --cpus 1 --among pipe,unix-stream --record {OLD} --budget 4s --out c.jsonl"
    );
    let said = said(folder.path(), &typed).with(0);
    assert!(said.stderr.contains("is of another machine or build, so all"), "{}", said.stderr);
    assert!(
        said.stdout.contains("Take pipe") && !said.stdout.contains("not measured again"),
        "{}",
        said.stdout
    );
}

#[test]
fn what_is_no_mechanism_is_refused_with_one_that_is_close() {
    let folder = folder();
    said(folder.path(), "advise --payload 64 --among pipe,unix-streem --no-measure --record none.jsonl")
        .with(2)
        .says("error: --among: `unix-streem` is no mechanism; the nearest is unix-stream[..]\n");
}
