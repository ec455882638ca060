//! Where iceoryx2 keeps what it needs, and how that is taken away.
//!
//! It has files below a root directory and shared memory under names with a prefix, and leaves some of both even when all
//! goes well: directories, and what nodes share that come later. So every run has a root and a prefix of its own. The
//! coordinator makes the root before the peers start and takes all of it away when they are gone, whether they cleaned up
//! or were killed. Both names carry the coordinator's process id: when it is killed too, the next start of this program takes them
//! away.

use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ::iceoryx2::prelude::{Config, FileName, Path as IoxPath, SemanticString};

use super::HEADER_BYTES;
use crate::mechanism::stale;
use crate::prelude::*;

/// Where the C library keeps named shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The rest of what the services of a run put there, generously.
const OTHER_BYTES: usize = 1 << 20;

/// iceoryx2's own short name: root and prefix stand one after the other in the address of a socket, which is short.
const WHAT: &str = "iox2";
/// Of the address of a Unix socket, without the zero at its end.
const ADDRESS_BYTES: usize = 107;
/// The name that iceoryx2 gives a listener's socket. Its number has 128 bits, of which the highest 32 count the ids of a
/// process, so that it has this many digits for the first 1,262 of them; an end makes a handful.
const SOCKET_NAME: &str = "99999999999999999999999999999999.event";

/// Root and prefix of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    maker: u32,
    count: u64,
}

/// Takes away everything of a place when it is dropped.
pub(super) struct Guard(Place);

impl Place {
    /// A new one, with its root made; gone when the guard is dropped.
    pub(super) fn create() -> io::Result<(Place, Guard)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let place = Place { maker: std::process::id(), count: COUNT.fetch_add(1, Ordering::Relaxed) };
        let guard = Guard(place);
        DirBuilder::new().mode(0o700).create(place.root())?;
        Ok((place, guard))
    }

    /// As a peer is handed it.
    pub(super) fn words(self) -> [u64; 2] {
        [self.maker.into(), self.count]
    }

    /// From what [`Place::words`] gave.
    pub(super) fn of(words: &[u64]) -> Place {
        let [maker, count] = words else { panic!("a place is two words, not {}", words.len()) };
        Place { maker: u32::try_from(*maker).expect("a process id"), count: *count }
    }

    /// iceoryx2's defaults, in this place. No file of the machine or the user has a say.
    pub(super) fn config(self) -> io::Result<Config> {
        let mut config = Config::default();
        let root = IoxPath::new(self.root().as_os_str().as_bytes()).map_err(io::Error::other)?;
        config.global.set_root_path(&root);
        config.global.prefix = FileName::new(self.prefix().as_bytes()).map_err(io::Error::other)?;
        Ok(config)
    }

    fn name(self) -> String {
        stale::name_by(self.maker, WHAT, self.count)
    }

    fn root(self) -> PathBuf {
        std::env::temp_dir().join(self.name())
    }

    /// Ends so that no prefix of a process begins another one of it.
    fn prefix(self) -> String {
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

/// Takes away the places of dead programs.
pub(super) fn cleanup() {
    stale::clean_up_dir(&std::env::temp_dir(), WHAT, |root| {
        let _ = fs::remove_dir_all(root);
    });
    stale::clean_up_dir(Path::new(SHARED_MEMORY), WHAT, |object| {
        let _ = fs::remove_file(object);
    });
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
    let place = Place { maker: std::process::id(), count: 9_999 };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_place_is_the_same_for_a_peer_and_no_prefix_begins_another() {
        let (first, second) = (Place { maker: 7, count: 1 }, Place { maker: 7, count: 12 });
        assert_eq!(Place::of(&first.words()), first);
        assert!(!second.prefix().starts_with(&first.prefix()));
        assert!(first.config().is_ok());
    }

    #[test]
    fn a_dropped_guard_leaves_nothing_of_its_place_and_all_of_another() {
        let (place, guard) = Place::create().unwrap();
        let (other, other_guard) = Place::create().unwrap();
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
        let place = Place { maker: child.id(), count: 3 };
        let object = Path::new(SHARED_MEMORY).join(place.prefix() + "data");
        fs::create_dir(place.root()).unwrap();
        fs::write(place.root().join("services"), "x").unwrap();
        fs::write(&object, "x").unwrap();
        cleanup();
        assert!(place.root().exists() && object.exists());
        drop(child.stdin.take());
        child.wait().unwrap();
        cleanup();
        assert!(!place.root().exists() && !object.exists());
    }
}
