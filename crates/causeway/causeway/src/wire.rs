//! The messages between a process and the server of a group: sixteen words each, and descriptors.
//!
//! Each has the form of a [`handshake`](causeway_os::handshake), and those that begin a membership or decide one carry an [`Offer`].
//! Everything received is input from another process. A message of another length, magic or version is malformed, and that is an
//! error, never a panic.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_os::handshake::{Handshake, MAY_BE_IGNORED, Mismatch, OFFER_AT, Offer, Part, REST, VERSION};
use causeway_os::process::poll;
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::io::Errno;

use crate::error::{Error, Refusal, Result, errno};
use crate::log::form::OFFER;

/// How long a client waits for an answer that a server gives at once.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);

const MAGIC: u32 = u32::from_le_bytes(*b"CWY1");
const BYTES: usize = causeway_os::handshake::BYTES;
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
/// In the same word: another grant says when subscribers that waited for publishers have their places. Without a server none of them finds
/// one any more.
pub const IS_AWAITED: u32 = 4;

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
    /// The operation of a message. [`Request`](crate::request::Request) says what those are that a process asks of a server,
    /// and which words they have.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Op {
        Publish = 1, Mapped = 2, Subscribe = 3, Stat = 4, Connect = 5, Ready = 6, Placed = 7, Fetch = 8, Missed = 9, Wake = 10,
        Leave = 11,
        /// Request: a connection for calls. `[1 if the client takes a wake page]`
        Call = 12,
        /// Notice of either end of a connection for calls: the descriptors that travel with a message.
        /// `[number of the call, low half, high half]`
        Descriptors = 13,
        Follow = 14, Roll = 15,
        /// Answer: granted. A publisher gets `[slot, flags]`, a subscriber `[slot, generation, trust]`.
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
        Pool = 32, Allocate = 33, Forget = 34, Payload = 35, Upgrade = 36, Claim = 37,
    }
}

impl Op {
    /// Whether the last five words are an [`Offer`].
    fn has_offer(self) -> bool {
        matches!(
            self,
            Op::Publish | Op::Subscribe | Op::Call | Op::Pool | Op::Granted | Op::Refused | Op::Waiting
        )
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

/// The arguments of a message; unused ones are 0.
pub type Words = [u32; REST];

/// A message: an operation and up to thirteen words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub op: Op,
    pub words: Words,
}

impl Message {
    /// A message with these words and zeroes after them; if it has an offer, with that of this release.
    pub fn new(op: Op, words: &[u32]) -> Message {
        let mut all = [0; REST];
        all[..words.len()].copy_from_slice(words);
        let message = Message { op, words: all };
        if op.has_offer() { message.with_offer(OFFER) } else { message }
    }

    /// The same with another offer.
    pub fn with_offer(mut self, offer: Offer) -> Message {
        self.words[OFFER_AT..].copy_from_slice(&offer.to_words());
        self
    }

    /// What its sender has, if it is a message that says so.
    pub fn offer(&self) -> Option<Offer> {
        let words = self.words.last_chunk().filter(|_| self.op.has_offer())?;
        Some(Offer::from_words(*words))
    }

    pub fn refusal(refusal: Refusal) -> Message {
        Message::new(Op::Refused, &[refusal as u32])
    }

    /// The error that a refusal is to a process with this offer. A reason unknown to this version comes from another version.
    fn refused(self, own: Offer) -> Error {
        let known = Refusal::ALL.iter().find(|refusal| **refusal as u32 == self.words[0]);
        match (known.copied().unwrap_or(Refusal::NotUnderstood), self.offer()) {
            (Refusal::OtherFormat, Some(other)) => {
                let mismatch = own.agree(other, Part::Writes).err();
                Error::OtherFormat(mismatch.unwrap_or(Mismatch { own, other, unknown: 0 }))
            }
            (refusal, _) => Error::Refused(refusal),
        }
    }

    pub fn is_refusal(self, refusal: Refusal) -> bool {
        self.op == Op::Refused && self.words[0] == refusal as u32
    }

    pub fn to_bytes(self) -> [u8; BYTES] {
        Handshake { magic: MAGIC, version: VERSION, operation: self.op as u32, rest: self.words }.to_bytes()
    }

    /// The message that these bytes are, if they are one.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let Handshake { magic, version, operation, rest } = Handshake::from_bytes(bytes)?;
        let op = Op::from_word(operation).filter(|_| magic == MAGIC && version == VERSION)?;
        Some(Message { op, words: rest })
    }

