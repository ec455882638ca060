//! A publisher's access to a log: claim, write, commit.
//!
//! A claim is one compare-and-swap of the header word at the end of the chain of frames (`mw`), or nothing at all
//! (`sw`: the only publisher knows where the end is). A commit is one exchange of the same word. Both leave the log in a
//! valid state, whichever instruction was the publisher's last.

use super::Corrupt;
use super::atomic::{Ordering, fence, fence_after_exchange, full_fence};
use super::layout::{LastClaim, PublisherWords};
use super::memory::Memory;
use super::reclaim::{self, Gate, Reclaimed};
use super::word::{GRANULE_BYTES, State, Word, span_of};

/// Who may write a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One publisher.
    Single,
    /// Several publishers that trust each other.
    Shared,
}

/// A frame that belongs to one publisher until it commits or abandons it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claimed frame blocks all subscribers until it is committed or abandoned"]
pub struct Claim {
    /// Position of the frame.
    pub position: u64,
    /// Its payload, in bytes. As wide as the other fields: a claim is moved just after it was made, and a load that is wider
    /// than the store before it waits until all earlier stores have reached the cache, those to contended lines too.
    pub payload_bytes: u64,
    word: Word,
}

impl Claim {
    fn end(&self) -> u64 {
        self.position + self.word.span_bytes()
    }
}

/// The result of a claim.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// A frame to write.
    At(Claim),
    /// A subscriber or an unfinished frame holds the space. Nothing was changed.
    Full,
    /// Another publisher is reclaiming space and has not finished.
    Contended,
    /// The log ended; the next epoch has its continuation.
    Sealed,
}

/// The server decided the frame before its owner committed: the owner was evicted, or taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted;

/// What a frame carries besides its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The topic that the publisher set.
    pub topic: u32,
    /// Request and reply: which request this answers. 0 for none.
    pub correlation: u64,
}

/// A publisher's access to a log.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    kind: Kind,
    owner: u8,
    /// End of the last frame that this publisher has seen; a boundary unless the floor has passed it.
    next: u64,
    /// A limit seen earlier. It only grows, so an old value is safe.
    limit: u64,
    /// Messages published through this slot, also by publishers before this one: subscribers see its low half.
    published: u64,
    hint_shift: u32,
    /// `sw`: where a free word lies that no frame has been written over since.
    stamped: u64,
}

impl<M: Memory> Writer<M> {
    /// The writer of the publisher in slot `owner`. A log of one publisher must be empty.
    pub fn new(memory: M, kind: Kind, owner: u8) -> Writer<M> {
        let hint_shift = (memory.capacity_bytes().trailing_zeros() - 2).min(12);
        let next = memory.tail().hint.load(Ordering::Acquire).min(reclaim::POSITION_MAX);
        let published = memory.tail().publishers[usize::from(owner)].published.load(Ordering::Relaxed);
        Writer { memory, kind, owner, next, limit: 0, published, hint_shift, stamped: u64::MAX }
    }

    /// Goes on in the log after this one, which has begun. To be called without a claim.
    pub fn continue_in(&mut self, memory: M) {
        let published = self.published;
        *self = Writer::new(memory, self.kind, self.owner);
        self.published = published;
        self.own_words().published.store(published, Ordering::Relaxed);
    }

    /// Ends a log of one publisher. Returns where.
    pub fn end_log(&mut self) -> u64 {
        assert!(self.kind == Kind::Single, "other publishers may claim the next frame");
        self.own_words().published.store(self.published, Ordering::Relaxed);
        let sealed = self.memory.free(self.next).with_state(State::Sealed);
        self.memory.header(self.next).store(sealed.0, Ordering::Release); // PAIR log-commit
        full_fence(); // PAIR log-armed: the fence in `Waiter::arm`
        self.next
    }

    /// The memory that this writer writes to.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The slot of the publisher.
    pub fn owner(&self) -> u8 {
        self.owner
    }

    /// The longest payload: a quarter of the capacity.
    pub fn payload_bytes_max(&self) -> usize {
        (self.memory.capacity_bytes() / 4) as usize
    }

    #[inline(always)]
    fn own_words(&self) -> &PublisherWords {
        &self.memory.tail().publishers[usize::from(self.owner)]
    }

