//! Native members in the loop: one order for them and for clients.
//!
//! While anybody reads the order log, actions of the bus wait in a queue. One that appends a message is done when the
//! log has space; then the log is read up to that entry, and what native members have sent before it is passed first.
//! So clients get everything in the order of the log. While the queue waits for space, clients are not read.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use causeway_bus::shared::filter::Filter;
use causeway_bus::{
    Appended, Authority, AuthorityOptions, Error, Event, MessageFile, PeerId, Process, Ticket, TransferRef,
};
use rustix::event::epoll::{self, EventFlags};

use super::{Server, Slice, Token};
use crate::bus::{Action, DirectoryUpdate, Receiver};
use crate::descriptors::close_elsewhere;
use crate::end::End;
use crate::listen::NativePlace;
use crate::log::log;
use crate::member::{Carrier, Identity, MemberId};
use crate::message::Message;

/// How often a queue that waits for space is looked at.
const RETRY: Duration = Duration::from_millis(2);

/// How long after it has failed it is tried again to let members join.
const AGAIN: Duration = Duration::from_secs(1);

/// What waits for the log.
enum Step {
    /// To be done, once the log has space where it appends something.
    Do(Action),
    /// What stands in the log before this position must be passed first.
    ReadUpTo(u64),
    /// A member has left, for this reason if it was evicted.
    Left(MemberId, Option<End>),
}

/// How reading the log has ended.
struct Progress {
    /// Messages that were passed.
    count: usize,
    /// All before the position were; otherwise the slice of this turn is over.
    is_done: bool,
}

/// The order log, and what waits for it.
pub struct Native {
    pub(super) authority: Authority,
    place: NativePlace,
    options: AuthorityOptions,
    /// In their order; not empty between two turns only if there is no space in the log, or much to be read in it
    /// first.
    queue: VecDeque<Step>,
    /// The time in this turn for messages of native members.
    slice: Slice,
    /// What of the first message that waits was staged already.
    pub(super) transfer: Option<TransferRef>,
    /// The copy of it that is being made, and whether that went on in this turn.
    pub(super) copy: Option<MessageFile>,
    pub(super) has_copied: bool,
    /// The bus still passes a message that was read from the log.
    is_passing: bool,
}

/// Where members cannot join now, and when that is tried again.
pub struct Unserved {
    place: NativePlace,
    options: AuthorityOptions,
    again: Instant,
    why: String,
}

impl Server {
    /// Lets processes of this user join natively.
    ///
    /// # Errors
    /// In a sentence: another process serves there, the path cannot be used, or the kernel lacks memory, descriptors or
    /// a feature.
    pub fn serve_natively(&mut self, place: NativePlace, options: AuthorityOptions) -> Result<(), String> {
        let join_deadline = self.bus.config.limits.authentication;
        let options = AuthorityOptions { close: |fds| close_elsewhere(None, fds), join_deadline, ..options };
        let authority = self.new_authority(&place, &options)?;
        self.carry_members(authority, place, options);
        Ok(())
    }

