//! How a peer becomes a publisher or a subscriber, and what is done when one leaves.
//!
//! A subscriber joins in three steps. It is given a page, which it maps and seals; then publishers know it, and keep what it
//! has not read; then it finds its place in the log, and others see it. A publisher that finds a subscriber in the status pages
//! whose notice did not fit its socket fetches the page, and overwrites nothing before it has it. So no publisher is needed for
//! a join, and none is lost by one.
//!
//! Order matters when a publisher leaves: the unfinished frames of a dead publisher are decided before its bit is cleared and subscribers are woken.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::socket::{refuse_descriptors, stream_pair};
use rustix::net::sockopt;

use super::places::Share;
use super::state::{Answer, Connection, NOTICES_BYTES, Role, State};
use crate::error::{Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::pages::SubscriberPage;
use crate::log::wait::WaitingSubscriber;
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Kind, Memory, Reader, server};
use crate::options::Policy;
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{GETS_LOGS, Message, Op};

/// How long the server remembers that a subscriber of another user missed its deadline and left.
const LATE_TIME: Duration = Duration::from_secs(60);

impl State {
    pub(super) fn grant_publisher(&mut self, epoll: &OwnedFd, token: u64) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let local = connection.local;
        if !local && !self.options.publishers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        let status = self.status.words();
        let taken = status.publishers.load(Ordering::Relaxed) | self.joiners();
        let ended = status.phase.load(Ordering::Relaxed) == 2;
        let slots = if self.options.kind == Kind::Single { 1 } else { PUBLISHERS_MAX as u32 };
        let remote_taken = (taken & !status.local_publishers.load(Ordering::Relaxed)).count_ones();
        if !local && (self.is_sealed() || remote_taken >= self.options.remote_publishers) {
            return match self.options.late_publishers && self.admits_local_publishers && !ended {
                true => self.grant_late_publisher(epoll, token),
                false if self.options.late_publishers => Err(Refusal::Ended),
                false => Err(Refusal::PublishersFixed),
            };
        }
        let slot = (!taken).trailing_zeros();
        match self.options.kind {
            Kind::Single if slot >= slots || ended => return Err(Refusal::OnePublisher),
            Kind::Shared if ended => return Err(Refusal::Ended),
            Kind::Shared if slot >= slots => return Err(Refusal::TooMany),
            Kind::Single | Kind::Shared => {}
        }
        self.admit_publisher(epoll, token, slot as u8, local)
    }

    fn admit_publisher(&mut self, epoll: &OwnedFd, token: u64, slot: u8, local: bool) -> Answer {
        let logs = match self.options.late_publishers && !local {
            true => Some(self.connect_for_logs(epoll, token, slot)?),
            false => None,
        };
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        let [status, log, lifeline] = [&self.status_fd, &self.log_fd, &self.lifeline.alive].map(AsFd::as_fd);
        let mut fds = if local { vec![status, lifeline] } else { vec![status, log, lifeline] };
        fds.extend(self.wake_page_fd.as_ref().map(AsFd::as_fd));
        fds.extend(logs.as_ref().map(AsFd::as_fd));
        let flags = if logs.is_some() { GETS_LOGS } else { 0 };
        let granted = Message::new(Op::Granted, &[u32::from(slot), flags]);
        granted.send(&connection.socket, &fds).map_err(|_| Refusal::PublisherStuck)?;
        // Notices that the publisher has not read take descriptors of this user; it fetches those that do not fit.
        let _ = sockopt::set_socket_send_buffer_size(&connection.socket, NOTICES_BYTES);
        connection.role = Role::Publisher { slot, mapped: local };
        let status = self.status.words();
        if local {
            status.local_publishers.fetch_or(1 << slot, Ordering::Relaxed);
        }
        status.publishers.fetch_or(1 << slot, Ordering::Release);
        Ok(())
    }

    pub(super) fn publisher_mapped(&mut self, token: u64, slot: u8) -> Answer {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Publisher { slot, mapped: true };
        }
        self.awaited_publishers = self.awaited_publishers.saturating_sub(1);
        if self.awaited_publishers == 0 && !self.is_sealed() {
            self.seal().map_err(|_| Refusal::NotUnderstood)?;
            for (token, policy) in std::mem::take(&mut self.waiting) {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.role = Role::Client;
                    connection.extend_visit();
                }
                if let Err(refusal) = self.grant_subscriber(token, policy) {
                    self.send_to(token, Message::refusal(refusal));
                }
            }
        }
        Ok(())
    }

    pub(super) fn subscribe(&mut self, token: u64, words: [u32; 2]) -> Answer {
        let policy = Policy::from_words(words).ok_or(Refusal::NotUnderstood)?;
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        if !connection.local && !self.options.subscribers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        if !connection.local && policy.patience() > self.patience_with(connection.share) {
            return Err(Refusal::TooPatient);
        }
        if self.is_sealed() {
            return self.grant_subscriber(token, policy);
        }
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Waiting;
        }
        if !self.waiting.iter().any(|(waiting, _)| *waiting == token) {
            self.waiting.push((token, policy));
        }
        self.send_to(token, Message::new(Op::Waiting, &[]));
        Ok(())
    }

    /// How long publishers may have to wait for a subscriber. A user that has missed a deadline is not
    /// waited for again while that is remembered: otherwise it could delay publishers again and again.
    fn patience_with(&self, share: Option<Share>) -> Duration {
        let Some(share) = share.filter(|share| *share != Share::Invited) else {
            return self.options.most_patient.patience();
        };
        let is_late = |subscriber: &SubscriberHandle| {
            self.log.tail().demoted[subscriber.slot].load(Ordering::Relaxed) == subscriber.generation
        };
        let is_its = |connection: &Connection| match connection.role {
            Role::Subscriber { slot } if connection.share == Some(share) => {
                self.subscribers.get(slot).is_some_and(is_late)
            }
            _ => false,
        };
        let was_late = self.late_users.iter().any(|(late, until)| *late == share && Instant::now() < *until);
        if was_late || self.connections.values().any(is_its) {
            return Duration::ZERO;
        }
        self.options.most_patient.patience().min(self.options.most_patient_for_others.patience())
    }

    /// Gives a subscriber a slot and all that it needs. Nothing of it is visible to others before it is ready.
    fn grant_subscriber(&mut self, token: u64, policy: Policy) -> Answer {
        let slot = self.free_slot().ok_or(Refusal::TooMany)?;
        let (page_fd, page) = SubscriberPage::create().map_err(|_| Refusal::Exhausted)?;
        let (doorbell, doorbell_far) = stream_pair().map_err(|_| Refusal::Exhausted)?;
        // Neither end takes descriptors: a subscriber could block a publisher with one, and a publisher a subscriber.
        let doorbell = ForeignSocket::new(doorbell);
        let _ = refuse_descriptors(&doorbell_far);
        self.generations[slot] = self.generations[slot].wrapping_add(1).max(1);
        let generation = self.generations[slot];
        let trust = self.options.effective_trust().to_word();
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        connection.role = Role::Joining { slot };
        let mut fds = vec![
            self.status_fd.as_fd(),
            self.log_fd.as_fd(),
            page_fd.as_fd(),
            doorbell_far.as_fd(),
            self.lifeline.watched.as_fd(),
        ];
        fds.extend(self.wake_page_fd.as_ref().map(AsFd::as_fd));
        let _ = Message::new(Op::Granted, &[slot as u32, generation, trust]).send(&connection.socket, &fds);
        let mut subscriber =
            SubscriberHandle::new(slot, generation, policy, Arc::new(page), Some(doorbell), None);
        subscriber.epoch = self.log.epoch();
        self.joining.insert(token, (subscriber, page_fd));
        Ok(())
    }

    /// The lowest slot that no subscriber has, and none that joins.
    fn free_slot(&self) -> Option<usize> {
        let mut taken = self.status.words().present.each_ref().map(|word| word.load(Ordering::Relaxed));
        for (subscriber, _) in self.joining.values() {
            taken[subscriber.slot / 64] |= 1 << (subscriber.slot % 64);
        }
        let index = taken.iter().position(|word| *word != u64::MAX)?;
        Some(index * 64 + taken[index].trailing_ones() as usize)
    }

    /// Whether all publishers of other processes can map another log.
    pub(super) fn can_resize(&self) -> bool {
        let status = self.status.words();
        let remote =
            status.publishers.load(Ordering::Relaxed) & !status.local_publishers.load(Ordering::Relaxed);
        (self.options.late_publishers || remote == 0) && self.awaited_publishers == 0
    }

    /// The subscriber has mapped its page and sealed it: from here on publishers know it.
    pub(super) fn register(&mut self, token: u64, slot: usize) -> Answer {
        let (subscriber, page_fd) = self.joining.remove(&token).ok_or(Refusal::NotUnderstood)?;
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        connection.role = Role::Client;
        SubscriberPage::check_sealed(&page_fd).map_err(|_| Refusal::NotUnderstood)?;
        if subscriber.epoch != self.log.epoch() {
            // The log that it was given has ended meanwhile, and was not kept for it: it tries again.
            return Err(Refusal::TooLate);
        }
        // An initial cursor at the oldest message: the subscriber moves it to where it begins.
        let start = Reader::join(&*self.log).map_err(|_| Refusal::NotUnderstood)?.position();
        subscriber.words().cursor.store(start, Ordering::Release);
        connection.role = Role::Subscriber { slot };
        let notice = joined(&subscriber);
        for connection in self.connections.values() {
            if matches!(connection.role, Role::Publisher { .. }) {
                // One that has no space for it fetches it.
                let _ = notice.send(&connection.socket, &[page_fd.as_fd()]);
            }
        }
        let status = self.status.words();
        status.set_subscriber(slot, subscriber.generation);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst); // PAIR subscriber-changes: `SubscriberSet` loads it after each commit
        self.subscribers.insert(subscriber);
        self.pages.insert(slot, page_fd);
        self.send_to(token, Message::new(Op::Granted, &[]));
        Ok(())
    }

    /// The subscriber has found its place in the log: it receives what is published from now on.
    pub(super) fn note_placed(&mut self, token: u64, slot: usize) -> Answer {
        let subscriber = self.subscribers.get_mut(slot).ok_or(Refusal::NotUnderstood)?;
        if !std::mem::replace(&mut subscriber.placed, true) {
            self.change_placed(|placed| placed.wrapping_add(1));
        }
        self.send_to(token, Message::new(Op::Granted, &[]));
        Ok(())
    }

    fn change_placed(&self, change: impl Fn(u32) -> u32) {
        let placed = &*self.status.words().placed;
        placed.store(change(placed.load(Ordering::Relaxed)), Ordering::Release);
        let _ = futex::wake(placed, u32::MAX);
    }

    /// Sends a publisher the page (0) or the doorbell (1) of a subscriber, if that still is there. Without space for the
    /// answer the publisher asks again.
    pub(super) fn send_what_it_lacks(&self, token: u64, [slot, generation, what]: [u32; 3]) {
        let Some(connection) = self.connections.get(&token) else { return };
        let Some(subscriber) = self.subscribers.find(slot as usize, generation) else { return };
        let _ = match (what, &subscriber.doorbell, self.pages.get(&subscriber.slot)) {
            (0, _, Some(page)) => joined(subscriber).send(&connection.socket, &[page.as_fd()]),
            (1, Some(doorbell), _) => {
                Message::new(Op::Doorbell, &[slot, generation]).send(&connection.socket, &[doorbell.as_fd()])
            }
            _ => Ok(()),
        };
    }

    /// The connection of this subscriber.
    pub(super) fn connection_of(&self, [slot, generation]: [u32; 2]) -> Option<u64> {
        let slot = self.subscribers.find(slot as usize, generation)?.slot;
        let role = |connection: &Connection| connection.role == Role::Subscriber { slot };
        self.connections.iter().find(|(_, connection)| role(connection)).map(|(token, _)| *token)
    }

    pub(super) fn remove_publisher(&mut self, slot: u8) {
        if self.options.kind == Kind::Shared {
            self.settle_ended_logs(slot);
        } else {
            self.cancel_roll();
            self.log.tail().publishers_waiting.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
        let status = self.status.words();
        status.local_publishers.fetch_and(!(1 << slot), Ordering::Relaxed);
        let left = status.publishers.fetch_and(!(1 << slot), Ordering::AcqRel) & !(1 << slot);
        let has_all = self.options.remote_publishers > 0 && !self.options.late_publishers;
        let none_can_join = has_all || !self.admits_local_publishers;
        let no_more = self.options.kind == Kind::Single || (none_can_join && left | self.joiners() == 0);
        if no_more && self.is_sealed() {
            status.phase.store(2, Ordering::Release);
        }
        // It may have died after its commit and before it woke the subscribers.
        self.wake_all_subscribers();
        self.drop_ended_logs();
    }

    pub(super) fn admit_no_more_local_publishers(&mut self) {
        self.admits_local_publishers = false;
        let status = self.status.words();
        if self.is_sealed() && status.publishers.load(Ordering::Relaxed) | self.joiners() == 0 {
            status.phase.store(2, Ordering::Release);
            self.wake_all_subscribers();
        }
    }

    pub(super) fn remove_subscriber(&mut self, slot: usize, share: Option<Share>) {
        let status = self.status.words();
        status.set_subscriber(slot, 0);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst);
        if let Some(subscriber) = self.subscribers.remove(slot) {
            let is_late = self.log.tail().demoted[slot].load(Ordering::Relaxed) == subscriber.generation;
            if let Some(share) = share.filter(|_| is_late) {
                let now = Instant::now();
                self.late_users.retain(|(_, until)| now < *until);
                self.late_users.push((share, now + LATE_TIME));
            }
            // Publishers that sleep on this cursor wake up, and those about to sleep find it changed.
            subscriber.words().cursor.store(u64::MAX, Ordering::Release);
            let _ = futex::wake(subscriber.page.cursor_futex(), u32::MAX);
            subscriber.words().released.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&subscriber.words().released, u32::MAX);
            if subscriber.placed {
                self.change_placed(|placed| placed.wrapping_sub(1));
            }
        }
        self.pages.remove(&slot);
        self.drop_ended_logs();
    }

    /// Disconnects the subscriber in a slot. Returns whether there was one.
    pub(super) fn disconnect_subscriber(&mut self, epoll: &OwnedFd, subscriber: u32) -> bool {
        let is_it = |role: Role| matches!(role, Role::Subscriber { slot } if slot == subscriber as usize);
        let found = self.connections.iter().find(|(_, connection)| is_it(connection.role));
        let Some(token) = found.map(|(token, _)| *token) else { return false };
        self.disconnect(epoll, token);
        self.wake_all_subscribers();
        true
    }

    pub(super) fn evict(&mut self, publisher: u8) -> Result<bool> {
        let role = |connection: &Connection| matches!(connection.role, Role::Publisher { slot, .. } if slot == publisher);
        let token = self.connections.iter().find(|(_, connection)| role(connection)).map(|(token, _)| *token);
        let Some(token) = token.filter(|_| self.options.kind == Kind::Shared) else { return Ok(false) };
        // The evicted publisher may still write to what becomes padding. The log is ended first, so that the memory is never
        // claimed for another message. If that fails, everything stays as it is.
        server::end_log(&*self.log)?;
        self.cancel_roll();
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Client;
        }
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
    use causeway_os::socket::seqpacket_pair;
    use rustix::event::epoll::{self, CreateFlags};

    use super::super::state::Origin;
    use super::*;
    use crate::options::GroupOptions;

    /// More subscribers than the number of notices that the socket of a publisher holds.
    const SUBSCRIBERS: usize = 40;

    #[test]
    fn a_publisher_that_reads_no_notice_keeps_nobody_out() {
        for options in [GroupOptions::new(), GroupOptions::new().several_publishers()] {
            let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
            let mut state = State::new("idle", options.capacity_bytes(4096)).unwrap();
            let mut ends = Vec::new();
            let mut connect = |state: &mut State| {
                let (near, far) = seqpacket_pair().unwrap();
                state.connect(&epoll, near, Origin::Local).unwrap();
                ends.push(far);
                *state.connections.keys().next_back().unwrap()
            };
            let publisher = connect(&mut state);
            state.grant_publisher(&epoll, publisher).unwrap();
            for slot in 0..SUBSCRIBERS {
                let token = connect(&mut state);
                state.grant_subscriber(token, Policy::Lossy).unwrap();
                assert_eq!(state.status.words().subscribers[slot].load(Ordering::Relaxed), 0, "not ready");
                assert_eq!(
                    state.register(token, slot),
                    Err(Refusal::NotUnderstood),
                    "its page is not sealed"
                );
                state.grant_subscriber(token, Policy::Lossy).unwrap();
                SubscriberPage::open_own(&state.joining[&token].1).unwrap();
                state.register(token, slot).unwrap();
            }
            assert_eq!(state.status.words().subscriber_changes.load(Ordering::Relaxed), SUBSCRIBERS as u64);
            state.disconnect(&epoll, publisher);
        }
    }
}
