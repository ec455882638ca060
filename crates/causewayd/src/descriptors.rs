//! Descriptors of others, which are closed somewhere else.
//!
//! A client decides what is behind a descriptor that it sends: closing a TCP socket that lingers, or a file of a file system in
//! user space, waits for somebody. So no thread that serves the bus closes one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use std::sync::atomic::{AtomicUsize, Ordering};

/// Most threads that close: as many closings may hang at once before others wait for them.
const MOST_CLOSERS: usize = 16;
/// A closer needs no stack to speak of.
const STACK_BYTES: usize = 64 << 10;

/// Descriptors that came from a client. Dropped, they are closed by another thread.
#[derive(Debug, Default)]
pub struct Descriptors(Vec<OwnedFd>);

impl Descriptors {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, to be sent.
    #[must_use]
    pub fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd).collect()
    }

    /// Copies of all of them.
    ///
    /// # Errors
    /// This process has no descriptors left.
    pub fn copies(&self) -> std::io::Result<Vec<OwnedFd>> {
        self.0.iter().map(OwnedFd::try_clone).collect()
    }

    /// Takes more.
    pub fn extend(&mut self, more: impl IntoIterator<Item = OwnedFd>) {
        self.0.extend(more);
    }

    /// Takes the first `count` out, of which there must be as many.
    #[must_use]
    pub fn take_first(&mut self, count: usize) -> Descriptors {
        Descriptors(self.0.drain(..count).collect())
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            Closer::get().close(std::mem::take(&mut self.0));
        }
    }
}

struct Closer {
    sender: Sender<Vec<OwnedFd>>,
    receiver: Arc<Mutex<Receiver<Vec<OwnedFd>>>>,
    /// Batches that no thread has taken yet or has not finished.
    open: Arc<AtomicUsize>,
    threads: AtomicUsize,
}

impl Closer {
    fn get() -> &'static Closer {
        static CLOSER: OnceLock<Closer> = OnceLock::new();
        CLOSER.get_or_init(|| {
            let (sender, receiver) = channel();
            let receiver = Arc::new(Mutex::new(receiver));
            Closer { sender, receiver, open: Arc::default(), threads: AtomicUsize::new(0) }
        })
    }

    /// Hands descriptors to a thread. Where none can be started they are closed here: better late than never.
    fn close(&self, descriptors: Vec<OwnedFd>) {
        // Relaxed throughout: the numbers decide how many threads there are, and nothing else.
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        let threads = self.threads.load(Ordering::Relaxed);
        if threads < open.min(MOST_CLOSERS) {
            let (receiver, open) = (Arc::clone(&self.receiver), Arc::clone(&self.open));
            let closer = thread::Builder::new().name("closer".into()).stack_size(STACK_BYTES);
            let started =
                causeway_os::process::without_signals(|| closer.spawn(move || work(&receiver, &open)));
            if started.is_ok() {
                self.threads.fetch_add(1, Ordering::Relaxed);
            } else if threads == 0 {
                self.open.fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
        // The receiver lives as long as the program.
        let _ = self.sender.send(descriptors);
    }
}

fn work(receiver: &Mutex<Receiver<Vec<OwnedFd>>>, open: &AtomicUsize) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(descriptors) = next else { return };
        drop(descriptors);
        open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn dropped_descriptors_are_closed() {
        for _ in 0..100 {
            let (mut read, write) = std::io::pipe().unwrap();
            let mut descriptors = Descriptors::default();
            descriptors.extend([write.into()]);
            let first = descriptors.take_first(1);
            assert!(descriptors.is_empty() && first.len() == 1);
            drop(first);
            // The end of the pipe comes when its other end is closed, and not before.
            assert_eq!(read.read(&mut [0]).unwrap(), 0);
        }
    }
}
