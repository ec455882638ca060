//! What one message causes, and what one end causes, is divided over turns of the loop, and the order stays.
//!
//! The bus counts the steps of its turns itself (`PeakTurnSteps`), so that these tests look at no clock. Times of turns are what
//! `longest_turns` prints:
//!
//! ```text
//! cargo test --release -p causewayd --test it divided:: -- --ignored --nocapture --test-threads 1
//! ```

use std::collections::HashMap;
use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Kind, Marshal, Value, arguments_of};

use crate::support::*;

mod longest;

/// Those of a turn (`TURN_STEPS` of causewayd), and what its last part may add.
const TURN: std::ops::Range<u32> = 5_000..5_200;

fn statistic(client: &mut Client, name: &str) -> u32 {
    let stats = driver_call("GetStats").interface("org.freedesktop.DBus.Debug.Stats");
    let answer = client.call(&stats, PATIENCE).unwrap();
    let facts: HashMap<&str, Value<'_>> = arguments_of(&answer).unwrap();
    facts[name].to::<u32>().unwrap()
}

/// What was done until now took more steps than a turn has, and no turn took more.
#[track_caller]
fn assert_divided(client: &mut Client) {
    let most = statistic(client, "PeakTurnSteps");
    assert!(TURN.contains(&most), "{most} steps in a turn");
}

