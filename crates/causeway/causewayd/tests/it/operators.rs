//! What the bus says to those who look after it: which limit was reached and whose it is, and who was ended and why.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;

use causeway_bus::client::{Bus as Client, Error};
use causeway_bus::wire::{Body, Builder, Dict, FLAG_NO_REPLY_EXPECTED, Value, arguments_of};
use causeway_bus::{AuthorityOptions, ConnectionOptions, Payload, Share, TransferLimits};
use causeway_os::socket::send_with_fds;

use crate::support::*;

/// A bus whose log can be read.
struct Logged {
    bus: Broker,
    folder: TempDir,
}

impl Logged {
    fn start(settings: &str) -> Logged {
        let folder = temp_dir("operators");
        let config = with_services(&folder, settings);
        let native = folder.path().join("native");
        let mut command = causewayd(&["--config-file", &config, "--native", native.to_str().unwrap()]);
        let bus = Broker::spawn(command.stderr(std::fs::File::create(folder.path().join("log")).unwrap()));
        Logged { bus, folder }
    }

    fn native(&self) -> PathBuf {
        self.folder.path().join("native")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The first line with this text.
    fn line(&self, text: &str) -> String {
        let line = || self.log().lines().find(|line| line.contains(text)).map(str::to_owned);
        eventually_seen("it is not logged", || line().ok_or_else(|| self.log()), Result::is_ok).unwrap()
    }
}

/// What the bus says about a refused call.
fn told<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Refused { message, .. }) => message,
        other => panic!("it should have been refused: {other:?}"),
    }
}

/// Calls one that does not read until that is refused.
fn fill(bus: &Logged, fds: u32, bytes: usize) -> String {
    let (mut caller, stalled) = (bus.bus.client(), bus.bus.client());
    let file = file("x");
    let call = Builder::call("/", "M").destination(stalled.unique_name()).unix_fds(fds);
    let call = call.body(Body::default().blob(&vec![7; bytes]));
    for _ in 0..1_000 {
        caller.send_with_fds(&call, &vec![file.as_fd(); fds as usize]).unwrap();
        caller.send(&driver_call("GetId")).unwrap();
        let answer = wait_for(&mut caller, |header| header.reply_serial.is_some());
        if header(&answer).error_name.is_some() {
            return texts(&answer)[0].clone();
        }
    }
    panic!("nothing is refused")
}

/// Half of a message with so many bytes.
fn half(bus: &Logged, bytes: usize, fds: usize) {
    let file = file("x");
    let whole = Builder::signal("/", "a.B", "C").unix_fds(fds as u32);
    let whole = whole.body(Body::default().blob(&vec![7; bytes])).build(2).unwrap();
    let mut client = bus.bus.socket_after_hello(&[]);
    let half = &whole[..whole.len() - 1];
    match fds {
        0 => drop(client.write_all(half)),
        _ => drop(send_with_fds(&client, half, &vec![file.as_fd(); fds])),
    }
    assert!(is_closed(&mut client));
}

type Provoke = fn(&Logged) -> String;

