//! A publisher that the server disconnects: it is out, and all others go on.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{LONG, Peer, Role, eventually, group, join, next, nothing, served, small};
use crate::epochs::{all_see_the_same, late, numbered};
use causeway::{Error, Group, GroupOptions, Policy, Publisher, Refusal};

/// Publishes until it is told that it was disconnected.
fn publish_without_end(socket: &Path, pause_us: u64) {
    let mut publisher = join(socket).publisher().unwrap();
    for number in 0.. {
        match publisher.publish(&numbered(number)) {
            Ok(_) => std::thread::sleep(Duration::from_micros(pause_us)),
            Err(error) => return assert_disconnected(&error),
        }
    }
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("publish-without-end", publish_without_end),
    ("publish-and-leave", publish_and_leave),
    ("leave-over-the-rate", leave_over_the_rate),
];

#[track_caller]
fn assert_disconnected(error: &Error) {
    assert!(matches!(error, Error::Refused(Refusal::Disconnected)), "{error}");
}

/// In which slot the group has the publisher of a process.
fn slot_of(group: &Group, peer: &Peer) -> Option<u8> {
    let report = group.report().unwrap();
    report
        .publishers
        .iter()
        .find(|publisher| publisher.pid as i32 == peer.pid())
        .map(|publisher| publisher.slot)
}

/// A publisher of this process that the server takes for one of another.
fn invited(group: &Group) -> Publisher {
    Group::join_socket(group.invite().unwrap()).unwrap().publisher().unwrap()
}

#[test]
fn a_disconnected_publisher_is_told_and_all_others_go_on_with_every_message_in_order() {
    const MESSAGES: u64 = 3000;
    let mut spammer_id = 0;
    let seen = all_see_the_same(late(), |group, socket| {
        let mut spammer = Peer::start("publish-without-end", socket, 0);
        spammer_id = spammer.pid() as u64;
        eventually("the spammer publishes nothing", || group.report().unwrap().messages > 100);
        let mut others: Vec<_> = (0..3).map(|_| Peer::start("publish-some", socket, MESSAGES)).collect();
        // Where this test is late, they may have said all that they have to say.
        eventually("nobody else has joined", || {
            group.report().unwrap().publishers.len() > 1 || others.iter_mut().all(Peer::has_ended)
        });
        let slot = slot_of(group, &spammer).unwrap();
        assert!(group.disconnect_publisher(slot).unwrap());
        assert_eq!(slot_of(group, &spammer), None);
        spammer.succeed();
        others.iter_mut().for_each(Peer::succeed);
        eventually("the others do not leave", || group.report().unwrap().publishers.is_empty());
        assert!(!group.disconnect_publisher(slot).unwrap(), "there is none any more");
    });
    // The subscribers check that no number of any process is missing or comes twice.
    let spam = seen.of.iter().find(|(id, _)| **id as u32 == spammer_id as u32).map(|(_, count)| count);
    assert!(
        seen.of
            .iter()
            .filter(|(id, _)| **id as u32 != spammer_id as u32)
            .all(|(_, count)| *count == MESSAGES)
    );
    assert_eq!(seen.of.len(), 4, "{:?}", seen.of);
    assert!(spam.is_some_and(|count| *count > 0));
}

#[test]
fn the_unfinished_message_of_a_disconnected_publisher_is_never_seen_and_holds_nobody_up() {
    let group = group(late());
    let (mut stuck, mut other) = (invited(&group), invited(&group));
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    stuck.publish(b"before").unwrap();
    assert_eq!(next(&mut subscriber), b"before");
    let id = stuck.id();
    let mut loan = stuck.try_loan(300).unwrap();
    loan.fill(1);
    other.publish(b"behind").unwrap();
    nothing(&mut subscriber);
    assert!(group.disconnect_publisher(id).unwrap());
    assert_eq!(next(&mut subscriber), b"behind");
    assert_disconnected(&loan.commit().unwrap_err());
    assert_disconnected(&stuck.publish(b"no").unwrap_err());
    for number in 0..200u8 {
        other.publish(&[number; 100]).unwrap();
        assert_eq!(next(&mut subscriber), [number; 100]);
    }
    // It may come again, and does so in a log that it can write.
    let mut again = invited(&group);
    again.publish(b"again").unwrap();
    assert_eq!(next(&mut subscriber), b"again");
}

