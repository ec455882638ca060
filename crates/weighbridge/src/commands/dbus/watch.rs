//! `--trace-out FILE` of a replay, an experiment or a capture: the messages of each connection, and what the kernel saw of the broker and of this process
//! meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use causeway_dbus_wire::driver::DRIVER;
use causeway_os::{clock, sched};
use weighbridge_analysis::timeline::{Mark, Point, Role, Subject, chrome};
use weighbridge_dbus_client::Note;
use weighbridge_dbus_replay::plan::{Connection, Plan};
use weighbridge_dbus_replay::player;
use weighbridge_harness::marks::threads_of;
use weighbridge_record::MissingSwitches;

use crate::commands::recording::{Recording, What};
use crate::destination::write_new;
use crate::{Failure, output};

/// What is known of the messages meanwhile.
pub enum Messages<'m> {
    /// A plan was played, and it was noted when each message was sent and arrived.
    Replay(&'m Plan, &'m [player::Note]),
    /// Connections noted what they sent and received.
    Exam(Vec<Note>),
    /// A monitor saw them: all roles, those of the bus and of this program among them, and the names of the messages.
    Seen(Vec<Role>, BTreeMap<u64, String>),
}

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
        let mut cpus = sched::allowed_cpus().unwrap_or_default();
        cpus.extend(broker.and_then(|pid| sched::allowed_cpus_of(pid).ok()).unwrap_or_default());
        cpus.sort_unstable();
        cpus.dedup();
        let comm = broker.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        let comm = comm.as_deref().map(str::trim_end);
        let what = What { calls_of: comm.as_slice(), is_brief: false };
        Watch {
            recording: Recording::begin(&cpus, what),
            cpus,
            began_ns: clock::monotonic_ns(),
            began: Instant::now(),
            broker: broker.map(threads_of).unwrap_or_default(),
        }
    }

    /// Ends it, and writes the trace file, which does not exist yet.
    pub fn end(self, title: &str, messages: &Messages<'_>, file: &Path) -> Result<(), Failure> {
        let Watch { cpus, recording, began_ns, began, broker } = self;
        let to_ns = clock::monotonic_ns();
        let ns = |at: Instant| {
            began_ns + u64::try_from(at.saturating_duration_since(began).as_nanos()).unwrap_or(0)
        };
        let trace = recording.and_then(Recording::end).inspect_err(|why| {
            output::warn(&format!(
                "the time line has messages only, as the kernel's events are not available: {why}"
            ));
        });
        let trace = trace.ok();
        let mut roles = Vec::new();
        if !matches!(messages, Messages::Seen(..)) {
            roles.push(role("clients and services", threads_of(std::process::id())));
            roles.extend((!broker.is_empty()).then(|| role("broker", broker)));
        }
        let (connections, message_names) = messages.roles(ns);
        roles.extend(connections);
        let unrecorded_cpus = trace.as_ref().map_or(Vec::new(), |trace| trace.unrecorded(cpus));
        if !unrecorded_cpus.is_empty() {
            output::warn(&format!(
                "the time line is of some CPUs only, and has no count of switches; not recorded: {unrecorded_cpus:?}"
            ));
        }
        let subject = Subject { roles, trace, unrecorded_cpus, message_names };
        let missing = subject.missing_switches(began_ns, to_ns);
        for MissingSwitches { cpu, count, .. } in &missing {
            output::warn(&format!(
                "the kernel did not record at least {count} switches on CPU {cpu}; the time line marks their times, and has no count of switches"
            ));
        }
        let trace = subject.trace.as_ref();
        let whole = trace.filter(|_| subject.unrecorded_cpus.is_empty() && missing.is_empty());
        let switches = whole.map_or(String::new(), |trace| {
            let count = trace.events.iter().filter(|of| subject.is_own_switch(of)).count();
            format!(", {count} context switches")
        });
        // What was overwritten at the beginning is not known.
        let known_from_ns = trace.and_then(|trace| trace.known_from_ns.values().max().copied());
        let known_from_ns = known_from_ns.unwrap_or(0).clamp(began_ns, to_ns.max(began_ns));
        // Messages that a monitor has seen are shown also where the kernel's events are gone.
        let is_seen = matches!(messages, Messages::Seen(..));
        let from_ns = if is_seen { began_ns } else { known_from_ns };
        if known_from_ns > began_ns {
            let what = if is_seen { "the kernel's events begin" } else { "the time line begins" };
            output::warn(&format!("{what} late: the kernel keeps the latest events, and there were more"));
        }
        let text = chrome::trace_file(&subject, title, from_ns, to_ns).to_string();
        write_new(file, text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write `{}`: {error}", file.display())))?;
        output::say(&format!("time line: {}{switches}; open it in ui.perfetto.dev", file.display()));
        Ok(())
    }
}

