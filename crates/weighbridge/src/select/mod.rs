//! Which cases the words on the command line mean.
//!
//! A word is a complete case id, or a [glob]. Without a suite, globs select from [everything there is](offer), and the
//! sizes, placements and axes that they spell out are set; with a suite they select among its cases. An axis that some
//! cases do not have leaves those cases out, and that is said; one that no case has is a mistake.

mod explain;
mod glob;
mod offer;
mod published;

use std::collections::HashSet;

use weighbridge_harness::catalogue;
use weighbridge_harness::plan::{self, Changes, Suite};
use weighbridge_record::CaseId;

use crate::values::has_wildcards;
use crate::{Failure, nearest};
pub use explain::explain;
use glob::Glob;
use offer::Wanted;
pub use offer::written_out;
pub use published::Rows;

/// The cases that were meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// What each word selects that no word before it does.
    pub words: Vec<Understood>,
    /// Cases that do not exist because they lack an axis or one of its values.
    pub left_out: Vec<LeftOut>,
}

/// What one word was understood as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// What was typed; nothing where no word was.
    pub word: Option<String>,
    pub source: Source,
    /// The cases, in the order of their source.
    pub ids: Vec<CaseId>,
}

/// Where selected cases are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The word is a complete case id.
    Itself,
    Suite(&'static str),
    /// All that the program lists.
    List,
}

/// Cases that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason: a sentence without a full stop.
    pub why: String,
    pub ids: Vec<CaseId>,
}

impl Selected {
    /// The ids of the cases, each once.
    pub fn ids(&self) -> impl Iterator<Item = &CaseId> {
        self.words.iter().flat_map(|word| &word.ids)
    }

    /// One sentence about what was left out, if anything was.
    pub fn left_out_note(&self) -> Option<String> {
        let first = self.left_out.first()?;
        let (id, why) = (&first.ids[0], &first.why);
        Some(match self.left_out.iter().map(|left_out| left_out.ids.len()).sum() {
            1 => format!("left out {id}, which does not exist: {why}"),
            count => format!("left out {count} cases that do not exist, such as {id}: {why}"),
        })
    }
}

/// Selects cases. Without words that is all of the suite, and without a suite the first one there is. Refused are a word that selects nothing,
/// a case that does not exist, an axis or a value that no selected case has, and something that is set twice.
pub fn select(
    words: &[String],
    suite: Option<&'static Suite>,
    changes: &Changes,
) -> Result<Selected, Failure> {
    let read: Vec<Word> = words.iter().map(|word| Word::read(word)).collect::<Result<_, _>>()?;
    check_changes(&read, changes)?;
    let mut found = Vec::new();
    if read.is_empty() {
        let suite = suite.unwrap_or_else(Suite::first);
        let ids = suite.cases(&without_axes(changes));
        found.push(Understood { word: None, source: Source::Suite(suite.name), ids });
    }
    let mut left_out = Vec::new();
    for Word { text, meaning } in read {
        let (source, ids) = match (meaning, suite) {
            (Meaning::Case(id), _) => (Source::Itself, vec![id]),
            (Meaning::Published(rows), Some(suite)) if suite.name != rows.suite.name => {
                let (of, this) = (rows.suite.name, suite.name);
                return Err(Failure::mistake(format!(
                    "`{text}` is a row of the suite {of}, and not of {this}"
                )));
            }
            (Meaning::Published(rows), _) => {
                (Source::Suite(rows.suite.name), rows.cases(&without_axes(changes)))
            }
            (Meaning::Globs(globs), Some(suite)) => {
                (Source::Suite(suite.name), of_suite(&text, &globs, suite, changes)?)
            }
            (Meaning::Globs(globs), None) => (Source::List, of_list(&text, &globs, changes, &mut left_out)?),
        };
        found.push(Understood { word: Some(text), source, ids });
    }
    for (axis, values) in &changes.axes {
        for value in values {
            check_axis(axis, value, found.iter().flat_map(|word| &word.ids))?;
        }
    }
    let mut seen = HashSet::new();
    for word in &mut found {
        let ids = std::mem::take(&mut word.ids).into_iter().flat_map(|id| plan::with_axes(id, &changes.axes));
        word.ids = existing(ids.filter(|id| seen.insert(id.clone())), &mut left_out);
    }
    let selected = Selected { words: found, left_out };
    if selected.ids().next().is_none() {
        let why = selected.left_out_note().unwrap_or_default();
        return Err(Failure::mistake(format!("--set fits no selected case: {why}")));
    }
    Ok(selected)
}

