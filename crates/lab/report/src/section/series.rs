//! Samples of one run in the order of time, with what else was counted for each of them.

use weighbridge_record::{Regime, RegimeKind, Run, Summary};
use weighbridge_stats::RegimeKind as Found;
use weighbridge_stats::regime::{detect, split_test};

use super::Context;
use crate::chart::{Drawing, MOST_STRIPS, Strip};
use crate::document::{Block, Section};
use crate::model::{Measured, Report};
use crate::regimes;
use crate::units::{Scale, Series, with_unit};
use crate::words::plain;

/// Number of cases that are not folded; a folded chart is drawn when it is opened.
const OPEN: usize = 2;

const ABOUT: &str = "Each chart shows one run of a case: the run whose value is nearest to the median. Dashed lines are the levels of a \
                     step or of two modes, as found over all runs. The vertical line is where the level of this run changes.";

/// None where no case has a series, and none is a fan-in with samples.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let charts = cx.report.cases.iter().filter_map(|case| shown(cx.report, case));
    let fold = |(index, (summary, chart)): (usize, (String, Block))| Block::Fold {
        summary,
        is_open: index < OPEN,
        blocks: vec![chart],
    };
    let mut blocks: Vec<Block> = charts.enumerate().map(fold).collect();
    if !blocks.is_empty() {
        blocks.insert(0, Block::Paragraph(ABOUT.into()));
    }
    Section::new("series", "Series over time", blocks)
}

/// The name and the chart of a case that has series, or is a fan-in.
fn shown(report: &Report, case: &Measured) -> Option<(String, Block)> {
    let summary = case.summary.as_ref()?;
    let has_series = case.runs.iter().any(|run| !run.series.is_empty());
    if case.is_harness() || !(has_series || case.id.pattern == "fan-in") {
        return None;
    }
    let run = case.middle_run(|run| run.samples.len() > 1 && all_finite(&run.samples))?;
    let name = regimes::name(report, case);
    let value = with_unit(&summary.unit, run.value);
    let title = plain(&format!("{name}: run {} of {}, {value}", run.run + 1, case.runs.len()));
    let mut strips = vec![samples(summary, run)];
    strips.extend(run.series.iter().filter_map(|(name, values)| series(name, values)));
    let hidden = strips.len().saturating_sub(MOST_STRIPS);
    let about = if hidden > 0 { format!("{hidden} more series in the record.") } else { String::new() };
    let drawing = Drawing::Strips(strips, change(summary, &run.samples));
    Some((name, Block::chart(title, &about, drawing, None)))
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
