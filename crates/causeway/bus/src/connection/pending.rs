//! Calls without a reply: which reply counts, and whose end ends them.

use super::by_serial::BySerial;
use crate::authority::DRIVER;
use crate::port::AUTHORITY_ID;

/// A call without a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Number of the connection that is to answer.
    pub callee: u64,
    /// The bus has the call, and will say who gets it.
    pub is_passed_on: bool,
}

impl Pending {
    /// A call of `destination` that goes to the connection with this number.
    pub fn new(callee: u64, destination: &str) -> Pending {
        Pending { callee, is_passed_on: callee == AUTHORITY_ID && destination != DRIVER }
    }

    /// Number of the member whose end ends the call. Whose end ends one that the bus passes on is not known yet.
    fn awaited(&self) -> u64 {
        if self.is_passed_on { SEVERAL } else { self.callee }
    }
}

/// Stands for several members, or for one that is not known.
const SEVERAL: u64 = u64::MAX;

/// The calls of a connection that have no reply, by their serials.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: BySerial<Pending>,
    /// Exclusive or of the members that they wait for, so that the last one is known without a search.
    awaited: u64,
}

impl PendingCalls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// The numbers of the connections that are to answer, some several times.
    pub fn callees(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().map(|(_, pending)| pending.callee)
    }

    pub fn get(&self, serial: u32) -> Option<&Pending> {
        self.calls.get(serial)
    }

    /// Adds a call, or says that another connection answers it.
    pub fn insert(&mut self, serial: u32, pending: Pending) {
        self.awaited ^= pending.awaited();
        if let Some(before) = self.calls.insert(serial, pending) {
            self.awaited ^= before.awaited();
        }
    }

    pub fn remove(&mut self, serial: u32) {
        if let Some(before) = self.calls.remove(serial) {
            self.awaited ^= before.awaited();
        }
    }

    pub fn serials(&self, which: impl Fn(&Pending) -> bool) -> Vec<u32> {
        self.calls.iter().filter(|(_, pending)| which(pending)).map(|(serial, _)| serial).collect()
    }

    /// Number of the member whose end ends a call, 0 for none, all ones for several.
    pub fn awaited(&self) -> u64 {
        match self.calls.len() {
            0 => 0,
            1 => self.awaited,
            _ => SEVERAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_awaited_is_known_whatever_came_between() {
        let mut calls = PendingCalls::default();
        assert_eq!(calls.awaited(), 0);
        calls.insert(1, Pending::new(7, "a.b"));
        assert_eq!(calls.awaited(), 7);
        calls.insert(2, Pending::new(8, "a.b"));
        calls.insert(3, Pending::new(AUTHORITY_ID, "c.d"));
        assert_eq!((calls.awaited(), calls.serials(|pending| pending.callee == 8)), (SEVERAL, vec![2]));
        calls.remove(1);
        calls.remove(1);
        calls.remove(2);
        assert_eq!((calls.awaited(), calls.len()), (SEVERAL, 1));
        // The bus has passed it on.
        calls.insert(3, Pending { callee: 9, is_passed_on: false });
        assert_eq!((calls.awaited(), calls.len()), (9, 1));
        calls.insert(4, Pending::new(AUTHORITY_ID, DRIVER));
        calls.remove(3);
        assert_eq!(calls.awaited(), AUTHORITY_ID);
        calls.remove(4);
        assert_eq!(calls.awaited(), 0);
    }
}
