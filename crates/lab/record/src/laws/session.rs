//! All runs of a record: what its summaries, hubs and comparisons say follows from them; what the harness itself calls and costs.

use std::collections::BTreeMap;

use weighbridge_stats::{Evidence, median};

use super::found::{CONDITIONS, DEFECT, Found, MECHANISM, is_same};
use super::roles;
use super::slices::{CLEAR, apart_by, are_opposite, costs_ns};
use super::{bytes, counts};
use crate::derive::log_ratio_to_hub;
use crate::{Case, CaseId, Comparison, Hub, PerOp, RoleCalls, Run, Summary};

/// What is kept of a run.
#[derive(Debug)]
struct OfRun {
    value: f64,
    log_ratio: Option<f64>,
    hub_median_ns: Option<f64>,
    slice_ms: f64,
    /// Median length of its slices, and whether one has more than one operation.
    slice_ns: Option<f64>,
    has_many_ops: bool,
    /// What was taken off its samples for the loop around them, in nanoseconds.
    loop_ns: Option<f64>,
    per_op: PerOp,
}

/// What is kept of a case.
#[derive(Debug, Default)]
struct OfCase {
    case: Case,
    hub: Option<CaseId>,
    runs: Vec<OfRun>,
    summary: Option<Summary>,
    /// The CPUs that its roles might run on in its first run, where they are not pinned.
    allowed: Option<Vec<String>>,
}

/// What a record has said so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    cases: BTreeMap<CaseId, OfCase>,
    /// Medians of the sets of each hub.
    hubs: BTreeMap<CaseId, Vec<f64>>,
}

impl Seen {
    pub(super) fn case(&mut self, case: &Case) {
        self.cases.insert(case.case.clone(), OfCase { case: case.clone(), ..OfCase::default() });
    }

    pub(super) fn case_of(&self, id: &CaseId) -> Option<&Case> {
        Some(&self.cases.get(id)?.case)
    }

    /// Roles that are not pinned may run on the same CPUs in every set: an operator or a kubelet may take some away in between.
    pub(super) fn allowed(&mut self, run: &Run, found: &mut Found) {
        let Some(of) = self.cases.get_mut(&run.case) else { return };
        let free = run.roles.iter().filter(|role| role.cpu.is_none());
        let now: Vec<String> =
            free.filter_map(|role| Some(role.whereabouts.first()?.allowed.clone())).collect();
        match &of.allowed {
            Some(first) if *first != now && !now.is_empty() => {
                let said = format!("in run {} its roles might run on CPUs {}", run.run, now.join(" and "));
                let expected = format!("those of its first run, {}", first.join(" and "));
                found.broken("placed", &run.case, said, expected, CONDITIONS);
            }
            None if !now.is_empty() => of.allowed = Some(now),
            _ => {}
        }
    }

    pub(super) fn run(&mut self, run: &Run) {
        let Some(of) = self.cases.get_mut(&run.case) else { return };
        let slices = run.slices.as_ref();
        let middle = |values: Vec<f64>| (!values.is_empty()).then(|| median(&values));
        let hub_median_ns = slices.and_then(|slices| middle(costs_ns(&slices.of_hub)));
        let slice_ns =
            slices.and_then(|of| middle(of.of_case.elapsed_ns.iter().map(|ns| *ns as f64).collect()));
        let raw_ns = run.series.get("raw_ns").filter(|raw| raw.len() == run.samples.len());
        let loops = raw_ns.map(|raw| raw.iter().zip(&run.samples).map(|(raw, own)| raw - own).collect());
        of.runs.push(OfRun {
            value: run.value,
            log_ratio: slices.and_then(log_ratio_to_hub),
            hub_median_ns,
            slice_ms: slices.map_or(0.0, |slices| slices.slice_ms),
            slice_ns,
            has_many_ops: slices.is_some_and(|slices| slices.of_case.ops.iter().any(|ops| *ops > 1)),
            loop_ns: loops.and_then(middle),
            per_op: run.per_op.clone(),
        });
        if let Some((slices, median_ns)) = slices.zip(hub_median_ns) {
            of.hub = Some(slices.hub.clone());
            self.hubs.entry(slices.hub.clone()).or_default().push(median_ns);
        }
    }