/// Each limit of the configuration: a value, how it is reached, and what is said then apart from its name.
const LIMITS: [(&str, u32, Provoke, &str); 16] = [
    (
        "max_match_rules_per_connection",
        1,
        |bus| {
            let mut client = bus.bus.client();
            client.ask_driver("AddMatch", text("member='A'")).unwrap();
            told(client.ask_driver("AddMatch", text("member='B'")))
        },
        ":1.0 has 1 match rules and wants 1 more, of at most 1; ",
    ),
    (
        "max_names_per_connection",
        1,
        |bus| told(bus.bus.client().request_name("a.B", 0)),
        " has 1 names and wants 1 more, of at most 1; ",
    ),
    (
        "max_replies_per_connection",
        1,
        |bus| {
            let (mut one, two) = (bus.bus.client(), bus.bus.client());
            let call = Builder::call("/", "M").destination(two.unique_name());
            one.send(&call).unwrap();
            told(one.call(&call, PATIENCE))
        },
        " has 1 calls without a reply and wants 1 more, of at most 1; ",
    ),
    (
        "max_connections_per_user",
        1,
        |bus| {
            let _one = bus.bus.client();
            told(Client::open(&bus.bus.address))
        },
        " has 1 connections and wants 1 more, of at most 1; ",
    ),
    (
        "max_completed_connections",
        1,
        |bus| {
            let _one = bus.bus.client();
            told(Client::open(&bus.bus.address))
        },
        "the bus has 1 connections and wants 1 more, of at most 1; ",
    ),
    ("max_outgoing_bytes", 100_000, |bus| fill(bus, 0, 50_000), "does not read, and its queue is full: :1."),
    (
        "max_outgoing_unix_fds",
        1,
        |bus| fill(bus, 1, 50_000),
        " file descriptors of messages that wait and wants 1 more, of at most 1; ",
    ),
    (
        "max_pending_service_starts",
        0,
        |bus| {
            write_service(bus.folder.path(), "a.Service", "/bin/false", "");
            told(bus.bus.client().call(&Builder::call("/", "M").destination("a.Service"), PATIENCE))
        },
        "the bus has 0 services that are being started and wants 1 more, of at most 0; ",
    ),
    (
        "max_message_size",
        1_000,
        |bus| {
            half(bus, 2_000, 0);
            bus.line("max_message_size")
        },
        " bytes, of at most 1000; ",
    ),
    (
        "max_message_unix_fds",
        1,
        |bus| {
            let file = file("x");
            let mut client = bus.bus.client();
            let message = Builder::signal("/", "a.B", "C").unix_fds(2);
            client.send_with_fds(&message, &[file.as_fd(), file.as_fd()]).unwrap();
            bus.line("max_message_unix_fds")
        },
        "the message has 2 file descriptors, of at most 1; ",
    ),
    (
        "max_incoming_bytes",
        100_000,
        |bus| {
            half(bus, 1_000_000, 0);
            bus.line("max_incoming_bytes")
        },
        " bytes of a message that has not arrived whole and wants ",
    ),
    (
        "max_incomplete_connections",
        1,
        |bus| {
            let _clients = [bus.bus.socket(), bus.bus.socket()];
            bus.line("max_incomplete_connections")
        },
        "it has not called Hello, and others wait to connect",
    ),
    (
        "auth_timeout",
        1,
        |bus| {
            let _client = bus.bus.socket();
            bus.line("auth_timeout")
        },
        "it has not called Hello in time",
    ),
    (
        "pending_fd_timeout",
        1,
        |bus| {
            half(bus, 100, 1);
            bus.line("pending_fd_timeout")
        },
        "timed out waiting for the rest of a message",
    ),
    (
        "service_start_timeout",
        1,
        |bus| {
            write_service(bus.folder.path(), "a.Service", "/bin/sleep 1", "");
            told(bus.bus.client().call(&Builder::call("/", "M").destination("a.Service"), PATIENCE))
        },
        " within 1 ms ",
    ),
    // What waits for a service counts as what waits for a receiver does.
    (
        "max_outgoing_bytes",
        10_000,
        |bus| {
            write_service(bus.folder.path(), "a.Service", "/bin/sleep 60", "");
            let mut client = bus.bus.client();
            let call =
                Builder::call("/", "M").destination("a.Service").body(Body::default().blob(&[7; 9_000]));
            client.send(&call).unwrap();
            told(client.call(&call, PATIENCE))
        },
        "a.Service is being started, and messages for it wait: :1.",
    ),
];

#[test]
fn every_limit_says_whose_it_is_how_much_there_is_and_what_to_change() {
    for (name, value, provoke, expected) in LIMITS {
        let said = provoke(&Logged::start(&format!("<limit name='{name}'>{value}</limit>")));
        assert!(said.contains(expected), "{name}: {said}");
        let is_count = name.starts_with("max_") && name != "max_incomplete_connections";
        let way_out =
            if is_count { format!("raise <limit name=\"{name}\"> in the") } else { name.to_owned() };
        assert!(said.contains(&way_out), "{name}: {said}");
    }
}

