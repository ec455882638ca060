//! The harness of fan-out: the sender's loop with its touching, its clock and all acknowledgements, which it makes itself.
//! The wake-up of the sender is not in it, because nobody sleeps.

use std::io;

use super::acks::{self, Acks};
use super::room::Room;
use super::{VERIFIED, burst, message, receivers, sender};
use crate::board::Board;
use crate::contract::Facts;
use crate::ctx::Ctx;
use crate::link::Link;

/// The sender does everything, the others nothing.
pub(super) fn drive(link: &Link, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    if cx.role > 0 {
        cx.follow_nothing()?;
        return Ok(Facts::new());
    }
    let receivers = receivers(link);
    let board = Board::open(Board::create(acks::lines(receivers))?, acks::lines(receivers))?;
    let mut acks = Acks::new(&board, receivers, None);
    let mut message = Room::new(link.payload_bytes)?;
    let burst = burst(link);
    // As if the verified messages had been acknowledged.
    acks::acknowledge(&board, VERIFIED * receivers as u64)?;
    sender::lead(
        cx,
        &board,
        &mut acks,
        |sequence| {
            std::hint::black_box(message.filled(|room| message::write(room, sequence, link.touch)));
            Ok(())
        },
        |acks, end| {
            for _ in 0..receivers as u64 * burst {
                acks::acknowledge(&board, 1)?;
            }
            acks.wait(end).map(|_| ())
        },
    )?;
    Ok(Facts::new())
}
