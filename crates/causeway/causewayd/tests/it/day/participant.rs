//! A process that takes part: it sends at its rate, answers, and checks what it gets.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::client::Bus as Client;
use causeway_bus::wire::{Arg, Args, Body, Builder, Header, Kind};
use causeway_bus::{Connection, Error, Incoming};
use causeway_testkit::Rng;

use super::mix::{Step, steps};
use super::report::Report;
use super::{CONTROL, OBJECT, READY, TRAFFIC};

/// Its number, its life, how many there are, messages a second of all, and where the bus is.
pub const ROLE: &str = "CAUSEWAY_DAY_ROLE";
/// Where its report goes.
pub const REPORT: &str = "CAUSEWAY_DAY_REPORT";
/// A call that takes longer was lost: its timeout is 25 s, and the death of a callee is known at once.
const LATE: Duration = Duration::from_secs(20);

/// The name of a participant.
pub fn name(number: u32) -> String {
    format!("day.Participant{number}")
}

/// Participant, life and number at the beginning of a body.
pub fn token(text: &str) -> Option<[u32; 3]> {
    let mut words = text.split(':').next()?.split('.').map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// What a participant gets.
enum Got {
    Call {
        sender: String,
        text: String,
        answer: Answer,
    },
    /// The reply, or the name of the error, of a call with a serial.
    Reply(u32, Result<String, String>),
    /// `Stop` or `End`.
    Control(String),
    Nothing,
}

enum Answer {
    Native(causeway_bus::Call),
    Serial(u32),
}

/// The two kinds of connections.
enum Link {
    Member { bus: Box<Connection>, open: Vec<u32>, finished: Vec<Got> },
    Client(Client),
}

fn text_of(message: &[u8]) -> String {
    let header = Header::parse(message).unwrap();
    match Args::new(&header, &message[header.header_bytes..]).next() {
        Some(Ok(Arg::Text(text))) => text.into(),
        _ => String::new(),
    }
}

impl Link {
    fn open(number: u32, address: &str) -> Link {
        let rule = format!("type='signal',interface='{CONTROL}'");
        if number.is_multiple_of(2) {
            let mut bus = Box::new(Connection::open(address).unwrap());
            bus.add_match(&rule).unwrap();
            bus.request_name(&name(number), 0).unwrap();
            return Link::Member { bus, open: Vec::new(), finished: Vec::new() };
        }
        let mut client = Client::open(address).unwrap();
        client.add_match(&rule).unwrap();
        client.request_name(&name(number), 0).unwrap();
        Link::Client(client)
    }

    /// Sends a call; the serial, or the error's name.
    fn call(&mut self, to: &str, interface: &str, member: &str, body: Body) -> Result<u32, String> {
        match self {
            Link::Member { bus, open, .. } => match bus.start_call(to, OBJECT, interface, member, body) {
                Ok(serial) => {
                    open.push(serial);
                    Ok(serial)
                }
                Err(Error::Method { name, .. }) => Err(name),
                Err(error) => panic!("{error}"),
            },
            Link::Client(client) => {
                let call = Builder::call(OBJECT, member).interface(interface).destination(to).body(body);
                Ok(client.send(&call).unwrap())
            }
        }
    }

    fn emit(&mut self, member: &str, body: Body) {
        match self {
            Link::Member { bus, .. } => bus.emit(OBJECT, TRAFFIC, member, body).unwrap(),
            Link::Client(client) => {
                client.send(&Builder::signal(OBJECT, TRAFFIC, member).body(body)).unwrap();
            }
        }
    }

    fn answer(&mut self, to: &str, answer: &Answer, text: &str) {
        let body = Body::default().text(text);
        match (self, answer) {
            (Link::Member { bus, .. }, Answer::Native(call)) => bus.reply(call, body).unwrap(),
            (Link::Client(client), Answer::Serial(serial)) => {
                client.send(&Builder::reply(*serial).destination(to).body(body)).unwrap();
            }
            _ => unreachable!("an answer goes where its call came from"),
        }
    }

    fn next(&mut self, patience: Duration) -> Got {
        match self {
            Link::Member { bus, open, finished } => {
                if let Some(got) = finished.pop() {
                    return got;
                }
                let incoming = bus.next(Some(patience)).unwrap();
                open.retain(|serial| {
                    if !bus.is_finished(*serial).unwrap() {
                        return true;
                    }
                    let reply = match bus.finish_call(*serial, Duration::ZERO) {
                        Ok(reply) => Ok(reply.text().unwrap_or_default().to_owned()),
                        Err(Error::Method { name, .. }) => Err(name),
                        Err(error) => panic!("{error}"),
                    };
                    finished.push(Got::Reply(*serial, reply));
                    false
                });
                match incoming {
                    Some(Incoming::Call(call)) => Got::Call {
                        sender: call.header().sender.unwrap().into(),
                        text: call.text().unwrap_or_default().into(),
                        answer: Answer::Native(call),
                    },
                    Some(Incoming::Signal(signal)) if signal.header().interface == Some(CONTROL) => {
                        Got::Control(signal.header().member.unwrap().into())
                    }
                    Some(Incoming::AuthorityGone) => panic!("causewayd is gone"),
                    _ => Got::Nothing,
                }
            }
            Link::Client(client) => {
                let Some(message) = client.receive(patience).unwrap() else { return Got::Nothing };
                let header = Header::parse(&message).unwrap();
                let reply = header.reply_serial.unwrap_or(0);
                match header.kind {
                    Kind::MethodCall => Got::Call {
                        sender: header.sender.unwrap().into(),
                        text: text_of(&message),
                        answer: Answer::Serial(header.serial),
                    },
                    Kind::MethodReturn => Got::Reply(reply, Ok(text_of(&message))),
                    Kind::Error => Got::Reply(reply, Err(header.error_name.unwrap().into())),
                    _ if header.interface == Some(CONTROL) => Got::Control(header.member.unwrap().into()),
                    _ => Got::Nothing,
                }
            }
        }
    }
}

/// A call without its reply.
struct Open {
    at: Instant,
    /// What the reply must be; `None` for what the bus is asked.
    text: Option<String>,
}

struct Participant {
    number: u32,
    life: u32,
    count: u32,
    link: Link,
    random: Rng,
    open: HashMap<u32, Open>,
    calls: u32,
    /// The last call of each caller.
    callers: HashMap<String, u32>,
    report: Report,
}

impl Participant {
    fn text(&self, number: u32, bytes: usize) -> String {
        let mut text = format!("{}.{}.{number}:", self.number, self.life);
        let more = bytes.saturating_sub(text.len());
        text.extend(std::iter::repeat_n('x', more));
        text
    }

    fn send(&mut self, step: Step) {
        match step {
            Step::Signal(bytes) => {
                let text = self.text(self.report.signals + 1, bytes);
                self.link.emit("Happened", Body::default().text(&text));
                self.report.signals += 1;
            }
            Step::Call(bytes) => {
                let to = name(self.random.u32(..self.count));
                self.calls += 1;
                let text = self.text(self.calls, bytes);
                match self.link.call(&to, TRAFFIC, "Echo", Body::default().text(&text)) {
                    Ok(serial) => {
                        drop(self.open.insert(serial, Open { at: Instant::now(), text: Some(text) }))
                    }
                    Err(error) => self.callee_gone(&error, Duration::ZERO),
                }
            }
            Step::Ask => {
                let body = Body::default().text(&name(self.random.u32(..self.count)));
                let driver = causeway_dbus_wire::driver::DRIVER;
                let serial = self.link.call(driver, driver, "NameHasOwner", body).unwrap();
                self.open.insert(serial, Open { at: Instant::now(), text: None });
            }
        }
    }

    fn callee_gone(&mut self, error: &str, after: Duration) {
        let is_gone = ["NoReply", "ServiceUnknown", "NameHasNoOwner"].iter().any(|end| error.ends_with(end));
        assert!(is_gone, "a call ended with {error} after {after:?}");
        assert!(after < LATE, "a call ended with {error}, and only after {after:?}");
        self.report.callee_gone += 1;
    }

    /// Handles one thing that came; returns a word of control.
    fn handle(&mut self, got: Got) -> Option<String> {
        match got {
            Got::Nothing => {}
            Got::Control(word) => return Some(word),
            Got::Call { sender, text, answer } => {
                let [_, _, call] = token(&text).unwrap_or_else(|| panic!("{text:?} was called"));
                let before = self.callers.insert(sender.clone(), call).unwrap_or(0);
                assert!(call > before, "call {call} of {sender} came after {before}");
                self.link.answer(&sender, &answer, &text);
            }
            Got::Reply(serial, reply) => {
                let open =
                    self.open.remove(&serial).unwrap_or_else(|| panic!("a reply to {serial}: {reply:?}"));
                match (reply, open.text) {
                    (Ok(_), None) => self.report.asked += 1,
                    (Ok(reply), Some(text)) => {
                        assert_eq!(reply, text, "the reply to call {serial}");
                        self.report.answered += 1;
                    }
                    (Err(error), Some(_)) => self.callee_gone(&error, open.at.elapsed()),
                    (Err(error), None) => panic!("the bus answers with {error}"),
                }
            }
        }
        let oldest = self.open.values().map(|open| open.at.elapsed()).max().unwrap_or_default();
        assert!(oldest < 2 * LATE, "a call has no end after {oldest:?}");
        None
    }

    fn run(&mut self, rate: u64, report: &Path) {
        let pause = Duration::from_secs(1) * self.count / u32::try_from(rate).unwrap();
        let steps = steps();
        let mut at = self.random.usize(..steps.len());
        let mut next = Instant::now() + pause.mul_f64(self.random.f64());
        let (mut sends, mut is_written) = (true, false);
        loop {
            let now = Instant::now();
            if sends && now >= next {
                self.send(steps[at % steps.len()]);
                at += 1;
                // One that was held up sends no faster afterwards.
                next = (next + pause).max(now);
                continue;
            }
            let patience = if sends { next - now } else { Duration::from_millis(50) };
            let got = self.link.next(patience);
            match self.handle(got).as_deref() {
                Some("Stop") => sends = false,
                Some("End") => return,
                _ => {}
            }
            if !sends && !is_written && self.open.is_empty() {
                self.report.write(report);
                is_written = true;
            }
        }
    }
}

/// The test program started as a participant; else nothing.
#[test]
fn play() {
    let (Ok(role), Some(report)) = (std::env::var(ROLE), std::env::var_os(REPORT)) else { return };
    // Whatever ends the test ends its participants.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let mut words = role.splitn(5, ' ');
    let mut number = || words.next().unwrap().parse::<u32>().unwrap();
    let (number, life, count, rate) = (number(), number(), number(), number());
    let link = Link::open(number, words.next().unwrap());
    let report = PathBuf::from(report);
    std::fs::write(report.with_extension(READY), "").unwrap();
    // A seed for each life.
    let random = Rng::with_seed(u64::from(number) << 32 | u64::from(life));
    let mut participant = Participant {
        number,
        life,
        count,
        link,
        random,
        open: HashMap::new(),
        calls: 0,
        callers: HashMap::new(),
        report: Report::default(),
    };
    participant.run(rate.into(), &report);
}
