//! The mechanisms: one file each, and one line in the list below.

mod backing;
mod copying;
mod doorbell;
pub(crate) mod fd;
pub mod leftovers;
mod socket;

mod buffers_barrier;
mod causeway;
mod fifo;
mod memfd_pass;
mod mock;
mod mq_posix;
pub(crate) mod msg_sysv;
mod noop;
mod pipe;
mod process_vm;
mod ring;
mod tcp;
mod udp;
mod unix_dgram;
mod unix_seqpacket;
mod unix_stream;
mod vmsplice;

pub use leftovers::sweep;

use crate::subject::Subject;

/// Every mechanism, in the order in which people read of them.
pub const ALL: &[Subject] = &[
    Subject::of::<noop::Noop>(),
    Subject::of::<pipe::Pipe>(),
    Subject::of::<fifo::Fifo>(),
    Subject::of::<unix_stream::UnixStream>(),
    Subject::of::<unix_seqpacket::UnixSeqpacket>(),
    Subject::of::<unix_dgram::UnixDgram>(),
    Subject::of::<tcp::Tcp>(),
    Subject::of::<udp::Udp>(),
    Subject::of::<mq_posix::MqPosix>(),
    Subject::of::<msg_sysv::MsgSysv>(),
    Subject::of::<ring::Ring<doorbell::Spin>>(),
    Subject::of::<ring::Ring<doorbell::Futex>>(),
    Subject::of::<ring::Ring<doorbell::EventFd>>(),
    Subject::of::<buffers_barrier::BuffersBarrier>(),
    Subject::of::<causeway::Causeway<causeway::OneWriter>>(),
    Subject::of::<causeway::Causeway<causeway::ManyWriters>>(),
    Subject::of::<memfd_pass::MemfdPass>(),
    Subject::of::<vmsplice::Vmsplice>(),
    Subject::of::<process_vm::ProcessVm>(),
    Subject::of::<mock::Mock>(),
];
