//! Unique names: which connection gets which, and that what is asked and told of a member is what is asked and told of a client.

use std::io::{Read, Write};
use std::process::Command;

use causeway_bus::client::Bus as Client;
use causeway_bus::{ALLOW_REPLACEMENT, ConnectionOptions, DO_NOT_QUEUE, Monitor, REPLACE_EXISTING};
use causeway_dbus_wire::wire::{Body, Builder, Leaf, walk};

use crate::support::*;

/// What messages name as their sender before Hello.
const UNNAMED: &str = ":not.active.yet";

/// The error, or nothing, that a call of the driver on a socket gets before Hello and as Hello.
fn ask_on(socket: &mut std::os::unix::net::UnixStream, member: &str) -> (Option<String>, Vec<String>) {
    socket.write_all(&driver_call(member).build(1).unwrap()).unwrap();
    let mut answer = vec![0; 4096];
    let count = socket.read(&mut answer).unwrap();
    assert!(count > 0, "{member}: the connection has ended");
    let header = header(&answer[..count]);
    let length = header.message_bytes();
    (header.error_name.map(str::to_owned), texts(&answer[..length]))
}

/// As with dbus-daemon, whose numbers tests of others expect.
#[test]
fn unique_names_begin_at_0_and_count_members_and_clients_that_take_part() {
    let bus = Broker::native();
    // Neither one that is silent, nor one that is refused, nor who only reads the log takes a number.
    let _silent = bus.socket();
    let mut late = bus.socket();
    authenticate(&mut late);
    assert!(ask_on(&mut late, "GetId").0.unwrap().ends_with("AccessDenied"));
    let _monitor = Monitor::open(bus.path()).unwrap();
    let [client, member] = bus.of_both_kinds();
    assert_eq!((client.unique_name(), member.unique_name()), (":1.0", ":1.1"));
    assert_eq!(ask_on(&mut late, "Hello"), (None, vec![":1.2".into()]));
    assert!(ask_on(&mut late, "Hello").0.is_some(), "a second Hello");
    // None is used again.
    drop((client, member, late));
    let [client, member] = bus.of_both_kinds();
    assert_eq!((client.unique_name(), member.unique_name()), (":1.3", ":1.4"));
}

#[test]
fn one_whose_hello_is_refused_takes_no_unique_name() {
    let bus = Broker::configured("<limit name='max_completed_connections'>1</limit>");
    let first = bus.client();
    let mut refused = bus.socket();
    authenticate(&mut refused);
    let (error, said) = ask_on(&mut refused, "Hello");
    assert!(error.unwrap().ends_with("LimitsExceeded"), "{said:?}");
    drop(first);
    eventually("there is no place", || ask_on(&mut refused, "Hello") == (None, vec![":1.1".into()]));
}

/// A client may send all it has to say in one go.
#[test]
fn what_follows_hello_in_one_write_has_the_new_name_as_its_sender() {
    let bus = Broker::native();
    let [mut heard, mut member] = bus.of_both_kinds();
    let mut watching = bus.client();
    watching.become_monitor().unwrap();
    let mut log = Monitor::open(bus.path()).unwrap();
    for listener in [&mut heard, &mut member] {
        listener.add_match(RULE).unwrap();
    }
    let signal = |length: usize| Builder::signal(PATH, INTERFACE, "Said").body(text(&"x".repeat(length)));
    let bytes: Vec<u8> = (2..)
        .zip([1, 200_000, 1])
        .flat_map(|(serial, length)| signal(length).build(serial).unwrap())
        .collect();
    let _socket = bus.socket_after_hello(&bytes);
    for listener in [&mut heard, &mut member] {
        for length in [1, 200_000, 1] {
            let came = client_signal(listener);
            assert_eq!((header(&came).sender, texts(&came)[0].len()), (Some(":1.3"), length));
        }
    }
    let hello = wait_for_member(&mut watching, "Hello");
    assert_eq!(header(&hello).sender, Some(UNNAMED));
    let answered = wait_for(&mut watching, |header| header.destination == Some(":1.3"));
    assert_eq!(texts(&answered), [":1.3"]);
    loop {
        let seen = observed(&mut log);
        if seen.header().member == Some("Hello") {
            assert_eq!(seen.header().sender, Some(UNNAMED));
            break;
        }
    }
}

/// The bus remembers headers with the sender that it has filled in.
#[test]
fn a_header_that_was_sent_before_hello_too_has_the_new_name_as_its_sender() {
    let bus = Broker::start();
    let mut watching = bus.client();
    watching.become_monitor().unwrap();
    let mut late = bus.socket();
    authenticate(&mut late);
    let said = ["GetId", "Hello", "GetId"].map(|member| {
        ask_on(&mut late, member);
        header(&wait_for_member(&mut watching, member)).sender.map(str::to_owned)
    });
    assert_eq!(said.map(Option::unwrap), [UNNAMED, UNNAMED, ":1.1"]);
}

