//! What the joins of subscribers cost the others.
//!
//! Every join sent two descriptors to every publisher, which kept them. A publisher that did not publish filled its socket: after
//! 278 joins, or 8 beside 64 idle publishers, every subscriber was refused, for ever if another publisher had died meanwhile.
//! One that was out of descriptors left the group and could not return; in a log of one publisher it went on as if it
//! had published. And a report listed subscribers that had not found their place yet, so that a publisher that waited for
//! them lost its first messages to them without a word.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::{Group, Policy, RecvTimeoutError, SubscribeOptions, TryPublishError};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::process::Resource;

use super::public_group;
use crate::common::limits::limited;
use crate::common::wire::{connect, message};
use crate::common::{LONG, Peer, drain, eventually, group, join, next, served, small, subscribers, tally};

/// More joins than the socket of a publisher ever held notices of.
const JOINS: usize = 600;

fn idle_publisher(group: &Group) -> OwnedFd {
    let socket = group.invite().unwrap();
    for request in [1, 2] {
        send_with_fds(&socket, &message(request, &[]), &[]).unwrap();
    }
    assert_eq!(recv_with_fds(&socket, &mut [0; 64], 6).unwrap().1.len(), 4, "not admitted");
    socket
}

#[test]
fn publishers_that_never_publish_keep_no_subscriber_out() {
    let group = Group::create("idle", small().several_publishers().remote_publishers(2)).unwrap();
    // One never reads its socket, as one that is stopped; the other one does when it publishes.
    let stopped = idle_publisher(&group);
    let _other = idle_publisher(&group);
    let mut idle = group.publisher().unwrap();
    let mut first = group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
    for number in 0..JOINS {
        let joined = group.subscribe(Policy::Lossy);
        assert!(joined.is_ok(), "join {number}: {joined:?}");
    }
    drop(stopped);
    let mut last = group.subscribe(Policy::Reliable).unwrap();
    eventually("the idle publisher never learns of the last subscriber", || {
        // Full at most until it knows every subscriber.
        for _ in 0..10 {
            match idle.try_publish(b"x") {
                Ok(_) | Err(TryPublishError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        }
        drain(&mut first);
        tally(&mut last).0 > 0
    });
    assert_eq!((first.lost_messages(), last.lost_messages()), (0, 0));
}

/// Publishes numbers, without a descriptor to spare, until it is killed.
pub fn publish_without_descriptors(socket: &Path, _: u64) {
    let mut publisher = join(socket).publisher().unwrap();
    assert!(publisher.wait_for_subscribers(1, Some(LONG)).unwrap());
    limited(Resource::Nofile, 0, || {
        for number in 0u64.. {
            publisher.publish_timeout(&number.to_le_bytes(), LONG).unwrap();
            std::thread::sleep(Duration::from_micros(100));
        }
    });
}

#[test]
fn a_publisher_without_descriptors_stays_and_the_subscribers_that_it_cannot_take_in_are_told() {
    for options in [small().remote_publishers(1), small().several_publishers().remote_publishers(1)] {
        let (_dir, socket, group) = public_group(options);
        let _peer = Peer::start("publish-without-descriptors", &socket, 0);
        let mut first = group.subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
        let mut expected = 0u64;
        let mut receive = || {
            assert_eq!(next(&mut first), expected.to_le_bytes(), "lost without a word");
            expected += 1;
        };
        (0..10).for_each(|_| receive());
        for _ in 0..15 {
            // Refused, or told that it is out: not deaf for ever.
            let Ok(mut subscriber) = group.subscribe(Policy::Reliable) else { continue };
            while let Ok(_) | Err(RecvTimeoutError::Timeout) = subscriber.recv_timeout(Duration::ZERO) {
                receive();
            }
        }
        (0..200).for_each(|_| receive());
    }
}

#[test]
fn a_publisher_that_waited_for_its_subscribers_loses_no_message_to_them() {
    for round in 0..60 {
        let group = group(small());
        let mut publisher = group.publisher().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
                    (0..10u8).for_each(|number| assert_eq!(next(&mut subscriber), [number]));
                });
            }
            // Half of the rounds wait by the report, which lists no subscriber too early either.
            if round % 2 == 0 {
                assert!(publisher.wait_for_subscribers(3, Some(LONG)).unwrap());
            } else {
                while subscribers(&group) < 3 {}
            }
            for number in 0..10u8 {
                publisher.publish(&[number]).unwrap();
            }
        });
    }
}

#[test]
fn waiting_for_subscribers_that_do_not_come_ends_in_time() {
    let group = Group::create("nobody", small()).unwrap();
    let mut publisher = group.publisher().unwrap();
    assert!(!publisher.wait_for_subscribers(1, Some(Duration::from_millis(2))).unwrap());
    let subscriber = group.subscribe(Policy::Lossy).unwrap();
    assert!(publisher.wait_for_subscribers(1, Some(Duration::ZERO)).unwrap());
    drop(subscriber);
    eventually("who left still counts", || !publisher.wait_for_subscribers(1, Some(Duration::ZERO)).unwrap());
}

/// A publisher that dies with notices unread resets its connection, which is no reason to turn a subscriber away.
#[test]
fn subscribers_join_while_a_publisher_dies_that_never_read_its_notices() {
    for round in 0..300 {
        let group = group(small().several_publishers().remote_publishers(1));
        let publisher = idle_publisher(&group);
        let _first = group.subscribe(Policy::Lossy).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                drop(publisher);
            });
            for _ in 0..5 {
                group.subscribe(Policy::Lossy).unwrap();
            }
        });
    }
}

/// Before, each of them gave the roll all its time again.
#[test]
fn publishers_that_ask_to_join_and_do_not_answer_hold_up_no_other_for_ever() {
    let (_dir, path, group) = served(small().several_publishers().late_publishers());
    let _subscriber = group.subscribe(Policy::Lossy).unwrap();
    let is_over = AtomicBool::new(false);
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One of them is always awaited.
            let mut asking = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                let socket = connect(&path);
                let _ = send_with_fds(&socket, &message(1, &[0, 0]), &[]);
                asking.push_back(socket);
                asking.drain(..asking.len().saturating_sub(3));
                begun.store(asking.len() == 3, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let joined = std::panic::catch_unwind(|| {
            eventually("nobody asks", || begun.load(Ordering::Relaxed));
            // One that has answered is refused only if it came at the very end of the time.
            eventually("it cannot join", || join(&path).publisher().is_ok());
        });
        is_over.store(true, Ordering::Relaxed);
        joined.unwrap();
    });
}
