//! A message is a memory file: its descriptor travels over a Unix socket, and the receiver maps it to read.
//!
//! With `reuse=yes` the sender keeps a pool of files mapped and writes one again when the receiver has released it. With
//! `reuse=no` each message is a fresh file, which the sender unmaps and seals, so that a receiver that does not trust it
//! could rely on the bytes; the receiver looks at the seals. In both the receiver maps every message anew and unmaps it
//! when it is done, and says so in a count in shared memory, not by a message: so the number of files under way is
//! bounded, and an end that waits for one sleeps on a futex (or spins, where the case says so).
//!
//! # Safety
//! A mapping belongs to the value that made it. A file of the pool is the sender's from the moment at which its release
//! was seen (Acquire) until its descriptor is sent, and the receiver's until it counts its release (Release); a fresh one
//! has one owner at a time likewise. The ends trust each other about lengths: this is a laboratory, not a bus. Calls take
//! pointers to local structures and to slices that live across them.
#![allow(unsafe_code)]

use std::os::fd::FromRawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Release};

use causeway_os::memory::{self, Access, Mapping, Seals};
use causeway_os::socket;

use super::doorbell::{Doorbell, Futex, Spin, Words};
use super::fd::{Line, Reader, Writer, one_each, peer_gone, sharing};
use super::yes_no;
use crate::prelude::*;
use crate::sys::{check, check_count, check_mapping};

pub(super) struct MemfdPass;

choice! {
    pub(crate) enum Reuse { Yes = "yes", No = "no" }
    axis "reuse", default Yes: "memory files are used again once released, or each message is a fresh one, sealed"
}
choice! {
    pub(crate) enum Vector { No = "no", Yes = "yes" }
    axis "vector", default No: "yes: beside its descriptor each message carries as many bytes again, which the kernel copies"
}
/// How many memory files a direction has.
pub(crate) const DEPTH: Axis = Axis {
    name: "depth",
    default: "default",
    values: Values::Count,
    about: "memory files under way in one direction; default is what 4 MiB hold, at least 2 and at most 16",
};
const DEFAULT_BYTES: usize = 4 << 20;

/// Memory files under way in one direction.
pub(crate) fn depth(params: &CaseParams) -> usize {
    params.number(DEPTH.name).unwrap_or_else(|| (DEFAULT_BYTES / params.payload_bytes.max(1)).clamp(2, 16))
}

impl Mechanism for MemfdPass {
    const ID: &'static str = "memfd-pass";
    const ABOUT: &'static str =
        "payload in a memory file whose descriptor is sent; the receiver maps and unmaps it";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY).and(Caps::MAPS);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::Spin];
    const AXES: &'static [Axis] = &[Reuse::AXIS, DEPTH, Vector::AXIS];
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = PassEnd;

    fn properties(_params: &CaseParams) -> Properties {
        // Both may write the page of credit, on which a sender would wait for a dead receiver for ever.
        SHARED_MEMORY.with(Property::Pollable, true)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        const BUFFER: &str = "net/core/wmem_default";
        // Of its buffer a message has what remains beside the kernel's head of it.
        let most = host.sysctl_number(BUFFER).unwrap_or(u64::MAX).saturating_sub(LENGTH_BYTES as u64 + 32);
        if params.choice::<Vector>() == Vector::Yes && params.payload_bytes as u64 > most {
            return Err(Unsupported(format!(
                "vector=yes sends {} bytes in a message of a socket, and net.core.wmem_default allows {most}; raise it with sysctl, or take a \
                 smaller size",
                params.payload_bytes
            )));
        }
        Ok(())
    }

    fn create(_host: &Host, _params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let (near, far) = socket::seqpacket_pair()?;
        let credit = memory::memfd("weighbridge-credit", CREDIT_BYTES as u64)?;
        sharing(credit, one_each((near, far)))
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<PassEnd> {
        let credit = resources.take_fd();
        let len = params.payload_bytes;
        let depth = depth(params) as u64;
        let store = match params.choice() {
            Reuse::No => Store::Fresh { flags: creation_flags()?, message: None },
            Reuse::Yes => Store::Pool((0..depth).map(|_| File::pooled(len)).collect::<io::Result<_>>()?),
        };
        let vector = match params.choice() {
            Vector::No => None,
            Vector::Yes => Some([Buffer::new(len)?, Buffer::new(len)?]),
        };
        const HALF: usize = CREDIT_BYTES / 2;
        let (outgoing, incoming) = if side == Side::Near { (0, HALF) } else { (HALF, 0) };
        Ok(PassEnd {
            line: Line::take_socket(&mut resources, params.wait)?,
            credit: Mapping::shared(credit.as_fd(), CREDIT_BYTES, Access::ReadWrite)?,
            bell: Futex::attach(None, None, params)?,
            outgoing,
            incoming,
            depth,
            sent: 0,
            released: 0,
            released_by_other: 0,
            store,
            vector: vector.map(|[outgoing, incoming]| VectorBytes { outgoing, incoming, len }),
            is_locked: false,
        })
    }
}

