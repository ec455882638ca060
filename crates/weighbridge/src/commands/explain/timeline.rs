//! `weighbridge explain --timeline`: when each thing happens in an operation of a case.
//!
//! The case has a marked run, while the kernel's events are recorded where that is allowed, and an unmarked one without them, whose median
//! says how long an operation is otherwise.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use weighbridge_analysis::timeline::{Mark, Point, Role, Subject, chrome, phases, picture};
use weighbridge_harness::contract::{Caps, Prepared};
use weighbridge_harness::coordinator::{Coordinator, Measured, Outcome, PeerStart};
use weighbridge_harness::marks::{self, RoleMarks};
use weighbridge_harness::session::{Ended, Sink};
use weighbridge_record::{Line, Skipped, Timeline};
use weighbridge_stats::order::median;

use super::broker::{self, BROKERS};
use crate::commands::recording::{Recording, What};
use crate::destination::{refuse_existing, write_new};
use crate::explain_args::TimelineArgs;
use crate::{Failure, output};

/// The role of the process that takes part beside the others.
pub(super) const BROKER: &str = "broker";

/// Makes sure of the file for the trace before anything is measured: it is not there yet, and is to be of one case.
pub fn check(args: &TimelineArgs, cases: &[Prepared]) -> Result<(), Failure> {
    let Some(file) = args.trace_out.as_deref() else { return Ok(()) };
    let count = cases.iter().filter(|case| has_messages(case)).count();
    if count > 1 {
        return Err(Failure::mistake(format!(
            "--trace-out `{}` is for one case, and {count} are selected; name one of them",
            file.display()
        )));
    }
    refuse_existing(file, "--trace-out")
}

/// Does a case exchange messages that a time line could show? The harness exchanges none.
pub fn has_messages(case: &Prepared) -> bool {
    !case.target.caps.has(Caps::HARNESS)
}

/// Has a marked run of each of the cases, those of the harness left out. Tells `sink` the time line of each, or why there is none.
pub fn timelines(
    args: &TimelineArgs,
    cases: &[Prepared],
    coordinator: &mut Coordinator<'_>,
    sink: &mut dyn Sink,
) -> io::Result<Ended> {
    for case in cases.iter().filter(|case| has_messages(case)) {
        let skipped =
            |step: String, why: String| Line::Skipped(Skipped { case: case.params.id.clone(), step, why });
        // The CPUs of the roles first. A broker may have another one.
        let mut cpus = case.params.cpus.clone();
        cpus.extend(&coordinator.host().measured_cpus);
        let mut seen = BTreeSet::new();
        cpus.retain(|cpu| seen.insert(*cpu));
        let what = What { calls_of: BROKERS, is_brief: false };
        let recording = Recording::begin(&cpus, what);
        let marked = coordinator.run_marked(case, &PeerStart::default());
        let trace = recording.and_then(Recording::end);
        let measured = match marked {
            Outcome::Measured(measured) => measured,
            Outcome::Failed { step, why } => {
                sink.line(skipped(step, why))?;
                continue;
            }
            Outcome::Interrupted => return Ok(Ended::Interrupted),
        };
        let refused = trace.as_ref().err().cloned();
        let trace = trace.ok();
        let unrecorded_cpus = trace.as_ref().map_or(Vec::new(), |trace| {
            trace.unrecorded(cpus_taking_part(case, &measured, &coordinator.host().measured_cpus))
        });
        let subject = Subject { trace, unrecorded_cpus, ..subject(case, &measured) };
        if subject.roles.iter().all(|role| role.marks.is_empty()) {
            let why = format!("the roles of {} note no messages, so there is no time line", case.pattern.id);
            sink.line(skipped("timeline".into(), why))?;
            continue;
        }
        let unmarked_ns = match coordinator.run_unmarked(case, &PeerStart::default()) {
            Outcome::Measured(measured) => operation_ns(case, &measured),
            Outcome::Failed { step, why } => {
                sink.line(skipped(
                    step,
                    format!("the unmarked run that goes with the time line failed: {why}"),
                ))?;
                None
            }
            Outcome::Interrupted => return Ok(Ended::Interrupted),
        };
        let looked = match broker::look(case, &subject, coordinator, &cpus) {
            broker::Looked::At(broker) => Some(broker),
            broker::Looked::Nothing(None) => None,
            broker::Looked::Nothing(Some(why)) => {
                sink.line(skipped("broker".into(), why))?;
                None
            }
            broker::Looked::Interrupted => return Ok(Ended::Interrupted),
        };
        let name = case.params.id.to_string();
        let operations = subject.operations();
        sink.line(Line::Timeline(Box::new(Timeline {
            subject: name.clone(),
            refused,
            unmarked_ns,
            mark_ns: marks::cost_ns().ok(),
            broker: looked,
            picture: picture::picture(&subject, &operations),
            ..phases::figures(&subject, &operations)
        })))?;
        if let Some(file) = &args.trace_out {
            write_trace(&subject, &name, file)?;
        }
    }
    Ok(Ended::Complete)
}

