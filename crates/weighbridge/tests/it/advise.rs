//! `weighbridge advise`: from a stored record, from a short session, and where nothing follows.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, Running, has_program, skipped};
use serde_json::Value;

use crate::{PROGRAM, files, folder, said, text};

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
    said.says("...\nerror: the record has no figure of fan-out at same-cpu[..]leave --no-measure out to measure what is missing\n");
}

/// One short session: its record holds the candidates, and the answer for programs has all of it.
#[test]
fn what_is_missing_is_measured_and_the_answer_is_one_document() {
    let folder = folder();
    // Few, so that all of them have a figure on a machine that does other things, too.
    let typed = "advise --payload 64 --cpus 1 --users any --pollable --among pipe,fifo,ring-futex --budget 12s --quiet \
                 --out a.jsonl --format json";
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
    let again = advise("pipe,unix-stream,tcp", "--record a.jsonl --budget 6s");
    assert!(again.stderr.contains("a.jsonl has all"), "{}", again.stderr);
    assert_eq!(files(folder.path()), ["a.jsonl"]);
    let more = advise("pipe,unix-stream,tcp,fifo", "--record a.jsonl --budget 6s --out b.jsonl");
    // Which of them are measured depends on what was told apart on a machine that does other things, too: a unit test tells each.
    assert!(!more.stderr.contains("has all"), "{}", more.stderr);
    // On a machine that does other things, too, few seconds may not be enough for a figure; that it was asked for is in the record.
    let asked = text(folder.path().join("b.jsonl"));
    assert!(["roundtrip/fifo/64/", "roundtrip/pipe/64/"].iter().all(|case| asked.contains(case)), "{asked}");
    assert_eq!(text(folder.path().join("a.jsonl")), before);
}

/// It is read, and what is measured is written: both would be one file.
#[test]
fn the_record_that_is_read_is_never_replaced_by_what_is_measured() {
    let folder = folder();
    std::fs::copy(OLD, folder.path().join("a.jsonl")).unwrap();
    let before = text(folder.path().join("a.jsonl"));
    let typed =
        "advise --payload 64 --among pipe --record a.jsonl --out ./a.jsonl --force --quiet --budget 1s";
    said(folder.path(), typed)
        .with(2)
        .says("error: ./a.jsonl is the record that is read; give what is measured another name with --out\n");
    assert_eq!(text(folder.path().join("a.jsonl")), before);
}

#[test]
fn where_nothing_can_be_measured_the_reason_is_said() {
    let folder = folder();
    said(folder.path(), "advise --payload 64 --among pipe --receivers 8 --cpus 1 --quiet --dry-run")
        .with(3)
        .says("error: nothing can be measured here for [..]: pipe has no fan-out, only [..]\n");
}

/// Another machine's order is none of this one.
#[test]
fn of_a_record_of_another_machine_all_is_measured_here() {
    let folder = folder();
    // At a rate that a machine with other work holds, too.
    let typed = format!(
        "advise --payload 1 --cpus 1 --rate 10 --among pipe,unix-stream --record {OLD} --budget 4s --out c.jsonl"
    );
    let said = said(folder.path(), &typed).with(0);
    assert!(said.stderr.contains("is of another machine or build, so all"), "{}", said.stderr);
    assert!(
        said.stdout.contains("  Take ") && !said.stdout.contains("not measured again"),
        "{}",
        said.stdout
    );
}

#[test]
fn what_is_no_mechanism_is_refused_with_one_that_is_close() {
    let folder = folder();
    said(folder.path(), "advise --payload 64 --among pipe,unix-streem --no-measure --record none.jsonl")
        .with(2)
        .says("error: --among: `unix-streem` is not a mechanism; the nearest is unix-stream[..]\n");
}

/// What the page says of the figure is what the figure says.
#[test]
fn the_page_tells_of_thirty_demands_what_their_figure_has() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let read = |name: &str| text(Path::new(docs).join(name));
    let figure = read("figures/advise.txt");
    let rows: Vec<&str> = figure.lines().filter(|line| line.contains("  --payload ")).collect();
    let count = |is_one: &dyn Fn(&str) -> bool| rows.iter().filter(|row| is_one(row)).count();
    let best = count(&|row| row.contains("  best  ") || row.contains("  reaches the best  "));
    let not_held = count(&|row| row.contains("does not hold the rate"));
    let nothing = count(&|row| row.contains("  nothing, rightly  "));
    let sure = count(&|row| row.starts_with("sure "));
    let page = read("advise.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(rows.len(), 30, "{figure}");
    for part in [
        format!(
            "{best} choices are the best or within its interval, {not_held} did not hold the rate, and for {nothing} nothing meets"
        ),
        format!("only {sure} was called sure"),
    ] {
        assert!(page.contains(&part), "docs/advise.md does not say: {part}");
    }
}

/// What a user has compiled is a candidate like the others, and can be named.
#[test]
fn a_mechanism_of_the_user_is_a_candidate() {
    let Some(folder) = crate::own::with_compiler() else { return };
    crate::own::doorbell(folder.path());
    let typed = "advise --payload 64 --cpus 1 --users same --receivers 1 --rate 1000 --dry-run --quiet";
    let shown =
        said(folder.path(), &format!("{typed} --target ./libdoorbell.so --among pipe,doorbell")).with(0);
    assert!(shown.stdout.contains("roundtrip/doorbell/64/same-cpu"), "{}", shown.stdout);
    said(folder.path(), &format!("{typed} --among pipe,doorbell")).with(2);
}

/// Ctrl-C is taken over for a measurement, which keeps what it has; a question has nothing to keep.
#[test]
fn ctrl_c_ends_the_questions_of_a_terminal() {
    if !has_program("script") {
        return;
    }
    // A shell has it so for what it starts in the background, and a program leaves it as it is.
    let status = text("/proc/self/status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    if u64::from_str_radix(ignored, 16).unwrap() & 2 != 0 {
        return skipped(Cause::Setting("SIGINT"), "ignored by the parent");
    }
    let folder = folder();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("{PROGRAM} advise"), "/dev/null"]).current_dir(folder.path());
    let mut terminal = Running::start(terminal.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let (mut typed, mut shown) = (terminal.0.stdin.take().unwrap(), terminal.0.stdout.take().unwrap());
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Bytes of a message?") {
        let mut more = [0; 256];
        let read = shown.read(&mut more).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&more[..read]);
    }
    typed.write_all(b"\x03").unwrap();
    assert!(!terminal.wait().success(), "{}", String::from_utf8_lossy(&seen));
}
