//! What rules of both packet filters have in common.

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ends here.
    Drop,
    /// It goes on.
    Accept,
}

/// An interface's name as both filters compare it: with its zero, in 16 bytes.
pub(super) fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    // The last byte stays zero.
    bytes[..15].iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_compared_with_its_zero() {
        assert_eq!(&padded("far")[..4], b"far\0");
        assert_eq!(padded("a-name-that-is-too-long")[15], 0);
    }
}
