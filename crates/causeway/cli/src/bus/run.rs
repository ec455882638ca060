//! `run`: a program with a bus of its own. The bus ends with the program, and both with this process, whatever ends it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use causeway_os::process::{Child, Exit, Origin, Spawn, block_signals, poll, read_signal_and_origin};

use super::client::within;
use super::which::Which;
use super::{folder, server};
use crate::failure::Failure;

/// Numbers of signals are the same on all architectures of Linux.
const SIGTERM: i32 = 15;
/// HUP, INT, QUIT, USR1, USR2, TERM: passed on to the program.
const FORWARDED: [i32; 6] = [1, 2, 3, 10, 12, SIGTERM];
/// For causewayd to serve, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Exit codes of a shell.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// What belongs to another bus.
const OF_OTHERS: [&str; 3] = ["DBUS_SESSION_BUS_PID", "DBUS_STARTER_ADDRESS", "DBUS_STARTER_BUS_TYPE"];

/// Starts a bus and the program; returns the exit code of the program.
pub fn run(which: &Which, config_file: Option<PathBuf>, command: &[OsString]) -> Result<ExitCode, Failure> {
    if which.socket.is_some() || which.address.is_some() {
        return Err(Failure::Usage("`run` makes a bus of its own; leave --socket and --address out".into()));
    }
    let (program, arguments) = command.split_first().expect("the program is a required argument");
    let shown = program.display();
    let Some(path) = crate::program::in_path(Path::new(program)) else {
        eprintln!("causeway: {shown} is not a program; name one in PATH, or a path");
        return Ok(NOT_FOUND.into());
    };
    // Before the bus starts: from here on no signal ends this process without the rest.
    let signals = block_signals(&FORWARDED)?;
    let mut bus = PrivateBus::start(config_file)?;
    let spawn = Spawn::new(path).args(arguments).inherits().dies_with_parent();
    let spawn = spawn.env("DBUS_SESSION_BUS_ADDRESS", &bus.address);
    let spawn = spawn.env("CAUSEWAY_BUS", &bus.native);
    let spawn = OF_OTHERS.iter().fold(spawn, |spawn, name| spawn.without_env(name));
    let mut running = match Child::spawn(spawn) {
        Ok(running) => running,
        Err(error) => {
            eprintln!("causeway: {error}");
            return Ok(NOT_STARTED.into());
        }
    };
    let exit = supervise(&mut running, &mut bus, &signals)?;
    drop(bus);
    Ok(match exit {
        Exit::Code(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Exit::Signal(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
    })
}

/// Waits for the end of the program, and passes signals on to it.
fn supervise(running: &mut Child, bus: &mut PrivateBus, signals: &OwnedFd) -> Result<Exit, Failure> {
    loop {
        let mut watched = vec![running.pidfd(), signals.as_fd()];
        if !bus.has_ended {
            watched.push(bus.server.pidfd());
        }
        let ready = poll(&watched, None)?;
        if ready[0]
            && let Some(exit) = running.wait(None)?
        {
            return Ok(exit);
        }
        while let Some((signal, origin)) = read_signal_and_origin(signals)? {
            // A key of the terminal has reached the program too.
            if origin == Origin::Process {
                // It may have ended in this moment.
                let _ = running.kill(signal);
            }
        }
        if ready.get(2) == Some(&true) {
            bus.has_ended = true;
            eprintln!("causeway: the bus has ended before the program");
        }
    }
}

/// A causewayd for one program, on names that nobody else knows.
struct PrivateBus {
    server: Child,
    address: String,
    native: PathBuf,
    has_ended: bool,
}

impl PrivateBus {
    fn start(config_file: Option<PathBuf>) -> Result<PrivateBus, Failure> {
        let program = server::find()?;
        let native = folder::for_sockets()?.join(server::unused_name("causeway-run-"));
        let (said, address) = std::io::pipe()?;
        // Away from the keys of the terminal, which would end it before the program. It removes its socket when this process is killed.
        let spawn = Spawn::new(program)
            .args(server::arguments("unix:tmpdir=/tmp", Some(&native), config_file))
            .args(["--nofork", "--print-address=3"])
            .fd(address.into())
            .own_session()
            .told_of_parents_death(SIGTERM);
        let server = Child::spawn(spawn)?;
        let mut bus = PrivateBus { server, address: String::new(), native, has_ended: false };
        bus.address = said_address(said)?;
        Ok(bus)
    }
}

/// The line by which causewayd says that it serves.
fn said_address(said: PipeReader) -> Result<String, Failure> {
    let line = within(Some(PATIENCE), move || {
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        Ok(line)
    });
    match line {
        Ok(line) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
        // It has said why on standard error.
        Ok(_) => Err(Failure::Failed("causewayd has not started".into())),
        Err(Failure::NoAnswer(_)) => {
            Err(Failure::Failed(format!("causewayd does not serve after {PATIENCE:?}")))
        }
        Err(other) => Err(other),
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        // Killed if it does not end by itself, when the child is dropped.
        let _ = self.server.kill(SIGTERM);
        let _ = self.server.wait(Some(PATIENCE));
        // One that was killed leaves its native socket and the lock of that.
        let mut lock = self.native.clone().into_os_string();
        lock.push(".lock");
        for path in [self.native.clone(), lock.into()] {
            let _ = std::fs::remove_file(path);
        }
    }
}
