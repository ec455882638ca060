//! What is recorded of a group.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use causeway::{GroupOptions, PoolOptions};
use causeway_testkit::{Cause, Running, trial_succeeds};
use rustix::process::Signal;

use crate::support::{
    Served, contents, end, eventually, has_mcap, mcap, number, payload, publish_now, recorder, verified,
};

fn several() -> GroupOptions {
    GroupOptions::new().several_publishers().capacity_bytes(1 << 20)
}

#[test]
fn every_message_is_recorded_with_its_bytes_in_the_order_and_at_the_place_that_it_has_in_the_log() {
    let mut served = Served::new(several());
    let running = served.record("a.mcap", &[]);
    let mut publishers = [served.group().publisher().unwrap(), served.group().publisher().unwrap()];
    let mut published = Vec::new();
    for round in 0..3000u64 {
        let which = (round % 3 == 0) as usize;
        let (topic, payload) = ((round % 5) as u32, payload(round, 1 + (round % 90) as usize * 11));
        let at = publishers[which].publish_with_topic(topic, &payload).unwrap();
        published.push((at.0, which as u16, topic, payload));
        served.received(round.saturating_sub(500));
    }
    drop((publishers, served.group.take()));
    let (code, said) = end(running);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("3000 messages recorded, 0 lost"), "{said}");

    let found = contents(served.path("a.mcap"));
    assert!(found.is_whole && found.lost == 0);
    assert_eq!((found.messages.len(), found.frames.len()), (3000, 3000));
    let mut counts = [0u32; 2];
    for ((message, frame), (position, slot, topic, payload)) in
        found.messages.iter().zip(&found.frames).zip(&published)
    {
        assert_eq!((frame.0, frame.1, frame.2), (*position, 0, *slot));
        assert_eq!((message.topic.as_str(), &message.data), (format!("/topic/{topic}").as_str(), payload));
        assert_eq!(
            message.sequence,
            std::mem::replace(&mut counts[usize::from(*slot)], message.sequence + 1)
        );
        assert!(message.publish_ns == message.log_ns && message.encoding.is_empty());
    }
    let (code, counts) = verified(&[&served.path("a.mcap")]);
    let counts = counts.unwrap();
    assert_eq!(
        (code, &counts["messages"], &counts["padding_bytes"]),
        (0, &3000.into(), &0.into()),
        "{counts}"
    );
    assert_eq!(counts["last_position"], published.last().unwrap().0);
    if has_mcap() {
        let doctor = mcap(&["doctor", &served.path("a.mcap")]);
        let said = [doctor.stdout, doctor.stderr].concat();
        let said = String::from_utf8_lossy(&said).to_lowercase();
        assert!(doctor.status.success() && !said.contains("error") && !said.contains("warn"), "{said}");
    }
    let mode = std::fs::metadata(served.path("a.mcap")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "what was said in a group of one user is for that user");
}

#[test]
fn a_recorder_that_is_told_to_end_records_what_is_in_the_log_and_finishes_its_file() {
    let served = Served::new(several());
    let running = served.record("a.mcap", &["--sync", "--compression", "none"]);
    let mut publisher = served.group().publisher().unwrap();
    for number in 0..100 {
        publish_now(&mut publisher, &payload(number, 40));
    }
    running.signal(Signal::TERM).unwrap();
    let (code, said) = end(running);
    assert_eq!(code, 0, "{said}");
    let found = contents(served.path("a.mcap"));
    assert!(found.is_whole);
    assert!(found.messages.iter().map(number).eq(0..100), "{:?}", found.messages.len());
}

#[test]
fn a_message_is_in_the_file_soon_although_nothing_follows_it() {
    let served = Served::new(several());
    let _running = served.record("a.mcap", &[]);
    publish_now(&mut served.group().publisher().unwrap(), b"alone");
    // It goes on, so the file has no end yet.
    eventually("the message is not in the file", || {
        let (code, counts) = verified(&[&served.path("a.mcap")]);
        code == 1 && counts.is_ok_and(|counts| counts["messages"] == 1 && counts["cut_off"] == 1)
    });
}

