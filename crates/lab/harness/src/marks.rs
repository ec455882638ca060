//! What the roles of a marked run note of each operation: a message begins, is written, a wait for one begins, it is read.
//!
//! A marked run is one of its own, whose figure means nothing ([`PeerStart::marked`]). The timed loops of other runs have nothing of this: which
//! loop runs is chosen before it begins. The ends of a mechanism are wrapped (`pattern/marked.rs`, `fan_out/marked.rs`), so that neither mechanisms nor
//! patterns know of marks; ping-pong has a loop for marks; loops of fan-in are generic over what takes notes ([`Notes`]). Times are of `CLOCK_MONOTONIC`,
//! as the kernel's tracer has them (`trace_clock` `mono`).
//!
//! Each role has a ring of its own in a memfd, which keeps its latest marks of the counted part:
//!
//! | offset | size | what | written by |
//! |---|---|---|---|
//! | 0 | 8 | marks so far | the role, after the mark |
//! | 8 | 8 | 1 while marks are taken | the role |
//! | 16 | 8 | id of its thread | the role, before the first mark |
//! | 24 | 8 | id of the auxiliary process, or 0 | the role, before the first mark |
//! | 128 | 16 × [`CAPACITY`] | time in ns; point in the upper 8 bits, number in the others | the role |
//!
//! [`PeerStart::marked`]: crate::coordinator::PeerStart::marked

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_os::memory::{self, Access, Mapping};
use causeway_os::{clock, sched};
use serde::{Deserialize, Serialize};

/// Marks that are kept of each role: some hundred operations have four each.
pub const CAPACITY: usize = 4096;

const COUNT: usize = 0;
const IS_OPEN: usize = 8;
const THREAD: usize = 16;
const AUXILIARY: usize = 24;
const RING: usize = 128;
const ROLE_BYTES: usize = RING + CAPACITY * 16;
const NUMBER_BITS: u32 = 56;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What happens at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Point {
    /// A message begins: room for it is asked for.
    WriteBegins = 0,
    /// The call that sends it has returned.
    Written = 1,
    /// The role asks for a message, and waits if there is none.
    WaitBegins = 2,
    /// It has the message.
    Read = 3,
}

impl Point {
    const ALL: [Point; 4] = [Point::WriteBegins, Point::Written, Point::WaitBegins, Point::Read];
}

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Time of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What happens.
    pub point: Point,
    /// Which message of its sender it is, from 0 on; nothing where the role cannot know.
    pub number: Option<u64>,
}

/// What one role has noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleMarks {
    /// Id of its thread, as the scheduler's events have it.
    pub thread: u32,
    /// Ids of the threads of the process that takes part beside the roles (a broker), where the role knows of one.
    pub auxiliary: Vec<u32>,
    /// The CPUs that this process may run on.
    pub auxiliary_cpus: Vec<u32>,
    /// The latest marks, in the order of time.
    pub marks: Vec<Mark>,
    /// Marks before these, which the ring did not keep.
    pub dropped: u64,
}

/// The rings of all roles of a run.
#[derive(Debug)]
pub struct Marks {
    fd: OwnedFd,
    map: Mapping,
}

impl Marks {
    /// In the coordinator: empty rings for `roles`.
    pub fn create(roles: usize) -> io::Result<Marks> {
        Marks::open(memory::memfd("weighbridge-marks", (roles * ROLE_BYTES) as u64)?, roles)
    }

    /// In a peer: from the descriptor that the coordinator has handed over.
    pub fn open(fd: OwnedFd, roles: usize) -> io::Result<Marks> {
        let map = Mapping::shared(fd.as_fd(), roles * ROLE_BYTES, Access::ReadWrite)?;
        map.prefault()?;
        Ok(Marks { fd, map })
    }

    /// To pass on to peers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The marker of `role`. Takes the calling thread as that of the role.
    pub fn marker(&self, role: usize) -> Marker<'_> {
        let marker = Marker { map: &self.map, base: role * ROLE_BYTES };
        marker.set(THREAD, u64::from(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()));
        marker
    }

    /// What `role` has noted, once it is done and while the auxiliary process is still there.
    pub fn of_role(&self, role: usize) -> RoleMarks {
        let word = |offset| self.map.atomic_u64(role * ROLE_BYTES + offset);
        let count = word(COUNT).load(Acquire); // PAIR marks
        let word = |offset| word(offset).load(Relaxed);
        let kept = count.min(CAPACITY as u64);
        let mark = |index: u64| {
            let place = RING + (index as usize % CAPACITY) * 16;
            let what = word(place + 8);
            let number = Some(what & NUMBER_MASK).filter(|number| *number != NUMBER_MASK);
            Some(Mark { at_ns: word(place), point: *Point::ALL.get((what >> NUMBER_BITS) as usize)?, number })
        };
        let auxiliary = Some(word(AUXILIARY) as u32).filter(|pid| *pid != 0);
        RoleMarks {
            thread: word(THREAD) as u32,
            auxiliary: auxiliary.map_or(Vec::new(), threads_of),
            auxiliary_cpus: auxiliary.and_then(|pid| sched::allowed_cpus_of(pid).ok()).unwrap_or_default(),
            marks: (count - kept..count).filter_map(mark).collect(),
            dropped: count - kept,
        }
    }
}

