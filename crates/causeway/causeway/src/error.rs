//! What can fail, and what to do about it.

use std::fmt;
use std::io;

use causeway_os::handshake::Mismatch;
use rustix::io::Errno;

use crate::log::{Corrupt, Evicted};

/// A system call that failed: what was tried, on what, and the error of the kernel.
pub use causeway_os::Error as OsError;

/// The result of a call into this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: of the kernel, of a peer, or of the caller.
///
/// Outcomes that every program must expect (a full log, an empty one, a timeout) are not here. They are variants of
/// [`TryPublishError`](crate::TryPublishError), [`TryRecvError`](crate::TryRecvError) and their `Timeout` counterparts.
///
/// `Display` and `Debug` both print one sentence that says what happened and what to do about it, so that
/// `fn main() -> causeway::Result<()>` ends with that sentence.
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    Os(OsError),
    /// This kernel lacks a feature that the library needs to be safe. Names the feature.
    Kernel(&'static str),
    /// A descriptor, a message or an argument is not what it should be. It was not used.
    Invalid {
        /// What is invalid: `"log descriptor"`, `"capacity"`, …
        what: &'static str,
        /// Why it is invalid.
        why: String,
    },
    /// The server of the group refused the request.
    Refused(Refusal),
    /// This program and the group, or what serves it, are of releases too far apart. Names the formats of both.
    OtherFormat(Mismatch),
    /// The group has ended: no publisher is left and none can join, or the group was closed by
    /// [`Group::evict`](crate::Group::evict). A subscriber gets this after it has received every message. It is the normal
    /// end of a group.
    Disconnected,
    /// The process that serves the group is gone: no process can join the group. Messages still flow.
    ServerGone,
    /// The payload is longer than the group allows.
    TooLong {
        /// Length of the payload, in bytes.
        payload_bytes: usize,
        /// The longest payload of the group, in bytes: a quarter of its capacity.
        limit_bytes: usize,
    },
    /// This publisher was evicted (see [`Group::evict`](crate::Group::evict)). The message was not published.
    Evicted,
    /// This subscriber missed the deadline of [`Policy::DisconnectAfter`](crate::Policy::DisconnectAfter), and publishers no
    /// longer wait for it. It has left the group: every later call returns this again.
    MissedDeadline {
        /// Messages that it had not received, exactly.
        lost_messages: u64,
    },
    /// The log holds bytes that no correct publisher writes. Leave the group.
    Corrupt {
        /// Position in the log.
        position: u64,
    },
    /// The process that serves the group did not answer in time.
    NoAnswer,
    /// A message is not as long as a value of its type. Its publisher has another type, or none. The message was skipped.
    WrongSize {
        /// Length of the message, in bytes.
        payload_bytes: usize,
        /// Size of the type, in bytes.
        expected_bytes: usize,
    },
    /// This subscriber holds so many payloads that it gets no further one: drop one of them. The message was not received.
    TooManyReferences,
    /// The publisher has used the memory of this payload again, because it does not wait for this subscriber. What was read of it
    /// does not count.
    Overwritten,
}

/// Reasons with their numbers on the wire, and their sentences, which are their documentation.
macro_rules! refusals {
    ($($name:ident = $number:literal: $sentence:literal;)*) => {
        /// Why a server refused a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Refusal {
            $(#[doc = concat!("The server of the group refused: ", $sentence, ".")] $name = $number,)*
        }

        impl Refusal {
            pub(crate) const ALL: &[Refusal] = &[$(Refusal::$name,)*];
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Refusal::$name => $sentence,)*
                })
            }
        }
    };
}

