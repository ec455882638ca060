//! `idle=busy`: a process on each measured CPU that runs only when nothing else wants to, so that the CPU never halts.
//!
//! On a virtual machine a CPU that halts costs an exit to the hypervisor, and waking it another one and an interrupt; on a real one
//! it costs the way out of a sleep state. What a case costs without either is what its own work costs. The spinner has the policy
//! `SCHED_IDLE`: whatever wakes up takes the CPU from it at once. It runs until the run is over and dies with the coordinator,
//! however that ends.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::hint;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use causeway_os::process::{self, Child, Spawn};
use causeway_os::sched::{self, Policy};
use causeway_os::socket;
use serde::{Deserialize, Serialize};

use crate::control;
use crate::peer::{self, Order};

#[derive(Debug, Serialize, Deserialize)]
struct Spinning {
    policy: String,
    allowed: Vec<u32>,
}

/// The name of a spinner in lists of processes; the kernel keeps 15 bytes.
const NAME: &std::ffi::CStr = c"idle-spinner";

/// In a process of its own: spins on a CPU until it is killed.
pub(crate) fn spin(cpu: u32, control: BorrowedFd<'_>) -> io::Result<Infallible> {
    let begin = || -> io::Result<Spinning> {
        rustix::thread::set_name(NAME)?;
        sched::pin(&[cpu])?;
        sched::set_policy(Policy::Idle)?;
        Ok(Spinning { policy: sched::policy()?.to_string(), allowed: sched::allowed_cpus()? })
    };
    control::send(control, &begin().map_err(|error| error.to_string()), &[])?;
    // Without the instruction that tells the processor of a wait: a hypervisor may take a CPU away that executes many of them.
    loop {
        hint::black_box(());
    }
}

/// Spinners that were killed and may still have to end. Beside other work that takes one of this policy half a second and more, as it needs the
/// CPU for it, and a run that waited would wait longer than it measures. What is killed does nothing else when it gets the CPU.
static ENDING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// More are not left to end by themselves.
const MOST_ENDING: usize = 64;

/// Kept by who starts spinners: waits, when dropped, until all that were killed have ended.
#[derive(Debug, Default)]
pub(crate) struct AllEnded;

impl Drop for AllEnded {
    fn drop(&mut self) {
        drop(std::mem::take(&mut *ENDING.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Spinners(Vec<(u32, Child)>);

impl Drop for Spinners {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|child| !child.has_exited().unwrap_or(true));
        for (_, child) in self.0.drain(..) {
            // It cannot fail for a child that nobody has waited for.
            let _ = child.kill(libc::SIGKILL);
            ending.push(child);
        }
        let too_many = ending.len().saturating_sub(MOST_ENDING);
        drop(ending.drain(..too_many));
    }
}

impl Spinners {
    /// Starts one on each of these CPUs, and returns when all of them spin. `program` hands over to [`peer::main`].
    pub(crate) fn start(program: &Path, cpus: &BTreeSet<u32>) -> io::Result<Spinners> {
        let mut spinners = Spinners::default();
        for cpu in cpus {
            let (control, theirs) = socket::seqpacket_pair()?;
            let parent = std::process::id().to_string();
            let child = Child::spawn(Spawn::new(program).arg(peer::ARGUMENT).arg(parent).fd(theirs))?;
            control::send(control.as_fd(), &Order::Spin { cpu: *cpu }, &[])?;
            await_spinning(*cpu, &control)?;
            spinners.0.push((*cpu, child));
        }
        Ok(spinners)
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        for (cpu, child) in &self.0 {
            if child.has_exited()? {
                let why = format!("the spinner on CPU {cpu} has ended; the case says idle=busy");
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }
}

fn await_spinning(cpu: u32, control: &OwnedFd) -> io::Result<()> {
    const DEADLINE: Duration = Duration::from_secs(30);
    let failed = |why: &str| io::Error::other(format!("the spinner on CPU {cpu} for idle=busy: {why}"));
    if !process::poll(&[control.as_fd()], Some(DEADLINE))?[0] {
        return Err(failed("it did not begin in time"));
    }
    let said: Option<Result<Spinning, String>> = control::receive(control.as_fd())?;
    match said.ok_or_else(|| failed("it ended before it began"))? {
        Err(why) => Err(failed(&why)),
        Ok(Spinning { policy, allowed }) if policy == Policy::Idle.to_string() && allowed == [cpu] => Ok(()),
        Ok(other) => Err(failed(&format!("it runs as {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_does_not_wait_for_a_spinner_and_the_end_of_all_runs_does() {
        let child = Child::spawn(Spawn::new("/bin/sleep").arg("1000")).unwrap();
        let pid = child.pid();
        drop(Spinners(vec![(0, child)]));
        let is_noted = || ENDING.lock().unwrap().iter().any(|child| child.pid() == pid);
        assert!(is_noted(), "it is not waited for");
        drop(AllEnded);
        assert!(!is_noted() && !Path::new(&format!("/proc/{pid}")).exists(), "{pid} is still there");
    }
}
