//! Records as a program writes them in which nothing is wrong: a session, and a comparison.

use std::collections::BTreeMap;

use weighbridge_record::laws::MOVED_BY;
use weighbridge_record::{
    CameOn, Case, CaseId, CaseVerdict, ComparedSet, Comparison, Cpu, DoubledSlices, Header, Hub, IoCounts,
    Line, Machine, PerOp, RoleCalls, RoleCounters, Run, SampledByRole, SampledTotal, SideOfSet, SliceSeries,
    Slices, Summary, SystemCalls, ToHub, Whereabouts, derive,
};
use weighbridge_stats::{Evidence, median};

const HUB: &str = "roundtrip/pipe/1/same-cpu";
const RUNS: u32 = 8;
const OPS: u64 = 1000;
const SLICES: u64 = 12;

/// How a case of the sound record is measured.
struct Plan {
    id: &'static str,
    cpus: [u32; 2],
    roles: &'static [&'static str],
    /// Nanoseconds an operation.
    cost_ns: f64,
    traits: &'static [&'static str],
    /// How far a message brings the mechanism by its own count: of messages through memory.
    position_each: Option<u64>,
}

const fn round_trip(id: &'static str, cpus: [u32; 2], cost_ns: f64) -> Plan {
    Plan { id, cpus, roles: &["client", "server"], cost_ns, traits: &[], position_each: None }
}

const fn stream(id: &'static str, cpus: [u32; 2], cost_ns: f64) -> Plan {
    Plan { roles: &["sender", "receiver"], ..round_trip(id, cpus, cost_ns) }
}

const CASES: [Plan; 8] = [
    round_trip(HUB, [0, 0], 2000.0),
    round_trip("roundtrip/unix-stream/64/same-cpu", [0, 0], 3500.0),
    round_trip("roundtrip/fifo/64/two-cpus", [0, 1], 8000.0),
    stream("stream/pipe/65536/two-cpus", [0, 1], 40_000.0),
    Plan { traits: &["lossy"], ..stream("stream/udp/64/two-cpus", [0, 1], 900.0) },
    Plan { position_each: Some(1), ..round_trip("roundtrip/ring-futex/64/two-cpus", [0, 1], 5000.0) },
    Plan { position_each: Some(1), ..stream("stream/ring-futex/64/same-cpu", [0, 0], 150.0) },
    Plan { position_each: Some(4160), ..stream("stream/causeway-sw/4096/two-cpus", [0, 1], 700.0) },
];

impl Plan {
    fn id(&self) -> CaseId {
        self.id.parse().unwrap()
    }

    fn is_stream(&self) -> bool {
        self.id.starts_with("stream")
    }

    fn has_hub(&self) -> bool {
        self.traits.is_empty()
    }

    fn is_moved_by_the_kernel(&self) -> bool {
        self.has_hub() && self.position_each.is_none()
    }

    fn case(&self) -> Case {
        let id = self.id();
        let axes = [("wait", "block"), ("peers", "process"), ("nice", "0"), ("sched", "other")];
        let pipes = (id.mechanism == "pipe").then_some(("pipe-size", "default"));
        let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Case {
            pattern: id.pattern.clone(),
            mechanism: id.mechanism.clone(),
            payload_bytes: id.payload_bytes,
            placement: id.placement.clone(),
            resolved_placement: if id.placement == "two-cpus" {
                "same-llc".into()
            } else {
                id.placement.clone()
            },
            cpus: self.cpus.to_vec(),
            roles: self.roles.iter().map(|role| (*role).to_owned()).collect(),
            axes: axes.into_iter().chain(pipes).map(text).collect(),
            unit: if self.is_stream() { "bytes/s".into() } else { "ns/roundtrip".into() },
            higher_is_better: self.is_stream(),
            facts: if self.is_moved_by_the_kernel() {
                [text((MOVED_BY, "read and write"))].into()
            } else {
                BTreeMap::new()
            },
            traits: Some(self.traits.iter().map(|of| (*of).to_owned()).collect()),
            case: id,
            ..Case::default()
        }
    }

