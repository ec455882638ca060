//! The one place where entries come together: those of one identity are repetitions and become one figure.
//!
//! Each entry that is added becomes a run of its benchmark, a line that says why there is none, or a statistic; a statistic is another
//! account of runs that were measured anyway, and becomes a run of its own where they are absent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest;
use crate::import::entry::{Entry, Identity, Outcome, Run, Statistic};
use crate::{CaseId, Distribution};

/// The pattern of every imported case.
const PATTERN: &str = "imported";
/// The placement of every imported case: no tool says where its processes ran.
const PLACEMENT: &str = "unknown";
/// Notes of a benchmark beyond this number say nothing new.
const MOST_NOTES: usize = 8;

/// Benchmarks with their runs.
#[derive(Clone, Debug, Default)]
pub struct Benchmarks {
    list: Vec<Benchmark>,
    places: HashMap<Key, usize>,
    /// Numbers of sessions, by place and document.
    sessions: HashMap<(PathBuf, usize), usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    tool: &'static str,
    identity: Identity,
}

/// One benchmark with what all its entries say.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// Name of the tool.
    pub tool: &'static str,
    /// What tells it from others.
    pub identity: Identity,
    /// Bytes of a message or a block; 0 where no entry says so.
    pub payload_bytes: u64,
    /// Its repetitions.
    pub runs: Vec<Run>,
    /// Why entries have no figure, and how many of them for the same reason.
    pub skipped: BTreeMap<String, usize>,
    /// What the tool says of it besides, its settings included.
    pub facts: BTreeMap<String, String>,
    /// What a reader must know of it.
    pub notes: Vec<String>,
    /// Percentiles that the tool gives, where it is of one run.
    pub distribution: Option<Distribution>,
    /// See [`Entry::alternative_to`].
    pub alternative_to: Option<Arc<str>>,
    /// In the order of their numbers.
    accounts: Vec<Account>,
}

/// What one session says of a benchmark.
#[derive(Clone, Debug)]
struct Account {
    session: usize,
    /// The form of its runs, once there are any.
    form: Option<&'static str>,
    statistics: Vec<Statistic>,
}

impl Benchmarks {
    /// The number of a session: of a document in a file, or of a folder where a tool writes several files about one session.
    pub fn session(&mut self, place: &Path, document: usize) -> usize {
        let next = self.sessions.len();
        *self.sessions.entry((place.to_owned(), document)).or_insert(next)
    }

    /// Takes an entry. Accounts of one session in different forms are of the same runs, and the first of them counts.
    pub fn add(&mut self, tool: &'static str, session: usize, form: &'static str, entry: Entry) {
        let benchmark = self.benchmark(Key { tool, identity: entry.identity });
        let account = benchmark.account(session);
        match entry.outcome {
            Outcome::Runs(_) if account.form.is_some_and(|known| known != form) => {}
            Outcome::Runs(runs) => {
                account.form = Some(form);
                benchmark.add_runs(runs, entry.distribution);
            }
            Outcome::Statistic(statistic) => account.statistics.push(statistic),
            Outcome::Skipped(why) => *benchmark.skipped.entry(why).or_default() += 1,
        }
        benchmark.describe(entry.payload_bytes, entry.facts, entry.notes, entry.alternative_to);
    }

    /// Takes the benchmarks of another file.
    pub fn absorb(&mut self, others: Benchmarks) {
        let mut numbers: Vec<((PathBuf, usize), usize)> = others.sessions.into_iter().collect();
        numbers.sort_by_key(|(_, number)| *number);
        let numbers: Vec<usize> =
            numbers.into_iter().map(|((place, document), _)| self.session(&place, document)).collect();
        for other in others.list {
            let benchmark = self.benchmark(Key { tool: other.tool, identity: other.identity });
            let mut is_repeated = false;
            for account in other.accounts {
                let known = benchmark.account(numbers[account.session]);
                is_repeated |= known.form.is_some() && account.form.is_some() && known.form != account.form;
                known.form = known.form.or(account.form);
                known.statistics.extend(account.statistics);
            }
            if !is_repeated {
                benchmark.add_runs(other.runs, other.distribution);
            }
            for (why, count) in other.skipped {
                *benchmark.skipped.entry(why).or_default() += count;
            }
            benchmark.describe(other.payload_bytes, other.facts, other.notes, other.alternative_to);
        }
    }

    /// Has no entry been taken?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The benchmarks, each with the id of its case, in the order of their first entries.
    pub fn named(self) -> impl Iterator<Item = (CaseId, Benchmark)> {
        let finished: Vec<Benchmark> = self.list.into_iter().map(Benchmark::finished).collect();
        let ids = ids(&finished);
        ids.into_iter().zip(finished)
    }

    fn benchmark(&mut self, key: Key) -> &mut Benchmark {
        let place = *self.places.entry(key).or_insert_with_key(|key| {
            self.list.push(Benchmark::new(key));
            self.list.len() - 1
        });
        &mut self.list[place]
    }
}

