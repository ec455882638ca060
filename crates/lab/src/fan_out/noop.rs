//! The harness of fan-out: the sender's loop with its touching, its clock and all acknowledgements, which it makes itself.
//! The wake-up of the sender is not in it, because nobody sleeps.

use std::cell::{Cell, RefCell};
use std::io;

use causeway_os::clock;

use super::acks::{self, Acks};
use super::sender::Notes;
use super::{VERIFIED, burst, message, receivers};
use crate::board::Board;
use crate::buffer::Buffer;
use crate::contract::Facts;
use crate::ctx::{Batch, Ctx, Tally};
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
    let mut payload = Buffer::new(link.payload_bytes.max(1))?;
    payload.prefault()?;
    let burst = burst(link);
    cx.set_ops_each(burst);
    let sender_ns = Cell::new(0);
    // As if the verified messages had been acknowledged.
    acks::acknowledge(&board, VERIFIED * receivers as u64)?;
    let work = |batch: Batch| {
        for turn in batch.sequences() {
            let first = VERIFIED + turn * burst;
            acks.expect(first + burst);
            let began_ns = clock::now_ns();
            for sequence in first..first + burst {
                message::write(&mut payload.bytes_mut()[..link.payload_bytes], sequence, link.touch);
                std::hint::black_box(&mut payload);
            }
            sender_ns.set(sender_ns.get() + clock::now_ns() - began_ns);
            for _ in 0..receivers as u64 * burst {
                acks::acknowledge(&board, 1)?;
            }
            acks.wait(first + burst)?;
        }
        Ok(Tally::default())
    };
    let notes = RefCell::new(Notes::new(&board, receivers));
    cx.lead_noting(
        work,
        |_| None,
        |noted| {
            notes.borrow_mut().take(noted.batch.ops * burst, sender_ns.get());
            Ok(noted.elapsed_ns)
        },
    )?;
    notes.into_inner().tell(cx);
    Ok(Facts::new())
}
