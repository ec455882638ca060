//! A message bus in shared memory: one copy, one order, no process in between.
//!
//! Processes of one machine publish messages into a log in shared memory, and every subscriber of the group reads the
//! same bytes there, in the same order. System calls happen only when a process sleeps.
//!
//! ```
//! use causeway::{Group, GroupOptions, Policy, Received};
//!
//! let group = Group::create("prices", GroupOptions::new())?;
//! let mut publisher = group.publisher()?;
//! let mut subscriber = group.subscribe(Policy::Reliable)?;
//!
//! publisher.publish(b"42.17")?;
//!
//! let mut loan = publisher.loan(5)?; // written where subscribers will read it
//! loan.copy_from_slice(b"42.18");
//! loan.commit()?;
//!
//! for price in [b"42.17", b"42.18"] {
//!     let Received::Message(message) = subscriber.recv()? else { panic!("a reliable subscriber loses nothing") };
//!     assert_eq!(message.bytes, price);
//! }
//! # Ok::<(), causeway::Error>(())
//! ```
//!
//! # Waiting
//!
//! | | does not wait | waits | waits for a limited time |
//! |---|---|---|---|
//! | publish a copy | [`try_publish`](Publisher::try_publish) | [`publish`](Publisher::publish) | [`publish_timeout`](Publisher::publish_timeout) |
//! | write in place | [`try_loan`](Publisher::try_loan) | [`loan`](Publisher::loan) | [`loan_timeout`](Publisher::loan_timeout) |
//! | receive a copy | [`try_recv`](Subscriber::try_recv) | [`recv`](Subscriber::recv) | [`recv_timeout`](Subscriber::recv_timeout) |
//! | read in place | [`try_recv_in_place`](Subscriber::try_recv_in_place) | after [`wait`](Subscriber::wait) | after [`wait`](Subscriber::wait) |
//!
//! A full log, an empty log and a timeout are outcomes to expect: variants of [`TryPublishError`], [`TryRecvError`],
//! [`PublishTimeoutError`] and [`RecvTimeoutError`]. [`Error`] is for failures. For an event loop with epoll or poll, see
//! [`Subscriber::arm`] and the example `epoll_loop`; for tokio, the feature below.
//!
//! # Several processes
//!
//! Another process joins through a socket: call [`Group::serve_at`] with a path here and [`Group::join`] with it there,
//! or pass the socket of [`Group::invite`]. Several publishers need [`GroupOptions::several_publishers`] (in the
//! creating process), [`GroupOptions::remote_publishers`] (a fixed number in other processes) or
//! [`GroupOptions::late_publishers`] (in other processes, at any time). [`Group::resize`] changes the size of the log
//! while messages flow.
//!
//! ```
//! use causeway::{Error, Group, GroupOptions, Policy, Received, Subscriber};
//!
//! fn print_all(subscriber: &mut Subscriber) -> causeway::Result<()> {
//!     loop {
//!         match subscriber.recv() {
//!             Ok(Received::Message(message)) => println!("{}", String::from_utf8_lossy(message.bytes)),
//!             Ok(Received::Lost { messages, .. }) => eprintln!("too slow for {messages} messages"),
//!             Ok(Received::Demoted) => {} // does not happen with `Policy::Reliable`
//!             Err(Error::Disconnected) => return Ok(()), // the publishers are gone, and this was all
//!             Err(error) => return Err(error),
//!         }
//!     }
//! }
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let path = folder.path().join("prices");
//! // In one process, which must keep `group` or `publisher`:
//! let group = Group::create("prices", GroupOptions::new())?;
//! group.serve_at(&path)?;
//! let mut publisher = group.publisher()?;
//!
//! // In any number of others:
//! let mut subscriber = Group::join(&path)?.subscribe(Policy::Reliable)?;
//! # publisher.publish(b"42.17")?;
//! # drop((publisher, group));
//! print_all(&mut subscriber)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # When a process ends or is killed
//!
//! | process | effect on the others |
//! |---|---|
//! | the last publisher, when no other can join | subscribers get everything that was published, then [`Error::Disconnected`]. With [`GroupOptions::several_publishers`], publishers can join until the group itself is dropped |
//! | one of several publishers | none: its unfinished message is skipped. Another process can join in its place with [`GroupOptions::late_publishers`] only |
//! | a subscriber | none: publishers no longer wait for it |
//! | the process that created the group | its publishers end with it. Publishers of other processes and all subscribers continue, but no process can join ([`Health::server_is_gone`], [`Publisher::server_is_gone`]) |
//!
//! No process takes over a group. To continue, create a group at the same path, which replaces the socket of the dead
//! server, and join that one.
//!
//! A program that polls ([`Subscriber::try_recv`] or [`Publisher::try_publish`] in a loop) is told of a death as one
//! that waits is: after some empty polls a thread of the library watches the sockets for it. Calls that find a message
//! pay nothing for that.
//!
//! Only the server can skip the unfinished message of a killed publisher. If the server was killed before it did, and
//! other publishers live, subscribers stop at that message: [`Subscriber::recv_timeout`] times out, and
//! [`Subscriber::health`] names the publisher that left it unfinished and says that the server is gone. Leave such a
//! group and create a new one.
//!
//! # Trust
//!
//! [`GroupOptions::publishers`] and [`GroupOptions::subscribers`] say who may join. By default these are the creator's user and
//! root. What then holds stands in the column `SameUser` below, and what holds with any other rule in the column `Strangers`.
//! [`GroupOptions::trust`] does not change who may join. It chooses the words on which subscribers sleep ([`Trust`]), so whether one can disturb the sleep of another.
//!
//! | | `SameUser`: where only the creator's user and root may join | `Strangers`: with any other rule |
//! |---|---|---|
//! | **who may join** | processes of the creator's user, root, and processes that they invite. The kernel says who a peer is, when it connects; the socket's file has mode 0600 | the users that a rule names, too; a visitor whom no rule admits is refused when it connects. Publishers trust each other and the server in both |
//! | **what he can see** | a subscriber: every message, who else is there ([`Group::report`]) | a subscriber: every message and the publishers; of subscribers, those of its own user only. A visitor that no rule admits: the refusal |
//! | **what he can delay** | a subscriber: publishers, for as long as its policy says, for ever with `Reliable` unless [`most_patient`](GroupOptions::most_patient) forbids it; the sleep and waking of all others, because they share one futex word | a subscriber: publishers, for the time of [`most_patient_for_others`](GroupOptions::most_patient_for_others) (1 s), then its user gets `Lossy` until a minute after the late one has left; each publish by one system call while it sleeps, on a word of its own. It cannot wake others or keep them asleep |
//! | **what he can use up** | one of 1,024 slots each; the places of the server (2,240, or a quarter of its limit of open files); four descriptors and a page of the server each; a page of addresses of each publisher, and a descriptor once it sleeps on its own doorbell | a user: a third of what other strangers have left of 1,024 places (or of a quarter of the limit of open files); all strangers: half of that, so that the server's user and its application always find places and descriptors. A visitor without a request is sent away after a second; one that sends nonsense is not listened to after 16 mistakes; what it does not read takes at most 64 KiB |
//! | **what he can break** | nothing of others as a subscriber, beyond the delays above and the one page in which all sleep, whose memory the next to wake pays for; everything as a publisher: it writes the log | nothing as a subscriber: it writes only its own page, which others take for hostile input and whose memory it cannot take away, and can pass no descriptor to the server or a publisher. As a publisher everything, so name publishers with care |
//!
//! [`Group::disconnect`] ends a subscriber, [`Group::disconnect_publisher`] a publisher, and [`Group::evict`] one together with the
//! group. A process that joins by path can ask who serves there: [`Group::server`].
//!
//! A process that forks keeps its groups; the child has none of their memory and must not use them.
//!
//! # Large payloads
//!
//! In a group with [`GroupOptions::large_payloads`], [`Group::large_publisher`] publishes payloads of any length by
//! reference: they lie in memory files that the publisher wrote and subscribers map, and neither side copies them.
//! [`PoolOptions`] says how many files there are, and whether they are used again (fast; their publisher could still
//! change them) or sealed (no process can). By default, the trust of the group decides.
//!
//! | what happens | outcome |
//! |---|---|
//! | subscribers keep all files of a pool | [`TryPublishError::Full`], or a wait, as long as their policies allow |
//! | a subscriber holds too many payloads | [`Error::TooManyReferences`]; it loses nothing if it drops one |
//! | a publisher does not wait for the subscriber, and used the file again | [`Received::Lost`] before it was received, [`Error::Overwritten`] after |
//! | a subscriber dies | what it held is free |
//! | the publisher dies | payloads that were received stay readable; others can be received as long as the server lives |
//!
//! # Calls
//!
//! The module [`call`] is for requests that one process answers: [`call::serve`] and [`call::Client`].
//!
//! # Features
//!
//! * `tokio`, off by default: `AsyncSubscriber`, which is a `Stream`, and `AsyncPublisher`, which is a `Sink`; `call::AsyncClient`.
//! * `zerocopy`, off by default: `TypedPublisher` and `TypedSubscriber`, for messages that are plain values of one type.
//!
//! The command `causeway`, for groups in a shell, is a crate of its own: `causeway-cli`.
//!
//! # Limits
//!
//! Causeway gives no order between groups, keeps no message on disk, reaches no other machine, and does not protect
//! publishers of one group from each other.

