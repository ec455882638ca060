//! The receiver copies a message out of the sender's memory, with `process_vm_readv(2)`.
//!
//! A notice says where it lies; an acknowledgement, once it is copied, gives the buffer back. Both travel over Unix
//! sockets that keep messages apart, one pair for each direction. The sender looks for acknowledgements only when it
//! needs a buffer again, so in a round trip it never waits for one.

use causeway_os::memory::page_bytes;
use causeway_os::{process, socket};

use super::copying::{Copying, Transport};
use super::fd::{self, Line, peer_gone};
use crate::prelude::*;
use crate::sys;

pub(super) struct ProcessVm;

const DEPTH: Axis = Axis {
    name: "depth",
    default: "2",
    values: Values::Count,
    about: "buffers of the sender; it waits for an acknowledgement before it uses one again",
};
/// Largest `depth`: that many acknowledgements fit into the buffer of a socket, so the receiver never waits for the sender to read them.
const MOST_DEPTH: usize = 64;

impl Mechanism for ProcessVm {
    const ID: &'static str = "process-vm";
    const ABOUT: &'static str =
        "process_vm_readv(2): told where it lies, the receiver copies out of the sender's memory";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ONE_COPY);
    const WAITS: &'static [Wait] = fd::WAITS;
    const AXES: &'static [Axis] = &[DEPTH];
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = Copying<Remote>;

    fn properties(_params: &CaseParams) -> Properties {
        // To read the memory of another takes the rights to trace it, and its number; what a dead sender had not been asked for is gone.
        Properties::of(&[Property::Pollable, Property::WithoutSharedMemory], Across::OneNamespace)
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        match params.number(DEPTH.name) {
            Some(depth) if depth > MOST_DEPTH => Err(Unsupported(format!(
                "depth={depth} exceeds the {MOST_DEPTH} acknowledgements that surely find room in a socket; lower depth"
            ))),
            _ => Ok(()),
        }
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (near_out, far_in) = socket::seqpacket_pair()?;
        let (far_out, near_in) = socket::seqpacket_pair()?;
        Ok([EndResources::of([near_in, near_out]), EndResources::of([far_in, far_out])])
    }

    fn attach(_side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<Self::End> {
        // The other end is not an ancestor of ours, and Yama would let only those read our memory.
        process::allow_tracing_by_any()?;
        let depth = params.number(DEPTH.name).unwrap_or(2);
        let remote = Remote {
            incoming: Line::take_socket(&mut resources, params.wait)?,
            outgoing: Line::take_socket(&mut resources, params.wait)?,
            depth,
            stride: params.payload_bytes.next_multiple_of(page_bytes()),
            next: 0,
            lent: 0,
        };
        Copying::new(remote, params.payload_bytes)
    }
}

#[inline]
fn receive<const N: usize>(line: &mut Line) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match line.reader.receive(&mut bytes)? {
        0 => Err(peer_gone()),
        count if count == N => Ok(bytes),
        count => Err(io::Error::other(format!("a notice of {count} bytes came where {N} were expected"))),
    }
}

/// Where a message lies: process id, address, length.
type Notice = [u64; 3];

/// What both ends know of each other's memory. In each line notices go one way and acknowledgements the other.
pub(super) struct Remote {
    incoming: Line,
    outgoing: Line,
    depth: usize,
    stride: usize,
    next: usize,
    /// Buffers that are not acknowledged yet.
    lent: usize,
}

impl Remote {
    #[inline]
    fn await_acknowledgement(&mut self) -> io::Result<()> {
        receive::<1>(&mut self.outgoing)?;
        self.lent -= 1;
        Ok(())
    }
}

impl Transport for Remote {
    const SENDS_FROM_ANYWHERE: bool = false;

    #[inline]
    fn reserve(&mut self) -> io::Result<usize> {
        if self.lent == self.depth {
            self.await_acknowledgement()?;
        }
        Ok(self.next * self.stride)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let notice: Notice =
            [u64::from(std::process::id()), message.as_ptr().addr() as u64, message.len() as u64];
        self.outgoing.writer.send(notice.map(u64::to_ne_bytes).as_flattened())?;
        self.lent += 1;
        self.next = if self.next + 1 == self.depth { 0 } else { self.next + 1 };
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = receive::<{ size_of::<Notice>() }>(&mut self.incoming)?;
        let (words, _) = bytes.as_chunks::<8>();
        let [pid, address, len]: Notice = std::array::from_fn(|index| u64::from_ne_bytes(words[index]));
        let len = len as usize;
        let Some(room) = buffer.get_mut(..len) else {
            return Err(io::Error::other(format!(
                "a message of {len} bytes came where {} fit",
                buffer.len()
            )));
        };
        copy_from(pid, address as usize, room)?;
        self.incoming.writer.send(&[0])?;
        Ok(len)
    }

    /// The receiver copies out of this process, which must not end before.
    fn settle(&mut self) -> io::Result<()> {
        while self.lent > 0 {
            self.await_acknowledgement()?;
        }
        Ok(())
    }

    fn outgoing_bytes(&self, _message_bytes: usize) -> usize {
        self.depth * self.stride
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(Facts::from([("sender_buffers".into(), self.depth.to_string())]))
    }
}

/// Fills a buffer from another process: one call, unless the kernel stops in between.
#[inline]
fn copy_from(pid: u64, mut address: usize, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match sys::process_vm_read(pid as libc::pid_t, address, buffer).map_err(explain)? {
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            count => {
                address += count;
                buffer = &mut buffer[count..];
            }
        }
    }
    Ok(())
}

#[cold]
fn explain(error: io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => {
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
            let scope = scope.map_or_else(|_| "is absent".into(), |scope| format!("= {}", scope.trim()));
            format!(
                "reading another process is forbidden: kernel.yama.ptrace_scope {scope}, allow it with sysctl \
                 kernel.yama.ptrace_scope=1; or this container forbids it, allow it with CAP_SYS_PTRACE"
            )
        }
        Some(libc::ENOSYS) => "this kernel has no process_vm_readv (CONFIG_CROSS_MEMORY_ATTACH)".into(),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{why} ({error})"))
}
