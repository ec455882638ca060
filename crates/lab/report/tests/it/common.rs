//! Records built in code: the same figures at every run, with everything in them that a report must cope with.

use std::collections::BTreeMap;

use weighbridge_record::{
    Case, CaseId, Comparison, End, Latencies, Line, PerOp, Problem, Reading, Regime, RegimeKind, RoleCalls,
    Run, Skipped, StoppedBy, Summary, SystemCalls, ToHub,
};

pub const SIZES: [u64; 6] = [1, 64, 4096, 65536, 1 << 20, 1 << 22];

/// Axes that are not at their default.
type Axes = &'static [(&'static str, &'static str)];

/// Fixed cost in ns and cost per KiB in ns of a message on one CPU.
const MECHANISMS: [(&str, Axes, f64, f64); 9] = [
    ("pipe", &[], 2600.0, 95.0),
    ("pipe", &[("wait", "poll")], 3350.0, 95.0),
    ("unix-stream", &[], 3100.0, 70.0),
    ("unix-seqpacket", &[], 3150.0, 88.0),
    ("tcp", &[], 9200.0, 80.0),
    ("mq-posix", &[], 2750.0, 120.0),
    ("ring-futex", &[], 1850.0, 48.0),
    ("ring-eventfd", &[], 2450.0, 48.0),
    ("memfd-pass", &[], 6900.0, 24.0),
];

fn id(pattern: &str, mechanism: &str, axes: &[(&str, &str)], size: u64, placement: &str) -> CaseId {
    axes.iter()
        .fold(CaseId::new(pattern, mechanism, size, placement), |id, (axis, value)| id.with(axis, value))
}

pub fn header() -> Line {
    Line::Header(serde_json::from_str(include_str!("header.json")).unwrap())
}

pub fn case(id: &CaseId, unit: &str) -> Case {
    let (resolved, cpus) = match id.placement.as_str() {
        "same-cpu" => ("same-cpu", vec![0, 0]),
        "free" => ("free", Vec::new()),
        _ => ("same-llc", vec![0, 1]),
    };
    Case {
        case: id.clone(),
        pattern: id.pattern.clone(),
        mechanism: id.mechanism.clone(),
        payload_bytes: id.payload_bytes,
        placement: id.placement.clone(),
        resolved_placement: resolved.into(),
        cpus,
        places: Vec::new(),
        roles: vec!["client".into(), "server".into()],
        axes: [("touch".to_string(), "all".to_string())].into(),
        unit: unit.into(),
        higher_is_better: unit.ends_with("/s"),
        measured_alone: None,
        facts: [("pipe_bytes".to_string(), "65536".to_string())].into(),
        traits: None,
        properties: None,
    }
}

pub fn summary(id: &CaseId, unit: &str, median: f64) -> Summary {
    // A width that differs from case to case, without a generator of random numbers.
    let width = 0.002 + (id.to_string().bytes().map(u64::from).sum::<u64>() % 37) as f64 / 1500.0;
    let on_one_cpu = id.placement == "same-cpu";
    let cpu_ns = if unit.ends_with("/s") { 1e9 / median * 4096.0 } else { median * 0.97 };
    let times = median / 1400.0;
    let to_hub = (id.pattern == "pingpong").then(|| ToHub {
        hub: CaseId::new("pingpong", "futex", 0, &id.placement),
        median: times,
        ci95: Some([times * 0.98, times * 1.02]),
        sets: 9,
    });
    Summary {
        ci95: Some([median * (1.0 - width), median * (1.0 + width * 1.25)]),
        range: [median * (1.0 - 2.0 * width), median * (1.0 + 3.0 * width)],
        spread_between: width / 2.0,
        spread_within: width / 3.0,
        to_hub,
        stopped_by: StoppedBy::Precision,
        per_op: PerOp {
            voluntary_switches: if on_one_cpu { 2.0 } else { 1.97 },
            involuntary_switches: if on_one_cpu { 0.0001 } else { 0.02 },
            minor_faults: 0.0,
            cpu_ns,
            user_ns: (!on_one_cpu).then_some(cpu_ns * 0.25),
            kernel_ns: (!on_one_cpu).then_some(cpu_ns * 0.75),
            ..PerOp::default()
        },
        system_calls: on_one_cpu.then(|| SystemCalls {
            per_op: 4.0,
            roles: ["client", "server"]
                .map(|role| RoleCalls {
                    role: role.into(),
                    ops: 160,
                    calls: BTreeMap::from([("read".into(), 1.0), ("write".into(), 1.0)]),
                })
                .into(),
        }),
        ..Summary::new(id.clone(), unit, 9, median)
    }
}

