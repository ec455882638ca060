//! How much of each resource members hold, and how much they may.
//!
//! A member has a limit of its own, and all members of one user share a budget; what a member may have of both is its
//! [`Share`]. See `docs/decisions/quota.md`.

use causeway_bus::Share;
use rustc_hash::FxHashMap;

use crate::limit::{Lever, Reached};
use crate::member::MemberId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of messages that wait: for the member that does not read them, or of a service that starts.
    Bytes,
    /// Descriptors of those messages.
    Descriptors,
    /// Well-known names, owned or waited for.
    Names,
    /// Match rules, counted as often as added.
    Matches,
    Calls,
    /// Bytes of a message that has not arrived whole.
    Incoming,
}

pub const RESOURCES: usize = Resource::Incoming as usize + 1;

impl Resource {
    /// What `<limit>` calls its limit, and what is counted.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Resource::Bytes => ("max_outgoing_bytes", "bytes of messages that wait"),
            Resource::Descriptors => ("max_outgoing_unix_fds", "file descriptors of messages that wait"),
            Resource::Names => ("max_names_per_connection", "names"),
            Resource::Matches => ("max_match_rules_per_connection", "match rules"),
            Resource::Calls => ("max_replies_per_connection", "calls without a reply"),
            Resource::Incoming => ("max_incoming_bytes", "bytes of a message that has not arrived whole"),
        }
    }

    /// How many times the limit of one member all members of a user may hold: of what is memory, and of what is an
    /// entry in a table.
    fn user_members(self) -> u64 {
        match self {
            Resource::Bytes | Resource::Descriptors | Resource::Incoming => 4,
            Resource::Names | Resource::Matches | Resource::Calls => 16,
        }
    }
}

/// A message with so many descriptors, as many as dbus-daemon lets a message have, is small. Large ones leave the last
/// quarter of the room to small ones.
pub const SMALL: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub struct PerMember {
    pub bytes: u64,
    pub descriptors: u64,
    pub names: u64,
    pub matches: u64,
    pub calls: u64,
    pub incoming: u64,
    /// Is the limit of descriptors lower than configured, because the process may open too few files?
    pub are_descriptors_cut: bool,
}

impl PerMember {
    fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Bytes => self.bytes,
            Resource::Descriptors => self.descriptors,
            Resource::Names => self.names,
            Resource::Matches => self.matches,
            Resource::Calls => self.calls,
            Resource::Incoming => self.incoming,
        }
    }
}

#[derive(Debug, Default)]
struct Holding {
    now: [u64; RESOURCES],
    peak: [u64; RESOURCES],
}

impl Holding {
    fn take(&mut self, index: usize, amount: u64) {
        self.now[index] += amount;
        self.peak[index] = self.peak[index].max(self.now[index]);
    }
}

#[derive(Debug)]
pub struct Quota {
    limits: PerMember,
    of_member: FxHashMap<MemberId, Holding>,
    of_user: FxHashMap<u32, [u64; RESOURCES]>,
    of_all: Holding,
    /// The most that one member has held, also of those that are gone.
    member_peak: [u64; RESOURCES],
}

impl Quota {
    pub fn new(limits: PerMember) -> Quota {
        Quota {
            limits,
            of_member: FxHashMap::default(),
            of_user: FxHashMap::default(),
            of_all: Holding::default(),
            member_peak: [0; RESOURCES],
        }
    }

    /// From now on these limits hold. A member that holds more keeps what it has.
    pub fn set_limits(&mut self, limits: PerMember) {
        self.limits = limits;
    }

