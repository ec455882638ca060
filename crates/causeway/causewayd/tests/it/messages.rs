//! Messages that a program builds and reads itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::wire::{Arg, Body, Builder, Endian, FLAG_NO_REPLY_EXPECTED, Kind};
use causeway_bus::{Connection, ConnectionOptions, Message};

use crate::support::*;

fn call<'a>(to: &'a str, member: &'a str) -> Builder<'a> {
    Builder::call(PATH, member).interface(INTERFACE).destination(to)
}

fn signal(member: &str) -> Builder<'_> {
    Builder::signal(PATH, INTERFACE, member)
}

fn next(connection: &mut Connection) -> Message {
    connection.next_message(Some(PATIENCE)).unwrap().expect("a message comes")
}

/// What has come up to the answer of the bus: members of signals, and the kind of everything else.
fn until_answered(connection: &mut Connection) -> Vec<String> {
    let serial = connection.send_message(&driver_call("GetId")).unwrap();
    let mut seen = Vec::new();
    loop {
        let message = next(connection);
        let header = message.header();
        if header.reply_serial == Some(serial) {
            return seen;
        }
        seen.push(header.member.map_or_else(|| format!("{:?}", header.kind), str::to_owned));
    }
}

#[test]
fn replies_come_among_the_other_messages_in_the_order_of_the_bus() {
    let bus = Bus::start();
    let (mut caller, mut callee) = (bus.member(), bus.member());
    let (caller_name, callee_name) = (caller.unique_name().to_owned(), callee.unique_name().to_owned());
    caller.add_match(&format!("type='signal',sender='{callee_name}'")).unwrap();
    let serial =
        caller.send_message(&call(&callee_name, "Ask").body(Body::in_order(Endian::Big).u32(7))).unwrap();
    let called = next(&mut callee);
    let header = called.header();
    assert_eq!((header.kind, header.sender, header.serial), (Kind::MethodCall, Some(&*caller_name), serial));
    assert_eq!((called.endian(), called.rule_args()), (Endian::Big, vec![Arg::U32(7)]));
    callee.send_message(&signal("Before")).unwrap();
    callee
        .send_message(&Builder::reply(serial).destination(&caller_name).sender("com.example.Forged"))
        .unwrap();
    callee.send_message(&signal("Directed").destination(&caller_name)).unwrap();
    // A second reply is nobody's, and so is one of a connection that was not called.
    callee.send_message(&Builder::reply(serial).destination(&caller_name)).unwrap();
    callee.send_message(&signal("After")).unwrap();
    let seen: Vec<Message> = (0..4).map(|_| next(&mut caller)).collect();
    let words: Vec<_> = seen.iter().map(|message| message.header().member.unwrap_or("reply")).collect();
    assert_eq!(words, ["Before", "reply", "Directed", "After"]);
    assert!(seen.iter().all(|message| message.header().sender == Some(&*callee_name)));
    assert!(seen.is_sorted_by_key(Message::position));
    assert!(until_answered(&mut caller).is_empty());
}

#[test]
fn a_call_that_reaches_nobody_or_whose_callee_leaves_is_answered_and_other_messages_to_nobody_are_discarded()
{
    let bus = Bus::start();
    let (mut caller, callee) = (bus.member(), bus.member());
    let nobody = "com.example.Nobody";
    let serial = caller.send_message(&call(nobody, "Ask")).unwrap();
    let answer = next(&mut caller);
    let header = answer.header();
    assert_eq!((header.kind, header.reply_serial, header.sender), (Kind::Error, Some(serial), Some(DRIVER)));
    assert_eq!(header.error_name, Some(causeway_bus::name::SERVICE_UNKNOWN));
    caller.send_message(&call(nobody, "Tell").flags(FLAG_NO_REPLY_EXPECTED)).unwrap();
    caller.send_message(&signal("Directed").destination(nobody)).unwrap();
    assert!(until_answered(&mut caller).is_empty());

    let name = callee.unique_name().to_owned();
    caller.add_match(&format!("type='signal',member='NameOwnerChanged',arg0='{name}'")).unwrap();
    let serial = caller.send_message(&call(&name, "Ask")).unwrap();
    drop(callee);
    let (error, gone) = (next(&mut caller), next(&mut caller));
    assert_eq!(error.header().error_name, Some(causeway_bus::name::NO_REPLY));
    assert_eq!((error.header().reply_serial, error.position()), (Some(serial), gone.position()));
    assert_eq!(gone.header().member, Some("NameOwnerChanged"));
    assert_eq!(caller.statistics().calls_open, 0);
}

