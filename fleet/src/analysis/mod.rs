//! What the sessions of a fleet say together. All arithmetic is in `weighbridge_stats::hosts`; here is what goes into it and what comes
//! out.

mod coverage;
mod hosts;
mod plan;
mod scatter;
mod sessions;
mod settings;
mod time;

use serde::Serialize;

use crate::lake::Lake;
pub use coverage::{Coverage, Unmeasured};
pub use hosts::{Class, OffCell, OffHost, Quantiles};
pub use plan::{Again, Remeasure, RemeasureHost};
pub use scatter::{HostsNeeded, Scatter, ScatterOf};
pub use sessions::{Interference, Overlap, Trouble};
pub use settings::{Explaining, Setting};
pub use time::FleetEvent;

/// What a report takes for true and worth saying.
#[derive(Clone, Debug)]
pub struct Options {
    /// A difference that does not matter: 0.03 is 3 %.
    pub margin: f64,
    /// Machines that should be there, by name; empty where that is not known.
    pub expected: Vec<String>,
    /// The most machines that are asked for again; a share of the fleet where it is not said.
    pub remeasure: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { margin: 0.03, expected: Vec::new(), remeasure: None }
    }
}

/// The part of claims that may be wrong.
pub const Q: f64 = 0.05;

/// Everything that a report says.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// The margin, as a share.
    pub margin: f64,
    /// Where it was read from.
    pub store: String,
    /// What is there and what is missing.
    pub coverage: Coverage,
    /// What is wrong with sessions, machines and clocks.
    pub trouble: Trouble,
    /// Sessions that ran at the same time on one machine.
    pub interference: Interference,
    /// Where scatter comes from, and what to do about it.
    pub scatter: Scatter,
    /// Machines that may stand in for each other, and those among them that do not.
    pub classes: Vec<Class>,
    /// Settings that go with costs.
    pub settings: Explaining,
    /// What changed on many machines at one time.
    pub events: Vec<FleetEvent>,
    /// What to measure again, and why.
    pub remeasure: Remeasure,
}

/// Looks at everything.
pub fn analyze(lake: &Lake, options: &Options) -> Findings {
    let (interference, overlapping) = sessions::interference(lake);
    let (trouble, clones) = sessions::trouble(lake);
    let usable = sessions::usable(lake, &overlapping, &clones);
    let tables = hosts::tables(lake, &usable);
    let classes: Vec<Class> = tables.iter().map(|table| hosts::class(lake, table, options)).collect();
    let remeasure = plan::remeasure(lake, &tables, &classes, options);
    Findings {
        margin: options.margin,
        store: lake.of.clone(),
        coverage: coverage::coverage(lake, options),
        trouble,
        interference,
        scatter: scatter::scatter(lake, &tables, options.margin),
        settings: settings::explaining(lake, &tables),
        events: time::events(lake, &clones, options.margin),
        classes,
        remeasure,
    }
}

/// A logarithm as a share: 0.05 is 5 % more.
pub(crate) fn share(log: f64) -> f64 {
    log.exp_m1()
}
