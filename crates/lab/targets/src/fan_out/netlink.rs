//! Netlink multicast between programs: what udev does.
//!
//! The kernel lets every program send to a group of `NETLINK_USERSOCK`, but only one with CAP_NET_ADMIN join it.

use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::netlink::{SocketAddrNetlink, USERSOCK};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect};

use super::group::{Discarding, Receiver, Sender};
use super::multicast::Multicast;
use super::unicast::fits_send_buffer;
use super::uninterested::{UNINTERESTED, Uninterested};
use crate::prelude::*;

pub(super) struct NetlinkMulticast;

impl Multicast for NetlinkMulticast {
    const ID: &'static str = "netlink-multicast";
    const ABOUT: &'static str = "one message to a group of NETLINK_USERSOCK, as udev sends its events";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::LOSSY);
    const AXES: &'static [Axis] = &[UNINTERESTED];
    type Sender = Sender;
    type Receiver = Receiver;

    fn properties(_params: &CaseParams) -> Properties {
        // To join a group takes CAP_NET_ADMIN, in the network namespace of its sender.
        Properties::of(&[Property::Pollable, Property::WithoutSharedMemory], Across::OneNamespace)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        static WORKS: OnceLock<Result<(), String>> = OnceLock::new();
        match WORKS.get_or_init(|| member().map(|_| ()).map_err(|error| error.to_string())) {
            Ok(()) => fits_send_buffer(host, params),
            Err(why) => Err(Unsupported(format!(
                "joining a group of NETLINK_USERSOCK is refused: {why}; it needs CAP_NET_ADMIN, so run it as root"
            ))),
        }
    }

    fn ahead_max(_params: &CaseParams) -> Option<u64> {
        None
    }

    fn create(params: &CaseParams, members: usize) -> io::Result<Vec<EndResources>> {
        let sender = new()?;
        bind(&sender, &SocketAddrNetlink::new(0, 0))?;
        connect(&sender, &SocketAddrNetlink::new(0, group()))?;
        let members: Vec<_> = (0..members).map(|_| member()).collect::<io::Result<_>>()?;
        Discarding::filter(&members, params)?;
        Ok(std::iter::once(sender).chain(members).map(|socket| EndResources::of([socket])).collect())
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        // After the group, the kernel sends a copy to port 0, where no socket of this protocol is bound. udev ignores that
        // answer too.
        Sender::new(resources, params, Some(Errno::CONNREFUSED), Facts::new())
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        Receiver::new(resources, params, Facts::new())
    }

    fn uninterested(resources: EndResources, _params: &CaseParams) -> io::Result<Box<dyn Uninterested>> {
        Ok(Discarding::of(resources))
    }
}

fn new() -> io::Result<OwnedFd> {
    let family = AddressFamily::NETLINK;
    Ok(rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(USERSOCK))?)
}

/// A group as a bit: one of 32, by the number of this process, so that two programs rarely use the same group. Where they do, messages
/// that are not ours end the run.
fn group() -> u32 {
    1 << (std::process::id() % 32)
}

fn member() -> io::Result<OwnedFd> {
    let socket = new()?;
    bind(&socket, &SocketAddrNetlink::new(0, group()))?;
    Ok(socket)
}
