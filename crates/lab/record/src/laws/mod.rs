//! Laws that hold of every finished record, whoever wrote it: what a line says follows from other lines, and what roles and kernel counted
//! apart from each other agrees.
//!
//! A law that is broken is a defect of the program, of the machine's conditions, or of the record, and never chance: a case that breaks one is
//! void. A law that needs what a record does not tell did not run, which is not the same as having held; it is named.
//!
//! | file | laws of |
//! |---|---|
//! | `found.rs` | none: what became of a law, in words |
//! | `roles.rs` | one run: where its roles ran and how, what they counted, the CPU time for which there is room, who sleeps |
//! | `bytes.rs` | one run: operations, bytes and calls as its roles and the kernel count them; messages that were lost |
//! | `counts.rs` | a run and a summary: counts per operation and intervals |
//! | `slices.rs` | one set: slices, samples and the ratio to the hub |
//! | `session.rs` | all runs of a record: summaries, hubs, comparisons, what the harness itself calls and costs |
//! | `sides.rs` | `compare`, `check` and `explain`: ratios of two sides, controls, counts of one thing by two means |

mod bytes;
mod counts;
mod found;
mod roles;
mod session;
mod sides;
mod slices;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Case, CaseId, Line, Machine, Reading, Run};
pub use bytes::{MOVED_BY, lost_share};
pub use found::{Found, STEP, Violation};
pub use roles::is_read_back;
use session::Seen;
use sides::Sides;

/// The laws of one run.
pub fn of_run(case: &Case, run: &Run, machine: Option<&Machine>) -> Found {
    let mut found = Found::default();
    roles::check(case, run, machine, &mut found);
    if case.has("virtual-time") != Some(true) {
        bytes::check(case, run, &mut found);
        slices::check(case, run, &mut found);
    }
    counts::of_run(case, run, &mut found);
    found
}

/// All laws, line by line: what a line says is looked at with those before it.
#[derive(Debug, Default)]
pub struct Audit {
    machine: Option<Machine>,
    /// Are the lines no figures of the laboratory, or not of times?
    is_foreign: bool,
    seen: Seen,
    sides: Sides,
    broken: BTreeMap<CaseId, Vec<String>>,
    not_run: BTreeMap<CaseId, BTreeSet<String>>,
}

impl Audit {
    /// Looks at the next line. What the record said of its cases before is known: [`Audit::amend`] puts it into lines that sum up.
    pub fn line(&mut self, line: &Line) -> Vec<Violation> {
        if let Line::Header(header) = line {
            let is_imported = header.settings.keys().any(|name| name.starts_with("imported-"));
            self.is_foreign = is_imported || header.machine.clock.counts_instructions();
            self.machine = Some(header.machine.clone());
        }
        if self.is_foreign {
            return Vec::new();
        }
        let mut found = Found::default();
        match line {
            Line::Case(case) => self.seen.case(case),
            Line::Run(run) => {
                if let Some(case) = self.seen.case_of(&run.case) {
                    found = of_run(case, run, self.machine.as_ref());
                }
                self.seen.allowed(run, &mut found);
                self.seen.run(run);
            }
            Line::Summary(summary) => self.seen.summary(summary, &mut found),
            Line::Hub(hub) => self.seen.hub(hub, &mut found),
            Line::Comparison(comparison) => self.seen.comparison(comparison, &mut found),
            Line::ComparedSet(set) => self.sides.set(set, &mut found),
            Line::Verdict(verdict) => self.sides.verdict(verdict, &mut found),
            Line::Check(check) => sides::check(check, &mut found),
            Line::Observation(observation) => sides::observation(observation, &mut found),
            _ => {}
        }
        let case = match line {
            Line::Run(run) => Some(&run.case),
            Line::Summary(summary) => Some(&summary.case),
            _ => None,
        };
        if let Some(case) = case.filter(|_| !found.not_run.is_empty()) {
            self.not_run.entry(case.clone()).or_default().append(&mut found.not_run);
        }
        // The same defect in each run is told once.
        let broken = &mut self.broken;
        found.violations.retain(|violation| {
            let of_case = broken.entry(violation.case.clone()).or_default();
            let is_new = !of_case.iter().any(|why| why.starts_with(&format!("law `{}`", violation.law)));
            of_case.push(violation.to_string());
            is_new
        });
        found.violations
    }

    /// Puts what is known of a case into the line that sums it up: a broken law makes its figures void.
    pub fn amend(&self, line: &mut Line) {
        let first = |case: &CaseId| self.broken.get(case).and_then(|why| why.first());
        match line {
            Line::Summary(summary) => {
                if let Some(why) = first(&summary.case).filter(|why| !summary.void.contains(why)) {
                    summary.void.push(why.clone());
                }
                for check in self.not_run.get(&summary.case).into_iter().flatten() {
                    if !summary.not_checked.contains(check) {
                        summary.not_checked.push(check.clone());
                    }
                }
            }
            Line::Verdict(verdict) => {
                if let Some(why) = first(&verdict.case).filter(|why| !verdict.remarks.contains(why)) {
                    verdict.verdict = "void".into();
                    verdict.remarks.push(why.clone());
                }
            }
            Line::Check(check) => {
                if let Some(why) = first(&check.case) {
                    check.verdict = "failed".into();
                    check.trouble = Some(why.clone());
                }
            }
            _ => {}
        }
    }

    /// Is a law broken?
    pub fn is_broken(&self) -> bool {
        !self.broken.is_empty()
    }
}

impl Reading {
    /// The cases that break a law, as the lines say: their figures are none.
    pub fn void_cases(&self) -> BTreeSet<CaseId> {
        let void = |line: &Line| match line {
            Line::Skipped(skipped) if skipped.step == STEP => Some(skipped.case.clone()),
            Line::Summary(summary) if !summary.void.is_empty() => Some(summary.case.clone()),
            _ => None,
        };
        self.lines.iter().filter_map(void).collect()
    }
}

/// Looks at all lines of a record that was read, and puts what it finds into them, as a writer would have.
pub fn audit(reading: &mut Reading) -> Vec<Violation> {
    let mut audit = Audit::default();
    let mut all = Vec::new();
    for line in &mut reading.lines {
        let found = audit.line(line);
        audit.amend(line);
        all.extend(found);
    }
    let known: Vec<String> = reading.lines.iter().filter_map(law_of).map(str::to_owned).collect();
    let new = all.iter().filter(|violation| !known.contains(&violation.to_string()));
    reading.lines.extend(new.map(Violation::line));
    all
}

/// What a line says of a broken law.
fn law_of(line: &Line) -> Option<&str> {
    match line {
        Line::Skipped(skipped) if skipped.step == STEP => Some(&skipped.why),
        _ => None,
    }
}
