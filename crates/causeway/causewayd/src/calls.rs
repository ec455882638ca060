//! Calls that wait for their reply. No sockets, no messages.
//!
//! A reply counts only if its sender was called by its destination with that serial, and no reply came before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::member::MemberId;

/// A call, as it is named by its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub caller: MemberId,
    pub serial: u32,
    pub callee: MemberId,
}

#[derive(Debug, Default)]
pub struct Calls {
    /// For each callee, its callers with their serials and deadlines.
    of_callee: FxHashMap<MemberId, BTreeMap<(MemberId, u32), Option<Instant>>>,
    by_deadline: BTreeSet<(Instant, Call)>,
    open_of_caller: FxHashMap<MemberId, u32>,
}

impl Calls {
    /// A call was sent, whose reply may come until `deadline`.
    ///
    /// # Panics
    /// The call is open already: its reply would not say which one it answers.
    pub fn open(&mut self, call: Call, deadline: Option<Instant>) {
        let calls = self.of_callee.entry(call.callee).or_default();
        let before = calls.insert((call.caller, call.serial), deadline);
        assert!(before.is_none(), "{call:?} is open already");
        *self.open_of_caller.entry(call.caller).or_default() += 1;
        self.by_deadline.extend(deadline.map(|deadline| (deadline, call)));
    }

    /// A reply has come, or the call has ended in another way. Was it waited for?
    pub fn close(&mut self, call: Call) -> bool {
        let Some(calls) = self.of_callee.get_mut(&call.callee) else { return false };
        let Some(deadline) = calls.remove(&(call.caller, call.serial)) else { return false };
        if calls.is_empty() {
            self.of_callee.remove(&call.callee);
        }
        self.forget(call, deadline);
        true
    }

    pub fn is_open(&self, call: Call) -> bool {
        self.of_callee.get(&call.callee).is_some_and(|calls| calls.contains_key(&(call.caller, call.serial)))
    }

    fn forget(&mut self, call: Call, deadline: Option<Instant>) {
        if let Some(open) = self.open_of_caller.get_mut(&call.caller) {
            *open -= 1;
            if *open == 0 {
                self.open_of_caller.remove(&call.caller);
            }
        }
        if let Some(deadline) = deadline {
            self.by_deadline.remove(&(deadline, call));
        }
    }

    /// A member is gone: nobody waits for its calls any more. Returns the calls to it, which will not be answered.
    pub fn remove(&mut self, member: MemberId) -> Vec<Call> {
        let mut unanswered = Vec::new();
        for ((caller, serial), deadline) in self.of_callee.remove(&member).unwrap_or_default() {
            let call = Call { caller, serial, callee: member };
            self.forget(call, deadline);
            if caller != member {
                unanswered.push(call);
            }
        }
        if self.open_of_caller.contains_key(&member) {
            let its_own = self.of_callee.iter().flat_map(|(&callee, calls)| {
                let serials = calls.range((member, 0)..=(member, u32::MAX)).map(|((_, serial), _)| *serial);
                serials.map(move |serial| Call { caller: member, serial, callee })
            });
            for call in its_own.collect::<Vec<_>>() {
                self.close(call);
            }
        }
        unanswered
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
        assert!(!calls.close(call(1, 7, 2)));
        calls.open(call(1, 7, 2), None);
        assert!(calls.close(call(1, 7, 2)) && !calls.close(call(1, 7, 2)));
        assert!(calls.open_of_caller.is_empty());
    }

    #[test]
    fn a_death_ends_calls_in_both_directions() {
        let mut calls = Calls::default();
        let later = Instant::now() + Duration::from_secs(1);
        for one in [call(1, 1, 2), call(1, 2, 2), call(2, 1, 1), call(2, 2, 2), call(3, 1, 1)] {
            calls.open(one, Some(later));
        }
        assert_eq!(calls.remove(MemberId(2)), [call(1, 1, 2), call(1, 2, 2)]);
        assert_eq!(calls.open_of_caller.get(&MemberId(2)), None);
        assert_eq!(calls.next_deadline(), Some(later));
        assert_eq!(calls.remove(MemberId(1)), [call(3, 1, 1)]);
        assert_eq!(calls.next_deadline(), None);
        assert!(calls.of_callee.is_empty() && calls.open_of_caller.is_empty());
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
