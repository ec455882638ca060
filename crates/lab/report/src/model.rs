//! What a report is about: the lines of one or more records, put together case by case.
//!
//! Nothing is rounded, ordered by speed, or worded here; that is for the renderers. Runs are made in random order, and
//! so `case` lines are in random order too; `summary` lines are in the order of the plan, and cases take theirs.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use weighbridge_record::earlier::session_range;
use weighbridge_record::{
    Case, CaseId, CaseVerdict, Check, Claims, Comparison, Contest, Crossover, Difference, End, Explanation,
    Findings, Functions, FunctionsCompared, Header, Hub, Line, Observation, Price, Problem, Profile,
    Published, Ratio, Reading, Run, Skipped, StoppedBy, Summary, Timeline, derive, laws,
};

use crate::unfinished;
use crate::words::test_name;

/// The mechanism that is the harness itself.
pub const HARNESS: &str = "noop";

/// Everything that the renderers show.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The records, in the order given.
    pub sources: Vec<Source>,
    /// Every case that a record names with a `case`, `run` or `summary` line: record by record, first those with a
    /// `summary` line in the order of these, then the others in the order in which the record names them.
    pub cases: Vec<Measured>,
    /// Ratios between cases.
    pub comparisons: Vec<Sourced<Comparison>>,
    /// Cases that differ in the mechanism, and which order of them is sure: those of the records, or what follows from their runs.
    pub contests: Vec<Sourced<Contest>>,
    /// What holds of all contests of a record together.
    pub findings: Vec<Sourced<Findings>>,
    /// Is the report only about cases as compared with a baseline that was chosen for it?
    pub is_compared: bool,
    /// Figures of cases as multiples of a baseline's: those of the records, or of the baseline chosen.
    pub ratios: Vec<Sourced<Ratio>>,
    /// Sizes at which two mechanisms cost the same.
    pub crossovers: Vec<Sourced<Crossover>>,
    /// Published figures beside ours.
    pub published: Vec<Sourced<Published>>,
    /// Figures of other tools and ours, measured in turn.
    pub checks: Vec<Sourced<Check>>,
    /// Verdicts on one side of a comparison against the other.
    pub verdicts: Vec<Sourced<CaseVerdict>>,
    /// What holds of all cases of a comparison together.
    pub claims: Vec<Sourced<Claims>>,
    /// What one of something costs.
    pub prices: Vec<Sourced<Price>>,
    /// What the costs of cases are made of.
    pub explanations: Vec<Sourced<Explanation>>,
    /// What the kernel did while cases ran.
    pub observations: Vec<Sourced<Observation>>,
    /// Where the time of observed cases went.
    pub profiles: Vec<Sourced<Profile>>,
    /// How two observed cases differ.
    pub differences: Vec<Sourced<Difference>>,
    /// When each thing happens in an operation.
    pub timelines: Vec<Sourced<Timeline>>,
    /// Instructions by function, counted in guests.
    pub functions: Vec<Sourced<Functions>>,
    /// The functions of two cases or kernels compared.
    pub functions_compared: Vec<Sourced<FunctionsCompared>>,
    /// What gave no number.
    pub skipped: Vec<Sourced<Skipped>>,
}

/// One record.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What the record is called where several stand side by side; may be empty for a single one.
    pub name: String,
    /// Its first line, unless that is lost.
    pub header: Option<Header>,
    /// Its last line, unless that is lost.
    pub end: Option<End>,
    /// The hubs of its session: how steady the machine was.
    pub hubs: Vec<Hub>,
    /// Lines that could not be used.
    pub problems: Vec<Problem>,
}

/// Something that one of the records says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sourced<T> {
    /// Index into [`Report::sources`].
    #[serde(rename = "record")]
    pub source: usize,
    /// The item of the record.
    #[serde(flatten)]
    pub what: T,
}

