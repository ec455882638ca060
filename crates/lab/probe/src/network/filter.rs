//! One rule in front of the routing decision, by either of the kernel's two packet filters.

pub use super::{Form, Verdict};
use super::{iptables, nftables};
use causeway_os::Result;

/// A packet filter of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// `nft add rule ip t prerouting iifname NAME meta l4proto udp counter VERDICT`, in a chain of priority raw (-300).
    Nftables,
    /// `iptables -t raw -A PREROUTING -i NAME -p udp -j VERDICT`; its rules always count.
    Iptables,
}

/// Sets the rule, of [`Form::Interface`] for UDP packets that come in over the interface `name` of the calling thread's network. Iptables: in place of the rules
/// that the table raw has; nftables: in a table of its own.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN; `EOPNOTSUPP` (nftables), `ENOPROTOOPT` or `ENOENT` (iptables) from a kernel without this filter.
pub fn set_rule(filter: Filter, form: Form, name: &str, verdict: Verdict) -> Result<()> {
    match filter {
        Filter::Nftables => nftables::set_rule(form, name, verdict),
        Filter::Iptables => iptables::set_rule(form, name, verdict),
    }
}
