//! Who a message is from.

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Body, Builder};

use crate::client::{Client, Message, PATIENCE, broadcast, call};
use crate::flood::Flood;
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Senders";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "true-sender", true_sender)
        .asks("Does every message name the connection that sent it?")
        .specification("Header Fields"),
    Property::new(GROUP, "forged-sender", forged_sender)
        .asks("What becomes of a message that claims another sender?")
        .specification("Header Fields"),
    Property::new(GROUP, "forged-driver", forged_driver)
        .asks("What becomes of a message that claims to be of the driver?")
        .specification("Header Fields"),
    Property::new(GROUP, "forged-reply", forged_reply)
        .asks("Does a caller get a reply that a third connection sends?")
        .practice("callers compare serials and not senders"),
];

fn true_sender(bus: &Bus<'_>) -> Answer {
    let flood = Flood { senders: 3, receivers: 2, has_monitor: false, is_mixed: false, messages: 300 };
    let runs = flood.run(bus)?;
    let all = runs.iter().flat_map(|run| &run.by_receiver).flatten();
    let wrong = all.filter(|arrival| !arrival.has_true_sender).count();
    let found =
        (wrong > 0).then(|| format!("{wrong} messages name another connection: {}", flood.words(&runs)));
    Ok(Seen::unless(found, flood.words(&runs)))
}

fn forged_sender(bus: &Bus<'_>) -> Answer {
    claim(bus, Client::open(bus)?.unique_name())
}

fn forged_driver(bus: &Bus<'_>) -> Answer {
    claim(bus, DRIVER)
}

/// Sends a signal that names another sender.
fn claim(bus: &Bus<'_>, claimed: &str) -> Answer {
    let mut forger = Client::open(bus)?;
    let name = forger.name();
    let mut receiver = Client::listening(bus, &[&name, claimed])?;
    forger.send(&broadcast("Forged").sender(claimed))?;
    let is_connected = forger.is_connected()?;
    let got = receiver.collect_ours()?;
    let evidence = format!("{name} sends as {claimed}");
    Ok(match got.first().and_then(|message| message.header().sender) {
        Some(sender) if sender == name => {
            Seen::fine("corrected", format!("{evidence}; it arrives as {sender}"))
        }
        Some(sender) => Seen::broken("forged", format!("{evidence}; it arrives as {sender}")),
        None if !is_connected => Seen::fine("disconnected", format!("{evidence}, and is disconnected")),
        None => Seen::fine("discarded", format!("{evidence}; nothing arrives")),
    })
}

fn forged_reply(bus: &Bus<'_>) -> Answer {
    let [mut caller, mut callee, mut third] = Client::several(bus)?;
    let serial = caller.send(&call(callee.unique_name(), "Question"))?;
    callee.wait_for(PATIENCE, Message::is_call)?;
    let reply = |text| Builder::reply(serial).body(Body::default().text(text));
    third.send(&reply("forged").destination(caller.unique_name()))?;
    let is_connected = third.is_connected()?;
    callee.send(&reply("true").destination(caller.unique_name()))?;
    callee.barrier()?;
    let all = caller.collect()?;
    let answers = all.iter().filter(|message| message.answers(serial));
    let texts: Vec<&str> = answers.flat_map(Message::texts).collect();
    let forged = texts.iter().filter(|text| **text == "forged").count();
    let is_out = forged == 0 && !is_connected;
    let end = if is_out { ", and the forger is disconnected" } else { "" };
    Ok(Seen::fate(forged, is_connected, format!("the caller got {texts:?}{end}")))
}
