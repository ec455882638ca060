//! Native members in the loop: one order for them and for clients.
//!
//! While anybody reads the order log, actions of the bus wait in a queue. One that appends a message is done when the log has space;
//! then the log is read up to that entry, and what native members have sent before it is passed first. So clients get everything in the
//! order of the log. While the queue waits for space, clients are not read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_bus::{Appended, Authority, AuthorityOptions, Error, Event, Parcel, PeerId, Process, Ticket};
use rustix::event::epoll::{self, EventFlags};

use super::{Server, Token};
use crate::bus::{Action, Receiver, Shown};
use crate::log::log;
use crate::member::{Carrier, Identity, MemberId};
use crate::message::Message;

/// How often a queue that waits for space is looked at.
const RETRY: Duration = Duration::from_millis(2);
/// Messages of native members that are passed before clients get their turn.
const MESSAGES_PER_TURN: usize = 256;

/// The order log, and what waits for it.
pub struct Native {
    authority: Authority,
    path: PathBuf,
    options: AuthorityOptions,
    /// In their order; not empty between two rounds only if there is no space in the log.
    held: VecDeque<Action>,
    /// What of the first message that waits was deposited already.
    parcel: Option<Parcel>,
}

impl Server {
    /// Lets processes of this user join natively at a socket with this path.
    ///
    /// # Errors
    /// In a sentence: another process serves there, the path cannot be used, or the kernel lacks memory, descriptors or a feature.
    pub fn serve_natively(&mut self, path: &Path, options: AuthorityOptions) -> Result<(), String> {
        let said = |error: Error| format!("cannot serve native members at {}: {error}", path.display());
        let guid = u128::from_str_radix(&self.bus.guid, 16).expect("a GUID has 32 hexadecimal digits");
        let mut authority = Authority::create(options.clone(), guid).map_err(said)?;
        authority.serve_at(path).map_err(said)?;
        epoll::add(&self.epoll, &authority, Token::Native.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        self.bus.serve_natively(path);
        let held = VecDeque::new();
        self.native = Some(Native { authority, path: path.to_owned(), options, held, parcel: None });
        self.act();
        Ok(())
    }

    pub(super) fn is_read_natively(&self) -> bool {
        self.native.is_some() && self.bus.is_read_natively()
    }

    /// Does something wait for space in the log?
    pub(super) fn is_log_full(&self) -> bool {
        self.native.as_ref().is_some_and(|native| !native.held.is_empty())
    }

    pub(super) fn native_deadline(&self) -> Option<Instant> {
        let native = self.native.as_ref()?;
        let retry = (!native.held.is_empty()).then_some(RETRY);
        let wait = [retry, native.authority.timeout()].into_iter().flatten().min()?;
        Some(Instant::now() + wait)
    }

    /// Says that members must ring from now on; false if there is something to read instead.
    pub(super) fn may_sleep(&mut self) -> bool {
        !self.is_read_natively()
            || self.native.as_mut().is_none_or(|native| native.authority.prepare_to_wait())
    }

    /// Says that they need not ring any more.
    pub(super) fn wake_up(&mut self) {
        if self.is_read_natively()
            && let Some(native) = &mut self.native
        {
            native.authority.wake_up();
        }
    }

    /// Processes join, ask for descriptors, leave.
    pub(super) fn serve_members(&mut self) {
        let Some(native) = &mut self.native else { return };
        let events = match native.authority.dispatch() {
            Ok(events) => events,
            Err(error) => return self.end_natively(&error),
        };
        self.follow_readers();
        for event in events {
            match event {
                Event::Joining(ticket, process) => self.join(ticket, process),
                Event::Left { peer, why } => self.left(MemberId(peer), why),
                _ => {}
            }
        }
        self.follow_readers();
    }

    fn join(&mut self, ticket: Ticket, Process { credentials, groups, label }: Process) {
        let admitted = self.bus.admit(Identity::new(credentials, groups, label), Carrier::Log);
        let Some(native) = &mut self.native else { return };
        let Some(id) = admitted else {
            return native
                .authority
                .refuse(ticket, "the policy of this bus does not let the process connect");
        };
        let claimed = self.bus.claim_place(id);
        if let Err(why) = &claimed {
            native.authority.refuse(ticket, why);
        }
        if claimed.is_err() || native.authority.admit(ticket, id.0).is_err() {
            return self.bus.leave(id);
        }
        self.follow_readers();
        self.bus.welcome_native(id);
        self.act();
    }

    /// A member is gone. What it has sent comes before its end.
    fn left(&mut self, id: MemberId, why: Option<String>) {
        let Some(native) = &mut self.native else { return };
        let end = native.authority.end();
        self.read_log(end, usize::MAX);
        if let Some(why) = why {
            log(&format!("{} is disconnected: {why}", id.unique_name()));
        }
        self.bus.leave(id);
        self.act();
    }

    /// Tells the bus whether anybody reads the log. What waits still has its readers.
    fn follow_readers(&mut self) {
        let Some(native) = &self.native else { return };
        let is_read = native.authority.has_readers() || !native.held.is_empty();
        if is_read != self.bus.is_read_natively() {
            self.act();
            self.bus.set_read_natively(is_read);
            if !is_read {
                // What stands there is our own: nobody's place waits for this process any more.
                self.read_log(u64::MAX, usize::MAX);
            }
            self.act();
        }
    }

    /// Passes what native members have sent, and does what waited for space.
    pub(super) fn exchange(&mut self) {
        if let Some(native) = &mut self.native {
            native.authority.sweep_deposits();
            if native.authority.is_due() {
                self.serve_members();
            }
        }
        if self.is_read_natively() {
            self.read_log(u64::MAX, MESSAGES_PER_TURN);
            self.carry();
            self.act();
            self.follow_readers();
        }
        if !self.is_log_full() {
            for id in std::mem::take(&mut self.paused) {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.is_paused = false;
                    self.watch_again(id);
                }
            }
        }
    }

