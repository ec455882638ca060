//! Connections: nobody can take all places, nor the descriptors of the application.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use causeway::log::layout::SUBSCRIBERS_MAX;
use causeway::{Access, Group, Policy};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{STRANGER, as_user, public_folder, public_group, until_all_have_left};
use crate::common::limits::{allow_many_descriptors, in_a_process_of_its_own};
use crate::common::wire::{Joined, connect, message};
use crate::common::{eventually_seen, group, served, small};

/// As many as there are places.
const VISITORS: usize = 2 * (1024 + 64) + 64;
/// Requests for connections of each visitor: few enough that the last visitor has begun within a second.
const REQUESTS: usize = 704;

/// The operation and the first word of the next answer; nothing at the end.
fn answer(socket: &OwnedFd) -> Option<(u8, u8)> {
    let mut bytes = [0; 64];
    let mut receive = || recv_with_fds(socket, &mut bytes, 6);
    // A server that has not read a request resets the connection; what it said before comes after that.
    let (length, _) = receive().or_else(|_| receive()).unwrap();
    (length > 0).then_some((bytes[8], bytes[12]))
}

fn check_that_others_get_in(group: &Group, path: &Path) {
    group.publisher().unwrap();
    group.subscribe(Policy::Reliable).unwrap();
    Group::join(path).unwrap().subscribe(Policy::Reliable).unwrap();
    File::open("/proc/self/stat").unwrap();
}

/// All the connections that another user gets, if this one may try.
fn visitors(path: &Path) -> Option<Vec<OwnedFd>> {
    as_user(STRANGER, || (0..VISITORS).map(|_| connect(path)).collect())
}

/// Before, a user outside the rules took all places: the creator itself got no connection.
#[test]
fn visitors_that_the_rules_do_not_admit_take_no_places() {
    allow_many_descriptors();
    let (_dir, path, group) =
        public_group(small().several_publishers().subscribers(Access::Users([STRANGER + 1].into())));
    let Some(visitors) = visitors(&path) else { return };
    for visitor in &visitors {
        assert_eq!((answer(visitor), answer(visitor)), (Some((17, 1)), None));
    }
    check_that_others_get_in(&group, &path);
    // A request that comes after the refusal is refused for the same reason.
    let refused =
        as_user(STRANGER, || Group::join(&path).unwrap().subscribe(Policy::Lossy).map(drop)).unwrap();
    assert!(refused.unwrap_err().to_string().contains("access rule"));
}

/// Before, one user that is admitted took all places as well, and at a limit of 1024 open files all descriptors.
#[test]
fn one_user_takes_no_more_than_its_share() {
    allow_many_descriptors();
    let (_dir, path, group) = public_group(small().several_publishers().subscribers(Access::AnyUser));
    let Some(visitors) = visitors(&path) else { return };
    // Served after all of them.
    check_that_others_get_in(&group, &path);
    let another = as_user(STRANGER + 1, || Group::join(&path).unwrap().subscribe(Policy::Lossy).unwrap());
    drop((visitors, another));
}

