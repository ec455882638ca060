//! What the cost of a case is made of: the laboratory measures the case and its parts in turns ([`weighbridge_harness::explain`]), then the
//! prices and what is left are computed ([`weighbridge_analysis::explain`]).

use std::io;

use weighbridge_analysis::explain::{Asked, Change, explain as explained};
use weighbridge_harness::contract::{Caps, Prepared};
use weighbridge_harness::explain::{self, Request, refusal};
use weighbridge_harness::host::Host;
use weighbridge_harness::session::{Ended, Sink};
use weighbridge_record::{Line, Skipped};

use crate::commands::measuring::Bench;
use crate::explain_args::CostArgs;

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

/// How the explanation of costs ended.
pub struct Explained {
    pub ended: Ended,
    /// Why no case answers a what-if question.
    pub unanswered: Option<String>,
}

/// Measures and explains the cases. Tells every line to `sink`.
pub fn explain(
    args: &CostArgs,
    cases: Vec<Prepared>,
    changes: &[Change],
    bench: Bench<'_>,
    sink: &mut dyn Sink,
) -> io::Result<Explained> {
    let payloads = changes.iter().filter_map(|change| match change.asked {
        Asked::Payload(bytes) => Some(bytes),
        _ => None,
    });
    let request = Request {
        payloads: payloads.collect(),
        sets: args.sets().into(),
        budget: args.budget(cases.len()),
        count_calls: !args.no_system_calls,
        doses: !args.no_doses,
        seed: bench.seed,
        cases,
    };
    let found = explain::run(&request, bench.coordinator(), bench.interrupt, sink)?;
    let solution = explained(&found.measured, &found.subjects, changes, bench.seed);
    let explanations = solution.explanations.into_iter().map(|of| Line::Explanation(Box::new(of)));
    solution.prices.into_iter().map(Line::Price).chain(explanations).try_for_each(|line| sink.line(line))?;
    let unanswered = (!solution.unanswered.is_empty()).then(|| solution.unanswered.join("; "));
    Ok(Explained { ended: found.ended, unanswered })
}
