//! How a peer becomes a publisher or a subscriber, and what is done when one leaves.
//!
//! Order matters in two places. A subscriber's descriptors are sent to every publisher before the counter of changes is
//! incremented, and the subscriber is granted its slot after that: a publisher that sees the new count has received the
//! descriptors. And the unfinished frames of a dead publisher are decided before its bit is cleared and subscribers are woken.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::socket::{refuse_descriptors, stream_pair};

use super::places::Share;
use super::state::{Answer, Connection, Role, State};
use crate::error::{Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::pages::SubscriberPage;
use crate::log::wait::WaitingSubscriber;
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Kind, Memory, Reader, server};
use crate::options::Policy;
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{Message, Op, is_gone};

/// How long the server remembers that a subscriber of another user missed its deadline and left.
const LATE_TIME: Duration = Duration::from_secs(60);

impl State {
    pub(super) fn grant_publisher(&mut self, token: u64) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let local = connection.local;
        if !local && !self.options.publishers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        let status = self.status.words();
        let taken = status.publishers.load(Ordering::Relaxed);
        let ended = status.phase.load(Ordering::Relaxed) == 2;
        let slots = if self.options.kind == Kind::Single { 1 } else { PUBLISHERS_MAX as u32 };
        let remote_taken = (taken & !status.local_publishers.load(Ordering::Relaxed)).count_ones();
        if !local && (self.is_sealed() || remote_taken >= self.options.remote_publishers) {
            return Err(Refusal::PublishersFixed);
        }
        let slot = (!taken).trailing_zeros();
        match self.options.kind {
            Kind::Single if slot >= slots || ended => return Err(Refusal::OnePublisher),
            Kind::Shared if ended => return Err(Refusal::Ended),
            Kind::Shared if slot >= slots => return Err(Refusal::TooMany),
            Kind::Single | Kind::Shared => {}
        }
        self.admit_publisher(token, slot as u8, local)
    }

    fn admit_publisher(&mut self, token: u64, slot: u8, local: bool) -> Answer {
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        // Announces how many notices follow: before it has them all, the publisher must not reclaim space.
        let granted = Message::new(Op::Granted, &[u32::from(slot), self.subscribers.len() as u32]);
        let both = [self.status_fd.as_fd(), self.log_fd.as_fd()];
        let fds = if local { &both[..1] } else { &both[..] };
        granted.send(&connection.socket, fds).map_err(|_| Refusal::PublisherStuck)?;
        for subscriber in &self.subscribers {
            let page = self.pages.get(&subscriber.slot).ok_or(Refusal::NotUnderstood)?;
            joined(subscriber.slot, subscriber.generation, subscriber.policy)
                .send(&connection.socket, &[page.as_fd(), subscriber.doorbell.as_fd()])
                .map_err(|_| Refusal::PublisherStuck)?;
        }
        // A publisher from here on, and not before: one that could not be told of every subscriber leaves as a client, and its
        // slot may belong to another one by then.
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
            connection.deadline = None;
        }
        if !self.waiting.iter().any(|(waiting, _)| *waiting == token) {
            self.waiting.push((token, policy));
        }
        self.send_to(token, Message::new(Op::Waiting, &[]));
        Ok(())
    }

    /// How long publishers may have to wait for a subscriber; `None` for any time. A user that has missed a deadline is not
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
                self.subscribers.iter().any(|subscriber| subscriber.slot == slot && is_late(subscriber))
            }
            _ => false,
        };
        let was_late = self.late_users.iter().any(|(late, until)| *late == share && Instant::now() < *until);
        if was_late || self.connections.values().any(is_its) {
            return Duration::ZERO;
        }
        self.options.most_patient.patience().min(self.options.most_patient_for_others.patience())
    }

    fn grant_subscriber(&mut self, token: u64, policy: Policy) -> Answer {
        let status = self.status.words();
        let slot = (0..SUBSCRIBERS_MAX)
            .find(|slot| status.subscribers[*slot].load(Ordering::Relaxed) == 0)
            .ok_or(Refusal::TooMany)?;
        let (page_fd, page) = SubscriberPage::create().map_err(|_| Refusal::Exhausted)?;
        let (doorbell, doorbell_far) = stream_pair().map_err(|_| Refusal::Exhausted)?;
        // Neither end takes descriptors: a subscriber could block a publisher with one, and a publisher a subscriber.
        let doorbell = ForeignSocket::new(doorbell);
        let _ = refuse_descriptors(&doorbell_far);
        // An initial cursor at the oldest message: the subscriber moves it to where it begins.
        let start = Reader::join(&*self.log).map_err(|_| Refusal::NotUnderstood)?.position();
        page.words().cursor.store(start, Ordering::Release);
        self.generations[slot] = self.generations[slot].wrapping_add(1).max(1);
        let generation = self.generations[slot];
        for connection in self.connections.values() {
            if matches!(connection.role, Role::Publisher { .. }) {
                match joined(slot, generation, policy)
                    .send(&connection.socket, &[page_fd.as_fd(), doorbell.as_fd()])
                {
                    // That publisher died, and an event for it follows.
                    Err(error) if is_gone(&error) => {}
                    other => other.map_err(|_| Refusal::PublisherStuck)?,
                }
            }
        }
        status.subscribers[slot].store(generation, Ordering::Release);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst); // PAIR subscriber-changes: `SubscriberSet` loads it after each commit
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        connection.role = Role::Subscriber { slot };
        let fds = [self.status_fd.as_fd(), self.log_fd.as_fd(), page_fd.as_fd(), doorbell_far.as_fd()];
        let _ = Message::new(Op::Granted, &[slot as u32, generation]).send(&connection.socket, &fds);
        self.subscribers.push(SubscriberHandle {
            slot,
            generation,
            policy,
            page: Arc::new(page),
            doorbell,
            seen_cursor: 0,
            notified: 0,
        });
        self.pages.insert(slot, page_fd);
        Ok(())
    }

    pub(super) fn remove_publisher(&mut self, slot: u8) {
        if self.options.kind == Kind::Shared {
            // A log that publishers have corrupted cannot be repaired; its subscribers report that.
            let _ = server::settle(&*self.log, slot);
        } else {
            self.log.tail().publishers_waiting.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
        let status = self.status.words();
        status.local_publishers.fetch_and(!(1 << slot), Ordering::Relaxed);
        let left = status.publishers.fetch_and(!(1 << slot), Ordering::AcqRel) & !(1 << slot);
        let none_can_join = self.options.remote_publishers > 0 || !self.admits_local_publishers;
        let no_more = self.options.kind == Kind::Single || (none_can_join && left == 0);
        if no_more && self.is_sealed() {
            status.phase.store(2, Ordering::Release);
        }
        // It may have died after its commit and before it woke the subscribers.
        self.wake_all_subscribers();
    }

    pub(super) fn admit_no_more_local_publishers(&mut self) {
        self.admits_local_publishers = false;
        let status = self.status.words();
        if self.is_sealed() && status.publishers.load(Ordering::Relaxed) == 0 {
            status.phase.store(2, Ordering::Release);
            self.wake_all_subscribers();
        }
    }

    pub(super) fn remove_subscriber(&mut self, slot: usize, share: Option<Share>) {
        let status = self.status.words();
        status.subscribers[slot].store(0, Ordering::Release);
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst);
        if let Some(index) = self.subscribers.iter().position(|subscriber| subscriber.slot == slot) {
            let subscriber = self.subscribers.swap_remove(index);
            let is_late = self.log.tail().demoted[slot].load(Ordering::Relaxed) == subscriber.generation;
            if let Some(share) = share.filter(|_| is_late) {
                let now = Instant::now();
                self.late_users.retain(|(_, until)| now < *until);
                self.late_users.push((share, now + LATE_TIME));
            }
            // Publishers that sleep on this cursor wake up, and those about to sleep find it changed.
            subscriber.words().cursor.store(u64::MAX, Ordering::Release);
            let _ = futex::wake(subscriber.page.cursor_futex(), u32::MAX);
        }
        self.pages.remove(&slot);
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
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Client;
        }
        self.remove_publisher(publisher);
        Ok(true)
    }
}

