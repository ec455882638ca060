//! A bus of its own for each test: causewayd, a thread of this process, or this program once more.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use causeway_bus::client::Bus as Client;
use causeway_bus::{AuthorityOptions, Connection as Member, ConnectionOptions};
use causeway_testkit::{PATIENCE, Running, TempDir, eventually, proc, temp_dir};
use causewayd::{Bus as Core, Children, Config, Listener, NativePlace, Server, new_guid};

use super::{authenticate, driver_call, role_of, start_role};

/// Everything is allowed.
const OPEN_POLICY: &str = "<policy context='default'><allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/><allow own='*'/></policy>";
/// D-Bus clients find a bus there that is given no other place.
const SOMEWHERE: [&str; 2] = ["--address", "unix:tmpdir=/tmp"];

/// causewayd with these arguments. What it says of others is unseen, unless CAUSEWAYD_TEST_LOG is set.
pub fn causewayd(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
    command.args(args).stdin(Stdio::null()).stderr(log());
    command
}

fn log() -> Stdio {
    if std::env::var_os("CAUSEWAYD_TEST_LOG").is_some() { Stdio::inherit() } else { Stdio::null() }
}

/// The address of a D-Bus socket with this path.
pub fn at(path: &Path) -> String {
    format!("unix:path={}", path.display())
}

