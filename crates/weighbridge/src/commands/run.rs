//! `weighbridge run`: measures, and keeps what it measured whatever happens.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::crossover::{self, Listener, Search};
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::machine;
use weighbridge_lab::session::{Ended, Session, Settings, Sink};
use weighbridge_record::{End, Header, Line, SCHEMA, Tool};
use weighbridge_report::{self as report, Report};

use super::timeline::{self, timelines};
use super::{THIS_PROGRAM, look_at_host, plan};
use crate::args::{COMMIT, KERNEL_SLAB, PROFILE, Run, RunFormat};
use crate::destination::{Destination, WantedPage};
use crate::progress::Shown;
use crate::recorder::Recorder;
use crate::scope::Scope;
use crate::{Exit, Failure, output, values};

/// Measures cases.
pub fn run(args: &Run) -> Result<Exit, Failure> {
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    if args.module.is_some() {
        return Err(Failure::new(format!("--module is for --suite {KERNEL_SLAB}")));
    }
    let mut host = look_at_host()?;
    let scope = Scope::new(&args.selection, &args.effort, &mut host)?;
    if args.dry_run {
        return plan::show(&scope);
    }
    scope.check_not_empty()?;
    timeline::check(&args.timeline, &scope.cases)?;
    let destination = Destination::create(args.out.as_deref(), args.html.as_ref())?;
    warn_beforehand(&scope);
    if let Some(note) = &destination.note {
        output::warn(note);
    }
    measure(args, scope, &host, &interrupt, destination)
}

fn warn_beforehand(scope: &Scope) {
    if PROFILE == "debug" {
        output::warn("this is a debug build, and its numbers mean nothing; build with --release");
    }
    for note in scope.selected.left_out_note().iter().chain(&scope.notes) {
        output::warn(note);
    }
}

fn measure(
    args: &Run,
    scope: Scope,
    host: &Host,
    interrupt: &Interrupt,
    destination: Destination,
) -> Result<Exit, Failure> {
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(random_seed);
    let progress = if args.quiet { Shown::Not } else { Shown::on_stderr() };
    let Destination { record, writer, page, is_in_store, .. } = destination;
    let mut recorder = Recorder::new(record, writer, is_in_store, progress);
    let header = header(args, &scope, host, seed);
    let opening = std::iter::once(Line::Header(Box::new(header)))
        .chain(scope.skipped.into_iter().map(Line::Skipped))
        .try_for_each(|line| recorder.line(line));
    let settings = Settings {
        precision: scope.precision,
        budget: scope.budget,
        timing: scope.suite.timing,
        seed,
        max_runs: scope.max_runs,
        first_round: 0,
        duet: scope.suite.in_turn && !args.alone,
        count_calls: !args.no_system_calls,
    };
    let coordinator = || Coordinator::new(host, interrupt, THIS_PROGRAM.into(), seed);
    let marked: Vec<Prepared> = if args.timeline.timeline { scope.cases.clone() } else { Vec::new() };
    let ended = opening.and_then(|()| match scope.suite.crossover {
        None => Session::new(settings, coordinator(), interrupt, scope.cases).run(&mut recorder),
        Some(crossover) => {
            chart(crossover, scope.cases, &settings, host, interrupt, &coordinator, &mut recorder)
        }
    });
    let ended = match ended {
        Ok(Ended::Complete) => timelines(&args.timeline, &marked, &mut coordinator(), &mut recorder),
        ended => ended,
    };
    let complete = matches!(ended, Ok(Ended::Complete));
    // Whatever a report shows is in the record. After a failed write nothing can be added.
    let ended = ended.and_then(|ended| {
        let derived = report::derived(&Report::from_reading(recorder.reading()));
        derived.into_iter().try_for_each(|line| recorder.line(line))?;
        Ok(ended)
    });
    let closing = recorder.line(Line::End(End { complete, elapsed_s: began.elapsed().as_secs_f64() }));
    let has_numbers = recorder.has_numbers();
    let record = recorder.path().to_owned();
    let report = Report::from_reading(recorder.into_reading());

    // What was measured is shown and kept before anything is said about what went wrong.
    let printed = output::print(rendered(&report, args.format));
    let page = write_page(&report, &page, &record, is_in_store).transpose();
    let partial = Partial { record: &record, has_page: matches!(page, Some(Ok(_))), has_numbers };
    if !args.quiet {
        output::say(&format!("record: {}", record.display()));
        if let Some(Ok(page)) = &page {
            output::say(&format!("page:   {}", page.display()));
        }
    }
    let ended = ended.and_then(|ended| closing.map(|()| ended)).map_err(|error| {
        Failure::new(format!(
            "cannot write to `{}`: {error}; {}",
            record.display(),
            if has_numbers { "it holds what was measured until then" } else { "no case has a number yet" }
        ))
    });
    conclude(ended, [printed, page.transpose().map(|_| ())], &partial)
}

