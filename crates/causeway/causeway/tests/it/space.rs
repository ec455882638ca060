//! A publisher that sleeps until there is space is woken as soon as a subscriber has advanced, for whatever reason.

use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::wire::message;
use crate::common::{LONG, drain, taken};
use causeway::log::layout::{PAGE_BYTES, PREFIX_BYTES, TAIL_OFFSET, Tail};
use causeway::{Group, GroupOptions, Policy, Publisher, Received, SubscribeOptions, Subscriber};
use causeway_os::futex::Outcome;
use causeway_os::memory::{Access, Mapping};
use causeway_os::process::poll;
use causeway_os::socket::{recv_with_fds, send_with_fds};

const EIGHTH: usize = 8192;

/// A publisher that announces that it waits for space. Implemented without the library, whose publishers check again after a
/// while.
struct Waiting {
    _socket: OwnedFd,
    cursor: Mapping,
}

impl Waiting {
    /// With the other publisher and the one subscriber of its group.
    fn for_subscriber(policy: Policy) -> (Waiting, Publisher, Subscriber) {
        let options = GroupOptions::new().capacity_bytes(8 * EIGHTH as u64);
        let group = Group::create("space", options.several_publishers().remote_publishers(1)).unwrap();
        let socket = group.invite().unwrap();
        let take_fds = || recv_with_fds(&socket, &mut [0; 64], 6).unwrap().1;
        send_with_fds(&socket, &message(1, &[]), &[]).unwrap();
        let log = Mapping::shared(&take_fds()[1], PREFIX_BYTES as usize, Access::ReadWrite).unwrap();
        send_with_fds(&socket, &message(2, &[]), &[]).unwrap();
        // It may begin.
        assert!(take_fds().is_empty());
        let publisher = group.publisher().unwrap();
        let subscriber = group.subscribe(SubscribeOptions::new(policy).timeout(LONG)).unwrap();
        let cursor = Mapping::shared(&take_fds()[0], PAGE_BYTES as usize, Access::ReadOnly).unwrap();
        let waiting = log.atomic_u64(TAIL_OFFSET as usize + offset_of!(Tail, publishers_waiting));
        waiting.store(1, Ordering::SeqCst);
        (Waiting { _socket: socket, cursor }, publisher, subscriber)
    }

    /// Lets it sleep on the subscriber's cursor while `then` moves that. Each time again after `first`, until it really slept.
    fn is_woken_by<T>(&self, with: &mut T, mut first: impl FnMut(&mut T), mut then: impl FnMut(&mut T)) {
        let cursor = self.cursor.load_u32(if cfg!(target_endian = "little") { 0 } else { 4 });
        let start = Instant::now();
        loop {
            first(with);
            let seen = cursor.load(Ordering::Relaxed);
            let outcome = std::thread::scope(|scope| {
                let asleep = scope.spawn(|| cursor.wait(seen, Some(Duration::from_secs(10))).unwrap());
                std::thread::sleep(Duration::from_millis(2));
                then(with);
                asleep.join().unwrap()
            });
            match outcome {
                Outcome::Woken => return,
                Outcome::TimedOut => panic!("it was not woken"),
                // It did not sleep yet; once more.
                _ => assert!(start.elapsed() < LONG, "it is never caught asleep"),
            }
        }
    }
}

fn publish(publisher: &mut Publisher, payload: &[u8]) {
    publisher.try_publish(payload).unwrap();
}

#[test]
fn a_publisher_that_waits_for_space_is_woken_when_padding_takes_a_subscriber_into_the_next_eighth() {
    let (waiting, mut publisher, mut subscriber) = Waiting::for_subscriber(Policy::Reliable);
    publish(&mut publisher, b"short");
    assert_eq!(taken(&mut subscriber).bytes, b"short");
    let first = |publisher: &mut Publisher| {
        // Padding to the end of this eighth, and a short message that lies in the next one.
        drop(publisher.try_loan(EIGHTH - 64 - 32).unwrap());
        publish(publisher, b"short");
    };
    let take = |_: &mut Publisher| assert_eq!(taken(&mut subscriber).bytes, b"short");
    waiting.is_woken_by(&mut publisher, first, take);
}

#[test]
fn a_publisher_that_waits_for_space_is_woken_when_the_subscriber_learns_what_it_lost() {
    let (waiting, mut publisher, mut subscriber) = Waiting::for_subscriber(Policy::Lossy);
    let overrun = |subscriber: &mut Subscriber| {
        drain(subscriber);
        (0..=8).for_each(|_| publish(&mut publisher, &[7; EIGHTH]));
    };
    let learn = |subscriber: &mut Subscriber| {
        assert!(matches!(subscriber.try_recv().unwrap(), Received::Lost { .. }));
    };
    waiting.is_woken_by(&mut subscriber, overrun, learn);
}

/// Another descriptor and the wait for space in one `poll`: the notice says nothing while the log is full, and speaks when a subscriber has read.
#[test]
fn a_publisher_waits_for_space_with_a_descriptor_among_others() {
    let group = Group::create("notice", GroupOptions::new().capacity_bytes(8 * EIGHTH as u64)).unwrap();
    let (mut publisher, mut subscriber) =
        (group.publisher().unwrap(), group.subscribe(Policy::Reliable).unwrap());
    while publisher.try_publish(&[7; 1000]).is_ok() {}
    let (silent, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    for _ in 0..3 {
        let notice = publisher.notify_space().unwrap();
        assert!(matches!(publisher.try_publish(&[7; 1000]), Err(causeway::TryPublishError::Full)));
        let fds = [notice.as_fd(), silent.as_fd()];
        while matches!(subscriber.try_recv(), Ok(Received::Message(_))) {}
        assert_eq!(poll(&fds, Some(LONG)).unwrap(), [true, false]);
        assert!(notice.is_due());
        drop(notice);
        let mut count = 0;
        while publisher.try_publish(&[7; 1000]).is_ok() {
            count += 1;
        }
        assert!(count > 10, "{count} messages find space");
    }
}
