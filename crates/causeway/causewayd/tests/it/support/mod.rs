//! What the tests share: buses with their members and clients, messages, roles of other processes, and descriptors that are counted.

mod buses;
pub mod lease;
pub mod raw;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus as Client, Error};
use causeway_bus::shared::order::OrderLog;
use causeway_bus::shared::ring::{self, Cell, Cells, Entry};
use causeway_bus::shared::unique_name::unique_number;
use causeway_bus::{
    Call, Connection as Member, Error as BusError, Incoming, Message, Monitor, Observed, Statistics,
};
use causeway_dbus_wire::wire::{Args, Body, Builder, Header};
use causeway_testkit::watchdog::{RUN, current_test};
use causeway_testkit::{Rng, assert_ran, rerun};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use buses::{
    Broker, Bus, Served, at, causewayd, configuration, serve_alone, small, with_services, write_service,
};
pub use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
pub use causeway_testkit::watchdog::{TRACING, extend_limit};
pub use causeway_testkit::{
    Cause, ControlGroup, Freezer, PATIENCE, Running, TempDir, Traced, at_another_time, eventually,
    eventually_seen, eventually_some, has_program, has_ptrace, is_root, proc, setting, skipped,
    stop_for_tracer, temp_dir, trial_succeeds,
};

pub const PATH: &str = "/com/example";
pub const INTERFACE: &str = "com.example.Test";
pub const PEER: &str = "org.freedesktop.DBus.Peer";
/// Signals of [`INTERFACE`].
pub const RULE: &str = "type='signal',interface='com.example.Test'";

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

/// As [`start_role`], with a tracer of the thread that calls [`stop_for_tracer`].
pub fn start_traced(module: &str, name: &str, socket: &Path, number: u64) -> (Running, Traced) {
    Traced::start(role_of(module, name, socket).env(NUMBER, number.to_string()))
}

/// The role of this process, the socket, and a number. `None` in the test itself.
pub fn play() -> Option<(String, PathBuf, u64)> {
    let role = std::env::var(ROLE).ok()?;
    let socket = std::env::var_os(causeway_bus::ADDRESS_VARIABLE).unwrap_or_default();
    Some((role, socket.into(), setting(NUMBER, 0)))
}

/// `Exec=` of a service that plays a role of a module; its name comes without that of the crate.
pub fn role_as_service(module: &str, role: &str) -> String {
    let (own, (_, module)) = (std::env::current_exe().unwrap(), module.split_once("::").unwrap());
    format!("/usr/bin/env {ROLE}={role} '{}' --exact {module}::role --test-threads 1", own.display())
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
    if std::env::var_os(IS_ALONE).is_some() {
        return true;
    }
    // With one thread for all tests, a test runs on the main thread, and the thread does not have its name.
    let test = current_test();
    let (_, test) = test.split_once(' ').expect("a test runs");
    // It has a watchdog of its own.
    extend_limit(Duration::from_secs(3600));
    let mut alone = rerun("", test);
    alone.env(IS_ALONE, "1").env_remove(RUN).stderr(Stdio::inherit());
    assert_ran(&alone.output().unwrap());
    false
}

/// Generators from CAUSEWAYD_HOSTILE_SEED; otherwise from a new seed where CAUSEWAYD_HOSTILE_SECONDS are given, and from three that are always
/// the same where not.
pub fn generators() -> impl Iterator<Item = Rng> {
    let given = std::env::var("CAUSEWAYD_HOSTILE_SEED").ok().and_then(|seed| seed.parse().ok());
    let is_long = std::env::var_os("CAUSEWAYD_HOSTILE_SECONDS").is_some();
    let new = is_long.then(|| u64::from(std::process::id()) << 20 | 1);
    given.or(new).map_or(vec![1, 2, 3], |seed| vec![seed]).into_iter().map(|seed| {
        println!("again with CAUSEWAYD_HOSTILE_SEED={seed}");
        Rng::with_seed(seed)
    })
}

/// Runs rounds: at least so many, and more as long as the seconds of CAUSEWAYD_HOSTILE_SECONDS last. Returns how many.
pub fn rounds(least: usize, mut round: impl FnMut(usize)) -> usize {
    let time = Duration::from_secs(setting("CAUSEWAYD_HOSTILE_SECONDS", 0));
    let (began, mut count) = (Instant::now(), 0);
    while count < least || began.elapsed() < time {
        round(count);
        count += 1;
    }
    println!("{count} rounds");
    count
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
        Held { descriptors: proc::open_files(process), mappings: maps.matches("memfd:").count() }
    }

    pub fn is_within(self, before: Held) -> bool {
        self.descriptors <= before.descriptors && self.mappings <= before.mappings
    }
}

