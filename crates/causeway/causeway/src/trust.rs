//! How far the processes of a group trust each other, and what that changes.

/// How far the subscribers of a group trust each other. The creator of the group decides with
/// [`GroupOptions::trust`](crate::GroupOptions::trust).
///
/// A process that maps a word of shared memory, even read-only, can wake the threads that sleep on it, move them to another
/// word, or block the wake-ups of others. Where threads may sleep therefore depends on which processes can map that word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trust {
    /// Processes of one user, which could stop each other anyway. All subscribers sleep on one word: one system
    /// call wakes all of them. The default of a group whose rules admit the user of its creator only.
    SameUser,
    /// Processes of different users. Each subscriber sleeps on a word that no other subscriber can map: one system call for
    /// each subscriber that sleeps. No subscriber can delay what another one receives. The default of every other group.
    ///
    /// Sleeping this way needs `futex_waitv` (Linux 5.16). On older kernels these subscribers sleep on their descriptors.
    Strangers,
}

impl Trust {
    pub(crate) fn to_word(self) -> u32 {
        match self {
            Trust::SameUser => 0,
            Trust::Strangers => 1,
        }
    }

    pub(crate) fn from_word(word: u32) -> Option<Trust> {
        match word {
            0 => Some(Trust::SameUser),
            1 => Some(Trust::Strangers),
            _ => None,
        }
    }
}
