//! The harness of all-to-all: what the leading receiver does beside its calls.

use std::hint::black_box;
use std::io;

use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Balance, Ctx, Leader};

/// The leading role counts messages that are not there; the others have nothing to do.
pub(super) fn drive(cx: &mut Ctx<'_>) -> io::Result<Facts> {
    if cx.role > 0 {
        cx.follow_nothing()?;
    } else {
        cx.lead_intervals(&mut Nothing { messages: 0, len: cx.params.payload_bytes as u64 })?;
    }
    Ok(Facts::new())
}

struct Nothing {
    messages: u64,
    len: u64,
}

impl Leader for Nothing {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.messages = black_box(self.messages + 1);
        Ok(1)
    }

    fn count(&self) -> (u64, u64) {
        (self.messages, self.messages * self.len)
    }

    fn warm_ops(&self) -> u64 {
        1
    }

    fn edge(&mut self, _now_ns: u64) {}

    fn balance(&mut self) -> io::Result<Balance> {
        Ok(Balance::NOTHING)
    }
}
