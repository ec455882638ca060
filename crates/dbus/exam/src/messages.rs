//! Messages that no client should send.

use std::time::Duration;

use causeway_bus::client::{self, Address, Error};
use causeway_dbus_wire::wire::{Body, Builder, Endian, FLAG_NO_REPLY_EXPECTED, Kind};

use crate::client::{Client, INTERFACE, PATH, call, refusal, short, unless_closed};
use crate::property::{Answer, Bus, Property, Seen};

const GROUP: &str = "Invalid messages";
const BYTES: &str = "a native member has no stream of bytes that could hold something else than messages; the tests of causeway-bus write wild bytes into its memory";
const HELLO: &str = "a native member joins over the control socket, and there is no Hello";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "invalid-headers", headers)
        .asks("What becomes of the senders of invalid headers, and does one reach its destination?")
        .practice("a bus that passes them on has receivers disconnect or crash")
        .not_native(BYTES),
    Property::new(GROUP, "invalid-bodies", bodies)
        .asks("What becomes of the senders of invalid bodies, and does one reach its destination?")
        .practice("a bus that passes them on has receivers disconnect or crash")
        .not_native(BYTES),
    Property::new(GROUP, "unknown-type", unknown_type)
        .asks("What becomes of a message of a type that the specification does not know?")
        .not_native(BYTES),
    Property::new(GROUP, "before-hello", before_hello)
        .asks("What becomes of a connection whose first message is not Hello?")
        .specification("org.freedesktop.DBus.Hello")
        .not_native(HELLO),
    Property::new(GROUP, "second-hello", second_hello)
        .asks("Which error does a second Hello bring?")
        .specification("org.freedesktop.DBus.Hello")
        .not_native(HELLO),
];

/// What becomes of bytes that a fresh connection sends to a receiver whose name they have, as the answer of [`Seen::fate`].
fn fate(bus: &Bus<'_>, make: impl Fn(&str) -> Vec<u8>) -> Result<String, Error> {
    let [mut sender, mut receiver] = Client::several(bus)?;
    sender.send_bytes(&make(receiver.unique_name()))?;
    let is_connected = sender.stays_connected()?;
    // A receiver of ours parses headers only; one that gets an invalid header fails here.
    let came = match receiver.collect_ours() {
        Err(Error::Protocol(_)) => 1,
        came => came?.len(),
    };
    Ok(Seen::fate(came, is_connected, "").answer)
}

/// What is wrong with a message, and its bytes.
type Invalid = (&'static str, Vec<u8>);

/// All of them, each to a receiver of its own.
fn fates(bus: &Bus<'_>, make: impl Fn(&str) -> Vec<Invalid>) -> Answer {
    let kinds: Vec<&str> = make(":1.1").into_iter().map(|(what, _)| what).collect();
    let (mut delivered, mut discarded) = (Vec::new(), Vec::new());
    for (at, what) in kinds.iter().enumerate() {
        match fate(bus, |to| make(to).swap_remove(at).1)?.as_str() {
            "delivered" => delivered.push(*what),
            "discarded" => discarded.push(*what),
            _ => {}
        }
    }
    let count = kinds.len();
    let mut evidence = format!("{count} kinds");
    for (word, which) in [("delivered", &delivered), ("discarded, the sender still connected", &discarded)] {
        if !which.is_empty() {
            evidence += &format!("; {word}: {}", which.join(", "));
        }
    }
    Ok(match (delivered.len(), discarded.len()) {
        (0, 0) => Seen::fine("disconnected", evidence),
        (0, stayed) => Seen::fine(format!("{} of {count} disconnected", count - stayed), evidence),
        (passed, _) => Seen::broken(format!("{passed} of {count} delivered"), evidence),
    })
}

fn patched(bytes: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[at..at + to.len()].copy_from_slice(to);
    out
}

/// With other bytes of the same number, so that offsets do not move.
fn replaced<const N: usize>(bytes: &[u8], from: &[u8; N], to: &[u8; N]) -> Vec<u8> {
    let at = bytes.windows(N).position(|window| window == from).expect("the message has it");
    patched(bytes, at, to)
}

fn built(message: &Builder<'_>) -> Vec<u8> {
    message.clone().flags(FLAG_NO_REPLY_EXPECTED).build(2).expect("a short message")
}

fn headers(bus: &Bus<'_>) -> Answer {
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
            ("a member that is no UTF-8", replaced(&good, b"Member\0", b"M\xff\xfeber\0")),
            ("a string without its final zero", replaced(&good, b"Member\0", b"MemberX")),
        ]
    })
}

fn bodies(bus: &Bus<'_>) -> Answer {
    fates(bus, |to| {
        let with = |signature: &str, bytes: &[u8]| {
            built(&call(to, "Member").body(Body::marshalled(Endian::Little, signature, bytes)))
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

/// A type of the future breaks nothing where it is passed on.
fn unknown_type(bus: &Bus<'_>) -> Answer {
    let message = Builder::new(Kind::Other(77)).path(PATH).interface(INTERFACE).member("Member");
    let answer = fate(bus, |to| built(&message.clone().destination(to)))?;
    let evidence = match answer.as_str() {
        "delivered" => "a message of type 77 arrives",
        "discarded" => "nothing arrives, and the sender stays connected",
        _ => "the sender of a message of type 77 is disconnected",
    };
    Ok(Seen::fine(answer, evidence))
}

fn before_hello(bus: &Bus<'_>) -> Answer {
    let stream = Address::list(bus.address)?.swap_remove(0).connect()?;
    let mut connection = client::Bus::authenticated(stream)?;
    Ok(match connection.call(&Builder::of_driver("ListNames"), Duration::from_secs(5)) {
        Err(Error::Closed) => Seen::fine("disconnected", "ListNames as the first message"),
        Err(Error::TimedOut) => Seen::fine("no answer", "ListNames as the first message: nothing for 5 s"),
        answer => match refusal(answer)? {
            Some(name) => Seen::fine(short(&name), format!("ListNames as the first message: {name}")),
            None => Seen::broken("answered", "ListNames is answered though there was no Hello"),
        },
    })
}

fn second_hello(bus: &Bus<'_>) -> Answer {
    let answer = Client::open(bus)?.ask_driver("Hello", Body::default());
    Ok(match unless_closed(refusal(answer))? {
        None => Seen::fine("disconnected", "the connection is closed"),
        Some(Some(name)) => Seen::fine(short(&name), name.clone()),
        Some(None) => Seen::broken("answered", "a second Hello is answered like the first"),
    })
}
