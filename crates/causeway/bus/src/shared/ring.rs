//! The protocol of the order log, a ring of 8-byte entries each put there by one exchange, and the words on which
//! members sleep.
//!
//! An entry is there whole or not at all, so no member can stop in the middle of one. What it refers to lies in the
//! sender's outbox and was written before. Positions count entries from 0 and are taken modulo the capacity; an entry
//! carries the low 16 bits of its lap, counted from 1, so that zero memory is "not there yet".
//!
//! Invariants:
//!
//! * B1 the entries before the end have the lap of their position, those from the end to the limit the lap before;
//! * B2 no entry that a present member has not passed is overwritten (`limit` is at most the lowest cursor plus the capacity);
//! * B3 a member that sleeps has looked at the log after it announced that, or a sender saw the announcement.

use super::atomic::{AtomicU32, AtomicU64, Ordering, fence, fence_after_exchange, full_fence};

const PLACE_BITS: u32 = 26;
const SLOT_BITS: u32 = 11;
/// Places wrap here.
pub const PLACES: u32 = 1 << PLACE_BITS;
/// The destination that stands for all members.
pub const BROADCAST: u16 = (1 << SLOT_BITS) - 1;
/// Slots that a bus can have at most. One number is left unused below [`BROADCAST`].
pub const SLOTS_MAX: usize = (1 << SLOT_BITS) - 2;

/// A reference to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Whose outbox it is in.
    pub sender: u16,
    /// For which member, or [`BROADCAST`].
    pub destination: u16,
    /// Where: its position in the outbox in units of 64 bytes, modulo [`PLACES`].
    pub place: u32,
}

impl Entry {
    /// The word of this entry in a lap.
    pub const fn word(self, lap: u16) -> u64 {
        (lap as u64) << 48
            | (self.sender as u64 & (BROADCAST as u64)) << (PLACE_BITS + SLOT_BITS)
            | (self.destination as u64 & (BROADCAST as u64)) << PLACE_BITS
            | (self.place as u64 & (PLACES as u64 - 1))
    }

    /// What a word refers to.
    pub const fn of(word: u64) -> Entry {
        Entry {
            sender: (word >> (PLACE_BITS + SLOT_BITS)) as u16 & BROADCAST,
            destination: (word >> PLACE_BITS) as u16 & BROADCAST,
            place: word as u32 & (PLACES - 1),
        }
    }

    /// Does this place follow `earlier` in one outbox, at most half of all places later?
    pub const fn follows(self, earlier: u32) -> bool {
        let step = self.place.wrapping_sub(earlier) & (PLACES - 1);
        step != 0 && step < PLACES / 2
    }
}

/// The memory of an order log.
pub trait Cells {
    /// Entries in the ring, a power of two.
    fn capacity(&self) -> u64;
    /// The entry at a position, which is taken modulo the capacity.
    fn entry(&self, position: u64) -> &AtomicU64;
    /// A recent position before the end.
    fn hint(&self) -> &AtomicU64;
    /// Positions below may be written.
    fn limit(&self) -> &AtomicU64;
}

/// What is at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// An entry of this lap.
    Present(Entry),
    /// Nothing yet; the word there.
    Free(u64),
    /// A word that belongs neither to this lap nor to the one before: damage, or the reader was overtaken.
    Foreign(u64),
}

/// Lap of a position, as its entry has it. Without a division, which would take longer than all else in [`look`].
#[inline]
pub fn lap(cells: &impl Cells, position: u64) -> u16 {
    (position >> cells.capacity().trailing_zeros()).wrapping_add(1) as u16
}

/// Is this position one in so many, a power of two?
#[inline]
pub fn is_one_in(position: u64, count: u64) -> bool {
    position & (count - 1) == 0
}

/// Looks at a position.
#[inline]
pub fn look(cells: &impl Cells, position: u64) -> Cell {
    let word = cells.entry(position).load(Ordering::Acquire); // PAIR order-entry
    classify(word, lap(cells, position))
}

