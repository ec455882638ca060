//! The descriptor of a connection, registered with a tokio runtime.
//!
//! # Safety
//! The runtime is given a descriptor that it owns until it is deregistered.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::connection::Connection;
use crate::error::Result;

/// Tells a task that something may have come for a connection.
#[derive(Debug)]
pub(crate) struct Doorbell(AsyncFd<OwnedFd>);

impl Doorbell {
    /// Registers the descriptor of a connection with the present runtime.
    ///
    /// # Errors
    /// The kernel lacks descriptors, or the authority is gone.
    ///
    /// # Panics
    /// Outside a tokio runtime, and in one without I/O.
    pub(crate) fn register(connection: &mut Connection) -> Result<Doorbell> {
        let failed = |error| causeway_os::Error::new("register", "the doorbell of a connection", error);
        connection.use_descriptor()?;
        let copy = connection.as_fd().try_clone_to_owned().map_err(failed)?;
        // SAFETY: an `OwnedFd` keeps its number, and is closed with the `AsyncFd` only.
        let registered = unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) };
        Ok(Doorbell(registered.map_err(|error| failed(error.into()))?))
    }

    /// Was it rung since the last look? If not, the task is woken when it is. An error: the runtime shuts down.
    pub(crate) fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        // The connection drains the descriptor before it announces its next sleep, so that there is a new edge.
        self.0.poll_read_ready(cx).map_ok(|mut guard| guard.clear_ready())
    }
}
