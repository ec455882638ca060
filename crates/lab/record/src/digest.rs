//! SHA-256 in the form in which records and plans name things.

use sha2::{Digest, Sha256};

/// SHA-256 as hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// So many digits tell a name from all others of a fleet: 64 bits.
const SHORT: usize = 16;

/// The beginning of a hash, as a name.
pub fn short(bytes: &[u8]) -> String {
    let mut name = sha256(bytes);
    name.truncate(SHORT);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4, examples.
    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(short(b"abc"), "ba7816bf8f01cfea");
    }
}
