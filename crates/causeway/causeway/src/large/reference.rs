//! What the log carries in place of a payload.

/// The correlation word of a frame whose payload is a [`Reference`].
pub const CORRELATION: u64 = 1;

/// Length of a reference, in bytes: with its header, one granule of the log.
pub const BYTES: usize = 32;

/// Where a payload lies. Input from another process to the subscriber that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Number of the file: that of its pool in the upper half, from 1, and the index in the pool.
    pub file: u64,
    /// Which use of the file this is, from 1; 0 for a file that is sealed and used once.
    pub use_number: u64,
    pub payload_bytes: u64,
}

pub fn file_number(pool: u32, index: u32) -> u64 {
    u64::from(pool) << 32 | u64::from(index)
}

impl Reference {
    /// Whether the file is sealed against writing.
    pub fn is_sealed(self) -> bool {
        self.use_number == 0
    }

    pub fn pool_and_index(self) -> [u32; 2] {
        [(self.file >> 32) as u32, self.file as u32]
    }

    /// The bytes in the log: three words and one that is 0.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip([self.file, self.use_number, self.payload_bytes]) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The reference that these bytes are, if they are one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Reference> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
        let (reference, rest) =
            (Reference { file: word(0), use_number: word(8), payload_bytes: word(16) }, word(24));
        let is_valid = reference.file >> 32 != 0 && reference.payload_bytes != 0 && rest == 0;
        is_valid.then_some(reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_comes_back_as_it_was_written_and_other_bytes_are_none() {
        let reference = Reference { file: file_number(3, 9), use_number: 7, payload_bytes: 1 << 40 };
        let bytes = reference.to_bytes();
        assert_eq!(Reference::from_bytes(&bytes), Some(reference));
        assert_eq!(reference.pool_and_index(), [3, 9]);
        assert_eq!(Reference::from_bytes(&bytes[..31]), None);
        assert_eq!(Reference::from_bytes(&[0; BYTES]), None);
        // No pool, no bytes, a word that must be 0.
        for (at, value) in [(4, 0), (21, 0), (31, 1)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(Reference::from_bytes(&other), None, "byte {at}");
        }
    }
}