/// One case of one record.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Index into [`Report::sources`].
    pub source: usize,
    /// Its id.
    pub id: CaseId,
    /// Its effective settings.
    pub case: Option<Case>,
    /// What its runs amount to; absent when it never ran to an end.
    pub summary: Option<Summary>,
    /// Its runs.
    pub runs: Vec<Run>,
    /// Was the summary computed for this report, because the record ended before it was written?
    pub is_computed: bool,
}

impl Measured {
    /// The unit of its figures, where the record tells it.
    pub fn unit(&self) -> Option<&str> {
        let summary = self.summary.as_ref().map(|summary| summary.unit.as_str());
        summary.or(self.case.as_ref().map(|case| case.unit.as_str()))
    }

    /// Is a larger figure better? Without a `case` line a unit per second says yes.
    pub fn higher_is_better(&self) -> bool {
        match &self.case {
            Some(case) => case.higher_is_better,
            None => self.unit().is_some_and(|unit| unit.ends_with("/s")),
        }
    }

    /// Did a counter check fail, or was something lost?
    pub fn has_anomalies(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| !summary.anomalies.is_empty())
    }

    /// Was it something else than one steady state?
    pub fn has_regimes(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| !summary.regimes.is_empty())
    }

    /// Of the runs of which this holds, the one whose value is nearest to the median of all.
    pub fn middle_run(&self, is_usable: impl Fn(&Run) -> bool) -> Option<&Run> {
        let median = self.summary.as_ref()?.median;
        let distance = |run: &&Run| (run.value - median).abs();
        let usable = self.runs.iter().filter(|run| is_usable(run));
        usable.min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// Is it the harness measured against itself, which is not a mechanism?
    pub fn is_harness(&self) -> bool {
        self.id.mechanism == HARNESS
    }
}

impl Report {
    /// Did every machine count instructions in place of time?
    pub fn counts_instructions(&self) -> bool {
        let counts = |source: &Source| {
            source.header.as_ref().is_some_and(|header| header.machine.clock.counts_instructions())
        };
        !self.sources.is_empty() && self.sources.iter().all(counts)
    }

    /// A report on one record.
    pub fn from_reading(reading: Reading) -> Report {
        Report::from_readings([(String::new(), reading)])
    }

    /// A report on several records side by side, each with a name that tells it from the others.
    pub fn from_readings(readings: impl IntoIterator<Item = (String, Reading)>) -> Report {
        let mut report = Report::default();
        for (name, reading) in readings {
            report.add(name, reading);
        }
        report
    }

    /// Compares every case of the sort of `baseline` with it, in all its figures, in place of ratios of the records. Times are
    /// compared with times of any unit, rates with rates of the same unit; payloads must be equal, unless the baseline has none.
    ///
    /// # Errors
    /// A sentence, where no record has a figure of that case, or nothing that can be compared with it.
    pub fn with_baseline(mut self, baseline: &CaseId) -> Result<Report, String> {
        let base = self.cases.iter().find(|case| case.id == *baseline && case.summary.is_some());
        let base = base.ok_or_else(|| {
            format!("no figure of `{baseline}` is in the record; `weighbridge report RECORD` shows which cases are")
        })?;
        let others =
            self.cases.iter().filter(|case| case.source == base.source && is_of_the_sort_of(base, case));
        let ratios = others.flat_map(|case| sourced(base.source, ratios(base, case, None)));
        self.ratios = ratios.filter(|ratio| ratio.what.pairs > 0).collect();
        if self.ratios.is_empty() {
            return Err(format!("no other case of the record can be compared with `{baseline}`"));
        }
        self.is_compared = true;
        Ok(self)
    }

