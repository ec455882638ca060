use weighbridge_record::{Across, Case, Contestant, Line, PerOp, Reading, SureOrder};

use super::*;

/// A record of pipes and rings at these sizes, where the ring costs less up to 1 KiB and surely so at 64 B.
fn record(sizes: &[u64]) -> Report {
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
            interval: None,
            sets: 9,
        };
        let mut order = [("ring", 1.0), ("pipe", 1000.0 / ring)];
        if ring > 1000.0 {
            order = [("pipe", 1.0), ("ring", ring / 1000.0)];
        }
        let sure = SureOrder { ahead: vec![case("ring")], behind: vec![case("pipe")] };
        lines.push(Line::Contest(Contest {
            contestants: order.map(contestant).into(),
            sure: if bytes == 64 { vec![sure] } else { Vec::new() },
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
    let advice = advise(&record(sizes), question, |_| None).unwrap();
    let text = advice.document().text(crate::Style { width: Some(200), ..Default::default() });
    (advice, text)
}

#[test]
fn an_advice_says_cost_share_confidence_price_and_where_it_turns() {
    let (advice, text) = asked(&[64, 512, 4096], &question(64, &[]));
    assert!(advice.is_sure, "{advice:?}");
    for part in [
        "64 B there and back, 10,000 a second, on two CPUs",
        "Take ring: 100 ns/roundtrip, 200 % of a CPU at the rate, because it spins",
        "Sure: everything else that meets the demands costs more.",
        "Runner-up: pipe: 1.00 µs/roundtrip, 2 % of a CPU at the rate, 10.0 times the cost",
        "pipe costs less",
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
    let why = advise(&record(&[64]), &elsewhere, |_| None).unwrap_err();
    assert!(why.contains("no two cases of roundtrip at same-cpu"), "{why}");
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
        let advice = advise(&report, &question(64, demands), |_| None).unwrap();
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
    let advice = advise(&report, &question(64, &[]), |_| None).unwrap();
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
    let why = advise(&record(&[64]), &among(&["tcp"]), |_| None).unwrap_err();
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
    let advice = advise(&report, &question(64, &[]), |_| None).unwrap();
    let ring = &advice.contenders[advice.choice.unwrap()];
    assert_eq!((ring.name.as_str(), ring.cpu_share), ("ring", Some(0.03)));
    assert!(advice.differences.is_empty(), "{advice:?}");
}
