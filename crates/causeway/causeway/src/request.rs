//! What a process asks of the server of a group, as one type for both ends. Which word of a message means what is said here only.

use crate::options::Policy;
use crate::wire::{Message, Op, from_halves, halves};

/// A subscriber: its slot, and which of all that have used the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberId {
    pub slot: u32,
    pub generation: u32,
}

/// What a publisher can lack of a subscriber that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Page,
    Doorbell,
}

/// How the files of a pool are used; the numbers are those of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Each again and again.
    Reused = 0,
    /// Each once, sealed when it is published.
    Sealed = 1,
    ByTrust = 2,
}

/// A request. Where this version does not know a value that a request has, that is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The slot of a publisher of this type, 0 for bytes.
    Publish {
        fingerprint: u64,
    },
    /// The publisher has mapped the log of this epoch, or could not.
    Mapped {
        epoch: u64,
    },
    /// The slot of a subscriber to this type, 0 for bytes.
    Subscribe {
        policy: Option<Policy>,
        fingerprint: u64,
    },
    Report {
        from: u32,
    },
    /// Another connection.
    Connect,
    /// The subscriber has mapped and sealed its page.
    Ready,
    /// The subscriber has found its place in the log.
    Placed,
    /// What a publisher lacks of a subscriber.
    Fetch {
        subscriber: SubscriberId,
        part: Option<Part>,
    },
    /// The publisher can take in no page of this subscriber.
    Missed(SubscriberId),
    /// All subscribers that sleep are to be woken.
    Wake,
    Leave,
    /// The log after this one, which the subscriber has read to its end.
    Follow {
        epoch: u64,
    },
    /// Another log, because the publisher has not mapped the present one in time.
    Roll,
    Pool {
        kind: Option<PoolKind>,
        files: u32,
    },
    Allocate {
        bytes: u64,
    },
    /// No subscriber needs this file.
    Forget {
        index: u32,
    },
    Payload {
        pool: u32,
        index: u32,
    },
    /// The highest format that all have, whatever the creator has asked for.
    Upgrade,
    /// That no other process has this role while this connection lasts.
    Claim {
        role: u64,
    },
}

impl Request {
    /// The request that a message is, if it is one to the server of a group.
    pub fn decode(message: &Message) -> Option<Request> {
        let [first, second, third, fourth, ..] = message.words;
        let number = from_halves([first, second]);
        let subscriber = SubscriberId { slot: first, generation: second };
        Some(match message.op {
            Op::Publish => Request::Publish { fingerprint: number },
            Op::Mapped => Request::Mapped { epoch: number },
            Op::Subscribe => Request::Subscribe {
                policy: Policy::from_words([first, second]),
                fingerprint: from_halves([third, fourth]),
            },
            Op::Stat => Request::Report { from: first },
            Op::Connect => Request::Connect,
            Op::Ready => Request::Ready,
            Op::Placed => Request::Placed,
            Op::Fetch => Request::Fetch {
                subscriber,
                part: [Part::Page, Part::Doorbell].into_iter().find(|part| *part as u32 == third),
            },
            Op::Missed => Request::Missed(subscriber),
            Op::Wake => Request::Wake,
            Op::Leave => Request::Leave,
            Op::Follow => Request::Follow { epoch: number },
            Op::Roll => Request::Roll,
            Op::Pool => {
                let kinds = [PoolKind::Reused, PoolKind::Sealed, PoolKind::ByTrust];
                let kind = kinds.into_iter().find(|kind| *kind as u32 == first);
                Request::Pool { kind, files: second }
            }
            Op::Allocate => Request::Allocate { bytes: number },
            Op::Forget => Request::Forget { index: first },
            Op::Payload => Request::Payload { pool: first, index: second },
            Op::Upgrade => Request::Upgrade,
            Op::Claim => Request::Claim { role: number },
            _ => return None,
        })
    }
}

/// A value that is not known is sent as one that no version knows.
impl From<Request> for Message {
    fn from(request: Request) -> Message {
        let unknown = u32::MAX;
        match request {
            Request::Publish { fingerprint } => Message::new(Op::Publish, &halves(fingerprint)),
            Request::Mapped { epoch } => Message::new(Op::Mapped, &halves(epoch)),
            Request::Subscribe { policy, fingerprint } => {
                let policy = policy.map_or([unknown, 0], Policy::to_words);
                Message::new(Op::Subscribe, &[policy, halves(fingerprint)].concat())
            }
            Request::Report { from } => Message::new(Op::Stat, &[from]),
            Request::Connect => Message::new(Op::Connect, &[]),
            Request::Ready => Message::new(Op::Ready, &[]),
            Request::Placed => Message::new(Op::Placed, &[]),
            Request::Fetch { subscriber: SubscriberId { slot, generation }, part } => {
                Message::new(Op::Fetch, &[slot, generation, part.map_or(unknown, |part| part as u32)])
            }
            Request::Missed(SubscriberId { slot, generation }) => {
                Message::new(Op::Missed, &[slot, generation])
            }
            Request::Wake => Message::new(Op::Wake, &[]),
            Request::Leave => Message::new(Op::Leave, &[]),
            Request::Follow { epoch } => Message::new(Op::Follow, &halves(epoch)),
            Request::Roll => Message::new(Op::Roll, &[]),
            Request::Pool { kind, files } => {
                Message::new(Op::Pool, &[kind.map_or(unknown, |kind| kind as u32), files])
            }
            Request::Allocate { bytes } => Message::new(Op::Allocate, &halves(bytes)),
            Request::Forget { index } => Message::new(Op::Forget, &[index]),
            Request::Payload { pool, index } => Message::new(Op::Payload, &[pool, index]),
            Request::Upgrade => Message::new(Op::Upgrade, &[]),
            Request::Claim { role } => Message::new(Op::Claim, &halves(role)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was_sent_and_an_answer_is_none() {
        let subscriber = SubscriberId { slot: 3, generation: 1 << 31 };
        let (number, policy) = ((7 << 32) + 5, Some(Policy::Lossy));
        let requests = [
            Request::Publish { fingerprint: number },
            Request::Mapped { epoch: number },
            Request::Subscribe { policy, fingerprint: number },
            Request::Subscribe { policy: None, fingerprint: 0 },
            Request::Report { from: 9 },
            Request::Connect,
            Request::Ready,
            Request::Placed,
            Request::Fetch { subscriber, part: Some(Part::Page) },
            Request::Fetch { subscriber, part: Some(Part::Doorbell) },
            Request::Fetch { subscriber, part: None },
            Request::Missed(subscriber),
            Request::Wake,
            Request::Leave,
            Request::Follow { epoch: number },
            Request::Roll,
            Request::Pool { kind: Some(PoolKind::Sealed), files: 8 },
            Request::Pool { kind: None, files: 8 },
            Request::Allocate { bytes: number },
            Request::Forget { index: 2 },
            Request::Payload { pool: 1, index: 2 },
            Request::Upgrade,
            Request::Claim { role: number },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.into()), Some(request));
        }
        assert_eq!(Request::decode(&Message::new(Op::Granted, &[])), None);
    }
}
