//! `weighbridge dbus exam`: what buses do, as a matrix of properties and brokers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use weighbridge_dbus_client::Notes;
use weighbridge_dbus_client::brokers::{Broker, Error, Limits, Program};
use weighbridge_dbus_exam::{Basis, Bus, MATCH_RULES, Outcome, Property, QUEUED_BYTES, properties, refusal};
use weighbridge_report::{Block, Document, Item, Section, Table};

use super::watch::{Messages, Watch};
use crate::dbus_args::Exam;
use crate::destination::refuse_existing;
use crate::{Exit, Failure, output};

/// An examination of all brokers takes minutes.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// A column of the matrix.
#[derive(Debug, Serialize)]
struct Subject {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip)]
    program: Option<Program>,
}

/// What one subject did about one property, each time it was examined.
#[derive(Debug, Serialize)]
struct Answer {
    broker: &'static str,
    /// As in the matrix: the answer, or the different ones.
    answer: String,
    is_violation: bool,
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Serialize)]
struct Row {
    property: &'static str,
    group: &'static str,
    question: &'static str,
    #[serde(flatten)]
    basis: Basis,
    answers: Vec<Answer>,
}

#[derive(Debug, Serialize)]
struct Matrix {
    times: u16,
    subjects: Vec<Subject>,
    properties: Vec<Row>,
}

pub fn exam(args: &Exam) -> Result<Exit, Failure> {
    let subjects = subjects(args)?;
    let asked: Vec<&'static Property> =
        if args.only.is_empty() { properties().collect() } else { args.only.clone() };
    if args.trace_out.is_some() && (subjects.len(), asked.len(), args.rounds) != (1, 1, 1) {
        return Err(Failure::mistake(
            "--trace-out is of one experiment; name one broker with --broker and one property with --only, and leave --rounds out",
        ));
    }
    if let Some(file) = &args.trace_out {
        refuse_existing(file, "--trace-out")?;
    }
    let mut timeline = Ok(());
    let row = |of: &&'static Property| {
        let Property { id, group, question, basis, .. } = **of;
        Row { property: id, group, question, basis, answers: Vec::new() }
    };
    let mut rows: Vec<Row> = asked.iter().map(row).collect();
    let mut said = Instant::now();
    for subject in &subjects {
        for (index, (property, row)) in asked.iter().zip(&mut rows).enumerate() {
            if said.elapsed() >= PROGRESS_EVERY {
                said = Instant::now();
                let (name, all, next) = (subject.name, asked.len(), property.id);
                output::say(&format!("{name}: {index} of {all} properties examined; next: {next}"));
            }
            let mut outcomes = Vec::new();
            for _ in 0..args.rounds {
                let (outcome, written) = examined(subject, property, args.trace_out.as_deref())?;
                outcomes.push(outcome);
                timeline = timeline.and(written);
            }
            row.answers.push(Answer::new(subject.name, outcomes));
        }
    }
    let matrix = Matrix { times: args.rounds, subjects, properties: rows };
    output::print(output::rendered(args.format, || matrix.document(), &matrix))?;
    timeline?;
    let all_kept =
        matrix.answers().all(|answer| !answer.is_violation && !answer.varies() && !answer.has_failed());
    Ok(if all_kept { Exit::Fine } else { Exit::Outside })
}

fn subjects(args: &Exam) -> Result<Vec<Subject>, Failure> {
    if let Some(address) = args.bus.address()? {
        let bus = Bus::new(&address, None);
        if let Some(refusal) = refusal(&bus).map_err(Failure::of)? {
            return Err(Failure::new(format!(
                "the policy of this bus is in the way: {refusal}; examine its program with --broker NAME"
            )));
        }
        return Ok(vec![Subject { name: "this bus", version: None, address: Some(address), program: None }]);
    }
    let missing = |program: Program| Error::Missing(program).to_string();
    let asked = if args.brokers.is_empty() { &Program::ALL[..] } else { &args.brokers };
    let (installed, not_installed): (Vec<Program>, Vec<Program>) =
        asked.iter().partition(|program| program.path().is_some());
    match (args.brokers.is_empty(), not_installed.first()) {
        (false, Some(program)) => return Err(Failure::new(missing(*program))),
        _ if installed.is_empty() => {
            return Err(Failure::new(
                "no broker is installed; install dbus-daemon or dbus-broker, or name a running bus with --session, --system or --address ADDRESS",
            ));
        }
        _ => not_installed.iter().for_each(|program| output::warn(&missing(*program))),
    }
    let subject = |program: Program| {
        let (name, version) = (program.name(), program.version());
        Subject { name, version, address: None, program: Some(program) }
    };
    Ok(installed.into_iter().map(subject).collect())
}

/// One experiment, and whether its time line could be written; a private broker is started for it alone.
fn examined(
    subject: &Subject,
    property: &Property,
    timeline: Option<&Path>,
) -> Result<(Outcome, Result<(), Failure>), Failure> {
    let notes = Notes::default();
    let noted = timeline.is_some().then_some(&notes);
    let on = |bus: &Bus<'_>| {
        let watch = timeline.map(|file| (Watch::begin(bus.private_pid), file));
        let outcome = property.examine(bus);
        let title = format!("{}: {}", subject.name, property.id);
        let messages = Messages::Exam(notes.take());
        let written = watch.map_or(Ok(()), |(watch, file)| watch.end(&title, &messages, file));
        (outcome, written)
    };
    let Some(program) = subject.program else {
        let address = subject.address.as_deref().expect("a subject without a program has an address");
        let (outcome, written) = on(&Bus { notes: noted, ..Bus::new(address, None) });
        // Without the bus there is nothing more to examine, and what fails says nothing about it.
        if let (Outcome::Failed(_), Err(gone)) = (&outcome, causeway_bus::client::Bus::connect(address)) {
            return Err(Failure::new(format!("the bus is gone since {} was examined: {gone}", property.id)));
        }
        return Ok((outcome, written));
    };
    let limits = Limits { queued_bytes: QUEUED_BYTES, match_rules: MATCH_RULES, ..Limits::default() };
    let broker = Broker::start(program, &limits).map_err(Failure::of)?;
    let bus = Bus { notes: noted, ..Bus::new(broker.address(), Some(broker.pid())) };
    let (outcome, written) = on(&bus);
    let outcome = match outcome {
        Outcome::Failed(why) if broker.has_ended() => {
            Outcome::Failed(format!("the broker ended in the middle: {why}"))
        }
        outcome => outcome,
    };
    Ok((outcome, written))
}

