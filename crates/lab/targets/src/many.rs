//! What patterns of many roles share.

use weighbridge_record::PerOp;

use crate::prelude::*;
use crate::shared_counters::SharedCounters;

/// What the first message of a stream or a sender is filled with.
pub(crate) fn mark(index: usize) -> u8 {
    (index % 251) as u8 + 1
}

/// An axis whose value is a number of at least 1.
pub(crate) const fn number_axis(name: &'static str, default: &'static str, about: &'static str) -> Axis {
    Axis { name, default, values: Values::AtLeast(1), about }
}

/// Counter check: all memory was touched before.
pub(crate) fn no_faults(_case: &Prepared, per_op: &PerOp) -> Vec<String> {
    counter_check::faulted(per_op.minor_faults).into_iter().collect()
}

/// For each of `roles` roles a copy of the descriptor of their counters.
pub(crate) fn with_counters(roles: usize) -> io::Result<Vec<EndResources>> {
    of_each_role(SharedCounters::create(roles)?, roles)
}

/// For each role a copy of one descriptor.
pub(crate) fn of_each_role(shared: OwnedFd, roles: usize) -> io::Result<Vec<EndResources>> {
    (0..roles).map(|_| Ok(EndResources::of([shared.as_fd().try_clone_to_owned()?]))).collect()
}

/// The harness of a pattern with intervals: the leading role repeats a step that counts events without any call, the others have
/// nothing to do.
pub(crate) struct Nothing<S> {
    /// Adds to the events, and returns how many system calls it stands for.
    pub(crate) step: S,
    pub(crate) event_bytes: u64,
    pub(crate) warm_ops: u64,
    pub(crate) events: u64,
}

impl<S: FnMut(&mut u64) -> u64> Nothing<S> {
    pub(crate) fn drive(mut self, cx: &mut Ctx<'_>) -> io::Result<Facts> {
        if cx.role > 0 {
            cx.follow_nothing()?;
        } else {
            cx.lead_intervals(&mut self)?;
        }
        Ok(Facts::new())
    }
}

impl<S: FnMut(&mut u64) -> u64> Leader for Nothing<S> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        Ok((self.step)(&mut self.events))
    }

    fn count(&self) -> (u64, u64) {
        (self.events, self.events * self.event_bytes)
    }

    fn warm_ops(&self) -> u64 {
        self.warm_ops
    }

    fn edge(&mut self, _now_ns: u64) {}

    fn balance(&mut self) -> io::Result<Balance> {
        Ok(Balance::NOTHING)
    }
}
