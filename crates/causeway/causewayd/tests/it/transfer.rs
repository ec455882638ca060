//! Descriptors, and messages that are too long for an outbox: between members, to D-Bus clients, and when there are too many.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use causeway_bus::shared::header::BusHeader;
use causeway_bus::wire::{Body, Builder, MESSAGE_BYTES_MAX};
use causeway_bus::{
    AuthorityOptions, Connection, ConnectionOptions, Error, Incoming, Monitor, Payload, Share,
    TransferLimits, name,
};

use crate::support::raw::{self, Raw};
use crate::support::*;

fn text_of(fd: &OwnedFd) -> String {
    let mut bytes = [0; 64];
    let count = rustix::io::pread(fd, &mut bytes, 0).unwrap();
    String::from_utf8(bytes[..count].to_vec()).unwrap()
}

fn files(count: usize) -> Payload {
    (0..count).fold(Payload::default(), |payload, index| payload.descriptor(file(&index.to_string())))
}

/// Files of [`file`] that are open in this process.
fn open_texts() -> usize {
    crate::support::open_texts(std::process::id())
}

fn is_limit(error: &Error) -> bool {
    error.name() == Some(name::LIMITS_EXCEEDED)
}

/// Answers each call with what came: the same body, the same descriptors.
fn mirror(bus: &Bus) -> String {
    let mut connection = bus.member();
    let unique = connection.unique_name().to_owned();
    std::thread::spawn(move || {
        while let Ok(Some(incoming)) = connection.next(Some(PATIENCE)) {
            if let Incoming::Call(call) = incoming {
                let body = Body::marshalled(call.endian(), call.header().signature, call.body());
                let payload = Payload::new(body, call.take_descriptors());
                assert!(call.take_descriptors().is_empty(), "taken twice");
                connection.reply(&call, payload).unwrap();
            }
        }
    });
    unique
}

#[test]
fn descriptors_go_with_a_call_and_come_back_with_its_reply() {
    own_process!();
    let before = open_texts();
    let bus = Bus::start();
    let (callee, mut client) = (mirror(&bus), bus.member());
    for round in 0..20 {
        let pipe = Pipe::new();
        let payload = Payload::from(text("with")).descriptor(file(&format!("file {round}")));
        let payload = payload.descriptor(pipe.write.try_clone().unwrap());
        let reply = client.call(&callee, PATH, INTERFACE, "Mirror", payload).unwrap();
        assert_eq!((reply.text(), reply.header().unix_fds), (Some("with"), 2));
        let mut descriptors = reply.take_descriptors();
        write_into(descriptors.split_off(1), "through");
        assert_eq!(text_of(&descriptors[0]), format!("file {round}"));
        // The end: no process has a copy any more.
        assert_eq!(pipe.text(), "through");
    }
    assert_eq!(open_texts(), before);
    assert_eq!(client.statistics().incomplete, 0);
}

#[test]
fn a_signal_brings_its_descriptors_to_all_who_want_it_and_leaves_none() {
    own_process!();
    let before = open_texts();
    let bus = Bus::start();
    let mut listeners: Vec<Connection> = (0..5).map(|_| bus.member()).collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        // The last is woken for it, and then finds that no rule matches exactly.
        let rule = if index == 4 { ",arg0='no'" } else { "" };
        listener.add_match(&format!("interface='{INTERFACE}'{rule}")).unwrap();
    }
    let mut sleeper = bus.member();
    sleeper.add_match("interface='com.example.Other'").unwrap();
    let mut sender = bus.member();
    sender.add_match(RULE).unwrap();
    for round in 0..10 {
        let payload = Payload::default().descriptor(file(&round.to_string())).descriptor(file("second"));
        sender.emit(PATH, INTERFACE, "Files", payload).unwrap();
        for listener in listeners[..4].iter_mut().chain([&mut sender]) {
            let message = signal(listener);
            // Who does not take them has them closed.
            if round % 2 == 0 {
                let descriptors = message.clone().take_descriptors();
                assert_eq!(descriptors.len(), 2);
                assert_eq!(text_of(&descriptors[0]), round.to_string());
            }
        }
        assert_eq!(listeners[4].next(Some(Duration::ZERO)).unwrap(), None);
    }
    // None is held for the one who sleeps far behind: it does not want them.
    eventually("descriptors stay with the authority", || open_texts() == before);
    // A signal that nobody wants.
    sender.emit(PATH, "com.example.Nobody", "Files", files(3)).unwrap();
    eventually("descriptors that nobody wants stay", || open_texts() == before);
}

