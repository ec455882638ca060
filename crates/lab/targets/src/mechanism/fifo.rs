//! Named pipes in a file system that is mounted nowhere, so that no other process can find their names.
//!
//! Both are made in a file system that is mounted nowhere. Where the kernel allows that only to root, they are made in a
//! directory of their own below the temporary one, which is gone again before a peer is started. A program that is killed
//! in between leaves it; the next one takes it away, see [`stale`](super::stale).

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use weighbridge_probe::namespace;

use super::copying::Copying;
use super::fd::{self, ByteStream};
use super::{pipe, stale};
use crate::prelude::*;

pub(super) struct Fifo;

impl Mechanism for Fifo {
    const ID: &'static str = "fifo";
    const ABOUT: &'static str = "mkfifo(3), one for each direction; in the kernel the same as a pipe";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[pipe::PIPE_SIZE];
    const IN_SUITES: InSuites =
        InSuites::AtSmallSizes("it is the same code in the kernel as pipe, which is compared at every size");
    type End = Copying<ByteStream>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::SharedPath)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        pipe::fits_pipe_size(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        pipe::create_two(params, || match namespace::private_tmpfs() {
            Ok(dir) => make_in(dir.as_fd()),
            Err(_) => make_in_temporary_dir(),
        })
    }

    fn attach(_side: Side, resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        pipe::attach(resources, params)
    }
}

const WHAT: &str = "fifo";
const NAME: &str = "fifo";

/// Both ends of a FIFO that has no name any more.
fn make_in(dir: BorrowedFd<'_>) -> io::Result<(OwnedFd, OwnedFd)> {
    namespace::make_fifo(dir, NAME)?;
    let ends = open_both(dir);
    unlinkat(dir, NAME, AtFlags::empty())?;
    ends
}

/// A reader that would wait for a writer that waits for a reader never opens; so this one does not wait, until it reads.
fn open_both(dir: BorrowedFd<'_>) -> io::Result<(OwnedFd, OwnedFd)> {
    let open = |flags| openat(dir, NAME, flags | OFlags::CLOEXEC, Mode::empty());
    let read = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let write = open(OFlags::WRONLY)?;
    rustix::io::ioctl_fionbio(&read, false)?;
    Ok((read, write))
}

fn make_in_temporary_dir() -> io::Result<(OwnedFd, OwnedFd)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let path = std::env::temp_dir().join(stale::name(WHAT, COUNT.fetch_add(1, Ordering::Relaxed)));
    DirBuilder::new().mode(0o700).create(&path)?;
    let ends = File::open(&path).and_then(|dir| make_in(dir.as_fd()));
    fs::remove_dir(&path)?;
    ends
}

/// Takes away the directories of dead programs.
pub(super) fn cleanup() {
    stale::clean_up_dir(&std::env::temp_dir(), WHAT, |path| {
        // Another user's is not ours to remove, and cannot be.
        let _ = fs::remove_file(path.join(NAME));
        let _ = fs::remove_dir(path);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    fn ours() -> Vec<String> {
        let ours = format!("{}{WHAT}-{}-", stale::PREFIX, std::process::id());
        let entries = fs::read_dir(std::env::temp_dir()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default());
        names.filter(|name| name.starts_with(&ours)).collect()
    }

    #[test]
    fn a_fifo_made_without_privilege_works_and_has_left_no_name() {
        let (read, write) = make_in_temporary_dir().unwrap();
        assert_eq!(ours(), [""; 0]);
        File::from(write).write_all(b"through").unwrap();
        let mut got = String::new();
        File::from(read).read_to_string(&mut got).unwrap();
        assert_eq!(got, "through");
    }

    #[test]
    fn what_a_dead_program_left_is_taken_away_and_what_a_living_one_has_is_not() {
        let mut child =
            Command::new("/bin/sh").arg("-c").arg("read x").stdin(Stdio::piped()).spawn().unwrap();
        let path = std::env::temp_dir().join(format!("{}{WHAT}-{}-7", stale::PREFIX, child.id()));
        fs::create_dir(&path).unwrap();
        let dir = File::open(&path).unwrap();
        namespace::make_fifo(dir.as_fd(), NAME).unwrap();
        cleanup();
        assert!(path.exists());
        drop(child.stdin.take());
        child.wait().unwrap();
        cleanup();
        assert!(!path.exists());
    }
}
