//! Why a command failed, in a sentence for the user.

use std::fmt;
use std::io;
use std::time::Duration;

use causeway::Error;
use causeway_bus::client;

/// Why a command failed.
pub enum Failure {
    Group(Error),
    Bus(causeway_bus::Error),
    Client(client::Error),
    Usage(String),
    /// The bus does not answer within this time.
    NoAnswer(Duration),
    Output(io::Error),
}

impl Failure {
    /// The name of the error with which a call was answered, if it was.
    pub fn error_name(&self) -> Option<&str> {
        match self {
            Failure::Bus(error) => error.name(),
            Failure::Client(client::Error::Refused { name, .. }) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Group(error) => error.fmt(f),
            Failure::Bus(error) => error.fmt(f),
            Failure::Client(error) => error.fmt(f),
            Failure::Usage(why) => f.write_str(why),
            Failure::NoAnswer(timeout) => write!(f, "the bus does not answer within {timeout:?}"),
            Failure::Output(error) => write!(f, "cannot read or print: {error}"),
        }
    }
}

impl From<causeway_os::Error> for Failure {
    fn from(error: causeway_os::Error) -> Failure {
        Failure::Group(Error::Os(error))
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Failure {
        Failure::Client(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Group(error)
    }
}

impl From<causeway_bus::Error> for Failure {
    fn from(error: causeway_bus::Error) -> Failure {
        Failure::Bus(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
