//! A bus of its own for each test, in this process or in another, with members and clients.

pub mod random;
pub mod raw;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus as Client, Error};
use causeway_bus::{
    AuthorityOptions, Connection as Member, ConnectionOptions, Error as BusError, Incoming, Message, Monitor,
    Statistics,
};
use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header};
use causeway_testkit::{assert_ran, rerun, temp_dir};
use causewayd::bus::Bus as Core;
use causewayd::children::Children;
use causewayd::config::Config;
use causewayd::listen::{self, Listener, NativePlace};
use causewayd::serve::Server;

pub use causeway_testkit::{PATIENCE, Running, TempDir, Traced, eventually, eventually_seen, setting};

pub const PATH: &str = "/com/example";
pub const INTERFACE: &str = "com.example.Test";
/// Everything is allowed.
pub const OPEN_POLICY: &str = "<policy context='default'><allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/><allow own='*'/></policy>";

/// A running causewayd, killed when dropped.
pub struct Broker {
    pub child: Running,
    pub address: String,
}

impl Broker {
    /// With everything allowed, and the limits of a session.
    pub fn start() -> Broker {
        Broker::with(&["--address", "unix:tmpdir=/tmp"])
    }

    /// With further settings, and everything allowed.
    pub fn configured(settings: &str) -> Broker {
        let folder = temp_dir("causewayd");
        Broker::with(&["--config-file", configuration(&folder, settings).to_str().unwrap()])
    }

    pub fn with(args: &[&str]) -> Broker {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
        Broker::spawn(command.args(args).stderr(Stdio::null()))
    }

    /// causewayd as this command says, in the foreground.
    pub fn spawn(command: &mut Command) -> Broker {
        command.args(["--nofork", "--print-address"]);
        let mut child = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let mut address = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.ends_with('\n'), "{command:?} says no address, but {address:?}");
        Broker { child, address: address.trim().into() }
    }

    pub fn open(&self) -> Client {
        Client::open(&self.address).unwrap()
    }

    /// A connected socket on which nothing was said.
    pub fn socket(&self) -> UnixStream {
        let name = self.address.strip_prefix("unix:abstract=").unwrap().split(',').next().unwrap();
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn memory_kib(&self) -> u64 {
        causeway_testkit::proc::status_number(self.child.pid(), "VmRSS").unwrap()
    }

    pub fn descriptors(&self) -> usize {
        causeway_testkit::proc::open_files(self.child.pid())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_none()
    }
}