fn skip(id: CaseId, step: &str, why: &str) -> Line {
    Line::Skipped(Skipped { case: id, step: step.into(), why: why.into() })
}

fn measured(lines: &mut Vec<Line>, id: CaseId, unit: &str, median: f64) {
    lines.push(Line::Case(case(&id, unit)));
    let mut summary = summary(&id, unit, median);
    disturb(&mut summary);
    lines.push(Line::Summary(summary));
}

/// The cases that are not as they should be.
fn disturb(summary: &mut Summary) {
    let id = &summary.case;
    match (id.pattern.as_str(), id.mechanism.as_str(), id.payload_bytes) {
        ("roundtrip", "memfd-pass", 4096..) => {
            summary.anomalies.push("minor faults: 1.00 per operation, expected below 0.001".into());
            summary.per_op.minor_faults = 1.0;
        }
        ("roundtrip", "tcp", 65536) => summary.regimes.push(Regime {
            regime: RegimeKind::TwoModes,
            within: "samples".into(),
            runs: 4,
            detail: "in 4 of 9 runs; in the clearest, the largest gap is 18 % of the range".into(),
            levels: Some([summary.median * 0.8, summary.median * 1.3]),
        }),
        ("stream", "unix-stream", 64) => {
            summary.stopped_by = StoppedBy::Budget;
            summary.runs = 3;
            summary.ci95 = None;
        }
        ("stream", "tcp", _) => summary.stopped_by = StoppedBy::MaxRuns,
        _ => {}
    }
}

fn over_sizes(lines: &mut Vec<Line>, placement: &str) {
    let factor = if placement == "same-cpu" { 1.0 } else { 7.5 };
    for (mechanism, axes, fixed_ns, per_kib_ns) in MECHANISMS {
        for size in SIZES {
            let roundtrip = id("roundtrip", mechanism, axes, size, placement);
            let stream = id("stream", mechanism, axes, size, placement);
            if mechanism == "mq-posix" && size > 8192 {
                let why = "fs.mqueue.msgsize_max is 8192; raise it with sysctl as root";
                lines.push(skip(roundtrip, "fit", why));
                lines.push(skip(stream, "fit", why));
                continue;
            }
            let ns = fixed_ns * factor + size as f64 / 1024.0 * per_kib_ns;
            measured(lines, roundtrip, "ns/roundtrip", ns);
            if axes.is_empty() && mechanism != "memfd-pass" {
                measured(lines, stream, "bytes/s", size as f64 / (ns / 3.0) * 1e9);
            }
        }
    }
}

fn without_sizes(lines: &mut Vec<Line>) {
    for (signal, ns) in [("futex", 1210.0), ("eventfd", 1430.0), ("sem-posix", 1255.0)] {
        measured(lines, id("pingpong", signal, &[], 0, "same-cpu"), "ns/hop", ns);
    }
    for (streams, rate) in [("100", 4.1e6), ("500", 3.2e6), ("2000", 0.9e6)] {
        measured(lines, id("fan-in", "pipe", &[("streams", streams)], 1, "free"), "events/s", rate);
    }
    for (op, ns) in [("getpid", 62.0), ("clock-read", 21.0)] {
        measured(lines, id("solo", op, &[], 0, "same-cpu"), "ns/op", ns);
    }
}

fn comparisons(lines: &mut Vec<Line>) {
    for placement in ["same-cpu", "two-cpus"] {
        for (mechanism, speedup, ci95) in [
            ("ring-futex", 1.31, Some([1.24, 1.4])),
            ("tcp", 0.25, Some([0.2, 0.27])),
            ("unix-stream", 1.01, Some([0.96, 1.04])),
            ("mq-posix", 0.95, None),
        ] {
            lines.push(Line::Comparison(Comparison {
                case: id("roundtrip", mechanism, &[], 4096, placement),
                baseline: id("roundtrip", "pipe", &[], 4096, placement),
                speedup,
                ci95,
                pairs: if ci95.is_some() { 9 } else { 3 },
            }));
        }
    }
}

