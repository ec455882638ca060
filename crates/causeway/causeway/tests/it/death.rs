//! Peers that die, servers that die, and what the others are told.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::limits::in_a_process_of_its_own;
use crate::common::{
    LONG, Peer, Rng, Role, addresses, asleep, descriptors, drain, eventually, fill, is_the_end, join,
    nothing, place, served, setting, small, spawn_until_blocked, subscribers, taken,
};
use causeway::{
    Error, Group, Policy, Received, SubscribeOptions, Subscriber, TryPublishError, TryRecvError, Waited,
};
use tempfile::TempDir;

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("hold-a-claim", |socket, _| {
        let mut publisher = join(socket).publisher().unwrap();
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

/// A group that another process serves.
fn served_by(role: &str, number: u64) -> (TempDir, PathBuf, Peer, Group) {
    let (dir, socket) = place();
    let server = Peer::start(role, &socket, number);
    let group = join(&socket);
    (dir, socket, server, group)
}

fn subscribe(group: &Group, policy: Policy) -> Subscriber {
    group.subscribe(SubscribeOptions::new(policy).timeout(LONG)).unwrap()
}

#[test]
fn the_unfinished_message_of_a_killed_publisher_blocks_no_subscriber() {
    let (_dir, socket, group) = served(small().several_publishers().remote_publishers(1));
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let mut subscriber = subscribe(&group, Policy::Reliable);
    let mut publisher = group.publisher().unwrap();
    eventually("the victim claims", || subscriber.health().unwrap().unfinished_by.is_some());
    publisher.try_publish(b"behind it").unwrap();
    nothing(&mut subscriber);
    victim.kill();
    assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
    assert_eq!(taken(&mut subscriber).bytes, b"behind it");
}

/// With its server or without, and whether the publisher waits or only tries.
#[test]
fn a_killed_subscriber_stops_holding_space() {
    for (server_dies, waits) in [(false, true), (true, true), (true, false)] {
        let (_dir, socket, mut server, group) = served_by("serve-others", 1);
        let mut victim = Peer::start("receive-nothing", &socket, 0);
        let mut publisher = group.publisher().unwrap();
        eventually("the victim joins", || asleep(&group) == 1);
        fill(&mut publisher, b"x");
        if server_dies {
            server.kill();
        }
        if waits {
            std::thread::scope(|scope| {
                let blocked = spawn_until_blocked(scope, || publisher.publish_timeout(b"y", LONG).unwrap());
                victim.kill();
                blocked.join().unwrap();
            });
        } else {
            assert!(matches!(publisher.try_publish(b"y"), Err(TryPublishError::Full)));
            victim.kill();
            eventually("a publisher that tries goes on", || publisher.try_publish(b"z").is_ok());
        }
    }
}

#[test]
fn subscribers_that_sleep_learn_that_publisher_and_server_died_together() {
    for own_descriptor in [false, true] {
        let (_dir, _, mut server, group) = served_by("serve-and-publish", 0);
        let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
        subscriber.sleep_on_descriptor(own_descriptor);
        assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
        taken(&mut subscriber);
        std::thread::scope(|scope| {
            let waiting = spawn_until_blocked(scope, move || subscriber.wait(None));
            server.kill();
            is_the_end(waiting.join().unwrap());
        });
        assert!(group.subscribe(Policy::Reliable).is_err(), "no process serves this group any more");
    }
}

#[test]
fn a_descriptor_in_a_loop_becomes_readable_when_all_peers_died() {
    let (_dir, _, mut server, group) = served_by("serve-and-publish", 0);
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    drain(&mut subscriber);
    assert!(subscriber.arm().unwrap());
    server.kill();
    assert_eq!(causeway_os::process::poll(&[subscriber.as_fd()], Some(LONG)).unwrap(), [true]);
    is_the_end(subscriber.arm());
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
        let (_dir, _, mut server, group) = served_by("serve-and-publish", 0);
        let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
        drain(&mut subscriber);
        assert!(!poll(&mut subscriber));
        server.kill();
        eventually("a subscriber that polls is told", || poll(&mut subscriber));
    }
}

#[test]
fn traffic_goes_on_when_the_server_dies_and_ends_when_the_last_publisher_does() {
    let (_dir, socket, mut server, group) = served_by("serve-others", 2);
    let mut victim = Peer::start("publish-for-ever", &socket, 0);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = subscribe(&group, Policy::Lossy);
    server.kill();
    eventually("the server's death is noticed", || publisher.server_is_gone());
    assert!(subscriber.health().unwrap().server_is_gone);
    let mut from = BTreeMap::new();
    while from.len() < 2 || from.values().any(|count| *count < 100) {
        assert!(!victim.has_ended(), "it ends with the server");
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
            // The publisher may have been killed in the middle of a frame, which no process is left to decide.
            ended => break is_the_end(ended),
        }
    }
}

