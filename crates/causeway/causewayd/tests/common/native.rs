//! A bus with native members beside clients.
#![allow(dead_code, reason = "each test uses some of it")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use causeway_bus::{AuthorityOptions, Connection as Member, Incoming, Message};
use causeway_dbus_wire::wire::{Builder, Marshal};
use causewayd::bus::Bus;
use causewayd::children::Children;
use causewayd::config::Config;
use causewayd::listen::{self, Listener, NativePlace};
use causewayd::serve::Server;
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

/// The same in a thread of this process, with other sizes than those of the program.
pub struct ThreadBus {
    folder: tempfile::TempDir,
    address: String,
    stop: OwnedFd,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl ThreadBus {
    pub fn start(config: fn() -> Config, options: AuthorityOptions) -> ThreadBus {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("native");
        let guid = listen::new_guid();
        let listener = Listener::open("unix:tmpdir=/tmp", &guid).unwrap();
        let address = listener.address.clone();
        let (stopped, stop) = rustix::pipe::pipe().unwrap();
        let (is_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
            let bus = Bus::new(config(), Box::new(move || Ok(config())), guid, listener.address.clone());
            let mut server = Server::new(bus, vec![listener], children)?;
            server.serve_natively(NativePlace { path, socket: None }, options)?;
            server.stop_with(&stopped)?;
            is_ready.send(()).unwrap();
            server.run()
        });
        ready.recv().expect("the bus comes up");
        ThreadBus { folder, address, stop, thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("native")
    }

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::open(&self.address).unwrap()
    }
}

impl Drop for ThreadBus {
    fn drop(&mut self) {
        rustix::io::write(&self.stop, b"x").ok();
        if let Some(thread) = self.thread.take() {
            // A test that has failed already must not abort.
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok_and(|result| result.is_ok()), "the bus failed");
        }
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

/// Makes a client a D-Bus monitor of everything.
pub fn become_monitor(client: &mut Client) {
    let mut out = Marshal::default();
    out.texts(std::iter::empty());
    out.u32(0);
    let become_monitor = Builder::call("/org/freedesktop/DBus", "BecomeMonitor")
        .interface("org.freedesktop.DBus.Monitoring")
        .destination("org.freedesktop.DBus")
        .body(out.into_body("asu"));
    client.call(&become_monitor, PATIENCE).unwrap();
}

/// A pipe whose writing end travels: who gets it writes a text, which is read here.
pub struct Pipe {
    read: std::io::PipeReader,
    pub write: OwnedFd,
}

impl Pipe {
    pub fn new() -> Pipe {
        let (read, write) = std::io::pipe().unwrap();
        Pipe { read, write: write.into() }
    }

    /// What was written, once no process has the writing end any more.
    pub fn text(self) -> String {
        drop(self.write);
        std::io::read_to_string(self.read).unwrap()
    }
}

/// Writes into the only one of these descriptors.
pub fn write_into(mut descriptors: Vec<OwnedFd>, text: &str) {
    assert_eq!(descriptors.len(), 1);
    let mut file = std::fs::File::from(descriptors.remove(0));
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
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
    // It would count more.
    command.env_remove("DBUS_SESSION_BUS_ADDRESS");
    Role(command.stdout(Stdio::null()).envs(variables.iter().copied()).spawn().unwrap())
}
