//! To itself: one role holds both ends of a mechanism, and sends a message there and back without ever waiting.
//!
//! Measures what a round trip costs apart from blocking, waking and switching: the system calls, the copies, the code of the mechanism.
//! It is a price in the explanation of a round trip, and the work is that of [`roundtrip`](super::roundtrip): the same messages, touched
//! in the same way.

use std::io;

use super::roundtrip::{self, AFTERWARDS, Direction, FIRST, Trip};
use crate::axis::Choice;
use crate::contract::{Caps, EndResources, Endpoint, Facts, Mechanism, PatternInfo, Unit, Unsupported};
use crate::ctx::{Batch, Ctx, Tally};
use crate::params::CaseParams;
use crate::shared::Step;

pub(super) const INFO: PatternInfo = PatternInfo {
    id: "self",
    about: "one role has both ends and sends a message there and back: a round trip without a wait",
    needs: Caps::PAYLOAD.and(Caps::DUPLEX),
    roles: |_| vec!["worker"],
    axes: &[Direction::AXIS],
    unit: Unit::NanosPer("roundtrip"),
    is_symmetric: true,
};

/// Can one role alone send itself this message?
pub(super) fn fit<M: Mechanism>(params: &CaseParams) -> Result<(), Unsupported> {
    if params.id.pattern != INFO.id {
        return Ok(());
    }
    let placement = params.id.placement.as_str();
    if !matches!(placement, "same-cpu" | "free") {
        let why = format!("one role alone has no {placement}; use same-cpu, which pins it, or free");
        return Err(Unsupported(why));
    }
    let (bytes, mechanism) = (params.payload_bytes, &params.id.mechanism);
    match M::TO_ITSELF {
        Err(why) => Err(Unsupported(format!("{mechanism} has no `self`: {why}"))),
        Ok(most) if bytes > most => Err(Unsupported(format!(
            "a message of {bytes} bytes may not fit where {mechanism} keeps it, and the only role would wait for itself; the largest to \
             itself is {most} bytes; use a smaller size"
        ))),
        Ok(_) => Ok(()),
    }
}

pub(super) fn drive<M: Mechanism>(
    resources: EndResources,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let [mut near, mut far] = M::attach_both(resources.apart(), params)?;
    cx.set_step(Step::Prefault);
    near.prefault()?;
    far.prefault()?;
    let facts = near.facts()?;
    cx.set_step(Step::Verify);
    let caps = M::caps(params);
    let trip = Trip::new(params, caps);
    if caps.has(Caps::HARNESS) {
        cx.lead(
            |batch| there_and_back(batch, |sequence, tally| trip.request(&mut near, sequence, tally)),
            |_| None,
        )?;
        return Ok(facts);
    }
    let position = |near: &mut M::End, far: &mut M::End| near.position() + far.position();
    let from = position(&mut near, &mut far);
    verify(&trip, &mut near, &mut far, FIRST)?;
    cx.note_step(position(&mut near, &mut far) - from, trip.verify_count());
    let work = |batch| {
        let from = position(&mut near, &mut far);
        let tally = there_and_back(batch, |sequence, tally| {
            trip.send_request(&mut near, sequence)?;
            trip.echo_one(&mut far, sequence, tally)?;
            trip.receive_reply(&mut near, tally)
        })?;
        Ok(Tally { came_on: position(&mut near, &mut far) - from, ..tally })
    };
    cx.lead(work, |batch| Some(trip.expected_both(batch)))?;
    verify(&trip, &mut near, &mut far, AFTERWARDS).map_err(roundtrip::afterwards)?;
    near.settle()?;
    far.settle()?;
    Ok(facts)
}

#[inline]
fn there_and_back(
    batch: Batch,
    mut trip: impl FnMut(u64, &mut Tally) -> io::Result<()>,
) -> io::Result<Tally> {
    let mut tally = Tally::default();
    for sequence in batch.sequences() {
        trip(sequence, &mut tally)?;
    }
    Ok(tally)
}

fn verify<E: Endpoint>(trip: &Trip, near: &mut E, far: &mut E, first: u64) -> io::Result<()> {
    for sequence in first..first + trip.verify_count() {
        trip.send_whole_request(near, sequence)?;
        trip.verify_request(far, sequence)?;
        trip.send_whole_reply(far, sequence)?;
        trip.verify_reply(near, sequence)?;
    }
    Ok(())
}
