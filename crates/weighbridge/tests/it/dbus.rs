//! `weighbridge dbus`: captures that are made, and private buses.

use std::collections::BTreeSet;
use std::path::Path;

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Body, Builder};
use causeway_testkit::{Cause, TempDir, eventually, has_program, skipped};
use rustix::process::Signal;
use serde_json::Value;

use crate::{captures, files, folder, said, start, text};

/// Strings in bodies of the capture below, which no report may show.
const SECRETS: &[&str] = &["alice@example.com", "Alice in her garden", "not now"];

/// Counts of a role of a made record.
const PER_OP: &str =
    r#"{"voluntary_switches":1.0,"involuntary_switches":0.0,"minor_faults":0.0,"cpu_ns":1000.0}"#;

/// A folder with the capture `boot.pcap`, and `cut.pcap`, which ends in the middle of its last packet.
pub fn booted() -> TempDir {
    let (folder, whole) = (folder(), captures::boot(Vec::new()));
    std::fs::write(folder.path().join("boot.pcap"), &whole).unwrap();
    std::fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 7]).unwrap();
    folder
}

/// What a subcommand of `dbus` writes to its outputs.
#[track_caller]
pub fn output(folder: &Path, words: &str, code: i32) -> (String, String) {
    let said = said(folder, &format!("dbus {words}")).with(code);
    (said.stdout, said.stderr)
}

/// Of one that is refused or fails: what it says.
#[track_caller]
pub fn refused(folder: &Path, words: &str, why: &str) -> String {
    said(folder, &format!("dbus {words}")).refuses(why).stderr
}

#[track_caller]
pub fn json(folder: &Path, words: &str) -> Value {
    serde_json::from_str(&output(folder, &format!("{words} --format json"), 0).0).unwrap()
}

/// The events of a time line.
pub fn events(folder: &Path, file: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&text(folder.join(file))).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// The messages in it that go from one connection to another.
pub fn arrows(folder: &Path, file: &str) -> usize {
    let is_arrow = |event: &&Value| event["ph"] == "s" && event["cat"] == "message";
    events(folder, file).iter().filter(is_arrow).count()
}

#[test]
fn a_capture_is_shown_in_every_format_without_what_messages_say() {
    let folder = booted();
    let show = |format: &str| output(folder.path(), &format!("analyse boot.pcap --format {format}"), 0).0;
    let document = json(folder.path(), "analyse boot.pcap");
    let totals = |key: &str| document["totals"][key].as_u64().unwrap();
    let counted = ["messages", "method_calls", "method_returns", "errors", "signals"].map(totals);
    assert_eq!(counted, [8_313, 2_850, 761, 3, 4_699]);
    assert!(totals("bytes") > 1_000_000);
    assert_eq!(document["files"][0]["format"], "pcap");
    let plain = show("table");
    let add_match = plain.lines().find(|line| line.trim_start().starts_with("AddMatch")).unwrap_or_default();
    let cells: Vec<&str> = add_match.split_whitespace().collect();
    assert_eq!(cells, ["AddMatch", "1,308", "15.7", "%"], "{plain}");
    assert!(plain.contains("8,313 messages"), "{plain}");
    assert!(
        plain.contains("1308 changes of match rules have no answer of the bus in the capture."),
        "{plain}"
    );
    let markdown = show("markdown");
    assert!(markdown.contains("## Recipients\n") && markdown.contains("| --- | --: | --: |"), "{markdown}");
    let page = show("html");
    assert_eq!(page.matches("<svg").count(), 4);
    // Nothing is loaded from anywhere.
    assert!(!page.contains("src=") && !page.replace("href=\"#", "").contains("href="), "{page}");
    for shown in [document.to_string(), plain, markdown, page] {
        assert!(!SECRETS.iter().any(|secret| shown.contains(secret)), "{shown}");
    }
    assert_eq!(files(folder.path()), ["boot.pcap", "cut.pcap"]);
}

