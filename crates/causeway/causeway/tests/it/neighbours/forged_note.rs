//! What one subscriber of a slot wrote decided whether the next one in that slot was woken.
//!
//! Publishers noted in the log, for each slot, the last armed word for which they had notified. A new subscriber's first
//! armed word followed from its generation, of which ten bits counted: after 1,023 joins a first sleep was taken for one that
//! had been notified, and who left the next generation's word behind made its successor sleep for ever.

use std::sync::atomic::Ordering;

use causeway::{Group, GroupOptions, Policy, Publisher};

use super::sleeps_and_is_woken;
use crate::common::eventually;
use crate::common::wire::Joined;

fn group() -> (tempfile::TempDir, Group, Publisher) {
    let (dir, socket) = super::public_folder();
    let group = Group::create("noted", GroupOptions::new().capacity_bytes(4096)).unwrap();
    group.serve_at(&socket).unwrap();
    let publisher = group.publisher().unwrap();
    (dir, group, publisher)
}

fn sleep_once(group: &Group, publisher: &mut Publisher) {
    let mut subscriber = group.subscribe(Policy::Lossy).unwrap();
    let asleep = || group.report().unwrap().subscribers.iter().any(|subscriber| subscriber.asleep);
    sleeps_and_is_woken(&mut subscriber, publisher, asleep, || {});
    drop(subscriber);
    eventually("a subscriber does not leave", || group.report().unwrap().subscribers.is_empty());
}

#[test]
fn the_first_sleep_after_a_thousand_joins_is_woken() {
    let (_dir, group, mut publisher) = group();
    sleep_once(&group, &mut publisher);
    for _ in 0..1023 {
        drop(group.subscribe(Policy::Lossy).unwrap());
        publisher.try_publish(b"learn of it").unwrap();
        eventually("a subscriber does not leave", || group.report().unwrap().subscribers.is_empty());
    }
    sleep_once(&group, &mut publisher);
}

#[test]
fn a_subscriber_leaves_nothing_behind_that_keeps_its_successor_asleep() {
    let (dir, group, mut publisher) = group();
    for target in [1, 2, 3] {
        let joined = Joined::new(&dir.path().join("group"), 3);
        let arm = joined.page.atomic_u32(0x80);
        let forged = ((joined.generation + 1) << 22).wrapping_add(4) | target;
        arm.store(forged, Ordering::SeqCst);
        publisher.try_publish(b"notified").unwrap();
        drop(joined);
        eventually("the attacker does not leave", || group.report().unwrap().subscribers.is_empty());
        let mut successor = group.subscribe(Policy::Lossy).unwrap();
        successor.sleep_on_descriptor(target == 2);
        let asleep = || group.report().unwrap().subscribers.iter().any(|subscriber| subscriber.asleep);
        sleeps_and_is_woken(&mut successor, &mut publisher, asleep, || {});
        drop(successor);
        eventually("a subscriber does not leave", || group.report().unwrap().subscribers.is_empty());
    }
}
