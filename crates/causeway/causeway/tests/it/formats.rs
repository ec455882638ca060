//! Members of different releases in one group: a log has a format that all of them have, and no message is lost, doubled or moved.
//!
//! A member of an older release is one that has no later format ([`Group::with_format_max`]); one of a later release is made here by
//! hand. `CAUSEWAY_ROLLS` sets how many logs the random test goes through; 10,000 is its long form.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::wire::{ask, connect, message, offer};
use crate::common::{
    LONG, Peer, Role, eventually, eventually_seen, join, next, nothing, resized, served, setting, small,
    subscribers, taken,
};
use crate::epochs::{Seen, all_see_the_same, late, publish_beside, publish_some_to, seeded};
use causeway::{Error, FORMATS, Group, GroupOptions, Policy, Refusal, SubscribeOptions, Subscriber};
use causeway_os::memory::{Access, Mapping, Seals, add_seals};
use causeway_os::socket::{recv_with_fds, send_with_fds, seqpacket_pair};

/// This group for members of the release before.
fn old(socket: &Path) -> Group {
    join(socket).with_format_max(1).unwrap()
}

fn format(group: &Group) -> u32 {
    group.report().unwrap().format
}

#[track_caller]
fn eventually_format(group: &Group, format: u32) {
    eventually_seen("another format", || self::format(group), |is| *is == format);
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("publish-some-old", |socket, count| publish_some_to(&old(socket), count)),
    ("subscribe-old", |socket, _| match old(socket).subscribe(Policy::Reliable) {
        Ok(mut subscriber) => receive_some(&mut subscriber, u64::MAX),
        // Four subscribers read a log after the other.
        Err(Error::Refused(Refusal::LogsHeld)) => {}
        Err(error) => panic!("{error}"),
    }),
];

/// Receives so many messages, or all there are, and checks that none is missing between them.
fn receive_some(subscriber: &mut Subscriber, count: u64) {
    let mut seen = Seen::late();
    while seen.received < count {
        match subscriber.recv_timeout(LONG) {
            Ok(received) => seen.take(received, true),
            Err(causeway::RecvTimeoutError::Disconnected) => return,
            Err(error) => panic!("after {} messages: {error}", seen.received),
        }
    }
}

#[test]
fn a_group_begins_with_the_format_of_the_release_before_and_gets_a_later_one_on_command() {
    let (_dir, socket, group) = served(GroupOptions::new().capacity_bytes(4096).late_publishers());
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = join(&socket).subscribe(Policy::Reliable).unwrap();
    let before = publisher.publish(b"before").unwrap();
    assert_eq!(format(&group), 1);
    assert_eq!(join(&socket).upgrade().unwrap(), 2);
    eventually_format(&group, 2);
    let after = publisher.publish(b"after").unwrap();
    assert_eq!(after.0, before.0 + 64, "positions go on");
    for bytes in [&b"before"[..], b"after"] {
        assert_eq!(taken(&mut subscriber).bytes, bytes);
    }
    nothing(&mut subscriber);
    // Again there is nothing to do.
    let epoch = group.report().unwrap().epoch;
    assert_eq!((group.upgrade().unwrap(), group.report().unwrap().epoch), (2, epoch));
}

#[test]
fn a_group_that_can_begin_no_other_log_keeps_its_format_and_says_how_to_create_it() {
    let (_dir, socket, group) = served(small().format(1).remote_publishers(1));
    let _publisher = join(&socket).publisher().unwrap();
    for refused in [group.upgrade(), join(&socket).upgrade()] {
        assert!(matches!(refused, Err(Error::Refused(Refusal::FormatFixed))), "{refused:?}");
    }
    let (_dir, socket, _group) = served(small().format(2).remote_publishers(1));
    let refused = old(&socket).publisher().unwrap_err().to_string();
    assert!(refused.contains("this program has format 1 and the other side format 2"), "{refused}");
    let _publisher = join(&socket).publisher().unwrap();
    let refused = old(&socket).subscribe(Policy::Lossy).unwrap_err().to_string();
    assert!(refused.contains("has format 1 and the other side format 2; install"), "{refused}");
    join(&socket).subscribe(Policy::Lossy).unwrap();
    for unknown in [0, FORMATS.end() + 1] {
        let refused = Group::create("none", GroupOptions::new().format(unknown)).unwrap_err().to_string();
        assert!(refused.contains(&format!("no format {unknown}")), "{refused}");
        join(&socket).with_format_max(unknown).unwrap_err();
    }
}

