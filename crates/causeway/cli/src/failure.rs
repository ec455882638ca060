//! Why a command failed, in a sentence for the user.

use std::fmt;
use std::io;
use std::time::Duration;

use causeway_bus::client;

/// Why a command failed.
pub enum Failure {
    /// What was typed has no meaning here.
    Usage(String),
    Failed(String),
    /// A call was answered with an error of this name, which stands in the sentence, too.
    Refused {
        name: String,
        why: String,
    },
    /// The bus does not answer within this time.
    NoAnswer(Duration),
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Failed(why) | Failure::Refused { why, .. } => f.write_str(why),
            Failure::NoAnswer(timeout) => write!(f, "the bus does not answer within {timeout:?}"),
            Failure::Output(error) => write!(f, "cannot read or print: {error}"),
        }
    }
}

impl From<causeway_os::Error> for Failure {
    fn from(error: causeway_os::Error) -> Failure {
        causeway::Error::Os(error).into()
    }
}

impl From<causeway::Error> for Failure {
    fn from(error: causeway::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        let why = error.to_string();
        match error {
            client::Error::Refused { name, .. } => Failure::Refused { name, why },
            _ => Failure::Failed(why),
        }
    }
}

impl From<causeway_bus::Error> for Failure {
    fn from(error: causeway_bus::Error) -> Failure {
        match error.name() {
            Some(name) => Failure::Refused { name: name.to_owned(), why: error.to_string() },
            None => Failure::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
