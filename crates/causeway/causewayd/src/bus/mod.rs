//! The bus: delivers a message of one member to others. One message at a time, so there is one order of all.
//!
//! It owns no socket. What is to be done outside of it (deliver, disconnect, start a program) it leaves as [`Action`]s,
//! in order. While native members are there, these name the messages that must be put into the order log first: see
//! [`native`].

mod ending;
mod filters;
mod listing;
pub mod native;
mod passing;
mod reload;
mod report;
mod route;
mod services;
mod showing;
mod start;
mod systemd;
#[cfg(test)]
mod tests;
mod waiters;
mod work;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_dbus_wire::rule::Owners;
use causeway_dbus_wire::wire::{Body, Builder, Header};
use rustc_hash::FxHashMap;

use crate::activation::Starts;
use crate::calls::{Call, Calls};
use crate::config::Config;
use crate::end::End;
use crate::error;
use crate::limit::{Lever, Reached};
use crate::log::{detail, log};
use crate::matches::Matches;
use crate::member::{Carrier, Identity, Member, MemberId, Stage};
use crate::message::{LazyArgs, Message};
use crate::names::{Change, Names};
use crate::policy::RulesOf;
use crate::quota::{Quota, Resource};
use crate::room::Room;

pub use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
pub use native::{DirectoryUpdate, Receiver};
pub use report::{About, StatisticsCall};
pub use services::LookUp;
pub use start::Ended;
use work::TOLD;
pub(crate) use work::{PARTS, Work};

/// Texts that programs and D-Bus's own tests compare, in addition to the name of the error.
const CALLEE_GONE: &str = "Message recipient disconnected from message bus without replying";
const NO_REPLY_IN_TIME: &str = "Message did not receive a reply (timeout by message bus)";

/// What is to be done outside of the bus.
#[derive(Debug)]
pub enum Action {
    Deliver(MemberId, Rc<Message>),
    /// Put a message into the order log, as the sender that it names or, of nobody, the driver. What follows is done
    /// when the log has been read up to there.
    Append {
        from: Option<MemberId>,
        to: Receiver,
        message: Rc<Message>,
    },
    /// Show something to native members, as it is now.
    UpdateDirectory(DirectoryUpdate),
    /// End a member, for this reason. It is not a member any more; this is who it was.
    Disconnect(MemberId, End, String),
    /// Answer a question about connections, with [`Bus::answer_statistics`].
    Report(StatisticsCall),
    /// Have files of services read, and say what was found with [`Bus::looked_up`].
    LookUp(LookUp),
    /// Have the configuration read with [`Bus::load`], and say what it is with [`Bus::reloaded`].
    Reload,
    /// Start a program that provides a name, in this environment alone, and say what becomes of it under this number.
    Start {
        number: u64,
        command: Vec<String>,
        environment: Vec<(OsString, OsString)>,
    },
    /// End the program of the start with this number, whose time is over.
    Kill(u64),
}

/// A message on its way through the bus.
#[derive(Clone, Copy)]
pub struct RoutedMessage<'a> {
    /// Who sent it; `None` is the driver.
    pub from: Option<MemberId>,
    /// Its header, with the true sender.
    pub header: &'a Header<'a>,
    pub args: &'a LazyArgs<'a>,
    pub message: &'a Rc<Message>,
    /// Is it a reply that its destination waits for?
    pub is_requested_reply: bool,
}

impl<'a> RoutedMessage<'a> {
    /// A message of a member. Whether it is a reply that its destination waits for is decided when it gets there.
    pub fn of(
        from: MemberId,
        header: &'a Header<'a>,
        args: &'a LazyArgs<'a>,
        message: &'a Rc<Message>,
    ) -> RoutedMessage<'a> {
        RoutedMessage { from: Some(from), header, args, message, is_requested_reply: false }
    }
}

/// Statistics other than the sizes of tables.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Messages that were accepted from members.
    pub accepted: u64,
    /// Deliveries, each message as often as it has receivers.
    pub delivered: u64,
    /// Members that were ended because they did not read.
    pub stalled: u64,
    /// Connections that the bus has ended, by the reason.
    pub evictions: BTreeMap<&'static str, u64>,
    /// The longest time that the loop was away from waiting for events.
    pub longest_turn: Duration,
    /// The longest CPU time of one such turn.
    pub longest_turn_cpu: Duration,
}

