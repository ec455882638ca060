//! A publisher that violates the protocol, by hand: what a subscriber makes of its references.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

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
use crate::wire::{FINGERPRINT_OF_LARGE_PAYLOADS, ask, take_fds};

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
            let (granted, _) = ask(&socket, Request::Pool { kind: Some(kind), files: 8 })?;
            Ok((granted.words[0], socket))
        };
        let (pool, socket) = group.with_connection(open).unwrap();
        Forger { publisher, socket, pool, subscriber, _group: group }
    }

    /// A file of the pool: its index and descriptor.
    fn file(&self) -> (u32, OwnedFd) {
        let (granted, fds) = ask(&self.socket, Request::Allocate { bytes: FILE_BYTES }).unwrap();
        let [fd] = take_fds(fds).unwrap();
        (granted.words[0], fd)
    }

    /// One that has memory, and is in this use if it is one that is used again.
    fn file_in_use(&self, use_number: u64) -> (u32, OwnedFd) {
        let (index, fd) = self.file();
        crate::reservation::reserve(&fd, FILE_BYTES).unwrap();
        if use_number != 0 {
            let mapping = Mapping::shared(&fd, 4096, Access::ReadWrite).unwrap();
            mapping.atomic_u64(0).store(use_number, Ordering::Relaxed);
        }
        (index, fd)
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

/// Both kinds of pool: what a file needs against writing, and the number of its first use.
const KINDS: [(PoolKind, Seals, u64); 2] =
    [(PoolKind::Reused, Seals::FUTURE_WRITE, 1), (PoolKind::Sealed, Seals::WRITE, 0)];

#[test]
fn a_file_that_is_not_sealed_is_not_received() {
    for (kind, against_writing, use_number) in KINDS {
        let mut forger = Forger::new(kind);
        let (index, fd) = forger.file_in_use(use_number);
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
    for (kind, against_writing, use_number) in KINDS {
        let mut forger = Forger::new(kind);
        let (hollow, fd) = forger.file();
        add_seals(fd.as_fd(), against_writing | Seals::SEAL).unwrap();
        assert!(matches!(forger.publish(hollow, use_number, 100), Err(Error::Invalid { .. })), "a hole");
        let (short, fd) = forger.file_in_use(use_number);
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
    let (index, fd) = forger.file_in_use(1);
    add_seals(fd.as_fd(), Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
    assert!(!forger.publish(index, 9, 100).unwrap(), "not the present use");
}
