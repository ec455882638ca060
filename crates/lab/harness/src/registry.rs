//! A list that a program fills at its start and that stays as it is from the first look on.

use std::sync::{Mutex, OnceLock, PoisonError};

pub(crate) struct Registry<T: 'static> {
    what: &'static str,
    added: Mutex<Vec<&'static T>>,
    list: OnceLock<Vec<&'static T>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new(what: &'static str) -> Registry<T> {
        Registry { what, added: Mutex::new(Vec::new()), list: OnceLock::new() }
    }

    /// Adds entries after those that are there. Panics after the first look: somebody has seen the list without them.
    pub(crate) fn add(&self, entries: &'static [T]) {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(self.list.get().is_none(), "{} are added before anything is looked up", self.what);
        added.extend(entries);
    }

    /// What was added until now. Unlike [`list`](Registry::list) it does not close the list.
    pub(crate) fn until_now(&self) -> Vec<&'static T> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Everything that was added. Panics if nothing was: the program has forgotten to.
    pub(crate) fn list(&self) -> &[&'static T] {
        self.list.get_or_init(|| {
            let added = self.until_now();
            assert!(!added.is_empty(), "no {} were added at the start of the program", self.what);
            added
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_something_was_looked_up_is_refused() {
        static NUMBERS: Registry<u8> = Registry::new("numbers");
        NUMBERS.add(&[1, 2]);
        assert_eq!(NUMBERS.until_now(), [&1, &2]);
        NUMBERS.add(&[3]);
        assert_eq!(NUMBERS.list(), [&1, &2, &3]);
        assert!(std::panic::catch_unwind(|| NUMBERS.add(&[4])).is_err());
    }
}
