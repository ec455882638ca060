//! What the kernel says about the process at the other end of a socket.
//!
//! # Safety
//! `getsockopt` is given local plain numbers with their true size.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Process, user and group at the other end when the connection was made, as the kernel recorded them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id in our PID namespace; 0 when the process is not in it. By now it may be another process's.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Credentials of the process that connected, listened, or made the pair (SO_PEERCRED); `ENOTCONN` or `ENODATA` without one.
pub fn peer_credentials(socket: impl AsFd) -> Result<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    option(socket.as_fd(), libc::SO_PEERCRED, &mut peer)
        .context("read", || "the credentials of a socket's peer")?;
    if peer.uid == u32::MAX {
        // What the kernel says of a socket that never had a peer.
        return Err(Error::new("read", "the credentials of a socket's peer", Errno::NOTCONN));
    }
    Ok(Credentials { pid: peer.pid as u32, uid: peer.uid, gid: peer.gid })
}

/// A descriptor of the process that connected, listened, or made the pair (SO_PEERPIDFD, Linux 6.5). Unlike the number
/// in [`peer_credentials`] it can never mean another process. Fails with `ENOPROTOOPT` on older kernels, `ENODATA`
/// without a peer, `ESRCH` when the process has been reaped (before 6.16).
pub fn peer_pidfd(socket: impl AsFd) -> Result<OwnedFd> {
    // Not in every version of libc's headers; 77 on all architectures that this crate is built for.
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: libc::c_int = -1;
    option(socket.as_fd(), SO_PEERPIDFD, &mut fd).context("get", || "a descriptor of a socket's peer")?;
    // SAFETY: the kernel has just made this descriptor for us (closed on exec, as all pidfds).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How the end of a peer is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// Not said.
    #[default]
    Unknown,
    /// By a descriptor of the very process that connected, in whatever namespace (SO_PEERPIDFD, Linux 6.5).
    PeerPidfd,
    /// By a descriptor of the process that had its number just after it connected.
    Pidfd,
    /// By the end of its connection alone: a child that it forked may hold that open after its end.
    Socket,
}

impl Liveness {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Liveness::Unknown => "unknown",
            Liveness::PeerPidfd => "peer-pidfd",
            Liveness::Pidfd => "pidfd",
            Liveness::Socket => "socket",
        }
    }
}

/// A descriptor of the process at the other end of a connection that it made itself, by the best means that there is, and which
/// that was. `pid` is its number in this namespace; 0 if it has none.
pub fn peer_process(socket: impl AsFd, pid: u32) -> (Option<OwnedFd>, Liveness) {
    if let Ok(pidfd) = peer_pidfd(socket) {
        return (Some(pidfd), Liveness::PeerPidfd);
    }
    match crate::process::pidfd_open(pid) {
        Ok(pidfd) => (Some(pidfd), Liveness::Pidfd),
        Err(_) => (None, Liveness::Socket),
    }
}

/// The label that a security module (SELinux, AppArmor, Smack) gave the process that connected, listened, or made the pair
/// (SO_PEERSEC). `None` where no module labels Unix sockets. Bytes that are no UTF-8 are replaced.
pub fn peer_security_label(socket: impl AsFd) -> Result<Option<String>> {
    let label = long_option(socket.as_fd(), libc::SO_PEERSEC, vec![0u8; 256])
        .context("read", || "the security label of a socket's peer")?
        .unwrap_or_default();
    let text = label.strip_suffix(&[0]).unwrap_or(&label);
    Ok((!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned()))
}

/// The supplementary groups of the peer (SO_PEERGROUPS, Linux 4.13); `None` where the kernel does not say them.
pub fn peer_groups(socket: impl AsFd) -> Result<Option<Vec<u32>>> {
    long_option(socket.as_fd(), libc::SO_PEERGROUPS, vec![0u32; 64])
        .context("read", || "the groups of a socket's peer")
}

/// Reads an option of SOL_SOCKET of any number of numbers; `numbers` is room for the usual ones. `None` where there is none.
fn long_option<T: Copy + Default>(
    socket: BorrowedFd<'_>,
    name: libc::c_int,
    mut numbers: Vec<T>,
) -> io::Result<Option<Vec<T>>> {
    loop {
        let mut len = size_of_val(numbers.as_slice()) as libc::socklen_t;
        let room = numbers.as_mut_ptr().cast();
        // SAFETY: the kernel writes at most `len` bytes into `numbers`, which has them; the callers' types are plain numbers.
        let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, room, &mut len) };
        let count = len as usize / size_of::<T>();
        if done == 0 {
            numbers.truncate(count);
            return Ok(Some(numbers));
        }
        match io::Error::last_os_error() {
            // The kernel says how many there are.
            error if error.raw_os_error() == Some(libc::ERANGE) && count > numbers.len() => {
                numbers.resize(count, T::default());
            }
            error if matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::ENODATA)) => {
                return Ok(None);
            }
            error => return Err(error),
        }
    }
}

/// Reads a socket option of level SOL_SOCKET into plain data of the kernel's layout.
fn option<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let room = std::ptr::from_mut(value).cast();
    // SAFETY: the kernel writes at most `len` bytes into `value`, which has them; the callers' types are plain numbers.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, room, &mut len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};
    use rustix::net::{AddressFamily, SocketType};

    use super::super::stream_pair;
    use super::*;

    #[test]
    fn the_peer_of_our_own_pair_is_this_process() {
        let (near, _far) = stream_pair().unwrap();
        let peer = peer_credentials(&near).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let own: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        match peer_groups(&near).unwrap() {
            Some(groups) => assert_eq!(groups, own),
            None => skipped(Cause::Kernel("SO_PEERGROUPS"), ""),
        }
        match peer_pidfd(&near) {
            Ok(pidfd) => {
                let info = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
                let info = std::fs::read_to_string(info).unwrap();
                assert!(info.contains(&format!("Pid:\t{}\n", std::process::id())), "{info}");
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT), "{error}");
                skipped(Cause::Kernel("SO_PEERPIDFD"), error);
            }
        }
    }

    #[test]
    fn a_socket_without_a_peer_has_no_credentials() {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        assert!(peer_credentials(&socket).is_err());
        assert!(peer_pidfd(&socket).is_err());
    }

    #[test]
    fn more_numbers_than_there_was_room_for_come_whole() {
        let (near, _far) = stream_pair().unwrap();
        let read = |room| long_option(near.as_fd(), libc::SO_PEERGROUPS, vec![0u32; room]).unwrap();
        assert_eq!(read(0), read(64));
    }
}
