//! System calls of the roles of a run, counted by a tracer for each peer.
//!
//! The run is one of its own: its times are those of the tracer and are dropped. Counted is what a role calls between the first and the
//! last time that it reads its counters in the timed part: `getrusage`, and the clock of its CPU time, which the harness alone
//! calls. These are not among what is counted, so the harness itself comes out as none.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use causeway_os::process::Tracer;
use syscalls::Sysno;
use weighbridge_record as record;

use crate::contract::Prepared;
use crate::peer::RoleReport;
use crate::shared::{Shared, Step};

/// Calls by number.
pub type Calls = BTreeMap<u64, u64>;

/// A tracer at work: a thread, as the kernel binds a tracer to one.
pub(crate) struct Watch {
    role: usize,
    thread: JoinHandle<io::Result<Calls>>,
}

impl Watch {
    /// Traces the process `pid`, which plays `role`, from now on.
    pub(crate) fn begin(pid: u32, role: usize, shared: &Arc<Shared>) -> io::Result<Watch> {
        let (sender, seized) = mpsc::channel();
        let shared = Arc::clone(shared);
        let thread = thread::spawn(move || {
            let mut counting = Counting::default();
            // The coordinator waits for what is sent.
            let tracer = match Tracer::seize(pid) {
                Ok(tracer) => tracer,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return Ok(counting.counted);
                }
            };
            let _ = sender.send(Ok(()));
            tracer.run(|number, argument| {
                counting.note(number, argument, || shared.step(role) == Step::Batches);
            })?;
            Ok(counting.counted)
        });
        seized.recv().map_err(|_| io::Error::other("the tracer has ended"))??;
        Ok(Watch { role, thread })
    }

    /// Waits until the process has ended: what it has called, with its role.
    pub(crate) fn end(self) -> io::Result<(usize, Calls)> {
        let calls = self.thread.join().map_err(|_| io::Error::other("the tracer panicked"))??;
        Ok((self.role, calls))
    }
}

#[derive(Debug, Default)]
struct Counting {
    has_begun: bool,
    /// Since counting began.
    so_far: Calls,
    /// Up to the last reading of the counters.
    counted: Calls,
}

impl Counting {
    fn note(&mut self, number: u64, argument: u64, is_timed: impl Fn() -> bool) {
        const CPU_TIMES: [u64; 2] =
            [libc::CLOCK_THREAD_CPUTIME_ID as u64, libc::CLOCK_PROCESS_CPUTIME_ID as u64];
        if number == libc::SYS_clock_gettime as u64 && CPU_TIMES.contains(&argument) {
            return;
        }
        if number != libc::SYS_getrusage as u64 {
            *self.so_far.entry(number).or_default() += 1;
        } else if is_timed() {
            if !self.has_begun {
                self.has_begun = true;
                self.so_far.clear();
            }
            self.counted.clone_from(&self.so_far);
        }
    }
}

/// Calls per operation, of each role and of all, from what was counted of each role (by its index).
pub(crate) fn per_op(
    case: &Prepared,
    reports: &[RoleReport],
    calls: &BTreeMap<usize, Calls>,
) -> record::SystemCalls {
    let names = case.role_names();
    let all_ops: u64 = reports.iter().map(|report| report.counted.ops).sum();
    let of_role = |report: &RoleReport| -> (f64, record::RoleCalls) {
        let ops = report.counted.ops.max(1) as f64;
        let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
        for (number, count) in calls.get(&report.role).into_iter().flatten() {
            *by_name.entry(name(*number)).or_default() += *count as f64 / ops;
        }
        // Where each role has operations of its own, the sum is over all that was done.
        let share = if case.pattern.is_symmetric { ops / all_ops.max(1) as f64 } else { 1.0 };
        let all = by_name.values().fold(0.0, |sum, calls| sum + calls) * share;
        (all, record::RoleCalls { role: names[report.role].into(), ops: report.counted.ops, calls: by_name })
    };
    let (all, roles): (Vec<f64>, Vec<record::RoleCalls>) = reports.iter().map(of_role).unzip();
    record::SystemCalls { per_op: all.iter().fold(0.0, |sum, calls| sum + calls), roles }
}

fn name(number: u64) -> String {
    Sysno::new(number as usize).map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}
