//! Limits, and what grows before they are reached. Private buses only.

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Body, Builder};

use crate::client::{Client, INTERFACE, PATIENCE, broadcast, short, unless_closed};
use crate::property::{Bus, Property, Seen};

const GROUP: &str = "Limits";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "rule-limit", rule_limit)
.asks("What becomes of a connection that adds 12,000 rules?").private(),
    Property::new(GROUP, "other-rules-with-sender", with_sender)
.asks("Does a broadcast cost the bus more when a connection has 8,192 rules for another sender?").private(),
    Property::new(GROUP, "other-rules-without-sender", without_sender)
.asks("Does a broadcast cost the bus more when a connection has 8,192 rules without a sender for other members?").private(),
];

/// Adds rules without waiting for each; the errors that came back.
fn add_rules(
    client: &mut Client,
    count: usize,
    rule: impl Fn(usize) -> String,
) -> Result<Vec<String>, Error> {
    const BATCH: usize = 100;
    let mut errors = Vec::new();
    let mut at = 0;
    while at < count {
        let batch = BATCH.min(count - at);
        for number in at..at + batch {
            client.send(&Builder::of_driver("AddMatch").body(Body::default().text(&rule(number))))?;
        }
        for _ in 0..batch {
            let answer = client.wait_for(PATIENCE, |message| message.header().reply_serial.is_some())?;
            let answer = answer.ok_or(Error::TimedOut)?;
            errors.extend(answer.header().error_name.map(str::to_owned));
        }
        at += batch;
    }
    Ok(errors)
}

fn rule_limit(bus: &Bus<'_>) -> Result<Seen, Error> {
    const RULES: usize = 12_000;
    let mut client = Client::open(bus)?;
    let added = unless_closed(add_rules(&mut client, RULES, |number| {
        format!("interface='{INTERFACE}',member='M{number}'")
    }))?;
    Ok(match added {
        None => Seen::fine("disconnected", format!("before {RULES} rules were there")),
        Some(errors) => match errors.first() {
            None => Seen::fine("accepted", format!("{RULES} rules")),
            Some(error) => {
                Seen::fine(short(error), format!("{} of {RULES} rules are accepted", RULES - errors.len()))
            }
        },
    })
}

fn with_sender(bus: &Bus<'_>) -> Result<Seen, Error> {
    let third = Client::open(bus)?;
    let name = third.name();
    growth(bus, |number| {
        format!("type='signal',sender='{name}',interface='{INTERFACE}',member='Other{number}'")
    })
}

fn without_sender(bus: &Bus<'_>) -> Result<Seen, Error> {
    growth(bus, |number| format!("type='signal',interface='{INTERFACE}',member='Other{number}'"))
}

/// CPU time of a broadcast that no connection gets, without and with rules of another connection.
fn growth(bus: &Bus<'_>, rule: impl Fn(usize) -> String) -> Result<Seen, Error> {
    const RULES: usize = 8_192;
    /// Well between what an index costs and what a list costs.
    const GROWS: f64 = 2.0;
    let mut sender = Client::open(bus)?;
    let mut other = Client::open(bus)?;
    let before = cost_ns(bus, &mut sender)?;
    let errors = add_rules(&mut other, RULES, rule)?;
    if let Some(error) = errors.first() {
        return Ok(Seen::fine(short(error), format!("{} of {RULES} rules are refused", errors.len())));
    }
    let after = cost_ns(bus, &mut sender)?;
    let evidence = format!(
        "{:.1} µs of CPU time for a broadcast, {:.1} µs with {RULES} rules",
        before / 1e3,
        after / 1e3
    );
    Ok(Seen::fine(if after > GROWS * before { "grows" } else { "does not grow" }, evidence))
}

/// CPU time of the bus for each of many broadcasts, in ns.
fn cost_ns(bus: &Bus<'_>, sender: &mut Client) -> Result<f64, Error> {
    const TIMES: u32 = 1_000;
    let signal = broadcast("Nobody");
    for _ in 0..TIMES / 10 {
        sender.send(&signal)?;
    }
    sender.barrier()?;
    let start = cpu_ns(bus)?;
    for _ in 0..TIMES {
        sender.send(&signal)?;
    }
    sender.barrier()?;
    Ok((cpu_ns(bus)? - start) as f64 / f64::from(TIMES))
}

/// CPU time of all threads of the bus, in ns.
fn cpu_ns(bus: &Bus<'_>) -> Result<u64, Error> {
    let pid = bus.private_pid.expect("this property needs a private bus");
    let mut all = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has just ended has no figure any more.
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        all += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(all)
}
