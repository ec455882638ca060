//! What one message causes, and what one end causes, is divided over turns of the loop, and the order stays.
//!
//! The bus counts the steps of its turns itself (`PeakTurnSteps`), so that these tests look at no clock. Times of turns are what
//! `longest_turns` prints:
//!
//! ```text
//! cargo test --release -p causewayd --test it divided:: -- --ignored --nocapture --test-threads 1
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Marshal, Value, arguments_of};

use crate::support::*;

/// Those of a turn (`TURN_STEPS` of causewayd), and what its last part may add.
const TURN: std::ops::Range<u32> = 5_000..5_200;

fn statistic(client: &mut Client, name: &str) -> u32 {
    let stats = driver_call("GetStats").interface("org.freedesktop.DBus.Debug.Stats");
    let answer = client.call(&stats, PATIENCE).unwrap();
    let facts: HashMap<&str, Value<'_>> = arguments_of(&answer).unwrap();
    facts[name].to::<u32>().unwrap()
}

/// Makes the same call of the driver with each of these arguments, many of them under way at once.
fn ask_often(client: &mut Client, member: &str, arguments: impl Iterator<Item = Body>) {
    let call = driver_call(member).flags(FLAG_NO_REPLY_EXPECTED);
    let mut serial = client.last_serial() + 1000;
    let mut bytes = Vec::new();
    for body in arguments {
        serial += 1;
        bytes.extend(call.clone().body(body).build(serial).unwrap());
        if bytes.len() > 1 << 16 {
            client.send_bytes(&bytes).unwrap();
            bytes.clear();
        }
    }
    client.send_bytes(&bytes).unwrap();
    sync(client);
}

fn add_rules(client: &mut Client, count: u32) {
    ask_often(
        client,
        "AddMatch",
        (0..count).map(|number| text(&format!("interface='{INTERFACE}',arg1='{number}'"))),
    );
}

fn take_names(client: &mut Client, count: u32) {
    ask_often(client, "RequestName", (0..count).map(|number| text(&format!("a.Name{number}")).u32(0)));
}

#[test]
fn a_signal_is_compared_with_very_many_rules_in_several_turns_and_keeps_its_place() {
    const RULES: u32 = 30_000;
    const SIGNALS: u32 = 3;
    let bus = Broker::start();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    let mut crowd: Vec<Client> = (0..2).map(|_| bus.client()).collect();
    crowd.iter_mut().for_each(|client| add_rules(client, RULES));
    // Its rule is the last one.
    receiver.add_match(RULE).unwrap();
    let to = receiver.unique_name().to_owned();
    for number in 0..SIGNALS {
        let body = Body::default().text(&number.to_string()).text("none");
        sender.send(&Builder::signal(PATH, INTERFACE, "Many").body(body)).unwrap();
        let call = Builder::call(PATH, "After").destination(&to).flags(FLAG_NO_REPLY_EXPECTED);
        sender.send(&call.body(text(&number.to_string()))).unwrap();
    }
    let seen: Vec<(String, String)> = (0..2 * SIGNALS)
        .map(|_| {
            let message = wait_for(&mut receiver, |header| {
                header.member.is_some_and(|name| name == "Many" || name == "After")
            });
            (header(&message).member.unwrap().to_owned(), texts(&message)[0].clone())
        })
        .collect();
    let sent =
        (0..SIGNALS).flat_map(|number| ["Many", "After"].map(|name| (name.to_owned(), number.to_string())));
    assert_eq!(seen, sent.collect::<Vec<_>>());
    let most = statistic(&mut sender, "PeakTurnSteps");
    assert!(TURN.contains(&most), "{most} steps in a turn");
}

