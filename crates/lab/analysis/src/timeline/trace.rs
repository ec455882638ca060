//! What the kernel recorded, as values: who runs, who is woken, interrupts, idle CPUs.

use std::collections::BTreeMap;

use syscalls::Sysno;
use weighbridge_record::MissingSwitches;

use crate::timeline::format::{Format, FormatError};
use crate::timeline::pages::{self, Page};

/// The events without which there is no time line, as tracefs names them.
pub const EVENTS: [&str; 2] = ["sched/sched_switch", "sched/sched_waking"];

/// The events that a kernel may lack.
pub const OPTIONAL_EVENTS: [&str; 9] = [
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "power/cpu_idle",
];

/// The beginnings and ends of system calls, where they are recorded of some threads.
pub const CALL_EVENTS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];

/// Names of softirqs by number (`include/linux/interrupt.h`).
const SOFTIRQS: [&str; 10] =
    ["hi", "timer", "net-tx", "net-rx", "block", "irq-poll", "tasklet", "sched", "hrtimer", "rcu"];

/// The interrupt of a CPU's own timer.
const TICK: &str = "timer";

/// The formats of events by their number, with their names.
#[derive(Clone, Debug, Default)]
pub struct Formats(BTreeMap<u32, (String, Format)>);

impl Formats {
    /// Adds the event `name` (`group/event`) with its number and the kernel's description.
    ///
    /// # Errors
    /// The description is not of the form that is known.
    pub fn add(&mut self, name: &str, id: u32, description: &str) -> Result<(), FormatError> {
        self.0.insert(id, (name.into(), Format::parse(description)?));
        Ok(())
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread gives the CPU to another one. Thread 0 is the idle CPU.
    Switch {
        /// The thread that ran.
        from: u32,
        /// Whether it could have gone on: it was preempted, or it yielded. The kernel tells these apart only in part.
        is_runnable: bool,
        /// The thread that runs from here on.
        to: u32,
    },
    /// A sleeping thread is made ready to run.
    Waking {
        /// The thread that runs where this happens.
        by: u32,
        /// The thread that is woken.
        woken: u32,
    },
    /// An interrupt, or the work that one has left for later, begins.
    InterruptBegins(String),
    /// It ends.
    InterruptEnds,
    /// The CPU halts, in this state, or does not halt any more.
    Idle(Option<u32>),
    /// A thread begins a system call, by its name.
    CallBegins(u32, &'static str),
    /// It is back from it.
    CallEnds(u32),
}

/// Something that happened on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Time of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Where.
    pub cpu: u32,
    /// What.
    pub event: Event,
}

/// A time in which records of a CPU are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// Time of the last record before the gap.
    pub from_ns: u64,
    /// Time of the first record after it.
    pub to_ns: u64,
    /// How many, where the kernel says so.
    pub lost: Option<u64>,
}

/// All that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of time.
    pub events: Vec<Happened>,
    /// Times in which records are missing. What was overwritten before the first record is none.
    pub gaps: Vec<Gap>,
    /// Records that found no place, of which it is not known when they were lost.
    pub dropped: u64,
    /// From when on each recorded CPU is known: 0 where nothing was overwritten before its first record, however late that is.
    pub known_from_ns: BTreeMap<u32, u64>,
    /// Names of threads.
    pub names: BTreeMap<u32, String>,
}

