//! How a program is started beside a bus that holds very much.
//!
//! A process that forks copies its page tables, and until that is done its other threads wait where they touch memory: with 500 MiB of
//! messages that wait for clients, a start kept the loop for 20 ms. `posix_spawn` copies nothing, but it sets no limits. So it starts the
//! program of the bus once more, and that gives itself the limit of descriptors and becomes the service.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use causeway_os::limits::set_nofile_of;
use causeway_os::process::reset_signals_of;
use rustix::io::Errno;
use rustix::process::Rlimit;

/// The first argument of a program that is to become a service. Two limits follow, the program and its arguments.
const BECOME: &str = "__become";
/// In place of a number.
const UNLIMITED: &str = "unlimited";
/// As a shell says that it cannot run a command.
const CANNOT_RUN: u8 = 127;

/// What programs are started with.
#[derive(Clone, Copy, Debug)]
pub struct Launcher {
    /// So many descriptors they may have.
    pub descriptors: Rlimit,
    /// This process runs the program of the bus, which can become another one.
    pub can_become: bool,
}

impl Launcher {
    /// Starts a program with these arguments and this environment alone, in a process group of its own, with no signal blocked. Returns when the
    /// kernel has found and mapped it.
    ///
    /// # Errors
    /// The kernel's, of the last step that is needed.
    pub fn start(self, command: &[String], environment: &[(OsString, OsString)]) -> io::Result<Child> {
        let begin = |program: &str| {
            let mut starting = Command::new(program);
            starting.env_clear().envs(environment.iter().cloned()).process_group(0);
            // Its output must not go where the address of the bus is read.
            starting.stdout(io::stderr());
            starting
        };
        if self.can_become
            && let Some(started) = self.start_again(begin("/proc/self/exe"), command)
        {
            return started;
        }
        let mut starting = begin(&command[0]);
        starting.args(&command[1..]).stdin(Stdio::null());
        set_nofile_of(&mut starting, self.descriptors);
        // The bus reads its own signals from a descriptor, and its threads have all blocked.
        reset_signals_of(&mut starting);
        starting.spawn()
    }

    /// Starts the program of the bus once more. Nothing where that cannot be done.
    fn start_again(self, mut starting: Command, command: &[String]) -> Option<io::Result<Child>> {
        let text = |limit: Option<u64>| limit.map_or_else(|| UNLIMITED.to_owned(), |limit| limit.to_string());
        let Rlimit { current, maximum } = self.descriptors;
        starting.args([BECOME, &text(current), &text(maximum)]).args(command);
        // Closed when it has become the service; before, it says there why it cannot.
        let (mut refusal, theirs) = io::pipe().ok()?;
        // What is done between fork and exec alone makes the standard library fork: nothing here.
        let mut child = starting.stdin(theirs).spawn().ok()?;
        drop(starting);
        let mut number = [0; size_of::<i32>()];
        if refusal.read_exact(&mut number).is_err() {
            return Some(Ok(child));
        }
        let _ = child.wait();
        Some(Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))))
    }
}

/// Becomes a service, where this process was started for that. Returns only if it was not, or cannot.
pub fn become_service() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != BECOME {
        return None;
    }
    let refused = match take_standard_input() {
        Ok(refusal) => {
            let error = become_program(args);
            let number = error.raw_os_error().unwrap_or_else(|| Errno::INVAL.raw_os_error());
            File::from(refusal).write_all(&number.to_ne_bytes())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = refused {
        crate::log::log(&format!("cannot start a service: {error}"));
    }
    Some(ExitCode::from(CANNOT_RUN))
}

/// The pipe, which ends with this program, and nothing in its place.
fn take_standard_input() -> io::Result<std::os::fd::OwnedFd> {
    let refusal = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(refusal)
}

/// Returns only if this cannot be done.
fn become_program(mut args: impl Iterator<Item = OsString>) -> io::Error {
    let mut limit = || match args.next()?.to_str()? {
        UNLIMITED => Some(None),
        number => number.parse().ok().map(Some),
    };
    let (Some(current), Some(maximum)) = (limit(), limit()) else { return Errno::INVAL.into() };
    let Some(program) = args.next() else { return Errno::INVAL.into() };
    let mut service = Command::new(program);
    service.args(args);
    set_nofile_of(&mut service, Rlimit { current, maximum });
    // Those of the thread that has started this program are blocked.
    reset_signals_of(&mut service);
    service.exec()
}