    /// Claims a frame for `payload_bytes`, which must not exceed [`Writer::payload_bytes_max`].
    ///
    /// # Panics
    /// If the payload is longer than that.
    #[inline]
    pub fn claim(&mut self, payload_bytes: usize, gate: &mut impl Gate) -> Result<Claimed, Corrupt> {
        assert!(payload_bytes <= self.payload_bytes_max(), "the payload is above the limit of this log");
        match self.kind {
            Kind::Single => self.claim_single(payload_bytes, gate),
            Kind::Shared => self.claim_shared(payload_bytes, gate),
        }
    }

    /// A claim that reads no word of another process: in a log of one publisher, within the limit that is known.
    #[inline(always)]
    pub fn claim_fast(&mut self, payload_bytes: usize) -> Option<Claim> {
        let span = span_of(payload_bytes as u64);
        // One granule more than the frame: subscribers poll the header of the frame after it.
        let fits = self.next + span + GRANULE_BYTES <= self.limit;
        if self.kind != Kind::Single || payload_bytes > self.payload_bytes_max() || !fits {
            return None;
        }
        let word = Word::busy(self.memory.lap(self.next), self.owner, span / GRANULE_BYTES);
        // The word itself is not written: a frame in a log of one publisher is invisible until it is done.
        fence(Ordering::Release); // PAIR floor-payload: the fence before the floor check in `Reader`
        self.stamp(self.next + span);
        Some(Claim { position: self.next, payload_bytes: payload_bytes as u64, word })
    }

    /// Makes the next claim look at the shared words again.
    #[cold]
    pub fn forget_limit(&mut self) {
        self.limit = 0;
    }

    fn claim_single(&mut self, payload_bytes: usize, gate: &mut impl Gate) -> Result<Claimed, Corrupt> {
        if let Some(claim) = self.claim_fast(payload_bytes) {
            return Ok(Claimed::At(claim));
        }
        let end = self.next + span_of(payload_bytes as u64) + GRANULE_BYTES;
        let floor = reclaim::advance_floor(&self.memory, end, gate)?;
        self.limit = self.limit.max(floor + self.memory.capacity_bytes());
        Ok(self.claim_fast(payload_bytes).map_or(Claimed::Full, Claimed::At))
    }

    /// Writes the free word after a frame in a log of one publisher, which subscribers will poll next. Done before the
    /// commit: all stores of a commit then go to the cache line of its header, and none waits for another line while polling
    /// subscribers take that one away.
    #[inline(always)]
    fn stamp(&mut self, position: u64) {
        if self.stamped != position {
            self.memory.header(position).store(self.memory.free(position).0, Ordering::Relaxed);
            self.stamped = position;
        }
    }