/// Writes the trace file of all operations of which everything is known.
fn write_trace(subject: &Subject, name: &str, file: &Path) -> io::Result<()> {
    let operations = subject.operations();
    let (Some(first), Some(last)) = (operations.first(), operations.last()) else {
        output::warn(&format!("`{}` is not written: no operation was seen whole", file.display()));
        return Ok(());
    };
    let trace = chrome::trace_file(subject, name, first.begins_ns, last.ends_ns);
    write_new(file, trace.to_string().as_bytes()).map_err(|error| {
        io::Error::new(error.kind(), format!("the trace is not in `{}`: {error}", file.display()))
    })
}

/// The CPUs that the roles and a process beside them may run on; those that are not pinned have all that are measured on.
fn cpus_taking_part(case: &Prepared, measured: &Measured, all: &[u32]) -> BTreeSet<u32> {
    let of_roles = if case.params.cpus.is_empty() { all } else { &case.params.cpus };
    let beside = measured.marks.iter().flat_map(|of| &of.auxiliary_cpus);
    of_roles.iter().chain(beside).copied().collect()
}

/// The roles of a run with their marks, and a process that took part beside them.
pub(super) fn subject(case: &Prepared, measured: &Measured) -> Subject {
    let names = case.role_names();
    let name = |index: usize| {
        let name = names[index];
        let count = |among: &[&str]| among.iter().filter(|other| **other == name).count();
        if count(&names) == 1 { name.to_owned() } else { format!("{name} {}", count(&names[..=index])) }
    };
    let role = |(index, of): (usize, &RoleMarks)| Role {
        name: name(index),
        kind: names[index].into(),
        threads: vec![of.thread],
        marks: of.marks.iter().map(mark).collect(),
    };
    let mut roles: Vec<Role> = measured.marks.iter().enumerate().map(role).collect();
    let auxiliary: BTreeSet<u32> =
        measured.marks.iter().flat_map(|of| of.auxiliary.iter().copied()).collect();
    if !auxiliary.is_empty() {
        let threads = auxiliary.into_iter().collect();
        let broker = Role { name: BROKER.into(), kind: BROKER.into(), threads, marks: Vec::new() };
        // Between those whose messages it passes on.
        roles.insert(1.min(roles.len()), broker);
    }
    Subject { roles, ..Subject::default() }
}

fn mark(mark: &marks::Mark) -> Mark {
    let point = match mark.point {
        marks::Point::WriteBegins => Point::WriteBegins,
        marks::Point::Written => Point::Written,
        marks::Point::WaitBegins => Point::WaitBegins,
        marks::Point::Read => Point::Read,
    };
    Mark { at_ns: mark.at_ns, point, number: mark.number }
}

/// The median time of what the time line takes for an operation, where that is an operation of the case: a hop there and one back are one.
/// Messages that are sent without waiting for what becomes of them are none.
fn operation_ns(case: &Prepared, measured: &Measured) -> Option<f64> {
    let hops = match case.pattern.id {
        "pingpong" => 2.0,
        "roundtrip" => 1.0,
        "fan-out" if case.params.axis("burst") == "1" => 1.0,
        _ => return None,
    };
    let each: Vec<f64> = measured
        .samples
        .iter()
        .map(|sample| hops * sample.elapsed_ns as f64 / sample.ops.max(1) as f64)
        .collect();
    (!each.is_empty()).then(|| median(&each))
}
