//! Headers that are odd: all combinations of fields on all types of messages, and each field with values at the edge of what is valid. Both
//! brokers deliver them to the same clients, answer with the same errors, or disconnect their sender.

use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Header, Kind};

use super::{both, short};
use crate::support::*;

const PATH_CODE: u8 = 1;
const INTERFACE_CODE: u8 = 2;
const MEMBER_CODE: u8 = 3;
const ERROR_CODE: u8 = 4;
const REPLY_CODE: u8 = 5;
const DESTINATION_CODE: u8 = 6;
const SENDER_CODE: u8 = 7;
const SIGNATURE_CODE: u8 = 8;
const FDS_CODE: u8 = 9;

/// The serial of the call that the peer makes before a message that answers it.
const ASKED: u32 = 77;
/// Placeholders for the names that the clients have.
const ME: &str = "ME";
const PEER_CLIENT: &str = "PEER";
const PEER_NAME: &str = "com.example.Peer";
const NOBODY: &str = "com.example.Nobody";
const DESTINATIONS: &[&str] =
    &[PEER_CLIENT, PEER_NAME, ME, NOBODY, ":1.9999", ":1", ":", DRIVER, "org.freedesktop.DBus.Local"];

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Path(String),
    Signature(String),
    Number(u32),
    Byte(u8),
}
use Value::{Byte, Number, Signature};

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn path(value: &str) -> Value {
    Value::Path(value.into())
}

#[derive(Clone, Debug)]
struct Case {
    kind: u8,
    flags: u8,
    version: u8,
    serial: u32,
    fields: Vec<(u8, Value)>,
    body: Vec<u8>,
    /// Does it answer a call of the peer?
    is_asked: bool,
}

impl Case {
    fn new(kind: u8, fields: &[(u8, Value)]) -> Case {
        let (fields, body) = (fields.to_vec(), Vec::new());
        Case { kind, flags: 0, version: 1, serial: 9, fields, body, is_asked: false }
    }

