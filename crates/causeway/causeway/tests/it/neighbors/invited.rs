//! A process that was invited, and whose inviter ends.

use std::path::Path;

use causeway::{Group, Policy};
use causeway_os::socket::{recv_with_fds, send_with_fds};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, socket_with};
use std::os::fd::AsFd;

use crate::common::wire::connect;
use crate::common::{Peer, next, served, small};

/// Joins the group, hands an invitation over, and ends.
pub fn launch(path: &Path, _: u64) {
    let invitation = Group::join(path).unwrap().invite().unwrap();
    send_with_fds(connect(&path.with_extension("hand")), b"x", &[invitation.as_fd()]).unwrap();
}

/// Before, the server took the process that had made the connection for the one that used it: when the launcher ended, the
/// subscriber that it had invited was thrown out, and told that the publishers were gone.
#[test]
fn an_invited_subscriber_outlives_its_inviter() {
    let (_dir, path, group) = served(small());
    let mut publisher = group.publisher().unwrap();
    let hand = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&hand, &SocketAddrUnix::new(path.with_extension("hand")).unwrap()).unwrap();
    rustix::net::listen(&hand, 1).unwrap();
    let mut launcher = Peer::start("launch", &path, 0);
    let handed = accept_with(&hand, SocketFlags::CLOEXEC).unwrap();
    let invitation = recv_with_fds(&handed, &mut [0; 4], 1).unwrap().1.remove(0);
    let mut subscriber = Group::join_socket(invitation).unwrap().subscribe(Policy::Reliable).unwrap();
    launcher.succeed();
    // The server looks at deaths before requests.
    let report = Group::join(&path).unwrap().report().unwrap();
    assert_eq!(report.subscribers.len(), 1, "{report:?}");
    publisher.try_publish(b"after the launcher").unwrap();
    assert_eq!(next(&mut subscriber), b"after the launcher");
}
