//! A subscriber that its policy disconnects went on as a lossy one.
//!
//! After one error the next receive returned messages again; slot, page and wake-ups stayed, and the messages that the
//! subscriber had lost were never reported.

use std::time::Duration;

use causeway::{Error, Policy, TryRecvError, Waited};

use super::until_all_have_left;
use crate::common::{eventually, small, trio};

#[test]
fn a_subscriber_that_missed_its_deadline_is_out_and_told_what_it_lost() {
    let (group, mut publisher, mut late) = trio(small(), Policy::DisconnectAfter(Duration::from_millis(1)));
    const MESSAGES: u64 = 200;
    for _ in 0..MESSAGES {
        publisher.publish(b"x").unwrap();
    }
    for call in 0..3 {
        let missed = late.try_recv();
        let Err(TryRecvError::Failed(Error::MissedDeadline { lost_messages })) = missed else {
            panic!("call {call}: {missed:?}")
        };
        assert_eq!((lost_messages, late.lost_messages()), (MESSAGES, MESSAGES), "call {call}");
        publisher.publish(b"for others").unwrap();
    }
    let waited = late.wait(Some(Duration::ZERO));
    assert!(matches!(waited, Err(Error::MissedDeadline { .. })), "{waited:?}");
    until_all_have_left(&group);
}

#[test]
fn a_subscriber_that_missed_its_deadline_and_read_all_the_same_is_out_when_it_waits() {
    let (_group, mut publisher, mut late) = trio(small(), Policy::DisconnectAfter(Duration::from_millis(1)));
    eventually("it is never late", || {
        let _ = publisher.try_publish(b"x").is_ok();
        late.health().is_err() || late.health().unwrap().demoted
    });
    let end = loop {
        match late.try_recv() {
            Ok(_) => {}
            Err(TryRecvError::Empty) => match late.wait(Some(Duration::ZERO)) {
                Ok(Waited::Ready | Waited::TimedOut) => panic!("late, and still in"),
                Err(error) => break error,
            },
            Err(TryRecvError::Failed(error)) => break error,
            Err(TryRecvError::Disconnected) => panic!("the group has not ended"),
        }
    };
    assert!(matches!(end, Error::MissedDeadline { .. }), "{end}");
}
