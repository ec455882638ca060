//! From what a run gave to lines of the record. All arithmetic on values is in `stats`.

use std::collections::BTreeMap;

use causeway_os::clock;
use weighbridge_record::{
    self as record, Distribution, IoCounts, Latencies, Noise, PerOp, Regime, RoleCounters, Run,
    SampledByRole, SampledTotal, StoppedBy, Summary, Whereabouts, laws,
};
use weighbridge_stats::{self as stats, Interval};

use crate::contract::{Caps, Facts, Prepared, Unit};
use crate::coordinator::Measured;
use crate::counter_check;
use crate::ctx::{Counted, Discarded, Time};
use crate::peer::RoleReport;
use crate::shared::Sample;

/// The line of a case, with the settings that its endpoints read back.
pub fn case_line(case: &Prepared, facts: &Facts, measured_alone: Option<String>) -> record::Case {
    let id = &case.params.id;
    record::Case {
        case: id.clone(),
        pattern: id.pattern.clone(),
        mechanism: id.mechanism.clone(),
        payload_bytes: id.payload_bytes,
        placement: id.placement.clone(),
        resolved_placement: case.resolved_placement.into(),
        cpus: case.places.first().unwrap_or(&case.params.cpus).clone(),
        places: case.places.clone(),
        roles: case.role_names().into_iter().map(String::from).collect(),
        axes: case.params.axes.clone(),
        unit: case.pattern.unit.name(id.payload_bytes),
        higher_is_better: case.pattern.unit.higher_is_better(),
        measured_alone,
        facts: facts.clone(),
        traits: Some(traits(case)),
        properties: case.target.properties_of(&case.params),
    }
}

/// What a judge of the figures must know of the target.
fn traits(case: &Prepared) -> Vec<String> {
    let caps = case.target.caps;
    let known = [
        ("harness", caps.has(Caps::HARNESS)),
        ("virtual-time", caps.has(Caps::VIRTUAL_TIME)),
        ("lossy", caps.has(Caps::LOSSY)),
        ("symmetric", case.pattern.is_symmetric),
    ];
    known.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

/// What the roles counted and where they ran, and after them the auxiliary process.
pub fn role_counters(case: &Prepared, reports: &[RoleReport]) -> Vec<RoleCounters> {
    let names = case.role_names();
    let of_role = |report: &RoleReport| {
        let Counted { ops, received_bytes, position, whereabouts, sampled, io, .. } = &report.counted;
        let read_back = report.facts.iter().filter(|(fact, _)| laws::is_read_back(fact));
        RoleCounters {
            role: names[report.role].into(),
            cpu: case.params.cpus.get(report.role).copied(),
            ops: *ops,
            received_bytes: *received_bytes,
            position: *position,
            per_op: per_op(report),
            process: Some(report.process),
            whereabouts: whereabouts
                .iter()
                .map(|at| Whereabouts { cpu: at.cpu, allowed: list(&at.allowed) })
                .collect(),
            settings: read_back.map(|(fact, value)| (fact.clone(), value.clone())).collect(),
            sampled: (sampled.ops > 0).then_some(SampledByRole {
                ops: sampled.ops,
                cpu_ns: sampled.cpu_ns,
                gaps_ns: sampled.gaps_ns,
            }),
            io: io.map(|io| IoCounts {
                read_bytes: io.read_bytes,
                written_bytes: io.written_bytes,
                read_calls: io.read_calls,
                write_calls: io.write_calls,
            }),
        }
    };
    let mut roles: Vec<RoleCounters> = reports.iter().map(of_role).collect();
    roles.extend(reports.iter().filter_map(auxiliary_counters));
    roles
}

/// Numbers of CPUs in order, as the kernel writes lists: `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let word = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(word).collect::<Vec<_>>().join(",")
}

fn total(samples: &[Sample]) -> SampledTotal {
    let raw_ns = |sample: &Sample| if sample.extra > 0 { sample.extra } else { sample.elapsed_ns };
    SampledTotal {
        samples: samples.len() as u64,
        ops: samples.iter().map(|sample| sample.ops).sum(),
        bytes: samples.iter().map(|sample| sample.bytes).sum(),
        elapsed_ns: samples.iter().map(raw_ns).sum(),
    }
}

