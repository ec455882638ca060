//! How often wake filters are wrong. `docs/decisions/bus-waiting.md` says what came of it.
//!
//! `wake_filter CAPTURE` plays a recorded bus: each of its connections has the filter of its match rules, and each broadcast asks
//! all of them. `wake_filter` without a capture makes members with many rules.
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::collections::HashMap;
use std::fs::File;

use causeway_bus::shared::filter::{EXACT_RULES, Filter, SignalKeys, says_yes, unique_number};
use causeway_bus::wire::{Arg, Args, Body, Builder, Header};
use causeway_bus::{AUTHORITY_ID, MatchRule};
use causeway_dbus_wire::driver::DRIVER;
use weighbridge_dbus_traffic::bus::Bus;
use weighbridge_dbus_traffic::capture::Reader;

fn main() {
    match std::env::args().nth(1) {
        Some(capture) => recorded(&capture),
        None => many_rules(),
    }
}

/// Of pairs of a signal and a member.
#[derive(Default)]
struct Count {
    pairs: u64,
    wanted: u64,
    /// Unwanted signals that pass the filter, and that would pass a set of interfaces instead.
    false_yes: u64,
    false_interface: u64,
}

impl Count {
    fn add(&mut self, rules: &[MatchRule], filter: &Filter, signal: (&Header<'_>, &[u8]), is_wanted: bool) {
        let (header, body) = signal;
        let sender = header.sender.and_then(unique_number).unwrap_or(AUTHORITY_ID);
        let says = says_yes(|index| filter.words()[index], &SignalKeys::new(sender, header, body));
        let names_interface =
            |rule: &MatchRule| rule.interface.is_none() || rule.interface.as_deref() == header.interface;
        assert!(says || !is_wanted, "the filter has missed {header:?}");
        self.pairs += 1;
        self.wanted += u64::from(is_wanted);
        self.false_yes += u64::from(says && !is_wanted);
        self.false_interface += u64::from(!is_wanted && rules.iter().any(names_interface));
    }

    fn print(&self, name: &str) {
        let percent = |count: u64| 100.0 * count as f64 / (self.pairs - self.wanted).max(1) as f64;
        println!(
            "| {name} | {} | {} | {:.2} | {:.2} |",
            self.pairs,
            self.wanted,
            percent(self.false_yes),
            percent(self.false_interface)
        );
    }
}

fn head() {
    println!(
        "| members | signals × members | wanted | unwanted signals that pass the filter, % | that pass a set of interfaces, % |"
    );
    println!("|---|---|---|---|---|");
}

fn recorded(path: &str) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut reader = Reader::new(file).unwrap_or_else(|error| panic!("{path}: {error:?}"));
    let (mut bus, mut rules) = (Bus::new(), HashMap::<String, Vec<MatchRule>>::new());
    let (mut few, mut many) = (Count::default(), Count::default());
    while let Some(packet) = reader.next_packet().expect("the capture can be read") {
        let Ok(header) = Header::parse(packet.bytes) else { continue };
        let Some(body) = packet.bytes.get(header.header_bytes..) else { continue };
        bus.observe(&header, body);
        follow(&mut rules, &header, body);
        if !header.is_broadcast() {
            continue;
        }
        let recipients: Vec<String> = bus.recipients(&header, body).into_iter().map(str::to_owned).collect();
        for (member, rules) in &rules {
            let owner = |name: &str| match name {
                DRIVER => Some(AUTHORITY_ID),
                _ => bus.owner(name).and_then(unique_number),
            };
            let filter = Filter::new(rules, owner);
            let count = if rules.len() <= EXACT_RULES { &mut few } else { &mut many };
            count.add(rules, &filter, (&header, body), recipients.contains(member));
        }
    }
    head();
    few.print(&format!("with at most {EXACT_RULES} rules"));
    many.print("with more");
}

/// Keeps the rules of each connection.
fn follow(rules: &mut HashMap<String, Vec<MatchRule>>, header: &Header<'_>, body: &[u8]) {
    let mut texts = Args::new(header, body).map(|arg| match arg {
        Ok(Arg::Text(text)) => text,
        _ => "",
    });
    let Some(sender) = header.sender else { return };
    match (header.member, header.destination == Some(DRIVER)) {
        (Some("AddMatch"), true) => {
            let rule = texts.next().unwrap_or_default().parse::<MatchRule>();
            rules.entry(sender.to_owned()).or_default().extend(rule);
        }
        (Some("RemoveMatch"), true) => {
            let rule = texts.next().unwrap_or_default().parse::<MatchRule>().ok();
            let of_sender = rules.entry(sender.to_owned()).or_default();
            let at = of_sender.iter().position(|known| Some(known) == rule.as_ref());
            at.into_iter().for_each(|at| drop(of_sender.remove(at)));
        }
        (Some("NameOwnerChanged"), _) if sender == DRIVER => {
            let [Some(name), _, Some("")] = [(); 3].map(|()| texts.next()) else { return };
            rules.remove(name);
        }
        _ => {}
    }
}

/// Members with rules for properties of objects, as desktop programs have them, and signals about as many other objects.
fn many_rules() {
    head();
    for number in [16, 17, 32, 64, 256, 1024] {
        let rule = |object: usize| {
            format!(
                "type='signal',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged',path='/object/{object}'"
            )
        };
        let rules: Vec<MatchRule> = (0..number).map(|object| rule(object).parse().expect("a rule")).collect();
        let filter = Filter::new(&rules, |_| None);
        let mut count = Count::default();
        for object in 0..20_000 {
            let path = format!("/object/{object}");
            let signal = Builder::signal(&path, "org.freedesktop.DBus.Properties", "PropertiesChanged");
            let bytes = signal.sender(":1.9").body(Body::default().text("a.b")).build(1).expect("a signal");
            let header = Header::parse(&bytes).expect("a signal");
            count.add(&rules, &filter, (&header, &bytes[header.header_bytes..]), object < number);
        }
        count.print(&format!("with {number} rules for objects"));
    }
}
