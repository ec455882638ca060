//! Who has a name: what the log announces, the directory shows at once, and no change is missed, however much stands in the log beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Arg, Body, Builder};
use causeway_bus::{Connection as Member, ConnectionOptions, Incoming};

use crate::support::*;

const NAME: &str = "a.Service";
/// Flags of `RequestName`: others may replace this owner, it replaces the present one, and it does not wait.
const IN_TURN: u32 = 1 | 2 | 4;

/// How often: `CAUSEWAY_RESTARTS` for long.
fn rounds() -> u32 {
    std::env::var("CAUSEWAY_RESTARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(8)
}

fn rule() -> String {
    format!("type='signal',sender='{NAME}'")
}

/// More than half of what the bus keeps of its clients' messages, for nobody. A member that is awake looks now and then.
fn traffic(client: &mut Client, awake: &mut Member) {
    let noise = Builder::signal(PATH, "a.Noise", "Noise").body(Body::default().blob(&[0; 16 << 10]));
    for count in 0..180 {
        client.send(&noise).unwrap();
        if count % 90 == 89 {
            sync(client);
            assert_eq!(awake.next_now().unwrap(), None);
        }
    }
}

/// The number of the next signal of the service.
fn tick(member: &mut Member, round: u32) {
    let incoming = member.next(Some(PATIENCE)).unwrap();
    let Some(Incoming::Signal(signal)) = incoming else { panic!("deaf in round {round}: {incoming:?}") };
    assert_eq!(signal.rule_args(), [Arg::U32(round)]);
}

/// A service restarts while others talk: who had asked for the signals of its name hears the new one.
#[test]
fn a_restarted_service_is_heard_again_awake_and_asleep_by_members_and_clients() {
    let bus = Bus::start();
    let (mut awake, mut asleep, mut client) = (bus.member(), bus.member(), bus.client());
    let mut noisy = bus.client();
    awake.add_match(&rule()).unwrap();
    asleep.add_match(&rule()).unwrap();
    client.add_match(&rule()).unwrap();
    // A signal to a sleeping member costs it nothing but a look.
    let is_over = AtomicBool::new(false);
    let (heard, ticks) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if let Some(Incoming::Signal(signal)) = asleep.next(Some(Duration::from_secs(1))).unwrap() {
                    let _ = heard.send(signal.rule_args().first().copied() == Some(Arg::U32(u32::MAX)));
                }
            }
        });
        for round in 0..rounds() {
            let mut service = bus.member();
            service.request_name(NAME, 0).unwrap();
            traffic(&mut noisy, &mut awake);
            service.emit(PATH, INTERFACE, "Tick", Body::default().u32(round)).unwrap();
            tick(&mut awake, round);
            assert!(ticks.recv_timeout(PATIENCE).is_ok(), "the one that sleeps is deaf in round {round}");
            wait_for_member(&mut client, "Tick");
            drop(service);
            eventually("the name stays", || noisy.name_owner(NAME).unwrap().is_none());
            // Behind the end of the old one, too.
            traffic(&mut noisy, &mut awake);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Answers `Who` with its unique name, and takes the name, or gives it up, when it is told.
fn candidate(mut member: Member, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Some(Incoming::Call(call)) = member.next(Some(Duration::from_millis(100))).unwrap() else {
            continue;
        };
        match call.header().member {
            Some("Take") => drop(member.request_name(NAME, IN_TURN).unwrap()),
            Some("Leave") => drop(member.release_name(NAME).unwrap()),
            _ => {
                let own = text(member.unique_name());
                member.reply(&call, own).unwrap();
            }
        }
    }
}

/// The new owner that the next change of the name announces.
fn new_owner(member: &mut Member) -> String {
    let signal = signal_of(member, "org.freedesktop.DBus");
    let [Arg::Text(NAME), _, Arg::Text(new)] = signal.rule_args()[..] else {
        panic!("{:?}", signal.rule_args())
    };
    new.to_owned()
}

#[test]
fn who_has_seen_a_change_of_owner_finds_the_new_owner_everywhere() {
    let bus = Bus::start();
    let options = ConnectionOptions { auto_start: false, ..ConnectionOptions::default() };
    let mut observer = bus.member_with(options);
    observer.add_match(&format!("member='NameOwnerChanged',arg0='{NAME}'")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let names = [(); 2].map(|()| {
            let member = bus.member();
            let name = member.unique_name().to_owned();
            scope.spawn(|| candidate(member, &stop));
            name
        });
        for round in 0..rounds() as usize * 10 {
            let next = &names[round % 2];
            let tell = |observer: &mut Member, to: &str, what| {
                observer.call_without_reply(to, PATH, INTERFACE, what, Body::default()).unwrap();
            };
            tell(&mut observer, next, "Take");
            assert_eq!(new_owner(&mut observer), *next);
            assert_eq!(
                observer.name_owner(NAME).as_ref(),
                Some(next),
                "round {round}: the directory is behind"
            );
            let who = observer.call(NAME, PATH, INTERFACE, "Who", Body::default());
            assert_eq!(who.unwrap().text(), Some(&**next), "round {round}: the call went to the old owner");
            if round % 3 == 2 {
                tell(&mut observer, next, "Leave");
                assert_eq!(new_owner(&mut observer), "");
                assert_eq!(observer.name_owner(NAME), None, "round {round}: it still has an owner");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A call to one whose end was announced ends at once: nobody waits for a reply that cannot come.
#[test]
fn a_call_to_one_whose_end_was_announced_ends_at_once() {
    let bus = Bus::start();
    let mut observer = bus.member();
    observer.add_match("member='NameOwnerChanged',arg2=''").unwrap();
    for round in 0..rounds() * 5 {
        let (client, member) = (bus.client(), bus.member());
        let name =
            if round % 2 == 0 { client.unique_name().to_owned() } else { member.unique_name().to_owned() };
        let other = if round % 2 == 0 {
            drop(client);
            (Some(member), None)
        } else {
            drop(member);
            (None, Some(client))
        };
        loop {
            let signal = signal_of(&mut observer, "org.freedesktop.DBus");
            if signal.rule_args()[0] == Arg::Text(&name) {
                break;
            }
        }
        // Far below the time after which a call ends of itself.
        let answer = observer
            .start_call(&name, PATH, INTERFACE, "Ask", Body::default())
            .and_then(|serial| observer.finish_call(serial, Duration::from_secs(20)));
        let why = answer.unwrap_err().to_string();
        assert!(!why.contains("within") && !why.contains("timeout"), "round {round}: {why}");
        drop(other);
    }
}
