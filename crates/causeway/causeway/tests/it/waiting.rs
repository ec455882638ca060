//! How publishers and subscribers wait for each other, within one process: for space, for messages, for the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::{LONG, fill, group, next, small, spawn_until_blocked, trio};
use causeway::{Error, Group, Policy, PublishTimeoutError, Received, RecvTimeoutError, TryRecvError, Waited};

#[test]
fn a_blocked_publisher_goes_on_when_the_subscriber_does() {
    for options in [small(), small().several_publishers()] {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..20_000u32 {
                    let published = publisher.publish_timeout(&number.to_le_bytes(), LONG);
                    published.unwrap_or_else(|error| panic!("message {number}: {error}"));
                }
            });
            for number in 0..20_000u32 {
                assert_eq!(next(&mut subscriber), number.to_le_bytes());
            }
        });
    }
}

#[test]
fn a_publish_and_a_receive_with_a_timeout_end_with_it() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    let timeout = Duration::from_millis(20);
    let start = Instant::now();
    assert!(matches!(subscriber.recv_timeout(timeout), Err(RecvTimeoutError::Timeout)));
    assert!(start.elapsed() >= timeout);
    fill(&mut publisher, b"x");
    let start = Instant::now();
    assert!(matches!(publisher.publish_timeout(b"y", timeout), Err(PublishTimeoutError::Timeout)));
    assert!(start.elapsed() >= timeout);
    let start = Instant::now();
    assert!(matches!(publisher.loan_timeout(1, timeout), Err(PublishTimeoutError::Timeout)));
    assert!(start.elapsed() >= timeout);
}

/// The waiting calls, without a timeout.
#[test]
fn publish_loan_and_recv_wait_for_each_other() {
    for options in [small(), small().several_publishers()] {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..1000u32 {
                    publisher.publish(&number.to_le_bytes()).unwrap();
                    let mut loan = publisher.loan(4).unwrap();
                    loan.copy_from_slice(&number.to_le_bytes());
                    loan.commit().unwrap();
                }
            });
            for number in (0..1000u32).flat_map(|number| [number; 2]) {
                let message =
                    subscriber.recv().unwrap().message().expect("a reliable subscriber loses nothing");
                assert_eq!(message.bytes, number.to_le_bytes());
            }
        });
        assert!(matches!(subscriber.try_recv(), Err(TryRecvError::Empty | TryRecvError::Disconnected)));
    }
}

#[test]
fn a_subscriber_that_leaves_blocks_no_publisher() {
    let (_group, mut publisher, subscriber) = trio(small(), Policy::Reliable);
    fill(&mut publisher, b"x");
    std::thread::scope(|scope| {
        let blocked = spawn_until_blocked(scope, || publisher.publish_timeout(b"y", LONG).unwrap());
        drop(subscriber);
        blocked.join().unwrap();
    });
}

#[test]
fn a_wait_ends_with_its_time_on_the_futex_and_on_the_descriptor() {
    let group = group(small());
    let _publisher = group.publisher().unwrap();
    for own in [false, true] {
        let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
        subscriber.sleep_on_descriptor(own);
        let start = Instant::now();
        assert_eq!(subscriber.wait(Some(Duration::from_millis(10))).unwrap(), Waited::TimedOut);
        assert!(start.elapsed() >= Duration::from_millis(10));
    }
}

#[test]
fn a_subscriber_that_spins_gets_every_message_and_ends_with_its_time_or_with_the_group() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    assert_eq!(subscriber.spin(Some(Duration::from_millis(2))).unwrap(), Waited::TimedOut);
    let sender = std::thread::spawn(move || {
        for number in 0..20_000u32 {
            let sent = publisher.publish_timeout(&number.to_le_bytes(), LONG);
            sent.unwrap_or_else(|error| panic!("message {number}: {error}"));
        }
    });
    for number in 0..20_000u32 {
        assert_eq!(subscriber.spin(Some(LONG)).unwrap(), Waited::Ready, "{number}");
        let Received::Message(message) = subscriber.try_recv().unwrap() else { panic!("{number}") };
        assert_eq!(message.bytes, number.to_le_bytes());
    }
    sender.join().unwrap();
    assert!(matches!(subscriber.spin(Some(LONG)), Err(Error::Disconnected)));
}