/// What everybody is told of names, from the first connection on, and what those are told that have them.
fn told_of_names(mut open: impl FnMut() -> Client) -> Vec<String> {
    const NAME: &str = "com.example.Name";
    let mut listener = open();
    listener.add_match("type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'").unwrap();
    let [mut one, mut two] = [open(), open()];
    let mut said = Vec::new();
    let mut request =
        |client: &mut Client, flags| said.push(format!("{:?}", client.request_name(NAME, flags).unwrap()));
    request(&mut one, ALLOW_REPLACEMENT);
    request(&mut two, 0);
    request(&mut two, REPLACE_EXISTING);
    request(&mut one, DO_NOT_QUEUE);
    request(&mut one, 0);
    let ask = |client: &mut Client, member: &str, of: &str| match client.ask_driver(member, text(of)) {
        // Two buses are two processes.
        Ok(_) if (member, of) == ("GetConnectionUnixProcessID", DRIVER) => format!("{member} {of}: a number"),
        Ok(reply) => {
            format!("{member} {of}: {} {:?}", header(&reply).signature, &reply[header(&reply).header_bytes..])
        }
        Err(causeway_bus::client::Error::Refused { name, .. }) => format!("{member} {of}: {name}"),
        Err(other) => panic!("{member} {of}: {other}"),
    };
    let questions = [
        "GetNameOwner",
        "NameHasOwner",
        "ListQueuedOwners",
        "GetConnectionUnixUser",
        "GetConnectionUnixProcessID",
        "GetAdtAuditSessionData",
        "GetConnectionSELinuxSecurityContext",
    ];
    for of in [NAME, ":1.0", ":1.1", ":1.2", ":1.3", ":1.4711", "com.example.Nobody", DRIVER] {
        said.extend(questions.iter().map(|question| ask(&mut one, question, of)));
    }
    let names = one.ask_driver("ListNames", Body::default()).unwrap();
    let mut all = Vec::new();
    let parsed = header(&names);
    walk(&parsed, &names[parsed.header_bytes..], &mut |leaf, _| {
        if let Leaf::Text(name) = leaf {
            all.push(name.to_owned());
        }
    })
    .unwrap();
    all.sort_unstable();
    said.push(format!("{all:?}"));
    two.ask_driver("ReleaseName", text(NAME)).unwrap();
    said.push(ask(&mut one, "ReleaseName", NAME));
    said.push(ask(&mut two, "ReleaseName", NAME));
    // One after the other: what two sockets say at once has no order.
    for client in [two, one] {
        let name = client.unique_name().to_owned();
        drop(client);
        loop {
            let changed = texts(&wait_for_member(&mut listener, "NameOwnerChanged"));
            said.push(changed.join(" "));
            if changed[0] == name && changed[2].is_empty() {
                break;
            }
        }
    }
    said
}

/// The dictionary of the credentials of a connection, keys and values, as bytes.
fn credentials(client: &mut Client, of: &str) -> Vec<u8> {
    let reply = client.ask_driver("GetConnectionCredentials", text(of)).unwrap();
    reply[header(&reply).header_bytes..].to_vec()
}

#[test]
fn what_is_asked_and_told_of_members_is_that_of_clients_and_of_dbus_daemon() {
    let (of_clients, of_members) = (Broker::native(), Broker::native());
    let of_client = told_of_names(|| of_clients.client());
    let of_member = told_of_names(|| Client::join(&of_members.path(), ConnectionOptions::default()).unwrap());
    assert_eq!(of_member, of_client);
    // Each kind asked by each, of the same process.
    let [mut client, mut member] = of_clients.of_both_kinds();
    let names = [client.unique_name().to_owned(), member.unique_name().to_owned()];
    let of_both = names.map(|of| [credentials(&mut client, &of), credentials(&mut member, &of)]);
    assert_eq!(of_both[0], of_both[1]);
    assert_eq!(of_both[0][0], of_both[0][1]);
    if !has_program("dbus-daemon") {
        return;
    }
    let daemon = Broker::spawn(Command::new("dbus-daemon").args(["--session", "--address=unix:tmpdir=/tmp"]));
    assert_eq!(told_of_names(|| daemon.client()), of_client);
    let mut other = daemon.client();
    let own = other.unique_name().to_owned();
    assert_eq!(credentials(&mut other, &own), of_both[0][0]);
}
