//! Peers that die, servers that die, and what the others are told.
#![cfg(not(loom))]

mod common;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway::{Error, Gone, Group, Policy, Published, Received, SubscribeOptions, Subscriber, Waited};
use common::{LONG, Peer, Random, eventually, join, play, setting, small};

#[test]
fn role() {
    let Some((role, socket, number)) = play() else { return };
    match role.as_str() {
        "hold-a-claim" => {
            let group = join(&socket);
            let mut publisher = group.publisher().unwrap();
            let _loan = publisher.loan_within(8, Some(LONG)).unwrap().unwrap();
            std::thread::sleep(LONG);
        }
        "receive-nothing" => {
            let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
            // Listed as asleep, it has found its place in the log.
            let _ = subscriber.arm().unwrap();
            std::thread::sleep(LONG);
        }
        "sleep" => {
            let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
            let _ = subscriber.wait(Some(LONG));
        }
        "serve-and-publish" => {
            let group = Group::create("served", small()).unwrap();
            let mut publisher = group.publisher().unwrap();
            group.serve_at(&socket).unwrap();
            let _ = publisher.publish(b"first").unwrap();
            std::thread::sleep(LONG);
        }
        "serve-others" => {
            let group = Group::create("served", small().remote_publishers(number as u32)).unwrap();
            group.serve_at(&socket).unwrap();
            std::thread::sleep(LONG);
        }
        "publish-for-ever" => {
            let mut publisher = join(&socket).publisher().unwrap();
            let mut count = 0u64;
            while let Ok(Published::At(_)) = publisher.publish_within(&count.to_le_bytes(), Some(LONG)) {
                count += 1;
            }
        }
        other => panic!("unknown role {other}"),
    }
}

#[test]
fn what_a_killed_publisher_left_unfinished_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let group = Group::create("killed", small().several_publishers().remote_publishers(1)).unwrap();
    group.serve_at(&socket).unwrap();
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).within(LONG)).unwrap();
    let mut publisher = group.publisher().unwrap();
    eventually("the victim claims nothing", || subscriber.health().unwrap().unfinished_by.is_some());
    let _ = publisher.publish(b"behind it").unwrap();
    assert_eq!(subscriber.receive().unwrap(), Received::Empty);
    victim.kill();
    assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
    let Received::Message(message) = subscriber.receive().unwrap() else {
        panic!("no message after the victim's")
    };
    assert_eq!(message.bytes, b"behind it");
}

#[test]
fn a_killed_receiver_stops_holding_space() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let group = Group::create("killed", small()).unwrap();
    group.serve_at(&socket).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    eventually("the victim does not join", || group.report().unwrap().receivers.len() == 1);
    while let Published::At(_) = publisher.publish(b"x").unwrap() {}
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| publisher.publish_within(b"y", Some(LONG)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        victim.kill();
        assert!(matches!(blocked.join().unwrap(), Published::At(_)));
    });
}

#[test]
fn receivers_that_sleep_learn_that_publisher_and_server_died_together() {
    for own_descriptor in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("group");
        let mut server = Peer::start("serve-and-publish", &socket, 0);
        let group = join(&socket);
        let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
        subscriber.sleep_on_descriptor(own_descriptor);
        assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
        assert!(matches!(subscriber.receive().unwrap(), Received::Message(_)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || subscriber.wait(None));
            std::thread::sleep(Duration::from_millis(30));
            server.kill();
            let gone = waiting.join().unwrap();
            assert!(matches!(gone, Err(Error::PeerGone(Gone::Publishers))), "{gone:?}");
        });
        assert!(group.subscribe(Policy::Reliable).is_err(), "nobody serves this group any more");
    }
}

#[test]
fn a_descriptor_in_a_loop_becomes_readable_when_everybody_died() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-and-publish", &socket, 0);
    let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
    while let Received::Message(_) = subscriber.receive().unwrap() {}
    assert!(subscriber.arm().unwrap());
    server.kill();
    assert_eq!(causeway_os::process::poll(&[subscriber.as_fd()], Some(LONG)).unwrap(), [true]);
    let gone = subscriber.arm();
    assert!(matches!(gone, Err(Error::PeerGone(Gone::Publishers))), "{gone:?}");
}

#[test]
fn traffic_goes_on_when_the_server_dies_and_ends_when_the_last_publisher_does() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-others", &socket, 2);
    let mut victim = Peer::start("publish-for-ever", &socket, 0);
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Lossy).within(LONG)).unwrap();
    server.kill();
    server.wait();
    eventually("the server's death goes unnoticed", || publisher.server_is_gone());
    assert!(subscriber.health().unwrap().server_is_gone);
    let mut from = BTreeMap::new();
    while from.len() < 2 || from.values().any(|count| *count < 100) {
        let _ = publisher.publish(b"still here").unwrap();
        assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
        if let Received::Message(message) = subscriber.receive().unwrap() {
            *from.entry(message.publisher).or_insert(0) += 1;
        }
    }
    victim.kill();
    victim.wait();
    drop(publisher);
    loop {
        match subscriber.wait(Some(LONG)) {
            Ok(Waited::Ready) => drop(subscriber.receive().map(drop)),
            Ok(Waited::TimedOut) => panic!("a receiver hangs on a group without publishers"),
            Err(Error::PeerGone(Gone::Publishers)) => break,
            // The publisher may have been killed in the middle of a frame, which nobody is left to decide.
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_publisher_without_a_server_still_notices_that_the_receiver_it_waits_for_died() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-others", &socket, 1);
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    std::thread::sleep(Duration::from_millis(50));
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    eventually("the victim does not join", || group.report().unwrap().receivers.len() == 1);
    while let Published::At(_) = publisher.publish(b"x").unwrap() {}
    server.kill();
    server.wait();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| publisher.publish_within(b"y", Some(LONG)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        victim.kill();
        assert!(matches!(blocked.join().unwrap(), Published::At(_)));
    });
}

