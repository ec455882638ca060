//! Threads for what may wait: closing descriptors, reading files, starting programs. A pool has as many as are busy, up
//! to a limit; what comes then waits for its turn. An idle one ends after a while.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread with this name for this work.
pub type Start = fn(&'static str, Job) -> io::Result<()>;

/// How long a thread waits for more to do.
const IDLE: Duration = Duration::from_secs(1);

/// The threads for one purpose, or of one user.
pub struct Pool {
    name: &'static str,
    most: usize,
    start: Start,
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
    pub fn new(name: &'static str, most: usize, start: Start) -> Arc<Pool> {
        Arc::new(Pool { name, most, start, state: Mutex::default(), has_more: Condvar::new() })
    }

    /// Held for a few instructions, and never while a job is done or a thread starts.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job to a thread; false if there is none, and none can be started. Then it waits for the thread of a later
    /// one, or for [`Pool::take`].
    pub fn run(self: &Arc<Pool>, job: Job) -> bool {
        let mut state = self.lock();
        state.queue.push_back(job);
        if state.queue.len() <= state.idle || state.threads == self.most {
            self.has_more.notify_one();
            return true;
        }
        state.threads += 1;
        drop(state);
        let pool = Arc::clone(self);
        if (self.start)(self.name, Box::new(move || pool.work())).is_ok() {
            return true;
        }
        let mut state = self.lock();
        state.threads -= 1;
        // The threads that there are take it, if there are any.
        state.threads > 0
    }

    /// Takes the jobs that no thread has begun.
    pub fn take(&self) -> impl Iterator<Item = Job> + use<> {
        std::mem::take(&mut self.lock().queue).into_iter()
    }

    /// How many threads there are, idle ones included.
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
    use std::thread;

    use super::*;

    #[test]
    fn as_many_jobs_hang_at_once_as_there_are_threads_and_the_next_ones_wait_for_their_turn() {
        let pool = Pool::new("test", 2, |_, work| {
            thread::spawn(work);
            Ok(())
        });
        let (done, is_done) = mpsc::channel();
        let (hanging, held): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
        for held in held {
            assert!(pool.run(Box::new(move || _ = held.recv())));
        }
        for number in 0..3 {
            let done = done.clone();
            assert!(pool.run(Box::new(move || done.send(number).unwrap())));
        }
        assert_eq!(pool.threads(), 2);
        assert!(is_done.try_recv().is_err());
        // One of the two goes on.
        drop(hanging);
        assert_eq!((0..3).map(|_| is_done.recv().unwrap()).collect::<Vec<_>>().len(), 3);
    }

    #[test]
    fn a_job_for_which_there_is_no_thread_is_told_and_stays() {
        let pool = Pool::new("test", 2, |_, _| Err(io::ErrorKind::WouldBlock.into()));
        let (done, is_done) = mpsc::channel();
        assert!(!pool.run(Box::new(move || done.send(()).unwrap())));
        assert_eq!(pool.threads(), 0);
        assert!(is_done.try_recv().is_err());
        pool.take().for_each(|job| job());
        is_done.try_recv().expect("the job was lost");
    }
}
