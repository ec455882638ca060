//! What the small bus does with messages, and where its faults are.

use std::collections::{BTreeMap, HashMap, HashSet};

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, Kind, walk};

use super::{Fault, Peer};

pub struct Router {
    fault: Fault,
    pub(super) peers: BTreeMap<usize, Peer>,
    /// The owner of each well-known name, and those that wait for it.
    names: HashMap<String, Vec<usize>>,
    /// Open calls: caller, serial, callee.
    open: HashSet<(usize, u32, usize)>,
    added: u64,
    serial: u32,
}

impl Owners for Router {
    fn owns(&self, connection: &str, name: &str) -> bool {
        self.owner(name).is_some_and(|owner| self.peers[&owner].name == connection)
    }
}

/// The same message from `sender`.
fn forwarded(header: &Header<'_>, body: &[u8], sender: &str) -> Vec<u8> {
    let body = Body::marshalled(header.endian, header.signature, body);
    Builder::like(header).sender(sender).body(body).build(header.serial).unwrap()
}

impl Router {
    pub fn new(fault: Fault) -> Router {
        let (peers, names, open) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        Router { fault, peers, names, open, added: 0, serial: 0 }
    }

    pub(super) fn peer(&mut self, at: usize) -> &mut Peer {
        self.peers.get_mut(&at).unwrap()
    }

    fn put(&mut self, to: usize, message: &[u8]) {
        self.peer(to).output.extend(message);
    }

    fn owner(&self, name: &str) -> Option<usize> {
        self.names.get(name)?.first().copied()
    }

    pub fn dispatch(&mut self, from: usize, bytes: &[u8]) {
        let passes_invalid = self.fault == Fault::PassesInvalid;
        let own = self.peer(from).name.clone();
        let Ok(header) = Header::parse(bytes) else {
            // To the destination, whatever it is.
            let mut others = self.peers.iter().filter(|(_, peer)| !peer.name.is_empty() && peer.name != own);
            let to = others.find(|(_, peer)| contains(bytes, peer.name.as_bytes())).map(|(to, _)| *to);
            match to.filter(|_| passes_invalid) {
                Some(to) => self.put(to, bytes),
                None => self.peer(from).is_gone |= !passes_invalid,
            }
            return;
        };
        let body = &bytes[header.header_bytes..];
        let is_valid = walk(&header, body, &mut |_, _| {}).is_ok();
        let is_hello = header.member == Some("Hello") && header.destination == Some(DRIVER);
        let is_known = !own.is_empty() || is_hello || self.fault == Fault::SkipsHello;
        if !(is_valid || passes_invalid) || !is_known {
            self.peer(from).is_gone = true;
        } else if header.destination == Some(DRIVER) {
            self.driver(from, &header, body);
        } else {
            let claimed = header.sender.filter(|_| self.fault == Fault::TrustsSender);
            self.route(from, &forwarded(&header, body, claimed.unwrap_or(&own)));
        }
    }

    fn route(&mut self, from: usize, message: &[u8]) {
        let header = Header::parse(message).unwrap();
        let Some(destination) = header.destination else { return self.broadcast(message) };
        let unique = || self.peers.iter().find(|(_, peer)| peer.name == destination).map(|(at, _)| *at);
        let Some(to) = self.owner(destination).or_else(unique) else {
            if header.kind == Kind::MethodCall {
                self.say(from, Builder::error(header.serial, "org.freedesktop.DBus.Error.ServiceUnknown"));
            }
            return;
        };
        match header.kind {
            Kind::MethodCall if header.expects_reply() => {
                self.open.insert((from, header.serial, to));
            }
            Kind::MethodReturn | Kind::Error => {
                let was_open = self.open.remove(&(to, header.reply_serial.unwrap_or(0), from));
                if !was_open && self.fault != Fault::PassesReplies {
                    return;
                }
            }
            Kind::Signal if self.fault == Fault::ShowsDirected => {
                self.matching(message).into_iter().for_each(|at| self.put(at, message));
            }
            _ => {}
        }
        self.put(to, message);
    }

    /// The connections with a rule that matches a message; with `Fault::RepeatsForEachRule`, one entry for each such rule.
    fn matching(&self, message: &[u8]) -> Vec<usize> {
        let header = Header::parse(message).unwrap();
        let body = &message[header.header_bytes..];
        let args: Vec<Arg<'_>> = Args::new(&header, body).map_while(Result::ok).collect();
        let is_match = |rule: &MatchRule| match self.fault {
            Fault::IgnoresArguments => {
                MatchRule { args: Vec::new(), ..rule.clone() }.matches(&header, &args, self)
            }
            _ => rule.matches(&header, &args, self),
        };
        let mut found: Vec<usize> = Vec::new();
        for (at, peer) in &self.peers {
            let count = peer.rules.iter().filter(|rule| is_match(rule)).count();
            let times = if self.fault == Fault::RepeatsForEachRule { count } else { count.min(1) };
            found.extend(std::iter::repeat_n(*at, times));
        }
        found
    }