/// The line of a run.
pub fn run_line(case: &Prepared, measured: Measured, run: u32, round: u32) -> Run {
    run_of(case, &measured, run, round)
}

/// The same of a run that is still needed.
pub(crate) fn run_of(case: &Prepared, measured: &Measured, run: u32, round: u32) -> Run {
    let unit = case.pattern.unit;
    let samples: Vec<f64> = measured.samples.iter().map(|sample| value_of(unit, sample)).collect();
    let names = case.role_names();
    let roles = role_counters(case, &measured.roles);
    let is_noise = comes_from_outside(case, names.len());
    let marked = measured.samples.iter().filter(|sample| is_noise && sample.preemptions > 0).count();
    let counted = || measured.roles.iter().map(|report| &report.counted);
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut line = Run {
        case: case.params.id.clone(),
        run,
        round,
        value: if samples.is_empty() { 0.0 } else { stats::run_value(&samples) },
        ops_per_sample: measured.samples.first().map_or(0, |sample| sample.ops),
        sampled_total: Some(total(&measured.samples)),
        samples,
        per_op: if case.pattern.is_symmetric {
            pooled(&measured.roles)
        } else {
            sum(&roles.iter().map(|role| &role.per_op).collect::<Vec<_>>())
        },
        roles,
        series: counted().flat_map(|counted| counted.series.clone()).collect(),
        latencies: Latencies::together(counted().filter_map(|counted| counted.latencies.as_ref())),
        paced: counted().find_map(|counted| counted.paced),
        slices: None,
        warm_up: counted().find_map(|counted| counted.warm_up).map(|Discarded { ns, batches, is_steady }| {
            record::WarmUp { ms: ms(ns), batches, steady: is_steady }
        }),
        noise: Noise {
            marked_samples: marked as u64,
            steal_ms: measured.noise.steal_ns.map(ms),
            interrupts: measured.noise.interrupts,
            cpu_pressure: measured.noise.cpu_pressure_ns.map(|ns| ms(ns) / measured.elapsed_ms),
            coordinator_switches: counted().filter_map(|counted| counted.coordinator_switches).max(),
            frequencies: measured.frequencies.clone(),
        },
        startup_ms: measured.startup_ms,
        elapsed_ms: measured.elapsed_ms,
        flags: Vec::new(),
    };
    if case.target.time() == Time::Virtual {
        // Nothing can disturb it.
        return line;
    }
    let at_rate = record::derive::series_at_rate(&line);
    line.series.extend(at_rate);
    let copy_rate = counted().find_map(|counted| counted.copy_bytes_per_s);
    line.flags = counter_check::flags(case, &line, copy_rate);
    let lost = laws::lost_share(&case_line(case, &measured.facts, None), &line);
    line.flags.extend(lost.map(|share| format!("lost: {:.1} % of the messages offered", share * 100.0)));
    if counter_check::has_ceiling(case) && !measured.samples.is_empty() {
        let cost_ns = |sample: &Sample| sample.elapsed_ns as f64 / sample.ops.max(1) as f64;
        let cost_ns = stats::median(&measured.samples.iter().map(cost_ns).collect::<Vec<_>>());
        line.flags.extend(counter_check::expensive_harness(case, cost_ns, clock::read_ns()));
    }
    let noisy = line.samples.len() as u64;
    if line.noise.marked_samples * 10 > noisy {
        line.flags.push(format!("noisy: {marked} of {noisy} samples were preempted"));
    }
    line
}

/// Is a preemption of the leading role (of several, the first) something that happens to a case, and not a part of it?
///
/// It is where that role has a CPU that no other role has. Roles that share a CPU, because they are pinned to it or because
/// they are free and may meet on it, preempt each other: how they do is what is measured. A role that yields looks the
/// same to the kernel's counter. In virtual time nothing happens at all.
fn comes_from_outside(case: &Prepared, roles: usize) -> bool {
    let cpus = &case.params.cpus;
    let has_own_cpu =
        roles == 1 || cpus.first().is_some_and(|own| cpus.iter().filter(|cpu| *cpu == own).count() == 1);
    case.target.time() == Time::Raw && !case.target.caps.has(Caps::YIELDS) && has_own_cpu
}

