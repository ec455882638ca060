//! Where scatter comes from, and how many machines, boots and runs make a difference known.

use serde::Serialize;
use weighbridge_stats::hosts::components::{Boot, Components, components, hosts_for, runs_per_boot};
use weighbridge_stats::quantile;

use super::hosts::Table;
use crate::lake::Lake;

/// Time that a boot costs beside its runs, and a run: what the advice on runs rests on.
const BOOT_S: f64 = 60.0;
const RUN_S: f64 = 1.0;

/// Fewest machines of a class whose scatter is told.
const FEWEST: usize = 5;

/// A component over the cases of a class: its middle, and the quarters around it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScatterOf {
    /// Of the median case, as a share.
    pub median: f64,
    /// Of the cases a quarter of the way from either end.
    pub quarters: [f64; 2],
}

/// Machines a side for a difference of this size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HostsNeeded {
    /// Half the width of the interval, as a share.
    pub margin: f64,
    /// Different machines a side, in the median case; absent where no number suffices.
    pub a_side: Option<usize>,
    /// Machines that are measured before and after.
    pub paired: Option<usize>,
}

/// Components of the largest class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scatter {
    /// The class.
    pub hw_class: String,
    /// Between machines; with no second boots of machines and boots together.
    pub host: Option<ScatterOf>,
    /// Between boots of a machine.
    pub boot: Option<ScatterOf>,
    /// Between runs of a boot.
    pub run: Option<ScatterOf>,
    /// What is needed to know differences.
    pub needed: Vec<HostsNeeded>,
    /// Runs of a boot that tell most for the time, where a boot costs a minute and a run a second.
    pub runs_per_boot: Option<usize>,
}

pub fn scatter(lake: &Lake, tables: &[Table], margin: f64) -> Scatter {
    let Some(table) = tables.first().filter(|table| table.hosts.len() >= FEWEST) else {
        return Scatter::default();
    };
    let of_case = |case: usize| -> Components {
        let boots = |boots: &Vec<super::hosts::Boot>| -> Vec<Boot> {
            let known = boots.iter().filter(|boot| boot.costs[case].is_finite());
            let boot = |boot: &super::hosts::Boot| {
                let (run, runs) = boot.runs[case];
                Boot {
                    level: boot.costs[case],
                    run: Some(run).filter(|run| run.is_finite()),
                    runs: runs.max(1) as usize,
                }
            };
            known.map(boot).collect()
        };
        components(&table.boots.iter().map(boots).collect::<Vec<_>>())
    };
    let all: Vec<Components> = (0..table.cases.len()).map(of_case).collect();
    let over = |of: fn(&Components) -> Option<f64>| -> Option<ScatterOf> {
        let known: Vec<f64> = all.iter().filter_map(of).collect();
        let at = |p: f64| quantile(&known, p);
        (!known.is_empty()).then(|| ScatterOf { median: at(0.5), quarters: [at(0.25), at(0.75)] })
    };
    let (host, boot, run) = (over(|of| of.host), over(|of| of.boot), over(|of| of.run));
    let middle = |of: Option<ScatterOf>| of.map(|of| of.median);
    let squared = |of: Option<ScatterOf>| middle(of).map_or(0.0, |deviation| deviation * deviation);
    let typical = Components { host: middle(host), boot: middle(boot), run: middle(run) };
    let within = squared(boot) + squared(run) / 8.0;
    let needed = |margin: f64| HostsNeeded {
        margin,
        a_side: hosts_for((squared(host) + within).sqrt(), margin),
        // A difference of two boots of one machine has twice their variance, and needs no second group.
        paired: hosts_for(within.sqrt(), margin),
    };
    let margins: &[f64] = if host.is_some() { &[margin, 0.01, 0.02] } else { &[] };
    Scatter {
        hw_class: lake.classes.name(table.class).into(),
        host,
        boot,
        run,
        needed: margins.iter().map(|margin| needed(*margin)).collect(),
        runs_per_boot: runs_per_boot(&typical, BOOT_S, RUN_S),
    }
}