/// Measures cases, then searches for the size at which two mechanisms are equally fast, which has a fifth of the time to
/// itself.
fn chart<'c>(
    (first, second): (&str, &str),
    cases: Vec<Prepared>,
    settings: &Settings,
    host: &Host,
    interrupt: &'c Interrupt,
    coordinator: &dyn Fn() -> Coordinator<'c>,
    recorder: &mut Recorder,
) -> io::Result<Ended> {
    let began = Instant::now();
    let sizes = Settings { budget: settings.budget * 4 / 5, ..settings.clone() };
    let mut listener = Listener::new(recorder, 0);
    let ended = Session::new(sizes, coordinator(), interrupt, cases).run(&mut listener)?;
    let (summaries, first_round) = listener.heard();
    if ended == Ended::Interrupted {
        return Ok(ended);
    }
    let budget = settings.budget.saturating_sub(began.elapsed());
    let settings = Settings { budget, first_round, ..settings.clone() };
    crossover::run(Search::all(first, second, &summaries), host, &settings, interrupt, coordinator, recorder)
}

/// A record that ends early, and what it is good for.
struct Partial<'a> {
    record: &'a Path,
    has_page: bool,
    has_numbers: bool,
}

impl fmt::Display for Partial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.has_numbers {
            return f.write_str("the record is valid, but no case has a number yet");
        }
        f.write_str("the record is valid, and holds what was measured until then")?;
        if self.has_page {
            return f.write_str("; so does the page");
        }
        let page = self.record.with_extension("html");
        let [record, page] = [self.record, &page].map(values::quoted);
        write!(f, "; `weighbridge report {record} --format html --out {page}` makes a page of it")
    }
}

/// One sentence for each thing that went wrong, and the exit code of the worst.
fn conclude(
    ended: Result<Ended, Failure>,
    afterwards: [Result<(), Failure>; 2],
    partial: &Partial<'_>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Fine;
    for failure in afterwards.into_iter().filter_map(Result::err) {
        output::say(&format!("error: {failure}"));
        exit = Exit::Incomplete;
    }
    match ended? {
        Ended::Interrupted => {
            output::say(&format!("interrupted: {partial}"));
            Ok(Exit::Interrupted)
        }
        Ended::Complete if !partial.has_numbers => {
            Err(Failure::new("no case gave a number; the record has the reasons"))
        }
        Ended::Complete => Ok(exit),
    }
}

fn header(args: &Run, scope: &Scope, host: &Host, seed: u64) -> Header {
    header_with(scope.settings(&args.selection), host, seed)
}

/// The header of a record that is begun now, with these settings.
pub(super) fn header_with(settings: BTreeMap<String, String>, host: &Host, seed: u64) -> Header {
    Header {
        schema: SCHEMA,
        tool: Tool {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: COMMIT.map(str::to_owned),
            profile: PROFILE.into(),
        },
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        command: crate::args::typed(),
        seed,
        settings,
        machine: machine::describe(host),
    }
}

/// Small enough for every reader of JSON to keep it exact.
pub(super) fn random_seed() -> u64 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u32::from_ne_bytes(bytes).into(),
        // Only the order of runs depends on it.
        Err(_) => std::process::id().into(),
    }
}

pub(super) fn rendered(report: &Report, format: RunFormat) -> String {
    match format {
        RunFormat::Table => report::text(report, output::style()),
        RunFormat::Markdown => report::markdown(report),
        RunFormat::Csv => report::csv(report),
        RunFormat::Json => report::json(report),
    }
}

/// Writes the page that is wanted, if any, and says where it is. One that finds no room in the store goes to the current
/// folder.
pub(super) fn write_page(
    report: &Report,
    page: &WantedPage,
    record: &Path,
    is_in_store: bool,
) -> Result<Option<PathBuf>, Failure> {
    let (page, may_move) = match page {
        WantedPage::None => return Ok(None),
        WantedPage::OfRecord => (record.with_extension("html"), is_in_store),
        WantedPage::File(page) => (page.clone(), false),
    };
    let html = report::html(report);
    let Err(error) = super::report::write_new(&page, html.as_bytes()) else { return Ok(Some(page)) };
    if let Some(name) = page.file_name().map(PathBuf::from).filter(|_| may_move)
        && super::report::write_new(&name, html.as_bytes()).is_ok()
    {
        output::warn(&format!(
            "cannot create `{}`: {error}; the page is in the current folder",
            page.display()
        ));
        return Ok(Some(name));
    }
    // What was measured is in the record, so nothing has to be measured again.
    Err(Failure::new(format!(
        "cannot create `{}`: {error}; `weighbridge report {} --format html --out FILE` makes the page elsewhere",
        page.display(),
        values::quoted(record)
    )))
}