/// Reads the configuration, the first time and again; a sentence says why it cannot be used. A thread does it.
pub type Load = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Everything that the bus knows.
pub struct Bus {
    /// What it was told.
    pub(crate) config: Config,
    load: Load,
    pub(crate) guid: String,
    /// Where started services find it.
    pub(crate) address: String,
    /// Its user.
    pub(crate) uid: u32,
    /// That of its machine, as it was at the start.
    pub(crate) machine_id: Option<String>,
    pub(crate) members: BTreeMap<MemberId, Member>,
    next_member: MemberId,
    next_unnamed: MemberId,
    /// The one that has said Hello in the message that is being passed, with the number that it has now.
    pub(crate) said_hello: Option<MemberId>,
    pub(crate) members_of_user: FxHashMap<u32, usize>,
    pub(crate) names: Names,
    pub(crate) matches: Matches,
    /// The rules of monitors.
    pub(crate) monitors: Matches,
    /// The one that is being made a monitor, while others are told that its names are gone.
    new_monitor: Option<MemberId>,
    pub(crate) monitor_count: usize,
    calls: Calls,
    pub(crate) quota: Quota,
    pub(crate) room: Room,
    known: services::Known,
    pub(crate) starts: Starts,
    reloading: reload::Reload,
    /// The rules of the policy for those that are there.
    rules_of: RulesOf,
    /// How often members got other rules of the policy.
    policy_changes: u64,
    pub(crate) has_systemd_activation: bool,
    /// What started services find in their environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// That of the driver's last message.
    pub(crate) serial: u32,
    pub(crate) now: Instant,
    pub(crate) counters: Counters,
    pub(crate) actions: Vec<Action>,
    /// Members that must end, for these reasons.
    leaving: Vec<(MemberId, End)>,
    /// What goes on in the next turn.
    agenda: work::Agenda,
    pub(crate) native: native::Native,
}

/// Who has which name, as match rules ask for it.
pub(crate) struct View<'a>(pub &'a Names);

impl Owners for View<'_> {
    /// The connection may be given by a well-known name too: a message keeps the destination that its sender wrote.
    fn owns(&self, connection: &str, name: &str) -> bool {
        let number = |name: &str| MemberId::from_unique_name(name).or_else(|| self.0.owner(name));
        number(connection).is_some_and(|owner| Some(owner) == number(name))
    }
}

impl Bus {
    /// A bus without members. [`reload`](Bus::reload) reads its configuration again with `load`.
    pub fn new(mut config: Config, load: Load, guid: String, address: String) -> Bus {
        let room = Room::of(rustix::process::getrlimit(rustix::process::Resource::Nofile).current);
        room.fit(&mut config.limits);
        let quota = Quota::new(config.limits.per_member);
        let known = services::Known::unread(&config.service_dirs);
        Bus {
            quota,
            room,
            known,
            config,
            load,
            guid,
            address,
            uid: rustix::process::geteuid().as_raw(),
            machine_id: causeway_os::machine_id::machine_id(),
            members: BTreeMap::new(),
            next_member: MemberId::FIRST,
            next_unnamed: MemberId::FIRST_UNNAMED,
            said_hello: None,
            members_of_user: FxHashMap::default(),
            names: Names::default(),
            matches: Matches::default(),
            monitors: Matches::default(),
            new_monitor: None,
            monitor_count: 0,
            calls: Calls::default(),
            starts: Starts::default(),
            reloading: reload::Reload::default(),
            rules_of: RulesOf::default(),
            policy_changes: 0,
            has_systemd_activation: false,
            environment: std::env::vars_os()
                .filter(|(name, _)| !crate::systemd::VARIABLES.iter().any(|of_bus| name == of_bus))
                .collect(),
            serial: 0,
            now: Instant::now(),
            counters: Counters::default(),
            actions: Vec::new(),
            leaving: Vec::new(),
            agenda: work::Agenda::default(),
            native: native::Native::default(),
        }
    }

    /// Says what of the configuration is not done.
    pub fn log_warnings(&self) {
        self.config.warnings.iter().for_each(|warning| log(warning));
    }

    /// What reads the configuration.
    pub fn load(&self) -> Load {
        Arc::clone(&self.load)
    }

