//! Services that systemd starts for the bus, with one that plays systemd, and clients and members as callers.

use causeway_bus::ConnectionOptions;
use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Kind, Marshal};

use crate::support::*;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const ACTIVATOR: &str = "org.freedesktop.systemd1.Activator";

/// A bus whose services have these names and units; none is started by its `Exec=`.
fn broker(folder: &TempDir, services: &[(&str, &str)], settings: &str) -> Broker {
    broker_with(folder, services, settings, &["--systemd-activation"])
}

fn broker_with(folder: &TempDir, services: &[(&str, &str)], settings: &str, args: &[&str]) -> Broker {
    for (name, unit) in services {
        let unit = if unit.is_empty() { String::new() } else { format!("SystemdService={unit}\n") };
        // Another user's program is no business of the bus where systemd starts it.
        let user = if unit.is_empty() { "" } else { "User=nobody\n" };
        write_service(folder.path(), name, "/bin/false", &format!("{user}{unit}"));
    }
    let file = with_services(folder, &format!("<type>system</type>{settings}"));
    Broker::native_with(&[&["--config-file", &file], args].concat())
}

fn systemd(mut client: Client) -> Client {
    client.request_name(SYSTEMD, 0).unwrap();
    client
}

/// The unit of the next request to systemd.
fn requested(systemd: &mut Client) -> String {
    let request = wait_for_member(systemd, "ActivationRequest");
    let header = header(&request);
    let said = (header.kind, header.path, header.interface, header.sender, header.destination);
    let path = Some("/org/freedesktop/DBus");
    let expected = (Kind::Signal, path, Some(ACTIVATOR), Some("org.freedesktop.DBus"), Some(SYSTEMD));
    assert_eq!(said, expected);
    texts(&request).remove(0)
}

fn say_failure(client: &mut Client, unit: &str, error: &str) {
    let signal = Builder::signal("/org/freedesktop/systemd1", ACTIVATOR, "ActivationFailure");
    let body = text(unit).text(error).text("as systemd says");
    client.send(&signal.destination("org.freedesktop.DBus").body(body)).unwrap();
    sync(client);
}

fn ask(service: &str) -> Builder<'_> {
    Builder::call(PATH, "Ask").destination(service)
}

fn start(caller: &mut Client, service: &str) -> u32 {
    caller.send(&driver_call("StartServiceByName").body(text(service).u32(0))).unwrap()
}

fn error_of_reply(client: &mut Client, serial: u32) -> String {
    let reply = wait_for_reply(client, serial);
    header(&reply).error_name.unwrap_or_else(|| panic!("no error: {:?}", texts(&reply))).to_owned()
}

/// The unit has come: it takes the name, and answers calls.
fn provide(service: &mut Client, name: &str, calls: usize) {
    service.request_name(name, 0).unwrap();
    for _ in 0..calls {
        let asked = wait_for_member(service, "Ask");
        answer(service, &asked, text(name));
    }
}

fn environment(pairs: &[(&str, &str)]) -> Body {
    let mut variables = Marshal::default();
    variables.array(8, |out| {
        for (name, value) in pairs {
            out.align(8);
            out.text(name);
            out.text(value);
        }
    });
    variables.into_body("a{ss}")
}

#[test]
fn systemd_is_asked_for_the_unit_once_and_what_waits_reaches_the_service() {
    let folder = temp_dir("units");
    let bus = broker(&folder, &[("a.Unit", "a.service"), ("a.Plain", "")], "");
    for (systemd_kind, service_kind) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let take = |kind: usize| bus.of_both_kinds().into_iter().nth(kind).unwrap();
        let mut systemd = systemd(take(systemd_kind));
        for mut caller in bus.of_both_kinds() {
            let first = caller.send(&ask("a.Unit")).unwrap();
            start(&mut caller, "a.Unit");
            let second = caller.send(&ask("a.Unit")).unwrap();
            assert_eq!(requested(&mut systemd), "a.service");
            let mut service = take(service_kind);
            provide(&mut service, "a.Unit", 2);
            for asked in [first, second] {
                assert_eq!(texts(&wait_for_reply(&mut caller, asked)), ["a.Unit"]);
            }
            // It is there now: nobody is asked.
            let again = start(&mut caller, "a.Unit");
            assert_eq!(header(&wait_for_reply(&mut caller, again)).kind, Kind::MethodReturn);
            drop(service);
            eventually("the service stays", || caller.name_owner("a.Unit").unwrap().is_none());
            // One without a unit is started by its program.
            assert_eq!(refusal(caller.call(&ask("a.Plain"), PATIENCE)), "Spawn.ChildExited");
        }
        // One request for each caller, and no further one.
        sync(&mut systemd);
        let next = systemd.receive(std::time::Duration::ZERO).unwrap();
        assert!(next.is_none_or(|message| header(&message).interface != Some(ACTIVATOR)));
        let name = systemd.unique_name().to_owned();
        drop(systemd);
        let mut witness = bus.client();
        eventually("systemd stays", || witness.name_owner(&name).unwrap().is_none());
    }
}

