//! The sender: a burst to all, then sleep until all have it. At a rate, a burst whenever one is due, as a source does that does not wait
//! for its receivers; it waits for them once in a sample.

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use causeway_os::clock;
use weighbridge_probe::counters::ThreadCounters;

use super::acks::{self, Acks, FIRST_STALL_TIMEOUT, STALL_TIMEOUT};
use super::message::Room;
use super::multicast::MulticastSender;
use super::paced::Source;
use super::{VERIFIED, burst, message, receivers};
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::ctx::Noted;

pub(super) fn drive(
    mut end: impl MulticastSender,
    (caps, ahead_max): (Caps, Option<u64>),
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
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
    acks.stall_timeout = is_lossy.then_some(STALL_TIMEOUT);
    let touch = message::touch_of(caps, params.touch);
    let mut timed_out = 0u64;
    lead(
        cx,
        counters,
        &mut acks,
        |sequence| end.send(|room| message::write(room, sequence, touch)),
        |acks, end| {
            timed_out += u64::from(!acks.wait(end)?);
            Ok(())
        },
        Behind::By(ahead_max),
    )?;
    let mut facts = end.facts();
    if is_lossy {
        let lost = (1..=receivers(params)).map(|role| counters.get(role, Counter::Lost).to_string());
        facts.insert("first_run_lost_by_receiver".into(), lost.collect::<Vec<_>>().join(" "));
        facts.insert("first_run_waits_timed_out".into(), timed_out.to_string());
    }
    Ok(facts)
}

/// The harness: the sender's loop with its touching, its clock and all acknowledgements, which it makes itself; the others do
/// nothing. The wake-up of the sender is not in it, because no role sleeps.
pub(super) fn drive_nothing(cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    if cx.role > 0 {
        cx.follow_nothing()?;
        return Ok(Facts::new());
    }
    let receivers = receivers(params);
    let counters = SharedCounters::open(SharedCounters::create(receivers + 1)?, receivers + 1)?;
    let mut acks = Acks::new(&counters, receivers, None);
    let mut message = Room::new(params.payload_bytes)?;
    let burst = burst(params);
    // As if the verified messages had been acknowledged.
    acks::acknowledge(&counters, VERIFIED * receivers as u64)?;
    lead(
        cx,
        &counters,
        &mut acks,
        |sequence| {
            black_box(message.filled(|room| message::write(room, sequence, params.touch)));
            Ok(())
        },
        |acks, end| {
            for _ in 0..receivers as u64 * burst {
                acks::acknowledge(&counters, 1)?;
            }
            acks.wait(end).map(|_| ())
        },
        Behind::HaveAll,
    )?;
    Ok(Facts::new())
}

/// How far receivers may be behind the sender at a rate.
#[derive(Clone, Copy)]
enum Behind {
    /// There are none: whoever sends a message has brought it to all, and is the one that times it.
    HaveAll,
    /// By so many messages at most, if that must be bounded.
    By(Option<u64>),
}

