//! What the roles of a run tell each other, and how each of it is put into a word of shared memory.

use crate::axis::words;

const PACE_STOP: u64 = u64::MAX;
const PACE_PARK: u64 = u64::MAX - 1;

words! {
    /// Where a peer is in its life. The names are those in records.
    #[derive(PartialOrd, Ord)]
    #[repr(u32)]
    pub enum Step {
        /// Started, not yet heard of.
        Hello = "hello",
        /// Affinity, nice value, scheduling class.
        Pin = "pin",
        /// Opening its end of the mechanism.
        Attach = "attach",
        /// Touching and locking memory.
        Prefault = "prefault",
        /// Exchanging messages that are checked byte by byte.
        Verify = "verify",
        /// Waiting for the others.
        Ready = "ready",
        /// Finding out how many operations make a sample.
        Calibrate = "calibrate",
        /// The batches are timed.
        Batches = "batches",
        /// Telling what it counted.
        Report = "report",
    }
}

impl Step {
    /// What nobody wrote is the first step.
    pub(super) fn from_word(word: u32) -> Step {
        Step::NAMES.get(word as usize).and_then(|name| Step::parse(name)).unwrap_or(Step::Hello)
    }
}

/// What a follower does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// A batch of `ops` operations; `counted` from the first batch that the counters cover.
    Batch {
        ops: u64,
        /// Past calibration? Then switches, faults and CPU time are counted.
        counted: bool,
        timed: bool,
        /// Does this party give the CPUs to the others before it begins?
        parks: bool,
    },
    End,
}

impl Planned {
    /// 0 stands for "not decided yet".
    pub(super) fn to_word(self) -> u64 {
        match self {
            Planned::Batch { ops, counted, timed, parks } => {
                ops << 4 | u64::from(parks) << 3 | u64::from(timed) << 2 | u64::from(counted) << 1 | 1
            }
            Planned::End => 2,
        }
    }

    pub(super) fn from_word(word: u64) -> Option<Planned> {
        match word {
            0 => None,
            2 => Some(Planned::End),
            word => Some(Planned::Batch {
                ops: word >> 4,
                counted: word & 2 != 0,
                timed: word & 4 != 0,
                parks: word & 8 != 0,
            }),
        }
    }
}

/// How far a stream has come, as its receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Phase {
    Warm,
    Timed,
    Over,
    /// The slice is over: the others sleep until the next one.
    Parked,
}

/// What each of several concurrent roles does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Do `ops` operations, then read the pace again.
    Go {
        ops: u64,
        counted: bool,
    },
    /// The slice is over: sleep until the next one.
    Park,
    Stop,
}

impl Pace {
    pub(super) fn to_word(self) -> u64 {
        match self {
            Pace::Go { ops, counted } => ops << 1 | u64::from(counted),
            Pace::Park => PACE_PARK,
            Pace::Stop => PACE_STOP,
        }
    }

    /// 0 stands for "not decided yet": one at a time.
    #[inline]
    pub(super) fn from_word(word: u64) -> Pace {
        match word {
            PACE_STOP => Pace::Stop,
            PACE_PARK => Pace::Park,
            0 => Pace::Go { ops: 1, counted: false },
            word => Pace::Go { ops: word >> 1, counted: word & 1 != 0 },
        }
    }
}

/// How far one of several concurrent roles has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) chunks: u64,
    pub(crate) ops: u64,
    /// When the last was finished, where somebody noted that; else 0.
    pub(crate) at_ns: u64,
}

/// One timed batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When the batch began, in the time of [`causeway_os::clock::now_ns`]; 0 where the pattern does not keep it.
    pub start_ns: u64,
    /// Time of the batch.
    pub elapsed_ns: u64,
    /// Operations in it.
    pub ops: u64,
    /// Bytes that arrived in it.
    pub bytes: u64,
    /// Involuntary switches of the leading role during it.
    pub preemptions: u64,
    /// A further count, where the pattern keeps one.
    pub extra: u64,
}
