//! What passes between connections and the driver, and what it changes.

use super::{Bus, DRIVER, RuleId};
use crate::symbols::Sym;
use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::{Arg, Args, Header, Kind, Leaf, names, walk};

/// Reply of `RequestName`: the caller is now the owner.
const PRIMARY_OWNER: u32 = 1;

/// What a connection asked the driver; the reply decides what it means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Name(Sym),
    /// A change of match rules, and the broadcasts that had passed before it.
    Change(Change, u64),
    Monitor,
    Owner(Sym),
    /// `GetConnectionUnixProcessID` or `GetConnectionCredentials`
    Process(Sym),
    Names,
    Rules,
}

/// A change of match rules. That of a rule that can be read is done already, and undone if it is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Add(RuleId),
    Remove(RuleId),
    /// Of a rule that cannot be read here; no text where the capture has none.
    AddUnreadable(Sym),
    /// Of one that cannot be read here, or that the connection does not have, as far as is known.
    RemoveUnknown,
}

/// The bus knows no such rule.
const RULE_NOT_FOUND: &str = "org.freedesktop.DBus.Error.MatchRuleNotFound";

pub(super) fn observe(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    let is_from_driver = header.sender == Some(DRIVER);
    match (header.kind, header.member) {
        (Kind::MethodCall, _) if header.destination == Some(DRIVER) => call(bus, header, body),
        (Kind::MethodReturn, _) if is_from_driver => reply(bus, header, body),
        (Kind::Error, _) if is_from_driver => refusal(bus, header),
        (Kind::Signal, Some("NameOwnerChanged")) if is_from_driver => owner_changed(bus, header, body),
        (Kind::Signal, Some("NameLost")) if is_from_driver => name_lost(bus, header, body),
        _ => {}
    }
}

fn call(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    let (Some(sender), Some(member)) = (header.sender, header.member) else { return };
    let caller = bus.names.symbols.add(sender);
    let arg = Args::new(header, body).first_text();
    let question = match (member, arg) {
        ("AddMatch", _) => Question::Change(added(bus, caller, arg), bus.broadcasts),
        ("RemoveMatch", _) => Question::Change(removed(bus, caller, arg), bus.broadcasts),
        ("RequestName", Some(name)) => Question::Name(bus.names.symbols.add(name)),
        ("GetNameOwner", Some(name)) => Question::Owner(bus.names.symbols.add(name)),
        ("GetConnectionUnixProcessID" | "GetConnectionCredentials", Some(name)) => {
            Question::Process(bus.names.symbols.add(name))
        }
        ("ListNames", _) => Question::Names,
        ("GetAllMatchRules", _) => {
            mark_as_capture(bus, caller);
            Question::Rules
        }
        ("Hello", _) => {
            bus.connections.entry(caller).or_default().rules_known = true;
            return;
        }
        ("BecomeMonitor", _) => {
            mark_as_capture(bus, caller);
            Question::Monitor
        }
        _ => return,
    };
    if !header.expects_reply() {
        if let Question::Monitor = question {
            bus.leave(sender);
        }
        return;
    }
    let earlier = bus.questions.insert((caller, header.serial), question);
    if let Some(Question::Change(..)) = earlier {
        bus.connections.entry(caller).or_default().unanswered += 1;
    }
}

fn added(bus: &mut Bus, caller: Sym, text: Option<&str>) -> Change {
    match text.map(str::parse::<MatchRule>) {
        Some(Ok(rule)) => Change::Add(bus.rules.add(caller, rule, &mut bus.names.symbols)),
        _ => {
            let text = bus.names.symbols.add_optional(text);
            bus.unreadable.entry((caller, text)).or_default().unanswered += 1;
            Change::AddUnreadable(text)
        }
    }
}

fn removed(bus: &mut Bus, caller: Sym, text: Option<&str>) -> Change {
    let rule = text.and_then(|text| text.parse().ok());
    let removed = rule.and_then(|rule| bus.rules.remove(caller, &rule));
    removed.map_or(Change::RemoveUnknown, Change::Remove)
}

fn mark_as_capture(bus: &mut Bus, caller: Sym) {
    if let Some(connection) = bus.connections.get_mut(&caller) {
        connection.is_capture = true;
    }
}

fn question(bus: &mut Bus, header: &Header<'_>) -> Option<(Sym, Option<Question>)> {
    let caller = bus.names.symbols.get(header.destination?)?;
    let serial = header.reply_serial?;
    Some((caller, bus.questions.remove(&(caller, serial))))
}

fn reply(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    let Some((caller, asked)) = question(bus, header) else { return };
    let first = Args::new(header, body).next();
    match asked {
        Some(Question::Name(name)) if matches!(first, Some(Ok(Arg::U32(PRIMARY_OWNER)))) => {
            let name = bus.names.symbols.text(name).to_owned();
            let owner = bus.names.symbols.text(caller).to_owned();
            bus.set_owner(&name, &owner);
        }
        Some(Question::Owner(name)) => {
            let name = bus.names.symbols.text(name).to_owned();
            if let Some(Ok(Arg::Text(owner))) = first
                && names::is_unique(owner)
                && name != owner
            {
                bus.set_owner(&name, owner);
            }
        }
        Some(Question::Process(name)) => set_process(bus, name, header, body),
        Some(Question::Names) => {
            let _ = walk(header, body, &mut |leaf, _| match leaf {
                Leaf::Text(name) if names::is_unique(name) => _ = bus.meet(name),
                _ => {}
            });
        }
        Some(Question::Rules) => all_rules(bus, header, body),
        Some(Question::Change(change, _)) => accepted(bus, caller, change),
        Some(Question::Monitor) => {
            let name = bus.names.symbols.text(caller).to_owned();
            bus.leave(&name);
        }
        // The reply of Hello is the caller's own name; nobody knew the caller when the call passed.
        None if matches!(first, Some(Ok(Arg::Text(name))) if Some(name) == header.destination) => {
            bus.connections.entry(caller).or_default().rules_known = true;
        }
        _ => {}
    }
}

