//! Lanes of CPUs and roles, and the arrows between them.

use std::collections::BTreeMap;

use crate::timeline::broker::Part;
use crate::timeline::subject::{Point, Subject};
use crate::timeline::trace::{Event, Trace};

/// What a lane is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A CPU.
    Cpu(u32),
    /// A thread of a role, by the index of the role.
    Role(usize, u32),
}

/// What fills a part of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A thread runs: one of a role, or another one.
    Run(Option<usize>),
    /// A thread could run and has no CPU.
    Ready,
    /// A CPU has nothing to do.
    Idle,
    /// It halts.
    Halted,
    /// An interrupt, or work that one has left.
    Interrupt,
    /// A role writes a message.
    Write,
    /// A role asks for a message, and waits.
    Wait,
    /// A process without marks is in a system call.
    Call,
    /// It is between two of them: a broker dispatches.
    Dispatch,
    /// Records are missing.
    Lost,
}

impl What {
    /// Does it lie over what else the lane shows?
    pub fn is_above(self) -> bool {
        use What::{Call, Dispatch, Halted, Interrupt, Wait, Write};
        matches!(self, Halted | Interrupt | Write | Wait | Call | Dispatch)
    }

    /// As a record has it.
    pub fn word(self) -> &'static str {
        match self {
            What::Run(_) => "run",
            What::Ready => "ready",
            What::Idle => "idle",
            What::Halted => "halted",
            What::Interrupt => "interrupt",
            What::Write => "write",
            What::Wait => "wait",
            What::Call => "call",
            What::Dispatch => "dispatch",
            What::Lost => "lost",
        }
    }
}

/// A part of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// What it is.
    pub what: What,
    /// In words.
    pub name: String,
}

/// A CPU or a thread of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What it is of.
    pub of: Of,
    /// What fills it, by the time of the beginning.
    pub spans: Vec<Span>,
}

/// Something that goes from one lane to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Index of the lane that it leaves.
    pub from: usize,
    /// When.
    pub from_ns: u64,
    /// Index of the lane that it reaches.
    pub to: usize,
    /// When.
    pub to_ns: u64,
    /// Is it a message? Otherwise a wake-up.
    pub is_message: bool,
    /// In words.
    pub name: String,
}

/// The lanes from `from_ns` to `to_ns`, CPUs first, and the arrows between those of roles.
pub fn lanes(subject: &Subject, from_ns: u64, to_ns: u64) -> (Vec<Lane>, Vec<Arrow>) {
    let window = Window { from_ns, to_ns };
    let mut lanes = Vec::new();
    if let Some(trace) = &subject.trace {
        let cpus = trace.known_from_ns.keys().map(|cpu| of_cpu(subject, trace, *cpu, window));
        // Of a machine with many CPUs those are shown that matter.
        let missing = subject.missing_switches(from_ns, to_ns);
        lanes.extend(cpus.filter(|lane| {
            lane.spans.iter().any(|span| matches!(span.what, What::Run(Some(_))))
                || missing.iter().any(|of| lane.of == Of::Cpu(of.cpu))
        }));
    }
    for (index, role) in subject.roles.iter().enumerate() {
        let states =
            |thread: u32| subject.trace.iter().flat_map(move |trace| states(trace, thread, index, window));
        let notes = notes(subject, index, window);
        // A role without a thread of its own is one of those that another process plays.
        let own = role.threads.first().copied().unwrap_or(0);
        let threads = if role.threads.is_empty() { &[0][..] } else { &role.threads };
        for thread in threads {
            let mut spans: Vec<Span> = if *thread == 0 { Vec::new() } else { states(*thread).collect() };
            // A process of many threads is shown by those that do something.
            if *thread != own && spans.iter().all(|span| !matches!(span.what, What::Run(_))) {
                continue;
            }
            spans.extend(subject.trace.iter().flat_map(|trace| calls(trace, *thread, window)));
            if *thread == own {
                spans.extend(notes.iter().cloned());
            }
            if spans.is_empty() {
                continue;
            }
            spans.sort_by_key(|span| (span.from_ns, span.what.is_above()));
            let name = if *thread == own { role.name.clone() } else { format!("{} ({thread})", role.name) };
            lanes.push(Lane { name, of: Of::Role(index, *thread), spans });
        }
    }
    let arrows = arrows(subject, &lanes, window);
    (lanes, arrows)
}

#[derive(Clone, Copy)]
struct Window {
    from_ns: u64,
    to_ns: u64,
}

