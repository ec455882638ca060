//! Which subscribers keep a payload file from being used again.
//!
//! Publishers wait for the subscribers that they wait for in the log: one that has not received the reference, or that reads the file
//! and says so in its page. Of others they wait for none. What a subscriber writes into its page can keep files of the pool, and no
//! more: for as long as its policy allows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::{Context, clock, futex};
use causeway_waiting::patience::{Clock, LOOK, Owed};

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

/// The subscribers that have kept a pool without a free file, and for how long each of them has kept this publisher waiting.
#[derive(Debug, Default)]
pub struct Overdue {
    clock: Clock,
    of: Vec<Keeper>,
}

#[derive(Debug)]
struct Keeper {
    subscriber: (usize, u32),
    owed: Owed,
    /// Whether it was in the way when there was last no file.
    keeps: bool,
}

/// How a publisher may wait for a file.
#[derive(Debug)]
pub struct Wait {
    /// The page of a subscriber that keeps the file, and how many references it had released.
    keeper: Option<(Arc<SubscriberPage>, u32)>,
    /// How long to sleep at most.
    slice: Duration,
}

/// The longest sleep for a file. Not every event that frees one wakes the publisher: a subscriber may skip references, and the
/// kernel does not tell when a process unmaps a file.
const SLICE: Duration = Duration::from_millis(10);

impl Overdue {
    /// There was a file for a payload of so many bytes: it has come back from all, so each has passed one.
    pub fn end(&mut self, payload_bytes: usize) {
        if self.of.is_empty() {
            return;
        }
        self.count();
        self.clock.stop();
        self.of.iter_mut().for_each(|keeper| keeper.owed.pass(1, payload_bytes as u64));
        self.of.retain(|keeper| !keeper.owed.is_none());
    }

    /// Counts the time since the last look for those that were in the way then.
    fn count(&mut self) {
        let waited = self.clock.look(clock::monotonic_ns());
        self.of.iter_mut().filter(|keeper| keeper.keeps).for_each(|keeper| keeper.owed.wait(waited));
    }

    /// Demotes the subscribers that have kept the file that was `sent` first of all in the pool, and this publisher waiting, for longer than
    /// their policy allows, less what [`patience`](causeway_waiting::patience) allows for each file that came back meanwhile. Returns whether
    /// there was one, and otherwise how to wait.
    pub fn demote(&mut self, set: &mut SubscriberSet, tail: &Tail, sent: Option<Sent>) -> Result<(), Wait> {
        self.count();
        let (mut of, mut wait, mut any_demoted) = (Vec::new(), Wait { keeper: None, slice: SLICE }, false);
        for subscriber in set.known().unwrap_or_default() {
            let keeps = sent.is_some_and(|sent| keeps(subscriber, tail, sent));
            let id = (subscriber.slot, subscriber.generation);
            let known = self.of.iter().find(|keeper| keeper.subscriber == id);
            let owed = known.map_or(Owed::default(), |keeper| keeper.owed);
            if keeps && let Some(deadline) = subscriber.policy.deadline() {
                wait.slice = LOOK;
                if owed.exceeds(deadline) {
                    tail.demoted[subscriber.slot].store(subscriber.generation, Ordering::Release);
                    any_demoted = true;
                    continue;
                }
            }
            if keeps {
                let released = subscriber.words().released.load(Ordering::Acquire);
                wait.keeper.get_or_insert_with(|| (Arc::clone(&subscriber.page), released));
            }
            if keeps || !owed.is_none() {
                of.push(Keeper { subscriber: id, owed, keeps });
            }
        }
        self.of = of;
        if any_demoted { Ok(()) } else { Err(wait) }
    }
}

impl Wait {
    /// Sleeps until a subscriber may have released a file, for a short time at most.
    pub fn sleep(self, deadline: Option<Instant>) -> Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slice = left.map_or(self.slice, |left| left.min(self.slice));
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
