//! The output of other benchmark tools as lines of a record, so that reports, comparisons and histories work for them too.
//!
//! Pure: text in, lines out. Each tool is one file in `format/` and one line in [`FORMATS`]. A reader makes an [`Entry`] of each entry of a
//! file: which benchmark it is of, and its values in the record's units or why it has none. [`Benchmarks`] alone puts entries together, and
//! only those of one [`Identity`]; [`Import`] makes the lines.
//!
//! What a tool does not say is absent. The machine is the one that the file names, else unknown, and never the importing one. A
//! figure that the tool gives only as an average becomes one sample, with a note in the case. Intervals that a tool prints are left out,
//! because the unit of an interval in a record is the run.

mod assemble;
mod benchmarks;
mod entry;
mod format;
mod found;
mod json;
mod text;
mod units;

pub use assemble::{About, Added, Import};
pub use benchmarks::{Benchmark, Benchmarks};
pub use entry::{Entry, Identity, Input, Outcome, Problem, Run, Settings, Statistic};
pub use format::{FORMATS, Format, read};
pub use found::{Found, Started};

/// A series of one value a run: segments that the sender of a TCP connection has sent again.
pub const TCP_RETRANSMITS: &str = "tcp_retransmits";
/// A series: KiB that the sender of a TCP connection may have on their way (its congestion window).
pub const TCP_CWND: &str = "tcp_cwnd_kib";
