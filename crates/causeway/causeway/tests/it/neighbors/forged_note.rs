//! What one subscriber of a slot wrote decided whether the next one in that slot was woken.
//!
//! Publishers noted in the log, for each slot, the last armed word for which they had notified. A new subscriber's first
//! armed word followed from its generation, of which ten bits counted: after 1,023 joins a first sleep was taken for one that
//! had been notified, and who left the next generation's word behind made its successor sleep for ever.

use std::sync::atomic::Ordering;

use causeway::{Group, Policy, Publisher};

use super::{public_group, sleeps_and_is_woken, until_all_have_left};
use crate::common::wire::Joined;
use crate::common::{asleep, small, trio};

fn sleep_once(group: &Group, publisher: &mut Publisher, on_descriptor: bool) {
    let mut subscriber = group.subscribe(Policy::Lossy).unwrap();
    subscriber.sleep_on_descriptor(on_descriptor);
    sleeps_and_is_woken(&mut subscriber, publisher, || asleep(group) == 1, || {});
    drop(subscriber);
    until_all_have_left(group);
}

#[test]
fn the_first_sleep_after_a_thousand_joins_is_woken() {
    let (group, mut publisher, _) = trio(small(), Policy::Lossy);
    until_all_have_left(&group);
    sleep_once(&group, &mut publisher, false);
    for _ in 0..1023 {
        drop(group.subscribe(Policy::Lossy).unwrap());
        publisher.try_publish(b"learn of it").unwrap();
        until_all_have_left(&group);
    }
    sleep_once(&group, &mut publisher, false);
}

#[test]
fn a_subscriber_leaves_nothing_behind_that_keeps_its_successor_asleep() {
    let (_dir, socket, group) = public_group(small());
    let mut publisher = group.publisher().unwrap();
    for target in [1, 2, 3] {
        let joined = Joined::new(&socket, 3);
        let arm = joined.page.atomic_u32(0x80);
        let forged = ((joined.generation + 1) << 22).wrapping_add(4) | target;
        arm.store(forged, Ordering::SeqCst);
        publisher.try_publish(b"notified").unwrap();
        drop(joined);
        until_all_have_left(&group);
        sleep_once(&group, &mut publisher, target == 2);
    }
}
