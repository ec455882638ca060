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
    use weighbridge_record::{EventCount, ProfilePart, SymbolTime};

    fn observation(counts: &[(&str, f64)]) -> Observation {
        let count = |&(event, per_op): &(&str, f64)| EventCount {
            event: event.into(),
            means: "software".into(),
            per_op,
            range: [per_op; 2],
        };
        Observation { counts: counts.iter().map(count).collect(), ..Observation::default() }
    }

    fn profile(symbols: &[(&str, &str, f64)]) -> Profile {
        let symbol = |&(role, symbol, ns): &(&str, &str, f64)| SymbolTime {
            role: role.into(),
            symbol: symbol.into(),
            in_kernel: true,
            self_ns: ns,
            total_ns: ns,
        };
        Profile {
            parts: vec![ProfilePart { role: "client".into(), user_ns: 10.0, kernel_ns: symbols[0].2 }],
            symbols: symbols.iter().map(symbol).collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn the_largest_difference_stands_first_and_what_one_side_lacks_has_none() {
        let a = observation(&[("context-switches", 2.0), ("minor-faults", 0.0)]);
        let b = observation(&[("context-switches", 2.5), ("minor-faults", 3.0), ("cycles", 9000.0)]);
        let of_a = profile(&[
            ("client", "pipe_read", 400.0),
            ("server", "schedule", 100.0),
            ("client", "schedule", 50.0),
        ]);
        let of_b = profile(&[("client", "schedule", 170.0), ("client", "sock_alloc", 900.0)]);
        let named = |rows: &[DifferenceRow]| -> Vec<String> {
            rows.iter().map(|row| format!("{} {:?}", row.name, row.difference)).collect()
        };
        let both = difference((&a, Some(&of_a)), (&b, Some(&of_b)));
        let counts = ["minor-faults Some(3.0)", "context-switches Some(0.5)", "cycles None"];
        assert_eq!(named(&both.counts), counts);
        let symbols = ["sock_alloc_[k] Some(900.0)", "pipe_read_[k] Some(-400.0)", "schedule_[k] Some(20.0)"];
        assert_eq!(named(&both.symbols), symbols);
        assert_eq!(named(&both.parts)[0], "client, kernel Some(-230.0)");
        let counts_alone = difference((&a, Some(&of_a)), (&b, None));
        assert_eq!(named(&counts_alone.counts), counts);
        assert!(counts_alone.symbols.is_empty() && counts_alone.parts.is_empty());
    }
}
