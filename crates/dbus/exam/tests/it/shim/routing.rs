//! What the small bus does with messages, and where its faults are.

use std::collections::{HashMap, HashSet};

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::rule::{MatchRule, Owners};
use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, Kind};

use super::{Bytes, Fault, Peer};

#[derive(Default)]
struct Member {
    name: String,
    rules: Vec<MatchRule>,
    is_monitor: bool,
}

pub struct Router {
    fault: Fault,
    members: HashMap<usize, Member>,
    /// The owner of each well-known name, and those that wait for it.
    names: HashMap<String, Vec<usize>>,
    /// Open calls: caller, serial, callee.
    open: HashSet<(usize, u32, usize)>,
    added: u64,
    serial: u32,
}

struct Named<'a>(&'a HashMap<String, Vec<usize>>, &'a HashMap<usize, Member>);

impl Owners for Named<'_> {
    fn owns(&self, connection: &str, name: &str) -> bool {
        let owner = self.0.get(name).and_then(|queue| queue.first());
        owner.is_some_and(|owner| self.1.get(owner).is_some_and(|member| member.name == connection))
    }
}

/// The same message from `sender`.
fn forwarded(header: &Header<'_>, body: &[u8], sender: &str) -> Bytes {
    let body = Body::marshalled(header.endian, header.signature, body);
    Builder::like(header).sender(sender).body(body).build(header.serial).unwrap()
}

impl Router {
    pub fn new(fault: Fault) -> Router {
        Router {
            fault,
            members: HashMap::new(),
            names: HashMap::new(),
            open: HashSet::new(),
            added: 0,
            serial: 0,
        }
    }

    pub fn dispatch(&mut self, peers: &mut [Option<Peer>], from: usize, bytes: &[u8]) {
        let passes_invalid = self.fault == Fault::PassesInvalid;
        let header = match Header::parse(bytes) {
            Ok(header) => header,
            Err(_) if passes_invalid => return self.pass_invalid(peers, from, bytes),
            Err(_) => return end(peers, from),
        };
        let body = &bytes[header.header_bytes..];
        let is_valid = causeway_dbus_wire::wire::walk(&header, body, &mut |_, _| {}).is_ok();
        let is_hello = header.member == Some("Hello") && header.destination == Some(DRIVER);
        let is_known = self.members.contains_key(&from) || is_hello || self.fault == Fault::SkipsHello;
        if !(is_valid || passes_invalid) || !is_known {
            return end(peers, from);
        }
        if header.destination == Some(DRIVER) {
            self.driver(peers, from, &header, body);
            return;
        }
        let own = self.members.get(&from).map(|member| member.name.clone()).unwrap_or_default();
        let claimed = header.sender.filter(|_| self.fault == Fault::TrustsSender);
        let message = forwarded(&header, body, claimed.unwrap_or(&own));
        self.route(peers, from, &message);
    }

    /// To the destination, whatever it is.
    fn pass_invalid(&mut self, peers: &mut [Option<Peer>], from: usize, bytes: &[u8]) {
        let to =
            self.members.iter().find(|(at, member)| **at != from && contains(bytes, member.name.as_bytes()));
        if let Some((to, _)) = to {
            put(peers, *to, bytes);
        }
    }

    fn route(&mut self, peers: &mut [Option<Peer>], from: usize, message: &[u8]) {
        let header = Header::parse(message).unwrap();
        let Some(destination) = header.destination else {
            self.broadcast(peers, message);
            return;
        };
        let owner = self.names.get(destination).and_then(|queue| queue.first().copied());
        let unique = || self.members.iter().find(|(_, member)| member.name == destination).map(|(at, _)| *at);
        let Some(to) = owner.or_else(unique) else {
            if header.kind == Kind::MethodCall {
                let error = Builder::error(header.serial, "org.freedesktop.DBus.Error.ServiceUnknown");
                self.say(peers, from, error);
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
                for at in self.matching(message) {
                    put(peers, at, message);
                }
            }
            _ => {}
        }
        put(peers, to, message);
    }

    /// The connections with a rule that matches a message; with `Fault::RepeatsForEachRule`, one entry for each such rule.
    fn matching(&self, message: &[u8]) -> Vec<usize> {
        let header = Header::parse(message).unwrap();
        let body = &message[header.header_bytes..];
        let args: Vec<Arg<'_>> = Args::new(&header, body).map_while(Result::ok).collect();
        let owners = Named(&self.names, &self.members);
        let is_match = |rule: &MatchRule| match self.fault {
            Fault::IgnoresArguments => {
                MatchRule { args: Vec::new(), ..rule.clone() }.matches(&header, &args, &owners)
            }
            _ => rule.matches(&header, &args, &owners),
        };
        let mut found: Vec<usize> = Vec::new();
        for (at, member) in &self.members {
            let count = member.rules.iter().filter(|rule| is_match(rule)).count();
            let times = if self.fault == Fault::RepeatsForEachRule { count } else { count.min(1) };
            found.extend(std::iter::repeat_n(*at, times));
        }
        found.sort_unstable();
        found
    }

