//! Defects that a program of the laboratory once had or was given, each as what it would have written into a record that is sound
//! otherwise: a law names the case, and its figures are void.

mod missing;
mod opposite;
mod paced;
mod session;
mod sides;
mod sound;

use weighbridge_record::laws::{self, Audit};
use weighbridge_record::{Case, Line, Reading, RoleCounters, Run, Summary};

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

/// A change of the line that begins a case.
fn case(id: &'static str, change: impl Fn(&mut Case)) -> impl Fn(&mut Line) {
    move |line| match line {
        Line::Case(case) if case.case.to_string() == id => change(case),
        _ => {}
    }
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
const LOG: &str = "stream/causeway-sw/4096/two-cpus";

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
fn a_hub_that_is_not_the_median_of_its_sets_voids_every_case_of_it() {
    let of_hub = |line: &Line| matches!(line, Line::Run(Run { slices: Some(_), run: 0, .. }));
    let cases = sound().iter().filter(|line| of_hub(line)).count();
    let dearer = |line: &mut Line| {
        if let Line::Hub(hub) = line {
            hub.median *= 1.01;
        }
    };
    let found = broken(&changed(sound(), &dearer));
    assert!(found.iter().all(|(law, _)| law == "hub") && found.len() == cases, "{found:?}");
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
