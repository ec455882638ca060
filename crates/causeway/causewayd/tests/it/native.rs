//! One bus for native members and clients: one order, calls in both directions, names that pass between both.

use std::os::fd::AsFd;
use std::sync::Barrier;

use causeway_bus::client::Bus as Client;
use causeway_bus::shared::ring::{self, Cells, Entry};
use causeway_bus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Leaf, Marshal, walk};
use causeway_bus::{AuthorityOptions, Connection as Member, ConnectionOptions, Error, NameReply, Payload};

use crate::support::*;

const NAME: &str = "com.example.Name";

/// Members and clients that wait for the signals of a test.
fn listeners(bus: &Bus, of_each: usize) -> (Vec<Member>, Vec<Client>) {
    let options = |index| match index {
        0 => small(),
        _ => ConnectionOptions { laggard_deadline: Some(PATIENCE), ..ConnectionOptions::default() },
    };
    let mut members: Vec<_> = (0..of_each).map(|index| bus.member_with(options(index))).collect();
    let mut clients: Vec<_> = (0..of_each).map(|_| bus.client()).collect();
    members.iter_mut().for_each(|member| member.add_match(RULE).unwrap());
    clients.iter_mut().for_each(|client| client.add_match(RULE).unwrap());
    (members, clients)
}