    /// Sends the message. On a non-blocking socket, a full buffer is `EAGAIN`.
    pub fn send(self, socket: impl AsFd, fds: &[BorrowedFd<'_>]) -> causeway_os::Result<()> {
        send_with_fds(socket, &self.to_bytes(), fds)
    }
}

/// What bytes are that are no message of ours.
fn not_ours(bytes: &[u8]) -> Incoming {
    match Handshake::from_bytes(bytes) {
        Some(Handshake { magic: MAGIC, version: VERSION, operation: MAY_BE_IGNORED.., .. }) => {
            Incoming::Ignored
        }
        Some(Handshake { magic: MAGIC, version, .. }) if version != VERSION => {
            Incoming::OtherVersion(version)
        }
        _ => Incoming::Malformed,
    }
}

/// What was read from a socket.
#[derive(Debug)]
pub enum Incoming {
    Message(Message, Vec<OwnedFd>),
    /// A message that this release does not know and need not understand.
    Ignored,
    /// A message of another version of the handshake: which.
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
    let mut received = recv_with_fds(socket, &mut bytes, max_fds);
    if received.as_ref().is_err_and(|error| errno(error) == Some(Errno::CONNRESET)) {
        // The peer left without having read everything. What it said before comes after this error.
        received = recv_with_fds(socket, &mut bytes, max_fds);
    }
    match received {
        Ok((0, _)) => Ok(Incoming::End),
        Ok((length, fds)) => Ok(match Message::decode(&bytes[..length]) {
            Some(message) => Incoming::Message(message, fds),
            None => not_ours(&bytes[..length]),
        }),
        Err(error) => match errno(&error) {
            Some(Errno::AGAIN) => Ok(Incoming::Nothing),
            _ if is_gone(&error) => Ok(Incoming::End),
            // Too long, or too many descriptors: the kernel has dropped the message and its descriptors.
            Some(Errno::MSGSIZE) => Ok(Incoming::Malformed),
            _ => Err(error.into()),
        },
    }
}

/// Whether this error means that the peer closed the connection, also with messages unread (which resets it).
fn is_gone(error: &causeway_os::Error) -> bool {
    matches!(errno(error), Some(Errno::PIPE | Errno::CONNRESET))
}

/// Sends a request and waits for the answer of a server that gives it at once.
pub fn ask(socket: &OwnedFd, request: impl Into<Message>) -> Result<(Message, Vec<OwnedFd>)> {
    ask_within(socket, request, ANSWER_TIME)
}

/// As [`ask`], waiting for this time at most.
pub fn ask_within(
    socket: &OwnedFd,
    request: impl Into<Message>,
    timeout: Duration,
) -> Result<(Message, Vec<OwnedFd>)> {
    let request: Message = request.into();
    tell_or_hear_why(socket, request)?;
    answer(socket, Some(timeout)).map_err(|error| match (error, request.offer()) {
        (Error::OtherFormat(mismatch), Some(own)) => Error::OtherFormat(Mismatch { own, ..mismatch }),
        (error, _) => error,
    })
}

/// As [`tell`], with the refusal that a server which hung up has left: it may refuse or disconnect a peer before it reads.
pub fn tell_or_hear_why(socket: &OwnedFd, message: impl Into<Message>) -> Result<()> {
    match tell(socket, message) {
        Err(Error::ServerGone) => match answer(socket, Some(Duration::ZERO)) {
            Err(error @ (Error::Refused(_) | Error::OtherFormat(_))) => Err(error),
            _ => Err(Error::ServerGone),
        },
        told => told,
    }
}

/// Sends a message to a server.
pub fn tell(socket: &OwnedFd, message: impl Into<Message>) -> Result<()> {
    message.into().send(socket, &[]).map_err(|error| match errno(&error) {
        _ if is_gone(&error) => Error::ServerGone,
        // The server has not read the messages before this one.
        Some(Errno::AGAIN) => Error::NoAnswer,
        _ => error.into(),
    })
}

/// Waits for the next answer, at most for `timeout`; `None` waits without a limit.
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
            Incoming::Message(message, _) if message.op == Op::Refused => Err(message.refused(OFFER)),
            Incoming::Message(message, fds) => Ok((message, fds)),
            Incoming::OtherVersion(version) => Err(Error::invalid(
                "answer",
                format!(
                    "the server uses version {version} of the handshake, and this program version {VERSION}"
                ),
            )),
            Incoming::Malformed => {
                Err(Error::invalid("answer", "the process that listens on this socket uses another protocol"))
            }
            Incoming::End => Err(Error::ServerGone),
            Incoming::Nothing | Incoming::Ignored => continue,
        };
    }
}

/// The words and descriptors of a grant. Any other answer to such a peer or request is an error.
pub fn granted((message, fds): (Message, Vec<OwnedFd>), to: &str) -> Result<(Words, Vec<OwnedFd>)> {
    match message.op {
        Op::Granted => Ok((message.words, fds)),
        other => Err(Error::invalid("answer", format!("{other:?} to {to}"))),
    }
}

