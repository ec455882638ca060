//! Names, calls, order: what well-behaved members see.

use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{
    Body, Builder, Endian, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind,
};

use crate::support::*;

/// Name, old owner, new owner of each `NameOwnerChanged` until that of `last`.
fn changes(connection: &mut Client, last: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    loop {
        let message = wait_for(connection, |header| header.member == Some("NameOwnerChanged"));
        all.push(texts(&message));
        if all.last().unwrap()[0] == last {
            return all;
        }
    }
}

#[test]
fn a_name_passes_through_its_queue_and_everybody_is_told_in_order() {
    let broker = Broker::start();
    let (mut watcher, mut first) = (broker.open(), broker.open());
    let (mut second, mut third) = (broker.open(), broker.open());
    watcher.add_match("member='NameOwnerChanged'").unwrap();
    let names = [&first, &second, &third].map(|connection| connection.unique_name().to_owned());
    assert_eq!(first.request_name("a.Name", 1).unwrap(), 1);
    assert_eq!(second.request_name("a.Name", 0).unwrap(), 2);
    // It replaces the first, which waits before the second then.
    assert_eq!(third.request_name("a.Name", 2).unwrap(), 1);
    let lost = wait_for(&mut first, |header| header.member == Some("NameLost"));
    assert_eq!(texts(&lost), ["a.Name"]);
    drop(third);
    wait_for(&mut first, |header| header.member == Some("NameAcquired"));
    let released = first.ask_driver("ReleaseName", Body::default().text("a.Name")).unwrap();
    assert_eq!(number(&released), Some(1));
    second.request_name("last.Name", 0).unwrap();
    let seen = changes(&mut watcher, "last.Name");
    let [one, two, three] = names.each_ref().map(String::as_str);
    let expected = [
        ["a.Name", "", one],
        ["a.Name", one, three],
        ["a.Name", three, one],
        [three, three, ""],
        ["a.Name", one, two],
        ["last.Name", "", two],
    ];
    assert_eq!(seen, expected);
    for (name, error) in
        [(":1.1", "InvalidArgs"), ("org.freedesktop.DBus", "InvalidArgs"), ("a", "InvalidArgs")]
    {
        let refused = first.ask_driver("RequestName", Body::default().text(name).u32(0));
        assert_eq!(refusal(refused), error, "{name}");
    }
    // 255 bytes are a name, 256 are none.
    let long = format!("a.{}", "b".repeat(253));
    assert_eq!(first.request_name(&long, 0).unwrap(), 1);
    let refused = first.ask_driver("RequestName", Body::default().text(&format!("{long}b")).u32(0));
    assert_eq!(refusal(refused), "InvalidArgs");
}

#[test]
fn a_call_ends_with_its_reply_or_with_the_death_of_its_callee() {
    let broker = Broker::start();
    let (mut caller, mut callee, mut other) = (broker.open(), broker.open(), broker.open());
    let to = callee.unique_name().to_owned();
    let own = caller.unique_name().to_owned();
    let call = Builder::call("/", "Method").destination(&to);
    let serial = caller.send(&call).unwrap();
    let got = wait_for(&mut callee, |header| header.member == Some("Method"));
    let header = Header::parse(&got).unwrap();
    assert_eq!((header.sender, header.serial), (Some(own.as_str()), serial));
    // Nobody else can answer, the callee can once, and a reply to nothing is dropped.
    let reply = |serial| Builder::reply(serial).destination(&own);
    other.send(&reply(serial).body(Body::default().text("forged"))).unwrap();
    other.ask_driver("GetId", Body::default()).unwrap();
    callee.send(&reply(serial + 1).body(Body::default().text("unasked"))).unwrap();
    callee.send(&reply(serial).body(Body::default().text("true"))).unwrap();
    callee.send(&reply(serial).body(Body::default().text("twice"))).unwrap();
    callee.ask_driver("GetId", Body::default()).unwrap();
    let second = caller.send(&call).unwrap();
    wait_for(&mut callee, |header| header.member == Some("Method"));
    caller.send(&call.clone().flags(FLAG_NO_REPLY_EXPECTED)).unwrap();
    wait_for(&mut callee, |header| header.flags & FLAG_NO_REPLY_EXPECTED != 0);
    drop(callee);
    let answer = wait_for(&mut caller, |header| header.kind == Kind::MethodReturn);
    assert_eq!(texts(&answer), ["true"]);
    let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
    let header = Header::parse(&answer).unwrap();
    assert_eq!(header.reply_serial, Some(second));
    assert_eq!(header.error_name, Some("org.freedesktop.DBus.Error.NoReply"));
    // One NoReply: the other call wanted none.
    let id = caller.send(&driver_call("GetId")).unwrap();
    let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
    assert_eq!(Header::parse(&answer).unwrap().reply_serial, Some(id));
    // Nobody is there any more.
    assert_eq!(refusal(caller.call(&call, PATIENCE)), "ServiceUnknown");
    let call = call.flags(FLAG_NO_AUTO_START);
    assert_eq!(refusal(caller.call(&call, PATIENCE)), "NameHasNoOwner");
}

