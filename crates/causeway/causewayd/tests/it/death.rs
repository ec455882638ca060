//! Members and the authority are killed, and stopped, in the middle of what they do. Each is a process of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::wire::{Arg, Body, Builder};
use causeway_bus::{AuthorityOptions, Connection, Error, Incoming, Monitor, name};

use crate::support::*;

const NAME: &str = "com.example.Victim";

/// Exit code of a process that the bus evicted.
const EVICTED: i32 = 7;

#[test]
fn role() {
    let Some((role, socket, _)) = play() else { return };
    match role.as_str() {
        "authority" => serve_alone(&socket, 0),
        // Has the name and answers nothing.
        "mute" => {
            let mut member = Connection::open(&socket).unwrap();
            // It may be stopped anywhere, also before it has the answer.
            let mut outcome = member.add_match(RULE).and_then(|()| member.request_name(NAME, 0).map(drop));
            while outcome.is_ok() {
                outcome = member.next(None).map(drop);
            }
            let Err(Error::Disconnected(why)) = outcome else { panic!("{outcome:?}") };
            assert!(why.contains("did not read"), "{why}");
            let late = member.emit(PATH, INTERFACE, "Late", Body::default());
            assert!(matches!(late, Err(Error::Disconnected(_))), "{late:?}");
            std::process::exit(EVICTED)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn members_go_on_when_the_authority_is_killed_and_are_told_so() {
    let mut served = Served::start(module_path!());
    let mut service = served.member();
    service.request_name(NAME, 0).unwrap();
    let service = std::thread::spawn(move || {
        let mut was_told = false;
        loop {
            match service.next(Some(PATIENCE)).unwrap().expect("something comes") {
                Incoming::Call(call) => {
                    service.reply(&call, Body::default()).unwrap();
                    if call.header().member == Some("Quit") {
                        return was_told;
                    }
                }
                Incoming::AuthorityGone => was_told = true,
                _ => {}
            }
        }
    });
    let mut client = served.member();
    client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
    let monitor = Monitor::open(served.path()).unwrap();
    served.process.kill();
    assert!(matches!(client.next(Some(PATIENCE)).unwrap(), Some(Incoming::AuthorityGone)));
    for _ in 0..100 {
        client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
    }
    let error = client.call(DRIVER, "/", DRIVER, "GetId", Body::default()).unwrap_err();
    assert!(matches!(error, Error::AuthorityGone), "{error}");
    assert!(matches!(client.request_name("com.example.More", 0), Err(Error::AuthorityGone)));
    assert!(Connection::open(served.path()).is_err());
    drop(monitor);
    client.call(NAME, PATH, INTERFACE, "Quit", Body::default()).unwrap();
    assert!(service.join().unwrap(), "the service was not told");
    served.start_again();
}

#[test]
fn a_call_of_the_bus_itself_ends_when_the_authority_is_killed() {
    let mut served = Served::start(module_path!());
    let mut client = served.member();
    // From here on it knows the bus itself.
    ask_bus(&mut client);
    served.process.stop();
    let serial = client.start_call(DRIVER, "/", DRIVER, "GetId", Body::default()).unwrap();
    let order = std::sync::Arc::clone(client.order_log());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the client sleeps", || (1..order.slots() as u16).any(|slot| sleeps(&order, slot)));
            served.process.kill();
        });
        let error = client.finish_call(serial, PATIENCE).unwrap_err();
        assert!(matches!(error, Error::AuthorityGone), "{error}");
    });
}