// Code copied from an example compiles without a warning.
#![doc(test(attr(deny(unused_must_use))))]
// The model of the log (`tests/loom.rs`) is built from the sources of that module alone.
#![cfg(not(loom))]

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

// The example of the README is tested as those here are.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

#[cfg(feature = "tokio")]
mod asynchronous;
pub mod call;
mod connection;
mod error;
mod foreign;
mod group;
mod kernel;
mod large;
#[doc(hidden)]
pub mod log;
mod message;
mod next_logs;
mod options;
mod outcome;
mod publisher;
mod request;
mod reservation;
mod serve;
mod space;
mod spin;
mod subscriber;
mod subscriber_handle;
mod subscriber_set;
mod subscriber_table;
mod trust;
#[cfg(feature = "zerocopy")]
mod typed;
mod watch;
mod wire;

#[cfg(feature = "tokio")]
pub use asynchronous::{AsyncPublisher, AsyncSubscriber};
#[doc(inline)]
pub use causeway_os::{
    handshake::{Mismatch, Offer},
    socket::{Credentials, Liveness},
};
#[cfg(feature = "tokio")]
pub use large::AsyncLargeSubscriber;
#[doc(inline)]
pub use log::{Position, layout::FORMATS};
#[cfg(feature = "zerocopy")]
pub use typed::{MessageType, TypedMessage, TypedPublisher, TypedSubscriber};
pub use {
    error::{Error, OsError, Refusal, Result},
    group::{Claim, Group, ServerIdentity},
    large::{
        LargeLoan, LargeMessage, LargePayload, LargePublisher, LargeSubscriber, PoolOptions, PoolReport,
        SealedBuffer, SealedPayload,
    },
    message::{Message, MessageOf, OwnedMessage, Received},
    options::{Access, GroupOptions, OverRate, Policy, SubscribeOptions},
    outcome::{PublishTimeoutError, RecvTimeoutError, TryPublishError, TryRecvError},
    publisher::{Loan, Publisher},
    reservation::memory_available_bytes,
    serve::{PublisherReport, Report, SubscriberReport},
    space::SpaceNotice,
    subscriber::{Health, InPlace, Subscriber, Waited},
    trust::Trust,
};
