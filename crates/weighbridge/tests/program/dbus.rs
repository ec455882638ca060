//! `weighbridge dbus`: captures that are made, and private buses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{captures, files, folder, start, text, wait_for, weighbridge};

/// Strings in bodies of the capture below, which no report may show.
const SECRETS: &[&str] = &["alice@example.com", "Alice in her garden", "not now"];

fn boot(folder: &Path) {
    std::fs::write(folder.join("boot.pcap"), captures::boot(Vec::new())).unwrap();
}

pub fn output(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = weighbridge(folder).arg("dbus").args(args).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

#[test]
fn a_capture_is_shown_in_every_format_without_what_messages_say() {
    let folder = folder();
    boot(folder.path());
    let show = |format: &str| output(folder.path(), &["analyse", "boot.pcap", "--format", format], 0).0;
    let document: serde_json::Value = serde_json::from_str(&show("json")).unwrap();
    let totals = |key: &str| document["totals"][key].as_u64().unwrap();
    let counted = ["messages", "method_calls", "method_returns", "errors", "signals"].map(totals);
    assert_eq!(counted, [8_313, 2_850, 761, 3, 4_699]);
    assert!(totals("bytes") > 1_000_000);
    assert_eq!(document["files"][0]["format"], "pcap");
    let plain = show("text");
    let add_match = plain.lines().find(|line| line.trim_start().starts_with("AddMatch")).unwrap_or_default();
    let cells: Vec<&str> = add_match.split_whitespace().collect();
    assert_eq!(cells, ["AddMatch", "1,308", "15.7", "%"], "{plain}");
    assert!(plain.contains("8,313 messages"), "{plain}");
    assert!(plain.contains("The rules of all 25 connections are known."), "{plain}");
    let markdown = show("markdown");
    assert!(markdown.contains("## Recipients\n") && markdown.contains("| --- | --: | --: |"), "{markdown}");
    let page = show("html");
    assert_eq!(page.matches("<svg").count(), 4);
    // Nothing is loaded from anywhere.
    assert!(!page.contains("src=") && !page.contains("href="), "{page}");
    for shown in [document.to_string(), plain, markdown, page] {
        assert!(!SECRETS.iter().any(|secret| shown.contains(secret)), "{shown}");
    }
    assert_eq!(files(folder.path()), ["boot.pcap"]);
}

#[test]
fn lint_has_an_exit_code_for_its_level() {
    let folder = folder();
    boot(folder.path());
    let (found, _) = output(folder.path(), &["lint", "boot.pcap"], 1);
    assert!(
        found.starts_with("warning: duplicate: :1.1\n  type='signal',sender='org.freedesktop.DBus'"),
        "{found}"
    );
    assert!(found.ends_with("25 findings\n"), "{found}");
    let (found, _) = output(folder.path(), &["lint", "boot.pcap", "--level", "error"], 0);
    assert_eq!(found, "0 findings\n");
    let (found, _) = output(folder.path(), &["lint", "boot.pcap", "--format", "json", "--level", "info"], 1);
    let found: Vec<serde_json::Value> = serde_json::from_str(&found).unwrap();
    assert!(found.iter().any(|finding| finding["kind"] == "matched-nothing"), "{found:?}");
}

#[test]
fn an_anonymous_capture_has_the_same_counts_and_no_secrets() {
    let folder = folder();
    boot(folder.path());
    output(folder.path(), &["analyse", "boot.pcap", "--anonymise", "-o", "shape.pcap"], 0);
    let shape = std::fs::read(folder.path().join("shape.pcap")).unwrap();
    let whole = String::from_utf8_lossy(&shape).into_owned();
    assert!(!SECRETS.iter().chain(&["Telepathy", "Contact"]).any(|secret| whole.contains(secret)));
    let totals = |file: &str| {
        let (json, _) = output(folder.path(), &["analyse", file, "--format", "json"], 0);
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["totals"].clone()
    };
    assert_eq!(totals("boot.pcap"), totals("shape.pcap"));
    let (_, said) = output(folder.path(), &["analyse", "boot.pcap", "--anonymise", "-o", "shape.pcap"], 2);
    assert!(said.contains("`shape.pcap` exists already"), "{said}");
}

#[test]
fn what_is_no_capture_is_refused_in_one_sentence_and_what_is_damaged_is_used() {
    let folder = folder();
    boot(folder.path());
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::write(folder.path().join("text"), "this is a text, and no capture of anything\n").unwrap();
    let whole = std::fs::read(folder.path().join("boot.pcap")).unwrap();
    std::fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 7]).unwrap();
    for (args, said) in [
        (&["analyse", "none.pcap"][..], "error: cannot read `none.pcap`: "),
        (&["analyse", "empty"], "error: `empty` is empty\n"),
        (&["lint", "text"], "error: `text` is no capture of D-Bus messages; make one with"),
        (&["analyse", "boot.pcap", "--anonymise"], "error: "),
        (&["analyse", "boot.pcap", "--window", "2s..1s"], "error: --window: `2s..1s` ends before it begins"),
        (&["capture"], "error: which bus? give --session, --system or --address ADDRESS\n"),
        (&["lint"], "error: nothing to look at; "),
        (
            &["exam", "--broker", "dbus"],
            "error: --broker: `dbus` is no broker that is known here; there are dbus-daemon, ",
        ),
        (
            &["exam", "--only", "order"],
            "error: --only: `order` is no property; there are order-of-one-sender, ",
        ),
        (
            &["exam", "--address", "unix:path=/nonexistent/bus"],
            "error: no bus answers at `unix:path=/nonexistent/bus`",
        ),
        (&["replay", "empty"], "error: `empty` is empty\n"),
        (
            &["replay", "boot.pcap", "--on", "dbus"],
            "error: --on: `dbus` is no broker that is known here; there are dbus-daemon, ",
        ),
        (&["replay", "boot.pcap", "--speed", "fast"], "error: --speed: `fast` is no speed; write recorded, "),
        (
            &["replay", "boot.pcap", "--on", "unix:path=/nonexistent/bus"],
            "error: no bus answers at `unix:path=/nonexistent/bus`",
        ),
        (
            &["capture", "--address", "tcp:host=x", "-o", "x.pcap"],
            "error: `tcp:host=x` is not an address of a Unix socket",
        ),
        (
            &["lint", "--address", "unix:path=/nonexistent/bus"],
            "error: no bus answers at `unix:path=/nonexistent/bus`",
        ),
    ] {
        let (_, stderr) = output(folder.path(), args, 2);
        assert!(stderr.starts_with(said) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
    let (shown, said) = output(folder.path(), &["analyse", "cut.pcap"], 0);
    assert!(shown.contains("8,312 messages"), "{shown}");
    assert_eq!(said, "warning: `cut.pcap` ends inside a packet; what comes before was used\n");
}

/// A private bus, which ends with the test.
pub struct Bus {
    daemon: Child,
    pub address: String,
}

impl Bus {
    /// Nothing, with the reason printed, where dbus-daemon is missing.
    pub fn start(folder: &Path, policy: &str) -> Option<Bus> {
        let config = folder.join("bus.conf");
        let allow =
            "<allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>";
        let listen = format!("<listen>unix:dir={}</listen>", folder.display());
        let policy = format!("<policy context=\"default\">{allow}{policy}</policy>");
        std::fs::write(&config, format!("<busconfig><type>session</type>{listen}{policy}</busconfig>"))
            .unwrap();
        let mut command = Command::new("dbus-daemon");
        command.arg("--config-file").arg(&config).args(["--print-address=1", "--nofork", "--nopidfile"]);
        let mut daemon =
            match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    println!("skipped: dbus-daemon is not installed (package dbus-daemon)");
                    return None;
                }
                daemon => daemon.unwrap(),
            };
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(Bus { daemon, address: address.trim().into() })
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// A broker that takes a microsecond for whatever it does.
#[test]
fn the_cost_of_a_capture_follows_from_the_curves_of_a_record() {
    let folder = folder();
    let capture = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let mut pcap = Vec::new();
    let mut writer = weighbridge_dbus_traffic::capture::Writer::new(&mut pcap).unwrap();
    for serial in 1..=5 {
        let signal =
            causeway_dbus_wire::wire::Builder::signal("/a", "a.B", "C").sender(":1.1").build(serial).unwrap();
        writer.write(u64::from(serial), &signal, signal.len()).unwrap();
    }
    writer.finish().unwrap();
    capture("signals.pcap", &pcap);
    let (_, said) = output(folder.path(), &["analyse", "signals.pcap", "--costs", "nowhere.jsonl"], 2);
    assert!(said.contains("cannot read `nowhere.jsonl`"), "{said}");
    capture("empty.jsonl", b"");
    let (_, said) = output(folder.path(), &["analyse", "signals.pcap", "--costs", "empty.jsonl"], 2);
    assert!(said.contains("make some with: weighbridge run --suite dbus-curves"), "{said}");
    let cases = [
        "roundtrip/dbus-daemon/1/same-cpu",
        "stream/dbus-daemon/1/same-cpu",
        "fan-out/dbus-daemon/1/same-cpu/receivers=1",
        "fan-out/dbus-daemon/1/same-cpu",
        "solo/dbus-daemon/0/same-cpu",
        "solo/dbus-daemon/0/same-cpu/call=match",
        "solo/dbus-daemon/0/same-cpu/call=name",
        "solo/dbus-daemon/0/same-cpu/call=connect",
        "fan-out/dbus-daemon/1/same-cpu/receivers=1/rules=100",
        "fan-out/dbus-daemon/1/same-cpu/receivers=1/rules=100/rules-by=arg0",
        "fan-out/dbus-daemon/1/same-cpu/receivers=1/rules=100/rules-by=interface",
        "solo/dbus-daemon/0/same-cpu/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/call=match/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/call=match/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/call=name/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/call=name/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/call=connect/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/call=connect/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/call=relay/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/call=relay/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/call=signal/pause-us=1000",
        "solo/dbus-daemon/0/same-cpu/broker=own/call=signal/pause-us=1000",
    ];
    let line = |case: &&str| {
        format!(
            r#"{{"kind":"summary","case":"{case}","unit":"ns/x","runs":6,"median":1.0,"ci95":null,"range":[1.0,1.0],"spread_between":0.0,
            "spread_within":0.0,"stopped_by":"max-runs","per_op":{PER_OP},"beside":{{"broker":{PER_OP}}},"anomalies":[],"regimes":[]}}"#
        )
        .replace('\n', "")
    };
    const PER_OP: &str =
        r#"{"voluntary_switches":1.0,"involuntary_switches":0.0,"minor_faults":0.0,"cpu_ns":1000.0}"#;
    let lines: Vec<String> = cases.iter().map(line).collect();
    capture("curves.jsonl", (lines.join("\n") + "\n").as_bytes());
    let args = ["analyse", "signals.pcap", "--costs", "curves.jsonl", "--format", "json"];
    let (json, said) = output(folder.path(), &args, 0);
    let costs = serde_json::from_str::<serde_json::Value>(&json).unwrap()["costs"]["dbus-daemon"].clone();
    assert_eq!(costs["cpu_ns"].as_f64().map(f64::round), Some(5000.0), "{said}{json}");
    assert_eq!(costs["switches_at_most"].as_f64().map(f64::round), Some(5.0), "{json}");
    // A nanosecond apart, so that only the first finds the broker asleep.
    for place in ["same-cpu", "two-cpus"] {
        let paced = &costs["at_recorded_speed"][place];
        assert_eq!(paced["switches"].as_f64().map(f64::round), Some(1.0), "{place}: {json}");
    }
    let (shown, _) = output(folder.path(), &["analyse", "signals.pcap", "--costs", "curves.jsonl"], 0);
    assert!(shown.contains("Cost\n") && shown.contains("dbus-daemon"), "{shown}");
}

