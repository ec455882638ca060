//! dbus-broker, controlled by this process over a socket pair.
//!
//! The broker reads no configuration and opens no socket itself; its controller hands it both. Source: the interface
//! `org.bus1.DBus.Broker` of dbus-broker 33 (Apache-2.0): `AddListener(o path, h socket, v policy)` with a policy of type
//! `(a(u(batch))a(buu(batch))a(ss)bs)`, a batch being `bta(btbs)a(btssssuutt)a(btssssuutt)`: connect; who may own what; what may
//! be sent; what may be received.

use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;

use causeway_bus::client::Bus;
use causeway_dbus_wire::wire::{Body, Builder, Marshal};
use causeway_os::process::{Child, Spawn};
use causeway_os::socket::stream_pair;

use super::{Broker, Limits, PATIENCE, SILENT, Started, socket_name};

const SIGNATURE: &str = "ohv";
const BATCH: &str = "bta(btbs)a(btssssuutt)a(btssssuutt)";
/// Every user without a batch of its own.
const ANY_USER: u32 = u32::MAX;

pub fn start(path: PathBuf, limits: &Limits) -> Started {
    let name = socket_name();
    let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    socket.set_nonblocking(true)?;
    let (ours, theirs) = stream_pair()?;
    let spawn = Spawn::new(path)
        .args(["--controller", "3", "--machine-id", "0123456789abcdef0123456789abcdef"])
        .args(["--max-bytes", &limits.queued_bytes.to_string()])
        .args(["--max-matches", &limits.match_rules.to_string()])
        .args(["--max-objects", "1000000", "--max-fds", "4096"])
        .fd(theirs);
    let child = Child::spawn(spawn.stderr(SILENT).dies_with_parent())?;
    let mut controller = Bus::authenticated(UnixStream::from(ours))?;
    let call = Builder::call("/org/bus1/DBus/Broker", "AddListener")
        .interface("org.bus1.DBus.Broker")
        .unix_fds(1)
        .body(add_listener());
    controller.call_with_fds(&call, &[socket.as_fd()], PATIENCE)?;
    Ok(Broker { _controller: Some(controller), ..Broker::new(format!("unix:abstract={name}"), child) })
}

/// The arguments: an object for the listener, the first descriptor, and a policy that allows everything to this user.
fn add_listener() -> Body {
    let mut out = Marshal::default();
    out.text("/org/bus1/DBus/Listener/0");
    out.u32(0);
    let policy = format!("(a(u({BATCH}))a(buu({BATCH}))a(ss)bs)");
    out.signature(&policy);
    out.align(8);
    let uid = rustix::process::getuid().as_raw();
    out.array(8, |out| {
        // No other user may connect; what they might do then is of no importance.
        for (user, may_connect) in [(uid, true), (ANY_USER, false)] {
            out.align(8);
            out.u32(user);
            batch(out, may_connect);
        }
    });
    out.array(8, |_| {});
    out.array(8, |_| {});
    out.u32(0);
    out.text("session");
    out.into_body(SIGNATURE)
}

/// A struct: may connect, and rules of priority 1 that allow all names, all sends and all receives.
fn batch(out: &mut Marshal, may_connect: bool) {
    out.align(8);
    out.u32(may_connect.into());
    out.u64(1);
    out.array(8, |out| {
        out.align(8);
        out.u32(1);
        out.u64(1);
        // A prefix of names; the empty one is of all.
        out.u32(1);
        out.text("");
    });
    for _ in ["send", "receive"] {
        out.array(8, |out| {
            out.align(8);
            out.u32(1);
            out.u64(1);
            for _ in ["name", "path", "interface", "member"] {
                out.text("");
            }
            // Any type of message, broadcast or not, with any number of descriptors.
            out.u32(0);
            out.u32(0);
            out.u64(0);
            out.u64(u64::MAX);
        });
    }
}
