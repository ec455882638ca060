//! A folder and a prefix of names for one run of a library that needs names, and how all of it is taken away.
//!
//! Libraries keep files, sockets and shared memory under names, and leave some of them even when all goes well. So every run
//! has a root and a prefix of its own. The coordinator makes the root before the peers start and takes all of it away when they
//! are gone, whether they cleaned up or were killed. Both names carry the coordinator's process id: when it is killed too, the
//! next start of this program takes them away.

use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mechanism::stale;
use crate::prelude::*;

/// Where the C library keeps named shared memory.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Root and prefix of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    what: &'static str,
    maker: u32,
    count: u64,
}

/// Takes away everything of a place when it is dropped.
pub(crate) struct Guard(Place);

impl Place {
    /// A new one for `what`, with its root made; gone when the guard is dropped.
    pub(crate) fn create(what: &'static str) -> io::Result<(Place, Guard)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let place = Place { what, maker: std::process::id(), count: COUNT.fetch_add(1, Ordering::Relaxed) };
        let guard = Guard(place);
        DirBuilder::new().mode(0o700).create(place.root())?;
        Ok((place, guard))
    }

    /// The one with the longest name that this program will have.
    #[cfg(feature = "iceoryx2")]
    pub(crate) fn longest(what: &'static str) -> Place {
        Place { what, maker: std::process::id(), count: 9_999 }
    }

    /// As a peer is handed it.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.maker.into(), self.count]
    }

    /// From what [`Place::words`] gave.
    pub(crate) fn of(what: &'static str, words: &[u64]) -> Place {
        let [maker, count] = words else { panic!("a place is two words, not {}", words.len()) };
        Place { what, maker: u32::try_from(*maker).expect("a process id"), count: *count }
    }

    fn name(self) -> String {
        stale::name_by(self.maker, self.what, self.count)
    }

    /// The folder.
    pub(crate) fn root(self) -> PathBuf {
        std::env::temp_dir().join(self.name())
    }

    /// The beginning of names in [`SHARED_MEMORY`]. Ends so that no prefix of a process begins another one of it.
    pub(crate) fn prefix(self) -> String {
        self.name() + "_"
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // What is not there any more need not be taken away; what cannot be is tried again by the next start.
        let _ = fs::remove_dir_all(self.0.root());
        let prefix = self.0.prefix();
        for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
            if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Takes away the places for `what` of dead programs.
pub(crate) fn cleanup(what: &str) {
    stale::clean_up_dir(&std::env::temp_dir(), what, |root| {
        let _ = fs::remove_dir_all(root);
    });
    stale::clean_up_dir(Path::new(SHARED_MEMORY), what, |object| {
        let _ = fs::remove_file(object);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const WHAT: &str = "place-test";

    #[test]
    fn a_place_is_the_same_for_a_peer_and_no_prefix_begins_another() {
        let (first, second) =
            (Place { what: WHAT, maker: 7, count: 1 }, Place { what: WHAT, maker: 7, count: 12 });
        assert_eq!(Place::of(WHAT, &first.words()), first);
        assert!(!second.prefix().starts_with(&first.prefix()));
    }

    #[test]
    fn a_dropped_guard_leaves_nothing_of_its_place_and_all_of_another() {
        let (place, guard) = Place::create(WHAT).unwrap();
        let (other, other_guard) = Place::create(WHAT).unwrap();
        let fill = |place: Place| {
            fs::create_dir(place.root().join("nodes")).unwrap();
            fs::write(place.root().join("nodes/details"), "x").unwrap();
            let object = Path::new(SHARED_MEMORY).join(place.prefix() + "data");
            fs::write(&object, "x").unwrap();
            object
        };
        let (object, other_object) = (fill(place), fill(other));
        drop(guard);
        assert!(!place.root().exists() && !object.exists());
        assert!(other.root().exists() && other_object.exists());
        drop(other_guard);
        assert!(!other.root().exists() && !other_object.exists());
    }

    #[test]
    fn what_a_dead_program_left_is_taken_away_and_what_a_living_one_has_is_not() {
        let mut child = Command::new("/bin/sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        let place = Place { what: WHAT, maker: child.id(), count: 3 };
        let object = Path::new(SHARED_MEMORY).join(place.prefix() + "data");
        fs::create_dir(place.root()).unwrap();
        fs::write(place.root().join("services"), "x").unwrap();
        fs::write(&object, "x").unwrap();
        cleanup(WHAT);
        assert!(place.root().exists() && object.exists());
        drop(child.stdin.take());
        child.wait().unwrap();
        cleanup(WHAT);
        assert!(!place.root().exists() && !object.exists());
    }
}