    /// Does not read a client until the log has space.
    pub(super) fn pause(&mut self, id: MemberId) {
        if let Some(client) = self.clients.get_mut(&id).filter(|client| !client.is_paused) {
            client.is_paused = true;
            self.paused.push(id);
            self.watch_again(id);
        }
    }

    /// Lets actions wait for their turn.
    pub(super) fn hold(&mut self, actions: Vec<Action>) {
        if let Some(native) = &mut self.native {
            native.held.extend(actions);
        }
    }

    /// Does what waits, as far as the log has space.
    pub(super) fn carry(&mut self) {
        let watches = self.bus.watches_native_members();
        if let Some(native) = &mut self.native {
            native.authority.watch_everything(watches);
        }
        let mut has_read = false;
        while let Some(action) = self.native.as_mut().and_then(|native| native.held.pop_front()) {
            let Action::Append { from, to, message } = action else {
                self.do_now(action);
                continue;
            };
            let to_peer = match to {
                Receiver::None => continue,
                Receiver::All => None,
                Receiver::One(id) => Some(id.0),
                Receiver::Bus => Some(causeway_bus::AUTHORITY_ID),
            };
            let Some(parcel) = self.parcel(from, to, &message) else { continue };
            let Some(native) = &mut self.native else { return };
            match native.authority.append(from.map(|from| from.0), to_peer, message.bytes(), parcel) {
                Ok(Appended::At(position)) => {
                    has_read = false;
                    self.read_log(position, usize::MAX);
                }
                // It is between clients: no native member misses it.
                Ok(Appended::TooLong) => {}
                Ok(Appended::Full) => {
                    native.parcel = Some(parcel);
                    native.held.push_front(Action::Append { from, to, message });
                    // What this process has not read may be what is in the way.
                    if self.read_log(u64::MAX, MESSAGES_PER_TURN) == 0 && has_read {
                        return;
                    }
                    has_read = true;
                }
                Err(error) => return self.end_natively(&error),
            }
        }
    }

