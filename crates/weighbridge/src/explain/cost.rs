//! What the cost of a case is made of: the case and its parts are measured in turns, and the prices and what is left computed.

use std::io;
use std::time::Duration;

use clap::Args;
use weighbridge_analysis::explain::{Asked, Change, explain as explained};
use weighbridge_lab::contract::{Caps, Prepared};
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::explain::{self, Request, refusal};
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_record::{Line, Skipped};

use crate::values;

/// Time for one case, or a few.
const LEAST_BUDGET: Duration = Duration::from_secs(18);
/// Time for each of many cases.
const BUDGET_OF_CASE: Duration = Duration::from_secs(5);

/// How costs are explained.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Answer by the same prices what a case would cost otherwise: PART±N, payload=BYTES or prices=RECORD; may be given several times
    #[arg(long, value_name = "QUESTION", value_parser = what_if, help_heading = "What is explained", allow_hyphen_values = true)]
    pub what_if: Vec<WhatIf>,
    /// Sets of each case at most, 6 to 60; fewer than 5 measured give no intervals [default: 12]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(6..=60), help_heading = "Precision and time")]
    pub sets: Option<u16>,
    /// Time for all sets together, as in 30s or 2m [default: 18s, or 5s for each case where that is more]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Precision and time")]
    pub budget: Option<Duration>,
    /// Count no system calls, which takes one more run of each case, with a tracer (ptrace)
    #[arg(long, help_heading = "Precision and time")]
    pub no_system_calls: bool,
}

impl CostArgs {
    /// Sets of each case at most.
    pub fn sets(&self) -> u16 {
        self.sets.unwrap_or(12)
    }

    /// Time for the sets of so many cases.
    pub fn budget(&self, cases: usize) -> Duration {
        self.budget.unwrap_or(LEAST_BUDGET.max(BUDGET_OF_CASE * cases as u32))
    }
}

/// A what-if question as it was typed and as it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// As it was typed.
    pub text: String,
    /// As it was understood.
    pub asked: Asked,
}

fn what_if(text: &str) -> Result<WhatIf, String> {
    Ok(WhatIf { text: text.into(), asked: Asked::parse(text)? })
}

/// Those of the cases whose costs can be explained, and of the others why not.
pub fn explicable(cases: &[Prepared], host: &Host) -> (Vec<Prepared>, Vec<Skipped>) {
    let (mut fit, mut skipped) = (Vec::new(), Vec::new());
    for case in cases {
        // The harness has nothing that could be explained; it is part of every suite.
        if cases.len() > 1 && case.target.id == "noop" && case.target.caps.has(Caps::HARNESS) {
            continue;
        }
        match refusal(case, host) {
            None => fit.push(case.clone()),
            Some(why) => skipped.push(Skipped { case: case.params.id.clone(), step: "fit".into(), why }),
        }
    }
    (fit, skipped)
}

/// Measures and explains the cases. Tells every line to `sink`. Second, why no case answers a what-if question.
///
/// # Errors
/// Those of `sink`; the signals that end the program cannot be read.
pub fn explain(
    args: &CostArgs,
    cases: Vec<Prepared>,
    changes: &[Change],
    coordinator: Coordinator<'_>,
    interrupt: &Interrupt,
    seed: u64,
    sink: &mut dyn Sink,
) -> io::Result<(Ended, Option<String>)> {
    let payloads = changes.iter().filter_map(|change| match change.asked {
        Asked::Payload(bytes) => Some(bytes),
        _ => None,
    });
    let request = Request {
        payloads: payloads.collect(),
        sets: args.sets().into(),
        budget: args.budget(cases.len()),
        count_calls: !args.no_system_calls,
        seed,
        cases,
    };
    let found = explain::run(&request, coordinator, interrupt, sink)?;
    let solution = explained(&found.measured, &found.subjects, changes, seed);
    let explanations = solution.explanations.into_iter().map(|of| Line::Explanation(Box::new(of)));
    solution.prices.into_iter().map(Line::Price).chain(explanations).try_for_each(|line| sink.line(line))?;
    Ok((found.ended, (!solution.unanswered.is_empty()).then(|| solution.unanswered.join("; "))))
}
