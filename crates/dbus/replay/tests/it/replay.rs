//! A capture is replayed on private brokers while a monitor records it again: the same messages, the same causes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::trace::{Stage, busy};
use causeway_bus::client::{Bus as Client, native_path};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, Kind};
use causeway_testkit::{Cause, skipped};
use weighbridge_dbus_client::brokers::{Broker, Error as BrokerError, Limits, Program};
use weighbridge_dbus_client::{Monitoring, become_monitor, rules_and_processes};
use weighbridge_dbus_replay::Error;
use weighbridge_dbus_replay::plan::{LeftOut, Plan, Planner};
use weighbridge_dbus_replay::player::{Options, Run, Speed, play};
use weighbridge_dbus_traffic::bus::Bus;
use weighbridge_dbus_traffic::capture::{Packet, Reader};

const FAST: Options = Options {
    speed: Speed::Max,
    give_up: Duration::from_secs(20),
    stall: Duration::from_secs(60),
    pid: None,
    native_share: 1.0,
    is_watched: false,
};
/// How long a monitor waits for the next message.
const PATIENCE: Duration = Duration::from_secs(60);

fn packets(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(capture).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        packets.push(packet.bytes.to_vec());
    }
    packets
}

fn plan(capture: &[u8]) -> Plan {
    let (mut planner, mut reader) = (Planner::default(), Reader::new(capture).unwrap());
    while let Some(packet) = reader.next_packet().unwrap() {
        planner.push(&packet);
    }
    planner.finish()
}

fn start(program: Program) -> Option<Broker> {
    match Broker::start(program, &Limits::default()) {
        Err(BrokerError::Missing(_)) => {
            skipped(Cause::Missing(program.name()), program.package());
            None
        }
        started => Some(started.unwrap()),
    }
}

const END: &str = "EndOfTest";

/// Replays while a monitor records; what the monitor saw.
fn recorded(plan: &Plan, broker: &Broker, options: &Options) -> (Run, Vec<Vec<u8>>) {
    let mut monitor = Client::connect(broker.address()).unwrap();
    assert_eq!(become_monitor(&mut monitor).unwrap(), Monitoring::Everything);
    std::thread::scope(|scope| {
        let recording = scope.spawn(move || {
            let mut seen = Vec::new();
            loop {
                let message = monitor.receive(PATIENCE).unwrap().expect("the marker at the end");
                if Header::parse(&message).unwrap().member == Some(END) {
                    return seen;
                }
                seen.push(message);
            }
        });
        let run = play(plan, broker.address(), &Options { pid: Some(broker.pid()), ..*options });
        let mut last = Client::connect(broker.address()).unwrap();
        last.send(&Builder::signal("/end", "com.example.Test", END)).unwrap();
        (run.unwrap(), recording.join().unwrap())
    })
}

/// The same at full speed, by native members where the bus has them.
fn recorded_again(plan: &Plan, broker: &Broker) -> (Run, Vec<Vec<u8>>) {
    let (run, seen) = recorded(plan, broker, &FAST);
    match native_path(broker.address()) {
        Some(_) => (run, seen.into_iter().map(with_hello).collect()),
        None => (run, seen),
    }
}

/// Native members say no Hello: their arrival is told as the reply to one.
fn with_hello(message: Vec<u8>) -> Vec<u8> {
    let header = Header::parse(&message).unwrap();
    let args: Vec<_> = Args::new(&header, &message[header.header_bytes..]).map_while(Result::ok).collect();
    match (header.member, &args[..]) {
        (Some("NameOwnerChanged"), [Arg::Text(name), Arg::Text(""), Arg::Text(new)]) if name == new => {
            let hello = Builder::reply(1).sender(DRIVER).destination(name);
            hello.body(Body::default().text(name)).build(1).unwrap()
        }
        _ => message,
    }
}

/// What one connection sent, in its order: type, interface, member, bytes of the body or the rule, and the owner of the name
/// that it went to.
type Said = Vec<(Kind, String, String, String, Option<usize>)>;

