//! What a run is: plain, versioned data, and its form on disk (JSON Lines).
//!
//! The laboratory and the reports share only this crate: `harness` writes these types, `report` reads them, and neither
//! knows the other. Nothing here measures or formats for people, and statistics are `weighbridge-stats`' business: here is
//! only how its findings are called in a record.
//!
//! `docs/record.md` describes every field with its unit; a test compares that document with these types.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod case_id;
mod check;
mod compare;
mod contest;
pub mod coverage;
pub mod derive;
pub mod digest;
pub mod earlier;
mod explain;
mod file;
mod functions;
mod header;
pub mod history;
mod hub;
mod identity;
pub mod import;
mod latency;
pub mod laws;
mod line;
mod observation;
mod outcome;
pub mod plan;
mod property;
mod ratio;
mod run;
mod summary;
mod timeline;

pub use case_id::{CaseId, ParseCaseIdError, Place};
pub use check::{Check, Meaning, Turn};
pub use compare::{CaseVerdict, Claims, ComparedSet, Control, SideOfSet};
pub use contest::{Contest, Contestant, Findings, SureOrder};
pub use earlier::{Earlier, EarlierSessions};
pub use explain::{BeyondSelf, Dose, ExplainedPart, ExplainedSet, Explanation, MadeOf, Price, Skill, WhatIf};
pub use file::{Problem, Reading, Writer, kind, read, read_file};
pub use functions::{FunctionChange, FunctionCount, Functions, FunctionsCompared, StackCount};
pub use header::{CLOCK_OF_INSTRUCTIONS, Cache, Clock, Cpu, Dram, Header, Machine, Node, Tool};
pub use hub::{DoubledSlices, Hub, HubMeeting, ToHub};
pub use identity::{Identity, Provenance};
pub use latency::{Distribution, Latencies, Percentile};
pub use line::{End, Line, Skipped};
pub use observation::{
    CountedBeside, Difference, DifferenceRow, EventCount, Look, Observation, Profile, ProfilePart,
    RefusedMeans, SymbolTime, looking_interval, looking_ratio,
};
pub use outcome::{Ending, Outcome, outcomes};
pub use property::{Across, Properties, Property};
pub use ratio::{Comparison, Crossover, Published, Ratio};
pub use run::{
    ALTERNATIVE_TO, CameOn, Case, CpuFrequency, IoCounts, Noise, Paced, PerOp, RoleCalls, RoleCounters, Run,
    SampledByRole, SampledTotal, SliceSeries, Slices, SystemCalls, WarmUp, Whereabouts,
};
pub use summary::{Attempts, Regime, RegimeKind, StoppedBy, Summary};
pub use timeline::{
    BrokerTime, MissingSwitches, Phase, Picture, PictureArrow, PictureLane, PictureSpan, Timeline,
};

/// The version of the record's form. A reader refuses what is newer and says so; what is older it reads in today's words.
pub const SCHEMA: u32 = 2;
