//! `weighbridge compare`: does B cost more than A? Two settings, two programs, or two sets of records.

mod program;
mod resolution;
mod sides;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weighbridge_harness::compare::machine::MachineSettings;
use weighbridge_harness::compare::{
    Comparison, Rules, Settings, SideRecords, compare_records, expected_set, failed_too_often,
};
use weighbridge_harness::machine;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::session::Ended;
use weighbridge_record::{CaseVerdict, Claims, End, Header, Line, Reading};
use weighbridge_report::{self as report, Report};
use weighbridge_stats::sequential::{Looks, USUAL_MOST};

use super::measuring::{self, Bench, Files, Measuring, interrupt, random_seed, warn_of_debug_build};
use super::{THIS_PROGRAM, look_at_host};
use crate::compare_args::CompareArgs;
use crate::destination::Destination;
use crate::values::{CompareFormat, spoken};
use crate::{Exit, Failure, output, redact, scope};

pub use program::{ARGUMENT as PROTOCOL_ARGUMENT, answer as protocol_answer};

pub fn compare(args: &CompareArgs) -> Result<Exit, Failure> {
    let rules = Rules { margin: args.margin, fdr: args.fdr, any_difference: args.any_difference };
    match (args.with.is_empty(), args.a.is_empty() && args.b.is_empty()) {
        (false, true) => records(args, rules),
        (false, false) => {
            Err(Failure::mistake("records are compared as they are: leave out --with, or --a and --b"))
        }
        (true, true) => Err(Failure::mistake(
            "nothing says what to compare: give --a and --b (settings or programs), or records with --with; see \
             `weighbridge compare --help`",
        )),
        (true, false) => live(args, rules),
    }
}

fn live(args: &CompareArgs, rules: Rules) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let mut host = look_at_host()?;
    let (selected, suite) = scope::select(&args.selection, &mut host)?;
    let prices = args.prices.as_deref().map_or(Ok(Vec::new()), super::explain::prices_of)?;
    let (mut a, mut b) = (sides::read("--a", &args.a)?, sides::read("--b", &args.b)?);
    sides::settle([&mut a, &mut b])?;
    let (pairs, skipped) = sides::pairs(selected.ids(), [&a, &b], &host);
    if pairs.is_empty() {
        let first = skipped.first().map_or(String::new(), |first| format!(" {}: {}", first.case, first.why));
        return Err(Failure::mistake(format!("no selected case can be compared, such as{first}")));
    }
    let machine_settings = MachineSettings::new(Path::new(THIS_PROGRAM), [&a.side.sysctls, &b.side.sysctls])
        .map_err(Failure::new)?;
    let destination = Destination::create(args.output.of.out.as_deref(), args.output.html.as_ref())?;
    warn_of_debug_build();
    selected.left_out_note().iter().for_each(|note| output::warn(note));
    if let [first, rest @ ..] = &skipped[..] {
        let more = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
        output::warn(&format!("left out {}{more}: {}", first.case, first.why));
    }
    let units = args.runs.clone().unwrap_or_else(|| units(args.budget / pairs.len() as u32, suite.timing));
    let expected = expected_set(suite.timing) * (pairs.len() * units.start()) as u32;
    if expected > args.budget {
        let (sets, cases) = (units.start(), pairs.len());
        let (time, budget) = (spoken(expected), spoken(args.budget));
        output::warn(&format!(
            "{sets} sets of each of {cases} cases take about {time}, more than the budget of {budget}; raise --budget, or select fewer cases"
        ));
    }
    let mut header =
        header(args, machine::describe(&host), args.seed.unwrap_or_else(random_seed), Some(&units));
    for (name, side) in [("a-builds", &a), ("b-builds", &b)] {
        header.settings.insert(name.into(), sides::builds(side));
    }
    if !args.output.of.quiet {
        let placements = pairs.iter().map(|pair| pair.case.placement.as_str());
        resolution::foretold(&header.machine, placements, rules.margin, &Looks::up_to(*units.end()))
            .iter()
            .for_each(|said| output::say(said));
    }
    let settings = Settings {
        rules,
        budget: args.budget,
        sets: units,
        timing: suite.timing,
        count_calls: !args.no_system_calls,
        seed: header.seed,
        differences: sides::differences(&a, &b),
        prices,
    };

    let bench = Bench { host: &host, interrupt: &interrupt, seed: header.seed, is_watched: false };
    let mut measuring = Measuring::begin(destination, args.output.of.quiet);
    let ended = measuring.open(header.clone(), skipped).and_then(|()| {
        Comparison::new(settings, [a.side, b.side], bench.coordinator(), &interrupt, pairs)
            .with_machine_settings(machine_settings)
            .run(&mut measuring.recorder)
    });
    let closed = measuring.close(ended);
    if let Err(why) = resolution::keep(&header, &verdicts(&closed.report), closed.elapsed_s) {
        output::warn(&format!("what this machine resolves is not kept: {why}"));
    }
    let told = closed.files.show(&closed.report, rendered(&closed.report, args.output.of.format));
    let record = closed.files.record;
    let ended = closed.ended.map_err(|error| {
        let record = record.display();
        Failure::new(format!("cannot write to `{record}`: {error}; it holds what was measured until then"))
    })?;
    told.check()?;
    conclude(args.strict, ended, &closed.report, Some(&record))
}

