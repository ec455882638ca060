//! What the reader of a fan-in keeps at every edge of intervals: its own counts, and those of the writers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use weighbridge_probe::counters::ThreadCounters;

use super::writers;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::ctx::LATE_NS;

/// What the reader has counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Reads that returned data, or messages.
    pub events: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Waits of the reader.
    pub calls: u64,
    /// Reads, or waits, that found nothing.
    pub empty: u64,
}

/// Everything that is counted, as it stood at an edge.
struct Edge {
    now_ns: u64,
    reads: Reads,
    writes: u64,
    late_ns: u64,
    voluntary: u64,
    involuntary: u64,
    /// Context switches of the whole machine, where they are looked at.
    of_machine: Option<u64>,
}

/// Shortest interval for which the switches of the whole machine are looked at: the kernel adds up counters of every CPU and interrupt for
/// that, some 100 µs, which is then less than one part in a thousand.
const LOOK_AT_MACHINE_NS: u64 = 100_000_000;

/// The edges of a run so far, and the counters of the writers.
pub struct Edges<'a> {
    counters: &'a SharedCounters,
    writers: usize,
    edges: Vec<Edge>,
    /// `/proc/stat`, where intervals are long enough.
    machine: Option<File>,
}

impl<'a> Edges<'a> {
    /// None yet.
    pub fn new(counters: &'a SharedCounters, params: &CaseParams) -> Edges<'a> {
        Edges { counters, writers: writers(params), edges: Vec::with_capacity(1024), machine: None }
    }

    /// Looks at the context switches of the whole machine too, if intervals are as long as these, so that it does not disturb them.
    pub fn with_machine(self, interval_ns: u64) -> Edges<'a> {
        let machine = (interval_ns >= LOOK_AT_MACHINE_NS).then(|| File::open("/proc/stat").ok()).flatten();
        Edges { machine, ..self }
    }

    /// Has no sample begun?
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// A counter of all writers together.
    pub fn of_writers(&self, counter: Counter) -> u64 {
        self.counters.total(1..=self.writers, counter)
    }

    /// An interval has ended at this time. Context switches are those of all roles.
    pub fn push(&mut self, now_ns: u64, reads: Reads) {
        let own = ThreadCounters::read();
        self.edges.push(Edge {
            now_ns,
            reads,
            writes: self.of_writers(Counter::Messages),
            late_ns: self.of_writers(Counter::LateNs),
            voluntary: own.voluntary_switches + self.of_writers(Counter::VoluntarySwitches),
            involuntary: own.involuntary_switches + self.of_writers(Counter::InvoluntarySwitches),
            of_machine: self.machine.as_ref().and_then(switches_of_machine),
        });
    }

    /// What the writers have sent, in the unit of one of their counters, beside what has arrived.
    pub fn balance(&self, unit: &'static str, sent: Counter, arrived: (u64, u64)) -> Balance {
        Balance { unit, sent: (self.of_writers(sent), self.of_writers(Counter::Sum)), arrived }
    }

    /// Keeps the figures of each interval, by name.
    pub fn tell(&self, cx: &mut Ctx<'_>) {
        // A slice has edges of its own; intervals that follow each other without a gap share them.
        let step = if cx.takes_turns() { 2 } else { 1 };
        let series = |of: &dyn Fn(&Edge, &Edge) -> f64| -> Vec<f64> {
            self.edges.windows(2).step_by(step).map(|pair| of(&pair[0], &pair[1])).collect()
        };
        let per_call = |a: &Edge, b: &Edge| {
            (b.reads.events - a.reads.events) as f64 / (b.reads.calls - a.reads.calls).max(1) as f64
        };
        cx.note_series("events_per_call", series(&per_call));
        if cx.has_rate() {
            let late_ns =
                |a: &Edge, b: &Edge| (b.late_ns - a.late_ns) as f64 / (b.writes - a.writes).max(1) as f64;
            cx.note_series(LATE_NS, series(&late_ns));
        }
        type Of = fn(&Edge) -> u64;
        let per_second: [(&str, Of); 5] = [
            ("bytes_per_s", |edge| edge.reads.bytes),
            ("writes_per_s", |edge| edge.writes),
            ("empty_reads_per_s", |edge| edge.reads.empty),
            ("voluntary_switches_per_s", |edge| edge.voluntary),
            ("involuntary_switches_per_s", |edge| edge.involuntary),
        ];
        for (name, of) in per_second {
            let rate =
                |a: &Edge, b: &Edge| (of(b) - of(a)) as f64 * 1e9 / (b.now_ns - a.now_ns).max(1) as f64;
            cx.note_series(name, series(&rate));
        }
        if self.edges.iter().all(|edge| edge.of_machine.is_some()) {
            let rate = |a: &Edge, b: &Edge| {
                let switches = b.of_machine.unwrap_or(0).saturating_sub(a.of_machine.unwrap_or(0));
                switches as f64 * 1e9 / (b.now_ns - a.now_ns).max(1) as f64
            };
            cx.note_series("machine_switches_per_s", series(&rate));
        }
    }

