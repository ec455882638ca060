//! Members and the authority are killed, and stopped, in the middle of what they do. Each is a process of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::wire::{Arg, Body};
use causeway_bus::{AuthorityOptions, Connection, ConnectionOptions, Error, Incoming, Monitor, name};

use crate::support::*;

const NAME: &str = "com.example.Victim";

#[test]
fn role() {
    let Some((role, socket, _)) = play() else { return };
    match role.as_str() {
        "mute" => mute(&socket),
        "authority" => serve_until_killed(&socket),
        "flood" => flood(&socket),
        other => panic!("{other}"),
    }
}

/// Exit code of a process that the bus evicted.
const EVICTED: i32 = 7;

/// Has the name and answers nothing.
fn mute(socket: &Path) {
    let mut connection = Connection::open(socket).unwrap();
    // It may be stopped anywhere, also before it has the answer.
    let mut outcome = connection.request_name(NAME, 0).map(drop);
    while outcome.is_ok() {
        outcome = connection.next(None).map(drop);
    }
    match outcome {
        Err(Error::Disconnected(_)) => std::process::exit(EVICTED),
        other => panic!("{other:?}"),
    }
}

/// Emits as fast as it can.
fn flood(socket: &Path) {
    let mut connection = Connection::open(socket).unwrap();
    loop {
        connection.emit(PATH, INTERFACE, "Flood", Body::default().text("x")).unwrap();
    }
}

#[test]
fn a_call_ends_with_no_reply_when_its_callee_is_killed_and_the_name_passes_on() {
    let bus = Bus::start();
    let mut client = bus.member();
    let mut heir = bus.member();
    for round in 0..5 {
        let mut victim = start_role(module_path!(), "mute", &bus.path(), round);
        eventually("the victim does not get its name", || client.name_owner(NAME).is_some());
        heir.request_name(NAME, 0).unwrap();
        let serial = client.start_call(NAME, PATH, INTERFACE, "Never", Body::default()).unwrap();
        victim.kill();
        let error = client.finish_call(serial, PATIENCE).unwrap_err();
        assert!(
            matches!(&error, Error::Method { name, message } if name == name::NO_REPLY && message.contains("disconnected")),
            "{error}"
        );
        assert_eq!(client.name_owner(NAME).as_deref(), Some(heir.unique_name()));
        heir.release_name(NAME).unwrap();
    }
}

#[test]
fn members_go_on_when_the_authority_is_killed_and_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("bus");
    let mut server = start_role(module_path!(), "authority", &socket, 0);
    eventually("the bus does not come up", || Connection::open(&socket).is_ok());
    let service = {
        let mut service = Connection::open(&socket).unwrap();
        service.request_name(NAME, 0).unwrap();
        std::thread::spawn(move || {
            let mut was_told = false;
            loop {
                match service.next(Some(PATIENCE)).unwrap() {
                    Some(Incoming::Call(call)) if call.header().member == Some("Quit") => {
                        service.reply(&call, Body::default()).unwrap();
                        return was_told;
                    }
                    Some(Incoming::Call(call)) => service.reply(&call, Body::default()).unwrap(),
                    Some(Incoming::AuthorityGone) => was_told = true,
                    Some(_) => {}
                    None => panic!("nothing came"),
                }
            }
        })
    };
    let mut client = Connection::open(&socket).unwrap();
    client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
    let monitor = Monitor::open(&socket).unwrap();
    server.kill();
    server.wait();
    assert!(matches!(client.next(Some(PATIENCE)).unwrap(), Some(Incoming::AuthorityGone)));
    for _ in 0..100 {
        client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
    }
    let driver = "org.freedesktop.DBus";
    let error = client.call(driver, "/", driver, "GetId", Body::default()).unwrap_err();
    assert!(matches!(error, Error::AuthorityGone), "{error}");
    assert!(matches!(client.request_name("com.example.More", 0), Err(Error::AuthorityGone)));
    assert!(Connection::open(&socket).is_err());
    drop(monitor);
    client.call(NAME, PATH, INTERFACE, "Quit", Body::default()).unwrap();
    assert!(service.join().unwrap(), "the service was not told");
    // A new bus at the same place, beside what the killed one left.
    let mut again = start_role(module_path!(), "authority", &socket, 0);
    eventually("no new bus comes up", || Connection::open(&socket).is_ok());
    again.kill();
}

#[test]
fn a_call_of_the_bus_itself_ends_when_the_authority_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("bus");
    let mut server = start_role(module_path!(), "authority", &socket, 0);
    eventually("the bus does not come up", || Connection::open(&socket).is_ok());
    let mut client = Connection::open(&socket).unwrap();
    // From here on it knows the bus itself.
    ask_bus(&mut client);
    server.stop();
    let driver = "org.freedesktop.DBus";
    let serial = client.start_call(driver, "/", driver, "GetId", Body::default()).unwrap();
    let order = std::sync::Arc::clone(client.order_log());
    let killer = std::thread::spawn(move || {
        let sleeps = |slot| order.armed(slot).load(Ordering::Relaxed) & 3 == 1;
        eventually("the client sleeps", || (1..order.slots() as u16).any(sleeps));
        server.kill();
        server
    });
    let error = client.finish_call(serial, PATIENCE).unwrap_err();
    assert!(matches!(error, Error::AuthorityGone), "{error}");
    killer.join().unwrap().wait();
}

