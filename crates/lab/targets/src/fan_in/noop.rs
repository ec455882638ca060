//! The harness of fan-in: the reader's loop, its counts and its look at the clock, without any call.

use std::io;

use super::{MAX_EVENTS, STREAMS};
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Balance, Ctx, Leader};
use weighbridge_harness::params::CaseParams;

/// The leading role counts events that are not there; the others have nothing to do.
pub(super) fn drive(params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    if cx.role > 0 {
        cx.follow_nothing()?;
        return Ok(Facts::new());
    }
    let mut nothing = Nothing {
        ready: params.count(MAX_EVENTS).min(params.count(STREAMS)),
        streams: params.count(STREAMS) as u64,
        events: 0,
        bytes: 0,
    };
    cx.lead_intervals(&mut nothing)?;
    Ok(Facts::new())
}

struct Nothing {
    ready: usize,
    streams: u64,
    events: u64,
    bytes: u64,
}

impl Leader for Nothing {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        for index in 0..self.ready {
            std::hint::black_box(index);
            self.events += 1;
            self.bytes += 1;
        }
        Ok(1 + self.ready as u64)
    }

    fn count(&self) -> (u64, u64) {
        (self.events, self.bytes)
    }

    fn warm_ops(&self) -> u64 {
        self.streams
    }

    fn edge(&mut self, _now_ns: u64) {}

    fn balance(&mut self) -> io::Result<Balance> {
        Ok(Balance::NOTHING)
    }
}
