//! Epochs: the present log ends at a position, and a new log begins there.
//!
//! A log that subscribers read is sealed: no process can map it for writing any more. So a publisher that comes later, and a log of
//! another size, need a new log. It is made first; each publisher of another process maps it in a thread of its own, beside its
//! publishing, and tells the server. Then, in one step, the new log is sealed, the old one ends, the new one begins where that was, and
//! all who sleep are woken. Publishers find the end, or the number of the epoch in the status pages, and go on in the new log; subscribers read the
//! old log to its end and ask for the next one. A publisher that does not answer in time is left out, and causes another roll when it
//! publishes again. See `docs/decisions/epochs.md`.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::socket::seqpacket_pair;
use rustix::net::sockopt;

use super::logs::{Coming, Ended, WantedLog, free};
use super::state::{Answer, Connection, NOTICES_BYTES, Origin, Role, State};
use crate::error::{Error, Refusal, Result};
use crate::log::mapped::MappedLog;
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Corrupt, Kind, Memory, server};
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{GETS_LOGS, IS_LATE, Message, Op, halves};

/// How long publishers have to map the next log; meanwhile all go on in the present one. A second, and three more for the largest.
fn map_time(capacity_bytes: u64) -> Duration {
    Duration::from_secs(1) + Duration::from_secs(3).mul_f64(capacity_bytes as f64 / (1u64 << 30) as f64)
}

/// The most logs that are kept for subscribers which have not come so far, and for unfinished messages.
const ENDED_MAX: usize = 8;

impl State {
    /// When the present roll goes on without those that have not answered.
    pub(super) fn roll_deadline(&self) -> Option<Instant> {
        // The publisher of a log of one publisher rolls it itself, when it publishes next.
        self.epochs.coming.as_ref().filter(|coming| !coming.awaited.is_empty()).map(|coming| coming.deadline)
    }

    /// The slots of publishers that join with the next log, a bit each.
    pub(super) fn joiners(&self) -> u64 {
        self.epochs.joiners.iter().fold(0, |bits, (_, slot)| bits | 1 << slot)
    }

    /// A connection on which a publisher of another process gets the logs to come. Returns the end for the publisher.
    pub(super) fn connect_for_logs(&mut self, epoll: &OwnedFd, token: u64, slot: u8) -> Answer<OwnedFd> {
        let (near, far) = seqpacket_pair().map_err(|_| Refusal::Exhausted)?;
        let refused = |error| if let Error::Refused(refusal) = error { refusal } else { Refusal::Exhausted };
        let mapper = self.connect(epoll, near, Origin::Asked(token)).map_err(refused)?;
        if let Some(connection) = self.connections.get_mut(&mapper) {
            connection.role = Role::Mapper { slot, is_busy: false };
        }
        Ok(far)
    }

    /// The connection on which the publisher in this slot gets logs.
    pub(super) fn mapper_of(&self, publisher: u8) -> Option<u64> {
        let is_it = |role: Role| matches!(role, Role::Mapper { slot, .. } if slot == publisher);
        self.connections.iter().find(|(_, connection)| is_it(connection.role)).map(|(token, _)| *token)
    }

    /// Gives a publisher that comes after the log was sealed a slot, and the next log once that is there.
    pub(super) fn grant_late_publisher(&mut self, epoll: &OwnedFd, token: u64) -> Answer {
        let taken = self.status.words().publishers.load(Ordering::Relaxed) | self.joiners();
        let slot = taken.trailing_ones() as u8;
        if usize::from(slot) >= PUBLISHERS_MAX {
            return Err(Refusal::TooMany);
        }
        if self.epochs.coming.is_none() {
            self.want_log(self.log.capacity_bytes())?;
        }
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        connection.role = Role::LatePublisher { slot };
        self.epochs.joiners.push((token, slot));
        self.send_coming_to_joiner(epoll, (token, slot))
    }

    /// Sends the next log, if it is there, to a publisher that joins with it.
    fn send_coming_to_joiner(&mut self, epoll: &OwnedFd, (token, slot): (u64, u8)) -> Answer {
        if self.epochs.coming.is_none() {
            return Ok(());
        }
        let logs = self.connect_for_logs(epoll, token, slot);
        let (Some(coming), Some(connection)) = (&mut self.epochs.coming, self.connections.get_mut(&token))
        else {
            return Ok(());
        };
        let granted = logs.and_then(|logs| {
            let mut fds = vec![self.status_fd.as_fd(), coming.fd.as_fd(), self.lifeline.alive.as_fd()];
            fds.extend(self.wake_page_fd.as_ref().map(AsFd::as_fd));
            fds.push(logs.as_fd());
            let granted = Message::new(Op::Granted, &[u32::from(slot), IS_LATE | GETS_LOGS]);
            granted.send(&connection.socket, &fds).map_err(|_| Refusal::Exhausted)
        });
        match granted {
            Ok(()) => {
                coming.awaited.insert(token);
                coming.deadline = Instant::now() + map_time(coming.log.capacity_bytes());
            }
            Err(_) => {
                connection.role = Role::Client;
                self.epochs.joiners.retain(|(joiner, _)| *joiner != token);
            }
        }
        granted
    }

