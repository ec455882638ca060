//! How two processes become the ends of a connection for calls, and what both ends do alike.
//!
//! The server makes all memory: a log for requests, which the client alone can write; a log for replies, which the server
//! alone can write; and a page for each reader. So the server maps nothing that a client made, and accepts no descriptor
//! unless its options say so.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use causeway_os::Context;
use causeway_os::handshake::Part;
use causeway_os::memory::Access;
use causeway_os::socket::{
    peer_credentials, refuse_descriptors, send_with_fds, stream_pair,
    take_descriptors as take_descriptors_again,
};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::incoming::{Incoming, Peer};
use super::outgoing::Outgoing;
use crate::connection::pidfd_of;
use crate::error::{Error, Refusal, Result, errno};
use crate::foreign::ForeignSocket;
use crate::log::Kind;
use crate::log::form::OFFER;
use crate::log::mapped::MappedLog;
use crate::log::pages::{SubscriberPage, WakePage};
use crate::log::wake_word::WakeWord;
use crate::wire::{
    ANSWER_TIME, Incoming as Received, Message, Op, answer, ask, from_halves, granted, halves, receive,
    take_fds_and_wake_page,
};

pub const DESCRIPTORS_MAX: usize = 16;

/// How long a client may take for a step of the handshake.
const VISIT_TIME: Duration = Duration::from_secs(1);

/// The low byte of a request's topic word; the next one holds the number of its descriptors.
pub mod request {
    pub const CALL: u32 = 0;
    /// The call with this number is cancelled.
    pub const CANCEL: u32 = 1;
}

/// The low byte of a reply's topic word; the next one holds the number of its descriptors.
pub mod reply {
    pub const REPLY: u32 = 0;
    /// The handler ended without a reply.
    pub const NO_REPLY: u32 = 1;
    /// The reply exceeds the limit; the payload holds its length.
    pub const TOO_LONG: u32 = 2;
}

pub fn topic(kind: u32, descriptors: usize) -> u32 {
    kind | (descriptors as u32) << 8
}

pub fn kind_and_descriptors(topic: u32) -> (u32, usize) {
    (topic & 0xff, (topic >> 8) as usize)
}

/// An established connection, as either end sees it.
#[derive(Debug)]
pub struct Connected {
    pub outgoing: Outgoing,
    pub incoming: Incoming,
    pub socket: Arc<OwnedFd>,
}

/// How the process at the other end of a socket is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It connected or accepted by itself: the kernel knows the process.
    Path,
    /// The pair of sockets was made by another process, perhaps.
    Pair,
}

/// The two halves that each end builds.
struct Memory {
    outgoing: MappedLog,
    incoming: MappedLog,
    own_page: SubscriberPage,
    peer_page: SubscriberPage,
    doorbell: OwnedFd,
    /// Where processes of one user sleep: the page, and which of its words is for the outgoing and for the incoming log.
    wake_page: Option<(Arc<WakePage>, [usize; 2])>,
}

/// The words of the wake page: for requests, and for replies.
const REQUESTS: usize = 0;
const REPLIES: usize = 1;

fn connected(memory: Memory, socket: OwnedFd, origin: Origin) -> Result<Connected> {
    let credentials = peer_credentials(&socket)?;
    let is_known = origin == Origin::Path && credentials.pid != std::process::id();
    let pidfd = if is_known { pidfd_of(&socket, credentials) } else { None };
    let ringing = memory.doorbell.try_clone().context("duplicate", || "the doorbell of a connection")?;
    let socket = Arc::new(socket);
    let peer = Peer {
        socket: Arc::clone(&socket),
        pidfd: pidfd.map(Arc::new),
        doorbell: memory.doorbell,
        is_same_user: memory.wake_page.is_some(),
    };
    let (outgoing, incoming) = (Arc::new(memory.outgoing), Arc::new(memory.incoming));
    let word = |log: &Arc<MappedLog>, which: usize| match &memory.wake_page {
        Some((page, words)) => WakeWord::in_page(Arc::clone(log), Arc::clone(page), words[which]),
        None => WakeWord::in_log(Arc::clone(log)),
    };
    let (outgoing_word, incoming_word) = (word(&outgoing, 0), word(&incoming, 1));
    Ok(Connected {
        outgoing: Outgoing::new(outgoing, memory.peer_page, ForeignSocket::new(ringing), outgoing_word),
        incoming: Incoming::new(incoming, memory.own_page, incoming_word, peer)?,
        socket,
    })
}

/// Whether the other end is a process of the same user, as far as the kernel says.
fn is_same_user(socket: &OwnedFd) -> bool {
    peer_credentials(socket).is_ok_and(|peer| crate::options::is_own_user(peer.uid))
}

/// Becomes a client over a connected socket.
pub fn connect(socket: OwnedFd, origin: Origin) -> Result<Connected> {
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_TIME))
        .context("limit the wait on", || "a connection")?;
    // Another user's process could move a thread that sleeps in the wake page, and take the page's memory away.
    let trusts = is_same_user(&socket);
    let call = Message::new(Op::Call, &[u32::from(trusts)]);
    let (_, fds) = granted(ask(&socket, call)?, "a client")?;
    let ([requests, replies, server_page, own_page, doorbell], wake_page) = take_fds_and_wake_page(fds)?;
    if wake_page.is_some() && !trusts {
        return Err(Error::invalid("answer", "a wake page from a process of another user"));
    }
    let wake_page = wake_page.map(|fd| WakePage::open(&fd)).transpose()?;
    crate::subscriber::check_doorbell(&doorbell)?;
    let requests = MappedLog::open(&requests, Access::ReadWrite, OFFER)?;
    let replies = MappedLog::open(&replies, Access::ReadOnly, OFFER)?;
    if requests.kind() != Kind::Single || replies.kind() != Kind::Single {
        return Err(Error::invalid("log header", "a log of several publishers cannot carry calls"));
    }
    let memory = Memory {
        outgoing: requests,
        incoming: replies,
        own_page: SubscriberPage::open_own(&own_page)?,
        peer_page: SubscriberPage::open(&server_page)?,
        doorbell,
        wake_page: wake_page.map(|page| (Arc::new(page), [REQUESTS, REPLIES])),
    };
    granted(ask(&socket, Message::new(Op::Mapped, &[]))?, "a client")?;
    connected(memory, socket, origin)
}

