//! Who has a name: what the log announces, the directory shows at once, and no change is missed, however much stands in the log beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Arg, Args, Body, Builder, FLAG_NO_REPLY_EXPECTED};
use causeway_bus::{Connection as Member, ConnectionOptions, Incoming};

use crate::support::*;

pub const NAME: &str = "a.Service";
/// Flags of `RequestName`: others may replace this owner, it replaces the present one, and it does not wait.
const IN_TURN: u32 = 1 | 2 | 4;

/// How often: `CAUSEWAY_RESTARTS` for long.
fn rounds() -> u32 {
    std::env::var("CAUSEWAY_RESTARTS").ok().and_then(|count| count.parse().ok()).unwrap_or(8)
}

/// A match rule for signals of the present owner of the name.
pub fn rule() -> String {
    format!("type='signal',sender='{NAME}'")
}

/// A third of what the bus keeps of its clients' messages, for nobody.
pub fn noise(client: &mut Client) {
    let noise = Builder::signal(PATH, "a.Noise", "Noise").body(Body::default().blob(&[0; 16 << 10]));
    (0..90).for_each(|_| _ = client.send(&noise).unwrap());
    sync(client);
}

/// A member that is awake looks now and then.
fn traffic(client: &mut Client, awake: &mut Member) {
    for _ in 0..2 {
        noise(client);
        assert_eq!(awake.next_now().unwrap(), None);
    }
}

/// The number of the next signal of the service.
fn tick(member: &mut Member, round: u32) {
    let incoming = member.next(Some(PATIENCE)).unwrap();
    let Some(Incoming::Signal(signal)) = incoming else { panic!("deaf in round {round}: {incoming:?}") };
    assert_eq!(signal.rule_args(), [Arg::U32(round)]);
}

/// Ends the threads of a test, also of one that fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
    let (is_over, sleeper) = (AtomicBool::new(false), asleep.unique_name().to_owned());
    let (heard, ticks) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // No time wakes it before the test has failed.
                let patience = Some(PATIENCE + Duration::from_secs(5));
                if let Some(Incoming::Signal(signal)) = asleep.next(patience).unwrap() {
                    let [Arg::U32(round)] = signal.rule_args()[..] else {
                        panic!("{:?}", signal.rule_args())
                    };
                    let _ = heard.send(round);
                }
            }
        });
        let _over = OnDrop(is_over);
        for round in 0..rounds() {
            // A member and a client in turn.
            let join = || Client::join(&bus.path(), ConnectionOptions::default()).unwrap();
            let mut service = if round.is_multiple_of(2) { join() } else { bus.client() };
            service.ask_driver("RequestName", text(NAME).u32(0)).unwrap();
            traffic(&mut noisy, &mut awake);
            let signal = Builder::signal(PATH, INTERFACE, "Tick").body(Body::default().u32(round));
            service.send(&signal).unwrap();
            tick(&mut awake, round);
            let heard = ticks.recv_timeout(PATIENCE);
            assert_eq!(heard, Ok(round), "the one that sleeps is deaf");
            let heard = wait_for_member(&mut client, "Tick");
            assert_eq!(Args::of(&heard).first_u32(), Some(round), "the client is deaf");
            drop(service);
            eventually("the name stays", || noisy.name_owner(NAME).unwrap().is_none());
            // Behind the end of the old one, too.
            traffic(&mut noisy, &mut awake);
        }
        is_over.store(true, Ordering::Relaxed);
        let end = Builder::call(PATH, "End").destination(&sleeper).flags(FLAG_NO_REPLY_EXPECTED);
        noisy.send(&end).unwrap();
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
    let mut client = bus.client();
    observer.add_match(&format!("member='NameOwnerChanged',arg0='{NAME}'")).unwrap();
    client.add_match(&format!("member='NameOwnerChanged',arg0='{NAME}'")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let names = [(); 2].map(|()| {
            let member = bus.member();
            let name = member.unique_name().to_owned();
            scope.spawn(|| candidate(member, &stop));
            name
        });
        let _over = OnDrop(&stop);
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
            // The same of a client that has seen it.
            let seen = wait_for_member(&mut client, "NameOwnerChanged");
            assert_eq!(texts(&seen).last(), Some(next), "round {round}");
            let serial =
                client.send(&Builder::call(PATH, "Who").interface(INTERFACE).destination(NAME)).unwrap();
            let answer = wait_for_reply(&mut client, serial);
            assert_eq!(
                texts(&answer),
                [next.as_str()],
                "round {round}: the call of the client went to the old owner"
            );
            if round % 3 == 2 {
                tell(&mut observer, next, "Leave");
                assert_eq!(new_owner(&mut observer), "");
                assert_eq!(observer.name_owner(NAME), None, "round {round}: it still has an owner");
                wait_for_member(&mut client, "NameOwnerChanged");
            }
        }
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

/// Nobody keeps it for a member without rules, which finds in the directory that the callee is gone.
#[test]
fn a_call_ends_whose_callee_has_left_although_that_was_overwritten() {
    let bus = Bus::start();
    let (mut caller, callee, mut noisy) = (bus.member(), bus.member(), bus.client());
    let name = callee.unique_name().to_owned();
    let serial = caller.start_call(&name, PATH, INTERFACE, "Ask", Body::default()).unwrap();
    drop(callee);
    eventually("the callee stays", || noisy.name_owner(&name).unwrap().is_none());
    (0..2).for_each(|_| noise(&mut noisy));
    // Far below the time after which a call ends of itself.
    let why = caller.finish_call(serial, PATIENCE).unwrap_err().to_string();
    assert!(why.contains("without replying"), "{why}");
}

