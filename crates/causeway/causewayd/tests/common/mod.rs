//! A bus of its own for each test, and clients of it.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header};
use weighbridge_dbus_client::{Connection, Error};

/// What takes longer is stuck.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running causewayd, killed when dropped.
pub struct Broker {
    pub child: Child,
    pub address: String,
}

impl Broker {
    /// With everything allowed, and the limits of a session.
    pub fn start() -> Broker {
        Broker::with(&["--address", "unix:tmpdir=/tmp"])
    }

    /// With what a configuration says beside the policy that allows everything.
    pub fn configured(settings: &str) -> Broker {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bus.conf");
        let policy = "<policy context='default'><allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/><allow own='*'/></policy>";
        let config = format!(
            "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>{policy}{settings}</busconfig>"
        );
        std::fs::write(&file, config).unwrap();
        Broker::with(&["--config-file", file.to_str().unwrap()])
    }

    pub fn with(args: &[&str]) -> Broker {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
        Broker::spawn(command.args(args).stderr(Stdio::null()))
    }

    /// causewayd as this command says, in the foreground.
    pub fn spawn(command: &mut Command) -> Broker {
        command.args(["--nofork", "--print-address"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.ends_with('\n'), "{command:?} says no address, but {address:?}");
        Broker { child, address: address.trim().into() }
    }

    pub fn open(&self) -> Connection {
        Connection::open(&self.address).unwrap()
    }

    /// A connected socket on which nothing was said.
    pub fn socket(&self) -> UnixStream {
        let name = self.address.strip_prefix("unix:abstract=").unwrap().split(',').next().unwrap();
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A number that `/proc` says of it: `VmRSS`, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// How many descriptors it has.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says what a client says before its first message.
pub fn authenticate(stream: &mut UnixStream) {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let digits: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
    stream
        .write_all(format!("\0AUTH EXTERNAL {digits}\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n").as_bytes())
        .unwrap();
    let mut lines = BufReader::with_capacity(1, stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("OK "));
    assert_eq!(lines.next().unwrap().unwrap(), "AGREE_UNIX_FD");
}

/// A call of the driver.
pub fn driver_call(member: &str) -> Builder<'_> {
    let driver = causeway_dbus_wire::driver::DRIVER;
    Builder::call("/org/freedesktop/DBus", member).interface(driver).destination(driver)
}

pub fn add_match(connection: &mut Connection, rule: &str) {
    connection.ask_driver("AddMatch", Body::default().text(rule)).unwrap();
}

pub fn request_name(connection: &mut Connection, name: &str, flags: u32) -> u32 {
    let reply = connection.ask_driver("RequestName", Body::default().text(name).u32(flags)).unwrap();
    number(&reply).unwrap()
}

/// The first argument that is a number.
pub fn number(message: &[u8]) -> Option<u32> {
    let header = Header::parse(message).unwrap();
    Args::new(&header, &message[header.header_bytes..]).find_map(|arg| match arg {
        Ok(Arg::U32(number)) => Some(number),
        _ => None,
    })
}

/// All strings among the arguments.
pub fn texts(message: &[u8]) -> Vec<String> {
    let header = Header::parse(message).unwrap();
    let args = Args::new(&header, &message[header.header_bytes..]);
    args.filter_map(|arg| if let Ok(Arg::Text(text)) = arg { Some(text.to_owned()) } else { None }).collect()
}

/// The next message that `is_it`; those before it are dropped.
pub fn wait_for(connection: &mut Connection, is_it: impl Fn(&Header<'_>) -> bool) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = connection.receive(left).unwrap().expect("the message comes");
        if is_it(&Header::parse(&message).unwrap()) {
            return message;
        }
    }
}

/// The name of the error with which a call is refused.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Refused { name, .. }) => name.strip_prefix("org.freedesktop.DBus.Error.").unwrap().into(),
        other => panic!("it should have been refused: {other:?}"),
    }
}

/// Waits until something holds, and fails with what was seen last.
pub fn eventually<T: std::fmt::Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is_it: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = look();
        if is_it(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{what}: at last {seen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A socket whose last holder waits when it closes it: its peer does not read, so that bytes stay unsent.
pub fn lingering(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut lingering = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&lingering, Some(Duration::from_secs(300))).unwrap();
    lingering.set_nonblocking(true).unwrap();
    while lingering.write(&[0; 65_536]).is_ok() {}
    (lingering, peer)
}
