//! Decisions of a policy: what clients of several users are answered by a bus, and which messages arrive.
//!
//! A service, of a user of its own, has all names. Each request is made by each of the other users, and the answer is a line of text.

use std::time::Duration;

use causeway_bus::client::Bus as Client;
use causeway_dbus_wire::wire::{Body, Builder, Header, Kind, Marshal, names};
use rustix::process::{Gid, Uid};

use super::{answer, short};
use crate::support::*;

/// The user of the service, under a name that every Debian has: dbus-daemon lets only users in that the table of users has.
const SERVICE: &str = "mail";
const SERVICE_UID: u32 = 8;
const NOBODY: u32 = 65534;
/// Two groups that every Debian has.
const DAEMON: u32 = 1;
const GAMES: u32 = 60;
/// Who asks: a user with these groups beside its own.
pub const ASKERS: &[(u32, &[u32])] = &[(0, &[]), (NOBODY, &[]), (NOBODY, &[GAMES, DAEMON])];
/// The path of what a client signals to others.
pub const SIGNAL_PATHS: &str = "/com";
const BARRIER: &str = "ListActivatableNames";
/// A serial that no call has.
const UNASKED: u32 = 77_777;

/// The policy of the distribution's system bus in short: signals and replies pass, names and calls need a rule.
const SYSTEM: &str = "<policy context='default'><allow user='*'/><deny own='*'/><deny send_type='method_call'/>\
    <allow send_type='signal'/><allow send_requested_reply='true' send_type='method_return'/>\
    <allow send_requested_reply='true' send_type='error'/><allow receive_type='method_call'/>\
    <allow receive_type='method_return'/><allow receive_type='error'/><allow receive_type='signal'/></policy>";
/// Nothing is allowed but to connect.
const CLOSED: &str = "<policy context='default'><allow user='*'/></policy>";
/// Everybody may use the driver, and the service may have any name and call anybody.
const LAST: &str = "<policy user='mail'><allow own='*'/><allow send_type='method_call'/></policy>\
    <policy context='mandatory'><allow send_destination='org.freedesktop.DBus' send_interface='org.freedesktop.DBus'/>\
    <allow receive_sender='org.freedesktop.DBus'/></policy>";

/// A configuration with these elements between the policy of a system bus, or one that allows nothing, and the rights that the test needs.
pub fn configured(is_system: bool, elements: &str) -> String {
    let base = if is_system { SYSTEM } else { CLOSED };
    format!(
        "<busconfig><type>system</type><listen>unix:tmpdir=/tmp</listen>{base}{elements}{LAST}</busconfig>"
    )
}

/// May this process act as other users, and are they there? Otherwise says so.
pub fn can_be_others() -> bool {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_there = accounts.lines().any(|line| line.starts_with(&format!("{SERVICE}:x:{SERVICE_UID}:")));
    if !rustix::process::geteuid().is_root() || !is_there {
        skipped(Cause::Rights("root"), "connects as other users, among them mail with the number 8");
        return false;
    }
    true
}

/// A client of this user with these groups.
fn client_as(address: &str, uid: u32, groups: &[u32]) -> Client {
    let connect = || {
        // The kernel keeps these for each thread, and this one ends with the connection made.
        let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
        rustix::thread::set_thread_groups(&groups).unwrap();
        let gid = Gid::from_raw(uid);
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        Client::open(address).unwrap()
    };
    std::thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    Own(String),
    /// To send this.
    Send(Sent),
    /// To get this from the service.
    Receive(Sent),
}

/// A message, of which replies may answer a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub kind: Kind,
    /// The service without a name of its own, a name, or nobody.
    pub to: To,
    pub path: Option<String>,
    pub interface: Option<String>,
    pub member: Option<String>,
    pub error: Option<String>,
    pub is_asked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    OtherEnd,
    Name(String),
    All,
}

impl Sent {
    pub fn new(kind: Kind, to: To) -> Sent {
        Sent { kind, to, path: None, interface: None, member: None, error: None, is_asked: false }
    }

    fn builder<'a>(&'a self, reply_serial: u32, other_end: &'a str) -> Builder<'a> {
        let mut message = Builder::new(self.kind);
        if matches!(self.kind, Kind::MethodReturn | Kind::Error) {
            message = message.reply_serial(reply_serial);
        }
        let names = [&self.path, &self.interface, &self.member, &self.error].map(Option::as_deref);
        let set: [fn(Builder<'a>, &'a str) -> Builder<'a>; 4] =
            [Builder::path, Builder::interface, Builder::member, Builder::error_name];
        for (name, set) in names.into_iter().zip(set) {
            if let Some(name) = name {
                message = set(message, name);
            }
        }
        match &self.to {
            To::OtherEnd => message.destination(other_end),
            To::Name(name) => message.destination(name),
            To::All => message,
        }
    }
}

/// The clients of a bus that decides.
pub struct Court {
    service: Client,
    askers: Vec<Client>,
}

impl Court {
    /// The clients, and a service with all of these names that the bus gives it.
    pub fn of(bus: &Broker, names: &[String]) -> Court {
        let mut service = client_as(&bus.address, SERVICE_UID, &[]);
        for name in names {
            let _ = service.request_name(name, 0);
        }
        let connect = |(uid, groups): &(u32, &[u32])| {
            let mut client = client_as(&bus.address, *uid, groups);
            client.add_match(&format!("type='signal',path_namespace='{SIGNAL_PATHS}'")).unwrap();
            client
        };
        Court { service, askers: ASKERS.iter().map(connect).collect() }
    }

