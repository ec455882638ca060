//! Which broadcasts match rules bring.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use causeway_bus::client::Error;
use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::{Arg, Args, Header};

use crate::client::{Client, INTERFACE, PATH, broadcast, refusal, rule, short, well_known};
use crate::property::{Answer, Bus, Property, Seen};

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

fn missed(bus: &Bus<'_>) -> Answer {
    let Compared { missed, about, .. } = compare(bus)?;
    Ok(verdict(&missed, "missed", &about))
}

fn extra(bus: &Bus<'_>) -> Answer {
    let Compared { extra, about, .. } = compare(bus)?;
    Ok(verdict(&extra, "extra", &about))
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
    let mut clients: [Client; CLIENTS] = Client::several(bus)?;
    let mut senders: [Client; 3] = Client::several(bus)?;
    let owners = OneOwner { name: well_known("R"), owner: senders[1].name() };
    senders[1].request_name(&owners.name, 0)?;
    let unique = senders.each_ref().map(Client::name);
    let names: Vec<&str> = unique.iter().chain([&owners.name]).map(String::as_str).collect();
    let mut rules: [Vec<MatchRule>; CLIENTS] = Default::default();
    let mut refused = 0;
    for at in 0..RULES {
        // Signals of others on the same bus have no business here.
        let text = random.rule(Some(INTERFACE), &names);
        match refusal(clients[at % CLIENTS].add_rule(&text))? {
            None => rules[at % CLIENTS].push(text.parse().expect("a rule of the words above is valid")),
            Some(_) => refused += 1,
        }
    }
    let mut sent: HashMap<u32, Vec<u8>> = HashMap::new();
    for number in 0..SIGNALS {
        let sender = random.below(senders.len());
        let signal = random.signal(Some(INTERFACE), number);
        senders[sender].send(&signal)?;
        sent.insert(number, signal.sender(&unique[sender]).build(1).expect("a short message"));
        if number % BATCH == BATCH - 1 {
            // Their answers come behind the signals, which are read with them: nobody stalls.
            senders.iter_mut().chain(&mut clients).try_for_each(Client::barrier)?;
        }
    }
    let mut compared = Compared { missed: Vec::new(), extra: Vec::new(), about: String::new() };
    let mut deliveries = 0;
    for (client, rules) in clients.iter_mut().zip(&rules) {
        let came = client.collect_ours()?;
        let got: BTreeSet<u32> = came.iter().filter_map(|message| message.number(2)).collect();
        deliveries += got.len();
        for number in 0..SIGNALS {
            let signal = Signal::of(&sent[&number]);
            match (signal.first_match(rules, &owners, |rule| rule), got.contains(&number)) {
                (Some(rule), false) => {
                    compared.missed.push(format!("{rule} does not bring {}", signal.words()));
                }
                (None, true) => {
                    let near = signal.nearest(rules, &owners);
                    let near = near.map_or(String::new(), |rule| format!("; the nearest is {rule}"));
                    compared
                        .extra
                        .push(format!("no rule of the connection matches {}{near}", signal.words()));
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

/// A signal as it was sent.
struct Signal<'a> {
    header: Header<'a>,
    args: Vec<Arg<'a>>,
}

impl<'a> Signal<'a> {
    fn of(bytes: &'a [u8]) -> Signal<'a> {
        let header = Header::parse(bytes).expect("was built here");
        Signal { header, args: Args::of(bytes).map_while(Result::ok).collect() }
    }

    /// The first of the rules that matches when it is taken as `as_if`.
    fn first_match<'r>(
        &self,
        rules: &'r [MatchRule],
        owners: &OneOwner,
        as_if: impl Fn(MatchRule) -> MatchRule,
    ) -> Option<&'r MatchRule> {
        rules.iter().find(|rule| as_if((*rule).clone()).matches(&self.header, &self.args, owners))
    }

    /// A rule that would match were it not for its arguments, or else for its path.
    fn nearest<'r>(&self, rules: &'r [MatchRule], owners: &OneOwner) -> Option<&'r MatchRule> {
        let without_args = |rule| MatchRule { args: Vec::new(), ..rule };
        let without_path = |rule| MatchRule { path: None, ..rule };
        self.first_match(rules, owners, without_args)
            .or_else(|| self.first_match(rules, owners, without_path))
    }

    fn words(&self) -> String {
        let Header { path, member, sender, .. } = self.header;
        let [path, member, sender] = [path, member, sender].map(Option::unwrap_or_default);
        let mut out = format!("{path} {member} of {sender}");
        for arg in &self.args {
            let _ = match arg {
                Arg::Text(text) => write!(out, " {text:?}"),
                Arg::Path(path) => write!(out, " path {path:?}"),
                _ => Ok(()),
            };
        }
        out
    }
}

/// How many times a receiver with these rules gets one signal of a sender.
fn deliveries(sender: &mut Client, receiver: &mut Client, member: &str) -> Result<usize, Error> {
    sender.send(&broadcast(member))?;
    sender.barrier()?;
    Ok(receiver.collect_ours()?.len())
}

fn overlapping(bus: &Bus<'_>) -> Answer {
    let mut sender = Client::open(bus)?;
    let mut receiver = Client::listening(bus, &[sender.unique_name()])?;
    receiver.add_rule(&format!("interface='{INTERFACE}',path='{PATH}'"))?;
    receiver.add_rule(&format!("type='signal',interface='{INTERFACE}',member='Twice'"))?;
    let got = deliveries(&mut sender, &mut receiver, "Twice")?;
    Ok(Seen::unless((got != 1).then(|| format!("it came {got} times")), "three rules that match one signal"))
}

fn duplicate(bus: &Bus<'_>) -> Answer {
    let mut sender = Client::open(bus)?;
    let name = sender.name();
    let mut receiver = Client::listening(bus, &[&name, &name])?;
    receiver.remove_rule(&rule(&name))?;
    let got = deliveries(&mut sender, &mut receiver, "Still")?;
    let evidence = format!("AddMatch twice, RemoveMatch once, one signal; deliveries: {got}");
    Ok(if got == 1 { Seen::fine("counted", evidence) } else { Seen::broken("collapsed", evidence) })
}

fn unknown(bus: &Bus<'_>) -> Answer {
    Ok(match refusal(Client::open(bus)?.remove_rule("member='NeverAdded'"))? {
        Some(name) if short(&name) == "MatchRuleNotFound" => Seen::fine(short(&name), name.clone()),
        Some(name) => Seen::broken(short(&name), name.clone()),
        None => Seen::broken("accepted", "the driver answers as if the rule had been there"),
    })
}

fn invalid(bus: &Bus<'_>) -> Answer {
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
        if refusal(client.add_rule(rule))?.is_none() {
            accepted.push(rule);
        }
    }
    let evidence = match &accepted[..] {
        [] => "all are refused".into(),
        some => format!("accepted: {}", some.join("; ")),
    };
    Ok(Seen::fine(format!("{} of {}", INVALID.len() - accepted.len(), INVALID.len()), evidence))
}

