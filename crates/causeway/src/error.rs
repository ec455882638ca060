//! What can go wrong, and what to do about it.

use std::fmt;
use std::io;

use crate::log::{Corrupt, Evicted};

/// The result of a call into this library.
pub type Result<T> = std::result::Result<T, Error>;

/// A promise was broken: by the kernel, by a peer, or by the caller. What is merely a normal outcome (a full log, an
/// empty one, a time that is over) is not an error but a value.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused.
    Os(causeway_os::Error),
    /// This kernel lacks something that safety rests on.
    Kernel(&'static str),
    /// Something that was handed to us is not what it should be. It was not used.
    Invalid {
        /// What was wrong: `"log descriptor"`, `"capacity"`, …
        what: &'static str,
        /// How it was wrong.
        why: String,
    },
    /// The process that serves the group said no.
    Refused(Refusal),
    /// Nobody is left who could make the call succeed.
    PeerGone(Gone),
    /// The payload is above the limit of the group.
    TooLong {
        /// Its length.
        payload_bytes: usize,
        /// The longest that fits: a quarter of the capacity.
        limit_bytes: usize,
    },
    /// This publisher was taken for gone and its unfinished message was decided without it. Nothing was published;
    /// make a new publisher.
    Evicted,
    /// The group was closed: it takes no more messages.
    Closed,
    /// This receiver was later than its deadline allows, and its policy says that it is then disconnected.
    Late,
    /// A publisher broke the protocol: the log holds something impossible at this position. Leave the group.
    Corrupt {
        /// Where.
        position: u64,
    },
    /// The process that serves the group did not answer in time.
    NoAnswer,
}

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The rule of the group's creator does not let this user in.
    Forbidden,
    /// All slots are taken.
    TooMany,
    /// The publishers of this group were fixed before its log was sealed.
    PublishersFixed,
    /// A publisher does not read its notices, so that nobody can join.
    PublisherStuck,
    /// The server is out of descriptors or memory.
    Exhausted,
    /// The request was not understood: other versions on both sides.
    NotUnderstood,
}

/// Who is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gone {
    /// Every publisher: no message will come any more. All that were published have been received.
    Publishers,
    /// The process that serves the group. Traffic goes on, but nobody can join.
    Server,
}

impl Error {
    pub(crate) fn invalid(what: &'static str, why: impl Into<String>) -> Error {
        Error::Invalid { what, why: why.into() }
    }

    pub(crate) fn os(op: &'static str, on: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Os(causeway_os::Error::new(op, on, source))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os(error) => error.fmt(f),
            Error::Kernel(lack) => write!(f, "this kernel is not fit for shared logs: {lack}"),
            Error::Invalid { what, why } => write!(f, "unusable {what}: {why}"),
            Error::Refused(refusal) => write!(f, "the group's server refuses: {refusal}"),
            Error::PeerGone(Gone::Publishers) => f.write_str("all publishers of the group are gone"),
            Error::PeerGone(Gone::Server) => {
                f.write_str("the process that serves the group is gone; start it again and join anew")
            }
            Error::TooLong { payload_bytes, limit_bytes } => write!(
                f,
                "a payload of {payload_bytes} bytes is above the limit of {limit_bytes}; create the group with four \
                 times the payload as capacity"
            ),
            Error::Evicted => {
                f.write_str("this publisher was taken for gone; make a new one and publish again")
            }
            Error::Closed => f.write_str("the group is closed; create a new one"),
            Error::Late => f.write_str("this receiver was later than its deadline and is disconnected"),
            Error::Corrupt { position } => {
                write!(f, "a publisher broke the protocol at position {position}; leave the group")
            }
            Error::NoAnswer => {
                f.write_str("the process that serves the group does not answer; it may be stopped")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Forbidden => "its rule does not let this user in",
            Refusal::TooMany => "all slots are taken",
            Refusal::PublishersFixed => {
                "its publishers were fixed before the log was sealed; create the group for one publisher more"
            }
            Refusal::PublisherStuck => "a publisher does not read its notices, so that nobody can join now",
            Refusal::Exhausted => {
                "it is out of descriptors or memory; raise its limits (ulimit -n) or try again later"
            }
            Refusal::NotUnderstood => "the request was not understood; use the same version on both sides",
        })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os(error) => Some(error.os()),
            _ => None,
        }
    }
}

impl From<causeway_os::Error> for Error {
    fn from(error: causeway_os::Error) -> Error {
        Error::Os(error)
    }
}

impl From<Corrupt> for Error {
    fn from(corrupt: Corrupt) -> Error {
        Error::Corrupt { position: corrupt.position }
    }
}

impl From<Evicted> for Error {
    fn from(_: Evicted) -> Error {
        Error::Evicted
    }
}