/// Writes a configuration of a session with these settings, in which everything is allowed.
pub fn configuration(folder: &TempDir, settings: &str) -> PathBuf {
    let file = folder.path().join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>{OPEN_POLICY}{settings}</busconfig>"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// A running causewayd at which members can join.
pub struct NativeBus {
    pub broker: Broker,
    folder: TempDir,
}

impl NativeBus {
    /// With everything allowed, and the limits of a session.
    pub fn start() -> NativeBus {
        NativeBus::with(&["--address", "unix:tmpdir=/tmp"])
    }

    /// With these arguments and a native socket.
    pub fn with(args: &[&str]) -> NativeBus {
        let folder = temp_dir("causewayd");
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

/// A bus in a thread of this process, which ends with the test.
pub struct Bus {
    folder: TempDir,
    /// Where clients connect, if there are any.
    address: String,
    stop: OwnedFd,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Bus {
    /// For members alone.
    pub fn start() -> Bus {
        Bus::start_with(AuthorityOptions::default())
    }

    /// Its order log is short, so that it is full all the time.
    pub fn start_small() -> Bus {
        let (order_entries, laggard_deadline) = (32, PATIENCE);
        Bus::start_with(AuthorityOptions { order_entries, laggard_deadline, ..AuthorityOptions::default() })
    }

    pub fn start_with(options: AuthorityOptions) -> Bus {
        Bus::serve(Config::session, options, false)
    }

    /// For members and clients.
    pub fn start_with_clients() -> Bus {
        Bus::with_clients(Config::session, AuthorityOptions::default())
    }

    /// As [`Bus::start_with_clients`], with other settings.
    pub fn with_clients(config: fn() -> Config, options: AuthorityOptions) -> Bus {
        Bus::serve(config, options, true)
    }

    fn serve(config: fn() -> Config, options: AuthorityOptions, has_clients: bool) -> Bus {
        let folder = temp_dir("bus");
        let (path, guid) = (folder.path().join("bus"), listen::new_guid());
        let address = format!("unix:path={}.dbus", path.display());
        let listeners = has_clients.then(|| Listener::open(&address, &guid).unwrap());
        let address = listeners.as_ref().map(|listener| listener.address.clone()).unwrap_or_default();
        let bus_address = address.clone();
        let (stopped, stop) = rustix::pipe::pipe().unwrap();
        let (is_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
            let bus = Core::new(config(), Box::new(move || Ok(config())), guid, bus_address);
            let mut server = Server::new(bus, listeners.into_iter().collect(), children)?;
            server.serve_natively(NativePlace { path, socket: None }, options)?;
            server.stop_with(&stopped)?;
            is_ready.send(()).unwrap();
            server.run()
        });
        ready.recv().expect("the bus comes up");
        Bus { folder, address, stop, thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    /// Where clients connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::open(&self.address).unwrap()
    }

    /// A member that waits for laggards as long as it takes, with an outbox of 4 KiB.
    pub fn small_member(&self) -> Member {
        let (outbox_bytes, laggard_deadline) = (4096, Some(PATIENCE));
        let options = ConnectionOptions { outbox_bytes, laggard_deadline, ..ConnectionOptions::default() };
        Member::open_with(self.path(), options).unwrap()
    }

    /// Waits until members can join and use the bus, after it was broken.
    pub fn is_new_again(&self) {
        eventually("a new bus comes up", || {
            Member::open(self.path()).is_ok_and(|mut member| member.add_match("member='New'").is_ok())
        });
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        rustix::io::write(&self.stop, b"x").ok();
        if let Some(thread) = self.thread.take() {
            // A test that has failed already must not abort.
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok_and(|result| result.is_ok()), "the bus failed");
        }
    }
}

/// Serves a bus in a process of its own.
pub fn serve_until_killed(socket: &Path) {
    let (stop, _open) = rustix::pipe::pipe().unwrap();
    causewayd::serve_alone(socket, AuthorityOptions::default(), &stop, || ()).unwrap();
}

const ROLE: &str = "CAUSEWAYD_TEST_ROLE";
const NUMBER: &str = "CAUSEWAYD_TEST_NUMBER";
const IS_ALONE: &str = "CAUSEWAYD_TEST_ALONE";

/// This program once more, which runs the test `role` of a module as this role; members find the socket as that of their session.
pub fn role_of(module: &str, role: &str, socket: &Path) -> Command {
    let mut command = rerun(module, "role");
    command.env(ROLE, role).env(causeway_bus::ADDRESS_VARIABLE, socket);
    // It would count more.
    command.env_remove("DBUS_SESSION_BUS_ADDRESS").stdout(Stdio::null());
    command
}

pub fn start_role(module: &str, name: &str, socket: &Path, number: u64) -> Running {
    Running::start(role_of(module, name, socket).env(NUMBER, number.to_string()))
}

/// What is before the name of the program in `Exec=` of a service that plays a role.
pub fn role_variable(role: &str) -> String {
    format!("/usr/bin/env {ROLE}={role}")
}

/// The role of this process, the socket, and a number. `None` in the test itself.
pub fn play() -> Option<(String, PathBuf, u64)> {
    let role = std::env::var(ROLE).ok()?;
    // By this name a tracer finds the thread.
    rustix::thread::set_name(c"role").unwrap();
    let socket = std::env::var_os(causeway_bus::ADDRESS_VARIABLE).unwrap_or_default();
    let number = std::env::var(NUMBER).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    Some((role, socket.into(), number))
}

/// Runs the present test in a process of its own: for tests that count what their process has.
macro_rules! own_process {
    () => {
        if !crate::support::is_own_process() {
            return;
        }
    };
}

/// Is this the process of the present test alone? Otherwise that has run by now.
pub fn is_own_process() -> bool {
    let thread = std::thread::current();
    let Some(test) = thread.name().filter(|name| *name != "main") else { return true };
    if std::env::var_os(IS_ALONE).is_some() {
        return true;
    }
    let output = rerun("", test).env(IS_ALONE, "1").output().unwrap();
    assert_ran(&output);
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// What a process has: descriptors, and mappings of files in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub descriptors: usize,
    pub mappings: usize,
}

impl Held {
    pub fn by(process: u32) -> Held {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let descriptors = causeway_testkit::proc::open_files(process);
        Held { descriptors, mappings: maps.matches("memfd:").count() }
    }

    pub fn is_within(self, before: Held) -> bool {
        self.descriptors <= before.descriptors && self.mappings <= before.mappings
    }
}

/// Says what a client says before its first message.
pub fn authenticate(stream: &mut UnixStream) {
    let (_, first) = causeway_dbus_wire::sasl::Client::new(rustix::process::geteuid().as_raw());
    stream.write_all(&first).unwrap();
    stream.write_all(b"NEGOTIATE_UNIX_FD\r\nBEGIN\r\n").unwrap();
    let mut lines = BufReader::with_capacity(1, stream.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("OK "));
    assert_eq!(lines.next().unwrap().unwrap(), "AGREE_UNIX_FD");
}

/// A call of the driver.
pub fn driver_call(member: &str) -> Builder<'_> {
    Builder::call(DRIVER_PATH, member).interface(DRIVER).destination(DRIVER)
}

pub fn text(text: &str) -> Body {
    Body::default().text(text)
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
pub fn wait_for(connection: &mut Client, is_it: impl Fn(&Header<'_>) -> bool) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = connection.receive(left).unwrap().expect("the message comes");
        if is_it(&Header::parse(&message).unwrap()) {
            return message;
        }
    }
}

/// The next signal of this interface that a client gets.
pub fn client_signal(client: &mut Client, interface: &str) -> Vec<u8> {
    wait_for(client, |header| header.interface == Some(interface))
}

/// The name of the error with which a call is refused.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Refused { name, .. }) => name.strip_prefix("org.freedesktop.DBus.Error.").unwrap().into(),
        other => panic!("it should have been refused: {other:?}"),
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

/// What a member receives next that `choose` takes; all else is dropped.
fn next<T>(member: &mut Member, what: &str, choose: impl Fn(Incoming) -> Option<T>) -> T {
    loop {
        let incoming = member.next(Some(PATIENCE)).unwrap();
        if let Some(chosen) = choose(incoming.unwrap_or_else(|| panic!("no {what} came"))) {
            return chosen;
        }
    }
}

/// The next signal.
pub fn signal(member: &mut Member) -> Message {
    next(member, "signal", |incoming| match incoming {
        Incoming::Signal(message) => Some(message),
        _ => None,
    })
}

/// The next signal of this interface.
pub fn signal_of(member: &mut Member, interface: &str) -> Message {
    loop {
        let message = signal(member);
        if message.header().interface == Some(interface) {
            return message;
        }
    }
}

/// The next call.
pub fn call(member: &mut Member) -> causeway_bus::Call {
    next(member, "call", |incoming| match incoming {
        Incoming::Call(call) => Some(call),
        _ => None,
    })
}

/// Asks the bus something, so that it has had its turn.
pub fn ask_bus(member: &mut Member) {
    member.call(DRIVER, DRIVER_PATH, DRIVER, "GetId", Body::default()).unwrap();
}

/// Answers calls in a thread until the bus ends or `Quit` is called: `Echo` with its text, `Fail` with an error.
pub fn echo(path: &Path, name: &'static str) -> JoinHandle<()> {
    let mut service = Member::open(path).unwrap();
    service.request_name(name, 0).unwrap();
    std::thread::spawn(move || {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let result = service.serve(&stop, |call| match call.header().member {
            Some("Echo") => Ok(text(call.text().unwrap_or_default())),
            Some("Quit") => {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                Ok(Body::default())
            }
            _ => Err(("com.example.Error.Fail".into(), "as you wish".into())),
        });
        assert!(matches!(result, Ok(()) | Err(BusError::AuthorityGone)), "{result:?}");
    })
}

/// Statistics of the member with a unique name.
pub fn statistics_of(monitor: &Monitor, unique: &str) -> Statistics {
    let found = monitor.members().into_iter().find(|(peer, ..)| format!(":1.{}", peer.id) == unique);
    found.unwrap_or_else(|| panic!("{unique} is not there")).2
}

/// A file that holds a text, with a name that [`open_texts`] finds.
pub fn file(text: &str) -> OwnedFd {
    let fd = causeway_os::memory::memfd("text", 0).unwrap();
    rustix::io::pwrite(&fd, text.as_bytes(), 0).unwrap();
    fd
}

/// How many files of [`file`] a process has open.
pub fn open_texts(process: u32) -> usize {
    let is_text = |path: PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("memfd:text"))
    };
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    open.filter(|entry| is_text(entry.as_ref().unwrap().path())).count()
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
    file.write_all(text.as_bytes()).unwrap();
}