    /// Compares every case with that of the same id of another record, in place of ratios of the records. Such a comparison is
    /// not interleaved. Of cases that took turns with the same hub, the multiples of its cost are compared first.
    ///
    /// # Errors
    /// A sentence, where the two records have no case in common, or are of different machines and not `across_machines`.
    pub fn with_baseline_record(
        mut self,
        name: &str,
        baseline: Reading,
        across_machines: bool,
    ) -> Result<Report, String> {
        let baseline = Report::from_reading(baseline);
        let foreign: Vec<Option<String>> =
            self.sources.iter().map(|source| other_machine(source, &baseline.sources[0])).collect();
        if let Some(what) = foreign.iter().flatten().next().filter(|_| !across_machines) {
            return Err(format!(
                "`{name}` is of another machine ({what}), so a ratio would be one of machines; --across-machines compares them \
                 nevertheless"
            ));
        }
        let of_case = |case: &Measured| {
            let base = baseline.cases.iter().find(|base| base.id == case.id && base.unit() == case.unit());
            let mut found =
                base.map_or(Vec::new(), |base| sourced(case.source, ratios(base, case, Some(name))));
            for ratio in &mut found {
                ratio.what.other_machine = foreign[case.source].clone();
            }
            found
        };
        self.ratios = self.cases.iter().flat_map(of_case).collect();
        if self.ratios.is_empty() {
            return Err(format!("`{name}` has no figure of any case of the record"));
        }
        self.is_compared = true;
        Ok(self)
    }

    /// Did other tools measure all of it?
    pub fn is_imported(&self) -> bool {
        let is_imported = |source: &Source| source.header.as_ref().is_some_and(|header| header.is_imported());
        !self.sources.is_empty() && self.sources.iter().all(is_imported)
    }

    /// A case of a record.
    pub fn case(&self, source: usize, id: &CaseId) -> Option<&Measured> {
        self.cases.iter().find(|case| case.source == source && case.id == *id)
    }

    /// Do several records stand side by side, so that a case must say which it comes from?
    pub fn has_several_sources(&self) -> bool {
        self.sources.len() > 1
    }

    /// What a mechanism with its axes is called here: with the record's name where there are several.
    pub fn variant(&self, source: usize, id: &CaseId) -> String {
        let name = test_name(id).unwrap_or_else(|| id.variant());
        match self.sources.get(source) {
            Some(from) if self.has_several_sources() => format!("{name} [{}]", from.name),
            _ => name,
        }
    }

    /// Why a case has no more runs, where that is not because its interval is as narrow as was asked.
    pub fn stopped_early(&self) -> impl Iterator<Item = (&Measured, StoppedBy)> {
        let stopped = |case: &Measured| case.summary.as_ref().map(|summary| summary.stopped_by);
        self.cases
            .iter()
            .filter_map(move |case| Some((case, stopped(case)?)))
            .filter(|(_, by)| !matches!(by, StoppedBy::Precision | StoppedBy::Tool))
    }

