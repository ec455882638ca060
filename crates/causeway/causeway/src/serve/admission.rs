//! How a peer becomes a publisher or a subscriber, and what is done when one leaves.
//!
//! A subscriber joins in three steps. It is given a page, which it maps and seals; then publishers know it, and keep what it
//! has not read; then it finds its place in the log, and others see it. A publisher that finds a subscriber in the status pages
//! whose notice did not fit its socket fetches the page, and overwrites nothing before it has it. So no publisher is needed for
//! a join, and none is lost by one.
//!
//! Order matters when a publisher leaves: the unfinished frames of a dead publisher are decided before its bit is cleared and
//! subscribers are woken.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::futex;
use causeway_os::socket::{refuse_descriptors, stream_pair};

use super::connections::{Answer, Connection, Role};
use super::places::Share;
use super::state::State;
use super::subscribers::is_demoted;
use crate::error::{Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::pages::SubscriberPage;
use crate::log::wait::WaitingSubscriber;
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Kind, Memory, Reader, server};
use crate::options::Policy;
use crate::request::{Part, SubscriberId};
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{GETS_LOGS, IS_AWAITED, Message, Op};

impl State {
    pub fn grant_publisher(&mut self, token: u64) -> Answer {
        let connection = self.connections.get(token)?;
        connection.check(&self.options.publishers)?;
        self.check_allowance(token)?;
        let connection = self.connections.get(token)?;
        let (local, ended) = (connection.local, self.pages.has_ended());
        let status = self.pages.status.words();
        let taken = status.publishers.load(Ordering::Relaxed) | self.joiners();
        let remote_taken = (taken & !status.local_publishers.load(Ordering::Relaxed)).count_ones();
        if !local && (self.pages.is_sealed() || remote_taken >= self.options.remote_publishers) {
            if !self.options.late_publishers {
                return Err(Refusal::PublishersFixed);
            }
            if !self.publishers.admits_local || ended {
                return Err(Refusal::Ended);
            }
            return self.grant_late_publisher(token);
        }
        let slot = taken.trailing_ones();
        // It needs the log that there is.
        if !local && !self.has_format(token)? {
            return Err(Refusal::OtherFormat);
        }
        match self.options.kind {
            Kind::Single if slot > 0 || ended => Err(Refusal::OnePublisher),
            Kind::Shared if ended => Err(Refusal::Ended),
            Kind::Shared if slot >= PUBLISHERS_MAX as u32 => Err(Refusal::TooMany),
            Kind::Single | Kind::Shared => self.admit_publisher(token, slot as u8, local),
        }
    }

    fn admit_publisher(&mut self, token: u64, slot: u8, local: bool) -> Answer {
        let gets_logs = self.options.late_publishers && !local;
        let logs = if gets_logs { Some(self.connect_for_logs(token, slot)?) } else { None };
        let connection = self.connections.get_mut(token)?;
        let fds = self.pages.for_publisher((!local).then_some(&self.logs.present_fd), logs.as_ref());
        // The last one of other processes begins when those that wait for it have found their places.
        let waits = if local || self.pages.is_sealed() { 0 } else { IS_AWAITED };
        let logs_too = if gets_logs { GETS_LOGS } else { 0 };
        let granted = Message::new(Op::Granted, &[u32::from(slot), waits | logs_too]);
        connection.send(granted, &fds).map_err(|_| Refusal::PublisherStuck)?;
        // The publisher fetches the notices that do not fit.
        connection.limit_unread();
        connection.role = Role::Publisher { slot, mapped: local };
        let status = self.pages.status.words();
        if local {
            status.local_publishers.fetch_or(1 << slot, Ordering::Relaxed);
        }
        status.publishers.fetch_or(1 << slot, Ordering::Release);
        self.begin_to_count(token, slot);
        Ok(())
    }

    pub fn publisher_mapped(&mut self, token: u64, slot: u8) -> Answer {
        self.connections.set_role(token, Role::Publisher { slot, mapped: true });
        self.publishers.awaited = self.publishers.awaited.saturating_sub(1);
        if self.publishers.awaited == 0 && !self.pages.is_sealed() {
            self.seal().map_err(|_| Refusal::NotUnderstood)?;
            let waiting = self.subscribers.waiting.iter().map(|(token, _)| *token).collect();
            self.admit_waiting();
            self.hold(token, waiting);
        } else {
            self.connections.send(token, Message::new(Op::Granted, &[]));
        }
        Ok(())
    }