    /// The answers to a request, of each asker one.
    pub fn decide(&mut self, request: &Request) -> Vec<String> {
        (0..self.askers.len()).map(|index| self.decide_for(request, index)).collect()
    }

    fn decide_for(&mut self, request: &Request, index: usize) -> String {
        let Court { service, askers } = self;
        let asker = &mut askers[index];
        match request {
            Request::Own(name) => {
                let mut out = Marshal::default();
                out.text(name);
                // Not to wait in a queue.
                out.u32(4);
                let answer = answer(asker, "RequestName", out.into_body("su"));
                let _ = asker.ask_driver("ReleaseName", Body::default().text(name));
                answer
            }
            Request::Send(sent) => {
                let passed = pass(asker, service, sent);
                passed + &self.seen_by_others(index)
            }
            Request::Receive(sent) => pass(service, asker, sent),
        }
    }

    /// Which of the others have got something, such as a broadcast.
    fn seen_by_others(&mut self, index: usize) -> String {
        let others = self.askers.iter_mut().enumerate().filter(|(other, _)| *other != index);
        others.map(|(other, client)| format!(", {other} got {}", drain(client).len())).collect()
    }
}

/// Sends a message from one client to another. Returns what they see of it.
fn pass(from: &mut Client, to: &mut Client, sent: &Sent) -> String {
    drain(to);
    drain(from);
    let mut reply_serial = UNASKED;
    if sent.is_asked {
        reply_serial = to.send(&Builder::call("/", "Ask").destination(from.unique_name())).unwrap();
        drain(to);
        if !drain(from).iter().any(|message| header(message).member == Some("Ask")) {
            return "was not asked".into();
        }
    }
    let other_end = to.unique_name().to_owned();
    let serial = from.send(&sent.builder(reply_serial, &other_end)).unwrap();
    let is_answer =
        |header: &Header<'_>| header.reply_serial == Some(serial) && header.sender == Some(DRIVER);
    let refused: Vec<String> = (drain(from).iter().map(|message| header(message)).filter(is_answer))
        .map(|header| short(header.error_name.unwrap_or("a reply")))
        .collect();
    let name = from.unique_name().to_owned();
    let arrived = drain(to).iter().filter(|message| header(message).sender == Some(&name)).count();
    format!("{refused:?} {arrived} arrived")
}

/// What a client has got until now from others, and the answers to it.
fn drain(client: &mut Client) -> Vec<Vec<u8>> {
    client.ask_driver(BARRIER, Body::default()).unwrap();
    let messages = std::iter::from_fn(|| client.receive(Duration::ZERO).unwrap());
    let is_news = |message: &Vec<u8>| {
        let header = header(message);
        header.sender != Some(DRIVER) || header.kind != Kind::Signal
    };
    messages.filter(is_news).collect()
}

/// Differences on purpose: a reply that no call waits for is dropped, whatever the policy of the file says; and a broadcast is one, even if its
/// interface is the one whose calls to nobody dbus-daemon's library answers by itself.
fn is_known(request: &Request, ours: &str, theirs: &str) -> bool {
    let (Request::Send(sent) | Request::Receive(sent)) = request else { return false };
    let is_reply = matches!(sent.kind, Kind::MethodReturn | Kind::Error);
    let is_of_peer =
        sent.kind == Kind::Signal && sent.to == To::All && sent.interface.as_deref() == Some(PEER);
    is_reply && !sent.is_asked && ours.starts_with("[] 0 arrived")
        || is_of_peer && theirs.starts_with("[\"UnknownMethod\"] 0 arrived")
}

/// Compares the answers of both brokers; returns how many, and those that differ.
pub fn compare(brokers: &[Broker; 2], names: &[String], requests: &[Request]) -> (usize, Vec<String>) {
    let [mut ours, mut theirs] = brokers.each_ref().map(|bus| Court::of(bus, names));
    let (mut count, mut wrong) = (0, Vec::new());
    for request in requests {
        let answers = ours.decide(request).into_iter().zip(theirs.decide(request)).zip(ASKERS);
        for ((ours, theirs), (uid, groups)) in answers {
            count += 1;
            if ours != theirs && !is_known(request, &ours, &theirs) {
                wrong.push(format!(
                    "user {uid} with {groups:?}: {request:?}: causewayd {ours}, dbus-daemon {theirs}"
                ));
            }
        }
    }
    (count, wrong)
}

/// Those that a service can have.
pub fn well_known(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> =
        names.into_iter().filter(|name| names::is_well_known(name) && name != DRIVER).collect();
    names.sort();
    names.dedup();
    names
}