#[test]
fn an_older_member_gets_a_log_of_its_format_and_when_the_last_has_left_the_others_go_on_in_a_later_one() {
    let (_dir, socket, group) = served(late().format(2));
    let mut publisher = group.publisher().unwrap();
    let mut witness = join(&socket).subscribe(Policy::Reliable).unwrap();
    let mut expected = 0u32;
    let mut publish = |publisher: &mut causeway::Publisher, witness: &mut Subscriber| {
        publisher.publish(&expected.to_le_bytes()).unwrap();
        assert_eq!(witness.recv_timeout(LONG).unwrap().message().unwrap().bytes, expected.to_le_bytes());
        expected += 1;
    };
    for _ in 0..3 {
        assert_eq!(format(&group), 2);
        publish(&mut publisher, &mut witness);
        let mut subscriber = old(&socket).subscribe(Policy::Reliable).unwrap();
        assert_eq!(format(&group), 1, "it is admitted with such a log");
        publish(&mut publisher, &mut witness);
        taken(&mut subscriber);
        let mut older = old(&socket).publisher().unwrap();
        publish(&mut older, &mut witness);
        taken(&mut subscriber);
        drop(subscriber);
        // One is left.
        assert_eq!(join(&socket).upgrade().unwrap(), 1);
        publish(&mut older, &mut witness);
        drop(older);
        eventually_format(&group, 2);
    }
}

/// Before, nothing asked for it again.
#[test]
fn a_group_whose_earlier_logs_were_held_gets_the_later_format_when_they_have_been_read() {
    let (_dir, socket, group) = served(late().format(2));
    let mut publisher = group.publisher().unwrap();
    let mut slow = group.subscribe(Policy::Reliable).unwrap();
    let older = old(&socket).subscribe(Policy::Lossy).unwrap();
    while resized(&group, 4096) {}
    drop(older);
    eventually("it leaves", || subscribers(&group) == 1);
    assert_eq!(format(&group), 1, "no other log can begin");
    publisher.publish(b"last").unwrap();
    assert_eq!(next(&mut slow), b"last");
    eventually_format(&group, 2);
}

/// Before, the server slept without the deadline of the roll for that subscriber, until something else woke it.
#[test]
fn an_older_subscriber_is_admitted_beside_a_publisher_that_is_stopped() {
    let (_dir, socket, group) = served(late().format(2));
    let mut stopped = Peer::start("publish-some", &socket, u64::MAX);
    eventually("it does not publish", || group.report().unwrap().messages > 10);
    stopped.stop();
    let options = SubscribeOptions::new(Policy::Lossy).timeout(LONG);
    let _subscriber = old(&socket).subscribe(options).unwrap();
    assert_eq!(format(&group), 1);
    stopped.kill();
    stopped.wait();
}

/// Its log ends with its publisher's next message.
#[test]
fn an_older_subscriber_of_a_group_of_one_publisher_is_admitted_with_the_next_message() {
    let (_dir, socket, group) = served(small().format(2));
    let mut publisher = group.publisher().unwrap();
    let mut witness = group.subscribe(Policy::Reliable).unwrap();
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| old(&socket).subscribe(Policy::Reliable).unwrap());
        let mut count = 0u32;
        eventually("it is not admitted", || {
            publisher.publish(&count.to_le_bytes()).unwrap();
            assert_eq!(taken(&mut witness).bytes, count.to_le_bytes());
            count += 1;
            joining.is_finished()
        });
        let mut subscriber = joining.join().unwrap();
        assert_eq!(format(&group), 1);
        publisher.publish(b"for both").unwrap();
        while taken(&mut subscriber).bytes != b"for both" {}
        assert_eq!(taken(&mut witness).bytes, b"for both");
    });
}

// Members of later releases.

/// What the server answers to a request with this offer: its operation, its first word, and its offer.
fn answer_to(socket: &OwnedFd, op: u32, words: &[u32], offered: [u32; 5]) -> (u32, u32, [u32; 5]) {
    let mut request = message(op, words);
    offer(&mut request, offered);
    send_with_fds(socket, &request, &[]).unwrap();
    let mut answer = [0; 64];
    recv_with_fds(socket, &mut answer, 6).unwrap();
    let word = |at: usize| u32::from_le_bytes(answer[at * 4..][..4].try_into().unwrap());
    (word(2), word(3), std::array::from_fn(|at| word(11 + at)))
}

