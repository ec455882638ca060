//! `causewayd`: a message bus for D-Bus programs and native members.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use causeway_bus::AuthorityOptions;
use causewayd::args::Args;
use causewayd::bus::Bus;
use causewayd::children::Children;
use causewayd::config::Config;
use causewayd::listen::Listener;
use causewayd::log::log;
use causewayd::serve::Server;
use causewayd::{background, config_file, driver, listen, log};

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
    let native = native_path(args, &listeners, &guid);
    let bus = Bus::new(config, guid, address.clone());
    for remark in bus.service_remarks() {
        log(remark);
    }
    let mut server = Server::new(bus, listeners, children, Box::new(load))?;
    let native = serve_natively(args, &mut server, native)?;
    if let Some(descriptor) = args.print_address {
        write_line(descriptor, &address)?;
    }
    if let Some(descriptor) = args.print_native {
        let Some(path) = native else {
            return Err("there is no native socket; give it a path with --native PATH".into());
        };
        write_line(descriptor, &path.display().to_string())?;
    }
    if let Some(descriptor) = args.print_pid {
        write_line(descriptor, &std::process::id().to_string())?;
    }
    if args.detached {
        background::detach()?;
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
    let listeners: Vec<Listener> =
        addresses.iter().map(|address| Listener::open(address, guid)).collect::<Result<_, String>>()?;
    match listeners.is_empty() {
        true => Err("the address is empty; write unix:path=PATH".into()),
        false => Ok(listeners),
    }
}

/// Where native members join: where the command line says; for a session beside the first socket that has a file, or in the folder of
/// the session.
fn native_path(args: &Args, listeners: &[Listener], guid: &str) -> Option<PathBuf> {
    if args.native.is_some() || !args.session {
        return args.native.clone();
    }
    let beside = listeners.iter().find_map(Listener::path).map(|path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".native");
        PathBuf::from(name)
    });
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    beside.or_else(|| Some(PathBuf::from(folder?).join(format!("causeway-{guid}.native"))))
}

/// Serves native members there. A session that was not told to does without if it cannot.
fn serve_natively(
    args: &Args,
    server: &mut Server,
    path: Option<PathBuf>,
) -> Result<Option<PathBuf>, String> {
    let Some(path) = path else { return Ok(None) };
    let path = std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let options = AuthorityOptions { clients: 3072, names: 8192, ..AuthorityOptions::default() };
    match server.serve_natively(&path, options) {
        Ok(()) => Ok(Some(path)),
        Err(why) if args.native.is_some() => Err(why),
        Err(why) => {
            log(&why);
            Ok(None)
        }
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
