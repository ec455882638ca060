//! Libraries of D-Bus as clients keep the promises that our own bytes keep, on dbus-daemon and dbus-broker.
//!
//! Those in C are built first, next to this program. What is not installed is skipped with the reason.

use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, has_program, skipped};
use libtest_mimic::Trial;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;

use crate::broker_killed::broker_killed;
use crate::runs::{self, SHORT};
use crate::{killed, measured, take_turns};

const CLIENTS: [&str; 4] = ["libdbus", "sd-bus", "gdbus", "zbus"];
/// The environment variable that names where libraries in C are looked for.
const FOLDER: &str = "WEIGHBRIDGE_DBUS_CLIENTS";
const MISSING: &str = "a_library_that_is_not_there_is_refused_with_the_way_out";
const BROKERS: [Program; 2] = [Program::DbusDaemon, Program::DbusBroker];

/// A case with a client, by its broker.
#[derive(Clone, Copy)]
struct Of {
    broker: &'static str,
    client: &'static str,
}

impl Of {
    fn case(self, pattern: &str, payload_bytes: u64, placement: &str) -> CaseId {
        CaseId::new(pattern, self.broker, payload_bytes, placement).with("client", self.client)
    }
}

type Promise = (&'static str, fn(&Host, Of));

const PROMISES: &[Promise] = &[
    ("carries_every_size_whole_and_in_order", sizes),
    ("carries_empty_replies_and_is_touched_as_the_case_says", directions_and_touches),
    ("works_between_threads_or_says_why_not", threads),
    ("every_subscriber_has_every_signal", signals),
    ("asks_the_broker_itself", asks),
    ("is_counted_with_all_its_threads", counts),
    ("takes_turns_with_a_hub", |host, of| {
        for (pattern, payload_bytes) in [("roundtrip", 100), ("stream", 100), ("solo", 0)] {
            take_turns(host, of.case(pattern, payload_bytes, "same-cpu"), true);
        }
    }),
    ("a_killed_peer_is_a_failure_with_its_step", |host, of| {
        killed::killed(host, &of.case("roundtrip", 64, "free"), &["client", "server"]);
        killed::killed(host, &of.case("stream", 64, "free"), &["sender", "receiver"]);
        let id = of.case("fan-out", 64, "free").with("receivers", "2");
        killed::killed(host, &id, &["sender", "receiver", "receiver"]);
    }),
    ("a_broker_that_is_killed_is_a_failure", |host, of| {
        broker_killed(host, &runs::prepare(host, &of.case("roundtrip", 64, "free")).unwrap());
    }),
    ("what_only_our_own_bytes_offer_is_refused", refusals),
];

pub fn trials(host: &'static Host) -> Vec<Trial> {
    build();
    let mut trials = vec![runs::trial(MISSING, || missing(host))];
    for program in BROKERS {
        for client in CLIENTS {
            let of = Of { broker: program.name(), client };
            if let Err(why) = runs::prepare(host, &of.case("roundtrip", 1, "free")) {
                let cause = match client {
                    _ if program.path().is_none() => Cause::Missing(program.name()),
                    "libdbus" => Cause::Missing("dbus-1"),
                    "sd-bus" => Cause::Missing("libsystemd"),
                    "gdbus" => Cause::Missing("gio-2.0"),
                    _ => Cause::Setting("the feature zbus"),
                };
                let name = format!("{client}/{program}/is_installed");
                trials.push(runs::trial(name, move || skipped(cause, &why)));
                continue;
            }
            trials.extend(PROMISES.iter().map(|(name, test)| {
                runs::trial(format!("{client}/{}/{name}", program.name()), move || test(host, of))
            }));
        }
    }
    trials
}

/// Builds the libraries in C next to this program, where they are looked for unless another folder is named.
fn build() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/build.sh");
    let folder = std::env::current_exe().unwrap().with_file_name("dbus-clients");
    let built = Command::new("sh").arg(script).arg(folder).stdout(Stdio::null()).status().unwrap();
    assert!(built.success(), "the libraries do not build: {built}");
}

/// In a process of its own, for which an empty folder is named.
fn missing(host: &Host) {
    if !has_program("dbus-daemon") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-clients");
    if std::env::var_os(FOLDER).is_none_or(|named| named != folder) {
        std::fs::create_dir_all(&folder).unwrap();
        let program = std::env::current_exe().unwrap();
        let ended = Command::new(program).args(["--exact", MISSING]).env(FOLDER, &folder).output().unwrap();
        assert!(
            ended.status.success() && String::from_utf8_lossy(&ended.stdout).contains("1 passed"),
            "{ended:?}"
        );
        return;
    }
    for client in CLIENTS {
        let id = Of { broker: "dbus-daemon", client }.case("roundtrip", 1, "free");
        let prepared = runs::prepare(host, &id);
        if client == "zbus" && cfg!(feature = "zbus") {
            drop(prepared.unwrap());
            continue;
        }
        let why = prepared.unwrap_err();
        let object = folder.join(format!("{client}.so"));
        let is_said = match client {
            "zbus" => why.contains("--features zbus"),
            _ => why.contains(object.to_str().unwrap()) && why.contains("build.sh"),
        };
        assert!(is_said, "{id}: {why}");
    }
}

