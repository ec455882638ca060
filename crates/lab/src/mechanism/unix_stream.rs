//! Unix sockets that carry a stream of bytes.

use std::io;

use causeway_os::socket as os;

use super::copying::Copying;
use super::fd::{self, ByteStream};
use super::socket;
use crate::axis::Axis;
use crate::contract::{Caps, EndResources, Mechanism, Side, Unsupported};
use crate::host::Host;
use crate::params::{CaseParams, Wait};

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

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_buffers(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        socket::create_unix(os::stream_pair, params)
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        Copying::new(ByteStream::of_socket(resources.take_fd(), params, socket::facts)?, params.payload_bytes)
    }
}
