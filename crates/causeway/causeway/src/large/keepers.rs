//! Which subscribers keep a payload file from being used again.
//!
//! Publishers wait for the subscribers that they wait for in the log: one that has not received the reference, or that reads the file
//! and says so in its page. Of others they wait for none. What a subscriber writes into its page can keep files of the pool, and no
//! more: for as long as its policy allows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::{Context, futex};

use crate::error::Result;
use crate::log::layout::Tail;
use crate::log::pages::SubscriberPage;
use crate::log::wait::WaitingSubscriber;
use crate::subscriber_handle::SubscriberHandle;
use crate::subscriber_set::SubscriberSet;

/// A payload that was published: its file, and where its reference lies in the log.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub file: u64,
    pub position: u64,
}

/// Whether a subscriber that publishers wait for has still to receive this payload, or reads it.
pub fn is_kept(set: &mut SubscriberSet, tail: &Tail, sent: Sent) -> bool {
    match set.known() {
        Some(subscribers) => subscribers.iter_mut().any(|subscriber| keeps(subscriber, tail, sent)),
        None => true,
    }
}

fn keeps(subscriber: &mut SubscriberHandle, tail: &Tail, sent: Sent) -> bool {
    match subscriber.holds_space_from(tail) {
        // The cursor first: a subscriber announces its reference before it passes it.
        Some(cursor) => cursor <= sent.position || has_reference(subscriber, sent.file), // PAIR payload-reference
        None => false,
    }
}

/// Whether a subscriber that publishers wait for reads this file.
pub fn is_referenced(set: &mut SubscriberSet, tail: &Tail, file: u64) -> bool {
    match set.known() {
        Some(subscribers) => subscribers
            .iter_mut()
            .any(|subscriber| subscriber.holds_space_from(tail).is_some() && has_reference(subscriber, file)),
        None => true,
    }
}

fn has_reference(subscriber: &SubscriberHandle, file: u64) -> bool {
    let references = &*subscriber.words().references;
    references.iter().any(|reference| reference.load(Ordering::Acquire) == file) // PAIR payload-reference
}

/// The subscribers that have kept a pool without a free file, and since when each of them has neither received nor released anything.
#[derive(Debug, Default)]
pub struct Overdue(Vec<Clock>);

#[derive(Debug)]
struct Clock {
    subscriber: (usize, u32),
    /// Its cursor, and how many references it had released.
    progress: (u64, u32),
    since: Instant,
}

/// How a publisher may wait for a file.
#[derive(Debug)]
pub struct Wait {
    /// The page of a subscriber that keeps the file, and how many references it had released.
    keeper: Option<(Arc<SubscriberPage>, u32)>,
    /// The time until the deadline of a subscriber.
    left: Option<Duration>,
}

/// The longest sleep for a file. Not every event that frees one wakes the publisher: a subscriber may skip references, and the
/// kernel does not tell when a process unmaps a file.
const SLICE: Duration = Duration::from_millis(10);

impl Overdue {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Demotes the subscribers that have kept the file that was `sent` first of all in the pool for longer than their policy allows, without
    /// receiving or releasing anything meanwhile. Returns whether there was one, and otherwise how to wait.
    pub fn demote(&mut self, set: &mut SubscriberSet, tail: &Tail, sent: Option<Sent>) -> Result<(), Wait> {
        let now = Instant::now();
        let (mut clocks, mut wait, mut any_demoted) = (Vec::new(), Wait { keeper: None, left: None }, false);
        for subscriber in set.known().unwrap_or_default() {
            let Some(sent) = sent else { break };
            let released = subscriber.words().released.load(Ordering::Acquire);
            if !keeps(subscriber, tail, sent) {
                continue;
            }
            let (id, progress) =
                ((subscriber.slot, subscriber.generation), (subscriber.seen_cursor, released));
            let known = self.0.iter().find(|clock| clock.subscriber == id && clock.progress == progress);
            let since = known.map_or(now, |clock| clock.since);
            if let Some(deadline) = subscriber.policy.deadline() {
                let left = deadline.saturating_sub(now - since);
                if left.is_zero() {
                    tail.demoted[subscriber.slot].store(subscriber.generation, Ordering::Release);
                    any_demoted = true;
                    continue;
                }
                wait.left = Some(wait.left.map_or(left, |other| other.min(left)));
            }
            wait.keeper.get_or_insert_with(|| (Arc::clone(&subscriber.page), released));
            clocks.push(Clock { subscriber: id, progress, since });
        }
        self.0 = clocks;
        if any_demoted { Ok(()) } else { Err(wait) }
    }
}

impl Wait {
    /// Sleeps until a subscriber may have released a file, for a short time at most.
    pub fn sleep(self, deadline: Option<Instant>) -> Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slice = [self.left, left].into_iter().flatten().fold(SLICE, Duration::min);
        match self.keeper {
            Some((page, released)) => {
                let _ = futex::wait(&page.words().released, released, Some(slice))
                    .context("wait for", || "a payload file")?;
            }
            None => std::thread::sleep(slice),
        }
        Ok(())
    }
}
