//! A member of the bus: a connection that has an identity, whatever carries its messages.

use std::rc::Rc;

use causeway_bus::shared::filter::unique_number;
use causeway_os::socket::Credentials;

use crate::policy::Rules;

/// The number of a member, which is never used again. It is the last part of the unique name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

impl MemberId {
    pub fn unique_name(self) -> Rc<str> {
        format!(":1.{}", self.0).into()
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
    pub rules: Rc<Rules>,
    pub carrier: Carrier,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_that_was_given_is_that_of_the_member() {
        assert_eq!(MemberId::from_unique_name(&MemberId(7).unique_name()), Some(MemberId(7)));
        for other in [":1.07", ":1.+7", ":1.", ":2.7", ":1.7.1", "1.7", ":1.99999999999999999999"] {
            assert_eq!(MemberId::from_unique_name(other), None, "{other}");
        }
    }
}
