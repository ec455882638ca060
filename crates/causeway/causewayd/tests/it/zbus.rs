//! Programs of zbus on a native bus: proxies, object servers, signals, names, and ends.
#![allow(missing_docs, reason = "the macro of zbus makes a public proxy")]

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use causeway_bus::wire::{self, Body, Endian};
use causeway_bus::{AuthorityOptions, Connection, Monitor};
use futures_core::Stream;
use zbus::fdo::{DBusProxy, PropertiesProxy, RequestNameFlags, RequestNameReply};
use zbus::names::{BusName, InterfaceName};
use zbus::object_server::SignalEmitter;

use crate::asynchronous::{soon, soon_with};
use crate::support::*;

const NAME: &str = "com.example.Counter";

struct Counter {
    count: u32,
}

#[zbus::interface(name = "com.example.Counter", proxy(default_path = "/com/example"))]
impl Counter {
    async fn add(&mut self, amount: u32, #[zbus(signal_emitter)] emitter: SignalEmitter<'_>) -> u32 {
        self.count += amount;
        // The signal before the reply: the bus keeps this order.
        emitter.added(amount).await.unwrap();
        self.count_changed(&emitter).await.unwrap();
        self.count
    }

    fn fail(&self) -> zbus::fdo::Result<()> {
        Err(zbus::fdo::Error::AccessDenied("not for you".into()))
    }

    async fn never(&self) {
        std::future::pending().await
    }

    #[zbus(property)]
    fn count(&self) -> u32 {
        self.count
    }

    #[zbus(property)]
    fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    #[zbus(signal)]
    async fn added(emitter: &SignalEmitter<'_>, amount: u32) -> zbus::Result<()>;
}

/// The error of D-Bus that a call ended with.
fn error_of<T: std::fmt::Debug>(outcome: zbus::Result<T>) -> zbus::fdo::Error {
    match outcome {
        Err(zbus::Error::FDO(error)) => *error,
        other => panic!("{other:?}"),
    }
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> S::Item {
    let item = poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx));
    soon("nothing came", item).await.expect("the stream ended")
}

/// The next message that `is_it`.
async fn message(
    all: &mut zbus::MessageStream,
    is_it: impl Fn(&zbus::message::Header<'_>) -> bool,
) -> zbus::Message {
    loop {
        let message = next(all).await.unwrap();
        if is_it(&message.header()) {
            return message;
        }
    }
}

async fn connect(bus: &Bus) -> zbus::Connection {
    causeway_bus::zbus::builder(bus.path()).await.unwrap().build().await.unwrap()
}

async fn serve(bus: &Bus) -> zbus::Connection {
    let builder = causeway_bus::zbus::builder(bus.path()).await.unwrap();
    builder.name(NAME).serve_at(PATH, Counter { count: 0 }).build().await.unwrap()
}

async fn proxy(connection: &zbus::Connection) -> CounterProxy<'static> {
    CounterProxy::builder(connection).destination(NAME).build().await.unwrap()
}

#[test(tokio::test(flavor = "multi_thread", worker_threads = 2))]
async fn a_proxy_calls_an_object_server_and_gets_replies_errors_and_signals_in_order() {
    let bus = Bus::start();
    let (service, client) = (serve(&bus).await, connect(&bus).await);
    assert_ne!(service.unique_name(), client.unique_name());
    let counter = proxy(&client).await;
    let mut added = counter.receive_added().await.unwrap();
    for round in 1..=100 {
        assert_eq!(soon("no reply", counter.add(2)).await.unwrap(), 2 * round);
        let signal = next(&mut added).await;
        assert_eq!(signal.args().unwrap().amount, 2);
        let sender = signal.message().header().sender().map(ToString::to_string);
        assert_eq!(sender, service.unique_name().map(ToString::to_string));
    }
    let error = soon("no reply", counter.fail()).await.unwrap_err();
    assert!(
        matches!(&error, zbus::fdo::Error::AccessDenied(why) if why.contains("not for you")),
        "{error:?}"
    );
    let missing = error_of(client.call_method(Some(NAME), PATH, Some(NAME), "Missing", &()).await);
    assert!(matches!(missing, zbus::fdo::Error::UnknownMethod(_)), "{missing:?}");
    // Many at once.
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let counter = counter.clone();
            tokio::spawn(async move { counter.add(1).await.unwrap() })
        })
        .collect();
    let mut counts = Vec::new();
    for call in calls {
        counts.push(soon("no reply", call).await.unwrap());
    }
    counts.sort_unstable();
    assert_eq!(counts, (201..=264).collect::<Vec<_>>());
}

