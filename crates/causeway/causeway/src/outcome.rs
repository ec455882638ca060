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

/// What a call did; `None` for the outcome that its caller expects.
pub(crate) fn or_none<T, E: Into<Option<Error>>>(done: Result<T, E>) -> Result<Option<T>, Error> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) => error.into().map_or(Ok(None), Err),
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

        /// What is more than the expected outcome.
        impl From<$name> for Option<Error> {
            fn from(error: $name) -> Option<Error> {
                match error {
                    $name::$expected => None,
                    $name::Disconnected => Some(Error::Disconnected),
                    $name::Failed(error) => Some(error),
                }
            }
        }

        impl From<$name> for io::Error {
            fn from(error: $name) -> io::Error {
                Option::<Error>::from(error)
                    .map_or_else(|| io::Error::new(io::ErrorKind::$kind, $name::$expected), io::Error::from)
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
    fn expected_outcomes_have_the_kinds_of_non_blocking_input_and_output_and_failures_keep_their_sentence() {
        let failed = TryPublishError::from(Error::Evicted);
        assert_eq!(failed.to_string(), Error::Evicted.to_string());
        for (error, kind) in [
            (io::Error::from(failed), io::ErrorKind::ConnectionAborted),
            (TryPublishError::Full.into(), io::ErrorKind::WouldBlock),
            (TryRecvError::Empty.into(), io::ErrorKind::WouldBlock),
            (PublishTimeoutError::Timeout.into(), io::ErrorKind::TimedOut),
            (RecvTimeoutError::Timeout.into(), io::ErrorKind::TimedOut),
            (TryRecvError::from(Error::Disconnected).into(), io::ErrorKind::BrokenPipe),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