    /// What an operation costs in a run: no two are alike.
    fn cost_of_run(&self, run: u32) -> f64 {
        self.cost_ns * (1.0 + 0.002 * f64::from(run))
    }

    fn value(&self, cost_ns: f64) -> f64 {
        if self.is_stream() { self.id().payload_bytes as f64 * 1e9 / cost_ns } else { cost_ns }
    }

    fn role(&self, index: usize, ops: u64) -> RoleCounters {
        let (payload, cpu) = (self.id().payload_bytes, self.cpus[index]);
        let (writes, reads) = if self.is_stream() { (index == 0, index == 1) } else { (true, true) };
        let at = Whereabouts { cpu, allowed: cpu.to_string() };
        let settings = [("nice", "0"), ("policy", "other"), ("pipe_bytes", "65536")];
        let each = |does: bool| if does { ops * u64::from(payload > 0) } else { 0 };
        RoleCounters {
            role: self.roles[index].into(),
            cpu: Some(cpu),
            ops,
            received_bytes: each(reads) * payload,
            per_op: PerOp { voluntary_switches: 1.0, cpu_ns: 0.4 * self.cost_ns, ..PerOp::default() },
            process: Some(100 + index as u32),
            whereabouts: vec![at.clone(), at],
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            sampled: Some(SampledByRole {
                ops: OPS * SLICES,
                cpu_ns: (0.4 * self.cost_ns * (OPS * SLICES) as f64) as u64,
                gaps_ns: if self.is_stream() && self.has_hub() && index == 1 { 3000 * SLICES } else { 0 },
            }),
            position: self.position_each.filter(|_| reads).map(|each| CameOn { by: each * ops, each }),
            io: Some(if self.position_each.is_some() {
                IoCounts::default()
            } else {
                IoCounts {
                    read_bytes: each(reads) * payload,
                    written_bytes: each(writes) * payload,
                    read_calls: each(reads),
                    write_calls: each(writes),
                }
            }),
        }
    }

    /// Of both roles together.
    fn per_op(&self) -> PerOp {
        PerOp { voluntary_switches: 2.0, cpu_ns: 2.0 * 0.4 * self.cost_ns, ..PerOp::default() }
    }

    fn run(&self, run: u32) -> Run {
        let is_doubled = run == 7;
        let (cost_ns, payload) = (self.cost_of_run(run), self.id().payload_bytes);
        let ops = if is_doubled { 2 * OPS } else { OPS };
        let series = |cost_ns: f64, ops: u64, each: u64, first: u64| SliceSeries {
            start_ns: (0..SLICES).map(|slice| first + slice * 1_000_000_000).collect(),
            elapsed_ns: vec![(cost_ns * ops as f64) as u64; SLICES as usize],
            ops: vec![ops * each; SLICES as usize],
        };
        let own = series(cost_ns, ops, if self.is_stream() { payload } else { 1 }, 0);
        let elapsed_ns: u64 = own.elapsed_ns.iter().sum();
        let sample = own.ops[0] as f64 / own.elapsed_ns[0] as f64;
        let sample = if self.is_stream() { sample * 1e9 } else { 1.0 / sample };
        let sampled = ops * SLICES;
        let mut roles: Vec<RoleCounters> = (0..2).map(|index| self.role(index, sampled + ops)).collect();
        roles.iter_mut().for_each(|role| role.sampled.as_mut().unwrap().ops = sampled);
        let hub = &CASES[0];
        let slices = self.has_hub().then(|| Slices {
            hub: hub.id(),
            slice_ms: if is_doubled { 4.0 } else { 2.0 },
            of_case: own,
            of_hub: series(hub.cost_ns, ops, 1, 500_000_000),
            hub_roles: (0..2).map(|index| hub.role(index, sampled)).collect(),
        });
        Run {
            case: self.id(),
            run,
            round: run,
            per_op: self.per_op(),
            value: sample,
            samples: vec![sample; SLICES as usize],
            ops_per_sample: ops,
            sampled_total: Some(SampledTotal {
                samples: SLICES,
                ops: sampled,
                bytes: if self.is_stream() { sampled * payload } else { 0 },
                elapsed_ns,
            }),
            roles,
            slices,
            ..Run::default()
        }
    }

