//! The messages between a process and the server of a group: sixteen words each, and descriptors.
//!
//! Everything received is input from another process. A message of another length, magic or ABI is malformed, and that is an
//! error, never a panic.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::io::Errno;

use crate::error::{Error, Refusal, Result};
use crate::log::layout::ABI;

/// How long a client waits for an answer that a server gives at once.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

const MAGIC: u32 = u32::from_le_bytes(*b"CWY1");
const WORDS: usize = 16;
const BYTES: usize = WORDS * 4;
/// The most descriptors that any message of this protocol carries.
pub const FDS_MAX: usize = 6;

/// What stands for large payloads where other groups have the fingerprint of a type.
pub const FINGERPRINT_OF_LARGE_PAYLOADS: u64 = u64::from_le_bytes(*b"CWYLARGE");
/// The most files of one pool.
pub const FILES_MAX: u32 = 64;

/// In the second word of a grant to a publisher: its log has not begun, and another grant says when it has.
pub const IS_LATE: u32 = 1;
/// In the same word: the last descriptor is a connection for the next logs.
pub const GETS_LOGS: u32 = 2;

/// An enum of numbers of the protocol, with the way back from a number.
macro_rules! numbered {
    ($(#[$of_all:meta])* pub enum $name:ident { $($(#[$of_one:meta])* $one:ident = $number:literal,)* }) => {
        $(#[$of_all])*
        pub enum $name {
            $($(#[$of_one])* $one = $number,)*
        }

        impl $name {
            fn from_word(word: u32) -> Option<$name> {
                match word {
                    $($number => Some($name::$one),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// The operation of a message. The words after the first three are its arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Op {
        /// Request: a publisher's slot. `[fingerprint of the type, low half, high half]`
        Publish = 1,
        /// Request: the publisher has mapped the log, or could not. `[epoch, low half, high half]`
        Mapped = 2,
        /// Request: a subscriber's slot. `[policy, deadline in ms, fingerprint of the type, low half, high half]`
        Subscribe = 3,
        /// Request: a report on the group. `[number of the first row]`
        Stat = 4,
        /// Request: another connection.
        Connect = 5,
        /// Request: the subscriber has mapped and sealed its page.
        Ready = 6,
        /// Request: the subscriber has found its place in the log.
        Placed = 7,
        /// Request of a publisher: what it lacks of a subscriber. `[slot, generation, 0 page or 1 doorbell]`
        Fetch = 8,
        /// Request of a publisher: it can take in no page of this subscriber. `[slot, generation]`
        Missed = 9,
        /// Request of a publisher: wake the subscribers that sleep, because it lacks what it needs for that.
        Wake = 10,
        /// Notice of a publisher: it leaves. One whose connection ends without it was killed.
        Leave = 11,
        /// Request: a connection for calls. `[1 if the client takes a wake page]`
        Call = 12,
        /// Notice of either end of a connection for calls: the descriptors that travel with a message.
        /// `[number of the call, low half, high half]`
        Descriptors = 13,
        /// Request of a subscriber that has read its log to the end: the next one. `[epoch, low half, high half]`
        Follow = 14,
        /// Request of a publisher that did not map the present log in time: another one.
        Roll = 15,
        /// Answer: granted. A publisher gets `[slot]`, a subscriber
        /// `[slot, generation, trust]`.
        Granted = 16,
        /// Answer: refused. `[reason]`
        Refused = 17,
        /// Notice to publishers, and answer to one that fetches a page. `[slot, generation, policy, deadline in ms]`
        Joined = 18,
        /// Answer: one row of a report.
        Row = 19,
        /// Answer: no more rows follow in this answer. `[number of the next row, or 0]`
        End = 20,
        /// Answer: the grant follows when all publishers have joined.
        Waiting = 21,
        /// Answer to a publisher that fetches a doorbell. `[slot, generation]`
        Doorbell = 22,
        /// Notice to a publisher's connection for logs: the next one. `[epoch, low half, high half]`
        Log = 23,
        /// Request of a publisher: a pool of payload files. `[0 reused, 1 sealed, 2 as the trust of the group says, files]`
        Pool = 32,
        /// Request of a pool: a file. `[bytes, low half, high half]`
        Allocate = 33,
        /// Notice of a pool: no subscriber needs this file. `[index]`
        Forget = 34,
        /// Request of a subscriber: a payload file. `[pool, index]`
        Payload = 35,
    }
}

/// A number of 64 bits as two words, the low half first.
pub fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The number that [`halves`] took apart.
pub fn from_halves([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A message: an operation and up to thirteen words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The operation.
    pub op: Op,
    /// The arguments; unused words are 0.
    pub words: [u32; WORDS - 3],
}

impl Message {
    /// A message with these words and zeroes after them.
    pub fn new(op: Op, words: &[u32]) -> Message {
        let mut all = [0; WORDS - 3];
        all[..words.len()].copy_from_slice(words);
        Message { op, words: all }
    }

    /// A refusal.
    pub fn refusal(refusal: Refusal) -> Message {
        Message::new(Op::Refused, &[refusal as u32])
    }

    /// The reason of a refusal. A reason unknown to this version comes from another version.
    fn refused(self) -> Refusal {
        let known = Refusal::ALL.into_iter().find(|refusal| *refusal as u32 == self.words[0]);
        known.unwrap_or(Refusal::NotUnderstood)
    }

    fn encode(self, version: u32) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = [MAGIC, version, self.op as u32].into_iter().chain(self.words);
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The bytes of the message.
    pub fn to_bytes(self) -> [u8; BYTES] {
        self.encode(ABI)
    }

    /// The message that these bytes are, if they are one.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        if bytes.len() != BYTES {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        }
        let op = Op::from_word(words[2]).filter(|_| words[0] == MAGIC && words[1] == ABI)?;
        let mut rest = [0; WORDS - 3];
        rest.copy_from_slice(&words[3..]);
        Some(Message { op, words: rest })
    }

    /// Sends the message. On a non-blocking socket, a full buffer is `EAGAIN`.
    pub fn send(
        self,
        socket: impl AsFd,
        fds: &[BorrowedFd<'_>],
    ) -> std::result::Result<(), causeway_os::Error> {
        send_with_fds(socket, &self.encode(ABI), fds)
    }
}

/// What was read from a socket.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Message, Vec<OwnedFd>),
    /// A message of another version of this protocol: which.
    OtherVersion(u32),
    /// Bytes that are not a message of this protocol.
    Malformed,
    /// The other end is gone.
    End,
    /// Nothing at the moment, on a non-blocking socket.
    Nothing,
}

/// Takes one message with at most `max_fds` descriptors from a socket.
pub fn receive(socket: impl AsFd, max_fds: usize) -> Result<Incoming> {
    let socket = socket.as_fd();
    let mut bytes = [0; BYTES];
    let received = match recv_with_fds(socket, &mut bytes, max_fds) {
        // The peer left without having read everything. What it said before comes after this error.
        Err(error) if error.raw_os_error() == Some(Errno::CONNRESET.raw_os_error()) => {
            recv_with_fds(socket, &mut bytes, max_fds)
        }
        other => other,
    };
    match received {
        Ok((0, _)) => Ok(Incoming::End),
        Ok((length, fds)) => Ok(match Message::decode(&bytes[..length]) {
            Some(message) => Incoming::Message(message, fds),
            None => version_of(&bytes[..length]).map_or(Incoming::Malformed, Incoming::OtherVersion),
        }),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::AGAIN) => Ok(Incoming::Nothing),
            _ if is_gone(&error) => Ok(Incoming::End),
            // Too long, or too many descriptors: the kernel has dropped the message and its descriptors.
            Some(Errno::MSGSIZE) => Ok(Incoming::Malformed),
            _ => Err(error.into()),
        },
    }
}

/// The version of these bytes, if they are a message of another version than ours.
fn version_of(bytes: &[u8]) -> Option<u32> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let version = word(4).filter(|version| *version != ABI)?;
    (bytes.len() == BYTES && word(0) == Some(MAGIC)).then_some(version)
}

/// Whether this error means that the peer closed the connection, also with messages unread (which resets it).
pub fn is_gone(error: &causeway_os::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::PIPE | Errno::CONNRESET))
}

/// Sends a request and waits for the answer, at most for `timeout`; `None` waits without a limit.
pub fn ask(socket: &OwnedFd, request: Message, timeout: Option<Duration>) -> Result<(Message, Vec<OwnedFd>)> {
    match tell(socket, request) {
        // A server that refuses a visitor does so without waiting for the request.
        Err(Error::ServerGone) => match answer(socket, Some(Duration::ZERO)) {
            Err(error @ Error::Refused(_)) => Err(error),
            _ => Err(Error::ServerGone),
        },
        told => told.and_then(|()| answer(socket, timeout)),
    }
}

/// Sends a message to a server.
pub fn tell(socket: &OwnedFd, message: Message) -> Result<()> {
    message.send(socket, &[]).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        _ if is_gone(&error) => Error::ServerGone,
        // The server has not read the messages before this one.
        Some(Errno::AGAIN) => Error::NoAnswer,
        _ => error.into(),
    })
}

/// Waits for the next answer, at most for `timeout`.
pub fn answer(socket: &OwnedFd, timeout: Option<Duration>) -> Result<(Message, Vec<OwnedFd>)> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if !poll(&[socket.as_fd()], left)?[0] {
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Error::NoAnswer);
            }
            continue;
        }
        return match receive(socket, FDS_MAX)? {
            Incoming::Message(message, _) if message.op == Op::Refused => {
                Err(Error::Refused(message.refused()))
            }
            Incoming::Message(message, fds) => Ok((message, fds)),
            Incoming::OtherVersion(version) => Err(Error::invalid(
                "answer",
                format!("the server uses version {version} of the protocol, and this program version {ABI}"),
            )),
            Incoming::Malformed => {
                Err(Error::invalid("answer", "the process that listens on this socket uses another protocol"))
            }
            Incoming::End => Err(Error::ServerGone),
            Incoming::Nothing => continue,
        };
    }
}