    /// A member of this user takes `amount` more, if it may; otherwise nothing changes. Of bytes and descriptors a
    /// member that holds none gets one message of any size while the budget of its user lasts, and descriptors of a small
    /// message ([`SMALL`]) also afterwards, so that no connection ends because of what others hold.
    ///
    /// # Errors
    /// It may not.
    pub fn charge(
        &mut self,
        member: MemberId,
        uid: u32,
        resource: Resource,
        amount: u64,
    ) -> Result<(), Reached> {
        let index = resource as usize;
        let (limit, of_member) = (self.limits.of(resource), self.of_member.entry(member).or_default());
        let of_user = &mut self.of_user.entry(uid).or_default()[index];
        let (own, user) = (of_member.now[index], *of_user);
        let share = Share { limit, budget: limit.saturating_mul(resource.user_members()) };
        let may = match resource {
            Resource::Descriptors if own == 0 && amount <= SMALL => true,
            Resource::Bytes | Resource::Descriptors => share.allows_message(own, user, amount),
            _ => share.allows(own, user, amount),
        };
        if !may {
            let ((name, what), most) = (resource.name(), share.most(own, user));
            let of_user = (most < share.limit).then_some((uid, user, share.budget));
            let whose = member.label();
            let is_cut = resource == Resource::Descriptors && self.limits.are_descriptors_cut;
            let lever = if is_cut { Lever::OpenFiles } else { Lever::Limit(name) };
            return Err(Reached { lever, whose, what, has: own, more: amount, most, of_user });
        }
        *of_user += amount;
        of_member.take(index, amount);
        self.of_all.take(index, amount);
        self.member_peak[index] = self.member_peak[index].max(own + amount);
        Ok(())
    }

    /// A member gives back what it was charged for.
    ///
    /// # Panics
    /// It was charged for less.
    pub fn release(&mut self, member: MemberId, uid: u32, resource: Resource, amount: u64) {
        if amount == 0 {
            return;
        }
        let index = resource as usize;
        let own = self.of_member.get_mut(&member).map(|holding| &mut holding.now);
        for held in [own, self.of_user.get_mut(&uid), Some(&mut self.of_all.now)] {
            let held = &mut held.expect("it was charged")[index];
            *held = held.checked_sub(amount).expect("no more is released than was charged");
        }
    }

    /// A member has another number from now on, which holds nothing yet.
    pub fn rename(&mut self, from: MemberId, to: MemberId) {
        if let Some(holding) = self.of_member.remove(&from) {
            self.of_member.insert(to, holding);
        }
    }

    /// A member is gone, and gives back everything.
    pub fn remove(&mut self, member: MemberId, uid: u32) {
        let Some(Holding { now: own, .. }) = self.of_member.remove(&member) else { return };
        let Some(user) = self.of_user.get_mut(&uid) else { return };
        for (index, own) in own.into_iter().enumerate() {
            user[index] -= own;
            self.of_all.now[index] -= own;
        }
        if user.iter().all(|held| *held == 0) {
            self.of_user.remove(&uid);
        }
    }

    /// Of each resource, in the order of [`Resource`], what a member holds and the most that it has held.
    pub fn all_of(&self, member: MemberId) -> ([u64; RESOURCES], [u64; RESOURCES]) {
        self.of_member.get(&member).map_or_else(Default::default, |held| (held.now, held.peak))
    }

    pub fn held(&self, member: MemberId, resource: Resource) -> u64 {
        self.of_member.get(&member).map_or(0, |held| held.now[resource as usize])
    }

    pub fn held_by_all(&self, resource: Resource) -> u64 {
        self.of_all.now[resource as usize]
    }

    /// The most that all members together have held at once.
    pub fn peak_of_all(&self, resource: Resource) -> u64 {
        self.of_all.peak[resource as usize]
    }