/// What was done until now was not divided.
#[track_caller]
fn assert_undivided(client: &mut Client) {
    let most = statistic(client, "PeakTurnSteps");
    assert!(most < TURN.start, "{most} steps in a turn");
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
    assert_divided(&mut sender);
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
    assert_divided(&mut caller);
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

#[test]
fn lists_of_very_much_are_made_in_several_turns_and_have_it_all() {
    const EACH: u32 = 12_000;
    let bus = Broker::start();
    let (mut asking, mut full) = (bus.client(), bus.client());
    take_names(&mut full, EACH);
    add_rules(&mut full, EACH);
    let answer = asking.ask_driver("ListNames", Body::default()).unwrap();
    let mut expected: Vec<String> = (0..EACH).map(|number| format!("a.Name{number}")).collect();
    expected.sort_unstable();
    let named: Vec<&str> = arguments_of(&answer).unwrap();
    assert_eq!(named[0], "org.freedesktop.DBus");
    assert!(named.contains(&full.unique_name()) && named.contains(&asking.unique_name()));
    let well_known = named.iter().filter(|name| name.starts_with("a.")).copied();
    assert_eq!(well_known.collect::<Vec<_>>(), expected);
    assert_divided(&mut asking);
    let all = driver_call("GetAllMatchRules").interface("org.freedesktop.DBus.Debug.Stats");
    let answer = asking.call(&all, PATIENCE).unwrap();
    let rules: HashMap<&str, Vec<&str>> = arguments_of(&answer).unwrap();
    let mut of_full = rules[full.unique_name()].clone();
    of_full.sort_unstable();
    let mut expected: Vec<String> =
        (0..EACH).map(|number| format!("interface='{INTERFACE}',arg1='{number}'")).collect();
    expected.sort_unstable();
    assert_eq!(of_full, expected);
    assert!(rules[asking.unique_name()].is_empty());
    assert_divided(&mut asking);
}

/// It goes into a file, which no turn has the time to copy.
#[test]
fn a_long_answer_for_a_member_is_copied_in_several_turns() {
    const RULES: u32 = 6_000;
    let bus = Broker::native();
    let [mut full, mut asking] = bus.of_both_kinds();
    let long = "x".repeat(950);
    ask_often(&mut full, "AddMatch", (0..RULES).map(|number| text(&format!("arg1='{number:04}{long}'"))));
    let all = driver_call("GetAllMatchRules").interface("org.freedesktop.DBus.Debug.Stats");
    let answer = asking.call(&all, PATIENCE).unwrap();
    let mut rules = arguments_of::<HashMap<&str, Vec<&str>>>(&answer).unwrap();
    let mut of_full = rules.remove(full.unique_name()).unwrap();
    of_full.sort_unstable();
    assert_eq!(of_full.len(), RULES as usize);
    assert!(of_full.iter().zip(0..).all(|(rule, number)| *rule == format!("arg1='{number:04}{long}'")));
    assert_divided(&mut full);
}

/// Who keeps a list up to date by signals must not be told of a change before the list in which it is not.
#[test]
fn a_list_of_names_is_as_of_its_call_and_changes_are_told_behind_it() {
    const NAMES: u32 = 12_000;
    let bus = Broker::start();
    let (mut asking, mut full) = (bus.client(), bus.client());
    take_names(&mut full, NAMES);
    asking.request_name("a.Own", 0).unwrap();
    let [list, release] = [driver_call("ListNames"), driver_call("ReleaseName").body(text("a.Own"))];
    let serial = asking.last_serial() + 1000;
    let both = [list.build(serial).unwrap(), release.build(serial + 1).unwrap()];
    asking.send_bytes(&both.concat()).unwrap();
    let first = wait_for(&mut asking, |header| {
        header.reply_serial.is_some_and(|of| of >= serial) || header.member == Some("NameLost")
    });
    assert_eq!(header(&first).reply_serial, Some(serial));
    assert!(contains(&first, "a.Own"));
    wait_for_member(&mut asking, "NameLost");
}

#[test]
fn what_waits_for_a_service_is_passed_to_it_in_several_turns_and_in_order() {
    const MESSAGES: u32 = 3_000;
    let folder = temp_dir("divided");
    // It ends without the name, which another process may still take.
    write_service(folder.path(), "a.Late", "/bin/true", "");
    let bus = Broker::with(&["--config-file", &with_services(&folder, "")]);
    let (mut sender, mut late) = (bus.client(), bus.client());
    let call = Builder::call(PATH, "M").destination("a.Late").flags(FLAG_NO_REPLY_EXPECTED);
    for number in 0..MESSAGES {
        sender.send(&call.clone().body(text(&number.to_string()))).unwrap();
    }
    sync(&mut sender);
    let serial = late.send(&driver_call("RequestName").body(text("a.Late").u32(0))).unwrap();
    for number in 0..MESSAGES {
        let message =
            wait_for(&mut late, |header| header.member == Some("M") || header.reply_serial == Some(serial));
        assert_eq!(texts(&message), [number.to_string()]);
    }
    wait_for_reply(&mut late, serial);
    assert_divided(&mut sender);
}

#[test]
fn what_waits_for_a_client_that_ends_is_forgotten_in_several_turns() {
    const SIGNALS: u32 = 20_000;
    let bus = Broker::start();
    let (mut sender, mut receiver) = (bus.client(), bus.client());
    receiver.add_match(RULE).unwrap();
    let signal = Builder::signal(PATH, INTERFACE, "Many").body(text("x"));
    (0..SIGNALS).for_each(|_| _ = sender.send(&signal).unwrap());
    sync(&mut sender);
    assert_undivided(&mut sender);
    let gone = receiver.unique_name().to_owned();
    drop(receiver);
    eventually("the client stays", || sender.name_owner(&gone).unwrap().is_none());
    sync(&mut sender);
    assert_divided(&mut sender);
}

#[test]
fn calls_whose_time_is_over_together_end_in_several_turns() {
    const CALLS: u32 = 3_000;
    let limits = [("reply_timeout", 1_000), ("max_replies_per_connection", 2 * CALLS)];
    let limits = limits.map(|(name, most)| format!("<limit name=\"{name}\">{most}</limit>")).concat();
    let bus = Broker::configured(&limits);
    let (mut caller, callee) = (bus.client(), bus.client());
    let call = Builder::call("/", "M").destination(callee.unique_name());
    let serials: Vec<u32> = (0..CALLS).map(|_| caller.send(&call).unwrap()).collect();
    sync(&mut caller);
    // When it looks at the clock again, the time of all is over.
    bus.stopped(|| std::thread::sleep(Duration::from_secs(1)));
    for serial in serials {
        let answer = wait_for_reply(&mut caller, serial);
        assert_eq!(header(&answer).error_name, Some("org.freedesktop.DBus.Error.NoReply"));
    }
    assert_eq!(statistic(&mut caller, "PendingReplies"), 0);
    assert_divided(&mut caller);
}

#[test]
fn the_rules_of_a_monitor_that_leaves_are_taken_out_in_several_turns() {
    let bus = Broker::start();
    let (mut client, mut monitor) = (bus.client(), bus.client());
    // To add them takes fewer steps than to take them out.
    become_monitor(&mut monitor, 1_300);
    assert_undivided(&mut client);
    drop(monitor);
    eventually("the monitor stays", || statistic(&mut client, "Monitors") == 0);
    sync(&mut client);
    assert_divided(&mut client);
}

#[test]
fn a_client_becomes_a_monitor_with_very_many_rules_in_several_turns_or_not_at_all() {
    const RULES: usize = 6_000;
    let bus = Broker::start();
    let (mut client, mut monitor) = (bus.client(), bus.client());
    let serial = send_rules(&mut monitor, RULES, &["path='/p'", "no rule"]);
    assert_eq!(header(&wait_for_reply(&mut monitor, serial)).kind, Kind::Error);
    // It is a client as before.
    sync(&mut monitor);
    assert_eq!(statistic(&mut client, "Monitors"), 0);
    assert_divided(&mut client);
    // The rule that comes last is there for what comes behind the call.
    let serial = send_rules(&mut monitor, RULES, &["interface='a.Last'"]);
    assert_eq!(header(&wait_for_reply(&mut monitor, serial)).kind, Kind::MethodReturn);
    client.send(&Builder::signal("/", "a.Other", "None")).unwrap();
    client.send(&Builder::signal("/", "a.Last", "Seen")).unwrap();
    let seen = wait_for(&mut monitor, |header| header.interface.is_some_and(|name| name.starts_with("a.")));
    assert_eq!(header(&seen).member, Some("Seen"));
    assert_divided(&mut client);
}

#[test]
fn the_environment_of_services_has_a_limit_and_what_would_exceed_it_changes_nothing() {
    let bus = Broker::start();
    let mut client = bus.client();
    let mut update = |body| client.call(&driver_call("UpdateActivationEnvironment").body(body), PATIENCE);
    update(variables(0..3_000, "x")).unwrap();
    assert_eq!(refusal(update(variables(2_000..5_000, "x"))), "LimitsExceeded");
    // These are there, and get other values.
    update(variables(0..3_000, "other")).unwrap();
    // So was none of these, of which there may be as many again.
    update(variables(4_000..5_000, "x")).unwrap();
    let long = "v".repeat(200 << 10);
    let refused = (0..6).find_map(|number| update(variables(number..number + 1, &long)).err());
    assert!(refused.is_some(), "1.2 MB of variables");
}

/// A member with very many rules for the messages of a name is woken by its owner's, and its filter is built in several turns.
#[test]
fn a_member_with_very_many_rules_is_woken_by_each_owner_of_the_name_in_them() {
    const RULES: u32 = 6_000;
    let bus = Broker::native();
    let [mut asking, mut member] = bus.of_both_kinds();
    for number in 0..RULES {
        member.add_match(&format!("sender='a.Owner',interface='{INTERFACE}',member='M{number}'")).unwrap();
    }
    for _ in 0..2 {
        let [_, mut owner] = bus.of_both_kinds();
        owner.request_name("a.Owner", 0).unwrap();
        for number in [0, RULES / 2, RULES - 1] {
            let name = format!("M{number}");
            owner.send(&Builder::signal(PATH, INTERFACE, &name)).unwrap();
            wait_for_member(&mut member, &name);
        }
        assert_divided(&mut asking);
    }
}

fn become_monitor(client: &mut Client, rules: usize) {
    let serial = send_rules(client, rules, &[]);
    assert_eq!(header(&wait_for_reply(client, serial)).kind, Kind::MethodReturn);
}

/// Asks to become a monitor with so many rules, and these behind them.
fn send_rules(client: &mut Client, count: usize, further: &[&str]) -> u32 {
    let rules: Vec<String> = (0..count).map(|number| format!("path='/p{number}'")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).chain(further.iter().copied()).collect();
    let call = driver_call("BecomeMonitor").interface("org.freedesktop.DBus.Monitoring");
    client.send(&call.body(Body::default().texts(&rules).u32(0))).unwrap()
}

/// Variables with these numbers, as `UpdateActivationEnvironment` takes them.
fn variables(numbers: std::ops::Range<usize>, value: &str) -> Body {
    let mut out = Marshal::default();
    out.array(8, |out| {
        for number in numbers {
            out.align(8);
            out.text(&format!("NAME{number}"));
            out.text(value);
        }
    });
    out.into_body("a{ss}")
}