/// Becomes the server of a client over a connected socket, with logs of `capacity_bytes` each. Waits for the client at each
/// step, a second at most.
pub fn accept(
    socket: OwnedFd,
    origin: Origin,
    capacity_bytes: u64,
    takes_descriptors: bool,
) -> Result<Connected> {
    // A client could make this thread close a descriptor whose close blocks.
    if takes_descriptors {
        take_descriptors_again(&socket)?;
    } else {
        let _ = refuse_descriptors(&socket);
    }
    // A client that does not read what is sent to it delays nothing.
    rustix::io::ioctl_fionbio(&socket, true).context("make", || "a connection non-blocking")?;
    let call = expect(&socket, Op::Call)?;
    let has_wake_page = call.words[0] == 1 && is_same_user(&socket);
    let level = OFFER.agree(call.offer().unwrap_or(OFFER), Part::Writes).map_err(|mismatch| {
        let _ = Message::refusal(Refusal::OtherFormat).send(&socket, &[]);
        Error::OtherFormat(mismatch)
    })?;
    let (memory, page_fd, requests_fd) = offer(&socket, capacity_bytes, level, has_wake_page)
        .inspect_err(|_| drop(Message::refusal(Refusal::Exhausted).send(&socket, &[])))?;
    expect(&socket, Op::Mapped)?;
    SubscriberPage::check_sealed(&page_fd)?;
    MappedLog::seal(&requests_fd)?;
    Message::new(Op::Granted, &[]).send(&socket, &[])?;
    connected(memory, socket, origin)
}

/// Makes the memory of a connection and sends it to the client.
fn offer(
    socket: &OwnedFd,
    capacity_bytes: u64,
    level: u32,
    has_wake_page: bool,
) -> Result<(Memory, OwnedFd, OwnedFd)> {
    let (requests_fd, requests) = MappedLog::create("requests", Kind::Single, capacity_bytes, level)?;
    let (replies_fd, replies) = MappedLog::create("replies", Kind::Single, capacity_bytes, level)?;
    MappedLog::seal(&replies_fd)?;
    let (own_page_fd, own_page) = SubscriberPage::create()?;
    SubscriberPage::seal(&own_page_fd)?;
    let (page_fd, peer_page) = SubscriberPage::create()?;
    let (doorbell, doorbell_far) = stream_pair()?;
    for end in [&doorbell, &doorbell_far] {
        let _ = refuse_descriptors(end);
    }
    let mut fds = vec![&requests_fd, &replies_fd, &own_page_fd, &page_fd, &doorbell_far];
    let wake_page = has_wake_page.then(WakePage::create).transpose()?;
    fds.extend(wake_page.as_ref().map(|(fd, _)| fd));
    let fds: Vec<_> = fds.into_iter().map(AsFd::as_fd).collect();
    Message::new(Op::Granted, &[]).send(socket, &fds)?;
    let wake_page = wake_page.map(|(_, page)| (Arc::new(page), [REPLIES, REQUESTS]));
    let memory = Memory { outgoing: replies, incoming: requests, own_page, peer_page, doorbell, wake_page };
    Ok((memory, page_fd, requests_fd))
}

/// Waits for this request of a client. Any other is refused.
fn expect(socket: &OwnedFd, op: Op) -> Result<Message> {
    let error = match answer(socket, Some(VISIT_TIME)) {
        Ok((message, _)) if message.op == op => return Ok(message),
        Ok((message, _)) => Error::invalid("request", format!("{:?}", message.op)),
        Err(error) => error,
    };
    let is_late = matches!(error, Error::NoAnswer);
    let refusal = if is_late { Refusal::TooLate } else { Refusal::NotUnderstood };
    let _ = Message::refusal(refusal).send(socket, &[]);
    Err(error)
}

/// Sends the descriptors of the message with this number, before the message.
pub fn send_descriptors(socket: &OwnedFd, number: u64, fds: &[BorrowedFd<'_>]) -> Result<()> {
    if fds.len() > DESCRIPTORS_MAX {
        let why = format!("{} descriptors; send at most {DESCRIPTORS_MAX} with one message", fds.len());
        return Err(Error::invalid("call", why));
    }
    let message = Message::new(Op::Descriptors, &halves(number));
    send_with_fds(socket, &message.to_bytes(), fds).map_err(|error| match errno(&error) {
        Some(Errno::PERM) => {
            Error::invalid("call", "the other process takes no descriptors (ServeOptions::descriptors)")
        }
        Some(Errno::AGAIN) => Error::NoAnswer,
        _ => error.into(),
    })
}

/// Takes the `count` descriptors of the message with this number. They were sent before it.
pub fn take_descriptors(incoming: &Incoming, number: u64, count: usize) -> Result<Vec<OwnedFd>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if count <= DESCRIPTORS_MAX
        && incoming.socket_is_readable()?
        && let Received::Message(Message { op: Op::Descriptors, words: [low, high, ..] }, fds) =
            receive(&*incoming.peer().socket, DESCRIPTORS_MAX)?
        && fds.len() == count
        && from_halves([low, high]) == number
    {
        return Ok(fds);
    }
    Err(Error::invalid("message", "its descriptors are missing"))
}
