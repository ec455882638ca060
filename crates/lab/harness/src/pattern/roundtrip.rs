//! Round trip: one message in flight; the echo stops the clock.
//!
//! Measures latency both ways. It cannot show throughput; for that see [`stream`](super::stream).

use std::io;

use super::Pattern;
use crate::axis::{Axis, Choice, DOSE, choice};
use crate::contract::{Caps, Endpoint, Unit};
use crate::counter_check;
use crate::ctx::{Batch, Ctx, Expect, Operation, RATE, Tally, TimedUnit, Warm};
use crate::dose::{self, InEachOperation, Nothing};
use crate::params::{CaseParams, Touch};
use crate::touch;

/// A request, and its echo.
#[derive(Debug)]
pub struct Roundtrip;

choice! {
    /// Where the payload travels.
    pub(super) enum Direction { Both = "both", Request = "request" }
    axis "direction", default Both: "the payload travels both ways, or the reply is empty (one byte where a mechanism cannot \
        send none)"
}

const CLIENT: u64 = 0;
const SERVER: u64 = 1;

impl Pattern for Roundtrip {
    const ID: &'static str = "roundtrip";
    const ABOUT: &'static str = "a request and its echo, one message in flight: latency both ways";
    const NEEDS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const ROLES: [&'static str; 2] = ["client", "server"];
    const AXES: &'static [Axis] = &[Direction::AXIS, TimedUnit::AXIS, RATE, Warm::AXIS, DOSE];
    const UNIT: Unit = Unit::NanosPer("roundtrip");

    fn drive<E: Endpoint>(end: &mut E, caps: Caps, cx: &mut Ctx<'_>) -> io::Result<()> {
        match cx.dose()? {
            None => drive_with(end, caps, cx, &mut Nothing),
            Some(mut dose) => drive_with(end, caps, cx, &mut dose),
        }
    }
}

/// What one role does, with a dose of which the compiler knows whether it is one.
fn drive_with<E: Endpoint>(
    end: &mut E,
    caps: Caps,
    cx: &mut Ctx<'_>,
    dose: &mut impl InEachOperation,
) -> io::Result<()> {
    let trip = Trip::new(cx.params, caps);
    if caps.has(Caps::HARNESS) {
        return match cx.role {
            0 => {
                dose::fits_one_role(cx.params)?;
                trip.lead(end, dose, cx, |_| None)?;
                dose.check()?;
                cx.end_leading()
            }
            _ => cx.follow_nothing(),
        };
    }
    match cx.role {
        0 => {
            trip.counting(end, cx, |end| trip.verify_requests(end, FIRST))?;
            trip.lead(end, dose, cx, |batch| Some(trip.expected(batch, SERVER)))?;
            dose.check()?;
            trip.verify_requests(end, AFTERWARDS).map_err(afterwards)?;
            if bounded_by_a_copy(cx.params, caps) {
                cx.measure_copy_rate()?;
            }
            cx.end_leading()
        }
        _ => {
            trip.counting(end, cx, |end| trip.verify_echoes(end, FIRST))?;
            let expect = |batch| Some(trip.expected(batch, CLIENT));
            cx.follow_batches(|batch| trip.echo(end, dose, batch), expect)?;
            dose.check()?;
            trip.verify_echoes(end, AFTERWARDS).map_err(afterwards)?;
            cx.end_following()
        }
    }
}

/// The role that leads, one round trip after the other.
struct Client<'a, E, D> {
    trip: &'a Trip,
    end: &'a mut E,
    dose: &'a mut D,
}

impl<E: Endpoint, D: InEachOperation> Operation for Client<'_, E, D> {
    #[inline]
    fn operate(&mut self, sequence: u64, tally: &mut Tally) -> io::Result<()> {
        self.dose.before_sending()?;
        self.trip.request(self.end, sequence, tally)
    }

    fn position(&mut self) -> u64 {
        self.end.position()
    }
}

