//! A bound on the messages that are on their way from one role to another.
//!
//! A broker queues what its receiver has not read, and one without a bound drops messages or ends the connection. So the sender pays for each message,
//! and the receiver hands credit back over a socket of its own, which no broker sees: a byte for half of the depth.

use std::io;
use std::os::fd::OwnedFd;

use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::contract::Side;
use weighbridge_harness::params::CaseParams;

pub const DEPTH: Axis = Axis {
    name: "depth",
    default: "default",
    values: Values::Count,
    about: "messages of one sender that may be on their way in a stream or a fan-in; default is what fits 256 KiB, at least 2 and at most 64",
};
/// What is on its way should stay in a second-level cache.
const DEFAULT_BYTES: usize = 256 << 10;

/// How many messages of one sender may be on their way.
pub fn depth(params: &CaseParams) -> usize {
    let fits = || (DEFAULT_BYTES / params.payload_bytes.max(1)).clamp(2, 64);
    params.number(DEPTH.name).unwrap_or_else(fits)
}

/// One end of it.
#[derive(Debug)]
pub struct Credit {
    side: Side,
    socket: OwnedFd,
    depth: usize,
    /// Near: messages that may be sent. Far: messages that were taken since credit was handed back.
    count: usize,
}

impl Credit {
    /// For the sender (near) or the receiver (far).
    pub fn new(side: Side, socket: OwnedFd, depth: usize) -> Credit {
        Credit { side, socket, depth, count: if side == Side::Near { depth } else { 0 } }
    }

    pub fn depth(&self) -> usize {
        self.depth
    }

    fn step(&self) -> usize {
        self.depth.div_ceil(2)
    }

    /// Before a message is sent: waits until there may be one more.
    #[inline]
    pub fn spend(&mut self) -> io::Result<()> {
        debug_assert_eq!(self.side, Side::Near);
        while self.count == 0 {
            let mut bytes = [0; 16];
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.socket, &mut bytes))? {
                0 => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the receiver is gone")),
                bytes => self.count += bytes * self.step(),
            }
        }
        self.count -= 1;
        Ok(())
    }

    #[inline]
    pub fn earn(&mut self) -> io::Result<()> {
        self.count += 1;
        if self.count == self.step() {
            self.count = 0;
            let flags = rustix::net::SendFlags::NOSIGNAL;
            rustix::io::retry_on_intr(|| rustix::net::send(&self.socket, &[1], flags))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_os::socket::stream_pair;

    #[test]
    fn no_more_messages_are_on_their_way_than_the_depth_and_each_may_be_sent_at_last() {
        for depth in [1, 2, 3, 64] {
            let (pays, earns) = stream_pair().unwrap();
            let (mut near, mut far) =
                (Credit::new(Side::Near, pays, depth), Credit::new(Side::Far, earns, depth));
            let (mut sent, mut taken) = (0usize, 0usize);
            while sent < 1000 {
                // What may be sent without a wait is sent.
                while near.count > 0 {
                    near.spend().unwrap();
                    sent += 1;
                    assert!(sent - taken <= depth, "{} messages of {depth}", sent - taken);
                }
                for _ in 0..far.step() {
                    far.earn().unwrap();
                    taken += 1;
                }
                near.spend().unwrap();
                sent += 1;
            }
        }
    }

    #[test]
    fn a_sender_without_a_receiver_does_not_wait() {
        let (pays, earns) = stream_pair().unwrap();
        let mut near = Credit::new(Side::Near, pays, 1);
        near.spend().unwrap();
        drop(earns);
        assert_eq!(near.spend().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