    fn broadcast(&mut self, message: &[u8]) {
        let monitors = self.peers.iter().filter(|(_, peer)| peer.is_monitor).map(|(at, _)| *at);
        let to: Vec<usize> = self.matching(message).into_iter().chain(monitors).collect();
        to.into_iter().for_each(|to| self.put(to, message));
    }

    /// The driver says something to one connection.
    fn say(&mut self, to: usize, message: Builder<'_>) {
        self.serial += 1;
        let name = self.peer(to).name.clone();
        let message = message.sender(DRIVER);
        let message = if name.is_empty() { message } else { message.destination(&name) };
        self.put(to, &message.build(self.serial).unwrap());
    }

    fn owner_changed(&mut self, name: &str, old: &str, new: &str) {
        self.serial += 1;
        let body = Body::default().text(name).text(old).text(new);
        let signal = Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged").sender(DRIVER);
        self.broadcast(&signal.body(body).build(self.serial).unwrap());
    }

    fn driver(&mut self, from: usize, header: &Header<'_>, body: &[u8]) {
        let args: Vec<Arg<'_>> = Args::new(header, body).map_while(Result::ok).collect();
        let text = match args.first() {
            Some(Arg::Text(text)) => *text,
            _ => "",
        };
        let ok = || Builder::reply(header.serial);
        let error = |name| Builder::error(header.serial, name);
        let answer = match header.member.unwrap_or_default() {
            "Hello" if !self.peer(from).name.is_empty() => error("org.freedesktop.DBus.Error.Failed"),
            "Hello" => {
                let name = format!(":1.{from}");
                self.peer(from).name.clone_from(&name);
                self.say(from, ok().body(Body::default().text(&name)));
                self.owner_changed(&name, "", &name);
                return;
            }
            "AddMatch" => match text.parse::<MatchRule>() {
                Ok(rule) => {
                    self.add(from, rule);
                    ok()
                }
                Err(_) => error("org.freedesktop.DBus.Error.MatchRuleInvalid"),
            },
            "RemoveMatch" => {
                let rule = text.parse::<MatchRule>().unwrap_or_default();
                let accepts_any = self.fault == Fault::AcceptsAnyRemoval;
                let rules = &mut self.peer(from).rules;
                let held = rules.iter().position(|held| *held == rule).map(|at| rules.remove(at));
                if held.is_some() || accepts_any {
                    ok()
                } else {
                    error("org.freedesktop.DBus.Error.MatchRuleNotFound")
                }
            }
            "BecomeMonitor" => {
                let peer = self.peer(from);
                peer.is_monitor = true;
                peer.rules.clear();
                ok()
            }
            "RequestName" => {
                let queue = self.names.entry(text.into()).or_default();
                queue.push(from);
                let is_owner = queue.len() == 1;
                if is_owner {
                    let own = self.peer(from).name.clone();
                    self.owner_changed(text, "", &own);
                }
                ok().body(Body::default().u32(if is_owner { 1 } else { 2 }))
            }
            "ReleaseName" => {
                self.give_up(from, text);
                ok().body(Body::default().u32(1))
            }
            _ => ok().body(Body::default().text("0123456789abcdef0123456789abcdef")),
        };
        self.say(from, answer);
    }

    fn add(&mut self, to: usize, mut rule: MatchRule) {
        self.added += 1;
        if self.fault == Fault::ForgetsMatches && self.added.is_multiple_of(10) {
            return;
        }
        if self.fault == Fault::FreezesNames
            && let Some(owner) = rule.sender.as_ref().and_then(|name| self.owner(name))
        {
            rule.sender = Some(self.peer(owner).name.clone());
        }
        let collapses = self.fault == Fault::CollapsesRules;
        let rules = &mut self.peer(to).rules;
        if !collapses || !rules.contains(&rule) {
            rules.push(rule);
        }
    }

    fn give_up(&mut self, from: usize, name: &str) {
        let Some(queue) = self.names.get_mut(name) else { return };
        let was_owner = queue.first() == Some(&from);
        queue.retain(|waiting| *waiting != from);
        let next = queue.first().copied();
        if queue.is_empty() {
            self.names.remove(name);
        }
        if was_owner {
            let of = |at: usize| self.peers[&at].name.clone();
            let (old, new) = (of(from), next.map(of).unwrap_or_default());
            self.owner_changed(name, &old, &new);
        }
    }

    pub fn leave(&mut self, from: usize) {
        let names: Vec<String> = self.names.keys().cloned().collect();
        for name in names {
            self.give_up(from, &name);
        }
        let name = self.peers.remove(&from).unwrap().name;
        if !name.is_empty() {
            self.owner_changed(&name, &name, "");
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
