//! What would be measured on this machine, what not, and how long it takes: common to `run` and `plan`.

use std::collections::BTreeMap;
use std::time::Duration;

use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::host::Host;
use weighbridge_harness::plan::{self, Changes, Estimate, Suite};
use weighbridge_harness::planner::Timing;
use weighbridge_harness::session::expected_run;
use weighbridge_harness::shared::MAX_SAMPLES;
use weighbridge_record::{CaseId, Skipped};
use weighbridge_stats::stopping::LOOKS;

use crate::Failure;
use crate::args::{Effort, KERNEL_SLAB, Selection};
use crate::harness;
use crate::select::{self, Rows, Selected};
use crate::values::{spoken, spoken_size};

/// The cases of an invocation and the effort that they are worth.
#[derive(Debug)]
pub struct Scope {
    pub suite: &'static Suite,
    /// Length and number of samples: those of the suite, what was asked for, or shortened to fit the budget.
    pub timing: Timing,
    /// What share of their usual length runs have, where the budget is short.
    pub shortened: Option<f64>,
    /// Are its cases what is selected from? Otherwise it only lends its timing.
    pub is_of_suite: bool,
    /// What each word was understood as, and what was left out.
    pub selected: Selected,
    /// Cases of the harness that were added, the first of all.
    pub harness: usize,
    /// To be measured.
    pub cases: Vec<Prepared>,
    /// Not to be measured here, and why.
    pub skipped: Vec<Skipped>,
    /// What the user should know before it begins.
    pub notes: Vec<String>,
    /// Relative half-width of the interval to be reached.
    pub precision: f64,
    pub budget: Duration,
    pub max_runs: usize,
}

impl Scope {
    /// Works out what the command line means here. `host` learns which CPUs may be measured on.
    pub fn new(selection: &Selection, effort: &Effort, host: &mut Host) -> Result<Scope, Failure> {
        let (selected, suite) = select(selection, host)?;
        let (mut cases, skipped) = prepared(&selected, host)?;
        let missing = harness::missing(&cases, host);
        let harness = missing.len();
        cases.splice(0..0, missing);
        let mut scope = Scope {
            suite,
            timing: timing(suite, effort)?,
            shortened: None,
            is_of_suite: selection.suite.is_some()
                || selection.globs.is_empty()
                || named_suite(selection).is_some(),
            selected,
            harness,
            skipped,
            notes: Vec::new(),
            precision: effort.precision.unwrap_or(suite.precision),
            budget: effort.budget.unwrap_or(suite.budget),
            max_runs: effort.max_runs.into(),
            cases,
        };
        if effort.run_time.is_some() || effort.interval.is_some() {
            scope.check_intervals()?;
        } else if effort.budget.is_some() {
            scope.shorten();
        }
        scope.check_budget()?;
        Ok(scope)
    }

    /// The fewest and the most that it takes.
    pub fn estimate(&self) -> Estimate {
        plan::estimate(self.cases.len(), self.timing, self.budget, self.max_runs)
    }

    /// Refuses a scope with nothing to measure, with a reason.
    pub fn check_not_empty(&self) -> Result<(), Failure> {
        let all = match self.skipped.len() {
            1 => "the only case is".into(),
            count => format!("all {count} cases are"),
        };
        match self.skipped.first() {
            Some(Skipped { case, why, .. }) if self.cases.is_empty() => Err(Failure::mistake(format!(
                "nothing is left to measure: {all} skipped here, {case}: {why}"
            ))),
            _ => Ok(()),
        }
    }

    /// Shortens runs where the budget is less than half of what the suite has for so many cases, or less than a first look at each case takes:
    /// each row is measured before any is measured well.
    fn shorten(&mut self) {
        let of_suite = self.is_of_suite.then_some(self.suite);
        let short = short(self.timing, self.budget, self.max_runs, self.cases.len(), of_suite);
        let Some((share, timing)) = short else { return };
        (self.timing, self.shortened) = (timing, Some(share));
        self.notes.push(format!(
            "the budget of {} is short: runs have {:.0} % of their usual length, small payloads come first, and system calls are not counted",
            spoken(self.budget),
            share * 100.0
        ));
        // What costs most comes last, so that what the budget does not hold is few rows.
        self.cases.sort_by_key(|case| memory_bytes(&case.params.id));
    }

    /// Only some patterns have intervals that follow each other without a gap.
    fn check_intervals(&self) -> Result<(), Failure> {
        check_intervals(self.cases.iter().skip(self.harness).map(|case| &case.params.id))
    }