/// The threads of a process that is there, by the ids that the scheduler's events have.
pub fn threads_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// What a loop tells of its messages. A loop that is generic over it has a version without marks, in which nothing of them is left.
pub trait Notes {
    /// Notes a point of message `number`; `None` where the role cannot know which it is.
    fn note(&self, point: Point, number: Option<u64>);
}

/// Takes no notes: in every run that is not a marked one.
#[derive(Clone, Copy, Debug)]
pub struct Unmarked;

impl Notes for Unmarked {
    #[inline]
    fn note(&self, _point: Point, _number: Option<u64>) {}
}

/// Writes the marks of one role.
#[derive(Clone, Copy, Debug)]
pub struct Marker<'a> {
    map: &'a Mapping,
    base: usize,
}

impl Notes for Marker<'_> {
    /// Outside of the counted part it does nothing.
    #[inline]
    fn note(&self, point: Point, number: Option<u64>) {
        if self.map.atomic_u64(self.base + IS_OPEN).load(Relaxed) == 0 {
            return;
        }
        let count = self.map.atomic_u64(self.base + COUNT);
        let index = count.load(Relaxed);
        let place = RING + (index as usize % CAPACITY) * 16;
        let number = number.map_or(NUMBER_MASK, |number| number & (NUMBER_MASK >> 1));
        self.set(place + 8, (point as u64) << NUMBER_BITS | number);
        self.set(place, clock::monotonic_ns());
        count.store(index + 1, Release); // PAIR marks
    }
}

impl Marker<'_> {
    pub(crate) fn set_open(&self, is_open: bool) {
        self.set(IS_OPEN, u64::from(is_open));
    }

    pub(crate) fn set_auxiliary(&self, pid: u32) {
        self.set(AUXILIARY, u64::from(pid));
    }

    #[inline]
    fn set(&self, offset: usize, value: u64) {
        self.map.atomic_u64(self.base + offset).store(value, Relaxed);
    }
}

/// What a mark costs here: the nanoseconds between two that follow each other, in the middle of many pairs.
pub fn cost_ns() -> io::Result<f64> {
    let marks = Marks::create(1)?;
    let marker = marks.marker(0);
    marker.set_open(true);
    for number in 0..CAPACITY as u64 {
        marker.note(Point::Read, Some(number));
    }
    let all = marks.of_role(0).marks;
    let between: Vec<f64> = all.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64).collect();
    Ok(weighbridge_stats::median(&between))
}

/// The marks of an end that counts its messages from the first one on, as the other end does, so that the number of a message is the same
/// at both.
#[derive(Debug)]
pub struct Numbered<'a> {
    marker: Marker<'a>,
    is_lossy: bool,
    written: u64,
    read: u64,
}

impl<'a> Numbered<'a> {
    /// Where messages can be lost, the other end cannot number them by counting: they have no number.
    pub fn new(marker: Marker<'a>, is_lossy: bool) -> Numbered<'a> {
        Numbered { marker, is_lossy, written: 0, read: 0 }
    }

    /// A message begins.
    #[inline]
    pub fn write_begins(&self) {
        self.marker.note(Point::WriteBegins, self.number(self.written));
    }

    /// It is written.
    #[inline]
    pub fn written(&mut self) {
        self.marker.note(Point::Written, self.number(self.written));
        self.written += 1;
    }

    /// The next message is asked for.
    #[inline]
    pub fn wait_begins(&self) {
        self.marker.note(Point::WaitBegins, self.number(self.read));
    }

    /// It is there.
    #[inline]
    pub fn read(&mut self) {
        self.marker.note(Point::Read, self.number(self.read));
        self.read += 1;
    }

    /// It is there, and says itself which it is.
    #[inline]
    pub fn read_as(&self, number: u64) {
        self.marker.note(Point::Read, Some(number));
    }

    fn number(&self, count: u64) -> Option<u64> {
        (!self.is_lossy).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_costs_more_than_nothing_and_less_than_a_message() {
        let cost_ns = cost_ns().unwrap();
        assert!((1.0..100_000.0).contains(&cost_ns), "{cost_ns} ns");
    }

    #[test]
    fn a_full_ring_keeps_the_latest_and_counts_the_others() {
        let marks = Marks::create(1).unwrap();
        let marker = marks.marker(0);
        // Outside of the counted part nothing is noted.
        marker.note(Point::Read, None);
        marker.set_open(true);
        for number in 0..CAPACITY as u64 + 5 {
            marker.note(Point::Read, Some(number));
        }
        let RoleMarks { marks, dropped, .. } = marks.of_role(0);
        assert_eq!((dropped, marks.len()), (5, CAPACITY));
        assert!((5..).zip(&marks).all(|(number, mark)| mark.number == Some(number)));
    }
}
