//! A bus with native members beside clients.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use causeway_bus::{Connection as Member, Incoming, Message};
use weighbridge_dbus_client::Connection as Client;

use crate::common::{Broker, PATIENCE, wait_for};

/// A running causewayd at which members can join.
pub struct NativeBus {
    pub broker: Broker,
    folder: tempfile::TempDir,
}

impl NativeBus {
    /// With everything allowed, and the limits of a session.
    pub fn start() -> NativeBus {
        NativeBus::with(&["--address", "unix:tmpdir=/tmp"])
    }

    /// With these arguments beside the native socket.
    pub fn with(args: &[&str]) -> NativeBus {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("native");
        let native = ["--native", path.to_str().unwrap()];
        let broker = Broker::with(&args.iter().chain(&native).copied().collect::<Vec<_>>());
        NativeBus { broker, folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("native")
    }

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }

    pub fn client(&self) -> Client {
        self.broker.open()
    }
}

/// The next message of a member of this kind; others are dropped.
fn next<T>(member: &mut Member, what: &str, choose: impl Fn(Incoming) -> Option<T>) -> T {
    loop {
        match member.next(Some(PATIENCE)).unwrap() {
            Some(incoming) => {
                if let Some(chosen) = choose(incoming) {
                    return chosen;
                }
            }
            None => panic!("no {what} came"),
        }
    }
}

/// The next signal of this interface.
pub fn signal(member: &mut Member, interface: &str) -> Message {
    next(member, "signal", |incoming| match incoming {
        Incoming::Signal(message) if message.header().interface == Some(interface) => Some(message),
        _ => None,
    })
}

/// The next call.
pub fn call(member: &mut Member) -> causeway_bus::Call {
    next(member, "call", |incoming| match incoming {
        Incoming::Call(call) => Some(call),
        _ => None,
    })
}

/// The next signal of this interface that a client gets.
pub fn client_signal(client: &mut Client, interface: &str) -> Vec<u8> {
    wait_for(client, |header| header.interface == Some(interface))
}

/// A process that is killed when dropped.
pub struct Role(pub Child);

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this test program again to play the test `role` with these variables in its environment.
pub fn start_role(variables: &[(&str, &str)], socket: &Path) -> Role {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--test-threads", "1"]).env(causeway_bus::ADDRESS_VARIABLE, socket);
    Role(command.stdout(Stdio::null()).envs(variables.iter().copied()).spawn().unwrap())
}