refusals! {
    Forbidden = 1: "its access rule does not admit this user; run as the user who created the group, or create the group \
        with this user among its subscribers or publishers (GroupOptions::subscribers, publishers)";
    TooMany = 2: "all slots, or the share of this user in them, are taken (64 publishers, 1,024 subscribers, as far as the \
        server's limit of open files goes); end publishers or subscribers, raise that limit (ulimit -n), or use a second group";
    PublishersFixed = 3: "all its publishers have joined and the log is sealed; create the group for one publisher more \
        (GroupOptions::remote_publishers, serve --publishers)";
    PublisherStuck = 4: "a publisher has not read its notices for so long that no process can join; let it publish, or end it";
    NotUnderstood = 5: "it did not understand the request; use the same version on both sides";
    Exhausted = 6: "it is out of descriptors or memory; raise its limits (ulimit -n) or try again later";
    OnePublisher = 7: "the group allows one publisher, which has joined already; create the group with \
        GroupOptions::several_publishers(), or with remote_publishers() for other processes";
    Ended = 8: "all publishers of the group have left; create a new group";
    TooPatient = 9: "publishers do not wait that long for a subscriber of this user; subscribe with a shorter deadline or with \
        the policy lossy, or create the group with GroupOptions::most_patient_for_others";
    TooLate = 10: "no request came within a second of connecting; send one at once, or try again";
    NotReading = 11: "this client has not read its replies; wait for calls that were begun, and connect again";
    OtherType = 12: "its messages have another type, or one without a name; join with the type with which the group was \
        created (name, size and alignment must agree)";
    PayloadsHeld = 13: "subscribers hold as many payload files as the group allows; drop payloads that were received, or make \
        the pool larger (PoolOptions::files)";
    PayloadGone = 14: "the payload file is not there any more; its publisher has left or does not wait for this subscriber; \
        subscribe with the policy reliable";
    LogsHeld = 15: "so many earlier logs are not read to their end that no further one begins; let the subscribers read, or \
        end the one that does not (Group::disconnect), and try again";
    Disconnected = 16: "it has disconnected this publisher (Group::disconnect_publisher, or one that published faster than \
        GroupOptions::publisher_rate_max allows, which is not admitted again before time has made up for it); publish less, and join again";
    OtherFormat = 17: "it has no format in common with this program; install releases on both sides that follow each other";
    FormatFixed = 18: "the group cannot change its format, because its publishers are in other processes that were not prepared for \
        another log; create it with GroupOptions::late_publishers, or with the format that it is to have";
    Claimed = 19: "another process has claimed this role in the group, which one process has at a time; end that one first";
}

impl Error {
    pub(crate) fn invalid(what: &'static str, why: impl Into<String>) -> Error {
        Error::Invalid { what, why: why.into() }
    }

    pub(crate) fn os(op: &'static str, on: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Os(OsError::new(op, on, source))
    }
}

/// The number of the kernel's error.
pub(crate) fn errno(error: &OsError) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os(error) => {
                error.fmt(f)?;
                match errno(error).and_then(remedy) {
                    Some(remedy) => write!(f, "; {remedy}"),
                    None => Ok(()),
                }
            }
            Error::Kernel(missing) => write!(
                f,
                "this kernel cannot share logs safely: {missing}; use Linux 5.3 or later, and a seccomp filter that allows \
                 these system calls"
            ),
            Error::Invalid { what, why } => {
                write!(f, "invalid {what}: {why}")?;
                match *what {
                    "capacity" | "call" | "path" => Ok(()),
                    _ => f.write_str("; check which program serves the group, and use the same version on both sides"),
                }
            }
            Error::Refused(refusal) => write!(f, "the server of the group refused: {refusal}"),
            Error::OtherFormat(mismatch) => mismatch.fmt(f),
            Error::Disconnected => f.write_str(
                "the group has ended, because its publishers are gone or it was closed; create or join another group",
            ),
            Error::ServerGone => f.write_str(
                "the process that serves the group is gone; start it again and join the group that it creates",
            ),
            Error::TooLong { payload_bytes, limit_bytes } => write!(
                f,
                "a payload of {payload_bytes} bytes exceeds the limit of {limit_bytes} bytes; create the group with a \
                 capacity of at least four times the payload"
            ),
            Error::Evicted => f.write_str("this publisher was evicted; create a new group and publish there"),
            Error::MissedDeadline { lost_messages } => write!(
                f,
                "this subscriber missed its deadline and is disconnected, {lost_messages} messages behind; subscribe again, \
                 with a longer deadline or with the policy lossy"
            ),
            Error::Corrupt { position } => write!(
                f,
                "a publisher violated the protocol at position {position}; leave the group and create a new one without \
                 that publisher"
            ),
            Error::WrongSize { payload_bytes, expected_bytes } => write!(
                f,
                "a message of {payload_bytes} bytes was skipped, because its type has {expected_bytes} bytes; publish with a \
                 TypedPublisher of the same type"
            ),
            Error::TooManyReferences => f.write_str(
                "this subscriber holds as many payloads as it may; drop one of them (LargePayload), or copy it first, and receive \
                 again",
            ),
            Error::Overwritten => f.write_str(
                "the publisher has used the memory of this payload again, because it does not wait for this subscriber; read faster, \
                 or subscribe with the policy reliable",
            ),
            Error::NoAnswer => f.write_str(
                "the process that serves the group does not answer in time; check whether it is stopped or waits for \
                 publishers, and try again",
            ),
        }
    }
}

