//! Which cases of a pattern and place something holds for, in few words.

use std::collections::{BTreeSet, HashMap};

use weighbridge_record::Place;

use crate::document::Item;
use crate::matrix::of_key;
use crate::model::{Measured, Report};
use crate::units::size;
use crate::words::{group, many, plain};

/// Sizes by mechanism, in the order of the record.
type Variants = Vec<(String, BTreeSet<u64>)>;

/// One item per pattern and place: `stream at two-cpus, 2 of 12 cases: pipe, tcp (64 KiB)`.
///
/// `all` are the cases that it could hold for, `some` those that it does.
pub fn described(report: &Report, some: &[&Measured], all: &[&Measured]) -> Vec<Item> {
    let all = by_place(report, all);
    let some: HashMap<_, _> = by_place(report, some).into_iter().collect();
    let mut items = Vec::new();
    for ((pattern, place), all) in &all {
        let Some(some) = some.get(&(*pattern, *place)) else { continue };
        let head = group(pattern, *place);
        let (count, of) = (cases(some), cases(all));
        let text = match of - count {
            0 if of == 1 => format!("{head}: {}", names(some, all)),
            0 => format!("{head}: all {}", many(of, "case")),
            rest if rest < count => {
                format!("{head}, {count} of {of} cases: all but {}", names(&without(all, some), all))
            }
            _ => format!("{head}, {count} of {of} cases: {}", names(some, all)),
        };
        items.push(Item::from(plain(&text)));
    }
    items
}

/// Cases by pattern and place, in the order in which these first come.
fn by_place<'a>(report: &Report, cases: &[&'a Measured]) -> Vec<((&'a str, Place<'a>), Variants)> {
    let mut places: Vec<((&str, Place<'_>), Variants)> = Vec::new();
    for case in cases {
        let variants = of_key(&mut places, (case.id.pattern.as_str(), case.id.place()));
        of_key(variants, report.variant(case.source, &case.id)).insert(case.id.payload_bytes);
    }
    places
}

fn cases(variants: &Variants) -> usize {
    variants.iter().map(|(_, sizes)| sizes.len()).sum()
}

fn without(all: &Variants, some: &Variants) -> Variants {
    let rest = |(name, sizes): &(String, BTreeSet<u64>)| {
        let left = sizes_of(name, some).map_or(sizes.clone(), |gone| sizes - gone);
        (!left.is_empty()).then(|| (name.clone(), left))
    };
    all.iter().filter_map(rest).collect()
}

fn sizes_of<'a>(name: &str, all: &'a Variants) -> Option<&'a BTreeSet<u64>> {
    all.iter().find(|(known, _)| known == name).map(|(_, sizes)| sizes)
}

/// Mechanisms, with their sizes where these are not all that the mechanism has.
fn names(some: &Variants, all: &Variants) -> String {
    let name = |(name, sizes): &(String, BTreeSet<u64>)| match sizes_of(name, all) {
        Some(whole) if whole.len() == sizes.len() => name.clone(),
        _ => format!("{name} ({})", size_list(sizes)),
    };
    some.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The sizes, or the ends of the list where it is long.
pub fn size_list(sizes: &BTreeSet<u64>) -> String {
    match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) if sizes.len() > 6 => {
            format!("{} … {} ({} sizes)", size(*first), size(*last), sizes.len())
        }
        _ => sizes.iter().map(|bytes| size(*bytes)).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;

    fn case(mechanism: &str, payload_bytes: u64) -> Measured {
        Measured { id: CaseId::new("stream", mechanism, payload_bytes, "free"), ..Measured::default() }
    }

    fn text(some: &[usize]) -> String {
        let names = ["pipe", "tcp", "udp"];
        let all: Vec<Measured> =
            names.iter().flat_map(|name| [1, 64].map(|bytes| case(name, bytes))).collect();
        let some: Vec<&Measured> = some.iter().map(|index| &all[*index]).collect();
        let all: Vec<&Measured> = all.iter().collect();
        described(&Report::default(), &some, &all).remove(0).text
    }

    #[test]
    fn few_cases_are_listed_and_of_many_the_others() {
        assert_eq!(text(&[0, 1, 3]), "stream at free, 3 of 6 cases: pipe, tcp (64 B)");
        assert_eq!(text(&[0, 1, 2, 4]), "stream at free, 4 of 6 cases: all but tcp (64 B), udp (64 B)");
        assert_eq!(text(&[0, 1, 2, 3, 4, 5]), "stream at free: all 6 cases");
    }
}
