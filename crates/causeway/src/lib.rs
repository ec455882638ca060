//! A message bus in shared memory: one copy, one order, nothing in between.
//!
//! Processes of one machine write messages into a log in shared memory, and every receiver of the group reads the same
//! bytes there, in the same order. No process sits between them. System calls happen only when somebody sleeps.
//!
//! ```
//! use causeway::{Group, GroupOptions, Policy, Published, Received};
//!
//! let group = Group::create("prices", GroupOptions::new())?;
//! let mut publisher = group.publisher()?;
//! let mut subscriber = group.subscribe(Policy::Reliable)?;
//!
//! let Published::At(_) = publisher.publish(b"42.17")? else { panic!("an empty log has room") };
//!
//! let mut loan = publisher.loan(5)?.expect("an empty log has room");
//! loan.copy_from_slice(b"42.18");
//! loan.commit()?;
//!
//! for price in [b"42.17", b"42.18"] {
//!     let Received::Message(message) = subscriber.receive()? else { panic!("it was published") };
//!     assert_eq!(message.bytes, price);
//! }
//! # Ok::<(), causeway::Error>(())
//! ```
//!
//! # Several processes
//!
//! Another process joins through a socket: [`Group::serve_at`] a path and [`Group::join`] it, or hand it
//! [`Group::invite`]. Several publishers need [`GroupOptions::several_publishers`] (in the creating process) or
//! [`GroupOptions::remote_publishers`] (in others).
//!
//! ```
//! use causeway::{Error, Gone, Group, GroupOptions, Policy, Received, Subscriber};
//!
//! fn listen(subscriber: &mut Subscriber) -> causeway::Result<()> {
//!     loop {
//!         let _ = subscriber.wait(None)?;
//!         match subscriber.receive()? {
//!             Received::Message(message) => println!("{}", String::from_utf8_lossy(message.bytes)),
//!             Received::Lost { messages, .. } => eprintln!("too slow for {messages} messages"),
//!             Received::Empty => {}
//!         }
//!     }
//! }
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("prices");
//! // In one process, for as long as `group` or `publisher` lives:
//! let group = Group::create("prices", GroupOptions::new())?;
//! group.serve_at(&path)?;
//! let mut publisher = group.publisher()?;
//!
//! // In any number of others:
//! let mut subscriber = Group::join(&path)?.subscribe(Policy::Reliable)?;
//! # assert!(matches!(publisher.publish(b"42.17")?, causeway::Published::At(_)));
//! # drop((publisher, group));
//! match listen(&mut subscriber) {
//!     Err(Error::PeerGone(Gone::Publishers)) => println!("that was all"),
//!     other => other?,
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! In a loop of one's own, with epoll or poll, see [`Subscriber::arm`]; the example `epoll_loop` has all of it.
//!
//! # When somebody ends, or is killed
//!
//! | who | what the others see |
//! |---|---|
//! | the last publisher, when no other can come | receivers get everything that was published, then [`Error::PeerGone`] with [`Gone::Publishers`]. With [`GroupOptions::several_publishers`] another can come until the group itself is dropped |
//! | one of several publishers | nothing: a message that it had begun is skipped. No other process can join in its place |
//! | a receiver | nothing: publishers no longer wait for it |
//! | the process that created the group | its publishers end with it. Those of other processes and all receivers go on; nobody can join ([`Health::server_is_gone`], [`Publisher::server_is_gone`]) |
//!
//! A group is never taken over. To go on, create it anew at the same path, where the socket of the dead server is
//! replaced, and join anew.
//!
//! A program that only looks ([`Subscriber::receive`] again and again) and one that only tries
//! ([`Publisher::publish`] again and again) hear of it as well as those that wait: after a few looks in vain the library
//! watches the sockets for them, at no cost to those who have messages.
//!
//! One thing only the server can do: decide a message that a killed publisher had begun. If the server was killed before
//! it, and other publishers live on, receivers stop at that message; a wait with a time-out ends, and
//! [`Subscriber::health`] says who left it unfinished and that the server is gone. Leave such a group and make it anew.
//!
//! # Features
//!
//! * `tokio`, off by default: `AsyncSubscriber` and `AsyncPublisher`.
//!
//! The command `causeway`, for groups in a shell, is a crate of its own: `causeway-cli`.
//!
//! # What this does not do
//!
//! Order between groups, persistence, other machines, publishers that distrust each other.

// What is copied from an example compiles without a warning.
#![doc(test(attr(deny(unused_must_use))))]

// The example of the README is held to the library as those here are.
#[cfg(all(doctest, not(loom)))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(all(feature = "tokio", not(loom)))]
mod asynchronous;
#[cfg(not(loom))]
mod audience;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod facts;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod in_place;
pub mod log;
#[cfg(not(loom))]
mod member;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod publisher;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod serve;
#[cfg(not(loom))]
mod spin;
#[cfg(not(loom))]
mod subscriber;
#[cfg(not(loom))]
mod watch;
#[cfg(not(loom))]
mod wire;

#[cfg(all(feature = "tokio", not(loom)))]
pub use asynchronous::{AsyncPublisher, AsyncSubscriber};
#[cfg(not(loom))]
pub use {
    error::{Error, Gone, Refusal, Result},
    group::Group,
    in_place::InPlace,
    options::{Access, Credentials, GroupOptions, Policy, SubscribeOptions},
    publisher::{Loan, Position, Published, Publisher},
    serve::{PublisherReport, ReceiverReport, Report},
    subscriber::{Health, Message, Received, Subscriber, Waited},
};
