//! The first process of a guest: it mounts what a measurement needs, loads modules, measures, answers, and powers off.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::system::RebootCommand;
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use crate::job::{self, Job};
use crate::modules;
use crate::port::{self, Answer};
use crate::symbols;

/// The name under which the kernel starts this program.
const NAME: &str = "/init";
/// The port over which the answer goes.
const PORT: &str = "/dev/ttyS1";
/// Is this process the first one of a guest?
pub fn is_wanted() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Does the job and powers off. `program` is called with the arguments of the job's command, as a process of its own.
pub fn main() -> ! {
    // Whatever goes wrong here is told on the console; the program outside has it from there.
    if let Err(error) = answer() {
        say(&format!("weighbridge: {error}"));
    }
    rustix::fs::sync();
    let refused = rustix::system::reboot(RebootCommand::PowerOff);
    say(&format!("weighbridge: this kernel cannot power off: {refused:?}"));
    // A first process that ends is a panic, and with `panic=-1` a restart, which ends the emulator.
    std::process::exit(1)
}

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn answer() -> io::Result<()> {
    // Without the device file system there is no port; everything else is told over the port.
    fs::create_dir_all("/dev")?;
    mounted("devtmpfs", "/dev")?;
    let mut port = open_port()?;
    port.write_all(port::up().as_bytes())?;
    let answer = done().map_or_else(Answer::Failed, Answer::Record);
    port.write_all(&port::write(&answer))?;
    Ok(tcdrain(&port)?)
}

fn open_port() -> io::Result<File> {
    let cannot = |error: io::Error| io::Error::new(error.kind(), format!("cannot open {PORT}: {error}"));
    let port = File::options().read(true).write(true).open(PORT).map_err(cannot)?;
    // A terminal would change newlines on the way.
    let mut settings = tcgetattr(&port)?;
    settings.make_raw();
    tcsetattr(&port, OptionalActions::Now, &settings)?;
    Ok(port)
}

fn done() -> Result<Vec<u8>, String> {
    for (kind, on) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/dev/shm"),
        ("debugfs", "/sys/kernel/debug"),
        ("mqueue", "/dev/mqueue"),
    ] {
        let made = Path::new(on).is_dir() || fs::create_dir_all(on).is_ok();
        let mounted = if made { mounted(kind, on) } else { Err(io::ErrorKind::NotFound.into()) };
        // Some kernels have no debugfs and no message queues; what needs them says so itself.
        if let Err(error) = mounted
            && matches!(kind, "proc" | "sysfs" | "tmpfs")
        {
            return Err(format!("{kind} cannot be mounted on {on}: {error}"));
        }
    }
    // A kernel without IPv4 has no cases over it.
    let _ = weighbridge_probe::namespace::loopback_up();
    let job = fs::read(job::PATH).map_err(|error| format!("there is no job: {error}"))?;
    let job: Job =
        serde_json::from_slice(&job).map_err(|error| format!("the job cannot be read: {error}"))?;
    for module in &job.modules {
        modules::load(Path::new(&module.path), &module.parameters)?;
    }
    measured(&job)?;
    let mut answer = fs::read(job::RECORD).map_err(|error| format!("there is no record: {error}"))?;
    if job.functions {
        weighbridge_probe::window_marks::windows_are_complete();
        answer.extend(symbols::of_this_guest()?.into_bytes());
    }
    Ok(answer)
}

fn mounted(kind: &str, on: &str) -> io::Result<()> {
    match mount(kind, on, kind, MountFlags::empty(), None::<&std::ffi::CStr>) {
        // A kernel with CONFIG_DEVTMPFS_MOUNT has done it itself.
        Err(rustix::io::Errno::BUSY) => Ok(()),
        mounted => mounted.map_err(io::Error::from),
    }
}

/// Runs the command of the job; its messages go to the console.
fn measured(job: &Job) -> Result<(), String> {
    let status = Command::new("/proc/self/exe")
        .args(&job.command)
        .env("PATH", "/")
        .env("HOME", "/tmp")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("the measurement cannot be started: {error}"))?;
    if status.success() || Path::new(job::RECORD).exists() {
        Ok(())
    } else {
        Err(format!("the measurement ended with {status}"))
    }
}