/// What travels beside a descriptor, and where it arrives.
struct VectorBytes {
    outgoing: Buffer,
    incoming: Buffer,
    len: usize,
}

/// What vectors are filled with.
const VECTOR_BYTE: u8 = 0xb7;

/// What the two ends count in: one half for each direction, each word on lines of its own.
const CREDIT_BYTES: usize = 4096;
const RELEASED: usize = 0;
const ARMED: usize = 128;
const WORD: usize = 256;

/// What the receiver of a fresh file must find.
const SEALS: i32 = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// A memory file, and where it is mapped unless it is empty.
struct File {
    fd: OwnedFd,
    map: Option<Map>,
}

impl File {
    /// One that stays mapped.
    fn pooled(len: usize) -> io::Result<File> {
        let fd = memory::memfd("weighbridge-message", len as u64)?;
        memory::add_seals(&fd, Seals::SHRINK | Seals::GROW)?;
        File::mapped(fd, len)
    }

    #[inline]
    fn mapped(fd: OwnedFd, len: usize) -> io::Result<File> {
        let map = Map::new(fd.as_raw_fd(), len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)?;
        Ok(File { fd, map })
    }

    /// One for a single message: create, set its length, map.
    #[inline]
    fn fresh(len: usize, flags: libc::c_uint) -> io::Result<File> {
        // SAFETY: the name ends with zero.
        let fd = check(unsafe { libc::memfd_create(c"weighbridge-message".as_ptr(), flags) })?;
        // SAFETY: the call made this descriptor, and no other code has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if len > 0 {
            // SAFETY: only numbers are passed.
            check(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) })?;
        }
        File::mapped(fd, len)
    }

    /// Gives up the mapping, without which the file can be sealed against writing, and seals it.
    #[inline]
    fn seal(&mut self) -> io::Result<()> {
        self.map = None;
        // SAFETY: only numbers are passed.
        check(unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        Ok(())
    }

    #[inline]
    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        match &mut self.map {
            // SAFETY: mapped for writing, borrowed with `self`, and the sender's until it is sent.
            Some(map) => unsafe { std::slice::from_raw_parts_mut(map.base.as_ptr(), map.len.min(len)) },
            None => &mut [],
        }
    }
}

/// A mapping of a file: one call to make, one to take away.
struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the range belongs to no thread.
unsafe impl Send for Map {}

impl Map {
    #[inline]
    fn new(fd: RawFd, len: usize, protection: i32, flags: i32) -> io::Result<Option<Map>> {
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: the kernel chooses the address, so nothing that exists is mapped over.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) };
        check_mapping(base)?;
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        Ok(Some(Map { base, len }))
    }
}

impl Drop for Map {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the range is ours, and slices of it borrow from its owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Flags for a fresh file: never executable, where the kernel knows how to say so (Linux 6.3).
fn creation_flags() -> io::Result<libc::c_uint> {
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    match File::fresh(0, base | libc::MFD_NOEXEC_SEAL) {
        Ok(_) => Ok(base | libc::MFD_NOEXEC_SEAL),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(base),
        Err(error) => Err(error),
    }
}

enum Store {
    Pool(Vec<File>),
    Fresh { flags: libc::c_uint, message: Option<File> },
}

pub(super) struct PassEnd {
    line: Line,
    credit: Mapping,
    bell: Futex,
    outgoing: usize,
    incoming: usize,
    depth: u64,
    /// Messages that this end has sent.
    sent: u64,
    /// Messages that this end has released.
    released: u64,
    /// What this end last saw of the other's count.
    released_by_other: u64,
    store: Store,
    vector: Option<VectorBytes>,
    is_locked: bool,
}

impl PassEnd {
    /// Waits until fewer than `depth` files are under way.
    #[inline]
    fn await_credit(&mut self) -> io::Result<()> {
        if self.sent - self.released_by_other < self.depth {
            return Ok(());
        }
        let PassEnd { credit, bell, line, outgoing, sent, depth, .. } = self;
        let released = credit.atomic_u64(*outgoing + RELEASED);
        let has_room = || *sent - released.load(Acquire) < *depth; // PAIR pass-release
        if !has_room() {
            let words = Words::at(credit, *outgoing + ARMED, *outgoing + WORD);
            if line.writer.spins() { Spin.wait(words, has_room)? } else { bell.wait(words, has_room)? }
        }
        self.released_by_other = released.load(Acquire); // PAIR pass-release
        Ok(())
    }

