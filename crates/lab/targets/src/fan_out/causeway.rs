//! Causeway: one publisher, and every receiver of its group reads the same bytes.
//!
//! The sender makes the group and invites each receiver over a socket of its own, and waits until all have subscribed.

use std::marker::PhantomData;
use std::time::Duration;

use causeway::{Error, Group, Policy, Publisher, Received, SubscribeOptions, Subscriber, TryRecvError};
use causeway_os::socket;

use super::burst;
use super::multicast::{Multicast, MulticastReceiver, MulticastSender, pairs};
use super::uninterested::{UNINTERESTED, Uninterested};
use crate::mechanism::causeway::{
    CAPACITY, DEFAULT_BYTES, FRAME_BYTES, Kind, MOST_BYTES, Read, Receiver, SleepingPlace, accept_invitation,
    create, hear, invite, loan, properties_of, with_trust,
};
use crate::prelude::*;

const RECEIVERS_MAX: usize = 256;
/// How long the publisher may take to know subscribers that have joined.
const KNOWN_TIME: Duration = Duration::from_secs(5);

choice! {
    /// What the publisher does about a subscriber that is a whole log behind.
    enum Delivery { Reliable = "reliable", Lossy = "lossy" }
    axis "policy", default Reliable: "whether the publisher would wait for a subscriber that is a whole log behind, or overwrite \
        what it has not read"
}

pub(super) struct Causeway<K>(PhantomData<K>);

impl<K: Kind> Multicast for Causeway<K> {
    const ID: &'static str = K::ID;
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = &[Wait::SpinBlock, Wait::Block, Wait::Epoll, Wait::Spin, Wait::Yield];
    const AXES: &'static [Axis] = &[CAPACITY, Delivery::AXIS, SleepingPlace::AXIS, UNINTERESTED];
    type Sender = Sender;
    type Receiver = Subscribed;

    fn properties(params: &CaseParams) -> Properties {
        properties_of::<K>(params)
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let (bytes, needed) = (capacity_bytes(params), needed_bytes(params));
        if needed > bytes || bytes > MOST_BYTES {
            return Err(Unsupported(format!(
                "a burst of {} messages of {} bytes needs a log of {needed} bytes, it has {bytes}, and the largest has \
                 {MOST_BYTES}; raise it with capacity=BYTES or lower the burst",
                burst(params),
                params.payload_bytes
            )));
        }
        if super::members(params) > RECEIVERS_MAX {
            return Err(Unsupported(format!("a group has at most {RECEIVERS_MAX} receivers")));
        }
        Ok(())
    }

    /// A publisher waits for reliable subscribers.
    fn ahead_max(params: &CaseParams) -> Option<u64> {
        let quarter = capacity_bytes(params) / 4 / (params.payload_bytes + FRAME_BYTES);
        (policy(params) != Policy::Reliable).then_some(quarter as u64)
    }

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        pairs(receivers, socket::seqpacket_pair)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let group = create(with_trust(K::options(), params), capacity_bytes(params))?;
        let mut publisher = group.publisher().map_err(io::Error::other)?;
        resources.fds.iter().try_for_each(|control_socket| invite(&group, control_socket))?;
        resources.fds.iter().try_for_each(|control_socket| hear(control_socket).map(drop))?;
        // Until a publisher knows all subscribers, it has the server wake everybody for each message, and fetches one after the other.
        let is_known = publisher.wait_for_subscribers(resources.fds.len() as u32, Some(KNOWN_TIME));
        if !is_known.map_err(io::Error::other)? {
            return Err(io::Error::other("the publisher does not learn of all subscribers"));
        }
        Ok(Sender { publisher, len: params.payload_bytes, _group: group })
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Subscribed> {
        let control_socket = resources.take_fd();
        let group = accept_invitation(&control_socket)?;
        let receiver =
            Receiver::new(group.subscribe(policy(params)).map_err(io::Error::other)?, params, false)?;
        socket::send_with_fds(&control_socket, &[0], &[])?;
        Ok(Subscribed { receiver, _group: group })
    }

    fn uninterested(mut resources: EndResources, params: &CaseParams) -> io::Result<Box<dyn Uninterested>> {
        let control_socket = resources.take_fd();
        let group = accept_invitation(&control_socket)?;
        let options = SubscribeOptions::from(policy(params)).topics([UNUSED_TOPIC]);
        let mut subscriber = group.subscribe(options).map_err(io::Error::other)?;
        subscriber.spin_at_most(Duration::ZERO);
        socket::send_with_fds(&control_socket, &[0], &[])?;
        let frame_bytes = (params.payload_bytes + FRAME_BYTES) as u64;
        let half_bytes = capacity_bytes(params) as u64 / 2;
        Ok(Box::new(OtherTopic { subscriber, frame_bytes, half_bytes, _group: group }))
    }
}

/// No message has it: the sender's have topic 0, whose bit in a filter is another one.
const UNUSED_TOPIC: u32 = 1;

/// A subscriber of a topic on which nothing is published.
struct OtherTopic {
    subscriber: Subscriber,
    frame_bytes: u64,
    half_bytes: u64,
    _group: Group,
}

impl Uninterested for OtherTopic {
    /// The end of the group, which is that of its publisher, ends its sleep.
    fn sleep(&mut self, _ended: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            match self.subscriber.wait(None) {
                Ok(_) => {}
                Err(Error::Disconnected) => return Ok(()),
                Err(error) => return Err(io::Error::other(error)),
            }
            match self.subscriber.try_recv() {
                Ok(Received::Message(_)) => {
                    return Err(io::Error::other("a message came of a topic that nobody published"));
                }
                Ok(_) | Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Failed(error)) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Once in half a log, to make room.
    fn wakes_at_most(&self, messages: u64) -> u64 {
        (messages * self.frame_bytes).div_ceil(self.half_bytes)
    }
}

fn policy(params: &CaseParams) -> Policy {
    match params.choice() {
        Delivery::Reliable => Policy::Reliable,
        Delivery::Lossy => Policy::Lossy,
    }
}

/// What all messages under way need: a burst must fit four times, so that no receiver is ever a whole log behind.
fn needed_bytes(params: &CaseParams) -> usize {
    let all = params.payload_bytes.saturating_add(FRAME_BYTES).saturating_mul(burst(params) as usize);
    all.saturating_mul(4).checked_next_power_of_two().unwrap_or(usize::MAX)
}

fn capacity_bytes(params: &CaseParams) -> usize {
    params.number(CAPACITY.name).unwrap_or(DEFAULT_BYTES.max(needed_bytes(params)))
}

pub(super) struct Sender {
    publisher: Publisher,
    len: usize,
    _group: Group,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut room = loan(&mut self.publisher, self.len)?;
        write(room.as_mut());
        room.commit()
    }

    fn facts(&self) -> Facts {
        Facts::from([("payload_bytes_max".into(), self.publisher.payload_bytes_max().to_string())])
    }
}

/// A receiver, which copies messages out.
pub(super) struct Subscribed {
    receiver: Receiver,
    _group: Group,
}

impl MulticastReceiver for Subscribed {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        match self.receiver.take()? {
            Read::Copied(bytes) => Ok(Some(bytes)),
            Read::InPlace(_) => unreachable!("this receiver copies"),
        }
    }

    fn facts(&self) -> Facts {
        Facts::from([("trust".into(), self.receiver.trust().name().into())])
    }
}
