//! A member forks a child, which has its socket and its list of sockets, and is not a member.
//!
//! # Safety
//!
//! The child only drops what it has inherited and waits: the other thread of its parent, which sleeps in the kernel, holds no lock meanwhile.
#![allow(unsafe_code)]

use causeway_bus::{Connection, Error, Incoming};
use nix::unistd::ForkResult;

use crate::support::*;

const NAME: &str = "com.example.Parent";
const TOLD: i32 = 7;

#[test]
fn role() {
    let Some((role, socket, _)) = play() else { return };
    if role == "authority" {
        return serve_alone(&socket, 0);
    }
    let mut member = Connection::open(socket).unwrap();
    let (has_dropped, dropped) = rustix::pipe::pipe().unwrap();
    let own = std::process::id();
    // SAFETY: see the text of this file.
    match unsafe { nix::unistd::fork() }.unwrap() {
        ForkResult::Child => {
            causeway_os::process::die_with(own).unwrap();
            // In the other role the child keeps its copy of the socket.
            if role == "waits" {
                drop(member)
            } else {
                std::mem::forget(member)
            }
            rustix::io::write(&dropped, b"x").unwrap();
            loop {
                std::thread::sleep(PATIENCE);
            }
        }
        ForkResult::Parent { .. } => {
            // Its own end, so that the end of the child is one of the pipe.
            drop(dropped);
            assert_eq!(rustix::io::read(&has_dropped, &mut [0; 1]), Ok(1));
            // The name is shown before its request is answered.
            match member.request_name(NAME, 0) {
                Err(Error::AuthorityGone) => std::process::exit(TOLD),
                outcome => drop(outcome.unwrap()),
            }
        }
    }
    loop {
        match member.next(Some(PATIENCE)) {
            Ok(Some(Incoming::AuthorityGone)) | Err(Error::AuthorityGone) => std::process::exit(TOLD),
            Ok(Some(Incoming::Call(_))) => break,
            // What the bus says when a name is acquired.
            Ok(Some(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(member);
    loop {
        std::thread::sleep(PATIENCE);
    }
}

#[test]
fn a_child_that_drops_the_connection_of_its_parent_takes_nothing_from_it() {
    let mut served = Served::start(module_path!());
    let other = served.member();
    let mut parent = start_role(module_path!(), "waits", &served.path(), 0);
    eventually("it has no name", || other.name_owner(NAME).is_some());
    served.process.kill();
    assert_eq!(parent.wait().code(), Some(TOLD), "the parent was not told that the bus has ended");
}

#[test]
fn a_member_that_was_dropped_ends_although_a_child_has_its_socket() {
    let bus = Bus::start();
    let mut other = bus.member();
    let parent = start_role(module_path!(), "leaves", &bus.path(), 0);
    eventually("it has no name", || other.name_owner(NAME).is_some());
    other.call_without_reply(NAME, PATH, INTERFACE, "Leave", causeway_bus::wire::Body::default()).unwrap();
    eventually("the name stays with a child that is not a member", || other.name_owner(NAME).is_none());
    assert!(proc::state(parent.pid()).is_some_and(|state| state != 'Z'), "it has ended");
}
