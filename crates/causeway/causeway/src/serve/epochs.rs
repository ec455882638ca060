//! Epochs: the present log ends at a position, and a new log begins there.
//!
//! A log that subscribers read is sealed: no process can map it for writing any more. So a publisher that comes later, and a log
//! of another size, need a new log. It is made first; each publisher of another process maps it in a thread of its own, while it
//! goes on publishing, and tells the server. Then, in one step, the new log is sealed, the old one ends, the new one begins where
//! that was, and all who sleep are woken. Publishers find the end, or the number of the epoch in the status pages, and go on in the
//! new log; subscribers read the old log to its end and ask for the next one. A publisher that does not answer in time is left out,
//! and causes another roll when it publishes again. See `docs/decisions/epochs.md`.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::handshake::Part;

use super::connections::{Answer, Connection, Role};
use super::logs::{Ended, Next, free};
use super::state::State;
use super::subscribers::is_waited_for;
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

/// A publisher that joins has that time, too. So often at most, or those that come one after the other and do not answer would hold up a roll for
/// ever.
const ROLL_TIMES: u32 = 3;

/// The most logs that are kept for subscribers which have not come so far, and for unfinished messages.
const ENDED_MAX: usize = 8;

impl State {
    /// When the present roll goes on without those that have not answered.
    pub fn roll_deadline(&self) -> Option<Instant> {
        // The publisher of a log of one publisher rolls it itself, when it publishes next.
        let is_held = self.is_roll_held();
        self.logs.next.as_ref().filter(|next| is_held || !next.awaited.is_empty()).map(|next| next.deadline)
    }

    /// The slots of publishers that join with the next log, a bit each.
    pub fn joiners(&self) -> u64 {
        self.logs.joiners.iter().fold(0, |bits, (_, slot)| bits | 1 << slot)
    }

    /// A connection on which a publisher of another process gets the next logs. Returns the end for the publisher.
    pub fn connect_for_logs(&mut self, token: u64, slot: u8) -> Answer<OwnedFd> {
        let (mapper, far) = self.connect_another(token)?;
        self.connections.set_role(mapper, Role::Mapper { slot, is_busy: false });
        Ok(far)
    }

    /// The connection on which the publisher in this slot gets logs.
    pub fn mapper_of(&self, publisher: u8) -> Option<u64> {
        self.connections.find(|role| matches!(role, Role::Mapper { slot, .. } if slot == publisher))
    }

    /// Gives a publisher that comes after the log was sealed a slot, and the next log once that is there.
    pub fn grant_late_publisher(&mut self, token: u64) -> Answer {
        let taken = self.pages.status.words().publishers.load(Ordering::Relaxed) | self.joiners();
        let slot = taken.trailing_ones() as u8;
        if usize::from(slot) >= PUBLISHERS_MAX {
            return Err(Refusal::TooMany);
        }
        let offer = self.connections.get(token)?.offer;
        self.offer().agree(offer, Part::Writes).map_err(|_| Refusal::OtherFormat)?;
        if self.logs.next.is_none() {
            self.want_log(self.logs.present.capacity_bytes())?;
        }
        let connection = self.connections.get_mut(token)?;
        connection.role = Role::LatePublisher { slot };
        self.logs.joiners.push((token, slot));
        self.send_next_to_joiner((token, slot))
    }

    /// Sends the next log, if it is there, to a publisher that joins with it.
    fn send_next_to_joiner(&mut self, (token, slot): (u64, u8)) -> Answer {
        if self.logs.next.as_ref().is_none_or(|next| !self.has_level(token, next.log.level())) {
            // It comes, or the one after it does, in a format that this publisher has.
            return Ok(());
        }
        let logs = self.connect_for_logs(token, slot);
        let (Some(next), Ok(connection)) = (&mut self.logs.next, self.connections.get_mut(token)) else {
            return Ok(());
        };
        let granted = logs.and_then(|logs| {
            let fds = self.pages.for_publisher(Some(&next.fd), Some(&logs));
            let granted = Message::new(Op::Granted, &[u32::from(slot), IS_LATE | GETS_LOGS]);
            connection.send(granted, &fds).map_err(|_| Refusal::Exhausted)
        });
        if granted.is_ok() {
            next.awaited.insert(token);
            next.deadline = next.latest.min(Instant::now() + map_time(next.log.capacity_bytes()));
        } else {
            connection.role = Role::Client;
            self.logs.joiners.retain(|(joiner, _)| *joiner != token);
            self.end_if_nobody_is_left();
        }
        granted
    }

