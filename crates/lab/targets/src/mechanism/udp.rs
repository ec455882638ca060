//! UDP over the loopback interface: what finds no room at the receiver is lost.

use rustix::net::{SocketType, connect, getsockname};

use super::copying::Copying;
use super::fd::{self, Line, Records};
use super::{metadata, socket, tcp};
use crate::prelude::*;

pub(super) struct Udp;

/// An IPv4 packet of 65,535 bytes, less its header of 20 and that of UDP.
const MOST_BYTES: usize = 65_535 - 20 - 8;

impl Mechanism for Udp {
    const ID: &'static str = "udp";
    const ABOUT: &'static str =
        "UDP over loopback: one call for each message, and a stream loses what finds no room";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::LOSSY);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[socket::AXES[0], socket::AXES[1], metadata::TIME];
    const IN_SUITES: InSuites = InSuites::AtSmallSizes("a datagram holds less than 64 KiB");
    type End = Copying<Records>;

    fn properties(_params: &CaseParams) -> Properties {
        // A receive hears nothing of a dead sender, and only the next send of a dead receiver.
        properties::of_kernel(Across::Network).with(Property::SurvivesKill, false)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if params.payload_bytes > MOST_BYTES {
            return Err(Unsupported(format!(
                "a message of {} bytes exceeds the {MOST_BYTES} that the 16-bit length of an IPv4 packet leaves to \
                 UDP; no setting raises that, use a smaller size",
                params.payload_bytes
            )));
        }
        metadata::fit(params)?;
        socket::fits_buffers(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let near = tcp::local_socket(SocketType::DGRAM, params)?;
        let far = tcp::local_socket(SocketType::DGRAM, params)?;
        connect(&near, &getsockname(&far)?)?;
        connect(&far, &getsockname(&near)?)?;
        [&near, &far].into_iter().try_for_each(|socket| metadata::ask(socket, params))?;
        Ok(fd::one_each((near, far)))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let line = Line::take_socket_asking(&mut resources, params)?;
        Copying::new(Records { line, facts: metadata::facts }, params.payload_bytes)
    }
}
