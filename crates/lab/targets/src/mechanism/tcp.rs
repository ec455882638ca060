//! TCP over the loopback interface.

use std::net::{Ipv4Addr, SocketAddrV4};

use rustix::net::sockopt::{set_tcp_nodelay, tcp_congestion, tcp_nodelay};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, accept_with, bind, connect, getpeername,
    getsockname, listen, socket_with,
};

use weighbridge_record::import::{TCP_CWND, TCP_RETRANSMITS};

use super::copying::Copying;
use super::fd::{self, ByteStream, Line};
use super::{socket, yes_no};
use crate::prelude::*;
use crate::sys;

pub(super) struct Tcp;

choice! {
    pub(crate) enum Nodelay { Yes = "yes", No = "no" }
    axis "nodelay", default Yes: "TCP_NODELAY: send small pieces at once instead of collecting them (Nagle's algorithm)"
}

impl Mechanism for Tcp {
    const ID: &'static str = "tcp";
    const ABOUT: &'static str = "a TCP connection over loopback, without Nagle's delay unless nodelay=no";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::BYTE_STREAM);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[Nodelay::AXIS, socket::AXES[0], socket::AXES[1]];
    type End = Copying<ByteStream>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::Network)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        socket::fits_buffers(host, params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let listener = local_socket(SocketType::STREAM, params)?;
        listen(&listener, 1)?;
        // The window scale is settled when a connection begins, so its ends have their buffers before.
        let near = local_socket(SocketType::STREAM, params)?;
        connect(&near, &getsockname(&listener)?)?;
        let far = accept_with(&listener, SocketFlags::CLOEXEC)?;
        if getpeername(&far)? != Some(getsockname(&near)?) {
            return Err(io::Error::other("somebody else connected to the port of this run"));
        }
        for socket in [&near, &far] {
            set_tcp_nodelay(socket, params.choice::<Nodelay>() == Nodelay::Yes)?;
        }
        Ok(fd::one_each((near, far)))
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        let line = Line::take_socket(&mut resources, params.wait)?;
        Copying::new(ByteStream { line, facts, figures: Some(figures) }, params.payload_bytes)
    }
}

/// A socket on a free port of 127.0.0.1, with the buffers that the case asks for.
pub(super) fn local_socket(kind: SocketType, params: &CaseParams) -> io::Result<OwnedFd> {
    let made = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?;
    socket::set_buffers(&made, params)?;
    bind(&made, &SocketAddrAny::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)))?;
    Ok(made)
}

fn facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    let mut facts = socket::facts(socket)?;
    facts.insert("nodelay".into(), yes_no(tcp_nodelay(socket)?));
    facts.insert("congestion_control".into(), tcp_congestion(socket)?);
    let mss_bytes = sys::socket_option(&socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)?;
    facts.insert("mss_bytes".into(), mss_bytes.to_string());
    Ok(facts)
}

/// Segments that this end has sent again, and how many bytes it may have on their way: `Retr` and `Cwnd` of iperf3.
fn figures(socket: BorrowedFd<'_>) -> io::Result<Figures> {
    let info = sys::tcp_info(&socket)?;
    let cwnd_bytes = u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss);
    Ok(Figures::from([
        (TCP_RETRANSMITS, f64::from(info.tcpi_total_retrans)),
        (TCP_CWND, cwnd_bytes as f64 / 1024.0),
    ]))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A window grows with what was acknowledged; the kernel begins with ten segments.
    #[test]
    fn the_window_of_a_connection_grows_as_it_sends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let before = figures(near.as_fd()).unwrap();
        assert_eq!(before[TCP_RETRANSMITS], 0.0);
        assert!(before[TCP_CWND] > 1.0, "{before:?}");
        let reading = std::thread::spawn(move || far.read_to_end(&mut Vec::new()).unwrap());
        near.write_all(&vec![1; 16 << 20]).unwrap();
        let after = figures(near.as_fd()).unwrap();
        assert!(after[TCP_CWND] > before[TCP_CWND], "{before:?}, {after:?}");
        drop(near);
        assert_eq!(reading.join().unwrap(), 16 << 20);
    }
}