#[test]
fn the_end_of_a_client_with_very_many_names_rules_and_calls_is_told_in_several_turns() {
    const EACH: u32 = 3_000;
    let bus = Broker::start();
    let (mut watcher, mut caller, mut leaving) = (bus.client(), bus.client(), bus.client());
    add_rules(&mut leaving, EACH);
    take_names(&mut leaving, EACH);
    watcher.add_match("member='NameOwnerChanged'").unwrap();
    let name = leaving.unique_name().to_owned();
    let serials: Vec<u32> =
        (0..EACH).map(|_| caller.send(&Builder::call("/", "M").destination(&name)).unwrap()).collect();
    sync(&mut caller);
    drop(leaving);
    // The last name first, the unique one behind all others, and then the calls.
    let gone: Vec<String> =
        (0..=EACH).map(|_| texts(&wait_for_member(&mut watcher, "NameOwnerChanged"))[0].clone()).collect();
    let names = (0..EACH).rev().map(|number| format!("a.Name{number}")).chain([name]);
    assert_eq!(gone, names.collect::<Vec<_>>());
    for serial in serials {
        let answer = wait_for_reply(&mut caller, serial);
        assert_eq!(header(&answer).error_name, Some("org.freedesktop.DBus.Error.NoReply"));
    }
    assert_eq!(statistic(&mut caller, "PendingReplies"), 0);
    assert_eq!((statistic(&mut caller, "MatchRules"), statistic(&mut caller, "BusNames")), (1, 2));
    let most = statistic(&mut caller, "PeakTurnSteps");
    assert!(TURN.contains(&most), "{most} steps in a turn");
}

/// A name whose owner leaves passes to the one that waits for it, wherever it is among the others.
#[test]
fn a_name_of_a_client_that_leaves_passes_to_the_next_in_its_queue() {
    const NAMES: u32 = 3_000;
    let bus = Broker::start();
    let (mut next, mut leaving) = (bus.client(), bus.client());
    take_names(&mut leaving, NAMES);
    take_names(&mut next, NAMES);
    drop(leaving);
    let mut acquired = Vec::new();
    while acquired.len() < NAMES as usize {
        let name = texts(&wait_for_member(&mut next, "NameAcquired")).remove(0);
        // The first may be its own.
        acquired.extend(Some(name).filter(|name| !name.starts_with(':')));
    }
    assert_eq!(acquired, (0..NAMES).rev().map(|number| format!("a.Name{number}")).collect::<Vec<_>>());
    let own = next.unique_name().to_owned();
    assert_eq!(next.name_owner("a.Name0").unwrap(), Some(own));
}

/// What is done to the bus, beside a client that asks now and then.
type Attack = fn(&Broker, &mut Client);

