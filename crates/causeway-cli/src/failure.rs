//! Why a command failed, in a sentence for the user.

use std::fmt;
use std::io;

use causeway::Error;

/// Why a command failed.
pub enum Failure {
    Bus(Error),
    Names(causeway_bus::Error),
    Gateway(weighbridge_dbus_client::Error),
    Usage(String),
    Output(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Bus(error) => error.fmt(f),
            Failure::Names(error) => error.fmt(f),
            Failure::Gateway(error) => error.fmt(f),
            Failure::Usage(why) => f.write_str(why),
            Failure::Output(error) => write!(f, "cannot read or print: {error}"),
        }
    }
}

impl From<causeway_os::Error> for Failure {
    fn from(error: causeway_os::Error) -> Failure {
        Failure::Bus(Error::Os(error))
    }
}

impl From<weighbridge_dbus_client::Error> for Failure {
    fn from(error: weighbridge_dbus_client::Error) -> Failure {
        Failure::Gateway(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Bus(error)
    }
}

impl From<causeway_bus::Error> for Failure {
    fn from(error: causeway_bus::Error) -> Failure {
        Failure::Names(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
