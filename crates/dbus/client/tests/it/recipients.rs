//! On private brokers, the recipients that are computed are those that get the messages.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header};
use causeway_testkit::{Cause, skipped};
use weighbridge_dbus_client::brokers::{self, Broker, Limits, Program};
use weighbridge_dbus_client::{Monitoring, become_monitor, rules_and_processes};
use weighbridge_dbus_traffic::bus::Bus;

const CLIENTS: usize = 50;
const RULES: usize = 500;
const MESSAGES: u32 = 10_000;
const PATIENCE: Duration = Duration::from_secs(300);
/// The interface of the last signal of the test, which every client gets.
const END: &str = "org.weighbridge.End";

const NAMES: &[&str] = &["org.test.A", "org.test.B", "org.test.C"];
const SENDERS: &[&str] = &[":1.0", ":1.1", ":1.2", NAMES[0], NAMES[1], NAMES[2], DRIVER];

/// The number of a signal of this test.
fn number(header: &Header<'_>, body: &[u8]) -> Option<u32> {
    match Args::new(header, body).nth(2) {
        Some(Ok(Arg::U32(number))) if header.is_broadcast() && header.sender != Some(DRIVER) => Some(number),
        _ => None,
    }
}

/// Every message up to the end signal.
fn drain(connection: &mut Client, mut each: impl FnMut(&Header<'_>, &[u8])) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the end never came");
        let Some(message) = connection.receive(Duration::from_millis(100)).unwrap() else { continue };
        let header = Header::parse(&message).unwrap();
        each(&header, &message[header.header_bytes..]);
        if header.interface == Some(END) {
            return;
        }
    }
}

/// A broker; `None`, with the skip printed, where its program is not installed.
fn start(program: Program) -> Option<Broker> {
    match Broker::start(program, &Limits::default()) {
        // The one of this project is built with its tests.
        Err(brokers::Error::Missing(_)) if std::env::var_os("CI_FEATURES").is_none() => {
            skipped(Cause::Missing(program.name()), program.package());
            None
        }
        started => Some(started.unwrap()),
    }
}

#[test]
fn computed_recipients_are_those_that_get_the_messages() {
    for broker in [Program::DbusDaemon, Program::Causewayd].into_iter().filter_map(start) {
        compare(broker.address());
    }
}

/// Clients with random rules and names send random signals; a monitor's view of the traffic must explain who got which.
fn compare(address: &str) {
    let mut random = Random(7);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address).unwrap()).collect();
    let add = |clients: &mut [Client], random: &mut Random| {
        let (client, rule) = (random.below(CLIENTS), random.rule(None, SENDERS));
        let added = clients[client].ask_driver("AddMatch", Body::default().text(&rule));
        added.unwrap_or_else(|error| panic!("{rule}: {error}"));
        (client, rule)
    };
    // Half of the rules are there before anybody monitors, and are known from the driver's list.
    let mut rules: Vec<(usize, String)> = (0..RULES / 2).map(|_| add(&mut clients, &mut random)).collect();
    let mut monitor = Client::connect(address).unwrap();
    assert_eq!(become_monitor(&mut monitor).unwrap(), Monitoring::Everything);
    let mut asker = Client::connect(address).unwrap();
    match rules_and_processes(&mut asker, &mut |_| {}) {
        Ok(()) => {}
        Err(Error::Refused { name, .. }) => {
            return skipped(Cause::Missing("GetAllMatchRules"), format!("this bus answers {name}"));
        }
        Err(error) => panic!("{error}"),
    }
    rules.extend((0..RULES / 2).map(|_| add(&mut clients, &mut random)));
    let mut sent = 0;
    while sent < MESSAGES {
        let client = random.below(CLIENTS);
        match random.below(100) {
            // Rules and names come and go meanwhile.
            0 => rules.push(add(&mut clients, &mut random)),
            1 => {
                let (client, rule) = rules.swap_remove(random.below(rules.len()));
                clients[client].ask_driver("RemoveMatch", Body::default().text(&rule)).unwrap();
            }
            2 => {
                let name = Body::default().text(random.one_of(NAMES)).u32(0);
                clients[client].ask_driver("RequestName", name).unwrap();
            }
            3 => {
                let name = Body::default().text(random.one_of(NAMES));
                clients[client].ask_driver("ReleaseName", name).unwrap();
            }
            _ => {
                clients[client].send(&random.signal(None, sent)).unwrap();
                sent += 1;
            }
        }
    }
    for client in &mut clients {
        let rule = format!("interface='{END}'");
        client.ask_driver("AddMatch", Body::default().text(&rule)).unwrap();
    }
    clients[0].send(&Builder::signal("/", END, "End")).unwrap();

    let mut delivered = vec![BTreeSet::new(); MESSAGES as usize];
    for client in &mut clients {
        let name = client.unique_name().to_owned();
        drain(client, |header, body| {
            if let Some(number) = number(header, body) {
                assert!(delivered[number as usize].insert(name.clone()), "{name} got {number} twice");
            }
        });
    }
    let (mut bus, mut seen, mut deliveries) = (Bus::new(), 0, 0);
    drain(&mut monitor, |header, body| {
        bus.observe(header, body);
        let computed: BTreeSet<String> = bus.recipients(header, body).into_iter().map(String::from).collect();
        if let Some(number) = number(header, body) {
            assert_eq!(computed, delivered[number as usize], "of message {number}: {header:?}");
            seen += 1;
            deliveries += computed.len();
        }
    });
    assert_eq!(seen, MESSAGES);
    assert!(deliveries > MESSAGES as usize, "too few deliveries to mean anything: {deliveries}");
    let coverage = bus.coverage();
    assert!(coverage.is_complete() && coverage.connections >= CLIENTS, "{coverage:?}");
}

/// An address where nothing listens, a call that is refused, and a bus that ends.
#[test]
fn what_goes_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = format!("unix:path={}", folder.path().join("none").display());
    let said = Client::connect(&nowhere).unwrap_err().to_string();
    assert!(said.starts_with("no bus answers at `unix:path="), "{said}");
    let Some(daemon) = start(Program::DbusDaemon) else { return };
    let mut connection = Client::connect(daemon.address()).unwrap();
    let refused = connection.ask_driver("AddMatch", Body::default().text("nonsense='1'")).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { name, .. } if name.ends_with("MatchRuleInvalid")),
        "{refused}"
    );
    drop(daemon);
    let ended = loop {
        match connection.receive(PATIENCE) {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