    #[inline]
    fn file(&mut self) -> &mut File {
        match &mut self.store {
            Store::Pool(files) => &mut files[(self.sent % self.depth) as usize],
            Store::Fresh { message, .. } => message.as_mut().expect("made when it was lent"),
        }
    }
}

pub(super) struct PassTx<'a> {
    end: &'a mut PassEnd,
    len: usize,
}

impl AsMut<[u8]> for PassTx<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.end.file().bytes_mut(self.len)
    }
}

/// A message being read; dropping it unmaps and releases it.
pub(super) struct PassRx<'a> {
    end: &'a mut PassEnd,
    map: Option<Map>,
}

impl AsRef<[u8]> for PassRx<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.map {
            // SAFETY: mapped for reading, borrowed with `self`, and the receiver's until it is released.
            Some(map) => unsafe { std::slice::from_raw_parts(map.base.as_ptr(), map.len) },
            None => &[],
        }
    }
}

impl Drop for PassRx<'_> {
    #[inline]
    fn drop(&mut self) {
        self.map = None;
        let PassEnd { credit, bell, incoming, released, .. } = &mut *self.end;
        *released += 1;
        credit.atomic_u64(*incoming + RELEASED).store(*released, Release); // PAIR pass-release
        bell.notify(Words::at(credit, *incoming + ARMED, *incoming + WORD))
            .expect("waking on a word that is mapped");
    }
}

impl Endpoint for PassEnd {
    type Tx<'a> = PassTx<'a>;
    type Rx<'a> = PassRx<'a>;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<PassTx<'_>> {
        self.await_credit()?;
        if let Store::Fresh { flags, message } = &mut self.store {
            *message = Some(File::fresh(len, *flags)?);
        }
        Ok(PassTx { end: self, len })
    }

    #[inline]
    fn commit(tx: PassTx<'_>) -> io::Result<()> {
        let PassTx { end, len } = tx;
        let vector = end.vector.as_ref().map_or(&[][..], |vector| &vector.outgoing.bytes()[..vector.len]);
        match &mut end.store {
            Store::Pool(files) => {
                let file = &files[(end.sent % end.depth) as usize];
                send_descriptor(&end.line.writer, len, vector, file.fd.as_raw_fd())?;
            }
            Store::Fresh { message, .. } => {
                let mut file = message.take().expect("made when it was lent");
                file.seal()?;
                send_descriptor(&end.line.writer, len, vector, file.fd.as_raw_fd())?;
            }
        }
        end.sent += 1;
        Ok(())
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<PassRx<'_>> {
        let place =
            self.vector.as_mut().map_or(&mut [][..], |vector| &mut vector.incoming.bytes_mut()[..vector.len]);
        let (len, fd) = receive_descriptor(&mut self.line.reader, place)?;
        let how = match self.store {
            Store::Pool(_) => libc::MAP_SHARED,
            // Before Linux 6.7 a file that is sealed against writing cannot be mapped shared, not even for reading.
            Store::Fresh { .. } => {
                // SAFETY: only numbers are passed.
                let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
                if seals & SEALS != SEALS {
                    return Err(io::Error::other(format!("a message came with seals {seals:#x} only")));
                }
                libc::MAP_PRIVATE
            }
        };
        let map = Map::new(fd.as_raw_fd(), len, libc::PROT_READ, how)?;
        Ok(PassRx { end: self, map })
    }

    /// Messages that it has released, which bounds what the other end may send.
    #[inline]
    fn position(&mut self) -> u64 {
        self.released
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.credit.prefault()?;
        self.is_locked = self.credit.lock().is_ok();
        if let Some(VectorBytes { outgoing, incoming, .. }) = &mut self.vector {
            outgoing.prefault()?;
            outgoing.bytes_mut().fill(VECTOR_BYTE);
            incoming.prefault()?;
        }
        let Store::Pool(files) = &mut self.store else { return Ok(()) };
        for file in files {
            if let Some(map) = &mut file.map {
                // SAFETY: the range is mapped for writing, and no other code uses it yet.
                unsafe { std::slice::from_raw_parts_mut(map.base.as_ptr(), map.len) }.fill(0);
                // SAFETY: the range is ours; locking changes no byte of it.
                self.is_locked &= unsafe { libc::mlock(map.base.as_ptr().cast(), map.len) } == 0;
            }
        }
        Ok(())
    }

    fn facts(&self) -> io::Result<Facts> {
        let is_fresh = matches!(self.store, Store::Fresh { .. });
        Ok(Facts::from([
            ("memfds_under_way".into(), self.depth.to_string()),
            ("memfds_sealed".into(), yes_no(is_fresh)),
            ("vector_bytes".into(), self.vector.as_ref().map_or(0, |vector| vector.len).to_string()),
            ("buffers_locked".into(), yes_no(self.is_locked)),
        ]))
    }
}