#[test]
fn a_call_that_is_not_answered_in_the_time_of_the_configuration_ends() {
    let broker = Broker::configured("<limit name='reply_timeout'>50</limit>");
    let (mut caller, mut callee) = (broker.open(), broker.open());
    let to = callee.unique_name().to_owned();
    let own = caller.unique_name().to_owned();
    let call = Builder::call("/", "Method").destination(&to);
    assert_eq!(refusal(caller.call(&call, PATIENCE)), "NoReply");
    // Its answer comes too late for anybody.
    let got = wait_for(&mut callee, |header| header.member == Some("Method"));
    let serial = Header::parse(&got).unwrap().serial;
    callee.send(&Builder::reply(serial).destination(&own)).unwrap();
    callee.ask_driver("GetId", Body::default()).unwrap();
    caller.ask_driver("GetId", Body::default()).unwrap();
    assert!(
        caller
            .receive(Duration::ZERO)
            .unwrap()
            .is_none_or(|message| { Header::parse(&message).unwrap().kind == Kind::Signal })
    );
}

#[test]
fn all_receivers_see_the_broadcasts_of_two_senders_in_one_order() {
    const EACH: u32 = 5_000;
    let broker = Broker::start();
    let mut receivers: Vec<Client> = (0..4).map(|_| broker.open()).collect();
    for receiver in &mut receivers {
        receiver.add_match("interface='a.Order'").unwrap();
    }
    let orders: Vec<Vec<(String, u32)>> = std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut sender = broker.open();
            scope.spawn(move || {
                for number in 0..EACH {
                    let signal = Builder::signal("/", "a.Order", "Next").body(Body::default().u32(number));
                    sender.send(&signal).unwrap();
                }
                // What was sent is with the bus when it answers.
                sender.ask_driver("GetId", Body::default()).unwrap();
            });
        }
        let reading = receivers.iter_mut().map(|receiver| {
            scope.spawn(move || {
                let mut order = Vec::new();
                while order.len() < 2 * EACH as usize {
                    let message = wait_for(receiver, |header| header.interface == Some("a.Order"));
                    let sender = Header::parse(&message).unwrap().sender.unwrap().to_owned();
                    order.push((sender, number(&message).unwrap()));
                }
                order
            })
        });
        reading.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(orders.iter().all(|order| *order == orders[0]), "the receivers do not agree");
    let mut last = std::collections::HashMap::new();
    for (sender, number) in &orders[0] {
        let before = last.insert(sender, *number);
        assert_eq!(before.map_or(0, |before| before + 1), *number, "of {sender}");
    }
}

#[test]
fn messages_in_the_other_byte_order_pass_unchanged() {
    let broker = Broker::start();
    let (mut sender, mut receiver) = (broker.open(), broker.open());
    receiver.add_match("interface='a.Order',arg0='text'").unwrap();
    let other = if Endian::NATIVE == Endian::Little { Endian::Big } else { Endian::Little };
    let body = Body::in_order(other).text("text").u32(7);
    sender.send(&Builder::signal("/", "a.Order", "Next").body(body)).unwrap();
    let got = wait_for(&mut receiver, |header| header.interface == Some("a.Order"));
    assert_eq!((Header::parse(&got).unwrap().endian, number(&got)), (other, Some(7)));
    // A call of the driver too.
    let call =
        driver_call("GetConnectionUnixProcessID").body(Body::in_order(other).text(sender.unique_name()));
    let pid = sender.call(&call, PATIENCE).unwrap();
    assert_eq!(number(&pid), Some(std::process::id()));
}

#[test]
fn a_monitor_sees_everything_and_must_be_silent() {
    let broker = Broker::start();
    let (mut monitor, mut caller) = (broker.open(), broker.open());
    monitor.become_monitor().unwrap();
    caller.ask_driver("NameHasOwner", Body::default().text("a.Name")).unwrap();
    let call = wait_for(&mut monitor, |header| header.member == Some("NameHasOwner"));
    let serial = Header::parse(&call).unwrap().serial;
    wait_for(&mut monitor, |header| header.reply_serial == Some(serial));
    // It has no name any more, and its first message ends it.
    let gone = caller.ask_driver("GetNameOwner", Body::default().text(monitor.unique_name()));
    assert_eq!(refusal(gone), "NameHasNoOwner");
    monitor.send(&Builder::signal("/", "a.B", "C")).unwrap();
    let ended = loop {
        match monitor.receive(PATIENCE) {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(causeway_bus::client::Error::Closed)), "{ended:?}");
}

