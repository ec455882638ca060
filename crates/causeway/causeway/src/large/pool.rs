//! The files of one publisher.

use std::os::fd::OwnedFd;

use super::file::{SealedBuffer, WritableFile, reused_file_bytes};
use super::keepers::{Sent, is_kept, is_referenced};
use super::reference::{Reference, file_number};
use crate::error::{Error, Refusal, Result};
use crate::log::layout::Tail;
use crate::request::{PoolKind, Request};
use crate::subscriber_set::SubscriberSet;
use crate::wire::{FILES_MAX, ask, granted, take_fds, tell};

/// The memory from which a publisher publishes by reference.
///
/// | kind | who can change a payload that was published | its memory | what a subscriber gets |
/// |---|---|---|---|
/// | [`reused`](PoolOptions::reused) | its publisher's process, if it violates the protocol | is used again once no subscriber needs it | a copy, words, or with a promise a slice |
/// | [`sealed`](PoolOptions::sealed) | no process | goes back to the kernel once no process maps it | a slice |
///
/// By default, a group of one user has the first kind and a group of strangers the second ([`Trust`](crate::Trust)).
#[derive(Clone, Debug)]
pub struct PoolOptions {
    payload_bytes_max: usize,
    files: u32,
    kind: PoolKind,
}

impl PoolOptions {
    /// Files for payloads of up to `payload_bytes_max`, at most 8 of them. Each is made, and its memory reserved, when it is first needed.
    pub fn new(payload_bytes_max: usize) -> PoolOptions {
        PoolOptions { payload_bytes_max, files: 8, kind: PoolKind::ByTrust }
    }

    /// Sets the number of payloads that exist at the same time, those included that subscribers have not released: 1 to 64.
    pub fn files(mut self, files: u32) -> PoolOptions {
        self.files = files;
        self
    }

    /// Publishes files that are used again: fast, and no subscriber can keep more memory than the pool has.
    pub fn reused(mut self) -> PoolOptions {
        self.kind = PoolKind::Reused;
        self
    }

    /// Seals each payload, so that this process cannot change it any more either. Each takes fresh memory, which the kernel
    /// fills with zeroes first. The process that serves the group needs `/proc`.
    pub fn sealed(mut self) -> PoolOptions {
        self.kind = PoolKind::Sealed;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=FILES_MAX).contains(&self.files) {
            return Err(Error::invalid("call", format!("{} files; a pool has 1 to {FILES_MAX}", self.files)));
        }
        // An address space has 47 bits for a program.
        let bytes = self.payload_bytes_max;
        if !(1..1 << 47).contains(&bytes) {
            let why = format!("payloads of {bytes} bytes; use a length from 1 on that memory can hold");
            return Err(Error::invalid("call", why));
        }
        Ok(())
    }
}

/// What a pool has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolReport {
    /// Files that were made.
    pub made: u64,
    /// How often a file was used again.
    pub reused: u64,
    /// Whether payloads are sealed.
    pub is_sealed: bool,
}

/// The files of a publisher, and its connection for them to the server.
#[derive(Debug)]
pub struct Pool {
    socket: OwnedFd,
    number: u32,
    options: PoolOptions,
    files: Vec<File>,
    /// Sealed payloads that the server keeps for subscribers.
    sealed: Vec<Sent>,
    report: PoolReport,
}

#[derive(Debug)]
struct File {
    number: u64,
    memory: WritableFile,
    use_number: u64,
    /// Where its last reference lies, unless nobody needs that any more.
    sent: Option<u64>,
}

/// A file that belongs to its publisher.
#[derive(Debug)]
pub enum Claim {
    /// The index of one that is used again.
    Reused(usize),
    /// One that will be sealed, with its number; `None` once it is.
    Sealed(u64, Option<SealedBuffer>),
}

impl Pool {
    /// Opens a pool over a connection to the server of a group.
    pub fn start(socket: OwnedFd, options: &PoolOptions) -> Result<Pool> {
        let request = Request::Pool { kind: Some(options.kind), files: options.files };
        let ([number, is_sealed, ..], _) = granted(ask(&socket, request)?, "a pool")?;
        if number == 0 {
            return Err(Error::invalid("answer", "a pool without a number"));
        }
        let report = PoolReport { is_sealed: is_sealed == 1, ..PoolReport::default() };
        Ok(Pool { socket, number, options: options.clone(), files: Vec::new(), sealed: Vec::new(), report })
    }

    pub fn report(&self) -> PoolReport {
        self.report
    }

    pub fn payload_bytes_max(&self) -> usize {
        self.options.payload_bytes_max
    }

    /// A file for a payload of `bytes`; `None` while subscribers keep all of them.
    pub fn claim(&mut self, set: &mut SubscriberSet, tail: &Tail, bytes: usize) -> Result<Option<Claim>> {
        if self.report.is_sealed { self.claim_sealed(set, tail, bytes) } else { self.claim_reused(set, tail) }
    }

