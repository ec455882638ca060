//! Unix sockets that carry a stream of bytes.

use std::io;

use causeway_os::socket as os;

use super::copying::Copying;
use super::fd::{self, ByteStream};
use super::socket;
use crate::axis::Axis;
use crate::contract::{Caps, Fit, Handoff, Mechanism, Side};
use crate::host::Host;
use crate::link::{Link, Wait};

/// `socketpair(2)` of Unix sockets.
#[derive(Debug)]
pub struct UnixStream;

impl Mechanism for UnixStream {
    const ID: &'static str = "unix-stream";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_STREAM";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = socket::AXES;
    type End = Copying<ByteStream>;

    fn fit(host: &Host, link: &Link) -> Fit {
        socket::fits_buffers(host, link)
    }

    fn plan(_host: &Host, link: &Link) -> io::Result<[Handoff; 2]> {
        socket::plan_unix(os::stream_pair, link)
    }

    fn attach(_side: Side, mut handoff: Handoff, link: &Link) -> io::Result<Self::End> {
        Copying::new(ByteStream::of_socket(handoff.take_fd(), link, socket::facts)?, link.payload_bytes)
    }
}
