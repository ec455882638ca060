//! Names and their owners.

use std::collections::HashSet;

use causeway_bus::client::Error;
use causeway_dbus_wire::driver::{ALLOW_REPLACEMENT, DO_NOT_QUEUE, NameReply, REPLACE_EXISTING};

use crate::client::{Client, Message, PATIENCE, owner_rule, well_known};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Names";

const PRIMARY_OWNER: u32 = NameReply::PrimaryOwner as u32;
const IN_QUEUE: u32 = NameReply::InQueue as u32;
const EXISTS: u32 = NameReply::Exists as u32;
const ALREADY_OWNER: u32 = NameReply::AlreadyOwner as u32;

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "name-requests", requests)
        .asks("Are requests for names answered with the numbers that the specification gives?")
        .specification("org.freedesktop.DBus.RequestName"),
    Property::new(GROUP, "name-queue", queue)
        .asks("Does the first in the queue get a name whose owner closes, and is everybody told?")
        .specification("org.freedesktop.DBus.RequestName"),
    Property::new(GROUP, "name-replacement", replacement)
        .asks("Does a replaced owner wait in the queue and get the name back?")
        .specification("org.freedesktop.DBus.RequestName"),
    Property::new(GROUP, "unique-names", unique_names)
        .asks("Does no connection get the unique name of an earlier one?")
        .specification("Bus Names"),
];

fn requests(bus: &Bus<'_>) -> Answer {
    let name = well_known("Q");
    let [mut first, mut second] = Client::several(bus)?;
    let got = [
        first.request_name(&name, 0)?,
        first.request_name(&name, 0)?,
        second.request_name(&name, DO_NOT_QUEUE)?,
        second.request_name(&name, REPLACE_EXISTING)?,
        first.request_name(&name, ALLOW_REPLACEMENT)?,
        second.request_name(&name, REPLACE_EXISTING)?,
    ];
    let expected = [PRIMARY_OWNER, ALREADY_OWNER, EXISTS, IN_QUEUE, ALREADY_OWNER, PRIMARY_OWNER];
    let found = (got != expected).then(|| format!("answers {got:?} in place of {expected:?}"));
    Ok(Seen::unless(found, format!("six requests, answers {got:?}")))
}

fn watcher(bus: &Bus<'_>, name: &str) -> Result<Client, Error> {
    let mut watcher = Client::open(bus)?;
    watcher.add_rule(&owner_rule(name))?;
    Ok(watcher)
}

/// Has a connection been told this about a name by now?
fn is_told(client: &mut Client, member: &str, name: &str) -> Result<bool, Error> {
    Ok(client.collect()?.iter().any(|message| message.is_from_driver(member, name)))
}

fn queue(bus: &Bus<'_>) -> Answer {
    let name = well_known("W");
    let mut watcher = watcher(bus, &name)?;
    let mut clients: [Client; 3] = Client::several(bus)?;
    let [one, two, three] = clients.each_ref().map(Client::name);
    for client in &mut clients {
        client.request_name(&name, 0)?;
    }
    let [first, mut second, mut third] = clients;
    drop(first);
    let is_acquired = |message: &Message| message.is_from_driver("NameAcquired", &name);
    let acquired = second.wait_for(PATIENCE, is_acquired)?;
    second.release_name(&name)?;
    let third_acquired = third.wait_for(PATIENCE, is_acquired)?;
    drop(third);
    watcher.wait_for(PATIENCE, |message| {
        message.is_from_driver("NameOwnerChanged", &name) && message.texts().get(2) == Some(&"")
    })?;
    let last = Client::open(bus)?.request_name(&name, 0)?;
    let told = is_told(&mut second, "NameLost", &name)?;
    let found = match (acquired, third_acquired, told, last) {
        (None, ..) => Some("the second connection is not told that it owns the name".to_owned()),
        (_, None, ..) => Some("the third connection is not told that it owns the name".to_owned()),
        (.., false, _) => Some("the second connection is not told that it lost the name".to_owned()),
        (.., last) if last != PRIMARY_OWNER => Some(format!("the free name is not given out: {last}")),
        _ => None,
    };
    Ok(Seen::unless(found, format!("{one} closes, {two} releases, {three} closes")))
}

fn replacement(bus: &Bus<'_>) -> Answer {
    let name = well_known("P");
    let mut watcher = watcher(bus, &name)?;
    let [mut first, mut second] = Client::several(bus)?;
    first.request_name(&name, ALLOW_REPLACEMENT)?;
    second.request_name(&name, REPLACE_EXISTING)?;
    let lost = is_told(&mut first, "NameLost", &name)?;
    second.release_name(&name)?;
    let back = is_told(&mut first, "NameAcquired", &name)?;
    let mut told = watcher.collect()?;
    told.retain(|message| message.is_from_driver("NameOwnerChanged", &name));
    let changes: Vec<[&str; 2]> =
        told.iter().filter_map(|message| message.texts().get(1..3)?.try_into().ok()).collect();
    let (one, two) = (first.unique_name(), second.unique_name());
    let found = (!lost || !back || changes != [["", one], [one, two], [two, one]])
        .then(|| format!("NameLost {lost}, NameAcquired {back}, changes of owner {changes:?}"));
    Ok(Seen::unless(found, "replaced, and given back: three changes of owner, each told to all"))
}

fn unique_names(bus: &Bus<'_>) -> Answer {
    const TIMES: usize = 100;
    let mut seen = HashSet::new();
    let mut repeated = None;
    for _ in 0..TIMES {
        let name = Client::open(bus)?.name();
        if !seen.insert(name.clone()) {
            repeated.get_or_insert(format!("{name} was given out again"));
        }
    }
    Ok(Seen::unless(repeated, format!("{TIMES} connections, one after the other")))
}
