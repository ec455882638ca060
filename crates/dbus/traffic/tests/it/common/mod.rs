//! Captures that are made: a desktop's start as it was counted in 2011, and mixed traffic of any length.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::Write;

use causeway_dbus_wire::driver::DRIVER;
pub use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::{Body, Builder, Endian, FLAG_NO_REPLY_EXPECTED};
use weighbridge_dbus_traffic::capture::Writer;

/// Time of the first message.
pub const START_NS: u64 = 1_298_600_000_000_000_000;

/// Writes messages a fixed time after each other.
pub struct Scribe<W: Write> {
    writer: Writer<W>,
    pub time_ns: u64,
    serial: u32,
}

impl<W: Write> Scribe<W> {
    pub fn new(out: W) -> Scribe<W> {
        Scribe { writer: Writer::new(out).unwrap(), time_ns: START_NS, serial: 0 }
    }

    pub fn say(&mut self, message: &Builder<'_>) -> u32 {
        self.serial += 1;
        let bytes = message.build(self.serial).unwrap();
        self.time_ns += 1_000_000;
        self.writer.write(self.time_ns, &bytes, bytes.len()).unwrap();
        self.serial
    }

    pub fn finish(self) -> W {
        self.writer.finish().unwrap()
    }
}

pub fn to_driver<'a>(from: &'a str, member: &'a str) -> Builder<'a> {
    Builder::call("/org/freedesktop/DBus", member).interface(DRIVER).destination(DRIVER).sender(from)
}

const TELEPATHY: &str = "org.freedesktop.Telepathy";

/// A start of Empathy as counted in February 2011 by A. Crequy: 8,313 messages, of them 2,850 calls, 761 returns, 4,699
/// signals and 3 errors; 2,066 calls to the driver, whose replies dbus-monitor did not record; 628 `AddMatch` on
/// `NameOwnerChanged`, 48 % of all `AddMatch`, with 25 distinct rules; most messages between 101 and 316 bytes; two signals
/// with four recipients and no other with more than three; 17 calls of `GetContactAttributes`, 11 signals
/// `AccountPropertyChanged`.
pub fn boot<W: Write>(out: W) -> W {
    let mut scribe = Scribe::new(out);
    let clients: Vec<String> = (1..=25).map(|number| format!(":1.{number}")).collect();
    for client in &clients {
        scribe.say(&to_driver(client, "Hello"));
    }
    // dbus-glib gave each proxy a rule of its own on the owner of its name: the same rule again and again.
    for number in 0..628 {
        let rule = format!(
            "type='signal',sender='{DRIVER}',interface='{DRIVER}',member='NameOwnerChanged',arg0='{TELEPATHY}.Client.n{}'",
            number % 25
        );
        scribe.say(&to_driver(&clients[number % 25], "AddMatch").body(Body::default().text(&rule)));
    }
    let contacts = format!("{TELEPATHY}.Connection.Interface.Contacts");
    let interface = |number: usize| format!("{TELEPATHY}.Channel.Kind{number}");
    // Three connections for each of 160 kinds of signal, four for two of them.
    let rules = (0..160).flat_map(|kind| (0..3).map(move |client| (kind, client)));
    let rules = rules.chain([(0, 3), (1, 3)]).chain((0..198).map(|kind| (200 + kind, 5)));
    for (kind, client) in rules {
        let rule = format!("type='signal',sender=':1.20',interface='{}',member='Changed'", interface(kind));
        let client = &clients[(kind % 10 + client) % 16];
        scribe.say(&to_driver(client, "AddMatch").body(Body::default().text(&rule)));
    }
    for number in 0..733 {
        let name = format!("{TELEPATHY}.Client.n{}", number % 30);
        scribe.say(&to_driver(&clients[number % 25], "GetNameOwner").body(Body::default().text(&name)));
    }
    for number in 0..784 {
        let (caller, callee) = (&clients[number % 19], &clients[19 + number % 5]);
        let member =
            if number % 46 == 0 && number / 46 < 17 { "GetContactAttributes" } else { "GetContactInfo" };
        let call = Builder::call("/org/freedesktop/Telepathy/Connection/gabble", member).interface(&contacts);
        let call = call.sender(caller).destination(callee).body(Body::default().u32(number as u32));
        match number {
            0..20 => {
                scribe.say(&call.flags(FLAG_NO_REPLY_EXPECTED));
            }
            20..23 => {
                let serial = scribe.say(&call);
                let error = Builder::error(serial, "org.freedesktop.Telepathy.Error.NotAvailable");
                scribe.say(&error.sender(callee).destination(caller).body(Body::default().text("not now")));
            }
            _ => {
                let serial = scribe.say(&call);
                let body = Body::default().text("alice@example.com").variant_text("Alice in her garden");
                scribe.say(&Builder::reply(serial).sender(callee).destination(caller).body(body));
            }
        }
    }
    for number in 0..4_699_usize {
        let account = format!("{TELEPATHY}.Account");
        let signal = if number < 11 {
            Builder::signal("/org/freedesktop/Telepathy/Account/gabble", &account, "AccountPropertyChanged")
                .sender(":1.21")
        } else {
            let interface = interface(if number < 13 { number - 11 } else { 2 + number % 170 });
            let body = Body::default().text("presence").u32(number as u32);
            let path = "/org/freedesktop/Telepathy/Channel/x";
            scribe.say(&Builder::signal(path, &interface, "Changed").sender(":1.20").body(body));
            continue;
        };
        scribe.say(&signal.body(Body::default().text("Nickname").variant_text("al")));
    }
    scribe.finish()
}

/// About `count` messages of all types between fifty connections, in both byte orders, with names that come and go and
/// rules that are added and removed.
pub fn mixed<W: Write>(out: W, count: usize) -> W {
    let mut scribe = Scribe::new(out);
    let mut random = Random(42);
    let clients: Vec<String> = (0..50).map(|number| format!(":1.{number}")).collect();
    let interfaces: Vec<String> = (0..40).map(|number| format!("com.example.Interface{number}")).collect();
    let mut said = 0;
    while said < count {
        let from = &clients[random.below(50)];
        let to = &clients[random.below(50)];
        let interface = &interfaces[random.below(40)];
        let endian = if random.below(4) == 0 { Endian::Big } else { Endian::Little };
        let path = format!("/com/example/object{}", random.below(100));
        let body = Body::in_order(endian).text("a text").u32(random.below(1_000) as u32);
        said += match random.below(10) {
            0 => {
                let rule = format!("type='signal',interface='{interface}',path='{path}'");
                let member = if random.below(2) == 0 { "AddMatch" } else { "RemoveMatch" };
                scribe.say(&to_driver(from, member).body(Body::in_order(endian).text(&rule)));
                1
            }
            1..=4 => {
                let call =
                    Builder::call(&path, "Do").interface(interface).sender(from).destination(to).body(body);
                let serial = scribe.say(&call);
                let blob = vec![0; random.below(2_000)];
                let answer = match random.below(20) {
                    0 => Builder::error(serial, "com.example.Error.Failed"),
                    _ => Builder::reply(serial).body(Body::in_order(endian).blob(&blob)),
                };
                scribe.say(&answer.sender(to).destination(from));
                2
            }
            _ => {
                scribe.say(&Builder::signal(&path, interface, "Changed").sender(from).body(body));
                1
            }
        };
    }
    scribe.finish()
}
