//! Machines of one class against each other: a table of machines × cases, the effect of each machine, and cells that stand out.

use std::collections::BTreeMap;

use serde::Serialize;
use weighbridge_stats::hosts::bands::{Band, two_bands};
use weighbridge_stats::hosts::cells::{Cell, standing_out};
use weighbridge_stats::hosts::outlying::{Standing, outlying};
use weighbridge_stats::hosts::polish::{Grid, polish};
use weighbridge_stats::{median, quantile};

use super::sessions::Usable;
use super::{Options, Q, share};
use crate::lake::Lake;

/// Fewest machines of a class that has a level of its own.
pub const FEWEST: usize = 5;
/// Candidates that are named.
const MOST_CELLS: usize = 200;
/// Bars of a distribution.
const BARS: usize = 40;

/// A machine in one boot: logarithms of each case.
#[derive(Clone, Debug)]
pub struct Boot {
    pub costs: Vec<f64>,
    pub to_hub: Vec<f64>,
    /// Deviation of a run, and the number of runs.
    pub runs: Vec<(f64, u32)>,
    started_us: i64,
}

/// A class as a table.
#[derive(Clone, Debug)]
pub struct Table {
    pub class: u32,
    /// Indices of machines.
    pub hosts: Vec<usize>,
    /// Numbers of cases.
    pub cases: Vec<u32>,
    /// Boots of each machine, in the order of time.
    pub boots: Vec<Vec<Boot>>,
    /// Costs over boots, machines × cases.
    pub costs: Grid,
}

/// A machine that is off.
#[derive(Clone, Debug, Serialize)]
pub struct OffHost {
    /// Its name.
    pub machine: String,
    /// By how much, as a share.
    pub effect: f64,
    /// Interval of that at 95 %, where the error is known.
    pub interval: Option<[f64; 2]>,
    /// Boots behind it.
    pub boots: usize,
    /// Is it sure, at the share of wrong claims that the report allows?
    pub is_sure: bool,
    /// Does it lie in the band of many machines?
    pub in_band: bool,
}

/// A case of a machine that is off, beside what the machine is.
#[derive(Clone, Debug, Serialize)]
pub struct OffCell {
    /// The machine.
    pub machine: String,
    /// The case.
    pub case: String,
    /// By how much, as a share.
    pub effect: f64,
    /// The same of the cost by itself where the effect is that of the multiple of a hub: where both differ, the hub is off.
    pub of_cost: Option<f64>,
    /// Boots behind it.
    pub boots: usize,
    /// Did a second boot confirm it?
    pub is_sure: bool,
}

/// A distribution.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// At 1, 5, 25, 50, 75, 95 and 99 %, as shares.
    pub at: [f64; 7],
    /// From where to where the bars go, as shares.
    pub ends: [f64; 2],
    /// Machines in each bar.
    pub bars: Vec<usize>,
}

/// A class.
#[derive(Clone, Debug, Serialize)]
pub struct Class {
    /// Its fingerprint.
    pub hw_class: String,
    /// The name of its CPUs.
    pub cpu: String,
    /// Machines with a figure.
    pub machines: usize,
    /// Boots.
    pub boots: usize,
    /// Cases.
    pub cases: usize,
    /// Scatter of a machine's effect between boots, from so many pairs of boots.
    pub deviation: Option<f64>,
    /// See `deviation`.
    pub pairs: usize,
    /// Effects of machines.
    pub effects: Option<Quantiles>,
    /// Two kinds of machines: share of the class, level as a share, deviation.
    pub bands: Option<[[f64; 3]; 2]>,
    /// Machines that are off or may be, the largest first; those that may be only the first.
    pub hosts: Vec<OffHost>,
    /// How many may be.
    pub candidates: usize,
    /// Cells that are off or may be, likewise.
    pub cells: Vec<OffCell>,
    /// The picture: names of machines and cases in their order, and of each cell the cost against the class in steps of a fifth of the
    /// margin, 127 where there is none.
    #[serde(skip)]
    pub map: Map,
}

/// A picture of machines × cases.
#[derive(Clone, Debug, Default)]
pub struct Map {
    pub rows: Vec<String>,
    pub columns: Vec<String>,
    pub cells: Vec<i8>,
}

/// What a cell without a figure has in a [`Map`].
pub const NOTHING: i8 = 127;

/// The tables of all classes, the largest first.
pub fn tables(lake: &Lake, usable: &[Usable]) -> Vec<Table> {
    let mut of_class: BTreeMap<u32, Vec<Usable>> = BTreeMap::new();
    for (session, row) in usable {
        let class = lake.hosts[lake.sessions[*session].host].class;
        of_class.entry(class).or_default().push((*session, *row));
    }
    let mut tables: Vec<Table> =
        of_class.into_iter().map(|(class, rows)| table(lake, class, &rows)).collect();
    tables.sort_by(|a, b| b.hosts.len().cmp(&a.hosts.len()).then(a.class.cmp(&b.class)));
    tables
}

