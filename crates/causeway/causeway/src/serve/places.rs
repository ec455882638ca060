//! How many connections a server accepts, and how many of them from one user.
//!
//! A connection costs the process that serves the group a socket and a pidfd, and a subscriber two descriptors more. What
//! other users can take is bounded twice: one user by a third of what other strangers have left, all of them by half of the places
//! and of the subscribers' slots. So the own user always finds a slot, and the application always finds descriptors.

use rustix::process::{Resource, getrlimit};

use causeway_os::socket::Credentials;

use crate::error::Refusal;
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::word::PUBLISHERS_MAX;

/// The most connections from other processes: every slot twice, and some that only request reports.
const PLACES_MAX: usize = 2 * (SUBSCRIBERS_MAX + PUBLISHERS_MAX) + 64;
/// Descriptors that one connection may cost: socket, pidfd, page and doorbell.
const DESCRIPTORS_PER_PLACE: u64 = 4;
/// A share is this part of what is left.
const SHARE: usize = 3;

/// Who takes a place, where the number of places is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A user other than that of the server and root.
    User(u32),
    /// Processes that were invited: they may be less trusted than who invited them.
    Invited,
}

impl Share {
    /// The share of the process that made a connection; `None` for the server's own user and root.
    pub fn of(peer: Credentials) -> Option<Share> {
        let is_own = peer.uid == 0 || crate::options::is_own_user(peer.uid);
        (!is_own).then_some(Share::User(peer.uid))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Places(usize);

impl Places {
    /// The places that the present limit of open files allows.
    pub fn now() -> Places {
        let open_files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let affordable = usize::try_from(open_files_max / DESCRIPTORS_PER_PLACE).unwrap_or(usize::MAX);
        Places(affordable.min(PLACES_MAX))
    }

    /// Whether there is a place for one more, besides those that are taken.
    pub fn check(
        self,
        taken: impl Iterator<Item = Option<Share>>,
        share: Option<Share>,
    ) -> Result<(), Refusal> {
        let (mut all, mut strangers, mut own) = (0, 0, 0);
        for other in taken {
            all += 1;
            strangers += usize::from(matches!(other, Some(Share::User(_))));
            own += usize::from(other == share);
        }
        // Half of the slots of subscribers, too, are not for strangers.
        let for_strangers = self.0.min(SUBSCRIBERS_MAX);
        let has_share = match share {
            None => true,
            Some(Share::Invited) => own < self.0 / 2,
            Some(Share::User(_)) => {
                let left = for_strangers.saturating_sub(strangers - own);
                own < (left / SHARE).max(1) && strangers < for_strangers / 2
            }
        };
        if has_share && all < self.0 { Ok(()) } else { Err(Refusal::TooMany) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many places `share` gets besides those that are taken.
    fn filled(places: usize, taken: &mut Vec<Option<Share>>, share: Option<Share>) -> usize {
        let before = taken.len();
        while Places(places).check(taken.iter().copied(), share).is_ok() {
            taken.push(share);
        }
        taken.len() - before
    }

    #[test]
    fn a_user_gets_a_third_of_what_other_strangers_have_left_and_all_of_them_half() {
        let mut taken = Vec::new();
        let places = SUBSCRIBERS_MAX * 2;
        assert_eq!(filled(places, &mut taken, Some(Share::User(7))), SUBSCRIBERS_MAX / 3);
        let half = SUBSCRIBERS_MAX / 2;
        assert_eq!(filled(places, &mut taken, Some(Share::User(8))), half - SUBSCRIBERS_MAX / 3);
        assert_eq!(filled(places, &mut taken, Some(Share::User(9))), 0);
        assert_eq!(filled(places, &mut taken, None), places - half, "the own user gets all that is left");
    }

    #[test]
    fn invited_processes_get_half_of_all_places() {
        assert_eq!(filled(600, &mut Vec::new(), Some(Share::Invited)), 300);
    }

    #[test]
    fn the_first_of_a_user_gets_a_place_however_few_there_are() {
        assert_eq!(filled(4, &mut Vec::new(), Some(Share::User(7))), 1);
    }
}