    /// A client asks to become a member. `None` if policy or limits do not let it.
    pub fn admit(&mut self, identity: Identity, carrier: Carrier) -> Option<MemberId> {
        let uid = identity.credentials.uid;
        if !self.config.policy.may_connect(uid, identity.all_groups(), self.uid) {
            return None;
        }
        let id = self.next_unnamed.take_next();
        let rules = self.rules_of.get(&self.config.policy, uid, identity.all_groups());
        let (name, takes_descriptors) = (id.unique_name(), carrier == Carrier::Log);
        let member = Member {
            name,
            identity,
            takes_descriptors,
            stage: Stage::New,
            is_leaving: false,
            is_ending: false,
            rules,
            carrier,
        };
        self.members.insert(id, member);
        Some(id)
    }

    /// Which number the next one gets that takes part.
    pub fn next_member(&self) -> MemberId {
        self.next_member
    }

    /// Gives one that has its place the number, and so the unique name, that it has from now on.
    pub fn give_number(&mut self, unnamed: MemberId) -> MemberId {
        let id = self.next_member.take_next();
        let mut member = self.members.remove(&unnamed).expect("it was admitted");
        member.name = id.unique_name();
        self.members.insert(id, member);
        self.quota.rename(unnamed, id);
        id
    }

    /// Gives a new member what every active one holds, if limits let it.
    ///
    /// # Errors
    /// One does not.
    pub(crate) fn claim_place(&mut self, id: MemberId) -> Result<(), Reached> {
        let uid = self.members[&id].identity.credentials.uid;
        let of_user = self.members_of_user.get(&uid).copied().unwrap_or(0);
        let all: usize = self.members_of_user.values().sum();
        let limits = &self.config.limits;
        let (what, most) = ("connections", limits.connections_per_user);
        if of_user >= most {
            return Err(Reached::by_one(
                "max_connections_per_user",
                format!("user {uid}"),
                what,
                of_user,
                most,
            ));
        }
        if all >= limits.connections {
            let (name, whose) = ("max_completed_connections", "the bus".into());
            let reached = Reached::by_one(name, whose, what, all, limits.connections);
            let lever = if limits.are_connections_cut { Lever::OpenFiles } else { reached.lever };
            return Err(Reached { lever, ..reached });
        }
        // The unique name is one of its names.
        self.charge(id, Resource::Names, 1)
    }

    /// A member that has its place takes part from now on.
    pub(crate) fn activate(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.stage = Stage::Active;
        let uid = member.identity.credentials.uid;
        *self.members_of_user.entry(uid).or_default() += 1;
        detail(|| format!("{} has joined", self.described(id)));
        self.update_directory(DirectoryUpdate::Arrived(id));
    }

    /// A member can be passed descriptors, or cannot.
    pub fn set_takes_descriptors(&mut self, id: MemberId, takes: bool) {
        if let Some(member) = self.members.get_mut(&id) {
            member.takes_descriptors = takes;
        }
    }

    /// Is a member of root, or of the user of the bus?
    pub(crate) fn is_privileged(&self, id: MemberId) -> bool {
        let uid = self.members.get(&id).map(|member| member.identity.credentials.uid);
        uid.is_some_and(|uid| uid == self.uid || uid == 0)
    }

    /// Takes what is to be done, and leaves an empty vector in its place.
    pub fn take_actions(&mut self, emptied: Vec<Action>) -> Vec<Action> {
        debug_assert!(emptied.is_empty());
        std::mem::replace(&mut self.actions, emptied)
    }

