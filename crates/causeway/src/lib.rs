//! A message bus in shared memory: one copy, one order, nothing in between.
//!
//! Processes of one machine write messages into a log in shared memory, and every receiver of the group reads the same
//! bytes there, in the same order. No process sits between them. System calls happen only when somebody sleeps.
//!
//! ```
//! use causeway::{Group, GroupOptions, Policy, Received};
//!
//! let group = Group::create("prices", GroupOptions::new())?;
//! let mut publisher = group.publisher()?;
//! let mut subscriber = group.subscribe(Policy::Reliable)?;
//!
//! publisher.publish_within(b"42.17", None)?;
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
//! Another process joins through a socket: [`Group::serve_at`] a path and [`Group::join`] it, or hand it
//! [`Group::invite`]. Several publishers need [`GroupOptions::several_publishers`] (in the creating process) or
//! [`GroupOptions::remote_publishers`] (in others).
//!
//! What this does not do: order between groups, persistence, other machines, publishers that distrust each other.

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
