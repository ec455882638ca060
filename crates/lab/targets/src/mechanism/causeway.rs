//! Causeway, our own bus: `causeway-sw` (a log with one writer) and `causeway-mw` (a log that several may write).
//!
//! Each end creates the group that it publishes to and subscribes to the other's; the two hand each other an invitation
//! over a socket before anything is timed. A message is written where it lies in the log and copied out by its receiver,
//! which is what a receiver does that need not trust its sender. With `receive=in-place` it is read where it lies.
//!
//! # Safety
//! Both ends are this program, which publishes with Causeway and writes nothing in a log that it has published, and both
//! receive reliably: so the bytes of a message hold still until its receiver has moved on.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::time::Duration;

use causeway::{Group, GroupOptions, InPlace, Loan, Policy, Publisher, Received, Subscriber, Trust};
use causeway_os::socket;
use rustix::event::epoll::EventFlags;

use super::fd::{one_each, peer_gone};
use crate::prelude::*;
use crate::sys::end_of_stream;
use crate::sys::epoll::Set;

/// How many may write to a log.
pub(crate) trait Kind: 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const IN_SUITES: InSuites = InSuites::AtEverySize;
    const HAS_SEVERAL_PUBLISHERS: bool = false;
    fn options() -> GroupOptions;
}

pub(crate) struct OneWriter;

impl Kind for OneWriter {
    const ID: &'static str = "causeway-sw";
    const ABOUT: &'static str =
        "Causeway, a log in shared memory with one writer; receivers map it read-only";

    fn options() -> GroupOptions {
        GroupOptions::new()
    }
}

pub(crate) struct ManyWriters;

impl Kind for ManyWriters {
    const ID: &'static str = "causeway-mw";
    const ABOUT: &'static str =
        "Causeway, a log in shared memory that several may write, in one order for all receivers";
    const IN_SUITES: InSuites = InSuites::AtSmallSizes(
        "what one order for many writers costs beyond causeway-sw shows at small sizes",
    );
    const HAS_SEVERAL_PUBLISHERS: bool = true;

    fn options() -> GroupOptions {
        GroupOptions::new().several_publishers()
    }
}

choice! {
    /// How a subscriber gets at a message.
    pub(crate) enum Receive { Copy = "copy", InPlace = "in-place" }
    axis "receive", default Copy: "the subscriber copies a message out, and need not trust the publisher; or it reads the \
        message where it lies"
}
choice! {
    /// On the one word of the log that all share: one call wakes all of them. Or on a word of its own: one call wakes one, and no
    /// subscriber can disturb another.
    pub(crate) enum SleepingPlace { SameUser = "same-user", Strangers = "strangers" }
    axis "trust", default SameUser: "subscribers of one user sleep on one word, and one call wakes all; strangers sleep on a \
        word of their own each"
}

pub(crate) fn with_trust(options: GroupOptions, params: &CaseParams) -> GroupOptions {
    options.trust(match params.choice() {
        SleepingPlace::SameUser => Trust::SameUser,
        SleepingPlace::Strangers => Trust::Strangers,
    })
}

/// Of a group: who dies is told by its server, whose socket is a path.
pub(crate) const SURVIVES: Properties = Properties::of(&[Property::SurvivesKill], Across::SharedPath);

/// Strangers sleep on words of their own and copy what they read; publishers trust each other in any case, so several are of one user.
pub(crate) fn properties_of<K: Kind>(params: &CaseParams) -> Properties {
    let has_strangers = params.choice::<SleepingPlace>() == SleepingPlace::Strangers
        && params.choice_if_declared::<Receive>().is_none_or(|receive| receive == Receive::Copy);
    SURVIVES
        .with(Property::OtherUsers, has_strangers && !K::HAS_SEVERAL_PUBLISHERS)
        .with(Property::Pollable, params.wait == Wait::Epoll)
}

pub(crate) const CAPACITY: Axis = Axis {
    name: "capacity",
    default: "default",
    values: Values::Bytes,
    about: "bytes of the log, a power of two; default is 256 KiB, or four times what the payload needs",
};

pub(crate) const MOST_BYTES: usize = 1 << 30;
/// A log of the default size stays in a second-level cache.
pub(crate) const DEFAULT_BYTES: usize = 256 << 10;
/// What a frame needs beyond its payload, generously.
pub(crate) const FRAME_BYTES: usize = 256;

