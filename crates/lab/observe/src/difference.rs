//! What the kernel does more often, and longer, for one case than for another.

use std::collections::BTreeMap;

use weighbridge_record::{Difference, DifferenceRow, Observation, Profile};

/// One case: its counts, and its profile where samples could be taken.
pub type Side<'a> = (&'a Observation, Option<&'a Profile>);

/// B against A, per operation, the largest difference first.
pub fn difference(a: Side<'_>, b: Side<'_>) -> Difference {
    let profiles = a.1.zip(b.1);
    let of_profiles = |named: fn(&Profile) -> BTreeMap<String, f64>| {
        // Time that no sample found is none: both sides were sampled.
        profiles.map_or(Vec::new(), |(a, b)| rows(&named(a), &named(b), Some(0.0)))
    };
    Difference {
        a: a.0.case.clone(),
        b: b.0.case.clone(),
        counts: rows(&counts(a.0), &counts(b.0), None),
        parts: of_profiles(parts),
        symbols: of_profiles(symbols),
    }
}

fn counts(of: &Observation) -> BTreeMap<String, f64> {
    let counted = of.counts.iter().map(|count| (count.event.clone(), count.per_op));
    let calls = of.system_calls.as_ref().map(|calls| ("system calls".to_owned(), calls.per_op));
    counted.chain(calls).collect()
}

fn parts(of: &Profile) -> BTreeMap<String, f64> {
    let both = |part: &weighbridge_record::ProfilePart| {
        [(format!("{}, user", part.role), part.user_ns), (format!("{}, kernel", part.role), part.kernel_ns)]
    };
    of.parts.iter().flat_map(both).collect()
}

/// Functions by the time that they spend themselves, all roles together: two cases may have other roles.
fn symbols(of: &Profile) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for symbol in of.symbols.iter().filter(|symbol| symbol.self_ns > 0.0) {
        let mark = if symbol.in_kernel { Profile::IN_KERNEL } else { "" };
        *sums.entry(format!("{}{mark}", symbol.symbol)).or_default() += symbol.self_ns;
    }
    sums
}

fn rows(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>, missing: Option<f64>) -> Vec<DifferenceRow> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let row = |name: &String| {
        let [a, b] = [a, b].map(|side| side.get(name).copied().or(missing));
        let difference = a.zip(b).map(|(a, b)| b - a);
        DifferenceRow { name: name.clone(), a, b, difference }
    };
    let mut rows: Vec<DifferenceRow> = names.into_iter().map(row).collect();
    let size = |row: &DifferenceRow| row.difference.map_or(-1.0, f64::abs);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::{CaseId, EventCount, ProfilePart, SymbolTime};

    fn observation(mechanism: &str, counts: &[(&str, f64)]) -> Observation {
        let count = |(event, per_op): &(&str, f64)| EventCount {
            event: (*event).into(),
            means: "software".into(),
            per_op: *per_op,
            range: [*per_op; 2],
        };
        Observation {
            case: CaseId::new("roundtrip", mechanism, 1, "same-cpu"),
            cpus: vec![0],
            unit: "ns/roundtrip".into(),
            unobserved: 1.0,
            unobserved_ci95: None,
            rounds: 6,
            unobserved_failures: Vec::new(),
            looks: Vec::new(),
            counts: counts.iter().map(count).collect(),
            system_calls: None,
            refused: Vec::new(),
        }
    }

    fn profile(of: &Observation, symbols: &[(&str, &str, f64)]) -> Profile {
        let symbol = |(role, symbol, self_ns): &(&str, &str, f64)| SymbolTime {
            role: (*role).into(),
            symbol: (*symbol).into(),
            in_kernel: true,
            self_ns: *self_ns,
            total_ns: *self_ns,
        };
        Profile {
            case: of.case.clone(),
            clock: "cpu-clock".into(),
            period_ns: 1.0,
            runs: 1,
            ops: 1,
            samples: 1,
            lost: 0,
            throttled: 0,
            symbols_hidden: None,
            parts: vec![ProfilePart { role: "client".into(), user_ns: 10.0, kernel_ns: symbols[0].2 }],
            symbols: symbols.iter().map(symbol).collect(),
            folded: Vec::new(),
        }
    }

    #[test]
    fn the_largest_difference_stands_first_and_what_one_side_lacks_has_none() {
        let a = observation("pipe", &[("context-switches", 2.0), ("minor-faults", 0.0)]);
        let b = observation(
            "unix-stream",
            &[("context-switches", 2.5), ("minor-faults", 3.0), ("cycles", 9000.0)],
        );
        let (of_a, of_b) = (
            profile(
                &a,
                &[
                    ("client", "pipe_read", 400.0),
                    ("server", "schedule", 100.0),
                    ("client", "schedule", 50.0),
                ],
            ),
            profile(&b, &[("client", "schedule", 170.0), ("client", "sock_alloc", 900.0)]),
        );
        let difference = difference((&a, Some(&of_a)), (&b, Some(&of_b)));
        let named = |rows: &[DifferenceRow]| -> Vec<(String, Option<f64>)> {
            rows.iter().map(|row| (row.name.clone(), row.difference)).collect()
        };
        assert_eq!(
            named(&difference.counts),
            [
                ("minor-faults".into(), Some(3.0)),
                ("context-switches".into(), Some(0.5)),
                ("cycles".into(), None)
            ]
        );
        assert_eq!(
            named(&difference.symbols),
            [
                ("sock_alloc_[k]".into(), Some(900.0)),
                ("pipe_read_[k]".into(), Some(-400.0)),
                ("schedule_[k]".into(), Some(20.0))
            ]
        );
        assert_eq!(named(&difference.parts)[0], ("client, kernel".into(), Some(-230.0)));
    }

    #[test]
    fn without_samples_of_both_sides_only_counts_differ() {
        let a = observation("pipe", &[("context-switches", 2.0)]);
        let of_a = profile(&a, &[("client", "pipe_read", 400.0)]);
        let difference = difference((&a, Some(&of_a)), (&a, None));
        assert!(difference.symbols.is_empty() && difference.parts.is_empty());
        assert_eq!(difference.counts[0].difference, Some(0.0));
    }
}