/// The sequence number of the first message that is checked byte by byte before anything is timed.
pub(super) const FIRST: u64 = 0;
/// The one of the first that is checked after the timed part, far above those of the timed part.
pub(super) const AFTERWARDS: u64 = 1 << 40;

/// Says of an error that it came when messages were checked once more.
pub(super) fn afterwards(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("after the timed part: {error}"))
}

/// Is a round trip of this case bounded by what a memory copy takes? Below a page that says little.
fn bounded_by_a_copy(params: &CaseParams, caps: Caps) -> bool {
    params.payload_bytes >= counter_check::COPY_BOUNDS_FROM_BYTES && !caps.has(Caps::ZERO_COPY)
}

pub(super) struct Trip {
    request_bytes: usize,
    reply_bytes: usize,
    touch: Touch,
}

impl Trip {
    pub(super) fn new(params: &CaseParams, caps: Caps) -> Trip {
        let reply_bytes = match params.choice() {
            Direction::Both => params.payload_bytes,
            Direction::Request => usize::from(caps.has(Caps::NEVER_EMPTY)),
        };
        Trip { request_bytes: params.payload_bytes, reply_bytes, touch: params.touch }
    }

    fn lead<E: Endpoint>(
        &self,
        end: &mut E,
        dose: &mut impl InEachOperation,
        cx: &mut Ctx<'_>,
        expect: impl Expect,
    ) -> io::Result<()> {
        let mut client = Client { trip: self, end, dose };
        if cx.times_each() {
            return cx.lead_each(client, expect);
        }
        cx.lead_batches(|batch| client.repeat(batch), expect, |noted| Ok(noted.elapsed_ns))
    }

    /// Lets the messages that are checked anyway say how far one of them brings the mechanism's own count.
    fn counting<E: Endpoint>(
        &self,
        end: &mut E,
        cx: &mut Ctx<'_>,
        verify: impl FnOnce(&mut E) -> io::Result<()>,
    ) -> io::Result<()> {
        let from = end.position();
        verify(end)?;
        cx.note_step(end.position() - from, self.verify_count());
        Ok(())
    }

    #[inline]
    pub(super) fn request<E: Endpoint>(
        &self,
        end: &mut E,
        sequence: u64,
        tally: &mut Tally,
    ) -> io::Result<()> {
        self.send_request(end, sequence)?;
        self.receive_reply(end, tally)
    }

