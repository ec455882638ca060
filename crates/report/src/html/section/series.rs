//! Samples of one run in the order of time, with what else was counted for each of them.

use weighbridge_record::{Regime, RegimeKind, Run, Summary};
use weighbridge_stats::RegimeKind as Found;
use weighbridge_stats::regime::{detect, split_test};

use crate::html::chart::{self, MOST_STRIPS, Strip};
use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::model::Measured;
use crate::regimes;
use crate::units::{Scale, Series, with_unit};
use crate::words::plain;

pub const SECTION: Section = Section { id: "series", title: "Series over time", body };

/// So many cases stand open; a chart behind a fold is drawn when it is opened.
const OPEN: usize = 2;

fn body(page: &Page<'_>) -> Option<String> {
    let cases: Vec<_> = page.report.cases.iter().filter_map(|case| shown(page, case)).collect();
    let case = |(index, (name, chart)): (usize, &(String, String))| {
        let open = if index < OPEN { " open" } else { "" };
        format!("<details{open}><summary>{}</summary>\n{chart}</details>\n", escaped(name))
    };
    let charts: String = cases.iter().enumerate().map(case).collect();
    let about = "<p class=\"about\">Of each case the run whose value is nearest to the median. Dashed: the levels of a \
                 step or of two modes, as found over all runs. Upright: where the level of this run changes.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}

/// The name and the chart of a case whose course over time is of interest.
fn shown(page: &Page<'_>, case: &Measured) -> Option<(String, String)> {
    let summary = case.summary.as_ref()?;
    let has_series = case.runs.iter().any(|run| !run.series.is_empty());
    if case.is_harness() || !(has_series || case.id.pattern == "fan-in") {
        return None;
    }
    let run = representative(case, summary)?;
    let name = regimes::name(page.report, case);
    let value = with_unit(&summary.unit, run.value);
    let title = plain(&format!("{name}: run {} of {}, {value}", run.run + 1, case.runs.len()));
    let mut strips = vec![samples(summary, run)];
    strips.extend(run.series.iter().filter_map(|(name, values)| series(name, values)));
    let hidden = strips.len().saturating_sub(MOST_STRIPS);
    let mut out = chart::strips(&title, &strips, change(summary, &run.samples));
    if hidden > 0 {
        out += &format!("<p class=\"about\">{} more series in the record.</p>\n", hidden);
    }
    Some((name, out))
}

/// The run whose value is nearest to the median of all.
fn representative<'a>(case: &'a Measured, summary: &Summary) -> Option<&'a Run> {
    let usable = case.runs.iter().filter(|run| run.samples.len() > 1 && all_finite(&run.samples));
    let distance = |run: &&Run| (run.value - summary.median).abs();
    usable.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The value of the case itself, with the levels that its summary names.
fn samples(summary: &Summary, run: &Run) -> Strip {
    let scale = Scale::new(&summary.unit, run.samples.iter().copied());
    let levels = within_samples(summary).filter_map(|regime| regime.levels).flatten();
    Strip {
        label: scale.name.clone(),
        values: run.samples.iter().map(|sample| sample / scale.divisor).collect(),
        levels: levels.map(|level| level / scale.divisor).collect(),
    }
}

fn series(name: &str, values: &[f64]) -> Option<Strip> {
    let series = Series::new(name, values.iter().copied());
    (!values.is_empty() && all_finite(values)).then(|| Strip {
        label: series.label(),
        values: values.iter().map(|value| value / series.scale.divisor).collect(),
        levels: Vec::new(),
    })
}

/// After how many samples the level of this run changes, where the summary speaks of steps and this run has one.
fn change(summary: &Summary, samples: &[f64]) -> Option<usize> {
    let is_step = |regime: &Regime| regime.regime == RegimeKind::Step;
    within_samples(summary).find(|regime| is_step(regime))?;
    detect(samples).iter().find(|found| found.kind == Found::Step)?;
    split_test(samples).map(|split| split.after)
}

fn within_samples(summary: &Summary) -> impl Iterator<Item = &Regime> {
    summary.regimes.iter().filter(|regime| regime.within == "samples")
}

fn all_finite(values: &[f64]) -> bool {
    values.iter().all(|value| value.is_finite())
}
