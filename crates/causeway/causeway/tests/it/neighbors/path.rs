//! The socket's file: what a server makes, replaces and removes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway::{Access, Error, Group};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::common::limits::in_a_process_of_its_own;
use crate::common::{group, place, served, small};

/// What a killed server leaves: a socket without a listener.
fn abandon_a_socket(path: &Path) {
    let left = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&left, &SocketAddrUnix::new(path).unwrap()).unwrap();
}

/// Before, the drop removed whatever lay at the path by then.
#[test]
fn a_server_does_not_remove_the_socket_of_another_program() {
    let (dir, path, group) = served(small());
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(group);
    assert!(path.exists(), "the socket of the other program was removed");
}

/// Before, the path was taken relative to the directory at the end: a file of the user was deleted.
#[test]
fn a_server_that_changes_its_directory_removes_its_socket_and_nothing_else() {
    in_a_process_of_its_own("change-directory", 0);
}

pub fn change_directory(_: &Path, _: u64) {
    let (served, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::env::set_current_dir(served.path()).unwrap();
    let group = Group::create("relative", small()).unwrap();
    group.serve_at("group").unwrap();
    let joined = Group::join("group").unwrap();
    std::fs::write(other.path().join("group"), "a user's file").unwrap();
    std::env::set_current_dir(other.path()).unwrap();
    // Before, a relative path led nowhere now.
    joined.report().unwrap();
    drop(group);
    assert!(other.path().join("group").exists(), "a user's file was removed");
    let left: Vec<_> = std::fs::read_dir(served.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    std::env::set_current_dir("/").unwrap();
}

#[test]
fn a_group_is_not_served_where_another_one_is_and_its_socket_ends_with_it() {
    let (_dir, path, first) = served(small());
    let second = Group::create("second", small()).unwrap();
    assert!(second.serve_at(&path).is_err());
    drop(first);
    assert!(!path.exists(), "the socket outlived its group");
    abandon_a_socket(&path);
    second.serve_at(&path).unwrap();
    assert!(Group::join(&path).is_ok());
}

/// Before, the second server could remove the socket that the first had made in place of the abandoned one, and both said Ok.
#[test]
fn one_of_two_servers_that_find_an_abandoned_socket_replaces_it() {
    let (_dir, path) = place();
    for round in 0..300 {
        abandon_a_socket(&path);
        let groups = [group(small()), group(small())];
        let start = Barrier::new(2);
        let served = std::thread::scope(|scope| {
            groups
                .each_ref()
                .map(|group| scope.spawn(|| (start.wait(), group.serve_at(&path)).1))
                .map(|it| it.join().unwrap())
        });
        let winners = served.iter().filter(|served| served.is_ok()).count();
        assert_eq!(winners, 1, "round {round}: {served:?}");
        Group::join(&path).unwrap();
        drop(groups);
        assert!(!path.exists());
    }
}

/// Before, the mode was set by path after the socket was made: a user who could write the directory could put a link in its place,
/// and the server gave everybody a file of its own user.
#[test]
fn a_link_in_place_of_the_socket_changes_the_mode_of_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file, link) = (dir.path().join("group"), dir.path().join("secret"), dir.path().join("link"));
    std::fs::write(&file, "secret").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = symlink(&file, &link);
                let _ = std::fs::rename(&link, &path);
                let _ = std::fs::remove_file(&path);
            }
        });
        for _ in 0..300 {
            let group = Group::create("linked", small().subscribers(Access::AnyUser)).unwrap();
            let _ = group.serve_at(&path);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(&file).unwrap(), b"secret");
}

/// Before, a file was said to be a socket that no process listens on, or a path that another process serves.
#[test]
fn a_file_that_is_not_a_socket_is_called_that_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prices.csv");
    std::fs::write(&file, "1,2").unwrap();
    let group = Group::create("file", small()).unwrap();
    for error in [group.serve_at(&file).unwrap_err(), Group::join(&file).map(drop).unwrap_err()] {
        assert!(matches!(error, Error::Invalid { what: "path", .. }), "{error}");
        let sentence = error.to_string();
        assert!(sentence.contains("prices.csv is a file and not a socket; use another path"), "{sentence}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"1,2");
    assert!(group.serve_at(dir.path()).unwrap_err().to_string().contains("is a directory"));
    let error = Group::join(dir.path()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "path", .. }), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
