//! BecomeMonitor.

use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::Body;

use super::request::{Answer, Refusal, Request, refused, reply};
use super::rules;
use crate::bus::Bus;
use crate::error;
use crate::quota::Resource;

pub fn become_monitor(bus: &mut Bus, request: Request<'_>) -> Answer {
    if request.number(1) != 0 {
        return refused(error::INVALID_ARGS, "the flags must be 0");
    }
    if bus.is_native(request.from) {
        return refused(error::NOT_SUPPORTED, "a native member monitors the bus by reading its order log");
    }
    let texts = request.texts();
    let mut wanted: Vec<MatchRule> =
        texts.iter().map(|text| rules::rule(text)).collect::<Result<_, Refusal>>()?;
    if wanted.is_empty() {
        wanted.push(MatchRule::default());
    }
    let uid = bus.members[&request.from].identity.credentials.uid;
    let held = bus.quota.held(request.from, Resource::Matches);
    let more = (wanted.len() as u64).saturating_sub(held);
    if !bus.quota.charge(request.from, uid, Resource::Matches, more) {
        return refused(error::LIMITS_EXCEEDED, "this connection or its user has too many match rules");
    }
    reply(bus, request, Body::default());
    bus.make_monitor(request.from);
    for rule in wanted {
        // A monitor sees what is for others.
        bus.monitors.add(request.from, MatchRule { eavesdrop: true, ..rule });
    }
    Ok(None)
}
