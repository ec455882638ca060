//! Private D-Bus brokers: dbus-daemon, dbus-broker, busd and causewayd, each started for one purpose with a configuration of ours, and
//! ended with its [`Broker`]; and the bus of native members in the same way.
//!
//! A broker listens on a name in the abstract namespace that no other process knows, and its configuration is a file in memory, so
//! nothing is left in the file system whatever ends. The kernel kills a broker when the thread that started it ends. A bus of native
//! members has a path: what a killed program leaves of it goes with the next start.

mod busd;
mod daemon;
mod dbus_broker;
mod native;

use std::fmt;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use causeway_bus::client::Bus;
use causeway_os::process::{Child, Stderr, poll};

pub use native::clean_up;

/// How long a broker may take to answer its first connection.
const PATIENCE: Duration = Duration::from_secs(20);
/// What brokers say of themselves is said nowhere.
const SILENT: Stderr = Stderr::Null;

/// A broker, or why there is none.
type Started = Result<Broker, Box<dyn std::error::Error>>;

/// A program that is a D-Bus broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// The reference implementation.
    DbusDaemon,
    /// The broker of most distributions; this program is its controller, in place of its launcher, which needs systemd.
    DbusBroker,
    /// The broker of the zbus project.
    Busd,
    /// The broker of this project.
    Causewayd,
    /// The bus of native members of this project, which causewayd serves: no process in the path of a message between them.
    CausewayBus,
}

/// What a private broker allows. dbus-daemon, dbus-broker and causewayd know these limits; busd has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of messages that wait: in dbus-daemon and causewayd for one connection, in dbus-broker for all of one user.
    pub queued_bytes: u64,
    /// Match rules: in dbus-daemon and causewayd of one connection, in dbus-broker of all of one user.
    pub match_rules: u32,
    /// What causewayd reads of one connection at once; nothing where it decides itself. No other broker has the setting.
    pub read_bytes: Option<u64>,
}

impl Default for Limits {
    /// Those of a system bus in Debian 12: 127 MiB in dbus-daemon; more rules than there, so that many can be measured.
    fn default() -> Limits {
        Limits { queued_bytes: 127 << 20, match_rules: 1 << 20, read_bytes: None }
    }
}

/// Why there is no broker.
#[derive(Debug)]
pub enum Error {
    /// Its program is not installed.
    Missing(Program),
    /// It could not be started: which, and why.
    Failed(Program, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(program) => {
                write!(f, "{} is not installed ({})", program.name(), program.package())
            }
            Error::Failed(program, why) => write!(f, "{} cannot be started: {why}", program.name()),
        }
    }
}

impl std::error::Error for Error {}

impl Program {
    /// All of them.
    pub const ALL: [Program; 5] =
        [Program::DbusDaemon, Program::DbusBroker, Program::Busd, Program::Causewayd, Program::CausewayBus];

    /// Do its members share memory with it, so that they need `causeway-bus` and no socket?
    #[must_use]
    pub fn is_native(self) -> bool {
        self == Program::CausewayBus
    }

    /// The word for it everywhere.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Program::DbusDaemon => "dbus-daemon",
            Program::DbusBroker => "dbus-broker",
            Program::Busd => "busd",
            Program::Causewayd => "causewayd",
            Program::CausewayBus => "causeway-bus",
        }
    }

    /// The name of its executable file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Program::CausewayBus => "causewayd",
            _ => self.name(),
        }
    }

    /// Where it comes from.
    #[must_use]
    pub const fn package(self) -> &'static str {
        match self {
            Program::DbusDaemon => "package dbus-daemon",
            Program::DbusBroker => "package dbus-broker",
            Program::Busd => "`cargo install busd`",
            Program::Causewayd => "`cargo build -p causewayd` puts it next to this program",
            Program::CausewayBus => {
                "`cargo build -p causewayd` puts causewayd, which serves it, next to this program"
            }
        }
    }

    /// Its file in the folders of `PATH`. That of this project is looked for next to this program first, and next to the folder where
    /// cargo puts tests.
    #[must_use]
    pub fn path(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = std::env::current_exe()
            .ok()
            .filter(|_| matches!(self, Program::Causewayd | Program::CausewayBus));
        let next_to_it = own.iter().flat_map(|own| own.ancestors().skip(1).take(2)).map(PathBuf::from);
        let can_run = |file: &PathBuf| {
            std::fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        };
        next_to_it.chain(std::env::split_paths(&path)).map(|folder| folder.join(self.file())).find(can_run)
    }

    /// What it says its version is; nothing where it is missing or says none.
    #[must_use]
    pub fn version(self) -> Option<String> {
        Program::version_of(&self.path()?)
    }

    /// The same of a file.
    #[must_use]
    pub fn version_of(file: &Path) -> Option<String> {
        let output = std::process::Command::new(file).arg("--version").output().ok()?;
        let first = String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned();
        first.split_whitespace().next_back().map(str::to_owned)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A running broker that this process started. Dropped, it is killed.
///
/// The thread that starts it must outlive it: the kernel kills it when that thread ends.
#[derive(Debug)]
pub struct Broker {
    address: String,
    child: Child,
    /// The connection over which dbus-broker is controlled; it ends when this is closed.
    _controller: Option<Bus>,
    /// Where native members join.
    _folder: Option<native::Folder>,
}

impl Broker {
    fn new(address: String, child: Child) -> Broker {
        Broker { address, child, _controller: None, _folder: None }
    }

    /// Starts a broker and waits until it accepts connections.
    ///
    /// # Errors
    /// It is not installed, or it does not answer; what was started has ended then.
    pub fn start(program: Program, limits: &Limits) -> Result<Broker, Error> {
        Broker::start_file(program, program.path().ok_or(Error::Missing(program))?, limits)
    }

    /// Starts a build of such a program.
    ///
    /// # Errors
    /// [`Error::Failed`] where it does not start or does not answer.
    pub fn start_file(program: Program, path: PathBuf, limits: &Limits) -> Result<Broker, Error> {
        let started = match program {
            // causewayd reads the same configuration and takes the same options.
            Program::DbusDaemon | Program::Causewayd => daemon::start(path, limits),
            Program::DbusBroker => dbus_broker::start(path, limits),
            Program::Busd => busd::start(path),
            Program::CausewayBus => native::start(path, limits),
        };
        let broker = started.map_err(|why| Error::Failed(program, why.to_string()))?;
        if !program.is_native() {
            Bus::connect(&broker.address).map_err(|error| Error::Failed(program, error.to_string()))?;
        }
        Ok(broker)
    }

    /// Where it listens: an address of D-Bus, or one of a bus of native members ([`native_path`](causeway_bus::client::native_path)).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Has it ended by itself?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.child.has_exited().unwrap_or(true)
    }
}

/// The pipe into which a broker says that it listens, when it has said something or has ended.
fn listening(pipe: PipeReader, otherwise: &str) -> Result<PipeReader, Box<dyn std::error::Error>> {
    if poll(&[pipe.as_fd()], Some(PATIENCE))?[0] { Ok(pipe) } else { Err(otherwise.into()) }
}

/// A name for the abstract namespace that nothing else has: process, number, and 64 random bits, so that no other user can
/// wait for it.
fn socket_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 8];
    // Without randomness the name is still unique.
    let _ = rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty());
    // Relaxed: nothing but the number itself is shared.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("weighbridge-bus-{}-{number}-{:016x}", std::process::id(), u64::from_ne_bytes(random))
}
