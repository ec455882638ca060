//! UDP over the loopback interface: what finds no room at the receiver is lost.

use std::io;

use rustix::net::{SocketType, connect, getsockname};

use super::copying::Copying;
use super::fd::{self, Records};
use super::{socket, tcp};
use crate::axis::Axis;
use crate::contract::{Caps, Fit, Handoff, Mechanism, Side};
use crate::host::Host;
use crate::link::{Link, Wait};

/// Two sockets at 127.0.0.1, connected to each other.
#[derive(Debug)]
pub struct Udp;

/// An IPv4 packet of 65,535 bytes, less its header of 20 and that of UDP.
const MOST_BYTES: usize = 65_535 - 20 - 8;

impl Mechanism for Udp {
    const ID: &'static str = "udp";
    const ABOUT: &'static str =
        "UDP over loopback: one call for each message, and a stream loses what finds no room";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::LOSSY);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = socket::AXES;
    type End = Copying<Records>;

    fn fit(host: &Host, link: &Link) -> Fit {
        if link.payload_bytes > MOST_BYTES {
            return Fit::No(format!(
                "a message of {} bytes exceeds the {MOST_BYTES} that the 16-bit length of an IPv4 packet leaves to \
                 UDP; no setting raises that, use a smaller size",
                link.payload_bytes
            ));
        }
        socket::fits_buffers(host, link)
    }

    fn plan(_host: &Host, link: &Link) -> io::Result<[Handoff; 2]> {
        let near = tcp::local_socket(SocketType::DGRAM, link)?;
        let far = tcp::local_socket(SocketType::DGRAM, link)?;
        connect(&near, &getsockname(&far)?)?;
        connect(&far, &getsockname(&near)?)?;
        Ok([Handoff::of([near]), Handoff::of([far])])
    }

    fn attach(_side: Side, mut handoff: Handoff, link: &Link) -> io::Result<Self::End> {
        Copying::new(Records::new(handoff.take_fd(), link, socket::facts)?, link.payload_bytes)
    }
}
