//! The end of a member in parts: it has tens of thousands of names, rules and calls, and others must not wait until all are gone.
//!
//! Until the last part is done it is a member of which the bus has not told yet that it is gone: it has its names, what is sent to it goes
//! nowhere, and calls to it fail when it is their turn. Parts are steps of a turn, as those of a broadcast.

use std::collections::VecDeque;
use std::rc::Rc;

use causeway_dbus_wire::rule::MatchRule;

use super::{Action, Bus, CALLEE_GONE, DirectoryUpdate};
use crate::calls::Call;
use crate::member::{MemberId, Stage};
use crate::names::Change;
use crate::quota::Resource;

/// Parts of one end before that of the next has its turn.
const PARTS: usize = 32;
/// Steps of a rule that goes, and of a name or call whose end is told.
const RULE: usize = 4;
const TOLD: usize = 16;

#[derive(Debug)]
struct Ending {
    id: MemberId,
    /// It stays connected as a monitor.
    is_monitor: bool,
    /// Rules that are still there.
    rules: Vec<Rc<MatchRule>>,
    /// Does it have its unique name, of which others are to be told that it is gone?
    is_named: bool,
    /// Are all its names gone, and told?
    is_told: bool,
}

/// Members that leave, in turn.
#[derive(Debug, Default)]
pub(super) struct Endings(VecDeque<Ending>);

impl Bus {
    /// Has something begun that goes on in the next turn?
    pub fn has_work(&self) -> bool {
        self.is_passing() || !self.endings.0.is_empty()
    }

    /// Ends those that must end.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some((id, eviction)) = self.leaving.pop() {
                if self.is_reachable(id) {
                    let who = self.described(id);
                    self.act(Action::Disconnect(id, eviction, who));
                    self.remove(id);
                }
            }
            if self.is_passing() || !self.end_in_parts() {
                return;
            }
        }
    }

    /// Takes a member out, and tells the others in this order: its well-known names, the last one first; its unique name; the calls that it
    /// will not answer.
    pub(super) fn remove(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_leaving) else { return };
        let (stage, uid) = (member.stage, member.identity.credentials.uid);
        member.is_leaving = true;
        self.starts.remove(id).iter().for_each(|waiting| self.show(waiting));
        self.reloading.remove(id);
        match stage {
            Stage::New => {
                self.members.remove(&id);
                self.quota.remove(id, uid);
                return;
            }
            Stage::Monitor => self.monitor_count -= 1,
            Stage::Active => {}
        }
        if let Some(count) = self.members_of_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.members_of_user.remove(&uid);
            }
        }
        // One that goes while it is being made a monitor has its names, rules and calls taken once: what is left of them.
        match self.endings.0.iter_mut().find(|ending| ending.id == id) {
            Some(ending) => (ending.is_monitor, ending.is_told) = (false, false),
            None => self.begin_end(id, false),
        }
    }

    /// A member becomes a monitor: it has no names, rules and calls any more, and sees what these rules match.
    pub(crate) fn make_monitor(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.stage = Stage::Monitor;
        self.monitor_count += 1;
        self.release(id, Resource::Matches, self.quota.held(id, Resource::Matches));
        for waiting in self.starts.remove(id).into_iter().chain(self.reloading.remove(id)) {
            self.waits_no_more(&waiting);
        }
        self.begin_end(id, true);
    }

    fn begin_end(&mut self, id: MemberId, is_monitor: bool) {
        self.update_directory(DirectoryUpdate::Leaving(id));
        let rules = self.matches.all_of(id);
        // A monitor has lost its own when it was made one.
        let is_named = is_monitor || self.members[&id].stage == Stage::Active;
        self.endings.0.push_back(Ending { id, is_monitor, rules, is_named, is_told: false });
    }

    /// Goes on with the end of one member; false if none leaves, or nothing more can be done in this turn.
    fn end_in_parts(&mut self) -> bool {
        if !self.step(0) {
            return false;
        }
        let Some(mut ending) = self.endings.0.pop_front() else { return false };
        for _ in 0..PARTS {
            if !self.end_part(&mut ending) {
                return true;
            }
            if self.is_passing() || !self.step(0) {
                break;
            }
        }
        self.endings.0.push_back(ending);
        true
    }

    /// One part; false if there was none left.
    fn end_part(&mut self, ending: &mut Ending) -> bool {
        let id = ending.id;
        if let Some(rule) = ending.rules.pop() {
            self.matches.take_out(id, &rule);
            self.step(RULE);
        } else if let Some((name, change)) = self.names.leave_last(id) {
            self.update_directory(DirectoryUpdate::Name(name));
            self.settle_names(id);
            if let Some(change) = change {
                self.publish(&change);
            }
            self.step(TOLD);
        } else if !ending.is_told {
            ending.is_told = true;
            self.tell_end(ending);
        } else if let Some(call) = self.calls.first_to(id) {
            self.end_unanswered(call);
        } else if let Some(call) = self.calls.first_of(id) {
            self.calls.close(call);
            self.step(RULE);
        } else {
            if ending.is_monitor {
                self.release(id, Resource::Calls, self.quota.held(id, Resource::Calls));
            }
            return false;
        }
        true
    }

    /// A call will not be answered by its callee.
    fn end_unanswered(&mut self, call: Call) {
        self.calls.close(call);
        if call.caller != call.callee {
            self.no_reply(call, CALLEE_GONE);
        }
        self.step(TOLD);
    }

    /// The names are gone: the unique one is the last.
    fn tell_end(&mut self, ending: &mut Ending) {
        let id = ending.id;
        let Some(member) = self.members.get(&id) else { return };
        let (name, uid) = (Rc::clone(&member.name), member.identity.credentials.uid);
        let was_named = std::mem::take(&mut ending.is_named);
        if ending.is_monitor {
            self.settle_names(id);
            self.publish(&Change { name, old: Some(id), new: None });
        } else {
            self.members.remove(&id);
            self.monitors.remove_all(id);
            self.quota.remove(id, uid);
            if was_named {
                self.publish_unique(&name, Some(id), None);
            }
        }
        if was_named {
            self.update_directory(DirectoryUpdate::Gone(id));
        }
    }
}
