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
    SameUser = 0,
    /// Processes of different users. Each subscriber sleeps on a word that no other subscriber can map: one system call for
    /// each subscriber that sleeps. No subscriber can delay what another one receives. The default of every other group.
    ///
    /// Sleeping this way needs `futex_waitv` (Linux 5.16). On older kernels these subscribers sleep on their descriptors.
    Strangers = 1,
}

impl Trust {
    pub(crate) fn from_word(word: u32) -> Option<Trust> {
        [Trust::SameUser, Trust::Strangers].into_iter().find(|trust| *trust as u32 == word)
    }
}