/// The curves of a record by hand: 10 µs for a message of up to 100 bytes, 1 µs more for each 100 bytes.
#[test]
fn peaks_are_in_json_and_csv_broad_signals_are_listed_and_sizes_have_a_time() {
    let folder = booted();
    let document = json(folder.path(), "analyse boot.pcap");
    let (totals, recipients) = (&document["totals"], &document["recipients"]);
    let rows: Vec<Vec<String>> = output(folder.path(), "analyse boot.pcap --format csv", 0)
        .0
        .lines()
        .map(|line| line.split(',').map(String::from).collect())
        .collect();
    assert_eq!(rows[0][3..], ["messages", "bytes", "peak_bytes", "peak_recipients"]);
    let all = ["messages", "bytes", "peak_message_bytes"].map(|key| totals[key].to_string());
    assert_eq!((rows[1][0].as_str(), &rows[1][3..6]), ("all", &all[..]));
    // That capture has no answers of the bus, so how many recipients there were is not known.
    assert!(rows[1..].iter().all(|row| row[6].is_empty()));
    let column = |index: usize| rows[2..].iter().filter_map(move |row| row[index].parse::<u64>().ok());
    assert_eq!(Some(column(3).sum()), totals["messages"].as_u64());
    assert_eq!(column(5).max(), totals["peak_message_bytes"].as_u64());
    let broadest = recipients["broadest"].as_array().unwrap();
    assert!(broadest.iter().all(|row| row["most_recipients"].as_u64() > Some(3)), "{broadest:?}");
    let shown = output(folder.path(), "analyse boot.pcap", 0).0;
    assert_eq!(shown.contains("Broadest signals"), !broadest.is_empty(), "{shown}");
    let line = |bytes: u64, ns: f64| {
        format!(
            r#"{{"kind":"summary","case":"roundtrip/dbus-daemon/{bytes}/same-cpu","unit":"ns/x","runs":6,"median":{ns},"ci95":null,"range":[1.0,1.0],"spread_between":0.0,
            "spread_within":0.0,"stopped_by":"max-runs","per_op":{PER_OP},"beside":{{}},"anomalies":[],"regimes":[]}}"#
        )
        .replace('\n', "")
    };
    let record = [line(100, 20_000.0), line(1_000_100, 20_020_000.0)].join("\n");
    std::fs::write(folder.path().join("pp.jsonl"), record).unwrap();
    let of_sizes = json(folder.path(), "analyse boot.pcap --ping-pong pp.jsonl");
    let times = of_sizes["transmission"]["dbus-daemon"].as_array().unwrap();
    for (time, size) in times.iter().zip(of_sizes["sizes"].as_array().unwrap()) {
        let [messages, bytes] = ["messages", "bytes"].map(|key| size[key].as_f64().unwrap());
        let each_ns = 10_000.0 + (bytes / messages.max(1.0) - 100.0).max(0.0) * 10.0;
        let ns = time["transmission_ns"].as_f64().unwrap();
        assert!((ns - messages * each_ns).abs() <= 1.0 + 1e-6 * ns, "{time} {size}");
    }
    let page = output(folder.path(), "analyse boot.pcap --ping-pong pp.jsonl --format html", 0).0;
    assert!(page.matches("<svg").count() == 5 && page.contains("Time on the way by size"));
    let (_, said) = output(folder.path(), "analyse boot.pcap --ping-pong boot.pcap", 3);
    assert!(said.starts_with("error: "), "{said}");
}

