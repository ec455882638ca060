//! What was recorded of a bus is sent again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::wire::{Body, Builder, Header, Kind};
use causeway_bus::{Connection, Incoming, Payload};
use causeway_testkit::{Running, eventually_some};
use rustix::process::Signal;

use crate::support::{TempDir, contents, end, eventually, record_bus, recorder, serve_bus, temp_dir};

const SUM: &str = "com.example.Sum";
const LONG: Duration = Duration::from_secs(60);

/// The next call of a service, which must have come.
fn next_call(service: &mut Connection) -> causeway_bus::Call {
    loop {
        match service.next(Some(LONG)).unwrap().expect("a call") {
            Incoming::Call(call) => return call,
            Incoming::Signal(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Calls, and has the service answer.
fn call_and_answer(client: &mut Connection, service: &mut Connection, one: u32) {
    let serial = client.start_call(SUM, "/sums", SUM, "Add", Body::default().u32(one).u32(1)).unwrap();
    let call = next_call(service);
    service.emit("/sums", SUM, "Added", Body::default().u32(one + 1)).unwrap();
    service.reply(&call, Body::default().u32(one + 1)).unwrap();
    assert_eq!(client.finish_call(serial, LONG).unwrap().args::<u32>().unwrap(), one + 1);
}

/// A recording of a service that was there before, of one that follows it, and of their clients.
fn recorded(folder: &TempDir) -> String {
    let (native, file) = (folder.path().join("then"), folder.path().join("then.mcap"));
    let file = file.to_str().unwrap().to_owned();
    let _stop = serve_bus(&native);
    let mut service = Connection::open(&native).unwrap();
    service.request_name(SUM, 0).unwrap();
    let running = record_bus(&native, &file, &[]);
    let [mut one, mut other] = [(); 2].map(|()| Connection::open(&native).unwrap());
    for number in 0..100 {
        call_and_answer(if number % 3 == 0 { &mut other } else { &mut one }, &mut service, number);
    }
    let refused = one.start_call(SUM, "/sums", SUM, "Divide", Body::default().u32(0)).unwrap();
    let call = next_call(&mut service);
    service.reply_error(&call, "com.example.Error.Zero", "by zero").unwrap();
    assert!(one.finish_call(refused, LONG).is_err());
    other.call_without_reply(SUM, "/sums", SUM, "Forget", Body::default().text("everything")).unwrap();
    next_call(&mut service);
    // To one member alone, and by its unique name.
    let told = Builder::signal("/sums", SUM, "Told").destination(one.unique_name());
    service.send_message(&told.body(Body::default().text("you"))).unwrap();
    // Another one takes its place; the first one leaves.
    let mut second = Connection::open(&native).unwrap();
    service.release_name(SUM).unwrap();
    second.request_name(SUM, 0).unwrap();
    drop(service);
    for number in 100..110 {
        call_and_answer(&mut one, &mut second, number);
    }
    // A call that was never answered.
    one.start_call(SUM, "/sums", SUM, "Think", Body::default()).unwrap();
    one.emit("/", SUM, "Last", Body::default()).unwrap();
    finish(running, &file);
    file
}

/// Ends a recorder once it has the last signal.
fn finish(running: Running, file: &str) {
    eventually("the last signal is not recorded", || {
        contents(file).messages.iter().any(|message| message.topic.ends_with("/Last"))
    });
    running.signal(Signal::TERM).unwrap();
    let (code, said) = end(running);
    assert_eq!(code, 0, "{said}");
}

/// What members said to each other, with numbers for the connections and for the calls that replies answer.
fn said(file: &str) -> Vec<String> {
    let driver = Some("org.freedesktop.DBus");
    let (mut connections, mut calls) = (HashMap::new(), HashMap::new());
    let mut all = Vec::new();
    for message in contents(file).messages {
        let header = Header::parse(&message.data).unwrap();
        if header.sender == driver || header.destination == driver {
            continue;
        }
        let mut number = |name: Option<&str>| match name {
            Some(name) if name.starts_with(':') => {
                let next = connections.len();
                format!("connection {}", connections.entry(name.to_owned()).or_insert(next))
            }
            other => format!("{other:?}"),
        };
        let (from, to) = (number(header.sender), number(header.destination));
        if header.kind == Kind::MethodCall {
            calls.insert((from.clone(), header.serial), all.len());
        }
        let answers = header.reply_serial.map(|serial| calls.get(&(to.clone(), serial)).copied());
        let (names, body) = (header.title(), &message.data[header.header_bytes..]);
        all.push(format!("{from} to {to}: {names} of {:?}, {answers:?}, {body:?}", header.path));
    }
    all
}

fn replayed(file: &str, native: &Path, options: &[&str]) -> (i32, String) {
    let mut command = recorder(&["replay", file, native.to_str().unwrap(), "--speed", "max"]);
    let output = command.args(options).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_replay_of_a_bus_says_the_same_between_as_many_members_in_the_same_order() {
    let folder = temp_dir("recorder");
    let file = recorded(&folder);
    let (native, again) = (folder.path().join("now"), folder.path().join("now.mcap"));
    let again = again.to_str().unwrap();
    let _stop = serve_bus(&native);
    let running = record_bus(&native, again, &[]);
    let (code, text) = replayed(&file, &native, &["--into"]);
    assert!(code == 0 && text.contains("messages of 4 connections replayed, 0 were lost"), "{code}: {text}");
    finish(running, again);
    let (then, now) = (said(&file), said(again));
    assert_eq!(then.len(), 110 * 3 + 2 + 1 + 1 + 1 + 1, "{then:#?}");
    for (then, now) in then.iter().zip(&now) {
        assert_eq!(then, now);
    }
    assert_eq!(then.len(), now.len());
}

#[test]
fn a_replay_serves_a_bus_of_its_own_which_members_can_watch_and_call() {
    let folder = temp_dir("recorder");
    let (file, native) = (recorded(&folder), folder.path().join("now"));
    let mut command =
        recorder(&["replay", &file, native.to_str().unwrap(), "--speed", "2", "--wait-for-subscribers", "2"]);
    let running = Running::start(&mut command);
    let mut watch = eventually_some("nobody serves the bus", || Connection::open(&native).ok());
    watch.add_match(&format!("type='signal',interface='{SUM}'")).unwrap();
    // Nothing is sent before there are two.
    let begin = Connection::open(&native).unwrap();
    let mut added = Vec::new();
    loop {
        let Some(Incoming::Signal(signal)) = watch.next(Some(LONG)).unwrap() else { panic!("a signal") };
        match signal.member() {
            Some("Added") => added.push(signal.args::<u32>().unwrap()),
            Some("Last") => break,
            _ => {}
        }
    }
    assert!(added.iter().copied().eq(1..=110), "{added:?}");
    drop((watch, begin));
    let (code, text) = end(running);
    assert!(code == 0 && text.contains("serving"), "{code}: {text}");
    assert!(Connection::open(&native).is_err(), "the bus is still there");
}

#[test]
fn a_bus_of_a_replay_s_own_stays_until_its_other_members_have_left() {
    let folder = temp_dir("recorder");
    let (file, native) = (recorded(&folder), folder.path().join("now"));
    let mut command =
        recorder(&["replay", &file, native.to_str().unwrap(), "--speed", "max", "--linger", "1h"]);
    let running = Running::start(command.args(["--wait-for-subscribers", "2"]));
    let mut watch = eventually_some("nobody serves the bus", || Connection::open(&native).ok());
    watch.add_match(&format!("type='signal',interface='{SUM}',member='Last'")).unwrap();
    let begin = Connection::open(&native).unwrap();
    assert!(matches!(watch.next(Some(LONG)), Ok(Some(Incoming::Signal(_)))));
    eventually("members of the replay stay", || {
        while watch.next_now().unwrap().is_some() {}
        !watch.list_names().iter().any(|name| name == SUM)
    });
    // All is sent. A bus that does not wait is gone in a moment.
    assert!(matches!(watch.next(Some(Duration::from_millis(500))), Ok(None)));
    watch.request_name("com.example.Late", 0).unwrap();
    drop((watch, begin));
    assert_eq!(end(running).0, 0);
}

#[test]
fn a_service_of_the_bus_that_a_replay_goes_into_answers_the_calls_to_its_name() {
    let folder = temp_dir("recorder");
    let (file, native) = (recorded(&folder), folder.path().join("now"));
    let _stop = serve_bus(&native);
    let mut service = Connection::open(&native).unwrap();
    service.request_name(SUM, 0).unwrap();
    let is_over = AtomicBool::new(false);
    let calls = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut calls = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let Some(Incoming::Call(call)) = service.next(Some(Duration::from_millis(20))).unwrap()
                else {
                    continue;
                };
                calls.push(call.member().unwrap_or_default().to_owned());
                service.reply(&call, Payload::from(Body::default())).unwrap();
            }
            calls
        });
        let (code, text) = replayed(&file, &native, &["--into"]);
        is_over.store(true, Ordering::Relaxed);
        let calls = serving.join().unwrap();
        assert!(code == 0 && text.contains("com.example.Sum has an owner on this bus"), "{code}: {text}");
        calls
    });
    let count = |member: &str| calls.iter().filter(|call| *call == member).count();
    assert_eq!((count("Add"), count("Divide"), count("Forget"), count("Think")), (110, 1, 1, 1), "{calls:?}");
}

