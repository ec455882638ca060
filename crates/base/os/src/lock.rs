//! Locks whose data stays valid whatever panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic in another thread that held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
