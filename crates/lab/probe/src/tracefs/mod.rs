//! The kernel's tracer, as its file system shows it: identifiers and formats of events, and trace buffers of our own.
//!
//! Everything that records does so in an [`Instance`], which has buffers, a clock and enabled events of its own: another user of the
//! tracer is not disturbed. Where tracefs is not mounted, it is mounted without a place in the directory tree, so that no mount
//! table changes either; the mount ends with its last descriptor.
//!
//! Source: `Documentation/trace/ftrace.rst` and `Documentation/trace/ring-buffer-map.rst` of the kernel.

mod guard;
mod instance;

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use causeway_os::{Context, Error, Result};

use crate::namespace::mount_nowhere;

pub use instance::Instance;

/// Where distributions mount it, and where kernels before 4.1 had it.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// More than any description of an event has. Some files, such as `events/header_page`, give only as much as the first read asks for.
const LARGEST_FILE_BYTES: usize = 64 << 10;

/// The root directory of tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: OwnedFd,
}

/// An event of the kernel: what `perf_event_open` and a reader of raw trace pages need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, which begins each record of it (`common_type`), and the `config` of a perf event of type tracepoint.
    pub id: u32,
    /// Its fields with offset and size, in the kernel's text form.
    pub format: String,
}

impl Tracefs {
    /// Finds tracefs where it is mounted, or else mounts it for this value alone. An error names the right or the setting that would allow it.
    pub fn open() -> Result<Tracefs> {
        let mut refused = None;
        for place in mounted() {
            match open_directory(&place) {
                Ok(root) => return Ok(Tracefs { root }),
                Err(error) => refused = Some(refusal(place.display().to_string(), error)),
            }
        }
        match mount_nowhere("tracefs", None) {
            Ok(root) if may_write(root.as_fd()) => Ok(Tracefs { root }),
            Ok(_) => Err(refusal("tracefs", Errno::ACCESS)),
            Err(error) => Err(refused.unwrap_or_else(|| refusal("tracefs", error))),
        }
    }

    /// The event `name`, written `group/event`, such as `sched/sched_switch`; `ENOENT` where the kernel has none of it.
    pub fn event(&self, name: &str) -> Result<Event> {
        let read = |file: &str| read(self.root.as_fd(), &format!("events/{name}/{file}"));
        let number = read("id")?;
        let id = number.trim().parse().map_err(|_| {
            let why = format!("{:?} is not a number", number.trim());
            let why = io::Error::new(io::ErrorKind::InvalidData, why);
            Error::new("read", format!("the id of event {name}"), why)
        })?;
        Ok(Event { id, format: read("format")? })
    }

    /// Makes a trace buffer of our own, `instances/weighbridge-PID-N`, in which nothing is recorded yet. Instances of processes that were killed are
    /// removed first. A child process stays behind until the instance is removed, and removes it if this process is killed.
    pub fn instance(&self) -> Result<Instance> {
        Instance::make(self)
    }

    /// The names of the instances that there are, of whoever made them.
    pub fn instances(&self) -> Result<Vec<String>> {
        instance::names(self)
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// The places at which tracefs is mounted, those that are usual first.
fn mounted() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut places = mounts_in(&table);
    places.sort_by_key(|place| !USUAL.iter().any(|usual| Path::new(usual) == place));
    places
}

/// The places in a mount table at which the root of tracefs is mounted. Fields: `proc_pid_mountinfo(5)`.
fn mounts_in(table: &str) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let mut fields = mount.split(' ').skip(3);
            let is_root = fields.next()? == "/";
            let place = fields.next()?;
            (is_root && kind.split(' ').next()? == "tracefs").then(|| PathBuf::from(without_escapes(place)))
        })
        .collect()
}

/// A path of a mount table, in which four characters are written as octal numbers.
fn without_escapes(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn open_directory(place: &Path) -> std::result::Result<OwnedFd, Errno> {
    let root = rustix::fs::open(place, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // A directory may be opened by its path where nothing in it may be: the events are what counts.
    if may_write(root.as_fd()) { Ok(root) } else { Err(Errno::ACCESS) }
}

fn may_write(root: BorrowedFd<'_>) -> bool {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::accessat(root, "instances", access, rustix::fs::AtFlags::empty()).is_ok()
        && rustix::fs::accessat(root, "events", rustix::fs::Access::READ_OK, rustix::fs::AtFlags::empty())
            .is_ok()
}

fn refusal(on: impl Into<String>, error: Errno) -> Error {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let source = io::Error::from(error);
    let text = format!("{source}; {}", remedy(error, &lockdown));
    Error::new("use", on, io::Error::new(source.kind(), text))
}

fn remedy(error: Errno, lockdown: &str) -> &'static str {
    if lockdown.contains("[confidentiality]") {
        return "the kernel is locked down for confidentiality, and traces only after a start with lockdown=integrity or lockdown=none";
    }
    match error {
        Errno::PERM | Errno::ACCESS => {
            "root (CAP_SYS_ADMIN) may, or a user to whom root gives tracefs (mount -o remount,mode=755,gid=…)"
        }
        Errno::NODEV => "this kernel has no tracer (CONFIG_FTRACE)",
        Errno::NOSYS => {
            "Linux 5.2 or later can mount it privately; or root mounts it (mount -t tracefs tracefs /sys/kernel/tracing)"
        }
        _ => "root may mount it (mount -t tracefs tracefs /sys/kernel/tracing)",
    }
}

fn read(directory: BorrowedFd<'_>, path: &str) -> Result<String> {
    let on = || format!("tracefs file {path}");
    let file =
        openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).context("open", on)?;
    let mut text = String::with_capacity(LARGEST_FILE_BYTES);
    fs::File::from(file).read_to_string(&mut text).context("read", on)?;
    Ok(text)
}

/// Writes `text` into a file below `directory`, in one system call.
fn write(directory: BorrowedFd<'_>, path: &str, text: &str) -> Result<()> {
    openat(directory, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| rustix::io::retry_on_intr(|| rustix::io::write(&file, text.as_bytes())))
        .map(drop)
        .context("write", || format!("{text:?} into tracefs file {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_tracefs_are_found_in_a_mount_table() {
        let table = "22 1 0:21 / /sys rw - sysfs sysfs rw\n\
                     38 22 0:12 / /sys/kernel/tracing rw,nosuid shared:5 - tracefs tracefs rw\n\
                     39 22 0:12 /instances/a /mnt/a rw - tracefs tracefs rw\n\
                     40 22 0:12 / /mnt/my\\040trace rw - tracefs none rw\n\
                     41 22 0:13 / /mnt/other rw - tmpfs tracefs rw\n";
        assert_eq!(mounts_in(table), [PathBuf::from("/sys/kernel/tracing"), PathBuf::from("/mnt/my trace")]);
    }

    #[test]
    fn a_refusal_names_what_would_allow_it() {
        assert!(remedy(Errno::PERM, "").contains("CAP_SYS_ADMIN"));
        assert!(remedy(Errno::NODEV, "[none] integrity confidentiality").contains("CONFIG_FTRACE"));
        assert!(remedy(Errno::PERM, "none integrity [confidentiality]").contains("lockdown=integrity"));
        let error = refusal("tracefs", Errno::PERM);
        assert_eq!(error.os().kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().starts_with("cannot use tracefs: "), "{error}");
    }
}
