//! The protocol of the socket, implemented without the library.
#![allow(dead_code)]

use std::os::fd::OwnedFd;
use std::path::Path;

use causeway::Group;
use causeway_os::memory::{Access, Mapping, Seals, add_seals};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// A message of the protocol.
pub fn message(op: u32, words: &[u32]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let head = [u32::from_le_bytes(*b"CWY1"), 9, op];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(head.iter().chain(words)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    // The formats that the sender has, where it says so.
    if matches!(op, 1 | 3 | 12 | 16 | 17 | 21 | 32) {
        offer(&mut bytes, [1, 2, 0, 0, 0]);
    }
    bytes
}

/// Changes the last five words: lowest and highest format, and features.
pub fn offer(message: &mut [u8; 64], words: [u32; 5]) {
    for (chunk, word) in message[44..].chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// What a subscriber of a real group of one user is given: status, log, page, doorbell, lifeline, wake page.
pub fn genuine(group: &Group) -> [OwnedFd; 6] {
    let socket = group.invite().unwrap();
    send_with_fds(&socket, &message(3, &[3, 0]), &[]).unwrap();
    recv_with_fds(&socket, &mut [0; 64], 6).unwrap().1.try_into().unwrap()
}

/// Sends a request without descriptors, and returns the words of the answer.
pub fn ask(socket: &OwnedFd, op: u32, words: &[u32]) -> [u32; 16] {
    send_with_fds(socket, &message(op, words), &[]).unwrap();
    let mut answer = [0; 64];
    recv_with_fds(socket, &mut answer, 6).unwrap();
    std::array::from_fn(|at| u32::from_le_bytes(answer[at * 4..][..4].try_into().unwrap()))
}

/// A connection to the group at `path`.
pub fn connect(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// A subscriber that has joined by hand, with all that it was given.
pub struct Joined {
    pub socket: OwnedFd,
    pub slot: u32,
    pub generation: u32,
    pub status: OwnedFd,
    pub log: OwnedFd,
    pub page_fd: OwnedFd,
    pub page: Mapping,
    pub doorbell: OwnedFd,
}

impl Joined {
    /// Joins with this policy: reliable is 0, lossy 3.
    pub fn new(path: &Path, policy: u32) -> Joined {
        Joined::with_policy(connect(path), [policy, 0])
            .unwrap_or_else(|reason| panic!("refused for the reason {reason}"))
    }

    /// Joins on this connection with the two words of a policy. Fails with the reason of a refusal.
    pub fn with_policy(socket: OwnedFd, policy: [u32; 2]) -> Result<Joined, u8> {
        // A server that has refused the visitor already does not take the request, which then precedes the refusal as a reset.
        let _ = send_with_fds(&socket, &message(3, &policy), &[]);
        let mut answer = [0; 64];
        let mut receive = || recv_with_fds(&socket, &mut answer, 6);
        let (_, fds) = receive().or_else(|_| receive()).unwrap();
        if answer[8] == 17 {
            return Err(answer[12]);
        }
        let mut fds = fds.into_iter();
        let [status, log, page_fd, doorbell] = std::array::from_fn(|_| fds.next().unwrap());
        let page = Mapping::shared(&page_fd, 4096, Access::ReadWrite).unwrap();
        add_seals(&page_fd, Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
        for step in [6, 7] {
            assert_eq!(ask(&socket, step, &[])[2], 16, "ready and placed are granted");
        }
        let word = |at: usize| u32::from_le_bytes(answer[at * 4..][..4].try_into().unwrap());
        Ok(Joined { slot: word(3), generation: word(4), socket, status, log, page_fd, page, doorbell })
    }
}