/// Fewest and most sets of a case that has so much time. Few cases get more sets than forty: what is planned and not made costs power, and
/// what is made and not planned cannot be used.
fn units(time: Duration, timing: Timing) -> RangeInclusive<usize> {
    const MOST: usize = 1000;
    let fit = time.as_secs_f64() * 0.9 / expected_set(timing).as_secs_f64();
    12..=(fit as usize).clamp(USUAL_MOST, MOST)
}

fn records(args: &CompareArgs, rules: Rules) -> Result<Exit, Failure> {
    if args.selection.globs.is_empty() {
        return Err(Failure::mistake("--with names the new records; name the old ones before it"));
    }
    let old: Vec<PathBuf> = args.selection.globs.iter().map(PathBuf::from).collect();
    let read = |paths: &[PathBuf]| -> Result<SideRecords, Failure> {
        let one = |path: &PathBuf| Ok((path.display().to_string(), super::report::read(path)?));
        paths.iter().map(one).collect()
    };
    let (old, new) = (read(&old)?, read(&args.with)?);
    // The machine is that of the new records, wherever they are compared.
    let machine = first_header(&new).map(|header| header.machine.clone()).unwrap_or_default();
    let header = header(args, machine, 0, None);
    let (verdicts, claims) = compare_records(old, new, rules, args.across_machines).map_err(Failure::new)?;
    let (lines, report) = judged(header, &verdicts, &claims, 0.0);
    let text = rendered(&report, args.output.of.format);
    if args.output.of.out.is_none() && args.output.html.is_none() {
        output::print(text)?;
        return conclude(args.strict, Ended::Complete, &report, None);
    }
    let mut destination = Destination::create(args.output.of.out.as_deref(), args.output.html.as_ref())?;
    destination.write(&lines)?;
    let Destination { record, page, is_in_store, .. } = destination;
    let files = Files { record, page, is_in_store, is_quiet: args.output.of.quiet };
    files.show(&report, text).check()?;
    conclude(args.strict, Ended::Complete, &report, Some(&files.record))
}

/// Of the records of a side.
pub(super) fn first_header(records: &SideRecords) -> Option<&Header> {
    records.iter().flat_map(|(_, reading)| &reading.lines).find_map(|line| match line {
        Line::Header(header) => Some(&**header),
        _ => None,
    })
}