#[test]
fn messages_of_any_length_arrive_without_being_copied() {
    own_process!();
    let bus = Bus::start();
    let (callee, mut client) = (mirror(&bus), bus.member());
    let longest = (1 << 18) / 4 - 64;
    for bytes in [longest - 200, longest, longest + 1, 1 << 20, 5_000_001] {
        let blob: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        let reply = client.call(&callee, PATH, INTERFACE, "Mirror", Body::default().blob(&blob)).unwrap();
        assert_eq!(reply.body()[4..], blob, "{bytes}");
        assert!(!reply.is_header_only());
    }
    let blob = vec![7; 300_000];
    let payload = Payload::from(Body::default().blob(&blob)).descriptor(file("beside"));
    let reply = client.call(&callee, PATH, INTERFACE, "Mirror", payload).unwrap();
    assert_eq!((reply.body().len(), text_of(&reply.take_descriptors()[0])), (300_008, "beside".into()));
}

#[test]
fn a_message_may_have_128_mib_and_not_a_byte_more() {
    own_process!();
    let bus = Bus::start();
    let mut listener = bus.member();
    listener.add_match(&format!("interface='{INTERFACE}',arg1='last'")).unwrap();
    let mut sender = bus.member();
    // No array has more than 64 MiB.
    let signal_of = |first: usize, bytes: usize| {
        Body::default().blob(&vec![1; first]).text("last").blob(&vec![2; bytes - first])
    };
    let first = (64 << 20) - 64;
    let overhead = {
        let unique = sender.unique_name().to_owned();
        let signal = Builder::signal(PATH, INTERFACE, "Long").sender(&unique).body(signal_of(64, 1 << 10));
        signal.build(1).unwrap().len() - (1 << 10)
    };
    for (bytes, fits) in [(MESSAGE_BYTES_MAX - overhead, true), (MESSAGE_BYTES_MAX - overhead + 1, false)] {
        let sent = sender.emit(PATH, INTERFACE, "Long", signal_of(first, bytes));
        match (fits, sent) {
            (true, Ok(())) => {
                let message = signal(&mut listener);
                assert_eq!(message.bytes().len(), MESSAGE_BYTES_MAX);
                assert_eq!((message.body()[4], message.body().last()), (1, Some(&2)));
            }
            (false, Err(error)) => assert!(is_limit(&error), "{error}"),
            (_, other) => panic!("{bytes} bytes: {other:?}"),
        }
    }
}

#[test]
fn there_are_as_many_descriptors_in_a_message_as_the_kernel_carries() {
    own_process!();
    let before = open_texts();
    let bus = Bus::start();
    let (callee, mut client) = (mirror(&bus), bus.member());
    let call = |client: &mut Connection, count: usize, bytes: usize| {
        let body = Body::default().blob(&vec![0; bytes]);
        let files = (0..count).map(|_| file("x")).collect();
        client.call(&callee, PATH, INTERFACE, "Mirror", Payload::new(body, files))
    };
    for (most, bytes) in [(253, 0), (252, 100_000)] {
        let reply = call(&mut client, most, bytes).unwrap();
        assert_eq!(reply.take_descriptors().len(), most);
        let error = call(&mut client, most + 1, bytes).unwrap_err();
        assert!(
            is_limit(&error) && error.to_string().contains(&format!("at most {most} descriptors")),
            "{error}"
        );
    }
    assert_eq!(client.statistics().calls_open, 0);
    eventually("descriptors stay", || open_texts() == before);
}

#[test]
fn who_has_its_share_on_its_way_is_refused_until_receivers_have_read_and_others_still_send() {
    own_process!();
    let before = open_texts();
    let transfers = TransferLimits {
        descriptors: Share { limit: 300, budget: 400 },
        bytes: Share { limit: 1 << 20, budget: 3 << 19 },
    };
    let bus = Bus::start_with(AuthorityOptions { transfers, ..AuthorityOptions::default() });
    let [mut one, mut two, mut three, mut four, mut five] = std::array::from_fn(|_| bus.member());
    let mut receiver = bus.member();
    let to = receiver.unique_name().to_owned();
    let send = |from: &mut Connection, payload: Payload| {
        from.call_without_reply(&to, PATH, INTERFACE, "Take", payload)
    };
    let refused = |outcome: Result<(), Error>, why: &str| {
        let error = outcome.unwrap_err();
        assert!(is_limit(&error) && error.to_string().contains(why), "{error}");
    };
    send(&mut one, files(200)).unwrap();
    refused(send(&mut one, files(101)), "301 descriptors of this connection");
    send(&mut two, files(100)).unwrap();
    let why = "101 descriptors of this connection would be in flight, more than the limit of 100";
    refused(send(&mut two, files(1)), why);
    let long = |bytes: usize| Payload::from(Body::default().blob(&vec![0; bytes]));
    send(&mut three, long(1_000_000)).unwrap();
    refused(send(&mut three, long(100_000)), "bytes of this connection");
    send(&mut four, long(700_000)).unwrap();
    refused(send(&mut five, long(100_000)), "more than the limit of 0");
    send(&mut five, files(200)).unwrap();
    refused(send(&mut four, files(1)), "more than the limit of 0");
    // Short messages pass all the while.
    send(&mut one, Payload::default()).unwrap();
    for _ in 0..6 {
        call(&mut receiver);
    }
    send(&mut one, files(101)).unwrap();
    send(&mut five, long(700_000)).unwrap();
    drop(receiver);
    // What was for one that is gone is gone.
    eventually("descriptors for a member that left stay", || open_texts() == before);
    let error = one.call(&to, PATH, INTERFACE, "Take", files(1)).unwrap_err();
    // The bus may have to say it, and may know the end of the callee before its name is gone.
    assert!(matches!(error.name(), Some(name::SERVICE_UNKNOWN | name::NO_REPLY)), "{error}");
    eventually("descriptors for nobody stay", || open_texts() == before);
}

