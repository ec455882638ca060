//! Packets through a veth pair, run in a guest: dropped, accepted or forwarded, without a rule and by one rule of either packet filter.
//!
//! Each test has a network of its own with two interfaces, `near` and `far`. The kernel's generator sends on `near`; what arrives at `far`
//! is processed before the next packet is made, by the same CPU. The time is the generator's.
//!
//! | path | where a packet ends |
//! |---|---|
//! | `veth` | at `far`, because it is for another address on the link: what the generator and the pair cost |
//! | `drop` | by the rule |
//! | `accept` | at a socket, whose filter discards it |
//! | `forward` | at the far end of a second pair, for the same reason as in `veth` |

use std::fmt::{self, Write};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use causeway_os::socket::discard_arrivals;
use weighbridge_probe::namespace::Network;
use weighbridge_probe::network::counters::Ipv4Counters;
use weighbridge_probe::network::filter::{Filter, Form, Verdict, set_rule};
use weighbridge_probe::network::link::{self, Interface};

use crate::pktgen::{Generator, Packets};

/// The first argument of this program that makes it run them; the second is the file for the results.
pub const ARGUMENT: &str = "__net-bench";
/// Modules without which there is no test.
pub const MODULES: [&str; 2] = ["veth", "pktgen"];
/// Modules of the packet filters, and what goes without those tests where a kernel lacks one.
pub const FILTER_MODULES: [(&str, &str); 2] =
    [("nf_tables", "tests with nftables"), ("iptable_raw", "tests with iptables")];
/// What some of these need without saying so: the checksum that libcrc32c asks for by its name, and what was not yet part of nf_tables before Linux 5.18.
pub const MODULES_IF_THERE: [&str; 2] = ["crc32c_generic", "nft_counter"];

/// The smallest frame of Ethernet without its checksum of 4 bytes.
pub const FRAME_BYTES: u32 = 60;
const PACKETS: u64 = 5_000;
/// A clock that counts instructions has no noise. The batch before these fills caches, and is not handed over.
const BATCHES: u32 = 4;
/// Packets of other origin that a network may see meanwhile, such as those of group memberships.
const STRAY: u64 = 100;

// Addresses for benchmarks (RFC 2544).
const FROM: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const ONWARD: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
const BEHIND: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
/// The port of the service "discard".
const PORT: u16 = 9;

const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ONWARD_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const LAST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
/// Of no interface.
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xff];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Veth,
    Drop,
    Accept,
    Forward,
}

/// Name, path, and the filter whose rule lets it through or not.
const TESTS: [(&str, Way, Option<Filter>); 9] = [
    ("veth", Way::Veth, None),
    ("accept", Way::Accept, None),
    ("forward", Way::Forward, None),
    ("nftables-drop", Way::Drop, Some(Filter::Nftables)),
    ("nftables-accept", Way::Accept, Some(Filter::Nftables)),
    ("nftables-forward", Way::Forward, Some(Filter::Nftables)),
    ("iptables-drop", Way::Drop, Some(Filter::Iptables)),
    ("iptables-accept", Way::Accept, Some(Filter::Iptables)),
    ("iptables-forward", Way::Forward, Some(Filter::Iptables)),
];

/// The packets that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a frame of Ethernet without its checksum of 4 bytes.
    pub frame_bytes: u32,
    /// How many flows take turns, each from a port of its own.
    pub flows: u16,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { frame_bytes: FRAME_BYTES, flows: 1 }
    }
}

/// As a test of the results names its settings, and as the guest is told them.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "size={} flows={}", self.frame_bytes, self.flows)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let number = |word: Option<&str>, name: &str| word?.strip_prefix(name)?.parse::<u32>().ok();
        let mut words = text.split(' ');
        let frame_bytes = number(words.next(), "size=");
        let flows = number(words.next(), "flows=").and_then(|flows| u16::try_from(flows).ok());
        let shape = frame_bytes.zip(flows).map(|(frame_bytes, flows)| Shape { frame_bytes, flows });
        shape.ok_or_else(|| format!("`{text}` says nothing of packets"))
    }
}

/// Runs the tests and writes their results in the form of the kernel module's.
///
/// # Errors
/// No test could be run, or the results cannot be written, as a sentence.
pub fn run(results: &Path, packets: Shape) -> Result<(), String> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut text = format!("weighbridge-bench 1\nkernel {release}\n");
    for (name, way, filter) in TESTS {
        match batches(packets, way, filter) {
            Ok(batches) => {
                let _ = writeln!(text, "test {name} {packets}");
                for ns in batches {
                    let _ = writeln!(text, "sample packet {PACKETS} {ns}");
                }
                text.push_str("end\n");
            }
            Err(why) => _ = writeln!(text, "failed {name} {packets}: {}", why.replace('\n', "; ")),
        }
    }
    fs::write(results, text).map_err(|error| format!("the results cannot be written: {error}"))
}