    fn check_budget(&mut self) -> Result<(), Failure> {
        let one_run = expected_run(self.timing);
        let (budget, needed) = (spoken(self.budget), LOOKS[0]);
        if self.budget < one_run {
            let one_run = spoken(one_run);
            return Err(Failure::mistake(format!(
                "--budget {budget} is too small for one run, which takes about {one_run}; give more"
            )));
        }
        let (cases, most) = (self.cases.len(), self.max_runs);
        let unbounded = plan::estimate(cases, self.timing, Duration::MAX, most);
        if unbounded.least > self.budget {
            let (runs, least) = (needed.min(most), spoken(unbounded.least));
            self.notes.push(format!(
                "{runs} runs of each of {cases} cases take about {least}, more than the budget of {budget}: some cases will have no \
                 interval; raise --budget, or select fewer cases"
            ));
        }
        if most < needed {
            self.notes
                .push(format!("--runs {most} gives no intervals; an interval of 95 % needs {needed} runs"));
        }
        Ok(())
    }

    /// What was asked for, by the name of the flag, as the record keeps those that are not empty.
    pub fn settings(&self, selection: &Selection) -> BTreeMap<String, String> {
        let Selection { globs, sizes, place, wait, set, target, cpus, .. } = selection;
        let sizes = sizes.iter().flat_map(|sizes| &sizes.0).map(u64::to_string).collect::<Vec<_>>();
        let cpus = cpus.iter().flat_map(|cpus| &cpus.0).map(u32::to_string).collect::<Vec<_>>();
        let fixed = [
            ("precision", self.precision.to_string()),
            ("budget", format!("{}s", self.budget.as_secs_f64())),
            ("runs", self.max_runs.to_string()),
            ("shortened", self.shortened.map_or(String::new(), |share| format!("{share:.3}"))),
            ("suite", if self.is_of_suite { self.suite.name.to_owned() } else { String::new() }),
            ("cases", globs.join(",")),
            ("sizes", sizes.join(",")),
            ("place", place.join(",")),
            ("wait", wait.join(",")),
            ("cpus", cpus.join(",")),
            ("target", target.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value)).into_iter();
        fixed.chain(set.iter().map(|set| (format!("set.{}", set.axis), set.values.join(",")))).collect()
    }
}

/// The share of their usual length that runs of so many cases have where the budget is short, with the timing that they have then.
pub fn short(
    timing: Timing,
    budget: Duration,
    max_runs: usize,
    cases: usize,
    of_suite: Option<&Suite>,
) -> Option<(f64, Timing)> {
    let budget_s = budget.as_secs_f64();
    let looks = plan::estimate(cases, timing, Duration::MAX, max_runs.min(LOOKS[0]));
    let usual = |suite: &Suite| suite.budget.as_secs_f64() / suite.cases(&Changes::default()).len() as f64;
    let of_usual = of_suite.map_or(1.0, |suite| budget_s / (usual(suite) * cases.max(1) as f64));
    let share = of_usual.min(budget_s / looks.least.as_secs_f64().max(f64::MIN_POSITIVE));
    if share >= SHORT {
        return None;
    }
    let share = share.max(SHORTEST);
    let Timing { sample_ns, run_ns, .. } = timing;
    let shorter = |ns: u64| (ns as f64 * share) as u64;
    Some((share, Timing { sample_ns: shorter(sample_ns), run_ns: shorter(run_ns), ..timing }))
}

/// A budget below this share of the usual one shortens runs.
const SHORT: f64 = 0.5;
/// Runs are not shortened further: batches of fewer operations would measure the clock.
const SHORTEST: f64 = 0.05;

/// Refuses intervals for cases that are measured in operations.
pub fn check_intervals<'a>(mut cases: impl Iterator<Item = &'a CaseId>) -> Result<(), Failure> {
    match cases.find(|case| !["fan-in", "stream"].contains(&case.pattern.as_str())) {
        None => Ok(()),
        Some(case) => Err(Failure::mistake(format!(
            "--run-time and --interval are for fan-in and streams, which are measured in intervals; {case} is measured in operations"
        ))),
    }
}

/// What a case keeps in memory, about.
pub fn memory_bytes(id: &CaseId) -> u64 {
    let of_axis = |axis: &str| id.axes.get(axis).and_then(|value| value.parse::<u64>().ok()).unwrap_or(1);
    id.payload_bytes.saturating_mul(of_axis("roles")).max(of_axis("working-set"))
}

