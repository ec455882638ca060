//! What the kernel did while a case ran: counts, time by function, what it cost to look, and how two cases differ.

use weighbridge_record::{
    Difference, DifferenceRow, EventCount, Look, Observation, Profile, RefusedMeans, SymbolTime,
};

use crate::calls;
use crate::chart::{Chart, Drawing};
use crate::document::{Block, Cell, Section, Table};
use crate::flame::Flame;
use crate::model::{Report, Sourced};
use crate::units::{count, reach, significant, with_unit};
use crate::words::{many, plain};

/// Functions that are listed of a case, or of a difference.
const MOST_SYMBOLS: usize = 15;

const ABOUT: &str = "Counts and samples come from runs of their own, in turns with runs that are not observed. Their figures are no results: \
                     they are slower by the cost of looking. Everything on the CPUs of the roles counts, whichever process it belongs to.";

const ABOUT_PROFILE: &str = "Samples rank functions, and are no exact times: one that falls where interrupts are off is taken where they come \
                             back on, and taking it costs time as well.";

/// The section, unless no case was observed.
pub fn section(report: &Report) -> Option<Section> {
    let mut blocks = Vec::new();
    for observation in &report.observations {
        let profile = report.profiles.iter().find(|profile| {
            profile.source == observation.source && profile.what.case == observation.what.case
        });
        blocks.extend(of_case(&observation.what, profile));
    }
    blocks.extend(report.differences.iter().flat_map(|difference| of_two(&difference.what)));
    if !blocks.is_empty() {
        blocks.insert(0, Block::Paragraph(ABOUT.into()));
        let refused = report.observations.first().map(|first| &first.what.refused[..]);
        blocks.extend(refused.and_then(not_used));
    }
    Section::new("observation", "What the kernel does meanwhile", blocks)
}

/// A table with columns of text at the left.
fn table(title: &str, heads: &[&str], texts: usize, rows: Vec<Vec<String>>) -> Block {
    let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect()).collect();
    let mut table = Table::new(title, heads.iter().map(|head| (*head).to_owned()), rows);
    table.columns.iter_mut().take(texts).for_each(|column| column.is_text = true);
    Block::Table(table)
}

fn of_case(of: &Observation, profile: Option<&Sourced<Profile>>) -> Vec<Block> {
    let range = of.unobserved_ci95.map_or(String::new(), |ci95| format!(" {}", reach(of.unobserved, ci95)));
    let cpus: Vec<String> = of.cpus.iter().map(u32::to_string).collect();
    let mut blocks = vec![
        Block::Heading(plain(&of.case.to_string())),
        Block::Paragraph(format!(
            "{}{range} where nobody looks; {}, CPU {}.",
            with_unit(&of.unit, of.unobserved),
            many(of.rounds as usize, "round"),
            cpus.join(", ")
        )),
    ];
    let calls = of.system_calls.as_ref();
    let mut counts: Vec<Vec<String>> = of.counts.iter().map(counted).collect();
    counts.extend(
        calls.map(|calls| {
            vec!["system calls".into(), count(calls.per_op), String::new(), "system-calls".into()]
        }),
    );
    if !counts.is_empty() {
        let heads = ["event", "per operation", "least … most", "means"];
        blocks.push(table("Events", &heads, 1, counts));
    }
    blocks.extend(calls.map(calls::by_role).filter(|said| !said.is_empty()).map(Block::Paragraph));
    if !of.looks.is_empty() {
        let heads = ["means", "cost of looking", "pairs of runs"];
        blocks.push(table("Cost of looking", &heads, 1, of.looks.iter().map(cost).collect()));
    }
    let failure = |look: &Look| {
        let (last, times) = (look.failures.last()?, look.failures.len());
        Some(format!("{} failed in {}: {last}", look.means, many(times, "run")))
    };
    let failures: Vec<String> = of.looks.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        blocks.push(Block::sentences(failures));
    }
    blocks.extend(profile.into_iter().flat_map(|profile| of_profile(&profile.what)));
    blocks
}

fn counted(of: &EventCount) -> Vec<String> {
    let [least, most] = of.range.map(count);
    vec![plain(&of.event), count(of.per_op), format!("{least} … {most}"), plain(&of.means)]
}

fn cost(look: &Look) -> Vec<String> {
    let cost = match (look.slowdown, look.ci95) {
        (None, _) => "it failed".into(),
        (Some(slowdown), None) => format!("× {}", significant(slowdown)),
        (Some(slowdown), Some([low, high])) => {
            format!("× {} ({} … {})", significant(slowdown), significant(low), significant(high))
        }
    };
    vec![plain(&look.means), cost, look.pairs.to_string()]
}