    /// An order log that members can join.
    fn new_authority(&self, place: &NativePlace, options: &AuthorityOptions) -> Result<Authority, String> {
        let said = |error: Error| format!("cannot serve native members at {}: {error}", place.path.display());
        let guid = u128::from_str_radix(&self.bus.guid, 16).expect("a GUID has 32 hexadecimal digits");
        let mut authority = Authority::create(options.clone(), guid).map_err(said)?;
        match &place.socket {
            None => authority.serve_at(&place.path).map_err(said)?,
            // The socket stays here for the next order log.
            Some(socket) => {
                let copy = socket.try_clone().map_err(|error| error.to_string())?;
                authority.serve_on(copy).map_err(said)?;
            }
        }
        epoll::add(&self.epoll, &authority, Token::Native.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        Ok(authority)
    }

    fn carry_members(&mut self, authority: Authority, place: NativePlace, options: AuthorityOptions) {
        self.bus.serve_natively(&place.path);
        self.native = Some(Native {
            authority,
            place,
            options,
            queue: VecDeque::new(),
            slice: Slice::default(),
            transfer: None,
            copy: None,
            has_copied: false,
            is_passing: false,
        });
        self.run_actions();
    }

    /// Lets members join a new order log; where that fails, it is tried again later. The reason is said when it is
    /// another one than `before`.
    fn serve_natively_again(&mut self, place: NativePlace, options: AuthorityOptions, before: &str) {
        match self.new_authority(&place, &options) {
            Ok(authority) => self.carry_members(authority, place, options),
            Err(why) => {
                if why != before {
                    log(&format!("{why}; this is tried again"));
                }
                self.unserved = Some(Unserved { place, options, again: self.now + AGAIN, why });
            }
        }
    }

    /// Lets members join where that has failed, once it is time to try again.
    pub(super) fn retry_natively(&mut self) {
        if let Some(unserved) = self.unserved.take_if(|unserved| unserved.again <= self.now) {
            self.serve_natively_again(unserved.place, unserved.options, &unserved.why);
        }
    }

    pub(super) fn is_read_natively(&self) -> bool {
        self.native.is_some() && self.bus.is_read_natively()
    }

    /// Does something wait for space in the log, or for what stands in it?
    pub(super) fn is_log_full(&self) -> bool {
        self.native.as_ref().is_some_and(|native| !native.queue.is_empty())
    }

    pub(super) fn native_deadline(&self, now: Instant) -> Option<Instant> {
        let Some(native) = &self.native else {
            return self.unserved.as_ref().map(|unserved| unserved.again);
        };
        let retry = (!native.queue.is_empty()).then_some(RETRY);
        let wait = [retry, native.authority.timeout()].into_iter().flatten().min()?;
        Some(now + wait)
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
            (native.slice, native.has_copied) = (Slice::default(), false);
            native.authority.wake_up();
        }
    }

    /// Processes join, ask for descriptors, leave.
    pub(super) fn serve_members(&mut self) {
        // Who joins sees everything at once.
        let Some(native) = self.native.as_mut().filter(|_| self.bus.is_shown_natively()) else { return };
        let events = match native.authority.dispatch() {
            Ok(events) => events,
            Err(error) => return self.end_natively(&error),
        };
        self.follow_readers();
        for event in events {
            match event {
                Event::Joining(ticket, process) => self.join(ticket, process),
                Event::Left { peer, why } => self.left(MemberId(peer), why.map(End::from)),
                _ => {}
            }
        }
        self.follow_readers();
    }

    fn join(&mut self, ticket: Ticket, Process { credentials, groups, label }: Process) {
        let admitted = self.bus.admit(Identity::new(credentials, groups, label), Carrier::Log);
        let Some(native) = &mut self.native else { return };
        let Some(id) = admitted else {
            return native.authority.refuse(ticket, "the bus policy does not let this process connect");
        };
        let claimed = self.bus.claim_place(id);
        if let Err(why) = &claimed {
            native.authority.refuse(ticket, &why.to_string());
        }
        let number = self.bus.next_member();
        if claimed.is_err() || native.authority.admit(ticket, number.0).is_err() {
            return self.bus.leave(id);
        }
        let id = self.bus.give_number(id);
        self.follow_readers();
        self.bus.announce_native(id);
        self.run_actions();
        if let Some(native) = &mut self.native {
            native.authority.welcome(id.0);
        }
    }

    /// A member is gone. What it has sent comes before its end.
    fn left(&mut self, id: MemberId, why: Option<End>) {
        let is_read = self.is_read_natively();
        let Some(native) = &mut self.native else { return };
        if !is_read {
            self.leave(id, why);
            return self.run_actions();
        }
        let end = native.authority.end();
        native.queue.extend([Step::ReadUpTo(end), Step::Left(id, why)]);
        self.run_queue();
    }

    fn leave(&mut self, id: MemberId, why: Option<End>) {
        if let Some(end) = why {
            self.log_eviction(id, &self.bus.described(id), &end);
        }
        self.bus.leave(id);
    }

    /// Tells the bus whether anybody reads the log. What waits still has its readers.
    fn follow_readers(&mut self) {
        let Some(native) = &self.native else { return };
        let is_read = native.authority.has_readers() || !native.queue.is_empty();
        if is_read != self.bus.is_read_natively() {
            // What the last ones have sent is passed as if they were there, however long that takes.
            if !is_read && (!self.read_on().is_done || self.is_log_full()) {
                return;
            }
            self.run_actions();
            self.bus.set_read_natively(is_read);
            if !is_read {
                // What stands there is our own: nobody's place waits for this process any more.
                self.read_log(u64::MAX);
            }
            self.run_actions();
        }
    }

