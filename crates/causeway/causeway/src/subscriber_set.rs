//! The subscribers of a group, as one publisher knows them: which of them hold space, and which of them to wake.
//!
//! The server announces a subscriber on the publisher's socket, if there is space, and then increments a counter in the status
//! page. A publisher loads that counter after each commit and around each reclaim of space, and reads its socket and the
//! list of subscribers in the status pages only when the counter has changed. A subscriber in the list that was not announced
//! is fetched; until then the publisher overwrites nothing and asks the server to wake subscribers. If it can take in no page
//! more, for lack of descriptors or memory, the server ends that subscriber: it is refused, and the publisher stays.

mod space;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use causeway_os::{Context, futex};
use causeway_waiting::patience::Clock;

use crate::connection::Membership;
use crate::error::{Error, Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::Gate;
use crate::log::layout::{SUBSCRIBERS_MAX, Tail};
use crate::log::mapped::MappedLog;
use crate::log::pages::{StatusPages, SubscriberPage};
use crate::log::wait::{Published, note_cpu, wake_waiters};
use crate::log::wake_word::WakeWord;
use crate::options::Policy;
use crate::request::{Part, Request, SubscriberId};
use crate::subscriber_handle::{SubscriberHandle, ask_to_wake};
use crate::subscriber_table::SubscriberTable;
use crate::wire::{ANSWER_TIME, FDS_MAX, Incoming, Message, Op, receive, take_fds, tell};

/// The longest sleep for space. The server wakes publishers when a subscriber dies; this bounds the wait if both die at once.
const SLICE: Duration = Duration::from_millis(100);
/// After this time without an answer a publisher asks again: the answer found no space in its socket.
const FETCH_TIME: Duration = Duration::from_millis(20);
#[derive(Debug)]
pub struct SubscriberSet {
    socket: Membership,
    status: StatusPages,
    subscribers: SubscriberTable,
    /// Where those sleep that trust each other.
    wake_word: WakeWord,
    /// The counter of the status pages that `subscribers` corresponds to.
    seen_changes: u64,
    /// The same, or a value that the counter does not have while something is to be read from the socket.
    expected_changes: u64,
    server_gone: bool,
    /// The server has said that it disconnects this publisher.
    is_disconnected: bool,
    /// There is a subscriber that this publisher does not know.
    lacks_subscriber: bool,
    /// What was asked for, and when: asked again if no answer comes.
    fetching: Option<(Lacking, Instant)>,
    /// Why a page or doorbell could not be taken in since the last request.
    starved: Option<Error>,
    /// Whether this publisher does not know all subscribers that were there before it.
    joining: bool,
    /// There is a subscriber that this publisher does not know, and no server to ask.
    cut_off: bool,
    /// Runs while this publisher finds the log full.
    clock: Clock,
    /// Slot and generation of the subscriber that was in the way when the log was last found full.
    blocked_by: Option<(usize, u32)>,
    /// How often the log was found full; modulo 2³².
    fulls: u32,
    epoch: u64,
    /// Whether it was another than the present one when the status pages were looked at.
    is_behind: bool,
    asked_for_log: Option<Instant>,
}

/// What a publisher must fetch from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lacking {
    subscriber: SubscriberId,
    part: Part,
}

