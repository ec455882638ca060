//! The subscribers of a group, as its server knows them: those that are there, those that join, those that wait for publishers,
//! and the users that were late.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::places::Share;
use crate::log::layout::{SUBSCRIBERS_MAX, Status, Tail};
use crate::log::wait::WaitingSubscriber;
use crate::options::Policy;
use crate::request::SubscriberId;
use crate::subscriber_handle::SubscriberHandle;
use crate::subscriber_table::SubscriberTable;

/// How long the server remembers that a subscriber of another user missed its deadline and left.
const LATE_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Subscribers {
    pub present: SubscriberTable,
    /// The descriptor of the page of each, by slot, for publishers that join later.
    pub page_fds: BTreeMap<usize, OwnedFd>,
    /// Those that are not ready yet, by connection, with the descriptors of their pages.
    pub joining: BTreeMap<u64, (SubscriberHandle, OwnedFd)>,
    /// Those that came before the log was sealed: connection and policy.
    pub waiting: Vec<(u64, Policy)>,
    generations: Vec<u32>,
    /// Users whose subscribers missed a deadline and left, and until when that is remembered.
    late_users: Vec<(Share, Instant)>,
}

impl Subscribers {
    pub fn new() -> Subscribers {
        Subscribers {
            present: SubscriberTable::default(),
            page_fds: BTreeMap::new(),
            joining: BTreeMap::new(),
            waiting: Vec::new(),
            generations: vec![0; SUBSCRIBERS_MAX],
            late_users: Vec::new(),
        }
    }

    pub fn find(&self, id: SubscriberId) -> Option<&SubscriberHandle> {
        self.present.find(id.slot as usize, id.generation)
    }

    /// The lowest slot that no subscriber has, and none that joins.
    pub fn free_slot(&self, status: &Status) -> Option<usize> {
        let mut taken = status.present.each_ref().map(|word| word.load(Ordering::Relaxed));
        for (subscriber, _) in self.joining.values() {
            taken[subscriber.slot / 64] |= 1 << (subscriber.slot % 64);
        }
        let index = taken.iter().position(|word| *word != u64::MAX)?;
        Some(index * 64 + taken[index].trailing_ones() as usize)
    }

    /// The generation of the next subscriber in a slot.
    pub fn next_generation(&mut self, slot: usize) -> u32 {
        self.generations[slot] = self.generations[slot].wrapping_add(1).max(1);
        self.generations[slot]
    }

    /// Publishers had to stop waiting for a subscriber of this user.
    pub fn note_late(&mut self, share: Share) {
        let now = Instant::now();
        self.late_users.retain(|(_, until)| now < *until);
        self.late_users.push((share, now + LATE_TIME));
    }

    /// Whether that is remembered of this user.
    pub fn was_late(&self, share: Share) -> bool {
        self.late_users.iter().any(|(late, until)| *late == share && Instant::now() < *until)
    }

    /// The lowest cursor of those that publishers wait for.
    pub fn lowest_cursor(&self, tail: &Tail) -> Option<u64> {
        let waited_for = self.present.iter().filter(|one| is_waited_for(one, tail));
        waited_for.map(|one| one.words().cursor.load(Ordering::Acquire)).min()
    }
}

/// Whether publishers wait no more for a subscriber that was too late.
pub fn is_demoted(subscriber: &SubscriberHandle, tail: &Tail) -> bool {
    tail.demoted[subscriber.slot].load(Ordering::Relaxed) == subscriber.generation
}

/// Whether publishers keep what a subscriber has not read.
pub fn is_waited_for(subscriber: &SubscriberHandle, tail: &Tail) -> bool {
    subscriber.policy.holds_space() && !is_demoted(subscriber, tail)
}
