//! A process that takes part: it sends at its rate, answers, and checks what it gets.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use causeway_bus::client::Bus;
use causeway_bus::wire::{Builder, Kind};
use causeway_testkit::Rng;

use super::{CONTROL, OBJECT, READY, TRAFFIC};
use crate::support::*;

/// Its number, its life, how many there are, messages a second of all, and where the bus is.
pub const ROLE: &str = "CAUSEWAY_DAY_ROLE";
/// Where its report goes.
pub const REPORT: &str = "CAUSEWAY_DAY_REPORT";
/// A call that takes longer was lost: its timeout is 25 s, and the death of a callee is known at once.
const LATE: Duration = Duration::from_secs(20);

/// What a participant does next.
#[derive(Clone, Copy)]
enum Step {
    /// Ask the bus something.
    Ask,
    /// Call another participant, with a body of so many bytes.
    Call(usize),
    /// Emit a signal with a body of so many bytes.
    Signal(usize),
}

/// What the file `CAUSEWAY_DAY_STEPS` says, or the proportions of a desktop session (`docs/figures/dbus-session.txt`): of ten messages that
/// programs send of themselves, five ask the bus, three call each other, two are signals. A line of the file is `ask`, `call BYTES` or
/// `signal BYTES`.
fn steps() -> Vec<Step> {
    use Step::{Ask, Call, Signal};
    let Ok(path) = std::env::var("CAUSEWAY_DAY_STEPS") else {
        return vec![Ask, Call(80), Signal(120), Ask, Call(600), Ask, Ask, Signal(40), Call(12_000), Ask];
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let step = |line: &str| match line.split_once(' ').map(|(word, bytes)| (word, bytes.parse().unwrap())) {
        Some(("call", bytes)) => Call(bytes),
        Some(("signal", bytes)) => Signal(bytes),
        None if line == "ask" => Ask,
        _ => panic!("{path}: {line:?} is not a step"),
    };
    text.lines().map(step).collect()
}

/// Counts of one life that was not ended by a kill.
#[derive(Default)]
pub struct Report {
    /// Signals emitted.
    pub signals: u32,
    /// Calls that ended with their reply.
    pub answered: u32,
    /// Calls that ended because their callee was gone.
    pub callee_gone: u32,
    /// Questions that the bus answered.
    pub asked: u32,
}

impl Report {
    /// Writes it whole or not at all.
    fn write(&self, path: &Path) {
        let half = path.with_extension("half");
        let counts = [self.signals, self.answered, self.callee_gone, self.asked];
        std::fs::write(&half, counts.map(|count| count.to_string()).join(".")).unwrap();
        std::fs::rename(half, path).unwrap();
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Report, String> {
        let [signals, answered, callee_gone, asked] = numbers(text).ok_or(text)?;
        Ok(Report { signals, answered, callee_gone, asked })
    }
}

/// Numbers with points between them.
fn numbers<const COUNT: usize>(text: &str) -> Option<[u32; COUNT]> {
    let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

/// Participant, life and number at the beginning of a body.
pub fn token(text: &str) -> Option<[u32; 3]> {
    numbers(text.split(':').next()?)
}

/// The name of a participant.
fn name(number: u32) -> String {
    format!("day.Participant{number}")
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
    bus: Bus,
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
        let to = name(self.random.u32(..self.count));
        let (call, said) = match step {
            Step::Signal(bytes) => {
                self.report.signals += 1;
                let said = text(&self.text(self.report.signals, bytes));
                self.bus.send(&Builder::signal(OBJECT, TRAFFIC, "Happened").body(said)).unwrap();
                return;
            }
            Step::Call(bytes) => {
                self.calls += 1;
                let said = self.text(self.calls, bytes);
                let call = Builder::call(OBJECT, "Echo").interface(TRAFFIC).destination(&to);
                (call.body(text(&said)), Some(said))
            }
            Step::Ask => (driver_call("NameHasOwner").body(text(&to)), None),
        };
        let serial = self.bus.send(&call).unwrap();
        self.open.insert(serial, Open { at: Instant::now(), text: said });
    }

    /// Handles one message that came; returns a word of control.
    fn handle(&mut self, message: &[u8]) -> Option<String> {
        let header = header(message);
        let said = texts(message).into_iter().next().unwrap_or_default();
        match header.kind {
            Kind::MethodCall => {
                let [_, _, call] = token(&said).unwrap_or_else(|| panic!("{said:?} was called"));
                let sender = header.sender.unwrap();
                let before = self.callers.insert(sender.to_owned(), call).unwrap_or(0);
                assert!(call > before, "call {call} of {sender} came after {before}");
                answer(&mut self.bus, message, text(&said));
            }
            Kind::MethodReturn | Kind::Error => {
                let serial = header.reply_serial.unwrap();
                let open = self.open.remove(&serial).unwrap_or_else(|| panic!("a reply to {serial}: {said}"));
                match (header.error_name, open.text) {
                    (None, None) => self.report.asked += 1,
                    (None, Some(text)) => {
                        assert_eq!(said, text, "the reply to call {serial}");
                        self.report.answered += 1;
                    }
                    (Some(error), Some(_)) => {
                        let ends = ["NoReply", "ServiceUnknown", "NameHasNoOwner"];
                        let (is_gone, after) =
                            (ends.iter().any(|end| error.ends_with(end)), open.at.elapsed());
                        assert!(is_gone && after < LATE, "a call ended with {error} after {after:?}");
                        self.report.callee_gone += 1;
                    }
                    (Some(error), None) => panic!("the bus answers with {error}"),
                }
            }
            _ if header.interface == Some(CONTROL) => return header.member.map(str::to_owned),
            _ => {}
        }
        let oldest = self.open.values().map(|open| open.at.elapsed()).max().unwrap_or_default();
        assert!(oldest < 2 * LATE, "a call has no end after {oldest:?}");
        None
    }

    fn run(&mut self, rate: u32, report: &Path) {
        let pause = Duration::from_secs(1) * self.count / rate;
        let steps = steps();
        let mut steps = steps.iter().cycle().skip(self.random.usize(..steps.len()));
        let mut next = Instant::now() + pause.mul_f64(self.random.f64());
        let (mut sends, mut is_written) = (true, false);
        loop {
            let now = Instant::now();
            if sends && now >= next {
                self.send(*steps.next().expect("there are steps"));
                // One that was held up sends no faster afterwards.
                next = (next + pause).max(now);
                continue;
            }
            let patience = if sends { next - now } else { Duration::from_millis(50) };
            let message = self.bus.receive(patience).unwrap();
            match message.and_then(|message| self.handle(&message)).as_deref() {
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
    let [number, life, count, rate] = std::array::from_fn(|_| words.next().unwrap().parse().unwrap());
    let mut bus = Bus::open(words.next().unwrap()).unwrap();
    bus.add_match(&format!("type='signal',interface='{CONTROL}'")).unwrap();
    bus.request_name(&name(number), 0).unwrap();
    let report = PathBuf::from(report);
    std::fs::write(report.with_extension(READY), "").unwrap();
    // A seed for each life.
    let random = Rng::with_seed(u64::from(number) << 32 | u64::from(life));
    let (open, callers) = (HashMap::new(), HashMap::new());
    let mut participant =
        Participant { number, life, count, bus, random, open, calls: 0, callers, report: Report::default() };
    participant.run(rate, &report);
}
