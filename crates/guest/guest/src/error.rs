//! Why there is no answer from a guest.

use std::fmt;

/// One sentence for the user, and the last lines of the guest's console where there was one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    sentence: String,
    /// The last lines that the guest's console showed, the newest last.
    pub console: Vec<String>,
}

impl Error {
    /// With this sentence, and no console.
    pub fn new(sentence: impl Into<String>) -> Error {
        Error { sentence: sentence.into(), console: Vec::new() }
    }

    /// The same with the last lines of a console.
    #[must_use]
    pub fn with_console(self, console: Vec<String>) -> Error {
        Error { console, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}
