//! What was recorded is published again.

use std::time::{Duration, Instant};

use causeway::{Error, Group, GroupOptions, Policy, Received};
use causeway_testkit::Running;

use crate::support::{Served, contents, end, eventually_joined, payload, publish_now, recorder};

/// A recording of so many messages of several topics.
fn recorded(messages: u64, pause: Duration) -> Served {
    let mut served = Served::new(GroupOptions::new().capacity_bytes(1 << 18));
    let running = served.record("a.mcap", &[]);
    let mut publisher = served.group().publisher().unwrap();
    for number in 0..messages {
        publisher.publish_with_topic((number % 3) as u32, &payload(number, 64)).unwrap();
        served.received(number.saturating_sub(200));
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    drop((publisher, served.group.take()));
    assert_eq!(end(running).0, 0);
    served
}

/// Everything that is published at a path until the group ends.
fn received(path: &str) -> Vec<(u32, Vec<u8>)> {
    let mut subscriber = eventually_joined(path).subscribe(Policy::Reliable).unwrap();
    let mut all = Vec::new();
    loop {
        match subscriber.recv() {
            Ok(Received::Message(message)) => all.push((message.topic, message.bytes.to_vec())),
            Ok(other) => panic!("{other:?}"),
            Err(Error::Disconnected) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_replay_publishes_every_message_with_its_topic_in_the_order_of_the_file() {
    let served = recorded(5000, Duration::ZERO);
    let (file, again) = (served.path("a.mcap"), served.path("again"));
    let mut command = recorder(&["replay", &file, &again, "--speed", "max", "--wait-for-subscribers", "1"]);
    let running = Running::start(&mut command);
    let all = received(&again);
    let (code, said) = end(running);
    assert!(code == 0 && said.contains("5000 messages replayed"), "{code}: {said}");
    assert_eq!(all.len(), 5000);
    for (at, (topic, bytes)) in all.iter().enumerate() {
        assert_eq!((*topic, bytes), ((at % 3) as u32, &payload(at as u64, 64)));
    }
}

#[test]
fn a_replay_keeps_the_gaps_between_messages_scaled_as_it_is_told() {
    let served = recorded(20, Duration::from_millis(10));
    let found = contents(served.path("a.mcap"));
    let spanned = Duration::from_nanos(found.messages[19].log_ns - found.messages[0].log_ns);
    for (speed, at_least) in [("1", spanned), ("0.5", spanned * 2), ("4", spanned / 4)] {
        let again = served.path(&format!("again-{speed}"));
        let begin = Instant::now();
        let file = served.path("a.mcap");
        let output = recorder(&["replay", &file, &again, "--speed", speed]).output().unwrap();
        // Slower it may be on a machine that does other things.
        assert!(
            output.status.success() && begin.elapsed() >= at_least,
            "{speed}: {:?} < {at_least:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn a_replay_goes_into_a_group_that_is_there_when_it_is_told_to() {
    let served = recorded(10, Duration::ZERO);
    let there = Served::new(GroupOptions::new().late_publishers());
    let mut subscriber = there.group().subscribe(Policy::Reliable).unwrap();
    let mut own = there.group().publisher().unwrap();
    publish_now(&mut own, b"before");
    let (file, group) = (served.path("a.mcap"), there.path("group"));
    let output = recorder(&["replay", &file, &group, "--into", "--speed", "max"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    publish_now(&mut own, b"after");
    let mut all = Vec::new();
    while all.last().is_none_or(|last: &Vec<u8>| last != b"after") {
        all.push(subscriber.recv().unwrap().message().unwrap().bytes.to_vec());
    }
    assert_eq!((all.len(), &all[0], &all[10]), (12, &b"before".to_vec(), &payload(9, 64)));
    // A new group is not made where another one is.
    let output = recorder(&["replay", &file, &group]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(Group::join(&group).is_ok());
}
