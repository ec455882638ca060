//! Threads for what may wait: closing descriptors, reading files, starting programs. A pool has as many as are busy, up
//! to a limit; what comes then waits for its turn. An idle one ends after a while.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use causeway_os::lock::lock;

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// How long a thread waits for more to do.
const IDLE: Duration = Duration::from_secs(1);

/// The threads for one purpose, or of one user.
pub struct Pool {
    name: &'static str,
    most: usize,
    stack_bytes: usize,
    state: Mutex<State>,
    has_more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Pool {
    /// At most so many threads of this name, none yet.
    pub fn new(name: &'static str, most: usize, stack_bytes: usize) -> Pool {
        Pool { name, most, stack_bytes, state: Mutex::default(), has_more: Condvar::new() }
    }

    /// Held for a few instructions, and never while a job is done.
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Hands a job to a thread. Where none can be started it is done here: better late than never.
    pub fn run(self: &Arc<Pool>, job: Job) {
        let mut state = self.lock();
        state.queue.push_back(job);
        if state.queue.len() <= state.idle || state.threads == self.most {
            return self.has_more.notify_one();
        }
        state.threads += 1;
        drop(state);
        let pool = Arc::clone(self);
        let thread = thread::Builder::new().name(self.name.into()).stack_size(self.stack_bytes);
        let started = causeway_os::process::without_signals(|| thread.spawn(move || pool.work()));
        if started.is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // The threads that there are take it, if there are any.
            if state.threads == 0 {
                let left = std::mem::take(&mut state.queue);
                drop(state);
                left.into_iter().for_each(|job| job());
            }
        }
    }

    /// Those that there are, idle ones included.
    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.lock().threads
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.has_more.wait_timeout(state, IDLE);
            let outcome;
            (state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            if outcome.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn as_many_jobs_hang_at_once_as_there_are_threads_and_the_next_ones_wait_for_their_turn() {
        let pool = Arc::new(Pool::new("test", 2, 64 << 10));
        let (done, is_done) = mpsc::channel();
        let (hanging, held): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
        for held in held {
            pool.run(Box::new(move || {
                let _ = held.recv();
            }));
        }
        for number in 0..3 {
            let done = done.clone();
            pool.run(Box::new(move || done.send(number).unwrap()));
        }
        assert_eq!(pool.threads(), 2);
        assert!(is_done.try_recv().is_err());
        // One of the two goes on.
        drop(hanging);
        assert_eq!((0..3).map(|_| is_done.recv().unwrap()).collect::<Vec<_>>().len(), 3);
    }
}
