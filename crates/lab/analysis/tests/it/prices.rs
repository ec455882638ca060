//! Prices that hold for a part of the work only, and prices that are none.

#![allow(
    clippy::print_stdout,
    reason = "the errors that were found are shown, not only that they are small enough"
)]

use std::path::Path;

use weighbridge_analysis::explain::{
    ANOTHER_PROCESS, Asked, Change, Count, Direct, Dosed, Fitted, Formula, Group, Measured, Subject, explain,
    kept_in_cache, names,
};
use weighbridge_record::{CaseId, Explanation, Line, read_file};
use weighbridge_stats::median;

use super::explain::{
    BLOCK_AND_WAKE_NS, CALL_NS, MECHANISMS, Mechanism, SWITCH_NS, YIELD_NS, direct, hub, id, is_near, of,
    session, subjects,
};

const WORK: &[&str] = &[names::SYSTEM_CALLS, names::OWN_WORK, names::FURTHER_CALLS, names::FUTEX_CALLS];
const KIB: u64 = 1 << 10;

#[test]
fn work_is_kept_in_the_cache_as_far_as_three_buffers_of_the_payload_fit() {
    for (payload_bytes, share) in [(0, 1.0), (1, 1.0), (16 * KIB, 1.0), (32 * KIB, 0.5), (64 * KIB, 0.25)] {
        is_near(kept_in_cache(payload_bytes, 48 * KIB), share, 1e-12);
    }
}

/// Costs in nanoseconds without noise.
fn exactly(costs: impl IntoIterator<Item = (CaseId, f64)>) -> Measured {
    let group = |(case, ns): (CaseId, f64)| Group { hub: None, cases: vec![case], sets: vec![vec![ns.ln()]] };
    Measured { groups: costs.into_iter().map(group).collect(), ..Measured::default() }
}

/// A case with waits and cold caches, of whose work this share is slower after a switch.
fn subject(case: CaseId, direct: Vec<Direct>, waits: f64, share: f64) -> Subject {
    let waits = Fitted { name: names::BLOCK_AND_WAKE, count: Count::Times(waits) };
    let cold = Fitted { name: names::COLD_CACHES, count: Count::NsOf(WORK, share) };
    Subject {
        case: Some(case),
        place: "same-cpu".into(),
        is_asked: true,
        direct,
        fitted: vec![waits, cold],
        ..Subject::default()
    }
}

/// Work on 64 KiB takes twenty times as long, and a quarter of it is slower where two processes do it in turn.
#[test]
fn bytes_that_no_cache_keeps_are_not_colder() {
    const SLOWER: f64 = 0.15;
    let mut costs = vec![
        (id("solo", "getppid", 0), CALL_NS),
        (id("solo", "sched-yield", 0), YIELD_NS),
        (id("pingpong", "spin-yield", 0), YIELD_NS + SWITCH_NS),
    ];
    let sizes = [(4 * KIB, 1.0), (64 * KIB, 20.0)];
    for (bytes, times) in sizes {
        costs.push((id("solo", "memcpy", bytes), times));
        for Mechanism(name, calls, own_ns, _) in MECHANISMS {
            let work_ns = calls * CALL_NS + times * own_ns;
            let between = SLOWER * kept_in_cache(bytes, 48 * KIB) * work_ns;
            let own_ns = work_ns + 4.0 * times;
            costs.push((id("self", name, bytes), own_ns));
            let waits = 2.0 * (SWITCH_NS + BLOCK_AND_WAKE_NS);
            costs.push((id("roundtrip", name, bytes), own_ns + between + waits));
        }
    }
    let measured = exactly(costs);
    let solved = |cache_bytes: u64| {
        let of = |(bytes, mechanism): (u64, Mechanism)| {
            let case = id("roundtrip", mechanism.0, bytes);
            subject(case, direct(mechanism, bytes), 2.0, kept_in_cache(bytes, cache_bytes))
        };
        let all = sizes.iter().flat_map(|(bytes, _)| MECHANISMS.map(|mechanism| (*bytes, mechanism)));
        explain(&measured, &all.map(of).collect::<Vec<_>>(), &[], 1)
    };
    let found = solved(48 * KIB);
    let price = found.prices.iter().find(|price| price.name == names::COLD_CACHES).unwrap();
    is_near(price.ns, SLOWER, 1e-6);
    let most_ns = |found: &[Explanation]| found.iter().map(|of| of.unexplained_ns.abs()).fold(0.0, f64::max);
    is_near(most_ns(&found.explanations), 0.0, 0.1);
    let unbound_ns = most_ns(&solved(u64::MAX).explanations);
    assert!(unbound_ns > 100.0, "{unbound_ns}");
}

/// What the model and the null model miss in the middle, at one size.
fn missed_ns(found: &[Explanation], payload_bytes: u64) -> [f64; 2] {
    let here = found.iter().filter(|of| of.case.payload_bytes == payload_bytes);
    let both = here.filter_map(|of| {
        let beyond = of.beyond_self.as_ref()?;
        Some((of.unexplained_ns.abs(), (beyond.ns - beyond.null_ns?).abs()))
    });
    let (model_ns, null_ns): (Vec<f64>, Vec<f64>) = both.unzip();
    [median(&model_ns), median(&null_ns)]
}

