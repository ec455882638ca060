//! iceoryx2: publish-subscribe, polled (`wait=spin`, `yield`) or with its event service beside it (`wait=block`).
//!
//! Payloads are loaned, written where receivers find them, and read there. Everything that iceoryx2 names lies in a directory
//! of its own or begins with the same name, which the coordinator takes away when the peers are gone; see [`place`].

mod fan_out;
mod pair;
mod place;
mod port;

use weighbridge_lab::fan_out::subject;
use weighbridge_lab::subject::Subject;

pub use place::sweep;

/// Two ends.
pub const PAIRS: &[Subject] = &[Subject::of::<pair::Iceoryx2>()];
/// One publisher and many.
pub const FAN_OUT: &[Subject] = &[subject::<fan_out::Iceoryx2>()];

/// Its name in case ids.
const ID: &str = "iceoryx2";