    #[inline]
    pub(super) fn send_request<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        send(end, self.request_bytes, touch::word(sequence, CLIENT), self.touch)
    }

    #[inline]
    pub(super) fn receive_reply<E: Endpoint>(&self, end: &mut E, tally: &mut Tally) -> io::Result<()> {
        receive(end, self.reply_bytes, self.touch, tally)
    }

    #[inline]
    pub(super) fn echo_one<E: Endpoint>(
        &self,
        end: &mut E,
        sequence: u64,
        tally: &mut Tally,
    ) -> io::Result<()> {
        self.receive_request(end, tally)?;
        self.send_reply(end, sequence)
    }

    #[inline]
    fn receive_request<E: Endpoint>(&self, end: &mut E, tally: &mut Tally) -> io::Result<()> {
        receive(end, self.request_bytes, self.touch, tally)
    }

    #[inline]
    fn send_reply<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        send(end, self.reply_bytes, touch::word(sequence, SERVER), self.touch)
    }

    #[inline]
    fn echo<E: Endpoint>(
        &self,
        end: &mut E,
        dose: &mut impl InEachOperation,
        batch: Batch,
    ) -> io::Result<Tally> {
        let from = end.position();
        let mut tally = Tally::default();
        for sequence in batch.sequences() {
            dose.before_receiving()?;
            self.receive_request(end, &mut tally)?;
            dose.before_sending()?;
            self.send_reply(end, sequence)?;
        }
        tally.came_on = end.position() - from;
        Ok(tally)
    }

    /// What arrives at both ends in a batch of round trips.
    pub(super) fn expected_both(&self, batch: Batch) -> Tally {
        let (there, back) = (self.expected(batch, CLIENT), self.expected(batch, SERVER));
        Tally { sum: there.sum.wrapping_add(back.sum), bytes: there.bytes + back.bytes, came_on: 0 }
    }

    /// What arrives in a batch of messages from `side`.
    fn expected(&self, batch: Batch, side: u64) -> Tally {
        let len = if side == CLIENT { self.request_bytes } else { self.reply_bytes };
        expected(batch, side, len, self.touch)
    }

    fn verify_requests<E: Endpoint>(&self, end: &mut E, first: u64) -> io::Result<()> {
        for sequence in first..first + self.verify_count() {
            self.send_whole_request(end, sequence)?;
            self.verify_reply(end, sequence)?;
        }
        Ok(())
    }

    fn verify_echoes<E: Endpoint>(&self, end: &mut E, first: u64) -> io::Result<()> {
        for sequence in first..first + self.verify_count() {
            self.verify_request(end, sequence)?;
            self.send_whole_reply(end, sequence)?;
        }
        Ok(())
    }

    /// How many round trips are checked byte by byte before anything is timed, and again afterwards.
    pub(super) fn verify_count(&self) -> u64 {
        verify_count(self.request_bytes)
    }

    pub(super) fn send_whole_request<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        send(end, self.request_bytes, touch::word(sequence, CLIENT), Touch::All)
    }

    pub(super) fn send_whole_reply<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        send(end, self.reply_bytes, touch::word(sequence, SERVER), Touch::All)
    }

    pub(super) fn verify_request<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        verify(end, self.request_bytes, sequence, CLIENT)
    }

    pub(super) fn verify_reply<E: Endpoint>(&self, end: &mut E, sequence: u64) -> io::Result<()> {
        verify(end, self.reply_bytes, sequence, SERVER)
    }
}

#[inline]
pub(super) fn send<E: Endpoint>(end: &mut E, len: usize, word: u64, touch: Touch) -> io::Result<()> {
    let mut tx = end.loan(len)?;
    touch::write(tx.as_mut(), word, touch);
    E::commit(tx)
}

/// Receives one message and adds it up.
#[inline]
pub(super) fn receive<E: Endpoint>(
    end: &mut E,
    len: usize,
    touch: Touch,
    tally: &mut Tally,
) -> io::Result<()> {
    let rx = end.take(len)?;
    let payload = rx.as_ref();
    tally.add(payload.len(), touch::read(payload, touch));
    Ok(())
}

/// What arrives in a batch of messages of `len` bytes from `side`.
pub(super) fn expected(batch: Batch, side: u64, len: usize, touch: Touch) -> Tally {
    let mut tally = Tally::default();
    for sequence in batch.sequences() {
        tally.add(len, touch::expected(len, touch::word(sequence, side), touch));
    }
    tally
}

/// How many messages are checked byte by byte before anything is timed, and again afterwards.
pub(super) fn verify_count(len: usize) -> u64 {
    (1usize << 20).checked_div(len).map_or(64, |count| count.clamp(2, 64) as u64)
}

/// Receives one message and checks all of it: length, sequence, sender.
pub(super) fn verify<E: Endpoint>(end: &mut E, len: usize, sequence: u64, side: u64) -> io::Result<()> {
    let rx = end.take(len)?;
    let payload = rx.as_ref();
    let (number, received) = (sequence % AFTERWARDS, payload.len());
    if received != len {
        return Err(io::Error::other(format!("message {number} has {received} bytes, sent were {len}")));
    }
    if !touch::is_filled_with(payload, touch::word(sequence, side)) {
        return Err(io::Error::other(format!("message {number} does not hold what its sender wrote")));
    }
    Ok(())
}
