//! Who may join, who sees what, and who serves.

use std::os::unix::fs::PermissionsExt;

use causeway::{Access, Group, Policy};
use causeway_os::socket::recv_with_fds;

use super::{STRANGER, as_user, public_folder, public_group, request};
use crate::common::small;
use crate::common::wire::connect;

/// Before, the mode of the socket looked at the rule for subscribers only: an admitted publisher got EACCES.
#[test]
fn a_publisher_of_another_user_gets_in_where_subscribers_of_others_do_not() {
    let (_dir, path, group) =
        public_group(small().remote_publishers(1).publishers(Access::Users([STRANGER].into())));
    let Some(mut publisher) = as_user(STRANGER, || Group::join(&path).unwrap().publisher().unwrap()) else {
        return;
    };
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    publisher.try_publish(b"from a stranger").unwrap();
    assert_eq!(subscriber.recv().unwrap().message().unwrap().bytes, b"from a stranger");
    let refused =
        as_user(STRANGER, || Group::join(&path).unwrap().subscribe(Policy::Lossy).map(drop)).unwrap();
    assert!(refused.unwrap_err().to_string().contains("access rule"));
}

/// Before, a report was given to anybody who could connect, with the processes and users of all.
#[test]
fn a_report_says_nothing_to_the_forbidden_and_little_to_strangers() {
    let (_dir, path, group) = public_group(small().subscribers(Access::Users([STRANGER].into())));
    let _publisher = group.publisher().unwrap();
    let _own = group.subscribe(Policy::Reliable).unwrap();
    let forbidden = as_user(STRANGER + 1, || {
        let visitor = connect(&path);
        let _ = causeway_os::socket::send_with_fds(&visitor, &crate::common::wire::message(4, &[]), &[]);
        let mut answer = [0; 64];
        let mut receive = || recv_with_fds(&visitor, &mut answer, 0);
        receive().or_else(|_| receive()).unwrap();
        (answer[8], answer[12])
    });
    let Some(forbidden) = forbidden else { return };
    assert_eq!(forbidden, (17, 1));
    let (seen, subscriber) = as_user(STRANGER, || {
        let joined = Group::join(&path).unwrap();
        let subscriber = joined.subscribe(Policy::Lossy).unwrap();
        (joined.report().unwrap(), subscriber)
    })
    .unwrap();
    assert_eq!(seen.publishers.len(), 1);
    let users: Vec<u32> = seen.subscribers.iter().map(|subscriber| subscriber.uid).collect();
    assert_eq!(users, [STRANGER]);
    assert_eq!(group.report().unwrap().subscribers.len(), 2);
    drop(subscriber);
}

/// Whether a security module of this kernel labels the ends of Unix sockets.
fn has_socket_labels() -> bool {
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    modules.split(',').any(|module| ["selinux", "smack"].contains(&module))
}

/// Before, a program could not ask who serves the group that it joins.
#[test]
fn who_serves_a_group_can_be_asked() {
    let own = rustix::process::geteuid().as_raw();
    let group = Group::create("own", small()).unwrap();
    assert_eq!(group.server().unwrap().uid, own);
    let invited = Group::join_socket(group.invite().unwrap()).unwrap();
    assert_eq!(invited.server().unwrap().pid, std::process::id());
    // What this process is labeled with, as the file says that security modules fill; it cannot be read without one.
    let own_label = std::fs::read_to_string("/proc/self/attr/current").ok();
    let own_label = own_label.map(|label| label.trim_end_matches(['\0', '\n']).to_owned());
    for group in [&group, &invited] {
        let label = group.server().unwrap().security_label;
        assert!(label == own_label || label.is_none(), "{label:?} is not {own_label:?}");
        assert!(label.is_some() || !has_socket_labels(), "the module that labels sockets gave none");
    }
    let (dir, _) = public_folder();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = dir.path().join("group");
    let Some(_impostor) = as_user(STRANGER, || {
        let group = Group::create("impostor", small().subscribers(Access::AnyUser)).unwrap();
        group.serve_at(&path).unwrap();
        group
    }) else {
        return;
    };
    let server = Group::join(&path).unwrap().server().unwrap();
    assert_eq!((server.uid, server.pid), (STRANGER, std::process::id()));
}

/// By hand, because the library asks for more than one thing on a connection only in sequence.
#[test]
fn a_visitor_that_asked_for_a_report_may_still_subscribe() {
    let (_dir, path, _group) = public_group(small());
    let visitor = connect(&path);
    request(&visitor, 4, &[]);
    request(&visitor, 3, &[3, 0]);
    let mut answers = Vec::new();
    while answers.last() != Some(&16) {
        let mut answer = [0; 64];
        assert!(recv_with_fds(&visitor, &mut answer, 6).unwrap().0 > 0, "{answers:?}");
        answers.push(answer[8]);
    }
    assert_eq!(answers, [19, 20, 16]);
}
