//! Peers that die, servers that die, and what the others are told.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::common::limits::in_a_process_of_its_own;
use crate::common::{
    LONG, Peer, Rng, Role, drain, eventually, fill, join, place, served, setting, small, spawn_until_blocked,
};
use causeway::{
    Error, Group, Policy, Received, SubscribeOptions, Subscriber, TryPublishError, TryRecvError, Waited,
};

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("hold-a-claim", |socket, _| {
        let group = join(socket);
        let mut publisher = group.publisher().unwrap();
        let _loan = publisher.loan_timeout(8, LONG).unwrap();
        std::thread::sleep(LONG);
    }),
    ("receive-nothing", |socket, _| {
        let mut subscriber = join(socket).subscribe(Policy::Reliable).unwrap();
        // Listed as asleep, it has found its place in the log.
        let _ = subscriber.arm().unwrap();
        std::thread::sleep(LONG);
    }),
    ("sleep", |socket, _| {
        let mut subscriber = join(socket).subscribe(Policy::Reliable).unwrap();
        let _ = subscriber.wait(Some(LONG));
    }),
    ("serve-and-publish", |socket, _| {
        let group = Group::create("served", small()).unwrap();
        let mut publisher = group.publisher().unwrap();
        group.serve_at(socket).unwrap();
        publisher.try_publish(b"first").unwrap();
        std::thread::sleep(LONG);
    }),
    ("serve-others", |socket, number| {
        let group = Group::create("served", small().remote_publishers(number as u32)).unwrap();
        group.serve_at(socket).unwrap();
        std::thread::sleep(LONG);
    }),
    ("publish-for-ever", |socket, _| {
        let mut publisher = join(socket).publisher().unwrap();
        let mut count = 0u64;
        while publisher.publish_timeout(&count.to_le_bytes(), LONG).is_ok() {
            count += 1;
        }
    }),
    ("leak-oracle", |_, number| leak_oracle(number)),
];

#[test]
fn the_unfinished_message_of_a_killed_publisher_blocks_no_subscriber() {
    let (_dir, socket, group) = served(small().several_publishers().remote_publishers(1));
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
    let mut publisher = group.publisher().unwrap();
    eventually("the victim claims nothing", || subscriber.health().unwrap().unfinished_by.is_some());
    publisher.try_publish(b"behind it").unwrap();
    assert!(matches!(subscriber.try_recv(), Err(TryRecvError::Empty)));
    victim.kill();
    assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
    let Received::Message(message) = subscriber.try_recv().unwrap() else {
        panic!("no message after the victim's")
    };
    assert_eq!(message.bytes, b"behind it");
}

#[test]
fn a_killed_subscriber_stops_holding_space() {
    let (_dir, socket, group) = served(small());
    let mut publisher = group.publisher().unwrap();
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    eventually("the victim does not join", || group.report().unwrap().subscribers.len() == 1);
    fill(&mut publisher, b"x");
    std::thread::scope(|scope| {
        let blocked = spawn_until_blocked(scope, || publisher.publish_timeout(b"y", LONG).unwrap());
        victim.kill();
        blocked.join().unwrap();
    });
}

#[test]
fn subscribers_that_sleep_learn_that_publisher_and_server_died_together() {
    for own_descriptor in [false, true] {
        let (_dir, socket) = place();
        let mut server = Peer::start("serve-and-publish", &socket, 0);
        let group = join(&socket);
        let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
        subscriber.sleep_on_descriptor(own_descriptor);
        assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
        assert!(matches!(subscriber.try_recv().unwrap(), Received::Message(_)));
        std::thread::scope(|scope| {
            let waiting = spawn_until_blocked(scope, move || subscriber.wait(None));
            server.kill();
            let gone = waiting.join().unwrap();
            assert!(matches!(gone, Err(Error::Disconnected)), "{gone:?}");
        });
        assert!(group.subscribe(Policy::Reliable).is_err(), "no process serves this group any more");
    }
}

#[test]
fn a_descriptor_in_a_loop_becomes_readable_when_all_peers_died() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-and-publish", &socket, 0);
    let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
    drain(&mut subscriber);
    assert!(subscriber.arm().unwrap());
    server.kill();
    assert_eq!(causeway_os::process::poll(&[subscriber.as_fd()], Some(LONG)).unwrap(), [true]);
    let gone = subscriber.arm();
    assert!(matches!(gone, Err(Error::Disconnected)), "{gone:?}");
}