    pub fn subscribe(&mut self, token: u64, policy: Policy) -> Answer {
        let connection = self.connections.get(token)?;
        connection.check(&self.options.subscribers)?;
        if !connection.local && policy.patience() > self.patience_with(connection.share) {
            return Err(Refusal::TooPatient);
        }
        if self.pages.is_sealed() && self.grant_subscriber(token, policy)? {
            return Ok(());
        }
        self.connections.set_role(token, Role::Waiting);
        if !self.subscribers.waiting.iter().any(|(waiting, _)| *waiting == token) {
            self.subscribers.waiting.push((token, policy));
        }
        self.connections.send(token, Message::new(Op::Waiting, &[]));
        Ok(())
    }

    /// How long publishers may have to wait for a subscriber. A user that has missed a deadline is not
    /// waited for again while that is remembered: otherwise it could delay publishers again and again.
    fn patience_with(&self, share: Option<Share>) -> Duration {
        let Some(share) = share.filter(|share| *share != Share::Invited) else {
            return self.options.most_patient.patience();
        };
        let tail = self.logs.present.tail();
        let is_late = |connection: &Connection| match connection.role {
            Role::Subscriber { slot } if connection.share == Some(share) => {
                self.subscribers.present.get(slot).is_some_and(|subscriber| is_demoted(subscriber, tail))
            }
            _ => false,
        };
        if self.subscribers.was_late(share) || self.connections.iter().any(is_late) {
            return Duration::ZERO;
        }
        self.options.most_patient.patience().min(self.options.most_patient_for_others.patience())
    }

    /// Gives a subscriber a slot and all that it needs, unless it has to wait for a log of another format. Nothing of it is visible to
    /// others before it is ready.
    pub fn grant_subscriber(&mut self, token: u64, policy: Policy) -> Answer<bool> {
        if !self.has_format(token)? {
            return Ok(false);
        }
        let slot = self.subscribers.free_slot(self.pages.status.words()).ok_or(Refusal::TooMany)?;
        let (page_fd, page) = SubscriberPage::create().map_err(|_| Refusal::Exhausted)?;
        let (doorbell, doorbell_far) = stream_pair().map_err(|_| Refusal::Exhausted)?;
        // Neither end takes descriptors: a subscriber could block a publisher with one, and a publisher a subscriber.
        let doorbell = ForeignSocket::new(doorbell);
        let _ = refuse_descriptors(&doorbell_far);
        let generation = self.subscribers.next_generation(slot);
        let trust = self.options.effective_trust() as u32;
        let connection = self.connections.get_mut(token)?;
        connection.role = Role::Joining { slot };
        let mut fds = vec![
            self.pages.status_fd.as_fd(),
            self.logs.present_fd.as_fd(),
            page_fd.as_fd(),
            doorbell_far.as_fd(),
            self.pages.lifeline.as_fd(),
        ];
        fds.extend(self.pages.wake_page_fd.as_ref().map(AsFd::as_fd));
        let _ = connection.send(Message::new(Op::Granted, &[slot as u32, generation, trust]), &fds);
        let mut subscriber =
            SubscriberHandle::new(slot, generation, policy, Arc::new(page), Some(doorbell), None);
        subscriber.epoch = self.logs.present.epoch();
        self.subscribers.joining.insert(token, (subscriber, page_fd));
        Ok(true)
    }

    /// Whether all publishers of other processes can map another log.
    pub fn can_resize(&self) -> bool {
        let has_remote = self.pages.status.words().remote_publishers() != 0;
        (self.options.late_publishers || !has_remote) && self.publishers.awaited == 0
    }

    /// The subscriber has mapped its page and sealed it. A roll that waited for it goes on.
    pub fn register(&mut self, token: u64, slot: usize) -> Answer {
        let registered = self.make_subscriber(token, slot);
        self.begin_if_mapped();
        registered
    }