    /// What of a message travels beside the log: descriptors, and all of a long one, if native members are among its receivers. Nothing if
    /// that is not possible; then nobody gets it through the log, and who waits for an answer has one.
    fn parcel(&mut self, from: Option<MemberId>, to: Receiver, message: &Message) -> Option<Parcel> {
        let native = self.native.as_mut()?;
        if let Some(parcel) = native.parcel.take() {
            return Some(parcel);
        }
        let (peer, is_for_members) = match to {
            Receiver::All => (None, true),
            Receiver::One(id) => (Some(id.0), self.bus.is_native(id)),
            Receiver::Bus | Receiver::None => (None, false),
        };
        if !is_for_members {
            return Some(Parcel::default());
        }
        let copies = message.descriptors.copies().map_err(|error| error.to_string());
        let deposited = copies.and_then(|copies| {
            let from = from.map(|from| from.0);
            native
                .authority
                .deposit_for(from, peer, message.bytes(), copies)
                .map_err(|error| error.to_string())
        });
        match (deposited, to) {
            (Ok(parcel), _) => Some(parcel),
            (Err(why), Receiver::One(id)) => {
                self.bus.not_carried(from, id, message, &why);
                None
            }
            (Err(why), _) => {
                log(&format!("native members miss a signal: {why}"));
                None
            }
        }
    }

    /// Passes messages of native members whose entries are before `end`, at most so many; returns how many there were.
    fn read_log(&mut self, end: u64, most: usize) -> usize {
        for count in 0..most {
            let Some(native) = &mut self.native else { return count };
            match native.authority.next(end) {
                Ok(Some(carried)) => self.bus.accept_native(carried, self.now),
                Ok(None) => return count,
                Err(error) => {
                    self.end_natively(&error);
                    return count;
                }
            }
            // What this message brings to clients belongs to its entry. What it makes the bus say has entries of its own.
            let mut actions = self.bus.take_actions().into_iter();
            while let Some(action) = actions.next() {
                if matches!(action, Action::Append { .. }) {
                    self.hold([action].into_iter().chain(actions).collect());
                    break;
                }
                self.do_now(action);
            }
        }
        most
    }

    /// The order log makes no sense any more: native members are gone, clients are not. A new log begins.
    fn end_natively(&mut self, error: &Error) {
        let Some(Native { mut authority, path, options, held, .. }) = self.native.take() else { return };
        log(&format!("native members must join again: {error}"));
        authority.wake_all();
        drop(authority);
        self.bus.end_natively();
        held.into_iter().for_each(|action| self.do_now(action));
        self.act();
        if let Err(why) = self.serve_natively(&path, options) {
            log(&why);
        }
    }

    /// Writes what the bus has decided where native members read it.
    pub(super) fn show(&mut self, shown: &Shown) {
        let Some(Native { authority, .. }) = &mut self.native else { return };
        let bus = &self.bus;
        match shown {
            Shown::Arrived(id) => {
                if let Some(member) = bus.members.get(id).filter(|member| member.carrier == Carrier::Socket) {
                    let Identity { credentials, groups, label } = member.identity.clone();
                    authority.add_client(id.0, &Process { credentials, groups, label });
                }
            }
            Shown::Gone(id) => authority.remove(id.0),
            Shown::Name(name) => {
                let queue: Vec<PeerId> = bus.names.queue(name).map(|member| member.0).collect();
                authority.set_owner(name, &queue);
            }
            Shown::Rules(id) => {
                let rules = bus.matches.of(*id).map(|(rule, _)| rule);
                let owner = |name: &str| match name {
                    crate::bus::DRIVER => Some(causeway_bus::AUTHORITY_ID),
                    _ => bus.names.owner(name).map(|owner| owner.0),
                };
                authority.set_rules(id.0, rules, owner);
            }
        }
    }

    /// A native member must end.
    pub(super) fn put_out(&mut self, id: MemberId, why: &str) {
        if let Some(native) = &mut self.native {
            native.authority.put_out(id.0, why);
        }
    }
}