fn measure(host: &Host, id: &CaseId, timing: Timing) {
    let Some(case) = runs::prepare_or_skip(host, id) else { return };
    let measured = runs::measure(host, &case, timing);
    assert!(measured.facts.keys().any(|name| name.contains("client_version")), "{id}: {:?}", measured.facts);
}

fn sizes(host: &Host, of: Of) {
    for pattern in ["roundtrip", "stream"] {
        for payload_bytes in [0, 1, 100, 64 << 10] {
            measure(host, &of.case(pattern, payload_bytes, "same-cpu"), SHORT);
        }
        // What length does to a message it does on one CPU; two are for the order in which the ends run.
        measure(host, &of.case(pattern, 100, "two-cpus"), SHORT);
        // More than a socket takes at once.
        measure(host, &of.case(pattern, 2 << 20, "free"), SHORT);
    }
}

fn directions_and_touches(host: &Host, of: Of) {
    for touch in ["none", "first", "lines", "all", "write"] {
        measure(host, &of.case("roundtrip", 3000, "same-cpu").with("touch", touch), SHORT);
        measure(host, &of.case("stream", 3000, "same-cpu").with("touch", touch), SHORT);
    }
    let id = of.case("roundtrip", 3000, "same-cpu").with("direction", "request");
    let measured = runs::measure(host, &runs::prepare(host, &id).unwrap(), SHORT);
    assert_eq!(measured.roles[0].counted.received_bytes, 0, "{id}");
}

fn threads(host: &Host, of: Of) {
    let id = of.case("roundtrip", 100, "same-cpu").with("peers", "thread");
    match runs::prepare(host, &id) {
        Ok(case) => drop(runs::measure(host, &case, SHORT)),
        Err(why) => assert!(of.client == "gdbus" && why.contains("leave out peers=thread"), "{id}: {why}"),
    }
}

fn signals(host: &Host, of: Of) {
    for (payload_bytes, placement, receivers, burst) in
        [(8, "same-cpu", "5", "1"), (100, "two-cpus", "2", "3"), (64 << 10, "free", "3", "4")]
    {
        let id =
            of.case("fan-out", payload_bytes, placement).with("receivers", receivers).with("burst", burst);
        let Some(measured) = measured::measure(host, &id) else { continue };
        let sent = measured.roles[0].counted.ops;
        assert!(measured.roles.iter().all(|role| role.counted.ops == sent), "{id}");
        assert_eq!(measured::series(&measured, "lost").iter().sum::<f64>(), 0.0, "{id}");
    }
}

fn asks(host: &Host, of: Of) {
    for call in ["GetId", "NameHasOwner", "GetNameOwner", "match"] {
        let measured = measured::measure(host, &of.case("solo", 0, "same-cpu").with("call", call)).unwrap();
        let (name, beside) = measured.roles[0].counted.beside.clone().unwrap();
        assert!(name == "broker" && beside.cpu_ns > 0, "{call}: {beside:?}");
    }
}

/// Long enough that counts per operation are those of most operations.
const MEDIUM: Timing = Timing { sample_ns: 2_000_000, samples: 10, least_samples: 10, run_ns: 20_000_000 };

/// On one CPU an end waits at least once for each message, and a thread of a library that hands it over once more.
fn counts(host: &Host, of: Of) {
    let id = of.case("roundtrip", 100, "same-cpu");
    let measured = runs::measure(host, &runs::prepare(host, &id).unwrap(), MEDIUM);
    let least = if of.client == "gdbus" { 1.8 } else { 0.9 };
    for role in &measured.roles {
        let counted = &role.counted;
        let switches =
            (counted.task.voluntary_switches + counted.task.involuntary_switches) as f64 / counted.ops as f64;
        assert!(switches >= least, "{id}: {switches} switches of the {}", role.role);
        assert!(counted.task.cpu_ns > counted.ops * 1000, "{id}: {counted:?}");
    }
}

fn refusals(host: &Host, of: Of) {
    for (id, words) in [
        (of.case("roundtrip", 1, "free").with("wait", "poll"), "leave out the axis wait"),
        (of.case("roundtrip", 1, "free").with("read-bytes", "2048"), "leave out the axis read-bytes"),
        (
            of.case("fan-out", 64, "free").with("receivers", "1").with("rules", "10"),
            "leave out rules or client",
        ),
    ] {
        let why = runs::prepare(host, &id).unwrap_err();
        assert!(why.contains(words), "{id}: {why}");
    }
}
