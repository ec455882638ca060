//! The end of a member in parts: it has tens of thousands of names, rules and calls, and others must not wait until all are gone.
//!
//! Until the last part is done it is a member of which the bus has not told yet that it is gone: it has its names, what is sent to it goes
//! nowhere, and calls to it fail when it is their turn. Parts are steps of a turn, as those of a broadcast.

use std::rc::Rc;

use super::work::{ENTRY, PARTS, TOLD, Work};
use super::{Action, Bus, CALLEE_GONE, DirectoryUpdate};
use crate::calls::Call;
use crate::member::{MemberId, Stage};
use crate::names::Change;
use crate::quota::Resource;

/// So many that wait for a name are one step of its next owner.
pub(super) const CLAIMS: usize = 512;

/// The end of a member, as far as it has been told.
#[derive(Debug)]
pub(super) struct Ending {
    id: MemberId,
    /// It stays connected as a monitor.
    is_monitor: bool,
    /// Does it have its unique name, of which others are to be told that it is gone?
    is_named: bool,
    /// Are all its names gone, and told?
    is_told: bool,
}

impl Work for Ending {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        for _ in 0..PARTS {
            if !bus.end_part(self) {
                return true;
            }
            if bus.is_passing() || !bus.step(0) {
                break;
            }
        }
        false
    }
}

impl Bus {
    /// Ends those that must end, and goes on with what is done beside messages.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some((id, eviction)) = self.leaving.pop() {
                if self.is_reachable(id) {
                    let who = self.described(id);
                    self.push_action(Action::Disconnect(id, eviction, who));
                    self.remove(id);
                }
            }
            if !self.go_on_beside() {
                return;
            }
        }
    }

    /// Takes a member out, and tells the others in this order: its well-known names, the last one first; its unique name; the calls that it
    /// will not answer.
    pub(super) fn remove(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_leaving) else { return };
        let (stage, uid, is_ending) = (member.stage, member.identity.credentials.uid, member.is_ending);
        member.is_leaving = true;
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
        if !is_ending {
            self.begin_end(id, false);
        }
    }

    /// A member becomes a monitor: it has no names, rules and calls any more, and sees what these rules match.
    pub(crate) fn make_monitor(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.stage = Stage::Monitor;
        self.monitor_count += 1;
        self.release(id, Resource::Matches, self.quota.held(id, Resource::Matches));
        self.begin_end(id, true);
    }

    fn begin_end(&mut self, id: MemberId, is_monitor: bool) {
        self.native.wide.remove(&id);
        self.update_directory(DirectoryUpdate::Leaving(id));
        let Some(member) = self.members.get_mut(&id) else { return };
        member.is_ending = true;
        // A monitor has lost its own when it was made one.
        let is_named = is_monitor || member.stage == Stage::Active;
        self.begin_beside(Ending { id, is_monitor, is_named, is_told: false });
    }

    /// One part; false if there was none left.
    fn end_part(&mut self, ending: &mut Ending) -> bool {
        if ending.is_monitor && !self.is_reachable(ending.id) {
            // It goes meanwhile.
            (ending.is_monitor, ending.is_told) = (false, false);
        }
        self.new_monitor = ending.is_monitor.then_some(ending.id);
        let is_left = self.take_part(ending);
        self.new_monitor = None;
        is_left
    }

    fn take_part(&mut self, ending: &mut Ending) -> bool {
        let id = ending.id;
        if let Some(waiting) = self.starts.take_last_of(id) {
            self.finish_waiting(&waiting);
            self.step(ENTRY);
        } else if self.matches.take_last(id) || !ending.is_monitor && self.monitors.take_last(id) {
            self.step(ENTRY);
        } else if let Some((name, change)) = self.names.leave_last(id) {
            let left = Rc::clone(&name);
            self.update_directory(DirectoryUpdate::Name(name));
            self.settle_names(id);
            if let Some(change) = change {
                self.publish(&change);
            }
            let waiting = self.names.queue(&left).len();
            self.step(TOLD + waiting / CLAIMS);
        } else if !ending.is_told {
            ending.is_told = true;
            self.tell_end(ending);
        } else if let Some(call) = self.calls.first_to(id) {
            self.end_unanswered(call);
        } else if let Some(call) = self.calls.first_of(id) {
            self.calls.close(call);
            self.step(ENTRY);
        } else {
            if ending.is_monitor {
                self.release(id, Resource::Calls, self.quota.held(id, Resource::Calls));
            }
            if let Some(monitor) = self.members.get_mut(&id) {
                monitor.is_ending = false;
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