/// Limits of the library, which no configuration has: whose option it is stands there instead.
#[test]
fn limits_of_members_say_which_option_is_theirs() {
    let transfers =
        TransferLimits { descriptors: Share { limit: 1, budget: 2 }, ..TransferLimits::default() };
    let bus = Bus::start_with(AuthorityOptions { members: 3, transfers, ..AuthorityOptions::default() });
    let options = ConnectionOptions { pending_calls: 1, ..ConnectionOptions::default() };
    let (mut one, two) = (bus.member_with(options), bus.member());
    let third = causeway_bus::Connection::open(bus.path()).unwrap_err().to_string();
    assert!(
        third.contains("all 2 member slots of this bus are in use (AuthorityOptions::members)"),
        "{third}"
    );
    one.start_call(two.unique_name(), PATH, INTERFACE, "Ask", Body::default()).unwrap();
    let second = one.start_call(two.unique_name(), PATH, INTERFACE, "Ask", Body::default()).unwrap_err();
    let said = "this connection has 1 of at most 1 (ConnectionOptions::pending_calls)";
    assert!(second.to_string().contains(said), "{second}");
    let mut send = || {
        let payload = Payload::default().descriptor(file("x"));
        one.call_without_reply(two.unique_name(), PATH, INTERFACE, "Take", payload)
    };
    send().unwrap();
    let second = send().unwrap_err().to_string();
    for said in
        ["2 descriptors of this connection", "limit of 1", "AuthorityOptions::transfers", "all have 1 of 2"]
    {
        assert!(second.contains(said), "{second}");
    }
}

#[test]
fn the_log_names_who_was_ended_and_why_and_how_much_waited_since_when() {
    let logged = Logged::start("<limit name='max_outgoing_bytes'>1000000</limit>");
    let (mut sender, mut stalled) = (logged.bus.client(), logged.bus.client());
    stalled.request_name("com.example.Stalled", 0).unwrap();
    stalled.ask_driver("AddMatch", text(RULE)).unwrap();
    let own = std::process::id();
    let who = format!(
        "{} (com.example.Stalled; user {}, process {own} ",
        stalled.unique_name(),
        rustix::process::geteuid().as_raw()
    );
    let signal = Builder::signal(PATH, INTERFACE, "Fill").body(Body::default().blob(&[7; 50_000]));
    while !logged.log().contains("is disconnected") {
        sender.send(&signal).unwrap();
        sync(&mut sender);
    }
    let said = logged.line("is disconnected");
    let comm = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap();
    for expected in [
        &who,
        &format!("{}) is disconnected: ", comm.trim_end()),
        "it does not read, and its queue is full: ",
        "raise <limit name=\"max_outgoing_bytes\">",
        " messages wait for it, the oldest for ",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in: {said}");
    }
    // A member that others wait for.
    let mut member = Client::join(&logged.native(), Default::default()).unwrap();
    member.request_name("com.example.Laggard", 0).unwrap();
    let (laggard, mut other) =
        (member.unique_name().to_owned(), causeway_bus::Connection::open(logged.native()).unwrap());
    while !logged.log().contains("com.example.Laggard; ") {
        let payload = Payload::from(Body::default().blob(&[7; 10_000]));
        if other.call_without_reply(&laggard, PATH, INTERFACE, "Take", payload).is_err() {
            break;
        }
    }
    let said = logged.line("com.example.Laggard; ");
    let parts = [
        "laggard deadline (250 ms): it has ",
        " entries of the order log unread, the oldest sent ",
        " ms ago by ",
    ];
    for expected in parts {
        assert!(said.contains(expected), "{expected:?} is not in: {said}");
    }
}

const STATS: &str = "org.freedesktop.DBus.Debug.Stats";

