//! Unix sockets that keep messages apart and notice when the other end is closed.

use std::io;

use causeway_os::socket as os;

use super::copying::Copying;
use super::fd::{self, Records};
use super::socket;
use crate::axis::Axis;
use crate::contract::{Caps, EndResources, InSuites, Mechanism, Side, Unsupported};
use crate::host::Host;
use crate::params::{CaseParams, Wait};

/// `socketpair(2)` of Unix sockets.
#[derive(Debug)]
pub struct UnixSeqpacket;

impl Mechanism for UnixSeqpacket {
    const ID: &'static str = "unix-seqpacket";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_SEQPACKET: one call for each message";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = socket::AXES;
    const IN_SUITES: InSuites = InSuites::AtSmallSizes(
        "its largest message depends on net.core.wmem_default; unix-stream is compared at every size",
    );
    type End = Copying<Records>;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_unix_message(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        socket::create_unix(os::seqpacket_pair, params)
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        Copying::new(Records::new(resources.take_fd(), params, socket::facts)?, params.payload_bytes)
    }
}
