//! Why a call that must not wait, or not for ever, did nothing. Every variant but `Failed` is an outcome to expect.

use std::fmt;
use std::io;

use crate::error::Error;

/// Why [`Publisher::try_publish`](crate::Publisher::try_publish) published nothing.
#[derive(Debug)]
#[must_use = "the message was not published: retry, wait or drop it"]
pub enum TryPublishError {
    /// The log is full: a subscriber that publishers wait for has not read far enough, or another publisher has not finished
    /// a message, or, stopped in the middle of it, the freeing of space. Expected: retry, wait, or drop the message.
    Full,
    /// The group was closed. Nothing will be published in it any more.
    Disconnected,
    /// The call failed.
    Failed(Error),
}

/// Why [`Publisher::publish_timeout`](crate::Publisher::publish_timeout) published nothing.
#[derive(Debug)]
#[must_use = "the message was not published: retry, wait or drop it"]
pub enum PublishTimeoutError {
    /// The log was full until the timeout. Expected: retry, or drop the message.
    Timeout,
    /// The group was closed. Nothing will be published in it any more.
    Disconnected,
    /// The call failed.
    Failed(Error),
}

/// Why [`Subscriber::try_recv`](crate::Subscriber::try_recv) returned no message.
#[derive(Debug)]
#[must_use]
pub enum TryRecvError {
    /// There is no message yet. Expected.
    Empty,
    /// Every message was received and none will come: the publishers are gone, or the group was closed. The normal end of
    /// a group.
    Disconnected,
    /// The call failed.
    Failed(Error),
}

/// Why [`Subscriber::recv_timeout`](crate::Subscriber::recv_timeout) returned no message.
#[derive(Debug)]
#[must_use]
pub enum RecvTimeoutError {
    /// No message came before the timeout. Expected.
    Timeout,
    /// Every message was received and none will come: the publishers are gone, or the group was closed. The normal end of
    /// a group.
    Disconnected,
    /// The call failed.
    Failed(Error),
}

impl TryRecvError {
    /// What was received; `None` if there is no message yet.
    pub(crate) fn or_empty<T>(received: Result<T, TryRecvError>) -> Result<Option<T>, Error> {
        match received {
            Ok(received) => Ok(Some(received)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Error::Disconnected),
            Err(TryRecvError::Failed(error)) => Err(error),
        }
    }
}

#[cfg(feature = "tokio")]
impl TryPublishError {
    /// What was published; `None` if the log is full.
    pub(crate) fn or_full<T>(published: Result<T, TryPublishError>) -> Result<Option<T>, Error> {
        match published {
            Ok(published) => Ok(Some(published)),
            Err(TryPublishError::Full) => Ok(None),
            Err(TryPublishError::Disconnected) => Err(Error::Disconnected),
            Err(TryPublishError::Failed(error)) => Err(error),
        }
    }
}

/// What the four have in common: `$expected` is the variant that only this call has, `$kind` its kind as an I/O error.
macro_rules! outcome {
    ($name:ident, $expected:ident, $sentence:literal, $kind:ident) => {
        impl From<Error> for $name {
            #[inline]
            fn from(error: Error) -> $name {
                match error {
                    Error::Disconnected => $name::Disconnected,
                    error => $name::Failed(error),
                }
            }
        }

        impl From<$name> for io::Error {
            fn from(error: $name) -> io::Error {
                match error {
                    $name::$expected => io::Error::new(io::ErrorKind::$kind, error),
                    $name::Disconnected => Error::Disconnected.into(),
                    $name::Failed(error) => error.into(),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $name::$expected => f.write_str($sentence),
                    $name::Disconnected => Error::Disconnected.fmt(f),
                    $name::Failed(error) => error.fmt(f),
                }
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
    };
}

outcome!(TryPublishError, Full, "the log is full; retry, wait with publish, or drop the message", WouldBlock);
outcome!(
    PublishTimeoutError,
    Timeout,
    "the log was full until the timeout; check which subscriber does not read",
    TimedOut
);
outcome!(TryRecvError, Empty, "there is no message yet; retry, or wait with recv", WouldBlock);
outcome!(RecvTimeoutError, Timeout, "no message came before the timeout; retry, or wait longer", TimedOut);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_group_is_told_from_a_failure_and_both_keep_their_sentence() {
        assert!(matches!(TryRecvError::from(Error::Disconnected), TryRecvError::Disconnected));
        let failed = TryPublishError::from(Error::Evicted);
        assert!(matches!(failed, TryPublishError::Failed(Error::Evicted)));
        assert_eq!(failed.to_string(), Error::Evicted.to_string());
        assert_eq!(TryRecvError::Disconnected.to_string(), Error::Disconnected.to_string());
    }

    #[test]
    fn expected_outcomes_have_the_kinds_of_non_blocking_input_and_output() {
        assert_eq!(io::Error::from(TryPublishError::Full).kind(), io::ErrorKind::WouldBlock);
        assert_eq!(io::Error::from(TryRecvError::Empty).kind(), io::ErrorKind::WouldBlock);
        assert_eq!(io::Error::from(PublishTimeoutError::Timeout).kind(), io::ErrorKind::TimedOut);
        assert_eq!(io::Error::from(RecvTimeoutError::Timeout).kind(), io::ErrorKind::TimedOut);
        assert_eq!(io::Error::from(RecvTimeoutError::Disconnected).kind(), io::ErrorKind::BrokenPipe);
    }
}