impl Window {
    /// The part of a span that lies in the window.
    fn span(self, from_ns: u64, to_ns: u64, what: What, name: impl Into<String>) -> Option<Span> {
        let (from_ns, to_ns) = (from_ns.max(self.from_ns), to_ns.min(self.to_ns));
        (from_ns < to_ns).then(|| Span { from_ns, to_ns, what, name: name.into() })
    }
}

/// What is said of a time in which a switch must have been that the kernel has not recorded.
const UNRECORDED: &str = "a switch is not recorded";

fn of_cpu(subject: &Subject, trace: &Trace, cpu: u32, window: Window) -> Lane {
    let Window { to_ns, .. } = window;
    let mut spans = Vec::new();
    let (mut since_ns, mut runs) = (trace.known_from_ns.get(&cpu).copied().unwrap_or(0), None);
    let (mut halted_since_ns, mut interrupts) = (None, Vec::new());
    let running = |from_ns: u64, to_ns: u64, thread: Option<u32>| {
        let what = match thread? {
            0 => What::Idle,
            thread => What::Run(subject.role_of(thread)),
        };
        window.span(from_ns, to_ns, what, subject.thread_name(thread?))
    };
    for happened in trace.events.iter().filter(|of| of.cpu == cpu) {
        let at_ns = happened.at_ns;
        // The next switch says whether what ran last did so until the end.
        if at_ns > to_ns && !matches!(happened.event, Event::Switch { .. }) {
            continue;
        }
        match &happened.event {
            Event::Switch { from, to, .. } => {
                let is_missing =
                    runs.is_some_and(|thread| thread != *from) && !trace.has_gap(cpu, since_ns, at_ns);
                spans.extend(if is_missing {
                    window.span(since_ns, at_ns, What::Lost, UNRECORDED)
                } else {
                    running(since_ns, at_ns, runs.or(Some(*from)))
                });
                (since_ns, runs) = (at_ns, Some(*to));
                if at_ns > to_ns {
                    break;
                }
            }
            Event::Idle(Some(state)) => halted_since_ns = Some((at_ns, *state)),
            Event::Idle(None) => {
                let halted = halted_since_ns.take();
                spans.extend(halted.and_then(|(from_ns, state)| {
                    window.span(from_ns, at_ns, What::Halted, format!("idle state {state}"))
                }));
            }
            Event::InterruptBegins(name) => interrupts.push((at_ns, name)),
            Event::InterruptEnds => spans.extend(
                interrupts
                    .pop()
                    .and_then(|(from_ns, name)| window.span(from_ns, at_ns, What::Interrupt, name)),
            ),
            Event::Waking { .. } | Event::CallBegins(..) | Event::CallEnds(_) => {}
        }
    }
    spans.extend(running(since_ns, to_ns, runs));
    spans.extend(halted_since_ns.and_then(|(from_ns, state)| {
        window.span(from_ns, to_ns, What::Halted, format!("idle state {state}"))
    }));
    let gaps = trace.gaps.iter().filter(|gap| gap.cpu == cpu);
    let lost = gaps.filter_map(|gap| {
        let count = gap.lost.map_or("events".into(), |lost| format!("{lost} events"));
        window.span(gap.from_ns, gap.to_ns, What::Lost, format!("{count} lost"))
    });
    spans.extend(lost);
    spans.sort_by_key(|span| (span.from_ns, span.what.is_above()));
    Lane { name: format!("CPU {cpu}"), of: Of::Cpu(cpu), spans }
}

/// When a thread runs, and when it could.
fn states(trace: &Trace, thread: u32, role: usize, window: Window) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut state, mut last_ns): (Option<(u64, What)>, Option<u64>) = (None, None);
    for happened in &trace.events {
        let at_ns = happened.at_ns;
        let is_own = matches!(happened.event, Event::Switch { from, to, .. } if [from, to].contains(&thread));
        // The next switch says whether what it did last was so until the end.
        if at_ns > window.to_ns && !is_own {
            continue;
        }
        let next = match &happened.event {
            Event::Switch { to, .. } if *to == thread => Some((at_ns, What::Run(Some(role)))),
            Event::Switch { from, is_runnable, .. } if *from == thread => {
                let known_from_ns = trace.known_from_ns.get(&happened.cpu).copied();
                state = match (state, last_ns) {
                    // Seen for the first time: it ran until now.
                    (None, None) => known_from_ns.map(|ns| (ns, What::Run(Some(role)))),
                    (Some((_, What::Run(_))), _) => state,
                    // It ran, but the switch to it is missing.
                    _ => state.map(|(since_ns, _)| since_ns).or(last_ns).map(|ns| (ns, What::Lost)),
                };
                is_runnable.then_some((at_ns, What::Ready))
            }
            // A thread that is woken before it has gone to sleep goes on.
            Event::Waking { woken, .. } if *woken == thread && state.is_none() => Some((at_ns, What::Ready)),
            _ => continue,
        };
        last_ns = Some(at_ns);
        let ended = std::mem::replace(&mut state, next);
        spans.extend(ended.and_then(|(from_ns, what)| window.span(from_ns, at_ns, what, words(what))));
        if at_ns > window.to_ns {
            break;
        }
    }
    spans.extend(state.and_then(|(from_ns, what)| window.span(from_ns, window.to_ns, what, words(what))));
    spans
}