/// Twelve runs of each of some mechanisms at 4 KiB, which scatter by 10 % to either side, each in its own way.
fn runs_at_4_kib(lines: &mut Vec<Line>) {
    for (placement, factor) in [("same-cpu", 1.0), ("two-cpus", 7.5)] {
        for (own, (mechanism, value)) in
            [("pipe", 2980.0), ("ring-futex", 2040.0), ("unix-stream", 3060.0), ("tcp", 9520.0)]
                .into_iter()
                .enumerate()
        {
            let id = id("roundtrip", mechanism, &[], 4096, placement);
            for index in 0..12u32 {
                let share = (f64::from((index * 5 + own as u32 * 7) % 12) - 5.5) / 55.0;
                lines.push(Line::Run(run(&id, index, value * factor * (1.0 + share))));
            }
        }
    }
}

/// A finished record with two placements, skips, shape violations and regimes.
pub fn whole() -> Reading {
    let mut lines = vec![header()];
    for placement in ["same-cpu", "two-cpus"] {
        measured(&mut lines, id("roundtrip", "noop", &[], 1, placement), "ns/roundtrip", 1.34);
        over_sizes(&mut lines, placement);
    }
    without_sizes(&mut lines);
    runs_at_4_kib(&mut lines);
    comparisons(&mut lines);
    lines.push(skip(
        id("roundtrip", "ring-futex", &[("wait", "uring")], 1, "same-cpu"),
        "attach",
        "io_uring_setup: Operation not permitted; kernel.io_uring_disabled is 2",
    ));
    lines.push(Line::End(End { complete: true, elapsed_s: 97.5 }));
    Reading { lines, problems: Vec::new() }
}

/// The part of [`whole`] that shows each kind of section and cell at least once.
pub fn part() -> Reading {
    let mut reading = whole();
    let is_kept = |id: &CaseId| {
        let sizes = [0, 1, 4096, 65536];
        id.placement != "two-cpus"
            && sizes.contains(&id.payload_bytes)
            && !["unix-seqpacket", "ring-eventfd", "eventfd", "sem-posix", "clock-read"]
                .contains(&&*id.mechanism)
    };
    reading.lines.retain(|line| match line {
        Line::Case(of) => is_kept(&of.case),
        Line::Run(of) => is_kept(&of.case),
        Line::Summary(of) => is_kept(&of.case),
        Line::Skipped(of) => is_kept(&of.case),
        Line::Comparison(of) => is_kept(&of.case),
        _ => true,
    });
    reading
}

/// Twelve streams in two modes each, the later ones further apart; one also has a step in some runs.
pub fn unsteady() -> Reading {
    let mut lines = vec![header()];
    for index in 0..12u32 {
        let id = CaseId::new("stream", &format!("mechanism-{index}"), 65536, "two-cpus");
        let low = 1.5 * f64::from(1 << 30);
        let levels = [low, low * (1.5 + f64::from(index))];
        lines.push(Line::Case(case(&id, "bytes/s")));
        let mut summary = Summary { runs: 33, ..summary(&id, "bytes/s", levels[0]) };
        summary.regimes.push(Regime {
            regime: RegimeKind::TwoModes,
            within: "samples".into(),
            runs: 16,
            detail: "in 16 of 33 runs; in the clearest, 10 of 15 lie near 1.346e9 and 5 near 3.813e9".into(),
            levels: Some(levels),
        });
        if index == 11 {
            summary.regimes.push(Regime {
                regime: RegimeKind::Step,
                runs: 8,
                levels: Some([low, low * 1.1]),
                ..summary.regimes[0].clone()
            });
        }
        summary.stopped_by = StoppedBy::Budget;
        lines.push(Line::Summary(summary));
    }
    lines.push(Line::End(End { complete: true, elapsed_s: 9.0 }));
    Reading { lines, problems: Vec::new() }
}

/// Two cases that timed each operation: one with enough of them in every run, one only in all runs together.
pub fn timed() -> Reading {
    let mut lines = vec![header()];
    for (mechanism, scale) in [("pipe", 1), ("tcp", 5)] {
        let id = CaseId::new("roundtrip", mechanism, 64, "same-cpu").with("time", "each");
        lines.push(Line::Case(case(&id, "ns/roundtrip")));
        let few = if mechanism == "tcp" { 5 } else { 1 };
        for index in 0..6u64 {
            let counts = vec![
                (4000 * scale + index, 9000 / few),
                (9000 * scale, 950 / few),
                (90_000 * scale, 50 / few),
            ];
            let latencies = Latencies { counts, max_ns: 91_000 * scale + index, clock_read_ns: 23.0 };
            let run = run(&id, index as u32, 4500.0 * scale as f64);
            lines.push(Line::Run(Run { latencies: Some(latencies), ..run }));
        }
    }
    Reading { lines, problems: Vec::new() }
}