    /// From here on publishers know it.
    fn make_subscriber(&mut self, token: u64, slot: usize) -> Answer {
        let (subscriber, page_fd) = self.subscribers.joining.remove(&token).ok_or(Refusal::NotUnderstood)?;
        let connection = self.connections.get_mut(token)?;
        connection.role = Role::Client;
        SubscriberPage::check_sealed(&page_fd).map_err(|_| Refusal::NotUnderstood)?;
        if subscriber.epoch != self.logs.present.epoch() {
            // The log that it was given has ended, for it took too long, and was not kept for it: it tries again.
            return Err(Refusal::TooLate);
        }
        // An initial cursor at the oldest message: the subscriber moves it to where it begins.
        let start = Reader::join(&*self.logs.present).map_err(|_| Refusal::NotUnderstood)?.position();
        subscriber.words().cursor.store(start, Ordering::Release);
        connection.role = Role::Subscriber { slot };
        let notice = joined(&subscriber);
        for connection in self.connections.iter() {
            if matches!(connection.role, Role::Publisher { .. }) {
                // One that has no space for it fetches it.
                let _ = connection.send(notice, &[page_fd.as_fd()]);
            }
        }
        let status = self.pages.status.words();
        status.set_subscriber(slot, subscriber.generation);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst); // PAIR subscriber-changes: `SubscriberSet` loads it after each commit
        self.subscribers.present.insert(subscriber);
        self.subscribers.page_fds.insert(slot, page_fd);
        self.connections.send(token, Message::new(Op::Granted, &[]));
        Ok(())
    }

    /// The subscriber has found its place in the log: it receives what is published from now on.
    pub fn note_placed(&mut self, token: u64, slot: usize) -> Answer {
        let subscriber = self.subscribers.present.get_mut(slot).ok_or(Refusal::NotUnderstood)?;
        if !std::mem::replace(&mut subscriber.placed, true) {
            self.change_placed(|placed| placed.wrapping_add(1));
        }
        self.connections.send(token, Message::new(Op::Granted, &[]));
        Ok(())
    }

    fn change_placed(&self, change: impl Fn(u32) -> u32) {
        let placed = &*self.pages.status.words().placed;
        placed.store(change(placed.load(Ordering::Relaxed)), Ordering::Release);
        let _ = futex::wake(placed, u32::MAX);
    }

    /// Sends a publisher a part of a subscriber, if that still is there. Without space for the answer the publisher asks again.
    pub fn send_what_it_lacks(&self, token: u64, id: SubscriberId, part: Option<Part>) {
        let Ok(connection) = self.connections.get(token) else { return };
        let Some(subscriber) = self.subscribers.find(id) else { return };
        let _ = match (part, &subscriber.doorbell, self.subscribers.page_fds.get(&subscriber.slot)) {
            (Some(Part::Page), _, Some(page)) => connection.send(joined(subscriber), &[page.as_fd()]),
            (Some(Part::Doorbell), Some(doorbell), _) => {
                let message = Message::new(Op::Doorbell, &[id.slot, id.generation]);
                connection.send(message, &[doorbell.as_fd()])
            }
            _ => Ok(()),
        };
    }

    pub fn connection_of(&self, id: SubscriberId) -> Option<u64> {
        let slot = self.subscribers.find(id)?.slot;
        self.connections.find(|role| role == Role::Subscriber { slot })
    }

    pub fn remove_publisher(&mut self, slot: u8) {
        if self.options.kind == Kind::Shared {
            self.settle_ended_logs(slot);
        } else {
            self.cancel_roll();
            self.logs.present.tail().publishers_waiting.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
        let status = self.pages.status.words();
        status.local_publishers.fetch_and(!(1 << slot), Ordering::Relaxed);
        let left = status.publishers.fetch_and(!(1 << slot), Ordering::AcqRel) & !(1 << slot);
        let has_all = self.options.remote_publishers > 0 && !self.options.late_publishers;
        let none_can_join = has_all || !self.publishers.admits_local;
        let no_more = self.options.kind == Kind::Single || (none_can_join && left | self.joiners() == 0);
        if no_more && self.pages.is_sealed() {
            self.pages.end();
        }
        // It may have died after its commit and before it woke the subscribers.
        self.wake_all_subscribers();
        self.drop_ended_logs();
    }

    pub fn admit_no_more_local_publishers(&mut self) {
        self.publishers.admits_local = false;
        self.end_if_nobody_is_left();
    }

    /// Ends a group that admits no more publishers of this process, once there is none and nobody joins as one.
    pub fn end_if_nobody_is_left(&mut self) {
        let publishers = self.pages.status.words().publishers.load(Ordering::Relaxed);
        if !self.publishers.admits_local && self.pages.is_sealed() && publishers | self.joiners() == 0 {
            self.pages.end();
            self.wake_all_subscribers();
        }
    }

    pub fn remove_subscriber(&mut self, slot: usize, share: Option<Share>) {
        let status = self.pages.status.words();
        status.set_subscriber(slot, 0);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst);
        if let Some(subscriber) = self.subscribers.present.remove(slot) {
            if let Some(share) = share.filter(|_| is_demoted(&subscriber, self.logs.present.tail())) {
                self.subscribers.note_late(share);
            }
            // Publishers that sleep on this cursor wake up, and those about to sleep find it changed.
            let words = subscriber.words();
            words.cursor.store(u64::MAX, Ordering::Release);
            let _ = futex::wake(subscriber.page.cursor_futex(), u32::MAX);
            words.released.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&words.released, u32::MAX);
            if subscriber.placed {
                self.change_placed(|placed| placed.wrapping_sub(1));
            }
        }
        self.subscribers.page_fds.remove(&slot);
        self.drop_ended_logs();
    }

    /// Disconnects the subscriber in a slot. Returns whether there was one.
    pub fn disconnect_subscriber(&mut self, subscriber: u32) -> bool {
        let slot = subscriber as usize;
        let found = self.connections.find(|role| role == Role::Subscriber { slot });
        if let Some(token) = found {
            self.disconnect(token);
            self.wake_all_subscribers();
        }
        found.is_some()
    }

    pub fn evict(&mut self, publisher: u8) -> Result<bool> {
        let is_it = |role: Role| matches!(role, Role::Publisher { slot, .. } if slot == publisher);
        let token = self.connections.find(is_it);
        let Some(token) = token.filter(|_| self.options.kind == Kind::Shared) else { return Ok(false) };
        // The evicted publisher may still write to what becomes padding. The log is ended first, so that the memory is never
        // claimed for another message. If that fails, everything stays as it is.
        server::end_log(&*self.logs.present)?;
        self.cancel_roll();
        self.connections.set_role(token, Role::Client);
        self.remove_publisher(publisher);
        Ok(true)
    }
}