    fn add(&mut self, name: String, reading: Reading) {
        let source = self.sources.len();
        let first = self.cases.len();
        let mut from = Source { name, problems: reading.problems, ..Source::default() };
        let mut places = HashMap::new();
        let mut planned: HashMap<CaseId, usize> = HashMap::new();
        for line in reading.lines {
            match line {
                Line::Header(header) => from.header = from.header.take().or(Some(*header)),
                Line::Case(case) => {
                    let id = case.case.clone();
                    self.case_mut(source, &mut places, &id).case = Some(case);
                }
                Line::Run(run) => {
                    let id = run.case.clone();
                    self.case_mut(source, &mut places, &id).runs.push(run);
                }
                Line::Summary(summary) => {
                    let id = summary.case.clone();
                    let rank = planned.len();
                    planned.entry(id.clone()).or_insert(rank);
                    self.case_mut(source, &mut places, &id).summary = Some(summary);
                }
                Line::Hub(hub) => from.hubs.push(hub),
                Line::Comparison(what) => self.comparisons.push(Sourced { source, what }),
                Line::Contest(what) if what.contestants.is_empty() => {}
                Line::Contest(what) => self.contests.push(Sourced { source, what }),
                Line::Findings(what) => self.findings.push(Sourced { source, what }),
                Line::Timeline(what) => self.timelines.push(Sourced { source, what: *what }),
                // The lines skipped and the summaries say it too.
                Line::Outcome(_) => {}
                Line::Skipped(what) => self.skipped.push(Sourced { source, what }),
                Line::Ratio(what) => self.ratios.push(Sourced { source, what }),
                Line::Crossover(what) => self.crossovers.push(Sourced { source, what }),
                Line::Published(what) => self.published.push(Sourced { source, what }),
                Line::Check(what) => self.checks.push(Sourced { source, what: *what }),
                // The verdicts hold what the sets come to.
                Line::ComparedSet(_) => {}
                Line::Verdict(what) => self.verdicts.push(Sourced { source, what: *what }),
                // The explanations hold what these sets come to.
                Line::ExplainedSet(_) => {}
                Line::Price(what) => self.prices.push(Sourced { source, what }),
                Line::Explanation(what) => self.explanations.push(Sourced { source, what: *what }),
                Line::Claims(what) => self.claims.push(Sourced { source, what }),
                Line::Observation(what) => self.observations.push(Sourced { source, what: *what }),
                Line::Profile(what) => self.profiles.push(Sourced { source, what: *what }),
                Line::Difference(what) => self.differences.push(Sourced { source, what: *what }),
                Line::Functions(what) => self.functions.push(Sourced { source, what: *what }),
                Line::FunctionsCompared(what) => {
                    self.functions_compared.push(Sourced { source, what: *what });
                }
                Line::End(end) => from.end = Some(end),
            }
        }
        let hubs = from.hubs.clone();
        self.sources.push(from);
        self.take_void(source, first);
        let own = &mut self.cases[first..];
        own.sort_by_key(|measured| planned.get(&measured.id).copied().unwrap_or(usize::MAX));
        for measured in own {
            if let (None, Some(case)) = (&measured.summary, &measured.case) {
                measured.summary = unfinished::summary(case, &measured.runs);
                measured.is_computed = measured.summary.is_some();
            }
            // Records from before it was written.
            let hub = |summary: &Summary| {
                let of = &summary.to_hub.as_ref()?.hub;
                hubs.iter().find(|hub| hub.case == *of)
            };
            let higher_is_better = measured.higher_is_better();
            if let Some(summary) = measured.summary.as_mut().filter(|summary| summary.session_range.is_none())
            {
                summary.session_range = session_range(summary, hub(summary), higher_is_better);
            }
            // Records of schema 1 have the runs, but not yet these intervals.
            if let Some(summary) = measured.summary.as_mut().filter(|summary| summary.series_ci95.is_empty())
            {
                summary.series_ci95 = derive::series_intervals(&measured.runs);
            }
        }
        if !self.findings.iter().any(|findings| findings.source == source) {
            let (contests, findings) = contests(&self.cases[first..], &hubs);
            self.contests.retain(|contest| contest.source != source);
            self.contests.extend(contests.into_iter().map(|what| Sourced { source, what }));
            self.findings.extend(findings.map(|what| Sourced { source, what }));
        }
    }

