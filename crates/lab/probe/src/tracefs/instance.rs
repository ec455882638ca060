//! A trace buffer of our own: `instances/weighbridge-PID-N`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::guard::Guard;
use super::{Tracefs, read, write};
use causeway_os::{Context, Error, Result};

const PREFIX: &str = "weighbridge-";

static MADE: AtomicU32 = AtomicU32::new(0);

/// A trace buffer with a clock, events and CPUs of its own. Dropped, it is removed.
#[derive(Debug)]
pub struct Instance {
    /// Its directory. An open file in it keeps everyone from removing it, so these two go first.
    directory: Option<OwnedFd>,
    in_use: Option<OwnedFd>,
    instances: OwnedFd,
    name: String,
    guard: Option<Guard>,
}

impl Instance {
    pub(super) fn make(tracefs: &Tracefs) -> Result<Instance> {
        let instances = folder(tracefs)?;
        for stale in names_in(&instances)?.iter().filter(|name| is_stale(name)) {
            // Another process may have been faster. What is in use, by a process of another PID namespace, the kernel keeps.
            let _ = unlinkat(&instances, stale.as_str(), AtFlags::REMOVEDIR);
        }
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        // The guard comes first: whatever happens between these two lines, it finds the instance or none.
        let guard = Guard::start(instances.as_fd(), &name)?;
        mkdirat(&instances, &name, Mode::RWXU).context("make", || format!("trace instance {name}"))?;
        let mut instance = Instance { directory: None, in_use: None, instances, name, guard: Some(guard) };
        instance.open()?;
        write(instance.root()?, "tracing_on", "0")?;
        Ok(instance)
    }

    fn open(&mut self) -> Result<()> {
        let on = || format!("trace instance {}", self.name);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.instances, &self.name, flags, Mode::empty()).context("open", on)?;
        let file = openat(&directory, "tracing_on", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        self.in_use = Some(file.context("open", on)?);
        self.directory = Some(directory);
        Ok(())
    }

    fn root(&self) -> Result<std::os::fd::BorrowedFd<'_>> {
        let directory = self.directory.as_ref().map(AsFd::as_fd);
        directory.ok_or_else(|| Error::new("use", format!("trace instance {}", self.name), Errno::BADF))
    }

    /// Its name among the instances.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says which clock stamps the records; `mono` is CLOCK_MONOTONIC in nanoseconds. What was recorded is lost.
    pub fn set_clock(&self, clock: &str) -> Result<()> {
        write(self.root()?, "trace_clock", clock)
    }

    /// Gives a CPU a buffer of this size.
    pub fn set_buffer_kib(&self, cpu: u32, kib: u32) -> Result<()> {
        write(self.root()?, &format!("per_cpu/cpu{cpu}/buffer_size_kb"), &kib.to_string())
    }

    /// Records on these CPUs only.
    pub fn set_cpus(&self, cpus: &[u32]) -> Result<()> {
        write(self.root()?, "tracing_cpumask", &mask(cpus))
    }

    /// Has the event `name`, written `group/event`, recorded.
    pub fn enable(&self, name: &str) -> Result<()> {
        write(self.root()?, &format!("events/{name}/enable"), "1")
    }

    /// Has only those records of an event kept of which this holds, in the kernel's language of filters; `comm == "x"` is of threads with that name.
    pub fn filter(&self, name: &str, filter: &str) -> Result<()> {
        write(self.root()?, &format!("events/{name}/filter"), filter)
    }

    /// Begins to record.
    pub fn start(&self) -> Result<()> {
        write(self.root()?, "tracing_on", "1")
    }

    /// Records nothing more. What was recorded can be read.
    pub fn stop(&self) -> Result<()> {
        write(self.root()?, "tracing_on", "0")
    }

    /// Records of `cpu` so far that found no place, because an interrupt was nested too deeply. Those that newer ones have overwritten are told
    /// by the pages.
    pub fn dropped(&self, cpu: u32) -> Result<u64> {
        Ok(dropped_in(&read(self.root()?, &format!("per_cpu/cpu{cpu}/stats"))?))
    }

    /// The form of a page of the buffer, in the kernel's text form.
    pub fn page_format(&self) -> Result<String> {
        read(self.root()?, "events/header_page")
    }

    /// Takes what `cpu` has recorded out of its buffer: its pages in order, in the kernel's binary form. After [`Instance::stop`].
    pub fn take_pages(&self, cpu: u32) -> Result<Vec<Vec<u8>>> {
        let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let on = || format!("tracefs file {path}");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(self.root()?, path.as_str(), flags, Mode::empty()).context("open", on)?;
        let mut pages = Vec::new();
        let mut page = vec![0; rustix::param::page_size()];
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut page)) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(pages),
                Ok(length) => pages.push(page[..length].to_vec()),
                Err(error) => return Err(Error::new("read", on(), error)),
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.in_use = None;
        self.directory = None;
        // Another process may be looking into it for a moment.
        for _ in 0..100 {
            match unlinkat(&self.instances, &self.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
        if let Some(guard) = self.guard.take() {
            guard.leave();
        }
    }
}

