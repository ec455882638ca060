//! What a selection was understood as, and how its number of cases comes about, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weighbridge_record::CaseId;

use super::{LeftOut, Selected, Source, Understood};

/// Names that are listed one by one; more are counted.
const MOST_NAMES: usize = 6;

/// What each word selects as a product, how many cases of the harness were added, and what was left out.
pub fn explain(selected: &Selected, harness: usize) -> String {
    let mut out = String::from("understood:\n");
    for word in &selected.words {
        of_word(&mut out, word);
    }
    if harness > 0 {
        let _ = writeln!(out, "  the harness (noop), once for each pattern: {}", cases(harness));
    }
    if !selected.left_out.is_empty() {
        out.push_str("left out:\n");
        for left_out in &selected.left_out {
            let LeftOut { why, ids } = left_out;
            let _ = writeln!(out, "  {}: {why}", cases(ids.len()));
        }
    }
    out
}

fn of_word(out: &mut String, understood: &Understood) {
    let Understood { word, source, ids } = understood;
    let source = match source {
        Source::Itself => "a complete case id".to_owned(),
        Source::Suite(name) => format!("suite {name}"),
        Source::List => "all that `weighbridge list` shows".to_owned(),
    };
    let _ = match word {
        Some(word) => writeln!(out, "  `{word}` ({source}): {}", cases(ids.len())),
        None => writeln!(out, "  {source}: {}", cases(ids.len())),
    };
    if ids.len() < 2 {
        return;
    }
    for group in groups(ids) {
        let _ = writeln!(out, "    {}", group.line());
    }
}

/// The cases of one pattern, by what they differ in. They are a product where their number is.
struct Group<'a> {
    pattern: &'a str,
    count: usize,
    mechanisms: Vec<&'a str>,
    sizes: BTreeSet<u64>,
    placements: Vec<&'a str>,
    settings: Vec<String>,
}

/// Mechanisms of a pattern that come with the same sizes, placements and settings stand together.
fn groups(ids: &[CaseId]) -> Vec<Group<'_>> {
    let mut by_mechanism: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for id in ids {
        let place = *places.entry((&id.pattern, &id.mechanism)).or_insert_with(|| {
            by_mechanism.push(Group {
                pattern: &id.pattern,
                count: 0,
                mechanisms: vec![&id.mechanism],
                sizes: BTreeSet::new(),
                placements: Vec::new(),
                settings: Vec::new(),
            });
            by_mechanism.len() - 1
        });
        let group = &mut by_mechanism[place];
        group.count += 1;
        group.sizes.insert(id.payload_bytes);
        if !group.placements.contains(&id.placement.as_str()) {
            group.placements.push(&id.placement);
        }
        let setting = setting(id);
        if !group.settings.contains(&setting) {
            group.settings.push(setting);
        }
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for one in by_mechanism {
        let alike = |known: &&mut Group<'_>| {
            let count = known.count == one.count * known.mechanisms.len();
            count
                && (known.pattern, &known.sizes, &known.placements, &known.settings)
                    == (one.pattern, &one.sizes, &one.placements, &one.settings)
        };
        match groups.iter_mut().find(alike) {
            Some(known) => {
                known.count += one.count;
                known.mechanisms.extend(one.mechanisms);
            }
            None => groups.push(one),
        }
    }
    groups
}

/// The axes that are not at their default.
fn setting(id: &CaseId) -> String {
    let axes: Vec<String> = id.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    if axes.is_empty() { "defaults".into() } else { axes.join(" ") }
}

impl Group<'_> {
    fn line(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let mut factors = vec![
            factor("mechanism", &self.mechanisms),
            factor("size", &sizes.iter().map(String::as_str).collect::<Vec<_>>()),
            factor("placement", &self.placements),
        ];
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let with = match settings[..] {
            ["defaults"] => String::new(),
            [one] => format!(" with {one}"),
            _ => {
                factors.push(factor("setting of axes", &settings));
                String::new()
            }
        };
        let product = self.mechanisms.len() * self.sizes.len() * self.placements.len() * settings.len();
        match product == self.count {
            true => format!("{}{with}: {} = {}", self.pattern, factors.join(" × "), self.count),
            // Not every size stands in every placement.
            false => format!("{}{with}: {} of {}", self.pattern, self.count, factors.join(" × ")),
        }
    }
}

/// `2 placements (same-cpu, two-cpus)`.
fn factor(what: &str, names: &[&str]) -> String {
    let separator = if names.iter().any(|name| name.contains(' ')) { "; " } else { ", " };
    let listed = match names {
        [] => String::new(),
        names if names.len() <= MOST_NAMES => names.join(separator),
        [first, .., last] => format!("{first} … {last}"),
        [one] => (*one).into(),
    };
    let plural = match what.split_once(' ') {
        _ if names.len() == 1 => what.to_owned(),
        Some((noun, rest)) => format!("{noun}s {rest}"),
        None => format!("{what}s"),
    };
    format!("{} {plural} ({listed})", names.len())
}

fn cases(count: usize) -> String {
    if count == 1 { "1 case".into() } else { format!("{count} cases") }
}
