//! Cases held against one of them, run by run of the same round: what drifts from minute to minute is in both sides.
//!
//! The figures of the cases have the first table. The others that the record holds for each run have tables of their own:
//! what the reader counted, CPU time and switches per operation, further series.

use textwrap::core::display_width;
use weighbridge_record::{CaseId, Run};
use weighbridge_stats::{Ratio, median, paired_ratio};

use crate::markdown::escaped;
use crate::model::{Measured, Report};
use crate::rounds::pairs;
use crate::units::{Scale, Series, count, significant, with_unit};
use crate::words::plain;

/// Fewer in an operation are chance, and a ratio of chances says nothing.
const LEAST_COUNT: f64 = 0.01;
/// What a reader of streams counted, which is the same work whatever its calls returned.
const RECEIVED: &str = "bytes_per_s";
const HEADS: [&str; 5] = ["case", "here", "times", "95 % interval", "pairs"];

/// Markdown tables: of every case with the payload of `baseline` (of all, where that has none) whose figure is of the same
/// sort, how many times the baseline's it is, and the same of what else was counted. A ratio is the median over pairs of runs
/// of one round of one record, with its sign-test interval of at least 95 %, which takes six pairs.
///
/// # Errors
/// A sentence, where the record has no such case, or no runs of it.
pub fn against(report: &Report, baseline: &CaseId) -> Result<String, String> {
    let base = report.cases.iter().find(|case| case.id == *baseline && case.summary.is_some());
    let base = base.ok_or_else(|| format!("no figure of `{baseline}` is in the record"))?;
    let others: Vec<&Measured> = report.cases.iter().filter(|case| is_of_the_sort_of(base, case)).collect();
    let mut out = format!(
        "Times what `{}` has: median over pairs of runs of one round.\n",
        plain(&baseline.to_string())
    );
    for (index, what) in figures(base).into_iter().enumerate() {
        match table(base, &others, what) {
            Some(table) => out.push_str(&table),
            None if index == 0 => {
                return Err(format!("no other case of the record can be held against `{baseline}`"));
            }
            None => {}
        }
    }
    Ok(out)
}

type Row = [String; HEADS.len()];

/// Something that a record holds for each run of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What<'a> {
    /// The figure of the case.
    Value,
    /// Messages per second, from the bytes that the reader counted.
    Messages,
    /// CPU time for one message, over all roles.
    MessageCpu,
    /// The median of a further series.
    Series(&'a str),
    /// CPU time for one operation, over all roles.
    Cpu,
    /// Voluntary context switches for one operation, likewise.
    Voluntary,
    /// Involuntary ones.
    Involuntary,
}

impl What<'_> {
    fn of_run(self, case: &Measured, run: &Run) -> Option<f64> {
        let middle = |name: &str| {
            let finite: Vec<f64> =
                run.series.get(name)?.iter().copied().filter(|value| value.is_finite()).collect();
            (!finite.is_empty()).then(|| median(&finite))
        };
        match self {
            What::Value => Some(run.value),
            What::Messages => Some(middle(RECEIVED)? / case.id.payload_bytes as f64),
            What::MessageCpu => {
                Some(run.per_op.cpu_ns * run.value * case.id.payload_bytes as f64 / middle(RECEIVED)?)
            }
            What::Series(name) => middle(name),
            What::Cpu => Some(run.per_op.cpu_ns),
            What::Voluntary => Some(run.per_op.voluntary_switches),
            What::Involuntary => Some(run.per_op.involuntary_switches),
        }
    }

    fn of_case(self, case: &Measured) -> Option<f64> {
        let summary = case.summary.as_ref()?;
        match self {
            What::Value => Some(summary.median),
            What::Messages => Some(summary.series.get(RECEIVED)? / case.id.payload_bytes as f64),
            What::MessageCpu => {
                let messages_per_s = What::Messages.of_case(case)?;
                Some(summary.per_op.cpu_ns * summary.median / messages_per_s)
            }
            What::Series(name) => summary.series.get(name).copied(),
            What::Cpu => Some(summary.per_op.cpu_ns),
            What::Voluntary => Some(summary.per_op.voluntary_switches),
            What::Involuntary => Some(summary.per_op.involuntary_switches),
        }
    }

    /// The name of the figure, and how its values are shown; the name has the unit where they have one for all.
    fn words(self, values: &[f64]) -> (String, Shown) {
        let scale = |unit: &str| Scale::new(unit, values.iter().copied());
        let named = |scale: Scale, name: &dyn Fn(&str) -> String| (name(&scale.name), Shown::In(scale));
        let counted = |name: &str| (format!("{name} per operation"), Shown::Count);
        match self {
            What::Value => ("its figure".into(), Shown::WithUnit),
            What::Messages => named(scale("messages/s"), &|unit| format!("{unit}, as the reader counted")),
            What::MessageCpu => named(scale("ns"), &|unit| format!("CPU {unit} per message")),
            What::Series(name) => {
                let series = Series::new(name, values.iter().copied());
                (escaped(&series.label()), Shown::In(series.scale))
            }
            What::Cpu => named(scale("ns"), &|unit| format!("CPU {unit} per operation")),
            What::Voluntary => counted("voluntary switches"),
            What::Involuntary => counted("involuntary switches"),
        }
    }

    fn is_chance(self, here: f64, there: f64) -> bool {
        matches!(self, What::Voluntary | What::Involuntary) && here.min(there) < LEAST_COUNT
    }
}