/// A word on the command line.
struct Word {
    text: String,
    meaning: Meaning,
}

enum Meaning {
    Case(CaseId),
    /// Another tool calls rows of its own so.
    Published(Rows),
    Globs(Vec<Glob>),
}

impl Word {
    fn read(word: &str) -> Result<Word, Failure> {
        if let Some(rows) = Rows::find(word) {
            return Ok(Word { text: word.into(), meaning: Meaning::Published(rows) });
        }
        let id = word.parse::<CaseId>().ok().filter(|_| !has_wildcards(word));
        let meaning = match id.map(|id| catalogue::resolve(&id).map(|_| plan::without_defaults(id))) {
            Some(Ok(id)) => Meaning::Case(id),
            Some(Err(why)) => {
                return Err(Failure::mistake(format!("no case `{word}`: {why}{}", suggestions(word))));
            }
            None => Meaning::Globs(Glob::parse(word)?),
        };
        Ok(Word { text: word.into(), meaning })
    }

    fn globs(&self) -> &[Glob] {
        if let Meaning::Globs(globs) = &self.meaning { globs } else { &[] }
    }

    fn sets(&self, axis: &str) -> bool {
        match &self.meaning {
            Meaning::Case(id) => id.axes.contains_key(axis),
            Meaning::Published(_) => false,
            Meaning::Globs(globs) => globs.iter().flat_map(|glob| &glob.axes).any(|(own, _)| own == axis),
        }
    }
}

/// What an option and a word both set cannot be told apart, and what a complete id has is not changed.
fn check_changes(words: &[Word], changes: &Changes) -> Result<(), Failure> {
    let all_complete = !words.is_empty() && words.iter().all(|word| matches!(word.meaning, Meaning::Case(_)));
    if all_complete && (changes.sizes.is_some() || changes.placements.is_some()) {
        return Err(Failure::mistake(
            "--sizes and --place change what a GLOB or a suite selects, and every case named here is complete; leave one \
             or the other out",
        ));
    }
    for word in words {
        let twice = |what: &str, option: &str| {
            let word = &word.text;
            Err(Failure::mistake(format!(
                "{what} is set twice, by {option} and in `{word}`; leave one of them out"
            )))
        };
        let is_other = |wanted: &Vec<u64>| {
            word.globs().iter().filter_map(|glob| glob.size).any(|size| !wanted.contains(&size))
        };
        if changes.sizes.as_ref().is_some_and(is_other) {
            return twice("the payload size", "--sizes");
        }
        let is_elsewhere = |wanted: &Vec<String>| {
            word.globs().iter().filter_map(|glob| glob.placement.as_ref()).any(|one| !wanted.contains(one))
        };
        if changes.placements.as_ref().is_some_and(is_elsewhere) {
            return twice("the placement", "--place");
        }
        if let Some((axis, _)) = changes.axes.iter().find(|(axis, _)| word.sets(axis)) {
            return twice(&format!("axis {axis}"), &format!("--set {axis}"));
        }
    }
    Ok(())
}

fn without_axes(changes: &Changes) -> Changes {
    Changes { axes: Vec::new(), ..changes.clone() }
}

/// The cases of a suite that match.
fn of_suite(word: &str, globs: &[Glob], suite: &Suite, changes: &Changes) -> Result<Vec<CaseId>, Failure> {
    let mut ids = suite.cases(&without_axes(changes));
    ids.retain(|id| globs.iter().any(|glob| glob.matches_with_axes(id)));
    if !ids.is_empty() {
        return Ok(ids);
    }
    let has_others = globs.iter().any(|glob| !offer::matching(glob, Wanted::default()).is_empty());
    Err(Failure::mistake(if has_others {
        format!(
            "`{word}` selects nothing in suite {}; leave --suite out to select from all that `weighbridge list` shows",
            suite.name
        )
    } else {
        nothing(word, globs)
    }))
}

