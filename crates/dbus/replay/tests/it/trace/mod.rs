//! Captures that are made, as a monitor of a bus would see them.

use std::collections::BTreeMap;

use crate::common::Random;
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Body, Builder, Endian, FLAG_NO_REPLY_EXPECTED};
use weighbridge_dbus_traffic::capture::Writer;

/// Between one message and the next.
const STEP_NS: u64 = 1_000_000;

/// A bus that is played for the capture alone.
pub struct Stage {
    writer: Writer<Vec<u8>>,
    /// Bytes of each message that are recorded.
    pub snaplen: usize,
    time_ns: u64,
    connections: usize,
    serials: BTreeMap<String, u32>,
    live: Vec<String>,
    owners: BTreeMap<String, String>,
    rules: Vec<(String, String)>,
    /// Calls without an answer: caller, callee, serial.
    open: Vec<(String, String, u32)>,
}

impl Stage {
    pub fn new() -> Stage {
        Stage {
            writer: Writer::new(Vec::new()).unwrap(),
            snaplen: usize::MAX,
            time_ns: 1_700_000_000_000_000_000,
            connections: 0,
            serials: BTreeMap::new(),
            live: Vec::new(),
            owners: BTreeMap::new(),
            rules: Vec::new(),
            open: Vec::new(),
        }
    }

    pub fn finish(self) -> Vec<u8> {
        self.writer.finish().unwrap()
    }

    pub fn say(&mut self, from: &str, message: &Builder<'_>) -> u32 {
        let serial = self.serials.entry(from.into()).or_default();
        *serial += 1;
        let serial = *serial;
        let bytes = message.clone().sender(from).build(serial).unwrap();
        self.time_ns += STEP_NS;
        self.writer.write(self.time_ns, &bytes[..bytes.len().min(self.snaplen)], bytes.len()).unwrap();
        serial
    }

    fn owner_changed(&mut self, name: &str, old: &str, new: &str) {
        let body = Body::default().text(name).text(old).text(new);
        self.say(DRIVER, &Builder::signal("/org/freedesktop/DBus", DRIVER, "NameOwnerChanged").body(body));
    }

    pub fn connect(&mut self) -> String {
        self.connections += 1;
        let name = format!(":1.{}", self.connections + 70);
        let hello = Builder::call("/org/freedesktop/DBus", "Hello").interface(DRIVER).destination(DRIVER);
        let serial = self.say(":not.active.yet", &hello);
        self.say(DRIVER, &Builder::reply(serial).destination(&name).body(Body::default().text(&name)));
        self.owner_changed(&name, "", &name);
        self.serials.insert(name.clone(), 1);
        self.live.push(name.clone());
        name
    }

    fn leave(&mut self, name: &str) {
        self.live.retain(|live| live != name);
        self.rules.retain(|(owner, _)| owner != name);
        for owned in self.names_of(name) {
            self.owners.remove(&owned);
            self.owner_changed(&owned, name, "");
        }
        self.owner_changed(name, name, "");
    }

    fn names_of(&self, connection: &str) -> Vec<String> {
        let owned = self.owners.iter().filter(|(_, owner)| *owner == connection);
        owned.map(|(name, _)| name.clone()).collect()
    }

    fn ask_driver(&mut self, from: &str, member: &str, body: Body, flags: u8) -> u32 {
        let call = Builder::call("/org/freedesktop/DBus", member).interface(DRIVER).destination(DRIVER);
        self.say(from, &call.body(body).flags(flags))
    }

    fn driver_answers(&mut self, to: &str, serial: u32, body: Body) {
        self.say(DRIVER, &Builder::reply(serial).destination(to).body(body));
    }

    fn change_rule(&mut self, from: &str, member: &str, rule: &str, flags: u8) {
        let serial = self.ask_driver(from, member, Body::default().text(rule), flags);
        if flags & FLAG_NO_REPLY_EXPECTED == 0 {
            self.driver_answers(from, serial, Body::default());
        }
    }

    pub fn request(&mut self, from: &str, name: &str) {
        self.owners.insert(name.into(), from.into());
        let serial = self.ask_driver(from, "RequestName", Body::default().text(name).u32(4), 0);
        self.owner_changed(name, "", from);
        self.driver_answers(from, serial, Body::default().u32(1));
    }

