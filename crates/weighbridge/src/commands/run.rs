//! `weighbridge run`: measures, and keeps what it measured whatever happens.

use std::io;
use std::time::Instant;

use weighbridge_harness::contract::Prepared;
use weighbridge_harness::crossover::{self, Listener, Search};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::machine;
use weighbridge_harness::session::{Ended, Session, Settings, Sink};
use weighbridge_record::{CaseId, Line, outcomes};
use weighbridge_report::{self as report, Report};

use super::explain::timeline::{self, timelines};
use super::measuring::{Bench, Closed, Measuring, header, interrupt, random_seed, warn_of_debug_build};
use super::{look_at_host, plan, planned};
use crate::args::{KERNEL_SLAB, Run, RunFormat};
use crate::destination::Destination;
use crate::recorder::Recorder;
use crate::scope::Scope;
use crate::{Exit, Failure, output, store, values};

pub fn run(args: &Run) -> Result<Exit, Failure> {
    if let (Some(plan), Some(folder)) = (&args.plan, &args.out_dir) {
        return planned::run(args, plan, folder);
    }
    let interrupt = interrupt()?;
    if args.module.is_some() {
        return Err(Failure::mistake(format!("--module is for --suite {KERNEL_SLAB}")));
    }
    let mut host = look_at_host()?;
    let scope = Scope::new(&args.selection, &args.effort, &mut host)?;
    if args.dry_run {
        return plan::show(&scope);
    }
    scope.check_not_empty()?;
    plan::detail(&scope);
    timeline::check(&args.timeline, &scope.cases)?;
    let destination = Destination::create(args.output.of.out.as_deref(), args.output.html.as_ref())?;
    warn_of_debug_build();
    scope.selected.left_out_note().iter().chain(&scope.notes).for_each(|note| output::warn(note));
    let (closed, has_numbers) = measure(args, scope, &host, &interrupt, destination);
    conclude(closed, args.output.of.format, has_numbers)
}

/// The record, and whether it has a number.
pub(super) fn measure(
    args: &Run,
    scope: Scope,
    host: &Host,
    interrupt: &Interrupt,
    destination: Destination,
) -> (Closed, bool) {
    let bench =
        Bench { host, interrupt, seed: args.seed.unwrap_or_else(random_seed), is_watched: args.progress };
    let mut asked = scope.settings(&args.selection);
    asked.extend(args.memory_bandwidth.map(|rate| ("memory-bandwidth".to_owned(), rate.to_string())));
    asked.extend(args.progress.then(|| ("progress".to_owned(), "each second".to_owned())));
    let of_intervals = [("run-time", args.effort.run_time), ("interval", args.effort.interval)];
    let is_timed = of_intervals.iter().any(|(_, time)| time.is_some());
    asked.extend(
        of_intervals
            .into_iter()
            .filter_map(|(name, time)| Some((name.to_owned(), format!("{}s", time?.as_secs_f64())))),
    );
    let header = header(asked, machine::describe(host), bench.seed);
    let earlier = store::earlier(&header);
    let wanted: Vec<CaseId> = scope.cases.iter().map(|case| case.params.id.clone()).collect();
    // Lines that are written below each other leave no room for one that is drawn anew.
    let mut measuring = Measuring::begin(destination, args.output.of.quiet || args.progress);
    let opening = measuring.open(header, scope.skipped);
    let settings = Settings {
        precision: scope.precision,
        budget: scope.budget,
        timing: scope.timing,
        seed: bench.seed,
        max_runs: scope.max_runs,
        first_round: 0,
        // A case in turns has slices in place of intervals.
        duet: scope.suite.in_turn && !args.alone && !is_timed,
        count_calls: !args.no_system_calls && scope.shortened.is_none(),
        is_short: scope.shortened.is_some(),
        earlier,
    };
    let marked: Vec<Prepared> = if args.timeline.timeline { scope.cases.clone() } else { Vec::new() };
    let recorder = &mut measuring.recorder;
    let ended = opening.and_then(|()| match scope.suite.crossover {
        None => Session::new(settings, bench.coordinator(), interrupt, scope.cases).run(recorder),
        Some(crossovers) => chart(crossovers, scope.cases, &settings, bench, recorder),
    });
    let ended = match ended {
        Ok(Ended::Complete) => timelines(&args.timeline, &marked, &mut bench.coordinator(), recorder),
        ended => ended,
    };
    // Whatever a report shows is in the record. After a failed write nothing can be added.
    let ended = ended.and_then(|ended| {
        let derived = report::derived(&Report::from_reading(recorder.reading()));
        derived.into_iter().try_for_each(|line| recorder.line(line))?;
        let outcomes = outcomes(&recorder.reading(), &wanted);
        outcomes.into_iter().try_for_each(|outcome| recorder.line(Line::Outcome(outcome)))?;
        Ok(ended)
    });
    let has_numbers = recorder.has_numbers();
    (measuring.close(ended), has_numbers)
}