/// What a word is at a position of this lap.
#[inline]
pub fn classify(word: u64, lap: u16) -> Cell {
    match (word >> 48) as u16 {
        found if found == lap => Cell::Present(Entry::of(word)),
        found if found == lap.wrapping_sub(1) => Cell::Free(word),
        _ => Cell::Foreign(word),
    }
}

/// Why there is no new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAppended {
    /// A member has not passed the entry that would be overwritten. Nothing was written.
    Full,
    /// `is_out` said that this member may not send any more.
    Out,
    /// The ring holds a word that no correct member writes.
    Foreign {
        /// Where.
        position: u64,
        /// Which.
        word: u64,
    },
}

/// Puts an entry at the end; returns its position. `end` is a position from which on this member has not looked yet,
/// and is moved on. Everything written before is visible to a reader that finds the entry.
///
/// `is_out` is asked before each exchange. A member that is evicted while it is stopped here cannot add an entry any
/// more once its end is announced: the announcement takes the place that it was about to take, or an earlier one, so
/// its exchange fails.
#[inline]
pub fn append(
    cells: &impl Cells,
    end: &mut u64,
    entry: Entry,
    is_out: impl Fn() -> bool,
) -> Result<u64, NotAppended> {
    loop {
        let position = *end;
        match look(cells, position) {
            Cell::Present(_) => {
                *end = position + 1;
                if is_one_in(*end, HINT_AFTER) {
                    skip_to_hint(cells, end);
                }
            }
            Cell::Foreign(_) if is_out() => return Err(NotAppended::Out),
            Cell::Foreign(word) => return Err(NotAppended::Foreign { position, word }),
            Cell::Free(seen) => {
                if position >= cells.limit().load(Ordering::Acquire) {
                    return Err(NotAppended::Full); // PAIR order-limit
                }
                if is_out() {
                    return Err(NotAppended::Out);
                }
                let word = entry.word(lap(cells, position));
                let exchange =
                    cells.entry(position).compare_exchange(seen, word, Ordering::AcqRel, Ordering::Relaxed);
                if exchange.is_ok() {
                    // PAIR order-entry: Acquire in `look`
                    // Often enough that the entry there has not been overwritten.
                    if is_one_in(position, HINT_EVERY.min(cells.capacity() / 4).max(1)) {
                        cells.hint().store(position, Ordering::Release);
                    }
                    *end = position + 1;
                    return Ok(position);
                }
            }
        }
    }
}

/// Entries between two stores of the hint at most.
const HINT_EVERY: u64 = 64;
/// Entries that are looked at one by one, at most, before the hint is.
const HINT_AFTER: u64 = 128;

/// Moves `end` on to the hint, if that is plausible: it is not far, and the entry there is of its lap.
pub fn skip_to_hint(cells: &impl Cells, end: &mut u64) {
    let hint = cells.hint().load(Ordering::Acquire);
    if hint > *end && hint - *end < cells.capacity() && matches!(look(cells, hint), Cell::Present(_)) {
        *end = hint;
    }
}

/// Lets entries be overwritten that lie a capacity before `lowest_cursor`, the lowest of all present members.
pub fn raise_limit(cells: &impl Cells, lowest_cursor: u64) {
    // PAIR order-limit: what members loaded before they stored their cursors comes before what is written below the limit.
    cells.limit().fetch_max(lowest_cursor.saturating_add(cells.capacity()), Ordering::AcqRel);
}

/// How a member sleeps: the low two bits of its armed word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// On the word of its group.
    Futex = 1,
    /// On its doorbell.
    Doorbell = 2,
}

/// Announces a sleep; returns the armed word. Afterwards the member looks at the log once more, and only then sleeps.
#[inline]
pub fn arm(armed: &AtomicU32, how: Sleep) -> u32 {
    // Only its member raises the counter in the upper bits.
    let value = (armed.load(Ordering::Relaxed) | 3).wrapping_add(1) | how as u32;
    armed.store(value, Ordering::Relaxed);
    full_fence(); // PAIR bus-armed
    value
}