    /// What all roles did in the whole run, warm-up and drain included.
    pub(super) fn facts(&self, events: u64, bytes: u64, cx: &Ctx<'_>) -> Facts {
        Facts::from([
            ("first_run_reads".into(), events.to_string()),
            ("first_run_writes".into(), self.of_writers(Counter::Messages).to_string()),
            ("first_run_bytes_written".into(), self.of_writers(Counter::Bytes).to_string()),
            ("first_run_bytes_read".into(), bytes.to_string()),
            ("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string()),
        ])
    }
}

/// `ctxt` of `/proc/stat`: context switches of all CPUs since the machine was booted.
fn switches_of_machine(stat: &File) -> Option<u64> {
    let mut text = Vec::with_capacity(16 << 10);
    let mut offset = 0;
    loop {
        let mut part = [0; 4096];
        let count = stat.read_at(&mut part, offset).ok().filter(|count| *count > 0)?;
        text.extend_from_slice(&part[..count]);
        offset += count as u64;
        let found = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"ctxt "));
        // Its line is whole once something follows it.
        if let Some(digits) = found.filter(|digits| !text.ends_with(digits)) {
            return std::str::from_utf8(digits).ok()?.trim().parse().ok();
        }
    }
}

/// Chunks between two readings of the context switches: a reading costs as much as a write.
const SWITCHES_EVERY: u64 = 16;

/// What a writer has sent, and where the reader reads that.
pub(crate) struct Sent<'a> {
    counters: &'a SharedCounters,
    role: usize,
    chunks: u64,
    pub(crate) messages: u64,
    pub(crate) sum: u64,
}

impl<'a> Sent<'a> {
    pub(crate) fn new(counters: &'a SharedCounters, role: usize) -> Sent<'a> {
        Sent { counters, role, chunks: 0, messages: 0, sum: 0 }
    }

    /// After a chunk of messages.
    #[inline]
    pub(crate) fn publish(&mut self, payload_bytes: usize) {
        self.publish_counts(payload_bytes);
        if self.chunks.is_multiple_of(SWITCHES_EVERY) {
            self.publish_switches();
        }
        self.chunks += 1;
    }

    /// Those of the messages only.
    #[inline]
    pub(crate) fn publish_counts(&self, payload_bytes: usize) {
        self.set(Counter::Messages, self.messages);
        self.set(Counter::Bytes, self.messages * payload_bytes as u64);
        self.set(Counter::Sum, self.sum);
    }

    #[inline]
    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.counters.set(self.role, counter, value);
    }

    pub(crate) fn publish_switches(&self) {
        self.counters.set_switches(self.role);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switches_of_the_machine_are_those_of_its_file_and_grow() {
        let stat = File::open("/proc/stat").unwrap();
        let before = switches_of_machine(&stat).expect("the kernel counts them");
        let text = std::fs::read_to_string("/proc/stat").unwrap();
        let whole: u64 = text.lines().find_map(|line| line.strip_prefix("ctxt ")).unwrap().parse().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        let after = switches_of_machine(&stat).unwrap();
        assert!(before <= whole && whole < after, "{before} {whole} {after}");
    }
}