#[test]
fn what_is_for_systemd_waits_in_order_until_it_has_connected() {
    let folder = temp_dir("units");
    let services = [("a.One", "one.service"), ("a.Two", "two.service")];
    for kind in 0..2 {
        let bus = broker(&folder, &services, "");
        let mut caller = bus.of_both_kinds().into_iter().nth(kind).unwrap();
        let one = caller.send(&ask("a.One")).unwrap();
        // Until this is answered nothing was asked; the file was read by then.
        caller.ask_driver("ListActivatableNames", Body::default()).unwrap();
        let variables = environment(&[("ONE", "1"), ("TWO", "2 3")]);
        bus.client().call(&driver_call("UpdateActivationEnvironment").body(variables), PATIENCE).unwrap();
        let two = caller.send(&ask("a.Two")).unwrap();
        caller.ask_driver("ListActivatableNames", Body::default()).unwrap();
        let direct = caller.send(&ask(SYSTEMD)).unwrap();
        sync(&mut caller);
        let mut systemd = systemd(bus.of_both_kinds().into_iter().nth(1 - kind).unwrap());
        assert_eq!(requested(&mut systemd), "one.service");
        let call = wait_for(&mut systemd, |header| header.kind == Kind::MethodCall);
        assert_eq!(
            (header(&call).member, header(&call).destination),
            (Some("SetEnvironment"), Some(SYSTEMD))
        );
        assert!(!header(&call).expects_reply());
        assert_eq!(causeway_dbus_wire::wire::Header::parse(&call).unwrap().signature, "as");
        assert!(contains(&call, "ONE=1") && contains(&call, "TWO=2 3"));
        assert_eq!(requested(&mut systemd), "two.service");
        let asked = wait_for_member(&mut systemd, "Ask");
        answer(&mut systemd, &asked, text("systemd"));
        assert_eq!(texts(&wait_for_reply(&mut caller, direct)), ["systemd"]);
        let mut service = bus.client();
        for (name, asked) in [("a.Two", two), ("a.One", one)] {
            provide(&mut service, name, 1);
            assert_eq!(texts(&wait_for_reply(&mut caller, asked)), [name]);
        }
        // What is said while it is there reaches it at once, by its unique name.
        let variables = driver_call("UpdateActivationEnvironment").body(environment(&[]));
        bus.client().call(&variables, PATIENCE).unwrap();
        let call = wait_for_member(&mut systemd, "SetEnvironment");
        assert_eq!(header(&call).destination, Some(systemd.unique_name()));
    }
}

#[test]
fn a_failure_ends_what_waits_for_the_unit_if_systemd_says_so_and_nobody_else() {
    let folder = temp_dir("units");
    let services = [("a.One", "shared.service"), ("a.Two", "shared.service"), ("a.Other", "other.service")];
    let bus = broker(&folder, &services, "");
    for kind in 0..2 {
        let mut systemd = systemd(bus.of_both_kinds().into_iter().nth(kind).unwrap());
        for mut caller in bus.of_both_kinds() {
            let one = caller.send(&ask("a.One")).unwrap();
            let two = start(&mut caller, "a.Two");
            let other = caller.send(&ask("a.Other")).unwrap();
            (0..3).for_each(|_| _ = requested(&mut systemd));
            for mut forger in bus.of_both_kinds() {
                say_failure(&mut forger, "shared.service", "com.example.Forged");
            }
            say_failure(&mut systemd, "no.service", "com.example.Nothing");
            say_failure(&mut systemd, "shared.service", "com.example.Nope");
            for asked in [one, two] {
                assert_eq!(error_of_reply(&mut caller, asked), "com.example.Nope");
            }
            // What is not a name of an error becomes one.
            say_failure(&mut systemd, "other.service", "no name");
            let reply = wait_for_reply(&mut caller, other);
            assert_eq!(header(&reply).error_name, Some("org.freedesktop.DBus.Error.Failed"));
            assert_eq!(texts(&reply), ["as systemd says"]);
        }
        let name = systemd.unique_name().to_owned();
        drop(systemd);
        let mut witness = bus.client();
        eventually("systemd stays", || witness.name_owner(&name).unwrap().is_none());
    }
}

