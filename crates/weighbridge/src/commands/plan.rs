//! `weighbridge plan`, and `run --dry-run`: what would be measured, what not and why, and how long it takes.

use std::fmt::Write;

use weighbridge_report as report;
use weighbridge_stats::stopping::LOOKS;

use super::look_at_host;
use crate::args::{Plan, TextOrJson};
use crate::scope::Scope;
use crate::values::spoken;
use crate::{Exit, Failure, output, plans, select};

pub fn plan(args: &Plan) -> Result<Exit, Failure> {
    if args.format == TextOrJson::Json {
        let plan = plans::make(args)?;
        output::print(plan.text())?;
        return Ok(Exit::Fine);
    }
    let only_json =
        [("--shard", args.shard.is_some()), ("--seed", args.seed.is_some()), ("--alone", args.alone)];
    let only_json = only_json.into_iter().chain([("--no-system-calls", args.no_system_calls)]);
    if let Some((option, _)) = only_json.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::mistake(format!("{option} is for a plan as a file; add --format json")));
    }
    let scope = Scope::new(&args.selection, &args.effort, &mut look_at_host()?)?;
    show(&scope)
}

/// Prints a plan. One with nothing in it is a failure, as it is for `run`.
pub fn show(scope: &Scope) -> Result<Exit, Failure> {
    for note in &scope.notes {
        output::warn(note);
    }
    output::print(text(scope))?;
    scope.check_not_empty()?;
    Ok(Exit::Fine)
}

/// Says a plan before it is carried out, where that was asked for.
pub fn detail(scope: &Scope) {
    output::detail(|| text(scope));
}

fn text(scope: &Scope) -> String {
    let mut out = String::new();
    for case in &scope.cases {
        let _ = writeln!(out, "{}", case.params.id);
    }
    if !scope.skipped.is_empty() {
        out.push_str(if scope.cases.is_empty() { "skipped:\n" } else { "\nskipped:\n" });
        out.push_str(&report::skips(&scope.skipped, output::style()));
    }
    out.push('\n');
    out.push_str(&select::explain(&scope.selected, scope.harness));
    let planned = scope.cases.len();
    let _ = write!(out, "\n{planned} of {} cases would be measured", planned + scope.skipped.len());
    if planned > 0 {
        out.push_str(&time(scope));
    }
    out.push_str(".\n");
    out
}

fn time(scope: &Scope) -> String {
    let estimate = scope.estimate();
    let runs = LOOKS[0].min(scope.max_runs);
    let each = if runs == 1 { "1 run".into() } else { format!("{runs} runs") };
    let least = spoken(estimate.least);
    if estimate.least == estimate.most {
        return format!(" in about {least} ({each} of each, or as many as the budget allows)");
    }
    format!(
        ", at least {each} of each: about {least} at best, {} at most (until ± {} % of the median, {} runs of each or \
         the budget of {})",
        spoken(estimate.most),
        (scope.precision * 1e4).round() / 1e2,
        scope.max_runs,
        spoken(scope.budget)
    )
}