/// A publisher that waits for space waits for the log that it will not get.
#[test]
fn a_publisher_that_sleeps_for_space_is_told() {
    let group = group(late());
    let mut stuck = invited(&group);
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    let id = stuck.id();
    std::thread::scope(|scope| {
        let publishing = scope.spawn(move || (0..).find_map(|_| stuck.publish(&[7; 100]).err()).unwrap());
        eventually("it does not wait", || group.report().unwrap().publishers[0].waits_for.is_some());
        assert!(group.disconnect_publisher(id).unwrap());
        assert_disconnected(&publishing.join().unwrap());
    });
    assert_eq!(next(&mut subscriber), [7; 100]);
}

#[test]
fn who_publishes_faster_than_the_group_allows_is_disconnected_and_who_does_not_stays() {
    let (_folder, socket, group) = served(small().publisher_rate_max(1000));
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    std::thread::scope(|scope| {
        let mut spammer = Peer::start("publish-without-end", &socket, 100);
        // Two hundred a second at most.
        let mut slow = invited(&group);
        let slow_id = slow.id();
        let publishing = scope.spawn(move || {
            let mut published = 0u64;
            let began = Instant::now();
            while !spammer.has_ended() {
                assert!(began.elapsed() < LONG, "the spammer is still there after {published} messages");
                let _ = slow.publish_timeout(&published.to_le_bytes(), LONG).unwrap();
                published += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            spammer.succeed();
            let _ = slow.publish_timeout(b"over", LONG).unwrap();
            (slow, published)
        });
        let mut received = 0u64;
        loop {
            let message =
                subscriber.recv_timeout(LONG).unwrap().message().expect("a reliable one loses nothing");
            match message.publisher == slow_id {
                true if message.bytes == b"over" => break,
                true => assert_eq!(message.bytes, received.to_le_bytes()),
                false => continue,
            }
            received += 1;
        }
        let (slow, published) = publishing.join().unwrap();
        assert_eq!(received, published);
        let left: Vec<u8> =
            group.report().unwrap().publishers.iter().map(|publisher| publisher.slot).collect();
        assert_eq!(left, [slow.id()]);
    });
}

#[test]
fn publishers_that_cannot_be_disconnected_are_refused_with_the_reason() {
    let why = |group: &Group, id| group.disconnect_publisher(id).unwrap_err().to_string();
    let open = group(late());
    let (own, other) = (open.publisher().unwrap(), invited(&open));
    assert!(why(&open, own.id()).contains("creating process"));
    let joined = Group::join_socket(open.invite().unwrap()).unwrap();
    assert!(why(&joined, other.id()).contains("creator"));
    assert!(!open.disconnect_publisher(63).unwrap());
    let fixed = group(GroupOptions::new().remote_publishers(2));
    let [first, _second] = [(); 2].map(|()| invited(&fixed));
    assert!(why(&fixed, first.id()).contains("late_publishers"));
}

/// Publishes so many messages at once, and leaves, unless it is told before that that it was disconnected.
fn publish_and_leave(socket: &Path, messages: u64) {
    let mut publisher = join(socket).publisher().unwrap();
    if let Some(error) = (0..messages).find_map(|number| publisher.publish(&numbered(number)).err()) {
        assert_disconnected(&error);
    }
}

/// Publishes more than a hundred messages at once, leaves, and joins again until it may.
fn leave_over_the_rate(socket: &Path, messages: u64) {
    publish_and_leave(socket, messages);
    assert_disconnected(&join(socket).publisher().unwrap_err());
    eventually("it may never join again", || join(socket).publisher().is_ok());
}

/// Before, one that left before the server had looked twice was not counted, and a process could go on so.
#[test]
fn who_leaves_over_its_rate_is_told_of_and_joins_again_when_time_has_made_up_for_it() {
    let (_folder, socket, group) = served(small().publisher_rate_max(100));
    let over_rate = group.over_rate().unwrap();
    let mut spammer = Peer::start("leave-over-the-rate", &socket, 300);
    let pid = spammer.pid() as u32;
    let told = over_rate.recv_timeout(LONG).expect("nobody is told");
    assert!((told.pid, told.excess > 0) == (pid, true), "{told:?}");
    spammer.succeed();
    // What a second allows may come at once, and another process is another publisher.
    let mut modest = Peer::start("publish-and-leave", &socket, 100);
    modest.succeed();
    assert_eq!(over_rate.try_iter().filter(|told| told.pid != pid).count(), 0);
}
