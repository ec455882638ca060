//! Defects that a program of the laboratory once had or was given, each as what it would have written into a record that is sound
//! otherwise: a law names the case, and its figures are void.

mod sides;
mod sound;

use weighbridge_record::laws::{self, Audit};
use weighbridge_record::{CaseId, Line, Reading, RoleCounters, Run, Summary, Whereabouts};

use sound::{compared, sound};

/// Laws that lines break, with their cases.
fn broken(lines: &[Line]) -> Vec<(String, String)> {
    let mut audit = Audit::default();
    let found = lines.iter().flat_map(|line| audit.line(line));
    found.map(|violation| (violation.law.to_owned(), violation.case.to_string())).collect()
}

/// The lines after a change of those that one of these looks at.
fn changed(mut lines: Vec<Line>, change: &dyn Fn(&mut Line)) -> Vec<Line> {
    lines.iter_mut().for_each(change);
    lines
}

/// A change of every run of a case.
fn runs(id: &'static str, change: impl Fn(&mut Run)) -> impl Fn(&mut Line) {
    move |line| match line {
        Line::Run(run) if run.case.to_string() == id => change(run),
        _ => {}
    }
}

/// A change of the summary of a case.
fn summary(id: &'static str, change: impl Fn(&mut Summary)) -> impl Fn(&mut Line) {
    move |line| match line {
        Line::Summary(summary) if summary.case.to_string() == id => change(summary),
        _ => {}
    }
}

#[test]
fn no_law_objects_to_a_sound_record_and_every_law_runs() {
    for lines in [sound(), compared()] {
        assert_eq!(broken(&lines), []);
    }
    let mut reading = Reading { lines: sound(), problems: Vec::new() };
    assert_eq!(laws::audit(&mut reading), []);
    for line in &reading.lines {
        if let Line::Summary(summary) = line {
            assert_eq!((&summary.not_checked, &summary.void), (&Vec::new(), &Vec::new()), "{}", summary.case);
        }
    }
}

const UNIX: &str = "roundtrip/unix-stream/64/same-cpu";
const FIFO: &str = "roundtrip/fifo/64/two-cpus";
const STREAM: &str = "stream/pipe/65536/two-cpus";
const UDP: &str = "stream/udp/64/two-cpus";
const RING: &str = "roundtrip/ring-futex/64/two-cpus";
const ON_ONE_CPU: &str = "stream/ring-futex/64/same-cpu";
const LOG: &str = "stream/causeway-sw/4096/two-cpus";

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

/// The receiver does not give its CPU away, whatever its sender does.
fn never_sleeps(run: &mut Run) {
    let total = run.sampled_total.unwrap();
    let receiver = &mut run.roles[1];
    receiver.per_op.voluntary_switches = 0.0;
    receiver.sampled.as_mut().unwrap().cpu_ns = total.elapsed_ns * 99 / 100;
}

