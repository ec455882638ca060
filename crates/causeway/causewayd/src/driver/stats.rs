//! `org.freedesktop.DBus.Debug.Stats`

use std::time::Duration;

use causeway_dbus_wire::wire::Marshal;

use super::request::{Answer, Request, no_owner};
use crate::bus::Bus;
use crate::member::Stage;
use crate::quota::Resource;

/// A number that does not fit a `u` is the greatest.
fn entry(out: &mut Marshal, name: &str, number: u64) {
    out.entry(name, "u", |out| out.u32(u32::try_from(number).unwrap_or(u32::MAX)));
}

pub fn of_bus(bus: &mut Bus, _: Request<'_>) -> Answer {
    let stages = |stage| bus.members.values().filter(|member| member.stage == stage).count() as u64;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let quota = &bus.quota;
    let entries = [
        ("Serial", u64::from(bus.serial)),
        ("ActiveConnections", stages(Stage::Active)),
        ("IncompleteConnections", stages(Stage::New)),
        ("Monitors", stages(Stage::Monitor)),
        ("BusNames", quota.held_by_all(Resource::Names)),
        ("PeakBusNames", quota.peak_of_all(Resource::Names)),
        ("PeakBusNamesPerConnection", quota.member_peak(Resource::Names)),
        ("MatchRules", quota.held_by_all(Resource::Matches)),
        ("PeakMatchRules", quota.peak_of_all(Resource::Matches)),
        ("PeakMatchRulesPerConnection", quota.member_peak(Resource::Matches)),
        ("OutgoingBytes", quota.held_by_all(Resource::Bytes)),
        ("OutgoingFDs", quota.held_by_all(Resource::Descriptors)),
        ("PendingReplies", quota.held_by_all(Resource::Calls)),
        ("ServicesStarting", bus.starts.len() as u64),
        ("MessagesAccepted", bus.counters.accepted),
        ("MessagesDelivered", bus.counters.delivered),
        ("ConnectionsEndedForNotReading", bus.counters.stalled),
        ("PeakTurnMicroseconds", microseconds(bus.counters.longest_turn)),
        ("PeakTurnCPUMicroseconds", microseconds(bus.counters.longest_turn_cpu)),
    ];
    let mut out = Marshal::default();
    out.array(8, |out| entries.iter().for_each(|(name, number)| entry(out, name, *number)));
    Ok(Some(out.into_body("a{sv}")))
}

/// What a connection holds, by the names of D-Bus.
const OF_CONNECTION: [(&str, Resource); 6] = [
    ("MatchRules", Resource::Matches),
    ("BusNames", Resource::Names),
    ("IncomingBytes", Resource::Incoming),
    ("OutgoingBytes", Resource::Bytes),
    ("OutgoingFDs", Resource::Descriptors),
    ("PendingReplies", Resource::Calls),
];

pub fn of_connection(bus: &mut Bus, request: Request<'_>) -> Answer {
    let Some(id) = bus.resolve(request.text(0)) else { return no_owner(request.text(0)) };
    let mut out = Marshal::default();
    out.array(8, |out| {
        out.entry("UniqueName", "s", |out| out.text(&id.unique_name()));
        for (name, resource) in OF_CONNECTION {
            entry(out, name, bus.quota.held(id, resource));
            entry(out, &format!("Peak{name}"), bus.quota.peak(id, resource));
        }
    });
    Ok(Some(out.into_body("a{sv}")))
}

pub fn all_match_rules(bus: &mut Bus, _: Request<'_>) -> Answer {
    let mut out = Marshal::default();
    out.array(8, |out| {
        for (id, member) in bus.members.iter().filter(|(_, member)| member.stage == Stage::Active) {
            let rules = bus.matches.of(*id);
            let mut rules: Vec<String> =
                rules.flat_map(|(rule, count)| (0..count).map(|_| rule.to_string())).collect();
            rules.sort_unstable();
            out.align(8);
            out.text(&member.name);
            out.texts(rules.iter().map(String::as_str));
        }
    });
    Ok(Some(out.into_body("a{sas}")))
}
