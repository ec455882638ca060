//! Match rules, of members and of monitors.

use std::rc::Rc;

use causeway_dbus_wire::rule::{MatchRule, RULE_BYTES_MAX};
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};

use super::request::{Answer, Refusal, Request, refused};
use crate::bus::{Bus, PARTS, Work};
use crate::error;
use crate::member::MemberId;
use crate::message::Message;
use crate::quota::Resource;

fn rule(text: &str) -> Result<MatchRule, Refusal> {
    if text.len() > RULE_BYTES_MAX {
        // How many it has is not known: of a long text no more than its beginning was read.
        let why = format!("a match rule has at most {RULE_BYTES_MAX} bytes, and this one more");
        return refused(error::LIMITS_EXCEEDED, why);
    }
    text.parse().map_err(|why| Refusal(error::MATCH_RULE_INVALID, why))
}

fn charge(bus: &mut Bus, member: MemberId, rules: u64) -> Result<(), Refusal> {
    let charged = bus.charge(member, Resource::Matches, rules);
    charged.map_err(|limit| Refusal(error::LIMITS_EXCEEDED, limit.to_string()))
}

pub fn add_match(bus: &mut Bus, request: Request<'_>) -> Answer {
    let rule = rule(request.text(0))?;
    if rule.eavesdrop && !bus.is_privileged(request.from) {
        return refused(error::ACCESS_DENIED, "messages to others are reserved to the user of this bus");
    }
    charge(bus, request.from, 1)?;
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

/// A client that becomes a monitor. Its rules, of which one call may have tens of thousands, are checked, and then added, in parts. Meanwhile
/// nothing is passed: it sees what comes behind its call.
#[derive(Debug)]
struct BecomingMonitor {
    from: MemberId,
    call: Rc<Message>,
    rules: Vec<String>,
    /// How many of them have been checked, or added.
    done: usize,
    are_checked: bool,
}

/// So many bytes of a rule that is read are one step.
const STEP_BYTES: usize = 64;
/// Steps of a rule that is added.
const ADDED: usize = 1;

pub fn become_monitor(bus: &mut Bus, request: Request<'_>) -> Answer {
    if request.number(1) != 0 {
        return refused(error::INVALID_ARGS, "the flags must be 0");
    }
    if bus.is_native(request.from) {
        return refused(error::NOT_SUPPORTED, "a native member monitors the bus by reading its order log");
    }
    let mut rules: Vec<String> = request.texts().into_iter().map(str::to_owned).collect();
    if rules.is_empty() {
        // Matches everything.
        rules.push(String::new());
    }
    let call = Rc::clone(request.routed.message);
    bus.begin(BecomingMonitor { from: request.from, call, rules, done: 0, are_checked: false });
    Ok(None)
}

impl Work for BecomingMonitor {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        if !bus.is_reachable(self.from) {
            return true;
        }
        self.part(bus).unwrap_or_else(|Refusal(name, why)| {
            bus.refuse(self.from, &self.call.header(), name, &why);
            true
        })
    }
}

impl BecomingMonitor {
    fn part(&mut self, bus: &mut Bus) -> Result<bool, Refusal> {
        for _ in 0..PARTS {
            let Some(text) = self.rules.get(self.done) else {
                if !self.are_checked {
                    (self.are_checked, self.done) = (true, 0);
                    self.answer(bus)?;
                    return Ok(false);
                }
                return Ok(true);
            };
            let rule = rule(text)?;
            let mut steps = 1 + text.len() / STEP_BYTES;
            if self.are_checked {
                // A monitor sees what is for others.
                bus.monitors.add(self.from, MatchRule { eavesdrop: true, ..rule });
                steps += ADDED;
            }
            self.done += 1;
            if !bus.step(steps) {
                break;
            }
        }
        Ok(false)
    }

    /// All rules are good: from now on it is a monitor.
    fn answer(&self, bus: &mut Bus) -> Result<(), Refusal> {
        let held = bus.quota.held(self.from, Resource::Matches);
        charge(bus, self.from, (self.rules.len() as u64).saturating_sub(held))?;
        let header = self.call.header();
        if header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
            bus.send(self.from, Builder::reply(header.serial));
        }
        bus.make_monitor(self.from);
        Ok(())
    }
}