/// Length and number of samples: those of the suite, or those that were asked for.
pub fn timing(suite: &Suite, effort: &Effort) -> Result<Timing, Failure> {
    let Effort { run_time, interval, .. } = effort;
    if run_time.is_none() && interval.is_none() {
        return Ok(suite.timing);
    }
    let usual = suite.timing;
    let interval = interval.map_or(usual.sample_ns, |interval| interval.as_nanos() as u64);
    let run_ns =
        run_time.map_or(interval.saturating_mul(usual.samples as u64), |time| time.as_nanos() as u64);
    let samples = (run_ns / interval.max(1)) as usize;
    if !(1..=MAX_SAMPLES).contains(&samples) {
        return Err(Failure::mistake(format!(
            "a run of {} has {samples} intervals of {}; it may have 1 to {MAX_SAMPLES}: change --run-time or --interval",
            spoken(Duration::from_nanos(run_ns)),
            spoken(Duration::from_nanos(interval))
        )));
    }
    Ok(Timing { sample_ns: interval, samples, least_samples: samples, run_ns })
}

/// The suite whose rows another tool names so, where no other is asked for.
pub fn named_suite(selection: &Selection) -> Option<&'static Suite> {
    if selection.suite.is_some() {
        return None;
    }
    selection.globs.first().and_then(|word| Rows::find(word)).map(|rows| rows.suite)
}

/// The cases that a command line selects, before it is known which of them can run here, and the suite whose timing they have.
/// `host` learns which CPUs may be measured on.
pub fn select(selection: &Selection, host: &mut Host) -> Result<(Selected, &'static Suite), Failure> {
    choose_cpus(selection, host)?;
    let (selected, suite) = select_anywhere(selection)?;
    let info = rustix::system::sysinfo();
    let memory_bytes = (info.totalram as u64).saturating_mul(info.mem_unit.into());
    if let Some(id) = selected.ids().find(|id| id.payload_bytes > memory_bytes / 8) {
        return Err(Failure::mistake(format!(
            "a payload of {} is more than an eighth of this machine's memory ({} MiB); the largest here is {} MiB",
            spoken_size(id.payload_bytes),
            memory_bytes >> 20,
            memory_bytes >> 23
        )));
    }
    Ok((selected, suite))
}

/// The same, whatever this machine is.
pub fn select_anywhere(selection: &Selection) -> Result<(Selected, &'static Suite), Failure> {
    if selection.suite.as_deref() == Some(KERNEL_SLAB) {
        return Err(no_cases_of_kernel());
    }
    let suite = selection.suite.as_deref().and_then(Suite::find);
    let selected = select::select(&selection.globs, suite, &changes(selection)?)?;
    Ok((selected, suite.or_else(|| named_suite(selection)).unwrap_or_else(Suite::first)))
}

fn no_cases_of_kernel() -> Failure {
    Failure::mistake(format!(
        "the suite {KERNEL_SLAB} has no cases of the laboratory; `weighbridge run --suite {KERNEL_SLAB} --module kernel --dry-run` \
         lists its tests"
    ))
}

/// Those of the cases that can run here, and why the others cannot.
pub fn prepared(selected: &Selected, host: &Host) -> Result<(Vec<Prepared>, Vec<Skipped>), Failure> {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for id in selected.ids() {
        match catalogue::prepare(id, host) {
            Ok(case) => cases.push(case),
            Err(Refusal::NotHere(why)) => skipped.push(Skipped { case: id.clone(), step: "fit".into(), why }),
            Err(Refusal::NoSuchCase(why)) => return Err(Failure::mistake(format!("no case `{id}`: {why}"))),
        }
    }
    Ok((cases, skipped))
}

/// Takes the CPUs that were asked for, or refuses them.
pub fn choose_cpus(selection: &Selection, host: &mut Host) -> Result<(), Failure> {
    let Some(cpus) = selection.cpus.as_ref().filter(|cpus| !cpus.0.is_empty()) else { return Ok(()) };
    if let Some(why) = &host.pin_refused {
        return Err(Failure::mistake(format!(
            "--cpus needs to pin threads, and that is refused here: {why}"
        )));
    }
    if let Some(cpu) = cpus.0.iter().find(|cpu| !host.allowed_cpus.contains(cpu)) {
        let allowed: Vec<String> = host.allowed_cpus.iter().map(u32::to_string).collect();
        return Err(Failure::mistake(format!(
            "this process may not use CPU {cpu}; it may use {}",
            allowed.join(",")
        )));
    }
    host.measured_cpus.clone_from(&cpus.0);
    Ok(())
}

