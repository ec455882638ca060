//! What members promise each other: calls, names, signals, wake-ups.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::wire::{Arg, Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{
    AuthorityOptions, Connection, ConnectionOptions, Error, Incoming, Monitor, Observed, Statistics, name,
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
        let round = round.to_string();
        let reply = client.call(ECHO, PATH, INTERFACE, "Echo", text(&round)).unwrap();
        assert_eq!(reply.text(), Some(&*round));
    }
    let error = client.call(ECHO, PATH, INTERFACE, "Fail", text("")).unwrap_err();
    assert_eq!(error.to_string(), "com.example.Error.Fail: as you wish");
    let mut of_peer = |member| client.call(ECHO, PATH, PEER, member, Body::default());
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
    let start = |round: usize| client.start_call(ECHO, PATH, INTERFACE, "Echo", text(&round.to_string()));
    let serials: Vec<u32> = (0..50).map(start).map(Result::unwrap).collect();
    for (round, serial) in serials.iter().enumerate().rev() {
        assert_eq!(client.finish_call(*serial, PATIENCE).unwrap().text(), Some(&*round.to_string()));
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
    let serial = client.start_call(mute.unique_name(), PATH, INTERFACE, "Echo", text("")).unwrap();
    let error = client.finish_call(serial, Duration::from_millis(10)).unwrap_err();
    assert_eq!(error.name(), Some(name::NO_REPLY), "{error}");
    // A reply that comes too late is nobody's.
    let late = call(&mut mute);
    mute.reply(&late, text("late")).unwrap();
    ask_bus(&mut client);
    assert_eq!(client.next_now().unwrap(), None);
    for (path, interface, member) in [("a", "a.b", "M"), ("/", "a", "M"), ("/", "a.b", "a.b")] {
        assert!(matches!(client.emit(path, interface, member, text("")), Err(Error::Invalid(_))));
    }
}

