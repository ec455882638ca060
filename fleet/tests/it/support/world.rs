//! Fleets that never were: machines, boots and cases whose true costs are known.
//!
//! A logarithm of a cost is the level of the case, the effect of the machine, of the machine in the case, of the boot, and noise. What is
//! injected is beside that, and told.

use std::collections::BTreeMap;

use weighbridge_fleet::lake::{Lake, PartRow, Row, SessionPart};
use weighbridge_record::{CaseId, Ending};
use weighbridge_stats::random::Random;

/// What is not normal about a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All effects are normal.
    Normal,
    /// Noise of cells has heavy tails (Student's t with four degrees of freedom).
    HeavyCells,
    /// Machines have.
    HeavyHosts,
    /// Three of ten machines cost 4 % more.
    TwoBands,
}

/// All of them by name.
pub const KINDS: [(&str, Kind); 4] = [
    ("normal", Kind::Normal),
    ("heavy-cells", Kind::HeavyCells),
    ("heavy-hosts", Kind::HeavyHosts),
    ("two-bands", Kind::TwoBands),
];

/// Standard deviations.
const HOST: f64 = 0.01;
const CELL: f64 = 0.005;
const BOOT: f64 = 0.007;
const NOISE: f64 = 0.01;
const BAND: f64 = 0.04;

pub const DAY_US: i64 = 86_400_000_000;
/// 2026-11-02 06:00 UTC.
pub const START_US: i64 = 1_793_599_200_000_000;

/// A fleet.
#[derive(Clone, Debug)]
pub struct World {
    kind: Kind,
    seed: u64,
    pub hosts: Vec<f64>,
    pub cases: Vec<String>,
    cells: BTreeMap<(usize, usize), f64>,
    /// Machines that cost so much more, beyond what nature gave them.
    pub bad_hosts: Vec<usize>,
    /// Cells that do.
    pub bad_cells: Vec<(usize, usize)>,
    facts: Vec<BTreeMap<String, String>>,
    /// From this day on, these machines cost so much more, with another kernel.
    pub event: Option<(i64, usize, f64)>,
}

fn t4(random: &mut Random) -> f64 {
    let chi: f64 = (0..4).map(|_| random.normal().powi(2)).sum();
    // The deviation of t with four degrees of freedom is √2.
    random.normal() / (chi / 4.0).sqrt() / std::f64::consts::SQRT_2
}

impl World {
    pub fn new(kind: Kind, hosts: usize, cases: usize, seed: u64) -> World {
        let mut random = Random::new(seed);
        let host = |index: usize, random: &mut Random| match kind {
            Kind::HeavyHosts => HOST * t4(random),
            Kind::TwoBands if index % 10 < 3 => BAND + HOST * random.normal(),
            _ => HOST * random.normal(),
        };
        let mechanisms = ["pipe", "eventfd", "unix-stream", "tcp", "futex", "mq-posix"];
        let names = (0..cases).map(|case| {
            let payload = 1 << (case / mechanisms.len() * 3);
            CaseId::new("roundtrip", mechanisms[case % mechanisms.len()], payload, "same-cpu").to_string()
        });
        World {
            kind,
            seed,
            hosts: (0..hosts).map(|index| host(index, &mut random)).collect(),
            cases: names.collect(),
            cells: BTreeMap::new(),
            bad_hosts: Vec::new(),
            bad_cells: Vec::new(),
            facts: vec![BTreeMap::new(); hosts],
            event: None,
        }
    }

    #[allow(dead_code, reason = "the example makes none of them")]
    /// No machine is off by more than this: nothing may be claimed.
    pub fn within(mut self, margin: f64) -> World {
        self.hosts.iter_mut().for_each(|effect| *effect = effect.clamp(-margin, margin));
        self
    }

    /// Machines that are off by exactly that, drawn among those of the first band.
    pub fn with_bad_hosts(mut self, count: usize, effect: f64) -> World {
        let mut random = Random::new(self.seed ^ 0xBAD);
        while self.bad_hosts.len() < count {
            let host = random.below(self.hosts.len());
            if host % 10 >= 3 && !self.bad_hosts.contains(&host) {
                self.hosts[host] = effect;
                self.bad_hosts.push(host);
            }
        }
        self
    }