    /// Asks for another log, which is made without the lock: see [`State::take_wanted_log`].
    pub(super) fn want_log(&mut self, capacity_bytes: u64) -> Answer {
        if self.epochs.is_closed || self.status.words().phase.load(Ordering::Relaxed) == 2 {
            return Err(Refusal::Ended);
        }
        self.drop_ended_logs();
        if self.epochs.ended.len() >= ENDED_MAX {
            self.demote_those_behind();
            self.drop_ended_logs();
        }
        if self.epochs.ended.len() >= ENDED_MAX {
            return Err(Refusal::LogsHeld);
        }
        let is_single = self.options.kind == Kind::Single;
        if !self.epochs.is_making && (self.epochs.coming.is_none() || is_single) {
            self.epochs.wanted = Some(capacity_bytes);
        }
        Ok(())
    }

    /// What another log is to be like, if one is wanted. The caller makes it without the lock, because a large log takes time, and
    /// then calls [`State::add_log`].
    pub(super) fn take_wanted_log(&mut self) -> Option<WantedLog> {
        let capacity_bytes = self.epochs.wanted.take()?;
        self.epochs.is_making = true;
        Some(WantedLog { present: self.log(), name: self.name.clone(), capacity_bytes })
    }

    /// Whether a log is being made.
    pub(super) fn is_making_log(&self) -> bool {
        self.epochs.is_making
    }

    /// A log was made: the publishers map it. The roll is complete when they have.
    pub(super) fn add_log(&mut self, epoll: &OwnedFd, made: Result<(OwnedFd, MappedLog)>) -> Result<()> {
        self.epochs.is_making = false;
        if self.epochs.is_closed {
            return Err(Error::Refused(Refusal::Ended));
        }
        let (fd, log) = made.inspect_err(|_| self.refuse_joiners(Refusal::Exhausted))?;
        let (epoch, capacity_bytes) = (log.epoch(), log.capacity_bytes());
        if epoch != self.log.epoch() + 1 {
            // The only publisher has gone on in the log before this one meanwhile.
            self.epochs.wanted = Some(capacity_bytes);
            return Ok(());
        }
        let (log, deadline) = (Arc::new(log), Instant::now() + map_time(capacity_bytes));
        self.epochs.coming = Some(Coming { log, fd, awaited: BTreeSet::new(), deadline });
        if self.options.kind == Kind::Single && self.status.words().publishers.load(Ordering::Relaxed) != 0 {
            // Only its publisher can end it.
            self.announce_epoch(epoch);
            return Ok(());
        }
        let mappers = |role: Role| matches!(role, Role::Mapper { is_busy: false, .. });
        let mappers = self.connections.iter().filter(|(_, connection)| mappers(connection.role));
        let mappers: Vec<u64> = mappers.map(|(token, _)| *token).collect();
        mappers.into_iter().for_each(|token| self.send_coming(token));
        for joiner in self.epochs.joiners.clone() {
            if let Err(refusal) = self.send_coming_to_joiner(epoll, joiner) {
                self.send_to(joiner.0, Message::refusal(refusal));
            }
        }
        self.begin_if_mapped();
        Ok(())
    }

    /// Sends the next log to the thread of a publisher that maps it. At most one is on its way to each: it would keep the memory
    /// of what it does not read.
    fn send_coming(&mut self, token: u64) {
        let Some(coming) = &mut self.epochs.coming else { return };
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let notice = Message::new(Op::Log, &halves(coming.log.epoch()));
        if let Role::Mapper { is_busy, .. } = &mut connection.role
            && notice.send(&connection.socket, &[coming.fd.as_fd()]).is_ok()
        {
            *is_busy = true;
            coming.awaited.insert(token);
        }
    }

    /// A publisher has mapped the log of this epoch, or could not.
    pub(super) fn note_mapped(&mut self, token: u64, epoch: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let coming = self.epochs.coming.as_ref().map(|coming| coming.log.epoch());
        if let Role::Mapper { is_busy, .. } = &mut connection.role {
            *is_busy = false;
            if coming.is_some_and(|coming| coming != epoch) {
                return self.send_coming(token);
            }
        }
        self.await_no_longer(token);
    }

    /// The roll does not wait for this connection any more.
    pub(super) fn await_no_longer(&mut self, token: u64) {
        if let Some(coming) = &mut self.epochs.coming {
            coming.awaited.remove(&token);
        }
        self.begin_if_mapped();
    }