/// Bursts until there are enough samples: `send` sends the message with a number, and `wait` returns when all before a number
/// have been acknowledged. Keeps the figures that belong to the samples.
fn lead(
    cx: &mut Ctx<'_>,
    counters: &SharedCounters,
    acks: &mut Acks<'_>,
    mut send: impl FnMut(u64) -> io::Result<()>,
    mut wait: impl FnMut(&Acks<'_>, u64) -> io::Result<()>,
    receivers_behind: Behind,
) -> io::Result<()> {
    let burst = burst(cx.params);
    cx.set_ops_each(burst);
    let sender_ns = Cell::new(0);
    let mut send_turn = |turn: u64| {
        let first = VERIFIED + turn * burst;
        let began_ns = clock::now_ns();
        for sequence in first..first + burst {
            send(sequence)?;
        }
        sender_ns.set(sender_ns.get() + clock::now_ns() - began_ns);
        Ok(())
    };
    let mut notes = Notes { counters, receivers: receivers(cx.params), batches: Vec::with_capacity(1024) };
    notes.take(0, 0, false);
    let mut note = |noted: Noted| {
        notes.take(noted.batch.ops * burst, sender_ns.get(), noted.is_sample);
        Ok(())
    };
    let mut turn = |turn: u64| {
        let end = VERIFIED + (turn + 1) * burst;
        acks.expect(end);
        send_turn(turn)?;
        wait(acks, end)
    };
    match (cx.pacer(0, 1), receivers_behind) {
        (None, _) => {
            let work = |batch: Batch| batch.sequences().try_for_each(&mut turn).map(|()| Tally::default());
            cx.lead_noting(work, |_| None, |noted| note(noted).map(|()| noted.elapsed_ns))?;
        }
        (Some(_), Behind::HaveAll) => {
            cx.lead_each_noting(|sequence, _: &mut Tally| turn(sequence), |_| None, note)?;
            cx.end_leading()?;
        }
        (Some(pacer), Behind::By(ahead_max)) => {
            let source = RefCell::new(Source::new(pacer, counters, receivers(cx.params)));
            let work = |batch: Batch| {
                let last = VERIFIED + (batch.first + batch.ops) * burst;
                acks.expect(last);
                source.borrow_mut().send(batch, |turn| {
                    let end = VERIFIED + (turn + 1) * burst;
                    if ahead_max.is_some_and(|most| acks.under_way(end) > most) {
                        // Nobody is behind then.
                        acks.expect(end - burst);
                        wait(acks, end - burst)?;
                        acks.expect(last);
                    }
                    send_turn(turn)
                })?;
                wait(acks, last).map(|()| Tally::default())
            };
            let note =
                |noted: Noted| note(noted).map(|()| source.borrow_mut().note(noted, noted.batch.ops * burst));
            cx.lead_noting(work, |_| None, note)?;
            source.into_inner().tell(cx);
        }
    }
    notes.tell(cx);
    Ok(())
}

struct Notes<'a> {
    counters: &'a SharedCounters,
    receivers: usize,
    batches: Vec<Note>,
}

struct Note {
    is_sample: bool,
    messages: u64,
    sender_ns: u64,
    voluntary: u64,
    involuntary: u64,
    lost: u64,
}

impl Notes<'_> {
    /// After a batch. `sender_ns` is counted from the beginning. Switches are those of all roles: a voluntary one is a role that waited,
    /// which is nearly a wake-up, and is not called one. Those of a process beside the roles are counted by the harness, before the
    /// first counted batch and after the last: looking at them in between is work of the sender, which would be counted as its own.
    fn take(&mut self, messages: u64, sender_ns: u64, is_sample: bool) {
        let own = ThreadCounters::read();
        let of_receivers = |counter| self.counters.total(1..=self.receivers, counter);
        self.batches.push(Note {
            is_sample,
            messages,
            sender_ns,
            voluntary: own.voluntary_switches + of_receivers(Counter::VoluntarySwitches),
            involuntary: own.involuntary_switches + of_receivers(Counter::InvoluntarySwitches),
            lost: of_receivers(Counter::Lost),
        });
    }

    /// Keeps the figures of those batches that became samples.
    fn tell(&self, cx: &mut Ctx<'_>) {
        let series = |of: &dyn Fn(&Note, &Note) -> f64| -> Vec<f64> {
            let sampled = self.batches.windows(2).filter(|pair| pair[1].is_sample);
            sampled.map(|pair| of(&pair[0], &pair[1])).collect()
        };
        type Of = fn(&Note) -> u64;
        // An auxiliary process receives and sends each message too.
        let (voluntary, involuntary) = cx.auxiliary_switches_per_op();
        let per_message: [(&str, f64, Of); 4] = [
            ("sender_ns", 0.0, |note| note.sender_ns),
            ("switches_per_message", voluntary + involuntary, |note| note.voluntary + note.involuntary),
            ("voluntary_switches_per_message", voluntary, |note| note.voluntary),
            ("involuntary_switches_per_message", involuntary, |note| note.involuntary),
        ];
        for (name, beside, of) in per_message {
            let share = |before: &Note, note: &Note| {
                beside + (of(note) - of(before)) as f64 / note.messages.max(1) as f64
            };
            cx.note_series(name, series(&share));
        }
        cx.note_series("lost", series(&|before, note| (note.lost - before.lost) as f64));
    }
}
