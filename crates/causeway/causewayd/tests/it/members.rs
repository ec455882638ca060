//! Calls, limits, monitors, and questions: what well-behaved D-Bus clients see.

use std::time::Duration;

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::{
    Args, Body, Builder, Endian, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Kind,
};

use crate::support::*;

#[test]
fn a_call_ends_with_its_reply_or_with_the_death_of_its_callee() {
    let bus = Broker::start();
    let (mut caller, mut callee, mut other) = (bus.client(), bus.client(), bus.client());
    let to = callee.unique_name().to_owned();
    let own = caller.unique_name().to_owned();
    let call = Builder::call("/", "Method").destination(&to);
    let serial = caller.send(&call).unwrap();
    let got = wait_for_member(&mut callee, "Method");
    assert_eq!((header(&got).sender, header(&got).serial), (Some(&*own), serial));
    // Nobody else can answer, the callee can once, and a reply to nothing is dropped.
    let reply = |serial, says| Builder::reply(serial).destination(&own).body(text(says));
    other.send(&reply(serial, "forged")).unwrap();
    sync(&mut other);
    for (serial, says) in [(serial + 1, "unasked"), (serial, "true"), (serial, "twice")] {
        callee.send(&reply(serial, says)).unwrap();
    }
    sync(&mut callee);
    let second = caller.send(&call).unwrap();
    wait_for_member(&mut callee, "Method");
    caller.send(&call.clone().flags(FLAG_NO_REPLY_EXPECTED)).unwrap();
    wait_for(&mut callee, |header| header.flags & FLAG_NO_REPLY_EXPECTED != 0);
    drop(callee);
    assert_eq!(texts(&wait_for(&mut caller, |header| header.kind == Kind::MethodReturn)), ["true"]);
    // One NoReply: the other call wanted none. Asked behind it, for what two connections do at once has no order.
    for expected in [Some("org.freedesktop.DBus.Error.NoReply"), None] {
        let awaited = if expected.is_some() { second } else { caller.send(&driver_call("GetId")).unwrap() };
        let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
        assert_eq!((header(&answer).reply_serial.unwrap(), header(&answer).error_name), (awaited, expected));
    }
    // Nobody is there any more.
    assert_eq!(refusal(caller.call(&call, PATIENCE)), "ServiceUnknown");
    assert_eq!(refusal(caller.call(&call.flags(FLAG_NO_AUTO_START), PATIENCE)), "NameHasNoOwner");
}

#[test]
fn a_call_that_is_not_answered_in_the_time_of_the_configuration_ends() {
    let bus = Broker::configured("<limit name='reply_timeout'>50</limit>");
    let (mut caller, mut callee) = (bus.client(), bus.client());
    let to = callee.unique_name().to_owned();
    assert_eq!(refusal(caller.call(&Builder::call("/", "M").destination(&to), PATIENCE)), "NoReply");
    // Its answer comes too late for anybody.
    let got = wait_for_member(&mut callee, "M");
    answer(&mut callee, &got, Body::default());
    sync(&mut callee);
    sync(&mut caller);
    let late = caller.receive(Duration::ZERO).unwrap();
    assert!(late.is_none_or(|message| header(&message).kind == Kind::Signal));
}

#[test]
fn messages_in_the_other_byte_order_pass_unchanged() {
    let bus = Broker::start();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    receiver.add_match("interface='a.Order',arg1='text'").unwrap();
    let other = if Endian::NATIVE == Endian::Little { Endian::Big } else { Endian::Little };
    let body = Body::in_order(other).u32(7).text("text");
    sender.send(&Builder::signal("/", "a.Order", "Next").body(body)).unwrap();
    let got = wait_for_member(&mut receiver, "Next");
    assert_eq!((header(&got).endian, Args::of(&got).first_u32()), (other, Some(7)));
    // A call of the driver too.
    let body = Body::in_order(other).text(sender.unique_name());
    let pid = sender.call(&driver_call("GetConnectionUnixProcessID").body(body), PATIENCE).unwrap();
    assert_eq!(Args::of(&pid).first_u32(), Some(std::process::id()));
}

#[test]
fn a_monitor_sees_everything_and_must_be_silent() {
    let bus = Broker::start();
    let (mut monitor, mut caller) = (bus.client(), bus.client());
    monitor.become_monitor().unwrap();
    caller.ask_driver("NameHasOwner", text("a.Name")).unwrap();
    let call = wait_for_member(&mut monitor, "NameHasOwner");
    wait_for_reply(&mut monitor, header(&call).serial);
    // It has no name any more, and its first message ends it.
    let gone = caller.ask_driver("GetNameOwner", text(monitor.unique_name()));
    assert_eq!(refusal(gone), "NameHasNoOwner");
    monitor.send(&Builder::signal("/", "a.B", "C")).unwrap();
    let ended = end_of(&mut monitor);
    assert!(matches!(ended, Error::Closed), "{ended:?}");
}

/// It is told so once itself; what others are told of it is from before it was a monitor.
#[test]
fn a_new_monitor_does_not_see_how_it_loses_its_names() {
    let bus = Broker::start();
    let (mut monitor, mut caller) = (bus.client(), bus.client());
    monitor.request_name("a.Name", 0).unwrap();
    monitor.become_monitor().unwrap();
    caller.ask_driver("NameHasOwner", text("a.Name")).unwrap();
    let lost = std::cell::Cell::new(0);
    let first = wait_for(&mut monitor, |header| {
        lost.set(lost.get() + u32::from(header.member == Some("NameLost")));
        matches!(header.member, Some("NameOwnerChanged" | "NameHasOwner"))
    });
    assert_eq!((header(&first).member, lost.get()), (Some("NameHasOwner"), 2));
}