    fn broadcast(&self, peers: &mut [Option<Peer>], message: &[u8]) {
        let monitors = self.members.iter().filter(|(_, member)| member.is_monitor).map(|(at, _)| *at);
        self.matching(message).into_iter().chain(monitors).for_each(|to| put(peers, to, message));
    }

    /// The driver says something to one connection.
    fn say(&mut self, peers: &mut [Option<Peer>], to: usize, message: Builder<'_>) {
        self.serial += 1;
        let name = self.members.get(&to).map(|member| member.name.clone()).unwrap_or_default();
        let message = message.sender(DRIVER);
        let message = if name.is_empty() { message } else { message.destination(&name) };
        let bytes = message.build(self.serial).unwrap();
        put(peers, to, &bytes);
    }

    fn owner_changed(&mut self, peers: &mut [Option<Peer>], name: &str, old: &str, new: &str) {
        self.serial += 1;
        let body = Body::default().text(name).text(old).text(new);
        let signal =
            Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged").sender(DRIVER).body(body);
        let bytes = signal.build(self.serial).unwrap();
        self.broadcast(peers, &bytes);
    }

    fn driver(&mut self, peers: &mut [Option<Peer>], from: usize, header: &Header<'_>, body: &[u8]) {
        let args: Vec<Arg<'_>> = Args::new(header, body).map_while(Result::ok).collect();
        let text = match args.first() {
            Some(Arg::Text(text)) => *text,
            _ => "",
        };
        let ok = || Builder::reply(header.serial);
        let error = |name| Builder::error(header.serial, name);
        let answer = match header.member.unwrap_or_default() {
            "Hello" if self.members.contains_key(&from) => error("org.freedesktop.DBus.Error.Failed"),
            "Hello" => {
                let name = format!(":1.{from}");
                self.members.insert(from, Member { name: name.clone(), ..Member::default() });
                self.say(peers, from, ok().body(Body::default().text(&name)));
                self.owner_changed(peers, &name, "", &name);
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
                let rules = &mut self.members.get_mut(&from).unwrap().rules;
                match rules.iter().position(|held| *held == rule) {
                    Some(at) => {
                        rules.remove(at);
                        ok()
                    }
                    None if self.fault == Fault::AcceptsAnyRemoval => ok(),
                    None => error("org.freedesktop.DBus.Error.MatchRuleNotFound"),
                }
            }
            "BecomeMonitor" => {
                let member = self.members.get_mut(&from).unwrap();
                member.is_monitor = true;
                member.rules.clear();
                ok()
            }
            "RequestName" => {
                let name = text.to_owned();
                let queue = self.names.entry(name.clone()).or_default();
                queue.push(from);
                let is_owner = queue.len() == 1;
                let own = self.members.get(&from).map(|member| member.name.clone()).unwrap_or_default();
                if is_owner {
                    self.owner_changed(peers, &name, "", &own);
                }
                ok().body(Body::default().u32(if is_owner { 1 } else { 2 }))
            }
            "ReleaseName" => {
                let name = text.to_owned();
                self.give_up(peers, from, &name);
                ok().body(Body::default().u32(1))
            }
            _ => ok().body(Body::default().text("0123456789abcdef0123456789abcdef")),
        };
        self.say(peers, from, answer);
    }

    fn add(&mut self, to: usize, mut rule: MatchRule) {
        self.added += 1;
        if self.fault == Fault::ForgetsMatches && self.added.is_multiple_of(10) {
            return;
        }
        if self.fault == Fault::FreezesNames
            && let Some(owner) = rule.sender.as_ref().and_then(|name| self.names.get(name)?.first())
        {
            rule.sender = self.members.get(owner).map(|member| member.name.clone());
        }
        let Some(member) = self.members.get_mut(&to) else { return };
        if self.fault != Fault::CollapsesRules || !member.rules.contains(&rule) {
            member.rules.push(rule);
        }
    }

    fn give_up(&mut self, peers: &mut [Option<Peer>], from: usize, name: &str) {
        let Some(queue) = self.names.get_mut(name) else { return };
        let was_owner = queue.first() == Some(&from);
        queue.retain(|waiting| *waiting != from);
        let next = queue.first().copied();
        if queue.is_empty() {
            self.names.remove(name);
        }
        if was_owner {
            let of = |at: usize| self.members.get(&at).map(|member| member.name.clone()).unwrap_or_default();
            let (old, new) = (of(from), next.map(of).unwrap_or_default());
            self.owner_changed(peers, name, &old, &new);
        }
    }

    pub fn leave(&mut self, peers: &mut [Option<Peer>], from: usize) {
        let names: Vec<String> = self.names.keys().cloned().collect();
        for name in names {
            self.give_up(peers, from, &name);
        }
        let Some(member) = self.members.remove(&from) else { return };
        self.owner_changed(peers, &member.name, &member.name, "");
    }
}

/// A connection is closed.
fn end(peers: &mut [Option<Peer>], of: usize) {
    if let Some(peer) = &mut peers[of] {
        peer.is_gone = true;
    }
}

/// Into the queue of a connection.
fn put(peers: &mut [Option<Peer>], to: usize, message: &[u8]) {
    if let Some(peer) = &mut peers[to] {
        peer.put(message);
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