#[test]
fn lint_has_an_exit_code_for_its_level() {
    let folder = booted();
    let (found, _) = output(folder.path(), "lint boot.pcap", 1);
    let first = "warning: duplicate: :1.1\n  type='signal',sender='org.freedesktop.DBus'";
    assert!(found.starts_with(first) && found.ends_with("25 findings\n"), "{found}");
    let (found, _) = output(folder.path(), "lint boot.pcap --level error", 0);
    assert_eq!(found, "0 findings\n");
    let (found, _) = output(folder.path(), "lint boot.pcap --format json --level info", 1);
    let found: Vec<Value> = serde_json::from_str(&found).unwrap();
    assert!(found.iter().any(|finding| finding["kind"] == "matched-nothing"), "{found:?}");
}

#[test]
fn an_anonymous_capture_has_the_same_counts_and_no_secrets() {
    let folder = booted();
    output(folder.path(), "analyse boot.pcap --anonymize -o shape.pcap", 0);
    let shape = std::fs::read(folder.path().join("shape.pcap")).unwrap();
    let whole = String::from_utf8_lossy(&shape).into_owned();
    assert!(!SECRETS.iter().chain(&["Telepathy", "Contact"]).any(|secret| whole.contains(secret)));
    let totals = |file: &str| json(folder.path(), &format!("analyse {file}"))["totals"].clone();
    assert_eq!(totals("boot.pcap"), totals("shape.pcap"));
    let (_, said) = output(folder.path(), "analyse boot.pcap --anonymize -o shape.pcap", 2);
    assert!(said.contains("`shape.pcap` exists already"), "{said}");
}

#[test]
fn what_is_no_capture_is_refused_in_one_sentence_and_what_is_damaged_is_used() {
    let folder = booted();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::write(folder.path().join("text"), "this is a text, and no capture of anything\n").unwrap();
    for (words, said) in [
        ("analyse none.pcap", "error: cannot read `none.pcap`: "),
        ("analyse empty", "error: `empty` is empty\n"),
        ("lint text", "error: `text` is not a capture of D-Bus messages; make one with"),
        ("analyse boot.pcap --anonymize", "error: "),
        ("analyse boot.pcap --window 2s..1s", "error: --window: `2s..1s` ends before it begins"),
        ("capture", "error: which bus? give --session, --system or --address ADDRESS\n"),
        ("lint", "error: nothing to look at; "),
        ("exam --broker dbus", "error: --broker: `dbus` is not a known broker; known are dbus-daemon, "),
        ("exam --only order", "error: --only: `order` is not a property; there are order-of-one-sender, "),
        ("replay empty", "error: `empty` is empty\n"),
        (
            "replay boot.pcap --broker dbus",
            "error: --broker: `dbus` is not a known broker; known are dbus-daemon, ",
        ),
        ("replay boot.pcap --speed fast", "error: --speed: `fast` is not a speed; write recorded, "),
        ("capture --address tcp:host=x -o x.pcap", "error: `tcp:host=x` is not an address of a Unix socket"),
        ("exam --address unix:path=/nowhere", "error: no bus answers at `unix:path=/nowhere`"),
        ("replay boot.pcap --broker unix:path=/nowhere", "error: no bus answers at `unix:path=/nowhere`"),
        ("lint --address unix:path=/nowhere", "error: no bus answers at `unix:path=/nowhere`"),
    ] {
        assert!(refused(folder.path(), words, said).starts_with(said), "{words}");
    }
    let (shown, said) = output(folder.path(), "analyse cut.pcap", 0);
    assert!(shown.contains("8,312 messages"), "{shown}");
    let (left, rest) = said
        .strip_prefix("warning: `cut.pcap` ends inside a packet, whose ")
        .unwrap()
        .split_once(' ')
        .unwrap();
    assert!(left.parse::<u32>().is_ok_and(|left| left > 0), "{said}");
    assert_eq!(rest, "bytes were not used; what comes before was\n");
}