    pub(super) fn summary(&mut self, summary: &Summary, found: &mut Found) {
        if let Some(of) = self.cases.get(&summary.case).filter(|of| !of.case.unit.is_empty()) {
            self.runs_of(of, summary, found);
            counts_of(of, summary, found);
            self.own_loop(of, summary, found);
            harness_calls(&of.case, summary, found);
            waits(&of.case, summary, found);
            whole_calls(&of.case, summary, found);
        }
        if let Some(of) = self.cases.get_mut(&summary.case) {
            of.summary = Some(summary.clone());
        }
    }

    /// The figures of a summary are those of its runs.
    fn runs_of(&self, of: &OfCase, summary: &Summary, found: &mut Found) {
        const LAW: &str = "summary";
        let (id, made) = (&summary.case, of.runs.len());
        if summary.runs as usize != made {
            let said = format!("a figure of {} runs", summary.runs);
            return found.broken(LAW, id, said, format!("of the {made} runs that are told"), DEFECT);
        }
        let Some(to_hub) = &summary.to_hub else {
            let values: Vec<f64> = of.runs.iter().map(|run| run.value).collect();
            if made > 0 && !is_same(summary.median, median(&values)) {
                let said = format!("its figure is {}", summary.median);
                found.broken(LAW, id, said, format!("the median of its runs, {}", median(&values)), DEFECT);
            }
            return;
        };
        if let Some(hub) = of.hub.as_ref().filter(|hub| **hub != to_hub.hub) {
            let said = format!("its figure is a multiple of hub {}", to_hub.hub);
            return found.broken("hub", id, said, format!("the hub of its runs, {hub}"), DEFECT);
        }
        let ratios: Vec<f64> = of.runs.iter().filter_map(|run| Some(run.log_ratio?.exp())).collect();
        if ratios.len() == to_hub.sets as usize
            && !ratios.is_empty()
            && !is_same(to_hub.median, median(&ratios))
        {
            let said = format!("its ratio to the hub is {}", to_hub.median);
            let expected = format!("the median of those of its sets, {}", median(&ratios));
            return found.broken(LAW, id, said, expected, DEFECT);
        }
        // By way of the hub and without it on the same side of 1.
        let own: Vec<f64> = of.runs.iter().filter_map(|run| run.hub_median_ns).collect();
        let values: Vec<f64> = of.runs.iter().map(|run| run.value).collect();
        if own.is_empty() || values.iter().any(|value| *value <= 0.0) {
            return;
        }
        let is_time = of.case.unit.starts_with("ns/");
        let costs_ns: Vec<f64> =
            values.iter().map(|value| if is_time { *value } else { 1e9 / value }).collect();
        let apart = apart_by(&costs_ns, &own);
        if are_opposite(to_hub.median.ln(), apart, CLEAR) {
            let said = format!("its ratio to the hub is {}", to_hub.median);
            let expected = format!("the direction in which the figures of both are apart, {}", apart.exp());
            return found.broken(LAW, id, said, expected, DEFECT);
        }
        // Of a hub whose session is over nothing is known any more.
        let sets = self.hubs.get(&to_hub.hub).map_or(&[][..], Vec::as_slice);
        if sets.is_empty() {
            return;
        }
        let scaled_ns = to_hub.median * median(sets);
        let scaled = if of.case.unit.starts_with("ns/") { scaled_ns } else { 1e9 / scaled_ns };
        if (scaled / summary.median).ln().abs() > SETS_MISSING {
            let said = format!("its figure is {}", summary.median);
            let expected = format!("its ratio to the hub times the hub's median, {scaled}");
            found.broken(LAW, id, said, expected, DEFECT);
        }
    }

