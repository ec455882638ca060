//! `weighbridge explain --only kernel`: what it prints and keeps, with whatever can be used to look here.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use weighbridge_record::Line;

use crate::{folder, start, text, valid_record, wait_for, weighbridge};

#[test]
fn each_means_is_listed_with_what_came_of_trying_it() {
    let folder = folder();
    let output = weighbridge(folder.path()).args(["explain", "--means"]).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    for means in ["software", "tracepoints", "interrupts", "halts", "hardware", "sampling", "system-calls"] {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(means));
        let status = line.and_then(|line| line.split_whitespace().nth(1));
        assert!(
            status.is_some_and(|status| ["usable", "limited", "refused"].contains(&status)),
            "{means}: {text}"
        );
    }
    let json = weighbridge(folder.path()).args(["explain", "--means", "--format", "json"]).assert().success();
    let all: Vec<serde_json::Value> = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(all.len(), 7);
    let refused = all.iter().filter(|probe| probe["status"] == "refused");
    refused.for_each(|probe| assert!(probe["why"].as_str().is_some_and(|why| why.len() > 10), "{probe}"));
}

#[test]
fn a_case_is_observed_and_kept_in_a_record_with_its_page_and_stacks() {
    let folder = folder();
    let args = [
        "explain",
        "--only",
        "kernel",
        "roundtrip/pipe/1/free",
        "--rounds",
        "1",
        "--out",
        "r.jsonl",
        "--folded",
        "stacks",
    ];
    let output = weighbridge(folder.path()).args(args).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.contains("What the kernel does meanwhile"), "{text}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let observed = lines.iter().find_map(|line| match line {
        Line::Observation(observation) => Some(observation),
        _ => None,
    });
    let observed = observed.expect("the case was observed");
    assert!(observed.unobserved > 0.0 && observed.rounds == 1, "{observed:?}");
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
    assert!(folder.path().join("r.html").exists() && folder.path().join("stacks").exists());
    let has_profile = lines.iter().any(|line| matches!(line, Line::Profile(_)));
    let is_refused = observed.refused.iter().any(|refused| refused.means == "sampling");
    let has_failed = observed.looks.iter().any(|look| look.means == "sampling" && !look.failures.is_empty());
    assert!(has_profile || is_refused || has_failed, "there are samples, or the reason why there are none");
}

#[test]
fn what_was_observed_until_the_user_ends_it_has_its_stacks() {
    let folder = folder();
    let cases = ["roundtrip/pipe/1/free", "roundtrip/fifo/1/free", "roundtrip/unix-stream/1/free"];
    let args = ["explain", "--only", "kernel", "--rounds", "2", "--out", "r.jsonl", "--folded", "stacks"];
    let mut child = start(folder.path(), &[&args[..], &cases].concat());
    wait_for("the first observation", || {
        assert_eq!(child.try_wait().unwrap(), None, "{}", text(folder.path().join("stderr")));
        text(folder.path().join("r.jsonl")).contains("\"observation\"").then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", text(folder.path().join("stderr")));
    assert!(folder.path().join("stacks").exists());
}

#[test]
fn two_cases_are_compared() {
    let folder = folder();
    let args = [
        "explain",
        "--only",
        "kernel",
        "--a",
        "roundtrip/pipe/1/free",
        "--b",
        "roundtrip/unix-stream/1/free",
        "--rounds",
        "1",
    ];
    weighbridge(folder.path()).args(args).args(["--out", "r.jsonl", "--html", "none"]).assert().success();
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let difference = lines.iter().find_map(|line| match line {
        Line::Difference(difference) => Some(difference),
        _ => None,
    });
    let difference = difference.expect("there are two sides");
    assert_eq!((difference.a.mechanism.as_str(), difference.b.mechanism.as_str()), ("pipe", "unix-stream"));
}

/// A broker on a CPU of its own is observed there.
#[test]
fn the_cpu_of_a_broker_is_observed_beside_those_of_the_roles() {
    let cpus = causeway_os::sched::allowed_cpus().unwrap();
    if !Path::new("/usr/bin/dbus-daemon").exists() || cpus.len() < 2 {
        return println!("skipped: it takes dbus-daemon and two CPUs, here are {cpus:?}");
    }
    let folder = folder();
    let case = "fan-out/dbus-daemon/64/same-cpu/broker=own/receivers=2";
    let args = ["explain", "--only", "kernel", case, "--rounds", "1", "--out", "r.jsonl", "--html", "none"];
    let output = weighbridge(folder.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let observed = lines.iter().find_map(|line| match line {
        Line::Observation(observation) => Some(observation),
        _ => None,
    });
    let observed = observed.expect("the case was observed");
    if observed.looks.iter().all(|look| look.pairs == 0) {
        return println!("skipped: nothing can be used to look: {observed:?}");
    }
    assert_eq!(observed.cpus.len(), 2, "{observed:?}");
}
