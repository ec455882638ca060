//! Reclaiming space: the floor rises behind the slowest subscriber that holds space, and the limit rises with it.
//!
//! The floor moves from frame boundary to frame boundary. The publisher that moves it counts the messages, so that a
//! subscriber that was overtaken learns where to resume and how many messages it missed. The floor never passes a frame that
//! is still being written, nor the cursor of a subscriber that holds space. A cursor only bounds this walk: a hostile
//! subscriber can hold space, as far as its policy allows, but not corrupt what others read.

use super::Corrupt;
use super::atomic::{Ordering, fence};
use super::memory::Memory;
use super::word::{GRANULE_BYTES, State, Word};

/// What bounds the floor: the subscribers of a log.
pub trait Gate {
    /// A counter that changes after a subscriber has joined or left. Loaded from shared memory each time.
    fn subscriber_changes(&mut self) -> u64;
    /// The lowest cursor of all subscribers that hold space, at least of those present at the last call of
    /// [`Gate::subscriber_changes`]; all ones if there is none.
    fn lowest(&mut self) -> u64;
}

/// A fixed set of subscribers: the lowest of their cursors.
impl<F: FnMut() -> u64> Gate for F {
    fn subscriber_changes(&mut self) -> u64 {
        0
    }

    fn lowest(&mut self) -> u64 {
        self()
    }
}

/// The result of an attempt to reclaim space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reclaimed {
    /// The limit reaches the requested end.
    Enough,
    /// The limit does not reach the requested end.
    TooLittle,
    /// Another publisher is reclaiming.
    Contended,
}

/// One walk reclaims an eighth of the ring if it can, so that reclaiming costs publishers one walk per eighth.
const BATCH_SHIFT: u32 = 3;
/// But at most this many bytes: in large rings a longer walk would stall the publisher that does it.
const BATCH_BYTES_MAX: u64 = 256 << 10;

/// How far one walk goes beyond what is needed.
fn batch_bytes(capacity: u64) -> u64 {
    (capacity >> BATCH_SHIFT).clamp(GRANULE_BYTES, BATCH_BYTES_MAX)
}

/// Raises floor and limit of a shared log until `end` may be claimed, if subscribers allow.
pub fn reclaim_shared<M: Memory>(
    memory: &M,
    owner: u8,
    end: u64,
    gate: &mut impl Gate,
) -> Result<Reclaimed, Corrupt> {
    let tail = memory.tail();
    let locked = u32::from(owner) + 1;
    // PAIR reclaim-lock: with its release below, or in `settle` for an owner that died.
    if tail.reclaim_lock.compare_exchange(0, locked, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Ok(Reclaimed::Contended);
    }
    let outcome = raise_both(memory, end, gate);
    // PAIR reclaim-lock. A compare-and-swap, because the server frees the lock of a dead publisher.
    let _ = tail.reclaim_lock.compare_exchange(locked, 0, Ordering::Release, Ordering::Relaxed);
    outcome
}

fn raise_both<M: Memory>(memory: &M, end: u64, gate: &mut impl Gate) -> Result<Reclaimed, Corrupt> {
    let (tail, capacity) = (memory.tail(), memory.capacity_bytes());
    let limit = tail.limit.load(Ordering::Relaxed);
    if end <= limit {
        return Ok(Reclaimed::Enough);
    }
    // One granule less than the ring holds: the one at the limit gets a free word too, so that there is a word to seal
    // wherever the chain ends.
    let available_bytes = capacity - GRANULE_BYTES;
    let wanted = end.max(limit.saturating_add(batch_bytes(capacity)));
    let mut floor = tail.floor.load(Ordering::Relaxed);
    // The ring holds the bytes between floor and limit, and a claim begins at the limit or below. In damaged memory the
    // loop below would not end.
    let is_plausible =
        floor <= limit && limit <= POSITION_MAX && limit - floor <= capacity && end - limit <= capacity;
    if !is_plausible {
        return Err(Corrupt { position: floor, word: Word(memory.header(floor).load(Ordering::Relaxed)) });
    }
    if wanted > floor + available_bytes {
        floor = advance_floor(memory, wanted + GRANULE_BYTES, gate)?;
    }
    let raised = wanted.min(floor + available_bytes).max(limit);
    fence(Ordering::Release); // PAIR floor-payload: a thread that sees a free word sees the floor above it
    for position in (limit..raised).step_by(GRANULE_BYTES as usize) {
        let stamped = position + GRANULE_BYTES;
        memory.header(stamped).store(memory.free(stamped).0, Ordering::Relaxed);
    }
    tail.limit.store(raised, Ordering::Release); // PAIR log-limit: Acquire in `Writer` and `Reader`
    Ok(if end <= raised { Reclaimed::Enough } else { Reclaimed::TooLittle })
}

/// The highest position. Half of all suffice for any run time, and sums with lengths do not overflow.
pub const POSITION_MAX: u64 = u64::MAX / 2;

/// The hint, once the floor has passed `position`: a publisher raises the hint before the floor. In damaged memory a
/// hint that is not beyond the position would be followed for ever.
pub fn hint_beyond<M: Memory>(memory: &M, position: u64) -> Result<u64, Corrupt> {
    fence(Ordering::Acquire); // PAIR floor-hint: the floor was loaded before, with whatever ordering
    let hint = memory.tail().hint.load(Ordering::Acquire);
    if hint > position && hint <= POSITION_MAX {
        Ok(hint)
    } else {
        Err(Corrupt { position, word: Word(memory.header(position).load(Ordering::Relaxed)) })
    }
}