#[test]
fn a_subscriber_that_only_polls_goes_on_without_a_server_until_the_last_publisher_is_killed() {
    let (_dir, socket, mut server, group) = served_by("serve-others", 1);
    let mut publisher = Peer::start("publish-for-ever", &socket, 0);
    let mut subscriber = subscribe(&group, Policy::Lossy);
    server.kill();
    let mut messages = 0;
    eventually("traffic goes on", || {
        (0..1000).for_each(|_| messages += u32::from(subscriber.try_recv().is_ok()));
        messages > 10_000
    });
    publisher.kill();
    eventually("a subscriber that polls is told", || {
        (0..1000).any(|_| matches!(subscriber.try_recv(), Err(TryRecvError::Disconnected)))
    });
}

/// Only a server decides the unfinished message of a dead publisher. Without one, subscribers can learn of it.
#[test]
fn a_message_that_no_server_is_left_to_decide_is_named_with_its_publisher() {
    let (_dir, socket, mut server, group) = served_by("serve-others", 2);
    let mut victim = Peer::start("hold-a-claim", &socket, 0);
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = subscribe(&group, Policy::Reliable);
    eventually("the victim claims", || subscriber.health().unwrap().unfinished_by.is_some());
    server.kill();
    victim.kill();
    publisher.try_publish(b"behind it").unwrap();
    assert_eq!(subscriber.wait(Some(Duration::from_millis(20))).unwrap(), Waited::TimedOut);
    let health = subscriber.health().unwrap();
    assert!(health.server_is_gone, "{health:?}");
    assert!(health.unfinished_by.is_some_and(|by| by != publisher.id()), "{health:?}");
}

/// Runs in a process of its own, so that no other test opens descriptors meanwhile.
#[test]
fn two_hundred_kills_leave_nothing_behind() {
    in_a_process_of_its_own("leak-oracle", setting("CAUSEWAY_KILLS", 200));
}

fn leak_oracle(kills: u64) {
    let dir = tempfile::tempdir().unwrap();
    let belongings = || (descriptors(), addresses("causeway"));
    let before = belongings();
    let mut random = Rng::with_seed(0x5eed);
    for round in 0..kills / 10 {
        let socket = dir.path().join(format!("group{round}"));
        let group = Group::create("storm", small().several_publishers().remote_publishers(4)).unwrap();
        group.serve_at(&socket).unwrap();
        let role = |number| if number < 4 { "publish-for-ever" } else { "sleep" };
        let mut peers: Vec<Peer> = (0..10).map(|number| Peer::start(role(number), &socket, number)).collect();
        let mut subscriber = subscribe(&group, Policy::Lossy);
        let mut publisher = group.publisher().unwrap();
        while !peers.is_empty() {
            let index = random.usize(..peers.len());
            std::thread::sleep(Duration::from_micros(random.u64(..3000)));
            peers.swap_remove(index).kill();
            // The remaining peers continue.
            publisher.publish_timeout(b"alive", LONG).expect("the group is stuck");
            assert_eq!(subscriber.wait(Some(LONG)).unwrap(), Waited::Ready);
            drain(&mut subscriber);
        }
        eventually("the dead are removed", || {
            group.report().unwrap().publishers.len() == 1 && subscribers(&group) == 1
        });
    }
    // The thread that watches servers stays, with its two descriptors.
    let after = belongings();
    assert!(after.0 <= before.0 + 2, "descriptors: {before:?} before, {after:?} after");
    assert_eq!(after.1, before.1, "mappings: {before:?} before, {after:?} after");
}
