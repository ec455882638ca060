//! Who has which well-known name, and who waits for it. Pure: changes are returned, and published elsewhere.
//!
//! Source of the rules: D-Bus Specification, "org.freedesktop.DBus.RequestName" and "ReleaseName".

use std::collections::{BTreeMap, VecDeque};

/// Flag: another connection may take the name over.
pub const ALLOW_REPLACEMENT: u32 = 1;
/// Flag: take the name over if its owner allows that.
pub const REPLACE_EXISTING: u32 = 2;
/// Flag: do not wait for the name.
pub const DO_NOT_QUEUE: u32 = 4;

/// The answer to a request for a name, as D-Bus numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameReply {
    /// The caller owns the name now.
    PrimaryOwner = 1,
    /// The caller waits for the name.
    InQueue = 2,
    /// Another connection owns it, and the caller does not wait.
    Exists = 3,
    /// The caller owned it before.
    AlreadyOwner = 4,
}

/// The answer to the release of a name, as D-Bus numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The caller neither owns the name nor waits for it any more.
    Released = 1,
    /// Nobody had it.
    NonExistent = 2,
    /// Another connection has it.
    NotOwner = 3,
}

/// The owner of a name changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub name: String,
    /// Number of the owner before.
    pub old: Option<u64>,
    /// Number of the owner now.
    pub new: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    id: u64,
    flags: u32,
}

/// All well-known names. The first claim of each is its owner's.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, VecDeque<Claim>>);

impl Names {
    /// Number of the owner of a name.
    pub fn owner(&self, name: &str) -> Option<u64> {
        Some(self.0.get(name)?.front()?.id)
    }

    /// Numbers of the owner and of all who wait, in their order.
    pub fn claims(&self, name: &str) -> Vec<u64> {
        self.0.get(name).map_or_else(Vec::new, |claims| claims.iter().map(|claim| claim.id).collect())
    }

    /// All names with an owner.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// How many names a connection owns or waits for.
    pub fn count_of(&self, id: u64) -> usize {
        self.0.values().filter(|claims| claims.iter().any(|claim| claim.id == id)).count()
    }

    /// A connection asks for a name.
    pub fn request(&mut self, name: &str, id: u64, flags: u32) -> (NameReply, Option<Change>) {
        let claims = self.0.entry(name.into()).or_default();
        let changed = |old, new| Some(Change { name: name.into(), old, new: Some(new) });
        let claim = Claim { id, flags };
        let Some(owner) = claims.front_mut() else {
            claims.push_back(claim);
            return (NameReply::PrimaryOwner, changed(None, id));
        };
        if owner.id == id {
            owner.flags = flags;
            return (NameReply::AlreadyOwner, None);
        }
        let owner = *owner;
        if flags & REPLACE_EXISTING != 0 && owner.flags & ALLOW_REPLACEMENT != 0 {
            claims.retain(|claim| claim.id != id);
            if owner.flags & DO_NOT_QUEUE != 0 {
                claims.pop_front();
            }
            claims.push_front(claim);
            return (NameReply::PrimaryOwner, changed(Some(owner.id), id));
        }
        if flags & DO_NOT_QUEUE != 0 {
            claims.retain(|claim| claim.id != id);
            return (NameReply::Exists, None);
        }
        match claims.iter_mut().find(|claim| claim.id == id) {
            Some(waiting) => waiting.flags = flags,
            None => claims.push_back(claim),
        }
        (NameReply::InQueue, None)
    }

    /// A connection gives a name up, or stops waiting for it.
    pub fn release(&mut self, name: &str, id: u64) -> (ReleaseReply, Option<Change>) {
        let Some(claims) = self.0.get_mut(name) else { return (ReleaseReply::NonExistent, None) };
        let Some(index) = claims.iter().position(|claim| claim.id == id) else {
            return (ReleaseReply::NotOwner, None);
        };
        claims.remove(index);
        let new = claims.front().map(|claim| claim.id);
        if claims.is_empty() {
            self.0.remove(name);
        }
        let change = (index == 0).then(|| Change { name: name.into(), old: Some(id), new });
        (ReleaseReply::Released, change)
    }

    /// The names that a connection owns or waits for.
    pub fn of(&self, id: u64) -> Vec<String> {
        let has = |claims: &VecDeque<Claim>| claims.iter().any(|claim| claim.id == id);
        self.0.iter().filter(|(_, claims)| has(claims)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "com.example";

    fn change(old: Option<u64>, new: Option<u64>) -> Option<Change> {
        Some(Change { name: NAME.into(), old, new })
    }

    #[test]
    fn a_name_goes_to_who_asks_first_and_then_down_the_queue() {
        let mut names = Names::default();
        assert_eq!(names.request(NAME, 2, 0), (NameReply::PrimaryOwner, change(None, Some(2))));
        assert_eq!(names.request(NAME, 2, 0), (NameReply::AlreadyOwner, None));
        assert_eq!(names.request(NAME, 3, DO_NOT_QUEUE), (NameReply::Exists, None));
        assert_eq!(names.request(NAME, 3, 0), (NameReply::InQueue, None));
        assert_eq!(names.request(NAME, 4, 0), (NameReply::InQueue, None));
        assert_eq!(names.claims(NAME), [2, 3, 4]);
        assert_eq!(names.release(NAME, 3), (ReleaseReply::Released, None));
        assert_eq!(names.release(NAME, 3), (ReleaseReply::NotOwner, None));
        assert_eq!(names.release(NAME, 2), (ReleaseReply::Released, change(Some(2), Some(4))));
        assert_eq!(names.release(NAME, 4), (ReleaseReply::Released, change(Some(4), None)));
        assert_eq!(names.release(NAME, 4), (ReleaseReply::NonExistent, None));
    }

    #[test]
    fn a_name_is_taken_over_only_if_both_agree() {
        let mut names = Names::default();
        names.request(NAME, 2, ALLOW_REPLACEMENT);
        assert_eq!(
            names.request(NAME, 3, REPLACE_EXISTING),
            (NameReply::PrimaryOwner, change(Some(2), Some(3)))
        );
        // The former owner becomes the first in the queue, unless it asked not to be queued.
        assert_eq!(names.claims(NAME), [3, 2]);
        assert_eq!(names.request(NAME, 4, REPLACE_EXISTING), (NameReply::InQueue, None));
        names.request(NAME, 3, ALLOW_REPLACEMENT | DO_NOT_QUEUE);
        assert_eq!(
            names.request(NAME, 4, REPLACE_EXISTING),
            (NameReply::PrimaryOwner, change(Some(3), Some(4)))
        );
        assert_eq!(names.claims(NAME), [4, 2]);
    }
}
