//! UDP multicast on the loopback interface.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, getsockname, netdevice};
use weighbridge_probe::namespace;

use super::group::{Discarding, Receiver, Sender};
use super::multicast::Multicast;
use super::uninterested::{UNINTERESTED, Uninterested};
use crate::prelude::*;

pub(super) struct UdpMulticast;

/// The largest datagram: 2¹⁶ − 1 less the headers of IP and UDP.
const MOST_BYTES: usize = 65_507;

impl Multicast for UdpMulticast {
    const ID: &'static str = "udp-multicast";
    const ABOUT: &'static str = "one datagram to a multicast group on the loopback interface, a private one where the machine's takes none";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::LOSSY);
    const AXES: &'static [Axis] = &[UNINTERESTED];
    type Sender = Sender;
    type Receiver = Receiver;

    fn properties(_params: &CaseParams) -> Properties {
        // Nobody hears of the death of another.
        properties::of_kernel(Across::Network).with(Property::SurvivesKill, false)
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if params.payload_bytes > MOST_BYTES {
            return Err(Unsupported(format!(
                "{} bytes exceed the largest UDP datagram of {MOST_BYTES} bytes",
                params.payload_bytes
            )));
        }
        loopback().clone().map(drop).map_err(Unsupported)
    }

    fn ahead_max(_params: &CaseParams) -> Option<u64> {
        None
    }

    fn create(params: &CaseParams, members: usize) -> io::Result<Vec<EndResources>> {
        let loopback = loopback().clone().map_err(io::Error::other)?;
        let (sender, all) = loopback.make(|| group(members))?;
        Discarding::filter(&all, params)?;
        let words = vec![u64::from(loopback == Loopback::Private)];
        let resources = |socket| EndResources { words: words.clone(), ..EndResources::of([socket]) };
        Ok([sender].into_iter().chain(all).map(resources).collect())
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let facts = network(&resources);
        Sender::new(resources, params, None, facts)
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        let facts = network(&resources);
        Receiver::new(resources, params, facts)
    }

    fn uninterested(resources: EndResources, _params: &CaseParams) -> io::Result<Box<dyn Uninterested>> {
        Ok(Discarding::of(resources))
    }
}

/// In which network the sockets are, as the coordinator made them.
fn network(resources: &EndResources) -> Facts {
    let namespace = if resources.words == [1] { "private" } else { "shared" };
    Facts::from([("network_namespace".into(), namespace.into())])
}

/// Which loopback interface takes multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loopback {
    Shared,
    /// That of a network which has nothing else and ends with its sockets.
    Private,
}

impl Loopback {
    fn make<T: Send>(self, make: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
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

/// A socket connected to a new group on loopback, and its members. The first member's port is free, the others
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
