//! Signals and calls as streams.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::AsyncConnection;
use super::state::{DeferredSend, State};
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
            let mut state = connection.0.shared.open()?;
            let key = state.connection.insert_rule(rule)?;
            state.signals.insert(key, Default::default());
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
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message>>> {
        let key = self.key;
        self.connection.0.shared.state().poll_queue(|state: &mut State| state.signals.get_mut(&key), cx)
    }
}

impl Stream for Signals {
    type Item = Result<Message>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut state = self.connection.0.shared.state();
        state.drop_signals(self.key);
        if self.is_registered {
            state.defer(DeferredSend::RemoveMatch(std::mem::take(&mut self.rule)));
        }
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
        connection.0.shared.state().servers += 1;
        Calls { connection }
    }

    /// The next call; waits for it. Cancel-safe: a future that is dropped before it is ready has taken nothing.
    pub async fn next(&mut self) -> Option<Result<Call>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Call>>> {
        self.connection.0.shared.state().poll_queue(|state: &mut State| Some(&mut state.incoming), cx)
    }
}

impl Stream for Calls {
    type Item = Result<Call>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.connection.0.shared.state().drop_server();
    }
}