/// Ends an announced sleep, unless a wake-up has ended it.
#[inline]
pub fn disarm(armed: &AtomicU32) {
    armed.store(armed.load(Ordering::Relaxed) & !3, Ordering::Relaxed);
}

/// After an entry was appended: is this member asleep, and how? To be called after [`fence_after_append`].
#[inline]
pub fn asleep(armed: &AtomicU32) -> Option<(u32, Sleep)> {
    let value = armed.load(Ordering::Relaxed);
    match value & 3 {
        1 => Some((value, Sleep::Futex)),
        2 => Some((value, Sleep::Doorbell)),
        _ => None,
    }
}

/// Orders the entry before the loads of armed words. To be called after an [`append`] that has succeeded, whose
/// exchange is half of it; or after another exchange that tells members something beside the log.
#[inline]
pub fn fence_after_append() {
    fence_after_exchange(); // PAIR bus-armed
}

/// Slots of members that sleep on one futex word: as many as it tells apart by the bits of a wait.
pub const GROUP_SLOTS: u16 = 32;

/// The bit of a member among those that sleep on the word of its group.
#[inline]
pub const fn group_bit(slot: u16) -> u32 {
    1 << (slot % GROUP_SLOTS)
}

/// The value of a group's word, to be loaded before a sleep is announced: the sleep does not begin if the word has
/// another one by then.
#[inline]
pub fn before_sleep(group: &AtomicU32) -> u32 {
    group.load(Ordering::Acquire) // PAIR bus-group
}

/// Ends sleeps that members of one group have announced, each by its armed word and the value of that, by one call of
/// `wake`, which wakes their threads. Returns how many were not ended by another.
///
/// The word of the group changes first: who has announced its sleep and does not sleep yet will not. The mark comes
/// last, so that one who is stopped or killed before leaves them announced, and the next one wakes them.
#[inline]
pub fn end_sleeps<'a>(
    group: &AtomicU32,
    wake: impl FnOnce(),
    sleepers: impl Iterator<Item = (&'a AtomicU32, u32)>,
) -> usize {
    group.fetch_add(1, Ordering::AcqRel); // PAIR bus-group
    wake();
    sleepers.filter(|(armed, value)| mark_awake(armed, *value)).count()
}

