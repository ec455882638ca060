//! Where iceoryx2 puts its names in a run, and how they go away.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use iceoryx2::prelude::{Config, FileName, Path as IoxPath, SemanticString};
use weighbridge_lab::mechanism::leftovers;

const WHAT: &str = "iceoryx2";
/// Directories in which it makes names: its own root lies in the first, its shared memory in the second.
const DIRS: [&str; 2] = ["/tmp", "/dev/shm"];

/// Takes away what dead programs left.
pub fn sweep() {
    for dir in DIRS {
        leftovers::sweep_dir(Path::new(dir), WHAT, remove);
    }
}

fn remove(path: &Path) {
    // What cannot be taken away stays; the next one tries again.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// A place for one run. Dropped, it takes away everything in it.
#[derive(Debug)]
pub struct Place(String);

impl Place {
    /// A place that nobody else has.
    pub fn new() -> Place {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Place(leftovers::name(WHAT, COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// What a peer needs to find it: the words of a handoff.
    pub fn words(&self) -> Vec<u64> {
        let numbers =
            self.0.rsplit('-').take(2).map(|number| number.parse().expect("a name ends in two numbers"));
        numbers.collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for dir in DIRS {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let rest = name.to_str().and_then(|name| name.strip_prefix(&self.0));
                if rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit())) {
                    remove(&entry.path());
                }
            }
        }
    }
}

/// iceoryx2 set up for the place that these words name.
///
/// # Errors
/// A name that iceoryx2 does not take.
pub fn config(words: &[u64]) -> io::Result<Config> {
    let [count, pid] = words else { return Err(io::Error::other("a place has two words")) };
    let name = format!("{}{WHAT}-{pid}-{count}", leftovers::PREFIX);
    let mut config = Config::default();
    let root = IoxPath::new(format!("{}/{name}", DIRS[0]).as_bytes()).map_err(super::port::error)?;
    config.global.set_root_path(&root);
    config.global.prefix = FileName::new(format!("{name}-").as_bytes()).map_err(super::port::error)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_takes_its_own_names_away_and_no_others() {
        let place = Place::new();
        let (own, other) = (format!("/tmp/{}", place.0), format!("/tmp/{}9-x", place.0));
        fs::create_dir_all(format!("{own}/services")).unwrap();
        fs::write(format!("{own}-segment"), b"x").unwrap();
        fs::write(&other, b"x").unwrap();
        assert!(config(&place.words()).unwrap().global.root_path().to_string().contains(&place.0));
        drop(place);
        assert!(!Path::new(&own).exists() && !Path::new(&format!("{own}-segment")).exists());
        assert!(Path::new(&other).exists());
        fs::remove_file(other).unwrap();
    }
}
