//! Interfaces: pairs that are connected to each other (veth), addresses, neighbors.
//!
//! Source of the numbers: `include/uapi/linux/rtnetlink.h`, `if_link.h`, `if_addr.h`, `neighbour.h` and `veth.h` of the kernel.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, netdevice, socket_with};

use super::netlink::{ACK, CREATE, EXCLUSIVE, Message, REPLACE, request};
use causeway_os::{Context, Result};

/// The protocol NETLINK_ROUTE is number 0, and what a socket of netlink has where none is named.
const ROUTE: Option<Protocol> = None;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_NEIGHBOUR: u16 = 28;

const LINK_MAC: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;

const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const NEIGHBOUR_IP: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
/// It is right for ever, and nobody asks for it.
const PERMANENT: u16 = 0x80;
const UP: u32 = 1;
const INET: u8 = 2;

/// An interface that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its name, of at most 15 bytes.
    pub name: &'a str,
    /// Its address on the link.
    pub mac: [u8; 6],
    /// The network in which it is made; that of the calling thread where there is none.
    pub namespace: Option<BorrowedFd<'a>>,
}

impl Interface<'_> {
    fn add_to(self, message: Message) -> Message {
        let message = message.with_text(LINK_NAME, self.name).with(LINK_MAC, &self.mac);
        match self.namespace {
            Some(fd) => message.with(LINK_NAMESPACE, &fd.as_raw_fd().to_ne_bytes()),
            None => message,
        }
    }
}

/// Makes two interfaces: what is sent on one arrives at the other. Both are down. They end with the network of either. `EEXIST` where a name is
/// taken, `EOPNOTSUPP` from a kernel without veth.
pub fn veth_pair(near: Interface<'_>, far: Interface<'_>) -> Result<()> {
    let message = Message::new(NEW_LINK, ACK | CREATE | EXCLUSIVE, &link(0, 0));
    let message = near.add_to(message).with_nested(LINK_INFO, &[], |info| {
        info.with_text(INFO_KIND, "veth").with_nested(INFO_DATA, &[], |data| {
            data.with_nested(VETH_PEER, &link(0, 0), |peer| far.add_to(peer))
        })
    });
    request(ROUTE, &[message], "make", || format!("the veth pair {}, {}", near.name, far.name))
}

/// Brings an interface of the calling thread's network up. The kernel connects it to its other end a moment later; until then it loses packets
/// in silence.
pub fn bring_up(name: &str) -> Result<()> {
    let message = Message::new(NEW_LINK, ACK, &link(UP, UP)).with_text(LINK_NAME, name);
    request(ROUTE, &[message], "bring up", || format!("the interface {name}"))
}

/// Gives an interface of the calling thread's network an address, and the route to its `prefix_bits`.
pub fn add_address(name: &str, ip: Ipv4Addr, prefix_bits: u8) -> Result<()> {
    let mut fixed = vec![INET, prefix_bits, 0, 0];
    fixed.extend(index(name)?.to_ne_bytes());
    let message = Message::new(NEW_ADDRESS, ACK | CREATE | EXCLUSIVE, &fixed)
        .with(ADDRESS_LOCAL, &ip.octets())
        .with(ADDRESS, &ip.octets());
    request(ROUTE, &[message], "give", || format!("the interface {name} the address {ip}"))
}

/// Says at which address on the link `ip` is, so that no packet asks for it.
pub fn add_neighbor(name: &str, ip: Ipv4Addr, mac: [u8; 6]) -> Result<()> {
    let mut fixed = vec![INET, 0, 0, 0];
    fixed.extend(index(name)?.to_ne_bytes());
    fixed.extend(PERMANENT.to_ne_bytes());
    fixed.extend([0, 0]);
    let message = Message::new(NEW_NEIGHBOUR, ACK | CREATE | REPLACE, &fixed)
        .with(NEIGHBOUR_IP, &ip.octets())
        .with(NEIGHBOUR_MAC, &mac);
    request(ROUTE, &[message], "tell", || format!("the interface {name} where {ip} is"))
}

/// `struct ifinfomsg`, of no interface in particular.
fn link(flags: u32, change: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&change.to_ne_bytes());
    fixed
}

fn index(name: &str) -> Result<u32> {
    let on = || format!("the interface {name}");
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .context("open a socket to find", on)?;
    netdevice::name_to_index(&socket, name).context("find", on)
}