#[test]
fn the_bus_answers_questions_about_itself() {
    let bus = Bus::start();
    let mut client = bus.member();
    let own = client.unique_name().to_owned();
    let mut ask = |member: &str, body: Body| client.call(DRIVER, DRIVER_PATH, DRIVER, member, body);
    let pid = ask("GetConnectionUnixProcessID", text(&own)).unwrap();
    assert_eq!(pid.rule_args(), [Arg::U32(std::process::id())]);
    assert_eq!(ask("GetNameOwner", text(DRIVER)).unwrap().text(), Some(DRIVER));
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
fn two_members_whose_outboxes_are_full_of_messages_for_each_other_get_on() {
    let bus = Bus::start_small();
    let (mut one, mut two) = (bus.member_with(small()), bus.member_with(small()));
    let names = [one.unique_name().to_owned(), two.unique_name().to_owned()];
    std::thread::scope(|scope| {
        for (connection, other) in [(&mut one, &names[1]), (&mut two, &names[0])] {
            scope.spawn(move || {
                for _ in 0..500 {
                    let body = Body::default().blob(&[7; 600]);
                    connection.call_without_reply(other, PATH, INTERFACE, "Take", body).unwrap();
                }
                for _ in 0..500 {
                    call(connection);
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
    slow.add_match(RULE).unwrap();
    let mut emit = |count: usize, bytes: usize| {
        (0..count).for_each(|_| {
            sender.emit(PATH, INTERFACE, "Work", Body::default().blob(&vec![1; bytes])).unwrap();
        });
    };
    let mut take = |what: &str| {
        slow.next_now().unwrap().expect(what);
        slow.statistics().lag
    };
    emit(20, 100);
    take("there are twenty");
    emit(20, 100);
    assert_eq!(take("there are nineteen"), 0, "it takes what came meanwhile");
    for _ in 0..38 {
        take("there are more");
    }
    // Twelve messages of a MiB: from the eighth on one is taken when the program has taken one.
    emit(1, 10);
    emit(12, 1 << 20);
    take("a short one");
    let lags: Vec<u64> = (0..12).map(|_| take("a long one")).collect();
    assert!(lags[0] >= 2 && lags[11] == 0, "{lags:?}");
    assert!(lags.windows(2).all(|pair| pair[0] - pair[1] <= 1), "{lags:?}");
}

/// A member that reads is not ended for what waits here, however little may.
#[test]
fn a_small_inbox_ends_no_member_that_reads() {
    let bus = Bus::start();
    let mut slow = bus.member_with(ConnectionOptions { inbox_bytes: 2000, ..ConnectionOptions::default() });
    let mut sender = bus.member();
    slow.add_match(RULE).unwrap();
    for round in 0..100 {
        sender.emit(PATH, INTERFACE, "Work", Body::default().u32(round).blob(&[1; 300])).unwrap();
    }
    for round in 0..100 {
        assert_eq!(signal(&mut slow).rule_args()[0], Arg::U32(round));
    }
}

/// A member with an outbox of 4 KiB that waits 20 ms for laggards.
fn impatient(bus: &Bus) -> Connection {
    bus.member_with(ConnectionOptions { laggard_deadline: Some(Duration::from_millis(20)), ..small() })
}

/// One that takes a message now and then keeps the others waiting for the deadline in all, not for the deadline each time.
#[test]
fn a_member_that_takes_a_message_now_and_then_does_not_set_the_pace_of_all() {
    let (order_entries, laggard_deadline) = (32, Duration::from_millis(300));
    let bus =
        Bus::start_with(AuthorityOptions { order_entries, laggard_deadline, ..AuthorityOptions::default() });
    // It reads one message at a time, and never for as long as the deadline nothing.
    let mut slow = bus.member_with(ConnectionOptions { inbox_bytes: 1, ..ConnectionOptions::default() });
    slow.add_match(RULE).unwrap();
    let mut sender = bus.member();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let gone = (0..200).find_map(|_| {
                std::thread::sleep(Duration::from_millis(30));
                slow.next_now().err()
            });
            is_over.store(true, Ordering::Relaxed);
            gone
        });
        while !is_over.load(Ordering::Relaxed) {
            sender.emit(PATH, INTERFACE, "Work", text("")).unwrap();
        }
        let gone = slow.join().unwrap();
        assert!(matches!(gone, Some(Error::Disconnected(_))), "{gone:?}");
    });
}

/// A stopped member that does not want a signal is in nobody's way, however many want it.
#[test]
fn only_those_who_want_a_signal_hold_its_space() {
    let bus = Bus::start();
    let mut wanting: Vec<Connection> = (0..70).map(|_| bus.member()).collect();
    wanting.iter_mut().for_each(|member| member.add_match(RULE).unwrap());
    let (mut stopped, mut sender) = (bus.member(), impatient(&bus));
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
    let mut sender = impatient(&bus);
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
    let monitor = Monitor::open(bus.path()).unwrap();
    std::thread::scope(|scope| {
        let names = [(); 20].map(|()| {
            let mut sleeper = bus.member();
            sleeper.add_match(&format!("interface='{INTERFACE}',member='Wanted'")).unwrap();
            let name = sleeper.unique_name().to_owned();
            scope.spawn(move || assert_eq!(signal(&mut sleeper).header().member, Some("Wanted")));
            name
        });
        let mut sender = bus.member();
        let all_sleep = |sender: &Connection| (1..=20).all(|slot| sleeps(sender.order_log(), slot));
        eventually("the members do not fall asleep", || all_sleep(&sender));
        let wakes = || names.each_ref().map(|name| statistics_of(&monitor, name).wakes);
        let before = wakes();
        for _ in 0..100 {
            sender.emit(PATH, INTERFACE, "Unwanted", text("")).unwrap();
        }
        // One that was woken counts that before it sleeps again.
        eventually("the members do not fall asleep again", || all_sleep(&sender));
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
    let number = number_of(receiver.unique_name());
    let slot = monitor.members().iter().find(|(peer, ..)| peer.id == number).map(|(peer, ..)| peer.carrier);
    let name = raw.name();
    let message = Builder::call(PATH, "Take").destination(receiver.unique_name()).sender(&name);
    let message = message.flags(FLAG_NO_REPLY_EXPECTED).build(1).unwrap();
    let bus_sleeps = || sleeps(&order, 0);
    eventually("no wake-up for nothing is counted", || {
        if bus_sleeps() {
            // It wakes all, also those that it is not for.
            raw.send(raw.header(number, &message), slot, &message);
            call(&mut receiver);
        }
        let Statistics { wakes, empty_wakes, .. } = statistics_of_the_bus(&monitor);
        assert!(empty_wakes <= wakes, "{empty_wakes} of {wakes}");
        empty_wakes >= 3
    });
    // A wake-up that brings a call is none for nothing.
    eventually("the bus does not sleep", bus_sleeps);
    let before = statistics_of_the_bus(&monitor);
    receiver.request_name("com.example.Name", 0).unwrap();
    eventually("the bus does not sleep again", bus_sleeps);
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
        call(&mut receiver);
        statistics_of_the_bus(&monitor).space_wakes > 0
    });
}

/// The owner at the place of the signal counts, and not that at the time when it is read.
#[test]
fn a_rule_for_a_name_follows_its_owner_from_signal_to_signal() {
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
        }
    }
    for _ in 0..20 {
        for owner in [&one, &two] {
            let seen = signal(&mut listener);
            let expected = (Some("Owned"), Some(owner.unique_name()));
            assert_eq!((seen.header().member, seen.header().sender), expected);
        }
    }
    ask_bus(&mut listener);
    assert_eq!(listener.next_now().unwrap(), None);
}

#[test]
fn a_member_in_an_event_loop_is_woken_through_its_descriptor() {
    const SIGNALS: u32 = 200;
    let bus = Bus::start();
    let (mut member, mut sender) = (bus.member(), bus.member());
    member.use_descriptor().unwrap();
    member.add_match(RULE).unwrap();
    let (asleep, wait_until_asleep) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..SIGNALS {
                // On a machine with other work the member may find every signal before it sleeps, but not the first one.
                if round == 0 {
                    wait_until_asleep.recv().unwrap();
                }
                sender.emit(PATH, INTERFACE, "Count", Body::default().u32(round)).unwrap();
                if round % 3 == 0 {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
        });
        let mut seen = 0;
        while seen < SIGNALS {
            while let Some(incoming) = member.next_now().unwrap() {
                let Incoming::Signal(message) = incoming else { panic!("{incoming:?}") };
                assert_eq!(message.rule_args(), [Arg::U32(seen)]);
                seen += 1;
            }
            if seen < SIGNALS && member.prepare_to_wait() {
                let _ = asleep.send(());
                let ready = causeway_os::process::poll(&[member.as_fd()], Some(PATIENCE)).unwrap();
                assert!(ready[0], "nothing rang after {seen} signals");
            }
        }
    });
    assert!(!member.prepare_to_wait() || member.next_now().unwrap().is_none());
    let Statistics { wakes, empty_wakes, .. } = member.statistics();
    assert!((1..=200).contains(&wakes) && empty_wakes <= wakes, "{wakes}, {empty_wakes} of them for nothing");
}

