//! What a publisher does that finds the log full: whom it waits for, how long, and what becomes of one that is too slow.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use causeway_os::{Context, clock};
use causeway_waiting::patience::LOOK;

use super::{FETCH_TIME, SLICE, SubscriberSet};
use crate::error::Result;
use crate::log::layout::Tail;
use crate::log::{Memory, reclaim};

/// The same without a server: the publisher itself checks whether the subscriber that it waits for still lives.
const SLICE_WITHOUT_SERVER: Duration = Duration::from_millis(5);
/// A sleep where no event announces space.
const SHORT_SLEEP: Duration = Duration::from_micros(50);
/// A publisher that finds the log full this many times, without waiting, checks once whether the server still lives: one
/// system call.
const FULLS_PER_CHECK: u32 = 16;

impl SubscriberSet {
    /// There is space.
    #[inline(always)]
    pub fn end_wait(&mut self, tail: &Tail, owner: u8) {
        if self.clock.runs() {
            self.count_wait();
            self.clock.stop();
            self.note_blocked(tail, owner, None);
        }
    }

    /// Counts the time since the log was last found full for the subscriber that was in the way then. Returns the present moment.
    #[cold]
    fn count_wait(&mut self) -> u64 {
        let now = clock::monotonic_ns();
        let waited = self.clock.look(now);
        if let Some((slot, generation)) = self.blocked_by
            && let Some(subscriber) = self.subscribers.get_mut(slot)
            && subscriber.generation == generation
        {
            subscriber.stall.add(waited);
        }
        now
    }

    /// Says whom this publisher waits for, if it is another one than before.
    fn note_blocked(&mut self, tail: &Tail, owner: u8, by: Option<(usize, u32)>) {
        let words = &tail.publishers[usize::from(owner)];
        let since = by.and_then(|(slot, _)| self.subscribers.get(slot)).map_or(0, |one| one.stall.since_ns);
        words.waits_since_ns.store(since, Ordering::Relaxed);
        if self.blocked_by != by {
            self.blocked_by = by;
            let name = |(slot, generation): (usize, u32)| (slot as u64 + 1) | u64::from(generation) << 32;
            words.waits_for.store(by.map_or(0, name), Ordering::Relaxed);
        }
    }

    /// Index and cursor of the subscriber furthest behind among those that hold space.
    pub(super) fn slowest_index(&mut self, tail: &Tail) -> Option<(usize, u64)> {
        (0..self.subscribers.len())
            .filter_map(|index| self.subscribers[index].holds_space_from(tail).map(|cursor| (index, cursor)))
            .min_by_key(|(_, cursor)| *cursor)
    }

    /// Demotes the slowest subscriber if it has missed its deadline: publishers stop waiting for it. Returns whether it did.
    /// To be called each time the log is found full, by the publisher in slot `owner`.
    ///
    /// What counts is how long this subscriber, and nothing else, kept the log full, less what [`patience`](causeway_waiting::patience)
    /// allows for each message that it has passed: it answers neither for the unfinished message of a publisher, nor for the subscriber that
    /// was slowest before it, and a step of its own renews nothing.
    pub fn demote_overdue(&mut self, memory: &impl Memory, owner: u8) -> bool {
        let (tail, now) = (memory.tail(), self.count_wait());
        let slowest = self.slowest_index(tail).filter(|(_, cursor)| reclaim::is_held_by(memory, *cursor));
        let Some((index, mark)) = slowest.and_then(|(index, _)| Some((index, reclaim::mark(memory)?))) else {
            self.note_blocked(tail, owner, None);
            return false;
        };
        let subscriber = &mut self.subscribers[index];
        subscriber.stall.note_blocking(mark, now);
        let (by, is_overdue) = ((subscriber.slot, subscriber.generation), subscriber.is_overdue());
        if is_overdue {
            tail.demoted[by.0].store(by.1, Ordering::Release);
        }
        self.note_blocked(tail, owner, Some(by).filter(|_| !is_overdue));
        is_overdue
    }

    /// Removes subscribers that have died, if the server is gone. Checks that on some of the calls only: it is for a
    /// publisher that finds the log full and tries again without waiting. Returns whether it removed one.
    pub fn remove_dead_slowest(&mut self) -> bool {
        self.fulls = self.fulls.wrapping_add(1);
        if !self.fulls.is_multiple_of(FULLS_PER_CHECK) || !self.server_is_gone() {
            return false;
        }
        let before = self.subscribers.len();
        self.remove_dead();
        self.subscribers.len() != before
    }

    /// Sleeps until the slowest subscriber advances, dies or misses its deadline, or until `deadline`. Before that the
    /// publisher has announced that it waits for space ([`await_space`](crate::log::wait::await_space)) and tried again.
    pub fn sleep_until_space(
        &mut self,
        slowest: Option<(usize, u64)>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let mut slice = if self.server_is_gone() { SLICE_WITHOUT_SERVER } else { SLICE };
        let now = Instant::now();
        if let Some(deadline) = deadline {
            slice = slice.min(deadline.saturating_duration_since(now));
        }
        if self.lacks_subscriber && !self.server_gone {
            // What keeps the space is that a page is not here yet, and it comes on the socket.
            if poll(&[self.socket.as_fd()], Some(slice.min(FETCH_TIME))).is_err() {
                // The limit of open files is below the one that is polled.
                std::thread::sleep(SHORT_SLEEP);
            }
            return Ok(());
        }
        let known = slowest.and_then(|(slot, cursor)| Some((self.subscribers.get(slot)?, cursor)));
        let Some((subscriber, cursor)) = known else {
            // The unfinished frame of another publisher blocks the log, and no event announces its end; or the subscriber
            // left just now.
            std::thread::sleep(SHORT_SLEEP);
            return Ok(());
        };
        if subscriber.policy.deadline().is_some() {
            slice = slice.min(LOOK);
        }
        // The cursor in the page is below the highest one seen only if the subscriber is hostile; then the slice ends this.
        let cursor_word = subscriber.page.cursor_to_wait_for();
        let _ = cursor_word.wait(cursor as u32, Some(slice)).context("wait for", || "space in a log")?;
        if self.server_gone {
            self.remove_dead();
        }
        Ok(())
    }
}
