//! Fan-in through a mechanism of a shared object: end 0 reads what each of the others writes.
//!
//! A message says which writer it is from and which of that writer's it is: by its word, so that it has 8 bytes at least and they are
//! touched. It must be the next one of that writer. A writer tells that it sends a message before it does, so that the reader, whose
//! `take` waits, knows how many it may still ask for: whoever waits for room gets it.

use weighbridge_harness::marks::{Notes, Point, Unmarked};

use super::{OwnEnd, attach, create, fits_peers};
use crate::descriptors;
use crate::fan_in::{self, Arrivals, Edges, Reads, Sent, Share, writers};
use crate::fan_out::message;
use crate::many::no_faults;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};

pub(super) const TARGET: Target = Target {
    id: "own",
    about: "a mechanism of a shared object",
    caps: Caps::PAYLOAD,
    // As for its other patterns.
    properties: |_| Some(Properties::default()),
    waits: &[],
    axes: &[WRITERS],
    patterns: &[fan_in::OF_MESSAGES],
    fit,
    create: |_, params| create_with_counters(params),
    drive: |_, resources, _, cx| drive(resources, cx),
    counter_check: no_faults,
    in_suites: InSuites::AtEverySize,
    environment: &[],
};

const WRITERS: Axis =
    Axis { default: "4", about: "number of writers, each with an end of its own", ..fan_in::WRITERS };

/// Messages of each writer that are checked byte by byte before anything is timed.
const VERIFIED: u64 = 4;
/// Of each writer, before the warm-up ends.
const WARM_MESSAGES: u64 = 64;
/// Different writers put different words for the same number; there are fewer writers than this.
const WRITERS_BELOW: u64 = 1 << 16;
/// Those that tell writer and number.
const LEAST_BYTES: usize = 8;

fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    if params.payload_bytes < LEAST_BYTES {
        return Err(Unsupported(format!(
            "a message of {} carries at least {LEAST_BYTES} bytes in fan-in, to tell which writer it is from",
            params.id.mechanism
        )));
    }
    let writers = writers(params);
    descriptors::fit(writers + 1, 0, &format!("{writers} writers"))?;
    fits_peers(params)
}

fn create_with_counters(params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let counters = SharedCounters::create(writers(params) + 1)?;
    let mut ends = create(params, writers(params) + 1)?;
    for end in &mut ends {
        end.fds.insert(0, counters.try_clone()?);
    }
    Ok(ends)
}

fn drive(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    cx.set_step(Step::Attach);
    let counters = SharedCounters::open(resources.take_fd(), writers(params) + 1)?;
    let end = attach(resources, params)?.prefaulted()?;
    // The beginning is touched always, for it tells whose a message is.
    let touch = if params.touch == Touch::None { Touch::First } else { params.touch };
    match (cx.role, cx.marker()) {
        (0, None) => read(end, Unmarked, touch, &counters, cx),
        (0, Some(marker)) => read(end, marker, touch, &counters, cx),
        (_, None) => write(end, Unmarked, touch, &counters, cx),
        (_, Some(marker)) => write(end, marker, touch, &counters, cx),
    }
}

/// The word that message `sequence` of a writer (from 0) is filled with.
#[inline]
fn word(writer: u64, sequence: u64) -> u64 {
    touch::word(sequence * WRITERS_BELOW + writer, 0)
}

/// The number of that message among those of all writers, as a time line shows it.
fn number(writer: u64, sequence: u64, writers: usize) -> u64 {
    sequence * writers as u64 + writer
}

fn read<N: Notes>(
    end: OwnEnd,
    notes: N,
    touch: Touch,
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
    let facts = end.facts()?;
    let mut reader = Reader {
        end,
        accounts: Accounts { next: vec![0; writers(params)], len: params.payload_bytes, touch },
        events: 0,
        sum: 0,
        edges: Edges::new(counters, params),
        arrivals: Arrivals::new(cx, counters, 0)?,
        notes,
    };
    cx.set_step(Step::Verify);
    for _ in 0..VERIFIED * writers(params) as u64 {
        let message = reader.end.take(params.payload_bytes)?;
        reader.accounts.verify(message.as_ref())?;
    }
    cx.lead_intervals(&mut reader)?;
    reader.edges.tell(cx);
    if let Some(arrivals) = &reader.arrivals {
        arrivals.tell(cx);
    }
    Ok(facts)
}

/// Which message of each writer is the next one.
struct Accounts {
    next: Vec<u64>,
    len: usize,
    touch: Touch,
}

impl Accounts {
    /// The writer (from 0), the number and the sum of a message, which must be the next one of that writer, as far as it is touched.
    #[inline]
    fn take(&mut self, message: &[u8]) -> io::Result<(u64, u64, u64)> {
        let (writer, sequence) = self.next_of_its_writer(message)?;
        let sum = touch::read(message, self.touch);
        if sum != touch::expected(self.len, word(writer, sequence), self.touch) {
            return Err(damaged(writer, sequence));
        }
        Ok((writer, sequence, sum))
    }

