//! Which cases the words on the command line mean.
//!
//! A word is a complete case id, or a [glob]. Without a suite, globs select from [everything there is](offer), and the
//! sizes, placements and axes that they spell out are set; with a suite they select among its cases. An axis that some
//! cases do not have leaves those cases out, and that is said; one that no case has is a mistake.

mod explain;
mod glob;
mod offer;

use std::collections::HashSet;

use weighbridge_harness::catalogue;
use weighbridge_harness::plan::{self, Changes, Suite};
use weighbridge_record::CaseId;

use crate::{Failure, nearest};
pub use explain::explain;
use glob::{Glob, has_wildcards};
use offer::Wanted;

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
    /// What its cases were selected from.
    pub source: Source,
    /// The cases, in the order of their source.
    pub ids: Vec<CaseId>,
}

/// Where selected cases are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The word is a complete case id.
    Itself,
    /// A suite.
    Suite(&'static str),
    /// All that the program lists.
    List,
}

/// Cases that were left out for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason: a sentence without a full stop.
    pub why: String,
    /// The cases.
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

/// Selects cases. Without words that is all of the suite, and without a suite the first one there is.
///
/// # Errors
/// A word that selects nothing, a case that does not exist, an axis or a value that no selected case has, something that is
/// set twice.
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
    for word in read {
        found.push(word.understood(suite, changes, &mut left_out)?);
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
        return Err(Failure::new(format!("--set fits no selected case: {why}")));
    }
    Ok(selected)
}

/// A word on the command line.
enum Word {
    Case(String, CaseId),
    Globs(String, Vec<Glob>),
}

impl Word {
    fn read(word: &str) -> Result<Word, Failure> {
        if !has_wildcards(word)
            && let Ok(id) = word.parse::<CaseId>()
        {
            return match catalogue::resolve(&id) {
                Ok(_) => Ok(Word::Case(word.into(), plan::without_defaults(id))),
                Err(why) => Err(Failure::new(format!("no case `{word}`: {why}{}", suggestions(word)))),
            };
        }
        Ok(Word::Globs(word.into(), Glob::parse(word)?))
    }

    fn understood(
        self,
        suite: Option<&'static Suite>,
        changes: &Changes,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<Understood, Failure> {
        let (word, globs) = match self {
            Word::Case(word, id) => {
                return Ok(Understood { word: Some(word), source: Source::Itself, ids: vec![id] });
            }
            Word::Globs(word, globs) => (word, globs),
        };
        let ids = match suite {
            Some(suite) => of_suite(&word, &globs, suite, changes)?,
            None => of_list(&word, &globs, changes, left_out)?,
        };
        let source = suite.map_or(Source::List, |suite| Source::Suite(suite.name));
        Ok(Understood { word: Some(word), source, ids })
    }
}

/// What an option and a word both set cannot be told apart, and what a complete id has is not changed.
fn check_changes(words: &[Word], changes: &Changes) -> Result<(), Failure> {
    let is_case = |word: &Word| matches!(word, Word::Case(..));
    if !words.is_empty()
        && words.iter().all(is_case)
        && (changes.sizes.is_some() || changes.placements.is_some())
    {
        return Err(Failure::new(
            "--sizes and --place change what a GLOB or a suite selects, and every case named here is complete; leave one \
             or the other out",
        ));
    }
    let twice = |what: &str, option: &str, word: &str| {
        Err(Failure::new(format!("{what} is set twice, by {option} and in `{word}`; leave one of them out")))
    };
    for word in words {
        let (word, sizes, placements, axes) = match word {
            Word::Case(word, id) => {
                (word, Vec::new(), Vec::new(), id.axes.keys().cloned().collect::<Vec<_>>())
            }
            Word::Globs(word, globs) => (
                word,
                globs.iter().filter_map(|glob| glob.size).collect(),
                globs.iter().filter_map(|glob| glob.placement.clone()).collect(),
                globs.iter().flat_map(|glob| glob.axes.iter().map(|(axis, _)| axis.clone())).collect(),
            ),
        };
        if changes.sizes.as_ref().is_some_and(|wanted| sizes.iter().any(|size| !wanted.contains(size))) {
            return twice("the payload size", "--sizes", word);
        }
        if changes
            .placements
            .as_ref()
            .is_some_and(|wanted| placements.iter().any(|one| !wanted.contains(one)))
        {
            return twice("the placement", "--place", word);
        }
        if let Some((axis, _)) = changes.axes.iter().find(|(axis, _)| axes.contains(axis)) {
            return twice(&format!("axis {axis}"), &format!("--set {axis}"), word);
        }
    }
    Ok(())
}

fn without_axes(changes: &Changes) -> Changes {
    Changes { axes: Vec::new(), ..changes.clone() }
}

/// The cases of a suite that match.
fn of_suite(word: &str, globs: &[Glob], suite: &Suite, changes: &Changes) -> Result<Vec<CaseId>, Failure> {
    let of = |suite: &Suite| -> Vec<CaseId> {
        let mut ids = suite.cases(&without_axes(changes));
        ids.retain(|id| globs.iter().any(|glob| glob.matches_with_axes(id)));
        ids
    };
    let ids = of(suite);
    if !ids.is_empty() {
        return Ok(ids);
    }
    let has_others = globs.iter().any(|glob| !offer::matching(glob, Wanted::default()).is_empty());
    Err(Failure::new(if has_others {
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
        for (axis, value) in bases.iter().next().map_or(&[][..], |_| &glob.axes) {
            check_axis_glob(axis, value, &bases)?;
        }
        let set = bases.iter().flat_map(|base| offer::with_axes(base, &glob.axes));
        for id in existing(set, left_out) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    if ids.is_empty() { Err(Failure::new(nothing(word, globs))) } else { Ok(ids) }
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
        let declared = target.axes_in(pattern);
        let has_axis = declared.iter().any(|declared| declared.name == axis);
        match catalogue::resolve(&id.clone().with(axis, value)) {
            Ok(_) => return Ok(()),
            Err(why) if has_axis => refusal = refusal.or(Some(why)),
            Err(_) => {}
        }
        for declared in &declared {
            if !known.contains(&declared.name) {
                known.push(declared.name);
            }
        }
    }
    Err(Failure::new(
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
        Ok(())
    } else {
        Err(Failure::new(format!(
            "no selected case takes a value like `{value}` on an axis `{axis}`; see `weighbridge list {axis}`"
        )))
    }
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