impl SubscriberSet {
    /// The subscribers of the group whose server is at the other end of `socket`, which becomes non-blocking. Waits until all
    /// that are present are known: a publisher that began before could overwrite what they have not read. `joined` are notices that
    /// were received before.
    pub fn new(
        socket: OwnedFd,
        status: StatusPages,
        wake_word: WakeWord,
        epoch: u64,
        joined: Vec<(Message, Vec<OwnedFd>)>,
    ) -> Result<SubscriberSet> {
        rustix::io::ioctl_fionbio(&socket, true).context("prepare", || "a group's socket")?;
        let mut set = SubscriberSet {
            socket: Membership::new(Arc::new(socket)),
            status,
            subscribers: SubscriberTable::default(),
            wake_word,
            seen_changes: 0,
            expected_changes: 0,
            server_gone: false,
            is_disconnected: false,
            lacks_subscriber: false,
            fetching: None,
            starved: None,
            joining: true,
            cut_off: false,
            clock: Clock::default(),
            blocked_by: None,
            fulls: 0,
            epoch,
            is_behind: false,
            asked_for_log: None,
        };
        joined.into_iter().for_each(|(notice, fds)| set.note(notice, fds));
        let end = Instant::now() + ANSWER_TIME;
        loop {
            set.refresh();
            // Those that are there stay: without space for them this publisher does not join.
            if let Some(error) = set.starved.take() {
                return Err(error);
            }
            if !set.lacks_subscriber {
                set.joining = false;
                return Ok(set);
            }
            if let Some(error) = set.why_gone() {
                return Err(error);
            }
            if Instant::now() >= end {
                return Err(Error::NoAnswer);
            }
            poll(&[set.socket.as_fd()], Some(FETCH_TIME))?;
        }
    }

