//! Unix sockets as a way to hand over descriptors; what the kernel says about the process at the other end.
//!
//! # Safety
//! `setsockopt` is given a structure with its true size, and `ioctl` a local `int`, as its request asks.
#![allow(unsafe_code)]

mod peer;

pub use peer::{
    Credentials, Liveness, peer_credentials, peer_groups, peer_pidfd, peer_process, peer_security_label,
};

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::error::{Context, Error, Result};

/// The most descriptors that the kernel takes in one message.
pub const FDS_MAX: usize = 253;

/// Two connected sockets that keep message boundaries and say when the other end is gone, closed on exec.
pub fn seqpacket_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET, "seqpacket socket pair")
}

/// As [`seqpacket_pair`], for a stream of bytes.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM, "stream socket pair")
}

/// As [`seqpacket_pair`], for datagrams.
pub fn datagram_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::DGRAM, "datagram socket pair")
}

fn pair(kind: SocketType, name: &str) -> Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .context("create a", || name)
}

/// Control data of a message, aligned as the kernel's header wants it.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; rustix::cmsg_space!(ScmRights(FDS_MAX))]);

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::uninit(); _])
    }

    /// Room for exactly `fds` descriptors. The usual rounded-up room lets one more in where `fds` is odd.
    fn room_for(&mut self, fds: usize) -> &mut [MaybeUninit<u8>] {
        match fds {
            0 => &mut [],
            _ => &mut self.0[..size_of::<libc::cmsghdr>() + fds * size_of::<libc::c_int>()],
        }
    }
}

/// Sends all of `bytes` and, with the first of them, copies of `fds`. Never raises SIGPIPE. Fails with `EPIPE` when the other
/// end is gone, `EAGAIN` on a full non-blocking socket (a stream may have taken a part), `ETOOMANYREFS` when too many sent
/// descriptors wait to be received, `EMSGSIZE`; `EINVAL` for more than [`FDS_MAX`] descriptors, or without a byte to carry
/// them.
pub fn send_with_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let socket = socket.as_fd();
    let on = || format!("{} bytes and {} descriptors", bytes.len(), fds.len());
    if fds.len() > FDS_MAX || (bytes.is_empty() && !fds.is_empty()) {
        return Err(Error::new("send", on(), Errno::INVAL));
    }
    let mut space = Control::new();
    let mut control = SendAncillaryBuffer::new(&mut space.0);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room for FDS_MAX descriptors");
    }
    let mut rest = bytes;
    loop {
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL)
        })
        .context("send", on)?;
        rest = &rest[sent..];
        if rest.is_empty() {
            return Ok(());
        }
        // Only a stream takes a part; the descriptors went with it.
        control.clear();
    }
}

/// Receives one message (on a stream: what is there) into `buf`, with at most `max_fds` descriptors, which are closed
/// on exec. Returns the number of bytes, 0 at the end, and the descriptors.
///
/// The socket must not have asked for other control data (`SO_PASSCRED` and the like): there is no room for it.
///
/// # Errors
/// The kernel's; `EMSGSIZE` when the message or its descriptors did not fit, `EMFILE` when this process is out of
/// descriptors. The message is then lost, and all descriptors that came with it are closed.
///
/// # Panics
/// When `max_fds` is above [`FDS_MAX`].
pub fn recv_with_fds(socket: impl AsFd, buf: &mut [u8], max_fds: usize) -> Result<(usize, Vec<OwnedFd>)> {
    let room = buf.len();
    match recv_part_with_fds(socket, buf, max_fds)? {
        (bytes, fds, None) => Ok((bytes, fds)),
        (.., Some(cut)) => Err(Error::new("receive", room_of(room, max_fds), cut)),
    }
}

