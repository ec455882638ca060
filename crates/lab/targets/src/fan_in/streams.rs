//! Makes the streams, in the reader, and hands their other ends to the writers.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::time::Duration;

use causeway_os::socket;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::{PipeFlags, pipe_with};

use super::limits::explain;
use crate::mechanism::tcp::Nodelay;
use crate::prelude::*;
use crate::sys;

/// Connections to one listener, from one address: far fewer than there are ports for them.
const OF_ONE_LISTENER: usize = 4096;
/// A handshake over loopback is over before `connect` returns, unless something stands in its way.
const PATIENCE: Duration = Duration::from_secs(2);

/// Descriptors in one message; the kernel allows 253.
const FDS_PER_MESSAGE: usize = 200;

/// In the reader: makes all streams, sends the ends to write to the writers, each its part, and keeps the others.
pub(super) fn make(streams: usize, params: &CaseParams, writers: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    let nodelay = params.choice_if_declared() == Some(Nodelay::Yes);
    let mut connections = Connections { listener: None, nodelay };
    let mut unsent: Vec<Vec<OwnedFd>> = writers.iter().map(|_| Vec::new()).collect();
    let mut ends = Vec::with_capacity(streams);
    for index in 0..streams {
        let made = match params.id.mechanism.as_str() {
            "pipe" => pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from),
            "unix-stream" => socket::stream_pair().map_err(io::Error::from),
            _ => connections.next(index),
        };
        let (read, write) = made.map_err(|error| explain(error, index, streams))?;
        ends.push(read);
        let writer = index % writers.len();
        unsent[writer].push(write);
        if unsent[writer].len() == FDS_PER_MESSAGE {
            send(&writers[writer], &mut unsent[writer])?;
        }
    }
    for (socket, unsent) in writers.iter().zip(&mut unsent).filter(|(_, unsent)| !unsent.is_empty()) {
        send(socket, unsent)?;
    }
    Ok(ends)
}

fn send(socket: &OwnedFd, unsent: &mut Vec<OwnedFd>) -> io::Result<()> {
    let fds: Vec<_> = unsent.iter().map(AsFd::as_fd).collect();
    socket::send_with_fds(socket, &[0], &fds)?;
    unsent.clear();
    Ok(())
}

/// In a writer: its ends, in the order of streams.
pub(super) fn receive(socket: OwnedFd, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut ends = Vec::with_capacity(count);
    while ends.len() < count {
        let (len, more) = socket::recv_with_fds(&socket, &mut [0], FDS_PER_MESSAGE)?;
        if len == 0 {
            return Err(sys::end_of_stream("the reader ended before all streams were made"));
        }
        ends.extend(more);
    }
    Ok(ends)
}

/// TCP connections over loopback, with enough listeners and source addresses that ports do not run out.
struct Connections {
    listener: Option<(TcpListener, SocketAddr)>,
    nodelay: bool,
}

impl Connections {
    fn next(&mut self, index: usize) -> io::Result<(OwnedFd, OwnedFd)> {
        if index.is_multiple_of(OF_ONE_LISTENER) {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr()?;
            self.listener = Some((listener, address));
        }
        let (listener, address) = self.listener.as_ref().expect("made for the first stream");
        let read =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&read, Timeout::Send, Some(PATIENCE))?;
        bind_without_port(&read, source(index / OF_ONE_LISTENER))?;
        rustix::net::connect(&read, address)?;
        let (write, _) = listener.accept()?;
        let write = OwnedFd::from(write);
        for end in [&read, &write] {
            sockopt::set_tcp_nodelay(end, self.nodelay)?;
            // Closing resets the connection, so that none of thousands lingers in TIME_WAIT. Nothing is lost by that: the
            // reader has counted every byte before either end is closed.
            sockopt::set_socket_linger(end, Some(Duration::ZERO))?;
        }
        Ok((read, write))
    }
}

/// A loopback address of its own for each listener: 127.0.0.2, 127.0.0.3 …
fn source(listener: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + listener as u32)
}

/// Fixes the source address, and leaves the port to `connect`: so one port serves any number of destinations.
fn bind_without_port(socket: &OwnedFd, address: Ipv4Addr) -> io::Result<()> {
    sys::set_socket_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    Ok(rustix::net::bind(socket, &SocketAddrV4::new(address, 0))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_has_a_source_address_of_its_own_on_loopback() {
        let addresses: Vec<_> = (0..300).map(source).collect();
        assert!(addresses.iter().all(Ipv4Addr::is_loopback));
        assert!(addresses.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_connection_carries_bytes_from_its_writing_to_its_reading_end_and_leaves_no_time_wait() {
        let mut connections = Connections { listener: None, nodelay: true };
        let (read, write) = connections.next(0).unwrap();
        rustix::io::write(&write, b"seven b").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(rustix::io::read(&read, &mut buffer).unwrap(), 7);
        let port = SocketAddrV4::try_from(rustix::net::getsockname(&read).unwrap()).unwrap().port();
        drop((read, write));
        // Column 2 is the local address, column 4 the state; 06 is TIME_WAIT.
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let lingers = |line: &str| {
            let mut columns = line.split_whitespace().skip(1);
            columns.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
                && columns.nth(1) == Some("06")
        };
        assert!(!table.lines().any(lingers), "{table}");
    }
}