#[test]
fn what_a_recorder_misses_is_counted_where_it_is_missing_and_no_publisher_waits_for_it() {
    let mut served = Served::new(GroupOptions::new().capacity_bytes(4096));
    let running = served.record("a.mcap", &[]);
    let mut publisher = served.group().publisher().unwrap();
    publish_now(&mut publisher, &payload(0, 40));
    served.received(1);
    running.stop();
    for number in 1..1000 {
        publish_now(&mut publisher, &payload(number, 40));
    }
    running.resume();
    eventually("the rest is not recorded", || {
        let seen = &served.group().report().unwrap().subscribers[0];
        seen.received + seen.lost_messages == 1000
    });
    drop((publisher, served.group.take()));
    let (code, said) = end(running);
    assert_eq!(code, 1, "{said}");
    let found = contents(served.path("a.mcap"));
    let numbers: Vec<u64> = found.messages.iter().map(number).collect();
    assert!(
        found.lost > 0 && found.lost + numbers.len() as u64 == 1000,
        "{} lost, {}",
        found.lost,
        numbers.len()
    );
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers.ends_with(&[999]), "{numbers:?}");
    let (code, counts) = verified(&[&served.path("a.mcap")]);
    assert_eq!((code, &counts.unwrap()["lost"]), (1, &found.lost.into()));
}

#[test]
fn a_log_that_follows_another_one_is_another_epoch_and_nothing_is_missing_between() {
    let mut served = Served::new(GroupOptions::new().several_publishers().capacity_bytes(1 << 16));
    let running = served.record("a.mcap", &[]);
    let mut publisher = served.group().publisher().unwrap();
    for number in 0..60 {
        publish_now(&mut publisher, &payload(number, 100));
        if number % 20 == 19 {
            served.received(number + 1);
        }
        // The group does not end in the middle of the last change.
        if number % 20 == 19 && number < 59 {
            served.group().resize(1 << (16 + number / 20)).unwrap();
        }
    }
    drop((publisher, served.group.take()));
    let (code, said) = end(running);
    assert_eq!(code, 0, "{said}");
    let found = contents(served.path("a.mcap"));
    assert!(found.messages.iter().map(number).eq(0..60));
    let epochs: Vec<u32> = found.frames.iter().map(|frame| frame.1).collect();
    assert!(epochs.is_sorted() && epochs.first() < epochs.last(), "{epochs:?}");
    assert_eq!(verified(&[&served.path("a.mcap")]).0, 0);
}

#[test]
fn payloads_by_reference_are_recorded_themselves() {
    let mut served = Served::new(several().large_payloads());
    let running = served.record("a.mcap", &[]);
    let mut publisher = served.group().large_publisher(PoolOptions::new(1 << 20).files(4)).unwrap();
    for number in 0..10u64 {
        let payload = payload(number, 300_000);
        let mut loan = publisher.loan(payload.len()).unwrap();
        loan.copy_from_slice(&payload);
        loan.publish().unwrap();
        served.received(number + 1);
    }
    drop((publisher, served.group.take()));
    let (code, said) = end(running);
    let found = contents(served.path("a.mcap"));
    let recorded: Vec<u64> = found.messages.iter().map(number).collect();
    // Publishers do not wait for the references of a lossy subscriber: beside other work the next payload may be in this file before the
    // last one is copied. Then that is counted, and no other one stands in its place.
    let lost = 10 - recorded.len() as u64;
    assert!(said.contains(&format!("{} messages recorded, {lost} lost", recorded.len())), "{said}");
    assert!(recorded.is_sorted_by(|one, next| one < next) && lost < 5, "{recorded:?}");
    assert!(found.messages.iter().all(|message| message.data.len() == 300_000));
    let expected = i32::from(lost > 0);
    assert_eq!((code, verified(&[&served.path("a.mcap")]).0), (expected, expected), "{said}");
}

