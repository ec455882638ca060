//! Why a call has no reply, and why a reply was not sent.

use std::fmt;
use std::io;

use crate::error::Error;

/// Why a call returned no reply.
///
/// `Display` and `Debug` both print one sentence that says what happened and what to do about it.
#[non_exhaustive]
pub enum CallError {
    /// No reply came before the deadline. The server is told that nobody waits for it any more.
    Deadline,
    /// The call was cancelled with [`Client::cancel`](super::Client::cancel), or never begun, or its reply was taken already.
    Cancelled,
    /// The process that serves is gone or has stopped serving. Whether it did what it was asked is unknown.
    ServerGone,
    /// The server ended this connection, because its replies were not read for too long.
    RepliesNotRead,
    /// The server ended the call without a reply.
    NoReply,
    /// The request exceeds the limit of the server. It was not sent.
    RequestTooLong {
        /// Length of the request, in bytes.
        bytes: usize,
        /// The longest request, in bytes.
        limit_bytes: usize,
    },
    /// The reply exceeds the limit of the server. It was not sent.
    ReplyTooLong {
        /// Length of the reply, in bytes.
        bytes: u64,
        /// The longest reply, in bytes.
        limit_bytes: usize,
    },
    /// The call failed.
    Failed(Error),
}

/// Why a reply was not sent. Each is an outcome that a server must expect of its clients.
#[non_exhaustive]
pub enum ReplyError {
    /// The client no longer waits for this reply: it cancelled the call, or its deadline has passed.
    Cancelled,
    /// The client is gone.
    ClientGone,
    /// The client has not read its replies for so long that its connection was ended.
    ClientNotReading,
    /// The reply exceeds the limit. The client was told so.
    TooLong {
        /// Length of the reply, in bytes.
        bytes: usize,
        /// The longest reply, in bytes.
        limit_bytes: usize,
    },
    /// The reply failed.
    Failed(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Deadline => {
                f.write_str("no reply came before the deadline; wait longer, or check what the server does")
            }
            CallError::Cancelled => f.write_str(
                "the call was cancelled, or its reply was taken already; wait once for each call that was begun",
            ),
            CallError::ServerGone => f.write_str(
                "the server is gone, and whether it did what it was asked is unknown; start it again and connect anew",
            ),
            CallError::RepliesNotRead => f.write_str(
                "the server ended the connection, because replies were not read for too long; wait for the calls that \
                 are begun, and connect again",
            ),
            CallError::NoReply => {
                f.write_str("the server ended the call without a reply; check what it logs about the request")
            }
            CallError::RequestTooLong { bytes, limit_bytes } => write!(
                f,
                "a request of {bytes} bytes exceeds the limit of {limit_bytes} bytes; serve with a larger \
                 ServeOptions::capacity_bytes, or send it in parts"
            ),
            CallError::ReplyTooLong { bytes, limit_bytes } => write!(
                f,
                "the reply of {bytes} bytes exceeds the limit of {limit_bytes} bytes; serve with a larger \
                 ServeOptions::capacity_bytes, or ask for it in parts"
            ),
            CallError::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Cancelled => {
                f.write_str("the client no longer waits for this reply; nothing is left to do for this call")
            }
            ReplyError::ClientGone => {
                f.write_str("the client is gone; nothing is left to do for this call")
            }
            ReplyError::ClientNotReading => f.write_str(
                "the client does not read its replies, and its connection was ended; let it wait for the calls that it \
                 begins",
            ),
            ReplyError::TooLong { bytes, limit_bytes } => write!(
                f,
                "a reply of {bytes} bytes exceeds the limit of {limit_bytes} bytes; serve with a larger \
                 ServeOptions::capacity_bytes, or reply in parts"
            ),
            ReplyError::Failed(error) => error.fmt(f),
        }
    }
}

/// What both have in common; `$kind` is the kind of each as an I/O error.
macro_rules! errors {
    ($name:ident { $($variant:pat => $kind:ident,)* }) => {
        /// As [`Display`](fmt::Display): a `main` that returns this error prints the sentence.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl std::error::Error for $name {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match self {
                    $name::Failed(error) => error.source(),
                    _ => None,
                }
            }
        }

        impl From<$name> for io::Error {
            fn from(error: $name) -> io::Error {
                let kind = match error {
                    $($variant => io::ErrorKind::$kind,)*
                    $name::Failed(error) => return error.into(),
                };
                io::Error::new(kind, error)
            }
        }
    };
}

errors!(CallError {
    CallError::Deadline => TimedOut,
    CallError::Cancelled => NotFound,
    CallError::ServerGone => ConnectionReset,
    CallError::RepliesNotRead => ConnectionAborted,
    CallError::NoReply => UnexpectedEof,
    CallError::RequestTooLong { .. } | CallError::ReplyTooLong { .. } => InvalidInput,
});

errors!(ReplyError {
    ReplyError::Cancelled | ReplyError::ClientGone => BrokenPipe,
    ReplyError::ClientNotReading => ConnectionAborted,
    ReplyError::TooLong { .. } => InvalidInput,
});

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        match error {
            Error::ServerGone => CallError::ServerGone,
            error => CallError::Failed(error),
        }
    }
}

impl From<Error> for ReplyError {
    fn from(error: Error) -> ReplyError {
        ReplyError::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_says_what_happened_and_then_what_to_do() {
        let calls = [
            CallError::Deadline,
            CallError::Cancelled,
            CallError::ServerGone,
            CallError::RepliesNotRead,
            CallError::NoReply,
            CallError::RequestTooLong { bytes: 5, limit_bytes: 4 },
            CallError::ReplyTooLong { bytes: 5, limit_bytes: 4 },
            CallError::Failed(Error::NoAnswer),
        ];
        let replies = [
            ReplyError::Cancelled,
            ReplyError::ClientGone,
            ReplyError::ClientNotReading,
            ReplyError::TooLong { bytes: 5, limit_bytes: 4 },
            ReplyError::Failed(Error::NoAnswer),
        ];
        let calls = calls.map(|error| (format!("{error:?}"), io::Error::from(error).to_string()));
        let replies = replies.map(|error| (format!("{error:?}"), io::Error::from(error).to_string()));
        for (debug, io) in calls.into_iter().chain(replies) {
            assert_eq!(debug, io);
            let (happened, to_do) = debug.split_once("; ").unwrap_or_else(|| panic!("no remedy: {debug}"));
            assert!(happened.len() > 10 && to_do.len() > 10 && !debug.ends_with('.'), "{debug}");
        }
    }
}
