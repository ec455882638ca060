//! Native members and services that are processes of their own: started, stopped, killed.

use std::os::unix::process::ExitStatusExt;

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Body, Builder, Header};
use causeway_bus::{Connection as Member, ConnectionOptions, Error, Incoming, Monitor, name};
use rustix::process::Pid;

use crate::support::*;

/// What a test starts this program for; as a test it has nothing to do.
#[test]
fn role() {
    let Some((role, ..)) = play() else { return };
    match role.as_str() {
        "client-service" => {
            let mut client = Client::open(&std::env::var("DBUS_STARTER_ADDRESS").unwrap()).unwrap();
            client.request_name("a.Client", 0).unwrap();
            let asked = wait_for(&mut client, |header| header.member == Some("Ask"));
            let header = Header::parse(&asked).unwrap();
            let body = Body::default().text(&texts(&asked)[0]);
            client
                .send(&Builder::reply(header.serial).destination(header.sender.unwrap()).body(body))
                .unwrap();
            client.ask_driver("GetId", Body::default()).unwrap();
        }
        "native-service" => {
            let mut member = Member::session().unwrap();
            member.request_name("a.Native", 0).unwrap();
            let asked = call(&mut member);
            let body = Body::default().text(asked.text().unwrap());
            member.reply(&asked, body).unwrap();
        }
        "dies-when-asked" => {
            let mut member = Member::session().unwrap();
            member.request_name("a.Dies", 0).unwrap();
            call(&mut member);
            std::process::exit(0);
        }
        "listener" => {
            let mut member = Member::session().unwrap();
            member.add_match(&format!("interface='{INTERFACE}'")).unwrap();
            member.request_name("a.Listener", 0).unwrap();
            while member.next(None).is_ok() {}
            std::process::exit(0);
        }
        other => panic!("{other}"),
    }
}

fn activating() -> (NativeBus, TempDir) {
    let folder = causeway_testkit::temp_dir("causewayd");
    let own = std::env::current_exe().unwrap();
    let role = |role: &str| {
        format!("{} '{}' --exact native_processes::role --test-threads 1", role_variable(role), own.display())
    };
    for (name, exec) in [
        ("a.Client", role("client-service")),
        ("a.Native", role("native-service")),
        ("a.Dies", role("dies-when-asked")),
        ("a.Fails", "/bin/sh -c 'exit 3'".into()),
    ] {
        let text = format!("[D-BUS Service]\nName={name}\nExec={exec}\n");
        std::fs::write(folder.path().join(format!("{name}.service")), text).unwrap();
    }
    let config = configuration(&folder, &format!("<servicedir>{}</servicedir>", folder.path().display()));
    (NativeBus::with(&["--config-file", config.to_str().unwrap()]), folder)
}

#[test]
fn a_call_of_a_member_starts_the_service_and_waits_for_it() {
    let (bus, _folder) = activating();
    for service in ["a.Client", "a.Native"] {
        let (mut member, mut client) = (bus.member(), bus.client());
        let ask = |member: &mut Member| {
            member.start_call(service, PATH, INTERFACE, "Ask", Body::default().text("question")).unwrap()
        };
        let (first, second) = (ask(&mut member), ask(&mut member));
        let reply = member.finish_call(first, PATIENCE).unwrap();
        assert_eq!(reply.text(), Some("question"), "{service}");
        assert!(reply.header().sender.is_some_and(|sender| sender.starts_with(":1.")), "{service}");
        // The service answers one call and leaves: the other one ends with it.
        let error = member.finish_call(second, PATIENCE).unwrap_err();
        assert_eq!(error.name(), Some(name::NO_REPLY), "{service}: {error}");
        // A client starts it just so.
        let asked = Builder::call(PATH, "Ask").destination(service).body(Body::default().text("again"));
        assert_eq!(texts(&client.call(&asked, PATIENCE).unwrap()), ["again"], "{service}");
    }
}

#[test]
fn a_service_that_does_not_come_is_an_error_to_the_member_that_called_it() {
    let (bus, _folder) = activating();
    let mut member = bus.member();
    let mut ask = |name| member.call(name, PATH, INTERFACE, "Ask", Body::default()).unwrap_err();
    for (service, error) in [
        ("a.Fails", "org.freedesktop.DBus.Error.Spawn.ChildExited"),
        ("a.Unknown", name::SERVICE_UNKNOWN),
        ("a.Dies", name::NO_REPLY),
    ] {
        assert_eq!(ask(service).name(), Some(error), "{service}");
    }
    let options = ConnectionOptions { auto_start: false, ..ConnectionOptions::default() };
    let mut careful = Member::open_with(bus.path(), options).unwrap();
    let error = careful.call("a.Client", PATH, INTERFACE, "Ask", Body::default()).unwrap_err();
    assert_eq!(error.name(), Some(name::SERVICE_UNKNOWN), "{error}");
}

