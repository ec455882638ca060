//! The short-lived process in which the coordinator has a shared object looked at and its `create` called.
//!
//! The coordinator itself runs no code of it. It starts this program once more, tells it what to do, and waits for the answer, the end of
//! the process or the end of its patience, whichever comes first. Descriptors come back with the answer.

use std::fs;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use causeway_os::process::{self, Child, Exit, Spawn};
use causeway_os::socket;
use serde::{Deserialize, Serialize};
use weighbridge_harness::{control, digest};

use super::abi::{self, BYTES_MAX, Case, FDS_MAX, Loaded, Resources};
use super::described::Description;
use super::leftover;
use crate::prelude::*;

/// The first argument that makes this program such a process.
pub const ARGUMENT: &str = "__target";

/// What has not answered by then does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon a signal that is held back is seen meanwhile.
const LOOK_FOR_INTERRUPT: Duration = Duration::from_millis(100);

/// A file as it was when it was first looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Object {
    pub(super) path: PathBuf,
    pub(super) digest: String,
}

impl Object {
    /// The file that is there now.
    pub(super) fn of(path: &Path) -> io::Result<Object> {
        let path = fs::canonicalize(path)?;
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(Object { digest: digest::of_file(&path)?, path })
    }

    /// Loads it into this process, unless it has changed.
    pub(super) fn load(&self) -> io::Result<Loaded> {
        if digest::of_file(&self.path)? != self.digest {
            return Err(io::Error::other("it has changed since this program began; start again"));
        }
        Loaded::open(&self.path)
    }
}

/// What to call `create` and `attach` with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Of {
    pub(super) name: String,
    pub(super) end_count: u32,
    pub(super) payload_bytes: usize,
    pub(super) wait: String,
    pub(super) pattern: String,
    pub(super) folder: String,
    pub(super) prefix: String,
}

impl Of {
    pub(super) fn case(&self) -> io::Result<&'static Case> {
        let strings = [&self.name[..], &self.wait, &self.pattern, &self.folder, &self.prefix];
        Case::new(self.end_count, self.payload_bytes, strings)
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Describe(Object),
    Create(Object, Of),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Described(Vec<Description>),
    /// Of each end the number of descriptors, which follow, and bytes.
    Created(Vec<(usize, Vec<u8>)>),
    Failed(String),
}

/// What the mechanisms of a shared object say of themselves.
pub(super) fn describe(object: &Object) -> io::Result<Vec<Description>> {
    match ask(&Order::Describe(object.clone()), "looking at its table", None)? {
        (Answer::Described(found), _) => Ok(found),
        (answer, _) => Err(unexpected(&answer)),
    }
}

/// Descriptors and bytes for each end, in the order of their numbers.
pub(super) fn create(object: &Object, of: Of) -> io::Result<Vec<(Vec<OwnedFd>, Vec<u8>)>> {
    let place = of.prefix.clone();
    match ask(&Order::Create(object.clone(), of), "its function `create`", Some(&place))? {
        (Answer::Created(ends), fds) => {
            let mut fds = fds.into_iter();
            Ok(ends.into_iter().map(|(count, bytes)| (fds.by_ref().take(count).collect(), bytes)).collect())
        }
        (answer, _) => Err(unexpected(&answer)),
    }
}

fn unexpected(answer: &Answer) -> io::Error {
    match answer {
        Answer::Failed(why) => io::Error::other(why.clone()),
        _ => io::Error::other("its process answered something else than was asked"),
    }
}

