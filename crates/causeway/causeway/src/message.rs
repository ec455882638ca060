//! What a subscriber receives.

use crate::log::{Loss, Position};

/// A message, copied out of the log into the subscriber's buffer. Valid until the next call on the subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Position in the log, the same for every subscriber.
    pub position: Position,
    /// Number of the publisher: its [`id`](crate::Publisher::id).
    pub publisher: u8,
    /// Messages that this publisher had published before, modulo 2³².
    pub sequence: u32,
    /// The topic that the publisher set; 0 by default.
    pub topic: u32,
    /// The mark that the publisher set ([`Loan::with_mark`](crate::Loan::with_mark)); 0 by default.
    pub mark: u64,
    /// Messages of this publisher that this subscriber lost before this one, since the last one of it that it received: its part
    /// of what [`Received::Lost`] counted. `None` if that is not known, because this is the first message of the publisher
    /// after a loss.
    pub lost_before: Option<u32>,
}

/// A message with a payload of its own, for streams and other threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// The payload.
    pub bytes: Vec<u8>,
    /// Position in the log, the same for every subscriber.
    pub position: Position,
    /// Number of the publisher: its [`id`](crate::Publisher::id).
    pub publisher: u8,
    /// Messages that this publisher had published before, modulo 2³².
    pub sequence: u32,
    /// The topic that the publisher set; 0 by default.
    pub topic: u32,
    /// The mark that the publisher set ([`Loan::with_mark`](crate::Loan::with_mark)); 0 by default.
    pub mark: u64,
    /// See [`Message::lost_before`].
    pub lost_before: Option<u32>,
}

/// A message whose payload is more than bytes: a value of one type, or a [`LargePayload`](crate::LargePayload).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageOf<P> {
    /// The value, or where the payload lies.
    pub payload: P,
    /// Position in the log, the same for every subscriber.
    pub position: Position,
    /// Number of the publisher: its [`id`](crate::Publisher::id).
    pub publisher: u8,
    /// Messages that this publisher had published before, modulo 2³².
    pub sequence: u32,
    /// The topic that the publisher set; 0 by default.
    pub topic: u32,
    /// See [`Message::lost_before`]; payloads by reference that were gone count, too.
    pub lost_before: Option<u32>,
}

/// What a subscriber receives: a message, or the news that messages were lost before the next one or may be from now on. `M` is [`Message`],
/// [`OwnedMessage`] or [`InPlace`](crate::InPlace).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received<M> {
    /// The next message.
    Message(M),
    /// Publishers overwrote messages that this subscriber had not read. The next call returns the oldest message still in
    /// the log. Does not happen with [`Policy::Reliable`](crate::Policy::Reliable). Whose messages they were is told by the next
    /// message of each publisher: [`Message::lost_before`].
    Lost {
        /// Messages lost since the last message received, exactly.
        messages: u64,
        /// Bytes of log that they took.
        bytes: u64,
    },
    /// This subscriber missed the deadline of [`Policy::DemoteAfter`](crate::Policy::DemoteAfter): publishers no longer wait for it. From now on it
    /// is as one that is [`Lossy`](crate::Policy::Lossy). Told once, before the first loss; a subscriber that shall be waited for again
    /// subscribes anew.
    Demoted,
}

impl<M> Received<M> {
    pub(crate) fn lost(loss: Loss) -> Received<M> {
        Received::Lost { messages: loss.messages, bytes: loss.bytes }
    }

    /// The same with another message.
    #[inline(always)]
    pub(crate) fn map<N>(self, with: impl FnOnce(M) -> N) -> Received<N> {
        match self {
            Received::Message(message) => Received::Message(with(message)),
            Received::Lost { messages, bytes } => Received::Lost { messages, bytes },
            Received::Demoted => Received::Demoted,
        }
    }

    /// The message; `None` for news.
    pub fn message(self) -> Option<M> {
        match self {
            Received::Message(message) => Some(message),
            Received::Lost { .. } | Received::Demoted => None,
        }
    }
}

impl Message<'_> {
    /// The same with another payload.
    pub(crate) fn with<P>(&self, payload: P) -> MessageOf<P> {
        let Message { bytes: _, position, publisher, sequence, topic, mark: _, lost_before } = *self;
        MessageOf { payload, position, publisher, sequence, topic, lost_before }
    }

    /// Copies the payload, so that the message can outlive the next call on the subscriber.
    pub fn into_owned(self) -> OwnedMessage {
        let Message { bytes, position, publisher, sequence, topic, mark, lost_before } = self;
        OwnedMessage { bytes: bytes.to_vec(), position, publisher, sequence, topic, mark, lost_before }
    }
}

impl Received<Message<'_>> {
    /// As [`Message::into_owned`].
    pub fn into_owned(self) -> Received<OwnedMessage> {
        self.map(Message::into_owned)
    }
}
