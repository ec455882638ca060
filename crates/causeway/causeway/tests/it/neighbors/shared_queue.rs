//! A subscriber attacks the queue in which the others sleep, through the log that it may only read.
//!
//! All subscribers of a group slept on one word of the log. One that moved them to another word (FUTEX_REQUEUE), or queued
//! before them for a lock (FUTEX_WAIT_REQUEUE_PI, behind which the kernel wakes no other thread), put all of them to sleep
//! until their timeout. A reliable one took the publishers with it.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use causeway::{GroupOptions, Policy, Trust};
use causeway_os::memory::{Access, Mapping};
use causeway_testkit::is_root;
use nix::libc;

use super::{become_another_user, public_group, sleeps_and_is_woken};
use crate::common::wire::Joined;
use crate::common::{LONG, Peer, eventually, subscribers};

/// Offset of `wake_seq` in the log.
const WAKE_SEQ: usize = 4096 + 0x180;
/// Ways to attack.
const REQUEUE: u64 = 0;
const REQUEUE_PI: u64 = 1;
/// Attacks after the victims have fallen asleep, before one is expected to have succeeded.
const ROUNDS: u64 = 50;

/// Attacks until it is killed, and counts the attacks where the report shows them: as messages received.
pub fn disturb(socket: &Path, way: u64) {
    become_another_user();
    let joined = Joined::new(socket, 3);
    let log = Mapping::shared(&joined.log, 8192, Access::ReadOnly).unwrap();
    let word = log.load_u32(WAKE_SEQ);
    let address = log.as_ptr().wrapping_add(WAKE_SEQ).cast::<u32>();
    static ELSEWHERE: AtomicU32 = AtomicU32::new(0);
    for round in 1.. {
        match way {
            REQUEUE => {
                // SAFETY: both words exist for as long as this process does; the kernel writes to neither.
                unsafe {
                    let all = i32::MAX as usize;
                    libc::syscall(libc::SYS_futex, address, libc::FUTEX_REQUEUE, 0, all, ELSEWHERE.as_ptr());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => {
                let end = libc::timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
                let seen = word.load(Ordering::Relaxed);
                joined.page.atomic_u64(0x100).store(ROUNDS, Ordering::Relaxed);
                // SAFETY: as above; the time lives until the call returns, and the lock is never taken.
                unsafe {
                    let (operation, lock) = (libc::FUTEX_WAIT_REQUEUE_PI, ELSEWHERE.as_ptr());
                    libc::syscall(libc::SYS_futex, address, operation, seen, &raw const end, lock);
                }
            }
        }
        joined.page.atomic_u64(0x100).store(round, Ordering::Relaxed);
    }
}

fn subscribers_sleep_and_are_woken_beside(way: u64) {
    // Otherwise attackers are of the same user.
    is_root();
    for policy in [Policy::Lossy, Policy::Reliable] {
        let options = GroupOptions::new().capacity_bytes(4096).trust(Trust::Strangers);
        let options = options.subscribers(causeway::Access::AnyUser);
        let (_dir, socket, group) = public_group(options);
        let mut publisher = group.publisher().unwrap();
        let _attacker = Peer::start("disturb-the-shared-queue", &socket, way);
        let attacks = || {
            let report = group.report().unwrap();
            report.subscribers.iter().filter(|other| other.uid != 0).map(|other| other.received).max()
        };
        let attacks =
            || attacks().or_else(|| group.report().unwrap().subscribers.first().map(|own| own.received));
        eventually("no attacker joins", || subscribers(&group) == 1);
        if way == REQUEUE_PI {
            eventually("the attacker does not queue", || attacks() == Some(ROUNDS));
        }
        let mut victim = group.subscribe(policy).unwrap();
        let id = victim.id();
        let is_asleep = || {
            let report = group.report().unwrap();
            report.subscribers.iter().any(|subscriber| subscriber.slot == id && subscriber.asleep)
        };
        sleeps_and_is_woken(&mut victim, &mut publisher, is_asleep, || {
            if way == REQUEUE {
                let before = attacks().unwrap();
                eventually("the attacker rests", || attacks().unwrap() >= before + ROUNDS);
            }
        });
    }
}

#[test]
fn a_subscriber_that_requeues_the_sleepers_of_a_log_keeps_no_other_asleep() {
    subscribers_sleep_and_are_woken_beside(REQUEUE);
}

#[test]
fn a_subscriber_that_queues_for_a_lock_on_the_log_keeps_no_other_asleep() {
    subscribers_sleep_and_are_woken_beside(REQUEUE_PI);
}
