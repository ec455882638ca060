//! What a bus is told: where to listen, whom to let in, what to start, how much to allow. Plain data and its defaults.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_dbus_wire::wire::MESSAGE_BYTES_MAX;

use crate::connection::READ_BYTES;
use crate::limit::Reached;
use crate::policy::Policy;
use crate::quota::PerMember;
use crate::users::Account;

/// More brings nothing, and keeps others waiting.
const READ_BYTES_MAX: usize = 1 << 20;

/// All settings of a bus. The default is what a configuration file starts from: nothing is allowed, nowhere is listened.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `session` or `system`: what a started service is told. Nothing where nothing is said.
    pub bus_type: Option<String>,
    /// Addresses to listen on, as written.
    pub listen: Vec<String>,
    /// Folders of `.service` files; the first that has a name counts.
    pub service_dirs: Vec<PathBuf>,
    /// How much is allowed.
    pub limits: Limits,
    /// Who may do what.
    pub policy: Policy,
    /// Detach from the terminal, unless the command line says otherwise?
    pub fork: bool,
    /// Log to the system log, unless the command line says otherwise?
    pub syslog: bool,
    /// A file for the process number.
    pub pid_file: Option<PathBuf>,
    /// Whom a bus that root has started becomes before it serves anybody.
    pub user: Option<Account>,
    /// What was written there and is not done, in sentences.
    pub warnings: Vec<String>,
}

/// How much is allowed, and how long. [`Limits::set`] says how `<limit>` calls them.
#[derive(Clone, Debug)]
pub struct Limits {
    pub per_member: PerMember,
    pub message_bytes: usize,
    pub message_descriptors: u32,
    pub connections: usize,
    /// Is that limit lower than configured, because the process may open too few files?
    pub are_connections_cut: bool,
    pub incomplete_connections: usize,
    pub connections_per_user: usize,
    pub service_starts: usize,
    pub service_start: Duration,
    /// What is read of one connection at once.
    pub read_bytes: usize,
    /// Until Hello.
    pub authentication: Duration,
    /// For the rest of a message whose descriptors have arrived.
    pub waiting_descriptors: Duration,
    /// Nothing is for ever.
    pub reply: Option<Duration>,
}

impl Default for Limits {
    /// Those of dbus-daemon for a configuration that names none; of descriptors as many as the kernel passes at once.
    fn default() -> Limits {
        Limits {
            per_member: PerMember {
                bytes: 127 << 20,
                descriptors: 1024,
                names: 512,
                matches: 512,
                calls: 128,
                incoming: 127 << 20,
                are_descriptors_cut: false,
            },
            message_bytes: 32 << 20,
            message_descriptors: 253,
            connections: 2048,
            are_connections_cut: false,
            incomplete_connections: 64,
            connections_per_user: 256,
            service_starts: 512,
            service_start: Duration::from_secs(25),
            read_bytes: READ_BYTES,
            authentication: Duration::from_secs(30),
            waiting_descriptors: Duration::from_secs(150),
            reply: None,
        }
    }
}

impl Limits {
    /// For one user's own programs, which are to meet a limit only if something is wrong with them.
    pub fn session() -> Limits {
        let (bytes, entries) = (256 << 20, 50_000);
        Limits {
            per_member: PerMember {
                bytes,
                descriptors: 4096,
                names: entries,
                matches: entries,
                calls: entries,
                incoming: bytes,
                are_descriptors_cut: false,
            },
            message_bytes: MESSAGE_BYTES_MAX,
            connections: 100_000,
            incomplete_connections: 10_000,
            connections_per_user: 100_000,
            service_starts: 10_000,
            service_start: Duration::from_secs(120),
            authentication: Duration::from_secs(240),
            ..Limits::default()
        }
    }

