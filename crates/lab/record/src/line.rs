//! The lines of a record, one type each.

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::check::Check;
use crate::compare::{CaseVerdict, Claims, ComparedSet};
use crate::contest::{Contest, Findings};
use crate::explain::{ExplainedSet, Explanation, Price};
use crate::functions::{Functions, FunctionsCompared};
use crate::header::Header;
use crate::hub::Hub;
use crate::observation::{Difference, Observation, Profile};
use crate::ratio::{Comparison, Crossover, Published, Ratio};
use crate::run::{Case, Run};
use crate::summary::Summary;
use crate::timeline::Timeline;

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The first line: tool, settings, machine.
    Header(Box<Header>),
    /// A case, before its first run.
    Case(Case),
    /// One finished run.
    Run(Run),
    /// What the runs of a case amount to.
    Summary(Summary),
    /// A hub over the whole session.
    Hub(Hub),
    /// Two cases of one record, interleaved, as a ratio of their costs.
    Comparison(Comparison),
    /// Cases that differ in the mechanism, and which order of them is sure.
    Contest(Contest),
    /// All contests of a record, judged together.
    Findings(Findings),
    /// How many times a figure of a baseline a case has.
    Ratio(Ratio),
    /// The size at which two mechanisms cost the same.
    Crossover(Crossover),
    /// A figure that others have published, beside ours.
    Published(Published),
    /// A figure of another tool and ours, measured in turn.
    Check(Box<Check>),
    /// One set of a comparison of two sides.
    ComparedSet(Box<ComparedSet>),
    /// What may be said of one side against the other in a case.
    Verdict(Box<CaseVerdict>),
    /// What holds of all cases of a comparison together.
    Claims(Claims),
    /// One set of an explanation.
    ExplainedSet(ExplainedSet),
    /// What one of something costs.
    Price(Price),
    /// What the cost of a case is made of.
    Explanation(Box<Explanation>),
    /// What the kernel did while a case ran.
    Observation(Box<Observation>),
    /// Where the time of a case went, by samples.
    Profile(Box<Profile>),
    /// How two observed cases differ.
    Difference(Box<Difference>),
    /// When each thing happens in an operation.
    Timeline(Box<Timeline>),
    /// The instructions of an operation by function, counted in a guest.
    Functions(Box<Functions>),
    /// The functions of two cases, or of a case on two kernels, compared.
    FunctionsCompared(Box<FunctionsCompared>),
    /// A case that could not be measured, or a run of it, and why.
    Skipped(Skipped),
    /// The last line.
    End(End),
}

/// A case, or one run of it, that gave no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The case.
    pub case: CaseId,
    /// The step in which it ended: `fit`, `plan`, `conditions` (roles did not run as the case says), `throttled` (a control group
    /// withheld CPU time), or the step of a peer's life
    /// (`hello`, `pin`, `attach`, `prefault`, `verify`,
    /// `ready`, `calibrate`, `batches`, `report`).
    pub step: String,
    /// One sentence: what, why, and how to change it where the user can.
    pub why: String,
}