    fn release(&mut self, from: &str, name: &str) {
        let serial = self.ask_driver(from, "ReleaseName", Body::default().text(name), 0);
        self.owner_changed(name, from, "");
        self.driver_answers(from, serial, Body::default().u32(1));
    }

    pub fn call(&mut self, from: &str, to: &str, body: Body) -> u32 {
        let call = Builder::call("/com/example/object", "Do").interface("com.example.Work");
        self.say(from, &call.destination(to).body(body))
    }

    pub fn reply(&mut self, from: &str, to: &str, serial: u32, body: Body) {
        self.say(from, &Builder::reply(serial).destination(to).body(body));
    }
}

/// About `count` messages of all types: connections that come and go, names that change hands, rules, calls with answers,
/// errors and refusals that are open for a while, signals for all and for one.
pub fn busy(count: usize, snaplen: usize) -> Vec<u8> {
    let mut stage = Stage::new();
    stage.snaplen = snaplen;
    let mut random = Random(7);
    let mut below = |limit: usize| random.below(limit);
    let names: Vec<String> = (0..8).map(|number| format!("com.example.Service{number}")).collect();
    for _ in 0..6 {
        stage.connect();
    }
    let start_ns = stage.time_ns;
    while ((stage.time_ns - start_ns) / STEP_NS) < count as u64 {
        let live = stage.live.clone();
        let one = live[below(live.len())].clone();
        let other = live[below(live.len())].clone();
        let name = &names[below(names.len())];
        let endian = if below(4) == 0 { Endian::Big } else { Endian::Little };
        let blob = vec![7; below(1_500)];
        let body = Body::in_order(endian).text("some text").u32(7).blob(&blob);
        let interface = format!("com.example.Interface{}", below(10));
        match below(100) {
            0..2 if live.len() < 30 => {
                // The driver's broadcast told the one of the other.
                let rule = format!("type='signal',sender='{}'", stage.connect());
                stage.rules.push((one.clone(), rule.clone()));
                stage.change_rule(&one, "AddMatch", &rule, 0);
            }
            2..4 if live.len() > 6 && !stage.open.iter().any(|(a, b, _)| *a == one || *b == one) => {
                stage.leave(&one)
            }
            4..8 if !stage.owners.contains_key(name) => stage.request(&one, name),
            8..11 => {
                if let Some(owner) = stage.owners.remove(name) {
                    stage.release(&owner, name);
                }
            }
            11..20 => {
                let rule = match below(3) {
                    0 => format!("type='signal',sender='{other}',interface='{interface}'"),
                    1 => format!("type='signal',sender='{name}'"),
                    _ => format!("type='signal',interface='{interface}'"),
                };
                stage.rules.push((one.clone(), rule.clone()));
                let flags = if below(2) == 0 { FLAG_NO_REPLY_EXPECTED } else { 0 };
                stage.change_rule(&one, "AddMatch", &rule, flags);
            }
            20..25 if !stage.rules.is_empty() => {
                let at = below(stage.rules.len());
                let (owner, rule) = stage.rules.swap_remove(at);
                stage.change_rule(&owner, "RemoveMatch", &rule, 0);
            }
            25..55 => {
                let to = if below(2) == 0 { other.clone() } else { name.clone() };
                let owner = if to == *name { stage.owners.get(name).cloned() } else { Some(other) };
                let serial = stage.call(&one, &to, body);
                match owner {
                    Some(owner) => stage.open.push((one, owner, serial)),
                    None => {
                        let error = Builder::error(serial, "org.freedesktop.DBus.Error.ServiceUnknown");
                        stage
                            .say(DRIVER, &error.destination(&one).body(Body::default().text("no such name")));
                    }
                }
            }
            55..80 if !stage.open.is_empty() => {
                let at = below(stage.open.len());
                let (caller, callee, serial) = stage.open.swap_remove(at);
                match below(8) {
                    0 => {
                        let error = Builder::error(serial, "com.example.Error.Failed").destination(&caller);
                        stage.say(&callee, &error.body(Body::default().text("it does not work")));
                    }
                    _ => stage.reply(&callee, &caller, serial, body),
                }
            }
            80..85 => {
                let signal =
                    Builder::signal("/com/example/object", &interface, "Directed").destination(&other);
                stage.say(&one, &signal.body(body));
            }
            _ => {
                stage.say(&one, &Builder::signal("/com/example/object", &interface, "Changed").body(body));
            }
        }
    }
    stage.finish()
}
