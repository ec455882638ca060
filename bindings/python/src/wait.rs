//! Waiting: without the interpreter, in slices between which signals are looked at.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The longest time without a look at signals.
const SLICE: Duration = Duration::from_millis(100);

/// Seconds, as Python has them; `None` for no limit.
pub fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(Some(duration)),
        // Longer than anybody waits.
        Err(_) if seconds > 0.0 => Ok(None),
        Err(_) => Err(PyValueError::new_err(format!(
            "a timeout of {seconds} s; use a number of seconds from 0 on, or None for no limit"
        ))),
    }
}

/// Repeats `step`, which waits for the time that it is given, until it returns something; `None` when `timeout` has passed.
pub fn sliced<R: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> PyResult<Option<R>> + Send,
) -> PyResult<Option<R>> {
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
        let slice = left.min(SLICE);
        if let Some(done) = py.detach(|| step(slice))? {
            return Ok(Some(done));
        }
        py.check_signals()?;
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(None);
        }
    }
}

/// Does `work`, which may wait for another process, in a thread. After a signal handler has raised, nobody waits for it any more.
pub fn in_thread<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<R> + Send + 'static,
) -> PyResult<R> {
    let (send, receive) = sync_channel(1);
    let thread = std::thread::Builder::new().name("causeway-python".into());
    thread.spawn(move || send.send(work()))?;
    // What is taken along without the interpreter must be shareable.
    let receive = Mutex::new(receive);
    loop {
        match py.detach(|| receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SLICE)) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "a bug in causeway_ipc, please report it: a thread has ended",
                ));
            }
        }
    }
}
