//! Who owns which well-known name, and who waits for it. No sockets, no messages.
//!
//! Source: D-Bus Specification, `org.freedesktop.DBus.RequestName` and `ReleaseName`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, hash_map};
use std::ops::Bound;
use std::rc::Rc;

use causeway_dbus_wire::driver::{
    ALLOW_REPLACEMENT, DO_NOT_QUEUE, NameReply, REPLACE_EXISTING, ReleaseReply,
};
use rustc_hash::FxHashMap;

use crate::member::MemberId;

/// A name has passed from one owner to another; one of them may be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: Rc<str>,
    pub old: Option<MemberId>,
    pub new: Option<MemberId>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    member: MemberId,
    flags: u32,
}

/// All well-known names. The first of each queue owns the name; a queue is never empty.
#[derive(Debug, Default)]
pub struct Names {
    /// In order, so that a list goes on where it stopped, and none of very many waits while a table grows.
    queues: BTreeMap<Rc<str>, Vec<Claim>>,
    /// The names that each member owns or waits for, in the order of its requests.
    of_member: FxHashMap<MemberId, Vec<Rc<str>>>,
}

impl Names {
    /// A member asks for a name, with flags as in the message.
    pub fn request(&mut self, name: &str, member: MemberId, flags: u32) -> (NameReply, Option<Change>) {
        let claim = Claim { member, flags };
        let Some((key, _)) = self.queues.get_key_value(name) else {
            let name: Rc<str> = name.into();
            self.queues.insert(Rc::clone(&name), vec![claim]);
            self.of_member.entry(member).or_default().push(Rc::clone(&name));
            return (NameReply::PrimaryOwner, Some(Change { name, old: None, new: Some(member) }));
        };
        let name = Rc::clone(key);
        let queue = self.queues.get_mut(&name).expect("it is there");
        let owner = queue[0];
        if owner.member == member {
            queue[0].flags = flags;
            return (NameReply::AlreadyOwner, None);
        }
        let waits_at = queue.iter().position(|claim| claim.member == member);
        if flags & REPLACE_EXISTING != 0 && owner.flags & ALLOW_REPLACEMENT != 0 {
            if let Some(at) = waits_at {
                queue.remove(at);
            } else {
                self.of_member.entry(member).or_default().push(Rc::clone(&name));
            }
            if owner.flags & DO_NOT_QUEUE != 0 {
                queue[0] = claim;
                self.forget(owner.member, &name);
            } else {
                queue.insert(0, claim);
            }
            let change = Change { name, old: Some(owner.member), new: Some(member) };
            return (NameReply::PrimaryOwner, Some(change));
        }
        match (waits_at, flags & DO_NOT_QUEUE != 0) {
            (Some(at), true) => {
                queue.remove(at);
                self.forget(member, &name);
                (NameReply::Exists, None)
            }
            (None, true) => (NameReply::Exists, None),
            (Some(at), false) => {
                queue[at] = claim;
                (NameReply::InQueue, None)
            }
            (None, false) => {
                queue.push(claim);
                self.of_member.entry(member).or_default().push(name);
                (NameReply::InQueue, None)
            }
        }
    }

    /// A member gives up a name, or its place in the queue.
    pub fn release(&mut self, name: &str, member: MemberId) -> (ReleaseReply, Option<Change>) {
        let Some((key, queue)) = self.queues.get_key_value(name) else {
            return (ReleaseReply::NonExistent, None);
        };
        if !queue.iter().any(|claim| claim.member == member) {
            return (ReleaseReply::NotOwner, None);
        }
        let name = Rc::clone(key);
        self.forget(member, &name);
        (ReleaseReply::Released, self.leave(&name, member))
    }

    /// A member is gone: it gives up the name for which it asked last, and the next one with the next call. Nothing when it has none.
    pub fn leave_last(&mut self, member: MemberId) -> Option<(Rc<str>, Option<Change>)> {
        let hash_map::Entry::Occupied(mut entry) = self.of_member.entry(member) else { return None };
        let name = entry.get_mut().pop()?;
        if entry.get().is_empty() {
            entry.remove();
        }
        let change = self.leave(&name, member);
        Some((name, change))
    }

    fn leave(&mut self, name: &Rc<str>, member: MemberId) -> Option<Change> {
        let Entry::Occupied(mut entry) = self.queues.entry(Rc::clone(name)) else { return None };
        let queue = entry.get_mut();
        let at = queue.iter().position(|claim| claim.member == member)?;
        queue.remove(at);
        let new = queue.first().map(|claim| claim.member);
        if queue.is_empty() {
            entry.remove();
        }
        (at == 0).then(|| Change { name: Rc::clone(name), old: Some(member), new })
    }

