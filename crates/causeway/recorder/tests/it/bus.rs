//! What is recorded of a bus.

use causeway_bus::Connection;
use causeway_bus::wire::{Body, Header};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{contents, end, eventually, record_bus, recorder, serve_bus, temp_dir, verified};

#[test]
fn messages_of_a_bus_are_recorded_as_they_passed_with_the_time_at_which_they_were_sent() {
    let folder = temp_dir("recorder");
    let (native, file) = (folder.path().join("native"), folder.path().join("a.mcap"));
    let stop = serve_bus(&native);
    let file = file.to_str().unwrap();
    let running = record_bus(&native, file, &[]);
    let mut bus = Connection::open(&native).unwrap();
    for number in 0..50u32 {
        bus.emit("/", "com.example.Clock", "Ticked", Body::default().u32(number)).unwrap();
    }
    // One that is too long for an outbox: a monitor sees its header.
    bus.emit("/", "com.example.Clock", "Said", Body::default().text(&"x".repeat(200_000))).unwrap();
    drop(bus);
    eventually("the end of the member is not recorded", || {
        contents(file).messages.iter().any(|message| message.topic.ends_with("/Said"))
    });
    running.signal(Signal::TERM).unwrap();
    let (code, said) = end(running);
    assert!(code == 0 && said.contains("of 1 only the header"), "{code}: {said}");

    let found = contents(file);
    let ticks: Vec<_> =
        found.messages.iter().filter(|message| message.topic == "/signal/com.example.Clock/Ticked").collect();
    assert_eq!(ticks.len(), 50);
    let mut last_ns = 0;
    for (number, tick) in ticks.iter().enumerate() {
        let header = Header::parse(&tick.data).unwrap();
        assert_eq!(
            (header.member, header.serial, tick.encoding.as_str()),
            (Some("Ticked"), tick.sequence, "dbus")
        );
        assert_eq!(tick.data[header.header_bytes..], (number as u32).to_ne_bytes());
        assert!(tick.publish_ns >= last_ns && tick.publish_ns <= tick.log_ns + 1_000_000, "{tick:?}");
        last_ns = tick.publish_ns;
    }
    assert!(found.metadata.iter().any(|of| of.name == "causeway.clock"), "{:?}", found.metadata);
    let positions: Vec<u64> = found.frames.iter().map(|frame| frame.0).collect();
    assert!(positions.windows(2).all(|pair| pair[1] == pair[0] + 1), "{positions:?}");
    let (code, counts) = verified(&[file]);
    assert_eq!((code, &counts.unwrap()["header_only"]), (0, &1.into()));

    // The end of the bus is that of a recording.
    let second = folder.path().join("b.mcap");
    let running = record_bus(&native, second.to_str().unwrap(), &[]);
    drop(stop);
    let (code, said) = end(running);
    assert!(code == 0 && contents(&second).is_whole, "{code}: {said}");
}

#[test]
fn messages_of_a_bus_have_twins_in_json_which_are_no_messages_of_the_bus() {
    let folder = temp_dir("recorder");
    let (native, file) = (folder.path().join("native"), folder.path().join("a.mcap"));
    let _stop = serve_bus(&native);
    let file = file.to_str().unwrap();
    let running = record_bus(&native, file, &["--json"]);
    let mut bus = Connection::open(&native).unwrap();
    for number in 0..5u32 {
        let body = Body::default().text("a \"quote\"").u32(number);
        bus.emit("/clock", "com.example.Clock", "Ticked", body).unwrap();
    }
    eventually("not all is recorded", || {
        contents(file).messages.iter().filter(|message| message.topic.ends_with("/Ticked")).count() == 10
    });
    running.signal(Signal::TERM).unwrap();
    assert_eq!(end(running).0, 0);

    let found = contents(file);
    let (twins, own): (Vec<_>, Vec<_>) =
        found.messages.iter().partition(|message| message.topic.starts_with("/json/"));
    assert_eq!((twins.len(), own.len()), (own.len(), found.frames.len()));
    for ((twin, own), frame) in twins.iter().zip(&own).zip(&found.frames) {
        assert_eq!(twin.topic, format!("/json{}", own.topic));
        assert_eq!((twin.encoding.as_str(), twin.sequence, twin.log_ns), ("json", own.sequence, own.log_ns));
        let said: Value = serde_json::from_slice(&twin.data).unwrap();
        assert_eq!((&said["serial"], &said["position"]), (&own.sequence.into(), &frame.0.into()));
    }
    let ticks = twins.iter().filter(|twin| twin.topic.ends_with("/Ticked"));
    for (number, tick) in ticks.enumerate() {
        let said: Value = serde_json::from_slice(&tick.data).unwrap();
        assert_eq!((&said["data"], &said["type"]), (&json!(["a \"quote\"", number]), &"su".into()));
        assert_eq!((&said["path"], &said["sender"]), (&"/clock".into(), &bus.unique_name().into()));
    }
    let bytes = std::fs::read(file).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let schema = |topic: &str| {
        let channel = summary.channels.values().find(|channel| channel.topic == topic).unwrap();
        channel.schema.as_ref().map(|schema| schema.encoding.clone())
    };
    assert_eq!(schema("/json/signal/com.example.Clock/Ticked"), Some("jsonschema".into()));
    assert_eq!(schema("/signal/com.example.Clock/Ticked"), None);
    let (code, counts) = verified(&[file]);
    assert_eq!((code, &counts.unwrap()["messages"]), (0, &own.len().into()));
    // A replay passes over them.
    let again = folder.path().join("again");
    let output = recorder(&["replay", file, again.to_str().unwrap(), "--speed", "max"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("5 messages of 1 connections replayed"), "{said}");
}