impl Trace {
    /// Reads the pages of each CPU, in the order in which the kernel hands them out.
    pub fn decode<'a>(pages: impl IntoIterator<Item = (u32, &'a [Vec<u8>])>, formats: &Formats) -> Trace {
        let mut trace = Trace::default();
        for (cpu, pages) in pages {
            let (mut known_from_ns, mut last_ns) = (0, None);
            for Page { begins_ns, lost, records } in pages.iter().filter_map(|bytes| pages::page(bytes)) {
                match (last_ns, lost) {
                    (Some(from_ns), Some(lost)) => {
                        trace.gaps.push(Gap { cpu, from_ns, to_ns: begins_ns, lost });
                    }
                    (None, Some(_)) => known_from_ns = begins_ns,
                    (_, None) => {}
                }
                for (at_ns, record) in records {
                    last_ns = Some(at_ns);
                    trace.add(at_ns, cpu, record, formats);
                }
            }
            trace.known_from_ns.insert(cpu, known_from_ns);
        }
        // Stable, so that records of one CPU stay in their order.
        trace.events.sort_by_key(|happened| happened.at_ns);
        trace
    }

    fn add(&mut self, at_ns: u64, cpu: u32, record: &[u8], formats: &Formats) {
        let id = record.first_chunk().map(|bytes| u32::from(u16::from_ne_bytes(*bytes)));
        let Some((name, format)) = id.and_then(|id| formats.0.get(&id)) else { return };
        let number = |field: &str| format.number(record, field);
        let thread = |field: &str| number(field).map(|value| value as u32);
        let event = match name.as_str() {
            "sched/sched_switch" => {
                self.name(thread("prev_pid"), format.text(record, "prev_comm"));
                self.name(thread("next_pid"), format.text(record, "next_comm"));
                // 0 is a thread that could have gone on: it called sched_yield, or was preempted on its way to user mode. One that was
                // preempted in the kernel has a bit above the states, whatever its state is (`__trace_sched_switch_state`).
                const STATES: i64 = 0xff;
                thread("prev_pid")
                    .zip(thread("next_pid"))
                    .zip(number("prev_state"))
                    .map(|((from, to), state)| Event::Switch { from, is_runnable: state & STATES == 0, to })
            }
            "sched/sched_waking" => {
                self.name(thread("pid"), format.text(record, "comm"));
                thread("common_pid").zip(thread("pid")).map(|(by, woken)| Event::Waking { by, woken })
            }
            "raw_syscalls/sys_enter" => {
                let call = number("id").and_then(|id| Sysno::new(usize::try_from(id).ok()?));
                let name = call.map_or("another call", |call| call.name());
                thread("common_pid").map(|thread| Event::CallBegins(thread, name))
            }
            "raw_syscalls/sys_exit" => thread("common_pid").map(Event::CallEnds),
            "irq/irq_handler_entry" => format.text(record, "name").map(Event::InterruptBegins),
            "irq/softirq_entry" => {
                let name = thread("vec").and_then(|vec| SOFTIRQS.get(vec as usize));
                Some(Event::InterruptBegins(format!("softirq {}", name.unwrap_or(&"?"))))
            }
            "power/cpu_idle" => {
                thread("state").map(|state| Event::Idle((state != u32::MAX).then_some(state)))
            }
            other if other.ends_with("_exit") => Some(Event::InterruptEnds),
            "irq_vectors/reschedule_entry" => Some(Event::InterruptBegins("reschedule IPI".into())),
            "irq_vectors/local_timer_entry" => Some(Event::InterruptBegins(TICK.into())),
            _ => None,
        };
        self.events.extend(event.map(|event| Happened { at_ns, cpu, event }));
    }

    fn name(&mut self, thread: Option<u32>, name: Option<String>) {
        if let (Some(thread @ 1..), Some(name)) = (thread, name) {
            self.names.insert(thread, name);
        }
    }

    /// How many records were lost, as far as the kernel says; at least one for each gap.
    pub fn lost(&self) -> u64 {
        self.dropped + self.gaps.iter().map(|gap| gap.lost.unwrap_or(1)).sum::<u64>()
    }

    /// The CPUs on which switches are missing between `from_ns` and `to_ns` although no records were lost: a thread gives the CPU away that never got it.
    /// Some kernels do not record the switches away from some threads, such as the idle task of one CPU. Those that neither begin nor end with a thread that `is_meant` do not count.
    pub fn missing_switches(
        &self,
        from_ns: u64,
        to_ns: u64,
        is_meant: impl Fn(u32) -> bool,
    ) -> Vec<MissingSwitches> {
        let mut missing: BTreeMap<u32, MissingSwitches> = BTreeMap::new();
        let mut runs: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for Happened { at_ns, cpu, event } in &self.events {
            let Event::Switch { from, to, .. } = event else { continue };
            let Some((since_ns, before)) = runs.insert(*cpu, (*at_ns, *to)) else { continue };
            let is_outside = *at_ns < from_ns || since_ns > to_ns || !(is_meant(before) || is_meant(*from));
            if before == *from || is_outside || self.has_gap(*cpu, since_ns, *at_ns) {
                continue;
            }
            let of_cpu = missing.entry(*cpu).or_insert(MissingSwitches { cpu: *cpu, count: 0, from_idle: 0 });
            of_cpu.count += 1;
            of_cpu.from_idle += u64::from(before == 0);
        }
        missing.into_values().collect()
    }

    /// What made a thread that could have gone on lose the CPU in this switch: the latest of what happened on that CPU since the thread
    /// has it. A `wake-up` made another thread ready, the `tick` of the timer found that its time was over; `other` where neither was
    /// recorded: it yielded, or another CPU did it.
    pub(crate) fn cause(&self, switch: &Happened) -> &'static str {
        let end = self.events.partition_point(|of| of.at_ns <= switch.at_ns);
        let of_cpu = self.events[..end].iter().rev().filter(|of| of.cpu == switch.cpu);
        let before = of_cpu.skip_while(|of| *of != switch).skip(1);
        for of in before {
            match &of.event {
                Event::Switch { .. } => break,
                Event::Waking { .. } => return "wake-up",
                Event::InterruptBegins(name) if name == TICK => return "tick",
                _ => {}
            }
        }
        "other"
    }

    /// Are records of a CPU lost between these times?
    pub(crate) fn has_gap(&self, cpu: u32, from_ns: u64, to_ns: u64) -> bool {
        self.gaps.iter().any(|gap| gap.cpu == cpu && gap.from_ns <= to_ns && gap.to_ns >= from_ns)
    }

    /// Which of these CPUs were not recorded.
    pub fn unrecorded(&self, cpus: impl IntoIterator<Item = u32>) -> Vec<u32> {
        cpus.into_iter().filter(|cpu| !self.known_from_ns.contains_key(cpu)).collect()
    }

    /// The events from `from_ns` to `to_ns`, both included.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> &[Happened] {
        let first = self.events.partition_point(|happened| happened.at_ns < from_ns);
        let end = self.events.partition_point(|happened| happened.at_ns <= to_ns);
        &self.events[first..end.max(first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::pages::tests::page_of;

    fn formats() -> Formats {
        let field = |name: &str, offset: usize, size: usize| {
            format!("\tfield:int {name};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
        };
        let common = field("common_pid", 4, 4);
        let mut formats = Formats::default();
        let switch =
            [&common, &field("prev_pid", 8, 4), &field("prev_state", 12, 4), &field("next_pid", 16, 4)];
        formats.add(EVENTS[0], 300, &switch.map(String::as_str).concat()).unwrap();
        formats.add(EVENTS[1], 301, &[common.as_str(), &field("pid", 8, 4)].concat()).unwrap();
        formats.add("power/cpu_idle", 302, &field("state", 4, 4)).unwrap();
        formats
    }

    #[test]
    fn records_become_events_in_the_order_of_time_over_all_cpus() {
        let first = page_of(100, 0, &[5, 300, 7, 7, 1, 8, 3 | 50 << 5, 301, 8, 7]);
        let second = page_of(120, 0, &[2, 302, 1, 2 | 60 << 5, 302, u32::MAX, 2, 999, 0]);
        let trace = Trace::decode([(0, &[first][..]), (1, &[second][..])], &formats());
        let what: Vec<_> = trace.events.iter().map(|of| (of.at_ns, of.cpu, of.event.clone())).collect();
        assert_eq!(
            what,
            [
                (100, 0, Event::Switch { from: 7, is_runnable: false, to: 8 }),
                (120, 1, Event::Idle(Some(1))),
                (150, 0, Event::Waking { by: 8, woken: 7 }),
                (180, 1, Event::Idle(None)),
            ]
        );
        assert_eq!(trace.between(120, 150).len(), 2);
        assert_eq!(trace.lost(), 0);
    }

    #[test]
    fn a_thread_that_was_preempted_or_yielded_could_have_gone_on() {
        for (state, is_runnable) in [(0, true), (0x100, true), (1, false), (2, false)] {
            let page = page_of(100, 0, &[5, 300, 7, 7, state, 8]);
            let trace = Trace::decode([(0, &[page][..])], &formats());
            assert_eq!(trace.events[0].event, Event::Switch { from: 7, is_runnable, to: 8 }, "{state}");
        }
    }

    #[test]
    fn a_gap_is_where_records_are_missing_and_the_beginning_is_none() {
        const MISSED: u64 = 1 << 31;
        let page = |at_ns, flags| page_of(at_ns, flags, &[3, 301, 8, 7]);
        let pages = [page(100, MISSED), page(200, 0), page(300, MISSED)];
        let trace = Trace::decode([(1, &pages[..])], &formats());
        assert_eq!(trace.gaps, [Gap { cpu: 1, from_ns: 200, to_ns: 300, lost: None }]);
        assert_eq!((trace.known_from_ns[&1], trace.lost()), (100, 1));
    }

    #[test]
    fn a_quiet_cpu_is_known_from_the_start() {
        let late = [page_of(5_000_000, 0, &[3, 301, 8, 7])];
        let trace = Trace::decode([(0, &late[..]), (1, &[])], &formats());
        assert_eq!(trace.known_from_ns, BTreeMap::from([(0, 0), (1, 0)]));
        assert_eq!(trace.events.len(), 1);
        assert_eq!(trace.unrecorded([0, 1, 16]), [16]);
    }
}