/// The `N` descriptors of an answer.
pub fn take_fds<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N]> {
    let got = fds.len();
    <[OwnedFd; N]>::try_from(fds)
        .map_err(|_| Error::invalid("answer", format!("it has {got} descriptors instead of {N}")))
}

/// The `N` descriptors of an answer, and one more if it has that: the wake page of processes of one user.
pub fn take_fds_and_wake_page<const N: usize>(
    mut fds: Vec<OwnedFd>,
) -> Result<([OwnedFd; N], Option<OwnedFd>)> {
    let wake_page = if fds.len() == N + 1 { fds.pop() } else { None };
    Ok((take_fds(fds)?, wake_page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let message = Message::new(Op::Subscribe, &[1, 2, u32::MAX]);
        assert_eq!(Message::decode(&message.encode(ABI)), Some(message));
    }

    #[test]
    fn every_refusal_comes_back_as_it_was_sent_and_an_unknown_one_as_another_version() {
        for refusal in Refusal::ALL {
            assert_eq!(Message::refusal(refusal).refused(), refusal);
        }
        assert_eq!(Message::new(Op::Refused, &[0]).refused(), Refusal::NotUnderstood);
        assert_eq!(Message::new(Op::Refused, &[99]).refused(), Refusal::NotUnderstood);
    }

    /// The rows of the table of operations in the document: first and third column.
    fn operations() -> Vec<(&'static str, &'static str)> {
        let document = include_str!("../../../../docs/wire.md");
        let (_, rest) = document.split_once("## Messages on the socket").unwrap();
        let rows = rest.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| "));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        cells.skip(1).map(|cells| (cells[0], cells[2])).collect()
    }

    #[test]
    fn operations_have_the_numbers_of_the_document() {
        let said: Vec<_> = operations().iter().flat_map(|(names, _)| names.split(", ")).collect();
        let known: Vec<_> = (0..1000)
            .filter_map(Op::from_word)
            .map(|op| format!("{} {}", op as u32, format!("{op:?}").to_lowercase()))
            .collect();
        assert_eq!(said, known);
    }

    #[test]
    fn reasons_for_a_refusal_have_the_numbers_of_the_document() {
        let (_, reasons) = operations().into_iter().find(|(name, _)| name.ends_with("refused")).unwrap();
        let said: Vec<_> = reasons.strip_prefix("reason: ").unwrap().split(", ").collect();
        let known = [
            (Refusal::Forbidden, "rule"),
            (Refusal::TooMany, "no slot"),
            (Refusal::PublishersFixed, "publishers fixed"),
            (Refusal::PublisherStuck, "a publisher is stuck"),
            (Refusal::NotUnderstood, "not understood"),
            (Refusal::Exhausted, "out of descriptors or memory"),
            (Refusal::OnePublisher, "the one publisher was there"),
            (Refusal::Ended, "the group has ended"),
            (Refusal::TooPatient, "publishers do not wait that long"),
            (Refusal::TooLate, "no request within a second"),
            (Refusal::NotReading, "replies are not read"),
            (Refusal::OtherType, "another type"),
            (Refusal::PayloadsHeld, "payloads are held"),
            (Refusal::PayloadGone, "the payload is gone"),
            (Refusal::LogsHeld, "earlier logs are held"),
        ];
        assert_eq!(said, known.map(|(refusal, words)| format!("{} {words}", refusal as u32)));
        assert_eq!(known.len(), Refusal::ALL.len());
    }

    #[test]
    fn bytes_of_another_protocol_version_or_length_are_not_a_message() {
        let good = Message::new(Op::Stat, &[]).encode(ABI);
        for (at, value) in [(0, 0), (4, 99), (8, 200)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Message::decode(&bad), None, "byte {at}");
        }
        assert_eq!(Message::decode(&good[..63]), None);
        assert_eq!(Message::decode(&[]), None);
    }

    #[test]
    fn a_server_of_another_version_is_named_with_ours() {
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        send_with_fds(&far, &Message::refusal(Refusal::NotUnderstood).encode(ABI - 1), &[]).unwrap();
        let refused = ask(&near, Message::new(Op::Stat, &[]), Some(ANSWER_TIME)).unwrap_err().to_string();
        for version in [ABI - 1, ABI] {
            assert!(refused.contains(&format!("version {version}")), "{refused}");
        }
        let mut request = Message::new(Op::Subscribe, &[0, 0]).encode(ABI - 1);
        send_with_fds(&near, &request, &[]).unwrap();
        receive(&far, 0).unwrap();
        assert!(matches!(receive(&far, 0).unwrap(), Incoming::OtherVersion(version) if version == ABI - 1));
        request[0] ^= 1;
        send_with_fds(&near, &request, &[]).unwrap();
        assert!(matches!(receive(&far, 0).unwrap(), Incoming::Malformed));
    }

    #[test]
    fn a_server_that_does_not_answer_is_distinguished_from_one_that_is_gone() {
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        let short = Some(Duration::from_millis(2));
        assert!(matches!(ask(&near, Message::new(Op::Stat, &[]), short), Err(Error::NoAnswer)));
        send_with_fds(&far, b"hello", &[]).unwrap();
        assert!(matches!(answer(&near, short), Err(Error::Invalid { .. })));
        drop(far);
        // The kernel reports the request that nobody read as a reset, then the end.
        assert!(matches!(answer(&near, short), Err(Error::ServerGone)));
        assert!(matches!(ask(&near, Message::new(Op::Stat, &[]), short), Err(Error::ServerGone)));
    }
}
