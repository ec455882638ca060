//! Sizes at their limits, and parts of a message that the specification leaves to the future.

use std::io::{Read, Write};

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Endian, Header};

use crate::support::*;

/// A name of well-known form and this length.
fn name_of(bytes: usize) -> String {
    format!("a.{}", "b".repeat(bytes - 2))
}

#[test]
fn a_name_of_255_bytes_is_a_name_and_one_of_256_is_none() {
    let broker = Broker::start();
    let (mut owner, mut caller) = (broker.open(), broker.open());
    let (longest, too_long) = (name_of(255), name_of(256));
    assert_eq!(owner.request_name(&longest, 0).unwrap(), 1);
    for (method, body) in [
        ("RequestName", Body::default().text(&too_long).u32(0)),
        ("ReleaseName", Body::default().text(&too_long)),
    ] {
        assert_eq!(refusal(caller.ask_driver(method, body)), "InvalidArgs", "{method}");
    }
    let has_owner = |caller: &mut Client, name: &str| {
        caller.ask_driver("GetNameOwner", Body::default().text(name)).is_ok()
    };
    assert!(has_owner(&mut caller, &longest) && !has_owner(&mut caller, &too_long));
    // As a destination, and as names of an interface and a member.
    let (interface, member) = (name_of(255), "m".repeat(255));
    let call = Builder::call("/", &member).interface(&interface).destination(&longest);
    let serial = caller.send(&call).unwrap();
    let got = wait_for(&mut owner, |header| header.member == Some(&member));
    let header = Header::parse(&got).unwrap();
    assert_eq!((header.interface, header.serial), (Some(interface.as_str()), serial));
    // A message with a name that is none ends its connection.
    let mut client = broker.socket();
    authenticate(&mut client);
    client.write_all(&driver_call("Hello").build(1).unwrap()).unwrap();
    let mut signal = Fields::default();
    signal.text(1, b'o', "/");
    signal.text(2, b's', "a.B");
    signal.text(3, b's', &"m".repeat(256));
    client.write_all(&signal.message()).unwrap();
    assert!(is_closed(&mut client));
    assert!(has_owner(&mut caller, &longest));
}

fn is_closed(client: &mut std::os::unix::net::UnixStream) -> bool {
    match client.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Fields of a header, written without a check.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn text(&mut self, code: u8, letter: u8, text: &str) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend([code, 1, letter, 0]);
        self.0.extend(u32::try_from(text.len()).unwrap().to_ne_bytes());
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// A signal with these fields, serial 2 and no body.
    fn message(&self) -> Vec<u8> {
        let mut bytes = vec![Endian::NATIVE.mark(), 4, 0, 1];
        for number in [0, 2, u32::try_from(self.0.len()).unwrap()] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(&self.0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// Their meaning may be one that only a bus may assert.
#[test]
fn header_fields_that_are_not_known_are_removed_and_the_message_passes() {
    let broker = Broker::start();
    let (mut sender, mut receiver) = (broker.open(), broker.open());
    receiver.add_match("interface='a.Future'").unwrap();
    let mut fields = Fields::default();
    fields.text(1, b'o', "/");
    fields.text(77, b's', "of the future");
    fields.text(2, b's', "a.Future");
    fields.text(200, b'o', "/of/the/future");
    fields.text(3, b's', "Member");
    sender.send_bytes(&fields.message()).unwrap();
    let got = wait_for(&mut receiver, |header| header.interface == Some("a.Future"));
    let header = Header::parse(&got).unwrap();
    assert_eq!((header.member, header.sender), (Some("Member"), Some(sender.unique_name())));
    assert!(!got.windows(6).any(|part| part == b"future"), "the fields are still there");
    assert!(sender.ask_driver("GetId", Body::default()).is_ok());
}

#[test]
fn a_message_of_128_mib_and_a_byte_is_refused_by_its_first_bytes() {
    const MOST_BYTES: u32 = 128 << 20;
    let broker = Broker::start();
    let mut witness = broker.open();
    let header = {
        let bytes = driver_call("GetId").body(Body::default().text("")).build(2).unwrap();
        let header_bytes = Header::parse(&bytes).unwrap().header_bytes;
        bytes[..header_bytes].to_vec()
    };
    let header_bytes = u32::try_from(header.len()).unwrap();
    let announced = |body_bytes: u32| {
        let mut start = header.clone();
        start[4..8].copy_from_slice(&body_bytes.to_ne_bytes());
        let mut client = broker.socket();
        authenticate(&mut client);
        client.write_all(&driver_call("Hello").build(1).unwrap()).unwrap();
        client.write_all(&start).unwrap();
        client
    };
    let memory = broker.memory_kib();
    assert!(is_closed(&mut announced(MOST_BYTES - header_bytes + 1)));
    assert!(broker.memory_kib() < memory + (16 << 10), "memory was taken for it");
    // One byte less may come: the bus still reads after it has answered Hello and others.
    let mut waiting = announced(MOST_BYTES - header_bytes);
    witness.ask_driver("GetId", Body::default()).unwrap();
    waiting.write_all(&[0; 4096]).unwrap();
    witness.ask_driver("GetId", Body::default()).unwrap();
    waiting.write_all(&[0; 4096]).unwrap();
    waiting.set_nonblocking(true).unwrap();
    let ended = loop {
        match waiting.read(&mut [0; 4096]) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(ended, Some(std::io::ErrorKind::WouldBlock), "it is disconnected");
}

#[test]
fn an_answer_that_would_be_too_long_is_an_error_and_not_the_end_of_the_bus() {
    let broker = Broker::start();
    let mut client = broker.open();
    // The answer repeats the name and has the longer header: the question, without interface, has 133 bytes beside the name, the answer 161.
    let name = "a".repeat(causeway_dbus_wire::wire::MAX_MESSAGE_BYTES - 140);
    let question = Builder::call("/org/freedesktop/DBus", "GetNameOwner").destination("org.freedesktop.DBus");
    let answer = client.call(&question.body(Body::default().text(&name)), PATIENCE);
    assert_eq!(refusal(answer), "LimitsExceeded");
    client.ask_driver("GetId", Body::default()).unwrap();
}
