//! Sessions of machines with the costs of their cases, in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weighbridge_record::Ending;

use crate::clock::DAY_US;
use crate::failure::Failure;

/// Names with numbers.
#[derive(Clone, Debug, Default)]
pub struct Names {
    numbers: HashMap<String, u32>,
    all: Vec<String>,
}

impl Names {
    /// The number of a name, which is the next one for a new name.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(name.into(), number);
        self.all.push(name.into());
        number
    }

    /// The name with that number.
    pub fn name(&self, number: u32) -> &str {
        &self.all[number as usize]
    }

    /// All of them, by number.
    pub fn all(&self) -> &[String] {
        &self.all
    }
}

/// A machine.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What the name is taken from.
    pub named_by: String,
    /// Its class.
    pub class: u32,
    /// Its settings, by numbers of [`Lake::facts`] and [`Lake::values`], as its last session had them.
    pub facts: BTreeMap<u32, u32>,
    /// When they were seen.
    pub facts_of_us: i64,
}

/// A case of a session.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the case.
    pub case: u32,
    /// What became of it.
    pub ending: Ending,
    /// Number of the reason; 0 is none.
    pub why: u32,
    /// Logarithm of its cost (of a rate the negative one); not a number where there is none.
    pub cost: f64,
    /// Logarithm of the multiple of its hub; likewise.
    pub to_hub: f64,
    /// Standard deviation of the logarithm of a run; likewise.
    pub run: f64,
    /// Runs behind the figure.
    pub runs: u32,
    /// Which of the sides that were asked for it belongs to, a bit each.
    pub sides: u8,
}

/// A session: a record.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its record.
    pub record: String,
    /// Index of the machine.
    pub host: usize,
    /// Number of the boot.
    pub boot: u32,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// When it ended, where it did.
    pub ended_us: Option<i64>,
    /// Was everything measured that was planned?
    pub complete: bool,
    /// Its plan, and which shard of how many.
    pub plan: Option<(String, i64, i64)>,
    /// Which attempt at it.
    pub attempt: i64,
    /// The kernel.
    pub kernel: u32,
    /// Does the name in the store say another day than its time of writing, by more than a day? Positive where the clock was ahead.
    pub clock_days: i64,
    /// Its cases.
    pub rows: Vec<Row>,
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Lake {
    /// Where it was read from, as it may be shown.
    pub of: String,
    /// Ids of cases.
    pub cases: Names,
    /// Classes of hardware.
    pub classes: Names,
    /// What the CPUs of a class are called, by number of the class.
    pub class_cpus: BTreeMap<u32, String>,
    /// Boot ids.
    pub boots: Names,
    /// Kernel releases.
    pub kernels: Names,
    /// Reasons why cases have no figure; the first is none.
    pub whys: Names,
    /// Names of settings.
    pub facts: Names,
    /// Values of settings.
    pub values: Names,
    /// The machines.
    pub hosts: Vec<Host>,
    /// The sessions, in the order of time.
    pub sessions: Vec<Session>,
    /// Objects that were read.
    pub objects: usize,
    /// Objects that could not be used, a sentence each.
    pub problems: Vec<Failure>,
    of_host: HashMap<String, usize>,
}

/// A session as an object has it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the columns of the same names")]
pub struct Part {
    pub record: String,
    pub machine: String,
    pub named_by: String,
    pub class: String,
    pub cpu: String,
    pub boot: String,
    pub kernel: String,
    pub started_us: i64,
    pub ended_us: Option<i64>,
    pub complete: bool,
    pub plan: Option<(String, i64, i64)>,
    pub attempt: i64,
    pub facts: BTreeMap<String, String>,
    pub rows: Vec<PartRow>,
}

/// A row of it.
#[derive(Clone, Debug)]
pub struct PartRow {
    /// The case.
    pub case: String,
    /// Why it has no figure; may be empty.
    pub why: String,
    /// The others; the numbers of case and reason are not set.
    pub figures: Row,
}

impl Lake {
    /// With nothing in it.
    pub fn new() -> Lake {
        let mut lake = Lake::default();
        lake.whys.number("");
        lake
    }

    /// Adds a session.
    pub fn add(&mut self, part: Part, written_us: Option<i64>) {
        let class = self.classes.number(&part.class);
        self.class_cpus.entry(class).or_insert_with(|| part.cpu.clone());
        let next = self.hosts.len();
        let host = *self.of_host.entry(part.machine.clone()).or_insert(next);
        if host == next {
            self.hosts.push(Host { name: part.machine.clone(), facts_of_us: i64::MIN, ..Host::default() });
        }
        let of = &mut self.hosts[host];
        if part.started_us >= of.facts_of_us {
            of.named_by.clone_from(&part.named_by);
            of.class = class;
            of.facts_of_us = part.started_us;
            of.facts = part
                .facts
                .iter()
                .map(|(name, value)| (self.facts.number(name), self.values.number(value)))
                .collect();
        }
        let rows = part
            .rows
            .into_iter()
            .map(|row| Row {
                case: self.cases.number(&row.case),
                why: self.whys.number(&row.why),
                ..row.figures
            })
            .collect();
        let days = |written: i64| match (
            part.started_us - written,
            written - part.ended_us.unwrap_or(part.started_us),
        ) {
            (ahead, _) if ahead > DAY_US => ahead / DAY_US,
            (_, behind) if behind > DAY_US => -(behind / DAY_US),
            _ => 0,
        };
        self.sessions.push(Session {
            record: part.record,
            host,
            boot: self.boots.number(&part.boot),
            started_us: part.started_us,
            ended_us: part.ended_us,
            complete: part.complete,
            plan: part.plan,
            attempt: part.attempt,
            kernel: self.kernels.number(&part.kernel),
            clock_days: written_us.map_or(0, days),
            rows,
        });
    }

    /// Puts sessions in the order of time, each record once, and machines in that of their names: the order of objects says nothing.
    pub fn settle(&mut self) {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by(|a, b| self.hosts[*a].name.cmp(&self.hosts[*b].name));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        self.hosts = order.iter().map(|old| self.hosts[*old].clone()).collect();
        self.sessions.iter_mut().for_each(|session| session.host = place[session.host]);
        self.of_host.values_mut().for_each(|host| *host = place[*host]);
        self.sessions.sort_by(|a, b| (a.started_us, &a.record).cmp(&(b.started_us, &b.record)));
        let mut seen = BTreeSet::new();
        self.sessions.retain(|session| seen.insert(session.record.clone()));
    }
}