    /// What is taken off for the loop is what the session's empty loop takes.
    fn own_loop(&self, of: &OfCase, summary: &Summary, found: &mut Found) {
        const LAW: &str = "own-loop";
        let loops = |of: &OfCase| of.runs.iter().filter_map(|run| run.loop_ns).collect::<Vec<_>>();
        let own = loops(of);
        if own.is_empty() {
            return;
        }
        let is_empty_loop = |of: &&OfCase| of.case.pattern == "solo" && of.case.mechanism == "noop";
        let raw_ns = self.cases.values().find(is_empty_loop).and_then(|of| {
            // Nothing is taken off the empty loop itself.
            let raw: Vec<f64> = of.runs.iter().map(|run| run.value + run.loop_ns.unwrap_or(0.0)).collect();
            (!raw.is_empty()).then(|| median(&raw))
        });
        let Some(raw_ns) = raw_ns else {
            return found.not_run(LAW, "what the empty loop takes (no case solo/noop)");
        };
        let (own, most) = (median(&own), LOOPS_DIFFER_BY * raw_ns + LOOP_NS);
        if own > most || own < 0.0 {
            let said = format!("{own:.2} ns an operation were taken off for the loop around it");
            let expected = format!("at most {most:.2} ns: the empty loop of the session takes {raw_ns:.2}");
            found.broken(LAW, &summary.case, said, expected, DEFECT);
        }
    }

    /// A hub is what its sets say, and slices of twice the length were longer. With it its session ends.
    pub(super) fn hub(&mut self, hub: &Hub, found: &mut Found) {
        self.hub_of_session(hub, found);
        self.hubs.remove(&hub.case);
    }

    fn hub_of_session(&self, hub: &Hub, found: &mut Found) {
        let sets = self.hubs.get(&hub.case).map_or(&[][..], Vec::as_slice);
        let of_hub = || self.cases.values().filter(|of| of.hub.as_ref() == Some(&hub.case));
        let mut broken = |law, said: &str, expected: &str| {
            for of in of_hub() {
                found.broken(law, &of.case.case, said, expected, DEFECT);
            }
        };
        if sets.len() == hub.sets as usize && !sets.is_empty() && !is_same(hub.median, median(sets)) {
            let said = format!("its hub {} is said to cost {} ns", hub.case, hub.median);
            broken("hub", &said, &format!("the median of its sets, {}", median(sets)));
        }
        let Some(doubled) = &hub.doubled_slices else { return };
        let lengths: Vec<[Vec<&OfRun>; 2]> = of_hub().map(|of| by_length(&of.runs)).collect();
        let both = || lengths.iter().filter(|groups| groups.iter().all(|group| !group.is_empty()));
        if sets.len() == hub.sets as usize && both().count() != doubled.cases as usize {
            let said = format!(
                "{} cases of hub {} are said to have slices of twice the length",
                doubled.cases, hub.case
            );
            let expected = format!("as many as have slices of two lengths, {}", both().count());
            return broken("doubled-slices", &said, &expected);
        }
        // Against the middle of the usual ones of the same case; an operation that is longer than a slice has one length.
        let of_case = |[usual, doubled]: &[Vec<&OfRun>; 2]| -> Vec<bool> {
            let lengths = |runs: &[&OfRun]| -> Vec<f64> {
                runs.iter().filter(|run| run.has_many_ops).filter_map(|run| run.slice_ns).collect()
            };
            let usual = lengths(usual);
            let is_longer = |ns: f64| !usual.is_empty() && ns > median(&usual);
            if usual.is_empty() { Vec::new() } else { lengths(doubled).into_iter().map(is_longer).collect() }
        };
        let longer: Vec<bool> = both().flat_map(of_case).collect();
        let count = longer.iter().filter(|is_longer| **is_longer).count();
        if longer.len() >= ENOUGH_DOUBLED && (count as f64) < MOSTLY * longer.len() as f64 {
            let said = format!(
                "of {} sets of hub {} with slices of twice the length, {count} had longer ones than usual",
                longer.len(),
                hub.case
            );
            broken("doubled-slices", &said, "nearly all of them");
        }
    }