/// The first call between two members needs the authority, which hands out their outboxes.
#[test]
fn the_first_call_of_a_member_ends_when_the_authority_is_killed_during_it() {
    for knows_the_callee in [false, true] {
        let mut served = Served::start(module_path!());
        let (mut client, mut service) = (served.member(), served.member());
        client.add_match("member='Here'").unwrap();
        service.request_name(NAME, 0).unwrap();
        if knows_the_callee {
            // The client has the outbox of the service then, and the service not that of the client.
            service.emit(PATH, INTERFACE, "Here", Body::default()).unwrap();
            assert_eq!(signal(&mut client).header().member, Some("Here"));
        }
        served.process.stop();
        let serial = client.start_call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let incoming = service.next(Some(Duration::from_millis(50))).unwrap();
                    assert!(!matches!(incoming, Some(Incoming::Call(_))), "{incoming:?}");
                }
            });
            served.process.kill();
            let first = client.finish_call(serial, PATIENCE).unwrap_err();
            let second = client.call(NAME, PATH, INTERFACE, "Echo", Body::default()).unwrap_err();
            stop.store(true, Ordering::Relaxed);
            if knows_the_callee {
                assert_eq!(first.name(), Some(name::NO_REPLY));
                assert!(first.to_string().contains("cannot read the call"), "{first}");
            } else {
                assert!(matches!(first, Error::AuthorityGone), "{first}");
            }
            assert!(matches!(second, Error::AuthorityGone), "{second}");
        });
    }
}

/// Members fill the order log: they evict who stands in their way.
#[test]
fn a_stopped_member_is_evicted_and_announced_while_members_go_on() {
    let bus = Bus::start_with(AuthorityOptions { order_entries: 64, ..AuthorityOptions::default() });
    let mut watcher = bus.member();
    watcher.add_match("member='NameOwnerChanged'").unwrap();
    let mut victim = start_role(module_path!(), "mute", &bus.path(), 0);
    eventually("the victim does not get its name", || watcher.name_owner(NAME).is_some());
    let unique = watcher.name_owner(NAME).unwrap();
    victim.stop();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sender = bus.member();
            let sent = (0..).take_while(|_| !stop.load(Ordering::Relaxed));
            sent.inspect(|_| sender.emit(PATH, INTERFACE, "Go", Body::default()).unwrap()).count()
        });
        let mut gone = Vec::new();
        while gone.len() < 2 {
            if let [Arg::Text(name), _, Arg::Text("")] = signal(&mut watcher).rule_args()[..] {
                gone.push(name.to_owned());
            }
        }
        assert_eq!(gone, [NAME.to_owned(), unique]);
        stop.store(true, Ordering::Relaxed);
        // The log was full, and few of its entries are of the bus.
        assert!(sender.join().unwrap() >= 32);
    });
    // Once it goes on, it is told.
    victim.resume();
    assert_eq!(victim.wait().code(), Some(EVICTED));
}

/// Clients exchange many times what the log and the outbox hold: the bus evicts who stands in its way.
#[test]
fn a_stopped_member_is_evicted_and_clients_go_on() {
    const SIGNALS: usize = 3000;
    let bus = Broker::native();
    let mut stopped = start_role(module_path!(), "mute", &bus.path(), 0);
    let (mut sender, mut receiver, mut watcher) = (bus.client(), bus.client(), bus.member());
    eventually("the victim does not get its name", || watcher.name_owner(NAME).is_some());
    watcher.add_match(&format!("member='NameOwnerChanged',arg0='{NAME}'")).unwrap();
    receiver.add_match(RULE).unwrap();
    stopped.stop();
    std::thread::scope(|scope| {
        // A member that does not read would be in the way, too: this one sleeps in the library.
        scope.spawn(|| assert_eq!(signal(&mut watcher).text(), Some(NAME)));
        scope.spawn(|| {
            for round in 0..SIGNALS {
                let body = text(&round.to_string()).blob(&[7; 8000]);
                sender.send(&Builder::signal(PATH, INTERFACE, "Count").body(body)).unwrap();
            }
            sync(&mut sender);
        });
        for round in 0..SIGNALS {
            assert_eq!(texts(&client_signal(&mut receiver)), [round.to_string()]);
        }
    });
    stopped.resume();
    assert_eq!(stopped.wait().code(), Some(EVICTED));
}
