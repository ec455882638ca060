//! Fan-out: one sender, many receivers.
//!
//! Measures what it takes until the last of many receivers has a message: a burst is sent to all, and the next one when
//! every receiver has acknowledged it. The acknowledgement is one atomic addition for each receiver and one wake-up of the
//! sender for each burst; it is part of the time, and `noop` shows what of it is not the wake-up. Two looks at the clock a
//! burst tell the sender's share. It cannot show the throughput of senders that do not wait.
//!
//! With `burst=10` and the sender's nice value (`nice=-15:0`) these are the experiments of a D-Bus daemon that sends one
//! signal to ten recipients: 12 context switches a signal with its client, 22 where the daemon is preempted after each.

mod acks;
mod cast;
mod causeway;
mod group;
mod message;
mod netlink;
mod noop;
mod receiver;
mod ring;
mod room;
mod sender;
mod tee;
mod udp;
mod unicast;

use std::io;

use weighbridge_record::PerOp;

use crate::axis::{Axis, Values};
use crate::board::Board;
use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::ctx::Ctx;
use crate::descriptors;
use crate::host::Host;
use crate::link::{Link, Wait};
use crate::pattern::{Info, Unit};
use crate::shape;
use crate::shared::Step;
use crate::subject::{Prepared, Subject};
pub use cast::{Cast, Receive, Send, pairs};

use crate::mechanism::causeway::{ManyWriters, OneWriter};

/// Everything that reaches many.
pub const ALL: &[Subject] = &[
    Subject {
        id: "noop",
        about: "the harness itself: touching, clock and acknowledgements, all by the sender",
        caps: Caps::HARNESS,
        fit: |_, _| Fit::Yes,
        plan: |_, link| Ok((0..=receivers(link)).map(|_| Handoff::default()).collect()),
        drive: |_, _, link, cx| noop::drive(link, cx),
        ..subject::<ring::Ring>()
    },
    subject::<unicast::UnixStream>(),
    subject::<unicast::UnixSeqpacket>(),
    subject::<udp::UdpMulticast>(),
    subject::<netlink::NetlinkMulticast>(),
    subject::<tee::PipeTee>(),
    subject::<ring::Ring>(),
    subject::<causeway::Causeway<OneWriter>>(),
    subject::<causeway::Causeway<ManyWriters>>(),
];

/// The entry of a way to reach many.
pub const fn subject<C: Cast>() -> Subject {
    Subject {
        id: C::ID,
        about: C::ABOUT,
        caps: C::CAPS,
        waits: C::WAITS,
        axes: C::AXES,
        patterns: &[FAN_OUT],
        fit: fit::<C>,
        plan: plan::<C>,
        drive: drive::<C>,
        shape,
    }
}

const FAN_OUT: Info = Info {
    id: "fan-out",
    about: "one sender, many receivers: time until the last of them has a message",
    needs: Caps::NONE,
    roles: |link| std::iter::once("sender").chain(std::iter::repeat_n("receiver", receivers(link))).collect(),
    axes: &[RECEIVERS, BURST],
    unit: Unit::NanosPer("message"),
    is_symmetric: false,
};

const RECEIVERS: Axis = Axis {
    name: "receivers",
    default: "10",
    values: Values::AtLeast(1),
    about: "number of receivers; all get every message",
};
const BURST: Axis = Axis {
    name: "burst",
    default: "1",
    values: Values::AtLeast(1),
    about: "messages that are sent before the sender waits until all receivers have them",
};

/// Messages that are checked byte by byte before anything is timed.
const VERIFIED: u64 = 16;
/// Of each role, in the coordinator: process, control socket, board, and what the mechanism has.
const FDS_OF_A_ROLE: usize = 8;
const OTHER_FDS: usize = 64;

/// How many receivers a case has.
///
/// # Panics
/// If it is no case of this family.
pub fn receivers(link: &Link) -> usize {
    link.number(RECEIVERS.name).expect("the axis takes nothing but numbers")
}

/// How many messages are sent before the sender waits.
///
/// # Panics
/// If it is no case of this family.
pub fn burst(link: &Link) -> u64 {
    link.number(BURST.name).expect("the axis takes nothing but numbers") as u64
}

fn fit<C: Cast>(host: &Host, link: &Link) -> Fit {
    if link.payload_bytes < message::least_bytes(C::CAPS) {
        return Fit::No(format!(
            "a message of {} carries at least {} bytes, to be told from the next one",
            C::ID,
            message::least_bytes(C::CAPS)
        ));
    }
    let receivers = receivers(link);
    match descriptors::fit((receivers + 1) * FDS_OF_A_ROLE + OTHER_FDS, &format!("{receivers} receivers")) {
        Fit::Yes => C::fit(host, link),
        no => no,
    }
}

fn plan<C: Cast>(_host: &Host, link: &Link) -> io::Result<Vec<Handoff>> {
    let receivers = receivers(link);
    let board = Board::create(acks::lines(receivers))?;
    let mut handoffs = C::plan(link, receivers)?;
    for handoff in &mut handoffs {
        handoff.fds.insert(0, board.try_clone()?);
    }
    Ok(handoffs)
}

fn drive<C: Cast>(_pattern: &str, mut handoff: Handoff, link: &Link, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let receivers = receivers(link);
    let board = Board::open(handoff.take_fd(), acks::lines(receivers))?;
    match cx.role {
        0 => sender::drive(C::sender(handoff, link)?, C::CAPS, &board, link, cx),
        role => receiver::drive(C::receiver(handoff, link)?, C::CAPS, role, &board, link, cx),
    }
}

/// A message to sleeping receivers on one CPU wakes each of them, and the last of them the sender.
fn shape(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let mut odd: Vec<String> = shape::faulted(per_op.minor_faults).into_iter().collect();
    let (switches, receivers) =
        (per_op.voluntary_switches + per_op.involuntary_switches, receivers(&case.link) as f64);
    let sleeps = !matches!(case.link.wait, Wait::Spin | Wait::Yield);
    if sleeps && case.link.same_cpu() && burst(&case.link) == 1 {
        let least = receivers + 1.0;
        if switches < 0.9 * least {
            odd.push(format!(
                "{switches:.1} context switches a message on one CPU, where {receivers} receivers and the sender need {least}"
            ));
        } else if switches > 1.5 * least {
            odd.push(format!(
                "{switches:.1} context switches a message on one CPU, where {least} suffice: receivers run before all \
                 of them were sent to"
            ));
        }
    }
    odd
}