impl Benchmark {
    fn new(key: &Key) -> Benchmark {
        Benchmark {
            tool: key.tool,
            identity: key.identity.clone(),
            payload_bytes: 0,
            runs: Vec::new(),
            skipped: BTreeMap::new(),
            facts: BTreeMap::new(),
            notes: Vec::new(),
            distribution: None,
            alternative_to: None,
            accounts: Vec::with_capacity(1),
        }
    }

    fn account(&mut self, session: usize) -> &mut Account {
        let found = self.accounts.binary_search_by_key(&session, |account| account.session);
        let place = found.unwrap_or_else(|place| {
            self.accounts.insert(place, Account { session, form: None, statistics: Vec::new() });
            place
        });
        &mut self.accounts[place]
    }

    fn add_runs(&mut self, runs: Vec<Run>, distribution: Option<Distribution>) {
        if self.runs.is_empty() {
            self.distribution = distribution;
        } else if !runs.is_empty() && self.distribution.take().or(distribution).is_some() {
            self.note(
                "the tool gives percentiles of each run, and those of several cannot be put together".into(),
            );
        }
        self.runs.extend(runs);
    }

    fn describe(
        &mut self,
        payload_bytes: u64,
        facts: BTreeMap<String, String>,
        notes: Vec<String>,
        alternative_to: Option<Arc<str>>,
    ) {
        self.payload_bytes = self.payload_bytes.max(payload_bytes);
        for (name, value) in facts {
            let known = self.facts.entry(name).or_insert_with(|| value.clone());
            if *known != value {
                *known = "differs between the runs".into();
            }
        }
        notes.into_iter().for_each(|note| self.note(note));
        self.alternative_to = self.alternative_to.take().or(alternative_to);
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The benchmark once all its entries are known: statistics stand in where a session has no runs.
    fn finished(mut self) -> Benchmark {
        for account in std::mem::take(&mut self.accounts).into_iter().filter(|account| account.form.is_none())
        {
            let Some(best) = account.statistics.iter().min_by_key(|of| of.rank()) else { continue };
            match best.value.filter(|_| best.rank() < 2) {
                Some(value) => {
                    self.runs.push(Run::of(value));
                    self.note(format!("only the {}; the file has no values of single runs", best.name));
                }
                None => {
                    let names: Vec<&str> = account.statistics.iter().map(|of| of.name.as_str()).collect();
                    let why = format!(
                        "only {}; a figure needs values of single runs, or their median or mean",
                        names.join(", ")
                    );
                    *self.skipped.entry(why).or_default() += 1;
                }
            }
        }
        let settings = self.identity.settings.iter();
        self.facts.extend(settings.map(|(name, value)| (name.clone(), value.clone())));
        self
    }
}

/// The id of each: by its name, with its suffix unless all have the same, with those settings in which benchmarks of the same name
/// differ, and at last with a hash of the whole identity. An id does not depend on the order of entries.
fn ids(all: &[Benchmark]) -> Vec<CaseId> {
    let mut suffixes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for benchmark in all.iter().filter(|benchmark| !benchmark.runs.is_empty()) {
        suffixes.entry(benchmark.tool).or_default().insert(&benchmark.identity.suffix);
    }
    let mut names: Vec<String> = Vec::new();
    for Benchmark { tool, identity: Identity { name, suffix, .. }, .. } in all {
        let is_shared = suffixes.get(tool).is_some_and(|all| all.len() == 1 && all.contains(suffix.as_str()));
        names.push(format!("{tool}:{name}{}", if is_shared { "" } else { suffix }));
    }
    let id = |name: &String, benchmark: &Benchmark| {
        let safe = |c: char| match c {
            '/' => ':',
            c if c.is_whitespace() || c.is_control() => '_',
            c => c,
        };
        CaseId::new(PATTERN, &name.chars().map(safe).collect::<String>(), benchmark.payload_bytes, PLACEMENT)
    };
    for shared in same(&names.iter().zip(all).map(|(name, of)| id(name, of)).collect::<Vec<_>>()) {
        let settings: Vec<_> = shared.iter().map(|index| settings(&all[*index].identity)).collect();
        let keys: BTreeSet<&str> = settings.iter().flat_map(|of| of.keys().copied()).collect();
        for key in
            keys.into_iter().filter(|key| settings.iter().any(|of| of.get(key) != settings[0].get(key)))
        {
            for (index, settings) in shared.iter().zip(&settings) {
                names[*index] += &settings.get(key).map_or(String::new(), |value| format!(" {key}={value}"));
            }
        }
    }
    let mut ids: Vec<CaseId> = names.iter().zip(all).map(|(name, of)| id(name, of)).collect();
    for index in same(&ids).concat() {
        let identity = &all[index].identity;
        ids[index].mechanism += &format!("#{}", digest::short(format!("{identity:?}").as_bytes()));
    }
    ids
}

/// The settings of a benchmark, the unit among them.
fn settings(identity: &Identity) -> BTreeMap<&str, &str> {
    let settings = identity.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    settings.chain([("unit", &*identity.unit)]).collect()
}

/// The places of those that are equal to another, in groups.
fn same(ids: &[CaseId]) -> Vec<Vec<usize>> {
    let mut groups: HashMap<&CaseId, Vec<usize>> = HashMap::new();
    for (index, id) in ids.iter().enumerate() {
        groups.entry(id).or_default().push(index);
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}