    fn has_level(&self, token: u64, level: u32) -> bool {
        self.connections.get(token).is_ok_and(|one| (one.offer.min..=one.offer.max).contains(&level))
    }

    /// Asks for another log, which is made without the lock: see [`State::take_wanted_log`].
    pub fn want_log(&mut self, capacity_bytes: u64) -> Answer {
        if self.logs.is_closed || self.pages.has_ended() {
            return Err(Refusal::Ended);
        }
        self.drop_ended_logs();
        if self.logs.ended.len() >= ENDED_MAX {
            self.demote_those_behind();
            self.drop_ended_logs();
        }
        if self.logs.ended.len() >= ENDED_MAX {
            return Err(Refusal::LogsHeld);
        }
        if !self.logs.is_making && (self.logs.next.is_none() || self.options.kind == Kind::Single) {
            self.logs.wanted = Some(capacity_bytes);
        }
        Ok(())
    }

    /// Makes another log, if one is wanted. To be called without the lock, because a large log takes time; its result is for
    /// [`State::add_log`].
    pub fn take_wanted_log(
        &mut self,
    ) -> Option<impl FnOnce() -> Result<(OwnedFd, MappedLog)> + Send + use<>> {
        let capacity_bytes = self.logs.wanted.take()?;
        self.logs.is_making = true;
        let (present, name, level) = (Arc::clone(&self.logs.present), self.name.clone(), self.next_level());
        Some(move || present.create_next(&name, capacity_bytes, level))
    }

    /// A log was made: the publishers map it. The roll is complete when they have.
    pub fn add_log(&mut self, made: Result<(OwnedFd, MappedLog)>) -> Result<()> {
        self.logs.is_making = false;
        if self.logs.is_closed {
            return Err(Error::Refused(Refusal::Ended));
        }
        let (fd, log) = made.inspect_err(|_| self.refuse_joiners(Refusal::Exhausted))?;
        let (epoch, capacity_bytes) = (log.epoch(), log.capacity_bytes());
        if epoch != self.logs.present.epoch() + 1 || log.level() != self.next_level() {
            // The only publisher has gone on in the log before this one meanwhile, or members have come or left.
            self.logs.wanted = Some(capacity_bytes);
            return Ok(());
        }
        let (now, time) = (Instant::now(), map_time(capacity_bytes));
        let (log, deadline, latest) = (Arc::new(log), now + time, now + time * ROLL_TIMES);
        self.logs.next = Some(Next {
            log,
            fd,
            awaited: BTreeSet::new(),
            outcasts: self.publishers.outcasts,
            deadline,
            latest,
            is_overdue: false,
        });
        let is_free = |role| matches!(role, Role::Mapper { is_busy: false, .. });
        let mappers: Vec<u64> = self.connections.all(is_free).collect();
        mappers.into_iter().for_each(|token| self.send_next(token));
        for joiner in self.logs.joiners.clone() {
            if let Err(refusal) = self.send_next_to_joiner(joiner) {
                self.connections.send(joiner.0, Message::refusal(refusal));
            }
        }
        self.begin_if_mapped();
        Ok(())
    }

    /// Sends the next log to the thread of a publisher that maps it. At most one is on its way to each: it would keep the memory
    /// of what it does not read.
    fn send_next(&mut self, token: u64) {
        let Some(next) = &mut self.logs.next else { return };
        let Ok(connection) = self.connections.get_mut(token) else { return };
        let notice = Message::new(Op::Log, &halves(next.log.epoch()));
        if let Role::Mapper { is_busy, slot } = &mut connection.role
            && next.outcasts & 1 << *slot == 0
            && notice.send(&connection.socket, &[next.fd.as_fd()]).is_ok()
        {
            *is_busy = true;
            next.awaited.insert(token);
        }
    }