fn table(lake: &Lake, class: u32, rows: &[Usable]) -> Table {
    let mut cases: Vec<u32> = rows.iter().map(|(_, row)| row.case).collect();
    cases.sort_unstable_by_key(|case| lake.cases.name(*case));
    cases.dedup();
    let column: BTreeMap<u32, usize> = cases.iter().enumerate().map(|(at, case)| (*case, at)).collect();
    // Figures of several sessions in one boot: their middle.
    type Of<'a> = (i64, BTreeMap<usize, Vec<&'a Usable>>);
    let mut of_boot: BTreeMap<(usize, u32), Of<'_>> = BTreeMap::new();
    for usable in rows {
        let session = &lake.sessions[usable.0];
        let of = of_boot.entry((session.host, session.boot)).or_insert((session.started_us, BTreeMap::new()));
        of.0 = of.0.min(session.started_us);
        of.1.entry(column[&usable.1.case]).or_default().push(usable);
    }
    let mut boots: BTreeMap<usize, Vec<Boot>> = BTreeMap::new();
    for ((host, _), (started_us, of_cases)) in of_boot {
        let nothing = || vec![f64::NAN; cases.len()];
        let mut boot =
            Boot { costs: nothing(), to_hub: nothing(), runs: vec![(f64::NAN, 0); cases.len()], started_us };
        for (column, all) in of_cases {
            let middle = |of: fn(&Usable) -> f64| known_median(all.iter().map(|usable| of(usable)));
            boot.costs[column] = middle(|(_, row)| row.cost);
            boot.to_hub[column] = middle(|(_, row)| row.to_hub);
            boot.runs[column] = (middle(|(_, row)| row.run), all.iter().map(|(_, row)| row.runs).sum());
        }
        boots.entry(host).or_default().push(boot);
    }
    boots.values_mut().for_each(|boots| boots.sort_by_key(|boot| boot.started_us));
    let (hosts, boots): (Vec<usize>, Vec<Vec<Boot>>) = boots.into_iter().unzip();
    let costs = grid(&boots, cases.len(), |boot| &boot.costs);
    Table { class, hosts, cases, boots, costs }
}

fn known_median(values: impl Iterator<Item = f64>) -> f64 {
    let known: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    if known.is_empty() { f64::NAN } else { median(&known) }
}

/// Machines × cases, the mean over boots.
fn grid(boots: &[Vec<Boot>], cases: usize, of: impl Fn(&Boot) -> &[f64]) -> Grid {
    let mut grid = Grid::new(boots.len(), cases);
    for (row, boots) in boots.iter().enumerate() {
        for column in 0..cases {
            let known: Vec<f64> =
                boots.iter().map(|boot| of(boot)[column]).filter(|value| value.is_finite()).collect();
            if !known.is_empty() {
                grid.set(row, column, known.iter().sum::<f64>() / known.len() as f64);
            }
        }
    }
    grid
}

/// What a boot is off by: the middle over its cases.
fn effect_of(values: &[f64], levels: &[f64]) -> f64 {
    known_median(values.iter().zip(levels).map(|(value, level)| value - level))
}

/// Judges the machines and cells of a class.
pub fn class(lake: &Lake, table: &Table, options: &Options) -> Class {
    let mut polished = polish(&table.costs);
    let margin = options.margin.ln_1p();
    let mut effects: Vec<f64> = polished.rows.iter().copied().filter(|effect| effect.is_finite()).collect();
    let mut bands = two_bands(&effects, margin);
    // Of two bands the middle lies somewhere between: machines are off from the larger one.
    if let Some(level) = bands
        .and_then(|bands| bands.into_iter().max_by(|a, b| a.share.total_cmp(&b.share)))
        .map(|band| band.level)
    {
        effects.iter_mut().chain(&mut polished.rows).for_each(|effect| *effect -= level);
        polished.columns.iter_mut().for_each(|column| *column += level);
        bands.iter_mut().flatten().for_each(|band| band.level -= level);
    }
    let mut class = Class {
        hw_class: lake.classes.name(table.class).into(),
        cpu: lake.class_cpus.get(&table.class).cloned().unwrap_or_default(),
        machines: table.hosts.len(),
        boots: table.boots.iter().map(Vec::len).sum(),
        cases: table.cases.len(),
        deviation: None,
        pairs: 0,
        effects: (!effects.is_empty()).then(|| quantiles(&effects, margin)),
        bands: None,
        hosts: Vec::new(),
        candidates: 0,
        cells: Vec::new(),
        map: map(lake, table, &polished.rows, &polished.columns, margin),
    };
    if table.hosts.len() < FEWEST {
        return class;
    }
    let of_boots: Vec<Vec<f64>> = table
        .boots
        .iter()
        .map(|boots| {
            boots
                .iter()
                .map(|boot| effect_of(&boot.costs, &polished.columns))
                .filter(|effect| effect.is_finite())
                .collect()
        })
        .collect();
    let judged = outlying(&of_boots, margin, Q);
    let in_band = |effect: f64| {
        bands.is_some_and(|bands| {
            bands.iter().any(|band: &Band| (effect - band.level).abs() <= 2.0 * band.deviation)
        })
    };
    let mut off: Vec<OffHost> = Vec::new();
    for (row, host) in judged.hosts.iter().enumerate().filter(|(_, host)| host.standing != Standing::Ordinary)
    {
        let arm = host.error.map(|error| 1.96 * error);
        off.push(OffHost {
            machine: lake.hosts[table.hosts[row]].name.clone(),
            effect: share(host.effect),
            interval: arm.map(|arm| [share(host.effect - arm), share(host.effect + arm)]),
            boots: of_boots[row].len(),
            is_sure: host.standing == Standing::Outlying,
            in_band: in_band(host.effect),
        });
    }
    off.sort_by(|a, b| b.is_sure.cmp(&a.is_sure).then(b.effect.abs().total_cmp(&a.effect.abs())));
    class.candidates = off.iter().filter(|host| !host.is_sure).count();
    class.deviation = judged.deviation.map(share);
    class.pairs = judged.pairs;
    class.bands = bands.map(|bands| bands.map(|band| [band.share, share(band.level), band.deviation]));
    class.hosts = off;
    class.cells = cells(lake, table, &polished.columns, margin);
    class
}

