//! What the tests of all crates share. A dev-dependency of any crate; it depends on none of ours.
//!
//! * [`eventually`], [`eventually_some`], [`eventually_seen`]: wait for something, at most [`PATIENCE`], and fail with what was seen.
//! * [`rerun`]: this test program once more, as another process that runs one test.
//! * [`Peer`]: this test program once more, in a role. [`Traced`]: a process under ptrace.
//! * [`Running`]: a process that is killed and reaped with its test.
//! * [`at_another_time`]: a process whose clocks differ.
//! * [`Freezer`]: processes that stand still together.
//! * [`temp_dir`], [`temp_file`]: a folder or file that ends with its test.
//! * [`help`]: the help of a program and of all its commands.
//! * [`heap`]: what the allocator has left for later.
//! * [`proc`]: what the kernel says of a process.
//! * [`fuzz`]: any bytes for a function, from a corpus and a seed.
//! * [`skipped`], [`has_program`], [`has_header`], [`is_root`], [`trial_succeeds`]: why a test does not run here.
//! * [`Rng`]: numbers that repeat from a seed.
//! * [`watchdog`]: the end of a test that hangs. One that compiles programs has more time: [`watchdog::extend_limit`].
//!
//! Waiting for an event is better than looking again and again: `eventually` is for what has no event to wait for.

// The names by which `#[test]` refers to this crate are valid in it, too.
#[cfg(test)]
extern crate self as causeway_testkit;
#[cfg(test)]
#[macro_use]
extern crate causeway_testkit_macros;

mod alarm;
mod frozen;
pub mod fuzz;
mod guardian;
#[cfg(target_env = "gnu")]
pub mod heap;
pub mod help;
mod peer;
pub mod proc;
mod process;
mod skip;
mod traced;
pub mod watchdog;

use std::fmt::Debug;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use std::{fs, io};

pub use causeway_testkit_macros::test;
pub use fastrand::Rng;
pub use frozen::{ControlGroup, Freezer};
pub use peer::{Peer, Role, play, setting};
pub use process::{Running, assert_ran, at_another_time, rerun};
pub use skip::{Cause, LIST, find_program, has_header, has_program, is_root, skipped, trial_succeeds};
pub use tempfile::{NamedTempFile, TempDir};
pub use traced::{Call, Traced, has_ptrace, stop_for_tracer};

/// How long a test waits for what must come: long enough for a machine that does ten other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(1);

/// Waits until `is_so`.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually_some(what, || is_so().then_some(()));
}

/// Waits until `look` finds something.
#[track_caller]
pub fn eventually_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        std::thread::sleep(PAUSE);
    }
}

/// Looks until `is_it` accepts what is seen, which it returns.
///
/// # Panics
/// With `what` and what was seen last, after [`PATIENCE`].
#[track_caller]
pub fn eventually_seen<T: Debug>(what: &str, mut look: impl FnMut() -> T, is_it: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let seen = look();
        if is_it(&seen) {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}, at last {seen:?}");
        std::thread::sleep(PAUSE);
    }
}

/// An empty folder for temporary files, removed when dropped, whose path is short enough for a socket. `name` tells whose.
///
/// # Panics
/// There is no such folder, or no space in it: processes of a test would fail there, and others would wait for them.
#[track_caller]
pub fn temp_dir(name: &str) -> TempDir {
    or_no_space(tempfile::Builder::new().prefix(&format!("{name}-")).tempdir().and_then(|folder| {
        let file = folder.path().join("space");
        fs::write(&file, "x")?;
        fs::remove_file(file)?;
        Ok(folder)
    }))
}

/// An empty temporary file, removed when dropped.
///
/// # Panics
/// As [`temp_dir`].
#[track_caller]
pub fn temp_file() -> NamedTempFile {
    or_no_space(NamedTempFile::new().and_then(|file| {
        file.as_file().write_all_at(b"x", 0)?;
        file.as_file().set_len(0)?;
        Ok(file)
    }))
}

#[track_caller]
fn or_no_space<T>(made: io::Result<T>) -> T {
    let place = std::env::temp_dir();
    made.unwrap_or_else(|error| {
        panic!("no temporary files in {place:?}: {error}; set TMPDIR to a folder with space")
    })
}

#[cfg(test)]
mod tests {
    use super::{eventually, eventually_seen, eventually_some};

    #[test]
    fn what_is_waited_for_is_returned() {
        let mut numbers = 0..;
        assert_eq!(eventually_seen("three", || numbers.next().unwrap(), |number| *number == 3), 3);
        assert_eq!(eventually_some("above five", || numbers.next().filter(|number| *number > 5)), 6);
        eventually("seven", || numbers.next() == Some(7));
    }
}