    /// A publisher has mapped the log of this epoch, or could not.
    pub fn note_mapped(&mut self, token: u64, epoch: u64) {
        let Ok(connection) = self.connections.get_mut(token) else { return };
        if let Role::Mapper { is_busy, .. } = &mut connection.role {
            *is_busy = false;
            if self.logs.next.as_ref().is_some_and(|next| next.log.epoch() != epoch) {
                return self.send_next(token);
            }
        }
        self.await_no_longer(token);
    }

    pub fn await_no_longer(&mut self, token: u64) {
        if let Some(next) = &mut self.logs.next {
            next.awaited.remove(&token);
        }
        self.begin_if_mapped();
    }

    pub fn forget_joiner(&mut self, token: u64) {
        self.logs.joiners.retain(|(joiner, _)| *joiner != token);
        self.await_no_longer(token);
    }

    /// A publisher lacks the present log, because it did not map it in time: the next one is for it.
    pub fn roll_for(&mut self, token: u64) {
        if self.logs.next.is_none() {
            // It asks again if this fails.
            let _ = self.want_log(self.logs.present.capacity_bytes());
        }
        if let Ok(Connection { role: Role::Publisher { slot, .. }, .. }) = self.connections.get(token)
            && let Some(mapper) = self.mapper_of(*slot)
            && let Ok(Connection { role: Role::Mapper { is_busy: false, .. }, .. }) =
                self.connections.get(mapper)
            && self.logs.next.as_ref().is_some_and(|next| !next.awaited.contains(&mapper))
        {
            self.send_next(mapper);
        }
        self.begin_if_mapped();
    }

    /// Goes on without those that have not answered in time. Publishers that were to join are refused; others ask for another roll
    /// when they publish.
    pub fn end_late_rolls(&mut self) {
        if self.roll_deadline().is_none_or(|deadline| Instant::now() < deadline) {
            return;
        }
        let Some(next) = &mut self.logs.next else { return };
        next.is_overdue = true;
        let late = std::mem::take(&mut next.awaited);
        // None of them joins when the end of the first one's connection lets the roll go on.
        let (late, in_time) =
            self.logs.joiners.drain(..).partition::<Vec<_>, _>(|(token, _)| late.contains(token));
        self.logs.joiners = in_time;
        for (token, _) in late {
            self.connections.send(token, Message::refusal(Refusal::TooLate));
            self.disconnect(token);
        }
        self.begin_if_mapped();
    }

    /// Only the one publisher of a group can end its log, as long as it is there.
    fn is_ended_by_its_publisher(&self) -> bool {
        self.options.kind == Kind::Single && self.pages.status.words().publishers.load(Ordering::Relaxed) != 0
    }

    /// Rolls if nothing is waited for, or has the publisher roll that does so itself.
    pub fn begin_if_mapped(&mut self) {
        let Some(next) = self.logs.next.as_ref().filter(|next| next.awaited.is_empty()) else { return };
        let epoch = next.log.epoch();
        if self.is_roll_held() {
            return;
        }
        if !self.is_ended_by_its_publisher() {
            // A log that publishers have corrupted has no end; its subscribers report that.
            let _ = self.begin_next(server::end_log);
        } else if self.pages.status.words().epoch.load(Ordering::Relaxed) != epoch {
            self.announce_epoch(epoch);
        }
    }

    /// Tells publishers that there is, or will be, another log.
    fn announce_epoch(&self, epoch: u64) {
        let status = self.pages.status.words();
        status.epoch.store(epoch, Ordering::Release); // PAIR epoch
        status.subscriber_changes.fetch_add(1, Ordering::SeqCst); // PAIR subscriber-changes
    }