/// Bytes of the log: a payload may take a quarter of it.
pub(crate) fn capacity_bytes(params: &CaseParams) -> usize {
    let least = params.payload_bytes.saturating_add(FRAME_BYTES).saturating_mul(4).next_power_of_two();
    params.number("capacity").unwrap_or(DEFAULT_BYTES.max(least))
}

pub(crate) fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    let (bytes, payload) = (capacity_bytes(params), params.payload_bytes);
    if bytes > MOST_BYTES {
        return Err(Unsupported(format!(
            "a log of {bytes} bytes exceeds the largest of {MOST_BYTES}; use a smaller payload"
        )));
    }
    if payload.saturating_mul(4) > bytes {
        return Err(Unsupported(format!(
            "a message of {payload} bytes is more than a quarter of the log's {bytes}; raise it with \
                 capacity={}",
            (payload * 4).next_power_of_two()
        )));
    }
    Ok(())
}

pub(crate) struct Causeway<K>(PhantomData<K>);

impl<K: Kind> Mechanism for Causeway<K> {
    const ID: &'static str = K::ID;
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ONE_COPY);
    const WAITS: &'static [Wait] = &[Wait::SpinBlock, Wait::Block, Wait::Epoll, Wait::Spin];
    const AXES: &'static [Axis] = &[CAPACITY, Receive::AXIS, SleepingPlace::AXIS];
    const IN_SUITES: InSuites = K::IN_SUITES;
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = CausewayEnd;

    fn properties(params: &CaseParams) -> Properties {
        properties_of::<K>(params)
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fit(params)
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        Ok(one_each(socket::seqpacket_pair()?))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<CausewayEnd> {
        let control_socket = resources.take_fd();
        let capacity_bytes = capacity_bytes(params);
        let own = create(with_trust(K::options(), params), capacity_bytes)?;
        let publisher = own.publisher().map_err(io::Error::other)?;
        invite(&own, &control_socket)?;
        let theirs = accept_invitation(&control_socket)?;
        let subscriber = theirs.subscribe(Policy::Reliable).map_err(io::Error::other)?;
        let receiver = Receiver::new(subscriber, params, params.choice::<Receive>() == Receive::InPlace)?;
        meet(&control_socket)?;
        Ok(CausewayEnd { publisher, receiver, capacity_bytes, _groups: [own, theirs] })
    }

    fn attach_both(resources: [EndResources; 2], params: &CaseParams) -> io::Result<[Self::End; 2]> {
        attach_at_once::<Self>(resources, params)
    }
}

pub(crate) fn create(options: GroupOptions, capacity_bytes: usize) -> io::Result<Group> {
    Group::create("weighbridge", options.capacity_bytes(capacity_bytes as u64)).map_err(io::Error::other)
}

/// Invites the process at the other end of a socket to the group.
pub(crate) fn invite(group: &Group, control_socket: &OwnedFd) -> io::Result<()> {
    let invitation = group.invite().map_err(io::Error::other)?;
    Ok(socket::send_with_fds(control_socket, &[0], &[invitation.as_fd()])?)
}

/// Waits until the other end of a socket is as far: a message sent before it subscribed would not reach it.
pub(super) fn meet(control_socket: &OwnedFd) -> io::Result<()> {
    socket::send_with_fds(control_socket, &[0], &[])?;
    hear(control_socket).map(drop)
}

/// The one byte by which the other end of a socket says that it is ready.
pub(crate) fn hear(control_socket: &OwnedFd) -> io::Result<u8> {
    let mut byte = [0];
    match socket::recv_with_fds(control_socket, &mut byte, 0)?.0 {
        0 => Err(end_of_stream("the other end ended before the first message")),
        _ => Ok(byte[0]),
    }
}

/// The group that somebody invites to over a socket.
pub(crate) fn accept_invitation(control_socket: &OwnedFd) -> io::Result<Group> {
    let (_, fds) = socket::recv_with_fds(control_socket, &mut [0], 1)?;
    let invitation = fds.into_iter().next().ok_or_else(peer_gone)?;
    Group::join_socket(invitation).map_err(io::Error::other)
}

pub(crate) struct Receiver {
    subscriber: Subscriber,
    set: Option<Set>,
    wait: Wait,
    in_place: bool,
}

impl Receiver {
    /// On what the subscriber sleeps, as its library says.
    pub(crate) fn trust(&self) -> SleepingPlace {
        match self.subscriber.trust() {
            Trust::SameUser => SleepingPlace::SameUser,
            Trust::Strangers => SleepingPlace::Strangers,
            _ => unreachable!("the case chose one of two"),
        }
    }