/// The record of verdicts on other records, and its report.
pub(super) fn judged(
    header: Header,
    verdicts: &[CaseVerdict],
    claims: &Claims,
    elapsed_s: f64,
) -> (Vec<Line>, Report) {
    let lines: Vec<Line> = std::iter::once(Line::Header(Box::new(header)))
        .chain(verdicts.iter().cloned().map(Line::from))
        .chain([Line::Claims(claims.clone()), Line::End(End { complete: true, elapsed_s })])
        .collect();
    let report = Report::from_reading(Reading { lines: lines.clone(), problems: Vec::new() });
    (lines, report)
}

pub(super) fn rendered(report: &Report, format: CompareFormat) -> String {
    match format {
        CompareFormat::Table => report::text(report, output::style()),
        CompareFormat::Markdown => report::markdown(report),
        CompareFormat::Json => report::verdicts_json(report),
        CompareFormat::Junit => report::junit(report),
    }
}

fn verdicts(report: &Report) -> Vec<&CaseVerdict> {
    report.verdicts.iter().map(|verdict| &verdict.what).collect()
}

/// The exit code of what is worst, and a sentence where there is no verdict to read.
pub(super) fn conclude(
    strict: bool,
    ended: Ended,
    report: &Report,
    record: Option<&Path>,
) -> Result<Exit, Failure> {
    if ended == Ended::Interrupted {
        output::say("interrupted: the record is valid, and holds what was measured until then");
        return Ok(Exit::Interrupted);
    }
    let verdicts = verdicts(report);
    // What is known of one case is not less so because nothing is said of another.
    if verdicts.iter().any(|of| of.is_regression()) {
        return Ok(Exit::Outside);
    }
    if !verdicts.iter().any(|of| of.ratio.is_some()) {
        let why = record.map_or(String::new(), |record| format!("; `{}` has the reasons", record.display()));
        return Err(Failure::new(format!("no case gave a ratio{why}")));
    }
    if verdicts.iter().any(|of| of.is_void()) {
        return Ok(Exit::Undecided);
    }
    if let Some(of) = verdicts.iter().find(|of| failed_too_often(of)) {
        let (failed, all) = (of.failed_sets, of.failed_sets + of.sets);
        output::say(&format!(
            "error: {failed} of {all} sets of {} failed, so nothing is said of it",
            of.case
        ));
        return Ok(Exit::Failed);
    }
    let is_open = strict && verdicts.iter().any(|of| of.is_inconclusive());
    Ok(if is_open { Exit::Undecided } else { Exit::Fine })
}

/// `units` are the fewest and most sets of a case, where sets are measured.
fn header(
    args: &CompareArgs,
    machine: weighbridge_record::Machine,
    seed: u64,
    units: Option<&RangeInclusive<usize>>,
) -> Header {
    let with: Vec<String> = args.with.iter().map(|path| path.display().to_string()).collect();
    let settings = [
        ("a", redact::word(&args.a.join(" "))),
        ("b", redact::word(&args.b.join(" "))),
        ("with", with.join(",")),
        ("cases", args.selection.globs.join(",")),
        ("margin", args.margin.to_string()),
        ("fdr", args.fdr.to_string()),
        ("budget", format!("{}s", args.budget.as_secs_f64())),
        ("units", units.map_or(String::new(), |units| format!("{}..{}", units.start(), units.end()))),
    ];
    measuring::header(settings, machine, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as the simulations of recorded sets need; where a set is longer, fewer fit.
    #[test]
    fn a_minute_of_one_case_is_used_for_sets() {
        let timing = Timing { sample_ns: 4_700_000, samples: 8, least_samples: 5, run_ns: 20_000_000 };
        assert!(*units(Duration::from_secs(60), timing).end() >= 600);
        let long = Timing { run_ns: 200_000_000, ..timing };
        assert!((150..200).contains(units(Duration::from_secs(60), long).end()));
        assert_eq!(units(Duration::from_secs(1), timing), 12..=USUAL_MOST);
    }
}
