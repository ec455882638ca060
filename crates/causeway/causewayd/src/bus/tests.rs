//! Work that takes more steps than a turn has, more than tests have sockets for: it is divided, and nothing of it is lost.

use std::path::Path;
use std::sync::Arc;

use causeway_dbus_wire::wire::{Builder, arguments_of};
use causeway_os::socket::Credentials;

use super::work::{PARTS, TURN_STEPS};
use super::*;
use crate::activation::{Phase, Waiting, Wants};

/// What the last part of a turn may add to its steps.
const LAST_PART: usize = 200;

fn bus() -> Bus {
    Bus::new(Config::session(), Arc::new(|| Ok(Config::session())), String::new(), String::new())
}

fn join(bus: &mut Bus) -> MemberId {
    let credentials = Credentials { pid: 1, uid: bus.uid, gid: 1 };
    let unnamed = bus.admit(Identity::new(credentials, None, None), Carrier::Socket).unwrap();
    bus.claim_place(unnamed).unwrap();
    let id = bus.give_number(unnamed);
    bus.activate(id);
    id
}

/// What the bus has to be done in each turn, until it has nothing left to do.
fn turns(bus: &mut Bus, begin: impl FnOnce(&mut Bus)) -> Vec<Vec<Action>> {
    bus.take_actions(Vec::new());
    bus.begin_turn();
    begin(bus);
    bus.settle();
    let mut turns = vec![bus.take_actions(Vec::new())];
    while bus.has_work() || bus.known.has_found() {
        bus.begin_turn();
        bus.go_on();
        bus.tick(bus.now);
        turns.push(bus.take_actions(Vec::new()));
    }
    let most = bus.most_steps();
    assert!(turns.len() > 1, "it was one turn of {most} steps");
    assert!((TURN_STEPS..TURN_STEPS + LAST_PART).contains(&most), "{most} steps in a turn");
    turns
}

#[test]
fn those_that_wait_for_a_name_are_listed_in_several_turns_and_in_order() {
    const WAITING: usize = TURN_STEPS * 2;
    let mut bus = bus();
    let caller = join(&mut bus);
    let waiting: Vec<MemberId> = (1_000..).map(MemberId).take(WAITING).collect();
    waiting.iter().for_each(|id| _ = bus.names.request("a.Name", *id, 0));
    let turns = turns(&mut bus, |bus| bus.list_queue(caller, 7, "a.Name"));
    let [.., last] = &turns[..] else { panic!("{turns:?}") };
    let [Action::Deliver(to, answer)] = &last[..] else { panic!("{last:?}") };
    assert_eq!((*to, answer.header().reply_serial), (caller, Some(7)));
    let names: Vec<&str> = arguments_of(answer.bytes()).unwrap();
    let is_in_place = |(name, id): (&&str, &MemberId)| **name == *id.unique_name();
    assert!(names.len() == WAITING && names.iter().zip(&waiting).all(is_in_place));
}

