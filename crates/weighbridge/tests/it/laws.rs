//! The laws of a record, on records that are written here and now, on one of an older program, and on one that was changed.

use std::path::Path;
use std::process::Command;

use weighbridge_record::{Line, Reading, laws};

use crate::{PROGRAM, STATE, Said, all, folder, said, shown, text, valid_record};

/// Every kind of case that a law is about and that is measured anywhere.
const CASES: &str = "roundtrip/unix-stream/64/same-cpu roundtrip/pipe/64/same-cpu stream/pipe/4096/same-cpu \
                     stream/udp/64/free solo/getppid/0/same-cpu fan-out/unix-stream/64/same-cpu/receivers=3 \
                     fan-in/pipe/64/free/streams=3 contend/mutex/0/free roundtrip/ring-futex/64/same-cpu";

/// Measures so much that every law has something to look at; the record `r.jsonl`.
fn measure(folder: &Path) -> Reading {
    said(folder, &format!("run {CASES} --runs 3 --budget 120s --out r.jsonl --html none --quiet")).with(0);
    valid_record(folder.join("r.jsonl"))
}

/// Writes a record with a change, and what of it is void.
fn write(folder: &Path, name: &str, lines: &[Line]) {
    let text: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    std::fs::write(folder.join(name), text.concat()).unwrap();
}

#[test]
fn no_law_objects_to_a_real_record_and_one_that_was_changed_has_no_figure_anywhere() {
    let folder = folder();
    let mut reading = measure(folder.path());
    assert_eq!(laws::audit(&mut reading), []);
    let summaries = all!(reading.lines, Summary);
    assert!(summaries.len() >= CASES.split_whitespace().count(), "{}", summaries.len());
    for summary in summaries {
        let not_run: Vec<&String> = summary.not_checked.iter().filter(|of| of.starts_with("law")).collect();
        assert!(not_run.is_empty() && summary.void.is_empty(), "{}: {not_run:?}", summary.case);
    }
    let harness = |of: &&&weighbridge_record::Summary| of.case.mechanism == "noop";
    assert!(
        all!(reading.lines, Summary).iter().filter(harness).count() >= 4,
        "the harness is measured beside"
    );

    let unix = "roundtrip/unix-stream/64/same-cpu";
    for line in &mut reading.lines {
        if let Line::Summary(summary) = line
            && summary.case.to_string() == unix
        {
            let to_hub = summary.to_hub.as_mut().expect("it takes turns");
            to_hub.median = 1.0 / to_hub.median;
        }
    }
    write(folder.path(), "changed.jsonl", &reading.lines);
    let report = said(folder.path(), "report changed.jsonl").with(4);
    let why = "law `summary`: its ratio to the hub is";
    assert!(report.stderr.contains(why) && report.stderr.contains(unix), "{}", report.stderr);
    let json = said(folder.path(), "report changed.jsonl --format json").with(4).json();
    let case = json["cases"].as_array().unwrap().iter().find(|case| case["id"] == unix).unwrap();
    assert!(case["summary"].is_null(), "{case}");
    let skipped = json["skipped"].as_array().unwrap();
    assert!(skipped.iter().any(|of| of["case"] == unix && of["step"] == "law"), "{skipped:?}");
    let history = shown(folder.path(), "history changed.jsonl --by time");
    assert!(!history.contains("unix-stream at same-cpu") || !history.contains(unix), "{history}");
    // Sound as it was written, it is compared; the void case is not.
    let compared = said(folder.path(), "compare r.jsonl --with changed.jsonl --format json");
    assert!(!compared.stdout.contains(unix) && compared.stdout.contains("getppid"), "{}", compared.stdout);
}

#[test]
fn a_cost_that_one_side_has_more_is_found_in_turns_with_its_sign() {
    let folder = folder();
    // B writes and reads all of each message, which A does not.
    let words = "compare roundtrip/pipe/65536/same-cpu --a touch=none --b touch=all --runs 10..10 --budget 120s \
                 --no-system-calls --out r.jsonl --html none --quiet";
    said(folder.path(), words);
    let mut reading = valid_record(folder.path().join("r.jsonl"));
    assert_eq!(laws::audit(&mut reading), []);
    let sets = all!(reading.lines, ComparedSet);
    let ratios: Vec<f64> = sets.iter().map(|set| set.log_ratio.exp()).collect();
    let costs_more = ratios.iter().filter(|ratio| **ratio > 1.2).count();
    // A set in which the machine was disturbed for longer than a slice may hide it.
    assert!(sets.len() == 10 && costs_more >= 8, "{ratios:?}");
    assert!(sets.iter().all(|set| set.a.slices.is_some() && set.b.slices.is_some()), "they take turns");
    assert!(all!(reading.lines, Verdict)[0].ratio.is_some_and(|ratio| ratio > 1.0));
}

/// A record as the program wrote it before there were laws (commit 07239ea5).
const BEFORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files/before-the-laws.jsonl");

#[test]
fn a_record_from_before_the_laws_is_shown_with_the_laws_that_did_not_run() {
    let folder = folder();
    let report = said(folder.path(), &format!("report {BEFORE}")).with(0);
    assert!(!report.stderr.contains("law"), "{}", report.stderr);
    let shown = report.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("law `moved`: the record does not tell what the kernel saw"), "{shown}");
    assert!(shown.contains("unix-stream") && !shown.contains("(step: law)"), "{shown}");
}

#[test]
fn a_program_that_was_niced_is_refused_before_it_measures() {
    let folder = folder();
    let run = |words: &str| {
        let mut command = Command::new("nice");
        command.args(["-n", "5", PROGRAM, "run", "roundtrip/mock/1/free", "--html", "none", "--quiet"]);
        command.args(words.split_whitespace()).current_dir(folder.path());
        Said::of(command.env("XDG_STATE_HOME", folder.path().join(STATE)).output().unwrap())
    };
    let refused = run("--out refused.jsonl").with(2);
    let why = "this program runs with nice 5 and so would the roles, where the case says nice=0";
    assert!(refused.stderr.contains(why) && refused.stderr.contains("--set nice=5"), "{}", refused.stderr);
    assert_eq!(text(folder.path().join("refused.jsonl")), "", "nothing was measured");
    run("--set nice=5 --out r.jsonl").with(0);
}
