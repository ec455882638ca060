//! Messages that no client should send.

use std::time::Duration;

use causeway_bus::client::{self, Address, Error};
use causeway_dbus_wire::wire::{Body, Builder, Endian, FLAG_NO_REPLY_EXPECTED, Kind};

use crate::client::{Client, INTERFACE, PATH, call, short, unless_closed};
use crate::property::{Bus, Property, Seen};

const GROUP: &str = "Invalid messages";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "invalid-headers", headers)
        .asks("What becomes of the senders of invalid headers, and does one reach its destination?")
        .practice("a bus that passes them on has receivers disconnect or crash"),
    Property::new(GROUP, "invalid-bodies", bodies)
        .asks("What becomes of the senders of invalid bodies, and does one reach its destination?")
        .practice("a bus that passes them on has receivers disconnect or crash"),
    Property::new(GROUP, "unknown-type", unknown_type)
        .asks("What becomes of a message of a type that the specification does not know?"),
    Property::new(GROUP, "before-hello", before_hello)
        .asks("What becomes of a connection whose first message is not Hello?")
        .specification("org.freedesktop.DBus.Hello"),
    Property::new(GROUP, "second-hello", second_hello)
        .asks("Which error does a second Hello bring?")
        .specification("org.freedesktop.DBus.Hello"),
];

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Disconnected,
    Delivered,
    Discarded,
}

/// Sends bytes from a fresh connection to a receiver.
fn fate(bus: &Bus<'_>, receiver: &mut Client, bytes: &[u8]) -> Result<Fate, Error> {
    let mut sender = Client::open(bus)?;
    // A message that a broken length has made longer swallows what follows; the connection is then looked at only for its end.
    sender.send_bytes(bytes)?;
    let answer = sender.call(&Builder::of_driver("GetId"), Duration::from_secs(2));
    let is_connected = match answer {
        Ok(_) | Err(Error::Refused { .. } | Error::TimedOut) => true,
        Err(Error::Closed) => false,
        Err(other) => return Err(other),
    };
    // A receiver of ours parses headers only; one that gets an invalid header fails here.
    let got = match receiver.collect_ours() {
        Ok(got) => got.len(),
        Err(Error::Protocol(_)) => 1,
        Err(other) => return Err(other),
    };
    Ok(match (got, is_connected) {
        (1.., _) => Fate::Delivered,
        (0, false) => Fate::Disconnected,
        (0, true) => Fate::Discarded,
    })
}

/// All of them, each to a receiver of its own.
fn fates(bus: &Bus<'_>, make: impl Fn(&str) -> Vec<(&'static str, Vec<u8>)>) -> Result<Seen, Error> {
    let count = make(":1.1").len();
    let mut fates = Vec::new();
    for at in 0..count {
        let mut receiver = Client::open(bus)?;
        let (what, bytes) = make(&receiver.name()).swap_remove(at);
        fates.push((what, fate(bus, &mut receiver, &bytes)?));
    }
    let with = |wanted: Fate| {
        fates.iter().filter(move |(_, fate)| *fate == wanted).map(|(what, _)| *what).collect::<Vec<_>>()
    };
    let (delivered, discarded) = (with(Fate::Delivered), with(Fate::Discarded));
    let mut evidence = format!("{count} kinds");
    for (word, which) in [("delivered", &delivered), ("discarded, the sender still connected", &discarded)] {
        if !which.is_empty() {
            evidence += &format!("; {word}: {}", which.join(", "));
        }
    }
    let gone = count - delivered.len() - discarded.len();
    Ok(match (delivered.len(), discarded.len()) {
        (0, 0) => Seen::fine("disconnected", evidence),
        (0, _) => Seen::fine(format!("{gone} of {count} disconnected"), evidence),
        (passed, _) => Seen::broken(format!("{passed} of {count} delivered"), evidence),
    })
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "offsets must not move");
    let at = bytes.windows(from.len()).position(|window| window == from).expect("the message has it");
    let mut out = bytes.to_vec();
    out[at..at + from.len()].copy_from_slice(to);
    out
}

fn patched(bytes: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[at..at + to.len()].copy_from_slice(to);
    out
}

fn built(message: &Builder<'_>) -> Vec<u8> {
    message.clone().flags(FLAG_NO_REPLY_EXPECTED).build(2).expect("a short message")
}

