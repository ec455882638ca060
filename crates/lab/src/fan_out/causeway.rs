//! Causeway: one publisher, and every receiver of its group reads the same bytes.
//!
//! The sender makes the group and invites each receiver over a socket of its own, and waits until all have subscribed.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;

use causeway::{Group, Policy, Published, Publisher};
use causeway_os::socket;

use super::burst;
use super::cast::{Cast, Receive, Send};
use crate::axis::{Axis, Values};
use crate::buffer::Buffer;
use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::host::Host;
use crate::link::{Link, Wait};
use crate::mechanism::causeway::{
    CAPACITY, DEFAULT_BYTES, FRAME_BYTES, Kind, MOST_BYTES, Read, Receiver, accept_invitation,
};

/// Receivers that a group can have.
const RECEIVERS_MAX: usize = 256;

const POLICY: Axis = Axis {
    name: "policy",
    default: "reliable",
    values: Values::OneOf(&["reliable", "lossy"]),
    about: "whether the publisher would wait for a receiver that is a whole log behind, or overwrite what it has not read",
};

/// A group of one publisher.
#[derive(Debug)]
pub(super) struct Causeway<K>(PhantomData<K>);

impl<K: Kind> Cast for Causeway<K> {
    const ID: &'static str = K::ID;
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = &[Wait::SpinBlock, Wait::Block, Wait::Epoll, Wait::Spin, Wait::Yield];
    const AXES: &'static [Axis] = &[CAPACITY, POLICY];
    type Sender = Sender;
    type Receiver = Subscribed;

    fn fit(_host: &Host, link: &Link) -> Fit {
        let (bytes, needed) = (capacity_bytes(link), needed_bytes(link));
        if needed > bytes || bytes > MOST_BYTES {
            return Fit::No(format!(
                "a burst of {} messages of {} bytes needs a log of {needed} bytes, it has {bytes}, and the largest has \
                 {MOST_BYTES}; raise it with capacity=BYTES or lower the burst",
                burst(link),
                link.payload_bytes
            ));
        }
        match super::receivers(link) > RECEIVERS_MAX {
            true => Fit::No(format!("a group has at most {RECEIVERS_MAX} receivers")),
            false => Fit::Yes,
        }
    }

    fn plan(_link: &Link, receivers: usize) -> io::Result<Vec<Handoff>> {
        let mut handoffs = vec![Handoff::default()];
        for _ in 0..receivers {
            let (near, far) = socket::seqpacket_pair()?;
            handoffs[0].fds.push(near);
            handoffs.push(Handoff::of([far]));
        }
        Ok(handoffs)
    }

    fn sender(handoff: Handoff, link: &Link) -> io::Result<Sender> {
        let options = K::options().capacity_bytes(capacity_bytes(link) as u64);
        let group = Group::create("weighbridge", options).map_err(io::Error::other)?;
        let publisher = group.publisher().map_err(io::Error::other)?;
        for meeting in &handoff.fds {
            let invitation = group.invite().map_err(io::Error::other)?;
            socket::send_with_fds(meeting, &[0], &[invitation.as_fd()])?;
        }
        for meeting in &handoff.fds {
            if socket::recv_with_fds(meeting, &mut [0], 0)?.0 == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "a receiver ended before it subscribed",
                ));
            }
        }
        let mut message = Buffer::new(link.payload_bytes)?;
        message.prefault()?;
        Ok(Sender { publisher, message, len: link.payload_bytes, _group: group })
    }

    fn receiver(mut handoff: Handoff, link: &Link) -> io::Result<Subscribed> {
        let meeting = handoff.take_fd();
        let group = accept_invitation(&meeting)?;
        let policy = if link.axis(POLICY.name) == "lossy" { Policy::Lossy } else { Policy::Reliable };
        let receiver = Receiver::new(group.subscribe(policy).map_err(io::Error::other)?, link, false)?;
        socket::send_with_fds(&meeting, &[0], &[])?;
        Ok(Subscribed { receiver, _group: group })
    }
}

/// What all messages under way need: a burst must fit four times, so that no receiver is ever a whole log behind.
fn needed_bytes(link: &Link) -> usize {
    let all = link.payload_bytes.saturating_add(FRAME_BYTES).saturating_mul(burst(link) as usize);
    all.saturating_mul(4).checked_next_power_of_two().unwrap_or(usize::MAX)
}

fn capacity_bytes(link: &Link) -> usize {
    link.number(CAPACITY.name).unwrap_or(DEFAULT_BYTES.max(needed_bytes(link)))
}

/// The publisher.
#[derive(Debug)]
pub(super) struct Sender {
    publisher: Publisher,
    message: Buffer,
    len: usize,
    _group: Group,
}

impl Send for Sender {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.message.bytes_mut()[..self.len]
    }

    #[inline]
    fn emit(&mut self) -> io::Result<()> {
        let message = &self.message.bytes()[..self.len];
        match self.publisher.publish_within(message, None).map_err(io::Error::other)? {
            Published::At(_) => Ok(()),
            Published::Full => Err(io::Error::other("a publisher that waits without end found the log full")),
        }
    }

    fn facts(&self) -> Facts {
        Facts::from([("payload_bytes_max".into(), self.publisher.payload_bytes_max().to_string())])
    }
}

/// A receiver, which copies messages out.
#[derive(Debug)]
pub(super) struct Subscribed {
    receiver: Receiver,
    _group: Group,
}

impl Receive for Subscribed {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        match self.receiver.take()? {
            Read::Copied(bytes) => Ok(Some(bytes)),
            Read::InPlace(_) => unreachable!("this receiver copies"),
        }
    }
}