const PUBLISH: u32 = 1;
const SUBSCRIBE: u32 = 3;
const GRANTED: u32 = 16;
const REFUSED: u32 = 17;

#[test]
fn a_later_release_joins_with_features_that_its_part_need_not_know_and_is_refused_with_others() {
    let (_dir, socket, _group) = served(GroupOptions::new().capacity_bytes(4096).late_publishers());
    let compat = [1, 3, 1 << 31, 0, 0];
    let ro_compat = [2, 3, 0, 1, 0];
    let incompat = [1, 2, 0, 0, 4];
    for (op, words, offered, granted) in [
        (SUBSCRIBE, &[3, 0][..], compat, true),
        (SUBSCRIBE, &[3, 0], ro_compat, true),
        (SUBSCRIBE, &[3, 0], incompat, false),
        (PUBLISH, &[], compat, true),
        (PUBLISH, &[], ro_compat, false),
        (PUBLISH, &[], incompat, false),
        (SUBSCRIBE, &[3, 0], [3, 4, 0, 0, 0], false),
        (PUBLISH, &[], [3, 4, 0, 0, 0], false),
        (SUBSCRIBE, &[3, 0], [0; 5], false),
    ] {
        let connection = connect(&socket);
        let mut answer = answer_to(&connection, op, words, offered);
        if answer.0 == 21 {
            let mut bytes = [0; 64];
            recv_with_fds(&connection, &mut bytes, 6).unwrap();
            answer.0 = u32::from(bytes[8]);
        }
        if granted {
            assert_eq!(answer.0, GRANTED, "{op} {offered:?}");
        } else {
            assert_eq!(answer, (REFUSED, 17, [1, 2, 0, 0, 0]), "{op} {offered:?}");
        }
    }
}

/// It does not have the format of the release before ours, with which this group began.
#[test]
fn a_member_of_the_next_release_gets_a_log_of_the_format_that_both_have() {
    let (_dir, socket, group) = served(GroupOptions::new().several_publishers());
    let mut publisher = group.publisher().unwrap();
    let mut witness = group.subscribe(Policy::Reliable).unwrap();
    publisher.publish(b"before").unwrap();
    assert_eq!(format(&group), 1);
    let connection = connect(&socket);
    assert_eq!(answer_to(&connection, SUBSCRIBE, &[3, 0], [2, 3, 0, 0, 0]).0, 21, "it waits");
    let mut granted = [0; 64];
    let (_, fds) = recv_with_fds(&connection, &mut granted, 6).unwrap();
    assert_eq!((u32::from(granted[8]), format(&group)), (GRANTED, 2));
    let _page = Mapping::shared(&fds[2], 4096, Access::ReadWrite).unwrap();
    add_seals(&fds[2], Seals::FUTURE_WRITE | Seals::SEAL).unwrap();
    assert_eq!(ask(&connection, 6, &[])[2], GRANTED, "it is ready");
    // The release before ours cannot join meanwhile, and is told so.
    let refused = old(&socket).subscribe(Policy::Lossy).unwrap_err().to_string();
    assert!(refused.contains("has format 1 and the other side format 2; install"), "{refused}");
    publisher.publish(b"after").unwrap();
    for bytes in [&b"before"[..], b"after"] {
        assert_eq!(taken(&mut witness).bytes, bytes);
    }
}

#[test]
fn an_operation_that_nobody_has_to_know_is_ignored_and_another_is_refused() {
    let (_dir, socket, group) = served(small());
    let connection = connect(&socket);
    for op in (64..128).chain([u32::MAX]) {
        send_with_fds(&connection, &message(op, &[1, 2, 3]), &[]).unwrap();
    }
    assert_eq!(ask(&connection, 63, &[])[2..4], [REFUSED, 5]);
    assert_eq!(ask(&connection, SUBSCRIBE, &[3, 0])[2], GRANTED);
    drop(group);
}

/// A server of a later release, as far as it answers a subscriber or a publisher.
fn refused_by(op: u32, words: &[u32], offered: [u32; 5], join: fn(&Group) -> Error) -> String {
    let (near, far) = seqpacket_pair().unwrap();
    let (connection, server) = seqpacket_pair().unwrap();
    send_with_fds(&far, &message(16, &[]), &[connection.as_fd()]).unwrap();
    // First something that is not known here.
    send_with_fds(&server, &message(77, &[]), &[]).unwrap();
    let mut answer = message(op, words);
    offer(&mut answer, offered);
    send_with_fds(&server, &answer, &[]).unwrap();
    join(&Group::join_socket(near).unwrap()).to_string()
}

