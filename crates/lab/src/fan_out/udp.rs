//! UDP multicast on the loopback interface.
//!
//! # Safety
//! The calls take a pointer and a length from one slice that lives across the call.
#![allow(unsafe_code)]

use std::io;
use std::marker;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use causeway_os::{namespace, socket};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, netdevice};

use super::cast::{Cast, Receive, Send};
use crate::buffer::Buffer;
use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::host::Host;
use crate::link::Link;

/// A group on loopback.
#[derive(Debug)]
pub(super) struct UdpMulticast;

/// The largest datagram: 2¹⁶ − 1 less the headers of IP and UDP.
const MOST_BYTES: usize = 65_507;
/// How long a receiver sleeps before it asks whether the message it waits for is given up for lost.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

impl Cast for UdpMulticast {
    const ID: &'static str = "udp-multicast";
    const ABOUT: &'static str = "one datagram to a multicast group on the loopback interface, a private one where the machine's takes none";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::LOSSY);
    type Sender = Sender;
    type Receiver = Receiver;

    fn fit(_host: &Host, link: &Link) -> Fit {
        if link.payload_bytes > MOST_BYTES {
            return Fit::No(format!(
                "{} bytes exceed the largest UDP datagram of {MOST_BYTES} bytes",
                link.payload_bytes
            ));
        }
        match loopback() {
            Ok(_) => Fit::Yes,
            Err(why) => Fit::No(why.clone()),
        }
    }

    fn plan(_link: &Link, receivers: usize) -> io::Result<Vec<Handoff>> {
        let loopback = loopback().as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let (sender, all) = loopback.make(|| group(receivers))?;
        Ok([sender].into_iter().chain(all).map(|socket| Handoff::of([socket])).collect())
    }

    fn sender(mut handoff: Handoff, link: &Link) -> io::Result<Sender> {
        let mut message = Buffer::new(link.payload_bytes)?;
        message.prefault()?;
        Ok(Sender { socket: handoff.take_fd(), message, len: link.payload_bytes })
    }

    fn receiver(mut handoff: Handoff, link: &Link) -> io::Result<Receiver> {
        Receiver::new(handoff.take_fd(), link)
    }
}

/// Which loopback interface takes multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loopback {
    /// The machine's.
    Shared,
    /// That of a network which has nothing else and ends with its sockets.
    Private,
}

impl Loopback {
    /// Makes sockets on it.
    fn make<T: marker::Send>(self, make: impl FnOnce() -> io::Result<T> + marker::Send) -> io::Result<T> {
        match self {
            Loopback::Shared => make(),
            // A thread of its own: there is no way back for it.
            Loopback::Private => thread::scope(|scope| {
                let made =
                    scope.spawn(|| namespace::private_net().map_err(io::Error::from).and_then(|()| make()));
                made.join()
                    .unwrap_or_else(|_| Err(io::Error::other("the thread that makes sockets panicked")))
            }),
        }
    }
}

/// The first that works, or why none does and what helps.
fn loopback() -> &'static Result<Loopback, String> {
    static FOUND: OnceLock<Result<Loopback, String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let works = |loopback: Loopback| loopback.make(try_it).map(|()| loopback);
        works(Loopback::Shared).or_else(|shared| {
            works(Loopback::Private).map_err(|private| {
                format!(
                    "multicast does not work on the loopback interface: {shared}; allow it with `ip link set lo up \
                     multicast on` and `ip route add 239.0.0.0/8 dev lo` as root (nor in a network of our own: {private})"
                )
            })
        })
    })
}

/// A socket connected to a new group on loopback, and so many members of it. The first member's port is free, the others
/// share it.
fn group(members: usize) -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
    let [low, high, ..] = std::process::id().to_le_bytes();
    let group = Ipv4Addr::new(239, 255, high, low);
    let new = || rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let mut address = SocketAddrV4::new(group, 0);
    let mut sockets = Vec::with_capacity(members);
    let sender = new()?;
    let loopback = netdevice::name_to_index(&sender, "lo")?;
    for _ in 0..members {
        let socket = new()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address)?;
        address = SocketAddrV4::try_from(getsockname(&socket)?).map_err(io::Error::from)?;
        sockopt::set_ip_add_membership_with_ifindex(&socket, &group, &Ipv4Addr::LOCALHOST, loopback)?;
        sockets.push(socket);
    }
    sockopt::set_ip_multicast_if_with_ifindex(&sender, &group, &Ipv4Addr::LOCALHOST, loopback)?;
    sockopt::set_ip_multicast_loop(&sender, true)?;
    // Not beyond this machine, whatever its routes say.
    sockopt::set_ip_multicast_ttl(&sender, 0)?;
    connect(&sender, &address)?;
    Ok((sender, sockets))
}

/// Does a datagram reach two members?
fn try_it() -> io::Result<()> {
    let (sender, members) = group(2)?;
    rustix::io::write(&sender, b"hello")?;
    for member in members {
        sockopt::set_socket_timeout(&member, Timeout::Recv, Some(Duration::from_millis(200)))?;
        let mut buffer = [0; 8];
        match rustix::io::read(&member, &mut buffer) {
            Ok(5) if buffer.starts_with(b"hello") => {}
            Ok(_) => return Err(io::Error::other("another datagram came than was sent")),
            Err(rustix::io::Errno::AGAIN) => return Err(io::Error::other("a datagram did not come")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A socket connected to the group, and one message.
#[derive(Debug)]
pub(super) struct Sender {
    socket: OwnedFd,
    message: Buffer,
    len: usize,
}

impl Send for Sender {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.message.bytes_mut()[..self.len]
    }

    #[inline]
    fn emit(&mut self) -> io::Result<()> {
        let message = &self.message.bytes()[..self.len];
        rustix::io::retry_on_intr(|| rustix::io::write(&self.socket, message))?;
        Ok(())
    }

    fn facts(&self) -> Facts {
        let sndbuf = socket::send_buffer_bytes(&self.socket).ok();
        sndbuf.map(|bytes| ("sndbuf_bytes".into(), bytes.to_string())).into_iter().collect()
    }
}

/// A member of a group that may lose messages: what does not come for a while may never come.
#[derive(Debug)]
pub(super) struct Receiver {
    socket: OwnedFd,
    message: Buffer,
    len: usize,
}

impl Receiver {
    pub(super) fn new(socket: OwnedFd, link: &Link) -> io::Result<Receiver> {
        sockopt::set_socket_timeout(socket.as_fd(), Timeout::Recv, Some(PAUSE))?;
        // One byte more than a message has, so that a longer one is noticed.
        let mut message = Buffer::new(link.payload_bytes + 1)?;
        message.prefault()?;
        Ok(Receiver { socket, message, len: link.payload_bytes })
    }
}

impl Receive for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let message = &mut self.message.bytes_mut()[..self.len + 1];
        // SAFETY: pointer and length come from one slice.
        let count =
            unsafe { libc::recv(self.socket.as_raw_fd(), message.as_mut_ptr().cast(), message.len(), 0) };
        match usize::try_from(count) {
            Ok(count) => Ok(Some(&self.message.bytes()[..count])),
            Err(_) => match io::Error::last_os_error() {
                // ENOBUFS: netlink says that this member has lost something; which, the next message will tell.
                error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)) => {
                    Ok(None)
                }
                error => Err(error),
            },
        }
    }

    fn facts(&self) -> Facts {
        let rcvbuf = socket::receive_buffer_bytes(&self.socket).ok();
        rcvbuf.map(|bytes| ("rcvbuf_bytes".into(), bytes.to_string())).into_iter().collect()
    }
}