/// The last line of a record that was closed in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Was everything measured that was planned?
    pub complete: bool,
    /// Wall-clock time, in seconds.
    pub elapsed_s: f64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::latency::Percentile;
    use crate::*;
    use serde_json::Value;

    /// Lines with every field present, optional ones too.
    fn full_lines() -> Vec<Line> {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let map = || BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let per_op = PerOp {
            user_ns: Some(1.0),
            kernel_ns: Some(1.0),
            migrations: Some(0.0),
            cycles: Some(1.0),
            instructions: Some(1.0),
            ..PerOp::default()
        };
        let machine = Machine {
            command_line: Some("x".into()),
            boot_id: Some("x".into()),
            microcode: Some("x".into()),
            cpus: vec![Cpu { cpu: 0, core: 0, package: 0, llc: 0, node: 0 }],
            caches: vec![Cache { level: 1, r#type: "Data".into(), size_bytes: 1, line_bytes: 1 }],
            nodes: vec![Node { node: 0, cpus: vec![0], memory_bytes: 1 }],
            clock: Clock { tsc_hz: Some(1.0), ..Clock::default() },
            load: Some("x".into()),
            libc: Some("x".into()),
            ..Machine::default()
        };
        let mut lines = vec![
            Line::Header(Box::new(Header {
                schema: crate::SCHEMA,
                tool: Tool { commit: Some("x".into()), ..Tool::default() },
                started: "2026-01-01T00:00:00Z".into(),
                command: vec!["weighbridge".into()],
                seed: 1,
                settings: map(),
                machine,
            })),
            Line::Case(Case {
                case: case.clone(),
                pattern: "roundtrip".into(),
                mechanism: "pipe".into(),
                payload_bytes: 1,
                placement: "same-cpu".into(),
                resolved_placement: "same-cpu".into(),
                cpus: vec![0, 0],
                roles: vec!["client".into()],
                axes: map(),
                unit: "ns/roundtrip".into(),
                higher_is_better: false,
                measured_alone: Some("x".into()),
                facts: map(),
            }),
            Line::Run(Run {
                case: case.clone(),
                run: 0,
                round: 0,
                value: 1.0,
                samples: vec![1.0],
                ops_per_sample: 1,
                per_op: per_op.clone(),
                roles: vec![RoleCounters {
                    role: "client".into(),
                    cpu: Some(0),
                    ops: 1,
                    received_bytes: 1,
                    per_op: per_op.clone(),
                }],
                series: BTreeMap::from([("events_per_call".into(), vec![1.0])]),
                latencies: Some(Latencies { counts: vec![(1, 1)], max_ns: 1, clock_read_ns: 1.0 }),
                slices: Some(Slices {
                    hub: case.clone(),
                    slice_ms: 2.0,
                    of_case: SliceSeries { start_ns: vec![0], elapsed_ns: vec![1], ops: vec![1] },
                    of_hub: SliceSeries { start_ns: vec![2], elapsed_ns: vec![1], ops: vec![1] },
                }),
                warm_up: Some(WarmUp { ms: 120.0, batches: 24, steady: true }),
                noise: Noise {
                    marked_samples: 0,
                    steal_ms: Some(0.0),
                    interrupts: Some(0),
                    cpu_pressure: Some(0.0),
                    coordinator_switches: Some(0),
                },
                startup_ms: 1.0,
                elapsed_ms: 1.0,
                flags: vec!["anomaly: 3 switches".into()],
            }),
            Line::Summary(Summary {
                case: case.clone(),
                unit: "ns/roundtrip".into(),
                runs: 6,
                attempts: Some(Attempts { begun: 7, failed: 1 }),
                median: 1.0,
                ci95: Some([1.0, 1.0]),
                range: [1.0, 1.0],
                spread_between: 0.0,
                spread_within: 0.0,
                to_hub: Some(ToHub { hub: case.clone(), median: 1.0, ci95: Some([1.0, 1.0]), sets: 6 }),
                best: Some(1.0),
                slow_share: Some(0.0),
                stopped_by: StoppedBy::MaxRuns,
                beside: BTreeMap::from([("broker".into(), per_op.clone())]),
                per_op,
                system_calls: Some(SystemCalls {
                    per_op: 2.0,
                    roles: vec![RoleCalls {
                        role: "client".into(),
                        ops: 1,
                        calls: BTreeMap::from([("read".into(), 1.0)]),
                    }],
                }),
                series: BTreeMap::from([("events_per_call".into(), 1.0)]),
                series_ci95: BTreeMap::from([("events_per_call".into(), [1.0, 1.0])]),
                distribution: Some(Distribution {
                    percentiles: vec![Percentile { p: 0.5, ns: 1.0, ci95: Some([1.0, 1.0]), pooled: true }],
                    observations: 1,
                    max_ns: 1,
                }),
                anomalies: vec!["3 switches".into()],
                regimes: vec![Regime {
                    regime: RegimeKind::TwoModes,
                    within: "runs".into(),
                    runs: 1,
                    detail: "x".into(),
                    levels: Some([1.0, 2.0]),
                }],
            }),
            Line::Hub(Hub {
                case: case.clone(),
                unit: "ns/roundtrip".into(),
                median: 1.0,
                range: [1.0, 2.0],
                sets: 6,
                doubled_slices: Some(DoubledSlices { factor: 1.0, ci95: Some([1.0, 1.0]), cases: 6 }),
                meetings: vec![HubMeeting {
                    with: case.clone(),
                    ratio: 1.0,
                    ci95: Some([1.0, 1.0]),
                    ratios: vec![1.0; 6],
                }],
            }),
            Line::Comparison(Comparison {
                case: case.clone(),
                baseline: case.clone(),
                speedup: 1.0,
                ci95: Some([1.0, 1.0]),
                pairs: 6,
            }),
            Line::Ratio(Ratio {
                case: case.clone(),
                baseline: case.clone(),
                baseline_record: Some("before.jsonl".into()),
                other_machine: Some("hostname: a and b".into()),
                figure: "value".into(),
                here: 1.0,
                there: 1.0,
                ratio: 1.0,
                ci95: Some([1.0, 1.0]),
                pairs: 6,
            }),
            Line::Crossover(Crossover {
                first: case.clone(),
                second: case.clone(),
                range_bytes: [1, 2],
                bytes: Some(1.5),
                between_bytes: [Some(1.0), None],
                first_is_cheaper_below: Some(true),
                crossings: 1,
            }),
            Line::Published(Published {
                case: case.clone(),
                source: "tool, 2014".into(),
                name: "x".into(),
                unit: "ns".into(),
                theirs: 1.0,
                ours: 2.0,
                ratio: 2.0,
            }),
            Line::Check(Box::new(Check {
                case: case.clone(),
                program: Some("/usr/bin/x".into()),
                trouble: Some("x".into()),
                turns: vec![Turn { theirs: 1.0, ours: 1.0 }],
                ..Check::default()
            })),
            Line::Skipped(Skipped { case: case.clone(), step: "fit".into(), why: "x".into() }),
            Line::End(End { complete: true, elapsed_s: 1.0 }),
        ];
        lines.extend(crate::compare::tests::full_lines(&case));
        lines.extend(crate::contest::tests::full_lines(&case));
        lines.extend(crate::explain::tests::full_lines(&case));
        lines.extend(crate::observation::tests::full_lines(&case));
        lines.extend(crate::timeline::tests::full_lines());
        lines.extend(crate::functions::tests::full_lines(&case));
        lines
    }

    /// Names of the fields of our own types; below `settings`, `axes` and the like stand other people's names.
    fn field_names(value: &Value, names: &mut Vec<String>) {
        const FOREIGN: &[&str] = &[
            "settings",
            "axes",
            "facts",
            "mitigations",
            "power",
            "limits",
            "sysctls",
            "series",
            "series_ci95",
            "calls",
            "preempted_per_operation",
        ];
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    names.push(name.clone());
                    if !FOREIGN.contains(&name.as_str()) {
                        field_names(value, names);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
            _ => {}
        }
    }

    #[test]
    fn every_line_survives_being_written_and_read() {
        for line in full_lines() {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn the_document_names_every_field() {
        let document = include_str!("../../../../docs/record.md");
        let mut names = Vec::new();
        for line in full_lines() {
            field_names(&serde_json::to_value(&line).unwrap(), &mut names);
        }
        assert!(names.len() > 80, "{}", names.len());
        let missing: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/record.md does not name {missing:?}");
    }
}
