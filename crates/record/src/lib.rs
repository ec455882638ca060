//! What a run is: plain, versioned data, and its form on disk (JSON Lines).
//!
//! The laboratory and the reports share only this crate: `lab` writes these types, `report` reads them, and neither
//! knows the other. Nothing here measures or formats for people, and statistics are `weighbridge-stats`' business: here is
//! only how its findings are called in a record.
//!
//! `docs/record.md` describes every field with its unit; a test compares that document with these types.

mod case_id;
mod compare;
mod contest;
pub mod derive;
mod file;
mod found;
pub mod history;
mod latency;
mod line;
mod migrate;

pub use case_id::{CaseId, ParseCaseIdError};
pub use compare::{CaseVerdict, Claims, ComparedSet, Control, SideOfSet};
pub use contest::{Contest, Contestant, Findings, SureOrder};
pub use file::{Problem, Reading, Writer, read, read_file};
pub use latency::{Distribution, Latencies, Percentile};
pub use line::{
    Attempts, CLOCK_OF_INSTRUCTIONS, Cache, Case, Check, Clock, Comparison, Cpu, Crossover, DoubledSlices,
    Dram, End, Header, Hub, HubMeeting, Line, Machine, Meaning, Node, Noise, PerOp, Published, Ratio, Regime,
    RegimeKind, RoleCounters, Run, Skipped, SliceSeries, Slices, StoppedBy, Summary, ToHub, Tool, Turn,
    WarmUp,
};

/// The version of the record's form. A reader refuses what is newer and says so; what is older it reads in today's words.
pub const SCHEMA: u32 = 2;
