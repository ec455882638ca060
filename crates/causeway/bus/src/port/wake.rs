//! Waking members that sleep, and evicting those that block others.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::clock;
use causeway_waiting::patience::{Clock, LOOK, Owed};

use super::send::Holders;
use super::{AUTHORITY, Descriptors, Port};
use crate::shared::order::{self, Statistic};
use crate::shared::ring::{self, Cells, GROUP_SLOTS, Sleep, group_bit};

/// Members of one group that sleep on its word, and will be woken by one call.
#[derive(Debug, Default)]
pub struct Sleepers {
    /// One of them.
    slot: u16,
    bits: u32,
    /// The values of their armed words, by their place in the group.
    values: [u32; GROUP_SLOTS as usize],
}

/// How long this member has been kept waiting by each of the others, by the rule of
/// [`patience`](causeway_waiting::patience).
#[derive(Debug, Default)]
pub struct StallTable {
    of: Vec<Stall>,
    /// Runs while this member finds no space, in nanoseconds of `CLOCK_MONOTONIC`.
    clock: Clock,
    /// When it was last asked who is in the way.
    asked_ns: u64,
}

#[derive(Debug)]
struct Stall {
    slot: u16,
    id: u64,
    cursor: u64,
    owed: Owed,
    is_in_the_way: bool,
}

impl StallTable {
    /// There was space.
    #[inline]
    pub fn end(&mut self) {
        self.clock.stop();
    }
}

impl Port {
    /// To be called while there is no space because of the member in `slot`. Wakes all that block it or will be next,
    /// and evicts those for which this member has waited for `deadline` in all: several stopped members delay a sender
    /// no longer than one.
    pub fn wake_or_evict(&mut self, fds: &mut dyn Descriptors, slot: u16, deadline: Duration) {
        let now = clock::monotonic_ns();
        let mut waits = std::mem::take(&mut self.waits);
        let step = waits.clock.look(now);
        waits.of.iter_mut().for_each(|wait| self.count_wait(wait, step));
        let is_known = waits.of.iter().any(|wait| wait.slot == slot && wait.is_in_the_way);
        if is_known && now - waits.asked_ns < LOOK.as_nanos() as u64 {
            self.ring(fds, slot);
        } else {
            waits.asked_ns = now;
            let slots = self.in_the_way(slot);
            waits.of.iter_mut().for_each(|wait| wait.is_in_the_way = slots.contains(&wait.slot));
            for slot in slots {
                self.ring(fds, slot);
                if !waits.of.iter().any(|wait| wait.slot == slot) {
                    let ((id, _), cursor) = (self.directory.id_and_state(slot), self.cursor_of(slot));
                    waits.of.push(Stall { slot, id, cursor, owed: Owed::default(), is_in_the_way: true });
                }
            }
            waits.of.retain(|wait| {
                let is_late = wait.is_in_the_way && wait.owed.exceeds(deadline) && self.is_member(wait);
                if is_late {
                    self.evict(fds, wait.slot);
                }
                !is_late && self.is_member(wait) && (wait.is_in_the_way || !wait.owed.is_none())
            });
        }
        self.waits = waits;
    }

    fn cursor_of(&self, slot: u16) -> u64 {
        self.order.cursor(slot).load(Ordering::Acquire)
    }

    fn is_member(&self, wait: &Stall) -> bool {
        self.directory.id_and_state(wait.slot).0 == wait.id && self.is_present(wait.slot)
    }

    /// Counts a step of waiting for a member, if it was in the way, and what it has read since.
    fn count_wait(&self, wait: &mut Stall, step_ns: u64) {
        let cursor = self.cursor_of(wait.slot);
        let passed = cursor.saturating_sub(wait.cursor);
        wait.cursor = cursor;
        wait.owed.wait(if wait.is_in_the_way { step_ns } else { 0 });
        wait.owed.pass(passed, 0);
    }

