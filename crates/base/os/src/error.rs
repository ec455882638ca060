//! What failed: the operation, what it was applied to, and what the kernel said.

use std::fmt;
use std::io;

/// A call to the kernel that failed: what was tried, on what, and why not.
#[derive(Debug)]
pub struct Error {
    op: &'static str,
    on: String,
    source: io::Error,
}

/// The result of a fallible set-up call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that reads "cannot `op` `on`: `source`". An empty `on` is left out.
    pub fn new(op: &'static str, on: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error { op, on: on.into(), source: source.into() }
    }

    /// The error of the last libc call of this thread.
    pub fn last(op: &'static str, on: impl Into<String>) -> Error {
        // `on` may allocate, and allocation may change errno: the error is taken first.
        let source = io::Error::last_os_error();
        Error::new(op, on, source)
    }

    /// What the kernel said, without our words around it.
    pub fn os(&self) -> &io::Error {
        &self.source
    }

    /// The error number of the kernel, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.on.is_empty() {
            write!(f, "cannot {}: {}", self.op, self.source)
        } else {
            write!(f, "cannot {} {}: {}", self.op, self.on, self.source)
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Keeps the text and the kind. The number is then found in the inner [`Error`].
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

/// Adds what was tried to a bare kernel error.
pub trait Context<T> {
    /// The error that reads "cannot `op` `on`: …".
    fn context<S: Into<String>>(self, op: &'static str, on: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context<S: Into<String>>(self, op: &'static str, on: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|source| Error::new(op, on(), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_says_what_was_tried_on_what_and_why_not_also_as_an_io_error() {
        let error = Error::new("open", "/nowhere", io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(error.to_string(), "cannot open /nowhere: No such file or directory (os error 2)");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(error.source().is_some());
        let (text, io) = (error.to_string(), io::Error::from(error));
        assert_eq!((io.kind(), io.to_string()), (io::ErrorKind::NotFound, text));
        let bare = Error::new("pause", "", io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(bare.to_string(), "cannot pause: Operation not permitted (os error 1)");
    }
}
