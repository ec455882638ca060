//! The output of other benchmark tools as lines of a record, so that reports, comparisons and histories work for them too.
//!
//! Pure: text in, lines out. Each tool is one file in `format/` and one line in [`FORMATS`]. A format reads what the tool says into a
//! [`Foreign`], in the record's units; [`Import`] puts several of them together and makes the lines.
//!
//! What a tool does not say is absent. The machine is the one that the file names, else unknown, and never the importing one. A
//! figure that the tool gives only as an average becomes one sample, with a note in the case. Intervals that a tool prints are left out,
//! because the unit of an interval in a record is the run.

mod assemble;
mod foreign;
mod format;
mod json;
mod text;
mod units;

pub use assemble::{About, Import};
use foreign::told_percentiles;
pub use foreign::{Case, Foreign, Input, Problem, Run};
pub use format::{FORMATS, Format, read};

/// A series of one value a run: segments that the sender of a TCP connection has sent again.
pub const TCP_RETRANSMITS: &str = "tcp_retransmits";
/// A series: KiB that the sender of a TCP connection may have on their way (its congestion window).
pub const TCP_CWND: &str = "tcp_cwnd_kib";