    /// Waits until `count` subscribers have found their place in the log, at most until `deadline`. Returns whether they have.
    pub fn wait_for(&mut self, count: u32, deadline: Option<Instant>) -> Result<bool> {
        loop {
            let placed = self.status.words().placed.load(Ordering::Acquire);
            self.refresh();
            if placed >= count && !self.lacks_subscriber {
                return Ok(true);
            }
            if let Some(error) = self.why_gone() {
                return Err(error);
            }
            let left = deadline.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()).min(SLICE));
            if left.is_zero() {
                return Ok(false);
            }
            if placed >= count {
                poll(&[self.socket.as_fd()], Some(left.min(FETCH_TIME)))?;
                continue;
            }
            let _ = futex::wait(&self.status.words().placed, placed, Some(left))
                .context("wait for", || "subscribers")?;
        }
    }

    /// Whether the process that serves the group is gone, as far as this publisher has noticed.
    pub fn server_is_gone(&mut self) -> bool {
        if !self.server_gone {
            self.refresh();
        }
        self.server_gone
    }

    /// Learns which subscribers joined or left. One load if there was no change.
    #[inline(always)]
    pub fn update(&mut self) {
        if self.status.words().subscriber_changes.load(Ordering::Acquire) != self.expected_changes {
            self.refresh(); // PAIR subscriber-changes
        }
    }

    #[cold]
    fn refresh(&mut self) {
        let changes = self.status.words().subscriber_changes.load(Ordering::SeqCst);
        self.is_behind = self.present_epoch() != self.epoch;
        self.drain_messages();
        let present = &self.status.words().subscribers;
        self.subscribers
            .retain(|subscriber| present[subscriber.slot].load(Ordering::Acquire) == subscriber.generation);
        let lacking = self.find_lacking();
        self.lacks_subscriber = matches!(lacking, Some(Lacking { part: Part::Page, .. }));
        match lacking {
            Some(lacking) => self.fetch(lacking),
            None => (self.fetching, self.starved) = (None, None),
        }
        self.seen_changes = changes;
        self.expected_changes = if lacking.is_none() { changes } else { changes.wrapping_sub(1) };
    }

    /// A subscriber that is not known, or else one whose doorbell is needed.
    fn find_lacking(&self) -> Option<Lacking> {
        let lacking = |slot: usize, generation, part| Lacking {
            subscriber: SubscriberId { slot: slot as u32, generation },
            part,
        };
        let mut present = self.status.words().present_subscribers();
        let unknown = present.find(|(slot, generation)| self.subscribers.find(*slot, *generation).is_none());
        if let Some((slot, generation)) = unknown {
            return Some(lacking(slot, generation, Part::Page));
        }
        let silent = self.subscribers.iter().find(|one| one.lacks_doorbell && !self.server_gone)?;
        Some(lacking(silent.slot, silent.generation, Part::Doorbell))
    }

    /// Asks for what is lacking, one thing at a time, and asks the server to wake subscribers that are not known.
    fn fetch(&mut self, lacking: Lacking) {
        let Lacking { subscriber, part } = lacking;
        if self.server_gone {
            self.cut_off |= part == Part::Page;
            return;
        }
        if part == Part::Page {
            ask_to_wake(&self.socket);
        }
        if self.joining && self.starved.is_some() {
            return;
        }
        if self.starved.take().is_some() {
            match part {
                Part::Page => drop(tell(&self.socket, Request::Missed(subscriber))),
                // The server goes on ringing it.
                Part::Doorbell => {
                    if let Some(subscriber) = self.subscribers.get_mut(subscriber.slot as usize) {
                        subscriber.lacks_doorbell = false;
                    }
                }
            }
            self.fetching = None;
            return;
        }
        if matches!(self.fetching, Some((asked, at)) if asked == lacking && at.elapsed() < FETCH_TIME) {
            return;
        }
        if tell(&self.socket, Request::Fetch { subscriber, part: Some(part) }).is_ok() {
            self.fetching = Some((lacking, Instant::now()));
        }
    }

    fn drain_messages(&mut self) {
        loop {
            match receive(&**self.socket, FDS_MAX) {
                Ok(Incoming::Message(message, fds)) if message.op == Op::Joined => self.note(message, fds),
                Ok(Incoming::Message(message, fds)) if message.op == Op::Doorbell => {
                    let [slot, generation, ..] = message.words;
                    // Also that of a subscriber that left meanwhile: its close must not block.
                    if let Ok([doorbell]) = take_fds(fds).map(|fds| fds.map(ForeignSocket::new)) {
                        let subscriber = self.subscribers.get_mut(slot as usize);
                        if let Some(subscriber) = subscriber.filter(|one| one.generation == generation) {
                            subscriber.doorbell = Some(doorbell);
                            subscriber.lacks_doorbell = false;
                        }
                    }
                }
                Ok(Incoming::Message(message, _)) if message.is_refusal(Refusal::Disconnected) => {
                    self.is_disconnected = true;
                }
                Ok(
                    Incoming::Message(..)
                    | Incoming::Ignored
                    | Incoming::Malformed
                    | Incoming::OtherVersion(_),
                ) => {}
                Ok(Incoming::Nothing) => return,
                Ok(Incoming::End) => return self.server_gone = true,
                // A message is lost; what it had is fetched, and if that fails too, done without.
                Err(error) => self.starved = self.fetching.is_some().then_some(error),
            }
        }
    }

    /// Takes the notice of a subscriber that has joined.
    fn note(&mut self, joined: Message, fds: Vec<OwnedFd>) {
        match from_notice(joined, fds, &self.socket) {
            Ok(subscriber) => self.subscribers.insert(subscriber),
            Err(error) => self.starved = Some(error),
        }
    }

    /// Wakes the subscribers that sleep and want what was `published`, or all, after a commit. No system call if there is none.
    #[inline(always)]
    pub fn wake(&mut self, tail: &Tail, published: Option<Published>) {
        self.update();
        let Self { wake_word, subscribers, .. } = self;
        if wake_waiters(wake_word, subscribers, published, |bits| wake_word.wake(bits)) {
            note_cpu(tail);
            if self.subscribers.iter().any(|subscriber| subscriber.lacks_doorbell) {
                self.refresh();
            }
        }
    }

    /// Fails if the server died before this publisher knew all subscribers. It could overwrite what one of them has not read,
    /// and would not wake it. So it leaves the group. To be called without a claim or a lock.
    #[inline(always)]
    pub fn check_complete(&self) -> Result<()> {
        if self.cut_off { Err(self.why_gone().unwrap_or(Error::ServerGone)) } else { Ok(()) }
    }

    /// The number of the present log of the group. A publisher that finds the end of its log afterwards knows whether another follows.
    pub fn present_epoch(&self) -> u64 {
        self.status.words().epoch.load(Ordering::Acquire) // PAIR epoch
    }

    /// Whether the present log was another than that of this publisher when the status pages were last looked at.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Whether the next message must not be published without a look at [`SubscriberSet::check_complete`] and at the present epoch.
    #[inline(always)]
    pub fn needs_care(&self) -> bool {
        self.cut_off | self.is_behind
    }

    pub fn continue_in(&mut self, log: &Arc<MappedLog>) {
        self.wake_word.continue_in(Arc::clone(log));
        self.epoch = log.epoch();
        self.is_behind = self.present_epoch() != self.epoch;
        (self.blocked_by, self.asked_for_log) = (None, None);
        self.clock.stop();
    }

    /// Why this publisher does not go on in the present log, if it never will: the server disconnected it, or is gone.
    pub fn why_out(&mut self) -> Option<Error> {
        let _ = self.server_is_gone();
        self.why_gone()
    }

    /// The same, as far as this publisher has noticed.
    fn why_gone(&self) -> Option<Error> {
        match (self.server_gone, self.is_disconnected) {
            (_, true) => Some(Error::Refused(Refusal::Disconnected)),
            (true, false) => Some(Error::ServerGone),
            (false, false) => None,
        }
    }

    /// Asks the server for another log: this publisher has not mapped the present one in time. Asks again after a while.
    pub fn ask_for_log(&mut self) {
        if self.asked_for_log.is_none_or(|at| at.elapsed() >= FETCH_TIME)
            && tell(&self.socket, Request::Roll).is_ok()
        {
            self.asked_for_log = Some(Instant::now());
        }
    }

    /// Slot and cursor of the subscriber furthest behind among those that hold space; none while not all are known.
    pub fn slowest(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        self.update();
        let slowest = if self.lacks_subscriber { None } else { self.slowest_index(tail) };
        slowest.map(|(index, cursor)| (self.subscribers[index].slot, cursor))
    }

    pub fn page_of(&self, slot: usize) -> Option<Arc<SubscriberPage>> {
        self.subscribers.get(slot).map(|subscriber| Arc::clone(&subscriber.page))
    }

    /// All subscribers; `None` while there is one that this publisher does not know.
    pub fn known(&mut self) -> Option<&mut [SubscriberHandle]> {
        self.update();
        (!self.lacks_subscriber).then_some(&mut self.subscribers)
    }

    /// Removes subscribers that are dead. Without a server no other process does.
    pub fn remove_dead(&mut self) {
        self.subscribers.retain(|subscriber| !subscriber.is_dead());
    }

    #[inline(always)]
    pub fn gate<'a>(&'a mut self, tail: &'a Tail) -> SubscriberGate<'a> {
        SubscriberGate { set: self, tail }
    }
}