/// Fails if the other side, in its answer to a request, names no format that a process with this offer has, or a feature that it has to
/// know and does not.
pub fn check_offer(answer: &Message, own: Offer, part: Part) -> Result<()> {
    let other = answer.offer().unwrap_or(OFFER);
    own.agree(other, part).map(drop).map_err(Error::OtherFormat)
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

    /// The rows of the table of operations in the document: first and third column.
    fn operations() -> Vec<(&'static str, &'static str)> {
        let document = include_str!("../../../../docs/wire.md");
        let (_, rest) = document.split_once("## Messages on the socket").unwrap();
        let rows = rest.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| "));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        cells.skip(1).map(|cells| (cells[0], cells[2])).collect()
    }

    #[test]
    fn operations_and_reasons_for_a_refusal_have_the_numbers_of_the_document() {
        let said: Vec<_> = operations().iter().flat_map(|(names, _)| names.split(", ")).collect();
        let known: Vec<_> = (0..1000)
            .filter_map(Op::from_word)
            .map(|op| format!("{} {}", op as u32, format!("{op:?}").to_lowercase()))
            .collect();
        assert_eq!(said, known);

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
            (Refusal::Disconnected, "disconnected"),
            (Refusal::OtherFormat, "no format in common"),
            (Refusal::FormatFixed, "the format is fixed"),
            (Refusal::Claimed, "claimed"),
        ];
        assert_eq!(said, known.map(|(refusal, words)| format!("{} {words}", refusal as u32)));
        assert!(known.iter().map(|(refusal, _)| refusal).eq(Refusal::ALL));
    }

    #[test]
    fn what_was_sent_comes_back_and_other_bytes_are_not_a_message() {
        let message = Message::new(Op::Subscribe, &[1, 2, u32::MAX]);
        let good = message.to_bytes();
        assert_eq!(Message::decode(&good), Some(message));
        for (at, value) in [(0, 0), (4, 99), (8, 200)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Message::decode(&bad), None, "byte {at}");
        }
        assert_eq!([&good[..63], &[]].map(Message::decode), [None; 2]);
        for refusal in Refusal::ALL {
            let error = Message::refusal(*refusal).refused(OFFER);
            assert!(
                matches!(error, Error::Refused(told) if told == *refusal)
                    || (*refusal == Refusal::OtherFormat && matches!(error, Error::OtherFormat(_)))
            );
        }
        for unknown in [0, 99] {
            let error = Message::new(Op::Refused, &[unknown]).refused(OFFER);
            assert!(matches!(error, Error::Refused(Refusal::NotUnderstood)));
        }
    }

    #[test]
    fn a_server_of_another_version_is_named_with_ours() {
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        let of_version = |message: Message, version: u32| {
            let mut bytes = message.to_bytes();
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            bytes
        };
        let refusal = of_version(Message::refusal(Refusal::NotUnderstood), VERSION - 1);
        send_with_fds(&far, &refusal, &[]).unwrap();
        let refused = ask(&near, Message::new(Op::Stat, &[])).unwrap_err().to_string();
        for version in [VERSION - 1, VERSION] {
            assert!(refused.contains(&format!("version {version}")), "{refused}");
        }
        let mut request = of_version(Message::new(Op::Subscribe, &[0, 0]), VERSION - 1);
        send_with_fds(&near, &request, &[]).unwrap();
        receive(&far, 0).unwrap();
        assert!(
            matches!(receive(&far, 0).unwrap(), Incoming::OtherVersion(version) if version == VERSION - 1)
        );
        request[0] ^= 1;
        send_with_fds(&near, &request, &[]).unwrap();
        assert!(matches!(receive(&far, 0).unwrap(), Incoming::Malformed));
    }

    #[test]
    fn a_server_that_does_not_answer_is_distinguished_from_one_that_is_gone() {
        let (near, far) = causeway_os::socket::seqpacket_pair().unwrap();
        let short = Duration::from_millis(2);
        let report = || Message::new(Op::Stat, &[]);
        assert!(matches!(ask_within(&near, report(), short), Err(Error::NoAnswer)));
        send_with_fds(&far, b"hello", &[]).unwrap();
        assert!(matches!(answer(&near, Some(short)), Err(Error::Invalid { .. })));
        drop(far);
        // The kernel reports the request that nobody read as a reset, then the end.
        assert!(matches!(answer(&near, Some(short)), Err(Error::ServerGone)));
        assert!(matches!(ask_within(&near, report(), short), Err(Error::ServerGone)));
    }
}

#[cfg(test)]
mod fuzz {
    use super::*;
    use crate::request::Request;
    use causeway_testkit::fuzz;

    /// Decoding a message and encoding its request again yields the same request.
    #[test]
    fn bytes_are_one_message_and_one_request_or_none() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/packet");
        fuzz::run(corpus, &["CWY1", "\u{9}\0\0\0", "\0\0\0\0"], |input| {
            let Some(message) = Message::decode(input) else {
                return Err(format!("{:?}", not_ours(input)).replace(char::is_numeric, ""));
            };
            assert_eq!(message.to_bytes(), input);
            assert_eq!(message.offer().is_some(), message.op.has_offer());
            let request = Request::decode(&message);
            if let Some(request) = request {
                let again = Request::decode(&Message::from(request));
                assert_eq!(again, Some(request), "{message:?}");
            }
            let refusal = (message.op == Op::Refused).then(|| message.refused(OFFER).to_string());
            Ok((message.op as u32, format!("{request:?}").replace(char::is_numeric, ""), refusal))
        });
    }
}