#[test]
fn a_reply_is_not_sent_before_its_call_has_come() {
    let folder = temp_dir("recorder");
    let (then, now, file) =
        (folder.path().join("then"), folder.path().join("now"), folder.path().join("a.mcap"));
    let file = file.to_str().unwrap();
    let _stop = serve_bus(&then);
    let [mut service, mut client] = [(); 2].map(|()| Connection::open(&then).unwrap());
    service.request_name(SUM, 0).unwrap();
    let running = record_bus(&then, file, &[]);
    call_and_answer(&mut client, &mut service, 1);
    call_and_answer(&mut client, &mut service, 2);
    client.emit("/", SUM, "Last", Body::default()).unwrap();
    finish(running, file);

    let _stop = serve_bus(&now);
    let mut other = Connection::open(&now).unwrap();
    other.request_name(SUM, 0).unwrap();
    let (code, text) = std::thread::scope(|scope| {
        let replaying = scope.spawn(|| replayed(file, &now, &["--into"]));
        // It answers the first call, and then the name is nobody's.
        let call = next_call(&mut other);
        other.release_name(SUM).unwrap();
        other.reply(&call, Body::default().u32(2)).unwrap();
        replaying.join().unwrap()
    });
    assert!(code == 3 && text.contains("does not come to"), "{code}: {text}");
}

