//! UDP packets through a veth pair, to a rule that drops them, to a socket, or over a second pair: what the kernel does with a packet in a second.
//!
//! Each role has two networks of its own, which the pair connects, and is the sender. The kernel processes a packet at the far end
//! before the call returns, on the sender's CPU, so the sender's rate is that of the drop or of the accept, and no receiver
//! competes for the CPU: a socket to which packets are delivered discards them by a filter. Afterwards the far network's own
//! counters must have as many packets as were sent. Networks, interfaces and rules end with the process.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use causeway_os::socket::discard_arrivals;
use weighbridge_probe::namespace::{self, Network};
use weighbridge_probe::network::counters::Ipv4Counters;
use weighbridge_probe::network::filter::{Filter, Form, Verdict, set_rule};
use weighbridge_probe::network::link::{self, Interface};

use super::{Op, OpContext};
use crate::prelude::*;
use crate::sys;

/// The filter whose rule a packet meets.
const RULE: Axis = Axis {
    name: "rule",
    default: "nftables",
    values: Values::OneOf(&["nftables", "iptables"]),
    about: "the packet filter whose rule drops at PREROUTING, with priority raw",
};
const ACCEPTING_RULE: Axis = Axis {
    default: "none",
    values: Values::OneOf(&["none", "nftables", "iptables"]),
    about: "the packet filter whose rule accepts at PREROUTING, with priority raw",
    ..RULE
};

/// Which packets the rule is for.
const FORM: Axis = Axis {
    name: "rule-for",
    default: "interface",
    values: Values::OneOf(&["interface", "destination"]),
    about: "the packets of the rule: UDP that comes in over the interface, or what goes to 198.18.0.0/15",
};

/// A packet of Ethernet without fragments carries 1500 bytes: 20 of IPv4, 8 of UDP, the payload.
const MOST_BYTES: usize = 1500 - 20 - 8;
// Addresses for benchmarks (RFC 2544), seen by no other network.
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The router's second address, and one behind it.
const ONWARD: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
const BEHIND: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
/// The port of the service "discard".
const PORT: u16 = 9;
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ONWARD_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const LAST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
/// Of no interface: at the far end of the second pair a packet is for somebody else, and ends.
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xff];
/// Of a thousand packets the kernel may lose one before the rule, when its backlog is full.
const LOST_SHARE: f64 = 0.001;
/// How long to wait for the first packet, and for the last ones while the kernel works off its backlog.
const DEADLINE: Duration = Duration::from_secs(5);
const PROBE: &[u8] = b"probe";

/// Where packets end.
pub(super) const DROP: u8 = 0;
pub(super) const ACCEPT: u8 = 1;
pub(super) const FORWARD: u8 = 2;

/// Both networks, and the sender. Packets end at a rule ([`DROP`]), at a socket ([`ACCEPT`]), or behind the far network ([`FORWARD`]).
pub(super) struct Veth<const END: u8> {
    sender: UdpSocket,
    message: Vec<u8>,
    sent: u64,
    far: Network,
    /// Where accepted packets arrive. A dropped one that arrives is a failure.
    receiver: UdpSocket,
    seen_before: Ipv4Counters,
}

impl<const END: u8> Veth<END> {
    const VERDICT: Verdict = if END == DROP { Verdict::Drop } else { Verdict::Accept };
}