#[test]
fn limits_of_the_configuration_are_errors_to_the_one_that_reaches_them() {
    let bus = Broker::configured(
        "<limit name='max_match_rules_per_connection'>2</limit><limit name='max_names_per_connection'>2</limit>\
         <limit name='max_replies_per_connection'>2</limit><limit name='max_connections_per_user'>3</limit>",
    );
    let (mut one, two) = (bus.client(), bus.client());
    let mut rule = |method: &str, number: u32| one.ask_driver(method, text(&format!("member='M{number}'")));
    for number in 0..2 {
        rule("AddMatch", number).unwrap();
    }
    assert_eq!(refusal(rule("AddMatch", 2)), "LimitsExceeded");
    rule("RemoveMatch", 0).unwrap();
    rule("AddMatch", 2).unwrap();
    assert_eq!(refusal(rule("RemoveMatch", 0)), "MatchRuleNotFound");
    // The unique name is one of two.
    assert_eq!(one.request_name("a.One", 0).unwrap(), 1);
    assert_eq!(refusal(one.request_name("a.Two", 0)), "LimitsExceeded");
    let call = Builder::call("/", "M").destination(two.unique_name());
    one.send(&call).unwrap();
    one.send(&call).unwrap();
    assert_eq!(refusal(one.call(&call, PATIENCE)), "LimitsExceeded");
    let _three = bus.client();
    assert_eq!(refusal(Client::open(&bus.address)), "LimitsExceeded");
}

/// Those that it loses as it leaves come last, the unique one after the others.
#[test]
fn a_monitor_sees_which_names_one_that_leaves_loses() {
    let bus = Broker::start();
    let (mut monitor, mut leaving) = (bus.client(), bus.client());
    let own = leaving.unique_name().to_owned();
    monitor.become_monitor().unwrap();
    leaving.request_name("a.Name", 0).unwrap();
    drop(leaving);
    let mut seen = Vec::new();
    let end = ("NameOwnerChanged".to_owned(), vec![own.clone(), own.clone(), String::new()]);
    while seen.last() != Some(&end) {
        let message = wait_for(&mut monitor, |header| match header.member {
            Some("NameLost") => header.destination == Some(&own),
            member => member == Some("NameOwnerChanged"),
        });
        seen.push((header(&message).member.unwrap().to_owned(), texts(&message)));
    }
    let members: Vec<(&str, &str)> = seen.iter().map(|(member, texts)| (&**member, &*texts[0])).collect();
    let of_name = |name| [("NameLost", name), ("NameOwnerChanged", name)];
    assert!(members.ends_with(&[of_name("a.Name"), of_name(&own)].concat()), "{members:?}");
}

#[test]
fn questions_have_the_answers_of_the_specification() {
    let bus = Broker::start();
    let mut client = bus.client();
    let own = client.unique_name().to_owned();
    client.request_name("a.Name", 0).unwrap();
    for name in [":1.1", DRIVER, "a"] {
        assert_eq!(refusal(client.request_name(name, 0)), "InvalidArgs", "{name}");
    }
    // A call to nobody is answered if it is one of a peer, and refused otherwise.
    let to_nobody = |interface, member| Builder::call("/", member).interface(interface);
    client.call(&to_nobody(PEER, "Ping"), PATIENCE).unwrap();
    for call in [to_nobody(DRIVER, "GetId"), Builder::call("/", "Ping"), to_nobody("a.B", "Ping")] {
        assert_eq!(refusal(client.call(&call, PATIENCE)), "UnknownMethod");
    }
    // The credentials of the bus have its groups.
    for of in [DRIVER, &own] {
        let credentials = client.ask_driver("GetConnectionCredentials", text(of)).unwrap();
        assert!(contains(&credentials, "UnixUserID") && contains(&credentials, "ProcessID"), "{of}");
        assert!(contains(&credentials, "UnixGroupIDs") || of != DRIVER, "{of}");
    }
    // Only what a file provides can be started.
    for name in [&own, "a.Name", "a.Nobody", DRIVER, "none"] {
        let started = client.ask_driver("StartServiceByName", text(name).u32(0));
        assert_eq!(refusal(started), "ServiceUnknown", "{name}");
    }
    // Some methods are those of the driver's object alone.
    let elsewhere = driver_call("UpdateActivationEnvironment").path("/");
    let nothing = Body::marshalled(Endian::NATIVE, "a{ss}", &[0; 8]);
    assert_eq!(refusal(client.call(&elsewhere.body(nothing), PATIENCE)), "AccessDenied");
}

/// On a bus that forbids calls it hears signals still, as with dbus-daemon.
#[test]
fn no_policy_keeps_a_client_from_saying_hello() {
    let bus = Broker::configured("<policy context='default'><deny send_type='method_call'/></policy>");
    let mut client = bus.client();
    assert!(client.unique_name().starts_with(":1."));
    assert_eq!(refusal(client.ask_driver("GetId", Body::default())), "AccessDenied");
}