/// Two connections that are seen from their beginning, a rule of the first, what the bus answers, and eight broadcasts of the second.
fn with_rule(rule: &str, answer: Option<Builder<'_>>) -> Vec<u8> {
    let mut scribe = captures::Scribe::new(Vec::new());
    for name in [":1.1", ":1.2"] {
        let body = Body::default().text(name).text("").text(name);
        scribe.say(
            &Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged").sender(DRIVER).body(body),
        );
    }
    let call = scribe.say(&captures::to_driver(":1.1", "AddMatch").body(Body::default().text(rule)));
    assert_eq!(call, CALL);
    if let Some(answer) = answer {
        scribe.say(&answer.sender(DRIVER).destination(":1.1"));
    }
    for _ in 0..8 {
        scribe.say(&Builder::signal("/a", "a.B", "C").sender(":1.2"));
    }
    scribe.finish()
}

/// The serial of the rule's call there.
const CALL: u32 = 3;

#[test]
fn the_answer_of_the_bus_decides_whether_a_rule_counts() {
    let folder = folder();
    let refusal = |name: &'static str| Builder::error(CALL, name);
    let unreadable = "1 match rule that the bus has cannot be read here.";
    let unanswered = "1 change of match rules has no answer of the bus in the capture.";
    for (rule, answer, sentence, deliveries, finding) in [
        ("interface='a.B'", Some(Builder::reply(CALL)), Ok("10 broadcasts went to 8 recipients"), 8, None),
        (
            "interface='a.B'",
            Some(refusal("org.freedesktop.DBus.Error.LimitsExceeded")),
            Ok("10 broadcasts went to 0 recipients"),
            0,
            Some("invalid"),
        ),
        ("interface='a.B'", None, Err(unanswered), 8, None),
        ("bogus", Some(Builder::reply(CALL)), Err(unreadable), 0, Some("unreadable")),
        (
            "bogus",
            Some(refusal("org.freedesktop.DBus.Error.MatchRuleInvalid")),
            Ok("10 broadcasts went to 0 recipients"),
            0,
            Some("invalid"),
        ),
        ("bogus", None, Err(unanswered), 0, Some("unreadable")),
    ] {
        let is_answered = answer.is_some();
        let name = format!("`{rule}`, answered: {is_answered}");
        std::fs::write(folder.path().join("rule.pcap"), with_rule(rule, answer)).unwrap();
        let shown =
            output(folder.path(), "analyse rule.pcap", 0).0.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(sentence.unwrap_or_else(|gap| gap)), "{name}: {shown}");
        assert_eq!(
            shown.contains("The rules of all 2 connections are known."),
            sentence.is_ok(),
            "{name}: {shown}"
        );
        let recipients = &json(folder.path(), "analyse rule.pcap")["recipients"];
        assert_eq!(recipients["deliveries"], deliveries, "{name}");
        assert_eq!(recipients["unwanted"].is_null(), sentence.is_err(), "{name}: {recipients}");
        let csv = output(folder.path(), "analyse rule.pcap --format csv", 0).0;
        let peak = csv.lines().nth(1).unwrap().rsplit(',').next().unwrap();
        assert_eq!(peak.is_empty(), sentence.is_err(), "{name}: {csv}");
        let (found, said) =
            output(folder.path(), "lint rule.pcap --format json", i32::from(finding.is_some()));
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found[0]["kind"].as_str(), finding, "{name}: {found}");
        assert_eq!(
            said.contains("all rules are known of 1 of 2 connections"),
            sentence.is_err(),
            "{name}: {said}"
        );
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
    let (_, said) = output(folder.path(), "analyse signals.pcap --costs nowhere.jsonl", 3);
    assert!(said.contains("cannot read `nowhere.jsonl`"), "{said}");
    capture("empty.jsonl", b"");
    let (_, said) = output(folder.path(), "analyse signals.pcap --costs empty.jsonl", 3);
    assert!(said.contains("make some with: weighbridge run --suite dbus-curves"), "{said}");
    let fan_out = "fan-out/dbus-daemon/1/same-cpu/receivers=1";
    let solo = "solo/dbus-daemon/0/same-cpu";
    let curves =
        ["roundtrip", "stream", "fan-out"].map(|pattern| format!("{pattern}/dbus-daemon/1/same-cpu"));
    let mut cases = curves.to_vec();
    cases.extend(
        ["", "/rules=100", "/rules=100/rules-by=arg0", "/rules=100/rules-by=interface"]
            .map(|of| format!("{fan_out}{of}")),
    );
    for call in ["", "/call=match", "/call=name", "/call=connect", "/call=relay", "/call=signal"] {
        cases.push(format!("{solo}{call}"));
        cases.extend(["", "/broker=own"].map(|broker| format!("{solo}{broker}{call}/pause-us=1000")));
    }
    let line = |case: &String| {
        format!(
            r#"{{"kind":"summary","case":"{case}","unit":"ns/x","runs":6,"median":1.0,"ci95":null,"range":[1.0,1.0],"spread_between":0.0,
            "spread_within":0.0,"stopped_by":"max-runs","per_op":{PER_OP},"beside":{{"broker":{PER_OP}}},"anomalies":[],"regimes":[]}}"#
        )
        .replace('\n', "")
    };
    let lines: Vec<String> = cases.iter().map(line).collect();
    capture("curves.jsonl", (lines.join("\n") + "\n").as_bytes());
    let costs =
        json(folder.path(), "analyse signals.pcap --costs curves.jsonl")["costs"]["dbus-daemon"].clone();
    assert_eq!(costs["cpu_ns"].as_f64().map(f64::round), Some(5000.0), "{costs}");
    assert_eq!(costs["switches_at_most"].as_f64().map(f64::round), Some(5.0), "{costs}");
    // A nanosecond apart, so that only the first finds the broker asleep.
    for place in ["same-cpu", "two-cpus"] {
        let paced = &costs["at_recorded_speed"][place];
        assert_eq!(paced["switches"].as_f64().map(f64::round), Some(1.0), "{place}: {costs}");
    }
    let (shown, _) = output(folder.path(), "analyse signals.pcap --costs curves.jsonl", 0);
    assert!(shown.contains("Cost\n") && shown.contains("dbus-daemon"), "{shown}");
}

