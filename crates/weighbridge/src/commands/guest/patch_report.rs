//! The comparison of two kernels as a report for a mailing list: what was compared, what differs, the figures, what they cannot say.

use weighbridge_record::{CaseVerdict, Claims};
use weighbridge_report::{Block, Document, Item, Section, Table, TopTable, case_name, kernel_tables};

use super::code_size;
use super::machine::Guest;

/// The report; its Markdown reads well as plain text too.
pub fn document(guests: &[Guest<'_>; 2], verdicts: &[CaseVerdict], claims: &Claims, boots: u16) -> Document {
    let side = |(name, guest): (&str, &Guest<'_>)| {
        let append = if guest.append.is_empty() { "none" } else { &guest.append };
        let facts = [guest.kernel.version.clone(), format!("parameters added: {append}")];
        Item { items: facts.map(Item::from).into(), ..Item::from(format!("{name}: {}", guest.kernel.name)) }
    };
    let mut compared: Vec<Item> = ["A (before)", "B (after)"].into_iter().zip(guests).map(side).collect();
    compared.push(Item::from(format!(
        "{boots} boots of each in random order; the boot is the unit; margin {:.2} %",
        claims.margin * 100.0
    )));
    compared.push(Item::from(format!("made by: {}", crate::args::typed().join(" "))));
    let chance = format!(
        "Of {} claimed differences, at most {:.1} are expected to be chance.",
        claims.claimed, claims.expected_by_chance
    );
    let remarks = verdicts
        .iter()
        .flat_map(|of| of.remarks.iter().map(move |remark| format!("{}: {remark}", case_name(&of.case))));
    // The tables of time_bench and slab_test first, as they were published of a patch.
    let (mut figures, others) = kernel_tables(&verdicts.iter().collect::<Vec<_>>(), |of| of.verdict.clone());
    if !others.is_empty() {
        figures.extend(table(&others).blocks());
    }
    figures.push(Block::Paragraph(chance));
    figures.push(list(remarks.collect(), "of no case there is more to say"));
    let [a, b] = guests;
    let section = |title, blocks| Section::of(title, [], blocks);
    Document {
        title: "Two kernels compared".into(),
        warnings: Vec::new(),
        sections: vec![
            section("What was compared", vec![Block::List(compared)]),
            section(
                "What else differs",
                vec![list(claims.differences.clone(), "nothing that was looked at")],
            ),
            section("Before and after", figures),
            section("Code size", code_size::blocks(a, b)),
            section(
                "What this cannot say",
                vec![list(claims.remarks.clone(), "nothing is known that limits these figures")],
            ),
        ],
    }
}

fn list(sentences: Vec<String>, none: &str) -> Block {
    Block::sentences(if sentences.is_empty() { vec![none.into()] } else { sentences })
}

fn table(verdicts: &[&CaseVerdict]) -> TopTable {
    let row = |of: &&CaseVerdict| {
        let figure = |value: Option<f64>| value.map_or("–".into(), figure);
        let difference = of.a_value.zip(of.b_value).map(|(a, b)| b - a);
        let percent = |ratio: f64| format!("{:+.2}", (ratio - 1.0) * 100.0);
        vec![
            case_name(&of.case),
            of.unit.clone(),
            of.verdict.clone(),
            figure(of.a_value),
            figure(of.b_value),
            difference.map_or("–".into(), signed),
            of.ratio.map_or("–".into(), percent),
            of.ci95.map_or("–".into(), |[low, high]| format!("{} to {}", percent(low), percent(high))),
        ]
    };
    let head = ["case", "unit", "verdict", "before", "after", "difference", "%", "95 % interval"];
    Table::of_first(&head, 3, verdicts.len(), verdicts, row)
}

fn figure(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn signed(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:+.2}") } else { format!("{value:+.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_figures_their_difference_and_the_verdict() {
        let verdict: CaseVerdict = serde_json::from_value(serde_json::json!({
            "case": "solo/getppid/0/same-cpu", "a": "x", "b": "y", "ratio": 1.05, "ci95": [1.04, 1.06],
            "verdict": "regressed", "sets": 6, "failed_sets": 0, "margin": 0.002, "unit": "instructions/op",
            "a_value": 300.0, "b_value": 315.0
        }))
        .unwrap();
        let sections = vec![Section::of("x", [], table(&[&verdict]).blocks())];
        let text = Document { sections, ..Document::default() }.markdown();
        assert!(
            text.ends_with(
                "| solo/getppid/0/same-cpu | instructions/op | regressed | 300.00 | 315.00 | +15.00 | +5.00 | +4.00 to +6.00 |\n"
            ),
            "{text}"
        );
    }
}