/// Ends the sleep that a member has announced with `value`, now that it was woken; false if another has.
#[inline]
pub fn mark_awake(armed: &AtomicU32, value: u32) -> bool {
    armed.compare_exchange(value, value & !3, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Lets positions of an outbox below `to` be overwritten, whose readers have passed them or were evicted.
#[inline]
pub fn raise_floor(floor: &AtomicU64, to: u64) {
    // PAIR outbox-out: that a reader was evicted, which this thread has loaded, comes before.
    floor.store(to, Ordering::Release);
    fence(Ordering::Release); // PAIR outbox-floor
}

/// The floor of an outbox, now that bytes of it were copied: what lies below may have been overwritten meanwhile. One
/// who finds that asks afterwards whether it was evicted, so the load acquires.
#[inline]
pub fn floor_after_copy(load: impl FnOnce(Ordering) -> u64) -> u64 {
    fence(Ordering::Acquire); // PAIR outbox-floor
    load(Ordering::Acquire) // PAIR outbox-out
}

/// An order log on the heap, for models and tests.
#[derive(Debug)]
pub struct Heap {
    entries: Vec<AtomicU64>,
    hint: AtomicU64,
    limit: AtomicU64,
}

impl Heap {
    /// An empty one of so many entries, all of which can be written.
    pub fn new(capacity: u64) -> Heap {
        let entries = (0..capacity).map(|_| AtomicU64::new(0)).collect();
        Heap { entries, hint: AtomicU64::new(0), limit: AtomicU64::new(capacity) }
    }
}

impl Cells for Heap {
    fn capacity(&self) -> u64 {
        self.entries.len() as u64
    }
    fn entry(&self, position: u64) -> &AtomicU64 {
        &self.entries[(position % self.capacity()) as usize]
    }
    fn hint(&self) -> &AtomicU64 {
        &self.hint
    }
    fn limit(&self) -> &AtomicU64 {
        &self.limit
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_from_its_word() {
        for entry in [
            Entry { sender: 0, destination: BROADCAST, place: 0 },
            Entry { sender: 2045, destination: 1, place: PLACES - 1 },
        ] {
            assert_eq!(Entry::of(entry.word(0xabcd)), entry);
            assert_eq!(entry.word(0xabcd) >> 48, 0xabcd);
        }
        assert!(Entry { sender: 0, destination: 0, place: 3 }.follows(PLACES - 5));
        assert!(!Entry { sender: 0, destination: 0, place: 3 }.follows(3));
        assert!(!Entry { sender: 0, destination: 0, place: 3 }.follows(4));
    }

    #[test]
    fn a_full_ring_takes_no_entry_until_its_limit_is_raised() {
        let heap = Heap::new(8);
        let (mut end, entry) = (0, Entry { sender: 1, destination: 2, place: 3 });
        for position in 0..8 {
            assert_eq!(append(&heap, &mut end, entry, || false), Ok(position));
        }
        assert_eq!(append(&heap, &mut end, entry, || false), Err(NotAppended::Full));
        raise_limit(&heap, 1);
        assert_eq!(append(&heap, &mut end, entry, || false), Ok(8));
        assert_eq!(append(&heap, &mut end, entry, || false), Err(NotAppended::Full));
    }

    #[test]
    fn laps_wrap_after_sixteen_bits_and_go_on() {
        let heap = Heap::new(2);
        let (mut end, entry) = (0, Entry { sender: 1, destination: 2, place: 3 });
        for position in 0..300_000 {
            assert_eq!(append(&heap, &mut end, entry, || false), Ok(position));
            assert_eq!(look(&heap, position), Cell::Present(entry));
            raise_limit(&heap, position + 1);
        }
    }

    #[test]
    fn a_word_of_another_lap_is_foreign() {
        let heap = Heap::new(8);
        heap.entry(0).store(0x1234_0000_0000_0000, Ordering::Relaxed);
        let entry = Entry { sender: 1, destination: 2, place: 3 };
        assert!(matches!(
            append(&heap, &mut 0, entry, || false),
            Err(NotAppended::Foreign { position: 0, word: 0x1234_0000_0000_0000 })
        ));
        assert_eq!(append(&heap, &mut 0, entry, || true), Err(NotAppended::Out));
    }

    /// A log that counts looks at its entries.
    struct Counting(Heap, std::cell::Cell<u64>);

    impl Cells for Counting {
        fn capacity(&self) -> u64 {
            self.0.capacity()
        }
        fn entry(&self, position: u64) -> &AtomicU64 {
            self.1.set(self.1.get() + 1);
            self.0.entry(position)
        }
        fn hint(&self) -> &AtomicU64 {
            self.0.hint()
        }
        fn limit(&self) -> &AtomicU64 {
            self.0.limit()
        }
    }

    #[test]
    fn one_who_has_not_looked_for_long_finds_the_end_by_the_hint() {
        let log = Counting(Heap::new(1 << 16), std::cell::Cell::default());
        let entry = Entry { sender: 1, destination: 2, place: 3 };
        let mut end = 0;
        (0..50_000).for_each(|position| assert_eq!(append(&log, &mut end, entry, || false), Ok(position)));
        for from in [0, 1, 20_000, 49_999] {
            let mut behind = from;
            let before = log.1.get();
            assert_eq!(append(&log, &mut behind, entry, || false), Ok(end));
            end += 1;
            let looks = log.1.get() - before;
            assert!(looks <= HINT_AFTER + HINT_EVERY + 3, "{looks} looks from {from} on");
        }
    }

    #[test]
    fn a_hint_that_makes_no_sense_is_ignored() {
        let heap = Heap::new(8);
        for hint in [1, 7, 8, u64::MAX] {
            heap.hint.store(hint, Ordering::Relaxed);
            let mut end = 0;
            skip_to_hint(&heap, &mut end);
            assert_eq!(end, 0, "{hint}");
        }
    }
}