fn of_profile(of: &Profile) -> Vec<Block> {
    let lost = match of.lost {
        0 => "none was lost".to_owned(),
        lost => format!("{lost} more were lost"),
    };
    let mut facts = format!(
        "{} of the {} in {}, one in {} µs of each CPU; {lost}",
        many(of.samples as usize, "sample"),
        plain(&of.clock),
        many(of.runs as usize, "run"),
        significant(of.period_ns / 1e3)
    );
    if of.throttled > 0 {
        facts += &format!("; the kernel has stopped sampling {}", many(of.throttled as usize, "time"));
    }
    let hidden = of
        .symbols_hidden
        .as_ref()
        .map(|why| format!(" Functions of the kernel have no names: {}.", plain(why)));
    let mut blocks =
        vec![Block::Paragraph(format!("{facts}.{} {ABOUT_PROFILE}", hidden.unwrap_or_default()))];
    let all: f64 = of.parts.iter().map(|part| part.user_ns + part.kernel_ns).sum();
    let share = |ns: f64| format!("{} %", significant(100.0 * ns / all.max(f64::MIN_POSITIVE)));
    let part = |part: &weighbridge_record::ProfilePart| {
        let sum = part.user_ns + part.kernel_ns;
        vec![plain(&part.role), significant(part.user_ns), significant(part.kernel_ns), share(sum)]
    };
    let heads = ["time of", "user\nns/op", "kernel\nns/op", "share"];
    blocks.push(table("Time by role", &heads, 1, of.parts.iter().map(part).collect()));
    let symbol = |symbol: &SymbolTime| {
        vec![
            plain(&symbol.symbol),
            if symbol.in_kernel { "kernel" } else { "user" }.into(),
            plain(&symbol.role),
            significant(symbol.self_ns),
            significant(symbol.total_ns),
            share(symbol.self_ns),
        ]
    };
    let heads = ["function", "in", "role", "itself\nns/op", "with calls\nns/op", "itself"];
    let rows = of.symbols.iter().filter(|symbol| symbol.self_ns > 0.0).take(MOST_SYMBOLS).map(symbol);
    blocks.push(table("Time by function", &heads, 3, rows.collect()));
    blocks.push(Block::Chart(Box::new(Chart {
        title: format!("Flame graph: {}", plain(&of.case.to_string())),
        about: "A box is as wide as its samples and stands on its caller, the role at the bottom; functions of the kernel are orange. \
                Boxes below 0.5 % are left out. Stacks in user mode end where a function keeps no frame pointer."
            .into(),
        drawing: Drawing::Flame(Flame::of(&of.folded)),
        figures: None,
    })));
    blocks
}

fn of_two(of: &Difference) -> Vec<Block> {
    let row = |row: &DifferenceRow, show: fn(f64) -> String| {
        let side = |value: Option<f64>| value.map_or("not counted".into(), show);
        let difference = row.difference.map(|difference| match difference {
            0.0 => "0".into(),
            difference if difference > 0.0 => format!("+{}", show(difference)),
            difference => format!("−{}", show(-difference)),
        });
        vec![plain(&row.name), side(row.a), side(row.b), difference.unwrap_or_default()]
    };
    let block = |title: &str, what: &str, rows: &[DifferenceRow], show: fn(f64) -> String| {
        let rows: Vec<_> = rows.iter().take(MOST_SYMBOLS).map(|of| row(of, show)).collect();
        (!rows.is_empty()).then(|| table(title, &[what, "A", "B", "B − A"], 1, rows))
    };
    let mut blocks = vec![
        Block::Heading("B against A, per operation".into()),
        Block::Facts(vec![("A".into(), plain(&of.a.to_string())), ("B".into(), plain(&of.b.to_string()))]),
    ];
    blocks.extend(block("Difference of events", "event", &of.counts, count));
    blocks.extend(block("Difference of time by role, ns", "time of", &of.parts, significant));
    blocks.extend(block("Difference of time by function, ns", "function itself", &of.symbols, significant));
    blocks
}

/// The means that could not be used, with what would allow them.
fn not_used(refused: &[RefusedMeans]) -> Option<Block> {
    let row = |of: &RefusedMeans| vec![plain(&of.means), plain(&of.why)];
    let heads = ["not used here", "why, and what would allow it"];
    (!refused.is_empty()).then(|| table("", &heads, 2, refused.iter().map(row).collect()))
}
