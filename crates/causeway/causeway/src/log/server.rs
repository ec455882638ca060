//! What the server does to a log: it decides what a dead publisher left unfinished, ends the log, and says where its end is.
//!
//! None of this walks the log. Others wait while the server does it, and a log can hold millions of frames.

use super::Corrupt;
use super::atomic::{Ordering, fence};
use super::layout::LastClaim;
use super::memory::Memory;
use super::reclaim;
use super::word::{GRANULE_BYTES, State, Word};
use super::writer::Kind;

/// Turns the unfinished frame of a publisher that is gone into padding, if it left one, and releases the lock if that publisher
/// held it. Returns whether a frame was decided. May be called again, and while others publish.
pub fn settle<M: Memory>(memory: &M, owner: u8) -> Result<bool, Corrupt> {
    let tail = memory.tail();
    let locked = u32::from(owner) + 1;
    let _ = tail.reclaim_lock.compare_exchange(locked, 0, Ordering::AcqRel, Ordering::Relaxed);
    tail.publishers_waiting.fetch_and(!(1 << owner), Ordering::Relaxed);
    // A publisher has one claim at a time, and says where before it makes it.
    let words = &tail.publishers[usize::from(owner)];
    let claim = LastClaim::from(words.claim.load(Ordering::Relaxed));
    let position = claim.position;
    if !position.is_multiple_of(GRANULE_BYTES) {
        return Err(Corrupt { position, word: Word(0) });
    }
    let header = memory.header(position);
    let word = Word(header.load(Ordering::Acquire));
    fence(Ordering::Acquire); // PAIR floor-payload
    // The floor stops at an unfinished frame, so that below it there is none.
    let is_overwritten = tail.floor.load(Ordering::Relaxed) > position;
    let is_its = word.lap() == memory.lap(position) && word.owner() == owner;
    if is_overwritten || !is_its || word.state() != Some(State::Busy) {
        return Ok(false);
    }
    let pad = word.with_state(State::Pad).0;
    if header.compare_exchange(word.0, pad, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return Ok(false);
    }
    // It counts a message before it commits it, and then takes back what it could not commit. Whatever it dies of: of two
    // successive numbers, the right one is that which it had when it made the claim.
    let published = words.published.load(Ordering::Relaxed);
    if !claim.was_made_at(published) {
        words.published.store(published.wrapping_sub(1), Ordering::Relaxed);
    }
    Ok(true)
}

/// Ends a log that has several publishers, or none: every publisher and subscriber that reaches its end finds it sealed. Frames
/// claimed before stay valid and lie before the end. Returns where that is.
pub fn end_log<M: Memory>(memory: &M) -> Result<u64, Corrupt> {
    let tail = memory.tail();
    let mut position = tail.hint.load(Ordering::Acquire).min(reclaim::POSITION_MAX);
    loop {
        let free = memory.free(position);
        let sealed = free.with_state(State::Sealed);
        let header = memory.header(position);
        let found = match header.compare_exchange(free.0, sealed.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return Ok(position),
            Err(found) => Word(found),
        };
        fence(Ordering::Acquire); // PAIR floor-payload
        if tail.floor.load(Ordering::Relaxed) > position {
            position = reclaim::hint_beyond(memory, position)?;
        } else if found == sealed {
            return Ok(position);
        } else if found.lap() != memory.lap(position) || found.span_bytes() == 0 {
            return Err(Corrupt { position, word: found });
        } else {
            position += found.span_bytes();
        }
    }
}