fn joined(slot: usize, generation: u32, policy: Policy) -> Message {
    let [kind, deadline] = policy.to_words();
    Message::new(Op::Joined, &[slot as u32, generation, kind, deadline])
}

#[cfg(test)]
mod tests {
    use causeway_os::socket::seqpacket_pair;
    use rustix::event::epoll::{self, CreateFlags};
    use rustix::net::sockopt;

    use super::super::state::Origin;
    use super::*;
    use crate::options::GroupOptions;

    /// More subscribers than the number of notices that the smallest socket buffer holds.
    const SUBSCRIBERS: usize = 40;

    #[test]
    fn a_publisher_that_could_not_be_told_of_every_subscriber_leaves_no_trace() {
        for options in [GroupOptions::new(), GroupOptions::new().several_publishers()] {
            let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
            let mut state = State::new("stuck", options.capacity_bytes(4096)).unwrap();
            let mut ends = Vec::new();
            let mut connect = |state: &mut State, is_small: bool| {
                let (near, far) = seqpacket_pair().unwrap();
                if is_small {
                    sockopt::set_socket_send_buffer_size(&near, 1).unwrap();
                }
                state.connect(&epoll, near, Origin::Local).unwrap();
                ends.push(far);
                *state.connections.keys().next_back().unwrap()
            };
            for _ in 0..SUBSCRIBERS {
                let token = connect(&mut state, false);
                state.grant_subscriber(token, Policy::Lossy).unwrap();
            }
            let stuck = connect(&mut state, true);
            assert_eq!(state.grant_publisher(stuck), Err(Refusal::PublisherStuck));
            let next = connect(&mut state, false);
            state.grant_publisher(next).unwrap();
            state.disconnect(&epoll, stuck);
            let status = state.status.words();
            assert_eq!(status.phase.load(Ordering::Relaxed), 1, "the group has ended");
            assert_eq!(status.publishers.load(Ordering::Relaxed), 1, "another publisher was removed");
        }
    }
}