/// Records until the bus ends, while another program looks at the rules of the same bus.
#[test]
fn a_running_bus_is_recorded_and_its_rules_are_looked_at() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let mut recording =
        start(folder.path(), &["dbus", "capture", "--address", &bus.address, "-o", "bus.pcap"]);
    let size = || std::fs::metadata(folder.path().join("bus.pcap")).map_or(0, |file| file.len());
    wait_for("the rules in the capture", || (size() > 1_000).then_some(()));
    let before = size();
    let (found, _) = output(folder.path(), &["lint", "--address", &bus.address], 0);
    assert_eq!(found, "0 findings\n");
    wait_for("what lint asked in the capture", || (size() > before).then_some(()));
    drop(bus);
    assert_eq!(recording.wait().unwrap().code(), Some(2), "{}", text(folder.path().join("stderr")));
    let said = text(folder.path().join("stderr"));
    assert!(said.contains("the capture ends early: the bus closed the connection"), "{said}");
    let (shown, said) = output(folder.path(), &["analyse", "bus.pcap"], 0);
    assert!(shown.contains("GetAllMatchRules") && shown.contains("The rules of all"), "{shown}");
    assert_eq!(said, "");
}

#[test]
fn where_a_monitor_is_refused_the_missing_right_is_named() {
    let folder = folder();
    let deny = "<deny send_interface=\"org.freedesktop.DBus.Monitoring\"/>";
    let Some(bus) = Bus::start(folder.path(), deny) else { return };
    let args = ["capture", "--address", &bus.address, "--for", "300ms", "-o", "bus.pcap"];
    let (_, said) = output(folder.path(), &args, 0);
    assert!(said.contains("the bus refuses a monitor (org.freedesktop.DBus.Error.AccessDenied"), "{said}");
    assert!(said.contains("The right that is missing: BecomeMonitor"), "{said}");
    let (json, _) = output(folder.path(), &["analyse", "bus.pcap", "--format", "json"], 0);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(document["totals"]["messages"].as_u64().unwrap() > 2, "{json}");
}

