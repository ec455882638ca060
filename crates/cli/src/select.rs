//! Which cases the words on the command line mean.
//!
//! A word is a complete case id, or a glob on the ids of a suite. In a glob `*` crosses slashes, because the number of
//! parts of an id is nothing to remember; a path selects what is below it; a word without a slash is held against each
//! part. An axis that some cases do not have leaves those cases out, and that is said; one that none has is a mistake.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use weighbridge_lab::catalogue;
use weighbridge_lab::plan::{self, Changes, SUITES, Suite};
use weighbridge_record::CaseId;

use crate::{Failure, nearest};

/// The cases that were meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Their ids, each once, in the order of the suite.
    pub ids: Vec<CaseId>,
    /// What the user should know of how they came about.
    pub notes: Vec<String>,
}

/// Selects cases. Without words that is all of the suite, and without a suite the first one there is.
///
/// # Errors
/// A word that selects nothing, a case that does not exist, an axis or a value that no selected case has.
pub fn select(
    words: &[String],
    suite: Option<&'static Suite>,
    changes: &Changes,
) -> Result<Selected, Failure> {
    let mut ids = Vec::new();
    let mut globs = Vec::new();
    for word in words {
        match complete_id(word)? {
            Some(id) => ids.push(id),
            None => globs.push(Pattern::new(word)?),
        }
    }
    if !words.is_empty() && globs.is_empty() && (changes.sizes.is_some() || changes.placements.is_some()) {
        return Err(Failure::new(
            "--sizes and --place change the cases of a suite, and every case named here is complete; leave one or the other out",
        ));
    }
    let mut notes = Vec::new();
    if words.is_empty() {
        ids.extend(bases(suite.unwrap_or(&SUITES[0]), changes));
    }
    for glob in &globs {
        let (matching, note) = glob.matching(suite, changes)?;
        ids.extend(matching);
        notes.extend(note);
    }
    for (axis, values) in &changes.axes {
        for value in values {
            check_axis(axis, value, &ids)?;
        }
    }
    let (existing, left_out) = with_axes(ids, &changes.axes);
    notes.extend(left_out);
    if existing.is_empty() {
        return Err(Failure::new(format!("no selected case can be set so: {}", notes.join("; "))));
    }
    Ok(Selected { ids: existing, notes })
}

/// The case that a word names in full, if it does.
fn complete_id(word: &str) -> Result<Option<CaseId>, Failure> {
    if has_wildcards(word) {
        return Ok(None);
    }
    let Ok(id) = word.parse::<CaseId>() else { return Ok(None) };
    match catalogue::resolve(&id) {
        Ok(_) => Ok(Some(plan::without_defaults(id))),
        Err(why) => Err(Failure::new(format!("no case `{word}`: {why}{}", suggestions(word)))),
    }
}

/// Cases of a suite with the sizes and placements wanted, their axes as the suite has them.
fn bases(suite: &Suite, changes: &Changes) -> Vec<CaseId> {
    suite.cases(&Changes { axes: Vec::new(), ..changes.clone() })
}

/// Every case on every combination of axes that it has, and a sentence about those that it does not have.
fn with_axes(bases: Vec<CaseId>, axes: &[(String, Vec<String>)]) -> (Vec<CaseId>, Option<String>) {
    let mut existing: Vec<CaseId> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut left_out: Vec<(CaseId, String)> = Vec::new();
    for id in bases.into_iter().flat_map(|base| plan::with_axes(base, axes)) {
        if !seen.insert(id.clone()) {
            continue;
        }
        match catalogue::resolve(&id) {
            Ok(_) => existing.push(id),
            Err(why) => left_out.push((id, why)),
        }
    }
    let note = left_out.first().map(|(id, why)| match left_out.len() {
        1 => format!("left out {id}, which does not exist: {why}"),
        count => format!("left out {count} cases that do not exist, such as {id}: {why}"),
    });
    (existing, note)
}

