//! Values by serials. What was added last lies apart: a program that makes one call after the other finds it without a hash.

use rustc_hash::FxHashMap;

#[derive(Debug)]
pub(super) struct BySerial<V> {
    /// What was added last, unless it was removed.
    last: Option<(u32, V)>,
    others: FxHashMap<u32, V>,
}

impl<V> Default for BySerial<V> {
    fn default() -> BySerial<V> {
        BySerial { last: None, others: FxHashMap::default() }
    }
}

impl<V> BySerial<V> {
    pub fn len(&self) -> usize {
        usize::from(self.last.is_some()) + self.others.len()
    }

    pub fn get(&self, serial: u32) -> Option<&V> {
        match &self.last {
            Some((last, value)) if *last == serial => Some(value),
            _ if self.others.is_empty() => None,
            _ => self.others.get(&serial),
        }
    }

    /// Adds a value; returns the one that had the serial before.
    pub fn insert(&mut self, serial: u32, value: V) -> Option<V> {
        let before = self.remove(serial);
        if let Some((serial, value)) = self.last.replace((serial, value)) {
            self.others.insert(serial, value);
        }
        before
    }

    pub fn remove(&mut self, serial: u32) -> Option<V> {
        match self.last.take_if(|(last, _)| *last == serial) {
            Some((_, value)) => Some(value),
            None if self.others.is_empty() => None,
            None => self.others.remove(&serial),
        }
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &V)> {
        let last = self.last.iter().map(|(serial, value)| (*serial, value));
        last.chain(self.others.iter().map(|(serial, value)| (*serial, value)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is added and removed, it is what a map has.
        #[test]
        fn it_has_what_a_map_has(steps in prop::collection::vec((0..5_u32, any::<bool>()), 0..100)) {
            let (mut map, mut expected) = (BySerial::default(), HashMap::new());
            for (step, (serial, is_added)) in steps.into_iter().enumerate() {
                if is_added {
                    prop_assert_eq!(map.insert(serial, step), expected.insert(serial, step));
                } else {
                    prop_assert_eq!(map.remove(serial), expected.remove(&serial));
                }
                prop_assert_eq!(map.len(), expected.len());
                prop_assert_eq!(map.get(serial), expected.get(&serial));
                let all: HashMap<_, _> = map.iter().map(|(serial, value)| (serial, *value)).collect();
                prop_assert_eq!(&all, &expected);
            }
        }
    }
}