    #[inline]
    fn claim_shared(&mut self, payload_bytes: usize, gate: &mut impl Gate) -> Result<Claimed, Corrupt> {
        let span = span_of(payload_bytes as u64);
        loop {
            let position = self.next;
            if position + span > self.limit {
                match self.raise_limit(position + span, gate)? {
                    None => continue,
                    Some(refused) => return Ok(refused),
                }
            }
            if position < self.memory.tail().floor.load(Ordering::Acquire) {
                self.next = reclaim::hint_beyond(&self.memory, position)?;
                continue;
            }
            let free = self.memory.free(position);
            let busy = Word::busy(free.lap(), self.owner, span / GRANULE_BYTES);
            let header = self.memory.header(position);
            // Before the claim, so that a publisher that dies at any instruction has said where its frame is.
            let last = LastClaim::new(position, self.published);
            self.own_words().claim.store(last.into(), Ordering::Relaxed);
            // PAIR log-claim: with itself in other publishers, which follow the chain over this word. However long this
            // publisher was stopped before it, the exchange fails unless the frame is free in this very lap.
            match header.compare_exchange(free.0, busy.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    fence(Ordering::Release); // PAIR floor-payload
                    let payload_bytes = payload_bytes as u64;
                    return Ok(Claimed::At(Claim { position, payload_bytes, word: busy }));
                }
                Err(found) => match self.follow(position, Word(found))? {
                    Some(next) => self.next = next,
                    None => return Ok(Claimed::Sealed),
                },
            }
        }
    }

    /// The boundary after the frame at `position`, whose header word is `found`; the hint if that frame has been
    /// overwritten; nothing at the end of the log.
    fn follow(&self, position: u64, found: Word) -> Result<Option<u64>, Corrupt> {
        let tail = self.memory.tail();
        fence(Ordering::Acquire); // PAIR floor-payload
        if tail.floor.load(Ordering::Relaxed) > position {
            return reclaim::hint_beyond(&self.memory, position).map(Some);
        }
        let corrupt = Corrupt { position, word: found };
        if found.lap() != self.memory.lap(position) {
            return Err(corrupt);
        }
        match found.state() {
            Some(State::Sealed) => Ok(None),
            Some(State::Busy | State::Done | State::Pad) if found.span_bytes() != 0 => {
                Ok(Some(position + found.span_bytes()))
            }
            _ => Err(corrupt),
        }
    }

    /// Loads the shared limit again, and reclaims space if that does not suffice. `None` means: try again.
    fn raise_limit(&mut self, end: u64, gate: &mut impl Gate) -> Result<Option<Claimed>, Corrupt> {
        self.limit = self.memory.tail().limit.load(Ordering::Acquire); // PAIR log-limit
        if end <= self.limit {
            return Ok(None);
        }
        // The end of the chain may be further on than this publisher knows: then it need not reclaim.
        let latest = self.memory.tail().hint.load(Ordering::Acquire);
        if latest > self.next {
            self.next = reclaim::hint_beyond(&self.memory, self.next)?;
            return Ok(None);
        }
        let outcome = reclaim::reclaim_shared(&self.memory, self.owner, end, gate)?;
        self.limit = self.memory.tail().limit.load(Ordering::Acquire);
        Ok(match outcome {
            _ if end <= self.limit => None,
            Reclaimed::Enough => None,
            Reclaimed::Contended => Some(Claimed::Contended),
            Reclaimed::TooLittle => Some(Claimed::Full),
        })
    }

    /// Makes a claimed frame and its payload visible to all subscribers.
    #[inline(always)]
    pub fn commit(&mut self, claim: Claim, label: Label) -> Result<u64, Evicted> {
        let meta = self.memory.meta(claim.position);
        meta[0].store(claim.payload_bytes, Ordering::Relaxed);
        meta[1].store(u64::from(label.topic) | (self.published << 32), Ordering::Relaxed);
        meta[2].store(label.correlation, Ordering::Relaxed);
        let position = claim.position;
        self.decide(claim, State::Done)?;
        Ok(position)
    }

    /// Abandons a claimed frame. In a shared log it becomes padding, because others may have claimed frames after it.
    pub fn abandon(&mut self, claim: Claim) -> Result<(), Evicted> {
        match self.kind {
            Kind::Single => Ok(()),
            Kind::Shared => self.decide(claim, State::Pad),
        }
    }

    #[inline(always)]
    fn decide(&mut self, claim: Claim, state: State) -> Result<(), Evicted> {
        let (header, decided) = (self.memory.header(claim.position), claim.word.with_state(state));
        let end = claim.end();
        let published = self.published.wrapping_add(u64::from(state == State::Done));
        match self.kind {
            Kind::Single => {
                header.store(decided.0, Ordering::Release); // PAIR log-commit: Acquire in `Reader::peek`
                full_fence(); // PAIR log-armed: the fence in `Waiter::arm`
                // If the next message is as long as this one, its free word is written already.
                let next_end = end + (end - claim.position);
                if next_end + GRANULE_BYTES <= self.limit {
                    self.stamp(next_end);
                }
            }
            Kind::Shared => {
                let counted = &self.own_words().published;
                // Before the commit, after which others may write over all that tells of this message.
                counted.store(published, Ordering::Relaxed);
                header
                    .compare_exchange(claim.word.0, decided.0, Ordering::SeqCst, Ordering::Relaxed) // PAIR log-commit
                    .map_err(|_| {
                        counted.store(self.published, Ordering::Relaxed);
                        Evicted
                    })?;
                fence_after_exchange(); // PAIR log-armed
            }
        }
        (self.next, self.published) = (end, published);
        if end >> self.hint_shift != claim.position >> self.hint_shift {
            let hint = &self.memory.tail().hint;
            match self.kind {
                Kind::Single => {
                    self.own_words().published.store(self.published, Ordering::Relaxed);
                    // Nobody else writes it, and it was never further on.
                    hint.store(end, Ordering::Release);
                }
                Kind::Shared => _ = hint.fetch_max(end, Ordering::Release),
            }
        }
        Ok(())
    }
}