/// An axis and a value that at least one of the cases has.
fn check_axis(axis: &str, value: &str, ids: &[CaseId]) -> Result<(), Failure> {
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

/// A word that is no complete id.
struct Pattern {
    word: String,
    glob: GlobSet,
}

impl Pattern {
    fn new(word: &str) -> Result<Pattern, Failure> {
        let word = word.trim_end_matches('/');
        if word.is_empty() {
            return Err(Failure::new(
                "an empty GLOB selects nothing; leave it out to select all of the suite",
            ));
        }
        let build = |glob: &str| GlobBuilder::new(glob).literal_separator(false).build();
        let glob = build(word)
            .and_then(|itself| GlobSetBuilder::new().add(itself).add(build(&format!("{word}/*"))?).build())
            .map_err(|error| Failure::new(format!("`{word}` is no glob: {}", error.kind())))?;
        Ok(Pattern { word: word.into(), glob })
    }

    fn matches(&self, id: &CaseId) -> bool {
        let id = id.to_string();
        if self.word.contains('/') {
            return self.glob.is_match(&id);
        }
        id.split('/').any(|part| self.glob.is_match(part))
    }

    /// The cases of the suite that match; without a suite, those of the first suite that has any, and then of the
    /// families that other crates have added, which no suite names.
    fn matching(
        &self,
        suite: Option<&'static Suite>,
        changes: &Changes,
    ) -> Result<(Vec<CaseId>, Option<String>), Failure> {
        let of = |suite: &Suite| -> Vec<CaseId> {
            bases(suite, changes).into_iter().filter(|id| self.matches(id)).collect()
        };
        let first = suite.unwrap_or(&SUITES[0]);
        let matching = of(first);
        if !matching.is_empty() {
            return Ok((matching, None));
        }
        let elsewhere = SUITES.iter().map(|other| (other, of(other))).find(|(_, ids)| !ids.is_empty());
        match (suite, elsewhere) {
            (None, Some((other, ids))) => {
                let note = format!(
                    "`{}` selects nothing in suite {}; taken from {}",
                    self.word, first.name, other.name
                );
                Ok((ids, Some(note)))
            }
            (Some(suite), Some((other, ids))) => Err(Failure::new(format!(
                "`{}` selects nothing in suite {}; suite {} has {} such cases, the first is {}",
                self.word,
                suite.name,
                other.name,
                ids.len(),
                ids[0]
            ))),
            (_, None) => match self.matching_further(changes) {
                further if !further.is_empty() && suite.is_none() => Ok((
                    further,
                    Some(format!("no suite has `{}`; taken from what the program was built with", self.word)),
                )),
                _ => Err(Failure::new(self.nothing())),
            },
        }
    }

    fn matching_further(&self, changes: &Changes) -> Vec<CaseId> {
        let changes = Changes { axes: Vec::new(), ..changes.clone() };
        plan::of_further_families(&changes).into_iter().filter(|id| self.matches(id)).collect()
    }

    fn nothing(&self) -> String {
        let word = &self.word;
        if let Some(target) = catalogue::all().find(|target| target.id == word) {
            let pattern = target.patterns.first().map_or("roundtrip", |pattern| pattern.id);
            return format!("no suite has `{word}`; name a case in full, as in {pattern}/{word}/1/same-cpu");
        }
        if word.matches('/').count() >= 3
            && !has_wildcards(word)
            && let Err(why) = word.parse::<CaseId>()
        {
            return format!("{why}{}", suggestions(word));
        }
        match suggestions(word) {
            near if near.is_empty() => {
                format!("`{word}` selects nothing; see `weighbridge list` for what there is")
            }
            near => format!("`{word}` selects nothing{near}"),
        }
    }
}

fn has_wildcards(word: &str) -> bool {
    word.contains(['*', '?', '[', '{'])
}

/// `; the nearest are …`, or nothing where nothing is near.
fn suggestions(word: &str) -> String {
    let known: Vec<CaseId> = SUITES.iter().flat_map(|suite| suite.cases(&Changes::default())).collect();
    match nearest::ids(word, &known).as_slice() {
        [] => String::new(),
        [one] => format!("; the nearest is {one}"),
        several => format!("; the nearest are {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        select(&words, None, &Changes::default()).unwrap().ids.iter().map(CaseId::to_string).collect()
    }

    fn refused(words: &[&str], suite: Option<&str>, changes: &Changes) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).into()).collect();
        select(&words, suite.map(|name| Suite::find(name).unwrap()), changes).unwrap_err().to_string()
    }

    fn axes(axis: &str, values: &[&str]) -> Changes {
        let values = values.iter().map(|value| (*value).into()).collect();
        Changes { axes: vec![(axis.into(), values)], ..Changes::default() }
    }

    #[test]
    fn without_words_all_of_the_suite_is_selected() {
        let ids = selected(&[]);
        assert!(ids.contains(&"roundtrip/noop/1/same-cpu".into()));
        assert!(ids.contains(&"roundtrip/pipe/4096/two-cpus".into()));
    }

    #[test]
    fn a_star_crosses_slashes_and_a_path_selects_what_is_below_it() {
        let ids = selected(&["roundtrip/pipe/*"]);
        assert!(ids.len() > 2 && ids.iter().all(|id| id.starts_with("roundtrip/pipe/")), "{ids:?}");
        assert_eq!(selected(&["roundtrip/pipe"]), ids);
        assert_eq!(selected(&["roundtrip/pipe/"]), ids);
        assert_eq!(selected(&["roundtrip/pi?e/{1,4096}/same-cpu"]).len(), 2);
    }

    #[test]
    fn a_word_selects_every_case_that_has_it_as_a_part() {
        let ids = selected(&["pipe"]);
        assert!(ids.contains(&"roundtrip/pipe/1/same-cpu".into()));
        assert!(ids.iter().all(|id| id.contains("/pipe/")), "{ids:?}");
        assert!(selected(&["ring-*"]).iter().any(|id| id.contains("ring-futex")));
        assert!(selected(&["stream"]).iter().all(|id| id.starts_with("stream/")), "not unix-stream");
    }

    #[test]
    fn a_word_that_the_default_suite_does_not_have_is_looked_for_in_the_others() {
        let found = select(&["roundtrip/pipe/2097152".into()], None, &Changes::default()).unwrap();
        assert_eq!(found.ids.len(), 2);
        assert_eq!(found.notes, ["`roundtrip/pipe/2097152` selects nothing in suite quick; taken from ipc"]);
        let why = refused(&["roundtrip/pipe/2097152"], Some("quick"), &Changes::default());
        assert!(why.contains("suite ipc has 2 such cases"), "{why}");
    }

    #[test]
    fn a_complete_id_needs_no_suite_and_has_one_spelling() {
        assert_eq!(
            selected(&["roundtrip/mock/7/free/latency-ns=5/touch=all", "roundtrip/mock/7/free/latency-ns=5"]),
            ["roundtrip/mock/7/free/latency-ns=5"]
        );
        let why = refused(&["roundtrip/pip/1/same-cpu"], None, &Changes::default());
        assert!(why.contains("there is no `pip` to roundtrip"), "{why}");
        assert!(why.contains("the nearest are roundtrip/pipe/1/same-cpu"), "{why}");
    }

    #[test]
    fn what_selects_nothing_is_refused_with_what_is_near() {
        let why = refused(&["ring-futx"], None, &Changes::default());
        assert_eq!(why, "`ring-futx` selects nothing; the nearest is ring-futex");
        let why = refused(&["carrier-pigeon"], None, &Changes::default());
        assert!(why.contains("weighbridge list"), "{why}");
        let why = refused(&["mock"], None, &Changes::default());
        assert!(why.contains("roundtrip/mock/1/same-cpu"), "{why}");
        let why = refused(&["roundtrip/pipe/4K/same-cpu"], None, &Changes::default());
        assert!(why.contains("is no case id: the third part is the payload in bytes"), "{why}");
        assert!(refused(&["roundtrip/[pipe"], None, &Changes::default()).contains("is no glob"));
        assert!(refused(&["/"], None, &Changes::default()).contains("empty"));
    }

    #[test]
    fn an_axis_leaves_out_the_cases_that_do_not_have_it_and_says_so() {
        let found = select(&["roundtrip/*/1/same-cpu".into()], None, &axes("wait", &["poll"])).unwrap();
        assert!(found.ids.contains(&"roundtrip/pipe/1/same-cpu/wait=poll".parse().unwrap()), "{found:?}");
        assert!(found.ids.iter().all(|id| id.axes.contains_key("wait")), "{found:?}");
        assert!(found.notes[0].contains("does not wait by poll"), "{found:?}");
    }

    #[test]
    fn an_axis_or_a_value_that_no_case_has_is_refused() {
        let why = refused(&["pipe"], None, &axes("colour", &["red"]));
        assert!(why.starts_with("no selected case has an axis `colour`; there are wait, touch"), "{why}");
        let why = refused(&["pipe"], None, &axes("touch", &["all", "everything"]));
        assert!(why.contains("axis touch takes none, first, "), "{why}");
        assert!(why.ends_with("not `everything`"), "{why}");
    }

    #[test]
    fn axes_hold_for_complete_ids_too_but_sizes_cannot() {
        let found =
            select(&["roundtrip/mock/1/free".into()], None, &axes("latency-ns", &["5", "6"])).unwrap();
        assert_eq!(found.ids.len(), 2);
        let sizes = Changes { sizes: Some(vec![2]), ..Changes::default() };
        assert!(refused(&["roundtrip/mock/1/free"], None, &sizes).contains("is complete"));
    }
}