/// How the values of a table are shown.
enum Shown {
    /// Each in the unit of its case that suits it.
    WithUnit,
    /// All in one unit.
    In(Scale),
    /// As counts.
    Count,
}

impl Shown {
    fn show(&self, case: &Measured, value: f64) -> String {
        match self {
            Shown::WithUnit => with_unit(case.unit().unwrap_or_default(), value),
            Shown::In(scale) => scale.show(value),
            Shown::Count => count(value),
        }
    }
}

/// A time is a time, whatever it is of; a rate is of something.
fn is_of_the_sort_of(base: &Measured, case: &Measured) -> bool {
    let is_base = case.id == base.id && case.source == base.source;
    !is_base
        && case.higher_is_better() == base.higher_is_better()
        && (!base.higher_is_better() || case.unit() == base.unit())
        && (base.id.payload_bytes == 0 || base.id.payload_bytes == case.id.payload_bytes)
}

/// What a case has. Switches of a series, and series of single roles, are in the counts per operation.
fn figures(case: &Measured) -> Vec<What<'_>> {
    let names = case.summary.iter().flat_map(|summary| summary.series.keys().map(String::as_str));
    let mut all = vec![What::Value, What::Cpu, What::Voluntary, What::Involuntary];
    for name in names.filter(|name| !name.contains("voluntary_switches") && !name.contains('.')) {
        // Where events are counted, one may hold several messages.
        if name == RECEIVED && case.id.payload_bytes > 0 && case.unit() == Some("events/s") {
            all.splice(1..1, [What::Messages, What::MessageCpu]);
        } else {
            all.push(What::Series(name));
        }
    }
    all
}

/// One figure of all cases that have it; nothing where none has.
fn table(base: &Measured, others: &[&Measured], what: What<'_>) -> Option<String> {
    let there = what.of_case(base)?;
    let found: Vec<(&Measured, f64, Ratio)> =
        others.iter().filter_map(|case| ratio(base, there, case, what)).collect();
    if found.is_empty() {
        return None;
    }
    let values: Vec<f64> = found.iter().map(|(_, here, _)| *here).chain([there]).collect();
    let (name, shown) = what.words(&values);
    let row = |(case, here, ratio): &(&Measured, f64, Ratio)| -> Row {
        let interval = ratio.interval.map_or("–".into(), |interval| {
            format!("{} to {}", significant(interval.low), significant(interval.high))
        });
        let id = plain(&case.id.to_string()).replace('|', "\\|");
        [
            format!("`{id}`"),
            shown.show(case, *here),
            significant(ratio.median),
            interval,
            ratio.pairs.to_string(),
        ]
    };
    let rows: Vec<Row> = found.iter().map(row).collect();
    Some(format!("\n**{name}**, there {}:\n\n{}", shown.show(base, there), laid_out(&rows)))
}

fn ratio<'a>(
    base: &Measured,
    there: f64,
    case: &'a Measured,
    what: What<'_>,
) -> Option<(&'a Measured, f64, Ratio)> {
    let here = what.of_case(case)?;
    let pairs = pairs(base, case, |measured, run| what.of_run(measured, run));
    let has_ratio = !pairs.is_empty() && !what.is_chance(here, there);
    has_ratio.then(|| (case, here, paired_ratio(&pairs, 0.95)))
}

/// A table whose columns are aligned, so that it can be read as text too.
fn laid_out(rows: &[Row]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| display_width(&row[column]));
        cells.chain([display_width(HEADS[column])]).max().unwrap_or(0)
    };
    let widths: [usize; HEADS.len()] = std::array::from_fn(width);
    let line = |cells: [&str; HEADS.len()]| {
        let cell = |(column, text): (usize, &str)| {
            let blank = " ".repeat(widths[column] - display_width(text));
            if column == 0 { format!("| {text}{blank} ") } else { format!("| {blank}{text} ") }
        };
        cells.into_iter().enumerate().map(cell).collect::<String>() + "|\n"
    };
    let rule = |(column, width): (usize, &usize)| match column {
        0 => format!("|{}", "-".repeat(width + 2)),
        _ => format!("|{}:", "-".repeat(width + 1)),
    };
    let rules: String = widths.iter().enumerate().map(rule).collect();
    let body: String =
        rows.iter().map(|row| line(std::array::from_fn(|column| row[column].as_str()))).collect();
    format!("{}{rules}|\n{body}", line(HEADS))
}
