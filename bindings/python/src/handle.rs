//! What a Python object holds: one thread at a time uses it, it can be closed, and a forked child cannot use it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{Busy, Closed, Forked};

/// How often this process, or one before it, was forked.
static FORKS: AtomicU32 = AtomicU32::new(0);

pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that made something.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    pub fn this() -> Process {
        Process(FORKS.load(Ordering::Relaxed))
    }

    pub fn is_this(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    pub fn check(self) -> PyResult<()> {
        if self.is_this() {
            return Ok(());
        }
        Err(Forked::new_err(
            "this was made before the process forked, and belongs to the parent; join or open it again here",
        ))
    }
}

/// Does `work`; a panic becomes a `RuntimeError`.
pub fn guarded<R>(work: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(bug(&*panic)))
}

fn bug(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    PyRuntimeError::new_err(format!("a bug in causeway_ipc, please report it: {text}"))
}

#[derive(Debug)]
pub struct Handle<T> {
    held: Mutex<Option<T>>,
    process: Process,
}

impl<T> Handle<T> {
    pub fn new(held: T) -> Handle<T> {
        Handle { held: Mutex::new(Some(held)), process: Process::this() }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        self.process.check()?;
        match self.held.try_lock() {
            Ok(held) => Ok(held),
            Err(TryLockError::WouldBlock) => Err(Busy::new_err(
                "another call of this object is under way; give each thread an object of its own",
            )),
            Err(TryLockError::Poisoned(_)) => {
                Err(PyRuntimeError::new_err("a bug has ended an earlier call of this object; close it"))
            }
        }
    }

    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        guarded(|| match self.lock()?.as_mut() {
            Some(held) => work(held),
            None => Err(Closed::new_err("it was closed")),
        })
    }

    /// What it held, to be dropped; nothing if it was closed before.
    pub fn take(&self) -> PyResult<Option<T>> {
        guarded(|| {
            self.held.clear_poison();
            Ok(self.lock()?.take())
        })
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The child has none of the memory.
            std::mem::forget(self.held.get_mut().map(Option::take));
        }
    }
}
