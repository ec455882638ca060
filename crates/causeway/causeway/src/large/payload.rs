//! A payload that was received by reference.
//!
//! # Safety
//! [`LargePayload::bytes`] makes a slice of memory that its publisher's process can write, and is `unsafe` because only its caller can
//! know that the publishers keep to the protocol.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use causeway_os::futex;

use super::file::{ReusedFile, SealedPayload};
use crate::error::{Error, Result};
use crate::log::Memory;
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::message::MessageOf;

/// A message of a group of large payloads.
pub type LargeMessage = MessageOf<LargePayload>;

/// A payload where its publisher wrote it. Until it is dropped, a publisher that waits for this subscriber leaves it alone. It may be kept
/// while others are received, and sent to another thread. It stays readable when its publisher ends. Publishers no longer wait for
/// a subscriber that was dropped; then only a payload that no process can change is sure to stay as it is.
///
/// How to read it depends on the pool ([`PoolOptions`](crate::PoolOptions)): [`as_slice`](LargePayload::as_slice) where no process can
/// change it, otherwise [`copy_to`](LargePayload::copy_to), [`for_each_word`](LargePayload::for_each_word), or
/// [`bytes`](LargePayload::bytes) with a promise.
#[derive(Debug)]
pub struct LargePayload {
    /// Before the announcement: what is released is not mapped any more.
    body: Body,
    payload_bytes: usize,
    _announced: Option<Announced>,
}

#[derive(Debug)]
enum Body {
    /// A message that was published itself: a copy.
    Copy(Box<[u8]>),
    Reused {
        file: Arc<ReusedFile>,
        use_number: u64,
    },
    Sealed(SealedPayload),
}

impl LargePayload {
    pub(super) fn copied(bytes: &[u8]) -> LargePayload {
        LargePayload { body: Body::Copy(bytes.into()), payload_bytes: bytes.len(), _announced: None }
    }

    pub(super) fn reused(
        file: Arc<ReusedFile>,
        use_number: u64,
        payload_bytes: usize,
        announced: Announced,
    ) -> LargePayload {
        LargePayload { body: Body::Reused { file, use_number }, payload_bytes, _announced: Some(announced) }
    }

    pub(super) fn sealed(file: SealedPayload, announced: Announced) -> LargePayload {
        LargePayload { payload_bytes: file.len(), body: Body::Sealed(file), _announced: Some(announced) }
    }

    /// Length of the payload, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// The payload, if no process can change it.
    pub fn as_slice(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Copy(bytes) => Some(bytes),
            Body::Sealed(file) => Some(file),
            Body::Reused { .. } => None,
        }
    }

    /// Copies the payload, up to the shorter of the two lengths, and returns that length.
    ///
    /// # Errors
    /// [`Error::Overwritten`] when the publisher has used the memory again, because it does not wait for this subscriber: then the copy
    /// does not count.
    pub fn copy_to(&self, into: &mut [u8]) -> Result<usize> {
        let length = into.len().min(self.payload_bytes);
        match &self.body {
            Body::Copy(bytes) => into[..length].copy_from_slice(&bytes[..length]),
            Body::Sealed(file) => into[..length].copy_from_slice(&file[..length]),
            Body::Reused { file, .. } => file.copy_to(&mut into[..length]),
        }
        self.check_intact().map(|()| length)
    }

    /// Loads the payload in words of eight bytes, in order and in the byte order of the machine; zeroes fill the last word.
    ///
    /// # Errors
    /// As [`LargePayload::copy_to`]: then no word counts.
    pub fn for_each_word(&self, mut each: impl FnMut(u64)) -> Result<()> {
        match (&self.body, self.as_slice()) {
            (Body::Reused { file, .. }, _) => file.for_each_word(self.payload_bytes, each),
            (_, bytes) => {
                for chunk in bytes.unwrap_or_default().chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    each(u64::from_ne_bytes(word));
                }
            }
        }
        self.check_intact()
    }

    /// Fails once the publisher has used the memory again. What was read before a success counts.
    ///
    /// # Errors
    /// As [`LargePayload::copy_to`].
    pub fn check_intact(&self) -> Result<()> {
        match &self.body {
            Body::Reused { file, use_number } if !file.is_in_use(*use_number) => Err(Error::Overwritten),
            _ => Ok(()),
        }
    }

    /// The payload as a slice, also where its publisher can write it.
    ///
    /// # Safety
    /// Where [`as_slice`](LargePayload::as_slice) is `None`, the caller makes two promises. The policy of the subscriber is
    /// [`Policy::Reliable`](crate::Policy::Reliable), and it was neither dropped nor disconnected. And the process of its publisher, which is
    /// trusted, writes no payload that it has published: it uses this library or keeps to its protocol.
    pub unsafe fn bytes(&self) -> &[u8] {
        match (&self.body, self.as_slice()) {
            // SAFETY: the caller's promises; publishers wait until `self` is dropped, from which the slice borrows.
            (Body::Reused { file, .. }, _) => unsafe { file.bytes(self.payload_bytes) },
            (_, bytes) => bytes.unwrap_or_default(),
        }
    }
}

/// A place in the page of a subscriber that says which file it reads. Its drop gives the file back.
#[derive(Debug)]
pub struct Announced {
    page: Arc<SubscriberPage>,
    log: Arc<MappedLog>,
    place: usize,
    /// The process that joined: a forked child has neither page nor log.
    process: u32,
}

impl Announced {
    /// Announces that this subscriber reads `file`. `None` if it reads as many as its page has places.
    pub fn new(page: &Arc<SubscriberPage>, log: &Arc<MappedLog>, file: u64) -> Option<Announced> {
        let references = &*page.words().references;
        let place = references.iter().position(|reference| reference.load(Ordering::Relaxed) == 0)?;
        references[place].store(file, Ordering::Relaxed);
        let (page, log) = (Arc::clone(page), Arc::clone(log));
        Some(Announced { page, log, place, process: std::process::id() })
    }

    /// Whether this subscriber reads no file at all.
    pub fn is_only(&self) -> bool {
        let references = self.page.words().references.iter();
        references.filter(|reference| reference.load(Ordering::Relaxed) != 0).count() <= 1
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let words = self.page.words();
        words.references[self.place].store(0, Ordering::Release); // PAIR payload-reference
        words.released.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst); // PAIR space
        if self.log.tail().publishers_waiting.load(Ordering::Relaxed) != 0 {
            let _ = futex::wake(&words.released, u32::MAX);
        }
    }
}