/// A way to look without ever waiting.
type Look = fn(&mut Subscriber) -> Result<(), Error>;

#[test]
fn receivers_that_only_look_learn_that_publisher_and_server_died_together() {
    let looks: [Look; 3] = [
        |subscriber| subscriber.receive().map(drop),
        |subscriber| subscriber.receive_in_place().map(drop),
        |subscriber| subscriber.is_ready().map(drop),
    ];
    for look in looks {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("group");
        let mut server = Peer::start("serve-and-publish", &socket, 0);
        let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
        while let Received::Message(_) = subscriber.receive().unwrap() {}
        look(&mut subscriber).unwrap();
        server.kill();
        server.wait();
        let mut gone = Ok(());
        eventually("a receiver that looks is not told", || {
            gone = look(&mut subscriber);
            gone.is_err()
        });
        assert!(matches!(gone, Err(Error::PeerGone(Gone::Publishers))), "{gone:?}");
    }
}

#[test]
fn a_receiver_that_only_looks_goes_on_without_a_server_until_the_last_publisher_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-others", &socket, 1);
    let mut publisher = Peer::start("publish-for-ever", &socket, 0);
    let options = SubscribeOptions::new(Policy::Lossy).within(LONG);
    let mut subscriber = join(&socket).subscribe(options).unwrap();
    server.kill();
    server.wait();
    let mut messages = 0;
    eventually("traffic ends with the server", || {
        (0..1000).for_each(|_| messages += u32::from(subscriber.receive().unwrap() != Received::Empty));
        messages > 10_000
    });
    publisher.kill();
    publisher.wait();
    eventually("a receiver that looks is not told", || {
        (0..1000).any(|_| matches!(subscriber.receive(), Err(Error::PeerGone(Gone::Publishers))))
    });
}

#[test]
fn a_publisher_that_only_tries_goes_on_when_server_and_receiver_were_killed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-others", &socket, 1);
    let group = join(&socket);
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    let mut publisher = group.publisher().unwrap();
    let asleep = || group.report().unwrap().receivers.iter().any(|receiver| receiver.asleep);
    eventually("the victim does not join", asleep);
    while let Published::At(_) = publisher.publish(b"x").unwrap() {}
    server.kill();
    server.wait();
    assert_eq!(publisher.publish(b"y").unwrap(), Published::Full);
    victim.kill();
    victim.wait();
    eventually("the dead receiver holds the publisher up", || {
        matches!(publisher.publish(b"z").unwrap(), Published::At(_))
    });
}

/// Only a server decides what a dead publisher left unfinished. Without one, receivers are not left in the dark.
#[test]
fn a_message_that_nobody_is_left_to_decide_is_named_with_its_publisher() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("group");
    let mut server = Peer::start("serve-others", &socket, 2);
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).within(LONG)).unwrap();
    eventually("the victim claims nothing", || subscriber.health().unwrap().unfinished_by.is_some());
    server.kill();
    server.wait();
    victim.kill();
    victim.wait();
    let _ = publisher.publish(b"behind it").unwrap();
    assert_eq!(subscriber.wait(Some(Duration::from_millis(20))).unwrap(), Waited::TimedOut);
    let health = subscriber.health().unwrap();
    assert!(health.server_is_gone, "{health:?}");
    assert!(health.unfinished_by.is_some_and(|by| by != publisher.id()), "{health:?}");
}

/// Descriptors and mappings of this process that have to do with groups.
fn belongings() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("causeway")).count())
}

/// The leak oracle. Runs in a process of its own, so that no other test opens descriptors meanwhile.
#[test]
fn two_hundred_kills_leave_nothing_behind() {
    const ALONE: &str = "CAUSEWAY_TEST_LEAKS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "two_hundred_kills_leave_nothing_behind", "--nocapture"])
            .env(ALONE, "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let before = belongings();
    let mut random = Random(0x5eed);
    let kills = setting("CAUSEWAY_KILLS", 200);
    for round in 0..kills / 10 {
        let socket = dir.path().join(format!("group{round}"));
        let group = Group::create("storm", small().several_publishers().remote_publishers(4)).unwrap();
        group.serve_at(&socket).unwrap();
        let mut peers: Vec<Peer> = (0..10)
            .map(|number| {
                Peer::start(["publish-for-ever", "sleep"][usize::from(number >= 4)], &socket, number)
            })
            .collect();
        let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Lossy).within(LONG)).unwrap();
        let mut publisher = group.publisher().unwrap();
        while !peers.is_empty() {
            let index = random.next() as usize % peers.len();
            std::thread::sleep(Duration::from_micros(random.next() % 3000));
            peers.swap_remove(index).kill();
            // Those who are left go on.
            let published = publisher.publish_within(b"alive", Some(LONG)).unwrap();
            assert!(matches!(published, Published::At(_)), "the group is stuck");
            assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
            while !matches!(subscriber.receive().unwrap(), Received::Empty) {}
        }
        eventually("the dead are still listed", || {
            let report = group.report().unwrap();
            (report.publishers.len(), report.receivers.len()) == (1, 1)
        });
    }
    // The thread that watches servers stays, with its two descriptors.
    let after = belongings();
    assert!(after.0 <= before.0 + 2, "descriptors: {before:?} before, {after:?} after");
    assert_eq!(after.1, before.1, "mappings: {before:?} before, {after:?} after");
}
