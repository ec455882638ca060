//! Fan-out: one sender, many receivers.
//!
//! Measures what it takes until the last of many receivers has a message: a burst is sent to all, and the next one when
//! every receiver has acknowledged it. The acknowledgement is one atomic addition for each receiver and one wake-up of the
//! sender for each burst; it is part of the time, and `noop` shows what of it is not the wake-up. Two looks at the clock a
//! burst tell the sender's share. It cannot show the throughput of senders that do not wait. With `rate` bursts are due at
//! fixed moments, as those of a source that does not wait for its receivers, and the way of each message to each receiver is
//! timed from then on.
//!
//! With `burst=10` and the sender's nice value (`nice=-15:0`) these are the experiments of a D-Bus daemon that sends one
//! signal to ten recipients: 12 context switches a signal with its client, 22 where the daemon is preempted after each.

mod acks;
mod causeway;
mod group;
mod marked;
pub(crate) mod message;
mod multicast;
mod netlink;
mod paced;
mod receiver;
mod ring;
mod sender;
mod tee;
mod udp;
mod unicast;
mod uninterested;

use rustix::event::{EventfdFlags, eventfd};
use weighbridge_harness::ctx::{self, RATE};
use weighbridge_record::PerOp;

use crate::descriptors;
use crate::many::{no_faults, number_axis};
use crate::mechanism::causeway::{ManyWriters, OneWriter};
use crate::prelude::*;
use crate::shared_counters::SharedCounters;
pub use multicast::{Multicast, MulticastReceiver, MulticastSender, pairs};
pub use uninterested::Uninterested;

/// Everything that reaches many.
pub const ALL: &[Target] = &[
    target::<ring::Ring>().harness(
        "the harness itself: touching, clock and acknowledgements, all by the sender",
        |_, _, _, cx| sender::drive_nothing(cx),
    ),
    target::<unicast::Unix<true>>(),
    target::<unicast::Unix<false>>(),
    target::<udp::UdpMulticast>(),
    target::<netlink::NetlinkMulticast>(),
    target::<tee::PipeTee>(),
    target::<ring::Ring>(),
    target::<causeway::Causeway<OneWriter>>(),
    target::<causeway::Causeway<ManyWriters>>(),
];

/// The entry of a way to reach many.
pub const fn target<C: Multicast>() -> Target {
    Target {
        id: C::ID,
        about: C::ABOUT,
        caps: C::CAPS,
        properties: |params| Some(C::properties(params)),
        waits: C::WAITS,
        axes: C::AXES,
        patterns: &[FAN_OUT],
        fit: fit::<C>,
        create: create::<C>,
        drive: |_, resources, _, cx| drive::<C>(resources, cx),
        counter_check,
        in_suites: InSuites::AtEverySize,
        environment: &[],
    }
}

const FAN_OUT: PatternInfo = PatternInfo {
    id: "fan-out",
    about: "one sender, many receivers: time until the last of them has a message",
    needs: Caps::NONE,
    roles: |params| {
        let receivers = std::iter::repeat_n("receiver", receivers(params));
        let others = std::iter::repeat_n("uninterested", uninterested::count(params));
        std::iter::once("sender").chain(receivers).chain(others).collect()
    },
    axes: &[RECEIVERS, BURST, RATE],
    unit: Unit::NanosPer("message"),
    is_symmetric: false,
};

const RECEIVERS: Axis = number_axis("receivers", "10", "number of receivers; all get every message");
const BURST: Axis =
    number_axis("burst", "1", "messages that are sent before the sender waits until all receivers have them");

/// Messages that are checked byte by byte before anything is timed.
const VERIFIED: u64 = 16;

/// How many receivers a case has.
pub fn receivers(params: &CaseParams) -> usize {
    params.count(RECEIVERS)
}

/// How many there are with those who want no message.
pub fn members(params: &CaseParams) -> usize {
    receivers(params) + uninterested::count(params)
}

