//! The formats, one file each.

mod akbench;
mod criterion;
mod fio;
mod go;
mod google_benchmark;
mod hyperfine;
mod iperf3;
mod kernel_bench;
mod lmbench;
mod perf_bench;
mod ping_pong;
mod sockperf;

use crate::import::{Foreign, Input, Problem};

/// A format of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The tool as it is named in a case's id.
    pub tool: &'static str,
    /// What is read of it, and how the tool writes that.
    pub about: &'static str,
    /// Does the text look like this format? Also of a file that is cut short, so that its reader can say where.
    accepts: fn(&str) -> bool,
    read: fn(Input<'_>) -> Result<Foreign, Problem>,
}

/// All of them. The first that accepts a file reads it.
pub const FORMATS: [Format; 12] = [
    google_benchmark::FORMAT,
    hyperfine::FORMAT,
    fio::FORMAT,
    iperf3::FORMAT,
    criterion::FORMAT,
    perf_bench::FORMAT,
    sockperf::FORMAT,
    akbench::FORMAT,
    go::FORMAT,
    lmbench::FORMAT,
    kernel_bench::FORMAT,
    ping_pong::FORMAT,
];

/// Reads the output of whichever tool it is.
///
/// # Errors
/// No tool's output, or nothing in it can be used; the problem says on which line.
pub fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    if input.text.trim().is_empty() {
        return Err(Problem::of_file("is empty"));
    }
    let tools = || FORMATS.map(|format| format.tool).join(", ");
    let format = FORMATS.iter().find(|format| (format.accepts)(input.text)).ok_or_else(|| {
        Problem::at(1, format!("not the output of a tool that can be imported ({})", tools()))
    })?;
    let mut foreign = (format.read)(input)?;
    foreign.tool = format.tool;
    foreign.cases.retain(|case| !case.runs.is_empty() || case.failed.is_some());
    if !foreign.cases.is_empty() {
        return Ok(foreign);
    }
    Err(match foreign.problems.into_iter().next() {
        Some(problem) => problem,
        None => Problem::of_file(format!("is {}'s output without any figure", format.tool)),
    })
}

/// Does the text start as a JSON document does, and name all of these fields?
fn is_json_with(text: &str, fields: &[&str]) -> bool {
    text.trim_start().starts_with(['{', '['])
        && fields.iter().all(|field| text.contains(&format!("\"{field}\"")))
}