fn value_of(unit: Unit, sample: &Sample) -> f64 {
    let elapsed_ns = sample.elapsed_ns.max(1) as f64;
    match unit {
        Unit::NanosPer(_) => elapsed_ns / sample.ops.max(1) as f64,
        Unit::PerSecond(_) => sample.ops as f64 * 1e9 / elapsed_ns,
        Unit::BytesPerSecond if sample.bytes == 0 => sample.ops as f64 * 1e9 / elapsed_ns,
        Unit::BytesPerSecond => sample.bytes as f64 * 1e9 / elapsed_ns,
    }
}

/// The line of a case's end, whose neighboring runs have this correlation, where it is known.
pub fn summary_line(
    case: &Prepared,
    runs: &[Run],
    stopped_by: StoppedBy,
    correlation: Option<f64>,
) -> Summary {
    let samples: Vec<&[f64]> = runs.iter().map(|run| &run.samples[..]).collect();
    let summary = stats::summarize(&samples);
    let per_op = median(&runs.iter().map(|run| &run.per_op).collect::<Vec<_>>());
    let ops = runs.iter().map(|run| run.roles.iter().map(|role| role.ops).max().unwrap_or(0) as f64);
    let mut shape = counter_check::check(case, &per_op, stats::median(&ops.collect::<Vec<_>>()));
    shape.extend(repeated_flags(runs));
    // Of runs that are timed singly only where they are slow, the percentiles would be those of slow runs.
    let timed: Vec<&Latencies> = runs.iter().filter_map(|run| run.latencies.as_ref()).collect();
    Summary {
        ci95: summary.ci95.map(|(low, high)| [low, high]),
        range: [summary.range.0, summary.range.1],
        spread_between: finite(summary.spread_between),
        spread_within: finite(summary.spread_within),
        stopped_by,
        beside: auxiliary_medians(case, runs),
        per_op,
        series: record::derive::series_medians(runs),
        series_ci95: record::derive::series_intervals(runs),
        distribution: if timed.len() == runs.len() { Distribution::of(&timed, correlation) } else { None },
        anomalies: shape,
        regimes: summary.regimes.into_iter().map(Regime::from).collect(),
        ..Summary::new(
            case.params.id.clone(),
            case.pattern.unit.name(case.params.id.payload_bytes),
            runs.len() as u32,
            summary.median,
        )
    }
}

/// A spread relative to a middle of 0 is infinite, which JSON cannot say; there is nothing to be relative to then.
fn finite(spread: f64) -> f64 {
    if spread.is_finite() { spread } else { 0.0 }
}

/// Flags of the same sort in more than half of the runs, with the text of the last.
fn repeated_flags(runs: &[Run]) -> Vec<String> {
    let sort = |flag: &str| flag.split(':').next().unwrap_or("").to_owned();
    let mut by_sort: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    // Noise is seen in the spread; it says nothing of what was measured.
    for flag in runs.iter().flat_map(|run| &run.flags).filter(|flag| !flag.starts_with("noisy")) {
        let entry = by_sort.entry(sort(flag)).or_insert((0, flag));
        *entry = (entry.0 + 1, flag);
    }
    by_sort
        .into_values()
        .filter(|(count, _)| count * 2 > runs.len())
        .map(|(count, flag)| {
            format!("in {count} of {} runs: {}", runs.len(), flag.trim_start_matches("anomaly: "))
        })
        .collect()
}

/// The median over the runs of each count of an auxiliary process, under its name.
fn auxiliary_medians(case: &Prepared, runs: &[Run]) -> BTreeMap<String, PerOp> {
    let roles = case.role_names();
    let mut by_name: BTreeMap<&str, Vec<&PerOp>> = BTreeMap::new();
    for of in runs.iter().flat_map(|run| &run.roles).filter(|of| !roles.contains(&of.role.as_str())) {
        by_name.entry(&of.role).or_default().push(&of.per_op);
    }
    by_name.into_iter().map(|(name, counts)| (name.into(), median(&counts))).collect()
}