    pub fn with_bad_cells(mut self, count: usize, effect: f64) -> World {
        let mut random = Random::new(self.seed ^ 0xCE11);
        for _ in 0..count {
            let cell = (random.below(self.hosts.len()), random.below(self.cases.len()));
            self.cells.insert(cell, effect);
            self.bad_cells.push(cell);
        }
        self
    }

    /// Settings: `noise` that do nothing, and where `effect` is given one on a tenth of the machines that costs so much, with a copy that
    /// is the same everywhere and one that differs on one in twelve of those.
    pub fn with_facts(mut self, noise: usize, effect: Option<f64>) -> World {
        let mut random = Random::new(self.seed ^ 0xFAC7);
        let on = |is_on: bool| if is_on { "1" } else { "0" }.to_owned();
        for host in 0..self.hosts.len() {
            let facts = &mut self.facts[host];
            for fact in 0..noise {
                facts.insert(format!("sysctl:noise.{fact:03}"), on(random.below(10) == 0));
            }
            facts.insert("sysctl:same.everywhere".into(), "7".into());
            let guilty = random.below(10) == 0;
            let differs = random.below(12) == 0;
            if let Some(effect) = effect {
                facts.insert("sysctl:guilty".into(), on(guilty));
                facts.insert("power:copy".into(), if guilty { "performance" } else { "powersave" }.into());
                facts.insert("limit:nearly".into(), on(guilty && !differs));
                self.hosts[host] += if guilty { effect } else { 0.0 };
            }
        }
        self
    }

    pub fn name(&self, host: usize) -> String {
        format!("n{host:05}")
    }

    /// A machine's session number `boot` on a day, of these cases (all where none is named).
    pub fn session(&self, host: usize, boot: u64, day: i64, cases: &[String]) -> SessionPart {
        let mut random =
            Random::new(self.seed.wrapping_mul(0x9E37_79B9) ^ (host as u64) << 24 ^ boot << 8 ^ day as u64);
        // The first numbers of neighboring seeds resemble each other in nothing, but one is not enough to be sure.
        random.below(2);
        let of_boot = BOOT * Random::new(self.seed ^ (host as u64) << 20 ^ boot << 4 ^ 0xB007).normal();
        let event = self.event.filter(|(from, hosts, _)| day >= *from && host < *hosts);
        let mut noise =
            |sd: f64| sd * if self.kind == Kind::HeavyCells { t4(&mut random) } else { random.normal() };
        let mut rows = Vec::new();
        for (case, name) in self.cases.iter().enumerate() {
            let (own, shared) = (noise(NOISE), noise(NOISE / 2.0));
            if !cases.is_empty() && !cases.contains(name) {
                continue;
            }
            let level = (2000.0 + 700.0 * case as f64).ln();
            let natural =
                CELL * Random::new(self.seed ^ (host as u64) << 16 ^ (case as u64) << 40 ^ 0xCE).normal();
            let cell = natural + self.cells.get(&(host, case)).copied().unwrap_or(0.0);
            let cost =
                level + self.hosts[host] + of_boot + cell + own + shared + event.map_or(0.0, |event| event.2);
            let figures = Row {
                case: 0,
                ending: Ending::Measured,
                why: 0,
                cost,
                to_hub: (1.0 + 0.1 * case as f64).ln() + cell + own,
                run: 0.01,
                runs: 8,
                sides: 0,
            };
            rows.push(PartRow { case: name.clone(), why: String::new(), figures });
        }
        let started_us = START_US + day * DAY_US + (host as i64 % 1000) * 1_000_000;
        let mut facts = self.facts[host].clone();
        let kernel = if event.is_some() { "6.1.9" } else { "6.1.0" };
        facts.insert("kernel_release".into(), kernel.into());
        SessionPart {
            record: weighbridge_fleet::rows::digest(format!("{} {host} {boot} {day}", self.seed).as_bytes()),
            machine: self.name(host),
            named_by: "label".into(),
            class: "c1a55".into(),
            cpu: "Model 1".into(),
            boot: format!("boot-{host}-{boot}"),
            kernel: kernel.into(),
            started_us,
            ended_us: Some(started_us + 60_000_000),
            complete: true,
            plan: None,
            attempt: 0,
            facts,
            rows,
        }
    }

