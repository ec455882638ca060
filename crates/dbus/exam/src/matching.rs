//! Which broadcasts match rules bring.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use causeway_bus::client::Error;
use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::{Arg, Args, Header};

use crate::client::{Client, INTERFACE, Message, PATH, broadcast, rule, short};
use crate::property::{Bus, Property, Seen};

const GROUP: &str = "Match rules";

pub const PROPERTIES: &[Property] = &[
    Property::new(GROUP, "missed-matches", missed)
        .asks("Does a connection get every broadcast that one of its rules matches?")
        .specification("Match Rules"),
    Property::new(GROUP, "extra-matches", extra)
        .asks("Does a connection get no broadcast that none of its rules matches?")
        .specification("Match Rules"),
    Property::new(GROUP, "overlapping-rules", overlapping)
        .asks("Does a broadcast that several rules of a connection match arrive once?")
        .specification("Message Bus Message Routing"),
    Property::new(GROUP, "duplicate-rules", duplicate)
        .asks("Is a rule that was added twice and removed once still there?")
        .practice("libraries add a rule for each listener and remove it with that listener"),
    Property::new(GROUP, "unknown-rule", unknown)
        .asks("What does removing a rule that was never added bring?")
        .specification("org.freedesktop.DBus.RemoveMatch"),
    Property::new(GROUP, "invalid-rules", invalid).asks("How many of ten invalid rules are refused?"),
    Property::new(GROUP, "rule-follows-name", follows_name)
        .asks("Does a rule with a well-known sender follow the owner of the name?")
        .specification("Match Rules"),
    Property::new(GROUP, "eavesdropping", eavesdropping)
        .asks("Does a rule with eavesdrop='true' show messages for others, where the policy allows it?"),
];

const CLIENTS: usize = 12;
const RULES: usize = 150;
const SIGNALS: u32 = 500;
/// Signals between two moments at which all receivers read.
const BATCH: u32 = 50;

/// Deliveries that differ from what the rules say.
struct Compared {
    missed: Vec<String>,
    extra: Vec<String>,
    about: String,
}

fn missed(bus: &Bus<'_>) -> Result<Seen, Error> {
    let compared = compare(bus)?;
    Ok(verdict(&compared.missed, "missed", &compared.about))
}

fn extra(bus: &Bus<'_>) -> Result<Seen, Error> {
    let compared = compare(bus)?;
    Ok(verdict(&compared.extra, "extra", &compared.about))
}

fn verdict(wrong: &[String], word: &str, about: &str) -> Seen {
    let found = wrong.first().map(|first| format!("{} {word}, the first: {first}; {about}", wrong.len()));
    Seen::unless(found, about)
}

/// Who owns the one name of the experiment.
struct OneOwner {
    name: String,
    owner: String,
}

impl Owners for OneOwner {
    fn owns(&self, connection: &str, name: &str) -> bool {
        connection == self.owner && name == self.name
    }
}