    fn summary(&self, runs: &[&Run], hub_ns: f64) -> Summary {
        let id = self.id();
        let ratio = |run: &&Run| derive::log_ratio_to_hub(run.slices.as_ref()?).map(f64::exp);
        let ratios: Vec<f64> = runs.iter().filter_map(ratio).collect();
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let is_in_turn = !ratios.is_empty();
        let figure = if is_in_turn { self.value(median(&ratios) * hub_ns) } else { median(&values) };
        let figure = if is_in_turn && self.is_stream() { 1e9 / (median(&ratios) * hub_ns) } else { figure };
        let calls = |role: &&str| RoleCalls {
            role: (*role).to_owned(),
            ops: 400,
            calls: [("read".to_owned(), 1.0), ("write".to_owned(), 1.0)].into(),
        };
        Summary {
            to_hub: is_in_turn.then(|| ToHub {
                hub: HUB.parse().unwrap(),
                median: median(&ratios),
                ci95: None,
                sets: ratios.len() as u32,
            }),
            per_op: self.per_op(),
            ci95: Some([0.99 * figure, 1.01 * figure]).filter(|_| !is_in_turn),
            system_calls: Some(SystemCalls { per_op: 4.0, roles: self.roles.iter().map(calls).collect() }),
            ..Summary::new(id, if self.is_stream() { "bytes/s" } else { "ns/roundtrip" }, RUNS, figure)
        }
    }
}

/// An operation of one role; its loop of 0.4 ns was taken off.
fn alone(mechanism: &str, raw_ns: f64, calls: &[(&str, f64)]) -> Vec<Line> {
    let id = CaseId::new("solo", mechanism, 0, "same-cpu");
    let is_harness = mechanism == "noop";
    let case = Case {
        case: id.clone(),
        pattern: "solo".into(),
        mechanism: mechanism.into(),
        placement: "same-cpu".into(),
        resolved_placement: "same-cpu".into(),
        cpus: vec![0],
        roles: vec!["worker".into()],
        unit: "ns/op".into(),
        traits: Some(if is_harness { vec!["harness".into()] } else { Vec::new() }),
        ..Case::default()
    };
    let value = raw_ns - 0.4;
    let at = Whereabouts { cpu: 0, allowed: "0".into() };
    let run = Run {
        case: id.clone(),
        value,
        samples: vec![value; 5],
        series: [("raw_ns".to_owned(), vec![raw_ns; 5])].into(),
        roles: vec![RoleCounters {
            role: "worker".into(),
            cpu: Some(0),
            ops: 6000,
            process: Some(7),
            whereabouts: vec![at.clone(), at],
            settings: [("nice".to_owned(), "0".to_owned())].into(),
            ..RoleCounters::default()
        }],
        sampled_total: Some(SampledTotal {
            samples: 5,
            ops: 5000,
            bytes: 0,
            elapsed_ns: (raw_ns * 5e3) as u64,
        }),
        ..Run::default()
    };
    let calls = calls.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect();
    let summary = Summary {
        system_calls: Some(SystemCalls {
            per_op: 1.0,
            roles: vec![RoleCalls { role: "worker".into(), ops: 400, calls }],
        }),
        ..Summary::new(id, "ns/op", 1, value)
    };
    vec![Line::Case(case), Line::Run(run), Line::Summary(summary)]
}