/// Says goodbye: who ends without it was killed.
impl Drop for SubscriberSet {
    fn drop(&mut self) {
        if self.socket.is_own() {
            let _ = tell(&self.socket, Request::Leave);
        }
    }
}

#[derive(Debug)]
pub struct SubscriberGate<'a> {
    set: &'a mut SubscriberSet,
    tail: &'a Tail,
}

impl Gate for SubscriberGate<'_> {
    fn subscriber_changes(&mut self) -> u64 {
        self.set.update();
        self.set.seen_changes
    }

    fn lowest(&mut self) -> u64 {
        if self.set.lacks_subscriber {
            return 0;
        }
        self.set.slowest_index(self.tail).map_or(u64::MAX, |(_, cursor)| cursor)
    }
}

/// The subscriber that a notice announces.
fn from_notice(message: Message, fds: Vec<OwnedFd>, server: &Arc<OwnedFd>) -> Result<SubscriberHandle> {
    let [page] = take_fds(fds)?;
    let [slot, generation, kind, deadline, ..] = message.words;
    let policy =
        Policy::from_words([kind, deadline]).ok_or_else(|| Error::invalid("notice", "unknown policy"))?;
    if slot as usize >= SUBSCRIBERS_MAX {
        return Err(Error::invalid("notice", format!("slot {slot}")));
    }
    let (page, server) = (Arc::new(SubscriberPage::open(&page)?), Some(Arc::clone(server)));
    Ok(SubscriberHandle::new(slot as usize, generation, policy, page, None, server))
}
