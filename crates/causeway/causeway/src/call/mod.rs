//! Calls: a request to a process, and its reply, over a pair of logs.
//!
//! A server serves at the path of a socket with [`serve`]; clients connect with [`Client::connect`]. Each client has a log of its
//! own for requests, which no other process can write, and one for replies, which only the server can write. So no client can read,
//! delay or forge the calls of another. `docs/decisions/calls.md` says why.
//!
//! | what happens | the client | the server |
//! |---|---|---|
//! | no reply comes | [`CallError::Deadline`] at its deadline | [`Responder::is_cancelled`] |
//! | the client cancels ([`Client::cancel`]) | [`CallError::Cancelled`] | [`Responder::is_cancelled`] |
//! | the handler ends without a reply | [`CallError::NoReply`] | |
//! | the reply is too long | [`CallError::ReplyTooLong`] | [`ReplyError::TooLong`] |
//! | the client does not read its replies | [`CallError::RepliesNotRead`] | [`ReplyError::ClientNotReading`], after [`ServeOptions::patience`] |
//! | the server ends or is killed | [`CallError::ServerGone`], at once, after the replies that it sent | |
//! | the client ends or is killed | | [`ReplyError::ClientGone`]; its thread ends |
//!
//! A call is begun once and has one outcome. After [`CallError::Deadline`] and [`CallError::ServerGone`] it is unknown whether the
//! server did what it was asked.
//!
//! Each client costs the server a thread, four descriptors, two pages and two logs
//! ([`ServeOptions::capacity_bytes`], 256 KiB each by default). The handler runs in the thread of its client: calls of one client
//! begin in order, one after the other, and those of different clients at once. A handler that takes long hands the
//! [`Responder`] to another thread; then replies may come in any order.
//!
//! In a tokio program (feature `tokio`): `AsyncClient`, `ServeOptions::serve_async` and `Responder::reply_async`.
//!
//! A process that forks keeps its clients and servers; the child has none of their memory and must not use them.

#[cfg(feature = "tokio")]
mod asynchronous;
mod client;
mod connection;
mod error;
mod incoming;
mod outgoing;
mod responder;
mod server;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncClient, OwnedReply, OwnedRequest};
pub use client::{CallId, Client, Reply, RequestLoan};
pub use error::{CallError, ReplyError};
pub use responder::{ReplyLoan, Responder};
pub use server::{Connection, Request, ServeOptions, Server};

use std::path::Path;

/// Serves calls of processes of the same user at the path of a Unix socket, until the result is dropped. The handler runs in a
/// thread for each client. A handler that panics ends the connection of its client.
///
/// A socket that a dead server left is replaced; no other file is. For other options see [`ServeOptions`].
///
/// # Errors
/// [`Error::Os`](crate::Error::Os) for a path that is too long, in use or not writable, or without threads or descriptors;
/// [`Error::Invalid`](crate::Error::Invalid) for a file that is not a socket; [`Error::Kernel`](crate::Error::Kernel) on a kernel
/// that lacks a required feature.
pub fn serve(
    path: impl AsRef<Path>,
    handler: impl Fn(Request<'_>) + Send + Sync + 'static,
) -> crate::Result<Server> {
    ServeOptions::new().serve(path, handler)
}
