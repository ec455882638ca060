//! Interfaces and packet filters of the calling thread's network, set by the kernel's own messages: no `ip`, no `nft`, no `iptables`.
//!
//! For networks that a program makes itself ([`private_net`](crate::namespace::private_net)) and for a kernel in which this is the only program. Everything
//! here needs CAP_NET_ADMIN in the network, which a process has in a network that it made in a user namespace of its own.

pub mod counters;
pub mod filter;
mod iptables;
pub mod link;
mod netlink;
mod nftables;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ends here.
    Drop,
    /// It goes on.
    Accept,
}

/// Which packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Those of UDP that come in over an interface: `-i NAME -p udp`.
    Interface,
    /// Those to an address of 198.18.0.0/15, the networks for benchmarks (RFC 2544): `-d 198.18.0.0/15`.
    Destination,
}

/// The networks for benchmarks, and their mask.
pub(super) const BENCHMARKS: ([u8; 4], [u8; 4]) = ([198, 18, 0, 0], [255, 254, 0, 0]);

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
