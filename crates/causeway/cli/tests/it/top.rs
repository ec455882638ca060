//! `causeway bus top`, and `stat --json`: who holds what, of members and of D-Bus clients.

use std::io::{BufRead, BufReader};

use causeway_bus::Connection;
use causeway_bus::client;
use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};

use crate::bus::Bus;
use crate::support::{causeway, complaint, eventually, printed, temp_dir};

/// Signals with so many bytes in all for one that does not read.
fn fill(sender: &mut client::Bus, to: &str, count: usize) {
    let message = Builder::call("/", "Take").destination(to).flags(FLAG_NO_REPLY_EXPECTED);
    let message = message.body(Body::default().blob(&[7; 100_000]));
    (0..count).for_each(|_| assert!(sender.send(&message).unwrap() > 0));
    sender.ask_driver("GetId", Body::default()).unwrap();
}

#[test]
fn who_fills_a_queue_is_in_the_first_row() {
    let folder = temp_dir("causeway");
    let Some(bus) = Bus::dbus(&folder) else { return };
    let open = || client::Bus::connect(&bus.option[1]).unwrap();
    let (mut sender, mut stalled) = (open(), open());
    stalled.request_name("com.example.Stalled", 0).unwrap();
    fill(&mut sender, stalled.unique_name(), 20);
    let rows = |arguments: &[&str]| -> Vec<Vec<String>> {
        let said = bus.says(arguments);
        said.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let once = rows(&["top", "--once"]);
    let own = std::process::id().to_string();
    assert_eq!(once[0][..5], ["CONNECTION", "PID", "USER", "PROGRAM", "HELD"]);
    assert_eq!(once[1][..2], [stalled.unique_name().to_owned(), own], "{once:?}");
    assert!(once[1][4].parse::<u64>().unwrap() > 100_000, "{once:?}");
    assert!(once[1].contains(&"com.example.Stalled".to_owned()) && once.len() == 3, "{once:?}");
    // By messages it is the other one, which has the answers to its calls, too.
    let by_messages = rows(&["top", "--sort", "messages", "--rows", "1", "--once"]);
    assert_eq!((by_messages[1][0].as_str(), by_messages.len()), (sender.unique_name(), 2), "{by_messages:?}");
    let twice = bus.says(&["top", "--limit", "2", "--interval", "100ms"]);
    assert_eq!(twice.matches("PROGRAM").count(), 2, "{twice}");
    assert!(!twice.contains('\x1b'), "a pipe got what is for a terminal: {twice}");
    let stat = bus.json(&["stat", "--json"]);
    let of = |unique: &str| {
        let rows = stat["connections"].as_array().unwrap();
        rows.iter().find(|row| row["unique"] == unique).unwrap_or_else(|| panic!("{stat}"))
    };
    let of = of(stalled.unique_name());
    assert_eq!((&of["names"][0], of["uid"].is_u64()), (&"com.example.Stalled".into(), true), "{of}");
    assert!(of["program"].is_string() && of["cgroup"].is_string(), "{of}");
    assert!(of["statistics"]["OutgoingBytes"].as_u64() > Some(100_000), "{of}");
    assert!(of["statistics"]["OldestMilliseconds"].is_u64(), "{of}");
}

/// At a native socket there are the same facts, of members.
#[test]
fn a_member_that_does_not_read_has_an_age() {
    let folder = temp_dir("causeway");
    let bus = Bus::native(&folder);
    let stalled = Connection::open(&bus.option[1]).unwrap();
    let mut sender = client::Bus::open(&format!("causeway:path={}", bus.option[1])).unwrap();
    let take = Builder::call("/", "Take").destination(stalled.unique_name()).flags(FLAG_NO_REPLY_EXPECTED);
    sender.send(&take).unwrap();
    let of = || {
        let stat = bus.json(&["stat", "--json"]);
        let rows = stat["connections"].as_array().unwrap().clone();
        let found = rows.into_iter().find(|row| row["unique"] == stalled.unique_name());
        found.unwrap_or_else(|| panic!("{stat}"))
    };
    eventually("nothing waits", || of()["statistics"]["OldestMilliseconds"].as_u64() >= Some(10));
    let of = of();
    assert!(of["lag"].as_u64() > Some(0) && of["statistics"]["UnreadEntries"].as_u64() > Some(0), "{of}");
    let top = bus.says(&["top", "--sort", "oldest", "--once"]);
    assert!(top.lines().skip(2).any(|row| row.starts_with(stalled.unique_name())), "{top}");
}

#[test]
fn top_ends_quietly_when_nobody_reads_it() {
    let folder = temp_dir("causeway");
    let Some(bus) = Bus::dbus(&folder) else { return };
    let mut command = bus.command(&["top", "--interval", "100ms"]);
    let mut running = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("connections: "), "{line}");
    assert_eq!(printed(running.wait_with_output().unwrap()), "");
}

/// Before, an interval of nothing asked the bus without a pause, and a reply could be awaited for no time.
#[test]
fn numbers_and_times_that_make_no_sense_are_refused_in_a_sentence() {
    for (arguments, words) in [
        (&["top", "--interval", "0s"][..], "100ms or more"),
        (&["top", "--interval", "1"], "write a time with its unit"),
        (&["top", "--rows", "0"], "1 or more"),
        (&["top", "--limit", "0"], "1 or more"),
        (&["monitor", "--limit", "0"], "1 or more"),
        (&["call", "a.B", "/", "a.B", "C", "--timeout", "0s"], "no reply comes in no time"),
        (&["tree", "a.B", "--timeout", "0ms"], "no reply comes in no time"),
        (&["wait", "a.B", "--timeout", "5"], "write a time with its unit"),
    ] {
        let output = causeway(&[&["bus"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let why = complaint(output);
        assert!(why.contains(words), "{arguments:?}: {why}");
    }
}