/// The cases that match among all there are, with the axes that the globs set.
fn of_list(
    word: &str,
    globs: &[Glob],
    changes: &Changes,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<CaseId>, Failure> {
    let wanted = Wanted { sizes: changes.sizes.as_deref(), placements: changes.placements.as_deref() };
    let mut ids: Vec<CaseId> = Vec::new();
    for glob in globs {
        let bases = offer::matching(glob, wanted);
        for (axis, value) in glob.axes.iter().filter(|_| !bases.is_empty()) {
            check_axis_glob(axis, value, &bases)?;
        }
        let set = bases.iter().flat_map(|base| offer::with_axes(base, &glob.axes));
        for id in existing(set, left_out) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    if ids.is_empty() { Err(Failure::mistake(nothing(word, globs))) } else { Ok(ids) }
}

/// Those that exist; the others go where it is said why.
fn existing(ids: impl Iterator<Item = CaseId>, left_out: &mut Vec<LeftOut>) -> Vec<CaseId> {
    let mut kept = Vec::new();
    for id in ids {
        match catalogue::resolve(&id) {
            Ok(_) => kept.push(id),
            Err(why) => {
                // Which axes a case has instead is in `weighbridge list`, and would part what is one reason.
                let why = why.split("; it has ").next().unwrap_or(&why).to_owned();
                match left_out.iter_mut().find(|known| known.why == why) {
                    Some(known) => known.ids.push(id),
                    None => left_out.push(LeftOut { why, ids: vec![id] }),
                }
            }
        }
    }
    kept
}

/// An axis and a value that at least one of the cases has.
fn check_axis<'a>(axis: &str, value: &str, ids: impl Iterator<Item = &'a CaseId>) -> Result<(), Failure> {
    let mut refusal = None;
    let mut known: Vec<&str> = Vec::new();
    for id in ids {
        let Ok((target, pattern, _)) = catalogue::resolve(id) else { continue };
        let Err(why) = catalogue::resolve(&id.clone().with(axis, value)) else { return Ok(()) };
        for declared in target.axes_in(pattern) {
            if declared.name == axis {
                refusal.get_or_insert_with(|| why.clone());
            }
            if !known.contains(&declared.name) {
                known.push(declared.name);
            }
        }
    }
    Err(Failure::mistake(
        refusal.unwrap_or_else(|| {
            format!("no selected case has an axis `{axis}`; there are {}", known.join(", "))
        }),
    ))
}

/// The same for what a glob has in the place of a value.
fn check_axis_glob(axis: &str, value: &str, ids: &[CaseId]) -> Result<(), Failure> {
    if !has_wildcards(value) {
        return check_axis(axis, value, ids.iter());
    }
    let takes = |id: &CaseId| {
        offer::with_axes(id, &[(axis.to_owned(), value.to_owned())])
            .iter()
            .any(|id| catalogue::resolve(id).is_ok())
    };
    if ids.iter().any(takes) {
        return Ok(());
    }
    Err(Failure::mistake(format!(
        "no selected case takes a value like `{value}` on an axis `{axis}`; see `weighbridge list {axis}`"
    )))
}

/// Why a word selects nothing, and what to write instead.
fn nothing(word: &str, globs: &[Glob]) -> String {
    if let Some(suite) = Suite::find(word) {
        return format!("`{0}` is a suite; write --suite {0}", suite.name);
    }
    let mut patterns =
        catalogue::all().flat_map(|target| target.patterns.iter().map(move |own| (target, own)));
    if patterns.any(|(target, pattern)| target.axes_in(pattern).iter().any(|axis| axis.name == word)) {
        return format!("`{word}` is an axis; give it a value, as in {word}=VALUE (`weighbridge list`)");
    }
    if word.matches('/').count() >= 3
        && !has_wildcards(word)
        && let Err(why) = word.parse::<CaseId>()
    {
        return format!("{why}{}", suggestions(word));
    }
    let all = offer::all(Wanted::default());
    if globs.iter().any(|glob| all.iter().any(|id| glob.matches(id))) {
        return format!(
            "`{word}` matches only `noop` (the harness) and `mock` (for tests); write a case id of theirs in full"
        );
    }
    match suggestions(word) {
        near if near.is_empty() => {
            format!("`{word}` selects nothing; see `weighbridge list` for what there is")
        }
        near => format!("`{word}` selects nothing{near}"),
    }
}

/// `; the nearest are …`, or nothing where nothing is near.
fn suggestions(word: &str) -> String {
    match nearest::ids(word, &offer::all(Wanted::default())).as_slice() {
        [] => String::new(),
        [one] => format!("; the nearest is {one}"),
        several => format!("; the nearest are {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests;