/// A record as a session writes it, with its header, all cases, the hub and a comparison.
pub fn sound() -> Vec<Line> {
    let cpu = |cpu| Cpu { cpu, core: cpu, package: 0, llc: 0, node: 0 };
    let machine = Machine { cpus: vec![cpu(0), cpu(1)], ..Machine::default() };
    let mut lines = vec![Line::Header(Box::new(Header { machine, ..Header::default() }))];
    lines.extend(CASES.iter().map(|plan| Line::Case(plan.case())));
    let runs: Vec<Run> = CASES.iter().flat_map(|plan| (0..RUNS).map(|run| plan.run(run))).collect();
    lines.extend(runs.iter().cloned().map(Line::Run));
    let hub_ns = CASES[0].cost_ns;
    let of = |plan: &Plan| runs.iter().filter(|run| run.case == plan.id()).collect::<Vec<_>>();
    let summaries: Vec<Summary> = CASES.iter().map(|plan| plan.summary(&of(plan), hub_ns)).collect();
    lines.extend(summaries.iter().cloned().map(Line::Summary));
    let solo = [alone("noop", 0.4, &[]), alone("getppid", 70.4, &[("getppid", 1.0)])];
    lines.extend(solo.into_iter().flatten());
    let with_hub = CASES.iter().filter(|plan| plan.has_hub()).count() as u32;
    lines.push(Line::Hub(Hub {
        case: HUB.parse().unwrap(),
        unit: "ns/roundtrip".into(),
        median: hub_ns,
        range: [hub_ns; 2],
        sets: with_hub * RUNS,
        doubled_slices: Some(DoubledSlices { factor: 1.0, ci95: None, cases: with_hub }),
        meetings: Vec::new(),
        earlier: None,
    }));
    let logs = |plan: &Plan| -> Vec<f64> {
        of(plan).iter().filter_map(|run| derive::log_ratio_to_hub(run.slices.as_ref()?)).collect()
    };
    let speedup = Evidence::chain(&logs(&CASES[1]), &[], &logs(&CASES[0])).reversed().ratio().unwrap();
    lines.push(Line::Comparison(Comparison {
        case: CASES[1].id(),
        baseline: HUB.parse().unwrap(),
        speedup,
        ci95: None,
        pairs: RUNS,
    }));
    lines
}

/// Sets of a comparison of which B costs two and a half times as much as A.
pub fn compared() -> Vec<Line> {
    let id: CaseId = "roundtrip/pipe/1/same-cpu".parse().unwrap();
    let series = |cost_ns: u64, first: u64| SliceSeries {
        start_ns: (0..12).map(|slice| first + slice * 100_000_000).collect(),
        elapsed_ns: vec![cost_ns * 1000; 12],
        ops: vec![1000; 12],
    };
    let side = |cost_ns: u64, first: u64| SideOfSet {
        case: id.clone(),
        build: None,
        value: cost_ns as f64,
        slices: Some(series(cost_ns, first)),
        per_op: PerOp::default(),
        flags: Vec::new(),
        frequencies: Vec::new(),
    };
    let set = |set: u32| {
        let (a, second) = (2000 + u64::from(set), 2001 + u64::from(set * 5 % 7));
        let ratio = |cost_ns: u64| (cost_ns as f64 / a as f64).ln();
        ComparedSet {
            case: id.clone(),
            set,
            slice_ms: Some(2.0),
            a: side(a, 0),
            b: side(5000, 30_000_000),
            control: Some(side(second, 60_000_000)),
            log_ratio: ratio(5000),
            control_log_ratio: Some(ratio(second)),
        }
    };
    let sets: Vec<ComparedSet> = (0..12).map(set).collect();
    let logs: Vec<f64> = sets.iter().map(|set| set.log_ratio).collect();
    let verdict = CaseVerdict {
        case: id,
        ratio: Some(median(&logs).exp()),
        verdict: "regressed".into(),
        unit: "ns/roundtrip".into(),
        ..CaseVerdict::default()
    };
    let lines = sets.into_iter().map(|set| Line::ComparedSet(Box::new(set)));
    lines.chain([Line::Verdict(Box::new(verdict))]).collect()
}
