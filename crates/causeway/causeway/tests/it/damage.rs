//! Damaged logs: real ones with bits flipped, words drawn at random, frames copied over others. A reader, and a publisher
//! that meets the damage, return something in bounded time, and read nothing else.
//!
//! The fuzzer in `fuzz/` checks the same with an instrumented build and a nightly compiler; this needs neither.
//! `CAUSEWAY_DAMAGED_LOGS` sets how many logs are tried, `CAUSEWAY_SEED` the first seed. A failure names its seed.

use crate::common::{Rng, setting};
use causeway::log::atomic::Ordering;
use causeway::log::{Claimed, HeapMemory, Kind, Label, Memory, Peek, Reader, Writer, server};

const CAPACITY: u64 = 1024;
const GRANULES: u64 = CAPACITY / 64;

/// A log in which something was published and given up.
fn real_log(random: &mut Rng, kind: Kind) -> HeapMemory {
    let memory = HeapMemory::new(CAPACITY, kind == Kind::Single);
    let mut writers = [0, 1].map(|owner| Writer::new(&memory, kind, owner));
    for _ in 0..random.u64(..40) {
        let by = if kind == Kind::Single { 0 } else { random.usize(..2) };
        let length = (random.u64(..CAPACITY / 4 + 1)) as usize;
        let Ok(Claimed::At(claim)) = writers[by].claim(length, &mut || u64::MAX) else { continue };
        if random.u64(..).is_multiple_of(5) {
            writers[by].abandon(claim).unwrap();
        } else {
            memory.write_payload(claim.position, &vec![random.u64(..) as u8; length]);
            writers[by].commit(claim, Label { topic: random.u64(..) as u32, correlation: 0 }).unwrap();
        }
    }
    memory
}

/// One piece of damage.
fn damage(memory: &HeapMemory, random: &mut Rng) {
    let tail = memory.tail();
    let position = random.u64(..GRANULES) * 64;
    let header = memory.header(position);
    let near = |value: u64, random: &mut Rng| match random.u64(..3) {
        0 => random.u64(..),
        1 => value ^ (1 << (random.u64(..64))),
        _ => value.wrapping_add((random.u64(..5)).wrapping_sub(2).wrapping_mul(64)),
    };
    match random.u64(..8) {
        0..=2 => header.store(near(header.load(Ordering::Relaxed), random), Ordering::Relaxed),
        3 => {
            let meta = &memory.meta(position)[random.usize(..3)];
            meta.store(near(meta.load(Ordering::Relaxed), random), Ordering::Relaxed);
        }
        4 => {
            // A frame where another one was.
            let other = memory.header(random.u64(..GRANULES) * 64).load(Ordering::Relaxed);
            header.store(other, Ordering::Relaxed);
        }
        5 => tail.floor.store(near(tail.floor.load(Ordering::Relaxed), random), Ordering::Relaxed),
        6 => tail.limit.store(near(tail.limit.load(Ordering::Relaxed), random), Ordering::Relaxed),
        _ => {
            let mark = &tail.marks[random.usize(..2)];
            let word = if random.bool() { &mark.position } else { &mark.messages };
            word.store(near(word.load(Ordering::Relaxed), random), Ordering::Relaxed);
            if random.u64(..).is_multiple_of(4) {
                tail.hint.store(near(tail.hint.load(Ordering::Relaxed), random), Ordering::Relaxed);
                tail.mark_index.fetch_add(random.u64(..3), Ordering::Relaxed);
            }
        }
    }
}

/// Reads as far as there is something. The position grows with every step, so that this comes to an end.
fn read(reader: &mut Reader<&HeapMemory>) {
    for _ in 0..4 * GRANULES {
        let before = reader.position();
        match reader.peek() {
            Ok(Peek::Frame(frame)) => {
                assert!(u64::from(frame.payload_bytes) <= CAPACITY / 4, "{frame:?}");
                assert!(frame.end > frame.position && frame.end - frame.position <= CAPACITY, "{frame:?}");
                let mut bytes = vec![0; frame.payload_bytes as usize];
                reader.copy(&frame, &mut bytes);
                reader.advance(&frame);
                assert!(reader.position() > before);
            }
            Ok(Peek::Lost(loss)) => assert!(loss.bytes > 0 && reader.position() > before),
            Ok(Peek::Empty(_) | Peek::Sealed) | Err(_) => return,
        }
    }
}

#[test]
fn a_damaged_log_is_a_message_a_loss_nothing_or_an_error() {
    let first = setting("CAUSEWAY_SEED", 1);
    for seed in first..first + setting("CAUSEWAY_DAMAGED_LOGS", 20_000) {
        let tried = std::panic::catch_unwind(|| {
            let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let kind = if random.bool() { Kind::Single } else { Kind::Shared };
            let memory = real_log(&mut random, kind);
            // One reader is in the middle when it happens, one comes later.
            let mut early = Reader::join(&memory).ok();
            for _ in 0..1 + random.u64(..6) {
                damage(&memory, &mut random);
                early.iter_mut().for_each(read);
            }
            let _ = Reader::join(&memory).map(|mut late| (late.skip_to_end(), read(&mut late)));
            // What the server does for a dead publisher, on the same log: corrupt or done, and not for ever.
            if kind == Kind::Shared {
                let _ = server::settle(&memory, 0);
            }
        });
        assert!(tried.is_ok(), "CAUSEWAY_SEED={seed} CAUSEWAY_DAMAGED_LOGS=1 shows it again");
    }
}
