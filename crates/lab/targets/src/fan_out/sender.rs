//! The sender: a burst to all, then sleep until all have it.

use std::cell::Cell;
use std::io;

use causeway_os::clock;
use weighbridge_probe::counters::{ProcessCounters, ThreadCounters};

use super::acks::{Acks, FIRST_STALL_TIMEOUT, STALL_TIMEOUT};
use super::multicast::MulticastSender;
use super::{VERIFIED, burst, message, receivers};
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::contract::{Caps, Facts};
use weighbridge_harness::ctx::{Batch, Ctx, Noted, Tally};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;

/// The whole life of this role.
pub(super) fn drive(
    mut end: impl MulticastSender,
    caps: Caps,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let is_lossy = caps.has(Caps::LOSSY);
    let mut acks = Acks::new(counters, receivers(params), is_lossy.then_some(FIRST_STALL_TIMEOUT));
    cx.set_step(Step::Verify);
    for sequence in 0..VERIFIED {
        acks.expect(sequence + 1);
        end.send(|room| message::write(room, sequence, Touch::All))?;
        if !acks.wait(sequence + 1)? {
            return Err(io::Error::other(format!("message {sequence} was lost with nothing else under way")));
        }
    }
    acks.set_stall_timeout(STALL_TIMEOUT);
    let touch = message::touch_of(caps, params.touch);
    let mut timed_out = 0u64;
    let notes = lead(
        cx,
        counters,
        &mut acks,
        |sequence| end.send(|room| message::write(room, sequence, touch)),
        |acks, end| {
            timed_out += u64::from(!acks.wait(end)?);
            Ok(())
        },
    )?;
    let mut facts = end.facts();
    if is_lossy {
        let lost: Vec<String> = notes.lost_by_receiver().map(|lost| lost.to_string()).collect();
        facts.insert("first_run_lost_by_receiver".into(), lost.join(" "));
        facts.insert("first_run_waits_timed_out".into(), timed_out.to_string());
    }
    Ok(facts)
}

/// Bursts until there are enough samples: `send` sends the message with a number, and `wait` returns when all before a number
/// have been acknowledged. Keeps the figures that belong to the samples.
pub(super) fn lead<'a>(
    cx: &mut Ctx<'_>,
    counters: &'a SharedCounters,
    acks: &mut Acks<'_>,
    mut send: impl FnMut(u64) -> io::Result<()>,
    mut wait: impl FnMut(&Acks<'_>, u64) -> io::Result<()>,
) -> io::Result<Notes<'a>> {
    let burst = burst(cx.params);
    cx.set_ops_each(burst);
    let sender_ns = Cell::new(0);
    let work = |batch: Batch| {
        for turn in batch.sequences() {
            let first = VERIFIED + turn * burst;
            acks.expect(first + burst);
            let began_ns = clock::now_ns();
            for sequence in first..first + burst {
                send(sequence)?;
            }
            sender_ns.set(sender_ns.get() + clock::now_ns() - began_ns);
            wait(acks, first + burst)?;
        }
        Ok(Tally::default())
    };
    let mut notes = Notes::new(counters, receivers(cx.params), cx.auxiliary_counters()?)?;
    let note = |noted: Noted| {
        notes.take(noted.batch.ops * burst, sender_ns.get(), noted.is_sample)?;
        Ok(noted.elapsed_ns)
    };
    cx.lead_noting(work, |_| None, note)?;
    notes.tell(cx);
    Ok(notes)
}

/// What stood beside each batch.
pub(super) struct Notes<'a> {
    counters: &'a SharedCounters,
    receivers: usize,
    /// Of an auxiliary process, which receives and sends each message too.
    beside: Option<ProcessCounters>,
    batches: Vec<Note>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Note {
    is_sample: bool,
    messages: u64,
    sender_ns: u64,
    voluntary: u64,
    involuntary: u64,
    lost: u64,
}

impl<'a> Notes<'a> {
    fn new(
        counters: &'a SharedCounters,
        receivers: usize,
        beside: Option<ProcessCounters>,
    ) -> io::Result<Notes<'a>> {
        let mut notes = Notes { counters, receivers, beside, batches: Vec::with_capacity(1024) };
        notes.take(0, 0, false)?;
        Ok(notes)
    }

    /// After a batch. `sender_ns` is counted from the beginning.
    fn take(&mut self, messages: u64, sender_ns: u64, is_sample: bool) -> io::Result<()> {
        let own = ThreadCounters::read();
        let beside = self.beside.as_mut().map(ProcessCounters::read).transpose()?.unwrap_or_default();
        let of_receivers = |counter| self.counters.total(1..=self.receivers, counter);
        self.batches.push(Note {
            is_sample,
            messages,
            sender_ns,
            voluntary: own.voluntary_switches
                + beside.voluntary_switches
                + of_receivers(Counter::VoluntarySwitches),
            involuntary: own.involuntary_switches
                + beside.involuntary_switches
                + of_receivers(Counter::InvoluntarySwitches),
            lost: of_receivers(Counter::Lost),
        });
        Ok(())
    }

    fn lost_by_receiver(&self) -> impl Iterator<Item = u64> {
        (1..=self.receivers).map(|role| self.counters.get(role, Counter::Lost))
    }

    /// Keeps the figures of those batches that became samples. Switches are those of all roles and of a process beside them: a voluntary one is a role
    /// that waited, which is nearly a wake-up, and is not called one.
    fn tell(&self, cx: &mut Ctx<'_>) {
        let series = |of: &dyn Fn(&Note, &Note) -> f64| -> Vec<f64> {
            let sampled = self.batches.windows(2).filter(|pair| pair[1].is_sample);
            sampled.map(|pair| of(&pair[0], &pair[1])).collect()
        };
        let per_message = |of: fn(&Note) -> u64| {
            series(&|before, note| (of(note) - of(before)) as f64 / note.messages.max(1) as f64)
        };
        cx.note_series("sender_ns", per_message(|note| note.sender_ns));
        cx.note_series("switches_per_message", per_message(|note| note.voluntary + note.involuntary));
        cx.note_series("voluntary_switches_per_message", per_message(|note| note.voluntary));
        cx.note_series("involuntary_switches_per_message", per_message(|note| note.involuntary));
        cx.note_series("lost", series(&|before, note| (note.lost - before.lost) as f64));
    }
}
