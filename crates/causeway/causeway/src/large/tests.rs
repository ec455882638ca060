//! A publisher that violates the protocol, by hand: what a subscriber makes of its references.

use std::os::fd::{AsFd, OwnedFd};

use causeway_os::memory::{Access, Mapping, Seals, add_seals};

use super::LargeSubscriber;
use super::reference::{CORRELATION, Reference, file_number};
use crate::error::Error;
use crate::group::Group;
use crate::message::Received;
use crate::options::{GroupOptions, Policy};
use crate::outcome::TryRecvError;
use crate::publisher::Publisher;
use crate::request::{PoolKind, Request};
use crate::wire::{ANSWER_TIME, FINGERPRINT_OF_LARGE_PAYLOADS, ask, take_fds};

const FILE_BYTES: u64 = 64 << 10;

struct Forger {
    publisher: Publisher,
    socket: OwnedFd,
    pool: u32,
    subscriber: LargeSubscriber,
    _group: Group,
}

impl Forger {
    fn new(kind: PoolKind) -> Forger {
        let group = Group::create("forged", GroupOptions::new().large_payloads()).unwrap();
        let publisher = group.publisher_of(FINGERPRINT_OF_LARGE_PAYLOADS).unwrap();
        let subscriber = group.large_subscribe(Policy::Reliable).unwrap();
        let open = |socket: OwnedFd| {
            let (granted, _) =
                ask(&socket, Request::Pool { kind: Some(kind), files: 8 }.to_message(), Some(ANSWER_TIME))?;
            Ok((granted.words[0], socket))
        };
        let (pool, socket) = group.with_connection(open).unwrap();
        Forger { publisher, socket, pool, subscriber, _group: group }
    }

    /// A file of the pool: its index and descriptor.
    fn file(&self, bytes: u64) -> (u32, OwnedFd) {
        let request = Request::Allocate { bytes }.to_message();
        let (granted, fds) = ask(&self.socket, request, Some(ANSWER_TIME)).unwrap();
        let [fd] = take_fds(fds).unwrap();
        (granted.words[0], fd)
    }

    /// Publishes a reference, and returns what the subscriber makes of it.
    fn publish(&mut self, index: u32, use_number: u64, payload_bytes: u64) -> Result<bool, Error> {
        let file = file_number(self.pool, index);
        self.publish_bytes(&Reference { file, use_number, payload_bytes }.to_bytes())
    }

    fn publish_bytes(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let mut loan = self.publisher.loan(bytes.len()).unwrap().with_correlation(CORRELATION);
        loan.copy_from_slice(bytes);
        loan.commit().unwrap();
        let received = match self.subscriber.try_recv() {
            Ok(Received::Message(_)) => Ok(true),
            Ok(Received::Lost { messages: 1, .. }) => Ok(false),
            Err(TryRecvError::Failed(error)) => Err(error),
            other => panic!("{other:?}"),
        };
        assert!(matches!(self.subscriber.try_recv(), Err(TryRecvError::Empty)), "the message was passed");
        received
    }
}

#[test]
fn a_file_that_is_not_sealed_is_not_received() {
    for (kind, against_writing) in [(PoolKind::Reused, Seals::FUTURE_WRITE), (PoolKind::Sealed, Seals::WRITE)]
    {
        let mut forger = Forger::new(kind);
        let (index, fd) = forger.file(FILE_BYTES);
        let use_number = u64::from(kind == PoolKind::Reused);
        crate::reservation::reserve(&fd, FILE_BYTES).unwrap();
        if kind == PoolKind::Reused {
            Mapping::shared(&fd, 4096, Access::ReadWrite)
                .unwrap()
                .atomic_u64(0)
                .store(1, std::sync::atomic::Ordering::Relaxed);
        }
        assert!(!forger.publish(index, use_number, FILE_BYTES).unwrap(), "no seal against writing");
        add_seals(fd.as_fd(), against_writing).unwrap();
        assert!(!forger.publish(index, use_number, FILE_BYTES).unwrap(), "its seals are not final");
        add_seals(fd.as_fd(), Seals::SEAL).unwrap();
        let length = if kind == PoolKind::Reused { 100 } else { FILE_BYTES };
        assert!(forger.publish(index, use_number, length).unwrap(), "control: sealed it is received");
        assert_eq!(forger.subscriber.lost_payloads(), 2);
    }
}

#[test]
fn a_file_without_memory_or_shorter_than_its_reference_is_refused() {
    for (kind, against_writing) in [(PoolKind::Reused, Seals::FUTURE_WRITE), (PoolKind::Sealed, Seals::WRITE)]
    {
        let mut forger = Forger::new(kind);
        let use_number = u64::from(kind == PoolKind::Reused);
        let (hollow, fd) = forger.file(FILE_BYTES);
        add_seals(fd.as_fd(), against_writing | Seals::SEAL).unwrap();
        assert!(matches!(forger.publish(hollow, use_number, 100), Err(Error::Invalid { .. })), "a hole");
        let (short, fd) = forger.file(FILE_BYTES);
        crate::reservation::reserve(&fd, FILE_BYTES).unwrap();
        if kind == PoolKind::Reused {
            Mapping::shared(&fd, 4096, Access::ReadWrite)
                .unwrap()
                .atomic_u64(0)
                .store(1, std::sync::atomic::Ordering::Relaxed);
        }
        add_seals(fd.as_fd(), against_writing | Seals::SEAL).unwrap();
        for bytes in [FILE_BYTES + 1, 1 << 40, u64::MAX] {
            let refused = forger.publish(short, use_number, bytes);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{bytes} bytes: {refused:?}");
        }
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_a_loss_or_an_error_and_no_more() {
    let mut forger = Forger::new(PoolKind::Reused);
    assert!(!forger.publish(77, 1, 100).unwrap(), "no such file");
    assert!(!forger.publish(77, 0, 100).unwrap(), "no such file, said to be sealed");
    for bytes in [&[0u8; 32][..], &[0xff; 32], &[1; 31], &[2; 40], &[]] {
        let refused = forger.publish_bytes(bytes);
        assert!(matches!(refused, Err(Error::Invalid { .. }) | Ok(false)), "{bytes:?}: {refused:?}");
    }
    let (index, fd) = forger.file(FILE_BYTES);
    crate::reservation::reserve(&fd, FILE_BYTES).unwrap();
    add_seals(fd.as_fd(), Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
    assert!(!forger.publish(index, 9, 100).unwrap(), "not the present use");
}