    /// May a message have so many bytes and descriptors?
    ///
    /// # Errors
    /// It has too many.
    pub fn check_message(&self, bytes: usize, descriptors: u32) -> Result<(), Reached> {
        let (fds, most_fds) = (u64::from(descriptors), u64::from(self.message_descriptors));
        if bytes > self.message_bytes {
            let (bytes, most) = (bytes as u64, self.message_bytes as u64);
            return Err(Reached::by_message("max_message_size", "bytes", bytes, most));
        }
        if fds > most_fds {
            return Err(Reached::by_message("max_message_unix_fds", "file descriptors", fds, most_fds));
        }
        Ok(())
    }

    /// Sets the limit that a configuration calls by this name; false if there is none. A message never has more than 128 MiB, no less than
    /// one byte is read at once and no more than a mebibyte, and a negative `reply_timeout` is for ever.
    ///
    /// # Errors
    /// Another limit is negative.
    pub fn set(&mut self, name: &str, value: i64) -> Result<bool, String> {
        if value < 0 && name != "reply_timeout" {
            return Err(format!("the limit {name} is {value}; write a number that is not negative"));
        }
        let number = u64::try_from(value).unwrap_or(0);
        let count = usize::try_from(number).unwrap_or(usize::MAX);
        let time = Duration::from_millis(number);
        match name {
            "max_incoming_bytes" => self.per_member.incoming = number,
            "max_outgoing_bytes" => self.per_member.bytes = number,
            "max_outgoing_unix_fds" => self.per_member.descriptors = number,
            // Descriptors that wait for their message are limited by what the kernel passes at once, and count against the former.
            "max_incoming_unix_fds" => {}
            "max_message_size" => self.message_bytes = count.min(MESSAGE_BYTES_MAX),
            "max_message_unix_fds" => self.message_descriptors = u32::try_from(number).unwrap_or(u32::MAX),
            "max_completed_connections" => self.connections = count,
            "max_incomplete_connections" => self.incomplete_connections = count,
            "max_connections_per_user" => self.connections_per_user = count,
            // In dbus-daemon a constant of its source.
            "max_bytes_read_per_iteration" => self.read_bytes = count.clamp(1, READ_BYTES_MAX),
            "max_pending_service_starts" => self.service_starts = count,
            "max_names_per_connection" => self.per_member.names = number,
            "max_match_rules_per_connection" => self.per_member.matches = number,
            "max_replies_per_connection" => self.per_member.calls = number,
            "service_start_timeout" => self.service_start = time,
            "auth_timeout" => self.authentication = time,
            "pending_fd_timeout" => self.waiting_descriptors = time,
            "reply_timeout" => self.reply = (value >= 0).then_some(time),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Config {
    /// A bus for one user's own programs, without a configuration file: everything is allowed, and services are those of the session.
    pub fn session() -> Config {
        Config {
            bus_type: Some("session".into()),
            service_dirs: session_service_dirs(),
            limits: Limits::session(),
            policy: Policy { is_open: true, ..Policy::default() },
            ..Config::default()
        }
    }
}

/// Makes the folder of services that come and go with a session, as dbus-daemon does, if it is among those of the configuration: who
/// writes one there need not make it.
pub fn make_transient_service_dir(config: &Config) {
    let Some(folder) = transient_service_dir().filter(|folder| config.service_dirs.contains(folder)) else {
        return;
    };
    // Who cannot make it there has no such services. The folder of the session itself is its manager's, and is not made here.
    let make = |folder: &Path| std::fs::DirBuilder::new().mode(0o700).create(folder);
    let _ = folder.parent().map(make);
    let _ = make(&folder);
}

/// The folder of services that come and go with a session.
pub(crate) fn transient_service_dir() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?;
    Some(PathBuf::from(runtime).join("dbus-1/services"))
}

/// Where the session's `.service` files are. Source: D-Bus Specification, "Standard session service directories".
pub fn session_service_dirs() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let runtime = transient_service_dir();
    let home = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")));
    let shared = variable("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    let data = home.into_iter().chain(std::env::split_paths(&shared).collect::<Vec<_>>());
    runtime.into_iter().chain(data.map(|folder| folder.join("dbus-1/services"))).collect()
}
