//! Parallel: several roles do the same operation at the same time, each by itself. Where they get slower together they
//! share something: a lock in the kernel, a cache, the memory bus, an allocator.

use super::{Op, OpContext, check, run, solo};
use crate::prelude::*;
use weighbridge_harness::axis::ROLES;
use weighbridge_harness::contract::role_names;
use weighbridge_harness::ctx::Concurrent;

/// The pattern, for an operation that has this unit alone: a rate in any case.
pub(super) const fn info(unit: Unit) -> PatternInfo {
    PatternInfo {
        id: "parallel",
        about: "several roles do the same operation, each by itself: what all of them do in a second",
        needs: Caps::NONE,
        roles: |params| role_names(roles(params)),
        axes: &[Axis {
            name: ROLES,
            default: "default",
            values: Values::Count,
            about: "how many roles; default is one for each CPU",
        }],
        unit: match unit {
            Unit::NanosPer(_) => Unit::PerSecond("ops"),
            unit => unit,
        },
        is_symmetric: true,
    }
}

/// How many roles a case has. The default was put in when the case was prepared.
pub(super) fn roles(params: &CaseParams) -> usize {
    params.number(ROLES).unwrap_or(1)
}

pub(super) fn drive_parallel<O: Op>(cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    cx.set_step(Step::Attach);
    let mut op = O::setup(&OpContext { params, role: cx.role, roles: cx.roles })?;
    cx.set_step(Step::Verify);
    let each = op.each();
    if O::HAS_SOLO {
        check(each, solo::VERIFIED, run(&mut op, solo::VERIFIED)?)?;
    }
    cx.set_ops_each(O::ops_of_once(params));
    let allowed = std::thread::available_parallelism()?.get();
    let work_of_all =
        Concurrent { counts: O::COUNTS, op_bytes: O::op_bytes(params), cpus: params.cpu_count(allowed) };
    cx.concurrent(work_of_all, |ops| {
        let (done, sum) = op.up_to(ops)?;
        check(each, done, sum)?;
        Ok(done)
    })?;
    if cx.role == 0 {
        solo::note_bus::<O>(cx);
    }
    op.finish()
}
