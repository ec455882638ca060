//! `causewayd`: a message bus for D-Bus programs and native members.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use causeway_bus::AuthorityOptions;
use causewayd::args::{self, Args};
use causewayd::log::log;
use causewayd::{Bus, Children, Config, Listener, MetricsEndpoint, NativePlace, PidFile, Server};
use causewayd::{background, config_file, driver, launch, log, native_path, new_guid, systemd};

const SESSION_CONFIG: &str = "/usr/share/dbus-1/session.conf";
const SYSTEM_CONFIG: &str = "/usr/share/dbus-1/system.conf";

fn main() -> ExitCode {
    if let Some(code) = launch::become_service() {
        return code;
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            log(&why);
            // As of the other programs: 2 is a mistake on the command line.
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.introspect {
        return write_line(1, driver::description().trim_end());
    }
    if args.man {
        return write_line(1, args::manual()?.trim_end());
    }
    if let Some(shell) = args.completions {
        return write_line(1, args::completions(shell)?.trim_end());
    }
    let file = configured(args)?;
    let load = move || match &file {
        Some(file) => config_file::read(file).map_err(|bad| bad.to_string()),
        None => Ok(Config::session()),
    };
    if args.syslog || args.syslog_only {
        log::to_system();
    }
    if args.verbose {
        log::be_verbose();
    }
    let config = load()?;
    if config.syslog && !args.nosyslog {
        log::to_system();
    }
    if (args.fork || config.fork) && !args.nofork {
        return background::start_again();
    }
    // SIGCHLD may be ignored by inheritance; the kernel would then reap services before their status is read.
    causeway_os::process::reset_child_signal().map_err(|error| error.to_string())?;
    causewayd::make_transient_service_dir(&config);
    // The limit on descriptors is what limits connections; a bus that may raise it should.
    let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
    let children = children.that_can_become();
    let _ = causeway_os::limits::raise_nofile();
    let guid = new_guid();
    let (listeners, handed) = listen_all(args, &config, &guid)?;
    let address = listeners.iter().map(|listener| listener.address.as_str()).collect::<Vec<_>>().join(";");
    let pid_file = config.pid_file.clone().filter(|_| !args.nopidfile).map(PidFile::write).transpose()?;
    // Sockets and files are made; nobody was listened to yet.
    if let Some(account) = &config.user {
        causeway_os::process::become_user(account.uid, account.gid, &account.groups)
            .map_err(|error| error.to_string())?;
    }
    if causeway_os::process::is_overflow_user() {
        return Err(causeway_os::process::overflow_user_refused());
    }
    let native = native_place(args, handed, &listeners, &guid)?;
    let mut bus = Bus::new(config, Arc::new(load), guid, address.clone());
    bus.set_systemd_activation(args.systemd_activation);
    bus.log_warnings();
    let mut server = Server::new(bus, listeners, children)?;
    let native = serve_natively(args, &mut server, native)?.map(|path| path.display().to_string());
    if args.print_native.is_some() && native.is_none() {
        return Err("there is no native socket; give it a path with --native PATH".into());
    }
    if let Some(place) = &args.metrics {
        server.serve_metrics(MetricsEndpoint::of(place))?;
    }
    // Not before it serves: who reads an address may rely on the bus.
    let lines = [
        (args.print_address, Some(address)),
        (args.print_native, native),
        (args.print_pid, Some(std::process::id().to_string())),
    ];
    for (descriptor, line) in lines {
        if let (Some(descriptor), Some(line)) = (descriptor, line) {
            write_line(descriptor, &line)?;
        }
    }
    if args.detached {
        background::detach()?;
    }
    log::serves();
    if let Err(why) = systemd::notify_ready() {
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

/// Listens at all addresses. Also returns the native socket, if a service manager hands one over.
fn listen_all(
    args: &Args,
    config: &Config,
    guid: &str,
) -> Result<(Vec<Listener>, Option<NativePlace>), String> {
    let addresses = match &args.address {
        Some(list) => list.split(';').filter(|one| !one.is_empty()).collect(),
        None if config.listen.is_empty() => vec!["unix:tmpdir=/tmp"],
        None => config.listen.iter().map(String::as_str).collect(),
    };
    let (mut listeners, mut native) = (Vec::new(), None);
    for address in addresses {
        if address == systemd::ADDRESS {
            let (handed, place) = systemd::listeners(guid)?;
            listeners.extend(handed);
            native = place;
        } else {
            listeners.push(Listener::open(address, guid)?);
        }
    }
    if listeners.is_empty() {
        return Err("the address is empty; write unix:path=PATH".into());
    }
    Ok((listeners, native))
}

/// Where native members join: at the socket of a service manager; where the command line says; for a session next to
/// the first socket that has a file, or in the folder of the session.
fn native_place(
    args: &Args,
    handed: Option<NativePlace>,
    listeners: &[Listener],
    guid: &str,
) -> Result<Option<NativePlace>, String> {
    if let (Some(NativePlace { path, .. }), Some(_)) = (&handed, &args.native) {
        return Err(format!("systemd passed the native socket {}; remove --native", path.display()));
    }
    if handed.is_some() {
        return Ok(handed);
    }
    let of_session = || {
        let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let dbus_socket = listeners.iter().find_map(Listener::path);
        native_path::of_session(dbus_socket, folder.as_deref().map(Path::new), guid)
    };
    let path = if args.native.is_some() || !args.session { args.native.clone() } else { of_session() };
    let at = |path: PathBuf| {
        let path = std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(NativePlace { path, socket: None })
    };
    path.map(at).transpose()
}

/// Serves native members there. A session that was not told to does without if it cannot.
fn serve_natively(
    args: &Args,
    server: &mut Server,
    place: Option<NativePlace>,
) -> Result<Option<PathBuf>, String> {
    let Some(place) = place else {
        if args.session {
            log(
                "serving D-Bus clients only: XDG_RUNTIME_DIR is not set; --native PATH lets native members join",
            );
        }
        return Ok(None);
    };
    let path = place.path.clone();
    let must_serve = args.native.is_some() || place.socket.is_some();
    let laggard_deadline = args.laggard_deadline;
    let options =
        AuthorityOptions { clients: 3072, names: 8192, laggard_deadline, ..AuthorityOptions::default() };
    match server.serve_natively(place, options) {
        Ok(()) => Ok(Some(path)),
        Err(why) if must_serve => Err(why),
        Err(why) => {
            log(&format!("{why}; serving D-Bus clients only"));
            Ok(None)
        }
    }
}

/// Writes a line to a descriptor that this process has inherited.
fn write_line(descriptor: i32, line: &str) -> Result<(), String> {
    let line = format!("{line}\n");
    let written = match descriptor {
        1 => std::io::stdout().lock().write_all(line.as_bytes()),
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
    written.map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("cannot write to descriptor {descriptor}: it is not open"),
        _ => format!("cannot write to descriptor {descriptor}: {error}"),
    })
}
