//! D-Bus names, calls, signals and matches over shared memory, in one order, with no process in between.
//!
//! The processes of one user share an *order log*. Each writes its messages into an *outbox* of its own, which only it
//! can write, and puts a reference of 8 bytes into the order log. So all see all calls, replies, signals and changes of
//! names in one order. One process, the *authority*, lets members join and says who is there and who has which name.
//!
//! | type | what it is |
//! |---|---|
//! | [`Connection`] | a member: calls, signals, names, matches, an object server |
//! | [`Monitor`] | reads everything; nobody waits for it |
//! | [`client::Bus`] | a small client of any D-Bus, over a socket or as a member |
//! | [`Authority`] | carries a bus; part of the event loop of the program that decides, which is `causewayd` |
//!
//! `docs/bus.md` says what is promised and what is not; `docs/wire.md` has the bytes.

#[cfg(all(test, not(loom)))]
#[macro_use]
extern crate causeway_testkit;

#[cfg(all(not(loom), feature = "tokio"))]
mod asynchronous;
#[cfg(not(loom))]
mod authority;
#[cfg(not(loom))]
pub mod client;
#[cfg(not(loom))]
mod connection;
#[cfg(not(loom))]
mod content;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod monitor;
#[cfg(not(loom))]
mod port;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod share;
#[doc(hidden)]
pub mod shared;
#[cfg(all(not(loom), feature = "zbus"))]
pub mod zbus;

#[cfg(all(not(loom), feature = "tokio"))]
pub use asynchronous::{AsyncConnection, Calls, Signals};
#[cfg(not(loom))]
pub use {
    authority::{
        ALLOW_REPLACEMENT, Appended, Authority, AuthorityOptions, BUS_INTERFACE, DO_NOT_QUEUE, Event,
        InboundMessage, LeaveReason, MemberReport, NameReply, PASSED_ON, PeerId, Process, REPLACE_EXISTING,
        ReleaseReply, Ticket, TransferLimits, TransferRef, Unread,
    },
    causeway_dbus_wire::{rule::MatchRule, wire},
    connection::{Answer, Call, Connection, ConnectionOptions, Context, Incoming, Message, Refusal, Reply},
    content::{Bytes, FileDescriptors, Payload},
    error::{Error, Result, name},
    monitor::{Monitor, Observed},
    port::AUTHORITY_ID,
    session::{ADDRESS_VARIABLE, native_socket_beside, native_socket_name, session_socket},
    share::Share,
    shared::body::MessageFile,
    shared::statistics::Statistics,
    shared::unique_name::name_of,
};