    fn forget(&mut self, member: MemberId, name: &Rc<str>) {
        if let hash_map::Entry::Occupied(mut entry) = self.of_member.entry(member) {
            // As it stands in the table of all: of tens of thousands of names the letters of none are looked at.
            let names = entry.get_mut();
            if let Some(at) = names.iter().rposition(|other| Rc::ptr_eq(other, name)) {
                names.remove(at);
            }
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    pub fn owner(&self, name: &str) -> Option<MemberId> {
        self.queues.get(name).map(|queue| queue[0].member)
    }

    /// The owner of a name and those that wait for it, in order.
    pub fn queue(&self, name: &str) -> impl ExactSizeIterator<Item = MemberId> {
        self.queue_from(name, 0)
    }

    /// The same from this place on.
    pub fn queue_from(&self, name: &str, place: usize) -> impl ExactSizeIterator<Item = MemberId> {
        let queue = self.queues.get(name).and_then(|queue| queue.get(place..)).unwrap_or_default();
        queue.iter().map(|claim| claim.member)
    }

    /// All names behind this one, in order.
    pub fn after(&self, name: &str) -> impl Iterator<Item = &Rc<str>> {
        self.queues.range::<str, _>((Bound::Excluded(name), Bound::Unbounded)).map(|(name, _)| name)
    }

    /// The names that a member owns or waits for, in the order of its requests.
    pub fn of(&self, member: MemberId) -> &[Rc<str>] {
        self.of_member.get(&member).map_or(&[], Vec::as_slice)
    }

    pub fn is_in_queue(&self, name: &str, member: MemberId) -> bool {
        self.queue(name).any(|other| other == member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);
    const C: MemberId = MemberId(3);

    fn change(old: Option<MemberId>, new: Option<MemberId>) -> Option<Change> {
        Some(Change { name: "n.n".into(), old, new })
    }

    #[test]
    fn a_queue_passes_the_name_on_in_order() {
        let mut names = Names::default();
        assert_eq!(names.request("n.n", A, 0), (NameReply::PrimaryOwner, change(None, Some(A))));
        assert_eq!(names.request("n.n", A, 0), (NameReply::AlreadyOwner, None));
        assert_eq!(names.request("n.n", B, 0), (NameReply::InQueue, None));
        assert_eq!(names.request("n.n", C, DO_NOT_QUEUE), (NameReply::Exists, None));
        assert_eq!(names.request("n.n", C, REPLACE_EXISTING), (NameReply::InQueue, None));
        assert_eq!(names.queue("n.n").collect::<Vec<_>>(), [A, B, C]);
        assert_eq!(names.release("n.n", A), (ReleaseReply::Released, change(Some(A), Some(B))));
        assert_eq!(names.release("n.n", A), (ReleaseReply::NotOwner, None));
        assert_eq!(names.release("n.n", C), (ReleaseReply::Released, None));
        assert_eq!(names.leave_last(B), Some(("n.n".into(), change(Some(B), None))));
        assert_eq!(names.leave_last(B), None);
        assert_eq!(names.release("n.n", B), (ReleaseReply::NonExistent, None));
        assert!(names.of_member.is_empty() && names.queues.is_empty());
    }

    #[test]
    fn a_replaced_owner_waits_first_in_the_queue_unless_it_does_not_queue() {
        let mut names = Names::default();
        names.request("n.n", A, ALLOW_REPLACEMENT);
        names.request("n.n", C, 0);
        let taken = names.request("n.n", B, REPLACE_EXISTING | ALLOW_REPLACEMENT | DO_NOT_QUEUE);
        assert_eq!(taken, (NameReply::PrimaryOwner, change(Some(A), Some(B))));
        assert_eq!(names.queue("n.n").collect::<Vec<_>>(), [B, A, C]);
        // B may be replaced and does not queue: it leaves.
        assert_eq!(names.request("n.n", C, REPLACE_EXISTING).0, NameReply::PrimaryOwner);
        assert_eq!(names.queue("n.n").collect::<Vec<_>>(), [C, A]);
        assert!(names.of(B).is_empty() && names.is_in_queue("n.n", A));
        // A member that waits and wants to wait no longer leaves the queue.
        assert_eq!(names.request("n.n", A, DO_NOT_QUEUE), (NameReply::Exists, None));
        assert_eq!(names.queue("n.n").collect::<Vec<_>>(), [C]);
    }
}
