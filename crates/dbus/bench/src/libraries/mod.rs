//! Libraries of D-Bus in place of our own bytes: what a round trip costs a program that uses one.
//!
//! A library connects by itself, from the process of the role, and does what an ordinary program does with it. Those in C are
//! loaded while the program runs ([`loaded`]), from what `clients/build.sh` compiled; zbus is a feature of this crate. What the
//! laboratory times is the same as without a library: a payload is written, sent, received and read.

mod loaded;
pub mod pair;
pub mod signals;
#[cfg(feature = "zbus")]
mod zbus;

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use weighbridge_harness::axis::{Peers, WAIT};
use weighbridge_harness::choice;
use weighbridge_harness::contract::{Facts, Unsupported};
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_probe::counters;

use crate::client::READ_BYTES;

choice! {
    /// What writes and reads the messages of a role.
    pub enum Client {
        /// Our own bytes over the socket, so that the broker is measured and no library.
        Raw = "raw",
        Libdbus = "libdbus",
        SdBus = "sd-bus",
        Gdbus = "gdbus",
        Zbus = "zbus",
    }
    axis "client", default Raw: "what writes and reads messages: our own bytes, so that the broker is measured and no library, or a library \
        as ordinary programs use it"
}

/// What a role does with its library; the numbers are those of `enum role` in `clients/client.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Role {
    /// Calls, and waits for the reply.
    Caller = 0,
    /// Calls without wanting a reply.
    Sender = 1,
    /// Is called, and replies.
    Server = 2,
    Emitter = 3,
    Subscriber = 4,
    Asker = 5,
}

const WITHOUT_ZBUS: &str = "zbus is not compiled in; build with `--features zbus`";

/// A connection of a library.
pub trait Connected {
    fn unique_name(&self) -> io::Result<String>;

    fn version(&self) -> String;

    /// Sends an array of bytes. A caller waits for the reply, a server replies to the call that it received last.
    fn send(&mut self, payload: &[u8]) -> io::Result<()>;

    /// The array of bytes of a caller's reply; of others that of the next message, waiting for it.
    fn receive(&mut self) -> io::Result<&[u8]>;

    /// Calls a method of the broker and waits for its reply.
    fn ask(&mut self, method: &CStr, argument: Option<&CStr>) -> io::Result<()>;
}

impl Client {
    /// The client of a case; raw where its target has no others.
    pub fn of(params: &CaseParams) -> Client {
        params.choice_if_declared().unwrap_or(Client::Raw)
    }

    /// Are messages written and read without a library?
    pub fn is_raw(self) -> bool {
        self == Client::Raw
    }

    /// Does the library work in threads of its own?
    pub fn has_threads(self) -> bool {
        self == Client::Gdbus
    }

    /// The shared object of a library in C.
    fn object(self) -> io::Result<PathBuf> {
        let folder = match std::env::var_os("WEIGHBRIDGE_DBUS_CLIENTS") {
            Some(folder) if !folder.is_empty() => folder.into(),
            _ => std::env::current_exe()?.with_file_name("dbus-clients"),
        };
        Ok(folder.join(format!("{}.so", self.name())))
    }

    /// What brings the shared object, where it is not there.
    fn missing(self) -> io::Result<Option<String>> {
        let object = self.object()?;
        let package = match self {
            Client::Libdbus => "libdbus-1-dev",
            Client::SdBus => "libsystemd-dev",
            _ => "libglib2.0-dev",
        };
        Ok((!object.exists()).then(|| {
            format!(
                "{} is not there; build it with `crates/dbus/bench/clients/build.sh {}`, which needs cc, pkg-config and the package {package}",
                object.display(),
                object.parent().unwrap_or(&object).display()
            )
        }))
    }

    /// Connects to a broker for a role, which calls the connection `partner` if it calls one.
    ///
    /// # Panics
    /// If the client is raw: that has targets of its own.
    pub fn connect(self, address: &str, role: Role, partner: &str) -> io::Result<Box<dyn Connected>> {
        match self {
            Client::Raw => unreachable!("bytes of our own need no library"),
            #[cfg(feature = "zbus")]
            Client::Zbus => Ok(Box::new(zbus::Zbus::connect(address, role, partner)?)),
            #[cfg(not(feature = "zbus"))]
            Client::Zbus => Err(io::Error::other(WITHOUT_ZBUS)),
            _ => Ok(Box::new(loaded::Loaded::connect(&self.object()?, address, role, partner)?)),
        }
    }
}

/// Can a case be measured with its library?
pub fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    let client = Client::of(params);
    if client.is_raw() {
        return Ok(());
    }
    let missing = match client {
        Client::Zbus => (!cfg!(feature = "zbus")).then(|| WITHOUT_ZBUS.to_owned()),
        _ => client.missing().map_err(|error| Unsupported(error.to_string()))?,
    };
    let why = if let Some(missing) = missing {
        missing
    } else if params.wait != Wait::Block {
        format!("a library waits in its own way; leave out the axis {}", WAIT.name)
    } else if params.axis(READ_BYTES.name) != READ_BYTES.default {
        format!("a library reads as much as it likes; leave out the axis {}", READ_BYTES.name)
    } else if client.has_threads() && params.choice::<Peers>() == Peers::Thread {
        "the library has threads of its own, which are counted by process; leave out peers=thread".into()
    } else {
        return Ok(());
    };
    Err(Unsupported(format!("client={}: {why}", client.name())))
}

/// Before anything is counted: threads of a library are counted with it.
pub fn count_threads(params: &CaseParams) {
    if Client::of(params).has_threads() {
        counters::count_whole_process();
    }
}

/// Tells the role at the other end, before anything is timed, what the coordinator cannot know: a text of less than 256 bytes.
pub fn send_name(socket: &mut UnixStream, text: &str) -> io::Result<()> {
    let mut message = vec![u8::try_from(text.len()).map_err(io::Error::other)?];
    message.extend(text.bytes());
    socket.write_all(&message)
}

/// Hears what one end has told.
pub fn recv_name(socket: &mut UnixStream) -> io::Result<String> {
    let mut len = [0];
    socket.read_exact(&mut len)?;
    let mut text = vec![0; len[0].into()];
    socket.read_exact(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// Versions of library and broker, and how many threads the process of the role has.
pub fn facts(connected: &dyn Connected, broker_version: &str) -> io::Result<Facts> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    Ok(Facts::from([
        ("client_version".into(), connected.version()),
        ("threads".into(), threads.to_string()),
        ("broker_version".into(), broker_version.into()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_and_an_end_that_goes_silently_is_an_error() {
        let (mut tells, mut hears) = UnixStream::pair().unwrap();
        send_name(&mut tells, ":1.7").unwrap();
        assert_eq!(recv_name(&mut hears).unwrap(), ":1.7");
        drop(tells);
        assert_eq!(recv_name(&mut hears).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
