//! Prices as they were tried in the case: the column of the parts, and a table of what was put in.

use weighbridge_record::{Dose, ExplainedPart, Explanation};

use super::{interval, percent};
use crate::document::{Block, Table};
use crate::units::{count, with_unit};
use crate::words::plain;

const ABOUT: &str = "So many of what the row says were put into every operation of the case, in turns with the case as it is; what it cost more \
                     for each is the price in the case, with the same from the first and from the second half of the sets. A price is \
                     confirmed where that is surely within 15 % of the price that is measured or fitted elsewhere.";

/// Was anything put in, or said of why not?
pub(super) fn has_any(of: &Explanation) -> bool {
    !of.doses.is_empty() || of.parts.iter().any(|part| part.not_tried.is_some())
}

/// What is known of the price of a part in the case.
pub(super) fn confirmed(of: &Explanation, part: &ExplainedPart) -> String {
    let dose = part.dose.as_ref().and_then(|kind| of.doses.iter().find(|dose| dose.kind == *kind));
    let Some(dose) = dose else {
        return part.not_tried.as_ref().map_or("–".into(), |why| format!("not tried: {}", plain(why)));
    };
    let in_case = within(dose.slope_ns, dose.ci95);
    let others: Vec<&str> =
        dose.parts.iter().filter(|name| **name != part.name).map(String::as_str).collect();
    // Parts of the case itself only: a dose of trivial calls tries two names, of which most cases have one.
    let with = others.iter().filter(|name| of.parts.iter().any(|part| part.name == **name));
    // Calls are of one price, whichever part they are in.
    let with: Vec<String> = with.filter(|_| dose.kind != "calls").map(|name| plain(name)).collect();
    let together = match &with[..] {
        [] => String::new(),
        with => format!(" (with {}, as {})", with.join(" and "), plain(&dose.kind)),
    };
    match dose.price_ns {
        Some(price_ns) if dose.verdict == "not confirmed" => {
            let how = if with.is_empty() && !part.is_fitted { "measured alone" } else { "by the prices" };
            let price = with_unit("ns", price_ns);
            format!("not confirmed: price {price} {how}, {in_case} in the case{together}")
        }
        _ => format!("{}: {in_case}{together}", plain(&dose.verdict)),
    }
}

/// What was put into the cases.
pub(super) fn table(all: &[&Explanation]) -> Vec<Block> {
    let doses = || all.iter().flat_map(|of| of.doses.iter().map(move |dose| (of, dose)));
    if doses().next().is_none() {
        return Vec::new();
    }
    let row = |(_, dose): (&&Explanation, &Dose)| {
        let amounts: Vec<String> = dose.per_op.iter().map(|per_op| count(*per_op)).collect();
        let listed = |all: &[f64]| all.iter().map(|ns| with_unit("ns", *ns)).collect::<Vec<_>>().join(", ");
        let halves = dose.slope_of_halves_ns.map(|halves| listed(&halves));
        [
            dose.case.to_string(),
            plain(&dose.about),
            format!("0, {}", amounts.join(", ")),
            dose.price_ns.map_or("–".into(), |ns| within(ns, dose.price_ci95)),
            within(dose.slope_ns, dose.ci95),
            halves.unwrap_or("–".into()),
            listed(&dose.steps_ns),
            dose.slope_over_price.map_or("–".into(), |ratio| percent(ratio - 1.0)),
            plain(&dose.verdict),
        ]
    };
    let heads = [
        "case",
        "put in",
        "in an operation",
        "price",
        "in the case",
        "by halves",
        "step by step",
        "off by",
        "verdict",
    ];
    let mut blocks = vec![
        Block::Paragraph(ABOUT.into()),
        Block::Table(Table::new("Dose and response", heads, doses().map(row)).with_texts([1])),
    ];
    let said = doses().flat_map(|(of, dose)| {
        dose.remarks
            .iter()
            .map(move |remark| format!("{}, {}: {}", of.case, plain(&dose.kind), plain(remark)))
    });
    let said: Vec<String> = said.collect();
    blocks.extend((!said.is_empty()).then(|| Block::sentences(said)));
    blocks
}

fn within(ns: f64, ends: Option<[f64; 2]>) -> String {
    match ends {
        None => with_unit("ns", ns),
        Some(_) => format!("{} ({})", with_unit("ns", ns), interval(ends)),
    }
}