#[test(tokio::test)]
async fn a_property_is_read_written_cached_and_its_changes_are_seen() {
    let bus = Bus::start();
    let (_service, client) = (serve(&bus).await, connect(&bus).await);
    let counter = proxy(&client).await;
    let mut changes = counter.receive_count_changed().await;
    assert_eq!(next(&mut changes).await.get().await.unwrap(), 0);
    assert_eq!(counter.count().await.unwrap(), 0);
    soon("no reply", counter.set_count(7)).await.unwrap();
    assert_eq!(next(&mut changes).await.get().await.unwrap(), 7);
    assert_eq!(counter.count().await.unwrap(), 7);
    let properties = PropertiesProxy::builder(&client).destination(NAME).path(PATH).build().await.unwrap();
    let all = properties.get_all(InterfaceName::try_from(NAME).unwrap()).await.unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["Count"]);
}

#[test(tokio::test)]
async fn names_are_requested_lost_and_looked_up_as_with_a_broker() {
    use zbus::fdo::Error::{Failed, NameHasNoOwner};
    // The directory has no place for all names.
    let bus = Bus::start_with(AuthorityOptions { names: 2, ..AuthorityOptions::default() });
    let (first, second) = (connect(&bus).await, connect(&bus).await);
    let unique = |connection: &zbus::Connection| connection.unique_name().unwrap().to_string();
    let flags = RequestNameFlags::ALLOW_REPLACEMENT;
    assert_eq!(first.request_name_with_flags(NAME, flags).await.unwrap(), RequestNameReply::PrimaryOwner);
    let dbus = DBusProxy::new(&second).await.unwrap();
    let mut changes = dbus.receive_name_owner_changed_with_args(&[(0, NAME)]).await.unwrap();
    let mut lost = DBusProxy::new(&first).await.unwrap().receive_name_lost().await.unwrap();
    let refused = second.request_name_with_flags(NAME, RequestNameFlags::DO_NOT_QUEUE).await.unwrap_err();
    assert!(matches!(refused, zbus::Error::NameTaken), "{refused:?}");
    second.request_name_with_flags(NAME, RequestNameFlags::REPLACE_EXISTING).await.unwrap();
    assert_eq!(next(&mut lost).await.args().unwrap().name.as_str(), NAME);
    // The first request may still be seen.
    let new_owner = loop {
        let change = next(&mut changes).await;
        let change = change.args().unwrap();
        if change.old_owner.is_some() {
            break change.new_owner.as_ref().map(ToString::to_string);
        }
    };
    assert_eq!(new_owner, Some(unique(&second)));

    let names = ["com.example.One", "com.example.Two", "com.example.Three", "com.example.Four"];
    for name in names {
        first.request_name(name).await.unwrap();
    }
    let listed: Vec<_> = dbus.list_names().await.unwrap().iter().map(ToString::to_string).collect();
    let bus_name = |name: &str| BusName::try_from(name.to_owned()).unwrap();
    let owners = names.map(|name| (name.to_owned(), unique(&first)));
    let others = [(NAME.to_owned(), unique(&second)), (unique(&second), unique(&second))];
    for (name, owner) in owners.into_iter().chain(others).chain([(DRIVER.to_owned(), DRIVER.to_owned())]) {
        assert!(listed.contains(&name), "{name} is not among {listed:?}");
        assert!(dbus.name_has_owner(bus_name(&name)).await.unwrap(), "{name}");
        assert_eq!(dbus.get_name_owner(bus_name(&name)).await.unwrap().as_str(), owner, "{name}");
    }
    let nobody = bus_name("com.example.Nobody");
    assert!(!dbus.name_has_owner(nobody.clone()).await.unwrap());
    assert!(matches!(dbus.get_name_owner(nobody).await, Err(NameHasNoOwner(_))));
    assert!(matches!(dbus.hello().await, Err(Failed(_))));
    // The first one waits in the queue, as D-Bus has it.
    assert!(second.release_name(NAME).await.unwrap());
    first.release_name(NAME).await.unwrap();

    let pid = std::process::id();
    assert_eq!(dbus.get_connection_unix_process_id(bus_name(&unique(&second))).await.unwrap(), pid);
    assert_eq!(dbus.get_id().await.unwrap().to_string(), second.server_guid().to_string());
    assert_eq!(second.peer_creds().await.unwrap().process_id(), Some(pid));
}