    /// The most that any member has held at once, also of those that are gone.
    pub fn member_peak(&self, resource: Resource) -> u64 {
        self.member_peak[resource as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(limit: u64) -> Quota {
        let [bytes, descriptors, names, matches, calls, incoming] = [limit; RESOURCES];
        let are_descriptors_cut = false;
        Quota::new(PerMember { bytes, descriptors, names, matches, calls, incoming, are_descriptors_cut })
    }

    fn fill(quota: &mut Quota, member: u64, resource: Resource) -> u64 {
        let mut got = 0;
        while quota.charge(MemberId(member), 0, resource, 1).is_ok() {
            got += 1;
        }
        got
    }

    #[test]
    fn one_member_reaches_its_own_limit_and_later_ones_less_but_never_nothing() {
        let mut quota = quota(100);
        let got: Vec<u64> = (0..6).map(|member| fill(&mut quota, member, Resource::Bytes)).collect();
        assert_eq!(got[..2], [100, 100]);
        assert!(got.windows(2).all(|two| two[1] <= two[0]) && got[5] > 0, "{got:?}");
        assert!(got.iter().sum::<u64>() <= 400);
        // Another user has a budget of its own.
        quota.charge(MemberId(9), 1, Resource::Bytes, 99).unwrap();
        quota.remove(MemberId(0), 0);
        assert_eq!(quota.held(MemberId(0), Resource::Bytes), 0);
        assert!(fill(&mut quota, 7, Resource::Bytes) > got[5]);
        for member in 0..10 {
            quota.remove(MemberId(member), u32::from(member == 9));
        }
        assert!(quota.of_member.is_empty() && quota.of_user.is_empty());
    }

    #[test]
    fn peaks_stay_when_what_was_held_is_given_back() {
        let mut quota = quota(100);
        let matches = Resource::Matches;
        let charge = |quota: &mut Quota, id, count| quota.charge(MemberId(id), 0, matches, count).is_ok();
        assert!(charge(&mut quota, 1, 7) && charge(&mut quota, 2, 4));
        quota.release(MemberId(1), 0, matches, 6);
        assert!(charge(&mut quota, 2, 1) && !charge(&mut quota, 2, 1000));
        let (held, peak) = quota.all_of(MemberId(1));
        assert_eq!((held[matches as usize], peak[matches as usize]), (1, 7));
        assert_eq!((quota.held_by_all(matches), quota.peak_of_all(matches)), (6, 11));
        quota.remove(MemberId(1), 0);
        assert_eq!((quota.held_by_all(matches), quota.peak_of_all(matches)), (5, 11));
        assert_eq!(quota.member_peak(matches), 7);
    }

    #[test]
    fn new_limits_hold_at_once_and_for_members_with_a_new_number() {
        let mut quota = quota(10);
        assert_eq!(fill(&mut quota, 1, Resource::Names), 10);
        quota.set_limits(PerMember { names: 12, ..quota.limits });
        quota.rename(MemberId(1), MemberId(2));
        assert_eq!(fill(&mut quota, 2, Resource::Names), 2);
        assert_eq!([1, 2].map(|id| quota.held(MemberId(id), Resource::Names)), [0, 12]);
        quota.rename(MemberId(7), MemberId(8));
        assert!(!quota.of_member.contains_key(&MemberId(8)));
    }

    #[test]
    fn a_member_that_holds_nothing_gets_one_message_of_any_size_and_no_more() {
        let mut quota = quota(10);
        quota.charge(MemberId(1), 0, Resource::Bytes, 1_000).unwrap();
        quota.charge(MemberId(1), 0, Resource::Bytes, 1).unwrap_err();
        quota.release(MemberId(1), 0, Resource::Bytes, 1_000);
        quota.charge(MemberId(1), 0, Resource::Bytes, 10).unwrap();
        assert_eq!(fill(&mut quota, 1, Resource::Names), 10);
    }

    /// All limits of a member: the one that is reached, whose it is, and what to change.
    #[test]
    fn a_refusal_says_which_limit_whose_and_what_to_change() {
        use Resource::*;
        for (resource, name) in [
            (Bytes, "max_outgoing_bytes"),
            (Descriptors, "max_outgoing_unix_fds"),
            (Names, "max_names_per_connection"),
            (Matches, "max_match_rules_per_connection"),
            (Calls, "max_replies_per_connection"),
            (Incoming, "max_incoming_bytes"),
        ] {
            let mut quota = quota(8);
            assert_eq!(fill(&mut quota, 7, resource), 8);
            let own = quota.charge(MemberId(7), 7, resource, 3).unwrap_err().to_string();
            assert!(
                own.starts_with(":1.5 has 8 ") && own.contains(" and wants 3 more, of at most 8; "),
                "{own}"
            );
            // All but a rest of its user's budget is gone: that is said, too.
            (2..40).for_each(|member| assert!(fill(&mut quota, member, resource) <= 8));
            // One that holds nothing gets a message's descriptors.
            let mut twice = |id| (0..2).find_map(|_| quota.charge(MemberId(id), 0, resource, 2).err());
            let shared = (40..).find_map(&mut twice);
            let shared = shared.unwrap().to_string();
            let held = quota.held_by_all(resource);
            let budget = 8 * resource.user_members();
            let of_user = format!(" while all connections of user 0 have {held} of {budget}; ");
            assert!(shared.contains(&of_user), "{shared}");
            for said in [own, shared] {
                assert!(said.ends_with(&format!(
                    "raise <limit name=\"{name}\"> in the configuration file of the bus (--config-file)"
                )));
                assert_eq!(crate::config::Limits::default().set(name, 1), Ok(true), "it is not a limit");
            }
        }
    }
}