/// A rule brings nothing that was sent before it, and its member does not ask for what belongs to that.
#[test]
fn a_rule_brings_no_signals_before_it_and_no_descriptors_of_theirs() {
    own_process!();
    let bus = Bus::start();
    let (mut sender, mut late) = (bus.member(), bus.member());
    late.add_match("type='signal',member='Other'").unwrap();
    sender.emit(PATH, INTERFACE, "Before", files(1)).unwrap();
    late.add_match(RULE).unwrap();
    sender.emit(PATH, INTERFACE, "After", files(1)).unwrap();
    let after = signal(&mut late);
    assert_eq!((after.header().member, after.take_descriptors().len()), (Some("After"), 1));
    assert_eq!(late.statistics().incomplete, 0);
}

#[test]
fn as_many_calls_are_under_way_as_the_options_allow() {
    own_process!();
    let bus = Bus::start();
    let callee = mirror(&bus);
    let options = ConnectionOptions { pending_calls: 3, ..ConnectionOptions::default() };
    let mut client = Connection::open_with(bus.path(), options).unwrap();
    let start =
        |client: &mut Connection| client.start_call(&callee, PATH, INTERFACE, "Mirror", Body::default());
    let serials: Vec<u32> = (0..3).map(|_| start(&mut client).unwrap()).collect();
    let error = start(&mut client).unwrap_err();
    assert!(is_limit(&error), "{error}");
    client.call_without_reply(&callee, PATH, INTERFACE, "Mirror", Body::default()).unwrap();
    client.finish_call(serials[1], PATIENCE).unwrap();
    start(&mut client).unwrap();
}

#[test]
fn a_monitor_sees_the_header_and_the_length_of_a_long_message() {
    own_process!();
    let bus = Bus::start();
    let mut monitor = Monitor::open(bus.path()).unwrap().filter(RULE.parse().unwrap());
    let mut sender = bus.member();
    let payload = Payload::from(text("first").blob(&[3; 1 << 20])).descriptor(file("beside"));
    sender.emit(PATH, INTERFACE, "Long", payload).unwrap();
    sender.emit(PATH, INTERFACE, "Short", text("first")).unwrap();
    let (long, short) = (observed(&mut monitor), observed(&mut monitor));
    assert_eq!((long.header().member, long.header().unix_fds), (Some("Long"), 1));
    assert!(long.is_header_only() && long.header().message_bytes() > 1 << 20);
    assert!(long.body().is_empty() && long.rule_args().is_empty() && long.take_descriptors().is_empty());
    assert_eq!((short.is_header_only(), short.text()), (false, Some("first")));
}

/// A member says of a signal with a descriptor that it is for members that are not there, and at a place where no entry is.
#[test]
fn a_staged_transfer_waits_for_members_and_entries_that_are_there() {
    own_process!();
    let before = open_texts();
    let bus = Bus::start();
    let mut raw = Raw::join(&bus.path());
    let name = raw.name();
    let signal = Builder::signal(PATH, INTERFACE, "File").sender(&name).unix_fds(1).build(1).unwrap();
    for (token, position, slots) in [(1, 0, "cfff"), (2, u64::MAX, "1")] {
        let file = file("staged");
        let answer = raw.ask([raw::STAGE, token, 0, 0, 0], &[file.as_fd()]).unwrap();
        assert_eq!(answer.words[0], raw::NONE);
        raw.send(BusHeader { token: token as u32, ..raw.header(0, &signal) }, None, &signal);
        let sent = raw::packet([raw::SENT, token, position, 0, 0], slots.as_bytes());
        causeway_os::socket::send_with_fds(&raw.socket, &sent, &[]).unwrap();
    }
    eventually("descriptors for nobody stay", || open_texts() == before);
}