/// Prints the longest turn of the bus under each kind of attack that its limits allow, by the CPU time of its thread.
#[test]
#[ignore = "it prints times, and takes minutes"]
fn longest_turns() {
    let attacks: &[(&str, Attack)] = &[
        ("a((((…)))) at full depth, 32 MiB", |_, client| {
            let nested = "(".repeat(31) + "y" + &")".repeat(31);
            let mut out = Marshal::default();
            out.array(8, |out| (0..4 << 20).for_each(|number| out.u64(number & 0xff)));
            let body = out.into_body(&format!("a{nested}"));
            let _ = client.send(&Builder::signal(PATH, INTERFACE, "Deep").body(body));
        }),
        ("ay of 32 MiB", |_, client| {
            client
                .send(
                    &Builder::signal(PATH, INTERFACE, "Flat").body(Body::default().blob(&vec![7; 32 << 20])),
                )
                .unwrap();
        }),
        ("as of a million strings", |_, client| {
            let texts = vec!["text"; 1_000_000];
            client
                .send(&Builder::signal(PATH, INTERFACE, "Texts").body(Body::default().texts(&texts)))
                .unwrap();
        }),
        ("a header of 64 KiB", |_, client| {
            let path = format!("/{}", "p".repeat(65_000));
            (0..100).for_each(|_| _ = client.send(&Builder::signal(&path, INTERFACE, "Long")).unwrap());
        }),
        ("200,000 rules under one condition, 20 signals", |bus, client| {
            let mut crowd: Vec<Client> = (0..5).map(|_| bus.client()).collect();
            crowd.iter_mut().for_each(|one| add_rules(one, 40_000));
            let body = || Body::default().text("x").text("y");
            (0..20).for_each(|_| {
                _ = client.send(&Builder::signal(PATH, INTERFACE, "Many").body(body())).unwrap()
            });
            sync(client);
            drop(crowd);
        }),
        ("a rule with 64 arguments, 40,000 times added and removed", |_, client| {
            let rule = (0..64).fold(String::new(), |mut rule, index| {
                let _ = write!(rule, "arg{index}='x',");
                rule
            });
            let rule = rule.trim_end_matches(',');
            ask_often(client, "AddMatch", (0..40_000).map(|_| text(rule)));
            ask_often(client, "RemoveMatch", (0..40_000).map(|_| text(rule)));
        }),
        ("the end of a callee with 40,000 calls", |bus, client| {
            let callee = bus.client();
            let call = Builder::call("/", "M").destination(callee.unique_name());
            (0..40_000).for_each(|_| _ = client.send(&call).unwrap());
            sync(client);
            drop(callee);
        }),
        ("the end of a client with 40,000 names", |bus, client| {
            let mut named = bus.client();
            client.add_match("member='NameOwnerChanged'").unwrap();
            take_names(&mut named, 40_000);
            drop(named);
        }),
        ("ListNames with 40,000 names", |bus, client| {
            let mut named = bus.client();
            take_names(&mut named, 40_000);
            client.ask_driver("ListNames", Body::default()).unwrap();
        }),
        ("GetAllMatchRules with 40,000 rules", |bus, client| {
            let mut other = bus.client();
            add_rules(&mut other, 40_000);
            let all = driver_call("GetAllMatchRules").interface("org.freedesktop.DBus.Debug.Stats");
            client.call(&all, PATIENCE).unwrap();
        }),
        ("500 clients connect, ask for all statistics and end at once", |bus, client| {
            let crowd: Vec<Client> = (0..500).map(|_| bus.client()).collect();
            let all = driver_call("GetAllConnectionStats").interface("org.freedesktop.DBus.Debug.Stats");
            client.call(&all.body(Body::default().u32(u32::MAX)), PATIENCE).unwrap();
            bus.stopped(|| drop(crowd));
        }),
        ("UpdateActivationEnvironment of 256 KiB", |_, client| {
            let value = "v".repeat(50);
            let mut out = Marshal::default();
            out.array(8, |out| {
                (0..3_000).for_each(|number| {
                    out.align(8);
                    out.text(&format!("NAME{number}"));
                    out.text(&value);
                });
            });
            client.ask_driver("UpdateActivationEnvironment", out.into_body("a{ss}")).unwrap();
        }),
        ("a monitor with 4,000 rules", |bus, client| {
            let mut monitor = bus.client();
            let rules: Vec<String> =
                (0..4_000).map(|number| format!("interface='{INTERFACE}',arg1='{number}'")).collect();
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let call = driver_call("BecomeMonitor").interface("org.freedesktop.DBus.Monitoring");
            monitor.call(&call.body(Body::default().texts(&rules).u32(0)), PATIENCE).unwrap();
            let signal = Builder::signal(PATH, INTERFACE, "Many").body(Body::default().text("x").text("y"));
            (0..100).for_each(|_| _ = client.send(&signal).unwrap());
            sync(client);
        }),
    ];
    println!("{:<62} {:>12} {:>12} {:>8}", "attack", "CPU, ms", "clock, ms", "steps");
    for (name, attack) in attacks {
        let bus = Broker::start();
        let (mut client, mut witness) = (bus.client(), bus.client());
        attack(&bus, &mut client);
        (0..200).for_each(|_| sync(&mut witness));
        let ms = |microseconds: u32| f64::from(microseconds) / 1e3;
        let [cpu, clock, steps] = ["PeakTurnCPUMicroseconds", "PeakTurnMicroseconds", "PeakTurnSteps"]
            .map(|name| statistic(&mut witness, name));
        println!("{name:<62} {:>12.2} {:>12.2} {steps:>8}", ms(cpu), ms(clock));
    }
}