/// Shows what was found; one sentence for each thing that went wrong, and the exit code of the worst.
fn conclude(closed: Closed, format: RunFormat, has_numbers: bool) -> Result<Exit, Failure> {
    let Closed { ended, report, files, .. } = closed;
    let told = files.show(&report, rendered(&report, format));
    let has_page = matches!(told.page, Ok(Some(_)));
    let mut exit = Exit::Fine;
    for failure in told.printed.err().into_iter().chain(told.page.err()) {
        output::say(&format!("error: {failure}"));
        exit = Exit::Failed;
    }
    let record = &files.record;
    let holds =
        if has_numbers { "it holds what was measured until then" } else { "no case has a number yet" };
    let ended = ended
        .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}; {holds}", record.display())))?;
    if ended == Ended::Interrupted {
        let what = match (has_numbers, has_page) {
            (false, _) => ", but no case has a number yet".to_owned(),
            (true, true) => ", and holds what was measured until then; so does the page".to_owned(),
            (true, false) => {
                let [record, page] =
                    [record, &record.with_extension("html")].map(|path| values::quoted(path));
                format!(
                    ", and holds what was measured until then; `weighbridge report {record} --format html --out {page}` makes a page of it"
                )
            }
        };
        output::say(&format!("interrupted: the record is valid{what}"));
        return Ok(Exit::Interrupted);
    }
    if report.is_void() {
        return Ok(Exit::Undecided);
    }
    if !has_numbers {
        return Err(Failure::new("no case gave a number; the record has the reasons"));
    }
    Ok(exit)
}

/// Measures cases, then searches for the sizes at which pairs of mechanisms are equally fast, which has a fifth of the time to
/// itself.
fn chart(
    crossovers: &[(&str, &str)],
    cases: Vec<Prepared>,
    settings: &Settings,
    bench: Bench<'_>,
    recorder: &mut Recorder,
) -> io::Result<Ended> {
    let began = Instant::now();
    let sizes = Settings { budget: settings.budget * 4 / 5, ..settings.clone() };
    let mut listener = Listener::new(recorder, 0);
    let ended = Session::new(sizes, bench.coordinator(), bench.interrupt, cases).run(&mut listener)?;
    let (summaries, first_round) = listener.heard();
    if ended == Ended::Interrupted {
        return Ok(ended);
    }
    let budget = settings.budget.saturating_sub(began.elapsed());
    let settings = Settings { budget, first_round, ..settings.clone() };
    let Bench { host, interrupt, .. } = bench;
    let coordinator = || bench.coordinator();
    let searches = crossovers.iter().flat_map(|(first, second)| Search::all(first, second, &summaries));
    crossover::run(searches.collect(), host, &settings, interrupt, coordinator, recorder)
}

pub(super) fn rendered(report: &Report, format: RunFormat) -> String {
    match format {
        RunFormat::Table => report::text(report, output::style()),
        RunFormat::Markdown => report::markdown(report),
        RunFormat::Csv => report::csv(report),
        RunFormat::Json => report::json(report),
    }
}