/// What a publisher is told of a subscriber.
fn joined(subscriber: &SubscriberHandle) -> Message {
    let [kind, deadline] = subscriber.policy.to_words();
    Message::new(Op::Joined, &[subscriber.slot as u32, subscriber.generation, kind, deadline])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use causeway_os::socket::seqpacket_pair;
    use rustix::event::epoll::{self, CreateFlags};

    use super::super::connections::Origin;
    use super::*;
    use crate::error::Error;
    use crate::log::pages::StatusPages;
    use crate::log::wake_word::WakeWord;
    use crate::options::GroupOptions;
    use crate::subscriber_set::SubscriberSet;
    use crate::wire::{Incoming, receive};

    #[test]
    fn a_subscriber_whose_page_is_not_sealed_is_none() {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        let mut state = State::new("unsealed", GroupOptions::new().capacity_bytes(4096), epoll).unwrap();
        let (near, _far) = seqpacket_pair().unwrap();
        let token = state.connect(near, Origin::Local).unwrap();
        state.grant_subscriber(token, Policy::Lossy).unwrap();
        assert_eq!(state.register(token, 0), Err(Refusal::NotUnderstood));
        assert_eq!(state.pages.status.words().subscribers[0].load(Ordering::Relaxed), 0);
        state.grant_subscriber(token, Policy::Lossy).unwrap();
        SubscriberPage::open_own(&state.subscribers.joining[&token].1).unwrap();
        state.register(token, 0).unwrap();
        assert_eq!(state.pages.status.words().subscriber_changes.load(Ordering::Relaxed), 1);
    }

    /// Before, the publisher began at once, and a subscriber that had waited for it did not get the first messages.
    #[test]
    fn a_publisher_begins_when_the_subscribers_that_waited_for_it_are_placed_or_gone() {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        let options = GroupOptions::new().capacity_bytes(4096).remote_publishers(1);
        let mut state = State::new("first", options, epoll).unwrap();
        let join = |state: &mut State| {
            let (near, far) = seqpacket_pair().unwrap();
            (state.connect(near, Origin::Invitation).unwrap(), far)
        };
        let [(placed, _a), (gone, _b), (publisher, far)] = std::array::from_fn(|_| join(&mut state));
        for subscriber in [placed, gone] {
            state.subscribe(subscriber, Policy::Reliable).unwrap();
            assert_eq!(state.connections.get(subscriber).unwrap().role, Role::Waiting);
        }
        let mut joined = 0;
        let mut granted = || match receive(&far, 8).unwrap() {
            Incoming::Message(message, _) => {
                message.op == Op::Granted || {
                    assert_eq!(message.op, Op::Joined);
                    joined += 1;
                    false
                }
            }
            Incoming::Nothing => false,
            _ => panic!("the publisher is told something else"),
        };
        rustix::io::ioctl_fionbio(&far, true).unwrap();
        state.grant_publisher(publisher).unwrap();
        assert!(granted() && !granted());
        state.publisher_mapped(publisher, 0).unwrap();
        let Role::Joining { slot } = state.connections.get(placed).unwrap().role else { panic!("it joins") };
        SubscriberPage::open_own(&state.subscribers.joining[&placed].1).unwrap();
        state.register(placed, slot).unwrap();
        state.release_held();
        assert!(!granted(), "one has no place yet, the other has not even mapped its page");
        state.note_placed(placed, slot).unwrap();
        state.release_held();
        assert!(!granted() && state.next_deadline().is_some());
        state.disconnect(gone);
        assert!(granted() && state.hold_ends().is_none());
        assert_eq!(joined, 1, "it knows the one that is placed");
    }

    #[test]
    fn a_publisher_whose_socket_is_full_is_told_that_it_may_begin_once_it_has_read() {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        let options = GroupOptions::new().capacity_bytes(4096).remote_publishers(1);
        let mut state = State::new("full", options, epoll).unwrap();
        let (near, far) = seqpacket_pair().unwrap();
        let publisher = state.connect(near, Origin::Invitation).unwrap();
        rustix::io::ioctl_fionbio(&far, true).unwrap();
        state.grant_publisher(publisher).unwrap();
        let take = || match receive(&far, 8).unwrap() {
            Incoming::Message(message, _) => Some(message.op),
            _ => None,
        };
        assert_eq!(take(), Some(Op::Granted));
        (0..1000).for_each(|_| state.connections.send(publisher, Message::new(Op::Joined, &[])));
        state.publisher_mapped(publisher, 0).unwrap();
        let notices = std::iter::from_fn(take).inspect(|op| assert_eq!(*op, Op::Joined)).count();
        assert!((1..1000).contains(&notices), "{notices} notices had room");
        std::thread::sleep(state.hold_ends().unwrap().saturating_duration_since(std::time::Instant::now()));
        state.release_held();
        assert_eq!((take(), take(), state.hold_ends()), (Some(Op::Granted), None, None));
    }

    /// Before, it was told that the server is gone, and to start it again.
    #[test]
    fn a_publisher_that_is_disconnected_before_it_knows_all_subscribers_is_told_that() {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        let mut state = State::new("early", GroupOptions::new().capacity_bytes(4096), epoll).unwrap();
        let (near, _subscriber) = seqpacket_pair().unwrap();
        let subscriber = state.connect(near, Origin::Local).unwrap();
        state.grant_subscriber(subscriber, Policy::Reliable).unwrap();
        SubscriberPage::open_own(&state.subscribers.joining[&subscriber].1).unwrap();
        state.register(subscriber, 0).unwrap();

        let (near, far) = seqpacket_pair().unwrap();
        let publisher = state.connect(near, Origin::Local).unwrap();
        state.connections.send(publisher, Message::refusal(Refusal::Disconnected));
        state.disconnect(publisher);
        let log = Arc::clone(&state.logs.present);
        let status = StatusPages::open(&state.pages.status_fd).unwrap();
        let wake_word = WakeWord::open(Arc::clone(&log), None).unwrap();
        let told = SubscriberSet::new(far, status, wake_word, log.epoch(), Vec::new());
        assert!(matches!(told, Err(Error::Refused(Refusal::Disconnected))), "{told:?}");
    }
}