    /// A publisher that was to join with the next log is gone.
    pub(super) fn forget_joiner(&mut self, token: u64) {
        self.epochs.joiners.retain(|(joiner, _)| *joiner != token);
        self.await_no_longer(token);
    }

    /// A publisher lacks the present log, because it did not map it in time: the next one is for it.
    pub(super) fn roll_for(&mut self, token: u64) {
        if self.epochs.coming.is_none() {
            // It asks again if this fails.
            let _ = self.want_log(self.log.capacity_bytes());
        }
        if let Some(Connection { role: Role::Publisher { slot, .. }, .. }) = self.connections.get(&token)
            && let Some(mapper) = self.mapper_of(*slot)
            && let Some(Connection { role: Role::Mapper { is_busy: false, .. }, .. }) =
                self.connections.get(&mapper)
            && self.epochs.coming.as_ref().is_some_and(|coming| !coming.awaited.contains(&mapper))
        {
            self.send_coming(mapper);
        }
        self.begin_if_mapped();
    }

    /// Goes on without those that have not answered in time. Publishers that were to join are refused; others ask for another roll
    /// when they publish.
    pub(super) fn end_late_rolls(&mut self, epoll: &OwnedFd) {
        if self.roll_deadline().is_none_or(|deadline| Instant::now() < deadline) {
            return;
        }
        let Some(coming) = &mut self.epochs.coming else { return };
        let late = std::mem::take(&mut coming.awaited);
        // None of them joins when the end of the first one's connection lets the roll go on.
        let (late, in_time) =
            self.epochs.joiners.drain(..).partition::<Vec<_>, _>(|(token, _)| late.contains(token));
        self.epochs.joiners = in_time;
        for (token, _) in late {
            self.send_to(token, Message::refusal(Refusal::TooLate));
            self.disconnect(epoll, token);
        }
        self.begin_if_mapped();
    }

    /// Rolls if nothing is waited for. In a log of one publisher, that one does.
    pub(super) fn begin_if_mapped(&mut self) {
        let by_publisher =
            self.options.kind == Kind::Single && self.status.words().publishers.load(Ordering::Relaxed) != 0;
        if !by_publisher && self.epochs.coming.as_ref().is_some_and(|coming| coming.awaited.is_empty()) {
            // A log that publishers have corrupted has no end; its subscribers report that.
            let _ = self.begin_next(server::end_log);
        }
    }