#[test(tokio::test)]
async fn rules_end_with_their_streams_and_wrong_ones_are_refused() {
    let bus = Bus::start();
    let (sender, client) = (connect(&bus).await, connect(&bus).await);
    let dbus = DBusProxy::new(&client).await.unwrap();
    let rule = |member: &'static str| {
        zbus::MatchRule::builder().interface(INTERFACE).member(member).build().unwrap()
    };
    dbus.add_match_rule(rule("Wanted")).await.unwrap();
    let mut all = zbus::MessageStream::from(&client);
    for member in ["Unwanted", "Wanted"] {
        sender.emit_signal(None::<BusName<'_>>, PATH, INTERFACE, member, &1u8).await.unwrap();
    }
    let first = message(&mut all, |header| header.interface().is_some_and(|name| name == INTERFACE)).await;
    assert_eq!(first.header().member().unwrap(), "Wanted");
    dbus.remove_match_rule(rule("Wanted")).await.unwrap();
    let again = dbus.remove_match_rule(rule("Wanted")).await.unwrap_err();
    assert!(matches!(again, zbus::fdo::Error::MatchRuleNotFound(_)), "{again:?}");
    let wrong = error_of(client.call_method(Some(DRIVER), "/", Some(DRIVER), "AddMatch", &"nonsense").await);
    assert!(matches!(wrong, zbus::fdo::Error::MatchRuleInvalid(_)), "{wrong:?}");
}

#[test(tokio::test)]
async fn a_program_of_zbus_and_a_member_without_it_talk_in_both_byte_orders() {
    let bus = Bus::start();
    let _echo = echo(&bus.path(), "com.example.Echo");
    let service = serve(&bus).await;
    // A call in the byte order that this machine does not have.
    let foreign =
        if Endian::NATIVE == Endian::Little { zbus::wire::Endian::Big } else { zbus::wire::Endian::Little };
    let call = zbus::Message::method_call(PATH, "Echo")
        .destination("com.example.Echo")
        .interface(INTERFACE)
        // The bus says who the sender is, whatever it says itself.
        .sender(":1.4711")
        .endian(foreign)
        .build(&"turned around")
        .unwrap();
    let mut all = zbus::MessageStream::from(&service);
    service.send(&call).await.unwrap();
    let serial = Some(call.primary_header().serial_num());
    let reply = message(&mut all, |header| header.reply_serial() == serial).await;
    assert_eq!(reply.body().deserialize::<String>().unwrap(), "turned around");

    // A member without zbus calls the object server.
    let path = bus.path();
    let sum = tokio::task::spawn_blocking(move || {
        let mut member = Connection::open(path).unwrap();
        let reply = member.call(NAME, PATH, NAME, "Add", Body::default().u32(3)).unwrap();
        member.add_match("member='Turned'").unwrap();
        member.call(NAME, PATH, PEER, "Ping", Body::default()).unwrap();
        (format!("{:?}", reply.rule_args()), member)
    });
    let (sum, mut member) = soon("no reply", sum).await.unwrap();
    assert_eq!(sum, "[U32(3)]");
    let signal = zbus::Message::signal(PATH, INTERFACE, "Turned").endian(foreign).build(&7u32).unwrap();
    service.send(&signal).await.unwrap();
    let signal = crate::support::signal(&mut member);
    assert_ne!(signal.endian(), Endian::NATIVE);
    assert_eq!(signal.header().sender, service.unique_name().map(|name| name.as_str()));
    assert_eq!(signal.rule_args(), [wire::Arg::U32(7)]);
}

#[test(tokio::test)]
async fn calls_to_nobody_and_calls_whose_callee_leaves_end_with_errors() {
    let bus = Bus::start();
    let client = connect(&bus).await;
    let to_nobody = client.call_method(Some("com.example.Nobody"), PATH, Some(INTERFACE), "M", &());
    let nobody = error_of(to_nobody.await);
    assert!(matches!(nobody, zbus::fdo::Error::ServiceUnknown(_)), "{nobody:?}");

    let service = serve(&bus).await;
    let counter = proxy(&client).await;
    let leave = async || service.close().await.unwrap();
    let (ended, ()) = soon_with("the end goes unnoticed", counter.never(), leave).await;
    let ended = error_of(ended);
    assert!(matches!(ended, zbus::fdo::Error::NoReply(_)), "{ended:?}");
    let dbus = DBusProxy::new(&client).await.unwrap();
    assert!(!dbus.name_has_owner(BusName::try_from(NAME).unwrap()).await.unwrap());
}

#[test(tokio::test)]
async fn a_member_leaves_when_its_last_handle_of_zbus_is_dropped() {
    let bus = Bus::start();
    let client = connect(&bus).await;
    let dbus = DBusProxy::new(&client).await.unwrap();
    let service = connect(&bus).await;
    service.request_name(NAME).await.unwrap();
    let mut changes = dbus.receive_name_owner_changed_with_args(&[(0, NAME)]).await.unwrap();
    drop(service);
    while next(&mut changes).await.args().unwrap().new_owner.is_some() {}
}