/// How many messages are sent before the sender waits.
pub fn burst(params: &CaseParams) -> u64 {
    params.count(BURST) as u64
}

/// Do all receivers have a message before the next is sent? At a rate several may wait for a receiver, and the sender sleeps until one is
/// due.
pub fn is_one_at_a_time(params: &CaseParams) -> bool {
    burst(params) == 1 && ctx::rate(params).is_none()
}

fn fit<C: Multicast>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let least_bytes = message::least_bytes(C::caps(params));
    if params.payload_bytes < least_bytes {
        return Err(Unsupported(format!(
            "a message of {} carries at least {least_bytes} bytes, to be told from the next one",
            params.id.mechanism
        )));
    }
    let members = members(params);
    descriptors::fit(members + 1, 0, &format!("{members} receivers"))?;
    C::fit(host, params)
}

fn create<C: Multicast>(_host: &Host, params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let counters = SharedCounters::create(receivers(params) + 1)?;
    let mut resources_by_role = C::create(params, members(params))?;
    for resources in &mut resources_by_role {
        resources.fds.insert(0, counters.try_clone()?);
    }
    if uninterested::count(params) > 0 {
        let ended = eventfd(0, EventfdFlags::CLOEXEC)?;
        for resources in &mut resources_by_role {
            resources.fds.insert(0, ended.try_clone()?);
        }
    }
    Ok(resources_by_role)
}

fn drive<C: Multicast>(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    cx.set_step(Step::Attach);
    let receivers = receivers(params);
    let ended = (uninterested::count(params) > 0).then(|| resources.take_fd());
    let counters = SharedCounters::open(resources.take_fd(), receivers + 1)?;
    match (cx.role, ended) {
        (0, Some(ended)) => {
            let facts = drive_interested::<C>(resources, &counters, cx)?;
            rustix::io::write(&ended, &1u64.to_ne_bytes())?;
            Ok(facts)
        }
        (role, Some(ended)) if role > receivers => {
            uninterested::drive(C::uninterested(resources, params)?, ended, cx)
        }
        _ => drive_interested::<C>(resources, &counters, cx),
    }
}

fn drive_interested<C: Multicast>(
    resources: EndResources,
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
    let (caps, ahead_max) = (C::caps(params), C::ahead_max(params));
    match (cx.role, cx.marks(false)) {
        (0, None) => sender::drive(C::sender(resources, params)?, (caps, ahead_max), counters, cx),
        (0, Some(marks)) => {
            let end = marked::Sender { end: C::sender(resources, params)?, marks };
            sender::drive(end, (caps, ahead_max), counters, cx)
        }
        (_, None) => receiver::drive(C::receiver(resources, params)?, caps, counters, cx),
        (_, Some(marks)) => {
            let is_lossy = caps.has(Caps::LOSSY);
            let end = marked::Receiver { end: C::receiver(resources, params)?, marks, is_lossy };
            receiver::drive(end, caps, counters, cx)
        }
    }
}

/// A message to sleeping receivers on one CPU wakes each of them, and the last of them the sender.
pub(crate) fn counter_check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let mut anomalies = no_faults(case, per_op);
    let (switches, receivers) =
        (per_op.voluntary_switches + per_op.involuntary_switches, receivers(&case.params) as f64);
    let sleeps = !matches!(case.params.wait, Wait::Spin | Wait::Yield);
    if sleeps && case.params.same_cpu() && is_one_at_a_time(&case.params) {
        let least = receivers + 1.0;
        if switches < 0.9 * least {
            anomalies.push(format!(
                "{switches:.1} context switches a message on one CPU, where {receivers} receivers and the sender need {least}"
            ));
        } else if switches > 1.5 * least {
            anomalies.push(format!(
                "{switches:.1} context switches a message on one CPU, where {least} suffice: receivers run before all \
                 of them were sent to"
            ));
        }
    }
    anomalies
}