/// Raises the floor so that `end` fits below floor + capacity, as far as subscribers and unfinished frames allow, and
/// returns the new floor. To be called by one publisher at a time: the only one, or the one with the lock.
///
/// A publisher that dies in here leaves a valid floor and a valid mark, and the next one repeats the rest of the work.
pub fn advance_floor<M: Memory>(memory: &M, end: u64, gate: &mut impl Gate) -> Result<u64, Corrupt> {
    let (tail, capacity) = (memory.tail(), memory.capacity_bytes());
    let floor = tail.floor.load(Ordering::Relaxed);
    if floor > POSITION_MAX {
        return Err(Corrupt { position: floor, word: Word(memory.header(floor).load(Ordering::Relaxed)) });
    }
    let wanted = end.saturating_sub(capacity).max(floor + batch_bytes(capacity));
    // One of the two marks describes the floor as it is; the other one is free to describe the next.
    let current = usize::from(tail.marks[0].position.load(Ordering::Relaxed) != floor);
    let messages = tail.marks[current].messages.load(Ordering::Relaxed);
    let raised = loop {
        let changes = gate.subscriber_changes();
        let walked = walk(memory, (floor, messages), wanted, gate.lowest())?;
        if walked.0 == floor {
            return Ok(floor);
        }
        publish_mark(memory, current, walked);
        // A subscriber that joins now is either counted here, or sees the mark just published and starts there.
        fence(Ordering::SeqCst); // PAIR join-mark: the fence in `Reader::join`
        if gate.subscriber_changes() == changes {
            break walked.0;
        }
    };
    // It only grows, so that one which is there already stays there.
    if tail.hint.load(Ordering::Relaxed) < raised {
        tail.hint.fetch_max(raised, Ordering::Release);
    }
    tail.floor.store(raised, Ordering::Release); // PAIR floor-hint: the fence in `hint_beyond`
    Ok(raised)
}

/// Follows the chain from a boundary until it reaches `wanted`, an unfinished frame, or the cursor `lowest`.
fn walk<M: Memory>(memory: &M, from: (u64, u64), wanted: u64, lowest: u64) -> Result<(u64, u64), Corrupt> {
    let (mut position, mut messages) = from;
    while position < wanted {
        let word = Word(memory.header(position).load(Ordering::Acquire));
        let span = word.span_bytes();
        match word.state() {
            Some(State::Free | State::Busy | State::Sealed) if word.lap() == memory.lap(position) => break,
            Some(State::Done | State::Pad) if word.lap() == memory.lap(position) && span != 0 => {
                if position + span > lowest {
                    break;
                }
                position += span;
                messages += u64::from(word.state() == Some(State::Done));
            }
            _ => return Err(Corrupt { position, word }),
        }
    }
    Ok((position, messages))
}

/// Whether a subscriber whose cursor is `cursor`, and not an unfinished frame, keeps the floor where it is.
pub fn is_held_by<M: Memory>(memory: &M, cursor: u64) -> bool {
    let floor = memory.tail().floor.load(Ordering::Acquire);
    let word = Word(memory.header(floor).load(Ordering::Acquire));
    let finished = matches!(word.state(), Some(State::Done | State::Pad)) && word.lap() == memory.lap(floor);
    finished && cursor < floor.saturating_add(word.span_bytes())
}

/// Attempts to read a mark that changes meanwhile. A publisher changes it once per eighth of a ring.
const MARK_ATTEMPTS_MAX: usize = 10_000;

/// The mark: a boundary at or above the floor, and the messages before it. Nothing where it never stands still.
pub fn mark<M: Memory>(memory: &M) -> Option<(u64, u64)> {
    let tail = memory.tail();
    for _ in 0..MARK_ATTEMPTS_MAX {
        let index = tail.mark_index.load(Ordering::Acquire); // PAIR mark
        let mark = &tail.marks[(index & 1) as usize];
        let position = mark.position.load(Ordering::Relaxed);
        let messages = mark.messages.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // PAIR mark
        if tail.mark_index.load(Ordering::Relaxed) == index {
            return Some((position, messages));
        }
        super::atomic::pause();
    }
    None
}

/// Publishes `boundary` as the mark, so that no reader ever uses half of it.
fn publish_mark<M: Memory>(memory: &M, current: usize, boundary: (u64, u64)) {
    let tail = memory.tail();
    let index = tail.mark_index.load(Ordering::Relaxed);
    // First let the index point to the current mark, with a number it never had …
    let next = index.wrapping_add(1);
    let back = next.wrapping_add(u64::from(next & 1 != current as u64));
    tail.mark_index.store(back, Ordering::Relaxed);
    fence(Ordering::Release); // PAIR mark: the fence in [`mark`]
    let mark = &tail.marks[1 - current];
    mark.position.store(boundary.0, Ordering::Relaxed);
    mark.messages.store(boundary.1, Ordering::Relaxed);
    // … then to the finished one.
    tail.mark_index.store(back.wrapping_add(1), Ordering::Release); // PAIR mark: Acquire in [`mark`]
}
