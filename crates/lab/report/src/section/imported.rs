//! What a reader must know of figures that another tool measured: the files, the rules for units, what is only an average.

use std::collections::BTreeMap;

use super::Context;
use crate::document::{Block, Section, fact};

/// Settings of the header of an imported record, and what they are called.
const SETTINGS: [(&str, &str); 3] =
    [("imported-files", "Files"), ("imported-with", "Imported with"), ("imported-units", "Units")];
/// The fact of a case that says what kind of figure it is.
const NOTE: &str = "note";
/// Largest number of cases that a note names.
const MOST_NAMED: usize = 4;

/// None where no record was imported.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let mut blocks = Vec::new();
    for (index, source) in report.sources.iter().enumerate() {
        let settings = source.header.as_ref().map(|header| &header.settings);
        let Some(settings) = settings.filter(|settings| settings.contains_key(SETTINGS[0].0)) else {
            continue;
        };
        if report.has_several_sources() {
            blocks.push(Block::Heading(source.name.clone()));
        }
        let known = |(key, name): &(&str, &str)| Some(fact(name, settings.get(*key)?));
        blocks.push(Block::Facts(SETTINGS.iter().filter_map(known).collect()));
        let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for case in report.cases.iter().filter(|case| case.source == index) {
            if let Some(note) = case.case.as_ref().and_then(|case| case.facts.get(NOTE)) {
                notes.entry(note).or_default().push(&case.id.mechanism);
            }
        }
        let sentence = |(note, cases): (&str, Vec<&str>)| {
            let named = cases[..cases.len().min(MOST_NAMED)].join(", ");
            match cases.len().saturating_sub(MOST_NAMED) {
                0 => format!("{named}: {note}"),
                more => format!("{named} and {more} more: {note}"),
            }
        };
        blocks.push(Block::sentences(notes.into_iter().map(sentence)));
    }
    Section::new("imported", "Imported from other tools", blocks)
}
