//! What was typed to select cases, and to say how much effort they are worth: common to several commands.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use weighbridge_harness::axis::Wait;
use weighbridge_harness::{placement, plan};

use crate::values::{self, AxisValues, Cpus, Sizes};

/// Which cases.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which cases")]
pub struct Selection {
    /// Cases to measure: globs on case ids, single words, or complete ids [default: all of the suite]
    #[arg(value_name = "GLOB")]
    pub globs: Vec<String>,
    /// Suite to select from [default: `quick` where no GLOB is given]
    #[arg(long, value_name = "NAME", value_parser = suites())]
    pub suite: Option<String>,
    /// Payload sizes in bytes: 0,1,64,4K,1M or a range by powers of two, 1..4M [default: those of the suite, or 1,4K,64K]
    #[arg(long, value_name = "LIST", value_parser = values::sizes)]
    pub sizes: Option<Sizes>,
    /// Placements of the peers [default: those of the suite, or same-cpu,two-cpus]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = placements())]
    pub place: Vec<String>,
    /// Ways to wait; the same as --set wait=LIST
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = waits())]
    pub wait: Vec<String>,
    /// Values of an axis, as in touch=none,all; every combination of values is measured (`weighbridge list` shows all axes)
    #[arg(long, value_name = "AXIS=V1,V2", value_parser = values::axis_values)]
    pub set: Vec<AxisValues>,
    /// A shared object with mechanisms of your own, which are then like those that `weighbridge list` shows; several may be given
    #[arg(long, value_name = "FILE")]
    pub target: Vec<PathBuf>,
    /// CPUs that peers may run on, the preferred first, as in 2,0-1 [default: all CPUs that this process may use]
    #[arg(long, value_name = "LIST", value_parser = values::cpus, env = "WEIGHBRIDGE_CPUS")]
    pub cpus: Option<Cpus>,
}

/// Precision and time of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Precision and time")]
pub struct Effort {
    /// Precision of a case, as in 1%: its runs end when half the width of its interval is at most this share of its median [default: that of the suite]
    #[arg(long, value_name = "SHARE", value_parser = values::precision)]
    pub precision: Option<f64>,
    /// Time for all runs together, as in 90s, 2m or 1h30m; a short one shortens runs before it leaves cases out [default: that of the suite]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub budget: Option<Duration>,
    /// Time of one run of a fan-in or a stream, as in 15s: its intervals follow each other without a gap [default: that of the suite]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub run_time: Option<Duration>,
    /// Length of an interval of a fan-in or a stream, as in 1s [default: that of the suite]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub interval: Option<Duration>,
    /// Largest number of runs of a case, 1 to 40; fewer than 6 give no interval
    #[arg(long = "runs", value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=40))]
    pub max_runs: u16,
}

/// The one suite that is not a list of cases: the tests of our kernel module on the kernel that runs here.
pub const KERNEL_SLAB: &str = "kernel-slab";

fn suites() -> PossibleValuesParser {
    let of_laboratory = plan::suites().map(|suite| PossibleValue::new(suite.name).help(suite.about));
    PossibleValuesParser::new(of_laboratory.chain([PossibleValue::new(KERNEL_SLAB).help(
        "the kernel's own allocator, from within: our module loaded into this kernel, which needs root",
    )]))
}

fn placements() -> PossibleValuesParser {
    let value = |placement: &placement::Placement| PossibleValue::new(placement.name).help(placement.about);
    PossibleValuesParser::new(placement::ALL.iter().map(value))
}

fn waits() -> PossibleValuesParser {
    PossibleValuesParser::new(Wait::NAMES)
}
