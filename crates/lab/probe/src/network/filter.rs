//! One rule in front of the routing decision, by either of the kernel's two packet filters.

pub use super::rule::Verdict;
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

/// Sets the rule for UDP packets that come in over the interface `name` of the calling thread's network. Iptables: in place of the rules
/// that the table raw has; nftables: in a table of its own.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN; `EOPNOTSUPP` (nftables), `ENOPROTOOPT` or `ENOENT` (iptables) from a kernel without this filter.
pub fn set_rule(filter: Filter, name: &str, verdict: Verdict) -> Result<()> {
    match filter {
        Filter::Nftables => nftables::set_rule(name, verdict),
        Filter::Iptables => iptables::set_rule(name, verdict),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::namespace::{Network, private_net};
    use crate::network::counters::Ipv4Counters;
    use crate::network::link::{self, Interface};

    const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const PATIENCE: Duration = Duration::from_secs(20);
    const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

    /// Two sockets in two networks that are connected by a veth pair, with a rule in front of the second.
    fn pair(rule: Option<(Filter, Verdict)>) -> Result<([UdpSocket; 2], Network)> {
        private_net()?;
        let far = Network::new()?;
        let (near_mac, far_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        link::veth_pair(
            Interface { name: "near", mac: near_mac, namespace: None },
            Interface { name: "far", mac: far_mac, namespace: Some(far.as_fd()) },
        )?;
        link::add_address("near", NEAR, 24)?;
        link::bring_up("near")?;
        link::add_neighbour("near", FAR, far_mac)?;
        let bound =
            |ip| UdpSocket::bind((ip, 0)).map_err(|error| causeway_os::Error::new("bind", "a socket", error));
        let receiver = far.within(|| {
            link::add_address("far", FAR, 24)?;
            link::bring_up("far")?;
            if let Some((filter, verdict)) = rule {
                set_rule(filter, "far", verdict)?;
            }
            bound(FAR)
        })?;
        Ok(([bound(NEAR)?, receiver], far))
    }

    /// Does a packet arrive? Nothing where the kernel refuses the test.
    fn arrives(rule: Option<(Filter, Verdict)>) -> Option<bool> {
        let thread = std::thread::spawn(move || {
            let ([sender, receiver], far) = match pair(rule) {
                Ok(pair) => pair,
                Err(error) => {
                    let refused =
                        [libc::EPERM, libc::EOPNOTSUPP, libc::ENOPROTOOPT, libc::ENOENT, libc::ENOSYS];
                    let code = error.raw_os_error();
                    assert!(code.is_some_and(|code| refused.contains(&code)), "{rule:?}: {error}");
                    eprintln!("skipped: {error}");
                    return None;
                }
            };
            // An interface that was just brought up loses packets for a moment.
            let began = Instant::now();
            while far.within(Ipv4Counters::read).unwrap().received == 0 {
                assert!(began.elapsed() < PATIENCE, "{rule:?}: no packet came to the far interface");
                sender.send_to(b"packet", receiver.local_addr().unwrap()).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            let is_dropped = matches!(rule, Some((_, Verdict::Drop)));
            let patience = if is_dropped { Duration::from_millis(100) } else { PATIENCE };
            receiver.set_read_timeout(Some(patience)).unwrap();
            match receiver.recv(&mut [0; 16]) {
                Ok(6) => Some(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(false),
                other => panic!("{other:?}"),
            }
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_packet_arrives_unless_a_rule_drops_it() {
        assert_ne!(arrives(None), Some(false));
        for filter in [Filter::Nftables, Filter::Iptables] {
            assert_ne!(arrives(Some((filter, Verdict::Accept))), Some(false), "{filter:?}");
            assert_ne!(arrives(Some((filter, Verdict::Drop))), Some(true), "{filter:?}");
        }
    }
}
