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
use std::time::Duration;

use causeway_os::process::{Child, Spawn, Stderr};
use causeway_os::socket::stream_pair;
use weighbridge_dbus::wire::{Body, Builder, Endian};
use weighbridge_dbus_client::Connection;

use super::{Broker, Limits, PATIENCE, socket_name};

const SIGNATURE: &str = "ohv";
const BATCH: &str = "bta(btbs)a(btssssuutt)a(btssssuutt)";
/// Every user without a batch of its own.
const ANY_USER: u32 = u32::MAX;

pub fn start(path: PathBuf, limits: &Limits) -> Result<Broker, String> {
    let name = socket_name();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let socket = SocketAddr::from_abstract_name(&name).and_then(|name| UnixListener::bind_addr(&name));
    let socket = socket.map_err(|error| failed(&error))?;
    socket.set_nonblocking(true).map_err(|error| failed(&error))?;
    let (ours, theirs) = stream_pair().map_err(|error| failed(&error))?;
    let spawn = Spawn::new(path)
        .args(["--controller", "3", "--machine-id", "0123456789abcdef0123456789abcdef"])
        .args(["--max-bytes", &limits.queued_bytes.to_string()])
        .args(["--max-matches", &limits.match_rules.to_string()])
        .args(["--max-objects", "1000000", "--max-fds", "4096"])
        .fd(theirs)
        .stderr(Stderr::Null)
        .dies_with_parent();
    let child = Child::spawn(spawn).map_err(|error| failed(&error))?;
    let mut controller = Connection::authenticated(UnixStream::from(ours)).map_err(|error| failed(&error))?;
    let call = Builder::call("/org/bus1/DBus/Broker", "AddListener")
        .interface("org.bus1.DBus.Broker")
        .unix_fds(1)
        .body(add_listener());
    controller
        .call_with_fds(&call, &[socket.as_fd()], PATIENCE.max(Duration::from_secs(1)))
        .map_err(|error| failed(&error))?;
    Ok(Broker { address: format!("unix:abstract={name}"), child, _controller: Some(controller) })
}

/// The arguments: an object for the listener, the first descriptor, and a policy that allows everything to this user.
fn add_listener() -> Body {
    let mut out = Marshal::default();
    out.text("/org/bus1/DBus/Listener/0");
    out.u32(0);
    let policy = format!("(a(u({BATCH}))a(buu({BATCH}))a(ss)bs)");
    out.0.push(u8::try_from(policy.len()).expect("a signature has at most 255 bytes"));
    out.0.extend(policy.as_bytes());
    out.0.push(0);
    out.align(8);
    let uid = rustix::process::getuid().as_raw();
    out.array(|out| {
        // No other user may connect; what they might do then is of no importance.
        for (user, may_connect) in [(uid, true), (ANY_USER, false)] {
            out.align(8);
            out.u32(user);
            out.batch(may_connect);
        }
    });
    out.array(|_| {});
    out.array(|_| {});
    out.u32(0);
    out.text("session");
    Body::marshalled(Endian::NATIVE, SIGNATURE, &out.0)
}

/// Values of the few types above, each at its alignment. All arrays here are of structs.
#[derive(Default)]
struct Marshal(Vec<u8>);

impl Marshal {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn u32(&mut self, number: u32) {
        self.align(4);
        self.0.extend(number.to_ne_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.align(8);
        self.0.extend(number.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u32(u32::try_from(text.len()).expect("a short text"));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn array(&mut self, elements: impl FnOnce(&mut Marshal)) {
        self.u32(0);
        let length_at = self.0.len() - 4;
        self.align(8);
        let start = self.0.len();
        elements(self);
        let bytes = u32::try_from(self.0.len() - start).expect("a short array");
        self.0[length_at..length_at + 4].copy_from_slice(&bytes.to_ne_bytes());
    }

    /// A struct: may connect, and rules of priority 1 that allow all names, all sends and all receives.
    fn batch(&mut self, may_connect: bool) {
        self.align(8);
        self.u32(may_connect.into());
        self.u64(1);
        self.array(|out| {
            out.align(8);
            out.u32(1);
            out.u64(1);
            // A prefix of names; the empty one is of all.
            out.u32(1);
            out.text("");
        });
        for _ in ["send", "receive"] {
            self.array(|out| {
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
}
