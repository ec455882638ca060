//! The mechanisms. Each has one line in the list below and one file, which those of one kind share.

pub(crate) mod backing;
mod copying;
mod doorbell;
pub(crate) mod fd;
mod socket;
pub mod stale;

mod buffers_barrier;
pub(crate) mod causeway;
mod causeway_call;
mod causeway_memfd;
mod fifo;
mod memfd_pass;
mod mock;
mod mq_posix;
pub(crate) mod msg_sysv;
mod noop;
mod pipe;
mod pipe_packet;
mod process_vm;
mod ring;
pub(crate) mod tcp;
mod udp;
mod unix_socket;
mod vmsplice;

#[cfg(test)]
pub(crate) use noop::Noop;

use crate::contract::Target;
use crate::pattern::target;

/// Every mechanism, in the order in which people read of them.
pub const ALL: &[Target] = &[
    target::<noop::Noop>(),
    target::<pipe::Pipe>(),
    target::<pipe_packet::PipePacket>(),
    target::<fifo::Fifo>(),
    target::<unix_socket::UnixSocket<unix_socket::Stream>>(),
    target::<unix_socket::UnixSocket<unix_socket::Seqpacket>>(),
    target::<unix_socket::UnixSocket<unix_socket::Dgram>>(),
    target::<tcp::Tcp>(),
    target::<udp::Udp>(),
    target::<mq_posix::MqPosix>(),
    target::<msg_sysv::MsgSysv>(),
    target::<ring::Ring<doorbell::Spin>>(),
    target::<ring::Ring<doorbell::Futex>>(),
    target::<ring::Ring<doorbell::EventFd>>(),
    target::<buffers_barrier::BuffersBarrier>(),
    target::<causeway::Causeway<causeway::OneWriter>>(),
    target::<causeway::Causeway<causeway::ManyWriters>>(),
    target::<causeway_call::CausewayCall>(),
    target::<causeway_memfd::CausewayMemfd>(),
    target::<memfd_pass::MemfdPass>(),
    target::<vmsplice::Vmsplice>(),
    target::<process_vm::ProcessVm>(),
    target::<mock::Mock>(),
];

/// Removes what dead processes of this user have left of mechanisms that need names.
pub(crate) fn cleanup() {
    fifo::cleanup();
    mq_posix::cleanup();
    msg_sysv::cleanup();
}
