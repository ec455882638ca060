//! What intervals foretold and what the next session found, as a document of its own.

use weighbridge_record::coverage::{Coverage, Load, Promise, Row, Worst};

use crate::document::{Block, Document, Section, Table};
use crate::units::significant;
use crate::words::{many, plain};

/// The ledger of promises of several records.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger(pub Coverage);

const ABOUT: [&str; 3] = [
    "A pair is a case in two consecutive sessions of one machine. A ratio to the hub keeps its promise where it differs from the one of the \
     session before by no more than both arms of their 95 % intervals together (added up as standard errors are); an absolute figure where it \
     lies in the interval that the sessions before foretold, for which there must be five of them.",
    "An interval of an absolute figure within one session says nothing of another session. It is shown to tell by how much: nothing is \
     promised, and no table of a report has it behind a ±.",
    "Pairs of one session have the machine of that session in common, so they are worth fewer than their number. Sessions beside a load (in \
     three of four runs some task waited for a CPU most of the time) make pairs among themselves; where that changed between two \
     sessions, nothing is promised.",
];

impl Ledger {
    /// For programs: [`Coverage`] as it is.
    ///
    /// # Panics
    /// Never: the type is plain data.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.0).expect("plain data") + "\n"
    }

    /// For people.
    pub fn document(&self) -> Document {
        let Coverage { records, loaded, machines, rows, worst } = &self.0;
        let (records, machines) = (many(*records as usize, "record"), many(machines.len(), "machine"));
        let beside = if *loaded == 0 { String::new() } else { format!(", {loaded} of them beside a load") };
        let about = ABOUT.iter().map(|text| Block::Paragraph((*text).into()));
        let counted = if rows.is_empty() {
            let none = "No case was measured in two sessions of one machine, so nothing can be said.";
            Block::Paragraph(none.into())
        } else {
            promises(rows)
        };
        let counts = Block::Paragraph(format!("Counted over {records} of {machines}{beside}."));
        let blocks = std::iter::once(counts).chain(about).chain([counted]).collect();
        let worst = if worst.is_empty() { Vec::new() } else { vec![self::worst(worst)] };
        Document {
            title: plain(&format!("Weighbridge coverage: {records} of {machines}{beside}")),
            warnings: Vec::new(),
            sections: [
                Section::new("promises", "What was promised and what was kept", blocks),
                Section::new("worst", "Cases that kept least", worst),
            ]
            .concat(),
        }
    }
}

fn promises(rows: &[Row]) -> Block {
    let row = |of: &Row| {
        let place = of.placement.as_deref().unwrap_or("all");
        let load = match of.load {
            None => "unchanged",
            Some(Load::Idle) => "no",
            Some(Load::Loaded) => "yes",
            Some(Load::Changed) => "changed",
        };
        let outside =
            if of.promise == Promise::Absolute { of.count.outside.to_string() } else { "–".into() };
        [
            named(of.promise).to_owned(),
            plain(place),
            load.into(),
            of.promised.map_or("nothing".into(), percent),
            percent(of.achieved),
            of.count.pairs.to_string(),
            outside,
            of.count.beyond_arms.to_string(),
            of.count.apart.to_string(),
        ]
    };
    let heads = [
        "figure",
        "placement",
        "beside a load",
        "promised",
        "achieved",
        "pairs",
        "outside",
        "beyond both arms",
        "intervals apart",
    ];
    let table = Table::new("", heads, rows.iter().map(row)).with_texts([1, 2]);
    Block::Table(Table { labels: 3, ..table })
}

fn worst(all: &[Worst]) -> Block {
    let row = |of: &Worst| {
        let figure = named(of.promise).to_owned();
        let counts = [of.missed, of.pairs].map(|count| count.to_string());
        let [missed, pairs] = counts;
        [of.case.to_string(), figure, missed, pairs, significant(of.largest_factor)]
    };
    let heads = ["case", "figure", "not kept", "pairs", "largest factor from one session to the next"];
    Block::Table(Table::new("", heads, all.iter().map(row)).with_texts([1]))
}

fn named(promise: Promise) -> &'static str {
    match promise {
        Promise::Ratio => "ratio to the hub",
        Promise::Absolute => "absolute, in another session",
        Promise::AbsoluteWithinSession => "absolute, within one session",
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use weighbridge_record::coverage::Count;

    use super::*;
    use crate::text::Style;

    #[test]
    fn a_row_tells_what_was_promised_and_what_was_kept() {
        let count = Count { pairs: 40, beyond_arms: 30, apart: 20, outside: 3 };
        let row = |promise, promised, achieved| Row {
            promise,
            placement: None,
            load: None,
            promised,
            achieved,
            count,
        };
        let rows =
            vec![row(Promise::Absolute, Some(0.95), 0.925), row(Promise::AbsoluteWithinSession, None, 0.25)];
        let ledger = Ledger(Coverage { records: 2, rows, machines: vec!["m".into()], ..Coverage::default() });
        let text = ledger.document().markdown();
        assert!(text.contains("# Weighbridge coverage: 2 records of 1 machine\n"), "{text}");
        let shown: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "| absolute, in another session | all | unchanged | 95.0 % | 92.5 % | 40 | 3 | 30 | 20 |",
            "| absolute, within one session | all | unchanged | nothing | 25.0 % | 40 | – | 30 | 20 |",
        ] {
            assert!(shown.iter().any(|row| row == line), "{text}");
        }
        assert!(
            Ledger(Coverage::default()).document().text(Style::default()).contains("nothing can be said")
        );
    }
}
