//! A small bus in this process, right except for one fault.

mod routing;

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::sasl::{Progress, Server};
use causeway_dbus_wire::wire::{Fault as Invalid, message_bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use routing::Router;

/// What the bus does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Directed signals also go to matching rules.
    ShowsDirected,
    /// The sender that a message claims is passed on.
    TrustsSender,
    /// Replies are passed on without a check that their sender received the call.
    PassesReplies,
    ForgetsMatches,
    IgnoresArguments,
    /// A broadcast comes once for each matching rule.
    RepeatsForEachRule,
    /// Equal rules of a connection are one.
    CollapsesRules,
    AcceptsAnyRemoval,
    /// A well-known name in a rule is that of its owner when the rule was added.
    FreezesNames,
    SkipsHello,
    /// What is no valid message is passed on.
    PassesInvalid,
}

/// A fault, and the property that finds it.
pub const FOUND_BY: &[(Fault, &str)] = &[
    (Fault::ShowsDirected, "directed-signal"),
    (Fault::TrustsSender, "forged-sender"),
    (Fault::TrustsSender, "forged-driver"),
    (Fault::PassesReplies, "forged-reply"),
    (Fault::ForgetsMatches, "missed-matches"),
    (Fault::IgnoresArguments, "extra-matches"),
    (Fault::RepeatsForEachRule, "overlapping-rules"),
    (Fault::CollapsesRules, "duplicate-rules"),
    (Fault::AcceptsAnyRemoval, "unknown-rule"),
    (Fault::FreezesNames, "rule-follows-name"),
    (Fault::SkipsHello, "before-hello"),
    (Fault::PassesInvalid, "invalid-headers"),
    (Fault::PassesInvalid, "invalid-bodies"),
];

/// One connection at the bus.
#[derive(Default)]
struct Peer {
    input: Vec<u8>,
    /// Until it is authenticated.
    sasl: Option<Server>,
    output: VecDeque<u8>,
    is_gone: bool,
    /// Nothing before Hello.
    name: String,
    rules: Vec<MatchRule>,
    is_monitor: bool,
}

/// The bus. It ends when this is dropped.
pub struct Shim {
    pub address: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Shim {
    pub fn start(fault: Fault) -> Shim {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("weighbridge-shim-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || serve(&listener, fault, &over));
        Shim { address: format!("unix:abstract={name}"), is_over, thread: Some(thread) }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the shim panicked");
    }
}

const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

fn serve(listener: &UnixListener, fault: Fault, is_over: &AtomicBool) {
    let (mut streams, mut router) = (BTreeMap::new(), Router::new(fault));
    let mut accepted = 0;
    while !is_over.load(Ordering::Relaxed) {
        let mut fds = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        for (stream, peer) in streams.values().zip(router.peers.values()) {
            let out = if peer.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::from_borrowed_fd(UnixStream::as_fd(stream), PollFlags::IN | out));
        }
        let _ = poll(&mut fds, Some(&STEP));
        drop(fds);
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            streams.insert(accepted, stream);
            router.peers.insert(accepted, Peer { sasl: Some(Server::new(None)), ..Peer::default() });
            accepted += 1;
        }
        for (at, stream) in &streams {
            for message in router.peer(*at).read(stream) {
                router.dispatch(*at, &message);
            }
        }
        streams.retain(|at, stream| {
            router.peer(*at).flush(stream);
            let is_gone = router.peer(*at).is_gone;
            if is_gone {
                router.leave(*at);
            }
            !is_gone
        });
    }
}

impl Peer {
    /// Messages that are complete. At the end of the stream the peer is gone.
    fn read(&mut self, mut stream: &UnixStream) -> Vec<Vec<u8>> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            match stream.read(&mut chunk) {
                Ok(bytes @ 1..) => self.input.extend_from_slice(&chunk[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => {
                    self.is_gone = true;
                    break;
                }
            }
        }
        if let Some(sasl) = &mut self.sasl {
            let mut answers = Vec::new();
            let progress = sasl.advance(&mut self.input, "0123456789abcdef0123456789abcdef", &mut answers);
            self.output.extend(answers);
            if progress != Progress::Begun {
                return Vec::new();
            }
            self.sasl = None;
        }
        let mut messages = Vec::new();
        loop {
            match message_bytes(&self.input) {
                Ok(bytes) if bytes <= self.input.len() => messages.push(self.input.drain(..bytes).collect()),
                Ok(_) | Err(Invalid::Cut) => return messages,
                Err(_) => {
                    self.is_gone = true;
                    return messages;
                }
            }
        }
    }

    fn flush(&mut self, mut stream: &UnixStream) {
        while !self.output.is_empty() {
            let (front, _) = self.output.as_slices();
            match stream.write(front) {
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }
}
