//! Who a message is from.

use causeway_bus::client::Error;
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Body, Builder, Kind};

use crate::client::{Client, PATIENCE, broadcast, call, rule, unless_closed};
use crate::flood::Flood;
use crate::property::{Bus, Property, Seen};

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

fn true_sender(bus: &Bus<'_>) -> Result<Seen, Error> {
    let flood = Flood { senders: 3, receivers: 2, has_monitor: false, messages: 300 };
    let runs = flood.run(bus)?;
    let all = runs.iter().flat_map(|run| &run.by_receiver).flatten();
    let wrong = all.filter(|arrival| !arrival.has_true_sender).count();
    let found =
        (wrong > 0).then(|| format!("{wrong} messages name another connection: {}", flood.words(&runs)));
    Ok(Seen::unless(found, flood.words(&runs)))
}

fn forged_sender(bus: &Bus<'_>) -> Result<Seen, Error> {
    let victim = Client::open(bus)?;
    claim(bus, &victim.name())
}

fn forged_driver(bus: &Bus<'_>) -> Result<Seen, Error> {
    claim(bus, DRIVER)
}

/// Sends a signal that names another sender.
fn claim(bus: &Bus<'_>, claimed: &str) -> Result<Seen, Error> {
    let mut forger = Client::open(bus)?;
    let name = forger.name();
    let mut receiver = Client::listening(bus, &[&name, claimed])?;
    forger.send(&broadcast("Forged").sender(claimed))?;
    let is_connected = unless_closed(forger.is_connected())?.unwrap_or(false);
    let got = receiver.collect_ours()?;
    let evidence = format!("{name} sends as {claimed}");
    Ok(match got.first().and_then(|message| message.header().sender.map(str::to_owned)) {
        Some(sender) if sender == name => {
            Seen::fine("corrected", format!("{evidence}; it arrives as {sender}"))
        }
        Some(sender) => Seen::broken("forged", format!("{evidence}; it arrives as {sender}")),
        None if !is_connected => Seen::fine("disconnected", format!("{evidence}, and is disconnected")),
        None => Seen::fine("discarded", format!("{evidence}; nothing arrives")),
    })
}

fn forged_reply(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut caller = Client::open(bus)?;
    let mut callee = Client::open(bus)?;
    let mut third = Client::open(bus)?;
    let caller_name = caller.name();
    callee.add_rule(&rule(&caller_name))?;
    let serial = caller.send(&call(&callee.name(), "Question"))?;
    callee.wait_for(PATIENCE, |message| message.header().kind == Kind::MethodCall)?;
    third.send(&Builder::reply(serial).destination(&caller_name).body(Body::default().text("forged")))?;
    let third_connected = unless_closed(third.is_connected())?.unwrap_or(false);
    callee.send(&Builder::reply(serial).destination(&caller_name).body(Body::default().text("true")))?;
    callee.barrier()?;
    let all = caller.collect()?;
    let texts: Vec<&str> = all
        .iter()
        .filter(|message| message.header().reply_serial == Some(serial))
        .flat_map(|message| message.texts())
        .collect();
    Ok(match (texts.contains(&"forged"), third_connected) {
        (true, _) => Seen::broken("delivered", format!("the caller got {texts:?}")),
        (false, true) => Seen::fine("discarded", format!("the caller got {texts:?}")),
        (false, false) => {
            Seen::fine("disconnected", format!("the caller got {texts:?}, and the forger is disconnected"))
        }
    })
}
