//! How publishers and subscribers wait for each other, within one process: for space, for messages, for the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::{LONG, fill, group, is_the_end, kinds, next, small, spawn_until_blocked, taken, trio};
use causeway::{Policy, PublishTimeoutError, Publisher, RecvTimeoutError, Waited};

/// Publishes the numbers below `count`, waiting in every way that there is.
fn publish_numbers(publisher: &mut Publisher, count: u32) {
    for number in 0..count {
        let bytes = &number.to_le_bytes();
        match number % 3 {
            0 => publisher.publish_timeout(bytes, LONG).unwrap_or_else(|error| panic!("{number}: {error}")),
            1 => publisher.publish(bytes).unwrap(),
            _ => {
                let mut loan = publisher.loan(4).unwrap();
                loan.copy_from_slice(bytes);
                loan.commit().unwrap()
            }
        };
    }
}

#[test]
fn publishers_and_subscribers_wait_for_each_other() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        std::thread::scope(|scope| {
            scope.spawn(move || publish_numbers(&mut publisher, 20_000));
            for number in (0..20_000u32).step_by(2) {
                assert_eq!(next(&mut subscriber), number.to_le_bytes());
                let message = subscriber.recv().unwrap().message().unwrap();
                assert_eq!(message.bytes, (number + 1).to_le_bytes());
            }
        });
    }
}

#[test]
fn every_wait_with_a_timeout_ends_with_it() {
    let (group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    let timeout = Duration::from_millis(20);
    let takes_its_time = |wait: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        assert!(wait() && start.elapsed() >= timeout, "{:?}", start.elapsed());
    };
    takes_its_time(&mut || matches!(subscriber.recv_timeout(timeout), Err(RecvTimeoutError::Timeout)));
    takes_its_time(&mut || subscriber.spin(Some(timeout)).unwrap() == Waited::TimedOut);
    for own in [false, true] {
        let mut subscriber = group.subscribe(Policy::Lossy).unwrap();
        subscriber.sleep_on_descriptor(own);
        takes_its_time(&mut || subscriber.wait(Some(timeout)).unwrap() == Waited::TimedOut);
    }
    fill(&mut publisher, b"x");
    takes_its_time(&mut || {
        matches!(publisher.publish_timeout(b"y", timeout), Err(PublishTimeoutError::Timeout))
    });
    takes_its_time(&mut || matches!(publisher.loan_timeout(1, timeout), Err(PublishTimeoutError::Timeout)));
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
fn a_subscriber_that_spins_gets_every_message_and_ends_with_the_group() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    let sender = std::thread::spawn(move || publish_numbers(&mut publisher, 20_000));
    for number in 0..20_000u32 {
        assert_eq!(subscriber.spin(Some(LONG)).unwrap(), Waited::Ready, "{number}");
        assert_eq!(taken(&mut subscriber).bytes, number.to_le_bytes());
    }
    sender.join().unwrap();
    is_the_end(subscriber.spin(Some(LONG)));
}

/// Sleepers of both kinds, woken again and again by a publisher that never waits for them.
#[test]
fn no_wake_up_is_lost() {
    for own in [false, true] {
        let group = group(small());
        let mut publisher = group.publisher().unwrap();
        let mut sleepers = [0, 1].map(|_| group.subscribe(Policy::Reliable).unwrap());
        for subscriber in &mut sleepers {
            subscriber.sleep_on_descriptor(own);
            subscriber.spin_at_most(Duration::ZERO);
        }
        let [mut echo, mut subscriber] = sleepers;
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
                let turn = turns.recv_timeout(LONG);
                assert!(turn.is_ok(), "no subscriber woke up for message {number}");
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
            (0..2).for_each(|_| _ = publisher.try_publish(&number.to_le_bytes()).unwrap());
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
    is_the_end(subscriber.wait(Some(LONG)));
}
