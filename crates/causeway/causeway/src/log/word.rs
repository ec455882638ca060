//! The first eight bytes of every frame: state, owner, length and lap in one word, so that one compare-and-swap claims a
//! frame and publishes its owner and length.
//!
//! | bits | what |
//! |---|---|
//! | 0–2 | state |
//! | 3–8 | owner: the slot of the publisher |
//! | 9–31 | length of the frame in granules of 64 bytes, its header included |
//! | 32–63 | lap: position divided by the capacity, modulo 2³² |
//!
//! The lap distinguishes successive uses of the same bytes of the ring: the compare-and-swap of a publisher that was stopped
//! before it and continues a lap later fails, and a reader that was overtaken notices.

use std::fmt;

/// The unit of allocation, and the alignment of every frame.
pub const GRANULE_BYTES: u64 = 64;
/// Bytes of a frame before its payload.
pub const HEADER_BYTES: u64 = 32;
/// Publishers that one log can have: the owner field has six bits.
pub const PUBLISHERS_MAX: usize = 64;

const OWNER_SHIFT: u32 = 3;
const GRANULES_SHIFT: u32 = 9;
const GRANULES_MASK: u64 = (1 << 23) - 1;
const LAP_SHIFT: u32 = 32;

/// The bits of the key of a log; see [`Word::free`]. The key is drawn when the log is made and is odd, so that zeroes are not
/// a free frame.
pub const FREE_KEY_MASK: u32 = (1 << 29) - 1;

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not claimed. Everything before it is claimed.
    Free,
    /// Being written by its owner.
    Busy,
    /// Complete. It will not change until every subscriber that holds space has passed it.
    Done,
    /// Padding: abandoned by its owner, or by the server because its owner died.
    Pad,
    /// The log ends here; the next epoch continues at this position.
    Sealed,
}

/// A frame's header word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The word of an unclaimed frame in lap `lap` of a log with this [`key`](FREE_KEY_MASK).
    ///
    /// A publisher claims by a compare-and-swap of exactly this word, and may be stopped just before it for any time. So the
    /// bits that hold owner and length later hold the key plus the upper half of the lap. No two laps have the same word, and
    /// payload bytes that lie there meanwhile do not equal it unless their author knew the key.
    #[inline]
    pub const fn free(lap: u64, key: u32) -> Word {
        let number = (lap >> 32).wrapping_add(key as u64) & FREE_KEY_MASK as u64;
        Word((lap << LAP_SHIFT) | (number << OWNER_SHIFT))
    }

    /// The word of a frame of `granules` that `owner` writes.
    #[inline]
    pub const fn busy(lap: u32, owner: u8, granules: u64) -> Word {
        debug_assert!((owner as usize) < PUBLISHERS_MAX && granules <= GRANULES_MASK);
        Word(((lap as u64) << LAP_SHIFT) | (granules << GRANULES_SHIFT) | ((owner as u64) << OWNER_SHIFT) | 1)
    }

    /// The same frame in another state.
    #[inline]
    pub const fn with_state(self, state: State) -> Word {
        Word((self.0 & !7) | state as u64)
    }

    /// The state, or `None` for a value that no version of this protocol writes.
    #[inline]
    pub const fn state(self) -> Option<State> {
        match self.0 & 7 {
            0 => Some(State::Free),
            1 => Some(State::Busy),
            2 => Some(State::Done),
            3 => Some(State::Pad),
            4 => Some(State::Sealed),
            _ => None,
        }
    }

    /// Whether this is a complete frame of lap `lap`.
    #[inline]
    pub const fn is_done(self, lap: u32) -> bool {
        self.lap() == lap && self.0 & 7 == State::Done as u64
    }

    /// The slot of the publisher that claimed the frame.
    #[inline]
    pub const fn owner(self) -> u8 {
        ((self.0 >> OWNER_SHIFT) & 63) as u8
    }

    /// Length of the frame in bytes, header included.
    #[inline]
    pub const fn span_bytes(self) -> u64 {
        ((self.0 >> GRANULES_SHIFT) & GRANULES_MASK) * GRANULE_BYTES
    }

    /// The lap in which the word was written.
    #[inline]
    pub const fn lap(self) -> u32 {
        (self.0 >> LAP_SHIFT) as u32
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state() {
            Some(state) => write!(f, "{state:?}")?,
            None => write!(f, "state {}", self.0 & 7)?,
        }
        write!(f, " owner {} span {} lap {}", self.owner(), self.span_bytes(), self.lap())
    }
}

/// Bytes of log that a payload of `payload_bytes` takes.
#[inline]
pub const fn span_of(payload_bytes: u64) -> u64 {
    (payload_bytes + HEADER_BYTES).div_ceil(GRANULE_BYTES) * GRANULE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_gives_back_what_was_put_in() {
        for owner in [0, 1, 63] {
            for granules in [1, 2, GRANULES_MASK] {
                for lap in [0, 1, u32::MAX] {
                    for state in [State::Busy, State::Done, State::Pad] {
                        let word = Word::busy(lap, owner, granules).with_state(state);
                        assert_eq!(
                            (word.state(), word.owner(), word.span_bytes(), word.lap()),
                            (Some(state), owner, granules * GRANULE_BYTES, lap)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn free_frames_of_different_laps_have_different_words() {
        // The smallest log has the most laps: 2⁵² before its positions are used up.
        let last = u64::MAX >> 12;
        let laps = [0, 1, 7, (1 << 32) - 1, 1 << 32, (1 << 32) + 7, 5 << 32, (1 << 52) - (1 << 32), last];
        for key in [1, 0x1555_5555, FREE_KEY_MASK] {
            for (index, lap) in laps.into_iter().enumerate() {
                let word = Word::free(lap, key);
                assert_eq!((word.state(), word.lap()), (Some(State::Free), lap as u32));
                assert!(laps[..index].iter().all(|other| Word::free(*other, key) != word), "lap {lap}");
                assert!(lap > 0 || word != Word(0), "zeroes are no free frame");
            }
        }
    }

    #[test]
    fn the_longest_payload_fits_the_length_field_and_short_ones_take_few_granules() {
        assert!(span_of((1 << 30) / 4) / GRANULE_BYTES <= GRANULES_MASK);
        assert_eq!([span_of(0), span_of(32), span_of(33)], [64, 64, 128]);
    }
}