/// A case with its axes, seven runs of fourteen samples with series beside them, and a summary.
fn with_series(lines: &mut Vec<Line>, id: &CaseId, axes: &[(&str, &str)], unit: &str, value: f64) {
    let axes = axes.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    lines.push(Line::Case(Case { axes: axes.collect(), ..case(id, unit) }));
    let has_step = id.mechanism == "tcp" && id.axes.is_empty();
    let mut of_runs = Vec::new();
    for index in 0..7u32 {
        let value = value * (0.97 + 0.01 * f64::from(index));
        let sample = |at: u32| {
            let level = if has_step && at >= 6 { 1.5 } else { 1.0 };
            value * level * (1.0 + 0.001 * f64::from(at * 5 % 7))
        };
        let samples: Vec<f64> = (0..14).map(sample).collect();
        let series = [
            ("events_per_call", samples.iter().map(|rate| rate / value * 40.0).collect()),
            ("received_bytes_per_s", samples.iter().map(|rate| rate * 16.0).collect()),
            ("voluntary_switches_per_s", samples.iter().map(|rate| rate / 300.0).collect()),
        ];
        let series = series.map(|(name, values): (&str, Vec<f64>)| (name.to_string(), values)).into();
        of_runs.push(Run { samples, series, ..run(id, index, value) });
    }
    let mut summary = Summary { runs: 7, ..summary(id, unit, value) };
    summary.series = [
        ("events_per_call".to_string(), 40.0),
        ("received_bytes_per_s".into(), value * 16.0),
        ("voluntary_switches_per_s".into(), value / 300.0),
    ]
    .into();
    summary.regimes.extend(has_step.then(|| Regime {
        regime: RegimeKind::Step,
        within: "samples".into(),
        runs: 7,
        detail: "in 7 of 7 runs".into(),
        levels: Some([value, value * 1.5]),
    }));
    lines.extend(of_runs.into_iter().map(Line::Run));
    lines.push(Line::Summary(summary));
}

/// Signals, locks, operations, thousands of streams and many receivers.
pub fn patterns() -> Reading {
    let mut lines = vec![header()];
    for (signal, ns) in [("futex", 1210.0), ("eventfd", 1430.0), ("atomic", 96.0)] {
        measured(&mut lines, id("pingpong", signal, &[], 0, "two-cpus"), "ns/hop", ns);
    }
    for (lock, rate) in [("spin", 6e6), ("mutex", 4e6)] {
        for (roles, share) in [("2", 1.0), ("4", 0.7), ("8", 0.3)] {
            let id = id("contend", lock, &[("roles", roles)], 0, "two-cpus");
            measured(&mut lines, id, "ops/s", rate * share);
        }
    }
    for (op, ns) in [("getpid", 62.0), ("clock-read", 21.0)] {
        measured(&mut lines, id("solo", op, &[], 0, "same-cpu"), "ns/op", ns);
    }
    for (mechanism, rate) in [("pipe", 4.1e6), ("tcp", 1.4e6)] {
        for (streams, share) in [("10", 1.0), ("100", 0.9), ("2000", 0.4)] {
            let axes = [("streams", streams)];
            let explicit: &[_] = if streams == "2000" { &[] } else { &axes };
            let id = id("fan-in", mechanism, explicit, 1, "free");
            let all = [("streams", streams), ("wait", "epoll-et")];
            with_series(&mut lines, &id, &all, "events/s", rate * share);
        }
    }
    for (mechanism, rate) in [("udp-multicast", 2e5), ("tcp", 6e4)] {
        for (receivers, share) in [("1", 1.0), ("10", 0.3), ("100", 0.02)] {
            let axes = [("receivers", receivers)];
            let explicit: &[_] = if receivers == "10" { &[] } else { &axes };
            let id = id("fan-out", mechanism, explicit, 64, "free");
            with_series(&mut lines, &id, &axes, "messages/s", rate * share);
        }
    }
    lines.push(Line::End(End { complete: true, elapsed_s: 60.0 }));
    Reading { lines, problems: Vec::new() }
}

