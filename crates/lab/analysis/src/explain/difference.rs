//! What a difference between two cases is made of: parts whose counts differ, times their price.

use std::collections::BTreeSet;

use weighbridge_record::{CaseId, MadeOf, PerOp, Price, SystemCalls};

use crate::explain::names;

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Counts per operation.
    pub per_op: &'a PerOp,
    /// System calls per operation, where they were counted.
    pub system_calls: Option<&'a SystemCalls>,
}

/// Counts that differ by less than this share are the same.
const SAME: f64 = 0.02;

/// The parts of which B has more or fewer than A, the largest first.
///
/// Prices hold in the place of `case` only. An explanation of a case whose idle CPUs halt has its prices in the place where they do not, and adds the
/// halt as a part of its own: those prices are taken where the place itself has none.
///
/// # Errors
/// A sentence, where none of the prices is of the place.
pub fn difference(case: &CaseId, a: Side<'_>, b: Side<'_>, prices: &[Price]) -> Result<Vec<MadeOf>, String> {
    let calls = |side: Side<'_>| side.system_calls.map(|calls| calls.per_op);
    let count = |side: Side<'_>, name: &str| match name {
        names::SYSTEM_CALLS => calls(side),
        names::SWITCHES => Some(side.per_op.voluntary_switches + side.per_op.involuntary_switches),
        names::BLOCK_AND_WAKE => Some(side.per_op.voluntary_switches),
        names::PAGE_FAULTS => Some(side.per_op.minor_faults),
        _ => None,
    };
    let place = place_of(case);
    let places: BTreeSet<&str> = prices_of_all(prices).map(|price| price.place.as_str()).collect();
    let busy = format!("{}/idle=busy", case.placement);
    let Some(priced) = [place.as_str(), busy.as_str()].into_iter().find(|place| places.contains(place))
    else {
        let others = if places.is_empty() {
            "none that holds for more than one case".to_owned()
        } else {
            format!("those of {}", places.into_iter().collect::<Vec<_>>().join(", "))
        };
        return Err(format!(
            "no part of the difference is named: the record of prices has none of {place}, but {others}; `weighbridge explain {case}` \
             measures them"
        ));
    };
    let mut parts: Vec<MadeOf> = Vec::new();
    for price in prices_of_all(prices).filter(|price| price.place == priced) {
        let (Some(a_count), Some(b_count)) = (count(a, &price.name), count(b, &price.name)) else { continue };
        let more = b_count - a_count;
        if more.abs() <= SAME * a_count.abs().max(b_count.abs()).max(0.05) {
            continue;
        }
        let ends = price.ci95.map(|ends| ends.map(|end| end * more));
        let ci95 = ends.map(|[one, other]| [one.min(other), one.max(other)]);
        parts.push(MadeOf { name: price.name.clone(), a_count, b_count, ns: more * price.ns, ci95 });
    }
    parts.sort_by(|one, other| other.ns.abs().total_cmp(&one.ns.abs()));
    Ok(parts)
}

/// Prices that hold for all cases of their place.
fn prices_of_all(prices: &[Price]) -> impl Iterator<Item = &Price> {
    prices.iter().filter(|price| price.of.is_none())
}

/// Where prices are the same: the placement, and whether idle CPUs halt.
pub fn place_of(case: &CaseId) -> String {
    match case.axes.get("idle") {
        Some(idle) => format!("{}/idle={idle}", case.placement),
        None => case.placement.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_op(voluntary_switches: f64) -> PerOp {
        PerOp { voluntary_switches, ..PerOp::default() }
    }

    fn price(name: &str, ns: f64, place: &str) -> Price {
        Price {
            name: name.into(),
            of: None,
            place: place.into(),
            about: String::new(),
            ns,
            ci95: Some([0.75 * ns, 1.25 * ns]),
            fitted_from: Vec::new(),
        }
    }

    #[test]
    fn a_difference_is_counts_times_prices_of_the_same_place_the_largest_first() {
        let calls = |per_op| SystemCalls { per_op, roles: Vec::new() };
        let prices = [
            price(names::SYSTEM_CALLS, 100.0, "same-cpu"),
            price(names::SWITCHES, 800.0, "same-cpu"),
            price(names::SWITCHES, 9000.0, "two-cpus"),
            price(names::PAGE_FAULTS, 500.0, "same-cpu"),
        ];
        let (less, more) = (per_op(2.0), per_op(4.0));
        let (few, many) = (calls(4.0), calls(8.0));
        let a = Side { per_op: &more, system_calls: Some(&few) };
        let b = Side { per_op: &less, system_calls: Some(&many) };
        let found = difference(&CaseId::new("roundtrip", "pipe", 1, "same-cpu"), a, b, &prices).unwrap();
        let found: Vec<(&str, f64, Option<[f64; 2]>)> =
            found.iter().map(|part| (part.name.as_str(), part.ns, part.ci95)).collect();
        assert_eq!(
            found,
            [
                (names::SWITCHES, -1600.0, Some([-2000.0, -1200.0])),
                (names::SYSTEM_CALLS, 400.0, Some([300.0, 500.0]))
            ]
        );
    }

    #[test]
    fn a_case_whose_cpus_halt_has_the_prices_of_idle_busy_and_a_place_without_prices_is_named() {
        let (less, more) = (per_op(2.0), per_op(4.0));
        let side = |per_op| Side { per_op, system_calls: None };
        let found = |case: &CaseId, prices: &[Price]| {
            let parts = difference(case, side(&less), side(&more), prices)?;
            Ok::<_, String>(parts.iter().map(|part| part.ns).collect::<Vec<_>>())
        };
        let case = CaseId::new("roundtrip", "pipe", 1, "two-cpus");
        let busy = price(names::SWITCHES, 800.0, "two-cpus/idle=busy");
        let halting = price(names::SWITCHES, 900.0, "two-cpus");
        let elsewhere = price(names::SWITCHES, 9000.0, "same-cpu");
        assert_eq!(found(&case, &[elsewhere.clone(), busy.clone()]), Ok(vec![1600.0]));
        assert_eq!(found(&case, &[busy.clone(), halting.clone()]), Ok(vec![1800.0]), "its own place first");
        assert_eq!(found(&case.clone().with("idle", "busy"), &[busy, halting.clone()]), Ok(vec![1600.0]));
        let why = found(&case.with("idle", "busy"), &[elsewhere, halting]).unwrap_err();
        assert!(why.contains("none of two-cpus/idle=busy, but those of same-cpu, two-cpus"), "{why}");
    }
}
