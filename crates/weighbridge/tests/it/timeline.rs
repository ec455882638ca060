//! `--timeline`: when each thing happens. Where the kernel's tracer is not allowed, what is left without it.

use std::path::Path;
use std::process::Command;

use causeway_testkit::{Cause, eventually, eventually_seen, eventually_some, has_program, is_root, skipped};
use serde_json::Value;
use tempfile::TempDir;
use weighbridge_probe::tracefs::Tracefs;
use weighbridge_record::{Line, Timeline};

use crate::{PROGRAM, Said, folder, said, shown, start, text, valid_record};

/// The tracer of this kernel, or why it cannot be used.
fn tracefs() -> Option<Tracefs> {
    Tracefs::open().map_err(|error| skipped(Cause::Kernel("tracefs"), error)).ok()
}

/// The time lines of the record `r.jsonl`.
fn timelines(folder: &Path) -> Vec<Timeline> {
    let lines = valid_record(folder.join("r.jsonl")).lines;
    lines
        .into_iter()
        .filter_map(|line| if let Line::Timeline(of) = line { Some(*of) } else { None })
        .collect()
}

/// Switches for an operation; none are counted where the kernel left some out, and then the record says so.
fn switches(timeline: &Timeline) -> Option<f64> {
    let counted = timeline.switches_per_operation;
    let is_incomplete = timeline.lost_events > 0 || !timeline.missing_switches.is_empty();
    assert!(counted.is_some() || is_incomplete, "{timeline:?}");
    counted
}

#[test]
fn a_round_trip_over_a_pipe_on_one_cpu_is_write_wake_switch_read() {
    let words = "explain --only timeline --timeline --out r.jsonl --html r.html roundtrip/pipe/1/same-cpu --trace-out t.json";
    let look = || {
        let folder = folder();
        let shown = shown(folder.path(), words);
        let timelines = timelines(folder.path());
        let [timeline] = &timelines[..] else { panic!("{timelines:?}") };
        (timeline.clone(), shown, folder)
    };
    // Beside a load the marked run of 60 ms may be one time slice of each role, with few operations and the switches to others.
    let is_whole = |(timeline, ..): &(Timeline, String, TempDir)| timeline.operations > 20;
    let (timeline, shown, folder) =
        &eventually_seen("a marked run of more than 20 operations", look, is_whole);
    assert!(shown.contains("■ Time line") && shown.contains("operations: median"), "{shown}");
    assert!(timeline.operation_ns[1] > 0.0, "{timeline:?}");
    let phases: Vec<&str> = timeline.phases.iter().map(|phase| phase.phase.as_str()).collect();
    let page = text(folder.path().join("r.html"));
    assert!(page.contains("<svg class=\"tl\"") && page.len() < 6 << 20, "{} bytes", page.len());
    let trace: Value = serde_json::from_str(&text(folder.path().join("t.json"))).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let phases_of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(phases_of("s") > 20 && phases_of("s") == phases_of("f"), "{} flows", phases_of("s"));
    if tracefs().is_none() {
        assert!(timeline.refused.is_some() && shown.contains("only the roles' own marks"), "{shown}");
        return;
    }
    assert_eq!(timeline.refused, None);
    // Other processes may take the CPU meanwhile, which makes it more.
    let switches = switches(timeline);
    assert!(switches.is_none_or(|switches| (1.9..4.0).contains(&switches)), "{switches:?}: {phases:?}");
    // Which role preempts which one is the scheduler's choice, the order is not.
    let wake = phases.iter().position(|phase| phase.contains("writes, until")).expect("a wake-up");
    let read = phases.iter().rposition(|phase| phase.ends_with("until the message is read"));
    assert!(Some(wake) < read, "{phases:?}");
    let lanes: Vec<&str> = timeline.picture.lanes.iter().map(|lane| lane.lane.as_str()).collect();
    assert!(lanes[0].starts_with("CPU ") && lanes.ends_with(&["client", "server"]), "{lanes:?}");
    assert!(timeline.picture.arrows.iter().any(|arrow| arrow.is_message));
}