/// What can harm others is left out on a running bus, and an answer has its evidence.
#[test]
fn a_running_bus_is_examined_and_so_are_private_ones() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let only = ["--only", "directed-signal,stalled-subscriber", "--format", "json"];
    let args = [&["exam", "--address", &bus.address][..], &only].concat();
    let document: serde_json::Value = serde_json::from_str(&output(folder.path(), &args, 0).0).unwrap();
    let answers = |at: usize| &document["properties"][at]["answers"][0];
    assert_eq!((&answers(0)["answer"], &answers(0)["is_violation"]), (&"kept".into(), &false.into()));
    assert!(
        answers(1)["outcomes"][0]["skipped"].as_str().unwrap().contains("private brokers only"),
        "{document}"
    );
    let (shown, _) = output(folder.path(), &args[..args.len() - 2], 0);
    assert!(
        shown.contains("\nNot examined (–)\n  this bus: stalled-subscriber: this experiment can harm a bus"),
        "{shown}"
    );
    let args = ["exam", "--broker", "dbus-daemon", "--only", "departed-callee,unique-names", "--times", "2"];
    let (shown, _) = output(folder.path(), &args, 0);
    assert!(shown.contains("2 properties, each 2 times: 0 answers break a promise (!), 0 differ"), "{shown}");
    assert!(shown.contains("\n  departed-callee  NoReply\n"), "{shown}");
    assert!(shown.contains("    dbus-daemon: kept: 100 connections, one after the other\n"), "{shown}");
}