    /// The message, with the names of these clients.
    fn bytes(&self, names: &[(String, &str)]) -> Vec<u8> {
        let real = |name: &String| {
            let found = names.iter().find(|(_, placeholder)| placeholder == name);
            found.map_or(name, |(real, _)| real).clone()
        };
        let mut fields = Vec::new();
        for (code, value) in &self.fields {
            pad(&mut fields, 8);
            let letter = match value {
                Value::Text(_) => b's',
                Value::Path(_) => b'o',
                Signature(_) => b'g',
                Number(_) => b'u',
                Byte(_) => b'y',
            };
            fields.extend([*code, 1, letter, 0]);
            match value {
                Value::Text(value) | Value::Path(value) => {
                    let value = real(value);
                    fields.extend((value.len() as u32).to_le_bytes());
                    fields.extend(value.as_bytes());
                    fields.push(0);
                }
                Signature(types) => {
                    fields.push(types.len() as u8);
                    fields.extend(types.as_bytes());
                    fields.push(0);
                }
                Number(number) => fields.extend(number.to_le_bytes()),
                Byte(byte) => fields.push(*byte),
            }
        }
        let mut bytes = vec![b'l', self.kind, self.flags, self.version];
        for number in [self.body.len() as u32, self.serial, fields.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(fields);
        pad(&mut bytes, 8);
        bytes.extend(&self.body);
        bytes
    }
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// What became of a message: whether its sender was disconnected, and what the sender, its peer, a client with a rule for everything, and
/// one that eavesdrops have got.
#[derive(Debug, PartialEq)]
struct Outcome {
    is_disconnected: bool,
    seen: [Vec<String>; 4],
}

impl Outcome {
    fn is_silence(&self) -> bool {
        !self.is_disconnected && self.seen.iter().all(Vec::is_empty)
    }

    fn has_error(&self, name: &str) -> bool {
        self.seen[0] == [format!("error {name}")] && self.seen[1..].iter().all(Vec::is_empty)
    }
}

/// The request behind which all that came before has come. Answers about services that are looked up come in the order of the requests.
const BARRIER: &str = "ListActivatableNames";

/// What a client has got until now, and whether it is disconnected.
fn drain(client: &mut Client, names: &[(String, &str)]) -> (Vec<String>, bool) {
    let is_disconnected = client.ask_driver(BARRIER, Body::default()).is_err();
    let mut seen = Vec::new();
    while let Ok(Some(message)) = client.receive(Duration::ZERO) {
        seen.extend(shown(&header(&message), names));
    }
    (seen, is_disconnected)
}

/// A message as it is compared; nothing for what the test itself causes.
fn shown(header: &Header<'_>, names: &[(String, &str)]) -> Option<String> {
    let is_of_driver = header.sender == Some(DRIVER);
    // dbus-daemon's own library answers calls to nobody, without a sender.
    if let (Kind::Error, true) = (header.kind, is_of_driver || header.sender.is_none()) {
        return Some(format!("error {}", short(header.error_name.unwrap_or_default())));
    }
    if is_of_driver && header.kind == Kind::Signal || header.member == Some(BARRIER) {
        return None;
    }
    if header.member == Some("Hello") {
        return None;
    }
    let mut shown = format!(
        "{:?} {} {:?} {:?} {:?} {:?} {:?} to {:?} from {:?} {}",
        header.kind,
        header.flags,
        header.path,
        header.interface,
        header.member,
        header.error_name,
        header.reply_serial,
        header.destination,
        header.sender,
        header.signature,
    );
    for (name, placeholder) in names {
        shown = shown.replace(&format!("\"{name}\""), placeholder);
    }
    Some(shown)
}

/// Sends each message from a client of its own.
fn outcomes(bus: &Broker, cases: &[Case]) -> Vec<Outcome> {
    let [mut peer, mut watcher, mut eavesdropper] = [(); 3].map(|()| bus.client());
    peer.request_name(PEER_NAME, 0).unwrap();
    watcher.add_match("").unwrap();
    eavesdropper.add_match("eavesdrop='true'").unwrap();
    let run = |case: &Case| {
        let mut sender = bus.client();
        let names = [(sender.unique_name().to_owned(), ME), (peer.unique_name().to_owned(), PEER_CLIENT)];
        if case.is_asked {
            let fields = [(PATH_CODE, path("/a")), (MEMBER_CODE, text("Ask")), (DESTINATION_CODE, text(ME))];
            let ask = Case { serial: ASKED, ..Case::new(1, &fields) };
            peer.send_bytes(&ask.bytes(&names)).unwrap();
        }
        drain(&mut peer, &names);
        drain(&mut sender, &names);
        drain(&mut watcher, &names);
        drain(&mut eavesdropper, &names);
        // It may be disconnected before all was written.
        let _ = sender.send_bytes(&case.bytes(&names));
        let (seen, is_disconnected) = drain(&mut sender, &names);
        let others = [&mut peer, &mut watcher, &mut eavesdropper].map(|client| drain(client, &names).0);
        let [peer_seen, watcher_seen, eavesdropper_seen] = others;
        Outcome { is_disconnected, seen: [seen, peer_seen, watcher_seen, eavesdropper_seen] }
    };
    cases.iter().map(run).collect()
}

/// Differences on purpose; each with whether a case with these outcomes, of causewayd and of dbus-daemon, is one.
type Difference = (&'static str, fn(&Case, &Outcome, &Outcome) -> bool);

const DIFFERENCES: &[Difference] = &[
    ("a reply that no call waits for is dropped", |case, ours, theirs| {
        let is_reply = matches!(case.kind, 2 | 3) && !case.is_asked;
        is_reply && ours.is_silence() && !theirs.is_disconnected
    }),
    ("a call that wants no reply gets no error either", |case, ours, theirs| {
        case.kind == 1 && case.flags & 1 != 0 && ours.is_silence() && theirs.seen[0].len() == 1
    }),
    ("the type of a message is looked at before its destination", |case, ours, theirs| {
        let is_nobody = theirs.has_error("ServiceUnknown") || theirs.has_error("NameHasNoOwner");
        case.kind > 4 && ours.has_error("AccessDenied") && is_nobody
    }),
    ("a field 10 that is no path is left out like other fields of the future", |case, ours, theirs| {
        let is_odd = |(code, value): &(u8, Value)| *code == 10 && !matches!(value, Value::Path(_));
        case.fields.iter().any(is_odd) && theirs.is_disconnected && !ours.is_disconnected
    }),
];

fn compare(cases: &[Case], expected: &[&str]) {
    let folder = temp_dir("headers");
    let Some(brokers) = both(configuration(&folder, "").as_ref(), folder.path()) else { return };
    let [ours, theirs] = brokers.each_ref().map(|broker| outcomes(broker, cases));
    let (mut wrong, mut found) = (Vec::new(), std::collections::BTreeSet::new());
    for (case, (ours, theirs)) in
        cases.iter().zip(ours.iter().zip(&theirs)).filter(|(_, (ours, theirs))| ours != theirs)
    {
        match DIFFERENCES.iter().find(|(_, is_it)| is_it(case, ours, theirs)) {
            Some((reason, _)) => _ = found.insert(*reason),
            None => wrong.push(format!("{case:?}\n  causewayd   {ours:?}\n  dbus-daemon {theirs:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(found, expected.iter().copied().collect(), "the table of differences is out of date");
}

fn required(kind: u8) -> &'static [u8] {
    match kind {
        1 => &[PATH_CODE, MEMBER_CODE],
        2 => &[REPLY_CODE],
        3 => &[ERROR_CODE, REPLY_CODE],
        4 => &[PATH_CODE, INTERFACE_CODE, MEMBER_CODE],
        _ => &[],
    }
}

fn fields() -> [(u8, Value); 6] {
    [
        (PATH_CODE, path("/a")),
        (INTERFACE_CODE, text("com.example.I")),
        (MEMBER_CODE, text("M")),
        (ERROR_CODE, text("com.example.E")),
        (REPLY_CODE, Number(ASKED)),
        (SENDER_CODE, text("com.forged.Sender")),
    ]
}

#[test]
fn messages_of_all_fields_arrive_as_from_dbus_daemon() {
    let mut cases = Vec::new();
    for kind in [1, 2, 3, 4, 5, 255] {
        for chosen in 0..64_u8 {
            let all = fields().into_iter().enumerate();
            let chosen: Vec<_> =
                all.filter(|(index, _)| chosen >> index & 1 == 1).map(|(_, field)| field).collect();
            let has = |code: u8| chosen.iter().any(|(given, _)| *given == code);
            let is_complete = required(kind).iter().all(|code| has(*code));
            cases.push(Case::new(kind, &chosen));
            let few = if is_complete && kind != 255 { DESTINATIONS } else { &[PEER_CLIENT, NOBODY] };
            for destination in few {
                let fields = [&chosen[..], &[(DESTINATION_CODE, text(destination))]].concat();
                let case = Case::new(kind, &fields);
                if is_complete && kind < 5 && [PEER_CLIENT, NOBODY].contains(destination) {
                    cases.extend((1..=3).map(|flags| Case { flags, ..case.clone() }));
                }
                if *destination == PEER_CLIENT && has(REPLY_CODE) {
                    cases.push(Case { is_asked: true, ..case.clone() });
                }
                cases.push(case);
            }
        }
    }
    let [unasked, no_reply, unknown, _] = *DIFFERENCES else { unreachable!("there are four") };
    compare(&cases, &[unasked.0, no_reply.0, unknown.0]);
}

/// Bodies, each with its signature.
fn bodies() -> Vec<(String, Vec<u8>)> {
    let string = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes, &[0]].concat();
    let deep = |count| format!("{}y{}", "(".repeat(count), ")".repeat(count));
    let mut bodies = vec![
        ("s".to_owned(), string(b"x")),
        ("s".to_owned(), Vec::new()),
        (String::new(), Vec::new()),
        (String::new(), vec![1, 2, 3, 4]),
        ("y".to_owned(), vec![1, 2]),
        ("y".repeat(255), vec![0; 255]),
        ("s".to_owned(), string(b"a\0b")),
        ("s".to_owned(), string(b"\xff")),
        ("s".to_owned(), string("\u{fdd0}\u{ffff}".as_bytes())),
        ("s".to_owned(), string(b"\xed\xa0\x80")),
        ("b".to_owned(), vec![2, 0, 0, 0]),
        ("yu".to_owned(), vec![1, 1, 0, 0, 0, 0, 0, 0]),
        (deep(32), vec![0]),
        (deep(33), vec![0]),
    ];
    let invalid = ["z", "a", "(", "()", "{ss}", "a{ss}", "r", "e", "h", "m"];
    bodies.extend(invalid.map(|types| (types.to_owned(), vec![0; 4])));
    bodies
}

/// One message of each type, with one field that is odd.
#[test]
fn messages_with_odd_fields_arrive_as_from_dbus_daemon() {
    let names = [
        "",
        ".",
        "a",
        "a.b",
        "1.b",
        "a.1b",
        "a..b",
        "a.b.",
        ".a.b",
        "a-b.c",
        "a.b-c",
        "A.B_",
        "é.a",
        "org.freedesktop.DBus.Local",
        DRIVER,
        ":1.1",
        ":a",
        ":",
        ":.",
        ":1.",
        ":.1",
        ":1..2",
        ":-._",
    ];
    let mut names: Vec<String> = names.map(str::to_owned).to_vec();
    names.extend([252, 253].map(|count| format!("a.b{}", "c".repeat(count))));
    let mut members: Vec<String> = ["", "a.b", "9", "a-b", "_", "é"].map(str::to_owned).to_vec();
    members.extend([255, 256].map(|count| "m".repeat(count)));
    let mut paths =
        ["", "/", "//", "/a/", "a", "/a-b", "/é", "/org/freedesktop/DBus/Local"].map(str::to_owned).to_vec();
    paths.extend([DRIVER_PATH.to_owned(), format!("/{}", "a".repeat(300))]);
    let values =
        [text("/a"), Number(5), path("/x"), Byte(1), Signature("s".into()), Signature(String::new())];
    let mut cases = Vec::new();
    for kind in 1..=4 {
        for destination in [None, Some(PEER_CLIENT)] {
            let mut base: Vec<_> =
                fields().into_iter().filter(|(code, _)| required(kind).contains(code)).collect();
            base.extend(destination.map(|name| (DESTINATION_CODE, text(name))));
            let with = |code: u8, value: &Value| {
                let others = base.iter().filter(|(other, _)| *other != code).cloned();
                Case::new(kind, &others.chain([(code, value.clone())]).collect::<Vec<_>>())
            };
            let plain = Case::new(kind, &base);
            cases.extend([4, 8, 16, 64, 128, 255].map(|flags| Case { flags, ..plain.clone() }));
            cases.extend([0, 1, u32::MAX].map(|serial| Case { serial, ..plain.clone() }));
            cases.extend([0, 2].map(|version| Case { version, ..plain.clone() }));
            for value in &values {
                cases.extend([0, 10, 11, 12, 100, 255].map(|code| with(code, value)));
                cases.extend(base.iter().map(|(code, _)| with(*code, value)));
            }
            // Twice, and before the others.
            let unknown = (20, text("x"));
            for field in base.iter().chain([&unknown]) {
                cases.push(Case::new(kind, &[&base[..], std::slice::from_ref(field)].concat()));
                cases.push(Case::new(kind, &[std::slice::from_ref(field), &base[..]].concat()));
            }
            for name in &names {
                let codes = [INTERFACE_CODE, ERROR_CODE, DESTINATION_CODE, SENDER_CODE];
                cases.extend(codes.map(|code| with(code, &text(name))));
            }
            cases.extend(members.iter().map(|name| with(MEMBER_CODE, &text(name))));
            cases.extend(paths.iter().map(|name| with(PATH_CODE, &path(name))));
            cases.extend([0, 1, u32::MAX].map(|serial| with(REPLY_CODE, &Number(serial))));
            cases.extend([0, 1, 16, 254].map(|count| with(FDS_CODE, &Number(count))));
            for (types, body) in bodies() {
                cases.push(Case { body: body.clone(), ..with(SIGNATURE_CODE, &Signature(types)) });
                cases.push(Case { body, ..plain.clone() });
            }
        }
    }
    let [unasked, no_reply, _, field] = *DIFFERENCES else { unreachable!("there are four") };
    compare(&cases, &[unasked.0, no_reply.0, field.0]);
}

/// A signal is one, whatever else its header says.
#[test]
fn signal_with_a_reply_serial_is_delivered() {
    let bus = Broker::start();
    let [mut sender, mut receiver] = [bus.client(), bus.client()];
    receiver.add_match("").unwrap();
    for destination in [None, Some(receiver.unique_name().to_owned())] {
        let mut chosen = fields()[..5].to_vec();
        chosen.extend(destination.map(|name| (DESTINATION_CODE, text(&name))));
        sender.send_bytes(&Case::new(4, &chosen).bytes(&[])).unwrap();
        let signal = wait_for_member(&mut receiver, "M");
        assert_eq!(header(&signal).reply_serial, Some(ASKED));
    }
}