fn follows_name(bus: &Bus<'_>) -> Answer {
    let name = well_known("F");
    let mut owners: [Client; 2] = Client::several(bus)?;
    // One rule from before the name had an owner, and one from when it had its first.
    let mut receivers = vec![Client::listening(bus, &[&name])?];
    for owner in 0..2 {
        owners[owner].request_name(&name, 0)?;
        if owner == 0 {
            receivers.push(Client::listening(bus, &[&name])?);
        }
        owners[owner].send(&broadcast("Owner"))?;
        owners[1 - owner].send(&broadcast("Other"))?;
        owners.iter_mut().try_for_each(Client::barrier)?;
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
    let evidence = "two owners in turn, each with a signal of its own and one of the other connection";
    Ok(Seen::fine("kept", evidence))
}

fn eavesdropping(bus: &Bus<'_>) -> Answer {
    let [mut sender, meant, mut curious] = Client::several(bus)?;
    if let Some(name) = refusal(curious.add_rule(&format!("eavesdrop='true',interface='{INTERFACE}'")))? {
        return Ok(Seen::fine("refused", name));
    }
    sender.send(&broadcast("Secret").destination(meant.unique_name()))?;
    sender.barrier()?;
    let got = curious.collect_ours()?.len();
    let evidence = format!("a signal for another connection; deliveries: {got}");
    Ok(Seen::fine(if got > 0 { "shown" } else { "not shown" }, evidence))
}
