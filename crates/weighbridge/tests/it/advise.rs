//! `weighbridge advise`: from a stored record, from a short session, and where nothing follows.

use std::path::Path;

use serde_json::Value;

use crate::{folder, said};

const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/before-the-laws.jsonl");

fn of_old(folder: &Path, options: &str) -> crate::Said {
    said(folder, &format!("advise --record {OLD} --cpus 1 --payload 1 {options}"))
}

/// A record of an older program tells no properties: what this program knows of its cases counts.
#[test]
fn a_stored_record_answers_without_measuring() {
    let folder = folder();
    let shown = "■ Advice
  1 B there and back, 1,000 a second, on one CPU; users that do not trust each other
  Take pipe: [..]
...
  Runner-up: unix-stream: [..] times the cost
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
    said.says("...\nerror: the record compares no two cases of fan-out at same-cpu[..]leave --record out to measure it\n");
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