    /// The member in `slot`, those that hold a message of the own outbox, and those that are three quarters of the log
    /// behind.
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
        match how {
            Sleep::Futex => self.order.wake_futex(slot, value),
            Sleep::Doorbell if self.ring_doorbell(fds, slot) => {
                ring::mark_awake(self.order.armed(slot), value)
            }
            // It stays announced: the next sender may have its doorbell.
            Sleep::Doorbell => false,
        }
    }

    /// Wakes those of these members, in the order of their slots, that sleep.
    pub fn ring_all(&mut self, fds: &mut dyn Descriptors, slots: &[u16]) {
        let mut sleepers = Sleepers::default();
        for slot in slots {
            match ring::asleep(self.order.armed(*slot)) {
                Some((value, Sleep::Futex)) => {
                    if sleepers.bits != 0 && sleepers.slot / GROUP_SLOTS != slot / GROUP_SLOTS {
                        self.wake_group(&mut sleepers);
                    }
                    sleepers.slot = *slot;
                    sleepers.bits |= group_bit(*slot);
                    sleepers.values[usize::from(slot % GROUP_SLOTS)] = value;
                }
                Some((value, how)) => _ = self.wake(fds, *slot, value, how),
                None => {}
            }
        }
        if sleepers.bits != 0 {
            self.wake_group(&mut sleepers);
        }
    }

    fn wake_group(&self, sleepers: &mut Sleepers) {
        let (group, bits) = (self.order.group(sleepers.slot), std::mem::take(&mut sleepers.bits));
        let first = sleepers.slot - sleepers.slot % GROUP_SLOTS;
        let mut left = bits;
        let in_group = std::iter::from_fn(|| {
            let place = left.trailing_zeros() as u16;
            left &= left.wrapping_sub(1);
            (place < GROUP_SLOTS).then_some(place)
        });
        let marks =
            in_group.map(|place| (self.order.armed(first + place), sleepers.values[usize::from(place)]));
        ring::end_sleeps(group, || order::wake(group, bits), marks);
    }

    fn ring_doorbell(&mut self, fds: &mut dyn Descriptors, slot: u16) -> bool {
        let other = self.other(slot);
        if other.doorbell.is_none() {
            let id = other.id;
            other.doorbell = fds.doorbell(slot, id).ok().flatten();
        }
        let Some(doorbell) = &self.others[usize::from(slot)].doorbell else { return false };
        fds.ring(doorbell.as_fd());
        true
    }

    /// Counts a wake-up that brought nothing since this member had read up to `cursor`: did it free space for others at
    /// least?
    pub fn count_idle_wake(&self, cursor: u64) {
        let is_far = self.cursor - cursor >= self.order.capacity() / 4;
        self.order.count(self.slot, if is_far { Statistic::SpaceWakes } else { Statistic::EmptyWakes }, 1);
    }

    /// Evicts a member: nobody waits for it any more, and the authority announces its end.
    pub fn evict(&mut self, fds: &mut dyn Descriptors, slot: u16) {
        let (id, _) = self.directory.id_and_state(slot);
        self.order.evicted(slot).store(id, Ordering::SeqCst);
        self.order.evictions().fetch_add(1, Ordering::SeqCst);
        ring::fence_after_append(); // PAIR bus-armed
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
    use crate::shared::ring::Entry;

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

    /// The authority, which would do it, may have ended.
    #[test]
    fn who_finds_that_the_bus_makes_no_sense_rings_those_that_sleep() {
        let (_order, order) = OrderLog::create(64, 4).unwrap();
        let (_directory, directory) = Directory::create(4, 4, 16, [1, 2]).unwrap();
        let (_outbox, outbox) = Outbox::create(4096).unwrap();
        for (slot, id) in [(1, 8), (2, 9), (3, 10)] {
            directory.set_peer(slot, &Peer { id, carrier: slot, state: State::Active, ..Peer::default() });
        }
        let mut port = Port::new(Arc::new(order), Arc::new(directory), outbox, 1, 8, 0);
        let doorbells = [2, 3].map(|slot| {
            let doorbell = crate::control::new_doorbell().unwrap();
            port.set_doorbell(slot, doorbell.try_clone().unwrap());
            ring::arm(port.order.armed(slot), Sleep::Doorbell);
            doorbell
        });
        // In place of the second there is another by now, whose doorbell is not known.
        port.directory.set_peer(3, &Peer { id: 11, carrier: 3, state: State::Active, ..Peer::default() });
        let entry = Entry { sender: 77, destination: 1, place: 0 };
        port.order.entry(0).store(entry.word(ring::lap(&*port.order, 0)), Ordering::Relaxed);
        let error = port.next(&mut Doorbell(None), &mut super::super::Received::default()).unwrap_err();
        assert!(matches!(error, crate::Error::Broken { .. }), "{error}");
        let are_rung = doorbells.map(|doorbell| rustix::io::read(&doorbell, &mut [0; 8]).is_ok());
        assert_eq!(are_rung, [true, false]);
        let are_asleep = [2, 3].map(|slot| ring::asleep(port.order.armed(slot)).is_some());
        assert_eq!(are_asleep, [false, true]);
    }

    /// A sender in slot 1 waits for a member in slot 2 and looks again after `step_ms` each time; in the meantime that
    /// member passes so many entries. After how many steps is it evicted?
    fn steps_to_eviction(step_ms: u64, mut passes: impl FnMut(u32) -> u64) -> Option<u32> {
        let (_order, order) = OrderLog::create(64, 4).unwrap();
        let (_directory, directory) = Directory::create(4, 4, 16, [1, 2]).unwrap();
        let (_outbox, outbox) = Outbox::create(4096).unwrap();
        directory.set_peer(2, &Peer { id: 9, carrier: 2, state: State::Active, ..Peer::default() });
        let mut port = Port::new(Arc::new(order), Arc::new(directory), outbox, 1, 8, 0);
        (0..1_000).find(|step| {
            port.order.cursor(2).fetch_add(passes(*step), Ordering::Relaxed);
            port.waits.clock.set(clock::monotonic_ns() - step_ms * 1_000_000);
            port.waits.asked_ns = 0;
            port.wake_or_evict(&mut Doorbell(None), 2, Duration::from_millis(250));
            !port.is_present(2)
        })
    }

    #[test]
    fn a_step_does_not_renew_the_deadline_and_reading_does() {
        assert_eq!(steps_to_eviction(5, |_| 0), Some(50), "one that stands");
        let slow = steps_to_eviction(5, |step| u64::from(step % 20 == 0));
        assert!(slow.is_some_and(|steps| steps < 60), "one that passes an entry every 100 ms: {slow:?}");
        assert_eq!(steps_to_eviction(5, |_| 50), None, "one that passes ten thousand a second");
        let bursts = steps_to_eviction(5, |step| if step % 40 == 0 { 5_000 } else { 0 });
        assert_eq!(bursts, None, "one that comes back every 200 ms and reads all");
    }

    #[test]
    fn a_sender_that_did_not_run_has_waited_for_nobody() {
        // Each look comes a minute after the one before, and counts 5 ms at most: from the fourth on the member passes
        // more than it owes.
        let mut stops = 0;
        let steps = steps_to_eviction(60_000, |_| {
            stops += 1;
            u64::from(stops > 3) * 1_000
        });
        assert_eq!(steps, None);
    }
}
