//! `weighbridge explain --only kernel`: what it prints and keeps, with whatever can be used to look here.

use causeway_testkit::{Cause, eventually, has_program, skipped};
use rustix::process::Signal;
use serde_json::Value;
use weighbridge_record::Line;

use crate::{all, folder, said, shown, start, text, valid_record};

#[test]
fn each_means_is_listed_with_what_came_of_trying_it() {
    let folder = folder();
    let text = shown(folder.path(), "explain --probes");
    for means in ["software", "tracepoints", "interrupts", "halts", "hardware", "sampling", "system-calls"] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(means));
        let status = line.and_then(|line| line.split_whitespace().nth(1));
        assert!(
            status.is_some_and(|status| ["usable", "limited", "refused"].contains(&status)),
            "{means}: {text}"
        );
    }
    let all: Vec<Value> =
        serde_json::from_str(&shown(folder.path(), "explain --probes --format json")).unwrap();
    assert_eq!(all.len(), 7);
    let refused = all.iter().filter(|probe| probe["status"] == "refused");
    refused.for_each(|probe| assert!(probe["why"].as_str().is_some_and(|why| why.len() > 10), "{probe}"));
}

#[test]
fn a_case_is_observed_and_kept_in_a_record_with_its_page_and_stacks() {
    let folder = folder();
    let words = "explain --only kernel roundtrip/pipe/1/free --rounds 1 --out r.jsonl --folded stacks";
    let text = shown(folder.path(), words);
    assert!(text.contains("What the kernel does meanwhile"), "{text}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let observed = all!(lines, Observation)[0];
    assert!(observed.unobserved > 0.0 && observed.rounds == 1, "{observed:?}");
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
    assert!(folder.path().join("r.html").exists() && folder.path().join("stacks").exists());
    let has_profile = !all!(lines, Profile).is_empty();
    let is_refused = observed.refused.iter().any(|refused| refused.means == "sampling");
    let has_failed = observed.looks.iter().any(|look| look.means == "sampling" && !look.failures.is_empty());
    assert!(has_profile || is_refused || has_failed, "there are samples, or the reason why there are none");
}

#[test]
fn what_was_observed_until_the_user_ends_it_has_its_stacks() {
    let folder = folder();
    let cases = "roundtrip/pipe/1/free roundtrip/fifo/1/free roundtrip/unix-stream/1/free";
    let words = format!("explain --only kernel --rounds 2 --out r.jsonl --folded stacks {cases}");
    let mut child = start(folder.path(), &words);
    eventually("the first observation", || {
        assert_eq!(child.0.try_wait().unwrap(), None, "{}", text(folder.path().join("stderr")));
        text(folder.path().join("r.jsonl")).contains("\"observation\"")
    });
    child.signal(Signal::INT).unwrap();
    assert_eq!(child.wait().code(), Some(130), "{}", text(folder.path().join("stderr")));
    assert!(folder.path().join("stacks").exists());
}

#[test]
fn two_cases_are_compared() {
    let folder = folder();
    let sides = "--a roundtrip/pipe/1/free --b roundtrip/unix-stream/1/free";
    shown(folder.path(), &format!("explain --only kernel {sides} --rounds 1 --out r.jsonl --html none"));
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let difference = all!(lines, Difference)[0];
    assert_eq!((difference.a.mechanism.as_str(), difference.b.mechanism.as_str()), ("pipe", "unix-stream"));
}

/// A broker on a CPU of its own is observed there.
#[test]
fn the_cpu_of_a_broker_is_observed_beside_those_of_the_roles() {
    let cpus = causeway_os::sched::allowed_cpus().unwrap();
    if !has_program("dbus-daemon") {
        return;
    }
    if cpus.len() < 2 {
        return skipped(Cause::Hardware("two CPUs"), "");
    }
    let folder = folder();
    let case = "fan-out/dbus-daemon/64/same-cpu/broker=own/receivers=2";
    said(folder.path(), &format!("explain --only kernel {case} --rounds 1 --out r.jsonl --html none"))
        .with(0);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let observed = all!(lines, Observation)[0];
    if observed.looks.iter().all(|look| look.pairs == 0) {
        return skipped(Cause::Rights("perf"), format!("{observed:?}"));
    }
    assert_eq!(observed.cpus.len(), 2, "{observed:?}");
}
