//! What a reader must know of figures that another tool measured: the files, the rules for units, what is only an average.

use std::collections::BTreeMap;

use crate::document::{Block, Section};
use crate::machine::fact;
use crate::model::Report;

/// Settings of the header of an imported record, and what they are called.
const SETTINGS: [(&str, &str); 4] = [
    ("imported-files", "Files"),
    ("imported-with", "Imported with"),
    ("imported-units", "Units"),
    ("started", "Time of the measurement"),
];
/// The fact of a case that says what kind of figure it is.
const NOTE: &str = "note";
/// Largest number of cases that a note names.
const MOST_NAMED: usize = 4;

/// Nothing where no record was imported.
pub fn section(report: &Report) -> Option<Section> {
    let mut blocks = Vec::new();
    for (index, source) in report.sources.iter().enumerate() {
        let Some(header) = &source.header else { continue };
        if !header.settings.contains_key(SETTINGS[0].0) {
            continue;
        }
        if report.has_several_sources() {
            blocks.push(Block::Heading(source.name.clone()));
        }
        let known = |(key, name): &(&str, &str)| Some(fact(name, header.settings.get(*key)?));
        blocks.push(Block::Facts(SETTINGS.iter().filter_map(known).collect()));
        let mut notes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for case in report.cases.iter().filter(|case| case.source == index) {
            if let Some(note) = case.case.as_ref().and_then(|case| case.facts.get(NOTE)) {
                notes.entry(note).or_default().push(case.id.mechanism.clone());
            }
        }
        let sentence = |(note, cases): (&str, Vec<String>)| {
            let named = cases.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
            match cases.len().saturating_sub(MOST_NAMED) {
                0 => format!("{named}: {note}"),
                more => format!("{named} and {more} more: {note}"),
            }
        };
        blocks.push(Block::sentences(notes.into_iter().map(sentence)));
    }
    Section::new("imported", "Imported from other tools", blocks)
}
