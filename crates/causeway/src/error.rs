//! What can go wrong, and what to do about it.

use std::fmt;
use std::io;

use rustix::io::Errno;

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
    /// The rule of the group's creator ([`GroupOptions::readers`](crate::GroupOptions::readers) and
    /// [`publishers`](crate::GroupOptions::publishers)) does not let this user in.
    Forbidden,
    /// All slots are taken: 64 publishers, 256 receivers, or the connections that so many need.
    TooMany,
    /// This is a group of one publisher, and it has had its one. Others need
    /// [`GroupOptions::several_publishers`](crate::GroupOptions::several_publishers).
    OnePublisher,
    /// The publishers of this group were fixed before its log was sealed; see
    /// [`GroupOptions::remote_publishers`](crate::GroupOptions::remote_publishers).
    PublishersFixed,
    /// All publishers of other processes have left: nothing will be published in this group any more.
    Ended,
    /// A publisher has not looked at its notices for so long that nobody can join. It looks whenever it publishes.
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

/// One sentence: what happened, to what, and what to do about it.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os(error) => {
                error.fmt(f)?;
                match error.raw_os_error().map(Errno::from_raw_os_error).and_then(way_out) {
                    Some(way_out) => write!(f, "; {way_out}"),
                    None => Ok(()),
                }
            }
            Error::Kernel(lack) => write!(
                f,
                "this kernel is not fit for shared logs: {lack}; use Linux 5.3 or later, without a filter of system \
                 calls that hides it"
            ),
            Error::Invalid { what, why } => {
                write!(f, "unusable {what}: {why}")?;
                match *what {
                    "capacity" | "call" => Ok(()),
                    _ => f.write_str("; check which program serves here, and use the same version on both sides"),
                }
            }
            Error::Refused(refusal) => write!(f, "the group's server refuses: {refusal}"),
            Error::PeerGone(Gone::Publishers) => {
                f.write_str("all publishers of the group are gone and nothing more will come; join the next group")
            }
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
            Error::Closed => f.write_str("the group is closed and takes no more messages; create a new one"),
            Error::Late => f.write_str(
                "this receiver was later than its deadline and is disconnected; subscribe again, with a longer \
                 deadline or as a lossy receiver",
            ),
            Error::Corrupt { position } => write!(
                f,
                "a publisher broke the protocol at position {position}; leave the group and create it anew without \
                 that publisher"
            ),
            Error::NoAnswer => f.write_str(
                "the process that serves the group does not answer in time; see whether it is stopped or still waits \
                 for publishers, and try again",
            ),
        }
    }
}

/// What a user can do about an error of the kernel that usually has one cause.
fn way_out(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::MFILE => "raise the limit of open files of this process (ulimit -n)",
        Errno::NFILE => "raise the limit of open files of this machine (sysctl fs.file-max)",
        Errno::NOMEM => {
            "free memory, or raise the limit that is in the way: ulimit -v, sysctl vm.max_map_count, the memory of the \
             control group"
        }
        Errno::NOSPC => "free memory: the machine has none left to promise (sysctl vm.overcommit_memory)",
        Errno::FBIG => "raise the limit on the size of files (ulimit -f), or ask for less capacity",
        Errno::AGAIN => "raise the limit of threads (ulimit -u, or pids.max of the control group)",
        Errno::TOOMANYREFS => {
            "raise the limit of open files (ulimit -n), which bounds descriptors on their way too"
        }
        Errno::NOENT => "check the path, or start the process that serves the group",
        Errno::CONNREFUSED => "nobody serves there any more: start the process that serves the group",
        Errno::ADDRINUSE => "somebody serves there, or the file is no socket: use another path",
        Errno::NAMETOOLONG => "use a path of at most 107 bytes",
        Errno::ACCESS => "ask the owner of the group or of its folder for permission",
        _ => return None,
    })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Forbidden => {
                "its rule does not let this user in; run as the creator's user, or have the group created with this \
                 user among its readers or publishers (GroupOptions::readers, publishers)"
            }
            Refusal::TooMany => {
                "all slots are taken (64 publishers, 256 receivers); end what is not needed, or use a second group"
            }
            Refusal::OnePublisher => {
                "the group has had its one publisher; create it with GroupOptions::several_publishers(), or with \
                 remote_publishers() for other processes"
            }
            Refusal::PublishersFixed => {
                "its publishers were fixed before the log was sealed; create the group for one publisher more \
                 (GroupOptions::remote_publishers, serve --publishers)"
            }
            Refusal::Ended => "its publishers have left and it has ended; create a new group",
            Refusal::PublisherStuck => {
                "a publisher has not looked at its notices for so long that nobody can join; let it publish, or end it"
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals() -> [Refusal; 8] {
        use Refusal::*;
        [Forbidden, TooMany, OnePublisher, PublishersFixed, Ended, PublisherStuck, Exhausted, NotUnderstood]
    }

    fn every_kind() -> Vec<Error> {
        let mut all = vec![
            Error::os("map", "4096 bytes", Errno::NOMEM),
            Error::Kernel("it has no pidfd"),
            Error::invalid("capacity", "5000 bytes; use a power of two"),
            Error::invalid("answer", "it has 3 descriptors, not 4"),
            Error::PeerGone(Gone::Publishers),
            Error::PeerGone(Gone::Server),
            Error::TooLong { payload_bytes: 2000, limit_bytes: 1024 },
            Error::Evicted,
            Error::Closed,
            Error::Late,
            Error::Corrupt { position: 64 },
            Error::NoAnswer,
        ];
        all.extend(refusals().map(Error::Refused));
        all
    }

    #[test]
    fn every_message_is_one_line_that_says_what_happened_and_then_what_to_do() {
        for error in every_kind() {
            let message = error.to_string();
            let (happened, to_do) =
                message.split_once("; ").unwrap_or_else(|| panic!("no way out: {message}"));
            assert!(happened.len() > 10 && to_do.len() > 10, "{message}");
            assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        let messages: std::collections::BTreeSet<_> = refusals().map(|refusal| refusal.to_string()).into();
        assert_eq!(messages.len(), refusals().len());
    }
}