/// What each connection said, by the order in which they began; checks that no answer comes before its call.
fn said(messages: &[Vec<u8>], is_replay: bool) -> BTreeMap<usize, Said> {
    let (mut bus, mut ids, mut said) = (Bus::new(), HashMap::new(), BTreeMap::<usize, Said>::new());
    let mut calls: HashMap<(String, u32), Option<String>> = HashMap::new();
    // The connection that looks around before a replay.
    let mut is_asker = is_replay;
    for message in messages {
        let header = Header::parse(message).unwrap();
        let body = &message[header.header_bytes..];
        bus.observe(&header, body);
        let text = match Args::new(&header, body).next() {
            Some(Ok(Arg::Text(text))) => text,
            _ => "",
        };
        if header.sender == Some(DRIVER) {
            if header.kind == Kind::MethodReturn
                && header.destination == Some(text)
                && !std::mem::take(&mut is_asker)
            {
                ids.insert(text.to_owned(), ids.len());
            }
            continue;
        }
        let sender = header.sender.unwrap();
        let Some(&id) = ids.get(sender) else { continue };
        let owner = header.destination.and_then(|name| bus.owner(name));
        if header.kind == Kind::MethodCall {
            if header.member == Some("GetId") {
                continue;
            }
            calls.insert((sender.into(), header.serial), owner.map(str::to_owned));
        }
        if let Some(serial) = header.reply_serial {
            let call = calls.remove(&(header.destination.unwrap().into(), serial));
            assert_eq!(call.expect("its call came before").as_deref(), Some(sender), "{header:?}");
        }
        let is_rule = header.destination == Some(DRIVER) && text.contains('=');
        let what = if is_rule {
            // Names have other lengths on another bus.
            ids.iter().fold(text.to_owned(), |text, (name, id)| {
                text.replace(&format!("'{name}'"), &format!("'#{id}'"))
            })
        } else {
            header.body_bytes.to_string()
        };
        let names =
            [header.interface, header.member.or(header.error_name)].map(|name| name.unwrap_or("").to_owned());
        let [interface, member] = names;
        let owner = owner.and_then(|owner| ids.get(owner)).copied();
        said.entry(id).or_default().push((header.kind, interface, member, what, owner));
    }
    said
}

#[test]
fn a_replay_has_the_same_messages_each_time_and_keeps_their_causes() {
    let capture = busy(6_000, usize::MAX);
    let original = said(&packets(&capture), false);
    let plan = plan(&capture);
    let counts = plan.counts();
    assert!(counts.left_out.is_empty(), "{counts:?}");
    assert!(counts.sent > 3_000 && counts.broadcast_deliveries > 500 && counts.confirmed > 100, "{counts:?}");
    for program in [Program::DbusDaemon, Program::DbusBroker, Program::CausewayBus] {
        let Some(broker) = start(program) else { continue };
        for _ in 0..2 {
            let (run, again) = recorded_again(&plan, &broker);
            let again = said(&again, true);
            assert_eq!(again.len(), original.len());
            for (id, original) in &original {
                // What a native member calls by a name that nobody has, it answers itself: it is not on the bus.
                let is_on_bus = |said: &&(Kind, String, String, String, Option<usize>)| {
                    let is_for_nobody = said.0 == Kind::MethodCall && said.1 != DRIVER && said.4.is_none();
                    !(program.is_native() && is_for_nobody)
                };
                let original: Vec<_> = original.iter().filter(is_on_bus).collect();
                let again: Vec<_> = again[id].iter().filter(is_on_bus).collect();
                let differs = original.iter().zip(&again).position(|(one, two)| one != two);
                let at = differs.map(|at| (at, &original[at], &again[at]));
                assert_eq!((at, again.len()), (None, original.len()), "{program}, connection {id}");
            }
            assert_eq!((run.sent, run.lost), (counts.sent, 0), "{program}: {run:?}");
            assert_eq!((run.refused, run.dropped, run.foreign), (0, 0, 0), "{program}: {run:?}");
            assert_eq!(run.broadcast_deliveries, counts.broadcast_deliveries, "{program}");
            assert!(run.wall_ns > 0 && run.usage.is_some_and(|usage| usage.cpu_ns > 0 && usage.switches > 0));
        }
    }
}

/// Of a message that is cut, the size is known, and a body of that size is sent.
#[test]
fn cut_messages_are_sent_with_bodies_of_their_size_or_counted() {
    let capture = busy(2_000, 300);
    let plan = plan(&capture);
    let counts = plan.counts();
    assert!(counts.filled > 200, "{counts:?}");
    assert!(counts.left_out.keys().all(|why| *why == LeftOut::Cut), "{counts:?}");
    let sent: u64 = counts.sent + counts.of_driver + counts.left_out.values().sum::<u64>();
    assert_eq!(sent, counts.captured);
    let Some(broker) = start(Program::DbusDaemon) else { return };
    let (run, again) = recorded_again(&plan, &broker);
    assert_eq!((run.sent, run.refused), (counts.sent, 0), "{run:?}");
    assert_eq!(said(&again, true), said(&packets(&capture), false));
}

