//! Unix sockets of three types. Each is a [`Kind`] that says what its messages are like; everything else is the same for all
//! of them.

use std::marker::PhantomData;

use causeway_os::socket as os;

use super::copying::{Copying, Transport};
use super::fd::{self, ByteStream, Line, Records};
use super::{metadata, socket};
use crate::prelude::*;

pub(super) trait Kind: 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const IN_SUITES: InSuites = InSuites::AtSmallSizes(
        "its largest message depends on net.core.wmem_default; unix-stream is compared at every size",
    );
    const AXES: &'static [Axis] = &[socket::AXES[0], socket::AXES[1], metadata::Asked::AXIS];
    /// What a choice may demand of them.
    const PROPERTIES: Properties = properties::of_kernel(Across::SharedPath);
    /// Makes two connected sockets.
    const PAIR: fn() -> causeway_os::Result<(OwnedFd, OwnedFd)>;
    type Transport: Transport + 'static;

    /// Does a message of this case fit the buffers that it asks for?
    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_unix_message(host, params)
    }

    fn transport(line: Line) -> Self::Transport;
}

pub(super) struct Stream;

impl Kind for Stream {
    const ID: &'static str = "unix-stream";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_STREAM";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const IN_SUITES: InSuites = InSuites::AtEverySize;
    const AXES: &'static [Axis] = &[socket::AXES[0], socket::AXES[1], metadata::CREDS];
    const PAIR: fn() -> causeway_os::Result<(OwnedFd, OwnedFd)> = os::stream_pair;
    type Transport = ByteStream;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_buffers(host, params)
    }

    fn transport(line: Line) -> ByteStream {
        ByteStream { line, facts: metadata::facts, figures: None }
    }
}

/// `SOCK_SEQPACKET`: messages are kept apart, and a closed end is noticed.
pub(super) struct Seqpacket;

impl Kind for Seqpacket {
    const ID: &'static str = "unix-seqpacket";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_SEQPACKET: one call for each message";
    const PAIR: fn() -> causeway_os::Result<(OwnedFd, OwnedFd)> = os::seqpacket_pair;
    type Transport = Records;

    fn transport(line: Line) -> Records {
        Records { line, facts: metadata::facts }
    }
}

/// `SOCK_DGRAM`: messages are kept apart, reliable and in order.
pub(super) struct Dgram;

impl Kind for Dgram {
    const ID: &'static str = "unix-dgram";
    const ABOUT: &'static str = "a pair of Unix sockets, SOCK_DGRAM: one call for each message";
    // A receive hears nothing of a sender that is gone.
    const PROPERTIES: Properties =
        properties::of_kernel(Across::SharedPath).with(Property::SurvivesKill, false);
    const PAIR: fn() -> causeway_os::Result<(OwnedFd, OwnedFd)> = os::datagram_pair;
    type Transport = Records;

    fn transport(line: Line) -> Records {
        Records { line, facts: datagram_facts }
    }
}

/// Besides the buffers, how many datagrams may wait at a receiver that is not connected back. That does not limit a pair,
/// whose ends are connected to each other; there only the send buffer counts.
fn datagram_facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    let mut facts = metadata::facts(socket)?;
    let most = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap_or_default();
    facts.insert("max_dgram_qlen".into(), most.trim().into());
    Ok(facts)
}

pub(super) struct UnixSocket<K>(PhantomData<K>);

impl<K: Kind> Mechanism for UnixSocket<K> {
    const ID: &'static str = K::ID;
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = K::CAPS;
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = K::AXES;
    const IN_SUITES: InSuites = K::IN_SUITES;
    type End = Copying<K::Transport>;

    fn properties(_params: &CaseParams) -> Properties {
        K::PROPERTIES
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        metadata::fit(params)?;
        K::fit(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (near, far) = K::PAIR()?;
        socket::set_buffers(&near, params)?;
        socket::set_buffers(&far, params)?;
        [&near, &far].into_iter().try_for_each(|socket| metadata::ask(socket, params))?;
        Ok(fd::one_each((near, far)))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let line = Line::take_socket_asking(&mut resources, params)?;
        Copying::new(K::transport(line), params.payload_bytes)
    }
}
