//! Whether messages arrive: all, once, unchanged, soon, and only where they should.

use std::collections::HashMap;
use std::time::Instant;

use causeway_bus::client::Error;
use causeway_dbus_wire::wire::{Endian, FLAG_NO_REPLY_EXPECTED, Header};

use crate::client::{Client, Message, PATIENCE, blob, broadcast, call};
use crate::flood::{Arrivals, Flood};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Delivery";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "loss", loss)
        .asks("Does a receiver that keeps reading get every broadcast?")
        .practice("nothing in the protocol lets a receiver notice a loss"),
    Property::new(GROUP, "duplication", duplication)
        .asks("Does a receiver get each broadcast once?")
        .practice("nothing in the protocol lets a receiver notice a repetition"),
    Property::new(GROUP, "content", content)
        .asks("Do header fields and bodies of 0 B to 4 MiB arrive unchanged, in both byte orders?")
        .specification("Marshaling"),
    Property::new(GROUP, "promptness", promptness)
        .asks("Does a message arrive within 200 ms though no other follows it?")
        .practice("a bus that holds messages back delays every program"),
    Property::new(GROUP, "directed-signal", directed_signal)
        .asks("Does a signal with a destination reach that connection without a rule, and no other with one?")
        .specification("Message Bus Message Routing"),
];

const FLOOD: Flood = Flood { senders: 2, receivers: 4, has_monitor: false, is_mixed: false, messages: 800 };

fn loss(bus: &Bus<'_>) -> Answer {
    let runs = FLOOD.run(bus)?;
    let lost: usize = counts(&runs).map(|seen| FLOOD.senders * FLOOD.messages as usize - seen.len()).sum();
    let found = (lost > 0).then(|| format!("{lost} deliveries are missing: {}", FLOOD.words(&runs)));
    Ok(Seen::unless(found, FLOOD.words(&runs)))
}

fn duplication(bus: &Bus<'_>) -> Answer {
    let runs = FLOOD.run(bus)?;
    let more: usize = counts(&runs).flat_map(|seen| seen.into_values().map(|count| count - 1)).sum();
    let found = (more > 0).then(|| format!("{more} deliveries were repeated: {}", FLOOD.words(&runs)));
    Ok(Seen::unless(found, FLOOD.words(&runs)))
}

/// For each receiver of each run: how many times each message came.
fn counts(runs: &[Arrivals]) -> impl Iterator<Item = HashMap<(u32, u32), usize>> + '_ {
    runs.iter().flat_map(|run| &run.by_receiver).map(|arrivals| {
        let mut seen = HashMap::new();
        for arrival in arrivals {
            *seen.entry(arrival.id()).or_default() += 1;
        }
        seen
    })
}

fn content(bus: &Bus<'_>) -> Answer {
    const SIZES: &[usize] = &[0, 1, 7, 8, 9, 255, 4_095, 4_096, 65_535, 65_536, 1 << 20, 4 << 20];
    let [mut sender, mut receiver] = Client::several(bus)?;
    let to = receiver.name();
    let mut number = 0;
    let mut changed = Vec::new();
    for endian in [Endian::Little, Endian::Big] {
        for size in SIZES {
            number += 1;
            let message =
                call(&to, "Content").flags(FLAG_NO_REPLY_EXPECTED).body(blob(endian, number, *size));
            let serial = sender.send(&message)?;
            let bytes = message.build(serial).expect("a message of 4 MiB is not too long");
            let sent = Header::parse(&bytes).map_err(Error::Protocol)?;
            let Some(got) = receiver.wait_for(PATIENCE, Message::is_ours)? else {
                changed.push(format!("{size} bytes did not arrive"));
                continue;
            };
            if (Header { sender: None, header_bytes: sent.header_bytes, ..got.header() }) != sent {
                changed.push(format!("the header of a message with {size} bytes"));
            }
            if got.body() != &bytes[sent.header_bytes..] {
                changed.push(format!("the body of {size} bytes"));
            }
        }
    }
    let found = (!changed.is_empty()).then(|| format!("changed: {}", changed.join(", ")));
    Ok(Seen::unless(found, format!("{number} calls in two byte orders")))
}

/// The median decides: a busy machine delays some messages, a bus that waits for the next message delays each.
fn promptness(bus: &Bus<'_>) -> Answer {
    const TIMES: usize = 9;
    const LIMIT_MS: f64 = 200.0;
    let mut sender = Client::open(bus)?;
    let mut receiver = Client::listening(bus, &[sender.unique_name()])?;
    let mut times_ms = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        sender.send(&broadcast("Alone"))?;
        let came = receiver.wait_for(PATIENCE / 10, Message::is_ours)?;
        times_ms.push(if came.is_some() { start.elapsed().as_secs_f64() * 1e3 } else { f64::INFINITY });
    }
    times_ms.sort_by(f64::total_cmp);
    let (median, most) = (times_ms[TIMES / 2], times_ms[TIMES - 1]);
    let evidence = format!("{TIMES} messages alone: median {median:.2} ms, longest {most:.2} ms");
    Ok(Seen::unless((median > LIMIT_MS).then(|| evidence.clone()), evidence))
}

fn directed_signal(bus: &Bus<'_>) -> Answer {
    let [mut sender, mut meant] = Client::several(bus)?;
    let mut other = Client::listening(bus, &[sender.unique_name()])?;
    sender.send(&broadcast("Directed").destination(meant.unique_name()))?;
    sender.barrier()?;
    let (meant, other) = (meant.collect_ours()?.len(), other.collect_ours()?.len());
    let found = ((meant, other) != (1, 0)).then(|| {
        format!("the destination got it {meant} times, a connection with a matching rule {other} times")
    });
    Ok(Seen::unless(found, "one signal, one connection with a matching rule that is not its destination"))
}