impl<const END: u8> Op for Veth<END> {
    const ID: &'static str = match END {
        DROP => "veth-drop",
        ACCEPT => "veth-accept",
        _ => "veth-forward",
    };
    const ABOUT: &'static str = match END {
        DROP => "a UDP packet sent through a veth pair to a rule that drops it, in networks of our own",
        ACCEPT => {
            "a UDP packet sent through a veth pair to a socket that discards it, in networks of our own"
        }
        _ => {
            "a UDP packet sent through a veth pair to a router, which forwards it over a second pair, in networks of our own"
        }
    };
    const CAPS: Caps = Caps::PAYLOAD;
    const AXES: &'static [Axis] = if END == DROP { &[RULE, FORM] } else { &[ACCEPTING_RULE, FORM] };
    const UNIT: Unit = Unit::PerSecond("packets");

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if params.payload_bytes > MOST_BYTES {
            return Err(Unsupported(format!(
                "{} bytes exceed the {MOST_BYTES} that a packet of Ethernet carries in UDP; use a smaller size",
                params.payload_bytes
            )));
        }
        if END == FORWARD && is_read_only(FORWARDING) {
            return Err(Unsupported(format!(
                "{FORWARDING} is on a file system that is mounted read-only, as in many containers, so that no network here can forward; run it \
                 outside of the container"
            )));
        }
        static MAY: OnceLock<Result<(), String>> = OnceLock::new();
        let may = MAY.get_or_init(|| namespace::may_make_networks().map_err(|error| error.to_string()));
        may.clone().map_err(|why| {
            Unsupported(format!(
                "it needs networks of its own: {why}; run it as root, or allow user namespaces (sysctl \
                 user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns)"
            ))
        })
    }

    fn setup(context: &OpContext<'_>) -> io::Result<Self> {
        let filter = match context.params.axis(RULE.name) {
            "nftables" => Some(Filter::Nftables),
            "iptables" => Some(Filter::Iptables),
            _ => None,
        };
        let form = match context.params.axis(FORM.name) {
            "destination" => Form::Destination,
            _ => Form::Interface,
        };
        let (near, far) = networks()?;
        near.within(|| {
            let of = |name, mac, namespace| Interface { name, mac, namespace };
            link::veth_pair(of("near", NEAR_MAC, None), of("far", FAR_MAC, Some(far.as_fd())))?;
            // Of a router's two networks: what is behind it is reached as if it were on the link.
            link::add_address("near", NEAR, if END == FORWARD { 15 } else { 24 })?;
            link::bring_up("near")?;
            link::add_neighbor("near", if END == FORWARD { BEHIND } else { FAR }, FAR_MAC)
        })?;
        let receiver = far.within(|| {
            link::add_address("far", FAR, 24)?;
            link::bring_up("far")?;
            if let Some(filter) = filter {
                set_rule(filter, form, "far", Self::VERDICT)?;
            }
            if END == FORWARD {
                let of = |name, mac| Interface { name, mac, namespace: None };
                link::veth_pair(of("onward", ONWARD_MAC), of("last", LAST_MAC))?;
                link::bring_up("onward")?;
                link::bring_up("last")?;
                link::add_address("onward", ONWARD, 24)?;
                link::add_neighbor("onward", BEHIND, OTHER_MAC)?;
                std::fs::write(FORWARDING, "1")
                    .map_err(|error| causeway_os::Error::new("switch on", FORWARDING, error))?;
            }
            bound(FAR)
        })?;
        let sender = near.within(|| bound(NEAR))?;
        let to = if END == FORWARD { (BEHIND, PORT).into() } else { receiver.local_addr()? };
        sender.connect(to)?;
        reach::<END>(&sender, &receiver, &far)?;
        let seen_before = seen(&far)?;
        let message = vec![7; context.params.payload_bytes];
        Ok(Veth { sender, message, sent: 0, far, receiver, seen_before })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        self.sent += 1;
        sys::send(&self.sender, &self.message).map(|count| count as u64)
    }

    fn each(&self) -> u64 {
        self.message.len() as u64
    }

    fn op_bytes(params: &CaseParams) -> u64 {
        params.payload_bytes as u64
    }

    fn finish(&mut self) -> io::Result<Facts> {
        let began = Instant::now();
        let arrived = loop {
            let arrived = at_the_end(seen(&self.far)?.since(self.seen_before), END)?;
            if arrived >= self.sent || began.elapsed() > DEADLINE {
                break arrived;
            }
            thread::sleep(Duration::from_millis(1));
        };
        self.receiver.set_nonblocking(true)?;
        if self.receiver.recv(&mut [0; 1]).is_ok() {
            return Err(io::Error::other("a packet arrived that must have been dropped or discarded"));
        }
        let lost = self.sent.saturating_sub(arrived);
        if lost as f64 > self.sent as f64 * LOST_SHARE {
            return Err(io::Error::other(format!(
                "of {} packets {lost} did not come as far as they must: the kernel had no room for them \
                 (net.core.netdev_max_backlog), so that the rate is not that of the path",
                self.sent
            )));
        }
        Ok(Facts::from([
            ("packets_sent".into(), self.sent.to_string()),
            ("packets_lost_before_the_rule".into(), lost.to_string()),
        ]))
    }
}

