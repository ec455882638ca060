//! Round trip: one message in flight; the echo stops the clock.
//!
//! Measures latency both ways. It cannot show throughput; for that see [`stream`](super::stream).

use std::io;

use super::Pattern;
use crate::axis::{Axis, Choice, choice};
use crate::contract::{Caps, Endpoint, Unit};
use crate::ctx::{Batch, Ctx, RATE, Tally, TimedUnit};
use crate::params::{CaseParams, Touch};
use crate::touch;

/// A request, and its echo.
#[derive(Debug)]
pub struct Roundtrip;

choice! {
    /// Where the payload travels.
    enum Direction { Both = "both", Request = "request" }
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
    const AXES: &'static [Axis] = &[Direction::AXIS, TimedUnit::AXIS, RATE];
    const UNIT: Unit = Unit::NanosPer("roundtrip");

    fn drive<E: Endpoint>(end: &mut E, caps: Caps, cx: &mut Ctx<'_>) -> io::Result<()> {
        let trip = Trip::new(cx.params, caps);
        if caps.has(Caps::HARNESS) {
            return match cx.role {
                0 => trip.lead(end, cx, |_| None),
                _ => cx.follow_nothing(),
            };
        }
        match cx.role {
            0 => {
                trip.verify_requests(end)?;
                trip.lead(end, cx, |batch| Some(trip.expected(batch, SERVER)))
            }
            _ => {
                trip.verify_echoes(end)?;
                cx.follow(|batch| trip.echo(end, batch), |batch| Some(trip.expected(batch, CLIENT)))
            }
        }
    }
}

struct Trip {
    request_bytes: usize,
    reply_bytes: usize,
    touch: Touch,
}

impl Trip {
    fn new(params: &CaseParams, caps: Caps) -> Trip {
        let reply_bytes = match params.choice() {
            Direction::Both => params.payload_bytes,
            Direction::Request => usize::from(caps.has(Caps::NEVER_EMPTY)),
        };
        Trip { request_bytes: params.payload_bytes, reply_bytes, touch: params.touch }
    }

    fn lead<E: Endpoint>(
        &self,
        end: &mut E,
        cx: &mut Ctx<'_>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        if cx.times_each() {
            return cx.lead_each(|sequence, tally| self.request(end, sequence, tally), expect);
        }
        let requests = |batch: Batch| {
            let mut tally = Tally::default();
            for sequence in batch.sequences() {
                self.request(end, sequence, &mut tally)?;
            }
            Ok(tally)
        };
        cx.lead(requests, expect)
    }

    #[inline]
    fn request<E: Endpoint>(&self, end: &mut E, sequence: u64, tally: &mut Tally) -> io::Result<()> {
        send(end, self.request_bytes, touch::word(sequence, CLIENT), self.touch)?;
        receive(end, self.reply_bytes, self.touch, tally)
    }

    #[inline]
    fn echo<E: Endpoint>(&self, end: &mut E, batch: Batch) -> io::Result<Tally> {
        let mut tally = Tally::default();
        for sequence in batch.sequences() {
            receive(end, self.request_bytes, self.touch, &mut tally)?;
            send(end, self.reply_bytes, touch::word(sequence, SERVER), self.touch)?;
        }
        Ok(tally)
    }

    /// What arrives in a batch of messages from `side`.
    fn expected(&self, batch: Batch, side: u64) -> Tally {
        let len = if side == CLIENT { self.request_bytes } else { self.reply_bytes };
        expected(batch, side, len, self.touch)
    }

    fn verify_requests<E: Endpoint>(&self, end: &mut E) -> io::Result<()> {
        for sequence in 0..verify_count(self.request_bytes) {
            send(end, self.request_bytes, touch::word(sequence, CLIENT), Touch::All)?;
            verify(end, self.reply_bytes, sequence, SERVER)?;
        }
        Ok(())
    }

    fn verify_echoes<E: Endpoint>(&self, end: &mut E) -> io::Result<()> {
        for sequence in 0..verify_count(self.request_bytes) {
            verify(end, self.request_bytes, sequence, CLIENT)?;
            send(end, self.reply_bytes, touch::word(sequence, SERVER), Touch::All)?;
        }
        Ok(())
    }
}

/// Sends one message.
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

/// How many messages are checked byte by byte before anything is timed.
pub(super) fn verify_count(len: usize) -> u64 {
    (1usize << 20).checked_div(len).map_or(64, |count| count.clamp(2, 64) as u64)
}

/// Receives one message and checks all of it: length, sequence, sender.
pub(super) fn verify<E: Endpoint>(end: &mut E, len: usize, sequence: u64, side: u64) -> io::Result<()> {
    let rx = end.take(len)?;
    let payload = rx.as_ref();
    if payload.len() != len {
        return Err(io::Error::other(format!(
            "message {sequence} has {} bytes, sent were {len}",
            payload.len()
        )));
    }
    if !touch::is_filled_with(payload, touch::word(sequence, side)) {
        return Err(io::Error::other(format!("message {sequence} does not hold what its sender wrote")));
    }
    Ok(())
}
