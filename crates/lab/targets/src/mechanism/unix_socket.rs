//! Unix sockets of three types. Each is a [`Kind`] that says what its messages are like; everything else is the same for all
//! of them.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

use causeway_os::socket as os;

use super::copying::{Copying, Transport};
use super::fd::{self, ByteStream, Records};
use super::socket;
use weighbridge_harness::axis::Axis;
use weighbridge_harness::contract::{Caps, EndResources, Facts, InSuites, Mechanism, Side, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};

/// A type of Unix sockets.
pub trait Kind: 'static {
    /// Name of the mechanism.
    const ID: &'static str;
    /// What it is, in one sentence, as `weighbridge list` prints it.
    const ABOUT: &'static str;
    /// What such sockets can do.
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    /// Its part in the suites that compare every mechanism.
    const IN_SUITES: InSuites = InSuites::AtEverySize;
    /// How messages are sent and received.
    type Transport: Transport + 'static;

    /// Does a message of this case fit the buffers that it asks for?
    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_unix_message(host, params)
    }

    /// Two connected sockets.
    ///
    /// # Errors
    /// The error of the system call that failed.
    fn pair() -> causeway_os::Result<(OwnedFd, OwnedFd)>;

    /// In a peer: how its end sends and receives.
    ///
    /// # Errors
    /// The error of the system call that failed.
    fn transport(socket: OwnedFd, params: &CaseParams) -> io::Result<Self::Transport>;
}

/// `SOCK_STREAM`: a stream of bytes.
pub struct Stream;

impl Kind for Stream {
    const ID: &'static str = "unix-stream";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_STREAM";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    type Transport = ByteStream;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_buffers(host, params)
    }

    fn pair() -> causeway_os::Result<(OwnedFd, OwnedFd)> {
        os::stream_pair()
    }

    fn transport(socket: OwnedFd, params: &CaseParams) -> io::Result<ByteStream> {
        ByteStream::of_socket(socket, params, socket::facts)
    }
}

/// `SOCK_SEQPACKET`: messages are kept apart, and a closed end is noticed.
pub struct Seqpacket;

impl Kind for Seqpacket {
    const ID: &'static str = "unix-seqpacket";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_SEQPACKET: one call for each message";
    const IN_SUITES: InSuites = InSuites::AtSmallSizes(
        "its largest message depends on net.core.wmem_default; unix-stream is compared at every size",
    );
    type Transport = Records;

    fn pair() -> causeway_os::Result<(OwnedFd, OwnedFd)> {
        os::seqpacket_pair()
    }

    fn transport(socket: OwnedFd, params: &CaseParams) -> io::Result<Records> {
        Records::new(socket, params, socket::facts)
    }
}

/// `SOCK_DGRAM`: messages are kept apart, reliable and in order.
pub struct Dgram;

impl Kind for Dgram {
    const ID: &'static str = "unix-dgram";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_DGRAM: one call for each message";
    const IN_SUITES: InSuites = InSuites::AtSmallSizes(
        "its largest message depends on net.core.wmem_default; unix-stream is compared at every size",
    );
    type Transport = Records;

    fn pair() -> causeway_os::Result<(OwnedFd, OwnedFd)> {
        os::datagram_pair()
    }

    fn transport(socket: OwnedFd, params: &CaseParams) -> io::Result<Records> {
        Records::new(socket, params, datagram_facts)
    }
}

/// Besides the buffers, how many datagrams may wait at a receiver that is not connected back. That does not limit a pair,
/// whose ends are connected to each other; there only the send buffer counts.
fn datagram_facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    let mut facts = socket::facts(socket)?;
    let most = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    facts.insert("max_dgram_qlen".into(), most.trim().into());
    Ok(facts)
}

/// `socketpair(2)` of Unix sockets.
pub struct UnixSocket<K>(PhantomData<K>);

impl<K: Kind> Mechanism for UnixSocket<K> {
    const ID: &'static str = K::ID;
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = K::CAPS;
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = socket::AXES;
    const IN_SUITES: InSuites = K::IN_SUITES;
    type End = Copying<K::Transport>;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        K::fit(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (near, far) = K::pair()?;
        socket::set_buffers(&near, params)?;
        socket::set_buffers(&far, params)?;
        Ok([EndResources::of([near]), EndResources::of([far])])
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        Copying::new(K::transport(resources.take_fd(), params)?, params.payload_bytes)
    }
}
