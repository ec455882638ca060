//! The longest turns of the bus under attacks: their times, printed, and their steps.

use std::fmt::Write as _;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Marshal};

use super::{TURN, add_rules, ask_often, become_monitor, statistic, take_names, variables};
use crate::support::*;

/// Those that wait for one name among the attacks: as many as there are descriptors for, where these are not more than 20,000.
const WAITING: usize = 15_000;

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
            client.ask_driver("UpdateActivationEnvironment", variables(0..3_000, &value)).unwrap();
        }),
        ("10 times 11,000 variables, as far as they may be", |_, client| {
            for start in (0..110_000).step_by(11_000) {
                let _ =
                    client.ask_driver("UpdateActivationEnvironment", variables(start..start + 11_000, ""));
            }
        }),
        ("a monitor with 16,000 rules of 256 KiB", |bus, _| {
            let rules: Vec<String> = (0..16_000).map(|number| format!("arg1='{number:04x}'")).collect();
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let call = driver_call("BecomeMonitor").interface("org.freedesktop.DBus.Monitoring");
            let mut monitor = bus.client();
            monitor.call(&call.body(Body::default().texts(&rules).u32(0)), PATIENCE).unwrap();
        }),
        // What glibc would keep apart of them, it would merge at the first large free.
        ("48,000 of 49,000 names are released, then 200 KiB", |_, client| {
            take_names(client, 49_000);
            ask_often(client, "ReleaseName", (0..48_000).map(|number| text(&format!("a.Name{number}"))));
            let long = Body::default().blob(&vec![7; 200 << 10]);
            client.send(&Builder::signal(PATH, INTERFACE, "Long").body(long)).unwrap();
        }),
        ("15,000 wait for a name, are listed, and end at once", |bus, client| {
            let request = driver_call("RequestName").body(text("a.Name").u32(0));
            client.call(&request, PATIENCE).unwrap();
            let crowd: Vec<Client> = (0..WAITING)
                .map(|_| {
                    let mut waiting = bus.client();
                    waiting.call(&request, PATIENCE).unwrap();
                    waiting
                })
                .collect();
            client.ask_driver("ListQueuedOwners", text("a.Name")).unwrap();
            bus.stopped(|| drop(crowd));
            sync(client);
        }),
        ("a monitor with 12,000 rules, which leaves", |bus, _| {
            let mut monitor = bus.client();
            become_monitor(&mut monitor, 12_000);
        }),
        ("the end of one that does not read 1,000,000 signals", |bus, client| {
            let mut subscriber = bus.client();
            subscriber.add_match(RULE).unwrap();
            let signal = Builder::signal(PATH, INTERFACE, "S").build(77).unwrap();
            let many = signal.repeat(1_000);
            (0..1_000).for_each(|_| client.send_bytes(&many).unwrap());
            sync(client);
            drop(subscriber);
        }),
        ("GetConnectionStats of one with 40,000 names", |bus, client| {
            let mut named = bus.client();
            take_names(&mut named, 40_000);
            let one = driver_call("GetConnectionStats").interface("org.freedesktop.DBus.Debug.Stats");
            client.call(&one.body(text(named.unique_name())), PATIENCE).unwrap();
        }),
        ("40,000 rules of one, while a native member is there", |bus, client| {
            let member = bus.member();
            add_rules(client, 40_000);
            drop(member);
        }),
        ("a name of 40,000 rules passes on, while a native member is there", |bus, client| {
            let member = bus.member();
            let rule = |number| text(&format!("sender='a.Name0',member='M{number}'"));
            ask_often(client, "AddMatch", (0..40_000).map(rule));
            let mut named = bus.client();
            take_names(&mut named, 1);
            drop(named);
            drop(member);
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
    causeway_os::limits::raise_nofile().unwrap();
    println!("{:<62} {:>12} {:>12} {:>8}", "attack", "CPU, ms", "clock, ms", "steps");
    for (name, attack) in attacks {
        let bus = Broker::native();
        let (mut client, mut witness) = (bus.client(), bus.client());
        attack(&bus, &mut client);
        (0..200).for_each(|_| sync(&mut witness));
        // The time is printed alone; what stands for it does not depend on the machine.
        let ms = |microseconds: u32| f64::from(microseconds) / 1e3;
        let [cpu, clock, steps] = ["PeakTurnCPUMicroseconds", "PeakTurnMicroseconds", "PeakTurnSteps"]
            .map(|name| statistic(&mut witness, name));
        println!("{name:<62} {:>12.2} {:>12.2} {steps:>8}", ms(cpu), ms(clock));
        assert!(steps < TURN.end, "{name}: {steps} steps in a turn");
    }
}