    /// Takes the figures of cases that break a law, with all that is said of them beside others; why is told once for each.
    fn take_void(&mut self, source: usize, first: usize) {
        let is_law = |skip: &Sourced<Skipped>| skip.source == source && skip.what.step == laws::STEP;
        let told: Vec<CaseId> =
            self.skipped.iter().filter(|skip| is_law(skip)).map(|skip| skip.what.case.clone()).collect();
        let mut void: HashSet<CaseId> = told.iter().cloned().collect();
        for measured in &mut self.cases[first..] {
            let of_summary = measured.summary.as_ref().and_then(|summary| summary.void.first().cloned());
            if let Some(why) = of_summary.filter(|_| !void.contains(&measured.id)) {
                let what = Skipped { case: measured.id.clone(), step: laws::STEP.into(), why };
                self.skipped.push(Sourced { source, what });
                void.insert(measured.id.clone());
            }
            if void.contains(&measured.id) {
                (measured.summary, measured.runs) = (None, Vec::new());
            }
        }
        let stays = |from: usize, cases: [&CaseId; 2]| {
            from != source || !cases.iter().any(|case| void.contains(*case))
        };
        self.comparisons.retain(|of| stays(of.source, [&of.what.case, &of.what.baseline]));
        self.ratios.retain(|of| stays(of.source, [&of.what.case, &of.what.baseline]));
        self.crossovers.retain(|of| stays(of.source, [&of.what.first, &of.what.second]));
        self.published.retain(|of| stays(of.source, [&of.what.case, &of.what.case]));
        let contests = self.contests.len();
        self.contests.retain(|of| {
            of.source != source || !of.what.contestants.iter().any(|one| void.contains(&one.case))
        });
        if self.contests.len() != contests {
            // What is left of them follows from the other cases.
            self.findings.retain(|of| of.source != source);
        }
    }

    /// Does a record break a law of records?
    pub fn is_void(&self) -> bool {
        self.skipped.iter().any(|skip| skip.what.step == laws::STEP)
    }

    fn case_mut(&mut self, source: usize, places: &mut HashMap<CaseId, usize>, id: &CaseId) -> &mut Measured {
        let place = *places.entry(id.clone()).or_insert_with(|| {
            self.cases.push(Measured { source, id: id.clone(), ..Measured::default() });
            self.cases.len() - 1
        });
        &mut self.cases[place]
    }
}

/// What follows from the runs of one record.
fn contests(cases: &[Measured], hubs: &[Hub]) -> (Vec<Contest>, Option<Findings>) {
    let measured = cases.iter().filter(|case| case.summary.is_some());
    let entries: Vec<derive::Entry<'_>> = measured
        .filter_map(|case| {
            let facts = case.case.as_ref().map(|case| &case.facts);
            Some(derive::Entry {
                case: &case.id,
                unit: case.unit()?,
                higher_is_better: case.higher_is_better(),
                alternative_to: facts
                    .and_then(|facts| facts.get(weighbridge_record::ALTERNATIVE_TO))
                    .map(String::as_str),
                runs: &case.runs,
            })
        })
        .collect();
    derive::contests(&entries, hubs)
}

fn ratios(base: &Measured, case: &Measured, record: Option<&str>) -> Vec<Ratio> {
    let (Some(there), Some(here)) = (&base.summary, &case.summary) else { return Vec::new() };
    let base = derive::Side { summary: there, runs: &base.runs, record };
    derive::ratios(base, derive::Side { summary: here, runs: &case.runs, record: None })
}

/// In what the machines of two records differ, where both are known and not the same: `hostname: here and there`.
fn other_machine(here: &Source, there: &Source) -> Option<String> {
    let identity = |source: &Source| {
        let machine = &source.header.as_ref()?.machine;
        Some([
            ("hostname", machine.hostname.clone()),
            ("architecture", machine.arch.clone()),
            ("CPU", machine.cpu_model.clone()),
            ("number of CPUs", machine.cpus.len().to_string()),
        ])
    };
    let (here, there) = (identity(here)?, identity(there)?);
    let differs = here.into_iter().zip(there).find(|((_, here), (_, there))| here != there);
    differs.map(|((name, here), (_, there))| format!("{name}: {here} and {there}"))
}

fn sourced(source: usize, ratios: Vec<Ratio>) -> Vec<Sourced<Ratio>> {
    ratios.into_iter().map(|what| Sourced { source, what }).collect()
}

fn is_of_the_sort_of(base: &Measured, case: &Measured) -> bool {
    case.id != base.id
        && case.higher_is_better() == base.higher_is_better()
        && (!base.higher_is_better() || case.unit() == base.unit())
        && (base.id.payload_bytes == 0 || base.id.payload_bytes == case.id.payload_bytes)
}