/// A capture whose end is cut off is replayed as far as it reaches; several buses are compared by pairs.
#[test]
fn a_capture_is_replayed_on_private_brokers_and_on_a_running_bus() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    boot(folder.path());
    let whole = std::fs::read(folder.path().join("boot.pcap")).unwrap();
    std::fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 7]).unwrap();
    let both = ["--on", "dbus-daemon", "--on", &bus.address, "--rounds", "2"];
    let args = [&["replay", "cut.pcap", "--format", "json"][..], &both].concat();
    let (json, said) = output(folder.path(), &args, 0);
    assert_eq!(said, "warning: `cut.pcap` ends inside a packet; what comes before was used\n");
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let messages = &document["messages"];
    assert_eq!((&messages["captured"], &messages["sent"]), (&8_312.into(), &8_312.into()), "{messages}");
    assert_eq!(messages["left_out"], serde_json::json!({}));
    let replays = document["replays"].as_array().unwrap();
    assert_eq!(replays.len(), 4);
    for replay in replays {
        let number = |key: &str| replay[key].as_u64().unwrap();
        assert_eq!((number("sent"), number("refused")), (8_312, 0), "{replay}");
        // A machine that is busy enough may delay a broadcast for longer than the replay waits.
        // The signal that is cut off has three recipients.
        assert_eq!(number("broadcast_deliveries") + number("lost"), 13_091, "{replay}");
        assert!(replay["usage"]["cpu_ns"].as_u64().unwrap() > 0, "{replay}");
    }
    assert_eq!(document["ratios"].as_array().unwrap().len(), 3, "{json}");
    let (shown, _) = output(folder.path(), &["replay", "boot.pcap", "--on", &bus.address], 0);
    assert!(
        shown.contains("8,313 of 8,313 messages are sent again over 25 connections; 0 are of"),
        "{shown}"
    );
    drop(bus);
    let (_, said) = output(folder.path(), &["replay", "boot.pcap", "--on", "unix:path=/nonexistent/bus"], 2);
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Where connections may not call each other, an examination would show the policy.
#[test]
fn a_bus_whose_policy_is_in_the_way_is_not_examined() {
    let folder = folder();
    let deny = "<deny send_interface=\"org.weighbridge.Exam\"/>";
    let Some(bus) = Bus::start(folder.path(), deny) else { return };
    let (_, said) = output(folder.path(), &["exam", "--address", &bus.address], 2);
    let refusal = "connections may not call each other (org.freedesktop.DBus.Error.AccessDenied)";
    assert!(said.starts_with(&format!("error: the policy of this bus is in the way: {refusal}; ")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Killed in the middle of an experiment, the program leaves no broker and no socket.
#[test]
fn an_examination_that_is_killed_leaves_no_broker() {
    let folder = folder();
    if Bus::start(folder.path(), "").is_none() {
        return;
    }
    let args = ["dbus", "exam", "--broker", "dbus-daemon", "--only", "last-words", "--times", "1000"];
    let mut exam = start(folder.path(), &args);
    let sockets = || {
        let own = format!("@weighbridge-bus-{}-", exam.id());
        let table = text("/proc/net/unix");
        table.lines().filter(|line| line.contains(&own)).count()
    };
    wait_for("a broker", || (sockets() > 0).then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&exam), rustix::process::Signal::KILL)
        .unwrap();
    wait_for("its end", || (sockets() == 0).then_some(()));
    exam.wait().unwrap();
}

/// What each process of a time line has CPUs for, by the names of the CPUs' lanes.
fn cpus_of(trace: &serde_json::Value, process: &str) -> BTreeSet<u64> {
    let events = trace["traceEvents"].as_array().unwrap();
    let runs =
        |event: &&serde_json::Value| event["ph"] == "X" && event["pid"] == 1 && event["name"] == process;
    events.iter().filter(runs).map(|event| event["tid"].as_u64().unwrap()).collect()
}

#[test]
fn a_replay_runs_where_it_is_told_to() {
    if Command::new("dbus-daemon").arg("--version").output().is_err() {
        return println!("skipped: no dbus-daemon is installed");
    }
    let folder = folder();
    boot(folder.path());
    let (_, said) = output(
        folder.path(),
        &["replay", "boot.pcap", "--on", "unix:path=/nonexistent/bus", "--place", "same-cpu"],
        2,
    );
    assert!(said.contains("--place is for brokers that are started for the replay"), "{said}");
    let has_two = causeway_os::sched::allowed_cpus().unwrap().len() > 1;
    let has_tracer = weighbridge_probe::tracefs::Tracefs::open().is_ok();
    for (place, says) in
        [("same-cpu", "player and broker on one CPU"), ("two-cpus", "the broker on another CPU")]
    {
        let line = format!("{place}.json");
        let args = ["replay", "boot.pcap", "--on", "dbus-daemon", "--place", place, "--timeline", &line];
        if place == "two-cpus" && !has_two {
            let (_, said) = output(folder.path(), &args, 2);
            assert!(said.contains("--place two-cpus needs two CPUs"), "{said}");
            continue;
        }
        let (shown, _) = output(folder.path(), &args, 0);
        assert!(shown.contains(says), "{shown}");
        let trace: serde_json::Value = serde_json::from_str(&text(folder.path().join(&line))).unwrap();
        if !has_tracer {
            println!("skipped: without the kernel's tracer nothing says where the processes ran");
            continue;
        }
        let (player, broker) = (cpus_of(&trace, "clients and services"), cpus_of(&trace, "broker"));
        assert_eq!((player.len(), broker.len()), (1, 1), "{place}");
        assert_eq!(player == broker, place == "same-cpu", "{player:?} {broker:?}");
    }
}

/// The time line of a replay has the messages of the capture as arrows; that of an experiment has what the kernel saw of it.
#[test]
fn a_replay_and_an_experiment_have_time_lines() {
    if Command::new("dbus-daemon").arg("--version").output().is_err() {
        return println!("skipped: no dbus-daemon is installed");
    }
    let folder = folder();
    boot(folder.path());
    let replay = ["replay", "boot.pcap", "--on", "dbus-daemon", "--timeline", "replay.json"];
    output(folder.path(), &replay, 0);
    let trace: serde_json::Value = serde_json::from_str(&text(folder.path().join("replay.json"))).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let messages = events.iter().filter(|event| event["ph"] == "s" && event["cat"] == "message");
    assert!(messages.count() > 100, "messages are arrows");
    let (_, said) =
        output(folder.path(), &["replay", "boot.pcap", "--rounds", "2", "--timeline", "x.json"], 2);
    assert!(said.contains("--timeline is of one replay"), "{said}");
    let (shown, said) = output(folder.path(), &replay, 2);
    assert!(shown.is_empty() && said.contains("`replay.json` exists already"), "{said}");
    // A time line that cannot be written takes nothing of the result away.
    let nowhere = ["replay", "boot.pcap", "--on", "dbus-daemon", "--timeline", "no/such/folder.json"];
    let (shown, said) = output(folder.path(), &nowhere, 2);
    assert!(shown.contains("dbus-daemon") && said.contains("cannot write `no/such/folder.json`"), "{said}");
    let property = ["--broker", "dbus-daemon", "--only", "content", "--timeline", "exam.json"];
    let (_, said) = output(folder.path(), &[&["exam"], &property[..]].concat(), 0);
    assert!(said.contains("time line: exam.json"), "{said}");
    let trace = text(folder.path().join("exam.json"));
    let parsed: serde_json::Value = serde_json::from_str(&trace).unwrap();
    let events = parsed["traceEvents"].as_array().unwrap();
    let arrows = events.iter().filter(|event| event["ph"] == "s" && event["cat"] == "message");
    assert!(arrows.count() >= 10, "messages between connections are arrows");
    assert!(
        trace.contains("writes method_call org.weighbridge.Exam.Content (message "),
        "messages have names"
    );
    if let Err(error) = weighbridge_probe::tracefs::Tracefs::open() {
        return println!("skipped: {error}");
    }
    assert!(trace.contains("\"broker") && trace.contains("clients and services"), "{trace:.300}");
}
