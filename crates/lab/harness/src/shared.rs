//! The memory that coordinator and peers of one run share: steps, the plan of batches, samples.
//!
//! Plain words in a memfd, each written by one side and read by others; nothing in it is trusted beyond this program.
//! Offsets are private here. Words that are written while something is timed stand on lines of their own.

mod deadline;
mod words;

pub(crate) use deadline::Deadline;
pub(crate) use words::{Pace, Phase, Planned, Progress};
pub use words::{Sample, Step};

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::Duration;

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping};

use crate::axis::MOST_LINES;

/// Most roles of a case.
pub const MAX_ROLES: usize = 512;
/// Most samples of a run.
pub const MAX_SAMPLES: usize = 4096;
/// Figures kept with each sample; see [`Sample`].
const COLUMNS: usize = 6;
const MAX_BATCHES: usize = MAX_SAMPLES + 256;

const READY: usize = 0x000;
const GO: usize = 0x080;
const START_NS: usize = 0x100;
const PHASE: usize = 0x180;
const FEED_END: usize = 0x200;
const FINISHED: usize = 0x380;
const VERIFIED: usize = 0x280;
const SAMPLE_COUNT: usize = 0x300;
const PACE: usize = 0x400;
const LEFT: usize = 0x480;
const COUNTED_OPS: usize = 0x500;
const RUN_DEADLINE_NS: usize = 0x580;
const SLICE: usize = 0x600;
const PARKED: usize = 0x680;
const SENDS_FROM_NS: usize = 0x700;
const STEPS: usize = 0x1000;
const PLAN: usize = STEPS + MAX_ROLES * 128;
const SAMPLES: usize = PLAN + MAX_BATCHES * 8;
/// Behind all that other builds know of, on lines of their own.
const DOSE: usize = (SAMPLES + MAX_SAMPLES * COLUMNS * 8).next_multiple_of(0x1000);
const LINE_BYTES: usize = 64;
/// A word of each role for doses of wake-ups, two lines apart.
const DOSE_WORDS: usize = DOSE + MOST_LINES as usize * LINE_BYTES;
const LEN: usize = DOSE_WORDS + 0x1000;

/// The shared words of one run.
#[derive(Debug)]
pub struct Shared {
    fd: OwnedFd,
    map: Mapping,
    deadline: Option<Deadline>,
}

impl Shared {
    /// Descriptors that [`Shared::join`] takes.
    pub(crate) const FDS: usize = 2;

    /// In the coordinator: all words zero, no deadline.
    pub fn create() -> io::Result<Shared> {
        let deadline = Some(Deadline::create()?);
        Ok(Shared { deadline, ..Shared::open(memory::memfd("weighbridge-run", LEN as u64)?)? })
    }

    /// In a peer: from what [`Shared::fds`] are there.
    pub(crate) fn join(fds: &mut impl Iterator<Item = OwnedFd>) -> io::Result<Shared> {
        let mut next = || fds.next().expect("as many descriptors were received");
        let shared = Shared::open(next())?;
        Ok(Shared { deadline: Some(Deadline(next())), ..shared })
    }

