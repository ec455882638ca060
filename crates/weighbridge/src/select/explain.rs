//! What a selection was understood as, and how its number of cases comes about, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use weighbridge_record::CaseId;

use super::{LeftOut, Selected, Source, Understood};

/// Names that are listed one by one; more are counted.
const MOST_NAMES: usize = 6;

/// What each word selects as a product, how many cases of the harness were added, and what was left out.
pub fn explain(selected: &Selected, harness: usize) -> String {
    let mut out = String::from("understood:\n");
    for Understood { word, source, ids } in &selected.words {
        let source = match source {
            Source::Itself => "a complete case id".to_owned(),
            Source::Suite(name) => format!("suite {name}"),
            Source::List => "all that `weighbridge list` shows".to_owned(),
        };
        let what = word.as_ref().map_or(source.clone(), |word| format!("`{word}` ({source})"));
        let _ = writeln!(out, "  {what}: {}", cases(ids.len()));
        if ids.len() > 1 {
            groups(ids).iter().for_each(|group| _ = writeln!(out, "    {}", group.line()));
        }
    }
    if harness > 0 {
        let _ = writeln!(out, "  the harness (noop), once for each pattern: {}", cases(harness));
    }
    if !selected.left_out.is_empty() {
        out.push_str("left out:\n");
    }
    for LeftOut { why, ids } in &selected.left_out {
        let _ = writeln!(out, "  {}: {why}", cases(ids.len()));
    }
    out
}

/// The cases of one pattern, by what they differ in. They are a product where their number is.
struct Group<'a> {
    mechanisms: Vec<&'a str>,
    count: usize,
    of: Factors<'a>,
}

/// What mechanisms that stand together have in common.
#[derive(Default, PartialEq)]
struct Factors<'a> {
    pattern: &'a str,
    sizes: BTreeSet<u64>,
    placements: Vec<&'a str>,
    settings: Vec<String>,
}

/// Mechanisms of a pattern that come with the same sizes, placements and settings stand together.
fn groups(ids: &[CaseId]) -> Vec<Group<'_>> {
    let mut by_mechanism: Vec<Group<'_>> = Vec::new();
    for id in ids {
        let is_its = |of: &Group<'_>| of.of.pattern == id.pattern && of.mechanisms[0] == id.mechanism;
        let at = by_mechanism.iter().position(is_its).unwrap_or_else(|| {
            let of = Factors { pattern: &id.pattern, ..Factors::default() };
            by_mechanism.push(Group { mechanisms: vec![&id.mechanism], count: 0, of });
            by_mechanism.len() - 1
        });
        let Group { count, of, .. } = &mut by_mechanism[at];
        *count += 1;
        of.sizes.insert(id.payload_bytes);
        if !of.placements.contains(&id.placement.as_str()) {
            of.placements.push(&id.placement);
        }
        let setting = setting(id);
        if !of.settings.contains(&setting) {
            of.settings.push(setting);
        }
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for one in by_mechanism {
        let is_alike =
            |known: &&mut Group<'_>| known.count == one.count * known.mechanisms.len() && known.of == one.of;
        match groups.iter_mut().find(is_alike) {
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
        let Group { mechanisms, count, of: Factors { pattern, sizes, placements, settings } } = self;
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let mut factors =
            vec![factor("mechanism", mechanisms), factor("size", &sizes), factor("placement", placements)];
        let with = match &settings[..] {
            [one] if one == "defaults" => String::new(),
            [one] => format!(" with {one}"),
            several => {
                factors.push(factor("setting of axes", several));
                String::new()
            }
        };
        let factors = factors.join(" × ");
        if mechanisms.len() * sizes.len() * placements.len() * settings.len() == *count {
            format!("{pattern}{with}: {factors} = {count}")
        } else {
            // Not every size stands in every placement.
            format!("{pattern}{with}: {count} of {factors}")
        }
    }
}

/// `2 placements (same-cpu, two-cpus)`.
fn factor(what: &str, names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let separator = if names.iter().any(|name| name.contains(' ')) { "; " } else { ", " };
    let listed = match names[..] {
        [first, .., last] if names.len() > MOST_NAMES => format!("{first} … {last}"),
        _ => names.join(separator),
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