/// Writes a configuration of a session with these settings, in which everything is allowed.
pub fn configuration(folder: &TempDir, settings: &str) -> String {
    let file = folder.path().join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>{OPEN_POLICY}{settings}</busconfig>"
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The same, with the services of the folder.
pub fn with_services(folder: &TempDir, settings: &str) -> String {
    configuration(folder, &format!("<servicedir>{}</servicedir>{settings}", folder.path().display()))
}

/// A service of this name and command, with `more` lines.
pub fn write_service(folder: &Path, name: &str, exec: &str, more: &str) {
    let text = format!("[D-BUS Service]\nName={name}\nExec={exec}\n{more}");
    std::fs::write(folder.join(format!("{name}.service")), text).unwrap();
}

/// A running causewayd, killed when dropped.
pub struct Broker {
    pub child: Running,
    pub address: String,
    /// Has the native socket.
    folder: Option<TempDir>,
}

impl Broker {
    /// With everything allowed, and the limits of a session.
    pub fn start() -> Broker {
        Broker::with(&SOMEWHERE)
    }

    /// With further settings, and everything allowed.
    pub fn configured(settings: &str) -> Broker {
        Broker::with(&["--config-file", &configuration(&temp_dir("causewayd"), settings)])
    }

    pub fn with(args: &[&str]) -> Broker {
        Broker::spawn(&mut causewayd(args))
    }

    /// At which members can join, too.
    pub fn native() -> Broker {
        Broker::native_with(&SOMEWHERE)
    }

    pub fn native_with(args: &[&str]) -> Broker {
        Broker::native_as(args, Some).expect("the command is there")
    }

    /// With what this makes of its command, if it makes one.
    pub fn native_as(args: &[&str], make: impl FnOnce(Command) -> Option<Command>) -> Option<Broker> {
        let folder = temp_dir("causewayd");
        let mut command = causewayd(args);
        command.arg("--native").arg(folder.path().join("native"));
        let broker = Broker::spawn(make(command)?.stdin(Stdio::null()).stderr(log()));
        Some(Broker { folder: Some(folder), ..broker })
    }

    /// causewayd as this command says, in the foreground.
    pub fn spawn(command: &mut Command) -> Broker {
        command.args(["--nofork", "--print-address"]);
        let mut child = Running::start(command.stdout(Stdio::piped()));
        let mut address = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
        assert!(address.ends_with('\n'), "{command:?} says no address, but {address:?}");
        Broker { child, address: address.trim().into(), folder: None }
    }

    /// The native socket.
    pub fn path(&self) -> PathBuf {
        self.folder.as_ref().expect("members can join").path().join("native")
    }

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::open(&self.address).unwrap()
    }

    /// A client, and a member with the methods of one.
    pub fn of_both_kinds(&self) -> [Client; 2] {
        [self.client(), Client::join(&self.path(), ConnectionOptions::default()).unwrap()]
    }

    /// A connected socket on which nothing was said.
    pub fn socket(&self) -> UnixStream {
        let name = self.address.strip_prefix("unix:abstract=").unwrap().split(',').next().unwrap();
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A socket on which authentication and Hello were said, and these bytes.
    pub fn socket_after_hello(&self, bytes: &[u8]) -> UnixStream {
        let mut stream = self.socket();
        authenticate(&mut stream);
        let hello = driver_call("Hello").build(1).unwrap();
        std::io::Write::write_all(&mut stream, &[&hello, bytes].concat()).unwrap();
        stream
    }

    pub fn memory_kib(&self) -> u64 {
        proc::status_number(self.child.pid(), "VmRSS").unwrap()
    }

    pub fn descriptors(&self) -> usize {
        proc::open_files(self.child.pid())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_none()
    }

    /// Acts while the bus stands still.
    pub fn stopped<T>(&self, act: impl FnOnce() -> T) -> T {
        self.child.stop();
        let outcome = act();
        self.child.resume();
        outcome
    }
}

/// A bus in a thread of this process, which ends with the test.
pub struct Bus {
    folder: TempDir,
    /// Where clients connect.
    pub address: String,
    stop: OwnedFd,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Bus {
    pub fn start() -> Bus {
        Bus::start_with(AuthorityOptions::default())
    }

    /// Its order log is short, so that it is full all the time.
    pub fn start_small() -> Bus {
        let (order_entries, laggard_deadline) = (32, PATIENCE);
        Bus::start_with(AuthorityOptions { order_entries, laggard_deadline, ..AuthorityOptions::default() })
    }

    pub fn start_with(options: AuthorityOptions) -> Bus {
        Bus::configured(Config::session, options)
    }

    pub fn configured(config: fn() -> Config, options: AuthorityOptions) -> Bus {
        let folder = temp_dir("bus");
        let (path, guid) = (folder.path().join("bus"), new_guid());
        let listener = Listener::open(&at(&folder.path().join("dbus")), &guid).unwrap();
        let (address, of_bus) = (listener.address.clone(), listener.address.clone());
        let (stopped, stop) = rustix::pipe::pipe().unwrap();
        let (is_ready, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
            let bus = Core::new(config(), Arc::new(move || Ok(config())), guid, of_bus);
            let mut server = Server::new(bus, vec![listener], children)?;
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

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }

    pub fn member_with(&self, options: ConnectionOptions) -> Member {
        Member::open_with(self.path(), options).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::open(&self.address).unwrap()
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

/// A member with an outbox of 4 KiB that waits for laggards as long as it takes.
pub fn small() -> ConnectionOptions {
    let (outbox_bytes, laggard_deadline) = (4096, Some(PATIENCE));
    ConnectionOptions { outbox_bytes, laggard_deadline, ..ConnectionOptions::default() }
}

/// A bus for members that this program serves once more: in the role `authority` of a module, which calls [`serve_alone`].
pub struct Served {
    folder: TempDir,
    module: &'static str,
    pub process: Running,
}

impl Served {
    pub fn start(module: &'static str) -> Served {
        Served::with_descriptors(module, 0)
    }

    /// With at most so many descriptors, if that is not 0.
    pub fn with_descriptors(module: &'static str, most: u64) -> Served {
        let folder = temp_dir("bus");
        let process = start_role(module, "authority", &folder.path().join("bus"), most);
        let served = Served { folder, module, process };
        served.comes_up();
        served
    }

    fn comes_up(&self) {
        eventually("the bus does not come up", || Member::open(self.path()).is_ok());
    }

    /// Beside what the killed one has left.
    pub fn start_again(&mut self) {
        self.process = Running::start(&mut role_of(self.module, "authority", &self.path()));
        self.comes_up();
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    pub fn member(&self) -> Member {
        Member::open(self.path()).unwrap()
    }
}

/// Serves a bus in this process until that is killed, with at most so many descriptors, if that is not 0.
pub fn serve_alone(socket: &Path, most: u64) {
    let (stop, _open) = rustix::pipe::pipe().unwrap();
    let ready = || super::limit_descriptors(Some(most).filter(|most| *most > 0));
    causewayd::serve_alone(socket, AuthorityOptions::default(), &stop, ready).unwrap();
}