/// A Hello of a connection that is there already begins none, and one that the capture lacks is said all the same.
#[test]
fn as_many_messages_are_planned_as_are_sent_whatever_hellos_a_capture_has() {
    let capture = busy(600, usize::MAX);
    let is_hello = |packet: &[u8]| Header::parse(packet).is_ok_and(|header| header.member == Some("Hello"));
    let hellos = packets(&capture).iter().filter(|packet| is_hello(packet)).count() as u64;
    assert!(hellos > 3, "{hellos}");
    for copies in [0, 2] {
        let (mut planner, mut reader) = (Planner::default(), Reader::new(&capture[..]).unwrap());
        while let Some(packet) = reader.next_packet().unwrap() {
            let copies = if is_hello(packet.bytes) { copies } else { 1 };
            (0..copies).for_each(|_| planner.push(&packet));
        }
        let plan = planner.finish();
        let counts = plan.counts();
        assert_eq!(counts.left_out.get(&LeftOut::Hello), (copies == 2).then_some(&hellos), "{counts:?}");
        let Some(broker) = start(Program::DbusDaemon) else { return };
        let run = play(&plan, broker.address(), &FAST).unwrap();
        assert_eq!(run.sent, counts.sent, "{copies}: {counts:?} {run:?}");
    }
}

/// Connections whose beginning the capture does not have are made first.
#[test]
fn connections_from_before_the_capture_are_there_at_its_start() {
    let plan = plan(&crate::common::mixed(Vec::new(), 3_000));
    assert!(plan.connections().iter().all(|connection| connection.is_from_before));
    for broker in
        [Program::DbusDaemon, Program::DbusBroker, Program::CausewayBus].into_iter().filter_map(start)
    {
        let run = play(&plan, broker.address(), &FAST).unwrap();
        let counts = plan.counts();
        assert_eq!((run.sent, run.lost, run.refused), (counts.captured, 0, 0), "{run:?}");
        assert_eq!(run.broadcast_deliveries, counts.broadcast_deliveries, "{run:?}");
    }
}

/// Names and rules from before a capture of a real bus, which the recording program asks for, are there in the replay.
#[test]
fn names_and_rules_from_before_the_capture_are_there_at_its_start() {
    let (Some(first), Some(second)) = (start(Program::DbusDaemon), start(Program::DbusDaemon)) else {
        return;
    };
    let open = || Client::connect(first.address()).unwrap();
    let (mut service, mut client) = (open(), open());
    service.ask_driver("RequestName", Body::default().text("com.example.Service").u32(0)).unwrap();
    let rule = format!("type='signal',sender='{}'", client.unique_name());
    service.ask_driver("AddMatch", Body::default().text(&rule)).unwrap();
    let mut monitor = open();
    become_monitor(&mut monitor).unwrap();
    rules_and_processes(&mut open(), &mut |_| {}).unwrap();
    client.send(&Builder::signal("/a", "com.example.Work", "Changed")).unwrap();
    let call = Builder::call("/a", "Do").destination("com.example.Service");
    let serial = client.send(&call).unwrap();
    let is_call = |message: &[u8]| Header::parse(message).unwrap().member == Some("Do");
    while !is_call(&service.receive(PATIENCE).unwrap().expect("the call")) {}
    service.send(&Builder::reply(serial).destination(client.unique_name())).unwrap();
    let mut planner = Planner::default();
    loop {
        let bytes = monitor.receive(PATIENCE).unwrap().expect("the reply of the service");
        planner.push(&Packet { time_ns: 0, original_bytes: bytes.len(), bytes: &bytes });
        if Header::parse(&bytes).unwrap().sender == Some(service.unique_name()) {
            break;
        }
    }
    let plan = planner.finish();
    let counts = plan.counts();
    assert_eq!((counts.broadcast_deliveries, counts.left_out.is_empty()), (1, true), "{counts:?}");
    let run = play(&plan, second.address(), &FAST).unwrap();
    assert_eq!((run.broadcast_deliveries, run.lost, run.unplanned), (1, 0, 0), "{run:?}");
}

/// Four connections, each of which asks each of the others.
fn all_to_all(rounds: u32) -> Vec<u8> {
    let mut stage = Stage::new();
    let all: Vec<String> = (0..4).map(|_| stage.connect()).collect();
    let names: Vec<String> = (0..4).map(|number| format!("com.example.Service{number}")).collect();
    for (connection, name) in all.iter().zip(&names) {
        stage.request(connection, name);
    }
    for round in 0..rounds {
        for caller in &all {
            for (callee, name) in all.iter().zip(&names).filter(|(callee, _)| *callee != caller) {
                let serial = stage.call(caller, name, Body::default().u32(round));
                stage.reply(callee, caller, serial, Body::default().u32(round));
            }
        }
    }
    stage.finish()
}

