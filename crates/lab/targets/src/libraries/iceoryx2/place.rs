//! Where iceoryx2 keeps what it needs, and whether there is room for it.
//!
//! It has files below a root directory and shared memory under names with a prefix, both those of a [`Place`]. What it leaves there
//! even when all goes well are directories, and what nodes share that come later.

use ::iceoryx2::prelude::{Config, FileName, Path as IoxPath, SemanticString};
use std::os::unix::ffi::OsStrExt;

use super::HEADER_BYTES;
use crate::place::{Guard, Place, SHARED_MEMORY};
use crate::prelude::*;

/// The rest of what the services of a run put there, generously.
const OTHER_BYTES: usize = 1 << 20;

/// iceoryx2's own short name: root and prefix stand one after the other in the address of a socket, which is short.
const WHAT: &str = "iox2";
/// Of the address of a Unix socket, without the zero at its end.
const ADDRESS_BYTES: usize = 107;
/// The name that iceoryx2 gives a listener's socket. Its number has 128 bits, of which the highest 32 count the ids of a
/// process, so that it has this many digits for the first 1,262 of them; an end makes a handful.
const SOCKET_NAME: &str = "99999999999999999999999999999999.event";

/// The place of a new run; gone when the guard is dropped.
pub(super) fn create() -> io::Result<(Place, Guard)> {
    Place::create(WHAT)
}

/// iceoryx2's defaults, in the place that a peer was handed. No file of the machine or the user has a say.
pub(super) fn config(words: &[u64]) -> io::Result<Config> {
    let place = Place::of(WHAT, words);
    let mut config = Config::default();
    let root = IoxPath::new(place.root().as_os_str().as_bytes()).map_err(io::Error::other)?;
    config.global.set_root_path(&root);
    config.global.prefix = FileName::new(place.prefix().as_bytes()).map_err(io::Error::other)?;
    Ok(config)
}

/// Takes away the places of dead programs.
pub(super) fn cleanup() {
    crate::place::cleanup(WHAT);
}

/// Is there shared memory for that number of messages, and is the temporary directory near enough for the sockets of those who
/// block? `remedy` is what a user can do about too many messages.
pub(super) fn fits(messages: usize, params: &CaseParams, remedy: &str) -> Result<(), Unsupported> {
    let message = params.payload_bytes.saturating_add(HEADER_BYTES);
    let needed = messages.saturating_mul(message).saturating_add(OTHER_BYTES);
    match shared_memory_bytes() {
        Ok(free) if (needed as u64) < free => fits_address(params.wait),
        Ok(free) => Err(Unsupported(format!(
            "queues for {messages} messages of {} bytes take {needed} bytes in {SHARED_MEMORY}, where {free} are free; \
             {remedy}, or raise it with mount -o remount,size=… {SHARED_MEMORY}",
            params.payload_bytes
        ))),
        Err(error) => Err(Unsupported(format!("{SHARED_MEMORY} cannot be used: {error}"))),
    }
}

fn shared_memory_bytes() -> io::Result<u64> {
    let system = rustix::fs::statvfs(SHARED_MEMORY)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Is the temporary directory near enough for the socket that a listener needs?
fn fits_address(wait: Wait) -> Result<(), Unsupported> {
    let place = Place::longest(WHAT);
    let len = place.root().as_os_str().len() + 1 + place.prefix().len() + SOCKET_NAME.len();
    if wait == Wait::Block && len > ADDRESS_BYTES {
        return Err(Unsupported(format!(
            "the sockets of its event service would have addresses of {len} bytes below {}, and {ADDRESS_BYTES} is the \
             most; set TMPDIR to a shorter path",
            std::env::temp_dir().display()
        )));
    }
    Ok(())
}
