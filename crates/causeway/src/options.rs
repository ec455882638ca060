//! What the creator of a group decides, and what each receiver asks for.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

pub use causeway_os::socket::Credentials;

use crate::log::{Kind, Start};

/// What becomes of a receiver that falls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Publishers wait for it, or find the log full. It misses nothing.
    Reliable,
    /// As reliable, until a publisher has waited for it that long; then it becomes lossy.
    Deadline(Duration),
    /// As reliable, until a publisher has waited for it that long; then it is disconnected.
    DeadlineOrLeave(Duration),
    /// Publishers never wait for it. What it misses is counted and reported.
    Lossy,
}

impl Policy {
    pub(crate) fn to_words(self) -> [u32; 2] {
        let millis = |deadline: Duration| u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
        match self {
            Policy::Reliable => [0, 0],
            Policy::Deadline(deadline) => [1, millis(deadline)],
            Policy::DeadlineOrLeave(deadline) => [2, millis(deadline)],
            Policy::Lossy => [3, 0],
        }
    }

    pub(crate) fn from_words(words: [u32; 2]) -> Option<Policy> {
        let deadline = Duration::from_millis(u64::from(words[1]));
        match words[0] {
            0 => Some(Policy::Reliable),
            1 => Some(Policy::Deadline(deadline)),
            2 => Some(Policy::DeadlineOrLeave(deadline)),
            3 => Some(Policy::Lossy),
            _ => None,
        }
    }

    /// Whether publishers wait for such a receiver at all.
    pub(crate) fn holds_space(self) -> bool {
        self != Policy::Lossy
    }

    /// How long they wait, if not for ever.
    pub(crate) fn patience(self) -> Option<Duration> {
        match self {
            Policy::Deadline(deadline) | Policy::DeadlineOrLeave(deadline) => Some(deadline),
            Policy::Reliable | Policy::Lossy => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Reliable => f.write_str("reliable"),
            Policy::Deadline(deadline) => write!(f, "deadline {deadline:?}"),
            Policy::DeadlineOrLeave(deadline) => write!(f, "deadline {deadline:?} or leave"),
            Policy::Lossy => f.write_str("lossy"),
        }
    }
}

/// Whom the creator of a group lets in. The kernel says who asks (SO_PEERCRED); nobody can claim to be another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Processes of the creator's own user, and root.
    #[default]
    SameUser,
    /// Processes of these users, and root.
    Users(BTreeSet<u32>),
    /// Everybody who can reach the socket.
    Everybody,
}

impl Access {
    pub(crate) fn admits(&self, peer: Credentials) -> bool {
        match self {
            _ if peer.uid == 0 => true,
            Access::SameUser => peer.uid == rustix::process::geteuid().as_raw(),
            Access::Users(users) => users.contains(&peer.uid),
            Access::Everybody => true,
        }
    }
}

/// How a group is made.
///
/// ```
/// use causeway::{Access, GroupOptions};
/// let options = GroupOptions::new().capacity_bytes(1 << 20).several_publishers().readers(Access::Everybody);
/// ```
#[derive(Clone, Debug)]
pub struct GroupOptions {
    pub(crate) capacity_bytes: u64,
    pub(crate) kind: Kind,
    pub(crate) remote_publishers: u32,
    pub(crate) publishers: Access,
    pub(crate) readers: Access,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions::new()
    }
}

impl GroupOptions {
    /// One publisher in the creating process, 256 KiB, for processes of the same user.
    pub fn new() -> GroupOptions {
        GroupOptions {
            capacity_bytes: 256 << 10,
            kind: Kind::Single,
            remote_publishers: 0,
            publishers: Access::SameUser,
            readers: Access::SameUser,
        }
    }

    /// Size of the log: a power of two from 4 KiB to 1 GiB. The longest payload is a quarter of it. A log that fits
    /// the second-level cache (256 KiB to 1 MiB) is fastest.
    pub fn capacity_bytes(mut self, bytes: u64) -> GroupOptions {
        self.capacity_bytes = bytes;
        self
    }

    /// Lets several publishers write, all in the creating process. They trust each other.
    pub fn several_publishers(mut self) -> GroupOptions {
        self.kind = Kind::Shared;
        self
    }

    /// Publishers that are other processes: exactly so many will join before anybody can receive. With the log sealed
    /// after the last of them, no process can ever gain write access.
    pub fn remote_publishers(mut self, count: u32) -> GroupOptions {
        self.remote_publishers = count;
        if count > 1 {
            self.kind = Kind::Shared;
        }
        self
    }

    /// Who may become a publisher from another process.
    pub fn publishers(mut self, access: Access) -> GroupOptions {
        self.publishers = access;
        self
    }

    /// Who may receive.
    pub fn readers(mut self, access: Access) -> GroupOptions {
        self.readers = access;
        self
    }
}

/// How a receiver joins.
#[derive(Clone, Copy, Debug)]
pub struct SubscribeOptions {
    pub(crate) policy: Policy,
    pub(crate) start: Start,
    pub(crate) patience: Option<Duration>,
}

impl SubscribeOptions {
    /// A receiver with this policy, that begins at the next message.
    pub fn new(policy: Policy) -> SubscribeOptions {
        SubscribeOptions { policy, start: Start::Next, patience: None }
    }

    /// Begins at the oldest message still in the log.
    pub fn from_oldest(mut self) -> SubscribeOptions {
        self.start = Start::Oldest;
        self
    }

    /// Gives up if the group is not ready in this time: as long as publishers are awaited, nobody can receive.
    pub fn within(mut self, patience: Duration) -> SubscribeOptions {
        self.patience = Some(patience);
        self
    }
}

impl From<Policy> for SubscribeOptions {
    fn from(policy: Policy) -> SubscribeOptions {
        SubscribeOptions::new(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_wire() {
        let ms = Duration::from_millis;
        for policy in
            [Policy::Reliable, Policy::Deadline(ms(5)), Policy::DeadlineOrLeave(ms(7)), Policy::Lossy]
        {
            assert_eq!(Policy::from_words(policy.to_words()), Some(policy));
        }
        assert_eq!(Policy::from_words([9, 0]), None);
    }

    #[test]
    fn a_rule_lets_in_whom_it_names_and_root() {
        let peer = |uid| Credentials { pid: 1, uid, gid: 1 };
        let own = rustix::process::geteuid().as_raw();
        assert!(Access::SameUser.admits(peer(own)) && Access::SameUser.admits(peer(0)));
        assert!(!Access::SameUser.admits(peer(own + 1)));
        let users = Access::Users([7].into());
        assert!(users.admits(peer(7)) && users.admits(peer(0)) && !users.admits(peer(8)));
        assert!(Access::Everybody.admits(peer(8)));
    }
}