#[test]
fn a_signal_for_very_many_is_delivered_in_several_turns_and_once_to_each() {
    const RECEIVERS: usize = TURN_STEPS / 4;
    let mut bus = bus();
    let receivers: Vec<MemberId> = (0..RECEIVERS).map(|_| join(&mut bus)).collect();
    receivers.iter().for_each(|id| _ = bus.matches.add(*id, "member='NameOwnerChanged'".parse().unwrap()));
    let turns = turns(&mut bus, |bus| bus.publish_unique("a.Name", None, None));
    let told = turns.iter().flatten().map(|action| match action {
        Action::Deliver(to, _) => *to,
        other => panic!("{other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), receivers);
}

/// Where native members can join, and see everything by now.
fn native_bus() -> Bus {
    let mut bus = bus();
    bus.serve_natively(Path::new("/nowhere"));
    assert!(bus.is_shown_natively());
    bus
}

#[test]
fn a_new_order_log_is_shown_clients_names_and_rules_in_several_turns_before_anybody_joins() {
    const MEMBERS: usize = TURN_STEPS / 4;
    let mut bus = bus();
    let members: Vec<MemberId> = (0..MEMBERS).map(|_| join(&mut bus)).collect();
    for id in &members {
        bus.names.request(&format!("a.N{}", id.0), *id, 0);
        bus.matches.add(*id, "member='M'".parse().unwrap());
    }
    bus.names.request("a.N", members[0], 0);
    bus.begin_turn();
    let turns = turns(&mut bus, |bus| {
        bus.serve_natively(Path::new("/nowhere"));
        assert!(!bus.is_shown_natively() && bus.is_passing());
    });
    assert!(bus.is_shown_natively());
    let (mut arrived, mut named, mut filtered) = (Vec::new(), 0, Vec::new());
    for action in turns.into_iter().flatten() {
        match action {
            // An owner is there before its names.
            Action::UpdateDirectory(DirectoryUpdate::Arrived(id)) if named == 0 => arrived.push(id),
            Action::UpdateDirectory(DirectoryUpdate::Name(_)) => named += 1,
            Action::UpdateDirectory(DirectoryUpdate::Rules(id)) => filtered.push(id),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((&arrived, named, &filtered), (&members, MEMBERS + 1, &members));
}

/// Who has a rule for the messages of a name is woken for all until its filter is made again, and few are in the turn of the change.
#[test]
fn the_filters_of_very_many_members_follow_a_name_in_several_turns() {
    const MEMBERS: usize = TURN_STEPS;
    let mut bus = native_bus();
    let members: Vec<MemberId> = (0..MEMBERS).map(|_| join(&mut bus)).collect();
    members.iter().for_each(|id| _ = bus.matches.add(*id, "sender='a.Name'".parse().unwrap()));
    let turns = turns(&mut bus, |bus| bus.update_rules_for("a.Name"));
    let at_once = |action: &&Action| matches!(action, Action::UpdateDirectory(DirectoryUpdate::Rules(_)));
    let at_once = turns.iter().flatten().filter(at_once).count();
    let later = |action: &&Action| matches!(action, Action::UpdateDirectory(DirectoryUpdate::Filter(..)));
    let later = turns.iter().flatten().filter(later).count();
    assert!((1..100).contains(&at_once), "{at_once} filters were made at once");
    assert_eq!(at_once + later, MEMBERS);
}

fn join_as_monitor(bus: &mut Bus) -> MemberId {
    let monitor = join(bus);
    bus.monitors.add(monitor, "eavesdrop='true'".parse().unwrap());
    bus.begin_turn();
    bus.make_monitor(monitor);
    bus.settle();
    while bus.has_work() {
        bus.begin_turn();
        bus.go_on();
        bus.settle();
    }
    monitor
}

/// A bus that systemd starts services for, and on which so many calls wait for each of these names. A monitor has not seen them.
fn waiting(names: &[&str], count: usize) -> (Bus, MemberId) {
    let mut bus = native_bus();
    bus.set_systemd_activation(true);
    let (caller, monitor) = (join(&mut bus), join_as_monitor(&mut bus));
    let call = Builder::call("/", "M").sender(&caller.unique_name()).build(9).unwrap();
    let message = Rc::new(Message::new(call, crate::descriptors::Descriptors::default()));
    for name in names {
        for number in 0..count {
            let mut waiting = Waiting::of(Some(caller), &message, Wants::Delivery);
            waiting.is_shown = false;
            bus.charge_message(caller, &message).unwrap();
            let waits = if number == 0 { Err(waiting) } else { bus.starts.join(name, waiting) };
            if let Err(waiting) = waits {
                bus.starts.begin(name, Phase::LookedUp, bus.now, Duration::from_secs(9), waiting);
            }
        }
    }
    (bus, monitor)
}

#[test]
fn what_waits_for_systemd_is_shown_to_monitors_in_several_turns_and_once() {
    // Many calls, and many monitors: then few calls take a turn, and no other one is begun in it.
    for (calls, others) in [(TURN_STEPS, 0), (PARTS, TURN_STEPS / 16)] {
        let (mut bus, monitor) = waiting(&["a.Late"], calls);
        (0..others).for_each(|_| _ = join_as_monitor(&mut bus));
        let turns = turns(&mut bus, |bus| {
            bus.show_waiting("a.Late");
            let shown = bus.starts.waiting("a.Late").filter(|waiting| waiting.is_shown).count();
            let copies = shown.saturating_sub(1) * (others + 1);
            assert!(copies < TURN_STEPS / 4, "{shown} were looked at in one turn, for {others} others");
        });
        let mut seen = BTreeMap::new();
        for action in turns.iter().flatten() {
            if let Action::Deliver(to, _) = action {
                *seen.entry(*to).or_default() += 1;
            }
        }
        assert_eq!(seen.remove(&monitor), Some(calls));
        assert!(seen.len() == others && seen.values().all(|count| *count == calls), "{seen:?}");
        assert!(bus.starts.waiting("a.Late").all(|waiting| waiting.is_shown));
    }
}

/// However many names were looked up together, and whatever each start copies.
#[test]
fn starts_whose_time_is_over_together_end_in_several_turns() {
    let names: Vec<String> = (0..TURN_STEPS / 4).map(|number| format!("a.N{number}")).collect();
    let (mut bus, _) = waiting(&names.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    let over = bus.now + Duration::from_secs(60);
    let tick = |bus: &mut Bus| bus.tick(over);
    bus.begin_turn();
    tick(&mut bus);
    let mut count = 1;
    while bus.starts.next_deadline().is_some() || bus.has_work() {
        bus.begin_turn();
        bus.go_on();
        tick(&mut bus);
        count += 1;
    }
    let most = bus.most_steps();
    assert!(count > 1 && (TURN_STEPS..TURN_STEPS + LAST_PART).contains(&most), "{most} steps, {count} turns");
}

#[test]
fn services_that_were_looked_up_together_are_started_in_several_turns() {
    const VARIABLES: usize = 150;
    let names: Vec<String> = (0..64).map(|number| format!("a.N{number}")).collect();
    let (mut bus, _) = waiting(&names.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    bus.environment = (0..VARIABLES).map(|number| (format!("N{number}").into(), "x".into())).collect();
    let folder = tempfile::tempdir().unwrap();
    for name in &names {
        let text = format!("[D-BUS Service]\nName={name}\nExec=/bin/true\n");
        std::fs::write(folder.path().join(format!("{name}.service")), text).unwrap();
    }
    bus.known = services::Known::unread(&[folder.path().to_owned()]);
    bus.begin_turn();
    bus.take_actions(Vec::new());
    bus.tick(bus.now);
    let actions = bus.take_actions(Vec::new());
    let Ok([Action::LookUp(look_up)]) = <[Action; 1]>::try_from(actions) else {
        panic!("nothing is looked up")
    };
    let turns = turns(&mut bus, |bus| bus.looked_up(look_up.done()));
    let started =
        |turn: &Vec<Action>| turn.iter().filter(|action| matches!(action, Action::Start { .. })).count();
    let started: Vec<usize> = turns.iter().map(started).collect();
    assert_eq!(started.iter().sum::<usize>(), names.len());
    assert!(started.iter().all(|count| *count <= TURN_STEPS / VARIABLES + 1), "{started:?} in each turn");
}
