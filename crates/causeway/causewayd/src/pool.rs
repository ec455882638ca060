//! How the bus starts threads for what may wait, and what it does without any.

use std::sync::Arc;
use std::{io, thread};

use causeway_os::process::without_signals;
use causeway_waiting::pool::{Job, Pool};

/// Starts a thread that takes no signals.
pub fn start<const STACK_BYTES: usize>(name: &'static str, work: Job) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
    without_signals(|| thread.spawn(work)).map(drop)
}

/// Hands a job to a thread. Where none can be started it is done here: better late than never.
pub fn run(pool: &Arc<Pool>, job: Job) {
    if !pool.run(job) {
        pool.take().for_each(|job| job());
    }
}
