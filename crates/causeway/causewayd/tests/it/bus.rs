//! What members promise each other: calls, names, signals, one order, wake-ups.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use causeway_bus::shared::ring;
use causeway_bus::wire::{Arg, Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{
    ALLOW_REPLACEMENT, AuthorityOptions, Connection, ConnectionOptions, DO_NOT_QUEUE, Error, Incoming,
    Monitor, NameReply, Observed, REPLACE_EXISTING, ReleaseReply, Statistics, name,
};

use crate::support::raw::Raw;
use crate::support::*;

const ECHO: &str = "com.example.Echo";

#[test]
fn a_call_comes_back_with_its_reply_or_its_error() {
    let bus = Bus::start();
    let service = echo(&bus.path(), ECHO);
    let mut client = bus.member();
    for round in 0..1000 {
        let reply = client.call(ECHO, PATH, INTERFACE, "Echo", text(&round.to_string())).unwrap();
        assert_eq!(reply.text(), Some(round.to_string().as_str()));
    }
    let error = client.call(ECHO, PATH, INTERFACE, "Fail", text("")).unwrap_err();
    assert_eq!(error.to_string(), "com.example.Error.Fail: as you wish");
    let mut of_peer = |member| client.call(ECHO, PATH, "org.freedesktop.DBus.Peer", member, Body::default());
    of_peer("Ping").unwrap();
    match causeway_os::machine_id::machine_id() {
        Some(id) => assert_eq!(of_peer("GetMachineId").unwrap().text(), Some(id.as_str())),
        None => assert_eq!(of_peer("GetMachineId").unwrap_err().name(), Some(name::FAILED)),
    }
    assert_eq!(of_peer("Echo").unwrap_err().name(), Some(name::UNKNOWN_METHOD));
    assert_eq!(client.statistics().calls_open, 0);
    client.call_without_reply(ECHO, PATH, INTERFACE, "Quit", Body::default()).unwrap();
    service.join().unwrap();
}

#[test]
fn several_calls_are_under_way_at_once_and_end_in_any_order() {
    let bus = Bus::start();
    let _service = echo(&bus.path(), ECHO);
    let mut client = bus.member();
    let serials: Vec<u32> = (0..50)
        .map(|round| client.start_call(ECHO, PATH, INTERFACE, "Echo", text(&round.to_string())).unwrap())
        .collect();
    for (round, serial) in serials.iter().enumerate().rev() {
        let reply = client.finish_call(*serial, PATIENCE).unwrap();
        assert_eq!(reply.text(), Some(round.to_string().as_str()));
        assert!(client.is_finished(*serial).unwrap());
    }
    assert!(matches!(client.finish_call(serials[0], PATIENCE), Err(Error::Invalid(_))));
}

#[test]
fn a_call_to_nobody_fails_at_once_and_one_without_answer_in_time() {
    let bus = Bus::start();
    let mut client = bus.member();
    for destination in ["com.example.Nobody", ":1.4711"] {
        let error = client.call(destination, PATH, INTERFACE, "Echo", text("")).unwrap_err();
        assert_eq!(error.name(), Some(name::SERVICE_UNKNOWN), "{error}");
    }
    let mut mute = bus.member();
    let callee = mute.unique_name().to_owned();
    let serial = client.start_call(&callee, PATH, INTERFACE, "Echo", text("")).unwrap();
    let error = client.finish_call(serial, Duration::from_millis(10)).unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    // A reply that comes too late is nobody's.
    let Some(Incoming::Call(call)) = mute.next(Some(PATIENCE)).unwrap() else { panic!("no call") };
    mute.reply(&call, text("late")).unwrap();
    assert_eq!(client.next(Some(Duration::from_millis(20))).unwrap(), None);
    for (path, interface, member) in [("a", "a.b", "M"), ("/", "a", "M"), ("/", "a.b", "a.b")] {
        assert!(matches!(client.emit(path, interface, member, text("")), Err(Error::Invalid(_))));
    }
}

#[test]
fn names_queue_and_pass_on_and_their_changes_are_signals_in_the_log() {
    let bus = Bus::start();
    let (mut first, mut second, mut watcher) = (bus.member(), bus.member(), bus.member());
    watcher.add_match(&format!("member='NameOwnerChanged',arg0='{ECHO}'")).unwrap();
    assert_eq!(first.request_name(ECHO, ALLOW_REPLACEMENT).unwrap(), NameReply::PrimaryOwner);
    assert_eq!(second.request_name(ECHO, DO_NOT_QUEUE).unwrap(), NameReply::Exists);
    assert_eq!(second.request_name(ECHO, 0).unwrap(), NameReply::InQueue);
    assert_eq!(second.request_name(ECHO, REPLACE_EXISTING).unwrap(), NameReply::PrimaryOwner);
    assert_eq!(watcher.name_owner(ECHO).as_deref(), Some(second.unique_name()));
    assert_eq!(second.release_name(ECHO).unwrap(), ReleaseReply::Released);
    let owner = first.unique_name().to_owned();
    assert!(watcher.list_names().contains(&ECHO.to_owned()) && watcher.list_names().contains(&owner));
    drop(first);
    let mut changes = Vec::new();
    for _ in 0..4 {
        let message = signal(&mut watcher);
        let [_, Arg::Text(old), Arg::Text(new)] = message.args()[..] else { panic!("{message:?}") };
        changes.push((old.to_owned(), new.to_owned()));
    }
    let (one, two, none) = (owner, second.unique_name().to_owned(), String::new());
    let expected = [(none.clone(), one.clone()), (one.clone(), two.clone()), (two, one.clone()), (one, none)];
    assert_eq!(changes, expected);
    // Who lost and who got it was told, too.
    let told: Vec<String> = std::iter::from_fn(|| match second.next(Some(Duration::ZERO)).unwrap() {
        Some(Incoming::Signal(message)) => Some(message.header().member?.to_owned()),
        _ => None,
    })
    .collect();
    assert_eq!(told, ["NameAcquired", "NameLost"]);
    assert!(watcher.name_owner(ECHO).is_none());
}

#[test]
fn the_bus_answers_questions_about_itself() {
    let bus = Bus::start();
    let mut client = bus.member();
    let own = client.unique_name().to_owned();
    let mut ask = |member: &str, body: Body| {
        let driver = "org.freedesktop.DBus";
        client.call(driver, "/org/freedesktop/DBus", driver, member, body)
    };
    let pid = ask("GetConnectionUnixProcessID", text(&own)).unwrap();
    assert_eq!(pid.args(), [Arg::U32(std::process::id())]);
    assert_eq!(
        ask("GetNameOwner", text("org.freedesktop.DBus")).unwrap().text(),
        Some("org.freedesktop.DBus")
    );
    assert_eq!(ask("GetId", Body::default()).unwrap().text().unwrap().len(), 32);
    for (member, body, error) in [
        ("GetNameOwner", text("a.b"), name::NAME_HAS_NO_OWNER),
        ("RequestName", text(":1.7"), name::INVALID_ARGS),
        ("AddMatch", text("what"), name::MATCH_RULE_INVALID),
        ("RemoveMatch", text("type='signal'"), name::MATCH_RULE_NOT_FOUND),
        ("NoSuchMethod", text(""), name::UNKNOWN_METHOD),
        ("RequestName", Body::default(), name::INVALID_ARGS),
    ] {
        assert_eq!(ask(member, body).unwrap_err().name(), Some(error), "{member}");
    }
}

#[test]
fn all_members_see_all_signals_in_one_order() {
    const EACH: usize = 400;
    for bus in [Bus::start(), Bus::start_small()] {
        let members = 4;
        let path = bus.path();
        let barrier = std::sync::Barrier::new(members);
        let seen: Vec<Vec<(u64, String)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..members)
                .map(|member| {
                    let (path, barrier) = (&path, &barrier);
                    scope.spawn(move || {
                        let options = ConnectionOptions {
                            outbox_bytes: if member == 0 { 4096 } else { 1 << 18 },
                            laggard_deadline: Some(PATIENCE),
                            ..ConnectionOptions::default()
                        };
                        let mut connection = Connection::open_with(path, options).unwrap();
                        connection.add_match(&format!("interface='{INTERFACE}'")).unwrap();
                        barrier.wait();
                        for round in 0..EACH {
                            let body = text(&format!("{member} {round} {}", "x".repeat(round % 200)));
                            connection.emit(PATH, INTERFACE, "Count", body).unwrap();
                        }
                        (0..members * EACH)
                            .map(|_| {
                                let message = signal(&mut connection);
                                (message.position(), message.text().unwrap().to_owned())
                            })
                            .collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|other| *other == seen[0]), "members saw different orders");
        for member in 0..members {
            let of_one: Vec<_> =
                seen[0].iter().filter(|(_, text)| text.starts_with(&member.to_string())).collect();
            assert_eq!(of_one.len(), EACH);
            assert!(
                of_one
                    .iter()
                    .enumerate()
                    .all(|(round, (_, text))| { text.split(' ').nth(1) == Some(round.to_string().as_str()) })
            );
        }
    }
}

/// A sends to B, B then to C: C has A's signal first.
#[test]
fn what_caused_a_message_comes_before_it() {
    let bus = Bus::start();
    let (mut a, mut b, mut c) = (bus.member(), bus.member(), bus.member());
    for member in [&mut b, &mut c] {
        member.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    }
    for _ in 0..500 {
        a.emit(PATH, INTERFACE, "Cause", text("")).unwrap();
        assert_eq!(signal(&mut b).header().member, Some("Cause"));
        b.emit(PATH, INTERFACE, "Effect", text("")).unwrap();
        assert_eq!(signal(&mut c).header().member, Some("Cause"));
        assert_eq!(signal(&mut c).header().member, Some("Effect"));
        assert_eq!(signal(&mut b).header().member, Some("Effect"));
    }
}

#[test]
fn two_members_whose_outboxes_are_full_of_messages_for_each_other_get_on() {
    let bus = Bus::start_small();
    let (mut one, mut two) = (bus.small_member(), bus.small_member());
    let names = [one.unique_name().to_owned(), two.unique_name().to_owned()];
    std::thread::scope(|scope| {
        for (connection, other) in [(&mut one, &names[1]), (&mut two, &names[0])] {
            scope.spawn(move || {
                for _ in 0..500 {
                    let body = Body::default().blob(&[7; 600]);
                    connection.call_without_reply(other, PATH, INTERFACE, "Take", body).unwrap();
                }
                for _ in 0..500 {
                    assert!(matches!(connection.next(Some(PATIENCE)).unwrap(), Some(Incoming::Call(_))));
                }
            });
        }
    });
}

/// However long a program works on what it has: each time it comes back it takes what others have sent meanwhile, but not
/// without end.
#[test]
fn a_member_that_has_more_to_take_still_makes_space() {
    let bus = Bus::start();
    let (mut slow, mut sender) = (bus.member(), bus.member());
    slow.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    let mut emit = |count: usize, bytes: usize| {
        (0..count).for_each(|_| {
            sender.emit(PATH, INTERFACE, "Work", Body::default().blob(&vec![1; bytes])).unwrap();
        });
    };
    emit(20, 100);
    slow.next_now().unwrap().expect("there are twenty");
    emit(20, 100);
    assert_eq!(slow.statistics().lag, 20, "nothing was taken before it came back");
    slow.next_now().unwrap().expect("there are nineteen");
    assert_eq!(slow.statistics().lag, 0);
    for _ in 0..38 {
        slow.next_now().unwrap().expect("there are more");
    }
    // Twelve messages of a MiB: from the eighth on one is taken when the program has taken one.
    emit(1, 10);
    emit(12, 1 << 20);
    slow.next_now().unwrap().expect("a short one");
    let mut lags = Vec::new();
    for _ in 0..12 {
        slow.next_now().unwrap().expect("a long one");
        lags.push(slow.statistics().lag);
    }
    assert!(lags[0] >= 2 && lags[11] == 0, "{lags:?}");
    assert!(lags.windows(2).all(|pair| pair[0] - pair[1] <= 1), "{lags:?}");
}

/// A member that reads is not ended for what waits here, however little may.
#[test]
fn a_small_inbox_ends_no_member_that_reads() {
    let bus = Bus::start();
    let options = ConnectionOptions { inbox_bytes: 2000, ..ConnectionOptions::default() };
    let mut slow = Connection::open_with(bus.path(), options).unwrap();
    let mut sender = bus.member();
    slow.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    for round in 0..100 {
        sender.emit(PATH, INTERFACE, "Work", Body::default().u32(round).blob(&[1; 300])).unwrap();
    }
    for round in 0..100 {
        assert_eq!(signal(&mut slow).args()[0], Arg::U32(round));
    }
}

/// A stopped member that does not want a signal is in nobody's way, however many want it.
#[test]
fn only_those_who_want_a_signal_hold_its_space() {
    let bus = Bus::start();
    let mut wanting: Vec<Connection> = (0..70).map(|_| bus.member()).collect();
    for member in &mut wanting {
        member.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    }
    let mut stopped = bus.member();
    let options = ConnectionOptions {
        outbox_bytes: 4096,
        laggard_deadline: Some(Duration::from_millis(20)),
        ..ConnectionOptions::default()
    };
    let mut sender = Connection::open_with(bus.path(), options).unwrap();
    for round in 0..30 {
        sender.emit(PATH, INTERFACE, "Count", text(&format!("{round} {}", "x".repeat(500)))).unwrap();
        for member in &mut wanting {
            assert!(signal(member).text().unwrap().starts_with(&format!("{round} ")));
        }
    }
    assert_eq!(stopped.next_now().unwrap(), None, "it was evicted");
}

/// Several stopped members delay a sender once, not one after the other.
#[test]
fn all_who_stand_in_the_way_are_evicted_at_once() {
    let bus = Bus::start();
    let options = ConnectionOptions {
        outbox_bytes: 4096,
        laggard_deadline: Some(Duration::from_millis(20)),
        ..ConnectionOptions::default()
    };
    let mut sender = Connection::open_with(bus.path(), options).unwrap();
    let mut stopped: Vec<Connection> = (0..4).map(|_| bus.member()).collect();
    for (index, member) in stopped.iter_mut().enumerate() {
        member.add_match(&format!("interface='{INTERFACE}',member='For{index}'")).unwrap();
    }
    // The first four fill the outbox, one for each member; the fifth has no space until the first is free.
    for index in 0..5 {
        sender.emit(PATH, INTERFACE, &format!("For{index}"), Body::default().blob(&[1; 700])).unwrap();
    }
    for member in &mut stopped {
        let gone = (0..5).find_map(|_| member.next_now().err());
        assert!(matches!(gone, Some(Error::Disconnected(_))), "{gone:?}");
    }
}

#[test]
fn a_signal_that_nobody_matches_wakes_nobody() {
    let bus = Bus::start();
    let (path, sleepers) = (bus.path(), 20);
    let monitor = Monitor::open(&path).unwrap();
    std::thread::scope(|scope| {
        let names: Vec<String> = (0..sleepers)
            .map(|_| {
                let mut sleeper = bus.member();
                sleeper.add_match(&format!("interface='{INTERFACE}',member='Wanted'")).unwrap();
                let name = sleeper.unique_name().to_owned();
                scope.spawn(move || assert_eq!(signal(&mut sleeper).header().member, Some("Wanted")));
                name
            })
            .collect();
        let mut sender = bus.member();
        let armed = |sender: &Connection| {
            let order = sender.order_log();
            (1..=sleepers).all(|slot| order.armed(slot).load(std::sync::atomic::Ordering::Relaxed) & 3 == 1)
        };
        eventually("the members do not fall asleep", || armed(&sender));
        let wakes = || names.iter().map(|name| statistics_of(&monitor, name).wakes).collect::<Vec<_>>();
        let before = wakes();
        for _ in 0..100 {
            sender.emit(PATH, INTERFACE, "Unwanted", text("")).unwrap();
        }
        // One that was woken counts that before it sleeps again.
        eventually("the members do not fall asleep again", || armed(&sender));
        assert_eq!(wakes(), before);
        sender.emit(PATH, INTERFACE, "Wanted", text("")).unwrap();
    });
}

/// The slot of the bus itself.
fn statistics_of_the_bus(monitor: &Monitor) -> Statistics {
    monitor.members()[0].2
}

#[test]
fn the_bus_counts_wake_ups_for_nothing() {
    let bus = Bus::start();
    let monitor = Monitor::open(bus.path()).unwrap();
    let (mut raw, mut receiver) = (Raw::join(&bus.path()), bus.member());
    let order = Arc::clone(receiver.order_log());
    let number = receiver.unique_name()[3..].parse().unwrap();
    let slot = monitor.members().iter().find(|(peer, ..)| peer.id == number).map(|(peer, ..)| peer.carrier);
    let message = Builder::call(PATH, "Take")
        .destination(receiver.unique_name())
        .sender(&raw.name())
        .flags(FLAG_NO_REPLY_EXPECTED)
        .build(1)
        .unwrap();
    let sleeps = || ring::asleep(order.armed(0)).is_some();
    eventually("no wake-up for nothing is counted", || {
        if sleeps() {
            // It wakes all, also those that it is not for.
            raw.send(raw.header(number, &message), slot, &message);
            assert!(matches!(receiver.next(Some(PATIENCE)).unwrap(), Some(Incoming::Call(_))));
        }
        let Statistics { wakes, empty_wakes, .. } = statistics_of_the_bus(&monitor);
        assert!(empty_wakes <= wakes, "{empty_wakes} of {wakes}");
        empty_wakes >= 3
    });
    // A wake-up that brings a call is none for nothing.
    eventually("the bus does not sleep", sleeps);
    let before = statistics_of_the_bus(&monitor);
    receiver.request_name("com.example.Name", 0).unwrap();
    eventually("the bus does not sleep again", sleeps);
    let after = statistics_of_the_bus(&monitor);
    assert_eq!((after.wakes, after.empty_wakes), (before.wakes + 1, before.empty_wakes));
}

#[test]
fn the_bus_counts_wake_ups_that_free_space_for_others() {
    let bus = Bus::start_small();
    let monitor = Monitor::open(bus.path()).unwrap();
    let (mut sender, mut receiver) = (bus.member(), bus.member());
    eventually("no wake-up for space is counted", || {
        sender.call_without_reply(receiver.unique_name(), PATH, INTERFACE, "Take", Body::default()).unwrap();
        assert!(matches!(receiver.next(Some(PATIENCE)).unwrap(), Some(Incoming::Call(_))));
        statistics_of_the_bus(&monitor).space_wakes > 0
    });
}

#[test]
fn a_rule_for_a_name_follows_its_owner() {
    let bus = Bus::start();
    let (mut one, mut two, mut listener) = (bus.member(), bus.member(), bus.member());
    listener.add_match(&format!("sender='{ECHO}',interface='{INTERFACE}'")).unwrap();
    for _ in 0..20 {
        for owner in [&mut one, &mut two] {
            owner.emit(PATH, INTERFACE, "Before", text("")).unwrap();
            owner.request_name(ECHO, 0).unwrap();
            owner.emit(PATH, INTERFACE, "Owned", text("")).unwrap();
            owner.release_name(ECHO).unwrap();
            owner.emit(PATH, INTERFACE, "After", text("")).unwrap();
            assert_eq!(signal(&mut listener).header().member, Some("Owned"));
        }
    }
    listener.remove_match(&format!("interface='{INTERFACE}',sender='{ECHO}'")).unwrap();
    one.request_name(ECHO, 0).unwrap();
    one.emit(PATH, INTERFACE, "Owned", text("")).unwrap();
    assert_eq!(listener.next(Some(Duration::from_millis(20))).unwrap(), None);
}

#[test]
fn a_member_in_an_event_loop_is_woken_through_its_descriptor() {
    let bus = Bus::start();
    let mut member = bus.member();
    member.use_descriptor().unwrap();
    member.add_match(&format!("interface='{INTERFACE}'")).unwrap();
    let path = bus.path();
    let (asleep, wait_until_asleep) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sender = Connection::open(path).unwrap();
            for round in 0..200 {
                // On a machine with other work the member may find every signal before it sleeps, but not the first one.
                if round == 0 {
                    wait_until_asleep.recv().unwrap();
                }
                sender.emit(PATH, INTERFACE, "Count", text(&round.to_string())).unwrap();
                if round % 3 == 0 {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
        });
        let mut seen = 0;
        while seen < 200 {
            while let Some(incoming) = member.next_now().unwrap() {
                let Incoming::Signal(message) = incoming else { panic!("{incoming:?}") };
                assert_eq!(message.text(), Some(seen.to_string().as_str()));
                seen += 1;
            }
            if seen < 200 && member.prepare_to_wait() {
                let _ = asleep.send(());
                let ready = causeway_os::process::poll(&[member.as_fd()], Some(PATIENCE)).unwrap();
                assert!(ready[0], "nothing rang after {seen} signals");
            }
        }
    });
    assert!(!member.prepare_to_wait() || member.next_now().unwrap().is_none());
    let Statistics { wakes, empty_wakes, .. } = member.statistics();
    assert!(
        (1..=200).contains(&wakes) && empty_wakes <= wakes,
        "{wakes} wake-ups, {empty_wakes} for nothing"
    );
}

