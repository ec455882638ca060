//! `weighbridge guest run`: one boot, and the cases measured in it.

use std::path::{Path, PathBuf};

use weighbridge_guest::job;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::plan::Changes;
use weighbridge_record::{Line, Reading};
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

/// Boots and measures.
pub fn run(args: &Run) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let command = command(&args.globs, args.guest.machine.cpus, args.runs)?;
    let guest = Guest::new(&args.guest.kernel, &args.guest.append, &args.guest.machine)?;
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
    keep(measured.lines, output)
}

/// How long a boot took.
pub fn timing(guest: &Guest<'_>, measured: &Measured) -> String {
    let [up, answer] = measured.seconds;
    format!("kernel {}: up after {up:.1} s, measured after {answer:.1} s", guest.kernel.release())
}

/// Prints the report, writes the record.
fn keep(lines: Vec<Line>, output: &Output<RunFormat>) -> Result<Exit, Failure> {
    let has_numbers = lines.iter().any(|line| matches!(line, Line::Summary(_)));
    let report = Report::from_reading(Reading { lines: lines.clone(), problems: Vec::new() });
    // What was measured is shown, also where it cannot be kept.
    output::print(super::super::run::rendered(&report, output.format))?;
    write(&lines, output.out.as_deref(), output.quiet)?;
    if has_numbers {
        Ok(Exit::Fine)
    } else {
        Err(Failure::new("no case gave a number; the record has the reasons"))
    }
}

/// Writes the record, and says where it is.
pub fn write(lines: &[Line], out: Option<&Path>, quiet: bool) -> Result<PathBuf, Failure> {
    let Destination { record, mut writer, note, .. } = Destination::create(out, Some(&Page::None))?;
    if let Some(note) = &note {
        output::warn(note);
    }
    lines.iter().try_for_each(|line| writer.write(line)).map_err(|error| {
        Failure::new(format!(
            "cannot write to `{}`: {error}; choose another place with --out",
            record.display()
        ))
    })?;
    if !quiet {
        output::say(&format!("record: {}", record.display()));
    }
    Ok(record)
}

/// The command that the guest runs: the selected cases by their ids, each measured by itself, because there is no drift that a
/// hub would share.
pub fn command(globs: &[String], cpus: u32, runs: u16) -> Result<Vec<String>, Failure> {
    let default = [CASES.to_owned()];
    let globs = if globs.is_empty() { &default[..] } else { globs };
    let placements = (cpus == 1).then(|| vec!["same-cpu".to_owned()]);
    let is_glob = |word: &String| word.parse::<weighbridge_record::CaseId>().is_err();
    let has_placement = |word: &String| word.split('/').count() >= 4;
    // A word that names its placement is taken at it; a guest with one CPU says itself that it has no other.
    let placements = placements.filter(|_| globs.iter().all(|word| is_glob(word) && !has_placement(word)));
    let changes = Changes { placements, ..Changes::default() };
    let selected = select::select(globs, None, &changes)?;
    let options = [
        "--alone",
        "--no-system-calls",
        "--quiet",
        "--budget",
        "10h",
        "--html",
        "none",
        "--out",
        job::RECORD,
        "--max-runs",
    ];
    let mut command = vec!["run".to_owned()];
    command.extend(options.map(String::from));
    command.push(runs.to_string());
    command.extend(selected.ids().map(ToString::to_string));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_given_complete_cases_and_none_between_cpus_that_it_has_not() {
        let of = |globs: &[&str], cpus| {
            command(&globs.iter().map(ToString::to_string).collect::<Vec<_>>(), cpus, 6).unwrap()
        };
        let cases = |command: Vec<String>| {
            command.into_iter().filter(|word| word.contains("/")).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(cases(of(&["roundtrip/pipe/1/same-cpu"], 1)), ["roundtrip/pipe/1/same-cpu"]);
        let one = cases(of(&["pipe"], 1));
        assert!(!one.is_empty() && one.iter().all(|case| case.contains("/same-cpu")), "{one:?}");
        assert!(cases(of(&["pipe"], 2)).iter().any(|case| case.contains("/two-cpus")));
        assert!(cases(of(&[], 1)).len() > 10);
        assert!(command(&["no-such".into()], 1, 6).is_err());
    }
}