/// Killed in the middle of an experiment, the program leaves no broker and no socket.
#[test]
fn an_examination_that_is_killed_leaves_no_broker() {
    let folder = folder();
    if !has_broker() {
        return;
    }
    let words = "dbus exam --broker dbus-daemon --only last-words --rounds 1000";
    let mut exam = start(folder.path(), words);
    let own = format!("@weighbridge-bus-{}-", exam.pid());
    let sockets = || text("/proc/net/unix").lines().filter(|line| line.contains(&own)).count();
    eventually("a broker", || sockets() > 0);
    // Not reaped: what it started ends with it, not with its parent.
    exam.signal(Signal::KILL).unwrap();
    eventually("its end", || sockets() == 0);
    exam.wait();
}

/// Whether private brokers can be started; if not, that is said.
fn has_broker() -> bool {
    has_program("dbus-daemon")
}

/// The CPUs that a process of a time line had, by the names of the CPUs' lanes.
fn cpus_of(events: &[Value], process: &str) -> BTreeSet<u64> {
    let runs = |event: &&Value| event["ph"] == "X" && event["pid"] == 1 && event["name"] == process;
    events.iter().filter(runs).map(|event| event["tid"].as_u64().unwrap()).collect()
}

/// Its time line has the messages of the capture as arrows.
#[test]
fn a_replay_runs_where_it_is_told_to_and_has_a_time_line() {
    if !has_broker() {
        return;
    }
    let folder = booted();
    let nowhere = "replay boot.pcap --broker unix:path=/nonexistent/bus --place same-cpu";
    let (_, said) = output(folder.path(), nowhere, 2);
    assert!(said.contains("--place is for brokers that are started for the replay"), "{said}");
    let has_two = causeway_os::sched::allowed_cpus().unwrap().len() > 1;
    let has_tracer = weighbridge_probe::tracefs::Tracefs::open().is_ok();
    for (place, says) in
        [("same-cpu", "player and broker on one CPU"), ("two-cpus", "the broker on another CPU")]
    {
        let file = format!("{place}.json");
        let words = format!("replay boot.pcap --broker dbus-daemon --place {place} --trace-out {file}");
        if place == "two-cpus" && !has_two {
            let (_, said) = output(folder.path(), &words, 2);
            assert!(said.contains("--place two-cpus needs two CPUs"), "{said}");
            skipped(Cause::Hardware("two CPUs"), "");
            continue;
        }
        let (shown, _) = output(folder.path(), &words, 0);
        let sent = "8,313 of 8,313 messages are sent again over 25 connections; 0 are of";
        assert!(shown.contains(says) && shown.contains(sent), "{shown}");
        assert!(arrows(folder.path(), &file) > 100, "messages are arrows");
        let (shown, said) = output(folder.path(), &words, 2);
        assert!(shown.is_empty() && said.contains(&format!("`{file}` exists already")), "{said}");
        if !has_tracer {
            skipped(Cause::Kernel("tracefs"), "");
            continue;
        }
        let events = events(folder.path(), &file);
        let (player, broker) = (cpus_of(&events, "clients and services"), cpus_of(&events, "broker"));
        assert_eq!((player.len(), broker.len()), (1, 1), "{place}");
        assert_eq!(player == broker, place == "same-cpu", "{player:?} {broker:?}");
    }
    let (_, said) = output(folder.path(), "replay boot.pcap --rounds 2 --trace-out x.json", 2);
    assert!(said.contains("--trace-out is of one replay"), "{said}");
    // Before anything is replayed.
    let nowhere = "replay boot.pcap --broker dbus-daemon --trace-out no/such/folder.json";
    let (shown, said) = output(folder.path(), nowhere, 2);
    assert!(shown.is_empty() && said.contains("its folder does not exist"), "{said}");
}