/// With replies and without; a rule that was added twice holds until it was removed twice.
#[test]
fn rules_that_are_added_and_removed_by_messages_are_rules_of_the_connection() {
    let bus = Bus::start();
    for flags in [0, FLAG_NO_REPLY_EXPECTED] {
        let (mut receiver, mut sender) = (bus.member(), bus.member());
        let mut seen_after = |calls: &[(&str, &str)]| {
            let mut errors = Vec::new();
            for (method, member) in calls {
                let rule = text(&format!("type='signal',member='{member}'"));
                let serial = receiver.send_message(&driver_call(method).body(rule).flags(flags)).unwrap();
                if flags == 0 {
                    let answer = next(&mut receiver);
                    assert_eq!(answer.header().reply_serial, Some(serial));
                    errors.extend(answer.header().error_name.map(str::to_owned));
                }
            }
            assert!(until_answered(&mut receiver).is_empty(), "nothing else is answered");
            for member in ["One", "Two", "Never"] {
                sender.send_message(&signal(member)).unwrap();
            }
            let seen = until_answered(&mut receiver);
            assert_eq!(receiver.statistics().calls_open, 0);
            (seen.join(" "), errors.join(" "))
        };
        let if_asked = |error: &str| if flags == 0 { error.to_owned() } else { String::new() };
        let add = ["One", "One", "Two"].map(|member| ("AddMatch", member));
        assert_eq!(seen_after(&add), ("One Two".into(), String::new()));
        assert_eq!(seen_after(&[("RemoveMatch", "One")]), ("One Two".into(), String::new()));
        assert_eq!(seen_after(&[("RemoveMatch", "One")]), ("Two".into(), String::new()));
        let not_found = if_asked(causeway_bus::name::MATCH_RULE_NOT_FOUND);
        let remove = ["Never", "Two"].map(|member| ("RemoveMatch", member));
        assert_eq!(seen_after(&remove), (String::new(), not_found));
        let invalid = if_asked(causeway_bus::name::MATCH_RULE_INVALID);
        assert_eq!(seen_after(&[("AddMatch", "One',arg0namespace='")]), (String::new(), invalid));
    }
}

/// A wake-up that comes just before the sleep that it is for must not be lost: nobody sends anything else here.
#[test]
fn a_member_that_is_just_going_to_sleep_is_woken() {
    const MESSAGES: u32 = 100_000;
    /// On their way at most, so that the receiver sleeps often.
    const AHEAD: u32 = 3;
    let bus = Bus::start();
    let options = || ConnectionOptions { spin: Duration::ZERO, ..ConnectionOptions::default() };
    let connect = || Connection::open_with(bus.path(), options()).unwrap();
    let (mut sender, mut receiver) = (connect(), connect());
    let name = receiver.unique_name().to_owned();
    let received = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&received);
    let receiving = std::thread::spawn(move || {
        for _ in 0..MESSAGES {
            receiver.next_message(None).unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    for sent in 0..MESSAGES {
        let start = Instant::now();
        while sent - received.load(Ordering::Relaxed) >= AHEAD {
            assert!(start.elapsed() < PATIENCE, "message {sent} waits: the receiver sleeps");
            std::hint::spin_loop();
        }
        sender.send_message(&call(&name, "Tell").flags(FLAG_NO_REPLY_EXPECTED)).unwrap();
    }
    receiving.join().unwrap();
}

#[test]
fn what_is_for_nobody_is_refused_and_nothing_of_it_is_sent() {
    let bus = Bus::start();
    let mut sender = bus.member();
    let error = sender.send_message(&Builder::call(PATH, "Ask").interface(INTERFACE)).unwrap_err();
    assert!(matches!(error, causeway_bus::Error::Invalid(_)), "{error:?}");
    assert_eq!(sender.statistics().sent, 0);
}

#[test]
fn a_message_that_was_built_elsewhere_carries_descriptors_and_any_length() {
    let bus = Bus::start();
    let (mut caller, mut callee) = (bus.member(), bus.member());
    let (caller_name, callee_name) = (caller.unique_name().to_owned(), callee.unique_name().to_owned());
    let body = Body::default().descriptor_index(0).blob(&[7; 100_000]);
    let files = ["first", "second"].map(file).into();
    let call = call(&callee_name, "Take").body(body);
    let serial = caller.send_message_with_descriptors(&call, files).unwrap();
    let called = next(&mut callee);
    assert_eq!((called.header().unix_fds, called.header().signature), (2, "hay"));
    let mut taken = called.take_descriptors();
    assert_eq!((taken.len(), called.body().len()), (2, 100_008));
    let reply = Builder::reply(serial).destination(&caller_name);
    callee.send_message_with_descriptors(&reply, taken.split_off(1)).unwrap();
    let replied = next(&mut caller);
    assert_eq!((replied.header().reply_serial, replied.take_descriptors().len()), (Some(serial), 1));
    // How many a message says that it has is filled in like its sender.
    callee.send_message(&signal("Directed").destination(&caller_name).unix_fds(3)).unwrap();
    assert_eq!(next(&mut caller).header().unix_fds, 0);
}
