//! Unix sockets that keep messages apart and notice when the other end is closed.

use std::io;

use causeway_os::socket as os;

use super::copying::Copying;
use super::fd::{self, Records};
use super::socket;
use crate::axis::Axis;
use crate::contract::{Caps, Fit, Handoff, Mechanism, Side};
use crate::host::Host;
use crate::link::{Link, Wait};

/// `socketpair(2)` of Unix sockets.
#[derive(Debug)]
pub struct UnixSeqpacket;

impl Mechanism for UnixSeqpacket {
    const ID: &'static str = "unix-seqpacket";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_SEQPACKET: one call for each message";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = socket::AXES;
    type End = Copying<Records>;

    fn fit(host: &Host, link: &Link) -> Fit {
        socket::fits_unix_message(host, link)
    }

    fn plan(_host: &Host, link: &Link) -> io::Result<[Handoff; 2]> {
        socket::plan_unix(os::seqpacket_pair, link)
    }

    fn attach(_side: Side, mut handoff: Handoff, link: &Link) -> io::Result<Self::End> {
        Copying::new(Records::new(handoff.take_fd(), link, socket::facts)?, link.payload_bytes)
    }
}