impl Answer {
    fn new(broker: &'static str, outcomes: Vec<Outcome>) -> Answer {
        let mut cells: Vec<&str> = outcomes.iter().map(Outcome::cell).collect();
        cells.sort_unstable();
        cells.dedup();
        let answer = cells.join(" | ");
        Answer { broker, answer, is_violation: outcomes.iter().any(Outcome::is_violation), outcomes }
    }

    /// The same experiment had different answers.
    fn varies(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.cell() != self.outcomes[0].cell())
    }

    /// Why the experiment was not made, if it was not.
    fn skipped(&self) -> Option<&'static str> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Skipped(why) => Some(*why),
            _ => None,
        })
    }

    fn has_failed(&self) -> bool {
        self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    fn cell(&self) -> String {
        format!("{}{}", self.answer, if self.is_violation { " !" } else { "" })
    }

    /// That of a violation or failure, if there is one.
    fn evidence(&self) -> &str {
        let worst = |outcome: &&Outcome| outcome.is_violation() || matches!(outcome, Outcome::Failed(_));
        self.outcomes.iter().find(worst).unwrap_or(&self.outcomes[0]).evidence()
    }
}

impl Row {
    fn examined(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| answer.skipped().is_none())
    }

    /// Is there something to explain: a violation, a failure, or brokers that differ?
    fn is_remarkable(&self) -> bool {
        let first = self.examined().next().map(|answer| &answer.answer);
        self.examined().any(|answer| {
            answer.is_violation || answer.has_failed() || answer.varies() || Some(&answer.answer) != first
        })
    }

    fn explained(&self) -> Item {
        let basis = match self.basis {
            Basis::Specification(section) => format!("D-Bus Specification, {section}"),
            Basis::Practice(why) => format!("not in the specification; {why}"),
            Basis::Nothing => "the specification leaves it open".into(),
        };
        let of = |answer: &Answer| {
            Item::from(format!("{}: {}: {}", answer.broker, answer.cell(), answer.evidence()))
        };
        Item {
            items: self.examined().map(of).collect(),
            ..Item::from(format!("{}: {} ({basis})", self.property, self.question))
        }
    }
}

impl Matrix {
    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.properties.iter().flat_map(|row| &row.answers)
    }

    fn document(&self) -> Document {
        let names: Vec<String> = self
            .subjects
            .iter()
            .map(|subject| match (&subject.version, &subject.address) {
                (Some(version), _) => format!("{} {version}", subject.name),
                (None, Some(address)) => format!("{} ({})", subject.name, address),
                (None, None) => subject.name.to_owned(),
            })
            .collect();
        let broken = self.answers().filter(|answer| answer.is_violation).count();
        let varying = self.answers().filter(|answer| answer.varies()).count();
        let times = if self.times == 1 { "once".to_owned() } else { format!("{} times", self.times) };
        let lead = [
            format!(
                "{} properties, each {times}: {broken} answers break a promise (!), {varying} differ between repetitions.",
                self.properties.len()
            ),
            format!("Examined: {}.", names.join(", ")),
        ];
        let title = "Examination of D-Bus brokers";
        let mut sections = vec![Section::of(title, lead, Vec::new())];
        let head: Vec<&str> =
            std::iter::once("property").chain(self.subjects.iter().map(|subject| subject.name)).collect();
        let cells = |row: &&Row| {
            std::iter::once(row.property.to_owned()).chain(row.answers.iter().map(Answer::cell)).collect()
        };
        let mut groups: Vec<&str> = Vec::new();
        for Row { group, .. } in &self.properties {
            if !groups.contains(group) {
                groups.push(group);
            }
        }
        for group in groups {
            let rows: Vec<&Row> = self.properties.iter().filter(|row| row.group == group).collect();
            let table = Table::of_first(&head, head.len(), rows.len(), &rows, cells);
            sections.push(Section::of(group, [], table.blocks()));
        }
        let is_short = self.properties.len() <= 3;
        let is_worth_it = |row: &&Row| row.is_remarkable() || is_short && row.examined().next().is_some();
        let explained: Vec<Item> = self.properties.iter().filter(is_worth_it).map(Row::explained).collect();
        if !explained.is_empty() {
            sections.push(Section::of("What was seen", [], vec![Block::List(explained)]));
        }
        let not_examined = self.not_examined();
        if !not_examined.is_empty() {
            sections.push(Section::of("Not examined (–)", [], vec![Block::sentences(not_examined)]));
        }
        Document { title: title.into(), warnings: Vec::new(), sections }
    }

    /// A line for each broker and reason, with the properties.
    fn not_examined(&self) -> Vec<String> {
        let mut properties: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for row in &self.properties {
            for answer in &row.answers {
                if let Some(why) = answer.skipped() {
                    properties.entry((answer.broker, why)).or_default().push(row.property);
                }
            }
        }
        let line = |((broker, why), of): (_, Vec<&str>)| format!("{broker}: {}: {why}", of.join(", "));
        properties.into_iter().map(line).collect()
    }
}
