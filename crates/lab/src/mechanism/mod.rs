//! The mechanisms: one file each, and one line in the list below.

mod copying;
pub(crate) mod fd;

mod mock;
mod noop;
mod pipe;
mod ring;

use crate::subject::Subject;

/// Every mechanism, in the order in which people read of them.
pub const ALL: &[Subject] = &[
    Subject::of::<noop::Noop>(),
    Subject::of::<pipe::Pipe>(),
    Subject::of::<ring::Ring<ring::Spin>>(),
    Subject::of::<ring::Ring<ring::Futex>>(),
    Subject::of::<ring::Ring<ring::EventFd>>(),
    Subject::of::<mock::Mock>(),
];
