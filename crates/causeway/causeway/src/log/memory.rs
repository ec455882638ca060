//! What the protocol needs of the memory it runs on, and an implementation on the heap for models and tests.

use std::ops::Deref;

use super::atomic::{AtomicU64, Ordering, QuietU64};
use super::layout::Tail;
use super::word::{GRANULE_BYTES, HEADER_BYTES, Word};

/// A log: its changing words and a ring of granules. A position counts bytes since the group began; the
/// implementation takes it modulo the capacity, so that every position is valid.
pub trait Memory {
    /// Size of the ring, a power of two.
    fn capacity_bytes(&self) -> u64;
    /// The changing words.
    fn tail(&self) -> &Tail;
    /// The first word of the granule at `position`, a multiple of 64.
    fn header(&self, position: u64) -> &AtomicU64;
    /// The three words after the header word of the frame at `position`.
    fn meta(&self, position: u64) -> &[QuietU64; 3];
    /// Copies payload out of the frame at `position`. At most the capacity less the header is copied, whatever
    /// `into` asks.
    fn read_payload(&self, position: u64, into: &mut [u8]);
    /// Copies payload into the frame at `position`, with the same bound.
    fn write_payload(&self, position: u64, from: &[u8]);

    /// Distinguishes a free frame of this log from other bytes; see [`Word::free`].
    fn key(&self) -> u32;

    /// Binary logarithm of the capacity: a position shifted right by it is its lap.
    fn lap_shift(&self) -> u32 {
        self.capacity_bytes().trailing_zeros()
    }

    /// The word of a free frame at `position`.
    #[inline(always)]
    fn free(&self, position: u64) -> Word {
        Word::free(position >> self.lap_shift(), self.key())
    }

    /// Lap of a position, as the header word holds it.
    #[inline(always)]
    fn lap(&self, position: u64) -> u32 {
        (position >> self.lap_shift()) as u32
    }
}

/// A log that several share.
impl<P: Deref<Target: Memory>> Memory for P {
    #[inline(always)]
    fn capacity_bytes(&self) -> u64 {
        (**self).capacity_bytes()
    }
    #[inline(always)]
    fn lap_shift(&self) -> u32 {
        (**self).lap_shift()
    }
    #[inline(always)]
    fn key(&self) -> u32 {
        (**self).key()
    }
    #[inline(always)]
    fn tail(&self) -> &Tail {
        (**self).tail()
    }
    #[inline(always)]
    fn header(&self, position: u64) -> &AtomicU64 {
        (**self).header(position)
    }
    #[inline(always)]
    fn meta(&self, position: u64) -> &[QuietU64; 3] {
        (**self).meta(position)
    }
    #[inline(always)]
    fn read_payload(&self, position: u64, into: &mut [u8]) {
        (**self).read_payload(position, into);
    }
    #[inline(always)]
    fn write_payload(&self, position: u64, from: &[u8]) {
        (**self).write_payload(position, from);
    }
}

/// One granule on the heap. The payload words are atomics of the model too: what a reader may see of them is part of the
/// proof.
#[derive(Debug)]
struct Granule {
    header: AtomicU64,
    meta: [QuietU64; 3],
    payload: [AtomicU64; PAYLOAD_WORDS],
}

/// One payload word per granule under loom: every further one multiplies the schedules and proves nothing more.
const PAYLOAD_WORDS: usize = if cfg!(loom) { 1 } else { 4 };

/// A word that payload covers: of the model, or one that it does not branch on.
enum PayloadWord<'a> {
    Modelled(&'a AtomicU64),
    Quiet(&'a QuietU64),
}

/// Any odd number below 2²⁹: on the heap no process has to guess it.
const HEAP_KEY: u32 = 0x0c0f_fee1;

/// A log on the heap, for loom, Miri, property tests and fuzzing. Shared by threads of one process only.
///
/// As in shared memory, the payload of a long frame covers the header words of the granules behind its first.
/// (Under loom the first granule keeps one payload word for all four: use payloads that repeat one word.)
#[derive(Debug)]
pub struct HeapMemory {
    /// Apart, because models run on small stacks.
    tail: Box<Tail>,
    granules: Vec<Granule>,
}

impl HeapMemory {
    /// An empty log of `capacity_bytes`, a power of two of at least 128. `single` makes an `sw` log, whose limit is above all
    /// positions.
    pub fn new(capacity_bytes: u64, single: bool) -> HeapMemory {
        assert!(capacity_bytes.is_power_of_two() && capacity_bytes >= 2 * GRANULE_BYTES);
        let granule = || Granule {
            header: AtomicU64::new(0),
            meta: Default::default(),
            payload: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let tail = Box::<Tail>::default();
        if single {
            tail.limit.store(u64::MAX, Ordering::Relaxed);
        }
        let granules = (0..capacity_bytes / GRANULE_BYTES).map(|_| granule()).collect();
        let memory = HeapMemory { tail, granules };
        memory.header(0).store(memory.free(0).0, Ordering::Relaxed);
        memory
    }

    /// Overwrites the first four words of granule `index` with arbitrary values, as a hostile publisher could.
    pub fn poke(&self, index: usize, words: [u64; 4]) {
        let granule = &self.granules[index % self.granules.len()];
        granule.header.store(words[0], Ordering::Relaxed);
        for (word, value) in granule.meta.iter().zip(&words[1..]) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    fn granule(&self, position: u64) -> &Granule {
        &self.granules[(position / GRANULE_BYTES) as usize & (self.granules.len() - 1)]
    }

    /// The word that holds bytes `8 * index ..` of the payload of the frame at `position`.
    fn payload_word(&self, position: u64, index: usize) -> PayloadWord<'_> {
        let word = index as u64 + HEADER_BYTES / 8;
        let granule = self.granule(position + word / 8 * GRANULE_BYTES);
        match word as usize % 8 {
            0 => PayloadWord::Modelled(&granule.header),
            meta @ 1..=3 => PayloadWord::Quiet(&granule.meta[meta - 1]),
            word => PayloadWord::Modelled(&granule.payload[(word - 4).min(PAYLOAD_WORDS - 1)]),
        }
    }

    fn bounded(&self, length: usize) -> usize {
        length.min((self.capacity_bytes() - HEADER_BYTES) as usize)
    }
}

impl Memory for HeapMemory {
    fn capacity_bytes(&self) -> u64 {
        self.granules.len() as u64 * GRANULE_BYTES
    }

    fn key(&self) -> u32 {
        HEAP_KEY
    }

    fn tail(&self) -> &Tail {
        &self.tail
    }

    fn header(&self, position: u64) -> &AtomicU64 {
        &self.granule(position).header
    }

    fn meta(&self, position: u64) -> &[QuietU64; 3] {
        &self.granule(position).meta
    }

    fn read_payload(&self, position: u64, into: &mut [u8]) {
        let length = self.bounded(into.len());
        for (index, chunk) in into[..length].chunks_mut(8).enumerate() {
            let word = match self.payload_word(position, index) {
                PayloadWord::Modelled(word) => word.load(Ordering::Relaxed),
                PayloadWord::Quiet(word) => word.load(Ordering::Relaxed),
            };
            let word = word.to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn write_payload(&self, position: u64, from: &[u8]) {
        let length = self.bounded(from.len());
        for (index, chunk) in from[..length].chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = u64::from_le_bytes(word);
            match self.payload_word(position, index) {
                PayloadWord::Modelled(place) => place.store(word, Ordering::Relaxed),
                PayloadWord::Quiet(place) => place.store(word, Ordering::Relaxed),
            }
        }
    }
}
