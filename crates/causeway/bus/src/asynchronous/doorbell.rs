//! The descriptor of a connection, registered with a tokio runtime.
//!
//! # Safety
//! The runtime is given a descriptor that it owns until it is deregistered.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::connection::Connection;
use crate::error::Result;

/// Tells a task that something may have come for a connection.
#[derive(Debug)]
pub(super) struct Doorbell(AsyncFd<OwnedFd>);

impl Doorbell {
    /// Registers the descriptor of a connection with the present runtime.
    pub(super) fn register(connection: &mut Connection) -> Result<Doorbell> {
        let failed = |error| causeway_os::Error::new("register", "the doorbell of a connection", error);
        connection.use_descriptor()?;
        let copy = connection.as_fd().try_clone_to_owned().map_err(failed)?;
        // SAFETY: an `OwnedFd` keeps its number, and is closed with the `AsyncFd` only.
        let registered = unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) };
        Ok(Doorbell(registered.map_err(|error| failed(error.into()))?))
    }

    /// Takes messages, and sleeps when there are none, until `turn` says that this is over. `None`: the runtime shuts down.
    pub(super) fn poll_turns<T>(
        &self,
        cx: &mut Context<'_>,
        mut turn: impl FnMut() -> Turn<T>,
    ) -> Poll<Option<T>> {
        loop {
            match turn() {
                Turn::Over(value) => return Poll::Ready(Some(value)),
                Turn::More => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::Idle(false) => {}
                // The connection drains the descriptor before it announces its sleep: what comes then is a new edge.
                Turn::Idle(true) => match ready!(self.0.poll_read_ready(cx)) {
                    Ok(mut guard) => guard.clear_ready(),
                    Err(_) => return Poll::Ready(None),
                },
            }
        }
    }
}

pub(super) enum Turn<T> {
    Over(T),
    /// There is more to take, after other tasks of the runtime.
    More,
    /// Everything was taken. May the task sleep now, as [`Connection::prepare_to_wait`] says?
    Idle(bool),
}