    /// Tells publishers that there is, or will be, another log.
    fn announce_epoch(&self, epoch: u64) {
        let status = self.status.words();
        status.epoch.store(epoch, Ordering::Release); // PAIR epoch
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst); // PAIR subscriber-changes
    }

    /// Ends the present log by `end`, and begins the next one there. Returns the present log after that.
    pub(super) fn begin_next(
        &mut self,
        end: impl FnOnce(&MappedLog) -> Result<u64, Corrupt>,
    ) -> Result<Arc<MappedLog>> {
        let Some(coming) = self.epochs.coming.take() else { return Ok(self.log()) };
        if self.is_sealed()
            && let Err(error) = MappedLog::seal(&coming.fd)
        {
            self.refuse_joiners(Refusal::Exhausted);
            self.announce_epoch(self.log.epoch());
            return Err(error);
        }
        // Before the end: who finds it knows that a log follows. PAIR epoch
        self.status.words().epoch.store(coming.log.epoch(), Ordering::Release);
        let position = end(&self.log).inspect_err(|_| {
            self.refuse_joiners(Refusal::Ended);
            self.announce_epoch(self.log.epoch());
        })?;
        coming.log.begin(Some(&self.log), position);
        self.status.words().log_start.store(position, Ordering::Release);
        // With the word of the old log, where they sleep.
        self.wake_all_subscribers();
        let log = std::mem::replace(&mut self.log, coming.log);
        let fd = std::mem::replace(&mut self.log_fd, coming.fd);
        self.epochs.ended.push_back(Ended { log, fd, since: Instant::now() });
        self.wake_word.continue_in(Arc::clone(&self.log));
        for (token, slot) in std::mem::take(&mut self.epochs.joiners) {
            self.admit_late_publisher(token, slot);
        }
        self.announce_epoch(self.log.epoch());
        // Publishers that wait for space have some now.
        for subscriber in self.subscribers.iter() {
            let _ = futex::wake(subscriber.page.cursor_futex(), u32::MAX);
        }
        self.drop_ended_logs();
        Ok(self.log())
    }

    fn admit_late_publisher(&mut self, token: u64, slot: u8) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let _ = Message::new(Op::Granted, &[u32::from(slot)]).send(&connection.socket, &[]);
        let _ = sockopt::set_socket_send_buffer_size(&connection.socket, NOTICES_BYTES);
        connection.role = Role::Publisher { slot, mapped: true };
        self.status.words().publishers.fetch_or(1 << slot, Ordering::Release);
    }

    fn refuse_joiners(&mut self, refusal: Refusal) {
        for (token, _) in std::mem::take(&mut self.epochs.joiners) {
            self.send_to(token, Message::refusal(refusal));
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.role = Role::Client;
                connection.extend_visit();
            }
        }
    }

    /// The group was closed, or its one publisher is gone: no log follows.
    pub(super) fn cancel_roll(&mut self) {
        self.epochs.is_closed = true;
        self.epochs.coming = None;
        self.refuse_joiners(Refusal::Ended);
    }

    /// Sends a subscriber that has read the log of `epoch` to its end the next one that is kept, and how many messages there
    /// were in between.
    pub(super) fn send_next_log(&mut self, token: u64, slot: usize, epoch: u64) -> Answer {
        let ended = self.epochs.ended.iter().map(|ended| (&ended.log, &ended.fd));
        let next = ended.chain([(&self.log, &self.log_fd)]).find(|(log, _)| log.epoch() > epoch);
        let (log, fd) = next.ok_or(Refusal::Ended)?;
        let subscriber = self.subscribers.get_mut(slot).ok_or(Refusal::NotUnderstood)?;
        let skipped = match log.epoch() {
            at if at == epoch + 1 => 0,
            _ if epoch == subscriber.epoch => {
                self.epochs.dropped_messages.wrapping_sub(subscriber.messages_through)
            }
            _ => return Err(Refusal::NotUnderstood),
        };
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        // What it does not read takes descriptors of this user: no more than a few.
        let _ = sockopt::set_socket_send_buffer_size(&connection.socket, NOTICES_BYTES);
        let words = [halves(log.epoch()), halves(skipped)].concat();
        Message::new(Op::Granted, &words)
            .send(&connection.socket, &[fd.as_fd()])
            .map_err(|_| Refusal::Exhausted)?;
        subscriber.epoch = subscriber.epoch.max(log.epoch());
        self.drop_ended_logs();
        Ok(())
    }

    /// Decides what a dead publisher left unfinished in logs that have ended, and counts it where others go on counting.
    pub(super) fn settle_ended_logs(&mut self, slot: u8) {
        let logs: Vec<_> = self.epochs.ended.iter().map(|ended| &ended.log).chain([&self.log]).collect();
        for (index, log) in logs.iter().enumerate() {
            // A log that publishers have corrupted cannot be repaired; its subscribers report that.
            let _ = server::settle(&***log, slot);
            if let Some(next) = logs.get(index + 1) {
                server::carry_counts(&***log, &***next);
            }
        }
    }

    /// Subscribers that have not come further sleep with the words of these logs.
    pub(super) fn change_wake_words_of_ended_logs(&self) {
        for ended in &self.epochs.ended {
            ended.log.tail().wake_seq.fetch_add(1, Ordering::Release); // PAIR wake-seq
        }
    }

    /// Demotes the subscribers for which the oldest log is kept, if they have a deadline and it has passed since that log ended: they keep
    /// the next log from beginning, as others keep publishers from going on.
    fn demote_those_behind(&self) {
        let Some(oldest) = self.epochs.ended.front() else { return };
        let waited = oldest.since.elapsed();
        for one in self.subscribers.iter().filter(|one| one.epoch < oldest.log.epoch()) {
            if one.policy.deadline().is_some_and(|deadline| deadline <= waited) {
                self.log.tail().demoted[one.slot].store(one.generation, Ordering::Release);
            }
        }
    }

    /// Drops the oldest logs, as far as no subscriber that publishers wait for has still to ask for them, and no message in them is
    /// unfinished. The memory of a log is gone when no process has it mapped.
    pub(super) fn drop_ended_logs(&mut self) {
        let State { epochs, subscribers, log: present, .. } = self;
        while let Some(ended) = epochs.ended.front() {
            let (log, epoch) = (&ended.log, ended.log.epoch());
            let demoted = &present.tail().demoted;
            let needs = |one: &SubscriberHandle| {
                let is_demoted = demoted[one.slot].load(Ordering::Relaxed) == one.generation;
                one.epoch < epoch && one.policy.holds_space() && !is_demoted
            };
            if !server::is_finished(&**log) || subscribers.iter().any(needs) {
                return;
            }
            let next = epochs.ended.get(1).map_or(&*present, |ended| &ended.log);
            server::carry_counts(&**log, &**next);
            let through = server::published(&**log);
            for subscriber in subscribers.iter_mut().filter(|one| one.epoch == epoch) {
                subscriber.messages_through = through;
            }
            epochs.dropped_messages = through;
            if let Some(ended) = epochs.ended.pop_front() {
                free(ended);
            }
        }
    }
}