    pub(crate) fn new(
        mut subscriber: Subscriber,
        params: &CaseParams,
        in_place: bool,
    ) -> io::Result<Receiver> {
        limit_spinning(&mut subscriber, params);
        let set = watch(std::slice::from_ref(&subscriber), params)?;
        Ok(Receiver { subscriber, set, wait: params.wait, in_place })
    }

    /// How far it has come in the log, in bytes.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.subscriber.position().0
    }

    #[inline(always)]
    pub(crate) fn take(&mut self) -> io::Result<Read<'_>> {
        if self.wait == Wait::Spin {
            let _ = self.subscriber.spin(None).map_err(io::Error::other)?;
        } else if self.wait == Wait::SpinBlock {
            // Before the receive: the library knows when to take the first look.
            let _ = self.subscriber.wait(None).map_err(io::Error::other)?;
        } else {
            while !self.subscriber.is_ready().map_err(io::Error::other)? {
                self.wait()?;
            }
        }
        if self.in_place {
            let message = self.subscriber.try_recv_in_place().map_err(io::Error::other)?.message();
            return message.map(Read::InPlace).ok_or_else(|| io::Error::other("messages were lost"));
        }
        match self.subscriber.try_recv().map_err(io::Error::other)? {
            Received::Message(message) => Ok(Read::Copied(message.bytes)),
            Received::Lost { messages, .. } => {
                Err(io::Error::other(format!("{messages} messages were lost")))
            }
            Received::Demoted => Err(io::Error::other("publishers no longer wait")),
        }
    }

    #[inline(never)]
    fn wait(&mut self) -> io::Result<()> {
        if self.wait == Wait::Yield {
            std::thread::yield_now();
            return Ok(());
        }
        let Some(set) = &mut self.set else {
            return self.subscriber.wait(None).map(|_| ()).map_err(io::Error::other);
        };
        if self.subscriber.arm().map_err(io::Error::other)? {
            set.wait()?;
        }
        Ok(())
    }
}

/// Lets a subscriber poll before it sleeps only where the case has `wait=spin-block`.
pub(crate) fn limit_spinning(subscriber: &mut Subscriber, params: &CaseParams) {
    if params.wait != Wait::SpinBlock {
        subscriber.spin_at_most(Duration::ZERO);
    }
}

/// The doorbells of all subscribers in one epoll set, where the case waits in epoll.
pub(crate) fn watch(subscribers: &[Subscriber], params: &CaseParams) -> io::Result<Option<Set>> {
    if params.wait != Wait::Epoll {
        return Ok(None);
    }
    Set::new(subscribers.iter().map(AsFd::as_fd), EventFlags::ET, subscribers.len()).map(Some)
}

#[inline(always)]
pub(crate) fn loan(publisher: &mut Publisher, len: usize) -> io::Result<Written<'_>> {
    publisher.loan(len).map(Written).map_err(io::Error::other)
}

pub(crate) struct CausewayEnd {
    publisher: Publisher,
    receiver: Receiver,
    capacity_bytes: usize,
    _groups: [Group; 2],
}

pub(crate) struct Written<'a>(Loan<'a>);

impl Written<'_> {
    #[inline(always)]
    pub(crate) fn commit(self) -> io::Result<()> {
        self.0.commit().map(|_| ()).map_err(io::Error::other)
    }
}

impl AsMut<[u8]> for Written<'_> {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

pub(crate) enum Read<'a> {
    Copied(&'a [u8]),
    InPlace(InPlace<'a>),
}

impl AsRef<[u8]> for Read<'_> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        match self {
            Read::Copied(bytes) => bytes,
            // SAFETY: trusted publishers, a reliable receiver; see above.
            Read::InPlace(message) => unsafe { message.bytes() },
        }
    }
}

impl Endpoint for CausewayEnd {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Read<'a>;

    #[inline(always)]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        loan(&mut self.publisher, len)
    }

    #[inline(always)]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        tx.commit()
    }

    #[inline(always)]
    fn take(&mut self, _len: usize) -> io::Result<Read<'_>> {
        self.receiver.take()
    }

    /// In the log of the other end.
    #[inline]
    fn position(&mut self) -> u64 {
        self.receiver.position()
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([
            ("capacity_bytes".into(), self.capacity_bytes.to_string()),
            ("payload_bytes_max".into(), self.publisher.payload_bytes_max().to_string()),
            ("trust".into(), self.receiver.trust().name().into()),
        ]))
    }
}
