//! The mechanisms. Each has one line in the list below and one file, which those of one kind share.

pub(crate) mod backing;
mod copying;
mod doorbell;
pub(crate) mod fd;
mod socket;
pub mod stale;

mod buffers_barrier;
pub(crate) mod causeway;
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

pub use stale::cleanup;

use crate::target::Target;

/// Every mechanism, in the order in which people read of them.
pub const ALL: &[Target] = &[
    Target::of::<noop::Noop>(),
    Target::of::<pipe::Pipe>(),
    Target::of::<pipe_packet::PipePacket>(),
    Target::of::<fifo::Fifo>(),
    Target::of::<unix_socket::UnixSocket<unix_socket::Stream>>(),
    Target::of::<unix_socket::UnixSocket<unix_socket::Seqpacket>>(),
    Target::of::<unix_socket::UnixSocket<unix_socket::Dgram>>(),
    Target::of::<tcp::Tcp>(),
    Target::of::<udp::Udp>(),
    Target::of::<mq_posix::MqPosix>(),
    Target::of::<msg_sysv::MsgSysv>(),
    Target::of::<ring::Ring<doorbell::Spin>>(),
    Target::of::<ring::Ring<doorbell::Futex>>(),
    Target::of::<ring::Ring<doorbell::EventFd>>(),
    Target::of::<buffers_barrier::BuffersBarrier>(),
    Target::of::<causeway::Causeway<causeway::OneWriter>>(),
    Target::of::<causeway::Causeway<causeway::ManyWriters>>(),
    Target::of::<memfd_pass::MemfdPass>(),
    Target::of::<vmsplice::Vmsplice>(),
    Target::of::<process_vm::ProcessVm>(),
    Target::of::<mock::Mock>(),
];