    /// Ends the present log by `end`, and begins the next one there. Returns the present log after that.
    pub fn begin_next(
        &mut self,
        end: impl FnOnce(&MappedLog) -> Result<u64, Corrupt>,
    ) -> Result<Arc<MappedLog>> {
        let Some(next) = self.logs.next.take() else { return Ok(Arc::clone(&self.logs.present)) };
        let outcasts = next.outcasts;
        if self.pages.is_sealed()
            && let Err(error) = MappedLog::seal(&next.fd)
        {
            self.refuse_joiners(Refusal::Exhausted);
            self.announce_epoch(self.logs.present.epoch());
            return Err(error);
        }
        // Before the end: who finds it knows that a log follows. PAIR epoch
        self.pages.status.words().epoch.store(next.log.epoch(), Ordering::Release);
        let position = end(&self.logs.present).inspect_err(|_| {
            self.refuse_joiners(Refusal::Ended);
            self.announce_epoch(self.logs.present.epoch());
        })?;
        next.log.begin(Some(&self.logs.present), position);
        self.pages.status.words().log_start.store(position, Ordering::Release);
        // With the word of the old log, where they sleep.
        self.wake_all_subscribers();
        let log = std::mem::replace(&mut self.logs.present, next.log);
        let fd = std::mem::replace(&mut self.logs.present_fd, next.fd);
        self.logs.ended.push_back(Ended { log, fd, since: Instant::now() });
        self.pages.wake_word.continue_in(Arc::clone(&self.logs.present));
        let level = self.logs.present.level();
        let joiners = std::mem::take(&mut self.logs.joiners);
        let (admitted, others) = joiners.into_iter().partition(|(token, _)| self.has_level(*token, level));
        self.logs.joiners = others;
        for (token, slot) in admitted {
            self.admit_late_publisher(token, slot);
        }
        self.announce_epoch(self.logs.present.epoch());
        // Publishers that wait for space have some now.
        for subscriber in self.subscribers.present.iter() {
            let _ = futex::wake(subscriber.page.cursor_futex(), u32::MAX);
        }
        self.end_outcasts(outcasts);
        self.drop_ended_logs();
        if self.pages.is_sealed() {
            self.admit_waiting();
        }
        if !self.logs.joiners.is_empty() {
            let _ = self.want_log(self.logs.present.capacity_bytes());
        }
        self.follow_formats();
        Ok(Arc::clone(&self.logs.present))
    }

    fn admit_late_publisher(&mut self, token: u64, slot: u8) {
        // Before it is told, for it may publish at once.
        self.begin_to_count(token, slot);
        let Ok(connection) = self.connections.get_mut(token) else { return };
        let _ = connection.send(Message::new(Op::Granted, &[u32::from(slot)]), &[]);
        connection.limit_unread();
        connection.role = Role::Publisher { slot, mapped: true };
        self.pages.status.words().publishers.fetch_or(1 << slot, Ordering::Release);
    }

    fn refuse_joiners(&mut self, refusal: Refusal) {
        for (token, _) in std::mem::take(&mut self.logs.joiners) {
            self.connections.send(token, Message::refusal(refusal));
            self.connections.make_visitor(token);
        }
        self.end_if_nobody_is_left();
    }

    /// The group was closed, or its one publisher is gone: no log follows.
    pub fn cancel_roll(&mut self) {
        self.logs.is_closed = true;
        self.logs.next = None;
        self.refuse_joiners(Refusal::Ended);
    }

    /// Sends a subscriber that has read the log of `epoch` to its end the next one that is kept, and how many messages there
    /// were in between.
    pub fn send_next_log(&mut self, token: u64, slot: usize, epoch: u64) -> Answer {
        let (log, fd) = self.logs.kept().find(|(log, _)| log.epoch() > epoch).ok_or(Refusal::Ended)?;
        let subscriber = self.subscribers.present.get_mut(slot).ok_or(Refusal::NotUnderstood)?;
        let skipped = if log.epoch() == epoch + 1 {
            0
        } else if epoch == subscriber.epoch {
            self.logs.dropped_messages.wrapping_sub(subscriber.messages_through)
        } else {
            return Err(Refusal::NotUnderstood);
        };
        let connection = self.connections.get(token)?;
        connection.limit_unread();
        let granted = Message::new(Op::Granted, &[halves(log.epoch()), halves(skipped)].concat());
        connection.send(granted, &[fd.as_fd()]).map_err(|_| Refusal::Exhausted)?;
        subscriber.epoch = subscriber.epoch.max(log.epoch());
        self.drop_ended_logs();
        self.follow_formats();
        Ok(())
    }

