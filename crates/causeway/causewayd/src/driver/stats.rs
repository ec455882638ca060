//! `org.freedesktop.DBus.Debug.Stats`

use std::time::Duration;

use causeway_dbus_wire::wire::Marshal;

use super::request::{Answer, Request, no_owner};
use crate::bus::Bus;
use crate::member::Stage;
use crate::quota::Resource;

/// An `a{sv}` of numbers; those that do not fit a `u` are its greatest.
fn numbers(entries: &[(&str, u64)]) -> Marshal {
    let mut out = Marshal::default();
    out.array(8, |out| {
        for (name, number) in entries {
            out.entry(name, "u", |out| out.u32(u32::try_from(*number).unwrap_or(u32::MAX)));
        }
    });
    out
}

pub fn of_bus(bus: &mut Bus, _: Request<'_>) -> Answer {
    let stages = |stage| bus.members.values().filter(|member| member.stage == stage).count() as u64;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let held = |resource| bus.quota.held_by_all(resource);
    let entries = [
        ("Serial", u64::from(bus.last_serial())),
        ("ActiveConnections", stages(Stage::Active)),
        ("IncompleteConnections", stages(Stage::New)),
        ("Monitors", stages(Stage::Monitor)),
        ("BusNames", held(Resource::Names)),
        ("PeakBusNames", bus.quota.peak_of_all(Resource::Names)),
        ("PeakBusNamesPerConnection", bus.quota.member_peak(Resource::Names)),
        ("MatchRules", held(Resource::Matches)),
        ("PeakMatchRules", bus.quota.peak_of_all(Resource::Matches)),
        ("PeakMatchRulesPerConnection", bus.quota.member_peak(Resource::Matches)),
        ("OutgoingBytes", held(Resource::Bytes)),
        ("OutgoingFDs", held(Resource::Descriptors)),
        ("PendingReplies", held(Resource::Calls)),
        ("ServicesStarting", bus.starts.len() as u64),
        ("MessagesAccepted", bus.counters.accepted),
        ("MessagesDelivered", bus.counters.delivered),
        ("ConnectionsEndedForNotReading", bus.counters.stalled),
        ("PeakTurnMicroseconds", microseconds(bus.counters.longest_turn)),
        ("PeakTurnCPUMicroseconds", microseconds(bus.counters.longest_turn_cpu)),
    ];
    Ok(Some(numbers(&entries).into_body("a{sv}")))
}

/// What a connection holds, by the names of D-Bus, each with its peak.
const OF_CONNECTION: [([&str; 2], Resource); 6] = [
    (["MatchRules", "PeakMatchRules"], Resource::Matches),
    (["BusNames", "PeakBusNames"], Resource::Names),
    (["IncomingBytes", "PeakIncomingBytes"], Resource::Incoming),
    (["OutgoingBytes", "PeakOutgoingBytes"], Resource::Bytes),
    (["OutgoingFDs", "PeakOutgoingFDs"], Resource::Descriptors),
    (["PendingReplies", "PeakPendingReplies"], Resource::Calls),
];

pub fn of_connection(bus: &mut Bus, request: Request<'_>) -> Answer {
    let Some(id) = bus.resolve(request.text(0)) else { return no_owner(request.text(0)) };
    let mut out = Marshal::default();
    out.array(8, |out| {
        out.entry("UniqueName", "s", |out| out.text(&id.unique_name()));
        for (names, resource) in OF_CONNECTION {
            for (name, number) in
                names.into_iter().zip([bus.quota.held(id, resource), bus.quota.peak(id, resource)])
            {
                out.entry(name, "u", |out| out.u32(u32::try_from(number).unwrap_or(u32::MAX)));
            }
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