/// The system calls of a thread, where they were recorded, and the times between them.
fn calls(trace: &Trace, thread: u32, window: Window) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut state: Option<(u64, What, &str)> = None;
    for happened in &trace.events {
        let next = match happened.event {
            Event::CallBegins(of, name) if of == thread => {
                let what = match Part::of_call(name) {
                    Part::Sending => What::Write,
                    Part::Waiting => What::Wait,
                    _ => What::Call,
                };
                (happened.at_ns, what, name)
            }
            Event::CallEnds(of) if of == thread => (happened.at_ns, What::Dispatch, "dispatch"),
            _ => continue,
        };
        let ended = state.replace(next);
        spans.extend(ended.and_then(|(from_ns, what, name)| window.span(from_ns, next.0, what, name)));
        if next.0 > window.to_ns {
            return spans;
        }
    }
    spans.extend(state.and_then(|(from_ns, what, name)| window.span(from_ns, window.to_ns, what, name)));
    spans
}

fn words(what: What) -> &'static str {
    match what {
        What::Ready => "ready, no CPU",
        What::Lost => UNRECORDED,
        _ => "runs",
    }
}

/// What a role writes and reads, by its own marks.
fn notes(subject: &Subject, role: usize, window: Window) -> Vec<Span> {
    let marks = &subject.roles[role].marks;
    let mut spans = Vec::new();
    for pair in marks.windows(2) {
        let of = |words: &str| match pair[1].number {
            Some(number) => format!("{words} {}", subject.message_name(number)),
            None => words.to_owned(),
        };
        let (what, name) = match (pair[0].point, pair[1].point) {
            (Point::WriteBegins, Point::Written) => (What::Write, of("writes")),
            // Several messages may come of one wait.
            (Point::WaitBegins | Point::Read, Point::Read) => (What::Wait, of("reads")),
            _ => continue,
        };
        spans.extend(window.span(pair[0].at_ns, pair[1].at_ns, what, name));
    }
    spans
}

fn arrows(subject: &Subject, lanes: &[Lane], window: Window) -> Vec<Arrow> {
    let Window { from_ns, to_ns } = window;
    let lane_of_role =
        |role: usize| lanes.iter().position(|lane| matches!(lane.of, Of::Role(of, _) if of == role));
    let by_thread: BTreeMap<u32, usize> = lanes
        .iter()
        .enumerate()
        .filter_map(|(index, lane)| match lane.of {
            Of::Role(_, thread @ 1..) => Some((thread, index)),
            Of::Role(..) | Of::Cpu(_) => None,
        })
        .collect();
    let messages = subject.messages(from_ns, to_ns);
    let mut arrows: Vec<Arrow> = messages
        .iter()
        .filter(|message| message.read_ns <= to_ns)
        .filter_map(|message| {
            Some(Arrow {
                from: lane_of_role(message.from)?,
                from_ns: message.begins_ns,
                to: lane_of_role(message.to)?,
                to_ns: message.read_ns,
                is_message: true,
                name: subject.message_name(message.number),
            })
        })
        .collect();
    let Some(trace) = &subject.trace else { return arrows };
    let events = trace.between(from_ns, to_ns);
    for (index, happened) in events.iter().enumerate() {
        let Event::Waking { by, woken } = happened.event else { continue };
        let (Some(from), Some(to)) = (by_thread.get(&by), by_thread.get(&woken)) else { continue };
        let runs =
            events[index..].iter().find(|of| matches!(of.event, Event::Switch { to, .. } if to == woken));
        arrows.extend(runs.map(|runs| Arrow {
            from: *from,
            from_ns: happened.at_ns,
            to: *to,
            to_ns: runs.at_ns,
            is_message: false,
            name: format!("{} wakes {}", lanes[*from].name, lanes[*to].name),
        }));
    }
    arrows
}
