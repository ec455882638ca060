//! A record as it goes into the store: a row for each case, also for those that have no figure.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use weighbridge_record::{Case, End, Header, Identity, Line, Outcome, Reading, Summary, outcomes};

use crate::clock;
use crate::failure::Failure;
use crate::secrets;

/// Larger records are refused: a million samples are no figure of a fleet.
pub const MOST_BYTES: usize = 64 << 20;
/// The most labels of a record, and bytes of a name or a value.
pub const MOST_LABELS: (usize, usize) = (32, 256);
/// The most settings of a machine.
pub const MOST_FACTS: usize = 512;

/// A record that can be stored.
#[derive(Debug)]
pub struct Record {
    /// SHA-256 of its bytes, in hexadecimal digits: its name in the store.
    pub id: String,
    /// Its first line.
    pub header: Header,
    /// Who measured; of records without it, told from the header.
    pub identity: Identity,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// When it ended, where it did.
    pub ended_us: Option<i64>,
    /// Was everything measured that was planned?
    pub complete: bool,
    /// What became of each case.
    pub outcomes: Vec<Outcome>,
    cases: BTreeMap<String, Case>,
    summaries: BTreeMap<String, Summary>,
    /// Settings of the machine and its system.
    pub facts: BTreeMap<String, String>,
}

/// A row: a case of a record.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The record.
    pub record: &'a Record,
    /// What became of the case.
    pub outcome: &'a Outcome,
    /// The case, where it came to be known.
    pub case: Option<&'a Case>,
    /// Its figures.
    pub summary: Option<&'a Summary>,
}

impl Record {
    /// From the bytes of a file; `name` is for errors.
    ///
    /// # Errors
    /// One sentence, where the bytes are no record, one of a newer schema, too large, or hold a credential.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Record, Failure> {
        let refused = |why: String| Failure::hopeless(format!("{name}: {why}"));
        if bytes.len() > MOST_BYTES {
            return Err(refused(format!("a record of {} MiB; the store takes up to 64", bytes.len() >> 20)));
        }
        if let Some(variable) = secrets::found_in(bytes) {
            return Err(refused(format!(
                "holds the value of {variable}, and a credential is not stored; take it out of the command line or the labels"
            )));
        }
        let reading = weighbridge_record::read(bytes).map_err(|error| refused(error.to_string()))?;
        if let Some(newer) = reading.problems.iter().find(|problem| problem.is_newer()) {
            return Err(refused(newer.to_string()));
        }
        // What is cut in the middle was being written when its machine went away: the rest is a smaller record.
        if let Some(problem) = reading.problems.iter().find(|problem| !problem.is_cut()) {
            return Err(refused(problem.to_string()));
        }
        let header = reading.header().ok_or_else(|| refused("no record: it has no header".into()))?.clone();
        Record::of(digest(bytes), header, &reading).map_err(refused)
    }

    fn of(id: String, header: Header, reading: &Reading) -> Result<Record, String> {
        let started_us = clock::microseconds(&header.started)
            .ok_or_else(|| format!("`{}` is no time at which a session began", header.started))?;
        let (labels, bytes) = (header.labels.len(), MOST_LABELS.1);
        if labels > MOST_LABELS.0
            || header.labels.iter().any(|(name, value)| name.len().max(value.len()) > bytes)
        {
            return Err(format!("{labels} labels; a row has up to {} of {bytes} bytes each", MOST_LABELS.0));
        }
        let end =
            reading.lines.iter().find_map(|line| if let Line::End(end) = line { Some(end) } else { None });
        let ended = |end: &End| started_us.saturating_add((end.elapsed_s * 1e6) as i64);
        let facts = facts(&header);
        if facts.len() > MOST_FACTS {
            return Err(format!("{} settings of the machine; a row has up to {MOST_FACTS}", facts.len()));
        }
        let mut record = Record {
            id,
            identity: header.identity.clone().unwrap_or_else(|| guessed(&header)),
            started_us,
            ended_us: end.map(ended),
            complete: end.is_some_and(|end| end.complete),
            outcomes: outcomes(reading, &[]),
            cases: BTreeMap::new(),
            summaries: BTreeMap::new(),
            facts,
            header,
        };
        for line in &reading.lines {
            match line {
                Line::Case(case) => drop(record.cases.insert(case.case.to_string(), case.clone())),
                Line::Summary(of) => drop(record.summaries.insert(of.case.to_string(), of.clone())),
                _ => {}
            }
        }
        Ok(record)
    }

    /// A row for each case.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.outcomes.iter().map(|outcome| {
            let id = outcome.case.to_string();
            Row { record: self, outcome, case: self.cases.get(&id), summary: self.summaries.get(&id) }
        })
    }

    /// What it is part of: `default` where nothing is said.
    pub fn campaign(&self) -> &str {
        self.header.provenance.campaign.as_deref().unwrap_or("default")
    }

    /// The day on which it began, by its own clock.
    pub fn day(&self) -> String {
        clock::day(self.started_us)
    }
}

/// In hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Records from before machines had names are told apart by host name and model.
fn guessed(header: &Header) -> Identity {
    let machine = &header.machine;
    let class = format!("{} {} {}", machine.cpu_model, machine.cpus.len(), machine.memory_bytes >> 30);
    Identity {
        machine: machine.hostname.clone(),
        machine_from: "hostname".into(),
        hw_class: digest(class.as_bytes())[..16].into(),
        ..Identity::default()
    }
}

/// Parts of the kernel's command line that differ between machines and change nothing.
const OF_ONE_MACHINE: [&str; 5] = ["BOOT_IMAGE=", "initrd=", "root=", "resume=", "hostname="];

/// The command line of the kernel without what only one machine has.
pub fn normalized(command_line: &str) -> String {
    let kept = command_line
        .split_whitespace()
        .filter(|word| !OF_ONE_MACHINE.iter().any(|part| word.starts_with(part)));
    kept.collect::<Vec<_>>().join(" ")
}

/// A fingerprint of what the kernel does about vulnerabilities of the CPU.
pub fn mitigations(of: &BTreeMap<String, String>) -> Option<String> {
    let text: String = of.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    (!text.is_empty()).then(|| digest(text.as_bytes())[..16].into())
}

fn facts(header: &Header) -> BTreeMap<String, String> {
    let machine = &header.machine;
    let groups = [
        ("sysctl", &machine.sysctls),
        ("power", &machine.power),
        ("mitigation", &machine.mitigations),
        ("limit", &machine.limits),
    ];
    groups
        .into_iter()
        .flat_map(|(group, all)| {
            all.iter().map(move |(name, value)| (format!("{group}:{name}"), value.clone()))
        })
        .collect()
}