#[test]
fn a_monitor_sees_what_members_said_that_have_left() {
    let bus = Bus::start();
    let mut monitor = Monitor::open(bus.path()).unwrap().filter(RULE.parse().unwrap());
    let rounds: Vec<String> = (0..10).map(|round| round.to_string()).collect();
    for round in &rounds {
        bus.member().emit(PATH, INTERFACE, "Left", text(round)).unwrap();
    }
    for round in &rounds {
        assert_eq!(observed(&mut monitor).text(), Some(&**round));
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
    if !is_root() {
        return;
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
    for expected in ["NameOwnerChanged", "Echo"] {
        assert!(kinds.iter().flatten().any(|member| member == expected), "{kinds:?}");
    }
    assert_eq!(kinds.last(), Some(&None), "the reply comes last");
    assert_eq!(observed(&mut filtered).text(), Some("seen"));
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
        matches!(one.next_now(), Err(Error::Disconnected(_)))
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
        let number = number_of(visitor.unique_name());
        assert!(number > last, "{number} after {last}");
        last = number;
        let reply = visitor.call(ECHO, PATH, INTERFACE, "Echo", text("x")).unwrap();
        assert_eq!(reply.text(), Some("x"), "{round}");
    }
}

#[test]
fn a_thousand_members_sleep_while_others_call() {
    let options = AuthorityOptions { members: 1100, clients: 0, ..AuthorityOptions::default() };
    let (soft, hard) = causeway_os::limits::nofile();
    if hard < 8192 || causeway_os::limits::raise_nofile().is_err() {
        return skipped(Cause::Rights("open files"), format!("8192 are needed, {soft} ({hard}) are allowed"));
    }
    let bus = Bus::start_with(options);
    let mut idle: Vec<Connection> = (0..1000).map(|_| bus.member_with(small())).collect();
    let _service = echo(&bus.path(), ECHO);
    let mut client = bus.member();
    assert_eq!(client.list_names().len(), 1004);
    for _ in 0..100 {
        client.call(ECHO, PATH, INTERFACE, "Echo", text("x")).unwrap();
    }
    assert!(idle.iter_mut().all(|member| member.statistics().wakes == 0), "an idle member was woken");
}