    /// Passes what native members have sent, and does what waited for space.
    pub(super) fn exchange(&mut self) {
        if let Some(native) = &mut self.native {
            native.authority.sweep_staged();
            if native.authority.is_due() {
                self.serve_members();
            }
        }
        if self.is_read_natively() {
            self.read_on();
            self.run_queue();
            self.run_actions();
            self.follow_readers();
        }
        if !self.is_log_full() {
            self.clients.resume(&mut Slice::default());
        }
    }

    /// Lets actions wait for their turn.
    pub(super) fn enqueue(&mut self, actions: Vec<Action>) {
        if let Some(native) = &mut self.native {
            native.queue.extend(actions.into_iter().map(Step::Do));
        }
    }

    /// Does what waits, as far as the log has space.
    pub(super) fn run_queue(&mut self) {
        let watches = self.bus.watches_native_members();
        if let Some(native) = &mut self.native {
            native.authority.watch_everything(watches);
        }
        let mut has_read = false;
        while let Some(step) = self.native.as_mut().and_then(|native| native.queue.pop_front()) {
            let (from, to, message) = match step {
                Step::Do(Action::Append { from, to, message }) => (from, to, message),
                Step::Do(action) => {
                    self.do_now(action);
                    continue;
                }
                Step::ReadUpTo(end) if self.read_log(end).is_done => continue,
                Step::ReadUpTo(_) => return self.requeue(step),
                Step::Left(id, why) => {
                    self.leave(id, why);
                    let actions = self.bus.take_actions(Vec::new());
                    self.enqueue(actions);
                    continue;
                }
            };
            let to_peer = match to {
                Receiver::None => continue,
                Receiver::All => None,
                Receiver::One(id) => Some(id.0),
                Receiver::Bus => Some(causeway_bus::AUTHORITY_ID),
            };
            if !self.is_ready(to, &message) {
                return self.requeue(Step::Do(Action::Append { from, to, message }));
            }
            let Some(transfer) = self.stage(from, to, &message) else { continue };
            let Some(native) = &mut self.native else { return };
            match native.authority.append(from.map(|from| from.0), to_peer, message.bytes(), transfer) {
                Ok(Appended::At(position)) => {
                    has_read = false;
                    if !self.read_log(position).is_done {
                        return self.requeue(Step::ReadUpTo(position));
                    }
                }
                // It is between clients, with a header of more than a quarter of the outbox: no native member misses
                // it.
                Ok(Appended::TooLong) => {}
                Ok(Appended::Full) => {
                    native.transfer = Some(transfer);
                    self.requeue(Step::Do(Action::Append { from, to, message }));
                    // What this process has not read may be what prevents it.
                    let Progress { count, is_done } = self.read_log(u64::MAX);
                    if !is_done || (count == 0 && has_read) {
                        return;
                    }
                    has_read = true;
                }
                Err(error) => return self.end_natively(&error),
            }
        }
    }

    /// What of a message is staged: descriptors, and all of a long one, if native members are among its receivers.
    /// Nothing if that is not possible; then nobody gets it through the log, and who waits for an answer has one.
    fn stage(&mut self, from: Option<MemberId>, to: Receiver, message: &Message) -> Option<TransferRef> {
        let native = self.native.as_mut()?;
        if let Some(transfer) = native.transfer.take() {
            return Some(transfer);
        }
        let (peer, is_for_members) = match to {
            Receiver::All => (None, true),
            Receiver::One(id) => (Some(id.0), self.bus.is_native(id)),
            Receiver::Bus | Receiver::None => (None, false),
        };
        let file = message.file.take();
        if !is_for_members {
            return Some(native.authority.stage_header_only(message.bytes()));
        }
        let copies = message.descriptors.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>();
        let staged = copies.map_err(|error| error.to_string()).and_then(|copies| {
            let staged =
                native.authority.stage_for(from.map(|from| from.0), peer, (message.bytes(), file), copies);
            staged.map_err(|error| error.to_string())
        });
        let failed = |why: String| match to {
            Receiver::One(id) => self.bus.transfer_failed(from, id, message, &why),
            _ => log(&format!("a signal was not delivered to native members: {why}")),
        };
        staged.map_err(failed).ok()
    }

