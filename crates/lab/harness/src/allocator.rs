//! Allocators in place of the C library's: which there are, where this machine has them, and how a peer gets one.
//!
//! A peer is a fresh process, so it can be started with another allocator loaded in front of the C library. The case asks
//! for it with an axis; the coordinator sets the environment.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::axis::choice;
use crate::contract::Unsupported;
use crate::params::CaseParams;

choice! {
    /// Where `malloc` comes from.
    pub enum Allocator {
        /// The C library.
        System = "system",
        /// jemalloc.
        Jemalloc = "jemalloc",
        /// mimalloc.
        Mimalloc = "mimalloc",
        /// tcmalloc.
        Tcmalloc = "tcmalloc",
    }
    axis "allocator", default System: "whose malloc: the C library's, or another one loaded in front of it (LD_PRELOAD)"
}

/// What makes the dynamic linker load a library first.
pub const PRELOAD: &str = "LD_PRELOAD";

struct Known {
    allocator: Allocator,
    files: &'static [&'static str],
    package: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        allocator: Allocator::Jemalloc,
        files: &["libjemalloc.so.2", "libjemalloc.so"],
        package: "libjemalloc2",
    },
    Known {
        allocator: Allocator::Mimalloc,
        files: &["libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"],
        package: "libmimalloc2.0",
    },
    Known {
        allocator: Allocator::Tcmalloc,
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"],
        package: "libtcmalloc-minimal4",
    },
];

/// Its library, where one of the folders of Debian, Fedora and others has it.
fn find(known: &Known) -> Option<PathBuf> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    ["/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib"]
        .iter()
        .flat_map(|folder| [Path::new(folder).join(&multiarch), PathBuf::from(folder)])
        .flat_map(|folder| known.files.iter().map(move |file| folder.join(file)))
        .find(|path| path.exists())
}

fn wanted(params: &CaseParams) -> Option<&'static Known> {
    let allocator = params.choice_if_declared()?;
    KNOWN.iter().find(|known| known.allocator == allocator)
}

/// The library that a peer of this case must have loaded; none for the C library's own allocator.
pub fn library(params: &CaseParams) -> Option<PathBuf> {
    wanted(params).and_then(find)
}

/// Is the allocator that the case asks for installed?
pub fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    match wanted(params) {
        Some(known) if find(known).is_none() => {
            let (name, package) = (known.allocator.name(), known.package);
            Err(Unsupported(format!("{name} is not installed here; Debian has it in the package {package}")))
        }
        _ => Ok(()),
    }
}

/// In a peer: the file that malloc comes from; an error where that is not what the case asks for.
pub fn loaded(params: &CaseParams) -> io::Result<String> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let is_loaded = |known: &Known| known.files.iter().any(|file| maps.contains(file));
    match (wanted(params), KNOWN.iter().find(|known| is_loaded(known))) {
        (None, None) => Ok("the C library's".into()),
        (Some(wanted), Some(found)) if wanted.allocator == found.allocator => {
            Ok(find(found).map_or_else(|| found.allocator.name().into(), |path| path.display().to_string()))
        }
        (wanted, found) => {
            let [wanted, found] =
                [wanted, found].map(|of| of.map_or("the C library's", |known| known.allocator.name()));
            Err(io::Error::other(format!("malloc should be {wanted}, and is {found}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Choice;
    use weighbridge_record::CaseId;

    fn params(allocator: &str) -> CaseParams {
        let id = CaseId::new("solo", "alloc-reuse", 8, "free").with("allocator", allocator);
        CaseParams::new(&id, &[Allocator::AXIS], &[]).unwrap()
    }

    #[test]
    fn every_allocator_is_the_systems_or_known_and_there_or_refused_with_its_package() {
        for name in Allocator::NAMES {
            let params = params(name);
            let known = wanted(&params);
            assert_eq!(known.map_or("system", |known| known.allocator.name()), *name);
            match (fit(&params), library(&params), known) {
                (Ok(()), Some(path), Some(_)) => assert!(path.exists()),
                (Ok(()), None, None) => {}
                (Err(Unsupported(why)), None, Some(known)) => assert!(why.contains(known.package), "{why}"),
                other => panic!("{name}: {:?}", (other.0, other.1)),
            }
        }
    }

    #[test]
    fn a_peer_that_has_another_allocator_than_it_should_says_so() {
        assert!(loaded(&params("system")).is_ok());
        let why = loaded(&params("jemalloc")).unwrap_err().to_string();
        assert!(why.contains("should be jemalloc, and is the C library's"), "{why}");
    }
}