/// Makes an empty log the continuation of `previous`, which ends at `position`: numbers of messages and subscribers that were
/// demoted go over. Returns how many messages the publishers have counted so far. The caller then shows the log to others.
pub fn begin<M: Memory>(memory: &M, kind: Kind, previous: Option<&M>, position: u64) -> u64 {
    let tail = memory.tail();
    if let Some(previous) = previous {
        carry_counts(previous, memory);
        let demoted = previous.tail().demoted.iter().map(|word| word.load(Ordering::Relaxed));
        tail.demoted
            .iter()
            .zip(demoted)
            .for_each(|(word, generation)| word.store(generation, Ordering::Relaxed));
        tail.given_up.store(previous.tail().given_up.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let messages = published(memory);
    memory.header(position).store(memory.free(position).0, Ordering::Relaxed);
    tail.marks[0].position.store(position, Ordering::Relaxed);
    tail.marks[0].messages.store(messages, Ordering::Relaxed);
    tail.hint.store(position, Ordering::Release);
    tail.floor.store(position, Ordering::Release);
    let limit = if kind == Kind::Single { u64::MAX } else { position };
    tail.limit.store(limit, Ordering::Release); // PAIR log-limit
    messages
}

/// Takes over the numbers of messages of publishers that have published to `previous` after `next` began: with frames that they had
/// claimed before.
pub fn carry_counts<M: Memory>(previous: &M, next: &M) {
    for (old, new) in previous.tail().publishers.iter().zip(next.tail().publishers.iter()) {
        new.published.fetch_max(old.published.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The same of one publisher that is gone, and of which a frame in `previous` was decided: it has been in no later log.
pub fn carry_count_of<M: Memory>(previous: &M, next: &M, owner: u8) {
    let [old, new] = [previous, next].map(|memory| &memory.tail().publishers[usize::from(owner)].published);
    new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Messages of all epochs up to that of `memory`, with those that are about to be committed.
pub fn published<M: Memory>(memory: &M) -> u64 {
    let counts = memory.tail().publishers.iter().map(|words| words.published.load(Ordering::Relaxed));
    counts.fold(0, u64::wrapping_add)
}

/// Whether no publisher has an unfinished frame in a log that has ended. A log that publishers have corrupted counts as finished:
/// nothing in it is decided any more.
pub fn is_finished<M: Memory>(memory: &M) -> bool {
    let tail = memory.tail();
    tail.publishers.iter().enumerate().all(|(owner, words)| {
        let position = LastClaim::from(words.claim.load(Ordering::Relaxed)).position;
        if !position.is_multiple_of(GRANULE_BYTES) || tail.floor.load(Ordering::Acquire) > position {
            return true;
        }
        let word = Word(memory.header(position).load(Ordering::Acquire)); // PAIR log-commit
        let is_its = word.lap() == memory.lap(position) && usize::from(word.owner()) == owner;
        !is_its || word.state() != Some(State::Busy)
    })
}

/// Frames that may lie between the hint and the end: what fits between two updates of the hint, and what publishers add
/// meanwhile.
const FRAMES_MAX: usize = 4096;

/// The end of the chain of frames, and how many messages were published. Exact while no publisher publishes.
pub fn end_of<M: Memory>(memory: &M, kind: Kind) -> Result<(u64, u64), Corrupt> {
    let tail = memory.tail();
    let mut position = tail.hint.load(Ordering::Acquire).min(reclaim::POSITION_MAX);
    // In a log of one publisher, the last message has the number of all before it.
    let mut last_sequence = None;
    for _ in 0..FRAMES_MAX {
        if position > tail.limit.load(Ordering::Acquire) {
            break; // PAIR log-limit: beyond it lie bytes of the lap before
        }
        let word = Word(memory.header(position).load(Ordering::Acquire)); // PAIR log-commit
        let sequence = (memory.meta(position)[1].load(Ordering::Relaxed) >> 32) as u32;
        fence(Ordering::Acquire); // PAIR floor-payload
        if tail.floor.load(Ordering::Relaxed) > position {
            let floor = tail.floor.load(Ordering::Acquire);
            position = tail.hint.load(Ordering::Acquire).max(floor).min(reclaim::POSITION_MAX);
            continue;
        }
        match word.state() {
            Some(State::Free | State::Sealed) => break,
            Some(state) if word.lap() == memory.lap(position) && word.span_bytes() != 0 => {
                if state == State::Done {
                    last_sequence = Some(sequence);
                }
                position += word.span_bytes();
            }
            _ => return Err(Corrupt { position, word }),
        }
    }
    let published = published(memory);
    let messages = match kind {
        Kind::Shared => published,
        Kind::Single => {
            let marked = tail.marks.each_ref().map(|mark| mark.messages.load(Ordering::Relaxed));
            let known = published.max(marked[0]).max(marked[1]);
            let since = last_sequence.map_or(0, |last| last.wrapping_add(1).wrapping_sub(known as u32));
            known.wrapping_add(u64::from(since))
        }
    };
    Ok((position, messages))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::atomic::{AtomicU64, QuietU64};
    use crate::log::layout::Tail;
    use crate::log::{Claim, Claimed, HeapMemory, Label, Writer};
    use std::cell::Cell;

    /// A log that counts how often a header is looked at.
    struct Counted {
        memory: HeapMemory,
        headers: Cell<usize>,
    }

    impl Counted {
        fn new(capacity_bytes: u64, kind: Kind) -> Counted {
            let memory = HeapMemory::new(capacity_bytes, kind == Kind::Single);
            Counted { memory, headers: Cell::new(0) }
        }
    }

    impl Memory for Counted {
        fn capacity_bytes(&self) -> u64 {
            self.memory.capacity_bytes()
        }
        fn key(&self) -> u32 {
            self.memory.key()
        }
        fn tail(&self) -> &Tail {
            self.memory.tail()
        }
        fn header(&self, position: u64) -> &AtomicU64 {
            self.headers.set(self.headers.get() + 1);
            self.memory.header(position)
        }
        fn meta(&self, position: u64) -> &[QuietU64; 3] {
            self.memory.meta(position)
        }
        fn read_payload(&self, position: u64, into: &mut [u8]) {
            self.memory.read_payload(position, into);
        }
        fn write_payload(&self, position: u64, from: &[u8]) {
            self.memory.write_payload(position, from);
        }
    }

    /// There are no subscribers.
    fn claim(writer: &mut Writer<&Counted>, payload_bytes: usize) -> Claim {
        match writer.claim(payload_bytes, &mut || u64::MAX).unwrap() {
            Claimed::At(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    /// Publishes eight bytes, and returns where.
    fn publish(writer: &mut Writer<&Counted>) -> u64 {
        let claim = claim(writer, 8);
        writer.commit(claim, Label::default()).unwrap()
    }

    /// Before, both followed the chain from its oldest frame: half a second for each call in a log of a gibibyte.
    #[test]
    fn neither_a_death_nor_a_report_costs_more_in_a_long_log() {
        for kind in [Kind::Single, Kind::Shared] {
            let log = Counted::new(4 << 20, kind);
            let mut writer = Writer::new(&log, kind, 0);
            for count in 1..=100_000u64 {
                publish(&mut writer);
                if count.is_multiple_of(997) || count < 300 {
                    log.headers.set(0);
                    assert_eq!(end_of(&log, kind).unwrap(), (count * 64, count));
                    assert!(log.headers.get() <= 66, "{} looks", log.headers.get());
                }
            }
            if kind == Kind::Shared {
                let _left = claim(&mut Writer::new(&log, kind, 1), 8);
                publish(&mut writer);
                log.headers.set(0);
                assert_eq!([1, 1, 0].map(|owner| settle(&log, owner).unwrap()), [true, false, false]);
                assert!(log.headers.get() <= 3, "{} looks", log.headers.get());
                assert_eq!(end_of(&log, kind).unwrap(), (100_002 * 64, 100_001));
            }
        }
    }

    #[test]
    fn messages_are_counted_whatever_their_length_and_padding() {
        for kind in [Kind::Single, Kind::Shared] {
            let log = Counted::new(4096, kind);
            let mut writer = Writer::new(&log, kind, 0);
            for count in 1..=2000u64 {
                let claim = claim(&mut writer, (count * 37 % 900) as usize);
                if count.is_multiple_of(5) {
                    writer.abandon(claim).unwrap();
                } else {
                    writer.commit(claim, Label::default()).unwrap();
                }
                assert_eq!(end_of(&log, kind).unwrap().1, count - count / 5, "{kind:?}");
            }
        }
    }

    /// Before, the second publisher of a slot counted from 0 again: a subscriber took its messages for older ones.
    #[test]
    fn the_next_publisher_of_a_slot_goes_on_counting() {
        let log = Counted::new(4096, Kind::Shared);
        for published in 0..3 {
            let position = publish(&mut Writer::new(&log, Kind::Shared, 4));
            assert_eq!(log.meta(position)[1].load(Ordering::Relaxed) >> 32, published);
        }
    }
}
