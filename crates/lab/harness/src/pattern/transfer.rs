//! One transfer of a known length in place of a stream without end: from the beginning of sending to the end of receiving.
//!
//! That is how akbench defines bandwidth. The window of a stream that flows already has neither the first message's way nor the
//! emptying of what is on its way at the end in it.

use crate::axis::{Axis, Values};
use crate::contract::{Caps, Unsupported};
use crate::params::CaseParams;

/// How many bytes are sent, once in a run.
pub const TRANSFER: Axis = Axis {
    name: "transfer",
    default: "default",
    values: Values::Bytes,
    about: "bytes that are sent once, in messages of the payload's size: the time goes from the beginning of sending, behind a barrier, \
            to the end of receiving, and is the one sample of a run. Default is a stream without end, timed in windows",
};

/// Messages of the one transfer of this case; `None` where it is a stream without end.
pub(crate) fn messages(params: &CaseParams) -> Option<u64> {
    Some(bytes(params)? / params.payload_bytes.max(1) as u64)
}

/// Bytes of the one transfer.
pub(crate) fn bytes(params: &CaseParams) -> Option<u64> {
    params.axes.get(TRANSFER.name)?.parse().ok()
}

/// Is it a whole number of messages, and do all of them arrive?
pub(crate) fn fit(caps: Caps, params: &CaseParams) -> Result<(), Unsupported> {
    let (Some(bytes), payload) = (bytes(params), params.payload_bytes as u64) else { return Ok(()) };
    if caps.has(Caps::LOSSY) {
        let why = format!(
            "{} may lose messages, so nobody knows when all of a transfer has come",
            params.id.mechanism
        );
        return Err(Unsupported(why));
    }
    if payload == 0 || bytes % payload != 0 {
        return Err(Unsupported(format!(
            "transfer={bytes} is no whole number of messages of {payload} bytes; take a multiple, such as {}",
            bytes.next_multiple_of(payload.max(1))
        )));
    }
    Ok(())
}
