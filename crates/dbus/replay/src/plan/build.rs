//! From the messages of a capture to the steps of a plan, in one pass in the order of the capture.
//!
//! What makes a message wait: everything that its sender was to receive before it in the capture; the owner of the name that
//! it goes to; of a broadcast, all changes of rules before it; of such a change, the arrival of all broadcasts before
//! it. A connection begins when every step before it was taken, because what started it is not known.

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind, names};
use rustc_hash::FxHashMap;
use weighbridge_dbus_traffic::bus::{Bus, listed_rules};

use super::names::Names;
use super::{Action, Connection, Destination, Item, LeftOut, Plan, Step, Wait};
use crate::tape::{HAS_NAME, Index, State, Tape};

/// The sender of a connection that has not said Hello yet, in captures of dbus-daemon.
const NOT_YET: &str = ":not.active.yet";
/// Calls to the driver that reach beyond the connections of the plan.
const ADMINISTRATION: [&str; 4] =
    ["BecomeMonitor", "ReloadConfig", "StartServiceByName", "UpdateActivationEnvironment"];
/// Calls to the driver whose moment matters to the messages of others.
const CHANGES: [&str; 4] = ["AddMatch", "RemoveMatch", "RequestName", "ReleaseName"];

/// The plan of a capture.
pub fn plan(tape: Tape) -> Plan {
    let headers = tape.headers();
    let mut building = Building::new(&tape, &headers);
    for at in 0..headers.len() {
        building.message(at);
    }
    let Building { mut plan, names, hellos, bus, .. } = building;
    plan.counts.unreadable_rules = bus.coverage().unreadable_rules;
    let invalid = tape.packets - tape.messages.len() as u64;
    // What the player sends is the steps of the plan: a Hello for each connection that begins, whether the capture has it or not.
    let is = |of: fn(&Action) -> bool| plan.steps.iter().filter(|step| of(&step.action)).count() as u64;
    let begun = is(|action| matches!(action, Action::Connect));
    plan.counts.sent = begun + is(|action| matches!(action, Action::Send { .. }));
    let futile = hellos.saturating_sub(begun);
    for (why, count) in
        [(LeftOut::Invalid, invalid), (LeftOut::Stranger, names.deferred() as u64), (LeftOut::Hello, futile)]
    {
        if count > 0 {
            *plan.counts.left_out.entry(why).or_default() += count;
        }
    }
    plan.counts.captured = tape.packets;
    plan.queues = vec![Vec::new(); plan.connections.len()];
    for (id, step) in plan.steps.iter().enumerate() {
        plan.queues[step.from].push(id);
    }
    Plan { names: names.all(), bytes: tape.bytes, ..plan }
}

/// A plan in the making, and the bus of the capture at the message that is looked at.
pub(super) struct Building<'a> {
    tape: &'a Tape,
    pub(super) headers: &'a [Header<'a>],
    pub(super) index: Index<'a>,
    pub(super) ids: FxHashMap<&'a str, usize>,
    pub(super) has_left: Vec<bool>,
    pub(super) names: Names<'a>,
    bus: Bus,
    /// Of each call that is sent, its step.
    pub(super) step_of: FxHashMap<usize, usize>,
    /// Rules that connections from before added before the driver listed all rules.
    added: FxHashMap<usize, Vec<&'a str>>,
    plan: Plan,
    /// Calls of Hello in the capture.
    hellos: u64,
}

