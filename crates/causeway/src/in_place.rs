//! Messages read where they lie.
//!
//! # Safety
//!
//! The bytes of a message lie in memory that its publisher's process can write. The safe methods here never make a Rust
//! reference to them: they copy, or load word by word, with instructions for which a change meanwhile is a torn value
//! and nothing worse. [`InPlace::bytes`] makes a reference, and is `unsafe` because only its caller can know that the
//! publishers keep to the protocol.
#![allow(unsafe_code)]

use crate::log::Memory;
use crate::publisher::Position;
use crate::subscriber::Subscriber;

/// A message read where it lies. Publishers wait for this receiver, if its policy makes them, until the view is
/// dropped or finished; only then has the receiver moved on.
///
/// Bytes in the log can change while they are looked at: a publisher that breaks the protocol can change them, and
/// where publishers do not wait for this receiver, they are overwritten sooner or later. So what was read counts only
/// if [`InPlace::finish`] says that the bytes held still; of a publisher that breaks the protocol it cannot know.
///
/// ```
/// # use causeway::{Group, GroupOptions, Policy};
/// # let group = Group::create("prices", GroupOptions::new())?;
/// # let mut publisher = group.publisher()?;
/// # let mut subscriber = group.subscribe(Policy::Reliable)?;
/// let _ = publisher.publish_within(&[1; 20], None)?;
/// let message = subscriber.receive_in_place()?.expect("it was published");
/// let mut sum = 0;
/// message.for_each_word(|word| sum += word.count_ones());
/// assert!(message.finish() && sum == 20);
/// # Ok::<(), causeway::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "finish it to learn whether the bytes held still"]
pub struct InPlace<'a> {
    /// Holds the frame too: a view that is one pointer stays in a register however often it is handed on.
    subscriber: &'a mut Subscriber,
}

impl<'a> InPlace<'a> {
    #[inline(always)]
    pub(crate) fn new(subscriber: &'a mut Subscriber) -> InPlace<'a> {
        InPlace { subscriber }
    }

    /// The payload as a slice, without a copy.
    ///
    /// # Safety
    /// Two promises. The receiver's policy is [`Policy::Reliable`](crate::Policy::Reliable): with any other, publishers
    /// may overwrite the bytes while the slice lives. And no process that can write the log changes bytes of a message
    /// that it has published: every publisher of the group is this library (or keeps to its protocol), and its process
    /// is trusted. Where that cannot be promised use [`InPlace::copy_to`] or [`InPlace::for_each_word`].
    #[inline(always)]
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promises; the receiver moves on when `self` is gone, which the slice borrows from.
        unsafe { self.subscriber.log.frame_bytes(self.subscriber.frame.position, self.payload_bytes()) }
    }

    /// Loads the payload in words of eight bytes, in order and in the machine's byte order; the last one is filled up with zeroes.
    /// What was read counts only if [`InPlace::finish`] then says so.
    #[inline(always)]
    pub fn for_each_word(&self, each: impl FnMut(u64)) {
        self.subscriber.log.for_each_word(self.subscriber.frame.position, self.payload_bytes(), each);
    }

    /// Length of the payload, in bytes.
    #[inline(always)]
    pub fn payload_bytes(&self) -> usize {
        self.subscriber.frame.payload_bytes as usize
    }

    /// Where it lies in the one order of the group.
    pub fn position(&self) -> Position {
        Position(self.subscriber.frame.position)
    }

    /// Which publisher sent it.
    pub fn publisher(&self) -> u8 {
        self.subscriber.frame.publisher
    }

    /// How many messages that publisher had sent before, modulo 2³².
    pub fn sequence(&self) -> u32 {
        self.subscriber.frame.sequence
    }

    /// What it is about.
    pub fn topic(&self) -> u32 {
        self.subscriber.frame.topic
    }

    /// Copies the beginning of the payload into `into`, as far as both reach. What was copied counts only if
    /// [`InPlace::finish`] then says so.
    #[inline(always)]
    pub fn copy_to(&self, into: &mut [u8]) -> usize {
        let length = into.len().min(self.payload_bytes());
        self.subscriber.log.read_payload(self.subscriber.frame.position, &mut into[..length]);
        length
    }

    /// Moves behind the message. Returns whether its bytes held still all the time; if not, this receiver was
    /// overtaken, and the next [`Subscriber::receive`] says what was lost, this message included.
    #[inline(always)]
    pub fn finish(mut self) -> bool {
        let intact = self.let_go();
        std::mem::forget(self);
        intact
    }

    /// Moves behind the message. If it was overwritten meanwhile there is nothing to do: the next look says what was lost.
    #[inline(always)]
    fn let_go(&mut self) -> bool {
        let end = self.subscriber.frame.end;
        let intact = self.subscriber.reader.intact_from(self.subscriber.reader.position());
        if intact {
            self.subscriber.pass(end);
        }
        intact
    }
}

impl Drop for InPlace<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.let_go();
    }
}
