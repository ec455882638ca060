//! Properties that are not examined with native members, and how experiments connect.

use causeway_bus::ConnectionOptions;
use causeway_bus::client::{Bus, Error};

/// Of a native member: its messages that others have not read yet. Longer ones than a quarter go another way.
const OUTBOX_BYTES: u64 = 32 << 20;

/// Connects to the bus at an address: as a native member where it is one of a bus of those, else by a socket.
///
/// # Errors
/// No bus answers there, or it does not let this process in.
pub fn connect(address: &str) -> Result<Bus, Error> {
    Bus::open_with(address, ConnectionOptions { outbox_bytes: OUTBOX_BYTES, ..ConnectionOptions::default() })
}

const BYTES: &str = "a native member has no stream of bytes that could hold something else than messages; the tests of causeway-bus write wild bytes into its memory";

/// Properties that are not examined with native members, and why.
pub const NOT_EXAMINED: &[(&str, &str)] = &[
    ("invalid-headers", BYTES),
    ("invalid-bodies", BYTES),
    ("unknown-type", BYTES),
    ("before-hello", "a native member joins over the control socket, and there is no Hello"),
    ("second-hello", "a native member joins over the control socket, and there is no Hello"),
    ("missing-descriptors", "the library of a native member says how many descriptors come with a message"),
    ("equal-serials", "the library of a native member gives its messages their serials"),
];