/// Sleepers of both kinds, woken again and again by a publisher that never waits for them.
#[test]
fn no_wake_up_is_lost() {
    for own in [false, true] {
        let group = group(small());
        let mut publisher = group.publisher().unwrap();
        let mut echo = group.subscribe(Policy::Reliable).unwrap();
        let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
        for subscriber in [&mut echo, &mut subscriber] {
            subscriber.sleep_on_descriptor(own);
            subscriber.spin_at_most(Duration::ZERO);
        }
        let (turn, turns) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..3000u32 {
                    assert_eq!(next(&mut echo), number.to_le_bytes());
                    turn.send(()).unwrap();
                }
            });
            for number in 0..3000u32 {
                publisher.try_publish(&number.to_le_bytes()).unwrap();
                turns
                    .recv_timeout(LONG)
                    .unwrap_or_else(|_| panic!("no subscriber woke up for message {number}"));
                assert_eq!(next(&mut subscriber), number.to_le_bytes());
            }
        });
    }
}

#[test]
fn an_armed_descriptor_becomes_readable_once_per_arming() {
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    for flags in [EventFlags::IN, EventFlags::IN | EventFlags::ET] {
        let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, subscriber.as_fd(), EventData::new_u64(1), flags).unwrap();
        let events = |timeout: Duration| {
            let mut events = Vec::with_capacity(4);
            let timeout = rustix::time::Timespec::try_from(timeout).unwrap();
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)).unwrap()
        };
        for number in 0..1000u32 {
            assert!(subscriber.arm().unwrap());
            assert_eq!(events(Duration::ZERO), 0, "ready without a message");
            publisher.try_publish(&number.to_le_bytes()).unwrap();
            publisher.try_publish(&number.to_le_bytes()).unwrap();
            assert_eq!(events(LONG), 1, "not ready after message {number}");
            assert_eq!(next(&mut subscriber), number.to_le_bytes());
            assert!(!subscriber.arm().unwrap(), "there is a second message");
            assert_eq!(next(&mut subscriber), number.to_le_bytes());
        }
    }
}

#[test]
fn subscribers_hear_that_the_only_publisher_has_left_after_its_last_message() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    publisher.try_publish(b"last").unwrap();
    drop(publisher);
    assert_eq!(next(&mut subscriber), b"last");
    let gone = subscriber.wait(Some(LONG));
    assert!(matches!(gone, Err(Error::Disconnected)), "{gone:?}");
}

#[test]
fn a_sleeping_subscriber_is_woken_when_the_group_is_dropped() {
    let first = group(small().several_publishers());
    let other = Group::join_socket(first.invite().unwrap()).unwrap();
    let mut subscriber = other.subscribe(Policy::Reliable).unwrap();
    std::thread::scope(|scope| {
        let waiting = spawn_until_blocked(scope, move || subscriber.wait(Some(LONG)));
        drop(first);
        let gone = waiting.join().unwrap();
        assert!(matches!(gone, Err(Error::Disconnected)), "{gone:?}");
    });
}

/// Subscribers of the group's own process keep its server alive, and publishers may outlive it.
#[test]
fn a_group_that_was_dropped_ends_with_its_last_publisher_for_subscribers_of_its_own_process_too() {
    for options in [small(), small().several_publishers()] {
        for (has_publisher, is_group_first) in [(false, true), (true, true), (true, false)] {
            let group = group(options.clone());
            let publisher = has_publisher.then(|| group.publisher().unwrap());
            let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
            let (first, last): (Box<dyn Send>, Box<dyn Send>) = match is_group_first {
                true => (Box::new(group), Box::new(publisher)),
                false => (Box::new(publisher), Box::new(group)),
            };
            drop(first);
            drop(last);
            let gone = subscriber.wait(Some(LONG));
            assert!(matches!(gone, Err(Error::Disconnected)), "{options:?}: {gone:?}");
        }
    }
}
