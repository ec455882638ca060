//! The sections, in the order in which an operator asks: what is wrong, what is there, what to do.

use std::ops::Range;

use weighbridge_report::{Block, CellMap, Columns, Drawing, Item, Kind, Look, Section, Stack, Table};

use crate::analysis::{Class, Findings, OffCell, OffHost, ScatterOf};

/// Rows of a table that text shows; a page has more.
const MOST: usize = 20;
/// Cells of a picture: what a page of two megabytes has room for.
const MOST_CELLS: usize = 900_000;
/// Classes with a picture of their own.
const MOST_MAPS: usize = 4;
/// Steps in a margin, as the map has them.
const STEPS: f64 = 5.0;

pub fn warnings(of: &Findings) -> Vec<String> {
    let trouble = &of.trouble;
    let mut all = Vec::new();
    let mut warn = |is_so: bool, text: String| all.extend(is_so.then_some(text));
    warn(
        !trouble.objects.is_empty(),
        format!(
            "{} objects could not be used and are left out: {}",
            many(trouble.objects.len()),
            few(&trouble.objects, 3)
        ),
    );
    warn(
        !trouble.clones.is_empty(),
        format!(
            "{} names stand for several machines (two boots at one time), and nothing is claimed of them: {}; give each a name of its own with --label machine=NAME",
            many(trouble.clones.len()),
            few(&trouble.clones, 5)
        ),
    );
    warn(
        trouble.named_by_hostname > 0,
        format!(
            "{} machines are named by their host name; in containers that is another one each time: give the node's with --label machine=NAME",
            many(trouble.named_by_hostname)
        ),
    );
    warn(
        !trouble.clocks_ahead.is_empty(),
        format!(
            "the clocks of {} machines are more than a day ahead of the store's: {}",
            many(trouble.clocks_ahead.len()),
            few(&trouble.clocks_ahead, 5)
        ),
    );
    warn(
        trouble.late_sessions > 0,
        format!(
            "{} sessions came more than a day after they ended: pushed late, or by a clock that is behind",
            many(trouble.late_sessions)
        ),
    );
    all
}

pub fn all(of: &Findings) -> Vec<Section> {
    let sections = [
        Section::of("Machines that are off", machines_sentences(of), machines_blocks(of)),
        Section::of("Classes", [], class_blocks(of)),
        Section::of("Cases that are off on single machines", cells_sentences(of), cells_blocks(of)),
        Section::of("What to measure again", remeasure_sentences(of), remeasure_blocks(of)),
        Section::of("Settings that go with costs", settings_sentences(of), settings_blocks(of)),
        Section::of("What changed on many machines at one time", event_sentences(of), event_blocks(of)),
        Section::of("Neighbors", neighbor_sentences(of), neighbor_blocks(of)),
        Section::of("Where scatter comes from", scatter_sentences(of), scatter_blocks(of)),
        Section::of("Coverage", coverage_sentences(of), coverage_blocks(of)),
    ];
    sections.into_iter().collect()
}

fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", 100.0 * share.abs())
}

