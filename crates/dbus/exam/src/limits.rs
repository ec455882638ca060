//! Limits, and what grows before they are reached. Private buses only.

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Builder};
use weighbridge_probe::counters::ProcessCounters;

use crate::client::{Client, INTERFACE, PATIENCE, broadcast, rule, short, unless_closed};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Limits";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "rule-limit", rule_limit)
        .asks("What becomes of a connection that adds 12,000 rules?")
        .private(),
    Property::new(GROUP, "other-rules-with-sender", with_sender)
        .asks("Does a broadcast cost the bus more when a connection has 8,192 rules for another sender?")
        .private(),
    Property::new(GROUP, "other-rules-without-sender", without_sender)
        .asks("Does a broadcast cost the bus more when a connection has 8,192 rules without a sender for other members?")
        .private(),
];

/// Adds rules without waiting for each; the errors that came back.
fn add_rules(
    client: &mut Client,
    count: usize,
    rule: impl Fn(usize) -> String,
) -> Result<Vec<String>, Error> {
    const BATCH: usize = 100;
    let mut errors = Vec::new();
    for start in (0..count).step_by(BATCH) {
        let batch = start..count.min(start + BATCH);
        for number in batch.clone() {
            client.send(&Builder::of_driver("AddMatch").body(Body::default().text(&rule(number))))?;
        }
        for _ in batch {
            let answer = client.wait_for(PATIENCE, |message| message.header().reply_serial.is_some())?;
            errors.extend(answer.ok_or(Error::TimedOut)?.error());
        }
    }
    Ok(errors)
}

fn rule_limit(bus: &Bus<'_>) -> Answer {
    const RULES: usize = 12_000;
    let rule = |number| format!("interface='{INTERFACE}',member='M{number}'");
    let Some(errors) = unless_closed(add_rules(&mut Client::open(bus)?, RULES, rule))? else {
        return Ok(Seen::fine("disconnected", format!("before {RULES} rules were there")));
    };
    Ok(match errors.first() {
        None => Seen::fine("accepted", format!("{RULES} rules")),
        Some(error) => {
            Seen::fine(short(error), format!("{} of {RULES} rules are accepted", RULES - errors.len()))
        }
    })
}

fn with_sender(bus: &Bus<'_>) -> Answer {
    let third = Client::open(bus)?;
    growth(bus, |number| format!("{},member='Other{number}'", rule(third.unique_name())))
}

fn without_sender(bus: &Bus<'_>) -> Answer {
    growth(bus, |number| format!("type='signal',interface='{INTERFACE}',member='Other{number}'"))
}

/// CPU time of a broadcast that no connection gets, without and with rules of another connection.
fn growth(bus: &Bus<'_>, rule: impl Fn(usize) -> String) -> Answer {
    const RULES: usize = 8_192;
    /// Well between what an index costs and what a list costs.
    const GROWS: f64 = 2.0;
    let [mut sender, mut other] = Client::several(bus)?;
    let before = cost_ns(bus, &mut sender)?;
    let errors = add_rules(&mut other, RULES, rule)?;
    if let Some(error) = errors.first() {
        return Ok(Seen::fine(short(error), format!("{} of {RULES} rules are refused", errors.len())));
    }
    let after = cost_ns(bus, &mut sender)?;
    let [before_us, after_us] = [before, after].map(|ns| ns / 1e3);
    let evidence =
        format!("{before_us:.1} µs of CPU time for a broadcast, {after_us:.1} µs with {RULES} rules");
    Ok(Seen::fine(if after > GROWS * before { "grows" } else { "does not grow" }, evidence))
}

/// CPU time of the bus for each of many broadcasts, in ns.
fn cost_ns(bus: &Bus<'_>, sender: &mut Client) -> Result<f64, Error> {
    const TIMES: u32 = 1_000;
    let pid = bus.private_pid.expect("this property needs a private bus");
    let mut process = ProcessCounters::open(pid).map_err(std::io::Error::from)?;
    let mut cpu_ns_after = |times| {
        for _ in 0..times {
            sender.send(&broadcast("Nobody"))?;
        }
        sender.barrier()?;
        Ok::<_, Error>(process.read().map_err(std::io::Error::from)?.cpu_ns)
    };
    let start = cpu_ns_after(TIMES / 10)?;
    Ok((cpu_ns_after(TIMES)? - start) as f64 / f64::from(TIMES))
}
