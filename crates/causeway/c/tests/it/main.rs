//! The C library: its headers, its symbols, and programs in C that are compiled and run.

#[macro_use]
extern crate causeway_testkit;

mod bindings;
mod every;
mod header;
mod installed;
mod programs;

use causeway_testkit::{eventually, play, temp_dir};

/// Serves a bus until it is killed.
#[test]
fn role() {
    if let Some((_, socket, _)) = play() {
        let (stop, _open) = std::os::unix::net::UnixStream::pair().unwrap();
        causewayd::serve_alone(&socket, causeway_bus::AuthorityOptions::default(), &stop.into(), || ())
            .unwrap();
    }
}

/// A bus of another process, in a folder that ends with it.
struct Bus {
    folder: causeway_testkit::TempDir,
    process: causeway_testkit::Peer,
}

impl Bus {
    fn start() -> Bus {
        let folder = temp_dir("c");
        let path = folder.path().join("bus");
        let process = causeway_testkit::Peer::start("bus", &path, 0);
        eventually("the bus comes up", || causeway_bus::Connection::open(&path).is_ok());
        Bus { folder, process }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}
