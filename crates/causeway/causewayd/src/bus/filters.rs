//! Which signals wake a native member, and for which ones of members the bus is woken: wake filters, made of match rules.
//!
//! A filter says yes to a signal that a rule matches, and to others if need be. So a further rule is added to it at once. One that is
//! removed leaves it too wide until it is made again; of very many rules that is done in parts, beside the messages.

use std::rc::Rc;

use causeway_bus::shared::filter::Filter;
use causeway_dbus_wire::rule::MatchRule;

use super::work::{Later, PARTS, Work};
use super::{Action, Bus, DRIVER, DirectoryUpdate};
use crate::member::MemberId;

/// So many rules are made a filter at once.
pub(super) const FEW: usize = 128;
/// A filter of more is made again when one rule of so many has gone.
const REMOVED: usize = 16;
/// Members of which the rules name one sender, and whose filters are made again in one turn in any case.
const FEW_MEMBERS: usize = 16;

/// What of a member's filter is not as it should be.
#[derive(Debug, Default)]
pub(super) struct Wide {
    /// Rules that were removed since it was made.
    removed: usize,
    /// It is being made.
    is_narrowing: bool,
    /// Rules that were added since that began.
    added: Vec<Rc<MatchRule>>,
    /// A name in its rules has another owner since then.
    is_stale: bool,
}

/// A filter that is being made.
#[derive(Debug)]
pub(super) struct Narrowing {
    member: MemberId,
    /// Rules that are not in it yet.
    left: usize,
    filter: Box<Filter>,
}

impl Bus {
    /// The number by which filters know the owner of a name.
    pub fn filter_owner(&self, name: &str) -> Option<u64> {
        if name == DRIVER {
            Some(causeway_bus::AUTHORITY_ID)
        } else {
            self.names.owner(name).map(|owner| owner.0)
        }
    }

    /// The filter of a member.
    pub fn filter_of(&self, member: MemberId) -> Filter {
        Filter::new(self.matches.of(member).map(|rule| &**rule), |name| self.filter_owner(name))
    }

    /// A member has a rule that it had not.
    pub(crate) fn rule_added(&mut self, member: MemberId, rule: Rc<MatchRule>) {
        if !self.is_joinable() {
            return;
        }
        if let Some(wide) = self.native.wide.get_mut(&member).filter(|wide| wide.is_narrowing) {
            wide.added.push(Rc::clone(&rule));
        }
        self.update_directory(DirectoryUpdate::Rule(member, rule));
    }

    /// A member has a rule no longer.
    pub(crate) fn rule_removed(&mut self, member: MemberId) {
        if !self.is_joinable() {
            return;
        }
        let count = self.matches.of(member).len();
        if count <= FEW {
            return self.make_filter(member);
        }
        let wide = self.native.wide.entry(member).or_default();
        wide.removed += 1;
        if wide.removed > count / REMOVED {
            self.narrow(member);
        }
    }

    /// A name has another owner: rules for messages of it wake for others.
    pub(super) fn update_rules_for(&mut self, name: &str) {
        if !self.is_joinable() {
            return;
        }
        let members: Vec<MemberId> = self.matches.members_that_name(name).collect();
        for (index, &member) in members.iter().enumerate() {
            if index < FEW_MEMBERS {
                self.renew_filter(member);
            } else {
                self.put(Later::new(Action::UpdateDirectory(DirectoryUpdate::Everything(member))));
                self.narrow_again(member);
            }
        }
    }

    /// A filter may not say yes to what it should: it is made at once, or says yes to everything until it is made.
    pub(super) fn renew_filter(&mut self, member: MemberId) {
        let count = self.matches.of(member).len();
        match count {
            0 => {}
            _ if count <= FEW => self.make_filter(member),
            _ => {
                self.update_directory(DirectoryUpdate::Everything(member));
                self.narrow_again(member);
            }
        }
    }

    fn narrow_again(&mut self, member: MemberId) {
        if let Some(wide) = self.native.wide.get_mut(&member) {
            wide.is_stale = true;
        }
        self.narrow(member);
    }

    /// Has the filter of a member made of its rules at once.
    fn make_filter(&mut self, member: MemberId) {
        if let Some(wide) = self.native.wide.get_mut(&member) {
            wide.is_stale = true;
        }
        self.update_directory(DirectoryUpdate::Rules(member));
    }

    /// Has the filter of a member made of its rules in parts.
    fn narrow(&mut self, member: MemberId) {
        let left = self.matches.of(member).len();
        let wide = self.native.wide.entry(member).or_default();
        if !wide.is_narrowing {
            *wide = Wide { is_narrowing: true, ..Wide::default() };
            self.begin_beside(Narrowing { member, left, filter: Box::default() });
        }
    }
}

impl Work for Narrowing {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        let (member, filter) = (self.member, &mut self.filter);
        if !bus.is_reachable(member) || !bus.native.wide.contains_key(&member) {
            bus.native.wide.remove(&member);
            return true;
        }
        for _ in 0..PARTS {
            let late = bus.native.wide.get_mut(&member).and_then(|wide| wide.added.pop());
            if let Some(rule) = late {
                filter.add(&rule, |name| bus.filter_owner(name));
            } else if self.left > 0 {
                // From the last to the first: one that takes the place of another is not missed.
                self.left -= 1;
                if let Some((rule, _)) = bus.matches.at(member, self.left) {
                    filter.add(rule, |name| bus.filter_owner(name));
                }
            } else {
                let wide = bus.native.wide.remove(&member).unwrap_or_default();
                if wide.is_stale {
                    bus.narrow(member);
                } else {
                    let filter = std::mem::take(filter);
                    bus.update_directory(DirectoryUpdate::Filter(member, filter));
                }
                return true;
            }
            if !bus.step(1) {
                break;
            }
        }
        false
    }

    fn is_of_log(&self) -> bool {
        true
    }
}