/// As [`recv_with_fds`], but what did arrive is not lost: beside it, why bytes or descriptors are missing.
pub fn recv_part_with_fds(
    socket: impl AsFd,
    buf: &mut [u8],
    max_fds: usize,
) -> Result<(usize, Vec<OwnedFd>, Option<Errno>)> {
    assert!(max_fds <= FDS_MAX, "no message carries {max_fds} descriptors");
    let socket = socket.as_fd();
    let text = room_of(buf.len(), max_fds);
    let mut space = Control::new();
    // Closes whatever is left in it when dropped.
    let mut control = RecvAncillaryBuffer::new(space.room_for(max_fds));
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buf)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })
    .context("receive", || text.as_str())?;
    let mut fds = Vec::new();
    for item in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = item {
            fds.extend(received);
        }
    }
    let cut = if message.flags.contains(ReturnFlags::CTRUNC) && fds.len() < max_fds {
        // There was room for them here, but not in the table of this process.
        Some(Errno::MFILE)
    } else if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        Some(Errno::MSGSIZE)
    } else {
        None
    };
    Ok((message.bytes, fds, cut))
}

fn room_of(bytes: usize, fds: usize) -> String {
    format!("{bytes} bytes and {fds} descriptors at most")
}

/// Makes the kernel refuse descriptors that a peer sends to this Unix socket (SO_PASSRIGHTS, Linux 6.16): its `sendmsg` fails
/// with `EPERM`. What a listening socket accepts inherits this. False where the kernel cannot do it.
///
/// Without it a peer can make this process close a descriptor of the peer's choice, and closing some blocks: a TCP
/// socket with SO_LINGER waits for its peer. Fails with `EOPNOTSUPP` when this is no Unix socket.
pub fn refuse_descriptors(socket: impl AsFd) -> Result<bool> {
    set_descriptors(socket.as_fd(), false)
}

/// Reverts [`refuse_descriptors`], which a connection inherits from the socket that accepted it.
pub fn take_descriptors(socket: impl AsFd) -> Result<()> {
    set_descriptors(socket.as_fd(), true).map(drop)
}

fn set_descriptors(socket: BorrowedFd<'_>, taken: bool) -> Result<bool> {
    // Not in every version of libc's headers; 83 on all architectures that this crate is built for.
    const SO_PASSRIGHTS: libc::c_int = 83;
    // SAFETY: the option takes an `int`.
    match unsafe { set_option(socket, SO_PASSRIGHTS, &libc::c_int::from(taken)) } {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(false),
        Err(error) => Err(Error::new("say whether to take descriptors on", "a socket", error)),
    }
}

/// Sets a socket option of level SOL_SOCKET.
///
/// # Safety
/// The option takes a value of this layout, whose pointers are valid.
unsafe fn set_option<T>(socket: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the kernel reads as many bytes from `value` as it has, and what they mean is the caller's promise.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value, bytes) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// From now on the kernel discards every packet that arrives for this socket: a filter that keeps none of their bytes.
pub fn discard_arrivals(socket: impl AsFd) -> Result<()> {
    // One instruction of classic BPF (`include/uapi/linux/filter.h`): return 0 bytes.
    let mut program = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let filter = libc::sock_fprog { len: 1, filter: &raw mut program };
    // SAFETY: the option takes such a filter, and the one instruction to which it points lives.
    unsafe { set_option(socket.as_fd(), libc::SO_ATTACH_FILTER, &filter) }
        .context("attach a filter to", || "a socket")
}

/// Binds a Unix socket to `path`, whose file has exactly `mode` from the first moment on, whatever the umask. The mode is never
/// set by path, which may lead elsewhere by then. Fails with `EADDRINUSE` when there is a file.
pub fn bind_with_mode(socket: impl AsFd, path: &std::path::Path, mode: u32) -> Result<()> {
    use rustix::fs::Mode;
    let socket = socket.as_fd();
    let on = || path.display().to_string();
    let address = rustix::net::SocketAddrUnix::new(path).context("use as a socket's path", on)?;
    let mode = Mode::from_raw_mode(mode);
    // The file takes the mode that the socket has, less the umask.
    rustix::fs::fchmod(socket, mode).context("set the mode of the socket for", on)?;
    let shared = rustix::io::fcntl_dupfd_cloexec(socket, 0).context("duplicate the socket for", on)?;
    let owned_path = path.to_owned();
    // Not a scope: its end would leave a token for the next `park` of the calling thread.
    let bound = std::thread::Builder::new().spawn(move || {
        // SAFETY: the umask and the working directory become this thread's own; no descriptor is concerned.
        let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FS) };
        if unshared.is_ok() {
            rustix::process::umask(Mode::empty());
        }
        rustix::net::bind(&shared, &address)?;
        match unshared {
            Ok(()) => Ok(()),
            // Some containers forbid it. Nobody can connect before the socket listens, so that a mode set now is early
            // enough; it is set through a descriptor of that very file.
            Err(_) => chmod_socket(&owned_path, mode),
        }
    });
    let bound = bound.map(|thread| thread.join().expect("nothing panics in it"));
    bound.context("start a thread that binds", on)?.context("bind", on)
}