    /// Each machine once.
    pub fn first_session(&self) -> Lake {
        let mut lake = Lake::new();
        (0..self.hosts.len()).for_each(|host| lake.add(self.session(host, 0, 0, &[]), None));
        lake.settle();
        lake
    }
}

/// The record that a session would have come from, as bytes.
pub fn record(part: &SessionPart) -> Vec<u8> {
    use serde_json::json;
    let at = |us: i64| jiff::Timestamp::from_microsecond(us).unwrap().to_string();
    let mut sysctls = BTreeMap::new();
    let mut power = BTreeMap::new();
    for (name, value) in &part.facts {
        match name.split_once(':') {
            Some(("sysctl", name)) => drop(sysctls.insert(name, value)),
            Some(("power", name)) => drop(power.insert(name, value)),
            _ => {}
        }
    }
    let header = json!({
        "kind": "header", "schema": 2, "tool": {"name": "weighbridge", "version": "0.1.0", "profile": "release"},
        "started": at(part.started_us), "seed": 1, "settings": {},
        "machine": {
            "hostname": part.machine, "kernel": part.kernel, "kernel_build": "#1", "arch": "x86_64", "boot_id": part.boot,
            "cpu_model": part.cpu, "allowed_cpus": [0, 1], "cpus": [], "caches": [], "nodes": [], "memory_bytes": 1_u64 << 34,
            "clock": {"source": "CLOCK_MONOTONIC_RAW", "kernel_source": "tsc", "resolution_ns": 1.0, "read_ns": 20.0},
            "virtualisation": "none", "pmu": false, "mitigations": {}, "power": power, "limits": {}, "sysctls": sysctls, "missing": [],
        },
        "identity": {"machine": part.machine, "machine_from": part.named_by, "hw_class": part.class},
        "labels": {"machine": part.machine, "rack": format!("r{}", part.machine.len())},
        "provenance": {"campaign": "autumn", "attempt": part.attempt, "plan_id": part.plan.as_ref().map(|plan| &plan.0),
            "shard": part.plan.as_ref().map(|plan| plan.1), "shards": part.plan.as_ref().map(|plan| plan.2)},
    });
    let mut lines = vec![header];
    for row in &part.rows {
        let id: CaseId = row.case.parse().unwrap();
        let of = &row.figures;
        if of.ending != Ending::Measured {
            lines.push(json!({"kind": "outcome", "case": row.case, "outcome": of.ending.name(), "step": "fit", "why": row.why}));
            continue;
        }
        lines.push(json!({
            "kind": "case", "case": row.case, "pattern": id.pattern, "mechanism": id.mechanism, "payload_bytes": id.payload_bytes,
            "placement": id.placement, "resolved_placement": "same-cpu", "cpus": [0, 0], "roles": ["client", "server"], "axes": {},
            "unit": "ns/roundtrip", "higher_is_better": false, "facts": {},
        }));
        let (value, ratio) = (of.cost.exp(), of.to_hub.exp());
        lines.push(json!({
            "kind": "summary", "case": row.case, "unit": "ns/roundtrip", "runs": of.runs, "median": value,
            "ci95": [value * 0.99, value * 1.01], "range": [value * 0.98, value * 1.02], "spread_between": of.run * 0.674_489_750_196_081_7,
            "spread_within": 0.02, "to_hub": {"hub": "roundtrip/noop/1/same-cpu", "median": ratio, "ci95": [ratio * 0.99, ratio * 1.01], "sets": 12},
            "stopped_by": "precision", "per_op": {"voluntary_switches": 2.0, "involuntary_switches": 0.0, "minor_faults": 0.0, "cpu_ns": value},
            "anomalies": [], "regimes": [],
        }));
        lines.push(json!({"kind": "outcome", "case": row.case, "outcome": "measured"}));
    }
    if let Some(ended) = part.ended_us {
        lines.push(json!({"kind": "end", "complete": part.complete, "elapsed_s": (ended - part.started_us) as f64 / 1e6}));
    }
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}