#[test]
fn a_recording_of_several_files_has_no_gap_between_them() {
    let mut served = Served::new(several());
    let running = served.record("a.mcap", &["--split", "1048576"]);
    let mut publisher = served.group().publisher().unwrap();
    for number in 0..4000 {
        publish_now(&mut publisher, &payload(number, 1000));
        served.received(number.saturating_sub(300));
    }
    drop((publisher, served.group.take()));
    let (code, said) = end(running);
    assert!(code == 0 && said.contains("4000 messages recorded in 4 files"), "{code}: {said}");
    let files = ["a.mcap", "a.1.mcap", "a.2.mcap", "a.3.mcap"].map(|name| served.path(name));
    let all: Vec<_> = files.iter().map(contents).collect();
    assert!(all.iter().all(|file| file.is_whole && file.messages.len() > 800));
    assert!(all.iter().flat_map(|file| &file.messages).map(number).eq(0..4000));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(verified(&files).0, 0);
    // Without the second one, messages are missing that nothing accounts for.
    let (code, why) = verified(&[files[0], files[2]]);
    assert!(code == 3 && why.as_ref().is_err_and(|why| why.contains("missing")), "{code}: {why:?}");
}

#[test]
fn mistakes_are_told_before_anything_is_recorded() {
    let served = Served::new(several());
    let group = served.path("group");
    let said = |arguments: &[&str]| {
        let output = recorder(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    std::fs::write(served.path("there"), "mine").unwrap();
    let (code, why) = said(&[&group, "-o", &served.path("there")]);
    assert!(code == 2 && why.contains("choose another name") && why.contains("there"), "{code}: {why}");
    assert_eq!(std::fs::read(served.path("there")).unwrap(), b"mine");
    let (code, why) = said(&[&group, "-o", &served.path("nowhere/a.mcap")]);
    assert!(code == 2 && why.contains("make it first"), "{code}: {why}");
    let (code, why) = said(&[&group]);
    assert!(code == 2 && why.contains("--output"), "{code}: {why}");
    let (code, why) = said(&[&served.path("no-group"), "-o", &served.path("a.mcap")]);
    assert!(code == 3 && why.contains("no-group"), "{code}: {why}");
}

/// `message Number { uint64 number = 1; }`, as protobuf describes it to itself: a FileDescriptorSet.
const NUMBER: &[u8] = b"\n+\n\x0cnumber.proto\"\x13\n\x06Number\x12\t\n\x01n\x18\x01 \x01(\x04b\x06proto3";

/// The reader that most people use: `pip install mcap mcap-protobuf-support`, into the interpreter that `CAUSEWAY_PYTHON` names.
#[test]
fn pythons_reader_shows_the_order_of_the_log_and_what_schemas_say() {
    let python = std::env::var("CAUSEWAY_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut import = Command::new(&python);
    import.args(["-c", "import mcap.reader, lz4, mcap_protobuf.decoder"]);
    if !trial_succeeds(&mut import, Cause::Missing("python:mcap")) {
        return;
    }
    let mut served = Served::new(several());
    std::fs::write(served.path("Number.binpb"), NUMBER).unwrap();
    std::fs::write(served.path("number.json"), r#"{"type":"object"}"#).unwrap();
    let schemas = ["5", "6"].map(|topic| {
        let file = if topic == "5" { "Number.binpb" } else { "number.json" };
        format!("{topic}={}", served.path(file))
    });
    let running = served.record("a.mcap", &["--schema", &schemas[0], "--schema", &schemas[1]]);
    let mut publishers = [served.group().publisher().unwrap(), served.group().publisher().unwrap()];
    for number in 0..20_000u64 {
        let topic = (number % 7) as u32;
        let payload = match topic {
            // Seven bits a byte, and more to come in all but the last.
            5 => vec![8, number as u8 | 128, (number >> 7) as u8 | 128, (number >> 14) as u8],
            6 => format!(r#"{{"n":{number}}}"#).into_bytes(),
            _ => payload(number, 100),
        };
        publishers[(number % 2) as usize].publish_with_topic(topic, &payload).unwrap();
        served.received(number.saturating_sub(500));
    }
    drop((publishers, served.group.take()));
    assert_eq!(end(running).0, 0);
    const SCRIPT: &str = "
import json, sys, struct
from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory
protobuf, numbers, positions, last = DecoderFactory(), [], [], 0
with open(sys.argv[1], 'rb') as file:
    for schema, channel, message in make_reader(file).iter_messages():
        assert message.log_time >= last; last = message.log_time
        is_said = schema and (schema.name, schema.encoding)
        if channel.topic == '/causeway/frames':
            positions += [entry[0] for entry in struct.iter_unpack('<QIHH', message.data)]
        elif channel.message_encoding == 'protobuf':
            assert is_said == ('Number', 'protobuf')
            numbers.append(protobuf.decoder_for('protobuf', schema)(message.data).n)
        elif channel.message_encoding == 'json':
            assert is_said == ('number', 'jsonschema')
            numbers.append(json.loads(message.data)['n'])
        else:
            assert is_said is None
            numbers.append(struct.unpack('<Q', message.data[:8])[0])
assert numbers == list(range(20000)), numbers[:20]
assert positions == sorted(positions) and len(positions) == 20000
print('in order')
";
    let output = Command::new(&python).args(["-c", SCRIPT, &served.path("a.mcap")]).output().unwrap();
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("in order"), "{said}{why}");
}

/// A recorder that cannot keep up with its disk loses what the ring cannot hold, and nobody waits.
#[test]
fn a_disk_that_stands_still_costs_the_recording_and_not_the_publishers() {
    let mut served = Served::new(several());
    let fifo = served.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let mut command = recorder(&[&served.path("group"), "-o", &fifo, "--ring", "1048576"]);
    let running = served.joined(Running::start(&mut command));
    let mut publisher = served.group().publisher().unwrap();
    // More than pipe, chunk, ring and log hold together.
    for number in 0..20_000 {
        publish_now(&mut publisher, &payload(number, 1000));
    }
    drop((publisher, served.group.take()));
    let drained = std::thread::spawn(move || {
        use std::io::Read;
        let (mut file, mut bytes, mut piece) = (reader, Vec::new(), vec![0; 1 << 16]);
        while !bytes.ends_with(mcap::MAGIC) || bytes.len() < 100 {
            let read = file.read(&mut piece).unwrap();
            bytes.extend_from_slice(&piece[..read]);
        }
        bytes
    });
    let (code, said) = end(running);
    assert_eq!(code, 1, "{said}");
    let copy = served.path("copy.mcap");
    std::fs::write(&copy, drained.join().unwrap()).unwrap();
    let found = contents(&copy);
    assert!(found.lost > 0 && found.lost + found.messages.len() as u64 == 20_000, "{} lost", found.lost);
    assert_eq!(verified(&[&copy]).0, 1);
}

#[test]
fn a_topic_has_the_schema_that_is_named_and_another_one_has_none() {
    let served = Served::new(several());
    let schema = r#"{"type":"object","properties":{"price":{"type":"number"}}}"#;
    std::fs::write(served.path("Price.json"), schema).unwrap();
    let named = [format!("3={}", served.path("Price.json")), format!("4={},a/msg/B", served.path("b.msg"))];
    std::fs::write(served.path("b.msg"), "int32 number").unwrap();
    let running = served.record("a.mcap", &["--schema", &named[0], "--schema", &named[1]]);
    let mut publisher = served.group().publisher().unwrap();
    for topic in [3, 5, 4, 3] {
        publisher.publish_with_topic(topic, br#"{"price":42.5}"#).unwrap();
    }
    running.signal(Signal::TERM).unwrap();
    assert_eq!(end(running).0, 0);
    let bytes = std::fs::read(served.path("a.mcap")).unwrap();
    let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
    let of = |topic: u32| {
        let topic = format!("/topic/{topic}");
        let channel = summary.channels.values().find(|channel| channel.topic == topic).unwrap();
        let schema = channel.schema.as_ref();
        let schema =
            schema.map(|schema| (schema.name.clone(), schema.encoding.clone(), schema.data.to_vec()));
        (channel.message_encoding.clone(), schema)
    };
    assert_eq!(of(3), ("json".into(), Some(("Price".into(), "jsonschema".into(), schema.into()))));
    assert_eq!(of(4), ("cdr".into(), Some(("a/msg/B".into(), "ros2msg".into(), b"int32 number".into()))));
    assert_eq!(of(5), (String::new(), None));
    assert_eq!(verified(&[&served.path("a.mcap")]).0, 0);
}