/// What it was asked for may be under way: the name is waited for, as long as a start may take.
#[test]
fn a_systemd_that_dies_leaves_what_it_was_asked_for_to_come_or_to_time_out() {
    let services = [("a.Unit", "a.service"), ("a.Never", "never.service")];
    for (settings, comes) in [("", true), ("<limit name='service_start_timeout'>300</limit>", false)] {
        let folder = temp_dir("units");
        let bus = broker(&folder, &services, settings);
        for mut caller in bus.of_both_kinds() {
            let mut systemd = systemd(bus.client());
            let asked = caller.send(&ask("a.Unit")).unwrap();
            assert_eq!(requested(&mut systemd), "a.service");
            drop(systemd);
            eventually("systemd stays", || caller.name_owner(SYSTEMD).unwrap().is_none());
            if comes {
                let mut service = bus.client();
                provide(&mut service, "a.Unit", 1);
                assert_eq!(texts(&wait_for_reply(&mut caller, asked)), ["a.Unit"]);
                drop(service);
                eventually("the service stays", || caller.name_owner("a.Unit").unwrap().is_none());
            } else {
                // One that is asked for now waits for another systemd, which does not come.
                let never = caller.send(&ask("a.Never")).unwrap();
                for asked in [asked, never] {
                    assert_eq!(error_of_reply(&mut caller, asked), "org.freedesktop.DBus.Error.TimedOut");
                }
            }
        }
        // What nobody waits for any more is not said to the next one.
        if !comes {
            let mut systemd = systemd(bus.client());
            sync(&mut systemd);
            let next = systemd.receive(std::time::Duration::ZERO).unwrap();
            assert!(next.is_none_or(|message| header(&message).interface != Some(ACTIVATOR)));
        }
    }
}

#[test]
fn no_more_units_are_asked_for_and_no_more_waits_for_systemd_than_the_limit_says() {
    let folder = temp_dir("units");
    let services = [("a.One", "one.service"), ("a.Two", "two.service"), ("a.Three", "three.service")];
    for is_there in [true, false] {
        let limit = "<limit name='max_pending_service_starts'>2</limit>";
        let bus = broker(&folder, &services, limit);
        let _systemd = is_there.then(|| systemd(bus.client()));
        for mut caller in bus.of_both_kinds() {
            let asked = ["a.One", "a.Two"].map(|name| caller.send(&ask(name)).unwrap());
            assert_eq!(refusal(caller.call(&ask("a.Three"), PATIENCE)), "LimitsExceeded");
            let update = driver_call("UpdateActivationEnvironment").body(environment(&[("A", "B")]));
            let updated = bus.client().call(&update, PATIENCE);
            match is_there {
                true => drop(updated.unwrap()),
                false => assert_eq!(refusal(updated), "LimitsExceeded"),
            }
            let mut service = bus.client();
            for (name, asked) in ["a.One", "a.Two"].into_iter().zip(asked) {
                provide(&mut service, name, 1);
                assert_eq!(texts(&wait_for_reply(&mut caller, asked)), [name]);
            }
            drop(service);
            eventually("the service stays", || caller.name_owner("a.Two").unwrap().is_none());
            if !is_there {
                // Its two requests still wait.
                break;
            }
        }
    }
}

/// A variable that systemd cannot be told is not given to programs that the bus starts either.
#[test]
fn an_environment_that_is_refused_changes_nothing() {
    let folder = temp_dir("units");
    write_service(folder.path(), "a.Shows", "/usr/bin/printenv SECOND", "");
    let bus = broker(&folder, &[], "<limit name='max_pending_service_starts'>1</limit>");
    let mut client = bus.client();
    let mut update = |name| {
        client.call(&driver_call("UpdateActivationEnvironment").body(environment(&[(name, "")])), PATIENCE)
    };
    update("FIRST").unwrap();
    assert_eq!(refusal(update("SECOND")), "LimitsExceeded");
    // A program that does not find it fails; one that finds it returns success, and its name does not come.
    assert_eq!(refusal(client.call(&ask("a.Shows"), PATIENCE)), "Spawn.ChildExited");
}

#[test]
fn without_the_switch_the_program_is_started_and_systemd_has_no_word_in_it() {
    let folder = temp_dir("units");
    write_service(folder.path(), "a.Unit", "/bin/sh -c 'sleep 1000'", "SystemdService=a.service\n");
    let bus = broker_with(&folder, &[], "<limit name='service_start_timeout'>500</limit>", &[]);
    let mut systemd = systemd(bus.client());
    let careless = ConnectionOptions::default();
    for mut caller in [bus.client(), Client::join(&bus.path(), careless).unwrap()] {
        let asked = caller.send(&ask("a.Unit")).unwrap();
        caller.ask_driver("ListActivatableNames", Body::default()).unwrap();
        say_failure(&mut systemd, "a.service", "com.example.Nope");
        assert_eq!(error_of_reply(&mut caller, asked), "org.freedesktop.DBus.Error.TimedOut");
    }
    // Nothing is left of a program whose time is over.
    eventually_seen("a program stays", || proc::children(bus.child.pid()), |children| children.is_empty());
}
