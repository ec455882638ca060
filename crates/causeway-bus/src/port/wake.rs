//! Waking members that sleep, and putting out those that stand in the way.

use std::sync::atomic::Ordering;

use causeway_os::futex;

use super::{AUTHORITY, Descriptors, Port};
use crate::shared::ring::{self, Cells, Sleep};

impl Port {
    /// Wakes a member if it sleeps. Returns whether it did.
    pub fn ring(&mut self, descriptors: &mut dyn Descriptors, slot: u16) -> bool {
        let Some((value, how)) = ring::asleep(self.order.armed(slot)) else { return false };
        let is_awake = match how {
            Sleep::Futex => futex::wake(self.order.armed(slot), u32::MAX).is_ok_and(|woken| woken > 0),
            Sleep::Doorbell if self.ring_doorbell(descriptors, slot) => true,
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

    fn ring_doorbell(&mut self, descriptors: &mut dyn Descriptors, slot: u16) -> bool {
        let other = self.other(slot);
        if other.doorbell.is_none() {
            let id = other.id;
            other.doorbell = descriptors.doorbell(slot, id).ok().flatten();
        }
        let Some(doorbell) = &self.others[usize::from(slot)].doorbell else { return false };
        // A counter that is full has been rung.
        let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        true
    }

    /// Puts a member out: nobody waits for it any more, and the authority announces its end.
    pub fn evict(&mut self, descriptors: &mut dyn Descriptors, slot: u16) {
        let (id, _) = self.directory.id_and_state(slot);
        self.order.evicted(slot).store(id, Ordering::SeqCst);
        self.order.evictions().fetch_add(1, Ordering::SeqCst);
        self.ring(descriptors, slot);
        self.ring(descriptors, AUTHORITY);
    }

    /// Wakes those who sleep half a log behind, so that they skip what is not for them.
    pub(super) fn ring_laggards(&mut self, descriptors: &mut dyn Descriptors, position: u64) {
        let behind = position.saturating_sub(self.order.capacity() / 4);
        for slot in self.directory.present().collect::<Vec<_>>() {
            if self.order.cursor(slot).load(Ordering::Relaxed) < behind {
                self.ring(descriptors, slot);
            }
        }
    }
}