    /// A speed-up has the direction of the figures that it is one of.
    pub(super) fn comparison(&self, comparison: &Comparison, found: &mut Found) {
        const LAW: &str = "speed-up";
        let of = |id: &CaseId| Some((self.cases.get(id)?, self.cases.get(id)?.summary.as_ref()?));
        let Some(((of, own), (of_base, base))) = of(&comparison.case).zip(of(&comparison.baseline)) else {
            return;
        };
        if own.median <= 0.0 || base.median <= 0.0 || comparison.speedup <= 0.0 {
            return;
        }
        let hub = |summary: &Summary| summary.to_hub.as_ref().map(|to_hub| to_hub.hub.clone());
        if hub(own).is_some() && hub(own) == hub(base) {
            let logs = |of: &OfCase| of.runs.iter().filter_map(|run| run.log_ratio).collect::<Vec<_>>();
            let through = Evidence::chain(&logs(of), &[], &logs(of_base)).reversed().ratio();
            if let Some(through) = through.filter(|through| !is_same(*through, comparison.speedup)) {
                let said = format!(
                    "it is said to be {:.4} times as fast as {}",
                    comparison.speedup, comparison.baseline
                );
                let expected = format!("what the ratios of both to their hub come to, {through:.4}");
                found.broken(LAW, &comparison.case, said, expected, DEFECT);
            }
            return;
        }
        // By hubs that met, or by runs of one round: the direction, where both figures are known well.
        let slower = (own.median / base.median).ln();
        let expected = if of.case.higher_is_better { slower } else { -slower };
        let width = |summary: &Summary| {
            summary.ci95.filter(|[low, _]| *low > 0.0).map(|[low, high]| (high / low).ln() / 2.0)
        };
        let Some((own, base)) = width(own).zip(width(base)) else { return };
        if are_opposite(comparison.speedup.ln(), expected, CLEAR + own + base) {
            let told = format!(
                "it is said to be {:.3} times as fast as {}",
                comparison.speedup, comparison.baseline
            );
            let expected = format!("the direction of their figures, {:.3} times", expected.exp());
            found.broken(LAW, &comparison.case, told, expected, DEFECT);
        }
    }
}

/// Sets of a hub whose runs gave no line, as a logarithm of what they do to its median.
const SETS_MISSING: f64 = 0.1;
/// Two loops of one program at two times.
const LOOPS_DIFFER_BY: f64 = 2.0;
/// And what a loop may differ by however short it is.
const LOOP_NS: f64 = 0.2;
/// So many sets, of slices of twice the length, say whether these were longer: calibration on a loaded machine may halve one.
const ENOUGH_DOUBLED: usize = 40;
/// Of slices that were not doubled half are longer than the middle; of doubled ones nearly all.
const MOSTLY: f64 = 0.65;

/// The runs with slices of the usual length, and those with slices of twice that.
fn by_length(runs: &[OfRun]) -> [Vec<&OfRun>; 2] {
    let usual = runs.iter().map(|run| run.slice_ms).fold(f64::INFINITY, f64::min);
    let is_doubled = |run: &&OfRun| run.slice_ms > 1.5 * usual;
    let (doubled, usual) = runs.iter().filter(|run| run.slice_ms > 0.0).partition(is_doubled);
    [usual, doubled]
}

/// Counts and intervals of a summary, where it is of the runs that are told.
fn counts_of(of: &OfCase, summary: &Summary, found: &mut Found) {
    if summary.runs as usize != of.runs.len() {
        return;
    }
    let per_op: Vec<PerOp> = of.runs.iter().map(|run| run.per_op.clone()).collect();
    counts::of_summary(summary, &per_op, found);
    let values: Vec<f64> = of.runs.iter().map(|run| run.value).collect();
    let ratios: Vec<f64> = of.runs.iter().filter_map(|run| Some(run.log_ratio?.exp())).collect();
    counts::interval(summary, &values, &ratios, found);
}

/// Calls that only a harness makes while it counts: no mechanism lists folders.
const OF_THE_HARNESS: [&str; 2] = ["getdents64", "getdents"];
/// Patterns whose loop around a mechanism makes no call at all.
const BARE_LOOPS: [&str; 6] = ["roundtrip", "stream", "pingpong", "contend", "parallel", "solo"];
/// Fewer calls for an operation are those of a beginning or an end.
const NO_CALLS: f64 = 0.02;