/// What the bus says of its connections, the one that holds most first: names and numbers.
fn connections(client: &mut Client, most: u32) -> Vec<(String, BTreeMap<String, String>)> {
    let ask = driver_call("GetAllConnectionStats").interface(STATS).body(Body::default().u32(most));
    let reply = client.call(&ask, PATIENCE).unwrap();
    let all: Dict<String, BTreeMap<String, Value<'_>>> = arguments_of(&reply).unwrap();
    let facts = |facts: BTreeMap<_, _>| facts.into_iter().map(|(key, value)| (key, said(&value))).collect();
    all.0.into_iter().map(|(name, of)| (name, facts(of))).collect()
}

fn said(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.clone().into_owned(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Clients and members alike.
#[test]
fn who_fills_a_queue_is_first_and_its_oldest_message_has_an_age() {
    let logged = Logged::start("");
    let (mut asking, stalled) = (logged.bus.client(), logged.bus.client());
    let call = Builder::call(PATH, "Take").destination(stalled.unique_name()).flags(FLAG_NO_REPLY_EXPECTED);
    // More than the buffers of its socket take.
    let call = call.body(Body::default().blob(&[7; 100_000]));
    (0..20).for_each(|_| assert!(asking.send(&call).unwrap() > 0));
    let number = |of: &BTreeMap<String, String>, key: &str| of[key].parse::<u64>().unwrap();
    let is_old = |found: &Vec<(String, BTreeMap<String, String>)>| {
        let (name, of) = &found[0];
        name == stalled.unique_name() && number(of, "OldestMilliseconds") >= 20
    };
    let found = eventually_seen("it is not the first", || connections(&mut asking, 1), is_old);
    let [(_, of)] = &found[..] else { panic!("one was asked for: {found:?}") };
    assert!(number(of, "OutgoingBytes") >= 100_000 && number(of, "QueuedMessages") > 0, "{of:?}");
    let (process, user) = (std::process::id().to_string(), rustix::process::geteuid().as_raw().to_string());
    assert_eq!((&of["ProcessID"], &of["UnixUserID"], &of["IsMember"]), (&process, &user, &"0".to_owned()));
    let own = connections(&mut asking, u32::MAX).into_iter().find(|(name, _)| name == asking.unique_name());
    let (_, own) = own.unwrap();
    assert!(number(&own, "MessagesSent") > 20 && number(&own, "BytesSent") > 2_000_000, "{own:?}");
    drop(stalled);
    // A member that has been woken, and does not read.
    let member = causeway_bus::Connection::open(logged.native()).unwrap();
    asking.send(&Builder::call(PATH, "Take").destination(member.unique_name())).unwrap();
    let of_member = |asking: &mut Client| {
        let found = connections(asking, u32::MAX).into_iter().find(|(name, _)| name == member.unique_name());
        found.unwrap().1
    };
    let is_old = |of: &BTreeMap<String, String>| number(of, "OldestMilliseconds") >= 20;
    let of = eventually_seen("it has nothing unread", || of_member(&mut asking), is_old);
    assert!(number(&of, "UnreadEntries") > 0 && of["IsMember"] == "1", "{of:?}");
    assert!(of["OldestSender"] == asking.unique_name() || of["OldestSender"] == DRIVER, "{of:?}");
    assert_eq!(of["ProcessID"], process);
}

/// None of a flood is said by a line of its own, and none is lost.
#[test]
fn lines_of_a_flood_are_counted() {
    const COUNT: usize = 200;
    let logged = Logged::start("");
    let clients: Vec<_> =
        (0..COUNT).map(|_| logged.bus.socket_after_hello(b"nonsense that is not a message")).collect();
    for mut client in clients {
        assert!(is_closed(&mut client));
    }
    let told = || {
        let log = logged.log();
        let left_out = log.lines().filter_map(|line| {
            line.split_once(" more lines like these")?.0.rsplit(' ').next()?.parse::<usize>().ok()
        });
        (log.matches("is disconnected: it sent an invalid message").count(), left_out.sum::<usize>())
    };
    let (_, left_out) =
        eventually_seen("some are missing", told, |(said, left_out)| said + left_out >= COUNT);
    println!("{left_out} of {COUNT} were left out");
}