/// Has a process do it; `what` is what it may die in, `place` the run that it is for.
fn ask(order: &Order, what: &str, place: Option<&str>) -> io::Result<(Answer, Vec<OwnedFd>)> {
    let (here, there) = socket::seqpacket_pair()?;
    let spawn = Spawn::new("/proc/self/exe").arg(ARGUMENT).arg(std::process::id().to_string()).fd(there);
    let mut child =
        Child::spawn(place.into_iter().fold(spawn, |spawn, place| spawn.env(leftover::VARIABLE, place)))?;
    let until = Instant::now() + PATIENCE;
    // A child that is gone already is one that ends without an answer.
    let _ = control::send(here.as_fd(), order, &[]);
    // Its end of the socket closes when it ends, and whoever holds it longer is found out by the time.
    while !process::wait_readable(here.as_fd(), Some(until.min(Instant::now() + LOOK_FOR_INTERRUPT)))? {
        if process::is_pending(libc::SIGINT) || process::is_pending(libc::SIGTERM) {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                format!("{what} had not returned when this program was interrupted"),
            ));
        }
        if Instant::now() >= until {
            let seconds = PATIENCE.as_secs();
            return Err(io::Error::other(format!("{what} did not return within {seconds} s")));
        }
    }
    let answer = control::receive(here.as_fd()).unwrap_or(None);
    let Some(answer) = answer else {
        let exit = child.wait(Some(until.saturating_duration_since(Instant::now())))?;
        return Err(io::Error::other(match exit {
            Some(Exit::Signal(signal)) => format!("{what} ended its process: {}", Exit::Signal(signal)),
            Some(exit) => format!("{what} ended its process without an answer: {exit}"),
            None => format!("{what} closed the socket to this program"),
        }));
    };
    let count = match &answer {
        Answer::Created(ends) => ends.iter().map(|(count, _)| (*count).min(FDS_MAX)).sum(),
        _ => 0,
    };
    Ok((answer, control::receive_fds(here.as_fd(), count)?))
}

/// The whole program when it is started so. `parent` is the coordinator's process id, `control` its socket.
pub fn main(parent: u32, control: OwnedFd) -> ExitCode {
    if process::die_with(parent).is_err() {
        return ExitCode::FAILURE;
    }
    let Ok(Some(order)) = control::receive::<Order>(control.as_fd()) else { return ExitCode::FAILURE };
    let (answer, fds) = match obey(order) {
        Ok(done) => done,
        Err(error) => (Answer::Failed(error.to_string()), Vec::new()),
    };
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    match control::send(control.as_fd(), &answer, &borrowed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn obey(order: Order) -> io::Result<(Answer, Vec<OwnedFd>)> {
    match order {
        Order::Describe(object) => {
            let said = object.load()?.describe()?;
            let described = said.into_iter().map(Description::of).collect::<io::Result<_>>()?;
            Ok((Answer::Described(described), Vec::new()))
        }
        Order::Create(object, of) => {
            let ends = object.load()?.create(&of.name, of.case()?)?;
            let mut all = Vec::new();
            let handed_over = ends.iter().map(|end| handed_over(end, &mut all)).collect::<io::Result<_>>()?;
            Ok((Answer::Created(handed_over), all))
        }
    }
}

/// What one end gets, its descriptors added to `all`.
fn handed_over(end: &Resources, all: &mut Vec<OwnedFd>) -> io::Result<(usize, Vec<u8>)> {
    let (fds, bytes) = (end.fd_count as usize, end.byte_count as usize);
    if fds > FDS_MAX || bytes > BYTES_MAX {
        return Err(io::Error::other(format!(
            "its function `create` handed over {fds} descriptors and {bytes} bytes; {FDS_MAX} and {BYTES_MAX} are the most for an end"
        )));
    }
    for fd in &end.fds[..fds] {
        let copy = abi::duplicate(*fd).map_err(|error| {
            io::Error::other(format!("its function `create` handed over the descriptor {fd}: {error}"))
        })?;
        all.push(copy);
    }
    Ok((fds, end.bytes[..bytes].to_vec()))
}

/// The resources of an end as its library sees them. They belong to it from here on.
pub(super) fn resources(fds: Vec<OwnedFd>, bytes: &[u8]) -> Resources {
    let mut resources =
        Resources { fd_count: fds.len() as u32, byte_count: bytes.len() as u32, ..Resources::EMPTY };
    for (place, fd) in resources.fds.iter_mut().zip(fds) {
        *place = fd.into_raw_fd();
    }
    resources.bytes[..bytes.len()].copy_from_slice(bytes);
    resources
}