#[test]
fn limits_of_the_configuration_are_errors_to_the_one_that_reaches_them() {
    let broker = Broker::configured(
        "<limit name='max_match_rules_per_connection'>2</limit><limit name='max_names_per_connection'>2</limit>\
         <limit name='max_replies_per_connection'>2</limit><limit name='max_connections_per_user'>3</limit>",
    );
    let (mut one, two) = (broker.open(), broker.open());
    let rule = |number: u32| Body::default().text(&format!("member='M{number}'"));
    for number in 0..2 {
        one.ask_driver("AddMatch", rule(number)).unwrap();
    }
    assert_eq!(refusal(one.ask_driver("AddMatch", rule(2))), "LimitsExceeded");
    one.ask_driver("RemoveMatch", rule(0)).unwrap();
    one.ask_driver("AddMatch", rule(2)).unwrap();
    assert_eq!(refusal(one.ask_driver("RemoveMatch", rule(0))), "MatchRuleNotFound");
    // The unique name is one of two.
    assert_eq!(one.request_name("a.One", 0).unwrap(), 1);
    let refused = one.ask_driver("RequestName", Body::default().text("a.Two").u32(0));
    assert_eq!(refusal(refused), "LimitsExceeded");
    let to = two.unique_name().to_owned();
    let call = Builder::call("/", "M").destination(&to);
    one.send(&call).unwrap();
    one.send(&call).unwrap();
    assert_eq!(refusal(one.call(&call, PATIENCE)), "LimitsExceeded");
    let _three = broker.open();
    assert_eq!(refusal(Client::open(&broker.address)), "LimitsExceeded");
}

/// Those that it loses as it leaves come last, the unique one after the others.
#[test]
fn a_monitor_sees_which_names_one_that_leaves_loses() {
    let broker = Broker::start();
    let (mut monitor, mut leaving) = (broker.open(), broker.open());
    let own = leaving.unique_name().to_owned();
    let become_monitor = driver_call("BecomeMonitor").interface("org.freedesktop.DBus.Monitoring");
    monitor.call(&become_monitor.body(Body::default().texts(&[]).u32(0)), PATIENCE).unwrap();
    leaving.request_name("a.Name", 0).unwrap();
    drop(leaving);
    let mut seen = Vec::new();
    let is_of_its_end = |header: &Header<'_>| {
        header.member == Some("NameLost") && header.destination == Some(&own)
            || header.member == Some("NameOwnerChanged")
    };
    while seen.last().is_none_or(|last| {
        *last != ("NameOwnerChanged".to_owned(), vec![own.clone(), own.clone(), String::new()])
    }) {
        let message = wait_for(&mut monitor, is_of_its_end);
        let member = Header::parse(&message).unwrap().member.unwrap().to_owned();
        seen.push((member, texts(&message)));
    }
    let members: Vec<(&str, &str)> =
        seen.iter().map(|(member, texts)| (member.as_str(), texts[0].as_str())).collect();
    let expected = [
        ("NameLost", "a.Name"),
        ("NameOwnerChanged", "a.Name"),
        ("NameLost", own.as_str()),
        ("NameOwnerChanged", own.as_str()),
    ];
    assert!(members.ends_with(&expected), "{members:?}");
}

#[test]
fn a_call_to_nobody_is_answered_if_it_is_one_of_a_peer_and_refused_else() {
    let broker = Broker::start();
    let mut caller = broker.open();
    let to_nobody = |interface, member| Builder::call("/", member).interface(interface);
    caller.call(&to_nobody("org.freedesktop.DBus.Peer", "Ping"), PATIENCE).unwrap();
    for call in
        [to_nobody("org.freedesktop.DBus", "GetId"), Builder::call("/", "Ping"), to_nobody("a.B", "Ping")]
    {
        assert_eq!(refusal(caller.call(&call, PATIENCE)), "UnknownMethod");
    }
}

#[test]
fn the_credentials_of_the_bus_have_its_groups() {
    let broker = Broker::start();
    let mut client = broker.open();
    let own = client.unique_name().to_owned();
    for of in ["org.freedesktop.DBus", own.as_str()] {
        let answer = client.ask_driver("GetConnectionCredentials", Body::default().text(of)).unwrap();
        let has = |text: &[u8]| answer.windows(text.len()).any(|bytes| bytes == text);
        assert!(has(b"UnixUserID") && has(b"ProcessID"), "{of}");
        assert!(has(b"UnixGroupIDs") || of != "org.freedesktop.DBus", "{of}");
    }
}

#[test]
fn only_what_a_file_provides_can_be_started() {
    let broker = Broker::start();
    let mut client = broker.open();
    let own = client.unique_name().to_owned();
    client.request_name("a.Name", 0).unwrap();
    for name in [own.as_str(), "a.Name", "a.Nobody", "org.freedesktop.DBus", "none"] {
        let started = client.ask_driver("StartServiceByName", Body::default().text(name).u32(0));
        assert_eq!(refusal(started), "ServiceUnknown", "{name}");
    }
}
