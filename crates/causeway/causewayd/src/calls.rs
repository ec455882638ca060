//! Calls that wait for their reply. No sockets, no messages.
//!
//! A reply counts only if its sender was called by its destination with that serial, and no reply came before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::member::MemberId;

/// A call, as it is named by its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub caller: MemberId,
    pub serial: u32,
    pub callee: MemberId,
}

/// All calls that wait, in the three orders in which they end. Whichever it is, one is found and taken out at a time: who ends very many
/// can stop in between.
#[derive(Debug, Default)]
pub struct Calls {
    /// With their deadlines.
    of_caller: BTreeMap<Call, Option<Instant>>,
    /// Callee, caller and serial.
    of_callee: BTreeSet<(MemberId, MemberId, u32)>,
    by_deadline: BTreeSet<(Instant, Call)>,
}

impl Calls {
    /// A call was sent, whose reply may come until `deadline`.
    ///
    /// # Panics
    /// The call is open already: its reply would not say which one it answers.
    pub fn open(&mut self, call: Call, deadline: Option<Instant>) {
        let before = self.of_caller.insert(call, deadline);
        assert!(before.is_none(), "{call:?} is open already");
        self.of_callee.insert((call.callee, call.caller, call.serial));
        if let Some(deadline) = deadline {
            self.by_deadline.insert((deadline, call));
        }
    }

    /// A reply has come, or the call has ended in another way. Was it waited for?
    pub fn close(&mut self, call: Call) -> bool {
        let Some(deadline) = self.of_caller.remove(&call) else { return false };
        self.of_callee.remove(&(call.callee, call.caller, call.serial));
        if let Some(deadline) = deadline {
            self.by_deadline.remove(&(deadline, call));
        }
        true
    }

    pub fn is_open(&self, call: Call) -> bool {
        self.of_caller.contains_key(&call)
    }

    /// Any call to a member.
    pub fn first_to(&self, callee: MemberId) -> Option<Call> {
        let all = (callee, MemberId(0), 0)..=(callee, MemberId(u64::MAX), u32::MAX);
        self.of_callee.range(all).next().map(|&(callee, caller, serial)| Call { caller, serial, callee })
    }

    /// Any call of a member.
    pub fn first_of(&self, caller: MemberId) -> Option<Call> {
        let call = |serial, callee| Call { caller, serial, callee: MemberId(callee) };
        self.of_caller.range(call(0, 0)..=call(u32::MAX, u64::MAX)).next().map(|(call, _)| *call)
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// Ends one call whose time is over.
    pub fn expire(&mut self, now: Instant) -> Option<Call> {
        let &(deadline, call) = self.by_deadline.first()?;
        (deadline <= now && self.close(call)).then_some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn call(caller: u64, serial: u32, callee: u64) -> Call {
        Call { caller: MemberId(caller), serial, callee: MemberId(callee) }
    }

    #[test]
    fn a_reply_counts_once_and_from_the_callee_only() {
        let mut calls = Calls::default();
        calls.open(call(1, 7, 2), None);
        assert!(!calls.close(call(1, 7, 3)) && !calls.close(call(1, 8, 2)) && !calls.close(call(3, 7, 2)));
        assert!(calls.is_open(call(1, 7, 2)) && calls.close(call(1, 7, 2)));
        assert!(!calls.is_open(call(1, 7, 2)) && !calls.close(call(1, 7, 2)));
        calls.open(call(1, 7, 2), None);
        assert!(calls.close(call(1, 7, 2)) && !calls.close(call(1, 7, 2)));
        assert!(calls.of_caller.is_empty() && calls.of_callee.is_empty());
    }

    #[test]
    fn calls_are_found_by_either_of_their_ends() {
        let mut calls = Calls::default();
        let later = Instant::now() + Duration::from_secs(1);
        for one in [call(1, 1, 2), call(1, 2, 2), call(2, 1, 1), call(2, 2, 2), call(3, 1, 1)] {
            calls.open(one, Some(later));
        }
        let taken = |calls: &mut Calls, next: fn(&Calls, MemberId) -> Option<Call>, member| {
            let mut taken = Vec::new();
            while let Some(call) = next(calls, MemberId(member)) {
                assert!(calls.close(call));
                taken.push(call);
            }
            taken
        };
        assert_eq!(taken(&mut calls, Calls::first_of, 2), [call(2, 1, 1), call(2, 2, 2)]);
        assert_eq!(taken(&mut calls, Calls::first_to, 2), [call(1, 1, 2), call(1, 2, 2)]);
        assert_eq!(calls.next_deadline(), Some(later));
        assert_eq!(taken(&mut calls, Calls::first_to, 1), [call(3, 1, 1)]);
        assert_eq!(calls.next_deadline(), None);
        assert!(calls.of_caller.is_empty() && calls.of_callee.is_empty());
    }

    #[test]
    fn calls_end_at_their_deadline_and_not_before() {
        let mut calls = Calls::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        calls.open(call(1, 1, 2), Some(at(20)));
        calls.open(call(1, 2, 2), Some(at(10)));
        assert_eq!(calls.expire(at(9)), None);
        assert_eq!(calls.expire(at(10)), Some(call(1, 2, 2)));
        assert_eq!(calls.expire(at(10)), None);
        assert!(calls.close(call(1, 1, 2)));
        assert_eq!((calls.expire(at(99)), calls.next_deadline()), (None, None));
    }
}