/// Sets the mode of a socket's file, if it is one, of this user, and no link.
fn chmod_socket(path: &std::path::Path, mode: rustix::fs::Mode) -> rustix::io::Result<()> {
    use rustix::fs::{FileType, Mode, OFlags};
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || !is_ours {
        return Err(Errno::ADDRINUSE);
    }
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

/// Bytes that may wait to be received from this socket, the kernel's own bookkeeping included (SO_SNDBUF).
pub fn send_buffer_bytes(socket: impl AsFd) -> Result<usize> {
    sockopt::socket_send_buffer_size(socket).context("read", || "the send buffer of a socket")
}

/// Asks for a send buffer of `bytes`, which the kernel doubles and silently limits to `net.core.wmem_max`: read it back.
pub fn set_send_buffer_bytes(socket: impl AsFd, bytes: usize) -> Result<()> {
    sockopt::set_socket_send_buffer_size(socket, bytes)
        .context("set the send buffer of a socket to", || format!("{bytes} bytes"))
}

/// Has the other end of this Unix socket received all that was sent from here (SIOCOUTQ is 0)?
pub fn is_all_received(socket: impl AsFd) -> Result<bool> {
    let mut waiting_bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one `int`, which is ours. TIOCOUTQ is the number of SIOCOUTQ by linux/sockios.h.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting_bytes) };
    match done {
        0 => Ok(waiting_bytes == 0),
        _ => Err(Error::last("read", "what waits in a socket")),
    }
}

/// Bytes that may wait at this socket, the kernel's own bookkeeping included (SO_RCVBUF).
pub fn receive_buffer_bytes(socket: impl AsFd) -> Result<usize> {
    sockopt::socket_recv_buffer_size(socket).context("read", || "the receive buffer of a socket")
}