/// Random rules and random signals; what each connection got, against what the specification says of its rules.
fn compare(bus: &Bus<'_>) -> Result<Compared, Error> {
    let mut random = Random(7);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::open(bus)).collect::<Result<_, _>>()?;
    let mut senders: Vec<Client> = (0..3).map(|_| Client::open(bus)).collect::<Result<_, _>>()?;
    let name = format!("org.weighbridge.Exam.R{}", std::process::id());
    let owners = OneOwner { name: name.clone(), owner: senders[1].name() };
    senders[1].request_name(&name, 0)?;
    let names: Vec<String> = senders.iter().map(Client::name).chain([name]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rules: Vec<Vec<(String, MatchRule)>> = vec![Vec::new(); CLIENTS];
    let mut refused = 0;
    for at in 0..RULES {
        // Signals of others on the same bus have no business here.
        let text = random.rule(Some(INTERFACE), &names);
        let parsed: MatchRule = text.parse().expect("a rule of the words above is valid");
        match clients[at % CLIENTS].add_rule(&text) {
            Ok(()) => rules[at % CLIENTS].push((text, parsed)),
            Err(Error::Refused { .. }) => refused += 1,
            Err(other) => return Err(other),
        }
    }
    let mut sent: HashMap<u32, Vec<u8>> = HashMap::new();
    for number in 0..SIGNALS {
        let sender = random.below(senders.len());
        let signal = random.signal(Some(INTERFACE), number);
        let name = senders[sender].name();
        senders[sender].send(&signal)?;
        sent.insert(number, signal.sender(&name).build(1).expect("a short message"));
        if number % BATCH == BATCH - 1 {
            // Their answers come behind the signals, which are read with them: nobody stalls.
            for client in senders.iter_mut().chain(&mut clients) {
                client.barrier()?;
            }
        }
    }
    for sender in &mut senders {
        sender.barrier()?;
    }
    let mut compared = Compared { missed: Vec::new(), extra: Vec::new(), about: String::new() };
    let mut deliveries = 0;
    for (client, rules) in clients.iter_mut().zip(&rules) {
        let got: BTreeSet<u32> = client.collect_ours()?.iter().filter_map(signal_number).collect();
        deliveries += got.len();
        for number in 0..SIGNALS {
            let matching = matching(&sent[&number], rules, &owners);
            let signal = || described(&sent[&number]);
            match (matching, got.contains(&number)) {
                (Some(rule), false) => compared.missed.push(format!("{rule} does not bring {}", signal())),
                (None, true) => {
                    let near = nearest(&sent[&number], rules, &owners);
                    let near = near.map_or(String::new(), |rule| format!("; the nearest is {rule}"));
                    compared.extra.push(format!("no rule of the connection matches {}{near}", signal()));
                }
                _ => {}
            }
        }
    }
    compared.about = format!(
        "{CLIENTS} connections, {} rules ({refused} more refused), {SIGNALS} signals, {deliveries} deliveries",
        RULES - refused
    );
    Ok(compared)
}

/// The first of the rules that matches.
fn matching<'a>(signal: &[u8], rules: &'a [(String, MatchRule)], owners: &OneOwner) -> Option<&'a str> {
    let header = Header::parse(signal).expect("was built here");
    let args: Vec<Arg<'_>> =
        Args::new(&header, &signal[header.header_bytes..]).map_while(Result::ok).collect();
    let found = rules.iter().find(|(_, rule)| rule.matches(&header, &args, owners));
    found.map(|(text, _)| text.as_str())
}

/// A rule that would match were it not for its arguments, or else for its path.
fn nearest<'a>(signal: &[u8], rules: &'a [(String, MatchRule)], owners: &OneOwner) -> Option<&'a str> {
    let header = Header::parse(signal).expect("was built here");
    let args: Vec<Arg<'_>> =
        Args::new(&header, &signal[header.header_bytes..]).map_while(Result::ok).collect();
    let without_path = |rule: &MatchRule| MatchRule { path: None, ..rule.clone() };
    let without_args = |rule: &MatchRule| MatchRule { args: Vec::new(), ..rule.clone() };
    let found = |looser: &dyn Fn(&MatchRule) -> MatchRule| {
        rules
            .iter()
            .find(|(_, rule)| looser(rule).matches(&header, &args, owners))
            .map(|(text, _)| text.as_str())
    };
    found(&without_args).or_else(|| found(&without_path))
}

fn described(signal: &[u8]) -> String {
    let header = Header::parse(signal).expect("was built here");
    let mut out = format!(
        "{} {} of {}",
        header.path.unwrap_or_default(),
        header.member.unwrap_or_default(),
        header.sender.unwrap_or_default()
    );
    for arg in Args::new(&header, &signal[header.header_bytes..]).map_while(Result::ok) {
        let _ = match arg {
            Arg::Text(text) => write!(out, " {text:?}"),
            Arg::Path(path) => write!(out, " path {path:?}"),
            _ => Ok(()),
        };
    }
    out
}

fn signal_number(message: &Message) -> Option<u32> {
    message.number(2)
}

fn overlapping(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut sender = Client::open(bus)?;
    let mut receiver = Client::listening(bus, &[&sender.name()])?;
    receiver.add_rule(&format!("interface='{INTERFACE}',path='{PATH}'"))?;
    receiver.add_rule(&format!("type='signal',interface='{INTERFACE}',member='Twice'"))?;
    sender.send(&broadcast("Twice"))?;
    sender.barrier()?;
    let got = receiver.collect_ours()?.len();
    Ok(Seen::unless((got != 1).then(|| format!("it came {got} times")), "three rules that match one signal"))
}

