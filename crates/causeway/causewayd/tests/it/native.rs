//! One bus for native members and clients: one order, calls in both directions, names that pass between both.

use std::os::fd::AsFd;
use std::sync::Barrier;

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Header};
use causeway_bus::{Connection as Member, ConnectionOptions, Error, Incoming, NameReply, Payload, name};

use crate::support::*;

const NAME: &str = "com.example.Name";
const RULE: &str = "type='signal',interface='com.example.Test'";

/// Members and clients that wait for the signals of a test.
fn listeners(bus: &NativeBus, of_each: usize) -> (Vec<Member>, Vec<Client>) {
    let patient = ConnectionOptions { laggard_deadline: Some(PATIENCE), ..ConnectionOptions::default() };
    let members = (0..of_each).map(|_| {
        let mut member = Member::open_with(bus.path(), patient.clone()).unwrap();
        member.add_match(RULE).unwrap();
        member
    });
    let clients = (0..of_each).map(|_| {
        let mut client = bus.client();
        client.add_match(RULE).unwrap();
        client
    });
    (members.collect(), clients.collect())
}

#[test]
fn members_and_clients_see_the_signals_of_both_in_one_order() {
    const EACH: usize = 300;
    let bus = NativeBus::start();
    let (members, clients) = listeners(&bus, 4);
    let senders = Barrier::new(4);
    let seen: Vec<Vec<String>> = std::thread::scope(|scope| {
        let members = members.into_iter().map(|mut member| {
            scope.spawn(move || {
                let next = |_| signal_of(&mut member, INTERFACE).text().unwrap().to_owned();
                (0..4 * EACH).map(next).collect::<Vec<_>>()
            })
        });
        let clients = clients.into_iter().map(|mut client| {
            scope.spawn(move || {
                let next = |_| texts(&client_signal(&mut client, INTERFACE)).remove(0);
                (0..4 * EACH).map(next).collect::<Vec<_>>()
            })
        });
        let threads: Vec<_> = members.collect::<Vec<_>>().into_iter().chain(clients).collect();
        for sender in 0..2 {
            let (bus, senders) = (&bus, &senders);
            scope.spawn(move || {
                let mut member = bus.member();
                senders.wait();
                for round in 0..EACH {
                    member.emit(PATH, INTERFACE, "Count", text(&format!("member {sender} {round}"))).unwrap();
                }
            });
            scope.spawn(move || {
                let mut client = bus.client();
                senders.wait();
                for round in 0..EACH {
                    let body = text(&format!("client {sender} {round}"));
                    client.send(&Builder::signal(PATH, INTERFACE, "Count").body(body)).unwrap();
                }
                client.ask_driver("GetId", Body::default()).unwrap();
            });
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for other in &seen[1..] {
        let differs = seen[0].iter().zip(other).position(|(one, two)| one != two);
        assert_eq!(differs, None, "the listeners saw different orders");
    }
    for sender in ["member 0", "member 1", "client 0", "client 1"] {
        let of_one = seen[0].iter().filter(|text| text.starts_with(sender));
        let rounds: Vec<usize> =
            of_one.map(|text| text.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(rounds, (0..EACH).collect::<Vec<_>>(), "{sender}");
    }
}

/// One connection sends a signal, and a second answers it with a signal of its own. A third receives the cause before its effect, whichever of the three are native.
#[test]
fn what_caused_a_message_comes_before_it_across_both_kinds() {
    let bus = NativeBus::start();
    let (mut members, mut clients) = listeners(&bus, 2);
    let (mut member, mut client) = (bus.member(), bus.client());
    let effect = Builder::signal(PATH, INTERFACE, "Effect");
    let cause = Builder::signal(PATH, INTERFACE, "Cause");
    let assert_order = |members: &mut [Member], clients: &mut [Client], round: usize| {
        for member in members {
            for expected in ["Cause", "Effect"] {
                assert_eq!(signal_of(member, INTERFACE).header().member, Some(expected), "{round}");
            }
        }
        for client in clients {
            for expected in ["Cause", "Effect"] {
                let got = client_signal(client, INTERFACE);
                assert_eq!(Header::parse(&got).unwrap().member, Some(expected), "{round}");
            }
        }
    };
    for round in 0..100 {
        // A member, then a client that has heard it.
        member.emit(PATH, INTERFACE, "Cause", Body::default()).unwrap();
        client_signal(&mut clients[0], INTERFACE);
        clients[0].send(&effect).unwrap();
        client_signal(&mut clients[0], INTERFACE);
        assert_order(&mut members, &mut clients[1..], round);
        // A client, then a member that has heard it.
        client.send(&cause).unwrap();
        signal_of(&mut members[0], INTERFACE);
        members[0].emit(PATH, INTERFACE, "Effect", Body::default()).unwrap();
        signal_of(&mut members[0], INTERFACE);
        assert_order(&mut members[1..], &mut clients, round);
    }
}

#[test]
fn calls_cross_in_both_directions_and_a_signal_comes_before_the_reply_behind_it() {
    let bus = NativeBus::start();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.add_match(RULE).unwrap();
    client.add_match(RULE).unwrap();
    let names = [member.unique_name().to_owned(), client.unique_name().to_owned()];
    for round in 0..100 {
        let question = round.to_string();
        // The client calls the member, which emits a signal and answers then.
        let asked =
            Builder::call(PATH, "Ask").interface(INTERFACE).destination(&names[0]).body(text(&question));
        let serial = client.send(&asked).unwrap();
        let got = call(&mut member);
        assert_eq!((got.text(), got.header().sender), (Some(question.as_str()), Some(names[1].as_str())));
        member.emit(PATH, INTERFACE, "Before", Body::default()).unwrap();
        member.reply(&got, text("answer")).unwrap();
        let is_either =
            |header: &Header<'_>| header.interface == Some(INTERFACE) || header.reply_serial == Some(serial);
        let first = wait_for(&mut client, is_either);
        assert_eq!(Header::parse(&first).unwrap().member, Some("Before"), "{round}");
        let reply = wait_for(&mut client, is_either);
        assert_eq!(texts(&reply), ["answer"]);
        signal_of(&mut member, INTERFACE);
        // And the other way round.
        let serial = member.start_call(&names[1], PATH, INTERFACE, "Ask", text(&question)).unwrap();
        let got = wait_for(&mut client, |header| header.member == Some("Ask"));
        let header = Header::parse(&got).unwrap();
        assert_eq!((texts(&got), header.sender), (vec![question], Some(names[0].as_str())));
        client.send(&Builder::signal(PATH, INTERFACE, "Before")).unwrap();
        let reply = Builder::reply(header.serial).destination(&names[0]).body(text("answer"));
        client.send(&reply).unwrap();
        client_signal(&mut client, INTERFACE);
        let reply = member.finish_call(serial, PATIENCE).unwrap();
        let Some(Incoming::Signal(before)) = member.next(Some(PATIENCE)).unwrap() else {
            panic!("no signal")
        };
        assert!(before.position() < reply.position(), "{round}");
        assert_eq!(reply.text(), Some("answer"));
    }
    // Nothing of all this is open any more.
    let pending = client.ask_driver("GetConnectionUnixProcessID", text(&names[0])).unwrap();
    assert_eq!(number(&pending), Some(std::process::id()));
}

#[test]
fn a_call_ends_when_its_callee_of_the_other_kind_does() {
    let bus = NativeBus::start();
    let (mut member, mut client) = (bus.member(), bus.client());
    for _ in 0..20 {
        let callee = bus.member();
        let asked = Builder::call(PATH, "Ask").destination(callee.unique_name());
        let serial = client.send(&asked).unwrap();
        client.ask_driver("GetId", Body::default()).unwrap();
        drop(callee);
        let reply = wait_for(&mut client, |header| header.reply_serial == Some(serial));
        assert_eq!(Header::parse(&reply).unwrap().error_name, Some(name::NO_REPLY));

        let callee = bus.client();
        let serial =
            member.start_call(callee.unique_name(), PATH, INTERFACE, "Ask", Body::default()).unwrap();
        drop(callee);
        let error = member.finish_call(serial, PATIENCE).unwrap_err();
        assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    }
    // One that is gone already.
    let gone = bus.client().unique_name().to_owned();
    eventually_seen("the client stays", || member.list_names().contains(&gone), |is_there| !is_there);
    let error = member.call(&gone, PATH, INTERFACE, "Ask", Body::default()).unwrap_err();
    assert_eq!(error.name(), Some(name::SERVICE_UNKNOWN), "{error}");
}

#[test]
fn a_name_passes_between_members_and_clients_through_its_queue() {
    let bus = NativeBus::start();
    let (mut member, mut client, mut watcher) = (bus.member(), bus.client(), bus.member());
    let mut caller = bus.client();
    let rule = format!("type='signal',member='NameOwnerChanged',arg0='{NAME}'");
    watcher.add_match(&rule).unwrap();
    caller.add_match(&rule).unwrap();
    let [one, two] = [member.unique_name().to_owned(), client.unique_name().to_owned()];
    assert_eq!(member.request_name(NAME, 1).unwrap(), NameReply::PrimaryOwner);
    assert_eq!(client.request_name(NAME, 4).unwrap(), 3);
    assert_eq!(client.request_name(NAME, 0).unwrap(), 2);
    // Replaced, the member waits; it gets the name back when the client gives it up.
    assert_eq!(client.request_name(NAME, 2).unwrap(), 1);
    assert_eq!(watcher.name_owner(NAME), Some(two.clone()));
    let ask = Builder::call(PATH, "Ask").destination(NAME).flags(FLAG_NO_REPLY_EXPECTED);
    caller.send(&ask).unwrap();
    wait_for(&mut client, |header| header.member == Some("Ask"));
    let queue = caller.ask_driver("ListQueuedOwners", text(NAME)).unwrap();
    assert_eq!(owners(&queue), [two.clone(), one.clone()]);
    client.ask_driver("ReleaseName", text(NAME)).unwrap();
    caller.send(&ask).unwrap();
    assert_eq!(call(&mut member).header().member, Some("Ask"));
    watcher.call_without_reply(NAME, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    assert_eq!(call(&mut member).header().member, Some("Ask"));
    drop(member);
    let none = String::new();
    let expected = [[none.clone(), one.clone()], [one.clone(), two.clone()], [two, one.clone()], [one, none]];
    for change in &expected {
        let seen = signal_of(&mut watcher, "org.freedesktop.DBus");
        assert_eq!(texts(seen.bytes())[1..], change[..]);
        let seen = wait_for(&mut caller, |header| header.member == Some("NameOwnerChanged"));
        assert_eq!(texts(&seen)[1..], change[..]);
    }
    assert_eq!(watcher.name_owner(NAME), None);
}

/// All strings in an array of the body.
fn owners(message: &[u8]) -> Vec<String> {
    let header = Header::parse(message).unwrap();
    let mut found = Vec::new();
    causeway_dbus_wire::wire::walk(&header, &message[header.header_bytes..], &mut |leaf, _| {
        if let causeway_dbus_wire::wire::Leaf::Text(text) = leaf {
            found.push(text.to_owned());
        }
    })
    .unwrap();
    found
}

#[test]
fn members_and_clients_know_of_each_other() {
    let bus = NativeBus::start();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.add_match("member='NameOwnerChanged'").unwrap();
    client.add_match("member='NameOwnerChanged'").unwrap();
    for round in 0..6 {
        let name = match round % 2 {
            0 => bus.member().unique_name().to_owned(),
            _ => bus.client().unique_name().to_owned(),
        };
        let (arrival, end) = ([&name, "", &name], [&name, &name, ""]);
        for expected in [arrival, end] {
            while texts(signal_of(&mut member, "org.freedesktop.DBus").bytes()) != expected {}
            let is_change = |header: &Header<'_>| header.member == Some("NameOwnerChanged");
            while texts(&wait_for(&mut client, is_change)) != expected {}
        }
    }
    let own = member.unique_name().to_owned();
    let names = owners(&client.ask_driver("ListNames", Body::default()).unwrap());
    assert!(names.contains(&own) && names.contains(&client.unique_name().to_owned()), "{names:?}");
    assert!(member.list_names().contains(&client.unique_name().to_owned()));
    let credentials = client.ask_driver("GetConnectionCredentials", text(&own)).unwrap();
    assert!(owners(&credentials).iter().any(|key| key == "UnixUserID"));
    let stats = "org.freedesktop.DBus.Debug.Stats";
    let rules = Builder::call("/org/freedesktop/DBus", "GetAllMatchRules").interface(stats);
    let rules = client.call(&rules.destination("org.freedesktop.DBus"), PATIENCE).unwrap();
    let rules = owners(&rules);
    let at = rules.iter().position(|text| *text == own).unwrap();
    assert_eq!(rules[at + 1], "member='NameOwnerChanged'");
    let error = member
        .call(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.Monitoring",
            "BecomeMonitor",
            {
                let mut out = causeway_dbus_wire::wire::Marshal::default();
                out.texts(std::iter::empty());
                out.u32(0);
                out.into_body("asu")
            },
        )
        .unwrap_err();
    assert_eq!(error.name(), Some("org.freedesktop.DBus.Error.NotSupported"), "{error}");
}

#[test]
fn a_monitor_among_the_clients_sees_messages_between_members() {
    let bus = NativeBus::start();
    let mut monitor = bus.client();
    let (mut one, mut two) = (bus.member(), bus.member());
    monitor.become_monitor().unwrap();
    // From here on members know that they are watched.
    ask_bus(&mut one);
    for round in 0..50 {
        let serial =
            one.start_call(two.unique_name(), PATH, INTERFACE, "Ask", text(&round.to_string())).unwrap();
        let asked = call(&mut two);
        two.emit(PATH, INTERFACE, "Unwanted", Body::default()).unwrap();
        two.reply(&asked, text("answer")).unwrap();
        one.finish_call(serial, PATIENCE).unwrap();
        let seen = wait_for(&mut monitor, |header| header.member == Some("Ask"));
        assert_eq!(texts(&seen), [round.to_string()]);
        let seen = wait_for(&mut monitor, |_| true);
        assert_eq!(Header::parse(&seen).unwrap().member, Some("Unwanted"));
        let seen = wait_for(&mut monitor, |_| true);
        assert_eq!(
            (Header::parse(&seen).unwrap().reply_serial, texts(&seen)),
            (Some(serial), vec!["answer".into()])
        );
    }
}

/// 3 MiB and a descriptor, in calls, replies and signals in both directions.
#[test]
fn descriptors_and_long_messages_cross_between_members_and_clients() {
    let bus = NativeBus::start();
    let (mut member, mut client, mut listener) = (bus.member(), bus.client(), bus.member());
    client.keep_descriptors();
    listener.add_match(RULE).unwrap();
    client.add_match(RULE).unwrap();
    let bytes = vec![7; 3 << 20];
    let with_pipe =
        |pipe: &Pipe| Payload::from(Body::default().blob(&bytes)).descriptor(pipe.write.try_clone().unwrap());
    let with_index = || Body::default().blob(&bytes).descriptor_index(0);
    // The length, the bytes, the index.
    let long = 4 + (3 << 20) + 4;
    let names = [member.unique_name().to_owned(), client.unique_name().to_owned()];
    let body_bytes = |message: &[u8]| message.len() - Header::parse(message).unwrap().header_bytes;

    // A client calls a member.
    let (question, answer) = (Pipe::new(), Pipe::new());
    let asked = Builder::call(PATH, "Ask").destination(&names[0]).unix_fds(1).body(with_index());
    let serial = client.send_with_fds(&asked, &[question.write.as_fd()]).unwrap();
    let got = call(&mut member);
    assert_eq!(got.body().len(), long);
    write_into(got.take_descriptors(), "from the client");
    member.reply(&got, with_pipe(&answer)).unwrap();
    let reply = wait_for(&mut client, |header| header.reply_serial == Some(serial));
    assert_eq!(body_bytes(&reply), long);
    write_into(client.take_descriptors(), "from the member");
    assert_eq!((question.text(), answer.text()), ("from the client".into(), "from the member".into()));

    // A member calls a client.
    let (question, answer) = (Pipe::new(), Pipe::new());
    let serial = member.start_call(&names[1], PATH, INTERFACE, "Ask", with_pipe(&question)).unwrap();
    let got = wait_for(&mut client, |header| header.member == Some("Ask"));
    assert_eq!(body_bytes(&got), long);
    write_into(client.take_descriptors(), "from the member");
    let answered = Header::parse(&got).unwrap().serial;
    let reply = Builder::reply(answered).destination(&names[0]).unix_fds(1).body(with_index());
    client.send_with_fds(&reply, &[answer.write.as_fd()]).unwrap();
    let reply = member.finish_call(serial, PATIENCE).unwrap();
    assert_eq!(reply.body().len(), long);
    write_into(reply.take_descriptors(), "from the client");
    assert_eq!((question.text(), answer.text()), ("from the member".into(), "from the client".into()));

    // Signals of both.
    let (one, two) = (Pipe::new(), Pipe::new());
    member.emit(PATH, INTERFACE, "File", with_pipe(&one)).unwrap();
    assert_eq!(body_bytes(&client_signal(&mut client, INTERFACE)), long);
    write_into(client.take_descriptors(), "client");
    write_into(signal_of(&mut listener, INTERFACE).take_descriptors(), "member");
    let mut heard = one.text();
    assert!(heard == "clientmember" || heard == "memberclient", "{heard}");
    let file = Builder::signal(PATH, INTERFACE, "File").unix_fds(1).body(with_index());
    client.send_with_fds(&file, &[two.write.as_fd()]).unwrap();
    client_signal(&mut client, INTERFACE);
    write_into(client.take_descriptors(), "client");
    write_into(signal_of(&mut listener, INTERFACE).take_descriptors(), "member");
    heard = two.text();
    assert!(heard == "clientmember" || heard == "memberclient", "{heard}");
}

/// A member writes wild bytes into the order log: members must join again, clients notice nothing but their end.
#[test]
fn a_broken_log_does_not_end_the_bus_for_clients() {
    use causeway_bus::shared::ring::{self, Cells, Entry};
    let bus = NativeBus::start();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.request_name(NAME, 0).unwrap();
    let order = member.order_log();
    let end =
        (0..).find(|position| !matches!(ring::look(&**order, *position), ring::Cell::Present(_))).unwrap();
    let entry = Entry { sender: 1, destination: 0, place: 4711 };
    order.entry(end).store(entry.word(ring::lap(&**order, end)), std::sync::atomic::Ordering::Release);
    // The bus reads on when it has something to say.
    eventually_seen(
        "the name stays",
        || {
            client.ask_driver("RequestName", text("com.example.Other").u32(0)).unwrap();
            client.ask_driver("ReleaseName", text("com.example.Other")).unwrap();
            refused_owner(&mut client)
        },
        |is_gone| *is_gone,
    );
    let error = loop {
        match member.next(Some(PATIENCE)) {
            Ok(incoming) => assert!(incoming.is_some(), "the member does not learn that the bus has ended"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    let mut again = bus.member();
    assert_eq!(again.request_name(NAME, 0).unwrap(), NameReply::PrimaryOwner);
    let ask = Builder::call(PATH, "Ask").destination(NAME).flags(FLAG_NO_REPLY_EXPECTED);
    client.send(&ask).unwrap();
    assert_eq!(call(&mut again).header().member, Some("Ask"));
}

fn refused_owner(client: &mut Client) -> bool {
    client.call(&driver_call("GetNameOwner").body(text(NAME)), PATIENCE).is_err()
}

#[test]
fn a_second_causewayd_at_the_same_native_path_says_so() {
    let bus = NativeBus::start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_causewayd"))
        .args(["--address", "unix:tmpdir=/tmp", "--nofork", "--native"])
        .arg(bus.path())
        .output()
        .unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && said.contains("another process serves there"), "{said}");
    // The first goes on.
    bus.member().request_name(NAME, 0).unwrap();
}
