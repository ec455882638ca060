//! Sizes at their limits, and parts of a message that the specification leaves to the future.

use std::io::{Read, Write};

use causeway_dbus_wire::wire::{ARRAY_BYTES_MAX, Body, Builder, Endian, MESSAGE_BYTES_MAX};

use crate::support::*;

/// A name of well-known form and this length.
fn name_of(bytes: usize) -> String {
    format!("a.{}", "b".repeat(bytes - 2))
}

#[test]
fn a_name_has_at_most_255_bytes() {
    let bus = Broker::start();
    let (mut owner, mut caller) = (bus.client(), bus.client());
    let (longest, too_long) = (name_of(255), name_of(256));
    assert_eq!(owner.request_name(&longest, 0).unwrap(), 1);
    for (method, body) in [("RequestName", text(&too_long).u32(0)), ("ReleaseName", text(&too_long))] {
        assert_eq!(refusal(caller.ask_driver(method, body)), "InvalidArgs", "{method}");
    }
    assert_eq!(caller.name_owner(&longest).unwrap().as_deref(), Some(owner.unique_name()));
    assert_eq!(refusal(caller.ask_driver("GetNameOwner", text(&too_long))), "NameHasNoOwner");
    // As a destination, and as names of an interface and a member.
    let (interface, member) = (name_of(255), "m".repeat(255));
    let call = Builder::call("/", &member).interface(&interface).destination(&longest);
    let serial = caller.send(&call).unwrap();
    let got = wait_for_member(&mut owner, &member);
    assert_eq!((header(&got).interface, header(&got).serial), (Some(&*interface), serial));
    // A message with a name that is none ends its connection.
    let fields = [(1, b'o', "/"), (2, b's', "a.B"), (3, b's', &"m".repeat(256))];
    assert!(is_closed(&mut bus.socket_after_hello(&signal_of(&fields))));
    sync(&mut caller);
}

/// The bus fills the sender in, and the header gets longer: for a service to be started, and for members.
#[test]
fn a_header_with_no_room_for_its_sender_costs_nobody_else_anything() {
    let folder = temp_dir("boundaries");
    write_service(folder.path(), "a.Service", "/bin/false", "");
    let limits = "<limit name='max_message_size'>134217728</limit>";
    let bus = Broker::native_with(&["--config-file", &with_services(&folder, limits)]);
    let (mut witness, mut member) = (bus.client(), bus.member());
    member.add_match("interface='a.B'").unwrap();
    let both = |path: &str| -> [Vec<u8>; 2] {
        let call = Builder::call(path, "M").destination("a.Service");
        [Builder::signal(path, "a.B", "C"), call].map(|message| message.build(9).unwrap())
    };
    let (mut passed, mut ended) = (0, 0);
    let mut send = |message: &[u8]| {
        let mut client = bus.client();
        // It may be ended in the middle.
        let sent = client.send_bytes(message);
        match sent.and_then(|()| client.ask_driver("GetId", Body::default())) {
            Ok(_) => passed += 1,
            Err(_) => ended += 1,
        }
        sync(&mut witness);
    };
    for bytes in ((64 << 10) - 160..(64 << 10) + 64).step_by(8) {
        both(&format!("/{}", "a".repeat(bytes))).iter().for_each(|message| send(message));
    }
    // With the sender each has more than the specification lets a header have.
    let fields = |message: &[u8]| u32::from_ne_bytes(message[12..16].try_into().unwrap()) as usize;
    let room = both("/aaaaaaa").map(|message| ARRAY_BYTES_MAX - fields(&message));
    let full = |room: usize| both(&format!("/{}", "a".repeat(7 + room / 8 * 8)));
    let (signal_with_none, call_with_none) = (&full(room[0])[0], &full(room[1])[1]);
    for message in [signal_with_none, call_with_none] {
        assert!(fields(message) > ARRAY_BYTES_MAX - 8, "{} bytes", fields(message));
        send(message);
        ask_bus(&mut member);
    }
    assert!(passed > 0 && ended > 0, "{passed} have passed, {ended} clients were ended");
    let sent = signal(&mut member);
    assert!(sent.header().sender.is_some());
    ask_bus(&mut member);
}

/// A signal with serial 2 and no body whose header has these fields, each a code and a string of a type, unchecked.
fn signal_of(fields: &[(u8, u8, &str)]) -> Vec<u8> {
    let mut array: Vec<u8> = Vec::new();
    for (code, letter, text) in fields {
        array.resize(array.len().next_multiple_of(8), 0);
        array.extend([*code, 1, *letter, 0]);
        array.extend((text.len() as u32).to_ne_bytes());
        array.extend(text.as_bytes());
        array.push(0);
    }
    let mut bytes = vec![Endian::NATIVE.mark(), 4, 0, 1];
    bytes.extend([0, 2, array.len() as u32].map(u32::to_ne_bytes).as_flattened());
    bytes.extend(array);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// Their meaning may be one that only a bus may assert.
#[test]
fn header_fields_that_are_not_known_are_removed_and_the_message_passes() {
    let bus = Broker::start();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    receiver.add_match("interface='a.Future'").unwrap();
    let of_the_future = [(77, b's', "of the future"), (200, b'o', "/of/the/future")];
    let known = [(1, b'o', "/"), (2, b's', "a.Future"), (3, b's', "Member")];
    let fields = [known[0], of_the_future[0], known[1], of_the_future[1], known[2]];
    sender.send_bytes(&signal_of(&fields)).unwrap();
    let got = wait_for_member(&mut receiver, "Member");
    assert_eq!((header(&got).interface, header(&got).sender), (Some("a.Future"), Some(sender.unique_name())));
    assert!(!contains(&got, "future"), "the fields are still there");
    sync(&mut sender);
}

#[test]
fn a_message_of_128_mib_and_a_byte_is_refused_by_its_first_bytes() {
    let bus = Broker::start();
    let mut witness = bus.client();
    let mut start = driver_call("GetId").body(text("")).build(2).unwrap();
    start.truncate(header(&start).header_bytes);
    let longest = (MESSAGE_BYTES_MAX - start.len()) as u32;
    let mut announced = |body_bytes: u32| {
        start[4..8].copy_from_slice(&body_bytes.to_ne_bytes());
        bus.socket_after_hello(&start)
    };
    let memory = bus.memory_kib();
    assert!(is_closed(&mut announced(longest + 1)));
    assert!(bus.memory_kib() < memory + (16 << 10), "memory was taken for it");
    assert!(is_closed(&mut announced(longest)), "there is no room for its sender");
    // One that leaves room may come: the bus still reads after it has answered Hello and others.
    let mut waiting = announced(longest - 32);
    for _ in 0..2 {
        sync(&mut witness);
        waiting.write_all(&[0; 4096]).unwrap();
    }
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
    let bus = Broker::start();
    let mut client = bus.client();
    // The answer repeats the name and has the longer header: the question, without interface, has 133 bytes beside the name, the answer 161.
    let question = Builder::call(DRIVER_PATH, "GetNameOwner").destination(DRIVER);
    let question = question.body(Body::default().text(&"a".repeat(MESSAGE_BYTES_MAX - 140)));
    assert_eq!(refusal(client.call(&question, PATIENCE)), "LimitsExceeded");
    sync(&mut client);
}