/// The counts and prices of a session of 45 cases, solved again.
#[test]
fn real_costs_of_64_kib_are_explained_better_than_by_a_null_model() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/figures/explain/quick.jsonl"));
    let lines = read_file(path).unwrap().lines;
    let mut cache_bytes = None;
    let mut recorded: Vec<&Explanation> = Vec::new();
    for line in &lines {
        match line {
            Line::Header(header) => {
                let caches = &header.machine.caches;
                let first = caches.iter().find(|cache| cache.level == 1 && cache.r#type == "Data");
                cache_bytes = first.map(|cache| cache.size_bytes);
            }
            Line::Explanation(of) => recorded.push(of),
            _ => {}
        }
    }
    let mut costs = Vec::new();
    let mut cases: Vec<(CaseId, Vec<Direct>, f64)> = Vec::new();
    for of in recorded {
        costs.push((of.case.clone(), of.ns));
        let mut direct = Vec::new();
        let mut waits = 0.0;
        for part in &of.parts {
            let name = names::ALL.into_iter().find(|name| *name == part.name).unwrap();
            if part.is_fitted {
                waits += if name == names::BLOCK_AND_WAKE { part.count } else { 0.0 };
                continue;
            }
            let price = of.case.clone().with("part", name);
            costs.push((price.clone(), part.price_ns));
            let (count, price) = (part.count, Formula::of(price));
            direct.push(Direct { name, of: None, about: String::new(), count, price });
        }
        cases.push((of.case.clone(), direct, waits));
    }
    let measured = exactly(costs);
    let solved = |cache_bytes: u64| {
        let of = |(case, direct, waits): &(CaseId, Vec<Direct>, f64)| {
            let share = kept_in_cache(case.payload_bytes, cache_bytes);
            subject(case.clone(), direct.clone(), *waits, share)
        };
        explain(&measured, &cases.iter().map(of).collect::<Vec<_>>(), &[], 1).explanations
    };
    let (bound, unbound) = (solved(cache_bytes.unwrap()), solved(u64::MAX));
    for payload_bytes in [1, 4 * KIB, 64 * KIB] {
        let [[model_ns, null_ns], [before_ns, _]] =
            [&bound, &unbound].map(|found| missed_ns(found, payload_bytes));
        let is_near = |of: &&Explanation| {
            let share = of.beyond_self.as_ref().and_then(|beyond| beyond.unexplained_share);
            of.case.payload_bytes == payload_bytes && share.is_some_and(|share| share.abs() <= 0.15)
        };
        let near = bound.iter().filter(is_near).count();
        let what = format!(
            "{payload_bytes} B: off by {model_ns:.0} ns, without a bound {before_ns:.0}, null {null_ns:.0}; {near} within 15 %"
        );
        println!("{what}");
        assert!(model_ns < null_ns && model_ns <= before_ns, "{what}");
        assert_eq!(before_ns < null_ns, payload_bytes < 64 * KIB, "{what}");
    }
    let skill = |found: &[Explanation]| found[0].beyond_self.clone().unwrap().skill.unwrap().skill;
    println!("all: skill {:.2}, without a bound {:.2}", skill(&bound), skill(&unbound));
}

/// Another process on the CPU gets a time slice at some yields, so that a hop is anything between nothing and milliseconds.
#[test]
fn a_switch_has_no_price_where_another_process_ran() {
    let change =
        |text: &str| Change { text: text.into(), asked: Asked::parse(text).unwrap(), prices: Vec::new() };
    for (yields_ns, is_priced) in [
        ([1_050.0; 2], true),
        // A yield alone costs more than one of two.
        ([100.0; 2], false),
        ([500.0, 3_000_000.0], false),
    ] {
        let mut measured = session(&MECHANISMS, 1, 0.002);
        let hub_ns = median(&measured.hub_sets_ns[&hub()]);
        let group = measured.groups.iter_mut().find(|group| group.cases[0].pattern == "pingpong").unwrap();
        for (index, set) in group.sets.iter_mut().enumerate() {
            set[0] += (yields_ns[usize::from(index % 3 == 0)] / hub_ns).ln()
                - ((YIELD_NS + SWITCH_NS) / hub_ns).ln();
        }
        let mut subjects = subjects(&MECHANISMS);
        let calls = group.cases[0].clone();
        subjects[0].doses = vec![Dosed {
            kind: "handoffs",
            parts: vec![names::SWITCHES],
            case: Some(id("roundtrip", "pipe", 4096)),
            steps: vec![(1.0, calls)],
            direct: vec![direct(MECHANISMS[0], 4096).remove(3)],
            ..Dosed::default()
        }];
        let solution = explain(&measured, &subjects, &[change("switches-1")], 1);
        let found = of(&solution, "pipe");
        let part = found.parts.iter().find(|part| part.name == names::SWITCHES).unwrap();
        assert_eq!(part.no_price.is_none(), is_priced, "{part:?}");
        assert_eq!(solution.prices.iter().any(|price| price.name == names::SWITCHES), is_priced);
        assert_eq!(
            (found.what_if.len(), found.doses[0].price_ns.is_some()),
            (usize::from(is_priced), is_priced)
        );
        if !is_priced {
            assert_eq!((part.no_price.as_deref(), part.ns, part.ci95), (Some(ANOTHER_PROCESS), 0.0, None));
            assert!(found.remarks.iter().any(|of| of.ends_with("no price: another process ran on this CPU")));
            // What they cost is where they always are together with it.
            is_near(found.unexplained_share, 0.0, 0.02);
            let sum: f64 = found.parts.iter().map(|part| part.ns).sum();
            is_near(sum + found.unexplained_ns, found.ns, 1e-6);
        }
    }
}