/// Before, a connection got hundreds more by request, whose far ends lay unread in its queue: four of them took all places.
#[test]
fn connections_that_are_requested_count_for_the_user_who_requests_them() {
    let (_dir, path, group) = public_group(small().several_publishers().subscribers(Access::AnyUser));
    let Some(visitors) = as_user(STRANGER, || {
        let visitors: Vec<_> = (0..4).map(|_| connect(&path)).collect();
        for visitor in &visitors {
            let another = message(5, &[]);
            for _ in 0..REQUESTS {
                let Err(error) = send_with_fds(visitor, &another, &[]) else { continue };
                // The server has refused one and sent the visitor away before it requested the rest.
                assert_eq!(error.raw_os_error(), Some(Errno::PIPE.raw_os_error()), "{error}");
                break;
            }
        }
        visitors
    }) else {
        return;
    };
    // Served after all of that.
    check_that_others_get_in(&group, &path);
    // A visitor that is sent away after a refusal gives its places back, others get them, and all of that may still be under way.
    let mut seen = (vec![0u32; visitors.len()], 0);
    let look = || {
        let (held, refused) = &mut seen;
        for (visitor, granted) in visitors.iter().zip(held.iter_mut()) {
            rustix::io::ioctl_fionbio(visitor, true).unwrap();
            let mut bytes = [0; 64];
            loop {
                match recv_with_fds(visitor, &mut bytes, 1) {
                    Ok((0, _)) => break *granted = 0,
                    Ok(_) => {
                        *granted += u32::from(bytes[8] == 16);
                        *refused += u32::from(bytes[8] == 17);
                    }
                    Err(error) if error.raw_os_error() == Some(Errno::CONNRESET.raw_os_error()) => {}
                    Err(_) => break,
                }
            }
        }
        seen.clone()
    };
    eventually_seen("held by each, refused", look, |(held, refused)| {
        held.iter().sum::<u32>() <= SUBSCRIBERS_MAX as u32 / 3 && *refused > 0
    });
}

/// Before, a visitor could stay for ever without a request.
#[test]
fn a_visitor_that_requests_nothing_is_sent_away_and_one_that_does_stays() {
    let (_dir, path, group) = served(small());
    let silent = connect(&path);
    let mut subscriber = Group::join(&path).unwrap().subscribe(Policy::Reliable).unwrap();
    let invited = group.invite().unwrap();
    assert_eq!((answer(&silent), answer(&silent)), (Some((17, 10)), None));
    group.publisher().unwrap().try_publish(b"still there").unwrap();
    assert!(subscriber.recv().unwrap().message().is_some());
    // A process that was invited may start later.
    Group::join_socket(invited).unwrap().subscribe(Policy::Lossy).unwrap();
}

/// Before, a subscriber that sent nonsense all the time kept the server's thread busy all the time.
#[test]
fn a_peer_that_sends_nonsense_is_not_listened_to_for_ever() {
    let (_dir, path, group) = served(small());
    let peer = connect(&path);
    let peer = Joined::with_policy(peer, [3, 0]).unwrap().socket;
    let nonsense = || rustix::net::send(&peer, &[7; 64], SendFlags::DONTWAIT);
    let everything_is_read = || drop(Group::join(&path).unwrap().report().unwrap());
    let mut sent = 0;
    for _ in 0..100 {
        while nonsense().is_ok() {
            sent += 1;
            assert!(sent < 100_000, "the server reads all of it");
        }
        everything_is_read();
    }
    assert_eq!(nonsense(), Err(Errno::AGAIN));
    assert_eq!(group.report().unwrap().subscribers.len(), 1);
    drop(peer);
    until_all_have_left(&group);
}

/// At the usual limit of open files, other users cannot take all descriptors of the application.
#[test]
fn at_1024_open_files_the_application_can_still_open_files() {
    in_a_process_of_its_own("with-1024-files", 0);
}

pub fn with_1024_files(path: &Path, _: u64) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(1024), ..limit }).unwrap();
    let (dir, _) = public_folder();
    let path = dir.path().join(path.file_name().unwrap());
    let group = group(small().several_publishers().subscribers(Access::AnyUser));
    group.serve_at(&path).unwrap();
    // The far ends are the attackers' own cost: here they are closed by a shutdown of nothing, and counted.
    let mut held = Vec::new();
    for user in STRANGER..STRANGER + 8 {
        let Some(connections) = as_user(user, || {
            let subscribe = || Some(Joined::with_policy(connect(&path), [3, 0]).ok()?.socket);
            (0..64).map_while(|_| subscribe()).collect::<Vec<_>>()
        }) else {
            return;
        };
        held.extend(connections);
    }
    assert!((8..=128).contains(&held.len()), "{} subscribers of other users", held.len());
    check_that_others_get_in(&group, &path);
}
