//! Waking members that sleep, and evicting those that block others.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;

use super::send::Holders;
use super::{AUTHORITY, Descriptors, Port};
use crate::shared::order::Statistic;
use crate::shared::ring::{self, Cells, Sleep};

/// Members that blocked a message at one moment, and where their cursors were then.
#[derive(Debug)]
pub struct Blocked {
    since: Instant,
    members: Vec<(u16, u64)>,
}

impl Port {
    /// To be called while there is no space because of the member in `slot`. Wakes all that block it or will be next. When that
    /// member has not moved for `deadline`, evicts all of them that have not: several stopped members delay a sender no longer than one.
    pub fn wake_or_evict(
        &mut self,
        fds: &mut dyn Descriptors,
        slot: u16,
        blocked: &mut Option<Blocked>,
        deadline: Duration,
    ) {
        let cursor = |port: &Port, slot| port.order.cursor(slot).load(Ordering::Acquire);
        let at = cursor(self, slot);
        if let Some(Blocked { since, members }) =
            blocked.as_ref().filter(|it| it.members.contains(&(slot, at)))
        {
            self.ring(fds, slot);
            if since.elapsed() >= deadline {
                // Still: one that has moved meanwhile, or no longer blocked anybody when its cursor was noted, stays.
                for slot in self.in_the_way(slot) {
                    if members.contains(&(slot, cursor(self, slot))) {
                        self.evict(fds, slot);
                    }
                }
                *blocked = None;
            }
            return;
        }
        let slots = self.in_the_way(slot);
        for slot in &slots {
            self.ring(fds, *slot);
        }
        let members = slots.into_iter().map(|slot| (slot, cursor(self, slot))).collect();
        *blocked = Some(Blocked { since: Instant::now(), members });
    }

    /// The member in `slot`, those that hold a message of the own outbox, and those that are three quarters of the log behind.
    fn in_the_way(&self, slot: u16) -> Vec<u16> {
        let mut slots = vec![slot];
        let mut holders = self.holders.iter().copied();
        for message in &self.outstanding {
            let must_pass = |slot: &u16| self.must_pass(*slot, message.entry);
            match message.holders {
                Holders::One(slot) => slots.extend(Some(slot).filter(must_pass)),
                Holders::Queued(count) => slots.extend(holders.by_ref().take(count).filter(must_pass)),
            }
        }
        let (capacity, order) = (self.order.capacity(), &self.order);
        let is_behind =
            |slot: &u16| order.cursor(*slot).load(Ordering::Relaxed) + capacity * 3 / 4 <= self.end;
        slots.extend(self.directory.present().filter(is_behind));
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|slot| *slot != self.slot && self.is_present(*slot));
        slots
    }

    /// Wakes a member if it sleeps. Returns whether it did.
    #[inline]
    pub fn ring(&mut self, fds: &mut dyn Descriptors, slot: u16) -> bool {
        match ring::asleep(self.order.armed(slot)) {
            Some((value, how)) => self.wake(fds, slot, value, how),
            None => false,
        }
    }

    /// Wakes a member that has announced its sleep with this value.
    fn wake(&mut self, fds: &mut dyn Descriptors, slot: u16, value: u32, how: Sleep) -> bool {
        let is_awake = match how {
            Sleep::Futex => futex::wake(self.order.armed(slot), u32::MAX).is_ok_and(|woken| woken > 0),
            Sleep::Doorbell if self.ring_doorbell(fds, slot) => true,
            // It stays announced: the next sender may have its doorbell.
            Sleep::Doorbell => return false,
        };
        let is_marked = ring::mark_woken(self.order.armed(slot), value);
        if is_marked && !is_awake {
            // It had announced its sleep, and may have gone to sleep between the wake-up and the mark.
            let _ = futex::wake(self.order.armed(slot), u32::MAX);
        }
        is_marked
    }

    fn ring_doorbell(&mut self, fds: &mut dyn Descriptors, slot: u16) -> bool {
        let other = self.other(slot);
        if other.doorbell.is_none() {
            let id = other.id;
            other.doorbell = fds.doorbell(slot, id).ok().flatten();
        }
        let Some(doorbell) = &self.others[usize::from(slot)].doorbell else { return false };
        // A counter that is full has been rung.
        let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        true
    }

    /// Counts a wake-up that brought nothing since this member had read up to `cursor`: did it free space for others at least?
    pub fn count_idle_wake(&self, cursor: u64) {
        let is_far = self.cursor - cursor >= self.order.capacity() / 4;
        self.order.count(self.slot, if is_far { Statistic::SpaceWakes } else { Statistic::EmptyWakes }, 1);
    }

    /// Evicts a member: nobody waits for it any more, and the authority announces its end.
    pub fn evict(&mut self, fds: &mut dyn Descriptors, slot: u16) {
        let (id, _) = self.directory.id_and_state(slot);
        self.order.evicted(slot).store(id, Ordering::SeqCst);
        self.order.evictions().fetch_add(1, Ordering::SeqCst);
        self.ring(fds, slot);
        self.ring(fds, AUTHORITY);
    }

    /// Wakes those who sleep half a log behind, so that they skip what is not for them.
    pub(super) fn ring_laggards(&mut self, fds: &mut dyn Descriptors, position: u64) {
        let behind = position.saturating_sub(self.order.capacity() / 4);
        for slot in self.directory.present().collect::<Vec<_>>() {
            if self.order.cursor(slot).load(Ordering::Relaxed) < behind {
                self.ring(fds, slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;
    use crate::error::Result;
    use crate::shared::directory::{Directory, Peer, State};
    use crate::shared::order::OrderLog;
    use crate::shared::outbox::Outbox;

    /// What a sender gets that asks for a doorbell.
    struct Doorbell(Option<OwnedFd>);

    impl Descriptors for Doorbell {
        fn outbox(&mut self, _slot: u16, _id: u64) -> Result<Option<OwnedFd>> {
            Ok(None)
        }
        fn doorbell(&mut self, _slot: u16, _id: u64) -> Result<Option<OwnedFd>> {
            Ok(self.0.take())
        }
    }

    #[test]
    fn a_member_whose_doorbell_a_sender_cannot_get_stays_asleep_for_the_next_one() {
        let (_order, order) = OrderLog::create(64, 4).unwrap();
        let (_directory, directory) = Directory::create(4, 4, 16, [1, 2]).unwrap();
        let (_outbox, outbox) = Outbox::create(4096).unwrap();
        directory.set_peer(2, &Peer { id: 9, carrier: 2, state: State::Active, ..Peer::default() });
        let mut port = Port::new(Arc::new(order), Arc::new(directory), outbox, 1, 8, 0);
        ring::arm(port.order.armed(2), Sleep::Doorbell);
        assert!(!port.ring(&mut Doorbell(None), 2));
        assert!(ring::asleep(port.order.armed(2)).is_some(), "nobody rings it any more");
        let doorbell = crate::control::new_doorbell().unwrap();
        assert!(port.ring(&mut Doorbell(Some(doorbell.try_clone().unwrap())), 2));
        assert!(ring::asleep(port.order.armed(2)).is_none());
        assert_eq!(rustix::io::read(&doorbell, &mut [0; 8]), Ok(8));
    }
}
