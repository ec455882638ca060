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
mod rule;