#[test(tokio::test)]
async fn a_connection_ends_with_its_bus() {
    let bus = Bus::start();
    let client = connect(&bus).await;
    let mut closed = pin!(client.closed());
    assert!(tokio::time::timeout(Duration::from_millis(5), &mut closed).await.is_err());
    tokio::task::spawn_blocking(move || drop(bus)).await.unwrap();
    soon("the end goes unnoticed", closed).await;
    let error = client.call_method(Some(NAME), PATH, Some(INTERFACE), "M", &()).await.unwrap_err();
    assert!(matches!(error, zbus::Error::InputOutput(_)), "{error:?}");
}

/// The streams of the program are full and nobody takes from them: messages wait in this process, and no other member.
#[test(tokio::test)]
async fn a_program_that_does_not_read_does_not_stand_in_the_way() {
    let bus = Bus::start_small();
    let client = connect(&bus).await;
    let dbus = DBusProxy::new(&client).await.unwrap();
    dbus.add_match_rule(zbus::MatchRule::builder().interface(INTERFACE).build().unwrap()).await.unwrap();
    let mut unread = zbus::MessageStream::from(&client);
    let path = bus.path();
    let sent = tokio::task::spawn_blocking(move || {
        let mut sender = Connection::open(path).unwrap();
        for number in 0..1000 {
            sender.emit(PATH, INTERFACE, "Flood", Body::default().u32(number)).unwrap();
        }
    });
    soon("the sender waits for ever", sent).await.unwrap();
    for number in 0..1000u32 {
        let is_flood =
            |header: &zbus::message::Header<'_>| header.member().is_some_and(|name| name == "Flood");
        let flooded = message(&mut unread, is_flood).await;
        assert_eq!(flooded.body().deserialize::<u32>().unwrap(), number);
    }
}

/// Also one that is longer than a quarter of an outbox.
#[test(tokio::test)]
async fn descriptors_and_long_messages_pass_both_ways() {
    let bus = Bus::start();
    let (service, client) = (serve(&bus).await, connect(&bus).await);
    service.object_server().at(PATH, Files).await.unwrap();
    let file = zbus::wire::OwnedFd::from(file("through the bus"));
    let long = "x".repeat(1 << 20);
    let arguments = (file, &long);
    let call = client.call_method(Some(NAME), PATH, Some("com.example.Files"), "Swap", &arguments);
    let reply = soon("no reply", call).await.unwrap();
    let (back, length): (zbus::wire::OwnedFd, u32) = reply.body().deserialize().unwrap();
    let mut text = [0; 15];
    rustix::io::pread(&back, &mut text, 0).unwrap();
    assert_eq!((&text, length as usize), (b"through the bus", long.len()));
}

struct Files;

#[zbus::interface(name = "com.example.Files")]
impl Files {
    fn swap(&self, file: zbus::wire::OwnedFd, text: &str) -> (zbus::wire::OwnedFd, u32) {
        (file, text.len() as u32)
    }
}

/// Part of such a message lies with the bus already, and would lie there until the member leaves.
#[test(tokio::test)]
async fn a_message_whose_future_is_dropped_is_sent_if_the_bus_holds_its_descriptor_and_forgotten_otherwise() {
    let bus = Bus::start_small();
    let mut receiver = bus.member();
    receiver.add_match(RULE).unwrap();
    let socket = causeway_bus::zbus::Socket::new(bus.member_with(small())).unwrap();
    let sender = zbus::connection::Builder::socket(socket).build().await.unwrap();
    let monitor = Monitor::open(bus.path()).unwrap();

    // The receiver does not read, so the log is full after some of these.
    let mut sent = 0u32;
    loop {
        let file = zbus::wire::OwnedFd::from(file("not lost"));
        let signal = zbus::Message::signal(PATH, INTERFACE, "Numbered").build(&(sent, file)).unwrap();
        sent += 1;
        if tokio::time::timeout(Duration::from_millis(20), sender.send(&signal)).await.is_err() {
            break;
        }
    }
    let name = receiver.unique_name().to_owned();
    let call = sender.call_method(Some(&*name), PATH, Some(INTERFACE), "Forgotten", &());
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err(), "nobody answers");
    let statistics = statistics_of(&monitor, sender.unique_name().unwrap());
    assert_eq!(statistics.calls_open, 0, "a call that was not sent has no reply");

    let read = tokio::task::spawn_blocking(move || {
        for number in 0..sent {
            let signal = signal(&mut receiver);
            assert_eq!(signal.rule_args()[0], wire::Arg::U32(number));
            assert_eq!(signal.take_descriptors().len(), 1, "signal {number}");
        }
    });
    soon("a message whose descriptor the bus holds was not sent", read).await.unwrap();
}
