//! Names and their owners.

use std::collections::HashSet;

use causeway_bus::client::Error;
use causeway_dbus_wire::driver::{ALLOW_REPLACEMENT, DO_NOT_QUEUE, NameReply, REPLACE_EXISTING};

use crate::client::{Client, Message, PATIENCE};
use crate::property::{Bus, Property, Seen};

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

/// A name of this examination.
fn name(of: &str) -> String {
    format!("org.weighbridge.Exam.{of}{}", std::process::id())
}

fn requests(bus: &Bus<'_>) -> Result<Seen, Error> {
    let name = name("Q");
    let mut first = Client::open(bus)?;
    let mut second = Client::open(bus)?;
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

/// Changes of owner of a name, as (old, new).
fn changes(messages: &[Message], name: &str) -> Vec<(String, String)> {
    let about = messages.iter().filter(|message| message.is_from_driver("NameOwnerChanged", name));
    about.map(|message| (text(message, 1), text(message, 2))).collect()
}

fn text(message: &Message, at: usize) -> String {
    message.texts().get(at).copied().unwrap_or_default().to_owned()
}

fn watcher(bus: &Bus<'_>, name: &str) -> Result<Client, Error> {
    let mut watcher = Client::open(bus)?;
    watcher.add_rule(&format!("type='signal',member='NameOwnerChanged',arg0='{name}'"))?;
    Ok(watcher)
}

fn queue(bus: &Bus<'_>) -> Result<Seen, Error> {
    let name = name("W");
    let mut watcher = watcher(bus, &name)?;
    let mut clients: Vec<Client> = (0..3).map(|_| Client::open(bus)).collect::<Result<_, _>>()?;
    let unique: Vec<String> = clients.iter().map(Client::name).collect();
    for client in &mut clients {
        client.request_name(&name, 0)?;
    }
    let mut clients = clients.into_iter();
    drop(clients.next());
    let mut second = clients.next().expect("there are three");
    let acquired = second.wait_for(PATIENCE, |message| message.is_from_driver("NameAcquired", &name))?;
    second.release_name(&name)?;
    let mut third = clients.next().expect("there are three");
    let third_acquired = third.wait_for(PATIENCE, |message| message.is_from_driver("NameAcquired", &name))?;
    drop(third);
    watcher.wait_for(PATIENCE, |message| {
        message.is_from_driver("NameOwnerChanged", &name) && text(message, 2).is_empty()
    })?;
    let mut again = Client::open(bus)?;
    let last = again.request_name(&name, 0)?;
    let told = second.collect()?.iter().any(|message| message.is_from_driver("NameLost", &name));
    let found = match (acquired, third_acquired, told, last) {
        (None, ..) => Some("the second connection is not told that it owns the name".to_owned()),
        (_, None, ..) => Some("the third connection is not told that it owns the name".to_owned()),
        (.., false, _) => Some("the second connection is not told that it lost the name".to_owned()),
        (.., last) if last != PRIMARY_OWNER => Some(format!("the free name is not given out: {last}")),
        _ => None,
    };
    Ok(Seen::unless(found, format!("{} closes, {} releases, {} closes", unique[0], unique[1], unique[2])))
}

fn replacement(bus: &Bus<'_>) -> Result<Seen, Error> {
    let name = name("P");
    let mut watcher = watcher(bus, &name)?;
    let mut first = Client::open(bus)?;
    let mut second = Client::open(bus)?;
    first.request_name(&name, ALLOW_REPLACEMENT)?;
    second.request_name(&name, REPLACE_EXISTING)?;
    let lost = first.collect()?.iter().any(|message| message.is_from_driver("NameLost", &name));
    second.release_name(&name)?;
    let back = first.collect()?.iter().any(|message| message.is_from_driver("NameAcquired", &name));
    let changes = changes(&watcher.collect()?, &name);
    let (one, two) = (first.name(), second.name());
    let expected = [(String::new(), one.clone()), (one.clone(), two.clone()), (two, one)];
    let found = (!lost || !back || changes != expected)
        .then(|| format!("NameLost {lost}, NameAcquired {back}, changes of owner {changes:?}"));
    Ok(Seen::unless(found, "replaced, and given back: three changes of owner, each told to all"))
}

fn unique_names(bus: &Bus<'_>) -> Result<Seen, Error> {
    const TIMES: usize = 100;
    let mut seen = HashSet::new();
    let mut repeated = None;
    for _ in 0..TIMES {
        let client = Client::open(bus)?;
        if !seen.insert(client.name()) {
            repeated.get_or_insert(client.name());
        }
    }
    Ok(Seen::unless(
        repeated.map(|name| format!("{name} was given out again")),
        format!("{TIMES} connections, one after the other"),
    ))
}