fn plainly(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// A number with its thousands apart.
fn many(count: usize) -> String {
    weighbridge_report::grouped(count as u64)
}

fn few(all: &[String], most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let shown = all.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {} more", many(more)) } else { shown }
}

fn named(class: &Class) -> String {
    format!("{} ({})", class.hw_class, class.cpu)
}

fn machines_sentences(of: &Findings) -> Vec<String> {
    let sure: usize =
        of.classes.iter().map(|class| class.hosts.iter().filter(|host| host.is_sure).count()).sum();
    let candidates: usize = of.classes.iter().map(|class| class.candidates).sum();
    let margin = 100.0 * of.margin;
    let mut all = vec![format!(
        "{} machines are surely off from their class by more than {margin} %, each in two boots or more; of such claims at most 5 % are expected to be wrong. {} more may be: another boot would tell.",
        many(sure),
        many(candidates),
    )];
    for class in &of.classes {
        match class.bands {
            Some([lower, upper]) => all.push(format!(
                "Class {} has two kinds of machines: {:.0} % of them at {} and {:.0} % at {}. They are bands of a class, not single bad machines.",
                named(class),
                100.0 * lower[0],
                percent(lower[1]),
                100.0 * upper[0],
                percent(upper[1]),
            )),
            None if class.deviation.is_none() && class.machines > 1 => all.push(format!(
                "Of class {} nothing can be claimed: {} pairs of boots of one machine do not tell how sure a figure is; ten would.",
                named(class),
                many(class.pairs),
            )),
            None => {}
        }
    }
    all
}

fn machines_blocks(of: &Findings) -> Vec<Block> {
    let rows: Vec<(&Class, &OffHost)> =
        of.classes.iter().flat_map(|class| class.hosts.iter().map(move |host| (class, host))).collect();
    // A fleet of one class does not repeat its name.
    let labels = if of.classes.len() > 1 { 2 } else { 1 };
    let heads =
        [&["machine", "class"][..labels], &["cost against its class", "95 %", "boots", "claim"][..]].concat();
    let row = |(class, host): &(&Class, &OffHost)| {
        let interval = host
            .interval
            .map_or_else(String::new, |[low, high]| format!("{} to {}", percent(low), percent(high)));
        let claim = match (host.is_sure, host.in_band) {
            (true, false) => "sure",
            (true, true) => "sure; in a band of its class",
            (false, _) => "measure again",
        };
        let mut cells = vec![host.machine.clone(), class.hw_class.clone()];
        cells.truncate(labels);
        cells.extend([percent(host.effect), interval, many(host.boots), claim.into()]);
        cells
    };
    top(&heads, labels..labels + 3, &rows, row)
}

/// The first rows at once, and on a page more of them behind a fold.
fn top<R>(heads: &[&str], numbers: Range<usize>, rows: &[R], row: impl Fn(&R) -> Vec<String>) -> Vec<Block> {
    if rows.is_empty() {
        return Vec::new();
    }
    let (first, rest) = rows.split_at(rows.len().min(MOST));
    let table = |most: usize, rows: &[R]| {
        let table = Table::of_first(heads, numbers.start, most, rows, &row);
        table.with_texts(numbers.end..heads.len()).blocks()
    };
    let mut blocks = table(MOST, first);
    if !rest.is_empty() {
        let more = format!("{} more", many(rest.len()));
        blocks.push(Block::List(vec![Item::without_folds(format!("… and {more}"))]));
        blocks.push(Block::fold(more, table(50 * MOST, rest)));
    }
    blocks
}

fn cells_sentences(of: &Findings) -> Vec<String> {
    let sure = of.classes.iter().flat_map(|class| &class.cells).filter(|cell| cell.is_sure).count();
    let all: usize = of.classes.iter().map(|class| class.cells.len()).sum();
    vec![format!(
        "{} cases of single machines are surely off beside what the machine is: the first boot chose them, another one confirmed them. {} candidates need a second boot; most of those are chance.",
        many(sure),
        many(all - sure)
    )]
}

fn cells_blocks(of: &Findings) -> Vec<Block> {
    let mut rows: Vec<&OffCell> = of.classes.iter().flat_map(|class| &class.cells).collect();
    rows.sort_by(|a, b| b.is_sure.cmp(&a.is_sure).then(b.effect.abs().total_cmp(&a.effect.abs())));
    let heads = ["machine", "case", "against its class", "cost alone", "boots", "claim"];
    top(&heads, 2..5, &rows, |cell| {
        let alone = cell.of_cost.map_or_else(String::new, percent);
        let claim = if cell.is_sure { "sure" } else { "measure again" };
        vec![
            cell.machine.clone(),
            cell.case.clone(),
            percent(cell.effect),
            alone,
            many(cell.boots),
            claim.into(),
        ]
    })
}

fn remeasure_sentences(of: &Findings) -> Vec<String> {
    let plan = &of.remeasure;
    match plan.hosts.len() {
        0 => vec!["Nothing.".into()],
        hosts => {
            let left = if plan.left_out > 0 {
                format!(" {} candidates that are off by less are left out.", many(plan.left_out))
            } else {
                String::new()
            };
            vec![format!(
                "{} machines, each in another boot; `--remeasure FILE` writes them.{left}",
                many(hosts)
            )]
        }
    }
}

fn remeasure_blocks(of: &Findings) -> Vec<Block> {
    top(&["machine", "why", "cases"], 3..3, &of.remeasure.hosts, |host| {
        let cases = if host.cases.is_empty() { "all".to_owned() } else { few(&host.cases, 2) };
        vec![host.machine.clone(), host.why.clone(), cases]
    })
}

fn settings_sentences(of: &Findings) -> Vec<String> {
    let settings = &of.settings;
    let mut all = vec![format!(
        "{} settings differ between enough machines of a class. What goes together need not be the cause.",
        many(settings.compared)
    )];
    if settings.groups.is_empty() {
        all.push("None goes with a cost.".into());
    }
    all
}

fn settings_blocks(of: &Findings) -> Vec<Block> {
    let mut blocks = Vec::new();
    for group in &of.settings.groups {
        let first = &group.settings[0];
        let sentence = format!(
            "{} = {}: {} in {} ({} machines; p {:.3} of any setting by chance)",
            first.name,
            first.value,
            percent(group.effect),
            group.case,
            many(first.machines),
            group.p
        );
        let same = group.settings[1..].iter().map(|other| {
            let how = if other.with_first > 0.0 { "=" } else { "≠" };
            format!(
                "{} {how} {} cannot be told from it (φ {:.2}, {} machines)",
                other.name,
                other.value,
                other.with_first,
                many(other.machines)
            )
        });
        blocks.push(Block::Heading(sentence));
        blocks.push(Block::sentences(same.chain([format!("To tell: {}", group.experiment)])));
    }
    blocks
}

fn event_sentences(of: &Findings) -> Vec<String> {
    if of.events.is_empty() { vec!["Nothing, or there are too few days.".into()] } else { Vec::new() }
}

fn event_blocks(of: &Findings) -> Vec<Block> {
    let sentence = |event: &crate::analysis::FleetEvent| {
        let kernel = event.kernel.as_ref().map_or_else(String::new, |[from, to]| {
            format!("; on that day their kernel went from {from} to {to}")
        });
        format!(
            "{}: {} on {} of {} machines, in {} cases ({}){kernel}. Among them: {}",
            event.day,
            percent(event.change),
            many(event.machines),
            many(event.of),
            many(event.cases.len()),
            few(&event.cases, 3),
            few(&event.some, 3)
        )
    };
    if of.events.is_empty() { Vec::new() } else { vec![Block::sentences(of.events.iter().map(sentence))] }
}

fn neighbor_sentences(of: &Findings) -> Vec<String> {
    let found = &of.interference;
    if found.sessions == 0 {
        return vec!["No two sessions ran on one machine at the same time.".into()];
    }
    let cost = found.cost.map_or_else(String::new, |cost| {
        format!(" They cost {} more than others of the same machines and cases.", percent(cost))
    });
    vec![format!(
        "{} sessions on {} machines ran beside another one. None of them counts for a claim.{cost}",
        many(found.sessions),
        many(found.machines)
    )]
}

fn neighbor_blocks(of: &Findings) -> Vec<Block> {
    let heads = ["machine", "other name", "from", "seconds"];
    top(&heads, 3..4, &of.interference.overlaps, |overlap| {
        let other = if overlap.other == overlap.machine { String::new() } else { overlap.other.clone() };
        vec![overlap.machine.clone(), other, overlap.from.clone(), format!("{:.0}", overlap.seconds)]
    })
}

fn scatter_sentences(of: &Findings) -> Vec<String> {
    let scatter = &of.scatter;
    if scatter.hw_class.is_empty() {
        return vec!["There are too few machines of one class.".into()];
    }
    let text = |of: Option<ScatterOf>, otherwise: &str| {
        of.map_or_else(
            || otherwise.into(),
            |of| {
                format!("{} ({} to {})", plainly(of.median), plainly(of.quarters[0]), plainly(of.quarters[1]))
            },
        )
    };
    let mut all = vec![format!(
        "In the middle case of class {}, with the middle half of the cases: between machines {}, between boots of a machine {}, between runs of a boot {}.",
        scatter.hw_class,
        text(scatter.host, "not known"),
        text(
            scatter.boot,
            "not known, for too few machines have two boots, and so part of that between machines"
        ),
        text(scatter.run, "not known"),
    )];
    all.extend(scatter.runs_per_boot.map(|runs| {
        format!("Where a boot costs a minute and a run a second, {runs} runs of a boot tell most for the time; more say less than another boot.")
    }));
    all
}

fn scatter_blocks(of: &Findings) -> Vec<Block> {
    let heads = ["to know a difference to", "different machines a side", "or machines before and after"];
    let count = |hosts: Option<usize>| hosts.map_or_else(|| "no number suffices".into(), many);
    let mut rows = of.scatter.needed.clone();
    rows.sort_by(|a, b| a.margin.total_cmp(&b.margin));
    rows.dedup_by(|a, b| a.margin == b.margin);
    top(&heads, 0..3, &rows, |needed| {
        vec![format!("± {} %", 100.0 * needed.margin), count(needed.a_side), count(needed.paired)]
    })
}

fn coverage_sentences(of: &Findings) -> Vec<String> {
    let there = &of.coverage;
    let mut all = vec![format!(
        "{} machines, {} boots, {} sessions ({} incomplete), {} cases, {} figures, from {} to {} (UTC).",
        many(there.machines),
        many(there.boots),
        many(there.sessions),
        many(there.incomplete_sessions),
        many(there.cases),
        many(there.measured),
        there.from,
        there.to
    )];
    let mut also = |is_so: bool, text: String| all.extend(is_so.then_some(text));
    also(
        !there.missing_machines.is_empty(),
        format!(
            "{} machines that should be there are not: {}.",
            many(there.missing_machines.len()),
            few(&there.missing_machines, 10)
        ),
    );
    also(
        there.missing_cells > 0,
        format!("{} figures are missing that other machines of the class have.", many(there.missing_cells)),
    );
    for (plan, shards) in &there.missing_shards {
        let numbers: Vec<String> = shards.iter().map(ToString::to_string).collect();
        also(true, format!("Of plan {plan} nothing came of the shards {}.", few(&numbers, 20)));
    }
    all
}

fn coverage_blocks(of: &Findings) -> Vec<Block> {
    let there = &of.coverage;
    let mut blocks = top(&["outcome", "why", "rows", "machines", "cases"], 2..4, &there.unmeasured, |of| {
        vec![of.outcome.into(), of.why.clone(), many(of.rows), many(of.machines), of.cases.join(", ")]
    });
    if !there.missing_cases.is_empty() {
        let inside = Table::of_first(
            &["case", "machines without it"],
            1,
            50 * MOST,
            &there.missing_cases,
            |(case, machines)| vec![case.clone(), many(*machines)],
        );
        blocks.push(Block::fold("Missing by case".into(), inside.blocks()));
    }
    blocks
}

fn class_blocks(of: &Findings) -> Vec<Block> {
    let heads =
        ["class", "CPU", "machines", "boots", "cases", "5 %", "middle", "95 %", "scatter between boots"];
    let mut blocks = top(&heads, 2..9, &of.classes, |class| {
        let at = |place: usize| class.effects.as_ref().map_or_else(String::new, |of| percent(of.at[place]));
        let deviation = class.deviation.map_or_else(String::new, plainly);
        let counts = [class.machines, class.boots, class.cases].map(many);
        [
            vec![class.hw_class.clone(), class.cpu.clone()],
            counts.to_vec(),
            vec![at(1), at(3), at(5), deviation],
        ]
        .concat()
    });
    let margin = of.margin.ln_1p();
    for class in of.classes.iter().filter(|class| class.machines > 1).take(MOST_MAPS) {
        blocks.extend(distribution(class));
        let columns = class.map.columns.len().max(1);
        let rows = class.map.rows.len().min(MOST_CELLS / columns);
        if rows == 0 {
            continue;
        }
        // From the most expensive to the cheapest; of more than a page has room for, the middle is left out.
        let head = rows / 2 + rows % 2;
        let kept: Vec<usize> =
            (0..head).chain(class.map.rows.len() - (rows - head)..class.map.rows.len()).collect();
        let map = CellMap {
            rows: kept.iter().map(|row| class.map.rows[*row].clone()).collect(),
            columns: class.map.columns.clone(),
            cells: kept
                .iter()
                .flat_map(|row| &class.map.cells[row * columns..][..columns])
                .copied()
                .collect(),
            step: margin / STEPS,
            full: (3.0 * STEPS) as i8,
        };
        let about = "Each row is a machine, the most expensive at the top, each column a case; orange costs more than the class, blue less, and full color is three margins. Where machines are more than pixels, a pixel shows the one that is furthest off.";
        blocks.push(Block::chart(
            format!("Machines × cases of class {}", named(class)),
            about,
            Drawing::Map(map),
            None,
        ));
    }
    blocks
}

fn distribution(class: &Class) -> Option<Block> {
    let effects = class.effects.as_ref()?;
    let step = (effects.ends[1] - effects.ends[0]) / effects.bars.len() as f64;
    let stack = |(at, count): (usize, &usize)| Stack {
        name: percent(effects.ends[0] + (at as f64 + 0.5) * step),
        parts: vec![*count as f64],
    };
    let columns = Columns {
        unit: "machines".into(),
        kinds: vec![Kind { name: String::new(), look: Look::nth(0) }],
        stacks: effects.bars.iter().enumerate().map(stack).collect(),
    };
    let title = format!("What machines of class {} cost against its middle", named(class));
    Some(Block::chart(title, "", Drawing::Columns(columns), None))
}
