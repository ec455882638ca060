//! Members that have the order log in their memory, and what the bus does for them.
//!
//! While one is there, every message that the bus accepts or makes is put into the log before it is delivered to anybody
//! ([`Action::Append`]), so that all see one order. What members read without asking (who is there, who has which name, which signals
//! wake whom) is written into the directory ([`Action::UpdateDirectory`]).

use std::path::{Path, PathBuf};
use std::rc::Rc;

use causeway_bus::shared::filter::Filter;
use causeway_bus::{BUS_INTERFACE, PASSED_ON};
use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::{Body, Builder, Header};
use rustc_hash::FxHashMap;

use super::filters::Wide;
use super::{Action, Bus, RoutedMessage};
use crate::calls::Call;
use crate::error;
use crate::member::{Carrier, MemberId};
use crate::message::Message;
use crate::quota::Resource;

/// For whom a message is in the order log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It was refused, or waits: no entry is made.
    None,
    /// All who want it.
    All,
    /// One member.
    One(MemberId),
    /// The bus itself.
    Bus,
}

/// What native members see without asking. A change is shown there before the log announces it: who reacts to the announcement finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryUpdate {
    /// A member is there.
    Arrived(MemberId),
    /// Its end will be announced: nobody sends to it any more.
    Leaving(MemberId),
    /// Its end was announced.
    Gone(MemberId),
    /// Who has this name, and who waits for it.
    Name(Rc<str>),
    /// For which signals a member must be woken: for those that its rules match now,
    Rules(MemberId),
    /// for those that this further rule matches, too,
    Rule(MemberId, Rc<MatchRule>),
    /// for all,
    Everything(MemberId),
    /// for those to which this filter says yes.
    Filter(MemberId, Box<Filter>),
}

/// Where the message that is being passed stands in the order log.
#[derive(Debug, Default)]
enum Entry {
    /// Nowhere yet.
    #[default]
    None,
    /// In the action at this index, whose receiver is not decided.
    Open(usize),
    /// It was read from there.
    InLog,
}

/// What the bus knows of the order log.
#[derive(Debug, Default)]
pub struct Native {
    /// Where members join; nothing if none can.
    pub(super) path: Option<PathBuf>,
    /// Do they see everything by now?
    pub(super) is_shown: bool,
    /// Does anybody read the log?
    is_read: bool,
    entry: Entry,
    /// Does a client want to see messages between members, and of which rules and policy is that known?
    is_watched: Option<((u64, u64), bool)>,
    /// Members whose filters are wider than their rules.
    pub(super) wide: FxHashMap<MemberId, Wide>,
}

impl Native {
    /// Members join at this place, and see nothing yet.
    pub(super) fn at(path: &Path) -> Native {
        Native { path: Some(path.to_owned()), ..Native::default() }
    }
}

impl Bus {
    /// The log has ended, and with it all native members. They are gone without further words in the log.
    pub fn end_natively(&mut self) {
        self.native = Native::default();
        self.forget_log();
        let native: Vec<MemberId> = self.members.keys().copied().filter(|id| self.is_native(*id)).collect();
        native.into_iter().for_each(|id| self.leave(id));
    }

    /// Somebody reads the order log from now on, or nobody does any more.
    pub fn set_read_natively(&mut self, is_read: bool) {
        self.native.is_read = is_read;
    }

    /// Must messages be put into the order log before they are delivered?
    pub fn is_read_natively(&self) -> bool {
        self.native.is_read
    }

    /// Must messages between native members be read here, because a client wants to see them?
    pub fn watches_native_members(&mut self) -> bool {
        if self.monitor_count > 0 {
            return true;
        }
        let now = (self.matches.eavesdropping_changes(), self.policy_changes);
        match self.native.is_watched {
            Some((then, is_watched)) if then == now => is_watched,
            _ => {
                // Rules of members are for themselves, and what the policy lets nobody see is not looked for.
                let may_see = |id: MemberId| {
                    self.members.get(&id).is_some_and(|member| member.rules.borrow().may_eavesdrop())
                };
                let is_watched = self.matches.eavesdroppers().any(|id| !self.is_native(id) && may_see(id));
                self.native.is_watched = Some((now, is_watched));
                is_watched
            }
        }
    }

