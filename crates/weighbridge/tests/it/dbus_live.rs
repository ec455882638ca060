//! `weighbridge dbus` beside a bus that runs: its consent, its end, and what is not a bus.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_dbus_wire::wire::Body;
use causeway_testkit::{Cause, Running, eventually, has_program, skipped};
use rustix::process::Signal;
use serde_json::Value;

use crate::dbus::{arrows, booted, events, json, output, refused};
use crate::{folder, said, start, text};

/// A private bus, which ends with the test.
pub struct Bus {
    _daemon: Running,
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
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if !has_program("dbus-daemon") {
            return None;
        }
        let mut daemon = Running::start(&mut command);
        let mut address = String::new();
        BufReader::new(daemon.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(Bus { _daemon: daemon, address: address.trim().into() })
    }

    /// Records it as `bus.pcap`, from when its rules are in the capture.
    pub fn record(&self, folder: &Path) -> Running {
        let recording = start(folder, &format!("dbus capture --address {} -o bus.pcap", self.address));
        eventually("the rules in the capture", || captured(folder) > 1_000);
        recording
    }
}

/// The bytes of `bus.pcap` until now.
fn captured(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("bus.pcap")).map_or(0, |file| file.len())
}

#[test]
fn a_bus_that_runs_is_measured_with_its_consent_at_a_bounded_rate() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let mut beside = causeway_bus::client::Bus::open(&bus.address).unwrap();
    while beside.receive(std::time::Duration::from_millis(50)).unwrap().is_some() {}
    let began = std::time::Instant::now();
    let words = format!("ping-pong --address {} --sizes 1,1000 --calls 20 --rate 200", bus.address);
    let document = json(folder.path(), &words);
    assert!(began.elapsed().as_secs_f64() > 39.0 / 200.0, "40 calls at most 200 a second");
    let sizes = document["sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|size| size["array_bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1000]);
    for size in sizes {
        assert!(size["calls"] == 20 && size["median_ns"].as_f64() > Some(1000.0), "{size}");
    }
    assert_eq!(document["name"], "org.weighbridge.PingPong");
    // What goes on between the two is not for others.
    let got = beside.receive(std::time::Duration::from_millis(100)).unwrap();
    assert_eq!(got, None, "a client that asked for nothing got something");
    let (shown, written) = output(folder.path(), &format!("{words} --out calls.jsonl"), 0);
    assert!(written.contains("record: calls.jsonl"), "{written}");
    let report = said(folder.path(), "report calls.jsonl").with(0).stdout;
    assert!(report.contains("dbus-ping-pong:call"), "{report}");
    refused(folder.path(), &format!("{words} --out calls.jsonl"), "calls.jsonl");
    assert!(shown.contains("median, µs") && shown.contains("200 a second"), "{shown}");
    // A name that another has, and a policy that lets nobody have one.
    beside.request_name("com.example.Taken", 4).unwrap();
    refused(folder.path(), &format!("{words} --name com.example.Taken"), "com.example.Taken has an owner");
    let Some(strict) = Bus::start(folder.path(), "<deny own=\"*\"/>") else { return };
    let strict = format!("ping-pong --address {}", strict.address);
    refused(folder.path(), &strict, "does not let this program own");
}

/// Records until the bus ends, while another program looks at the rules of the same bus.
#[test]
fn a_running_bus_is_recorded_and_its_rules_are_looked_at() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let mut recording = bus.record(folder.path());
    let before = captured(folder.path());
    let (found, _) = output(folder.path(), &format!("lint --address {}", bus.address), 0);
    assert_eq!(found, "0 findings\n");
    eventually("what lint asked in the capture", || captured(folder.path()) > before);
    drop(bus);
    assert_eq!(recording.wait().code(), Some(3), "{}", text(folder.path().join("stderr")));
    let said = text(folder.path().join("stderr"));
    assert!(said.contains("the capture ends early: the bus closed the connection"), "{said}");
    let (shown, said) = output(folder.path(), "analyse bus.pcap", 0);
    assert!(shown.contains("GetAllMatchRules") && shown.contains("The rules of all"), "{shown}");
    assert_eq!(said, "");
}