/// Room for one descriptor beside a message, aligned as the kernel's header wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

// SAFETY: arithmetic on a number.
const CONTROL_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;

/// A message begins with the length of its payload.
const LENGTH_BYTES: usize = 8;

/// The parts of a message: a length, and a vector unless that is empty.
#[inline]
fn header(parts: &mut [libc::iovec; 2], control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeros is a valid header: no address, no parts, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iovlen = if parts[1].iov_len == 0 { 1 } else { 2 };
    header.msg_iov = parts.as_mut_ptr();
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    header
}

/// Sends a length with a vector behind it, and a descriptor beside them.
#[inline]
fn send_descriptor(writer: &Writer, len: usize, vector: &[u8], fd: RawFd) -> io::Result<()> {
    let mut bytes = (len as u64).to_ne_bytes();
    let mut parts = [
        libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: LENGTH_BYTES },
        // Only read by the call.
        libc::iovec { iov_base: vector.as_ptr().cast_mut().cast(), iov_len: vector.len() },
    ];
    let mut control = Control([0; CONTROL_BYTES]);
    let header = header(&mut parts, &mut control);
    // SAFETY: the header has room for one control message with one descriptor, so the first one exists and its data fits.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(fd);
    }
    writer.call(|socket| {
        // SAFETY: the header points to what is above, all of which lives across the call.
        check_count(unsafe { libc::sendmsg(socket, &raw const header, libc::MSG_NOSIGNAL) })
    })?;
    Ok(())
}

/// Receives a length and the descriptor that came with it, and in its place the vector.
#[inline]
fn receive_descriptor(reader: &mut Reader, vector: &mut [u8]) -> io::Result<(usize, OwnedFd)> {
    let mut bytes = [0; LENGTH_BYTES];
    let mut parts = [
        libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: LENGTH_BYTES },
        libc::iovec { iov_base: vector.as_mut_ptr().cast(), iov_len: vector.len() },
    ];
    let mut control = Control([0; CONTROL_BYTES]);
    let mut header = header(&mut parts, &mut control);
    let count = reader.wait_and(|socket| {
        // SAFETY: the header points to what is above, all of which lives across the call.
        check_count(unsafe { libc::recvmsg(socket, &raw mut header, libc::MSG_CMSG_CLOEXEC) })
    })?;
    // SAFETY: the kernel has filled in as much control data as the header now says.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
    let Some(first) =
        first.filter(|first| (first.cmsg_level, first.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS))
    else {
        return Err(if count == 0 {
            peer_gone()
        } else {
            io::Error::other("a message came without its descriptor")
        });
    };
    // SAFETY: a control message of this kind holds a descriptor that the kernel has just made for us.
    let fd = unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned()) };
    // As many bytes as a vector has, the first and the last of which are of one.
    let is_whole = count == LENGTH_BYTES + vector.len();
    if !is_whole || [vector.first(), vector.last()].into_iter().flatten().any(|byte| *byte != VECTOR_BYTE) {
        let wanted = vector.len();
        return Err(io::Error::other(format!(
            "a message of {count} bytes came without its vector of {wanted}"
        )));
    }
    Ok((u64::from_ne_bytes(bytes) as usize, fd))
}