/// Asks for a receive buffer of `bytes`; as [`set_send_buffer_bytes`], with `net.core.rmem_max`.
pub fn set_receive_buffer_bytes(socket: impl AsFd, bytes: usize) -> Result<()> {
    sockopt::set_socket_recv_buffer_size(socket, bytes)
        .context("set the receive buffer of a socket to", || format!("{bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;

    fn every_pair() -> [(&'static str, OwnedFd, OwnedFd); 3] {
        let ((a, b), (c, d), (e, f)) =
            (seqpacket_pair().unwrap(), stream_pair().unwrap(), datagram_pair().unwrap());
        [("seqpacket", a, b), ("stream", c, d), ("datagram", e, f)]
    }

    #[test]
    fn descriptors_arrive_in_order_with_their_message() {
        for (name, near, far) in every_pair() {
            for count in [0, 1, 2, 3, 7, FDS_MAX] {
                let files: Vec<OwnedFd> =
                    (0..count).map(|i| crate::memory::memfd("sent", i as u64).unwrap()).collect();
                let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                send_with_fds(&near, b"hello", &borrowed).unwrap();
                let mut buf = [0; 16];
                let (len, fds) = recv_with_fds(&far, &mut buf, count).unwrap();
                assert_eq!(&buf[..len], b"hello", "{name}");
                let lengths: Vec<i64> = fds.iter().map(|fd| rustix::fs::fstat(fd).unwrap().st_size).collect();
                assert_eq!(lengths, (0..count as i64).collect::<Vec<_>>(), "{name}");
                for fd in fds {
                    let flags = rustix::io::fcntl_getfd(&fd).unwrap();
                    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{name}");
                }
            }
        }
    }

    #[test]
    fn what_was_sent_and_not_received_is_seen_by_the_sender() {
        for (name, near, far) in every_pair() {
            assert!(is_all_received(&near).unwrap(), "{name}");
            send_with_fds(&near, b"hello", &[]).unwrap();
            assert!(!is_all_received(&near).unwrap(), "{name}");
            assert!(is_all_received(&far).unwrap(), "{name}: nothing was sent from there");
            assert_eq!(recv_with_fds(&far, &mut [0; 16], 0).unwrap().0, 5);
            assert!(is_all_received(&near).unwrap(), "{name}");
        }
        let file = crate::memory::memfd("no-socket", 1).unwrap();
        assert!(is_all_received(file).is_err());
    }

    #[test]
    fn too_many_descriptors_or_none_to_carry_them_are_refused() {
        let (near, far) = seqpacket_pair().unwrap();
        let many = vec![far.as_fd(); FDS_MAX + 1];
        assert_eq!(send_with_fds(&near, b"x", &many).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(send_with_fds(&near, b"", &many[..1]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_long_message_on_a_stream_is_sent_whole() {
        let (near, far) = stream_pair().unwrap();
        let bytes: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| send_with_fds(&near, &bytes, &[near.as_fd()]).unwrap());
            let mut got = Vec::new();
            let mut descriptors = 0;
            while got.len() < bytes.len() {
                let mut buf = [0; 70_000];
                let (len, fds) = recv_with_fds(&far, &mut buf, 1).unwrap();
                assert!(len > 0);
                got.extend_from_slice(&buf[..len]);
                descriptors += fds.len();
            }
            assert!(got == bytes);
            assert_eq!(descriptors, 1);
        });
    }

    #[test]
    fn sending_to_a_closed_end_is_an_error_and_no_signal() {
        let (near, far) = seqpacket_pair().unwrap();
        drop(far);
        assert_eq!(send_with_fds(&near, b"x", &[]).unwrap_err().raw_os_error(), Some(libc::EPIPE));
        assert_eq!(recv_with_fds(&near, &mut [0; 4], 1).unwrap().0, 0);
    }

    #[test]
    fn a_bound_socket_has_the_mode_that_was_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o666] {
            let path = dir.path().join(format!("{mode:o}"));
            let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
            bind_with_mode(&socket, &path, mode).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            let again = bind_with_mode(&socket, &path, mode).unwrap_err();
            assert!(matches!(again.raw_os_error(), Some(libc::EADDRINUSE | libc::EINVAL)), "{again}");
            chmod_socket(&path, rustix::fs::Mode::from_raw_mode(0o640)).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        }
    }

    #[test]
    fn a_socket_that_refuses_descriptors_takes_none_and_its_peer_still_does() {
        let (near, far) = seqpacket_pair().unwrap();
        if !refuse_descriptors(&near).unwrap() {
            return skipped(Cause::Kernel("SO_PASSRIGHTS"), "Linux 6.16 has it");
        }
        let refused = send_with_fds(&far, b"x", &[far.as_fd()]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "{refused}");
        send_with_fds(&near, b"x", &[near.as_fd()]).unwrap();
        assert_eq!(recv_with_fds(&far, &mut [0; 4], 1).unwrap().1.len(), 1);
        take_descriptors(&near).unwrap();
        send_with_fds(&far, b"x", &[far.as_fd()]).unwrap();
        assert_eq!(recv_with_fds(&near, &mut [0; 4], 1).unwrap().1.len(), 1);
    }

    #[test]
    fn buffers_are_at_least_what_was_asked_for() {
        let (near, _far) = stream_pair().unwrap();
        set_send_buffer_bytes(&near, 20_000).unwrap();
        set_receive_buffer_bytes(&near, 30_000).unwrap();
        assert!((20_000..100_000).contains(&send_buffer_bytes(&near).unwrap()));
        assert!((30_000..100_000).contains(&receive_buffer_bytes(&near).unwrap()));
    }
}
