//! The protocol of the socket, implemented without the library.
#![allow(dead_code)]

use std::os::fd::OwnedFd;

use causeway::Group;
use causeway_os::socket::{recv_with_fds, send_with_fds};

/// A message of the protocol.
pub fn message(op: u32, words: &[u32]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let head = [u32::from_le_bytes(*b"CWY1"), causeway::log::layout::ABI, op];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(head.iter().chain(words)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// What a subscriber of a real group is given: status, log, page, doorbell.
pub fn genuine(group: &Group) -> [OwnedFd; 4] {
    let socket = group.invite().unwrap();
    send_with_fds(&socket, &message(3, &[3, 0]), &[]).unwrap();
    recv_with_fds(&socket, &mut [0; 64], 4).unwrap().1.try_into().unwrap()
}