fn duplicate(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut sender = Client::open(bus)?;
    let rule = rule(&sender.name());
    let mut receiver = Client::open(bus)?;
    receiver.add_rule(&rule)?;
    receiver.add_rule(&rule)?;
    receiver.remove_rule(&rule)?;
    sender.send(&broadcast("Still"))?;
    sender.barrier()?;
    let got = receiver.collect_ours()?.len();
    let evidence = format!("AddMatch twice, RemoveMatch once, one signal; deliveries: {got}");
    Ok(if got == 1 { Seen::fine("counted", evidence) } else { Seen::broken("collapsed", evidence) })
}

fn unknown(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut client = Client::open(bus)?;
    Ok(match client.remove_rule("member='NeverAdded'") {
        Err(Error::Refused { name, .. }) if short(&name) == "MatchRuleNotFound" => {
            Seen::fine(short(&name), name.clone())
        }
        Err(Error::Refused { name, .. }) => Seen::broken(short(&name), name.clone()),
        Err(other) => return Err(other),
        Ok(()) => Seen::broken("accepted", "the driver answers as if the rule had been there"),
    })
}

fn invalid(bus: &Bus<'_>) -> Result<Seen, Error> {
    const INVALID: [&str; 10] = [
        "type='nothing'",
        "sender='no name'",
        "interface='nodots'",
        "member='a.b'",
        "path='not/absolute'",
        "path='/a',path_namespace='/a'",
        "arg64='x'",
        "arg0namespace='..'",
        "unheard='of'",
        "member='a',member='b'",
    ];
    let mut client = Client::open(bus)?;
    let mut accepted = Vec::new();
    for rule in INVALID {
        match client.add_rule(rule) {
            Ok(()) => accepted.push(rule),
            Err(Error::Refused { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    let refused = INVALID.len() - accepted.len();
    let evidence = if accepted.is_empty() {
        "all are refused".into()
    } else {
        format!("accepted: {}", accepted.join("; "))
    };
    Ok(Seen::fine(format!("{refused} of {}", INVALID.len()), evidence))
}

fn follows_name(bus: &Bus<'_>) -> Result<Seen, Error> {
    let name = format!("org.weighbridge.Exam.F{}", std::process::id());
    let mut owners = [Client::open(bus)?, Client::open(bus)?];
    // One rule from before the name had an owner, and one from when it had its first.
    let mut receivers = vec![Client::listening(bus, &[&name])?];
    for owner in 0..2 {
        owners[owner].request_name(&name, 0)?;
        if owner == 0 {
            receivers.push(Client::listening(bus, &[&name])?);
        }
        owners[owner].send(&broadcast("Owner"))?;
        owners[1 - owner].send(&broadcast("Other"))?;
        for owner in &mut owners {
            owner.barrier()?;
        }
        owners[owner].release_name(&name)?;
    }
    owners[0].send(&broadcast("Nobody"))?;
    owners[0].barrier()?;
    for (receiver, word) in receivers.iter_mut().zip(["before", "after"]) {
        let came = receiver.collect_ours()?;
        let members: Vec<&str> = came.iter().filter_map(|message| message.header().member).collect();
        if members != ["Owner", "Owner"] {
            let evidence = format!("a rule from {word} the first owner brought: {}", members.join(", "));
            return Ok(Seen::broken("broken", evidence));
        }
    }
    Ok(Seen::fine(
        "kept",
        "two owners in turn, each with a signal of its own and one of the other connection",
    ))
}

fn eavesdropping(bus: &Bus<'_>) -> Result<Seen, Error> {
    let mut sender = Client::open(bus)?;
    let meant = Client::open(bus)?;
    let mut curious = Client::open(bus)?;
    match curious.add_rule(&format!("eavesdrop='true',interface='{INTERFACE}'")) {
        Ok(()) => {}
        Err(Error::Refused { name, .. }) => return Ok(Seen::fine("refused", name)),
        Err(other) => return Err(other),
    }
    sender.send(&broadcast("Secret").destination(&meant.name()))?;
    sender.barrier()?;
    let got = curious.collect_ours()?.len();
    let evidence = format!("a signal for another connection; deliveries: {got}");
    Ok(Seen::fine(if got > 0 { "shown" } else { "not shown" }, evidence))
}
