//! What a network has counted.

use causeway_os::{Context, Error, Result};

/// Packets that IPv4 has seen in a network since it was made (RFC 1213; `/proc/net/snmp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Counters {
    /// Received, whatever became of them.
    pub received: u64,
    /// Of those, delivered to this host.
    pub delivered: u64,
    /// Of those, sent on to another one.
    pub forwarded: u64,
}

impl Ipv4Counters {
    /// Those of the calling thread's network.
    pub fn read() -> Result<Ipv4Counters> {
        let on = || "the counters of IPv4 in /proc/thread-self/net/snmp";
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").context("read", on)?;
        Ipv4Counters::of(&text)
            .ok_or_else(|| Error::new("find", on(), std::io::Error::from(std::io::ErrorKind::InvalidData)))
    }

    fn of(text: &str) -> Option<Ipv4Counters> {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let of = |name: &str| {
            let at = names.split_whitespace().position(|known| known == name)?;
            values.split_whitespace().nth(at)?.parse().ok()
        };
        Some(Ipv4Counters {
            received: of("InReceives")?,
            delivered: of("InDelivers")?,
            forwarded: of("ForwDatagrams")?,
        })
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Ipv4Counters) -> Ipv4Counters {
        Ipv4Counters {
            received: self.received - before.received,
            delivered: self.delivered - before.delivered,
            forwarded: self.forwarded - before.forwarded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Ip: Forwarding InReceives ForwDatagrams InDelivers\nIp: 1 30 12 18\nIcmp: x\nIcmp: 1\n";
        let found = Ipv4Counters::of(text).unwrap();
        assert_eq!(found, Ipv4Counters { received: 30, delivered: 18, forwarded: 12 });
        assert_eq!(found.since(found), Ipv4Counters::default());
        assert_eq!(Ipv4Counters::of("Tcp: 1\nTcp: 2\n"), None);
    }
}
