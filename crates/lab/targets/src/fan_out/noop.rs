//! The harness of fan-out: the sender's loop with its touching, its clock and all acknowledgements, which it makes itself.
//! The wake-up of the sender is not in it, because no role sleeps.

use std::io;

use super::acks::{self, Acks};
use super::message_buffer::Room;
use super::{VERIFIED, burst, message, receivers, sender};
use crate::shared_counters::SharedCounters;
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::Ctx;
use weighbridge_harness::params::CaseParams;

/// The sender does everything, the others nothing.
pub(super) fn drive(params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    if cx.role > 0 {
        cx.follow_nothing()?;
        return Ok(Facts::new());
    }
    let receivers = receivers(params);
    let counters = SharedCounters::open(SharedCounters::create(receivers + 1)?, receivers + 1)?;
    let mut acks = Acks::new(&counters, receivers, None);
    let mut message = Room::new(params.payload_bytes)?;
    let burst = burst(params);
    // As if the verified messages had been acknowledged.
    acks::acknowledge(&counters, VERIFIED * receivers as u64)?;
    sender::lead(
        cx,
        &counters,
        &mut acks,
        |sequence| {
            std::hint::black_box(message.filled(|room| message::write(room, sequence, params.touch)));
            Ok(())
        },
        |acks, end| {
            for _ in 0..receivers as u64 * burst {
                acks::acknowledge(&counters, 1)?;
            }
            acks.wait(end).map(|_| ())
        },
    )?;
    Ok(Facts::new())
}