/// Lets this process open no descriptor from this number on; `None` changes nothing.
pub fn limit_descriptors(most: Option<u64>) {
    if most.is_some() {
        setrlimit(Resource::Nofile, Rlimit { current: most, ..getrlimit(Resource::Nofile) }).unwrap();
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

/// Reads until the bus closes the connection.
pub fn is_closed(stream: &mut UnixStream) -> bool {
    let read = std::io::Read::read_to_end(stream, &mut Vec::new());
    read.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

/// A call of the driver.
pub fn driver_call(member: &str) -> Builder<'_> {
    Builder::of_driver(member)
}

pub fn text(text: &str) -> Body {
    Body::default().text(text)
}

pub fn header(message: &[u8]) -> Header<'_> {
    Header::parse(message).unwrap()
}

/// All strings among the arguments.
pub fn texts(message: &[u8]) -> Vec<String> {
    Args::of(message).texts().map(str::to_owned).collect()
}

/// Has a message this string anywhere?
pub fn contains(message: &[u8], text: &str) -> bool {
    let text = [text.as_bytes(), &[0]].concat();
    message.windows(text.len()).any(|part| part == text)
}

/// The bus answers a client: it has read what the client sent before.
pub fn sync(client: &mut Client) {
    client.ask_driver("GetId", Body::default()).unwrap();
}

/// The bus answers a member, which has read what there is.
pub fn ask_bus(member: &mut Member) {
    member.call(DRIVER, DRIVER_PATH, DRIVER, "GetId", Body::default()).unwrap();
}

/// The next message that `is_it`; those before it are dropped.
pub fn wait_for(connection: &mut Client, is_it: impl Fn(&Header<'_>) -> bool) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = connection.receive(left).unwrap().expect("the message comes");
        if is_it(&header(&message)) {
            return message;
        }
    }
}

/// The next message of this member that a client gets.
pub fn wait_for_member(client: &mut Client, member: &str) -> Vec<u8> {
    wait_for(client, |header| header.member == Some(member))
}

/// The reply to the call with this serial.
pub fn wait_for_reply(client: &mut Client, serial: u32) -> Vec<u8> {
    wait_for(client, |header| header.reply_serial == Some(serial))
}

/// The next signal of [`INTERFACE`] that a client gets.
pub fn client_signal(client: &mut Client) -> Vec<u8> {
    wait_for(client, |header| header.interface == Some(INTERFACE))
}

/// A client answers a call.
pub fn answer(client: &mut Client, call: &[u8], body: Body) {
    let header = header(call);
    client.send(&Builder::reply(header.serial).destination(header.sender.unwrap()).body(body)).unwrap();
}

/// The error with which the connection of a client ends; what comes before is dropped.
pub fn end_of(client: &mut Client) -> Error {
    loop {
        match client.receive(PATIENCE) {
            Ok(message) => assert!(message.is_some(), "the connection goes on"),
            Err(error) => return error,
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
    next(member, interface, |incoming| match incoming {
        Incoming::Signal(message) if message.header().interface == Some(interface) => Some(message),
        _ => None,
    })
}

/// The next call.
pub fn call(member: &mut Member) -> Call {
    next(member, "call", |incoming| match incoming {
        Incoming::Call(call) => Some(call),
        _ => None,
    })
}

/// One member calls another and gets its reply.
pub fn exchange(caller: &mut Member, callee: &mut Member) {
    let serial = caller.start_call(callee.unique_name(), PATH, INTERFACE, "Ask", Body::default()).unwrap();
    let asked = call(callee);
    callee.reply(&asked, text("answer")).unwrap();
    assert_eq!(caller.finish_call(serial, PATIENCE).unwrap().text(), Some("answer"));
}

/// The error with which the connection of a member ends; what comes before is dropped.
pub fn error_of(member: &mut Member) -> BusError {
    loop {
        match member.next(Some(PATIENCE)) {
            Ok(incoming) => assert!(incoming.is_some(), "the member does not learn that it is over"),
            Err(error) => return error,
        }
    }
}

/// The next message that a monitor of the log sees.
pub fn observed(monitor: &mut Monitor) -> Message {
    match monitor.next(Some(PATIENCE)).unwrap() {
        Some(Observed::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Does the member in a slot sleep?
pub fn sleeps(order: &OrderLog, slot: u16) -> bool {
    ring::asleep(order.armed(slot)).is_some()
}

/// Puts an entry into the log that no member sent.
pub fn forge(connection: &Member, entry: Entry) {
    let order = connection.order_log();
    let is_free = |position: &u64| !matches!(ring::look(&**order, *position), Cell::Present(_));
    let position = (order.load_hint()..).find(is_free).unwrap();
    order.entry(position).store(entry.word(ring::lap(&**order, position)), Ordering::Release);
}

/// The number of the connection with a unique name.
pub fn number_of(unique: &str) -> u64 {
    unique_number(unique).unwrap()
}

/// Answers calls in a thread until the bus ends or `Quit` is called: `Echo` with its text, `Fail` with an error.
pub fn echo(path: &Path, name: &'static str) -> JoinHandle<()> {
    let mut service = Member::open(path).unwrap();
    service.request_name(name, 0).unwrap();
    std::thread::spawn(move || {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let result = service.serve(&stop, |_, call| match call.header().member {
            Some("Echo") => Ok(text(call.text().unwrap_or_default())),
            Some("Quit") => {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                Ok(Body::default())
            }
            _ => Err(("com.example.Error.Fail", "as you wish").into()),
        });
        assert!(matches!(result, Ok(()) | Err(BusError::AuthorityGone)), "{result:?}");
    })
}

/// Statistics of the member with a unique name.
pub fn statistics_of(monitor: &Monitor, unique: &str) -> Statistics {
    let found = monitor.members().into_iter().find(|(peer, ..)| peer.id == number_of(unique));
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