fn headers(bus: &Bus<'_>) -> Result<Seen, Error> {
    fates(bus, |to| {
        let good = built(&call(to, "Member").body(Body::in_order(Endian::Little).text("text")));
        let without = |kind| Builder::new(kind).destination(to);
        vec![
            ("an unknown byte order", patched(&good, 0, b"x")),
            ("type 0", patched(&good, 1, &[0])),
            ("protocol version 2", patched(&good, 3, &[2])),
            ("serial 0", patched(&good, 8, &[0; 4])),
            ("header fields of more than 64 MiB", patched(&good, 12, &(1_u32 << 27).to_le_bytes())),
            ("a body of more than 128 MiB", patched(&good, 4, &(1_u32 << 28).to_le_bytes())),
            ("a call without member", built(&without(Kind::MethodCall).path(PATH).interface(INTERFACE))),
            ("a call without path", built(&without(Kind::MethodCall).member("Member").interface(INTERFACE))),
            ("a signal without interface", built(&without(Kind::Signal).path(PATH).member("Member"))),
            ("a reply without serial", built(&without(Kind::MethodReturn))),
            ("an object path with an empty part", replaced(&good, b"/org/weighbridge", b"//rg/weighbridge")),
            ("a member with a dot", replaced(&good, b"Member\0", b"Mem.er\0")),
            (
                "an interface with an empty part",
                replaced(&good, b"org.weighbridge.Exam\0", b"org..eighbridge.Exam\0"),
            ),
            ("a path that has the type of a string", replaced(&good, &[1, 1, b'o', 0], &[1, 1, b's', 0])),
            (
                "a member that is no UTF-8",
                replaced(&good, b"Member\0", &[b'M', 0xff, 0xfe, b'b', b'e', b'r', 0]),
            ),
            ("a string without its final zero", replaced(&good, b"Member\0", b"MemberX")),
        ]
    })
}

fn bodies(bus: &Bus<'_>) -> Result<Seen, Error> {
    fates(bus, |to| {
        let little = Endian::Little;
        let with = |signature: &str, bytes: &[u8]| {
            built(&call(to, "Member").body(Body::marshalled(little, signature, bytes)))
        };
        vec![
            ("a boolean that is 2", with("b", &2_u32.to_le_bytes())),
            ("a string without its final zero", with("s", &[1, 0, 0, 0, b'a', b'b'])),
            ("a string that is no UTF-8", with("s", &[1, 0, 0, 0, 0xff, 0])),
            ("a string beyond the end", with("s", &[200, 0, 0, 0, b'a', 0])),
            ("an object path that is none", with("o", &[1, 0, 0, 0, b'a', 0])),
            ("an array that ends inside an element", with("au", &[3, 0, 0, 0, 1, 2, 3])),
            ("padding that is not zero", with("yu", &[1, 7, 7, 7, 1, 0, 0, 0])),
            ("bytes after the last argument", with("y", &[1, 2, 3])),
            ("a signature that is none in a variant", with("v", &[1, b'!', 0, 0])),
        ]
    })
}

fn unknown_type(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut receiver = Client::open(bus)?;
    let message = Builder::new(Kind::Other(77)).path(PATH).interface(INTERFACE).member("Member");
    let bytes = built(&message.destination(&receiver.name()));
    Ok(match fate(bus, &mut receiver, &bytes)? {
        Fate::Delivered => Seen::fine("delivered", "a message of type 77 arrives"),
        Fate::Discarded => Seen::fine("discarded", "nothing arrives, and the sender stays connected"),
        Fate::Disconnected => {
            Seen::fine("disconnected", "the sender of a message of type 77 is disconnected")
        }
    })
}

fn before_hello(bus: &Bus<'_>) -> Result<Seen, Error> {
    let first = Address::list(bus.address)?.swap_remove(0);
    let stream = first.connect().map_err(Error::Io)?;
    let mut connection = client::Bus::authenticated(stream)?;
    let answer = connection.call(&Builder::of_driver("ListNames"), Duration::from_secs(5));
    Ok(match answer {
        Err(Error::Closed) => Seen::fine("disconnected", "ListNames as the first message"),
        Err(Error::Refused { name, .. }) => {
            Seen::fine(short(&name), format!("ListNames as the first message: {name}"))
        }
        Err(Error::TimedOut) => Seen::fine("no answer", "ListNames as the first message: nothing for 5 s"),
        Err(other) => return Err(other),
        Ok(_) => Seen::broken("answered", "ListNames is answered though there was no Hello"),
    })
}

fn second_hello(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut client = Client::open(bus)?;
    Ok(match unless_closed(client.driver("Hello", Body::default())) {
        Err(Error::Refused { name, .. }) => Seen::fine(short(&name), name.clone()),
        Err(other) => return Err(other),
        Ok(None) => Seen::fine("disconnected", "the connection is closed"),
        Ok(Some(_)) => Seen::broken("answered", "a second Hello is answered like the first"),
    })
}
