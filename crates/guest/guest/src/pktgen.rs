//! The kernel's packet generator, through its files (`Documentation/networking/pktgen.rst` of the kernel).

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// The files of the calling thread's network.
const FOLDER: &str = "/proc/thread-self/net/pktgen";

/// Packets of UDP that one CPU sends on one interface, one after the other, each allocated anew.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    pub interface: &'a str,
    pub count: u64,
    /// Bytes of a frame without its checksum, which is 4 bytes on a wire.
    pub frame_bytes: u32,
    /// Where they say that they come from.
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
    /// Where they go on the link.
    pub to_mac: [u8; 6],
    pub port: u16,
    /// How many ports they come from in turn, this one and those that follow.
    pub flows: u16,
}

#[derive(Debug)]
pub struct Generator {
    interface: PathBuf,
    count: u64,
}

impl Generator {
    /// Gives the first CPU's generator the interface and everything else.
    pub fn new(packets: &Packets<'_>) -> Result<Generator, String> {
        let folder = PathBuf::from(FOLDER);
        let thread = folder.join("kpktgend_0");
        if !thread.exists() {
            return Err(format!("there is no {}: the module pktgen is not loaded", thread.display()));
        }
        set(&thread, "rem_device_all")?;
        set(&thread, &format!("add_device {}", packets.interface))?;
        let interface = folder.join(packets.interface);
        let mac = packets.to_mac.map(|byte| format!("{byte:02x}")).join(":");
        for setting in [
            format!("count {}", packets.count),
            format!("pkt_size {}", packets.frame_bytes),
            "delay 0".into(),
            format!("src_min {}", packets.from),
            format!("dst {}", packets.to),
            format!("dst_mac {mac}"),
            format!("udp_src_min {}", packets.port),
            format!("udp_src_max {}", packets.port.saturating_add(packets.flows.saturating_sub(1))),
            format!("udp_dst_min {}", packets.port),
            format!("udp_dst_max {}", packets.port),
        ] {
            set(&interface, &setting)?;
        }
        Ok(Generator { interface, count: packets.count })
    }

    /// Sends the packets. The nanoseconds of all of them, in whole microseconds.
    pub fn run(&self) -> Result<u64, String> {
        set(&PathBuf::from(FOLDER).join("pgctrl"), "start")?;
        let said = fs::read_to_string(&self.interface)
            .map_err(|error| format!("the packet generator cannot be read: {error}"))?;
        let (sent, ns) = result(&said)
            .ok_or_else(|| format!("the packet generator said nothing of its time: `{}`", said.trim()))?;
        if sent != self.count {
            return Err(format!("the packet generator sent {sent} packets instead of {}", self.count));
        }
        Ok(ns)
    }
}

fn set(file: &PathBuf, setting: &str) -> Result<(), String> {
    // Its control file takes the last character for the end of a line, whatever it is.
    fs::write(file, format!("{setting}\n"))
        .map_err(|error| format!("the packet generator refuses `{setting}`: {error}"))
}

/// Packets and nanoseconds of `Result: OK: 75320(c75310+d10) usec, 20000 (60byte,0frags)`: `c` is the time in which it was not idle.
fn result(said: &str) -> Option<(u64, u64)> {
    let (_, result) = said.split_once("Result: OK:")?;
    let (busy, rest) = result.split_once("(c")?.1.split_once('+')?;
    let sent = rest.split_once("usec,")?.1.split_whitespace().next()?.parse().ok()?;
    Some((sent, busy.parse::<u64>().ok()?.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_time_are_found_in_what_the_generator_says() {
        let said = "Params: count 20000  min_pkt_size: 60\n     flows: 0\nResult: OK: 75320(c75310+d10) usec, 20000 (60byte,0frags)\n  \
                    265533pps 127Mb/sec\n";
        assert_eq!(result(said), Some((20_000, 75_310_000)));
        assert_eq!(result("Result: Idle\n"), None);
        assert_eq!(result("Result: OK: x(cx+d1) usec, 1 (60byte)"), None);
    }
}