/// With a half of them, calls go between members, between clients, and from each to the other.
#[test]
fn a_share_of_the_connections_are_members_and_the_others_clients_of_one_bus() {
    const ROUNDS: u32 = 20;
    let plan = plan(&all_to_all(ROUNDS));
    for (native_share, clients) in [(0.0, 4), (0.5, 2), (1.0, 0)] {
        let Some(broker) = start(Program::CausewayBus) else { return };
        let (run, seen) = recorded(&plan, &broker, &Options { native_share, ..FAST });
        assert_eq!((run.sent, run.lost), (plan.counts().sent, 0), "{native_share}: {run:?}");
        assert_eq!((run.refused, run.dropped, run.foreign), (0, 0, 0), "{native_share}: {run:?}");
        let headers: Vec<Header<'_>> = seen.iter().map(|message| Header::parse(message).unwrap()).collect();
        let mut calls = BTreeMap::new();
        for call in headers.iter().filter(|header| header.member == Some("Do")) {
            *calls.entry((call.sender.unwrap(), call.destination.unwrap())).or_insert(0) += 1;
        }
        assert!(
            calls.len() == 12 && calls.values().all(|count| *count == ROUNDS),
            "{native_share}: {calls:?}"
        );
        // Only clients get a reply to Hello.
        let greeted = seen.iter().zip(&headers).filter_map(|(message, header)| {
            let is_reply = header.kind == Kind::MethodReturn && header.sender == Some(DRIVER);
            match Args::new(header, &message[header.header_bytes..]).next() {
                Some(Ok(Arg::Text(name))) if is_reply && header.destination == Some(name) => Some(name),
                _ => None,
            }
        });
        let greeted: BTreeSet<&str> = greeted.collect();
        let callers: BTreeSet<&str> = calls.keys().map(|(caller, _)| *caller).collect();
        assert_eq!((callers.len(), callers.intersection(&greeted).count()), (4, clients), "{native_share}");
    }
}

/// One connection asks another many times.
fn ping_pong() -> Vec<u8> {
    let mut stage = Stage::new();
    let (client, service) = (stage.connect(), stage.connect());
    stage.request(&service, "com.example.Service");
    for number in 0..3_000 {
        let serial = stage.call(&client, "com.example.Service", Body::default().u32(number));
        stage.reply(&service, &client, serial, Body::default().u32(number));
    }
    stage.finish()
}

/// Replays while `disturb` does something to the broker in the middle.
fn disturbed(broker: Broker, stall: Duration, disturb: impl FnOnce(Broker) -> Option<Broker>) -> Error {
    let plan = plan(&ping_pong());
    let mut monitor = Client::connect(broker.address()).unwrap();
    become_monitor(&mut monitor).unwrap();
    let address = broker.address().to_owned();
    std::thread::scope(|scope| {
        let options = Options { speed: Speed::Times(1.0), stall, ..FAST };
        let playing = scope.spawn(move || play(&plan, &address, &options));
        let is_call = |message: &[u8]| Header::parse(message).unwrap().member == Some("Do");
        while !is_call(&monitor.receive(PATIENCE).unwrap().expect("a call of the replay")) {}
        let kept = disturb(broker);
        let error = playing.join().unwrap().unwrap_err();
        drop(kept);
        error
    })
}

#[test]
fn a_broker_that_ends_or_stands_still_in_the_middle_is_said() {
    let Some(broker) = start(Program::DbusDaemon) else { return };
    let error = disturbed(broker, Duration::from_secs(30), |broker| {
        drop(broker);
        None
    });
    let said = error.to_string();
    assert!(said.starts_with("the bus closed the connection; it stood for :1.7"), "{said}");
    let broker = start(Program::DbusDaemon).unwrap();
    let error = disturbed(broker, Duration::from_millis(500), |broker| {
        let pid = rustix::process::Pid::from_raw(broker.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Some(broker)
    });
    let said = error.to_string();
    assert!(
        matches!(error, Error::Stalled { .. }) && said.contains(" waits for the arrival of message "),
        "{said}"
    );
}

#[test]
fn a_bus_that_is_not_there_or_not_free_is_refused() {
    let plan = plan(&ping_pong());
    let said = play(&plan, "unix:path=/nonexistent/bus", &FAST).unwrap_err().to_string();
    assert!(said.starts_with("no bus answers at `unix:path=/nonexistent/bus`"), "{said}");
    let Some(broker) = start(Program::DbusDaemon) else { return };
    let mut owner = Client::connect(broker.address()).unwrap();
    owner.ask_driver("RequestName", Body::default().text("com.example.Service").u32(0)).unwrap();
    let said = play(&plan, broker.address(), &FAST).unwrap_err().to_string();
    assert!(said.starts_with("`com.example.Service` belongs to another program on this bus"), "{said}");
}
