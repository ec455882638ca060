//! Messages read where they lie.
//!
//! # Safety
//!
//! The bytes of a message lie in memory that its publisher's process can write. The safe methods here never make a Rust
//! reference to them: they copy, or load word by word, with instructions for which a concurrent change is a torn value and
//! nothing worse. [`InPlace::bytes`] makes a reference, and is `unsafe` because only its caller can know that the publishers
//! keep to the protocol.
#![allow(unsafe_code)]

use super::Subscriber;
use crate::log::{Memory, Position};

/// A message read where it lies in the log. Publishers wait for this subscriber, if its policy makes them, until the view is
/// dropped or finished; only then does the subscriber advance.
///
/// The bytes can change while they are read: a publisher that violates the protocol can change them, and publishers that do
/// not wait for this subscriber overwrite them sooner or later. So what was read counts only if [`InPlace::finish`] returns
/// `true`. A violation of the protocol it cannot detect.
///
/// ```
/// # use causeway::{Group, GroupOptions, Policy, Received};
/// # let group = Group::create("prices", GroupOptions::new())?;
/// # let mut publisher = group.publisher()?;
/// # let mut subscriber = group.subscribe(Policy::Reliable)?;
/// publisher.publish(&[1; 20])?;
/// let Ok(Received::Message(message)) = subscriber.try_recv_in_place() else { panic!("a message was published") };
/// let mut sum = 0;
/// message.for_each_word(|word| sum += word.count_ones());
/// assert!(message.finish() && sum == 20);
/// # Ok::<(), causeway::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "finish it to learn whether the bytes were overwritten meanwhile"]
pub struct InPlace<'a> {
    /// Holds the frame too: a view that is one pointer stays in a register wherever it is passed.
    subscriber: &'a mut Subscriber,
}

impl<'a> InPlace<'a> {
    #[inline(always)]
    pub(super) fn new(subscriber: &'a mut Subscriber) -> InPlace<'a> {
        InPlace { subscriber }
    }

    /// The payload as a slice, without a copy.
    ///
    /// # Safety
    /// The caller makes two promises. The policy of the subscriber is [`Policy::Reliable`](crate::Policy::Reliable): with any
    /// other, publishers may overwrite the bytes while the slice lives. And no process that can write the log changes the
    /// bytes of a message that it has published: every publisher of the group uses this library (or keeps to its protocol),
    /// and its process is trusted. Without these promises use [`InPlace::copy_to`] or [`InPlace::for_each_word`].
    #[inline(always)]
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promises; the subscriber advances when `self` is gone, which the slice borrows from.
        unsafe { self.subscriber.log.frame_bytes(self.subscriber.frame.position, self.payload_bytes()) }
    }

    /// Loads the payload in words of eight bytes, in order and in the byte order of the machine; zeroes fill the last word.
    /// What was read counts only if [`InPlace::finish`] then returns `true`.
    #[inline(always)]
    pub fn for_each_word(&self, each: impl FnMut(u64)) {
        self.subscriber.log.for_each_word(self.subscriber.frame.position, self.payload_bytes(), each);
    }

    /// Length of the payload, in bytes.
    #[inline(always)]
    pub fn payload_bytes(&self) -> usize {
        self.subscriber.frame.payload_bytes as usize
    }

    /// Position in the log, the same for every subscriber.
    pub fn position(&self) -> Position {
        Position(self.subscriber.frame.position)
    }

    /// Number of the publisher: its [`id`](crate::Publisher::id).
    pub fn publisher(&self) -> u8 {
        self.subscriber.frame.publisher
    }

    /// Messages that this publisher had published before, modulo 2³².
    pub fn sequence(&self) -> u32 {
        self.subscriber.frame.sequence
    }

    /// The topic that the publisher set; 0 by default.
    pub fn topic(&self) -> u32 {
        self.subscriber.frame.topic
    }

    /// Messages of this publisher that were lost before this one: see [`Message::lost_before`](crate::Message::lost_before).
    pub fn lost_before(&self) -> Option<u32> {
        self.subscriber.sequences.lost_before(&self.subscriber.frame)
    }

    /// Copies the payload into `into`, up to the shorter of the two lengths, and returns that length. What was copied counts
    /// only if [`InPlace::finish`] then returns `true`.
    #[inline(always)]
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        let length = into.len().min(self.payload_bytes());
        self.subscriber.log.read_payload(self.subscriber.frame.position, &mut into[..length]);
        length
    }

    /// Advances past the message. Returns whether publishers left its bytes alone until now; if not, this subscriber was
    /// overtaken, and the next [`Subscriber::try_recv`] returns the loss, which includes this message.
    #[inline(always)]
    pub fn finish(mut self) -> bool {
        let intact = self.advance();
        std::mem::forget(self);
        intact
    }

    /// Advances past the message, unless it was overwritten meanwhile: then the next peek finds the loss.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let frame = self.subscriber.frame;
        let intact = self.subscriber.reader.intact_from(self.subscriber.reader.position());
        if intact {
            self.subscriber.advance_past(&frame);
        }
        intact
    }
}

impl Drop for InPlace<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.advance();
    }
}