    /// Decides what a dead publisher left unfinished in logs that have ended, and counts it where others go on counting.
    pub fn settle_ended_logs(&mut self, slot: u8) {
        let logs: Vec<_> = self.logs.kept().map(|(log, _)| log).collect();
        for (index, log) in logs.iter().enumerate() {
            // A log that publishers have corrupted cannot be repaired; its subscribers report that.
            let was_unfinished = server::settle(&***log, slot).unwrap_or(false);
            if let Some(next) = logs.get(index + 1) {
                server::carry_counts(&***log, &***next);
            }
            if was_unfinished {
                let later = logs[index + 1..].iter();
                later.for_each(|next| server::carry_count_of(&***log, &***next, slot));
            }
        }
    }

    /// Demotes the subscribers for which the oldest log is kept, if they have a deadline and it has passed since that log ended: they keep
    /// the next log from beginning, as others keep publishers from going on.
    fn demote_those_behind(&self) {
        let Some(oldest) = self.logs.ended.front() else { return };
        let waited = oldest.since.elapsed();
        for one in self.subscribers.present.iter().filter(|one| one.epoch < oldest.log.epoch()) {
            if one.policy.deadline().is_some_and(|deadline| deadline <= waited) {
                self.logs.present.tail().demoted[one.slot].store(one.generation, Ordering::Release);
            }
        }
    }

    /// Drops the oldest logs, as far as no subscriber that publishers wait for has still to ask for them, and no message in them is
    /// unfinished. The memory of a log is gone when no process has it mapped.
    pub fn drop_ended_logs(&mut self) {
        let State { logs, subscribers, .. } = self;
        let subscribers = &mut subscribers.present;
        while let Some(ended) = logs.ended.front() {
            let (log, epoch) = (&ended.log, ended.log.epoch());
            let tail = logs.present.tail();
            let needs = |one: &SubscriberHandle| one.epoch < epoch && is_waited_for(one, tail);
            if !server::is_finished(&**log) || subscribers.iter().any(needs) {
                return;
            }
            let next = logs.ended.get(1).map_or(&logs.present, |ended| &ended.log);
            server::carry_counts(&**log, &**next);
            let through = server::published(&**log);
            for subscriber in subscribers.iter_mut().filter(|one| one.epoch == epoch) {
                subscriber.messages_through = through;
            }
            logs.dropped_messages = through;
            if let Some(ended) = logs.ended.pop_front() {
                free(ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_os::socket::seqpacket_pair;
    use rustix::event::epoll::{self, CreateFlags};

    use super::*;
    use crate::options::GroupOptions;
    use crate::serve::connections::Origin;

    /// A group that its creator has left, and a publisher that has asked to join and died, while the log for it is made.
    fn left_while_a_log_is_made() -> State {
        let options = GroupOptions::new().capacity_bytes(4096).several_publishers().late_publishers();
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC).unwrap());
        let mut state = State::new("left", options, epoll).unwrap();
        let (near, far) = seqpacket_pair().unwrap();
        let token = state.connect(near, Origin::Path).unwrap();
        state.grant_publisher(token).unwrap();
        assert_ne!(state.joiners(), 0);
        drop(far);
        state.admit_no_more_local_publishers();
        assert!(!state.pages.has_ended(), "somebody may publish yet");
        state
    }

    /// Before, it waited for this publisher for ever, and its subscribers for the end.
    #[test]
    fn a_group_ends_where_its_last_publisher_died_while_a_log_was_made_for_it() {
        let mut state = left_while_a_log_is_made();
        let made = state.take_wanted_log().expect("a log is wanted")();
        state.add_log(made).unwrap();
        assert!(state.pages.has_ended(), "{:?}", state.logs.joiners);
    }

    #[test]
    fn a_group_ends_where_no_log_can_be_made_for_its_last_publisher() {
        let mut state = left_while_a_log_is_made();
        drop(state.take_wanted_log());
        let failed = Error::os("make", "a log", std::io::Error::from_raw_os_error(12));
        assert!(state.add_log(Err(failed)).is_err());
        assert!(state.pages.has_ended(), "{:?}", state.logs.joiners);
    }
}
