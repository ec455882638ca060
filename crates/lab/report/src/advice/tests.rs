use weighbridge_record::{Across, Case, Contest, Contestant, Line, PerOp, Reading, Summary, SureOrder};

use super::*;

/// A record of pipes and rings at these sizes, where the ring costs less up to 1 KiB and surely so at 64 B.
fn record(sizes: &[u64]) -> Report {
    record_with(sizes, &[64])
}

/// The same, where the order is sure at some of the sizes.
fn record_with(sizes: &[u64], sure: &[u64]) -> Report {
    let mut lines = Vec::new();
    for &bytes in sizes {
        let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, bytes, "two-cpus");
        let ring = 1000.0 * (bytes as f64 / 1024.0).max(0.1);
        for (mechanism, median, wait, has) in [
            ("ring", ring, "spin", &[][..]),
            ("pipe", 1000.0, "block", &[Property::Pollable, Property::OtherUsers][..]),
        ] {
            let id = case(mechanism);
            let axes = [("wait".to_owned(), wait.to_owned())].into();
            let (roles, unit) = (vec![String::new(); 2], "ns/roundtrip".to_owned());
            let properties = Some(Properties::of(has, Across::PassedDescriptors));
            lines.push(Line::Case(Case {
                case: id.clone(),
                axes,
                roles,
                unit,
                properties,
                ..Case::default()
            }));
            let per_op = PerOp { cpu_ns: median * 2.0, ..PerOp::default() };
            let ci95 = Some([median * 0.99, median * 1.01]);
            lines.push(Line::Summary(Summary {
                per_op,
                ci95,
                ..Summary::new(id, "ns/roundtrip", 9, median)
            }));
        }
        let contestant = |(mechanism, times_first): (&str, f64)| Contestant {
            case: case(mechanism),
            tier: 0,
            may_be_best: true,
            times_first,
            interval: (times_first > 1.0).then_some([0.9 * times_first, 1.1 * times_first]),
            sets: 9,
        };
        let mut order = [("ring", 1.0), ("pipe", 1000.0 / ring)];
        if ring > 1000.0 {
            order = [("pipe", 1.0), ("ring", ring / 1000.0)];
        }
        let order_of = |index: usize| vec![case(order[index].0)];
        let is_sure = sure.contains(&bytes);
        let sure_order = SureOrder { ahead: order_of(0), behind: order_of(1) };
        lines.push(Line::Contest(Contest {
            contestants: order.map(contestant).into(),
            sure: if is_sure { vec![sure_order] } else { Vec::new() },
            confidence: 0.95,
        }));
    }
    let counted =
        weighbridge_record::Findings { contests: 1, claimed: 1, fdr: 0.05, expected_by_chance: 0.1 };
    lines.push(Line::Findings(counted));
    Report::from_reading(Reading { lines, problems: Vec::new() })
}

fn question(payload_bytes: u64, demands: &[Property]) -> Question {
    Question {
        pattern: "roundtrip".into(),
        placement: "two-cpus".into(),
        payload_bytes,
        receivers: 1,
        rate: 10_000.0,
        demands: demands.to_vec(),
        cpu_budget: None,
        among: Vec::new(),
    }
}

fn asked(sizes: &[u64], question: &Question) -> (Advice, String) {
    let advice = advise(&record(sizes), question, &[], |_| None).unwrap();
    let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
    (advice, text)
}