/// Two members and two clients send as fast as they can; the members hear each other, too.
#[test]
fn all_see_the_signals_of_members_and_clients_in_one_order() {
    const EACH: usize = 300;
    let patient = AuthorityOptions { laggard_deadline: PATIENCE, ..AuthorityOptions::default() };
    for bus in [Bus::start_with(patient), Bus::start_small()] {
        let (members, clients) = listeners(&bus, 4);
        let (bus, start) = (&bus, &Barrier::new(4));
        let seen: Vec<Vec<String>> = std::thread::scope(|scope| {
            let members = (0..).zip(members).map(|(index, mut member)| {
                scope.spawn(move || {
                    if index < 2 {
                        start.wait();
                        for round in 0..EACH {
                            let body = format!("member {index} {round} {}", "x".repeat(round % 200));
                            member.emit(PATH, INTERFACE, "Count", text(&body)).unwrap();
                        }
                    }
                    let mut next = || signal_of(&mut member, INTERFACE).text().unwrap().to_owned();
                    (0..4 * EACH).map(|_| next()).collect::<Vec<_>>()
                })
            });
            let clients = clients.into_iter().map(|mut client| {
                scope.spawn(move || {
                    (0..4 * EACH).map(|_| texts(&client_signal(&mut client)).remove(0)).collect::<Vec<_>>()
                })
            });
            let threads: Vec<_> = members.collect::<Vec<_>>().into_iter().chain(clients).collect();
            for sender in 0..2 {
                scope.spawn(move || {
                    let mut client = bus.client();
                    start.wait();
                    for round in 0..EACH {
                        let body = text(&format!("client {sender} {round} "));
                        client.send(&Builder::signal(PATH, INTERFACE, "Count").body(body)).unwrap();
                    }
                    sync(&mut client);
                });
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for other in &seen[1..] {
            let differs = seen[0].iter().zip(other).position(|(one, two)| one != two);
            assert_eq!(differs, None, "the listeners saw different orders");
        }
        for sender in ["member 0", "member 1", "client 0", "client 1"] {
            let of_one = seen[0].iter().filter_map(|text| text.strip_prefix(sender));
            let rounds = of_one.map(|text| text.split(' ').nth(1).unwrap().parse::<usize>().unwrap());
            assert!(rounds.eq(0..EACH), "{sender}");
        }
    }
}

/// One connection sends a signal, and a second answers it with a signal of its own. A third receives the cause before its effect, whichever of the three are native.
#[test]
fn what_caused_a_message_comes_before_it() {
    let bus = Bus::start();
    let (mut members, mut clients) = listeners(&bus, 2);
    let (mut member, mut client) = (bus.member(), bus.client());
    let [cause, effect] = ["Cause", "Effect"].map(|member| Builder::signal(PATH, INTERFACE, member));
    let assert_order = |members: &mut [Member], clients: &mut [Client], round: usize| {
        for expected in ["Cause", "Effect"] {
            for member in &mut *members {
                assert_eq!(signal(member).header().member, Some(expected), "{round}");
            }
            for client in &mut *clients {
                assert_eq!(header(&client_signal(client)).member, Some(expected), "{round}");
            }
        }
    };
    for round in 0..100 {
        // A member, then a client that has heard it.
        member.emit(PATH, INTERFACE, "Cause", Body::default()).unwrap();
        client_signal(&mut clients[0]);
        clients[0].send(&effect).unwrap();
        client_signal(&mut clients[0]);
        assert_order(&mut members, &mut clients[1..], round);
        // A client or a member, then a member that has heard it.
        if round % 2 == 0 {
            client.send(&cause).unwrap();
        } else {
            member.emit(PATH, INTERFACE, "Cause", Body::default()).unwrap();
        }
        signal(&mut members[0]);
        members[0].emit(PATH, INTERFACE, "Effect", Body::default()).unwrap();
        signal(&mut members[0]);
        assert_order(&mut members[1..], &mut clients, round);
    }
}

#[test]
fn calls_cross_in_both_directions_and_a_signal_comes_before_the_reply_behind_it() {
    let bus = Broker::native();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.add_match(RULE).unwrap();
    client.add_match(RULE).unwrap();
    let names = [member.unique_name().to_owned(), client.unique_name().to_owned()];
    for round in 0..100 {
        let question = round.to_string();
        // The client calls the member, which emits a signal and answers then.
        let asked = Builder::call(PATH, "Ask").destination(&names[0]).body(text(&question));
        let serial = client.send(&asked).unwrap();
        let got = call(&mut member);
        assert_eq!((got.text(), got.header().sender), (Some(&*question), Some(&*names[1])));
        member.emit(PATH, INTERFACE, "Before", Body::default()).unwrap();
        member.reply(&got, text("answer")).unwrap();
        let first = wait_for(&mut client, |header| header.interface != Some(DRIVER));
        assert_eq!(header(&first).member, Some("Before"), "{round}");
        assert_eq!(texts(&wait_for_reply(&mut client, serial)), ["answer"]);
        signal(&mut member);
        // And the other way round.
        let serial = member.start_call(&names[1], PATH, INTERFACE, "Ask", text(&question)).unwrap();
        let got = wait_for_member(&mut client, "Ask");
        assert_eq!((texts(&got), header(&got).sender), (vec![question], Some(&*names[0])));
        client.send(&Builder::signal(PATH, INTERFACE, "Before")).unwrap();
        answer(&mut client, &got, text("answer"));
        client_signal(&mut client);
        let reply = member.finish_call(serial, PATIENCE).unwrap();
        assert!(signal(&mut member).position() < reply.position(), "{round}");
        assert_eq!(reply.text(), Some("answer"));
    }
}

/// The owner is told what it has lost and what it has got, and everybody who owns the name now.
#[test]
fn a_name_passes_between_members_and_clients_through_its_queue() {
    let bus = Broker::native();
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
    assert_eq!(texts(&wait_for_member(&mut client, "NameAcquired")), [&*two]);
    assert_eq!(texts(&wait_for_member(&mut client, "NameAcquired")), [NAME]);
    assert_eq!(watcher.name_owner(NAME), Some(two.clone()));
    let ask = Builder::call(PATH, "Ask").destination(NAME).flags(FLAG_NO_REPLY_EXPECTED);
    caller.send(&ask).unwrap();
    wait_for_member(&mut client, "Ask");
    let queue = caller.ask_driver("ListQueuedOwners", text(NAME)).unwrap();
    assert_eq!(all_texts(&queue), [two.clone(), one.clone()]);
    client.ask_driver("ReleaseName", text(NAME)).unwrap();
    assert_eq!(texts(&wait_for_member(&mut client, "NameLost")), [NAME]);
    let told = std::array::from_fn(|_| signal(&mut member).header().member.unwrap().to_owned());
    assert_eq!(told, ["NameAcquired", "NameLost", "NameAcquired"]);
    caller.send(&ask).unwrap();
    assert_eq!(call(&mut member).header().member, Some("Ask"));
    watcher.call_without_reply(NAME, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    assert_eq!(call(&mut member).header().member, Some("Ask"));
    drop(member);
    let [one, two] = [&*one, &*two];
    for change in [["", one], [one, two], [two, one], [one, ""]] {
        assert_eq!(texts(signal_of(&mut watcher, DRIVER).bytes())[1..], change);
        assert_eq!(texts(&wait_for_member(&mut caller, "NameOwnerChanged"))[1..], change);
    }
    assert_eq!(watcher.name_owner(NAME), None);
}

/// All strings of the body, also those in arrays.
fn all_texts(message: &[u8]) -> Vec<String> {
    let (header, mut found) = (header(message), Vec::new());
    walk(&header, &message[header.header_bytes..], &mut |leaf, _| {
        if let Leaf::Text(text) = leaf {
            found.push(text.to_owned());
        }
    })
    .unwrap();
    found
}

#[test]
fn members_and_clients_know_of_each_other() {
    let bus = Broker::native();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.add_match("member='NameOwnerChanged'").unwrap();
    client.add_match("member='NameOwnerChanged'").unwrap();
    for round in 0..6 {
        let name = match round % 2 {
            0 => bus.member().unique_name().to_owned(),
            _ => bus.client().unique_name().to_owned(),
        };
        for expected in [[&name, "", &name], [&name, &name, ""]] {
            while texts(signal_of(&mut member, DRIVER).bytes()) != expected {}
            while texts(&wait_for_member(&mut client, "NameOwnerChanged")) != expected {}
        }
    }
    let own = member.unique_name().to_owned();
    let names = all_texts(&client.ask_driver("ListNames", Body::default()).unwrap());
    assert!(names.contains(&own) && names.contains(&client.unique_name().to_owned()), "{names:?}");
    assert!(member.list_names().contains(&client.unique_name().to_owned()));
    assert!(contains(&client.ask_driver("GetConnectionCredentials", text(&own)).unwrap(), "UnixUserID"));
    let rules = driver_call("GetAllMatchRules").interface("org.freedesktop.DBus.Debug.Stats");
    let rules = all_texts(&client.call(&rules, PATIENCE).unwrap());
    let at = rules.iter().position(|text| *text == own).unwrap();
    assert_eq!(rules[at + 1], "member='NameOwnerChanged'");
    let mut arguments = Marshal::default();
    arguments.texts([]);
    arguments.u32(0);
    let monitoring = "org.freedesktop.DBus.Monitoring";
    let arguments = arguments.into_body("asu");
    let error = member.call(DRIVER, DRIVER_PATH, monitoring, "BecomeMonitor", arguments).unwrap_err();
    assert_eq!(error.name(), Some("org.freedesktop.DBus.Error.NotSupported"), "{error}");
}

/// 3 MiB and a descriptor, in calls, replies and signals in both directions.
#[test]
fn descriptors_and_long_messages_cross_between_members_and_clients() {
    let bus = Broker::native();
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
    let body_bytes = |message: &[u8]| message.len() - header(message).header_bytes;

    // A client calls a member.
    let (question, reply) = (Pipe::new(), Pipe::new());
    let asked = Builder::call(PATH, "Ask").destination(&names[0]).unix_fds(1).body(with_index());
    let serial = client.send_with_fds(&asked, &[question.write.as_fd()]).unwrap();
    let got = call(&mut member);
    assert_eq!(got.body().len(), long);
    write_into(got.take_descriptors(), "from the client");
    member.reply(&got, with_pipe(&reply)).unwrap();
    assert_eq!(body_bytes(&wait_for_reply(&mut client, serial)), long);
    write_into(client.take_descriptors(), "from the member");
    assert_eq!((question.text(), reply.text()), ("from the client".into(), "from the member".into()));

    // A member calls a client.
    let (question, reply) = (Pipe::new(), Pipe::new());
    let serial = member.start_call(&names[1], PATH, INTERFACE, "Ask", with_pipe(&question)).unwrap();
    let got = wait_for_member(&mut client, "Ask");
    assert_eq!(body_bytes(&got), long);
    write_into(client.take_descriptors(), "from the member");
    let replied = Builder::reply(header(&got).serial).destination(&names[0]).unix_fds(1).body(with_index());
    client.send_with_fds(&replied, &[reply.write.as_fd()]).unwrap();
    let got = member.finish_call(serial, PATIENCE).unwrap();
    assert_eq!(got.body().len(), long);
    write_into(got.take_descriptors(), "from the client");
    assert_eq!((question.text(), reply.text()), ("from the member".into(), "from the client".into()));

    // Signals of both.
    for is_of_member in [true, false] {
        let pipe = Pipe::new();
        if is_of_member {
            member.emit(PATH, INTERFACE, "File", with_pipe(&pipe)).unwrap();
        } else {
            let file = Builder::signal(PATH, INTERFACE, "File").unix_fds(1).body(with_index());
            client.send_with_fds(&file, &[pipe.write.as_fd()]).unwrap();
        }
        assert_eq!(body_bytes(&client_signal(&mut client)), long);
        write_into(client.take_descriptors(), "client");
        write_into(signal(&mut listener).take_descriptors(), "member");
        assert_eq!(pipe.text(), "clientmember", "of a member: {is_of_member}");
    }
}

/// A member writes wild bytes into the order log: members must join again, clients notice nothing but their end.
#[test]
fn a_broken_log_does_not_end_the_bus_for_clients() {
    let bus = Broker::native();
    let (mut member, mut client) = (bus.member(), bus.client());
    member.request_name(NAME, 0).unwrap();
    let order = member.order_log();
    let end =
        (0..).find(|position| !matches!(ring::look(&**order, *position), ring::Cell::Present(_))).unwrap();
    let entry = Entry { sender: 1, destination: 0, place: 4711 };
    order.entry(end).store(entry.word(ring::lap(&**order, end)), std::sync::atomic::Ordering::Release);
    // The bus reads on when it has something to say.
    eventually("the name stays", || {
        client.ask_driver("RequestName", text("com.example.Other").u32(0)).unwrap();
        client.ask_driver("ReleaseName", text("com.example.Other")).unwrap();
        client.name_owner(NAME).unwrap().is_none()
    });
    let error = error_of(&mut member);
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    let mut again = bus.member();
    assert_eq!(again.request_name(NAME, 0).unwrap(), NameReply::PrimaryOwner);
    client.send(&Builder::call(PATH, "Ask").destination(NAME).flags(FLAG_NO_REPLY_EXPECTED)).unwrap();
    assert_eq!(call(&mut again).header().member, Some("Ask"));
}