/// What a boot has left beside its own effect and the level of each case: of costs, and of multiples of the hub.
struct Left {
    costs: Vec<f64>,
    to_hub: Vec<f64>,
}

fn cells(lake: &Lake, table: &Table, levels: &[f64], margin: f64) -> Vec<OffCell> {
    let hub_grid = grid(&table.boots, table.cases.len(), |boot| &boot.to_hub);
    let hubs = polish(&hub_grid);
    let with_hub: Vec<bool> = hubs.columns.iter().map(|level| level.is_finite()).collect();
    let left = |boot: &Boot| {
        let against = |values: &[f64], levels: &[f64]| {
            let effect = effect_of(values, levels);
            values.iter().zip(levels).map(|(value, level)| value - level - effect).collect::<Vec<_>>()
        };
        Left { costs: against(&boot.costs, levels), to_hub: against(&boot.to_hub, &hubs.columns) }
    };
    let (mut all, mut of_costs) = (Vec::new(), Vec::new());
    for (host, boots) in table.boots.iter().enumerate() {
        let of_boots: Vec<Left> = boots.iter().map(left).collect();
        for (case, &with_hub) in with_hub.iter().enumerate() {
            let known = |of: fn(&Left) -> &Vec<f64>| -> Vec<f64> {
                of_boots.iter().map(|left| of(left)[case]).filter(|value| value.is_finite()).collect()
            };
            let by_cost = known(|left| &left.costs);
            let boots = if with_hub { known(|left| &left.to_hub) } else { by_cost.clone() };
            if !boots.is_empty() {
                all.push(Cell { host, case, boots });
                of_costs.push(with_hub.then_some(by_cost).filter(|of| !of.is_empty()));
            }
        }
    }
    let found = standing_out(&all, table.cases.len(), margin, Q, MOST_CELLS);
    let off = |found: weighbridge_stats::hosts::cells::Found| {
        let cell = &all[found.cell];
        OffCell {
            machine: lake.hosts[table.hosts[cell.host]].name.clone(),
            case: lake.cases.name(table.cases[cell.case]).into(),
            effect: share(found.effect),
            of_cost: of_costs[found.cell].as_deref().map(|costs| share(median(costs))),
            boots: cell.boots.len(),
            is_sure: found.is_sure,
        }
    };
    found.into_iter().map(off).collect()
}

fn quantiles(effects: &[f64], margin: f64) -> Quantiles {
    let at = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99].map(|p| share(quantile(effects, p)));
    let [low, high] = [quantile(effects, 0.001), quantile(effects, 0.999)];
    let ends = [low.min(-2.0 * margin), high.max(2.0 * margin)];
    let mut bars = vec![0; BARS];
    for effect in effects {
        let place = (effect - ends[0]) / (ends[1] - ends[0]) * BARS as f64;
        bars[(place.max(0.0) as usize).min(BARS - 1)] += 1;
    }
    Quantiles { at, ends: ends.map(share), bars }
}

/// Machines from the most expensive to the cheapest.
fn map(lake: &Lake, table: &Table, effects: &[f64], levels: &[f64], margin: f64) -> Map {
    let mut order: Vec<usize> = (0..table.hosts.len()).filter(|row| effects[*row].is_finite()).collect();
    order.sort_by(|a, b| effects[*b].total_cmp(&effects[*a]).then(a.cmp(b)));
    let step = margin / 5.0;
    let cell = |row: usize, column: usize| {
        let off = table.costs.get(row, column) - levels[column];
        if off.is_finite() { (off / step).round().clamp(-126.0, 126.0) as i8 } else { NOTHING }
    };
    Map {
        rows: order.iter().map(|row| lake.hosts[table.hosts[*row]].name.clone()).collect(),
        columns: table.cases.iter().map(|case| lake.cases.name(*case).to_owned()).collect(),
        cells: order
            .iter()
            .flat_map(|row| (0..table.cases.len()).map(move |column| (*row, column)))
            .map(|(row, column)| cell(row, column))
            .collect(),
    }
}
