//! The subscribers that one process knows, by slot.

use std::ops::{Deref, DerefMut};

use crate::subscriber_handle::SubscriberHandle;

/// Subscribers in the order of their slots: a search in it takes logarithmic time, and a walk over it looks at nothing but
/// the subscribers that are there.
#[derive(Debug, Default)]
pub struct SubscriberTable {
    list: Vec<SubscriberHandle>,
}

impl SubscriberTable {
    pub fn get(&self, slot: usize) -> Option<&SubscriberHandle> {
        self.index_of(slot).ok().map(|index| &self.list[index])
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut SubscriberHandle> {
        self.index_of(slot).ok().map(|index| &mut self.list[index])
    }

    /// The subscriber in `slot`, if it is the one of this generation.
    pub fn find(&self, slot: usize, generation: u32) -> Option<&SubscriberHandle> {
        self.get(slot).filter(|subscriber| subscriber.generation == generation)
    }

    /// Adds a subscriber, in the place of the one that has its slot, if there is one.
    pub fn insert(&mut self, subscriber: SubscriberHandle) {
        match self.index_of(subscriber.slot) {
            Ok(index) => self.list[index] = subscriber,
            Err(index) => self.list.insert(index, subscriber),
        }
    }

    pub fn remove(&mut self, slot: usize) -> Option<SubscriberHandle> {
        self.index_of(slot).ok().map(|index| self.list.remove(index))
    }

    pub fn retain(&mut self, keep: impl FnMut(&SubscriberHandle) -> bool) {
        self.list.retain(keep);
    }

    fn index_of(&self, slot: usize) -> Result<usize, usize> {
        self.list.binary_search_by_key(&slot, |subscriber| subscriber.slot)
    }
}

impl Deref for SubscriberTable {
    type Target = [SubscriberHandle];

    #[inline(always)]
    fn deref(&self) -> &[SubscriberHandle] {
        &self.list
    }
}

impl DerefMut for SubscriberTable {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [SubscriberHandle] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::pages::SubscriberPage;
    use crate::options::Policy;

    #[test]
    fn subscribers_are_found_by_slot_whatever_the_order_in_which_they_came() {
        let page = Arc::new(SubscriberPage::create().unwrap().1);
        let mut table = SubscriberTable::default();
        for (slot, generation) in [(700, 1), (3, 1), (64, 1), (3, 2)] {
            let page = Arc::clone(&page);
            table.insert(SubscriberHandle::new(slot, generation, Policy::Lossy, page, None, None));
        }
        let slots = |table: &SubscriberTable| table.iter().map(|one| one.slot).collect::<Vec<_>>();
        assert_eq!(slots(&table), [3, 64, 700]);
        assert!(table.find(3, 1).is_none() && table.find(3, 2).is_some() && table.get(4).is_none());
        assert_eq!(table.remove(64).map(|one| one.slot), Some(64));
        assert!(table.remove(64).is_none());
        assert_eq!(slots(&table), [3, 700]);
    }
}
