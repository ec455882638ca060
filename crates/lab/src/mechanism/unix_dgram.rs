//! Unix sockets that carry datagrams, reliably and in order.

use std::io;
use std::os::fd::BorrowedFd;

use causeway_os::socket as os;

use super::copying::Copying;
use super::fd::{self, Records};
use super::socket;
use crate::axis::Axis;
use crate::contract::{Caps, EndResources, Facts, InSuites, Mechanism, Side, Unsupported};
use crate::host::Host;
use crate::params::{CaseParams, Wait};

/// `socketpair(2)` of Unix sockets.
#[derive(Debug)]
pub struct UnixDgram;

impl Mechanism for UnixDgram {
    const ID: &'static str = "unix-dgram";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_DGRAM: one call for each message";
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
        socket::create_unix(os::datagram_pair, params)
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        Copying::new(Records::new(resources.take_fd(), params, facts)?, params.payload_bytes)
    }
}

/// Besides the buffers, how many datagrams may wait at a receiver that is not connected back. It does not bind a pair,
/// whose ends are; there only the send buffer counts.
fn facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    let mut facts = socket::facts(socket)?;
    let most = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    facts.insert("max_dgram_qlen".into(), most.trim().into());
    Ok(facts)
}
