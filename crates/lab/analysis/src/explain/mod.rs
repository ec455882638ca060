//! What the cost of a case is made of: how many system calls, switches, copies there are in an operation, times what one of them costs
//! in the same session, and what is left.
//!
//! cost = Σ count × price + remainder. A [`Subject`] says which counts a case has and how each price is measured, as a difference or
//! a multiple of [`Measured`] costs. What cannot be measured alone, as to block and to be woken, is fitted by non-negative least squares over
//! the other mechanisms: [`explain`] leaves the mechanism out that it explains, so each explanation is also a prediction. The unit of every
//! interval is the set; see `weighbridge_stats::resample`. The verdict is about what the case costs beyond the mechanism to itself, and stands
//! beside that of a null model; [`Dosed`] cases try prices in the case.
//!
//! Nothing here knows a process or a clock. What is solved here, the harness measures and counts (its module `explain`), a record holds
//! (`weighbridge_record::explain`), a section of the report shows (`section::explain`), and the program asks for (`explain_args`).

mod beyond;
mod columns;
mod difference;
mod dose;
mod measured;
mod refused;
mod solve;
mod subject;
mod verdict;
mod what_if;

pub use difference::{Side, difference, place_of};
pub use dose::Dosed;
pub use measured::{Costs, Group, Measured};
pub use refused::ANOTHER_PROCESS;
pub use solve::{Solution, explain};
pub use subject::{Count, Direct, Fitted, Formula, Subject, kept_in_cache};
pub use verdict::MOST_UNEXPLAINED;
pub use what_if::{Asked, Change, part_named};

/// Names of the parts that counts of both sides of a comparison are known of.
pub mod names {
    /// Entering and leaving the kernel.
    pub const SYSTEM_CALLS: &str = "system calls";
    /// The copies of the payload on its way.
    pub const COPIES: &str = "copies";
    /// What the mechanism does besides when one role has both ends.
    pub const OWN_WORK: &str = "own work";
    /// Calls that a role makes only because it waits or is waited for, those of futex left out.
    pub const FURTHER_CALLS: &str = "calls to wait and wake";
    /// Calls of futex that a role makes only because it waits or is waited for.
    pub const FUTEX_CALLS: &str = "futex calls";
    /// From one task to another.
    pub const SWITCHES: &str = "switches";
    /// To go to sleep and to be woken, which always occur together.
    pub const BLOCK_AND_WAKE: &str = "block and wake";
    /// First touches of a page.
    pub const PAGE_FAULTS: &str = "page faults";
    /// That work is slower where two processes do it in turn than where one does all of it: each finds caches and branch predictors as the
    /// other left them.
    pub const COLD_CACHES: &str = "cold caches";
    /// From one CPU to the other.
    pub const CACHE_LINES: &str = "cache lines";
    /// Bytes of the payload that one CPU wrote and another reads.
    pub const BYTES_BETWEEN_CPUS: &str = "bytes between CPUs";
    /// That a CPU which has nothing to do halts, and must be woken itself.
    pub const HALTS: &str = "halts";

    /// All that an explanation can have.
    pub const ALL: [&str; 12] = [
        SYSTEM_CALLS,
        COPIES,
        OWN_WORK,
        FURTHER_CALLS,
        FUTEX_CALLS,
        SWITCHES,
        BLOCK_AND_WAKE,
        COLD_CACHES,
        PAGE_FAULTS,
        CACHE_LINES,
        BYTES_BETWEEN_CPUS,
        HALTS,
    ];
}