#[test]
fn where_a_monitor_is_refused_the_missing_right_is_named() {
    let folder = folder();
    let deny = "<deny send_interface=\"org.freedesktop.DBus.Monitoring\"/>";
    let Some(bus) = Bus::start(folder.path(), deny) else { return };
    let words = format!("capture --address {} --budget 300ms -o bus.pcap", bus.address);
    let (_, said) = output(folder.path(), &words, 0);
    assert!(said.contains("the bus refuses a monitor (org.freedesktop.DBus.Error.AccessDenied"), "{said}");
    assert!(said.contains("The right that is missing: BecomeMonitor"), "{said}");
    let totals = json(folder.path(), "analyse bus.pcap")["totals"].clone();
    assert!(totals["messages"].as_u64().unwrap() > 2, "{totals}");
}

/// What can harm others is left out on a running bus, and an answer has its evidence.
#[test]
fn a_running_bus_is_examined_and_so_are_private_ones() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let words = format!("exam --address {} --only directed-signal,stalled-subscriber", bus.address);
    let document = json(folder.path(), &words);
    let answers = |at: usize| &document["properties"][at]["answers"][0];
    assert_eq!((&answers(0)["answer"], &answers(0)["is_violation"]), (&"kept".into(), &false.into()));
    let left_out = answers(1)["outcomes"][0]["skipped"].as_str().unwrap();
    assert!(left_out.contains("private brokers only"), "{document}");
    let (shown, _) = output(folder.path(), &words, 0);
    let left_out = "\n■ Not examined (–)\n  this bus: stalled-subscriber: this experiment can harm a bus";
    assert!(shown.contains(left_out), "{shown}");
    let words = "exam --broker dbus-daemon --only departed-callee,unique-names --rounds 2";
    let (shown, _) = output(folder.path(), words, 0);
    assert!(shown.contains("2 properties, each 2 times: 0 answers break a promise (!), 0 differ"), "{shown}");
    assert!(shown.contains("\n  departed-callee  NoReply\n"), "{shown}");
    assert!(shown.contains("    dbus-daemon: kept: 100 connections, one after the other\n"), "{shown}");
}

/// Where connections may not call each other, an examination would show the policy.
#[test]
fn a_bus_whose_policy_is_in_the_way_is_not_examined() {
    let folder = folder();
    let deny = "<deny send_interface=\"org.weighbridge.Exam\"/>";
    let Some(bus) = Bus::start(folder.path(), deny) else { return };
    let refusal = "error: the policy of this bus is in the way: connections may not call each other \
                   (org.freedesktop.DBus.Error.AccessDenied); ";
    refused(folder.path(), &format!("exam --address {}", bus.address), refusal);
}

/// Of programs that know nothing of it. What is in memory is written when somebody asks, and the rest in the end.
#[test]
fn a_bus_that_runs_has_a_time_line_also_in_the_middle() {
    let folder = folder();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let words = format!("dbus capture --address {} -o bus.pcap --trace-out bus.json", bus.address);
    let mut recording = start(folder.path(), &words);
    eventually("the rules in the capture", || captured(folder.path()) > 1_000);
    let calls = format!("ping-pong --address {} --sizes 1 --calls 20", bus.address);
    let echoes = |file: &str| {
        let of_echo = |event: &&Value| event["name"] == "writes method_call org.weighbridge.PingPong.Echo";
        events(folder.path(), file).iter().filter(of_echo).count()
    };
    for dump in 1..=2 {
        let before = captured(folder.path());
        output(folder.path(), &calls, 0);
        // A call and its reply, of a hundred bytes and more each.
        eventually("the calls in the capture", || captured(folder.path()) > before + 20 * 250);
        recording.signal(Signal::USR2).unwrap();
        let file = format!("bus.{dump}.json");
        let said = || text(folder.path().join("stderr"));
        eventually("the dump", || said().contains(&format!("time line: {file}")));
        assert_eq!(echoes(&file), 20, "what was written is written once");
        assert!(arrows(folder.path(), &file) >= 40, "calls and replies are arrows");
    }
    recording.signal(Signal::INT).unwrap();
    assert_eq!(recording.wait().code(), Some(0), "{}", text(folder.path().join("stderr")));
    assert_eq!(echoes("bus.json"), 0, "nothing was called since");
    let said = text(folder.path().join("stderr"));
    if let Err(error) = weighbridge_probe::tracefs::Tracefs::open() {
        assert_eq!(said.matches("the time line has messages only").count(), 3, "{said}");
        return skipped(Cause::Kernel("tracefs"), error);
    }
    let lanes = text(folder.path().join("bus.1.json"));
    // On a machine that does much else the kernel may have overwritten what the broker did.
    for lane in ["broker on a CPU", "broker: calls", "weighbridge on a CPU", "recvmsg", "sendmsg"] {
        assert!(lanes.contains(lane) || said.contains("events begin late"), "{lane} is not in it; {said}");
    }
    let (_, said) = output(folder.path(), &words["dbus ".len()..].replace("bus.pcap", "other.pcap"), 2);
    assert!(said.contains("`bus.json` exists already"), "{said}");
}

