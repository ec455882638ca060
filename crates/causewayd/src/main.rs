//! `causewayd`: a message bus for D-Bus programs.
//!
//! It speaks D-Bus on Unix sockets as dbus-daemon does, in one thread, and passes messages in one order. From the bottom up:
//!
//! | module | what it is |
//! |---|---|
//! | [`names`], [`mod@matches`], [`calls`], [`quota`], [`policy`], [`activation`] | state and decisions, without sockets |
//! | [`sasl`], [`connection`], [`descriptors`], [`listen`] | one socket each, without names |
//! | [`systemd`] | sockets of a service manager |
//! | [`bus`] | delivers a message of a member to others |
//! | [`driver`] | the methods of `org.freedesktop.DBus` |
//! | `accept` | a message of a member, from its connection to the driver or the bus |
//! | [`children`] | programs that were started |
//! | [`serve`] | the loop that joins all |
//! | [`config`], [`config_file`], [`policy_file`], [`service_file`], [`users`] | what it is told |

mod accept;
mod activation;
mod args;
mod background;
mod bus;
mod calls;
mod children;
mod config;
mod config_file;
mod connection;
mod descriptors;
mod driver;
mod error;
mod help;
mod listen;
mod log;
mod matches;
mod member;
mod message;
mod names;
mod policy;
mod policy_file;
mod quota;
mod sasl;
mod serve;
mod service_file;
mod systemd;
mod users;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::bus::Bus;
use crate::children::Children;
use crate::config::Config;
use crate::listen::Listener;
use crate::log::log;
use crate::serve::Server;

const SESSION_CONFIG: &str = "/usr/share/dbus-1/session.conf";
const SYSTEM_CONFIG: &str = "/usr/share/dbus-1/system.conf";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            log(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.introspect {
        return write_line(1, driver::description().trim_end());
    }
    if args.man {
        return write_line(1, help::manual()?.trim_end());
    }
    if let Some(shell) = args.completions {
        return write_line(1, help::completions(shell)?.trim_end());
    }
    if args.syslog_only || (args.syslog && !args.nosyslog) {
        log::to_system();
    }
    let file = configured(args)?;
    let load = move || match &file {
        Some(file) => config_file::read(file).map_err(|bad| bad.to_string()),
        None => Ok(Config::session()),
    };
    let config = load()?;
    if (args.fork || config.fork) && !args.nofork {
        return background::start_again();
    }
    for remark in &config.remarks {
        log(remark);
    }
    // The limit on descriptors is what limits connections; a bus that may raise it should.
    let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
    let _ = causeway_os::limits::raise_nofile();
    let guid = listen::new_guid();
    let listeners = listen_all(args, &config, &guid)?;
    let address = listeners.iter().map(|listener| listener.address.as_str()).collect::<Vec<_>>().join(";");
    let pid_file = config.pid_file.clone().filter(|_| !args.nopidfile).map(PidFile::write).transpose()?;
    let bus = Bus::new(config, guid, address.clone());
    for remark in bus.service_remarks() {
        log(remark);
    }
    let mut server = Server::new(bus, listeners, children, Box::new(load))?;
    if let Some(descriptor) = args.print_address {
        write_line(descriptor, &address)?;
    }
    if let Some(descriptor) = args.print_pid {
        write_line(descriptor, &std::process::id().to_string())?;
    }
    if args.detached {
        background::detach()?;
    }
    if let Err(why) = systemd::say_ready() {
        log(&why);
    }
    let served = server.run();
    drop(pid_file);
    served
}

/// The configuration file; nothing for the settings of a session that are built in.
fn configured(args: &Args) -> Result<Option<PathBuf>, String> {
    match (&args.config_file, args.session, args.system) {
        (Some(file), ..) => Ok(Some(file.clone())),
        (None, _, true) => Ok(Some(SYSTEM_CONFIG.into())),
        (None, true, _) => Ok(Some(PathBuf::from(SESSION_CONFIG)).filter(|file| file.exists())),
        (None, false, false) if args.address.is_some() => Ok(None),
        _ => Err("say where to listen: --session, --address ADDRESS or --config-file FILE".into()),
    }
}

fn listen_all(args: &Args, config: &Config, guid: &str) -> Result<Vec<Listener>, String> {
    let default =
        || if config.listen.is_empty() { vec!["unix:tmpdir=/tmp".into()] } else { config.listen.clone() };
    let addresses = match &args.address {
        Some(list) => list.split(';').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
        None => default(),
    };
    let mut listeners = Vec::new();
    for address in &addresses {
        match address.as_str() {
            systemd::ADDRESS => listeners.extend(systemd::listeners(guid)?),
            address => listeners.push(Listener::open(address, guid)?),
        }
    }
    match listeners.is_empty() {
        true => Err("the address is empty; write unix:path=PATH".into()),
        false => Ok(listeners),
    }
}

/// Writes a line to a descriptor that this process has inherited.
fn write_line(descriptor: i32, line: &str) -> Result<(), String> {
    let line = format!("{line}\n");
    let written = match descriptor {
        1 => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
        }
        2 => std::io::stderr().write_all(line.as_bytes()),
        other => match causeway_os::process::inherited_fd(other) {
            // Our copy is closed then, so that a reader of this descriptor sees its end.
            Ok(owned) => File::from(owned).write_all(line.as_bytes()),
            Err(_) => File::options()
                .write(true)
                .open(Path::new("/proc/self/fd").join(other.to_string()))
                .and_then(|mut file| file.write_all(line.as_bytes())),
        },
    };
    written.map_err(|error| format!("cannot write to descriptor {descriptor}: {error}"))
}

/// A file with the number of this process, removed when dropped.
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: PathBuf) -> Result<PidFile, String> {
        let text = format!("{}\n", std::process::id());
        let mut options = File::options();
        let made = options.write(true).create_new(true).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}; remove it if no bus runs", path.display()))?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
