//! Stream: messages one way without a pause; the receiver's clock counts.
//!
//! Measures throughput in windows that follow each other without a gap, or once from the first message to the last (`transfer`). It cannot show latency; for that see
//! [`roundtrip`](super::roundtrip).

use std::io;

use super::Pattern;
use super::roundtrip::{AFTERWARDS, FIRST, afterwards, expected, receive, send, verify, verify_count};
use super::transfer::{self, TRANSFER};
use super::working_set::{self, Source, Store, WORKING_SET};
use crate::axis::{Axis, Choice, MemoryState};
use crate::contract::{Caps, Endpoint, Unit};
use crate::ctx::{Batch, Ctx, Tally};
use crate::params::Touch;
use crate::touch;

/// One sender, one receiver.
#[derive(Debug)]
pub struct Stream;

const SENDER: u64 = 0;

impl Pattern for Stream {
    const ID: &'static str = "stream";
    const ABOUT: &'static str = "messages one way without a pause: throughput, as the receiver counts it";
    const NEEDS: Caps = Caps::PAYLOAD;
    // The near end of a params speaks first; the receiver leads, but as the far end.
    const ROLES: [&'static str; 2] = ["sender", "receiver"];
    const AXES: &'static [Axis] = &[WORKING_SET, MemoryState::AXIS, TRANSFER];
    const UNIT: Unit = Unit::BytesPerSecond;

    fn drive<E: Endpoint>(end: &mut E, caps: Caps, cx: &mut Ctx<'_>) -> io::Result<()> {
        let (len, touch) = (cx.params.payload_bytes, working_set::touch(cx.params));
        let chunk_ops = chunk_ops(len);
        let is_harness = caps.has(Caps::HARNESS);
        let is_unchecked = is_harness || caps.has(Caps::LOSSY);
        if cx.role == 0 {
            if is_harness {
                return cx.follow_nothing();
            }
            send_verified(end, cx, FIRST)?;
            let mut source = Source::of(cx.params)?;
            let work = |batch: Batch| {
                batch.sequences().try_for_each(|sequence| match &mut source {
                    None => send(end, len, touch::word(sequence, SENDER), touch),
                    Some(source) => end.send_from(source.next()),
                })
            };
            match transfer::messages(cx.params) {
                None => cx.feed(chunk_ops, is_unchecked, work)?,
                Some(messages) => cx.feed_once(messages, work)?,
            }
            if !is_unchecked {
                send_verified(end, cx, AFTERWARDS)?;
            }
            return cx.end_following();
        }
        let mut store = Store::of(cx.params)?;
        if !is_harness {
            let from = end.position();
            verify_received(end, cx, FIRST)?;
            cx.note_step(end.position() - from, verify_count(len));
        }
        let work = |batch: Batch| {
            let from = end.position();
            let mut tally = Tally::default();
            for _ in batch.sequences() {
                match &mut store {
                    None => receive(end, len, touch, &mut tally)?,
                    Some(store) => {
                        let rx = end.take(len)?;
                        let payload = rx.as_ref();
                        tally.add(payload.len(), touch::read(payload, touch));
                        store.keep(payload)?;
                    }
                }
            }
            tally.came_on = end.position() - from;
            Ok(tally)
        };
        let expect = |batch| (!is_unchecked).then(|| expected(batch, SENDER, len, touch));
        match transfer::messages(cx.params) {
            None => cx.drain(chunk_ops, is_unchecked, work, expect)?,
            Some(messages) => cx.drain_once(messages, work, expect)?,
        }
        if !is_unchecked {
            verify_received(end, cx, AFTERWARDS).map_err(afterwards)?;
            if let Some(store) = store {
                store.check()?;
            }
        }
        if !is_harness {
            cx.measure_copy_rate()?;
        }
        cx.end_leading()
    }
}

/// Sends messages that are checked byte by byte, in step with the receiver, so that even a lossy mechanism loses none of these.
fn send_verified<E: Endpoint>(end: &mut E, cx: &Ctx<'_>, first: u64) -> io::Result<()> {
    let len = cx.params.payload_bytes;
    let before = cx.verified();
    for index in 0..verify_count(len) {
        send(end, len, touch::word(first + index, SENDER), Touch::All)?;
        cx.await_verified(before + index + 1);
    }
    Ok(())
}

fn verify_received<E: Endpoint>(end: &mut E, cx: &Ctx<'_>, first: u64) -> io::Result<()> {
    let len = cx.params.payload_bytes;
    for index in 0..verify_count(len) {
        verify(end, len, first + index, SENDER)?;
        cx.add_verified();
    }
    Ok(())
}

/// Messages after which the sender reads again whether the receiver has enough: so many that the read costs nothing, so
/// few that a slow mechanism ends soon.
fn chunk_ops(len: usize) -> u64 {
    (1usize << 18).checked_div(len).map_or(128, |count| count.clamp(1, 128) as u64)
}