/// As [`Display`](fmt::Display): a `main` that returns this error prints the sentence.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a user can do about a kernel error that usually has one cause.
fn remedy(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::MFILE => "raise the limit of open files of this process (ulimit -n)",
        Errno::NFILE => "raise the limit of open files of this machine (sysctl fs.file-max)",
        Errno::NOMEM => {
            "free memory, or raise the limit that applies: ulimit -v, sysctl vm.max_map_count, the memory of the \
             control group"
        }
        Errno::NOSPC => "free memory: the kernel commits no more (sysctl vm.overcommit_memory)",
        Errno::FBIG => "raise the limit on the size of files (ulimit -f), or ask for less capacity",
        Errno::AGAIN => "raise the limit of threads (ulimit -u, or pids.max of the control group)",
        Errno::TOOMANYREFS => {
            "raise the limit of open files (ulimit -n), which also bounds descriptors in flight"
        }
        Errno::NOENT => "check the path, or start the process that serves the group",
        Errno::CONNREFUSED => "no process listens on this socket: start the process that serves the group",
        Errno::ADDRINUSE => "another process serves this path: use another path",
        Errno::NAMETOOLONG => "use a path of at most 107 bytes",
        Errno::ACCESS => "ask the owner of the group or of its folder for permission",
        _ => return None,
    })
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os(error) => Some(error.os()),
            _ => None,
        }
    }
}

impl From<OsError> for Error {
    fn from(error: OsError) -> Error {
        Error::Os(error)
    }
}

/// Keeps the sentence, and chooses the kind nearest in meaning. The [`Error`] is the inner error.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        use io::ErrorKind;
        let kind = match &error {
            Error::Os(error) => error.os().kind(),
            Error::Kernel(_) | Error::OtherFormat(_) => ErrorKind::Unsupported,
            Error::Invalid { what: "capacity" | "call" | "path", .. } | Error::TooLong { .. } => {
                ErrorKind::InvalidInput
            }
            Error::Invalid { .. } | Error::Corrupt { .. } | Error::WrongSize { .. } | Error::Overwritten => {
                ErrorKind::InvalidData
            }
            Error::Refused(Refusal::Forbidden) => ErrorKind::PermissionDenied,
            Error::Refused(_) => ErrorKind::ConnectionRefused,
            Error::Disconnected => ErrorKind::BrokenPipe,
            Error::ServerGone => ErrorKind::NotConnected,
            Error::Evicted | Error::MissedDeadline { .. } => ErrorKind::ConnectionAborted,
            Error::NoAnswer => ErrorKind::TimedOut,
            Error::TooManyReferences => ErrorKind::QuotaExceeded,
        };
        io::Error::new(kind, error)
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
    use causeway_os::handshake::{Offer, Part};

    use super::*;

    fn every_kind() -> Vec<Error> {
        let mut all = vec![
            Error::os("map", "4096 bytes", Errno::NOMEM),
            Error::Kernel("it has no pidfd"),
            Error::invalid("capacity", "5000 bytes; use a power of two"),
            Error::invalid("answer", "it has 3 descriptors instead of 4"),
            Error::OtherFormat(Offer::levels(1..=2).agree(Offer::levels(7..=8), Part::Reads).unwrap_err()),
            Error::Disconnected,
            Error::ServerGone,
            Error::TooLong { payload_bytes: 2000, limit_bytes: 1024 },
            Error::Evicted,
            Error::MissedDeadline { lost_messages: 3 },
            Error::Corrupt { position: 64 },
            Error::NoAnswer,
            Error::WrongSize { payload_bytes: 3, expected_bytes: 8 },
            Error::TooManyReferences,
            Error::Overwritten,
        ];
        all.extend(Refusal::ALL.iter().copied().map(Error::Refused));
        all
    }

    #[test]
    fn every_message_is_one_line_that_says_what_happened_and_then_what_to_do() {
        for error in every_kind() {
            let message = error.to_string();
            let (happened, to_do) =
                message.split_once("; ").unwrap_or_else(|| panic!("no remedy: {message}"));
            assert!(happened.len() > 10 && to_do.len() > 10, "{message}");
            assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
        }
        let different: std::collections::BTreeSet<_> = every_kind().iter().map(Error::to_string).collect();
        assert_eq!(different.len(), every_kind().len(), "two say the same");
    }

    #[test]
    fn debug_and_an_io_error_say_the_same_sentence() {
        for error in every_kind() {
            let message = error.to_string();
            assert_eq!(format!("{error:?}"), message);
            let io = io::Error::from(error);
            assert_eq!(io.to_string(), message);
            assert!(io.get_ref().is_some_and(|inner| inner.is::<Error>()));
        }
        for (error, kind) in [
            (Error::os("map", "a log", Errno::NOMEM), io::ErrorKind::OutOfMemory),
            (Error::NoAnswer, io::ErrorKind::TimedOut),
        ] {
            assert_eq!(io::Error::from(error).kind(), kind);
        }
    }
}
