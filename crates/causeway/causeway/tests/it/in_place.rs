//! Messages that are read and written where they lie.
//!
//! # Safety
//! All publishers are in this test, and none changes what it has published.
#![allow(unsafe_code)]

use crate::common::{kinds, nothing, small, taken, tally, trio};
use causeway::{GroupOptions, Policy, Received, TryPublishError};

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8 + 1).collect()
}

#[test]
fn every_way_to_read_and_to_write_gives_the_same_bytes_at_every_length() {
    let (_group, mut publisher, mut subscriber) =
        trio(GroupOptions::new().capacity_bytes(1 << 16), Policy::Reliable);
    for length in [0, 1, 7, 8, 31, 32, 33, 64, 100, 255, 256, 257, 767, 768, 769, 5000] {
        let sent = payload(length);
        let mut loan = publisher.try_loan(length).unwrap();
        loan.copy_from_slice(&sent);
        assert_eq!(*loan, *sent);
        loan.commit().unwrap();
        publisher.try_publish(&sent).unwrap();
        for _ in 0..2 {
            let message = subscriber.try_recv_in_place().unwrap().message().unwrap();
            // SAFETY: see above; the policy is reliable.
            assert_eq!(unsafe { message.bytes() }, sent, "{length} bytes");
            let mut copy = vec![0; length];
            assert_eq!(message.copy_to(&mut copy), length);
            assert_eq!(copy, sent);
            let mut words = Vec::new();
            message.for_each_word(|word| words.extend(word.to_ne_bytes()));
            assert_eq!((words.len(), &words[..length]), (length.next_multiple_of(8), &sent[..]));
            assert!(words[length..].iter().all(|byte| *byte == 0));
            assert!(message.finish());
        }
    }
}

#[test]
fn publishers_wait_until_a_reliable_subscriber_has_advanced_past_what_it_reads() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Reliable);
    let sent = payload(900);
    let mut count = 0;
    while publisher.try_publish(&sent).is_ok() {
        count += 1;
    }
    let message = subscriber.try_recv_in_place().unwrap().message().unwrap();
    assert!(matches!(publisher.try_publish(&sent), Err(TryPublishError::Full)));
    drop(message);
    publisher.try_publish(&sent).unwrap_or_else(|error| panic!("one of {count} was let go: {error}"));
}

#[test]
fn a_message_that_is_overwritten_while_it_is_read_is_lost_and_counted_once() {
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::Lossy);
    let mut publish = |count: u32| {
        for _ in 0..count {
            publisher.try_publish(&payload(500)).unwrap();
        }
    };
    publish(1);
    assert!(subscriber.is_ready().unwrap());
    let message = subscriber.try_recv_in_place().unwrap().message().unwrap();
    publish(20);
    assert!(!message.finish());
    let Received::Lost { messages, .. } = subscriber.try_recv().unwrap() else { panic!("21 do not fit") };
    let (received, _) = tally(&mut subscriber);
    assert_eq!((messages + received, subscriber.lost_messages()), (21, messages));
}

#[test]
fn a_loan_that_was_forgotten_is_given_up_by_the_next_one() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        std::mem::forget(publisher.try_loan(700).unwrap());
        publisher.try_publish(b"next").unwrap();
        assert_eq!(taken(&mut subscriber).bytes, b"next");
    }
}

#[test]
fn a_short_loan_after_a_long_one_that_was_dropped_finds_no_stale_end() {
    let (_group, mut publisher, mut subscriber) = trio(GroupOptions::new(), Policy::Reliable);
    for turn in 0..2000u32 {
        let length = 1 + turn as usize * 37 % 1500;
        let mut dropped = publisher.try_loan(1500 - length).unwrap();
        dropped.fill(0xff);
        drop(dropped);
        let mut loan = publisher.try_loan(length).unwrap();
        loan.fill(turn as u8);
        loan.commit().unwrap();
        assert_eq!(taken(&mut subscriber).bytes, vec![turn as u8; length]);
        nothing(&mut subscriber);
    }
}