    /// A native member that was admitted has been given its place in the log. Tells everybody.
    pub fn announce_native(&mut self, id: MemberId) {
        let Some(member) = self.members.get(&id) else { return };
        let name = Rc::clone(&member.name);
        self.activate(id);
        self.publish_unique(&name, None, Some(id));
        self.settle();
    }

    /// Does the order log carry the messages of this member?
    pub(crate) fn is_native(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|member| member.carrier == Carrier::Log)
    }

    /// The message that is being passed was read from the log.
    pub(crate) fn mark_read_from_log(&mut self) {
        self.native.entry = Entry::InLog;
    }

    /// Can native members join?
    pub(super) fn is_joinable(&self) -> bool {
        self.native.path.is_some()
    }

    /// Leaves something to be shown, if it can be seen.
    pub(crate) fn update_directory(&mut self, update: DirectoryUpdate) {
        if self.is_joinable() {
            self.push_action(Action::UpdateDirectory(update));
        }
    }

    /// A message of a client begins its way: its entry comes before whatever it causes.
    pub(crate) fn open_entry(&mut self, routed: RoutedMessage<'_>) {
        if self.native.is_read {
            self.native.entry = Entry::Open(self.actions.len());
            self.append(routed, Receiver::None);
        }
    }

    /// A message has come to the end of its way. If nobody gets it now, it has no entry.
    pub(crate) fn close_entry(&mut self) {
        self.native.entry = Entry::None;
    }

    /// It is decided for whom a message is.
    pub(crate) fn append_routed(&mut self, routed: RoutedMessage<'_>, receiver: Receiver) {
        match std::mem::take(&mut self.native.entry) {
            _ if !self.native.is_read => {}
            Entry::InLog if routed.from.is_some() => {}
            Entry::Open(index) if routed.from.is_some() => {
                if let Some(Action::Append { to, .. }) = self.actions.get_mut(index) {
                    *to = receiver;
                }
            }
            other => {
                self.native.entry = other;
                self.append(routed, receiver);
            }
        }
    }

    fn append(&mut self, routed: RoutedMessage<'_>, to: Receiver) {
        self.push_action(Action::Append { from: routed.from, to, message: Rc::clone(routed.message) });
    }

    /// A call between native members goes through the bus, because its caller knew no receiver: now it knows one.
    pub(super) fn tell_caller(&mut self, from: MemberId, to: MemberId, header: &Header<'_>) {
        if header.expects_reply() && self.is_native(from) && self.is_native(to) {
            let body = Body::default().u32(header.serial).text(&to.unique_name());
            let signal = Builder::signal(super::DRIVER_PATH, BUS_INTERFACE, PASSED_ON);
            self.send(from, signal.body(body));
        }
    }

    /// A message that was accepted for a native member cannot be put into the log, for lack of descriptors or memory.
    pub fn transfer_failed(&mut self, from: Option<MemberId>, to: MemberId, message: &Message, why: &str) {
        let (Some(from), header) = (from, message.header()) else { return };
        match header.reply_serial {
            Some(serial) => self.end_call(Call { caller: to, serial, callee: from }, why),
            None if header.expects_reply() => {
                self.end_call(Call { caller: from, serial: header.serial, callee: to }, why);
            }
            None => {}
        }
        self.settle();
    }

    /// A call ends with an error of the bus instead of its reply.
    pub(crate) fn end_call(&mut self, call: Call, why: &str) {
        if self.calls.close(call) {
            self.release(call.caller, Resource::Calls, 1);
        }
        let error = Builder::error(call.serial, error::LIMITS_EXCEEDED).body(Body::default().text(why));
        self.send(call.caller, error);
    }
}