pub fn run(id: &CaseId, index: u32, value: f64) -> Run {
    Run {
        case: id.clone(),
        run: index,
        round: index,
        value,
        samples: [0.98, 1.0, 1.01, 1.0, 1.03].map(|factor| value * factor).to_vec(),
        ops_per_sample: 1000,
        per_op: PerOp { voluntary_switches: 2.0, cpu_ns: value * 0.9, ..PerOp::default() },
        startup_ms: 8.0,
        elapsed_ms: 120.0,
        ..Run::default()
    }
}

/// Cut short by Ctrl-C: summaries with few runs, a case never reached, an end line that is not complete.
pub fn interrupted() -> Reading {
    let mut lines = vec![header()];
    for (mechanism, median) in [("pipe", 5210.0), ("unix-stream", 6150.0)] {
        let id = CaseId::new("roundtrip", mechanism, 1, "same-cpu");
        lines.push(Line::Case(case(&id, "ns/roundtrip")));
        lines.push(Line::Summary(Summary {
            runs: 2,
            ci95: None,
            stopped_by: StoppedBy::Interrupted,
            ..summary(&id, "ns/roundtrip", median)
        }));
    }
    lines.push(Line::Case(case(&CaseId::new("roundtrip", "tcp", 1, "same-cpu"), "ns/roundtrip")));
    lines.push(Line::End(End { complete: false, elapsed_s: 3.5 }));
    Reading { lines, problems: Vec::new() }
}

/// Killed: runs without summaries, half a line at the end.
pub fn truncated() -> Reading {
    let id = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
    let mut lines = vec![header(), Line::Case(case(&id, "ns/roundtrip"))];
    lines.extend((0..7).map(|index| Line::Run(run(&id, index, 5000.0 + f64::from(index) * 10.0))));
    let why = "ends in the middle: EOF while parsing a string at line 1 column 88".to_string();
    Reading { lines, problems: vec![Problem { line: 10, why }] }
}

/// A record whose every text tries to be something else.
pub fn hostile() -> Reading {
    let attack = "<script>alert(1)</script>\u{1b}[2J|\"'&";
    let mut reading = interrupted();
    for line in &mut reading.lines {
        match line {
            Line::Header(header) => {
                header.machine.hostname = attack.into();
                header.machine.cpu_model = attack.into();
                header.machine.missing = vec![attack.into()];
                header.machine.sysctls.insert(attack.into(), attack.into());
            }
            Line::Case(case) => {
                case.facts.insert(attack.into(), attack.into());
                case.unit = format!("ns/{attack}");
            }
            Line::Summary(summary) => {
                summary.anomalies = vec![attack.into()];
                summary.unit = format!("ns/{attack}");
            }
            _ => {}
        }
    }
    // A slash would end the part of the id.
    let bad = CaseId::new("roundtrip", "<img src=x onerror=alert(1)>", 1, "same-cpu");
    reading.lines.push(Line::Case(case(&bad, "ns/roundtrip")));
    reading.lines.push(Line::Summary(summary(&bad, "ns/roundtrip", 100.0)));
    let larger = CaseId { payload_bytes: 64, ..bad };
    reading.lines.push(Line::Case(case(&larger, "ns/roundtrip")));
    reading.lines.push(Line::Summary(summary(&larger, "ns/roundtrip", 120.0)));
    reading.lines.push(skip(CaseId::new("stream", attack, 1, attack), "fit", attack));
    reading.problems.push(Problem { line: 3, why: attack.into() });
    reading
}

/// A record with `cases` cases over the usual sizes.
pub fn large(cases: usize) -> Reading {
    let mut lines = vec![header()];
    for index in 0..cases {
        let size = 1u64 << (index % 23);
        let mechanism = format!("mechanism-{}", index / 46);
        let placement = if index / 23 % 2 == 0 { "same-cpu" } else { "two-cpus" };
        let id = CaseId::new("roundtrip", &mechanism, size, placement);
        lines.push(Line::Case(case(&id, "ns/roundtrip")));
        lines.extend((0..9).map(|index| Line::Run(run(&id, index, 1000.0 + size as f64))));
        lines.push(Line::Summary(summary(&id, "ns/roundtrip", 1000.0 + size as f64)));
    }
    lines.push(Line::End(End { complete: true, elapsed_s: 100.0 }));
    Reading { lines, problems: Vec::new() }
}