    /// Time has passed: calls and starts may have come to their end.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        // One at least, however busy the turn was.
        while let Some(call) = self.calls.expire(now) {
            self.no_reply(call, NO_REPLY_IN_TIME);
            if !self.step(TOLD) {
                break;
            }
        }
        self.expire_starts();
        self.answer_lookups();
        self.settle();
    }

    /// When [`tick`](Bus::tick) must be called at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        let answers = self.known.has_found().then_some(self.now);
        [self.calls.next_deadline(), self.starts.next_deadline(), answers].into_iter().flatten().min()
    }

    /// A member's connection is gone.
    pub fn leave(&mut self, id: MemberId) {
        if self.members.get(&id).is_some_and(|member| member.stage == Stage::Active) {
            detail(|| format!("{} has left", self.described(id)));
        }
        self.remove(id);
        self.settle();
    }

    /// A member takes so much more of a resource, if it may. One that has left is not charged.
    pub(crate) fn charge(&mut self, id: MemberId, resource: Resource, amount: u64) -> Result<(), Reached> {
        let Some(member) = self.members.get(&id) else { return Ok(()) };
        self.quota.charge(id, member.identity.credentials.uid, resource, amount)
    }

    /// A member gives back what it was charged for.
    pub(crate) fn release(&mut self, id: MemberId, resource: Resource, amount: u64) {
        if let Some(member) = self.members.get(&id) {
            self.quota.release(id, member.identity.credentials.uid, resource, amount);
        }
    }

    /// Of a resource a member holds so much `now` for something, and `before` it held so much, if it may hold more.
    fn hold(&mut self, id: MemberId, resource: Resource, before: u64, now: u64) -> Result<(), Reached> {
        self.release(id, resource, before.saturating_sub(now));
        if now > before { self.charge(id, resource, now - before) } else { Ok(()) }
    }

    /// This many bytes of a member's message have arrived, and the rest has not, if it may have so many.
    pub fn hold_incoming(&mut self, id: MemberId, bytes: u64) -> Result<(), Reached> {
        self.hold(id, Resource::Incoming, self.quota.held(id, Resource::Incoming), bytes)
    }

    /// Of the descriptors that a member has sent, so many wait for the rest of their message, and `before` did, if it
    /// may have so many: they count like those that wait to be taken.
    pub fn hold_descriptors(&mut self, id: MemberId, before: u64, now: u64) -> Result<(), Reached> {
        self.hold(id, Resource::Descriptors, before, now)
    }

    /// Messages have been handed over, and wait no more.
    pub fn written(&mut self, id: MemberId, bytes: u64, descriptors: u64) {
        self.release(id, Resource::Bytes, bytes);
        if descriptors > 0 {
            self.release(id, Resource::Descriptors, descriptors);
        }
    }

    /// Ends a member once the message that is being passed has arrived everywhere.
    pub(crate) fn disconnect(&mut self, id: MemberId, end: End) {
        if !self.leaving.iter().any(|(leaving, _)| *leaving == id) {
            self.leaving.push((id, end));
        }
    }

    pub(super) fn no_reply(&mut self, call: Call, why: &str) {
        self.release(call.caller, Resource::Calls, 1);
        let error = Builder::error(call.serial, error::NO_REPLY).body(Body::default().text(why));
        self.send(call.caller, error);
    }

    /// Tells everybody that a name has passed on, the old owner first and the new one last.
    pub(crate) fn publish(&mut self, change: &Change) {
        self.update_rules_for(&change.name);
        let signal = |member| Builder::signal(DRIVER_PATH, DRIVER, member);
        let name = Body::default().text(&change.name);
        if let Some(old) = change.old.filter(|old| self.is_reachable(*old)) {
            self.send(old, signal("NameLost").body(name.clone()));
        }
        self.publish_unique(&change.name, change.old, change.new);
        if let Some(new) = change.new {
            self.send(new, signal("NameAcquired").body(name));
        }
    }

    /// `NameOwnerChanged`, and nothing else to members.
    pub(crate) fn publish_unique(&mut self, name: &str, old: Option<MemberId>, new: Option<MemberId>) {
        // One that has left is told nothing any more, and monitors see what it would be told.
        if let Some(old) = old.filter(|old| !self.is_reachable(*old)) {
            let lost = Builder::signal(DRIVER_PATH, DRIVER, "NameLost").body(Body::default().text(name));
            self.show_to_monitors(lost.destination(&old.unique_name()));
        }
        let text = |owner: Option<MemberId>| owner.map(MemberId::unique_name).unwrap_or_default();
        let body = Body::default().text(name).text(&text(old)).text(&text(new));
        self.send_as_driver(None, Builder::signal(DRIVER_PATH, DRIVER, "NameOwnerChanged").body(body));
    }

    /// Charges a member for the names that it has now, its unique name included.
    pub(crate) fn settle_names(&mut self, id: MemberId) {
        let Some(member) = self.members.get(&id) else { return };
        let unique = u64::from(member.stage == Stage::Active);
        let (held, has) = (self.quota.held(id, Resource::Names), self.names.of(id).len() as u64 + unique);
        self.release(id, Resource::Names, held.saturating_sub(has));
    }
}