impl<'a> Building<'a> {
    fn new(tape: &'a Tape, headers: &'a [Header<'a>]) -> Building<'a> {
        let mut building = Building {
            tape,
            headers,
            index: Index::new(tape, headers),
            ids: FxHashMap::default(),
            has_left: Vec::new(),
            names: Names::default(),
            bus: Bus::new(),
            step_of: FxHashMap::default(),
            added: FxHashMap::default(),
            plan: Plan::default(),
            hellos: 0,
        };
        for (name, owner) in building.index.first_owners.clone() {
            let owner = building.meet(owner);
            building.names.get(name).give(owner, Vec::new());
            building.plan.setup.names.push((owner, name.into()));
        }
        building
    }

    fn message(&mut self, at: usize) {
        let header = &self.headers[at];
        self.bus.observe(header, self.tape.body(at, header));
        match header.sender {
            Some(DRIVER) => {
                self.plan.counts.of_driver += 1;
                self.driver_sent(at, header);
            }
            Some(sender) if names::is_unique(sender) && sender != NOT_YET => self.sent(at, header, sender),
            _ if header.member == Some("Hello") => self.hellos += 1,
            _ => self.leave_out(LeftOut::BeforeHello),
        }
    }

    fn leave_out(&mut self, why: LeftOut) {
        *self.plan.counts.left_out.entry(why).or_default() += 1;
    }

    /// A connection that is there, since when is not known.
    pub(super) fn meet(&mut self, name: &'a str) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.add_connection(name, true)
    }

    fn add_connection(&mut self, name: &'a str, is_from_before: bool) -> usize {
        let id = self.plan.connections.len();
        self.ids.insert(name, id);
        self.has_left.push(false);
        self.plan.connections.push(Connection { name: name.into(), is_from_before });
        self.plan.inboxes.push(vec![Item { step: None, is_soft: false }]);
        id
    }

    /// A connection begins with this message.
    fn begin(&mut self, name: &'a str, at: usize) {
        if self.ids.contains_key(name) {
            return;
        }
        let id = self.add_connection(name, false);
        let waits = vec![Wait::Steps(self.plan.steps.len())];
        let step = self.add_step(at, id, Action::Connect, waits);
        self.plan.inboxes[id][0].step = Some(step);
        self.plan.steps[step].deliveries.push((id, 0));
    }

    fn add_step(&mut self, at: usize, from: usize, action: Action, waits: Vec<Wait>) -> usize {
        let message = &self.tape.messages[at];
        let start_ns = self.tape.messages[0].time_ns;
        // A clock that was set back makes nothing wait.
        let due_ns = message.time_ns.saturating_sub(start_ns);
        self.plan.steps.push(Step {
            number: message.number,
            due_ns,
            from,
            action,
            at: message.at.clone(),
            waits,
            deliveries: Vec::new(),
            reply: None,
            is_granted: false,
            answered_by: None,
            owns: false,
        });
        self.plan.steps.len() - 1
    }

    /// Everything that a connection was to receive up to now.
    pub(super) fn inbox(&self, connection: usize) -> Wait {
        Wait::Inbox(connection, self.plan.inboxes[connection].len())
    }

    fn expect(&mut self, connection: usize, step: usize, is_soft: bool) -> usize {
        self.plan.inboxes[connection].push(Item { step: Some(step), is_soft });
        self.plan.inboxes[connection].len() - 1
    }

    /// A connection receives what a step sends.
    fn deliver(&mut self, step: usize, to: usize, is_soft: bool) -> usize {
        let place = self.expect(to, step, is_soft);
        self.plan.steps[step].deliveries.push((to, place));
        place
    }

    fn driver_sent(&mut self, at: usize, header: &Header<'a>) {
        let texts = self.tape.texts(at, header);
        match (header.kind, header.member, texts.as_slice()) {
            (Kind::Signal, Some("NameOwnerChanged"), &[name, old, ""]) if name.starts_with(':') => {
                self.leave(old, at);
            }
            (Kind::Signal, Some("NameOwnerChanged"), &[name, _, new]) if name.starts_with(':') => {
                self.begin(new, at);
            }
            (Kind::Signal, Some("NameOwnerChanged"), &[name, old, new]) => self.owner_changed(name, old, new),
            (Kind::Signal, Some("NameAcquired"), &[name]) if header.destination == Some(name) => {
                self.begin(name, at);
            }
            (Kind::MethodReturn, _, &[name]) if header.destination == Some(name) => self.begin(name, at),
            (Kind::MethodReturn, ..) if header.signature == "a{sas}" => self.listed(at, header),
            _ => {}
        }
    }

    fn leave(&mut self, name: &'a str, at: usize) {
        let Some(&id) = self.ids.get(name) else { return };
        if std::mem::replace(&mut self.has_left[id], true) {
            return;
        }
        let waits = vec![self.inbox(id)];
        let step = self.add_step(at, id, Action::Leave, waits);
        let gone = self.deliver(step, id, false);
        self.names.leave(id, Wait::Inbox(id, gone + 1));
    }

    fn owner_changed(&mut self, name: &'a str, old: &'a str, new: &'a str) {
        if new.is_empty() {
            return self.names.get(name).free();
        }
        let new = self.meet(new);
        if self.names.get(name).owner != Some(new) {
            let mut ready = vec![self.inbox(new)];
            ready.extend(self.ids.get(old).map(|old| self.inbox(*old)));
            self.names.get(name).give(new, ready);
        }
    }

    /// Rules of connections from before.
    fn listed(&mut self, at: usize, header: &Header<'a>) {
        let all = listed_rules(header, self.tape.body(at, header));
        for (name, rules) in all.into_iter().filter(|(_, rules)| !rules.is_empty()) {
            if self.index.begun.contains(name) {
                continue;
            }
            let id = self.meet(name);
            let added = self.added.entry(id).or_default();
            for rule in rules {
                match added.iter().position(|known| *known == rule) {
                    Some(known) => drop(added.swap_remove(known)),
                    None => self.plan.setup.rules.push((id, rule.into())),
                }
            }
        }
    }

    fn sent(&mut self, at: usize, header: &Header<'a>, sender: &'a str) {
        if header.destination == Some(DRIVER) && header.member == Some("Hello") {
            self.hellos += 1;
            return self.begin(sender, at);
        }
        let from = self.meet(sender);
        let state = self.tape.messages[at].state;
        let to_driver = header.destination == Some(DRIVER);
        if self.has_left[from] {
            return self.leave_out(LeftOut::Stranger);
        }
        if header.unix_fds > 0 {
            return self.leave_out(LeftOut::Descriptors);
        }
        if state == State::Cut || state == State::Filled && to_driver {
            return self.leave_out(LeftOut::Cut);
        }
        match header.kind {
            Kind::Other(_) => self.leave_out(LeftOut::UnknownType),
            Kind::MethodCall if to_driver => self.ask_driver(at, header, from),
            Kind::Signal if header.destination.is_none() => self.broadcast(at, header, from),
            _ => match header.destination {
                Some(to) if to != DRIVER => self.send_to(at, header, from, to),
                _ => self.leave_out(LeftOut::Stranger),
            },
        }
    }

    fn add_message(&mut self, at: usize, from: usize, action: Action, mut waits: Vec<Wait>) -> usize {
        waits.insert(0, self.inbox(from));
        let step = self.add_step(at, from, action, waits);
        self.step_of.insert(at, step);
        self.plan.counts.filled += u64::from(self.tape.messages[at].state == State::Filled);
        step
    }

    fn ask_driver(&mut self, at: usize, header: &Header<'a>, from: usize) {
        let member = header.member.unwrap_or_default();
        if ADMINISTRATION.contains(&member) {
            return self.leave_out(LeftOut::Administration);
        }
        let is_change = CHANGES.contains(&member);
        let is_rule = is_change && member.ends_with("Match");
        let first = self.tape.texts(at, header).first().copied();
        let name = first.filter(|name| is_change && !is_rule && names::is_well_known(name));
        let answer = self.index.answer.get(&at).map(|answer| (&self.headers[*answer], *answer));
        let answered = answer.and_then(|(header, answer)| self.tape.number(answer, header));
        let mut flags = header.flags;
        if is_change && flags & FLAG_NO_REPLY_EXPECTED != 0 {
            flags &= !FLAG_NO_REPLY_EXPECTED;
            self.plan.counts.confirmed += 1;
        }
        let mut waits = self.named(first, is_rule);
        if is_rule {
            waits.push(Wait::Broadcasts(self.plan.broadcasts.len()));
        }
        if let Some(name) = name {
            let name = self.names.get(name);
            waits.extend(name.asked());
            let latest = name.latest();
            waits.extend(latest.map(|connection| self.inbox(connection)));
        }
        let send = Action::Send { flags, to: Destination::AsCaptured, answers: None };
        let step = self.add_message(at, from, send, waits);
        if flags & FLAG_NO_REPLY_EXPECTED != 0 {
            return;
        }
        let reply = self.expect(from, step, false);
        self.plan.steps[step].reply = Some(reply);
        self.plan.steps[step].is_granted =
            answer.is_some_and(|(header, _)| header.kind == Kind::MethodReturn);
        if is_rule {
            self.plan.rule_changes.push((from, reply));
            let is_from_before = self.plan.connections[from].is_from_before;
            if let Some(rule) = first.filter(|_| is_from_before && member == "AddMatch") {
                self.added.entry(from).or_default().push(rule);
            }
        }
        let Some(name) = name else { return };
        let is_owner = self.names.get(name).owner;
        match member {
            "RequestName"
                if answer.map_or(is_owner.is_none(), |_| answered.is_some_and(|a| HAS_NAME.contains(&a))) =>
            {
                self.plan.steps[step].owns = true;
                let ready = vec![Wait::Inbox(from, reply + 1)];
                if is_owner != Some(from) {
                    self.names.get(name).give(from, ready);
                }
                for deferred in std::mem::take(&mut self.names.get(name).deferred) {
                    self.started(deferred, name);
                }
            }
            "ReleaseName" if is_owner == Some(from) && answered.is_none_or(|answered| answered == 1) => {
                self.names.get(name).free();
            }
            _ => {}
        }
    }

    /// A call that started its destination, which now has its name.
    fn started(&mut self, at: usize, name: &'a str) {
        let header = &self.headers[at];
        match header.sender.and_then(|sender| self.ids.get(sender)).copied() {
            Some(from) if !self.has_left[from] => {
                self.plan.counts.starting += 1;
                self.send_to(at, header, from, name);
            }
            _ => self.leave_out(LeftOut::Stranger),
        }
    }

    fn broadcast(&mut self, at: usize, header: &Header<'a>, from: usize) {
        let waits = vec![Wait::Rules(self.plan.rule_changes.len())];
        let send = Action::Send { flags: header.flags, to: Destination::AsCaptured, answers: None };
        let step = self.add_message(at, from, send, waits);
        let names = self.bus.recipients(header, self.tape.body(at, header));
        let mut recipients: Vec<usize> =
            names.into_iter().filter_map(|name| self.ids.get(name).copied()).collect();
        recipients.retain(|recipient| !self.has_left[*recipient]);
        recipients.sort_unstable();
        for recipient in recipients {
            self.deliver(step, recipient, true);
            self.plan.counts.broadcast_deliveries += 1;
        }
        self.plan.broadcasts.push(step);
    }

    fn send_to(&mut self, at: usize, header: &Header<'a>, from: usize, to: &'a str) {
        let route = match header.kind {
            Kind::MethodReturn | Kind::Error => self.route_of_answer(at, to),
            _ => self.route(at, to),
        };
        let route = match route {
            Ok(Some(route)) => route,
            Ok(None) => return,
            Err(why) => return self.leave_out(why),
        };
        let call = self.index.call.get(&at).and_then(|call| self.step_of.get(call)).copied();
        // No program is started for a replay.
        let flags = header.flags | if header.kind == Kind::MethodCall { FLAG_NO_AUTO_START } else { 0 };
        let send = Action::Send { flags, to: route.to, answers: call };
        let step = self.add_message(at, from, send, route.waits);
        if let Some((to, is_soft)) = route.arrives {
            self.deliver(step, to, is_soft);
        }
        if let Some(call) = call {
            self.plan.steps[call].answered_by.get_or_insert(step);
        }
        if route.driver_answers && header.expects_reply() {
            let place = self.expect(from, step, true);
            self.plan.steps[step].reply = Some(place);
            if names::is_well_known(to) {
                self.names.get(to).ask(from, place);
            }
        }
    }
}
