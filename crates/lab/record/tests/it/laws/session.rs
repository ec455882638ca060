//! Defects of a session: each breaks its law, and no other case is void.

use weighbridge_record::laws;
use weighbridge_record::{CaseId, Line, Reading, Run, Whereabouts};

use super::sound::sound;
use super::{FIFO, LOG, STREAM, UDP, UNIX, broken, case, changed, never_sleeps, runs, summary};

const RING: &str = "roundtrip/ring-futex/64/two-cpus";
const ON_ONE_CPU: &str = "stream/ring-futex/64/same-cpu";

/// Operations in samples and in all roles, and the bytes that follow from them: the figures agree with each other.
fn three_percent_more(run: &mut Run) {
    let more = |ops: &mut u64| *ops = *ops * 103 / 100;
    more(&mut run.sampled_total.as_mut().unwrap().ops);
    for role in &mut run.roles {
        let each_bytes = role.received_bytes / role.ops;
        more(&mut role.ops);
        more(&mut role.sampled.as_mut().unwrap().ops);
        role.received_bytes = role.ops * each_bytes;
    }
}

#[test]
fn each_defect_of_a_session_breaks_its_law_and_no_other_case_is_void() {
    type Defect = (&'static str, &'static str, &'static str, Box<dyn Fn(&mut Line)>);
    let defect = |name, law, case, change: Box<dyn Fn(&mut Line)>| -> Defect { (name, law, case, change) };
    let defects: Vec<Defect> = vec![
        defect(
            "the hub's peers unpinned",
            "placed",
            UNIX,
            Box::new(runs(UNIX, |run| {
                let hub_roles = &mut run.slices.as_mut().unwrap().hub_roles;
                hub_roles[1].whereabouts[1] = Whereabouts { cpu: 1, allowed: "0-1".into() };
            })),
        ),
        defect(
            "a role unpinned under way",
            "placed",
            FIFO,
            Box::new(runs(FIFO, |run| {
                run.roles[0].whereabouts[1].allowed = "0-1".into();
            })),
        ),
        defect(
            "hub slices mislabelled",
            "slices",
            UNIX,
            Box::new(runs(UNIX, |run| {
                let slices = run.slices.as_mut().unwrap();
                std::mem::swap(&mut slices.of_case, &mut slices.of_hub);
            })),
        ),
        defect(
            "the ratio to the hub inverted",
            "summary",
            UNIX,
            Box::new(summary(UNIX, |of| {
                let to_hub = of.to_hub.as_mut().unwrap();
                to_hub.median = 1.0 / to_hub.median;
                of.median = to_hub.median * 2000.0;
            })),
        ),
        defect(
            "the figure scaled by another hub",
            "summary",
            UNIX,
            Box::new(summary(UNIX, |of| {
                of.median *= 1.6;
            })),
        ),
        defect(
            "the speed-up through hubs inverted",
            "speed-up",
            UNIX,
            Box::new(|line| {
                if let Line::Comparison(of) = line {
                    of.speedup = 1.0 / of.speedup;
                }
            }),
        ),
        defect(
            "the loop subtracted three times",
            "own-loop",
            "solo/getppid/0/same-cpu",
            Box::new(runs("solo/getppid/0/same-cpu", |run| {
                run.samples = vec![70.4 - 1.29; 5];
                run.value = 70.4 - 1.29;
            })),
        ),
        defect("operations + 3 % everywhere", "moved", UNIX, Box::new(runs(UNIX, three_percent_more))),
        defect(
            "operations + 3 % everywhere, in a ring",
            "messages",
            RING,
            Box::new(runs(RING, three_percent_more)),
        ),
        defect(
            "operations + 3 % everywhere, in a stream through a log",
            "messages",
            LOG,
            Box::new(runs(LOG, |run| {
                three_percent_more(run);
                let total = run.sampled_total.as_mut().unwrap();
                total.bytes = total.ops * 4096;
            })),
        ),
        defect(
            "operations + 3 % of which no bytes arrived",
            "messages",
            FIFO,
            Box::new(runs(FIFO, |run| run.roles.iter_mut().for_each(|role| role.ops = role.ops * 103 / 100))),
        ),
        defect(
            "operations + 3 % where a tracer counts",
            "whole-calls",
            UNIX,
            Box::new(summary(UNIX, |of| {
                let roles = &mut of.system_calls.as_mut().unwrap().roles;
                roles.iter_mut().flat_map(|role| role.calls.values_mut()).for_each(|times| *times /= 1.03);
            })),
        ),
        defect(
            "operations + 3 % of a call",
            "whole-calls",
            "solo/getppid/0/same-cpu",
            Box::new(summary("solo/getppid/0/same-cpu", |of| {
                let roles = &mut of.system_calls.as_mut().unwrap().roles;
                roles[0].calls.values_mut().for_each(|times| *times /= 1.03);
            })),
        ),
        defect(
            "stream bytes + 10 %",
            "stream-bytes",
            STREAM,
            Box::new(runs(STREAM, |run| {
                let more = |bytes: &mut u64| *bytes = *bytes * 11 / 10;
                more(&mut run.sampled_total.as_mut().unwrap().bytes);
                run.slices.as_mut().unwrap().of_case.ops.iter_mut().for_each(more);
                run.samples.iter_mut().for_each(|sample| *sample *= 1.1);
                run.value *= 1.1;
            })),
        ),
        defect(
            "an unchanged payload not sent",
            "moved",
            STREAM,
            Box::new(runs(STREAM, |run| {
                for role in &mut run.roles {
                    let io = role.io.as_mut().unwrap();
                    (io.read_bytes, io.written_bytes) = (io.read_calls, io.write_calls);
                }
            })),
        ),
        defect(
            "a loss of UDP not told",
            "loss-told",
            UDP,
            Box::new(runs(UDP, |run| {
                run.roles[0].ops = run.roles[0].ops * 100 / 54;
            })),
        ),
        defect(
            "block that spins in a stream",
            "blocks",
            STREAM,
            Box::new(runs(STREAM, |run| {
                run.roles[1].per_op.voluntary_switches = 0.0;
                run.roles[1].io.as_mut().unwrap().read_calls *= 900;
            })),
        ),
        defect(
            "both ends of a stream spin",
            "sleeps",
            STREAM,
            Box::new(runs(STREAM, |run| {
                run.roles.iter_mut().for_each(|role| role.per_op.voluntary_switches = 0.0);
            })),
        ),
        defect("the receiver of a stream in memory spins", "sleeps", LOG, Box::new(runs(LOG, never_sleeps))),
        defect(
            "both ends of a stream in memory spin on one CPU",
            "sleeps",
            ON_ONE_CPU,
            Box::new(runs(ON_ONE_CPU, |run| {
                run.roles.iter_mut().for_each(|role| role.per_op.voluntary_switches = 0.0);
            })),
        ),
        defect(
            "block that spins in a round trip",
            "sleeps",
            FIFO,
            Box::new(runs(FIFO, |run| {
                for role in &mut run.roles {
                    role.per_op.voluntary_switches = 0.0;
                    let sampled = role.sampled.as_mut().unwrap();
                    sampled.cpu_ns = (8000.0 * 0.99 * sampled.ops as f64) as u64;
                }
            })),
        ),
        defect(
            "epoll that blocks in a stream",
            "waits",
            STREAM,
            Box::new(case(STREAM, |case| {
                case.axes.insert("wait".into(), "epoll".into());
            })),
        ),
        defect(
            "a two-CPU placement on one CPU",
            "placement",
            FIFO,
            Box::new(|line| match line {
                Line::Case(case) if case.case.to_string() == FIFO => case.cpus = vec![0, 0],
                Line::Run(run) if run.case.to_string() == FIFO => {
                    let role = &mut run.roles[1];
                    role.cpu = Some(0);
                    role.whereabouts.fill(Whereabouts { cpu: 0, allowed: "0".into() });
                    role.sampled.as_mut().unwrap().cpu_ns /= 2;
                }
                _ => {}
            }),
        ),
        defect(
            "a pipe size that is ignored",
            "settings",
            STREAM,
            Box::new(case(STREAM, |case| {
                case.axes.insert("pipe-size".into(), "1048576".into());
            })),
        ),
        defect(
            "a nice value from outside",
            "settings",
            UNIX,
            Box::new(runs(UNIX, |run| {
                run.roles[1].settings.insert("nice".into(), "10".into());
            })),
        ),
        defect(
            "counters of a broker read by the sender",
            "harness-calls",
            UNIX,
            Box::new(summary(UNIX, |of| {
                let role = &mut of.system_calls.as_mut().unwrap().roles[0];
                for (name, times) in [("openat", 7.0), ("read", 14.0), ("getdents64", 2.0)] {
                    role.calls.insert(name.into(), times);
                }
            })),
        ),
        defect(
            "a clock in the loop",
            "harness-calls",
            "solo/noop/0/same-cpu",
            Box::new(summary("solo/noop/0/same-cpu", |of| {
                of.system_calls.as_mut().unwrap().roles[0].calls.insert("clock_gettime".into(), 1.0);
            })),
        ),
        defect(
            "CPU time without room",
            "cpu-time",
            UNIX,
            Box::new(runs(UNIX, |run| {
                let role = run.roles[0].sampled.as_mut().unwrap();
                role.cpu_ns *= 3;
            })),
        ),
        defect(
            "samples nobody counted",
            "counted",
            UNIX,
            Box::new(runs(UNIX, |run| {
                run.sampled_total.as_mut().unwrap().ops *= 3;
            })),
        ),
        defect(
            "messages nobody sent",
            "sent",
            STREAM,
            Box::new(runs(STREAM, |run| {
                run.roles[0].ops /= 3;
            })),
        ),
        defect(
            "threads for processes",
            "processes",
            UNIX,
            Box::new(runs(UNIX, |run| {
                run.roles[1].process = run.roles[0].process;
            })),
        ),
        defect(
            "a role that may run anywhere, pinned under way",
            "placed",
            FIFO,
            Box::new(runs(FIFO, |run| {
                let role = &mut run.roles[0];
                role.cpu = None;
                role.whereabouts[0].allowed = "0-1".into();
            })),
        ),
        defect(
            "a role on a CPU that is not its case's",
            "placed",
            UNIX,
            Box::new(runs(UNIX, |run| {
                run.roles[0].cpu = Some(1);
                run.roles[0].whereabouts.fill(Whereabouts { cpu: 1, allowed: "1".into() });
            })),
        ),
        defect(
            "samples that one role has not counted",
            "counted",
            FIFO,
            Box::new(runs(FIFO, |run| run.roles[1].sampled.as_mut().unwrap().ops -= 1)),
        ),
        defect(
            "CPU time of both roles without room on one CPU",
            "cpu-time",
            UNIX,
            Box::new(runs(UNIX, |run| {
                for role in &mut run.roles {
                    let sampled = role.sampled.as_mut().unwrap();
                    sampled.cpu_ns *= 2;
                }
            })),
        ),
        defect(
            "a figure of runs that were not made",
            "summary",
            UNIX,
            Box::new(summary(UNIX, |of| of.runs += 1)),
        ),
        defect("a figure of a part of its runs", "summary", UNIX, Box::new(summary(UNIX, |of| of.runs -= 1))),
        defect(
            "the figure of another hub",
            "hub",
            UNIX,
            Box::new(summary(UNIX, |of| of.to_hub.as_mut().unwrap().hub = FIFO.parse().unwrap())),
        ),
        defect(
            "switches that no role made",
            "counts",
            UNIX,
            Box::new(|line| match line {
                Line::Run(run) if run.case.to_string() == UNIX => run.per_op.voluntary_switches = 99.0,
                Line::Summary(of) if of.case.to_string() == UNIX => of.per_op.voluntary_switches = 99.0,
                _ => {}
            }),
        ),
        defect(
            "a summary without the switches of its runs",
            "counts",
            UDP,
            Box::new(summary(UDP, |of| of.per_op.voluntary_switches = 0.0)),
        ),
        defect(
            "an interval beside its figure",
            "interval",
            UDP,
            Box::new(summary(UDP, |of| of.ci95 = Some([0.0, 1.0]))),
        ),
        defect(
            "an interval far beyond all runs",
            "interval",
            UDP,
            Box::new(summary(UDP, |of| of.ci95 = Some([0.1 * of.median, 10.0 * of.median]))),
        ),
        defect(
            "an interval that is not that of its ratio",
            "interval",
            UNIX,
            Box::new(summary(UNIX, |of| {
                of.to_hub.as_mut().unwrap().ci95 = Some([1.745, 1.775]);
                of.ci95 = Some([3000.0, 4000.0]);
            })),
        ),
        defect(
            "another figure than that of the runs",
            "summary",
            UDP,
            Box::new(summary(UDP, |of| of.median *= 1.01)),
        ),
        defect(
            "processes for threads",
            "processes",
            UNIX,
            Box::new(case(UNIX, |case| {
                case.axes.insert("peers".into(), "thread".into());
            })),
        ),
        defect("a mean for a median", "samples", UDP, Box::new(runs(UDP, |run| run.value *= 1.01))),
    ];
    for (name, law, case, change) in defects {
        let lines = changed(sound(), &*change);
        let found = broken(&lines);
        assert!(found.contains(&(law.to_owned(), case.to_owned())), "{name}: {found:?}");
        assert!(found.iter().all(|(_, of)| of == case), "{name} voids others too: {found:?}");
        let mut reading = Reading { lines, problems: Vec::new() };
        laws::audit(&mut reading);
        let void: Vec<String> = reading.void_cases().iter().map(CaseId::to_string).collect();
        assert_eq!(void, [case], "{name}");
        let why =
            laws::audit(&mut reading).into_iter().map(|violation| violation.to_string()).collect::<Vec<_>>();
        let is_whole = |why: &String| why.contains("expected:") && why.contains("the figures are void");
        assert!(why.iter().all(is_whole), "{name}: {why:?}");
    }
}