#[test]
fn traffic_goes_on_when_the_server_dies_and_ends_when_the_last_publisher_does() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-others", &socket, 2);
    let mut victim = Peer::start("publish-for-ever", &socket, 0);
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Lossy).timeout(LONG)).unwrap();
    server.kill();
    eventually("the server's death goes unnoticed", || publisher.server_is_gone());
    assert!(subscriber.health().unwrap().server_is_gone);
    let mut from = BTreeMap::new();
    while from.len() < 2 || from.values().any(|count| *count < 100) {
        // Full as long as the other publisher, in the middle of a frame, does not run.
        match publisher.try_publish(b"still here") {
            Ok(_) | Err(TryPublishError::Full) => {}
            Err(error) => panic!("{error}"),
        }
        assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
        if let Received::Message(message) = subscriber.try_recv().unwrap() {
            *from.entry(message.publisher).or_insert(0) += 1;
        }
    }
    victim.kill();
    drop(publisher);
    loop {
        match subscriber.wait(Some(LONG)) {
            Ok(Waited::Ready) => drop(subscriber.try_recv().map(drop)),
            Ok(Waited::TimedOut) => panic!("a subscriber hangs on a group without publishers"),
            Err(Error::Disconnected) => break,
            // The publisher may have been killed in the middle of a frame, which no process is left to decide.
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_publisher_without_a_server_still_notices_that_the_subscriber_it_waits_for_died() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-others", &socket, 1);
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    eventually("the victim does not join", || group.report().unwrap().subscribers.len() == 1);
    fill(&mut publisher, b"x");
    server.kill();
    std::thread::scope(|scope| {
        let blocked = spawn_until_blocked(scope, || publisher.publish_timeout(b"y", LONG).unwrap());
        victim.kill();
        blocked.join().unwrap();
    });
}

/// A way to poll without ever waiting. Returns whether the group has ended.
type PollOnce = fn(&mut Subscriber) -> bool;

#[test]
fn subscribers_that_only_poll_learn_that_publisher_and_server_died_together() {
    let polls: [PollOnce; 3] = [
        |subscriber| matches!(subscriber.try_recv(), Err(TryRecvError::Disconnected)),
        |subscriber| matches!(subscriber.try_recv_in_place(), Err(TryRecvError::Disconnected)),
        |subscriber| matches!(subscriber.is_ready(), Err(Error::Disconnected)),
    ];
    for poll in polls {
        let (_dir, socket) = place();
        let mut server = Peer::start("serve-and-publish", &socket, 0);
        let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
        drain(&mut subscriber);
        assert!(!poll(&mut subscriber));
        server.kill();
        eventually("a subscriber that polls is not told", || poll(&mut subscriber));
    }
}

#[test]
fn a_subscriber_that_only_polls_goes_on_without_a_server_until_the_last_publisher_is_killed() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-others", &socket, 1);
    let mut publisher = Peer::start("publish-for-ever", &socket, 0);
    let options = SubscribeOptions::new(Policy::Lossy).timeout(LONG);
    let mut subscriber = join(&socket).subscribe(options).unwrap();
    server.kill();
    let mut messages = 0;
    eventually("traffic ends with the server", || {
        (0..1000).for_each(|_| messages += u32::from(subscriber.try_recv().is_ok()));
        messages > 10_000
    });
    publisher.kill();
    eventually("a subscriber that polls is not told", || {
        (0..1000).any(|_| matches!(subscriber.try_recv(), Err(TryRecvError::Disconnected)))
    });
}

#[test]
fn a_publisher_that_only_tries_goes_on_when_server_and_subscriber_were_killed() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-others", &socket, 1);
    let group = join(&socket);
    let mut victim = Peer::start("receive-nothing", &socket, 0);
    let mut publisher = group.publisher().unwrap();
    let asleep = || group.report().unwrap().subscribers.iter().any(|subscriber| subscriber.asleep);
    eventually("the victim does not join", asleep);
    fill(&mut publisher, b"x");
    server.kill();
    assert!(matches!(publisher.try_publish(b"y"), Err(TryPublishError::Full)));
    victim.kill();
    eventually("the dead subscriber holds the publisher up", || publisher.try_publish(b"z").is_ok());
}

/// Only a server decides the unfinished message of a dead publisher. Without one, subscribers can learn of it.
#[test]
fn a_message_that_no_server_is_left_to_decide_is_named_with_its_publisher() {
    let (_dir, socket) = place();
    let mut server = Peer::start("serve-others", &socket, 2);
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let group = join(&socket);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
    eventually("the victim claims nothing", || subscriber.health().unwrap().unfinished_by.is_some());
    server.kill();
    victim.kill();
    publisher.try_publish(b"behind it").unwrap();
    assert_eq!(subscriber.wait(Some(Duration::from_millis(20))).unwrap(), Waited::TimedOut);
    let health = subscriber.health().unwrap();
    assert!(health.server_is_gone, "{health:?}");
    assert!(health.unfinished_by.is_some_and(|by| by != publisher.id()), "{health:?}");
}

/// How many descriptors this process has, and how many mappings of groups.
fn belongings() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("causeway")).count())
}

/// Runs in a process of its own, so that no other test opens descriptors meanwhile.
#[test]
fn two_hundred_kills_leave_nothing_behind() {
    in_a_process_of_its_own("leak-oracle", setting("CAUSEWAY_KILLS", 200));
}

fn leak_oracle(kills: u64) {
    let dir = tempfile::tempdir().unwrap();
    let before = belongings();
    let mut random = Rng::with_seed(0x5eed);
    for round in 0..kills / 10 {
        let socket = dir.path().join(format!("group{round}"));
        let group = Group::create("storm", small().several_publishers().remote_publishers(4)).unwrap();
        group.serve_at(&socket).unwrap();
        let mut peers: Vec<Peer> = (0..10)
            .map(|number| {
                Peer::start(["publish-for-ever", "sleep"][usize::from(number >= 4)], &socket, number)
            })
            .collect();
        let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Lossy).timeout(LONG)).unwrap();
        let mut publisher = group.publisher().unwrap();
        while !peers.is_empty() {
            let index = random.u64(..) as usize % peers.len();
            std::thread::sleep(Duration::from_micros(random.u64(..) % 3000));
            peers.swap_remove(index).kill();
            // The remaining peers continue.
            publisher.publish_timeout(b"alive", LONG).expect("the group is stuck");
            assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
            drain(&mut subscriber);
        }
        eventually("the dead are still listed", || {
            let report = group.report().unwrap();
            (report.publishers.len(), report.subscribers.len()) == (1, 1)
        });
    }
    // The thread that watches servers stays, with its two descriptors.
    let after = belongings();
    assert!(after.0 <= before.0 + 2, "descriptors: {before:?} before, {after:?} after");
    assert_eq!(after.1, before.1, "mappings: {before:?} before, {after:?} after");
}
