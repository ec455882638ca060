//! `--timeline FILE` of a replay or an experiment: what the kernel saw of the broker and of this process meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use causeway_os::clock;
use weighbridge_dbus_replay::plan::Plan;
use weighbridge_dbus_replay::player::Note;
use weighbridge_lab::marks::threads_of;
use weighbridge_record::MissingSwitches;
use weighbridge_timeline::{Mark, Point, Role, Subject, chrome};

use crate::commands::recording::Recording;
use crate::commands::report::write_new;
use crate::{Failure, output};

/// A recording at work.
pub struct Watch {
    cpus: Vec<u32>,
    recording: Result<Recording, String>,
    began_ns: u64,
    began: Instant,
    broker: Vec<u32>,
}

impl Watch {
    /// Begins to watch this process, and a broker by its process id.
    pub fn begin(broker: Option<u32>) -> Watch {
        let cpus = causeway_os::sched::allowed_cpus().unwrap_or_default();
        Watch {
            recording: Recording::begin(&cpus),
            cpus,
            began_ns: clock::monotonic_ns(),
            began: Instant::now(),
            broker: broker.map(threads_of).unwrap_or_default(),
        }
    }

    /// Ends it, and writes the trace file. `plan` and `notes` say what was sent and has arrived meanwhile; there are none of an experiment.
    ///
    /// # Errors
    /// The file exists already or cannot be written; there is nothing to be shown.
    pub fn end(self, title: &str, messages: Option<(&Plan, &[Note])>, file: &Path) -> Result<(), Failure> {
        let Watch { cpus, recording, began_ns, began, broker } = self;
        let to_ns = clock::monotonic_ns();
        let ns = |at: Instant| {
            began_ns + u64::try_from(at.saturating_duration_since(began).as_nanos()).unwrap_or(0)
        };
        let trace = recording.and_then(Recording::end);
        if let Err(why) = &trace {
            if messages.is_none() {
                return Err(Failure::new(format!(
                    "there is no time line without the kernel's events: {why}"
                )));
            }
            output::warn(&format!(
                "the time line has messages only, as the kernel's events are not available: {why}"
            ));
        }
        let us = std::process::id();
        let mut roles = vec![role("clients and services", threads_of(us))];
        roles.extend((!broker.is_empty()).then(|| role("broker", broker)));
        let mut message_names = BTreeMap::new();
        if let Some((plan, notes)) = messages {
            message_names = plan.titles();
            roles.extend(plan.connections().iter().enumerate().map(|(index, connection)| {
                Role {
                    marks: notes
                        .iter()
                        .filter(|note| note.connection == index)
                        .flat_map(|note| marks(note, ns))
                        .collect(),
                    ..role(&connection.name, Vec::new())
                }
            }));
        }
        let trace = trace.ok();
        let unrecorded_cpus = trace.as_ref().map_or(Vec::new(), |trace| trace.unrecorded(cpus));
        if !unrecorded_cpus.is_empty() {
            output::warn(&format!(
                "the time line is of some CPUs only, and has no count of switches; not recorded: {unrecorded_cpus:?}"
            ));
        }
        let missing = trace.as_ref().map_or(Vec::new(), |trace| trace.missing_switches(began_ns, to_ns));
        for MissingSwitches { cpu, count, .. } in &missing {
            output::warn(&format!(
                "the kernel did not record at least {count} switches on CPU {cpu}; the time line marks their times, and has no count of switches"
            ));
        }
        let subject = Subject { roles, trace, unrecorded_cpus, message_names };
        let is_own = |of: &&weighbridge_timeline::Happened| subject.is_own_switch(of);
        let whole =
            subject.trace.as_ref().filter(|_| subject.unrecorded_cpus.is_empty() && missing.is_empty());
        let switches = whole.map(|trace| trace.events.iter().filter(is_own).count());
        // What was overwritten at the beginning is not known.
        let known_from_ns =
            subject.trace.iter().flat_map(|trace| trace.known_from_ns.values()).max().copied();
        let from_ns = began_ns.max(known_from_ns.unwrap_or(0)).min(to_ns);
        if from_ns > began_ns {
            output::warn(
                "the time line begins late: the kernel keeps the latest events, and there were more",
            );
        }
        let text = chrome::trace_file(&subject, title, from_ns, to_ns).to_string();
        write_new(file, text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write `{}`: {error}", file.display())))?;
        let switches = switches.map_or(String::new(), |count| format!(", {count} context switches"));
        output::say(&format!("time line: {}{switches}; open it in ui.perfetto.dev", file.display()));
        Ok(())
    }
}

/// A process that notes nothing.
fn role(name: &str, threads: Vec<u32>) -> Role {
    Role { name: name.into(), kind: name.into(), threads, marks: Vec::new() }
}

/// What a connection did with a message.
fn marks(note: &Note, ns: impl Fn(Instant) -> u64) -> [Mark; 2] {
    let points = match note.is_sent {
        true => [Point::WriteBegins, Point::Written],
        false => [Point::WaitBegins, Point::Read],
    };
    let times = [note.at.start, note.at.end];
    [0, 1].map(|end| Mark { at_ns: ns(times[end]), point: points[end], number: Some(note.number) })
}