/// Nobody is left without a sentence, and nothing that was not answered is called an answer.
#[test]
fn a_bus_that_goes_away_or_is_none_is_one_sentence() {
    let folder = folder();
    let one = |words: &str, expected: &str| refused(folder.path(), words, expected);
    // What listens is not a bus.
    let path = folder.path().join("web");
    let listener = UnixListener::bind(&path).unwrap();
    let (commands, web) = (["ping-pong", "capture -o x.pcap", "lint", "exam"], path.display());
    let answering = std::thread::spawn(move || {
        for _ in commands {
            let (mut client, _) = listener.accept().unwrap();
            let mut first = [0; 1024];
            let _ = client.read(&mut first);
            let _ = client.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    for command in commands {
        one(
            &format!("{command} --address unix:path={web}"),
            "error: what answers is not a bus: HTTP/1.0 400",
        );
    }
    answering.join().unwrap();
    // It is killed in the middle: so many connections or names have come by then.
    for (command, rule, times, expected) in [
        (
            "ping-pong --calls 1000 --rate 100",
            "arg0='org.weighbridge.PingPong'",
            1,
            "the bus closed the connection",
        ),
        ("exam", "member='NameOwnerChanged'", 30, "error: the bus is gone since "),
    ] {
        let Some(bus) = Bus::start(folder.path(), "") else { return };
        let mut watches = causeway_bus::client::Bus::open(&bus.address).unwrap();
        watches.ask_driver("AddMatch", Body::default().text(&format!("type='signal',{rule}"))).unwrap();
        while watches.receive(std::time::Duration::from_millis(50)).unwrap().is_some() {}
        let mut asks = start(folder.path(), &format!("dbus {command} --address {}", bus.address));
        for _ in 0..times {
            eventually("what the command does", || {
                watches.receive(std::time::Duration::from_secs(1)).unwrap().is_some()
            });
        }
        drop(bus);
        assert_eq!(asks.wait().code(), Some(3), "{command}");
        let said = text(folder.path().join("stderr"));
        assert!(said.contains(expected) && said.lines().count() == 1, "{command}: {said}");
    }
}

/// A capture whose end is cut off is replayed as far as it reaches; several buses are compared by pairs.
#[test]
fn a_capture_is_replayed_on_private_brokers_and_on_a_running_bus() {
    let folder = booted();
    let Some(bus) = Bus::start(folder.path(), "") else { return };
    let words =
        format!("replay cut.pcap --format json --broker dbus-daemon --broker {} --rounds 2", bus.address);
    let (json, said) = output(folder.path(), &words, 0);
    let left = said.strip_prefix("warning: `cut.pcap` ends inside a packet, whose ");
    let left = left.and_then(|rest| rest.strip_suffix(" bytes were not used; what comes before was\n"));
    assert!(left.is_some_and(|bytes| bytes.parse::<u32>().is_ok()), "{said}");
    let document: Value = serde_json::from_str(&json).unwrap();
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
}