/// The bus has done it: what it accepts exists, whether or not it can be read here.
fn accepted(bus: &mut Bus, caller: Sym, change: Change) {
    match change {
        Change::Add(_) | Change::Remove(_) => {}
        Change::AddUnreadable(text) => {
            let rule = bus.unreadable.entry((caller, text)).or_default();
            rule.unanswered = rule.unanswered.saturating_sub(1);
            rule.accepted += 1;
            bus.doubt(caller);
        }
        // Which rules are left is not known.
        Change::RemoveUnknown => bus.doubt(caller),
    }
}

fn refusal(bus: &mut Bus, header: &Header<'_>) {
    let Some((caller, Some(Question::Change(change, _)))) = question(bus, header) else { return };
    let error = header.error_name.unwrap_or_default();
    let rule = match change {
        Change::Add(rule) => {
            bus.rules.take_back(caller, rule);
            let text = bus.rules.rule(rule).to_string();
            bus.names.symbols.add(&text)
        }
        Change::AddUnreadable(text) => {
            let rule = bus.unreadable.entry((caller, text)).or_default();
            rule.unanswered = rule.unanswered.saturating_sub(1);
            text
        }
        // It never had the rule, although it seemed to.
        Change::Remove(_) if error == RULE_NOT_FOUND => return bus.doubt(caller),
        Change::Remove(rule) => return bus.rules.put_back(caller, rule, &mut bus.names.symbols),
        Change::RemoveUnknown => return,
    };
    let error = bus.names.symbols.add(error);
    *bus.refused.entry((caller, rule, error)).or_default() += 1;
}

/// The answer is a number, or a dictionary of credentials with it.
fn set_process(bus: &mut Bus, name: Sym, header: &Header<'_>, body: &[u8]) {
    let (mut key, mut pid) = ("", None);
    let _ = walk(header, body, &mut |leaf, depth| match leaf {
        Leaf::Text(text) => key = text,
        Leaf::Fixed(..) if depth == 0 || key == "ProcessID" => pid = pid.or(leaf.as_u32(header.endian)),
        _ => {}
    });
    let connection = bus.resolve(name);
    if let Some(connection) = bus.connections.get_mut(&connection)
        && pid.is_some_and(|pid| pid > 0)
    {
        connection.pid = pid;
    }
}

/// The rules of each connection, as the driver's answer to `GetAllMatchRules` lists them (`a{sas}`). Where it is cut, the last connection of
/// which something is there is left out.
pub fn listed_rules<'a>(header: &Header<'a>, body: &'a [u8]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut listed: Vec<(&str, Vec<&str>)> = Vec::new();
    let walked = walk(header, body, &mut |leaf, depth| match (leaf, depth) {
        (Leaf::Text(name), 2) => listed.push((name, Vec::new())),
        (Leaf::Text(rule), 3) => {
            if let Some((_, rules)) = listed.last_mut() {
                rules.push(rule);
            }
        }
        _ => {}
    });
    if walked.is_err() {
        listed.pop();
    }
    listed
}

/// A connection whose rules are known from its beginning keeps them.
fn all_rules(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    for (name, rules) in listed_rules(header, body) {
        let connection = bus.meet(name);
        if std::mem::replace(&mut connection.rules_known, true) {
            continue;
        }
        connection.was_listed = true;
        let connection = bus.names.symbols.add(name);
        bus.rules.remove_connection(connection);
        bus.unreadable.retain(|(holder, _), _| *holder != connection);
        for text in rules {
            match text.parse::<MatchRule>() {
                Ok(rule) => _ = bus.rules.add(connection, rule, &mut bus.names.symbols),
                Err(_) => {
                    let text = bus.names.symbols.add(text);
                    bus.unreadable.entry((connection, text)).or_default().accepted += 1;
                    bus.doubt(connection);
                }
            }
        }
    }
}

/// A connection that never said anything loses its unique name: it became a monitor before its own messages were recorded,
/// so it is what recorded them.
fn name_lost(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    if let Some(name) = Args::new(header, body).first_text().filter(|name| Some(*name) == header.destination)
        && let Some(sym) = bus.names.symbols.get(name)
        && let Some(connection) = bus.connections.get_mut(&sym)
    {
        connection.is_capture |= !connection.has_sent;
    }
}

fn owner_changed(bus: &mut Bus, header: &Header<'_>, body: &[u8]) {
    let args: Vec<&str> = Args::new(header, body).texts().collect();
    let [name, old, new] = args[..] else { return };
    if !name.starts_with(':') {
        bus.set_owner(name, new);
    } else if new.is_empty() {
        bus.leave(old);
    } else if names::is_unique(new) {
        let connection = bus.meet(new);
        connection.rules_known = true;
        connection.is_gone = false;
    }
}
