//! Plans and their shards.

use std::collections::BTreeSet;

use super::*;

fn plan(groups: usize, of_each: usize) -> Plan {
    let case = |index: usize| {
        let (group, member) = (index / of_each, index % of_each);
        let id = |bytes: usize| CaseId::new("roundtrip", &format!("mechanism-{group}"), bytes as u64, "free");
        let hub = (of_each > 1).then(|| id(0));
        PlannedCase { case: id(1 + member), seconds: 1.0 + (group % 5) as f64, hub }
    };
    let settings = PlanSettings { suite: "quick".into(), precision: 0.02, ..PlanSettings::default() };
    Plan::new(None, settings, (0..groups * of_each).map(case).collect())
}

#[test]
fn shards_are_disjoint_and_together_the_plan_and_keep_cases_of_a_hub_together_whatever_their_number() {
    let whole = plan(23, 3);
    for shards in 1..=30 {
        let parts: Vec<Plan> = (1..=shards).map(|shard| whole.shard(shard, shards)).collect();
        let all: Vec<&CaseId> = parts.iter().flat_map(|part| &part.cases).map(|case| &case.case).collect();
        let distinct: BTreeSet<&CaseId> = all.iter().copied().collect();
        assert_eq!((all.len(), distinct.len()), (69, 69), "{shards} shards");
        for part in &parts {
            assert_eq!((&part.plan_id, part.seed), (&whole.plan_id, whole.seed));
            assert!(part.groups().iter().all(|group| group.len() == 3), "a hub in two of {shards} shards");
            assert_eq!(Plan::read(&part.text()).as_ref(), Ok(part));
        }
        let seconds = parts.iter().map(|part| part.cases.iter().map(|case| case.seconds).sum::<f64>());
        let (most, least) = seconds.fold((0.0f64, f64::MAX), |(a, b), of| (a.max(of), b.min(of)));
        // No more than one group apart.
        assert!(most - least <= 15.0, "{shards} shards take {least} to {most}");
    }
}

#[test]
fn the_same_words_make_the_same_plan_and_other_ones_another() {
    assert_eq!(plan(4, 2), plan(4, 2));
    let ids: BTreeSet<String> = [plan(4, 2), plan(4, 1), plan(5, 2)].map(|plan| plan.plan_id).into();
    assert_eq!(ids.len(), 3);
    let one = plan(4, 2);
    let seeded = Plan::new(Some(one.seed + 1), one.settings.clone(), one.cases.clone());
    assert_ne!(seeded.plan_id, one.plan_id);
}

#[test]
fn what_is_no_plan_or_a_newer_or_a_changed_one_is_refused_in_words() {
    let text = plan(2, 1).text();
    let newer = text.replace("\"schema\": 1", "\"schema\": 9");
    let changed = text.replace("0.02", "0.03");
    for (text, words) in [
        ("{}", "is not a plan"),
        ("{\"kind\":\"header\",\"schema\":2}", "is not a plan"),
        (&newer, "schema 9, and this weighbridge reads schemas up to 1"),
        (&changed, "was changed after it was made"),
    ] {
        let why = Plan::read(text).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}