#[test]
fn an_advice_says_cost_share_confidence_price_and_where_it_turns() {
    let (advice, text) = asked(&[64, 512, 4096], &question(64, &[]));
    assert!(advice.is_sure, "{advice:?}");
    assert!(!text.contains("costs less"), "the order at the other sizes is not sure: {text}");
    for part in [
        "64 B there and back, 10,000 a second, on two CPUs",
        "Take ring: 100 ns/roundtrip (99.0 to 101), 200 % of a CPU at the rate, because it spins",
        "Sure at 95 %: everything else that meets the demands costs more.",
        "Runner-up: pipe: 1.00 µs/roundtrip (0.990 to 1.01), 2 % of a CPU at the rate, 10.0 times the cost (9.00 to 11.0)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = asked(&[64], &question(64, &[Property::Pollable]));
    for part in ["Take pipe", "pollable: 10.0 times ring", "not \"pollable\": ring"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_nearest_size_answers_and_is_named() {
    let (advice, text) = asked(&[64, 512, 4096], &question(500, &[]));
    assert!(text.contains("The record's nearest size is 512 B"), "{text}");
    assert!(!advice.is_sure && text.contains("Not sure: not told apart from pipe"), "{text}");
    let (_, text) = asked(&[64, 512, 4096], &question(64, &[]));
    assert!(!text.contains("nearest size"), "{text}");
}

#[test]
fn a_budget_takes_who_sleeps_in_place_of_who_spins() {
    let (advice, text) = asked(&[64], &Question { cpu_budget: Some(0.1), ..question(64, &[]) });
    assert_eq!(advice.choice.map(|index| advice.contenders[index].name.clone()), Some("pipe".into()));
    assert!(text.contains("at most 10 % of a CPU: 10.0 times ring"), "{text}");
}

#[test]
fn demands_that_nothing_meets_and_questions_without_an_answer_are_a_sentence() {
    let (advice, text) = asked(&[64], &question(64, &[Property::Pollable, Property::SurvivesKill]));
    assert_eq!(advice.choice, None);
    let says = "giving up \"survives kill -9 of a peer\" would leave pipe";
    assert!(text.contains(says), "{text}");
    let (_, text) = asked(&[64], &Question { rate: 2e7, ..question(64, &[Property::Pollable]) });
    let says =
        ["giving up \"holds 20,000,000 a second\" would leave pipe", "which reaches 1,000,000 a second"];
    assert!(says.iter().all(|part| text.contains(part)), "{text}");
    let elsewhere = Question { placement: "same-cpu".into(), ..question(64, &[]) };
    let why = advise(&record(&[64]), &elsewhere, &[], |_| None).unwrap_err();
    assert!(why.contains("no figure of roundtrip at same-cpu"), "{why}");
}

#[test]
fn what_is_to_be_polled_costs_what_it_costs_where_it_is_polled() {
    let mut report = record(&[64]);
    let sleeping = report.cases.iter().find(|case| case.id.mechanism == "pipe").unwrap();
    let mut polled = crate::Measured { id: sleeping.id.clone().with("wait", "epoll"), ..sleeping.clone() };
    polled.case.as_mut().unwrap().axes.insert("wait".into(), "epoll".into());
    let mut contestant = report.contests[0].what.contestants[1].clone();
    (contestant.case, contestant.times_first) = (polled.id.clone(), 12.0);
    report.contests[0].what.contestants.push(contestant);
    report.cases.push(polled);
    let chosen = |demands: &[Property]| {
        let advice = advise(&report, &question(64, demands), &[], |_| None).unwrap();
        (advice.contenders[advice.choice.unwrap()].name.clone(), advice.prices)
    };
    assert_eq!(chosen(&[Property::OtherUsers]).0, "pipe");
    let (name, prices) = chosen(&[Property::OtherUsers, Property::Pollable]);
    assert_eq!((name.as_str(), prices[0].times), ("pipe wait=epoll", 1.2), "{prices:?}");
}

/// Between operations that are far apart it sleeps, and is woken, as it never was back to back.
#[test]
fn who_polls_before_it_sleeps_holds_a_rate_surely_only_where_that_was_measured() {
    let mut report = record(&[64]);
    let ring = report.cases.iter_mut().find(|case| case.id.mechanism == "ring").unwrap();
    ring.case.as_mut().unwrap().axes.insert("wait".into(), "spin-block".into());
    let advice = advise(&report, &question(64, &[]), &[], |_| None).unwrap();
    let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
    assert!(
        !advice.is_sure && text.contains("Not sure: whether it holds the rate was not measured"),
        "{text}"
    );
    assert!(asked(&[64], &question(64, &[])).0.is_sure, "who spins does so at every rate");
    let (advice, _) = asked(&[64], &Question { rate: 900_000.0, ..question(64, &[Property::Pollable]) });
    assert!(!advice.is_sure && advice.choice.is_some(), "of 1,000,000 that leaves no room: {advice:?}");
}

#[test]
fn a_choice_among_some_is_among_these() {
    let among = |names: &[&str]| Question {
        among: names.iter().map(|name| (*name).into()).collect(),
        ..question(64, &[])
    };
    let (advice, text) = asked(&[64], &among(&["pipe"]));
    assert_eq!((advice.contenders.len(), advice.is_sure), (1, true));
    assert!(text.contains("Take pipe") && !text.contains("ring"), "{text}");
    let why = advise(&record(&[64]), &among(&["tcp"]), &[], |_| None).unwrap_err();
    assert!(why.contains("of tcp"), "{why}");
}

#[test]
fn what_was_measured_at_the_rate_replaces_what_was_computed() {
    let mut report = record(&[64]);
    let id = CaseId::new("roundtrip", "ring", 64, "two-cpus").with("rate", "10000");
    let mut summary = Summary::new(id.clone(), "ns/roundtrip", 9, 5000.0);
    summary.series = [("held_per_s", 10_000.0), ("cpu_share_at_rate_percent", 3.0)]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    report.cases.push(crate::Measured { id, summary: Some(summary), ..Default::default() });
    let advice = advise(&report, &question(64, &[]), &[], |_| None).unwrap();
    let ring = &advice.contenders[advice.choice.unwrap()];
    assert_eq!((ring.name.as_str(), ring.cpu_share), ("ring", Some(0.03)));
    assert!(advice.differences.is_empty(), "{advice:?}");
}

/// 1 GiB is not 64 B: the order may be the same, but nothing is known of the cost.
#[test]
fn of_a_size_far_from_any_that_was_measured_only_an_order_is_told_and_nothing_is_sure() {
    let (advice, text) = asked(&[64], &question(1 << 30, &[]));
    assert_eq!(advice.contenders[advice.choice.unwrap()].name, "ring");
    assert!(!advice.is_sure && !advice.surely_holds_rate, "{advice:?}");
    let untold =
        |one: &Contender| one.value.is_none() && one.cpu_share.is_none() && one.back_to_back_per_s.is_none();
    assert!(advice.contenders.iter().all(untold) && advice.prices.is_empty(), "{advice:?}");
    for part in
        ["Not sure: the figures are of 64 B", "Runner-up: pipe, which costs more", "only the order is told"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("of a CPU") && !text.contains("times the cost"), "{text}");
    let (near, text) = asked(&[64], &question(100, &[]));
    assert!(
        !near.is_sure && text.contains("Take ring: 100 ns"),
        "100 B are near 64 B, and not the same: {text}"
    );
}

#[test]
fn figures_of_another_number_of_receivers_are_not_sure() {
    let mut report = record(&[64]);
    let paced = |id: &mut CaseId| {
        id.pattern = "fan-out".into();
        id.axes.insert("receivers".into(), "4".into());
    };
    report.cases.iter_mut().for_each(|case| {
        paced(&mut case.id);
        case.summary.as_mut().unwrap().unit = "ns/message".into();
    });
    let contest = &mut report.contests[0].what;
    contest.contestants.iter_mut().for_each(|one| paced(&mut one.case));
    for order in &mut contest.sure {
        order.ahead.iter_mut().chain(&mut order.behind).for_each(paced);
    }
    let of = |receivers: u64| {
        let question = Question { pattern: "fan-out".into(), receivers, ..question(64, &[]) };
        advise(&report, &question, &[], |_| None).unwrap()
    };
    assert!(of(4).is_sure, "{:?}", of(4));
    assert_eq!(of(5).doubts, ["the figures are of 4 receivers"]);
    assert_eq!((of(5).contenders[0].value, of(100).contenders[0].value), (Some(100.0), None));
}

/// What was not measured may be ahead of everything that was.
#[test]
fn a_candidate_without_a_figure_that_may_meet_the_demands_is_a_doubt() {
    let report = record(&[64]);
    let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, 64, "two-cpus");
    let known = |id: &CaseId| {
        let has = if id.mechanism == "tcp" { &[Property::Pollable][..] } else { &[] };
        Some(Properties::of(has, Across::Network))
    };
    let of = |missing: &[&str], demands: &[Property]| {
        let candidates: Vec<CaseId> = ["ring", "pipe"].iter().chain(missing).map(|name| case(name)).collect();
        let advice = advise(&report, &question(64, demands), &candidates, known).unwrap();
        let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
        (advice, text)
    };
    assert!(of(&[], &[]).0.is_sure);
    let (advice, text) = of(&["tcp", "queue"], &[]);
    assert!(!advice.is_sure, "{advice:?}");
    for part in [
        "Not sure: 2 candidates that may meet the demands have no figure; a longer --budget tells more.",
        "2 of 4 candidates have no figure: tcp and queue.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (advice, text) = of(&["queue"], &[Property::Pollable]);
    assert!(advice.is_sure, "a queue is not pollable, so it cannot be the choice: {advice:?}");
    assert!(text.contains("1 of 3 candidates have no figure: queue."), "{text}");
    assert!(!of(&["tcp"], &[Property::Pollable]).0.is_sure);
}

#[test]
fn candidates_that_failed_for_one_reason_are_named_together() {
    let mut report = record(&[64]);
    let case = |mechanism: &str| CaseId::new("roundtrip", mechanism, 64, "two-cpus");
    let skipped = |(mechanism, why): (&str, &str)| weighbridge_record::Skipped {
        case: case(mechanism),
        step: "measure".into(),
        why: why.into(),
    };
    let failed = [("tcp", "no port"), ("udp", "no port"), ("queue", "no room")];
    report.skipped.extend(failed.map(|of| crate::Sourced { source: 0, what: skipped(of) }));
    let candidates = ["ring", "pipe", "tcp", "udp", "queue", "fifo"].map(case);
    let advice = advise(&report, &question(64, &[]), &candidates, |_| None).unwrap();
    let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
    let says = "4 of 6 candidates have no figure: tcp and udp (no port); queue (no room); fifo.";
    assert!(text.contains(says), "{text}");
}

#[test]
fn a_case_of_the_record_without_a_figure_is_a_doubt_too() {
    let mut report = record(&[64]);
    let id = CaseId::new("roundtrip", "queue", 64, "two-cpus");
    report.cases.push(crate::Measured { id, ..Default::default() });
    let advice = advise(&report, &question(64, &[]), &[], |_| None).unwrap();
    assert_eq!((advice.is_sure, advice.candidates, advice.without_figure.len()), (false, 3, 1), "{advice:?}");
}

#[test]
fn the_only_case_of_a_record_is_an_answer_without_a_contest() {
    let mut report = record(&[64]);
    report.cases.retain(|case| case.id.mechanism == "pipe");
    report.contests.clear();
    let advice = advise(&report, &question(64, &[]), &[], |_| None).unwrap();
    let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
    assert_eq!((advice.contenders[0].name.as_str(), advice.is_sure), ("pipe", true), "{advice:?}");
    assert!(text.contains("Sure: nothing else that was measured meets the demands."), "{text}");
    let summary = report.cases[0].summary.as_mut().unwrap();
    (summary.runs, summary.ci95) = (1, None);
    let advice = advise(&report, &question(64, &[]), &[], |_| None).unwrap();
    assert_eq!(advice.doubts, ["of 1 run no interval follows"], "one run shows nothing surely");
}

#[test]
fn an_order_turns_only_between_two_sizes_of_which_it_is_sure() {
    let turns = |sure: &[u64], payload_bytes: u64, budget: Option<f64>| {
        let report = record_with(&[64, 512, 2048, 8192], sure);
        let question = Question { cpu_budget: budget, ..question(payload_bytes, &[]) };
        let advice = advise(&report, &question, &[], |_| None).unwrap();
        let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
        let lines = text.lines().filter(|line| line.contains("costs less"));
        lines.map(|line| line.trim().trim_start_matches("- ").to_owned()).collect::<Vec<_>>()
    };
    let above = "Above about 1 KiB pipe costs less (between 512 B and 2 KiB).";
    let all = [64, 512, 2048, 8192];
    assert_eq!(turns(&all, 64, None), [above]);
    assert_eq!(turns(&[64, 512, 8192], 64, None), Vec::<String>::new(), "what is between is not told apart");
    assert_eq!(
        turns(&[512, 2048, 8192], 64, None),
        Vec::<String>::new(),
        "it is not sure at the size itself"
    );
    let below = "Below about 1 KiB ring costs less (between 512 B and 2 KiB).";
    assert_eq!(turns(&all, 8192, None), [below]);
    assert_eq!(
        turns(&all, 8192, Some(0.5)),
        Vec::<String>::new(),
        "a ring that spins takes more than the budget"
    );
}

#[test]
fn a_computed_share_of_a_cpu_is_surely_within_half_of_the_budget_and_the_budget_is_as_it_was_typed() {
    let of = |budget: f64| {
        let question = Question { cpu_budget: Some(budget), ..question(64, &[Property::Pollable]) };
        asked(&[64], &question)
    };
    // A pipe takes 2 % at the rate, by what was counted back to back.
    let (advice, text) = of(0.0205);
    assert!(!advice.is_sure && text.contains("at most 2.05 % of a CPU"), "{text}");
    assert!(text.contains("whether it keeps to the share of a CPU was not measured"), "{text}");
    assert!(of(0.05).0.is_sure, "{text}");
}