/// The harness calls nothing for an operation: neither as the case `noop` nor beside a mechanism.
fn harness_calls(case: &Case, summary: &Summary, found: &mut Found) {
    const LAW: &str = "harness-calls";
    let Some(calls) = &summary.system_calls else { return };
    let Some(is_harness) = case.has("harness") else {
        return found.not_run(LAW, "the traits of its target");
    };
    // Of other patterns the roles tell each other, or make way.
    let is_bare = is_harness && BARE_LOOPS.contains(&case.pattern.as_str());
    let names = |role: &RoleCalls| -> Vec<(String, f64)> {
        // Who leads at a rate sleeps until an operation is due.
        let is_pause = |name: &str| name == "clock_nanosleep" && roles::asked_per_s(case).is_some();
        let counted = |name: &str| (is_bare && !is_pause(name)) || OF_THE_HARNESS.contains(&name);
        let of = role.calls.iter().filter(|(name, _)| counted(name));
        of.filter(|(_, times)| **times * role.ops as f64 >= 1.0)
            .map(|(name, times)| (name.clone(), *times))
            .collect()
    };
    for role in &calls.roles {
        let of_harness = names(role);
        let sum: f64 = of_harness.iter().map(|(_, times)| times).sum();
        let least = if is_bare { NO_CALLS.max(4.0 / role.ops.max(1) as f64) } else { 0.0 };
        if sum > least {
            let said: Vec<String> =
                of_harness.iter().map(|(name, times)| format!("{name} {times:.3}")).collect();
            let said = format!("{} calls {} for an operation", role.role, said.join(", "));
            return found.broken(LAW, &summary.case, said, "no call of the harness itself", DEFECT);
        }
    }
}

/// Whose calls are told by the kernel, and who waits in one of their names.
fn waits(case: &Case, summary: &Summary, found: &mut Found) {
    const LAW: &str = "waits";
    let Some(calls) = &summary.system_calls else { return };
    let wait = case.axes.get("wait").map_or("", String::as_str);
    let names: &[&str] = match wait {
        "poll" => &["poll", "ppoll"],
        "epoll" => &["epoll_wait", "epoll_pwait", "epoll_pwait2"],
        "uring" => &["io_uring_enter"],
        _ => return,
    };
    // A role that finds a message in shared memory waits for nothing, so one call in a hundred operations is enough; and in a stream it may
    // find all of them, unless each is read from the kernel.
    let applies = match case.pattern.as_str() {
        "roundtrip" => true,
        "stream" => case.facts.contains_key(bytes::MOVED_BY) || wait == "uring",
        _ => false,
    };
    let Some(is_harness) = case.has("harness") else {
        return found.not_run(LAW, "the traits of its target");
    };
    if !applies || is_harness {
        return;
    }
    let of_role = |role: &RoleCalls| names.iter().filter_map(|name| role.calls.get(*name)).sum::<f64>();
    let all: f64 = calls.roles.iter().map(of_role).sum();
    if all < 0.01 {
        let said = format!("{all:.3} calls of {} per operation", names.join(" or "));
        let expected = format!("roles that wait in the way that the case says, wait={wait}");
        found.broken(LAW, &summary.case, said, expected, MECHANISM);
    }
}

/// What one operation calls once, it calls as often as there were operations: a tracer's count of them.
fn whole_calls(case: &Case, summary: &Summary, found: &mut Found) {
    const LAW: &str = "whole-calls";
    let Some(calls) = &summary.system_calls else { return };
    let names: Vec<String> = match case.pattern.as_str() {
        "solo" => vec![case.mechanism.replace('-', "_")],
        "roundtrip"
            if case.facts.contains_key(bytes::MOVED_BY)
                && case.payload_bytes <= 4096
                && case.axes.get("wait").is_some_and(|wait| wait == "block") =>
        {
            vec!["read".into(), "write".into()]
        }
        _ => return,
    };
    for role in &calls.roles {
        for name in &names {
            let Some(times) = role.calls.get(name).filter(|times| **times > 0.5) else { continue };
            let off = (times - times.round()).abs();
            if off > 0.005 + 1.5 / role.ops.max(1) as f64 {
                let said = format!(
                    "{} calls {name} {times:.3} times for each of {} operations",
                    role.role, role.ops
                );
                found.broken(LAW, &summary.case, said, "a whole number of times", DEFECT);
                return;
            }
        }
    }
}
