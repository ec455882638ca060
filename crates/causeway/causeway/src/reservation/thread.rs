//! Starting a thread only if there are enough mappings for it.
//!
//! A thread that gets no mappings for its stack, its signal stack and its heap aborts the whole program. So mappings are made
//! and dropped again before the thread starts.

use std::io::{self, ErrorKind};
use std::thread::JoinHandle;

use causeway_os::memory::{self, Access, Mapping};
use causeway_os::process::without_signals;

/// Mappings that a new thread may need before it runs: two each for stack, signal stack and heap, and some for other threads
/// that map at the same time.
const MAPPINGS: usize = 16;

/// Starts a thread that takes no signals, unless this process is so short of mappings that the start would abort it.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let bare = |error: causeway_os::Error| {
        error.raw_os_error().map_or(ErrorKind::Other.into(), io::Error::from_raw_os_error)
    };
    let page = memory::memfd("causeway-reservation", memory::page_bytes() as u64).map_err(bare)?;
    let mapped: causeway_os::Result<Vec<Mapping>> = (0..MAPPINGS)
        .map(|_| Mapping::shared(&page, memory::page_bytes(), Access::ReadOnly)) // the same page each time, so that the mappings do not merge
        .collect();
    drop(mapped.map_err(bare)?);
    // A handler of the program that runs in a thread of the library would interrupt what others wait for.
    without_signals(|| std::thread::Builder::new().name(name.into()).spawn(work))
}
