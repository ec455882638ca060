//! `weighbridge guest run`: one boot, and the cases measured in it.

use std::path::{Path, PathBuf};

use weighbridge_guest::job;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::plan::Changes;
use weighbridge_record::{CaseId, Line, Reading};
use weighbridge_report::Report;

use super::machine::{self, Guest, Measured, Read};
use crate::args::RunFormat;
use crate::commands::measuring::{interrupt, warn_of_debug_build};
use crate::destination::Destination;
use crate::guest_args::Run;
use crate::output_args::Output;
use crate::values::Page;
use crate::{Exit, Failure, output, select};

/// What is measured where nothing was named.
const CASES: &str = "roundtrip/*/1/same-cpu";

pub fn run(args: &Run) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let command = command(&args.globs, args.guest.machine.cpus, args.runs)?;
    let guest = Guest::new(&args.guest.kernel, &args.guest.added.append, &args.guest.machine)?;
    measure(&guest, &command, machine::record, &args.output, &interrupt)
}

/// One boot, its record, and its report.
pub fn measure(
    guest: &Guest<'_>,
    command: &[String],
    read: Read,
    output: &Output<RunFormat>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    Destination::check(output.out.as_deref())?;
    warn_of_debug_build();
    machine::warn_of(guest.args);
    let Some(measured) = guest.boot(command, read, interrupt.fd())? else {
        output::say("interrupted: the guest was ended, and there is no record");
        return Ok(Exit::Interrupted);
    };
    if !output.quiet {
        output::say(&timing(guest, &measured));
    }
    let lines = measured.lines;
    let report = Report::from_reading(Reading { lines: lines.clone(), problems: Vec::new() });
    // What was measured is shown, also where it cannot be kept.
    output::print(super::super::run::rendered(&report, output.format))?;
    keep(&lines, output.out.as_deref(), output.quiet)?;
    if lines.iter().any(|line| matches!(line, Line::Summary(_))) {
        Ok(Exit::Fine)
    } else {
        Err(Failure::new("no case gave a number; the record has the reasons"))
    }
}

/// How long a boot took.
pub fn timing(guest: &Guest<'_>, measured: &Measured) -> String {
    let [up, answer] = measured.seconds;
    format!("kernel {}: up after {up:.1} s, measured after {answer:.1} s", guest.kernel.release())
}

/// Writes the record, and says where it is.
pub fn keep(lines: &[Line], out: Option<&Path>, quiet: bool) -> Result<PathBuf, Failure> {
    let mut destination = Destination::create(out, Some(&Page::None))?;
    destination.write(lines)?;
    if !quiet {
        output::say(&format!("record: {}", destination.record.display()));
    }
    Ok(destination.record)
}

/// The command that the guest runs: the selected cases by their ids, each measured by itself, because there is no drift that a
/// hub would share.
pub fn command(globs: &[String], cpus: u32, runs: u16) -> Result<Vec<String>, Failure> {
    let default = [CASES.to_owned()];
    let globs = if globs.is_empty() { &default[..] } else { globs };
    // A word that names its placement is taken at it; a guest with one CPU says itself that it has no other.
    let is_open = |word: &String| word.parse::<CaseId>().is_err() && word.split('/').count() < 4;
    let placements = (cpus == 1 && globs.iter().all(is_open)).then(|| vec!["same-cpu".to_owned()]);
    let selected = select::select(globs, None, &Changes { placements, ..Changes::default() })?;
    let options =
        ["run", "--alone", "--no-system-calls", "--quiet", "--budget", "10h", "--html", "none", "--out"];
    let options = options.into_iter().chain([job::RECORD, "--runs"]).map(String::from);
    Ok(options.chain([runs.to_string()]).chain(selected.ids().map(CaseId::to_string)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_given_complete_cases_and_none_between_cpus_that_it_has_not() {
        crate::register();
        let cases = |globs: &[&str], cpus| {
            let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
            let command = command(&globs, cpus, 6).unwrap();
            command.into_iter().filter(|word| word.parse::<CaseId>().is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(cases(&["roundtrip/pipe/1/same-cpu"], 1), ["roundtrip/pipe/1/same-cpu"]);
        let one = cases(&["pipe"], 1);
        assert!(!one.is_empty() && one.iter().all(|case| case.contains("/same-cpu")), "{one:?}");
        assert!(cases(&["pipe"], 2).iter().any(|case| case.contains("/two-cpus")));
        assert!(cases(&[], 1).len() > 10);
    }
}