/// The announcement stands in the log while the bus still passes what others have sent before it, and has not done what comes behind.
#[test]
fn one_whose_end_was_announced_is_found_by_nobody_and_neither_is_its_name() {
    /// Messages that the bus has to pass first, of each of some members.
    const AHEAD: u32 = 600;
    let bus = Broker::native();
    let (mut observer, mut listener) = (bus.member(), bus.client());
    let mut noisy: Vec<Member> = (0..4).map(|_| bus.member()).collect();
    listener.add_match(RULE).unwrap();
    observer.add_match("member='NameOwnerChanged',arg2=''").unwrap();
    let make_noise = |member: &mut Member, number: u32| {
        member.emit(PATH, INTERFACE, "Noise", Body::default().u32(number)).unwrap();
    };
    noisy.iter_mut().for_each(|member| make_noise(member, 0));
    ask_bus(&mut observer);
    for round in 0..rounds() {
        // A member that has read from another holds its outbox and need not ask the bus for it; and none lags so far that others wait.
        for member in &mut noisy {
            assert_eq!(member.next_now().unwrap(), None);
        }
        let mut leaving = bus.client();
        if round % 2 == 0 {
            leaving.request_name(NAME, 0).unwrap();
        }
        bus.stopped(|| {
            for member in &mut noisy {
                (0..AHEAD).for_each(|number| make_noise(member, number));
            }
            drop(leaving);
            // It has read all that the bus has not.
            assert_eq!(observer.next_now().unwrap(), None);
        });
        loop {
            let signal = signal_of(&mut observer, "org.freedesktop.DBus");
            let [Arg::Text(name), ..] = signal.rule_args()[..] else { panic!("{:?}", signal.rule_args()) };
            assert_eq!(observer.name_owner(name), None, "round {round}: {name} is still there");
            assert!(
                !observer.list_names().iter().any(|listed| listed == name),
                "round {round}: {name} is listed"
            );
            if name != NAME {
                break;
            }
        }
        sync(&mut listener);
        while listener.receive(Duration::ZERO).unwrap().is_some() {}
    }
}

/// The arguments of the signals that come, of two of each of these members, each sent twice.
fn heard(listener: &mut Member, emitters: &mut [&mut Member]) -> Vec<String> {
    for (index, emitter) in emitters.iter_mut().enumerate() {
        for argument in ["x", "y", "x", "y"] {
            emitter.emit(PATH, INTERFACE, "M", Body::default().text(&format!("{argument}{index}"))).unwrap();
        }
    }
    let mut heard = Vec::new();
    while let Some(incoming) = listener.next_now().unwrap() {
        match incoming {
            Incoming::Signal(signal) if signal.header().member == Some("M") => {
                heard.push(signal.text().unwrap().to_owned());
            }
            _ => {}
        }
    }
    heard
}

/// What the rules say of a header is remembered, and each change of a rule or of the owner of its sender counts at once.
#[test]
fn a_signal_like_those_before_is_matched_by_the_rules_and_owners_of_now() {
    let bus = Bus::start();
    let (mut listener, mut first, mut second) = (bus.member(), bus.member(), bus.member());
    let of_first = ["x0", "y0", "x0", "y0"];
    let of_second = ["x1", "y1", "x1", "y1"];
    listener.add_match("member='Other'").unwrap();
    assert!(heard(&mut listener, &mut [&mut first, &mut second]).is_empty());
    listener.add_match("member='M',arg0='x0'").unwrap();
    assert_eq!(heard(&mut listener, &mut [&mut first, &mut second]), ["x0", "x0"]);
    listener.add_match(&rule()).unwrap();
    assert_eq!(heard(&mut listener, &mut [&mut first, &mut second]), ["x0", "x0"]);
    first.request_name(NAME, IN_TURN).unwrap();
    assert_eq!(heard(&mut listener, &mut [&mut first, &mut second]), of_first);
    second.request_name(NAME, IN_TURN).unwrap();
    assert_eq!(
        heard(&mut listener, &mut [&mut first, &mut second]),
        [&["x0", "x0"], &of_second[..]].concat()
    );
    listener.remove_match(&rule()).unwrap();
    assert_eq!(heard(&mut listener, &mut [&mut first, &mut second]), ["x0", "x0"]);
    listener.remove_match("member='M',arg0='x0'").unwrap();
    assert!(heard(&mut listener, &mut [&mut first, &mut second]).is_empty());
    listener.add_match("member='M'").unwrap();
    assert_eq!(heard(&mut listener, &mut [&mut first, &mut second]), [of_first, of_second].concat());
}

/// A monitor is behind: what it reads was sent when another had the name.
#[test]
fn a_monitor_shows_the_messages_of_a_name_by_who_had_it_when_they_were_sent() {
    let bus = Bus::start();
    let rule = rule().parse().unwrap();
    let mut monitor = causeway_bus::Monitor::open(bus.path()).unwrap().filter(rule);
    let mut members = [bus.member(), bus.member(), bus.member()];
    for (round, member) in (0..).zip(&mut members) {
        member.request_name(NAME, IN_TURN).unwrap();
        member.emit(PATH, INTERFACE, "Tick", Body::default().u32(round)).unwrap();
    }
    for round in 0..3 {
        assert_eq!(observed(&mut monitor).rule_args(), [Arg::U32(round)]);
    }
    // Of one that has the name no more, nothing is shown.
    members[0].emit(PATH, INTERFACE, "Tick", Body::default().u32(7)).unwrap();
    members[2].emit(PATH, INTERFACE, "Tick", Body::default().u32(3)).unwrap();
    assert_eq!(observed(&mut monitor).rule_args(), [Arg::U32(3)]);
}