    fn requeue(&mut self, step: Step) {
        if let Some(native) = &mut self.native {
            native.queue.push_front(step);
        }
    }

    /// Passes what native members have sent, as far as nothing waits for its place in between.
    fn read_on(&mut self) -> Progress {
        let first = self.native.as_ref().and_then(|native| native.queue.front());
        self.read_log(if let Some(Step::ReadUpTo(end)) = first { *end } else { u64::MAX })
    }

    /// Goes on with what the bus could not finish in the last turn.
    pub(super) fn go_on(&mut self) {
        self.bus.go_on();
        if self.native.as_ref().is_some_and(|native| native.is_passing) {
            self.do_for_entry();
        }
        self.run_actions();
        self.bus.settle();
        self.run_actions();
    }

    /// Does what the bus has left to be done for a message of the log. What this brings to clients belongs to its
    /// entry: what waits for the log comes behind it. What it makes the bus say has entries of its own.
    fn do_for_entry(&mut self) {
        let mut actions = self.bus.take_actions(Vec::new()).into_iter();
        let mut is_passing = self.bus.is_passing();
        while let Some(action) = actions.next() {
            if matches!(action, Action::Append { .. }) {
                self.enqueue([action].into_iter().chain(actions).collect());
                is_passing = false;
                break;
            }
            self.do_now(action);
        }
        if let Some(native) = &mut self.native {
            native.is_passing = is_passing;
        }
    }

    /// Passes messages of native members whose entries are before `end`, as long as the slice of this turn lasts.
    fn read_log(&mut self, end: u64) -> Progress {
        for count in 0.. {
            if self.bus.is_passing() {
                return Progress { count, is_done: false };
            }
            let done = Progress { count, is_done: true };
            let Some(native) = &mut self.native else { return done };
            match native.authority.next(end) {
                Ok(Some(inbound)) => self.bus.accept_native(inbound, self.now),
                Ok(None) => return done,
                Err(error) => {
                    self.end_natively(&error);
                    return done;
                }
            }
            self.do_for_entry();
            if self.native.as_mut().is_some_and(|native| native.slice.is_over()) {
                return Progress { count: count + 1, is_done: false };
            }
        }
        unreachable!("a slice ends")
    }

    /// The order log makes no sense any more: native members are gone, clients are not. A new log begins.
    fn end_natively(&mut self, error: &Error) {
        let Some(Native { mut authority, place, options, queue, .. }) = self.native.take() else { return };
        log(&format!("native members must join again: {error}"));
        authority.wake_all();
        drop(authority);
        self.bus.end_natively();
        for step in queue {
            if let Step::Do(action) = step {
                self.do_now(action);
            }
        }
        self.run_actions();
        self.serve_natively_again(place, options, "");
    }

    /// Writes what the bus has decided where native members read it.
    pub(super) fn update_directory(&mut self, update: &DirectoryUpdate) {
        let Some(Native { authority, .. }) = &mut self.native else { return };
        let bus = &self.bus;
        match update {
            DirectoryUpdate::Arrived(id) => {
                if let Some(member) = bus.members.get(id).filter(|member| member.carrier == Carrier::Socket) {
                    let Identity { credentials, label, .. } = &member.identity;
                    authority.add_client(id.0, *credentials, label.as_deref());
                }
            }
            DirectoryUpdate::Leaving(id) => authority.hide(id.0),
            DirectoryUpdate::Gone(id) => authority.remove(id.0),
            DirectoryUpdate::Name(name) => {
                let queue: Vec<PeerId> = bus.names.queue(name).map(|member| member.0).collect();
                authority.set_owner(name, &queue);
            }
            DirectoryUpdate::Rules(id) => authority.set_filter(id.0, bus.filter_of(*id)),
            DirectoryUpdate::Rule(id, rule) => {
                authority.add_rule(id.0, rule, |name| bus.filter_owner(name));
            }
            DirectoryUpdate::Everything(id) => authority.set_filter(id.0, Filter::all()),
            DirectoryUpdate::Filter(id, filter) => authority.set_filter(id.0, (**filter).clone()),
        }
    }

    /// A native member must end.
    pub(super) fn evict(&mut self, id: MemberId, why: &str) {
        if let Some(native) = &mut self.native {
            native.authority.evict(id.0, why);
        }
    }
}