/// How they compare is decided in `weighbridge_harness::compare`; that a capture comes to verdicts is seen here.
#[test]
fn a_capture_is_a_test_of_regressions() {
    let folder = booted();
    for (words, why) in [
        ("replay boot.pcap --a dbus-daemon", "--b"),
        ("replay boot.pcap --a dbus-daemon --b dbus-daemon --broker busd", "exclude each other"),
        ("replay boot.pcap --a dbus-daemon=nowhere --b dbus-daemon", "`nowhere` is not a file of a broker"),
        ("replay boot.pcap --format junit", "say what to compare with --a and --b"),
        ("replay boot.pcap --margin 1%", "--b is missing"),
    ] {
        refused(folder.path(), words, why);
    }
    if !has_broker() {
        return;
    }
    // A build is a file, which may lie anywhere.
    let path = weighbridge_dbus_client::brokers::Program::DbusDaemon.path().unwrap();
    std::os::unix::fs::symlink(path, folder.path().join("new")).unwrap();
    let words = "replay boot.pcap --a dbus-daemon --b dbus-daemon=new --rounds 2";
    let (shown, _) = output(folder.path(), &format!("{words} --format json"), 0);
    let document: Value = serde_json::from_str(&shown).unwrap();
    let cases = document["cases"].as_array().unwrap();
    let found: Vec<_> =
        cases.iter().map(|of| (of["case"].as_str().unwrap(), of["verdict"].as_str().unwrap())).collect();
    let expected = [
        ("replay/time/0/free", "inconclusive"),
        ("replay/broker-cpu/0/free", "inconclusive"),
        ("replay/broker-switches/0/free", "inconclusive"),
        ("replay/answers/0/free", "equivalent"),
    ];
    assert_eq!(found, expected, "two rounds decide nothing");
    assert!(cases[0]["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{shown}");
    assert!(cases[0]["b"].as_str().unwrap().starts_with("dbus-daemon=new"), "{shown}");
    let (junit, _) = output(folder.path(), &format!("{words} --strict --format junit"), 4);
    assert!(
        junit.contains("name=\"replay/time/0/free\"><skipped") && junit.contains("tests=\"4\""),
        "{junit}"
    );
}

#[test]
fn a_build_that_refuses_what_the_other_one_does_and_one_that_does_not_start_regress() {
    if !has_broker() {
        return;
    }
    let folder = folder();
    let mut scribe = captures::Scribe::new(Vec::new());
    scribe.say(&captures::to_driver(":1.7", "Hello"));
    for _ in 0..17 {
        let call = scribe.say(&captures::to_driver(":1.7", "ListActivatableNames"));
        let answer = Builder::reply(call).sender(DRIVER).destination(":1.7");
        scribe.say(&answer.body(Body::default().texts(&[])));
    }
    std::fs::write(folder.path().join("asked.pcap"), scribe.finish()).unwrap();
    let path = weighbridge_dbus_client::brokers::Program::DbusDaemon.path().unwrap();
    let script = |name: &str, lines: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    // The configuration is changed on its way to the broker.
    let deny = "<policy context=\"mandatory\"><deny send_destination=\"org.freedesktop.DBus\" \
        send_interface=\"org.freedesktop.DBus\" send_member=\"ListActivatableNames\"/></policy>";
    script(
        "strict",
        &format!(
            "conf={}/bus.conf\nsed 's|</busconfig>|{deny}</busconfig>|' /proc/self/fd/3 >$conf\n\
             for it; do case $it in --config-file=*) it=--config-file=$conf;; esac; set -- \"$@\" \"$it\"; shift; done\n\
             exec {} \"$@\"",
            folder.path().display(),
            path.display()
        ),
    );
    script("broken", "exit 1");
    let cases = |name: &str| {
        let words =
            format!("replay asked.pcap --a dbus-daemon --b dbus-daemon={name} --rounds 2 --format json");
        let document: Value = serde_json::from_str(&output(folder.path(), &words, 1).0).unwrap();
        document["cases"].as_array().unwrap().last().unwrap().clone()
    };
    let refusing = cases("strict");
    let of =
        |case: &Value| (case["case"].to_string(), case["verdict"].to_string(), case["remarks"].to_string());
    let (case, verdict, remarks) = of(&refusing);
    assert!(case.contains("answers") && verdict.contains("changed shape"), "{refusing}");
    assert!(remarks.contains("17 on B") && remarks.contains("AccessDenied"), "{refusing}");
    let (_, verdict, remarks) = of(&cases("broken"));
    assert!(verdict.contains("changed shape") && remarks.contains("dbus-daemon=broken"), "{remarks}");
    let words = "replay asked.pcap --a dbus-daemon --b dbus-daemon=broken --rounds 2 --format junit";
    let (junit, _) = output(folder.path(), words, 1);
    assert!(junit.contains("<failure"), "{junit}");
}

/// With what the kernel saw of it.
#[test]
fn an_experiment_has_a_time_line() {
    if !has_broker() {
        return;
    }
    let folder = folder();
    let words = "exam --broker dbus-daemon --only content --trace-out exam.json";
    let (_, said) = output(folder.path(), words, 0);
    assert!(said.contains("time line: exam.json"), "{said}");
    assert!(arrows(folder.path(), "exam.json") >= 10, "messages between connections are arrows");
    let trace = text(folder.path().join("exam.json"));
    assert!(
        trace.contains("writes method_call org.weighbridge.Exam.Content (message "),
        "messages have names"
    );
    if let Err(error) = weighbridge_probe::tracefs::Tracefs::open() {
        return skipped(Cause::Kernel("tracefs"), error);
    }
    assert!(trace.contains("\"broker") && trace.contains("clients and services"), "{trace:.300}");
}