    fn claim_reused(&mut self, set: &mut SubscriberSet, tail: &Tail) -> Result<Option<Claim>> {
        // The first that is free, so that a pool that needs few files touches few.
        for (index, file) in self.files.iter_mut().enumerate() {
            let number = file.number;
            if file.sent.is_some_and(|position| is_kept(set, tail, Sent { file: number, position })) {
                continue;
            }
            file.use_number += 1;
            file.memory.begin_use(file.use_number);
            // A subscriber that begins with the oldest message may have announced a reference just before.
            if is_referenced(set, tail, number) {
                continue;
            }
            file.sent = None;
            self.report.reused += 1;
            return Ok(Some(Claim::Reused(index)));
        }
        if self.files.len() as u32 >= self.options.files {
            return Ok(None);
        }
        let (number, fd) = match self.allocate(reused_file_bytes(self.options.payload_bytes_max)) {
            // The files that there are must do.
            Err(Error::ServerGone) if !self.files.is_empty() => return Ok(None),
            allocated => allocated?,
        };
        let memory = WritableFile::new(&fd, self.options.payload_bytes_max);
        let memory = memory.inspect_err(|_| drop(tell(&self.socket, forget(number))))?;
        memory.begin_use(1);
        self.files.push(File { number, memory, use_number: 1, sent: None });
        Ok(Some(Claim::Reused(self.files.len() - 1)))
    }

    fn claim_sealed(&mut self, set: &mut SubscriberSet, tail: &Tail, bytes: usize) -> Result<Option<Claim>> {
        let socket = &self.socket;
        self.sealed.retain(|sent| is_kept(set, tail, *sent) || tell(socket, forget(sent.file)).is_err());
        match self.allocate(bytes as u64) {
            Ok((number, fd)) => {
                let buffer = SealedBuffer::in_file(fd, bytes);
                let buffer = buffer.inspect_err(|_| drop(tell(&self.socket, forget(number))))?;
                Ok(Some(Claim::Sealed(number, Some(buffer))))
            }
            Err(Error::Refused(Refusal::PayloadsHeld)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<(u64, OwnedFd)> {
        let ([index, ..], fds) = granted(ask(&self.socket, Request::Allocate { bytes })?, "a pool")?;
        let [fd] = take_fds(fds)?;
        self.report.made += 1;
        Ok((file_number(self.number, index), fd))
    }

    /// The first `length` bytes of a claimed file.
    pub fn bytes_mut<'a>(&'a mut self, claim: &'a mut Claim, length: usize) -> &'a mut [u8] {
        match claim {
            Claim::Reused(index) => self.files[*index].memory.bytes_mut(length),
            Claim::Sealed(_, Some(buffer)) => buffer,
            Claim::Sealed(_, None) => &mut [],
        }
    }

    pub fn bytes<'a>(&'a self, claim: &'a Claim, length: usize) -> &'a [u8] {
        match claim {
            Claim::Reused(index) => self.files[*index].memory.bytes(length),
            Claim::Sealed(_, Some(buffer)) => buffer,
            Claim::Sealed(_, None) => &[],
        }
    }

    /// Prepares a claimed file for its subscribers, and says where the payload lies.
    pub fn finish(&mut self, claim: &mut Claim, payload_bytes: usize) -> Result<Reference> {
        let payload_bytes = payload_bytes as u64;
        match claim {
            Claim::Reused(index) => {
                let File { number, use_number, .. } = self.files[*index];
                Ok(Reference { file: number, use_number, payload_bytes })
            }
            Claim::Sealed(number, buffer) => {
                if let Some(buffer) = buffer.take() {
                    drop(buffer.seal()?);
                }
                Ok(Reference { file: *number, use_number: 0, payload_bytes })
            }
        }
    }

    /// The reference to a claimed file was published.
    pub fn sent(&mut self, claim: &Claim, position: u64) {
        match claim {
            Claim::Reused(index) => self.files[*index].sent = Some(position),
            Claim::Sealed(number, _) => self.sealed.push(Sent { file: *number, position }),
        }
    }

    /// A claimed file was not published.
    pub fn give_back(&mut self, claim: Claim) {
        if let Claim::Sealed(number, buffer) = claim {
            drop(buffer);
            // Without a server there is nothing to give back.
            let _ = tell(&self.socket, forget(number));
        }
    }

    /// The payload that was published first of those that the pool keeps for subscribers.
    pub fn oldest(&self) -> Option<Sent> {
        let reused = self.files.iter();
        let reused = reused.filter_map(|file| Some(Sent { file: file.number, position: file.sent? }));
        reused.chain(self.sealed.iter().copied()).min_by_key(|sent| sent.position)
    }
}

fn forget(file: u64) -> Request {
    Request::Forget { index: file as u32 }
}
