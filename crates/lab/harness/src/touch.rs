//! Writing and reading payloads, and what their sum must be.
//!
//! A message is filled with one 64-bit word, little end first. A tail that holds no whole word gets the word's first
//! bytes, and counts as the number that they make. So the sum that a receiver takes over what it touches can be foretold
//! from the word alone; it is compared after the clock has stopped.

use crate::params::Touch;

const LINE_BYTES: usize = 64;

/// Which word a message carries: every message of every side has its own.
#[inline]
pub fn word(sequence: u64, side: u64) -> u64 {
    (sequence << 1 | side).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes as much of a payload as `touch` says.
#[inline]
pub fn write(payload: &mut [u8], word: u64, touch: Touch) {
    // The default comes first, and the rest is kept out of the loop that it is inlined into.
    if touch == Touch::All { write_all(payload, word) } else { write_some(payload, word, touch) }
}

/// Sums as much of a payload as `touch` says.
#[inline]
pub fn read(payload: &[u8], touch: Touch) -> u64 {
    if touch == Touch::All { sum_all(payload) } else { sum_some(payload, touch) }
}

/// The sum that [`read`] takes over `len` bytes that [`write()`] has filled with `word`.
pub fn expected(len: usize, word: u64, touch: Touch) -> u64 {
    let all = |len: usize| {
        let tail = word & ((1 << (len % 8 * 8)) - 1);
        word.wrapping_mul(len as u64 / 8).wrapping_add(tail)
    };
    match touch {
        Touch::None | Touch::Write => 0,
        Touch::First => all(len.min(8)),
        Touch::Lines => {
            let rest = len % LINE_BYTES;
            all(8).wrapping_mul((len / LINE_BYTES) as u64).wrapping_add(all(rest.min(8)))
        }
        Touch::All => all(len),
    }
}

/// Sum of single bytes: the same in whatever pieces they are read.
#[inline]
pub fn byte_sum(bytes: &[u8]) -> u64 {
    match bytes {
        [byte] => u64::from(*byte),
        bytes => bytes.iter().map(|byte| u64::from(*byte)).sum(),
    }
}

/// Does every byte of a message belong to `word`? For the messages that are exchanged before anything is timed.
pub fn is_filled_with(payload: &[u8], word: u64) -> bool {
    let (words, tail) = payload.as_chunks::<8>();
    let word = word.to_le_bytes();
    words.iter().all(|bytes| *bytes == word) && tail == &word[..tail.len()]
}

#[inline(never)]
fn write_some(payload: &mut [u8], word: u64, touch: Touch) {
    let first = |line: &mut [u8]| {
        let len = line.len().min(8);
        write_all(&mut line[..len], word);
    };
    match touch {
        Touch::None => {}
        Touch::First => first(payload),
        Touch::Lines => payload.chunks_mut(LINE_BYTES).for_each(first),
        Touch::All | Touch::Write => write_all(payload, word),
    }
}

#[inline(never)]
fn sum_some(payload: &[u8], touch: Touch) -> u64 {
    let first = |line: &[u8]| sum_all(&line[..line.len().min(8)]);
    match touch {
        Touch::None | Touch::Write => 0,
        Touch::First => first(payload),
        Touch::Lines => payload.chunks(LINE_BYTES).map(first).fold(0, u64::wrapping_add),
        Touch::All => sum_all(payload),
    }
}

#[inline]
fn write_all(payload: &mut [u8], word: u64) {
    let (words, tail) = payload.as_chunks_mut::<8>();
    words.fill(word.to_le_bytes());
    match tail {
        [] => {}
        // The size that everybody measures is not paid for with a call of memcpy.
        [byte] => *byte = word as u8,
        tail => tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]),
    }
}

#[inline]
fn sum_all(payload: &[u8]) -> u64 {
    let (words, tail) = payload.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, bytes| sum.wrapping_add(u64::from_le_bytes(*bytes)));
    sum.wrapping_add(match tail {
        [] => 0,
        [byte] => u64::from(*byte),
        tail => tail.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_touch_what_the_case_says_and_nothing_else_and_the_sum_is_foretold() {
        const UNTOUCHED: u8 = 0xa5;
        for (len, touch) in (0..300)
            .chain([4096, 4097, 65_536])
            .flat_map(|len| Touch::NAMES.iter().filter_map(move |name| Some((len, Touch::parse(name)?))))
        {
            let is_touched = |index: usize| match touch {
                Touch::None => false,
                Touch::First => index < 8,
                Touch::Lines => index % 64 < 8,
                Touch::All | Touch::Write => true,
            };
            let (mut payload, word) = (vec![UNTOUCHED; len], word(len as u64, 1));
            write(&mut payload, word, touch);
            let bytes = word.to_le_bytes();
            let wanted = |index| if is_touched(index) { bytes[index % 8] } else { UNTOUCHED };
            assert!(payload.iter().copied().eq((0..len).map(wanted)), "{len} bytes, {touch:?}");
            // Bytes count by their place in a word.
            let part = |index: usize| u64::from(payload[index]) << (index % 8 * 8);
            let reads = |index: &usize| touch != Touch::Write && is_touched(*index);
            let sum = (0..len).filter(reads).map(part).fold(0, u64::wrapping_add);
            assert_eq!(
                [read(&payload, touch), expected(len, word, touch)],
                [sum; 2],
                "{len} bytes, {touch:?}"
            );
        }
    }

    #[test]
    fn one_wrong_byte_is_noticed() {
        let word = word(7, 0);
        let mut payload = vec![0; 100];
        write(&mut payload, word, Touch::All);
        assert!(is_filled_with(&payload, word));
        for index in 0..payload.len() {
            payload[index] ^= 1;
            assert!(!is_filled_with(&payload, word), "byte {index}");
            assert_ne!(read(&payload, Touch::All), expected(100, word, Touch::All), "byte {index}");
            payload[index] ^= 1;
        }
    }
}