/// The switch of the calling thread's network.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// What cannot be looked at is found out later.
fn is_read_only(path: &str) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|of| of.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Two networks. Who may not make any tries it as root of a user namespace, which becomes that of the whole process.
fn networks() -> io::Result<(Network, Network)> {
    let both = || Ok((Network::new()?, Network::new()?));
    let refused = |error: &causeway_os::Error| error.raw_os_error() == Some(libc::EPERM);
    match both() {
        Err(error) if refused(&error) => {
            namespace::private_user().map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => io::Error::other(
                    "roles that are threads of one process (peers=thread) can make networks as root only",
                ),
                _ => error.into(),
            })?;
            Ok(both()?)
        }
        both => Ok(both?),
    }
}

fn bound(ip: Ipv4Addr) -> causeway_os::Result<UdpSocket> {
    UdpSocket::bind((ip, 0)).map_err(|error| causeway_os::Error::new("bind", "a UDP socket", error))
}

/// Sends packets until one has come to the end of the path, and one that arrives at the socket is looked at; from then on the socket
/// discards. The kernel connects interfaces a moment after they were brought up, and loses packets until then.
fn reach<const END: u8>(sender: &UdpSocket, receiver: &UdpSocket, far: &Network) -> io::Result<()> {
    let began = Instant::now();
    while at_the_end(seen(far)?, END)? == 0 {
        if began.elapsed() > DEADLINE {
            return Err(io::Error::other("no packet came through the veth pair within 5 s"));
        }
        sender.send(PROBE)?;
        thread::sleep(Duration::from_millis(1));
    }
    if END != ACCEPT {
        return Ok(());
    }
    let mut buffer = [0; 16];
    receiver.set_read_timeout(Some(DEADLINE))?;
    let length = receiver.recv(&mut buffer)?;
    if buffer[..length] != *PROBE {
        return Err(io::Error::other("another packet arrived than was sent"));
    }
    discard_arrivals(receiver)?;
    // Others that came before that.
    receiver.set_nonblocking(true)?;
    while receiver.recv(&mut buffer).is_ok() {}
    Ok(())
}

fn seen(network: &Network) -> io::Result<Ipv4Counters> {
    Ok(network.within(Ipv4Counters::read)?)
}

/// How many packets came to the end of their path.
fn at_the_end(seen: Ipv4Counters, end: u8) -> io::Result<u64> {
    match end {
        ACCEPT => Ok(seen.delivered),
        FORWARD => Ok(seen.forwarded),
        _ if seen.delivered == 0 => Ok(seen.received),
        _ => {
            Err(io::Error::other(format!("a rule that drops everything let {} packets pass", seen.delivered)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_pass_a_rule_which_drops_are_told() {
        let seen = Ipv4Counters { received: 10, ..Ipv4Counters::default() };
        assert_eq!(at_the_end(seen, DROP).unwrap(), 10);
        assert_eq!(at_the_end(seen, ACCEPT).unwrap(), 0);
        let passed = Ipv4Counters { delivered: 1, ..seen };
        // What a router receives it must also have sent on.
        assert_eq!(at_the_end(Ipv4Counters { forwarded: 7, ..seen }, FORWARD).unwrap(), 7);
        assert!(at_the_end(passed, DROP).unwrap_err().to_string().contains("let 1 packets pass"));
    }
}
