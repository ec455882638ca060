//! Solo: one role does an operation over and over.
//!
//! What the loop itself costs is measured in the same place, with the operation that does nothing, and taken off where an
//! operation is so short that it matters; the values before that are a series of their own.

use super::{Op, OpContext, calls, check, run};
use crate::prelude::*;

pub(super) const ID: &str = "solo";

/// The pattern, for an operation with this unit.
pub(super) const fn info(unit: Unit) -> PatternInfo {
    PatternInfo {
        id: ID,
        about: "one role does an operation over and over: what one costs",
        needs: Caps::NONE,
        roles: |_| vec!["worker"],
        axes: &[],
        unit,
        is_symmetric: true,
    }
}

/// Operations before anything is timed.
pub(super) const VERIFIED: u64 = 2;

pub(super) fn drive_solo<O: Op>(cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    cx.set_step(Step::Attach);
    let context = OpContext { params, role: 0, roles: 1 };
    let mut op = O::setup(&context)?;
    cx.set_step(Step::Verify);
    let each = op.each();
    check(each, VERIFIED, run(&mut op, VERIFIED)?)?;
    if matches!(O::UNIT, Unit::NanosPer(_)) && !O::CAPS.has(Caps::HARNESS) {
        let mut nothing = calls::Noop::setup(&context)?;
        cx.measure_loop(|ops| run(&mut nothing, ops))?;
    }
    cx.set_ops_each(O::ops_of_once(params));
    let op_bytes = O::op_bytes(params);
    let work = |ops: u64| {
        let sum = run(&mut op, ops)?;
        check(each, ops, sum)?;
        Ok(Tally { sum, bytes: ops * op_bytes, came_on: 0 })
    };
    cx.lead_alone(work)?;
    note_bus::<O>(cx);
    time_parts(&mut op, cx)?;
    op.finish()
}

/// Bytes that crossed the memory bus, as far as that can be counted.
pub(super) fn note_bus<O: Op>(cx: &mut Ctx<'_>) {
    let Some(crossings) = O::bus_crossings(cx.params) else { return };
    let rate = |sample: &weighbridge_harness::shared::Sample| {
        sample.bytes as f64 * crossings * 1e9 / sample.elapsed_ns.max(1) as f64
    };
    let rates = cx.samples().iter().map(rate).collect();
    cx.note_series("bus_bytes_per_s", rates);
}

/// Times the parts of an operation apart, right after the whole of it.
fn time_parts<O: Op>(op: &mut O, cx: &mut Ctx<'_>) -> io::Result<()> {
    if O::PARTS.is_empty() {
        return Ok(());
    }
    let times = cx.time_parts(O::PARTS.len(), O::ops_of_once(cx.params), |index| op.part(index))?;
    for (name, values) in O::PARTS.iter().zip(times) {
        cx.note_series(name, values);
    }
    Ok(())
}