fn changes(selection: &Selection) -> Result<Changes, Failure> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    if !selection.wait.is_empty() {
        axes.push(("wait".into(), selection.wait.clone()));
    }
    for set in &selection.set {
        if axes.iter().any(|(axis, _)| *axis == set.axis) {
            return Err(Failure::mistake(format!(
                "axis {} is set twice; give all its values at once, as in --set {0}=V1,V2",
                set.axis
            )));
        }
        let values = set.values.iter().map(|value| select::written_out(&set.axis, value)).collect();
        axes.push((set.axis.clone(), values));
    }
    let placements = Some(selection.place.clone()).filter(|place| !place.is_empty());
    Ok(Changes { sizes: selection.sizes.as_ref().map(|sizes| sizes.0.clone()), placements, axes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::{Case, Header, Line, Machine, PerOp, Reading, SCHEMA, Summary, Tool};
    use weighbridge_report::{Report, Section, sections};

    /// What a record of the suite would hold if all these cases cost the same: 50 µs, and 12 µs of a broker's with two switches.
    fn section(suite: &Suite, cases: &[CaseId]) -> Section {
        let header = Header {
            schema: SCHEMA,
            tool: Tool::default(),
            started: "2026-01-02T03:04:05Z".into(),
            command: Vec::new(),
            seed: 1,
            settings: BTreeMap::from([("suite".to_owned(), suite.name.to_owned())]),
            machine: Machine::default(),
            ..Header::default()
        };
        let series = [("alloc_ns", 60.0), ("free_ns", 40.0), ("switches_per_message", 12.0)];
        let lines = cases.iter().flat_map(|id| {
            let (_, pattern, params) = catalogue::resolve(id).unwrap();
            let unit = pattern.unit.name(id.payload_bytes);
            let case = Case {
                case: id.clone(),
                pattern: id.pattern.clone(),
                mechanism: id.mechanism.clone(),
                payload_bytes: id.payload_bytes,
                placement: id.placement.clone(),
                resolved_placement: id.placement.clone(),
                cpus: Vec::new(),
                places: Vec::new(),
                roles: Vec::new(),
                axes: params.axes,
                unit: unit.clone(),
                higher_is_better: pattern.unit.higher_is_better(),
                measured_alone: None,
                facts: BTreeMap::new(),
                traits: None,
                properties: None,
            };
            let broker = PerOp { voluntary_switches: 2.0, cpu_ns: 12_000.0, ..PerOp::default() };
            let summary = Summary {
                ci95: Some([49_000.0, 51_000.0]),
                range: [48_000.0, 52_000.0],
                beside: BTreeMap::from([("broker".to_owned(), broker)]),
                series: series.map(|(name, value)| (name.to_owned(), value)).into(),
                ..Summary::new(id.clone(), unit, 6, 50_000.0)
            };
            [Line::Case(case), Line::Summary(summary)]
        });
        let lines = std::iter::once(Line::Header(Box::new(header))).chain(lines).collect();
        let mut sections = sections(&Report::from_reading(Reading { lines, problems: Vec::new() }));
        assert_eq!(sections.len(), 1, "{}", suite.name);
        sections.remove(0)
    }

    /// The laboratory and the brokers have the cases and the report has the tables, and neither knows the other.
    #[test]
    fn every_case_of_a_suite_has_its_cell_and_every_cell_its_case_and_its_published_figure() {
        crate::register();
        let names = ["ibench", "kdbench", "epoll_bench", "slab_test", "akbench", "scaling"];
        for name in names.into_iter().chain(weighbridge_dbus_bench::SUITES.iter().map(|suite| suite.name)) {
            let suite = Suite::find(name).unwrap();
            let cases = suite.cases(&Changes::default());
            let whole = section(suite, &cases);
            let text = format!("{whole:?}");
            assert!(!text.contains("not measured"), "{name}: {whole:#?}");
            // Large charts are the same line after line.
            for index in (0..cases.len()).step_by(if cases.len() > 100 { 7 } else { 1 }) {
                let mut rest = cases.clone();
                let missing = rest.remove(index);
                assert_ne!(section(suite, &rest), whole, "{name} has no cell for {missing}");
            }
            // 50 µs over the published 388.7 µs; the switches of the experiments; 50 µs for 8 rows over 32.874 s.
            let published: &[&str] = match name {
                "dbus-ping-pong" => &["\"388.7\"", "\"0.129\"", "\"2800\""],
                "signal-fan-out" => &["\"22\"", "\"12\"", "50.0 −4.0+4.0% · 12", "\"524\"", "\"1026\""],
                "tracker" => &["\"32.874\"", "\"0.0570\""],
                _ if names.contains(&name) => &[],
                _ => &["12.0 · 2"],
            };
            for figure in published {
                assert!(text.contains(figure), "{name} without {figure}: {whole:#?}");
            }
        }
    }
}
