//! Signals and calls as streams.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::AsyncConnection;
use crate::connection::{Call, Message};
use crate::error::Result;

/// The signals that one match rule wants, in the order of the bus. See [`AsyncConnection::add_match`].
///
/// When the process that serves the bus has ended the stream says [`AuthorityGone`](crate::Error::AuthorityGone) once and goes on:
/// members that know each other still exchange signals. When the connection has ended it says why, and ends.
#[derive(Debug)]
#[must_use = "the rule ends with the stream"]
pub struct Signals {
    connection: AsyncConnection,
    rule: String,
    key: u64,
    is_registered: bool,
}

impl Signals {
    pub(super) fn new(connection: AsyncConnection, rule: &str) -> Result<Signals> {
        let key = {
            let mut state = connection.0.driven.state();
            let key = state.open()?.insert_rule(rule)?;
            state.waiting.signals.insert(key, Default::default());
            key
        };
        Ok(Signals { connection, rule: rule.to_owned(), key, is_registered: false })
    }

    /// Does the authority know the rule?
    pub(super) fn set_registered(&mut self, is_registered: bool) {
        self.is_registered = is_registered;
    }

    /// The next signal; waits for it. Cancel-safe: a future that is dropped before it is ready has taken nothing.
    pub async fn next(&mut self) -> Option<Result<Message>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Signals {
    type Item = Result<Message>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connection.0.driven.state().poll_queue(|waiters| waiters.signals.get_mut(&self.key), cx)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let registered = Some(&*self.rule).filter(|_| self.is_registered);
        self.connection.0.driven.state().drop_signals(self.key, registered);
    }
}

/// The calls of others, in the order of the bus. See [`AsyncConnection::calls`]; it ends as [`Signals`] does.
#[derive(Debug)]
#[must_use = "calls are refused when no stream takes them"]
pub struct Calls {
    connection: AsyncConnection,
}

impl Calls {
    pub(super) fn new(connection: AsyncConnection) -> Calls {
        connection.0.driven.state().waiting.servers += 1;
        Calls { connection }
    }

    /// The next call; waits for it. Cancel-safe: a future that is dropped before it is ready has taken nothing.
    pub async fn next(&mut self) -> Option<Result<Call>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Calls {
    type Item = Result<Call>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connection.0.driven.state().poll_queue(|waiters| Some(&mut waiters.incoming), cx)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.connection.0.driven.state().drop_server();
    }
}
