//! All statistics of the project, and the only place where any are computed.
//!
//! Values come in as slices and go out as plain values: no file, no clock, no global state that could change a result.
//! The same input gives the same output on every machine; where chance is needed the seed is fixed.
//!
//! | question | module |
//! |---|---|
//! | what is the middle, how wide is the rest | [`order`] |
//! | how sure is the middle | [`interval`] |
//! | is the peer warm | [`warm_up`] |
//! | are there enough runs | [`stopping`]; for runs that resemble each other [`correlation`] |
//! | what does a case amount to | [`summary`] |
//! | what is a case to its hub, and the hub to the session | [`duet`] |
//! | is it one steady state at all | [`regime`] |
//! | what is the ratio of two costs, how sure is it | [`evidence`], [`compare`] |
//! | does a change matter, and when may one stop looking | [`mod@verdict`], [`sequential`] |
//! | which of several is the best, which order is sure | [`contest`] |
//! | what holds in a whole report | [`discovery`] |
//! | when did a level change | [`history`] |
//! | which commit changed a level, what to measure next | [`bisect`] |
//! | where will a further session lie, do two agree | [`sessions`] |
//! | how bad is the tail | [`tail`] |
//! | was a rate held, what does it cost | [`load`] |
//! | did all get their share | [`fairness`] |
//! | at which size do two costs meet | [`curve`] |
//! | what are the prices of which costs are made, none negative | [`nnls`] |
//! | how sure is an estimate made of many | [`resample`] |
//! | which of many machines differ, and why | [`hosts`] |
//! | what do a foreign tool's running averages hide | [`cumulative`] |
//!
//! The unit of evidence is the run, and between kernels the boot. Samples of one process resemble each other for
//! reasons that a new process would draw again, so **no interval here is ever put on the samples of one run**.
//!
//! A value that is not finite is a bug of the caller and stops the program. So is an empty slice where a middle is
//! asked for, and a confidence, rate or correlation that is none; `# Panics` stands where there is more to say. Too few values for an honest answer is not a bug: the answer is then `None`, or *inconclusive* with a
//! reason.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod binomial;
mod normal;

pub mod bisect;
pub mod compare;
pub mod contest;
pub mod correlation;
pub mod cumulative;
pub mod curve;
pub mod discovery;
pub mod duet;
pub mod evidence;
pub mod fairness;
pub mod history;
pub mod hosts;
pub mod interval;
pub mod load;
pub mod nnls;
pub mod order;
pub mod random;
pub mod regime;
pub mod resample;
pub mod sequential;
pub mod sessions;
pub mod stopping;
pub mod summary;
pub mod tail;
pub mod verdict;
pub mod warm_up;

pub use compare::{BootComparison, Ratio, compare_boots, paired_ratio};
pub use evidence::Evidence;
pub use interval::{Interval, interpolated_median_interval, median_interval};
pub use order::{half_iqr_over_median, median, quantile};
pub use regime::{Regime, RegimeKind};
pub use stopping::{Decision, Stop, StoppingRule};
pub use summary::{CaseSummary, run_value, summarize};
pub use tail::{CasePercentile, case_percentiles};
pub use verdict::{Size, Verdict, verdict};