#[test]
fn what_a_recording_of_a_bus_lacks_is_left_out_and_counted() {
    let folder = temp_dir("recorder");
    let (native, file) = (folder.path().join("then"), folder.path().join("then.mcap"));
    let file = file.to_str().unwrap();
    let _stop = serve_bus(&native);
    let (mut service, mut client) = (Connection::open(&native).unwrap(), Connection::open(&native).unwrap());
    let destination = service.unique_name().to_owned();
    let early = client.start_call(&destination, "/", SUM, "Early", Body::default()).unwrap();
    let running = record_bus(&native, file, &[]);
    let call = next_call(&mut service);
    service.reply(&call, Body::default()).unwrap();
    client.finish_call(early, LONG).unwrap();
    let long = Body::default().text(&"x".repeat(200_000));
    let late = client.start_call(&destination, "/", SUM, "Long", long).unwrap();
    let call = next_call(&mut service);
    service.reply(&call, Body::default()).unwrap();
    client.finish_call(late, LONG).unwrap();
    let with_descriptor = Builder::signal("/", SUM, "Opened").body(Body::default().descriptor_index(0));
    let descriptor = std::fs::File::open("/dev/null").unwrap().into();
    client.send_message_with_descriptors(&with_descriptor, vec![descriptor]).unwrap();
    client.emit("/", SUM, "Last", Body::default()).unwrap();
    finish(running, file);
    let (code, text) = replayed(file, &folder.path().join("now"), &[]);
    assert!(
        code == 1
            && text.contains("1 messages of")
            && text.contains("1 left out: longer than an outbox")
            && text.contains("1 left out: with descriptors")
            && text.contains("2 left out: for somebody who had left"),
        "{code}: {text}"
    );
}