/// The nanoseconds of each batch.
fn batches(packets: Shape, way: Way, filter: Option<Filter>) -> Result<Vec<u64>, String> {
    let network = Network::new().map_err(|error| error.to_string())?;
    let measured =
        network.within(|| Ok(measured(packets, way, filter))).map_err(|error| error.to_string())?;
    drop(network);
    // The kernel takes a network down after its last user has left, and that would count for the next test. An idle guest's clock
    // moves on at once.
    std::thread::sleep(Duration::from_millis(500));
    measured
}

/// On a thread that is in a network of its own.
fn measured(packets: Shape, way: Way, filter: Option<Filter>) -> Result<Vec<u64>, String> {
    // What is open until the end: where accepted packets are discarded.
    let _socket = connected(way, filter).map_err(|error| error.to_string())?;
    let generator = Generator::new(&Packets {
        interface: "near",
        count: PACKETS,
        frame_bytes: packets.frame_bytes,
        flows: packets.flows,
        from: FROM,
        to: if way == Way::Forward { BEHIND } else { FAR },
        to_mac: if way == Way::Veth { OTHER_MAC } else { FAR_MAC },
        port: PORT,
    })?;
    generator.run()?;
    let counters = || Ipv4Counters::read().map_err(|error| error.to_string());
    let before = counters()?;
    let batches = (0..BATCHES).map(|_| generator.run()).collect::<Result<Vec<u64>, String>>()?;
    check(counters()?.since(before), way, PACKETS * u64::from(BATCHES))?;
    Ok(batches)
}

/// The interfaces, addresses and the rule of a path.
fn connected(way: Way, filter: Option<Filter>) -> causeway_os::Result<Option<UdpSocket>> {
    // Packets of version 6 would go through too, and be counted. A kernel without it has no such file.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let pair = |near: (&str, [u8; 6]), far: (&str, [u8; 6])| {
        let of = |(name, mac)| Interface { name, mac, namespace: None };
        link::veth_pair(of(near), of(far))?;
        link::bring_up(near.0)?;
        link::bring_up(far.0)
    };
    pair(("near", NEAR_MAC), ("far", FAR_MAC))?;
    link::add_address("far", FAR, 24)?;
    if let Some(filter) = filter {
        let verdict = if way == Way::Drop { Verdict::Drop } else { Verdict::Accept };
        set_rule(filter, Form::Interface, "far", verdict)?;
    }
    let failed = |op, on: &'static str| move |error| causeway_os::Error::new(op, on, error);
    match way {
        Way::Veth | Way::Drop => Ok(None),
        Way::Accept => {
            let socket = UdpSocket::bind((FAR, PORT)).map_err(failed("bind", "a socket"))?;
            discard_arrivals(&socket)?;
            Ok(Some(socket))
        }
        Way::Forward => {
            pair(("onward", ONWARD_MAC), ("last", LAST_MAC))?;
            link::add_address("onward", ONWARD, 24)?;
            link::add_neighbor("onward", BEHIND, OTHER_MAC)?;
            let file = "/proc/sys/net/ipv4/ip_forward";
            fs::write(file, "1").map_err(failed("switch on", "net.ipv4.ip_forward"))?;
            Ok(None)
        }
    }
}

/// Did the packets go where they must?
fn check(seen: Ipv4Counters, way: Way, packets: u64) -> Result<(), String> {
    let expected = match way {
        Way::Veth => [0, 0, 0],
        Way::Drop => [packets, 0, 0],
        Way::Accept => [packets, packets, 0],
        Way::Forward => [packets, 0, packets],
    };
    let Ipv4Counters { received, delivered, forwarded } = seen;
    let found = [received, delivered, forwarded];
    let is_right = |(found, expected): (u64, u64)| (expected..=expected + STRAY).contains(&found);
    if found.into_iter().zip(expected).all(is_right) {
        return Ok(());
    }
    Err(format!(
        "of {packets} packets IPv4 received {received}, delivered {delivered} and forwarded {forwarded}, which is not what \
         this path does"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_of_packets_as_results_name_them() {
        let shape = Shape { frame_bytes: 1510, flows: 8 };
        assert_eq!((shape.to_string().as_str(), shape.to_string().parse()), ("size=1510 flows=8", Ok(shape)));
        assert!("size=60".parse::<Shape>().is_err() && "size=60 flows=70000".parse::<Shape>().is_err());
    }

    #[test]
    fn packets_that_took_another_path_are_told() {
        let seen = Ipv4Counters { received: 1001, ..Ipv4Counters::default() };
        check(seen, Way::Drop, 1000).unwrap();
        let why = check(seen, Way::Accept, 1000).unwrap_err();
        assert!(why.contains("received 1001, delivered 0"), "{why}");
        assert!(check(seen, Way::Veth, 1000).is_err(), "too many to be strays");
    }

    #[test]
    fn each_filter_has_each_path_and_there_is_something_to_compare_it_with() {
        for filter in [Filter::Nftables, Filter::Iptables] {
            for way in [Way::Drop, Way::Accept, Way::Forward] {
                assert_eq!(TESTS.iter().filter(|test| (test.1, test.2) == (way, Some(filter))).count(), 1);
            }
        }
        assert!(TESTS.iter().any(|test| test.2.is_none() && test.1 == Way::Veth));
    }
}