    /// The same, byte by byte.
    fn verify(&mut self, message: &[u8]) -> io::Result<()> {
        let (writer, sequence) = self.next_of_its_writer(message)?;
        let is_right = touch::is_filled_with(message, word(writer, sequence));
        if is_right { Ok(()) } else { Err(damaged(writer, sequence)) }
    }

    #[inline]
    fn next_of_its_writer(&mut self, message: &[u8]) -> io::Result<(u64, u64)> {
        let said = message::sequence(message);
        let (writer, sequence) = (said % WRITERS_BELOW, said / WRITERS_BELOW);
        let due = self.next.get(writer as usize).copied();
        if message.len() != self.len || due != Some(sequence) {
            return Err(self.wrong(message.len(), (writer, sequence), due));
        }
        self.next[writer as usize] += 1;
        Ok((writer, sequence))
    }

    #[cold]
    fn wrong(&self, len: usize, (writer, sequence): (u64, u64), due: Option<u64>) -> io::Error {
        io::Error::other(match due {
            _ if len != self.len => format!("a message has {len} bytes, sent were {}", self.len),
            Some(due) => {
                format!("message {sequence} of writer {} arrived where message {due} was due", writer + 1)
            }
            None => "a message arrived damaged: it is of no writer".into(),
        })
    }
}

#[cold]
fn damaged(writer: u64, sequence: u64) -> io::Error {
    io::Error::other(format!("message {sequence} of writer {} arrived damaged", writer + 1))
}

struct Reader<'a, N> {
    end: OwnEnd,
    accounts: Accounts,
    events: u64,
    sum: u64,
    edges: Edges<'a>,
    /// At a rate.
    arrivals: Option<Arrivals<'a>>,
    notes: N,
}

impl<N: Notes> Leader for Reader<'_, N> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.notes.note(Point::WaitBegins, None);
        let message = self.end.take(self.accounts.len)?;
        let (writer, sequence, sum) = self.accounts.take(message.as_ref())?;
        self.notes.note(Point::Read, Some(number(writer, sequence, self.accounts.next.len())));
        self.sum = self.sum.wrapping_add(sum);
        self.events += 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.arrived(writer as usize, sequence - VERIFIED);
        }
        Ok(1)
    }

    fn count(&self) -> (u64, u64) {
        (self.events, self.events * self.accounts.len as u64)
    }

    fn warm_ops(&self) -> u64 {
        WARM_MESSAGES * self.accounts.next.len() as u64
    }

    fn edge(&mut self, now_ns: u64) {
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| self.edges.is_empty()) {
            arrivals.begin();
        }
        let (events, bytes) = self.count();
        self.edges.push(now_ns, Reads { events, bytes, calls: events, empty: 0 });
    }

    fn balance(&mut self) -> io::Result<Balance> {
        self.arrivals.iter_mut().for_each(Arrivals::end);
        while self.events < self.edges.of_writers(Counter::Messages) {
            self.step()?;
        }
        Ok(self.edges.balance("messages", Counter::Messages, (self.events, self.sum)))
    }
}

fn write<N: Notes>(
    end: OwnEnd,
    notes: N,
    touch: Touch,
    counters: &SharedCounters,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let params = cx.params;
    let facts = end.facts()?;
    let mut writer = Writer {
        end,
        sent: Sent::new(counters, cx.role),
        writer: cx.role as u64 - 1,
        writers: writers(params),
        len: params.payload_bytes,
        touch,
        share: Share::new(cx, counters),
        notes,
    };
    cx.set_step(Step::Verify);
    for sequence in 0..VERIFIED {
        writer.send(sequence, Touch::All)?;
    }
    cx.follow_intervals(&mut writer)?;
    Ok(facts)
}

struct Writer<'a, N> {
    end: OwnEnd,
    /// Messages after those that were verified, the one that is being sent included.
    sent: Sent<'a>,
    writer: u64,
    writers: usize,
    len: usize,
    touch: Touch,
    /// At a rate.
    share: Option<Share<'a>>,
    notes: N,
}

impl<N: Notes> Writer<'_, N> {
    #[inline]
    fn send(&mut self, sequence: u64, touch: Touch) -> io::Result<()> {
        let number = Some(number(self.writer, sequence, self.writers));
        self.notes.note(Point::WriteBegins, number);
        let word = word(self.writer, sequence);
        self.end.send(self.len, |room| touch::write(room, word, touch))?;
        self.notes.note(Point::Written, number);
        Ok(())
    }
}

impl<N: Notes> Follower for Writer<'_, N> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        let Sent { messages, sum, .. } = &mut self.sent;
        // A reading of the switches costs as much as a message; who sleeps between two of them has the time.
        let switches_every = if self.share.is_some() { 16 } else { 1024 };
        if let Some(share) = &mut self.share {
            share.await_due(*messages);
        }
        let sequence = VERIFIED + *messages;
        *messages += 1;
        *sum = sum.wrapping_add(touch::expected(self.len, word(self.writer, sequence), self.touch));
        self.sent.publish_counts(self.len);
        self.send(sequence, self.touch)?;
        if self.sent.messages.is_multiple_of(switches_every) {
            self.sent.publish_switches();
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.sent.publish_switches();
        Ok(())
    }
}