/// A process that notes nothing.
fn role(name: &str, threads: Vec<u32>) -> Role {
    Role { name: name.into(), kind: name.into(), threads, marks: Vec::new() }
}

impl Messages<'_> {
    /// A role for each connection, with what it did, and the names of the messages.
    fn roles(&self, ns: impl Fn(Instant) -> u64) -> (Vec<Role>, BTreeMap<u64, String>) {
        match self {
            Messages::Replay(plan, notes) => {
                let of = |(index, connection): (usize, &Connection)| {
                    let own = notes.iter().filter(|note| note.connection == index);
                    let marks =
                        own.flat_map(|note| marks(note.is_sent, note.number, &note.at, &ns)).collect();
                    Role { marks, ..role(&connection.name, Vec::new()) }
                };
                (plan.connections().iter().enumerate().map(of).collect(), plan.titles())
            }
            Messages::Seen(roles, names) => (roles.clone(), names.clone()),
            Messages::Exam(notes) => {
                let mut numbers: HashMap<(&str, &str, u32), u64> = HashMap::new();
                // By length first, so that :1.2 stands before :1.10.
                let mut roles: BTreeMap<(usize, &str), Role> = BTreeMap::new();
                let mut names = BTreeMap::new();
                for note in notes {
                    // The driver numbers the messages to each connection by themselves.
                    let to = if note.sender == DRIVER { note.connection.as_str() } else { "" };
                    let next = numbers.len() as u64 + 1;
                    let number = *numbers.entry((&note.sender, to, note.serial)).or_insert(next);
                    names.entry(number).or_insert_with(|| format!("{} (message {number})", note.title));
                    let connection = note.connection.as_str();
                    let role = roles
                        .entry((connection.len(), connection))
                        .or_insert_with(|| role(connection, Vec::new()));
                    role.marks.extend(marks(note.is_sent, number, &note.at, &ns));
                }
                (roles.into_values().collect(), names)
            }
        }
    }
}

/// What a connection did with a message.
fn marks(is_sent: bool, number: u64, at: &Range<Instant>, ns: impl Fn(Instant) -> u64) -> [Mark; 2] {
    let [begins, ends] =
        if is_sent { [Point::WriteBegins, Point::Written] } else { [Point::WaitBegins, Point::Read] };
    [(at.start, begins), (at.end, ends)].map(|(at, point)| Mark {
        at_ns: ns(at),
        point,
        number: Some(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_number_at_both_ends_and_the_drivers_have_one_for_each_connection() {
        let began = Instant::now();
        let note = |connection: &str, is_sent, sender: &str, serial| Note {
            connection: connection.into(),
            is_sent,
            sender: sender.into(),
            serial,
            title: "signal a.B.C".into(),
            at: began..began,
        };
        let notes = vec![
            note(":1.1", true, ":1.1", 7),
            note(":1.2", false, ":1.1", 7),
            note(":1.1", false, DRIVER, 3),
            note(":1.2", false, DRIVER, 3),
        ];
        let (roles, names) = Messages::Exam(notes).roles(|_| 5);
        let numbers: Vec<(&str, Vec<u64>)> = roles
            .iter()
            .map(|role| (role.name.as_str(), role.marks.iter().filter_map(|mark| mark.number).collect()))
            .collect();
        assert_eq!(numbers, [(":1.1", vec![1, 1, 2, 2]), (":1.2", vec![1, 1, 3, 3])]);
        assert_eq!(names[&1], "signal a.B.C (message 1)");
        let subject = Subject { roles, ..Subject::default() };
        let messages = subject.messages(0, 10);
        assert_eq!(messages.iter().map(|of| (of.from, of.to)).collect::<Vec<_>>(), [(0, 1)]);
    }
}