fn folder(tracefs: &Tracefs) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(tracefs.directory(), "instances", flags, Mode::empty())
        .context("open", || "the folder of trace instances")
}

/// The names of all instances, of whoever made them.
pub(super) fn names(tracefs: &Tracefs) -> Result<Vec<String>> {
    names_in(&folder(tracefs)?)
}

fn names_in(instances: &OwnedFd) -> Result<Vec<String>> {
    let on = || "the folder of trace instances";
    let mut names = Vec::new();
    for entry in Dir::read_from(instances).context("read", on)? {
        let entry = entry.context("read", on)?;
        let name = entry.file_name().to_str().ok().filter(|name| !name.starts_with('.'));
        names.extend(name.map(str::to_owned));
    }
    Ok(names)
}

fn is_stale(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
    pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// CPUs as the kernel writes a mask: words of 32 bits in hexadecimal, the highest first, separated by commas.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let word =
        |index| cpus.iter().filter(|cpu| **cpu / 32 == index).fold(0_u32, |word, cpu| word | 1 << (cpu % 32));
    (0..words).rev().map(|index| format!("{:08x}", word(index))).collect::<Vec<_>>().join(",")
}

fn dropped_in(stats: &str) -> u64 {
    let dropped = |line: &str| line.strip_prefix("dropped events: ")?.trim().parse().ok();
    stats.lines().find_map(dropped).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;

    fn tracefs() -> Option<Tracefs> {
        Tracefs::open().inspect_err(|error| skipped(Cause::Kernel("tracefs"), error)).ok()
    }

    fn exists(tracefs: &Tracefs, name: &str) -> bool {
        tracefs.instances().unwrap().iter().any(|of| of == name)
    }

    #[test]
    fn cpus_are_a_mask_of_words() {
        for (cpus, text) in [
            (&[0, 1][..], "00000003"),
            (&[33, 0], "00000002,00000001"),
            (&[64], "00000001,00000000,00000000"),
        ] {
            assert_eq!(mask(cpus), text);
        }
    }

    #[test]
    fn dropped_records_are_read_from_the_statistics_of_a_buffer() {
        let stats = "entries: 7\noverrun: 12\ncommit overrun: 1\ndropped events: 5\nread events: 2\n";
        assert_eq!((dropped_in(stats), dropped_in("")), (5, 0));
    }

    #[test]
    fn only_names_of_processes_that_are_gone_are_stale() {
        for (name, stale) in [
            (format!("{PREFIX}{}-0", std::process::id()), false),
            ("somebody".into(), false),
            (format!("{PREFIX}x-0"), false),
            (format!("{PREFIX}{}-0", i32::MAX), true),
        ] {
            assert_eq!(is_stale(&name), stale, "{name}");
        }
    }

    #[test]
    fn an_instance_is_there_until_it_is_dropped_and_one_of_a_killed_process_until_the_next_start() {
        let Some(tracefs) = tracefs() else { return };
        let stale = format!("{PREFIX}{}-0", i32::MAX);
        mkdirat(tracefs.directory(), format!("instances/{stale}"), Mode::RWXU).unwrap();
        let instance = tracefs.instance().unwrap();
        let name = instance.name().to_owned();
        assert!(!exists(&tracefs, &stale) && exists(&tracefs, &name));
        assert_eq!(instance.enable("sched/no_such_event").unwrap_err().raw_os_error(), Some(libc::ENOENT));
        drop(instance);
        assert!(!exists(&tracefs, &name));
    }
}