/// The counts of a role, per operation.
fn per_op(report: &RoleReport) -> PerOp {
    let Counted { ops, task, migrations, cycles, instructions, .. } = &report.counted;
    let each = |count: u64| count as f64 / (*ops).max(1) as f64;
    PerOp {
        voluntary_switches: each(task.voluntary_switches),
        involuntary_switches: each(task.involuntary_switches),
        minor_faults: each(task.minor_faults),
        major_faults: each(task.major_faults),
        cpu_ns: each(task.cpu_ns),
        user_ns: Some(each(task.user_ns)),
        kernel_ns: Some(each(task.kernel_ns)),
        migrations: migrations.map(each),
        cycles: cycles.map(each),
        instructions: instructions.map(each),
    }
}

/// The counts of an auxiliary process, per operation of the role that counted them.
fn auxiliary_counters(report: &RoleReport) -> Option<RoleCounters> {
    let (name, counted) = report.counted.beside.as_ref()?;
    let ops = report.counted.ops;
    let each = |count: f64| count / ops.max(1) as f64;
    let (user_ns, kernel_ns) = counted.parts_ns();
    let per_op = PerOp {
        voluntary_switches: each(counted.voluntary_switches as f64),
        involuntary_switches: each(counted.involuntary_switches as f64),
        minor_faults: each(counted.minor_faults as f64),
        major_faults: each(counted.major_faults as f64),
        cpu_ns: each(counted.cpu_ns as f64),
        user_ns: Some(each(user_ns)),
        kernel_ns: Some(each(kernel_ns)),
        ..PerOp::default()
    };
    Some(RoleCounters { role: name.clone(), ops, per_op, ..RoleCounters::default() })
}

/// Counts per operation where every role has operations of its own: all that was counted over all that was done.
fn pooled(roles: &[RoleReport]) -> PerOp {
    let ops: u64 = roles.iter().map(|report| report.counted.ops).sum();
    let share = |report: &RoleReport| report.counted.ops as f64 / ops.max(1) as f64;
    let scaled: Vec<PerOp> = roles
        .iter()
        .map(|report| PerOp::fold(&[&per_op(report)], |values| values[0] * share(report)))
        .collect();
    sum(&scaled.iter().collect::<Vec<_>>())
}

fn sum(all: &[&PerOp]) -> PerOp {
    PerOp::fold(all, stats::order::sum)
}

/// An interval as the record has it.
pub(crate) fn ends(interval: Option<Interval>) -> Option<[f64; 2]> {
    interval.map(|interval| [interval.low, interval.high])
}

/// The median of each count.
pub(crate) fn median(all: &[&PerOp]) -> PerOp {
    PerOp::fold(all, stats::median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_preemption_is_noise_only_for_a_role_that_has_its_cpu_alone_and_does_not_yield() {
        for (id, cpus, roles, is_noise) in [
            ("roundtrip/pipe/1/two-cpus", &[0, 1][..], 2, true),
            ("solo/getppid/0/same-cpu", &[0], 1, true),
            ("solo/getppid/0/free", &[], 1, true),
            // The receivers share the other CPU.
            ("fan-out/unix-stream/64/two-cpus", &[0, 1, 1, 1], 4, true),
            ("roundtrip/pipe/1/same-cpu", &[0, 0], 2, false),
            // The scheduler may put both on one.
            ("roundtrip/pipe/1/free", &[], 2, false),
            ("contend/mutex/0/two-cpus/roles=4", &[0, 1, 0, 1], 4, false),
            ("pingpong/spin-yield/0/two-cpus", &[0, 1], 2, false),
            ("solo/sched-yield/0/same-cpu", &[0], 1, false),
            // Its reader yields where little has come.
            ("fan-in/pipe/1/two-cpus", &[0, 1], 2, false),
            // Virtual time has none.
            ("roundtrip/mock/1/two-cpus", &[0, 1], 2, false),
        ] {
            assert_eq!(comes_from_outside(&testing::case(id, cpus), roles), is_noise, "{id}");
        }
    }
}
