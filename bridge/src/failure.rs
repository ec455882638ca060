//! Why a command failed.

use std::fmt;
use std::io;
use std::path::Path;

/// Why a command failed, in a sentence for the user.
#[derive(Debug)]
pub enum Failure {
    /// What was typed has no meaning here.
    Usage(String),
    /// It was tried.
    Failed(String),
}

/// What this program's functions return.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure in these words.
    pub fn of(why: impl fmt::Display) -> Failure {
        Failure::Failed(why.to_string())
    }

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

macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::of(error)
            }
        })*
    };
}

failures!(causeway::Error, causeway_bus::Error, causeway_os::Error, io::Error, zenoh::Error);