#[test]
fn a_monitor_sees_what_members_said_that_have_left() {
    let bus = Bus::start();
    let rule = format!("interface='{INTERFACE}'").parse().unwrap();
    let mut monitor = Monitor::open(bus.path()).unwrap().filter(rule);
    for round in 0..10 {
        bus.member().emit(PATH, INTERFACE, "Left", text(&round.to_string())).unwrap();
    }
    for round in 0..10 {
        let Some(Observed::Message(message)) = monitor.next(Some(PATIENCE)).unwrap() else {
            panic!("{round} is lost")
        };
        assert_eq!(message.text(), Some(round.to_string().as_str()));
    }
}

#[test]
fn monitors_beyond_the_limit_are_refused() {
    let bus = Bus::start();
    let monitors: Vec<Monitor> = (0..64).map(|_| Monitor::open(bus.path()).unwrap()).collect();
    let refused = Monitor::open(bus.path()).unwrap_err().to_string();
    assert!(refused.contains("this bus has 64 monitors already"), "{refused}");
    drop(monitors);
    eventually("the places of monitors stay taken", || Monitor::open(bus.path()).is_ok());
}

/// The credentials of a thread are its own, so a thread stands for another user.
#[test]
fn a_process_of_another_user_is_told_for_whom_the_bus_is() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: it takes root to be somebody else");
    }
    let bus = Bus::start();
    let (path, own) = (bus.path(), rustix::process::geteuid().as_raw());
    for (file, mode) in [(path.parent().unwrap(), 0o755), (path.as_path(), 0o777)] {
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let expected = format!("this bus accepts processes of user {own} only, not of user 65534");
    let other = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        (0..50).map(|_| Connection::open(&path).unwrap_err().to_string()).collect::<Vec<_>>()
    });
    for refused in other.join().unwrap() {
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn a_monitor_sees_everything_or_says_what_it_lost() {
    let bus = Bus::start_small();
    let mut monitor = Monitor::open(bus.path()).unwrap();
    let mut filtered =
        Monitor::open(bus.path()).unwrap().filter(format!("interface='{INTERFACE}'").parse().unwrap());
    let _service = echo(&bus.path(), ECHO);
    let mut client = bus.member();
    client.call(ECHO, PATH, INTERFACE, "Echo", text("seen")).unwrap();
    let mut kinds = Vec::new();
    while let Some(Observed::Message(message)) = monitor.next(Some(Duration::from_millis(50))).unwrap() {
        kinds.push(message.header().member.map(str::to_owned));
    }
    assert!(
        kinds.contains(&Some("NameOwnerChanged".into())) && kinds.contains(&Some("Echo".into())),
        "{kinds:?}"
    );
    assert_eq!(kinds.last(), Some(&None), "the reply comes last");
    match filtered.next(Some(PATIENCE)).unwrap() {
        Some(Observed::Message(message)) => assert_eq!(message.text(), Some("seen")),
        other => panic!("{other:?}"),
    }
    // Many laps of the log later.
    let before = monitor.messages();
    for _ in 0..300 {
        client.emit(PATH, INTERFACE, "Flood", text("")).unwrap();
    }
    let (mut lost, mut seen) = (0, 0);
    while let Some(observed) = monitor.next(Some(Duration::from_millis(50))).unwrap() {
        match observed {
            Observed::Lost { messages } => lost += messages,
            Observed::Message(_) => seen += 1,
        }
    }
    assert_eq!(lost + seen, monitor.messages() - before, "{lost} lost and {seen} seen");
    assert!(lost > 0);
}

#[test]
fn a_second_bus_at_the_same_path_is_refused_and_a_full_bus_says_so() {
    let bus = Bus::start_with(AuthorityOptions { members: 3, ..AuthorityOptions::default() });
    let (stop, _open) = rustix::pipe::pipe().unwrap();
    let second = causewayd::serve_alone(&bus.path(), AuthorityOptions::default(), &stop, || ());
    let refused = second.unwrap_err();
    assert!(refused.contains("another process serves"), "{refused}");
    let (mut one, two) = (bus.member(), bus.member());
    let refused = Connection::open(bus.path()).unwrap_err().to_string();
    assert!(refused.contains("all 2 member slots"), "{refused}");
    drop(two);
    // Its place is free when all have read that it left. The other does not, and is evicted for that.
    eventually("the place does not become free", || Connection::open(bus.path()).is_ok());
    eventually("the member that does not read stays", || {
        matches!(one.next(Some(Duration::ZERO)), Err(Error::Disconnected(_)))
    });
}

/// More members than there are slots come and go while one sleeps.
#[test]
fn places_are_used_again_and_numbers_are_not() {
    let bus = Bus::start_with(AuthorityOptions { members: 8, ..AuthorityOptions::default() });
    let _service = echo(&bus.path(), ECHO);
    let mut last = 0;
    for round in 0..60 {
        let mut visitor = bus.member();
        let number: u64 = visitor.unique_name()[3..].parse().unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
        let reply = visitor.call(ECHO, PATH, INTERFACE, "Echo", text("x")).unwrap();
        assert_eq!(reply.text(), Some("x"), "{round}");
    }
}

#[test]
fn a_thousand_members_sleep_beside_a_call() {
    let options = AuthorityOptions { members: 1100, clients: 0, ..AuthorityOptions::default() };
    let (soft, hard) = causeway_os::limits::nofile();
    if hard < 8192 || causeway_os::limits::raise_nofile().is_err() {
        eprintln!("skipped: 8192 open files are needed, {soft} ({hard}) are allowed");
        return;
    }
    let bus = Bus::start_with(options);
    let small = || ConnectionOptions { outbox_bytes: 4096, ..ConnectionOptions::default() };
    let mut idle: Vec<Connection> =
        (0..1000).map(|_| Connection::open_with(bus.path(), small()).unwrap()).collect();
    let _service = echo(&bus.path(), ECHO);
    let mut client = bus.member();
    assert_eq!(client.list_names().len(), 1004);
    for _ in 0..100 {
        client.call(ECHO, PATH, INTERFACE, "Echo", text("x")).unwrap();
    }
    assert!(idle.iter_mut().all(|member| member.statistics().wakes == 0), "an idle member was woken");
}