/// The first call between two members needs the authority, which hands out their outboxes.
#[test]
fn the_first_call_of_a_member_ends_when_the_authority_is_killed_during_it() {
    for knows_the_callee in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("bus");
        let mut server = start_role(module_path!(), "authority", &socket, 0);
        eventually("the bus does not come up", || Connection::open(&socket).is_ok());
        let mut client = Connection::open(&socket).unwrap();
        client.add_match("member='Here'").unwrap();
        let mut service = Connection::open(&socket).unwrap();
        service.request_name(NAME, 0).unwrap();
        if knows_the_callee {
            // The client has the outbox of the service then, and the service not that of the client.
            service.emit(PATH, INTERFACE, "Here", Body::default()).unwrap();
            assert_eq!(signal(&mut client).header().member, Some("Here"));
        }
        server.stop();
        let serial = client.start_call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let incoming = service.next(Some(Duration::from_millis(50))).unwrap();
                    assert!(!matches!(incoming, Some(Incoming::Call(_))), "{incoming:?}");
                }
            });
            server.kill();
            server.wait();
            let first = client.finish_call(serial, PATIENCE).unwrap_err();
            let second = client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap_err();
            stop.store(true, Ordering::Relaxed);
            match knows_the_callee {
                false => assert!(matches!(first, Error::AuthorityGone), "{first}"),
                true => {
                    assert_eq!(first.name(), Some(name::NO_REPLY));
                    assert!(first.to_string().contains("cannot read the call"), "{first}");
                }
            }
            assert!(matches!(second, Error::AuthorityGone), "{second}");
        });
    }
}

#[test]
fn a_stopped_member_is_evicted_and_announced_while_others_go_on() {
    let options = AuthorityOptions { order_entries: 64, ..AuthorityOptions::default() };
    let bus = Bus::start_with(options);
    let mut watcher = bus.member();
    watcher.add_match("member='NameOwnerChanged'").unwrap();
    let victim = start_role(module_path!(), "mute", &bus.path(), 0);
    eventually("the victim does not get its name", || watcher.name_owner(NAME).is_some());
    let unique = watcher.name_owner(NAME).unwrap();
    victim.stop();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sender = bus.member();
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                sender.emit(PATH, INTERFACE, "Go", Body::default()).unwrap();
                count += 1;
            }
            count
        });
        let mut gone = Vec::new();
        while gone.len() < 2 {
            let message = signal(&mut watcher);
            if let [Arg::Text(name), _, Arg::Text("")] = message.args()[..] {
                gone.push(name.to_owned());
            }
        }
        assert_eq!(gone, [NAME.to_owned(), unique]);
        stop.store(true, Ordering::Relaxed);
        assert!(sender.join().unwrap() >= 64);
    });
    // Once it goes on, it is told.
    victim.resume();
    let mut victim = victim;
    assert_eq!(victim.wait().code(), Some(EVICTED));
}

#[test]
fn a_member_that_was_evicted_learns_why() {
    let options = AuthorityOptions { order_entries: 32, ..AuthorityOptions::default() };
    let bus = Bus::start_with(options);
    let mut idle = bus.member();
    let mut sender = bus.member();
    for _ in 0..64 {
        sender.emit(PATH, INTERFACE, "Go", Body::default()).unwrap();
    }
    let error = loop {
        match idle.next(Some(PATIENCE)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("did not read"), "{error}");
    assert!(matches!(idle.emit(PATH, INTERFACE, "Late", Body::default()), Err(Error::Disconnected(_))));
}

/// Members are killed while they emit; the others see one order, and nothing of the dead stays.
#[test]
fn a_storm_of_kills_leaves_one_order_and_nothing_behind() {
    own_process!();
    let bus = Bus::start_with(AuthorityOptions {
        members: 64,
        laggard_deadline: PATIENCE,
        ..AuthorityOptions::default()
    });
    let _service = echo(&bus.path(), "com.example.Echo");
    let mut client = bus.member();
    let monitor = Monitor::open(bus.path()).unwrap();
    let fds = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("causeway-outbox").count();
    let stop = AtomicBool::new(false);
    let listen = |path: &Path| {
        let options = ConnectionOptions { laggard_deadline: Some(PATIENCE), ..ConnectionOptions::default() };
        let mut listener = Connection::open_with(path, options).unwrap();
        listener.add_match(&format!("interface='{INTERFACE}'")).unwrap();
        listener
    };
    client.call("com.example.Echo", PATH, INTERFACE, "Echo", Body::default().text("x")).unwrap();
    let (before_fds, before_maps) = (fds(), maps());
    let mut listeners = [listen(&bus.path()), listen(&bus.path())];
    std::thread::scope(|scope| {
        let threads = listeners.each_mut().map(|listener| {
            let stop = &stop;
            scope.spawn(move || {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Some(Incoming::Signal(message)) =
                        listener.next(Some(Duration::from_millis(5))).unwrap()
                    {
                        seen.push((message.position(), message.header().sender.unwrap().to_owned()));
                    }
                }
                seen
            })
        });
        for round in 0..12 {
            let mut victims: Vec<Running> =
                (0..2).map(|_| start_role(module_path!(), "flood", &bus.path(), round)).collect();
            // In the middle of it, each time later.
            let enough = monitor.messages() + 200 * (round + 1);
            eventually("the storm rages", || monitor.messages() > enough);
            victims.iter_mut().for_each(Running::kill);
            let reply = client.call("com.example.Echo", PATH, INTERFACE, "Echo", Body::default().text("x"));
            assert_eq!(reply.unwrap().text(), Some("x"));
        }
        stop.store(true, Ordering::Relaxed);
        let seen = threads.map(|thread| thread.join().unwrap());
        let common = seen[0].len().min(seen[1].len());
        assert!(common > 0, "no victim was heard");
        assert_eq!(seen[0][..common], seen[1][..common]);
    });
    drop(listeners);
    // What a dead member had open goes when all have read past its end.
    eventually("descriptors of dead members stay", || {
        client.next(Some(Duration::from_millis(1))).unwrap();
        fds() <= before_fds && maps() <= before_maps
    });
}
