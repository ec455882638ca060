//! A member of the bus: a connection that has an identity, whatever carries its messages. Where names, rules and calls are concerned, the
//! bus does not tell native members from clients: here both are members, and [`Carrier`] says which kind one is.

use std::rc::Rc;

use causeway_bus::shared::unique_name::{FIRST_ID, FIRST_UNNAMED_ID, unique_name, unique_number};
use causeway_os::socket::Credentials;

use crate::policy::SharedRules;

/// The number of a member, as in shared memory; never used again. One that has not said Hello has another one, and no unique name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

impl MemberId {
    /// The first that says Hello.
    pub const FIRST: MemberId = MemberId(FIRST_ID);
    /// The first that has not.
    pub const FIRST_UNNAMED: MemberId = MemberId(FIRST_UNNAMED_ID);

    pub fn is_named(self) -> bool {
        self < MemberId::FIRST_UNNAMED
    }

    /// Takes this number, and leaves the next one.
    pub fn take_next(&mut self) -> MemberId {
        std::mem::replace(self, MemberId(self.0 + 1))
    }

    /// Its unique name, or what stands in its place before Hello.
    pub fn unique_name(self) -> Rc<str> {
        unique_name(self.0).into()
    }

    /// What tells it from all others, where it may not have said Hello.
    pub fn label(self) -> String {
        let name = unique_name(self.0);
        if self.is_named() { name } else { format!("{name}.{}", self.0 - FIRST_UNNAMED_ID) }
    }

    pub fn from_unique_name(name: &str) -> Option<MemberId> {
        unique_number(name).map(MemberId)
    }
}

/// Who is at the other end, as the kernel recorded it when the connection was made.
#[derive(Clone, Debug)]
pub struct Identity {
    pub credentials: Credentials,
    /// All groups of the process, its first one included, where the kernel says them.
    pub groups: Option<Vec<u32>>,
    pub label: Option<String>,
}

impl Identity {
    /// An identity with the supplementary groups that the kernel reports.
    pub fn new(credentials: Credentials, groups: Option<Vec<u32>>, label: Option<String>) -> Identity {
        let groups = groups.map(|mut groups| {
            groups.push(credentials.gid);
            groups.sort_unstable();
            groups.dedup();
            groups
        });
        Identity { credentials, groups, label }
    }

    pub fn all_groups(&self) -> &[u32] {
        self.groups.as_deref().unwrap_or(std::slice::from_ref(&self.credentials.gid))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not said Hello.
    New,
    /// It takes part.
    Active,
    /// It sees messages and says nothing.
    Monitor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A socket of this process.
    Socket,
    /// The order log, which the member has in its memory.
    Log,
}

#[derive(Debug)]
pub struct Member {
    pub name: Rc<str>,
    pub identity: Identity,
    /// Can descriptors be passed to it?
    pub takes_descriptors: bool,
    pub stage: Stage,
    /// Its connection is gone, and the others are being told.
    pub is_leaving: bool,
    /// Its names, rules and calls are being taken, because it leaves or is made a monitor.
    pub is_ending: bool,
    pub rules: SharedRules,
    pub carrier: Carrier,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_that_was_given_is_that_of_the_member() {
        let mut next = MemberId::FIRST;
        for name in [":1.0", ":1.1"] {
            let id = next.take_next();
            assert_eq!((&*id.unique_name(), &*id.label()), (name, name));
            assert_eq!(MemberId::from_unique_name(name), Some(id));
        }
        let mut next = MemberId::FIRST_UNNAMED;
        let [one, two] = [next.take_next(), next.take_next()];
        assert_eq!((&*one.unique_name(), one.label()), (":not.active.yet", ":not.active.yet.0".into()));
        assert_ne!(one.label(), two.label());
        for other in [&*one.unique_name(), &one.label(), &two.label()] {
            assert_eq!(MemberId::from_unique_name(other), None, "{other}");
        }
    }
}