#[test]
fn a_broker_is_a_lane_between_its_clients_and_run_has_the_time_line_too() {
    if !has_program("dbus-daemon") {
        return;
    }
    let folder = folder();
    let case = "fan-out/dbus-daemon/64/same-cpu/receivers=3";
    let how = "--timeline --runs 1 --budget 60s --no-system-calls --out r.jsonl --html none --quiet";
    let said = said(folder.path(), &format!("run {case} {how}"));
    if said.stderr.contains("nothing is left to measure") {
        return skipped(Cause::Rights("pinning"), said.stderr);
    }
    let said = said.with(0);
    let timelines = timelines(folder.path());
    let [timeline] = &timelines[..] else { panic!("{timelines:?}") };
    assert_eq!(timeline.subject, case);
    assert!(timeline.mark_ns.is_some_and(|ns| ns > 0.0), "{timeline:?}");
    if tracefs().is_none() {
        return;
    }
    let lanes: Vec<&str> = timeline.picture.lanes.iter().map(|lane| lane.lane.as_str()).collect();
    for lane in ["sender", "broker", "receiver 1", "receiver 3"] {
        assert!(lanes.contains(&lane), "{lanes:?}");
    }
    let broker_lane = timeline.picture.lanes.iter().find(|lane| lane.lane == "broker").unwrap();
    let shown =
        |what: &str, name: &str| broker_lane.spans.iter().any(|span| span.what == what && span.name == name);
    assert!(
        shown("write", "sendmsg") && shown("call", "recvmsg") && shown("dispatch", "dispatch"),
        "{broker_lane:?}"
    );
    // Without all switches its parts are not known, and the record says so.
    if let Some(broker) = &timeline.broker {
        let parts = [broker.receiving_ns, broker.dispatch_ns, broker.sending_ns];
        assert!(parts.iter().all(|ns| *ns > 0.0) && broker.counted_ns > 0.0, "{broker:?}");
        assert!((broker.calls["sendmsg"] - 3.0).abs() < 0.2, "one for each receiver: {broker:?}");
        assert!(broker.looking_ratio[1] <= broker.looking_ratio[0], "{broker:?}");
        assert!(
            said.stdout.contains("the cost of looking") && said.stdout.contains("324"),
            "{}",
            said.stdout
        );
    }
    // The sender, the broker and each receiver have the CPU once for a signal, at least.
    assert!(switches(timeline).is_none_or(|switches| switches > 3.9), "{timeline:?}");
}

#[test]
fn a_trace_file_is_of_one_case_and_replaces_nothing() {
    let folder = folder();
    let told = |words: &str, sentence: &str| {
        let stderr =
            said(folder.path(), &format!("explain --only timeline --timeline {words}")).with(2).stderr;
        assert!(stderr.contains(sentence), "{words}: {stderr}");
    };
    std::fs::write(folder.path().join("t.json"), "mine").unwrap();
    told("roundtrip/pipe/1/free --trace-out t.json", "`t.json` exists already");
    told("roundtrip/pipe/1/free roundtrip/pipe/64/free --trace-out u.json", "for one case");
    assert_eq!(text(folder.path().join("t.json")), "mine");
}

/// Whatever ends the program, no trace buffer is left behind.
#[test]
fn a_killed_program_leaves_no_trace_instance() {
    let Some(tracefs) = tracefs() else { return };
    let folder = folder();
    let cases: Vec<String> = (1..40).map(|bytes| format!("roundtrip/pipe/{bytes}/same-cpu")).collect();
    let words = format!("explain --only timeline --timeline {}", cases.join(" "));
    let mut child = start(folder.path(), &words);
    let own = format!("weighbridge-{}-", child.pid());
    let instance = || tracefs.instances().unwrap().into_iter().find(|name| name.starts_with(&own));
    eventually_some("an instance", || {
        assert_eq!(child.0.try_wait().unwrap(), None, "{}", text(folder.path().join("stderr")));
        instance()
    });
    child.kill();
    eventually("the end of the instance", || instance().is_none());
}

/// Without the right to trace, the roles' own marks are left, and what would allow more is said.
#[test]
fn without_rights_there_are_marks_and_the_right_is_named() {
    let folder = folder();
    let set = std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777));
    set.unwrap();
    if !is_root() || !has_program("setpriv") {
        return;
    }
    let unprivileged = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        command
    };
    // A folder of the build that others may not enter makes the program fail in the same way.
    for program in [&["true"][..], &[PROGRAM, "--version"]] {
        match unprivileged(program[0]).args(&program[1..]).output() {
            Ok(output) if output.status.success() => {}
            other => {
                return skipped(
                    Cause::Rights("a readable build folder"),
                    format!("an ordinary user cannot start {program:?}: {other:?}"),
                );
            }
        }
    }
    let words = "explain --only timeline roundtrip/pipe/1/same-cpu --out r.jsonl --html none";
    let mut command = unprivileged(PROGRAM);
    let shown =
        Said::of(command.args(words.split(' ')).current_dir(folder.path()).output().unwrap()).with(0).stdout;
    let [timeline] = &timelines(folder.path())[..] else { panic!("{shown}") };
    let refused = timeline.refused.as_deref().unwrap();
    assert!(refused.contains("CAP_SYS_ADMIN"), "{refused}");
    assert!(shown.contains("only the roles' own marks"), "{shown}");
    assert!(timeline.operations > 0 && timeline.phases.len() >= 4, "{timeline:?}");
}
