//! Contend: roles that all take one lock, add 1 to a plain number, and give the lock up, as often as they can.
//!
//! Measures how often the lock changes hands in a second, all roles together; how evenly it is shared stands beside it. The
//! number must in the end be what all roles have added: a lock that lets two in at once is found out by that.
//!
//! # Safety
//! The number lies in the page, away from the lock, and only the role that holds the lock accesses it.
#![allow(unsafe_code)]

use weighbridge_record::PerOp;

use super::Lock;
use crate::many::no_faults;
use crate::page::Page;
use crate::prelude::*;
use weighbridge_harness::axis::ROLES;
use weighbridge_harness::contract::role_names;
use weighbridge_harness::ctx::Concurrent;

pub(super) const INFO: PatternInfo = PatternInfo {
    id: "contend",
    about: "roles that all take one lock, add 1 to a number and give it up: how often in a second, and how evenly",
    needs: Caps::NONE,
    roles: |params| role_names(params.number(ROLES).unwrap_or(2)),
    axes: &[Axis { name: ROLES, default: "2", values: Values::Count, about: "how many roles contend" }],
    unit: Unit::PerSecond("ops"),
    is_symmetric: true,
};

/// Where the number lies: the last line but one of the page is far from every lock.
const NUMBER: usize = 3840;

pub(super) fn drive_contend<L: Lock>(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let page = Page::attach(&mut resources)?;
    let mut lock = L::attach(&page);
    let mut own = 0u64;
    let number: *mut u64 = if L::CAPS.has(Caps::HARNESS) { &raw mut own } else { page.object(NUMBER) };
    let critical = |ops: u64| {
        for _ in 0..ops {
            lock.lock()?;
            // SAFETY: inside the page (or local), aligned, and this role holds the lock. Volatile, so that each pass is a
            // load and a store, as if anybody might look.
            unsafe { number.write_volatile(number.read_volatile() + 1) };
            lock.unlock()?;
        }
        Ok(ops)
    };
    let allowed = std::thread::available_parallelism()?.get();
    let work_of_all = Concurrent { counts: |_| true, op_bytes: 0, cpus: cx.params.cpu_count(allowed) };
    let totals = cx.concurrent(work_of_all, critical)?;
    if cx.role == 0 && !L::CAPS.has(Caps::HARNESS) {
        // SAFETY: as above; all other roles have stopped.
        let counted = unsafe { number.read_volatile() };
        let added: u64 = totals.iter().sum();
        if counted != added {
            return Err(io::Error::other(format!(
                "the roles have added 1 {added} times under the lock, and the number is {counted}"
            )));
        }
    }
    Ok(Facts::new())
}

/// Counter check: a role that spins makes no voluntary context switch.
pub(super) fn counter_check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let mut anomalies = no_faults(case, per_op);
    if case.params.wait == Wait::Spin {
        anomalies.extend(counter_check::blocked(per_op.voluntary_switches + per_op.involuntary_switches));
    }
    anomalies
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_harness::axis;
    use weighbridge_harness::ctx::Time;
    use weighbridge_harness::planner::Timing;
    use weighbridge_harness::shared::Shared;
    use weighbridge_record::CaseId;

    /// A lock under which an addition is lost now and then.
    struct Leaky {
        number: *mut u64,
        taken: u64,
    }

    impl Lock for Leaky {
        const ID: &'static str = "leaky";
        const ABOUT: &'static str = "";
        const WAIT: &'static [Wait] = &[Wait::Block];

        fn attach(page: &Page) -> Leaky {
            Leaky { number: page.object(NUMBER), taken: 0 }
        }

        fn lock(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn unlock(&mut self) -> io::Result<()> {
            self.taken += 1;
            if self.taken == 2 {
                // SAFETY: inside the page, which the caller holds; there is one role.
                unsafe { self.number.write(self.number.read() - 1) };
            }
            Ok(())
        }
    }

    #[test]
    fn a_lock_under_which_one_addition_is_lost_is_noticed() {
        let id = CaseId::new("contend", "leaky", 0, "free").with("roles", "1");
        let declared: Vec<_> = axis::COMMON.iter().chain(INFO.axes).copied().collect();
        let params = CaseParams::new(&id, &declared, Leaky::WAIT).unwrap();
        let timing = Timing { sample_ns: 100_000, samples: 2, least_samples: 2, run_ns: 200_000 };
        let shared = Shared::create().unwrap();
        let mut cx = Ctx::new(&shared, &params, (0, 1), timing, Time::Raw, None);
        let resources = Page::create(1, Leaky::init).unwrap().remove(0);
        let why = drive_contend::<Leaky>(resources, &mut cx).unwrap_err().to_string();
        assert!(why.contains("under the lock, and the number is"), "{why}");
    }
}