#[test]
fn a_server_of_a_later_release_is_refused_with_both_versions_and_the_remedy() {
    let subscribe: fn(&Group) -> Error = |group| group.subscribe(Policy::Lossy).unwrap_err();
    let publish: fn(&Group) -> Error = |group| group.publisher().unwrap_err();
    for join in [subscribe, publish] {
        let refused = refused_by(REFUSED, &[17], [4, 5, 0, 0, 0], join);
        let sentence = "this program has formats 1 to 2 and the other side formats 4 to 5; install the next release here, or one \
                        release on both sides";
        assert_eq!(refused, sentence);
        let refused = refused_by(GRANTED, &[0, 0, 0], [1, 3, 0, 0, 32], join);
        assert!(refused.contains("features 0x20 that are not known here"), "{refused}");
    }
    let ro_compat = [1, 3, 0, 32, 0];
    assert!(refused_by(GRANTED, &[0, 0, 0], ro_compat, publish).contains("features 0x20"));
    // A subscriber need not know it, and goes on to what this server does not send.
    let refused = refused_by(GRANTED, &[0, 0, 0], ro_compat, subscribe);
    assert!(refused.contains("descriptors"), "{refused}");
}

/// Publishers and subscribers of two releases join, leave and are killed, and the log is resized: a log after the other, in both formats.
#[test]
fn members_of_two_releases_come_go_and_are_killed_and_every_message_comes_once_in_one_order() {
    const MESSAGES: u64 = 200;
    let rolls = setting("CAUSEWAY_ROLLS", 50);
    let mut random = seeded();
    let is_over = AtomicBool::new(false);
    let mut ended: Vec<i32> = Vec::new();
    let mut formats = [0u64; 3];
    let seen = all_see_the_same(late().format(2), |group, socket| {
        std::thread::scope(|scope| {
            let _over = publish_beside(scope, group, &is_over);
            let mut peers: Vec<(Peer, bool)> = Vec::new();
            while group.report().unwrap().epoch < rolls {
                formats[format(group) as usize] += 1;
                match random.usize(..10) {
                    0 | 1 if peers.len() < 4 => {
                        let ends = random.bool();
                        let role = ["publish-some", "publish-some-old", "subscribe-old"][random.usize(..3)];
                        let ends = ends && role != "subscribe-old";
                        let count = if ends { MESSAGES } else { u64::MAX };
                        peers.push((Peer::start(role, socket, count), ends));
                    }
                    2 if !peers.is_empty() => {
                        let (mut peer, ends) = peers.swap_remove(random.usize(..peers.len()));
                        if ends {
                            peer.succeed();
                            ended.push(peer.pid());
                        } else {
                            // In the middle of a roll, perhaps.
                            std::thread::scope(|scope| {
                                let capacity_bytes = 4096 << random.u64(..3);
                                scope.spawn(move || resized(group, capacity_bytes));
                                std::thread::sleep(Duration::from_micros(random.u64(..3000)));
                                peer.kill();
                            });
                            peer.wait();
                        }
                    }
                    3 => _ = resized(group, 4096 << random.u64(..4)),
                    _ => match old(socket).subscribe(Policy::Reliable) {
                        Ok(mut subscriber) => {
                            assert_eq!(format(group), 1, "an older member is there");
                            receive_some(&mut subscriber, random.u64(..100));
                        }
                        // Four subscribers read a log after the other.
                        Err(Error::Refused(Refusal::LogsHeld)) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    },
                }
            }
            for (mut peer, ends) in peers {
                if ends {
                    peer.succeed();
                    ended.push(peer.pid());
                }
            }
            eventually_format(group, 2);
        });
    });
    eprintln!(
        "{} messages, {} of processes that ended; looks at each format: {formats:?}",
        seen.received,
        ended.len()
    );
    for process in ended {
        let mut its = seen.of.iter().filter(|(id, _)| **id as u32 == process as u32);
        assert!(its.any(|(_, count)| *count == MESSAGES), "of process {process}");
    }
    assert!(rolls < 50 || formats[1].min(formats[2]) > 0, "{formats:?}");
}
