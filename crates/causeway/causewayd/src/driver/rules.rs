//! Match rules, of members and of monitors.

use causeway_dbus_wire::rule::{MAX_RULE_BYTES, MatchRule};
use causeway_dbus_wire::wire::Body;

use super::request::{Answer, Refusal, Request, refused, reply};
use crate::bus::Bus;
use crate::error;
use crate::quota::Resource;

fn rule(text: &str) -> Result<MatchRule, Refusal> {
    if text.len() > MAX_RULE_BYTES {
        let why = format!("a match rule has at most {MAX_RULE_BYTES} bytes, not {}", text.len());
        return refused(error::LIMITS_EXCEEDED, why);
    }
    text.parse().map_err(|why| Refusal(error::MATCH_RULE_INVALID, why))
}

fn charge(bus: &mut Bus, request: Request<'_>, rules: u64) -> Result<(), Refusal> {
    let charged = bus.charge(request.from, Resource::Matches, rules);
    charged.map_err(|limit| Refusal(error::LIMITS_EXCEEDED, limit.to_string()))
}

pub fn add_match(bus: &mut Bus, request: Request<'_>) -> Answer {
    let rule = rule(request.text(0))?;
    if rule.eavesdrop && !bus.is_privileged(request.from) {
        return refused(error::ACCESS_DENIED, "messages to others are reserved to the user of this bus");
    }
    charge(bus, request, 1)?;
    if let Some(rule) = bus.matches.add(request.from, rule) {
        bus.rule_added(request.from, rule);
    }
    Ok(Some(Body::default()))
}

pub fn remove_match(bus: &mut Bus, request: Request<'_>) -> Answer {
    if !bus.matches.remove(request.from, &rule(request.text(0))?) {
        return refused(error::MATCH_RULE_NOT_FOUND, "this connection has no such rule");
    }
    bus.release(request.from, Resource::Matches, 1);
    bus.rule_removed(request.from);
    Ok(Some(Body::default()))
}

pub fn become_monitor(bus: &mut Bus, request: Request<'_>) -> Answer {
    if request.number(1) != 0 {
        return refused(error::INVALID_ARGS, "the flags must be 0");
    }
    if bus.is_native(request.from) {
        return refused(error::NOT_SUPPORTED, "a native member monitors the bus by reading its order log");
    }
    let mut wanted: Vec<MatchRule> = request.texts().into_iter().map(rule).collect::<Result<_, _>>()?;
    if wanted.is_empty() {
        wanted.push(MatchRule::default());
    }
    let held = bus.quota.held(request.from, Resource::Matches);
    charge(bus, request, (wanted.len() as u64).saturating_sub(held))?;
    reply(bus, request, Body::default());
    bus.make_monitor(request.from);
    for rule in wanted {
        // A monitor sees what is for others.
        bus.monitors.add(request.from, MatchRule { eavesdrop: true, ..rule });
    }
    Ok(None)
}