    /// The memory alone, to look at.
    pub fn open(fd: OwnedFd) -> io::Result<Shared> {
        let map = Mapping::shared(fd.as_fd(), LEN, Access::ReadWrite)?;
        Ok(Shared { fd, map, deadline: None })
    }

    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; Shared::FDS] {
        [self.fd.as_fd(), self.deadline().fd()]
    }

    /// When the coordinator gives up waiting: what it has set, and after the barrier what [`Shared::set_run_deadline`] said.
    pub(crate) fn deadline(&self) -> &Deadline {
        self.deadline.as_ref().expect("this process takes part in the run")
    }

    /// From the barrier to the end of the run. The last role at the barrier makes this the deadline, so that the one for the
    /// start does not wake the coordinator in the timed part.
    pub(crate) fn set_run_deadline(&self, length: Duration) {
        self.u64(RUN_DEADLINE_NS).store(length.as_nanos() as u64, Relaxed);
    }

    /// Touches every page, so that no sample pays for it.
    pub(crate) fn prefault(&self) -> io::Result<()> {
        Ok(self.map.prefault()?)
    }

    fn u32(&self, offset: usize) -> &AtomicU32 {
        self.map.atomic_u32(offset)
    }

    fn u64(&self, offset: usize) -> &AtomicU64 {
        self.map.atomic_u64(offset)
    }

    pub(crate) fn set_step(&self, role: usize, step: Step) {
        assert!(role < MAX_ROLES);
        self.u32(STEPS + role * 128).store(step as u32, Relaxed);
    }

    /// Where a role is, or was when it died.
    pub fn step(&self, role: usize) -> Step {
        assert!(role < MAX_ROLES);
        Step::from_word(self.u32(STEPS + role * 128).load(Relaxed))
    }

    /// When everybody was ready, in the time of [`causeway_os::clock::now_ns`]; 0 before.
    pub(crate) fn start_ns(&self) -> u64 {
        self.u64(START_NS).load(Relaxed)
    }

    /// Sets a word, and wakes all who sleep on it.
    fn tell(&self, offset: usize, value: u32) -> io::Result<()> {
        let word = self.u32(offset);
        word.store(value, Release); // PAIR told
        futex::wake(word, u32::MAX)?;
        Ok(())
    }

    /// Sleeps until a word is at least `least`.
    fn await_told(&self, offset: usize, least: u32) -> io::Result<()> {
        let word = self.u32(offset);
        loop {
            let told = word.load(Acquire); // PAIR told
            if told >= least {
                return Ok(());
            }
            let _ = futex::wait(word, told, None)?;
        }
    }

    /// Meets the other roles, and returns the time at which all begin. The last to come decides it.
    pub(crate) fn barrier(&self, roles: usize, begin_ns: impl FnOnce() -> u64) -> io::Result<u64> {
        // AcqRel: what every role did before is seen by the last, and after it is told by all.
        if self.u32(READY).fetch_add(1, AcqRel) + 1 == roles as u32 {
            let length_ns = self.u64(RUN_DEADLINE_NS).load(Relaxed);
            if let (Some(deadline), 1..) = (&self.deadline, length_ns) {
                deadline.set(Duration::from_nanos(length_ns))?;
            }
            self.u64(START_NS).store(begin_ns(), Relaxed);
            self.tell(GO, 1)?;
        }
        self.await_told(GO, 1)?;
        Ok(self.start_ns())
    }

    /// The leading role has read its counters.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.tell(FINISHED, 1)
    }

    pub(crate) fn await_finish(&self) -> io::Result<()> {
        self.await_told(FINISHED, 1)
    }

    /// Decides what followers do in batch `index`. Called before the batch in front of it begins.
    pub(crate) fn publish_batch(&self, index: usize, planned: Planned) {
        assert!(index < MAX_BATCHES, "a run has at most {MAX_BATCHES} batches");
        self.u64(PLAN + index * 8).store(planned.to_word(), Release); // PAIR plan
    }

    /// What to do in batch `index`, if it is decided.
    pub(crate) fn batch_at(&self, index: usize) -> Option<Planned> {
        assert!(index < MAX_BATCHES, "a run has at most {MAX_BATCHES} batches");
        Planned::from_word(self.u64(PLAN + index * 8).load(Acquire)) // PAIR plan
    }

    pub(crate) const fn max_batches() -> usize {
        MAX_BATCHES
    }

    /// The leading role begins the slice whose first batch is `index`: wakes the roles that wait for it.
    pub(crate) fn begin_slice(&self, index: usize) -> io::Result<()> {
        self.tell(SLICE, index as u32 + 1)
    }

    /// Sleeps until the leading role begins the slice whose first batch is `index`.
    pub(crate) fn await_slice(&self, index: usize) -> io::Result<()> {
        self.await_told(SLICE, index as u32 + 1)
    }

    /// The word of cache line `index` of those that doses write to.
    #[inline]
    pub(crate) fn dose_line(&self, index: u64) -> &AtomicU64 {
        self.u64(DOSE + (index % MOST_LINES) as usize * LINE_BYTES)
    }

    /// Wakes another role by its word of the dose, which it makes `count`.
    #[inline]
    pub(crate) fn hand_over(&self, role: usize, count: u32) -> io::Result<()> {
        self.tell(DOSE_WORDS + role * 2 * LINE_BYTES, count)
    }

    /// Sleeps until the own word of the dose is `count`.
    #[inline]
    pub(crate) fn await_handed_over(&self, role: usize, count: u32) -> io::Result<()> {
        self.await_told(DOSE_WORDS + role * 2 * LINE_BYTES, count)
    }

    /// A role that works for a time has seen that its slice is over, and is about to sleep until the next one.
    pub(crate) fn park(&self) {
        self.u32(PARKED).fetch_add(1, Release); // PAIR park
    }

    pub(crate) fn parked(&self) -> u32 {
        self.u32(PARKED).load(Acquire) // PAIR park
    }

    /// How far the receiver of a stream has come.
    pub(crate) fn phase(&self) -> Phase {
        match self.u32(PHASE).load(Acquire) {
            0 => Phase::Warm,
            1 => Phase::Timed,
            2 => Phase::Over,
            _ => Phase::Parked,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.u32(PHASE).store(phase as u32, Release);
    }

    /// With how many chunks the sender of a stream ends, once it knows.
    pub(crate) fn feed_end(&self) -> Option<u64> {
        self.u64(FEED_END).load(Acquire).checked_sub(1)
    }

    pub(crate) fn set_feed_end(&self, chunks: u64) {
        self.u64(FEED_END).store(chunks + 1, Release);
    }

    /// When the sender of a transfer began, in its clock; 0 before.
    pub(crate) fn sends_from_ns(&self) -> u64 {
        self.u64(SENDS_FROM_NS).load(Acquire) // PAIR sends-from
    }

    pub(crate) fn set_sends_from_ns(&self, at_ns: u64) {
        self.u64(SENDS_FROM_NS).store(at_ns, Release); // PAIR sends-from
    }

    pub(crate) fn verified(&self) -> u64 {
        self.u64(VERIFIED).load(Acquire)
    }

    pub(crate) fn add_verified(&self) {
        self.u64(VERIFIED).fetch_add(1, Release);
    }

    pub(crate) fn set_pace(&self, pace: Pace) {
        self.u64(PACE).store(pace.to_word(), Relaxed);
    }

    /// The pace of concurrent roles. Relaxed: no other memory is ordered by it.
    #[inline]
    pub(crate) fn pace(&self) -> Pace {
        Pace::from_word(self.u64(PACE).load(Relaxed))
    }

    /// Notes how far a role has come. It has two places and uses them in turn, so that what it wrote last can be read
    /// while it writes the next.
    #[inline]
    pub(crate) fn set_progress(&self, role: usize, progress: Progress) {
        assert!(role < MAX_ROLES);
        let line = STEPS + role * 128;
        let place = line + 16 + (progress.chunks % 2) as usize * 16;
        // What was published last becomes visible before this place changes.
        fence(Release); // PAIR progress-place
        self.u64(place).store(progress.ops, Relaxed);
        self.u64(place + 8).store(progress.at_ns, Relaxed);
        self.u64(line + 8).store(progress.chunks, Release); // PAIR progress
    }

    pub(crate) fn progress(&self, role: usize) -> Progress {
        assert!(role < MAX_ROLES);
        let line = STEPS + role * 128;
        loop {
            let chunks = self.u64(line + 8).load(Acquire); // PAIR progress
            let place = line + 16 + (chunks % 2) as usize * 16;
            let ops = self.u64(place).load(Relaxed);
            let at_ns = self.u64(place + 8).load(Relaxed);
            fence(Acquire); // PAIR progress-place
            // Once the next chunk is published, the one after it may be on its way into this place, unpublished.
            if self.u64(line + 8).load(Relaxed) == chunks {
                return Progress { chunks, ops, at_ns };
            }
        }
    }

    /// What the leading role has counted, for the others to take over once it has finished.
    pub(crate) fn set_counted_ops(&self, ops: u64) {
        self.u64(COUNTED_OPS).store(ops, Relaxed); // ordered by `finish`
    }

    pub(crate) fn counted_ops(&self) -> u64 {
        self.u64(COUNTED_OPS).load(Relaxed)
    }

    /// A role that works until it is told to stop has stopped, and has published what it did.
    pub(crate) fn leave(&self) {
        self.u32(LEFT).fetch_add(1, Release); // PAIR leave
    }

    pub(crate) fn left(&self) -> u32 {
        self.u32(LEFT).load(Acquire) // PAIR leave
    }

    /// Keeps a sample. Beyond [`MAX_SAMPLES`] it is dropped.
    pub(crate) fn push_sample(&self, sample: Sample) {
        let count = self.u64(SAMPLE_COUNT);
        let index = count.load(Relaxed) as usize;
        if index >= MAX_SAMPLES {
            return;
        }
        let Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra } = sample;
        let place = SAMPLES + index * COLUMNS * 8;
        for (column, value) in [start_ns, elapsed_ns, ops, bytes, preemptions, extra].into_iter().enumerate()
        {
            self.u64(place + column * 8).store(value, Relaxed);
        }
        count.store(index as u64 + 1, Release); // PAIR samples
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        let count = (self.u64(SAMPLE_COUNT).load(Acquire) as usize).min(MAX_SAMPLES); // PAIR samples
        let sample = |index: usize| {
            let word = |column: usize| self.u64(SAMPLES + (index * COLUMNS + column) * 8).load(Relaxed);
            let [start_ns, elapsed_ns, ops, bytes, preemptions, extra] = std::array::from_fn(word);
            Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra }
        };
        (0..count).map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_and_pace_come_back_as_they_were_set() {
        let shared = Shared::create().unwrap();
        assert_eq!((shared.batch_at(3), shared.pace()), (None, Pace::Go { ops: 1, counted: false }));
        for planned in [
            Planned::Batch { ops: 1 << 40, counted: true, timed: true, parks: false },
            Planned::Batch { ops: 0, counted: false, timed: true, parks: true },
            Planned::End,
        ] {
            shared.publish_batch(3, planned);
            assert_eq!(shared.batch_at(3), Some(planned));
        }
        for pace in [Pace::Go { ops: 300, counted: true }, Pace::Park, Pace::Stop] {
            shared.set_pace(pace);
            assert_eq!(shared.pace(), pace);
        }
    }

    #[test]
    fn samples_come_back_in_order_and_stop_at_the_limit() {
        let shared = Shared::create().unwrap();
        for ops in 0..MAX_SAMPLES as u64 + 10 {
            shared.push_sample(Sample { ops, ..Sample::default() });
        }
        assert!(shared.samples().iter().map(|sample| sample.ops).eq(0..MAX_SAMPLES as u64));
    }

    #[test]
    fn progress_is_read_whole_while_it_is_written() {
        let shared = Shared::create().unwrap();
        let other = Shared::open(shared.fd.try_clone().unwrap()).unwrap();
        let last = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for chunks in 1..=last {
                    other.set_progress(3, Progress { chunks, ops: chunks * 7, at_ns: chunks * 11 });
                }
            });
            loop {
                let seen = shared.progress(3);
                assert_eq!((seen.ops, seen.at_ns), (seen.chunks * 7, seen.chunks * 11));
                if seen.chunks == last {
                    break;
                }
            }
        });
    }
}
