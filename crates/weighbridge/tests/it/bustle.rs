//! Counts and times of a capture from a real bus, beside those of Bustle (`bustle --count`, `bustle --time`), a program that shares no code
//! with this one. Skipped where `bustle` or `dbus-daemon` is not installed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use causeway_dbus_wire::wire::{Body, Builder};
use causeway_testkit::{Cause, has_program, skipped};
use serde_json::Value;

use crate::captures::{Random, Scribe, to_driver};
use crate::dbus::output;
use crate::dbus_live::Bus;
use crate::folder;

/// Messages of the made capture that is replayed on the bus; `BUSTLE_MESSAGES` is another number.
const MESSAGES: usize = 20_000;
/// Bustle prints thousandths of what it counts in, and times of a capture are read as microseconds.
const MOST_DIFFERENCE_MS: f64 = 0.001;

/// Lines of `bustle OPTION FILE` as words, or nothing where it is not installed.
fn bustle(folder: &Path, option: &str) -> Option<Vec<Vec<String>>> {
    if !has_program("bustle") {
        return None;
    }
    let output = Command::new("bustle").arg(option).arg("bus.pcap").current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        skipped(Cause::Missing("bustle"), format!("bustle {option} does not run: {said}"));
        return None;
    }
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(|line| line.split_whitespace().map(String::from).collect()).collect())
}

/// About so many messages between fifty connections: calls of twenty services, which answer or refuse, and signals that some want.
fn made(messages: usize) -> Vec<u8> {
    let mut scribe = Scribe::new(Vec::new());
    let mut random = Random(7);
    let client = |number: usize| format!(":1.{number}");
    for number in 0..20 {
        let rule = format!("type='signal',interface='com.example.Service{number}'");
        scribe.say(&to_driver(&client(20 + number), "AddMatch").body(Body::default().text(&rule)));
    }
    let mut said = 20;
    while said < messages {
        let (caller, number) = (client(20 + random.below(30)), random.below(20));
        let (service, interface) = (client(number), format!("com.example.Service{number}"));
        let body = Body::default().text("a text").u32(random.below(1_000) as u32);
        let call = |member| Builder::call("/com/example", member).interface(&interface).destination(&service);
        match random.below(10) {
            0 => {
                let serial = scribe.say(&call("Refuse").sender(&caller).body(body));
                let error = Builder::error(serial, "com.example.Error.Refused");
                scribe.say(&error.sender(&service).destination(&caller));
                said += 2;
            }
            1..=5 => {
                let member = if random.below(3) == 0 { "Set" } else { "Get" };
                let serial = scribe.say(&call(member).sender(&caller).body(body));
                scribe.say(&Builder::reply(serial).sender(&service).destination(&caller));
                said += 2;
            }
            _ => {
                scribe
                    .say(&Builder::signal("/com/example", &interface, "Changed").sender(&service).body(body));
                said += 1;
            }
        }
    }
    scribe.finish()
}

/// Records a bus while a made capture is replayed on it: `bus.pcap`.
fn record(folder: &Path) -> Option<()> {
    let bus = Bus::start(folder, "")?;
    let messages = std::env::var("BUSTLE_MESSAGES").map_or(MESSAGES, |count| count.parse().unwrap());
    std::fs::write(folder.join("made.pcap"), made(messages)).unwrap();
    let mut recording = bus.record(folder);
    output(folder, &format!("replay made.pcap --broker {}", bus.address), 0);
    // What was sent to the monitor before the bus ends is recorded, and both programs read the same file.
    drop(bus);
    recording.wait();
    Some(())
}

#[test]
fn counts_and_times_of_a_real_bus_agree_with_bustle_line_by_line() {
    let folder = folder();
    let folder = folder.path();
    let Some(()) = record(folder) else { return };
    let (Some(counted), Some(timed)) = (bustle(folder, "--count"), bustle(folder, "--time")) else { return };
    let (json, _) = output(folder, "analyse bus.pcap --format json", 0);
    let ours: Value = serde_json::from_str(&json).unwrap();
    let name =
        |row: &Value| format!("{}.{}", row["interface"].as_str().unwrap(), row["member"].as_str().unwrap());

    let counts_of_bustle: BTreeMap<(String, String), u64> =
        counted.iter().map(|line| ((line[1].clone(), line[2].clone()), line[0].parse().unwrap())).collect();
    let mut counts = BTreeMap::new();
    for row in ours["by_member"].as_array().unwrap() {
        let kind = match row["kind"].as_str().unwrap() {
            "method_call" => "method",
            "signal" => "signal",
            _ => continue,
        };
        // Bustle leaves out what is said to the bus itself and by it.
        if name(row).starts_with("org.freedesktop.DBus.") {
            continue;
        }
        counts.insert((kind.to_owned(), name(row)), row["messages"].as_u64().unwrap());
    }
    assert_eq!(counts, counts_of_bustle);

    let mut times: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for row in ours["calls"]["methods"].as_array().unwrap() {
        let sum = times.entry(name(row)).or_default();
        sum.0 += row["latency"]["count"].as_u64().unwrap();
        sum.1 += row["latency"]["total_us"].as_f64().unwrap() / 1000.0;
    }
    assert_eq!(timed.len(), 40, "{timed:?}");
    // Bustle times calls that were answered without an error.
    for line in &timed {
        let (total_ms, calls): (f64, u64) = (line[0].parse().unwrap(), line[1].parse().unwrap());
        let (our_calls, our_ms) = times[&line[3]];
        assert_eq!(calls, our_calls, "{line:?}");
        assert!((total_ms - our_ms).abs() <= MOST_DIFFERENCE_MS * calls as f64, "{line:?}: {our_ms} ms");
    }
}