#[test]
fn of_two_that_stream_in_memory_it_is_not_claimed_that_one_must_sleep_where_both_may_be_equally_fast() {
    let alone = |run: &mut Run| {
        run.slices = None;
        run.roles.iter_mut().for_each(|role| role.sampled.as_mut().unwrap().gaps_ns = 0);
    };
    let of_older_program = |run: &mut Run| run.roles.iter_mut().for_each(|role| role.position = None);
    let kept_from_its_cpu = |run: &mut Run| run.roles[1].sampled.as_mut().unwrap().cpu_ns /= 2;
    for change in [&alone as &dyn Fn(&mut Run), &of_older_program, &kept_from_its_cpu] {
        let lines = changed(
            sound(),
            &runs(LOG, |run| {
                never_sleeps(run);
                change(run);
            }),
        );
        let found = broken(&lines);
        assert!(found.iter().all(|(law, _)| law != "sleeps"), "{found:?}");
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
        defect(
            "operations + 3 % everywhere",
            "moved",
            UNIX,
            Box::new(runs(UNIX, |run| three_percent_more(run))),
        ),
        defect(
            "operations + 3 % everywhere, in a ring",
            "messages",
            RING,
            Box::new(runs(RING, |run| three_percent_more(run))),
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
        defect(
            "the receiver of a stream in memory spins",
            "sleeps",
            LOG,
            Box::new(runs(LOG, |run| never_sleeps(run))),
        ),
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
            Box::new(|line| {
                if let Line::Case(case) = line
                    && case.case.to_string() == STREAM
                {
                    case.axes.insert("wait".into(), "epoll".into());
                }
            }),
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
            Box::new(|line| {
                if let Line::Case(case) = line
                    && case.case.to_string() == STREAM
                {
                    case.axes.insert("pipe-size".into(), "1048576".into());
                }
            }),
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

#[test]
fn slices_that_were_not_doubled_void_every_case_of_their_hub() {
    let not_doubled = |line: &mut Line| {
        if let Line::Run(Run { slices: Some(slices), .. }) = line {
            slices.slice_ms = 2.0;
        }
    };
    // As long as the others although they are said to be doubled, in as many sets as prove it.
    let again = |line: Line| match line {
        Line::Run(Run { run: 7, .. }) => vec![line; 12],
        other => vec![other],
    };
    let many: Vec<Line> = sound().into_iter().flat_map(again).collect();
    let halve = |line: &mut Line| {
        if let Line::Run(Run { run: 7, slices: Some(slices), .. }) = line {
            for series in [&mut slices.of_case, &mut slices.of_hub] {
                series
                    .elapsed_ns
                    .iter_mut()
                    .chain(&mut series.ops)
                    .for_each(|count| *count = *count * 49 / 100);
            }
        }
    };
    assert!(broken(&many).iter().all(|(law, _)| law != "doubled-slices"));
    for (name, lines) in [
        ("not doubled", changed(sound(), &not_doubled)),
        ("said to be doubled", changed(many.clone(), &halve)),
    ] {
        let found = broken(&lines);
        let doubled = found.iter().filter(|(law, _)| law == "doubled-slices").count();
        assert!(doubled >= 3, "{name}: {found:?}");
    }
}

#[test]
fn a_record_from_before_the_laws_is_not_void_and_names_the_laws_that_did_not_run() {
    let before = |line: &mut Line| match line {
        Line::Case(case) => case.traits = None,
        Line::Run(run) => {
            run.sampled_total = None;
            run.slices.iter_mut().for_each(|slices| slices.hub_roles.clear());
            for role in &mut run.roles {
                *role = RoleCounters {
                    role: role.role.clone(),
                    cpu: role.cpu,
                    ops: role.ops,
                    received_bytes: role.received_bytes,
                    per_op: role.per_op.clone(),
                    ..RoleCounters::default()
                };
            }
        }
        _ => {}
    };
    let mut reading = Reading { lines: changed(sound(), &before), problems: Vec::new() };
    assert_eq!(laws::audit(&mut reading), []);
    let not_checked: Vec<&String> = reading
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Summary(summary) if summary.case.to_string() == UNIX => Some(&summary.not_checked),
            _ => None,
        })
        .flatten()
        .collect();
    for law in ["placed", "settings", "processes", "counted", "cpu-time", "sleeps", "moved"] {
        let is_named = |said: &&&String| said.starts_with(&format!("law `{law}`: the record does not tell"));
        assert!(not_checked.iter().any(|said| is_named(&said)), "{law}: {not_checked:?}");
    }
}

#[test]
fn imported_records_and_counts_of_instructions_are_not_what_the_laws_are_about() {
    let mut lines = changed(sound(), &runs(UNIX, |run| run.value *= 2.0));
    assert!(!broken(&lines).is_empty());
    let Line::Header(header) = &mut lines[0] else { panic!("a record begins with a header") };
    header.settings.insert("imported-with".into(), "fio".into());
    assert_eq!(broken(&lines), []);
}
