//! How a command ends.

use std::fmt;
use std::io;
use std::path::Path;

/// What became of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All are there.
    Whole,
    /// Some were lost, and it is known how many.
    Lossy,
}

impl Outcome {
    pub fn of(is_lossy: bool) -> Outcome {
        if is_lossy { Outcome::Lossy } else { Outcome::Whole }
    }
}

/// Why a command failed, in a sentence for the user.
#[derive(Debug)]
pub enum Failure {
    /// What was typed has no meaning here.
    Usage(String),
    Failed(String),
}

impl Failure {
    /// Of something that was tried on a file.
    pub fn on(path: &Path, error: impl fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Failed(why) => f.write_str(why),
        }
    }
}

impl From<causeway::Error> for Failure {
    fn from(error: causeway::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<causeway_bus::Error> for Failure {
    fn from(error: causeway_bus::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<causeway_os::Error> for Failure {
    fn from(error: causeway_os::Error) -> Failure {
        causeway::Error::Os(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Failed(format!("cannot read or print: {error}"))
    }
}