/// A member that wants signals and is stopped. Clients exchange many times what the log and the outbox hold.
#[test]
fn a_stopped_member_is_evicted_and_clients_go_on() {
    const SIGNALS: usize = 3000;
    let bus = NativeBus::start();
    let mut stopped = start_role(module_path!(), "listener", &bus.path(), 0);
    let (mut sender, mut watcher) = (bus.client(), bus.member());
    eventually_seen("the listener does not come", || watcher.name_owner("a.Listener"), Option::is_some);
    watcher.add_match("member='NameOwnerChanged',arg0='a.Listener'").unwrap();
    // A member that does not read would be in the way, too: this one sleeps in the library.
    let watcher = std::thread::spawn(move || {
        loop {
            match watcher.next(Some(PATIENCE)).unwrap() {
                Some(Incoming::Signal(change)) if change.header().member == Some("NameOwnerChanged") => break,
                Some(_) => {}
                None => panic!("the end of the stopped member was not announced"),
            }
        }
    });
    stopped.stop();
    let mut receiver = bus.client();
    receiver.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..SIGNALS {
                let body = Body::default().text(&round.to_string()).blob(&[7; 8000]);
                sender.send(&Builder::signal(PATH, INTERFACE, "Count").body(body)).unwrap();
            }
            sender.ask_driver("GetId", Body::default()).unwrap();
        });
        for round in 0..SIGNALS {
            let got = wait_for(&mut receiver, |header| header.member == Some("Count"));
            assert_eq!(texts(&got), [round.to_string()]);
        }
    });
    watcher.join().unwrap();
    stopped.resume();
    assert!(stopped.wait().success(), "once it goes on, it learns that it was evicted");
}

#[test]
fn a_killed_causewayd_leaves_members_that_go_on() {
    let mut bus = NativeBus::start();
    let (mut one, mut two) = (bus.member(), bus.member());
    let mut client = bus.client();
    let to = two.unique_name().to_owned();
    let ask = |one: &mut Member, two: &mut Member| {
        let serial = one.start_call(&to, PATH, INTERFACE, "Ask", Body::default()).unwrap();
        let asked = call(two);
        two.reply(&asked, Body::default()).unwrap();
        one.finish_call(serial, PATIENCE).unwrap();
    };
    ask(&mut one, &mut two);
    let asked = one.start_call(client.unique_name(), PATH, INTERFACE, "Ask", Body::default()).unwrap();
    bus.broker.child.kill();
    assert_eq!(bus.broker.child.wait().signal(), Some(9));
    // The client is alive, but its answer has no way.
    let error = one.finish_call(asked, PATIENCE).unwrap_err();
    assert!(matches!(error, Error::AuthorityGone), "{error}");
    ask(&mut one, &mut two);
    assert!(client.ask_driver("GetId", Body::default()).is_err());
    assert!(Member::open(bus.path()).is_err());
}

#[test]
fn a_wake_up_of_causewayd_by_a_member_is_counted() {
    let bus = NativeBus::start();
    let mut member = bus.member();
    let monitor = Monitor::open(bus.path()).unwrap();
    let wakes = || monitor.members()[0].2.wakes;
    let before = wakes();
    // Each call that finds causewayd asleep wakes it.
    eventually_seen(
        "no wake-up is counted",
        || {
            member.request_name("a.Name", 0).unwrap();
            wakes()
        },
        |wakes| *wakes > before,
    );
}

#[test]
fn members_join_once_there_are_descriptors_again_and_clients_go_on_meanwhile() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let bus = NativeBus::start();
    let (mut client, path) = (bus.client(), bus.path());
    let pid = Some(Pid::from_child(&bus.broker.child.0));
    let hard = getrlimit(Resource::Nofile).maximum;
    // Whatever it opens now would have a higher number.
    let before = prlimit(pid, Resource::Nofile, Rlimit { current: Some(3), maximum: hard }).unwrap();
    let joining =
        std::thread::spawn(move || Member::open(path).map(|mut member| member.request_name("a.Name", 0)));
    for _ in 0..200 {
        client.ask_driver("GetId", Body::default()).unwrap();
    }
    prlimit(pid, Resource::Nofile, before).unwrap();
    joining.join().unwrap().unwrap().unwrap();
}
