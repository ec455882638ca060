//! Explanations as text, Markdown, JSON and page.

use weighbridge_record::{
    BeyondSelf, CaseId, Dose, ExplainedPart, Explanation, Line, PerOp, Price, Reading, Skill, WhatIf,
};
use weighbridge_report::{Report, Style, html, json, markdown, text};

use crate::common;

/// A case of 4,000 ns in three parts, and what is left.
pub fn explained(mechanism: &str, unexplained_ns: f64) -> Explanation {
    let part = |name: &str, count: f64, price_ns: f64, is_fitted| ExplainedPart {
        name: name.into(),
        count,
        price_ns,
        is_fitted,
        no_price: None,
        ns: count * price_ns,
        ci95: Some([0.9 * count * price_ns, 1.1 * count * price_ns]),
        dose: None,
        not_tried: None,
    };
    let parts = vec![
        part("system calls", 4.0, 100.0, false),
        part("switches", 2.0, 800.0, false),
        part("block and wake", 2.0, 1000.0, true),
    ];
    let ns = 4000.0 + unexplained_ns;
    let share = unexplained_ns / ns;
    Explanation {
        case: CaseId::new("roundtrip", mechanism, 64, "same-cpu"),
        unit: "ns/roundtrip".into(),
        ns,
        ci95: Some([0.99 * ns, 1.01 * ns]),
        parts,
        unexplained_ns,
        unexplained_ns_ci95: Some([unexplained_ns - 40.0, unexplained_ns + 40.0]),
        unexplained_share: share,
        unexplained_share_ci95: Some([share - 0.01, share + 0.01]),
        parts_over_cost: Some(1.0 - share),
        beyond_self: None,
        doses: Vec::new(),
        verdict: if share.abs() > 0.16 { "not explained" } else { "explained" }.into(),
        fitted_from: vec![CaseId::new("roundtrip", "fifo", 1, "same-cpu")],
        what_if: vec![WhatIf {
            change: "switches-1".into(),
            ns: ns - 800.0,
            ci95: Some([ns - 850.0, ns - 750.0]),
            measured_ns: None,
            measured_ci95: None,
            factor: (ns - 800.0) / ns,
            factor_ci95: None,
            remarks: vec!["something is left out".into()],
        }],
        sets: 12,
        per_op: PerOp::default(),
        system_calls: None,
        remarks: vec!["system calls were not counted: no tracer".into()],
    }
}

fn report(all: Vec<Explanation>) -> Report {
    let price = Price {
        name: "switches".into(),
        of: None,
        place: "same-cpu".into(),
        about: "a hop".into(),
        ns: 800.0,
        ci95: Some([790.0, 810.0]),
        fitted_from: Vec::new(),
    };
    let explanations = all.into_iter().map(|of| Line::Explanation(Box::new(of)));
    let lines = [common::header(), Line::Price(price)].into_iter().chain(explanations).collect();
    Report::from_reading(Reading { lines, problems: Vec::new() })
}

#[test]
fn a_bar_has_its_parts_in_proportion_and_the_table_has_them_in_figures() {
    let shown = text(&report(vec![explained("pipe", 1000.0)]), Style::default());
    let bar = "███▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒????????";
    assert!(shown.contains(bar), "400, 1600, 2000 and 1000 of 5000 ns in 40 marks:\n{shown}");
    for wanted in [
        "block and wake *",
        "1.00 µs",
        "20.0 %",
        "19.0 to 21.0 %",
        "not measured: a prediction",
        "not explained",
        "switches-1",
        "no tracer",
    ] {
        assert!(shown.contains(wanted), "{wanted}:\n{shown}");
    }
}

#[test]
fn a_negative_remainder_is_shown_and_takes_nothing_from_the_parts() {
    let shown = markdown(&report(vec![explained("pipe", -500.0)]));
    assert!(shown.contains("-14.3 %") && shown.contains("-500 ns"), "{shown}");
    assert!(!shown.contains('?'.to_string().repeat(2).as_str()), "{shown}");
}

#[test]
fn many_cases_have_the_share_of_those_that_are_close() {
    let all = ["pipe", "fifo", "tcp", "udp", "mq-posix"];
    let all = all.iter().enumerate().map(|(index, name)| explained(name, 200.0 * index as f64)).collect();
    let shown = markdown(&report(all));
    // 0, 4.8, 9.1, 13.0 and 16.7 %.
    assert!(shown.contains("3 of 5 cases have an unexplained share within ± 10 %"), "{shown}");
}

/// A case on two CPUs can have each of the parts; a bar with two of one mark could not be read.
#[test]
fn each_part_of_a_bar_has_a_mark_of_its_own() {
    let mut of = explained("pipe", 1000.0);
    let part = of.parts[0].clone();
    of.parts = (0..12).map(|index| ExplainedPart { name: format!("part {index}"), ..part.clone() }).collect();
    of.ns = 12.0 * part.ns + of.unexplained_ns;
    let shown = text(&report(vec![of]), Style::default());
    let legend = shown.split_once("Bars: ").expect("a legend").1.split_once("unexplained").unwrap().0;
    let legend = legend.split_whitespace().collect::<Vec<_>>().join(" ");
    let marks: std::collections::BTreeSet<&str> =
        legend.split(" · ").map(|item| item.trim().split(' ').next().unwrap()).collect();
    assert_eq!(marks.len(), 13, "{legend}");
}

#[test]
fn a_part_without_a_price_says_why_and_has_no_cost() {
    let mut of = explained("pipe", 1000.0);
    of.parts[1] = ExplainedPart {
        price_ns: 0.0,
        no_price: Some("another process ran on this CPU".into()),
        ns: 0.0,
        ci95: None,
        ..of.parts[1].clone()
    };
    let shown = markdown(&report(vec![of]));
    let row = shown.lines().find(|line| line.starts_with("| switches | 2")).expect("its row");
    assert!(row.contains("no price: another process ran on this CPU | – | – | – |"), "{row}");
}

#[test]
fn what_an_answer_leaves_out_is_said_once() {
    let twice = |mechanism: &str| {
        let mut of = explained(mechanism, 100.0);
        let mut other = of.what_if[0].clone();
        other.change = "switches-2".into();
        of.what_if.push(other);
        of
    };
    let shown = markdown(&report(vec![twice("pipe"), twice("fifo")]));
    for said in ["switches-1: something is left out", "switches-2: something is left out"] {
        assert_eq!(shown.matches(said).count(), 1, "{shown}");
    }
}

#[test]
fn json_and_page_have_explanations_and_prices() {
    let report = report(vec![explained("pipe", 100.0)]);
    let json: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(json["explanations"][0]["parts"][1]["name"], "switches");
    assert_eq!(json["prices"][0]["ns"], 800.0);
    let page = html(&report);
    assert!(page.contains("What the costs are made of") && page.contains("data-kind=\"bars\""));
}

/// With all that a record of today has: 3,000 ns beyond the mechanism to itself, and two doses.
fn judged() -> Explanation {
    let mut of = explained("pipe", 600.0);
    of.beyond_self = Some(BeyondSelf {
        ns: 3000.0,
        ci95: Some([2900.0, 3100.0]),
        unexplained_share: Some(0.2),
        unexplained_share_ci95: Some([0.18, 0.22]),
        null_ns: Some(2400.0),
        skill: Some(Skill {
            cases: 6,
            model_off_ns: 150.0,
            null_off_ns: 600.0,
            skill: 0.75,
            ci95: Some([0.6, 0.8]),
        }),
    });
    let dose = |kind: &str, part: &str, price_ns, slope_ns: f64, verdict: &str| Dose {
        kind: kind.into(),
        about: format!("what {kind} are"),
        parts: vec![part.into(), "switches".into()],
        case: of.case.clone(),
        per_op: vec![8.0, 16.0],
        slope_ns,
        ci95: Some([slope_ns - 2.0, slope_ns + 2.0]),
        slope_of_halves_ns: Some([slope_ns - 1.0, slope_ns + 1.0]),
        steps_ns: vec![slope_ns - 4.0, slope_ns + 4.0],
        price_ns,
        price_ci95: None,
        slope_over_price: price_ns.map(|price_ns| slope_ns / price_ns),
        slope_over_price_ci95: None,
        verdict: verdict.into(),
        sets: 11,
        remarks: vec!["a remark on the dose".into()],
    };
    of.doses = vec![
        dose("calls", "system calls", Some(100.0), 150.0, "not confirmed"),
        dose("handoffs", "block and wake", Some(3600.0), 3500.0, "confirmed"),
    ];
    of.parts[0].dose = Some("calls".into());
    of.parts[2].dose = Some("handoffs".into());
    of.parts[1].not_tried = Some("cannot be put in alone".into());
    of
}

#[test]
fn the_verdict_stands_beside_the_null_model_and_its_skill() {
    let shown = markdown(&report(vec![judged()]));
    // 1 - 2400 / 3000.
    for wanted in [
        "3.00 µs",
        "20.0 %",
        "18.0 to 22.0 %",
        "null model off",
        "skill 0.75 (0.60 to 0.80)",
        "is better than none",
    ] {
        assert!(shown.contains(wanted), "{wanted}:\n{shown}");
    }
    let mut of = judged();
    let skill = of.beyond_self.as_mut().unwrap().skill.as_mut().unwrap();
    (skill.skill, skill.ci95) = (0.1, Some([-0.2, 0.4]));
    assert!(markdown(&report(vec![of])).contains("better than none is not shown"));
}

#[test]
fn each_part_says_what_its_price_was_in_the_case_or_why_it_was_not_tried() {
    for shown in [markdown(&report(vec![judged()])), html(&report(vec![judged()]))] {
        for wanted in [
            "not confirmed: price 100 ns measured alone, 150 ns (148 ns to 152 ns) in the case",
            "confirmed: 3.50 µs",
            "(with switches, as handoffs)",
            "not tried: cannot be put in alone",
            "Dose and response",
            "50.0 %",
            "a remark on the dose",
        ] {
            assert!(shown.contains(wanted), "{wanted}:\n{shown}");
        }
    }
    assert!(
        !markdown(&report(vec![explained("pipe", 0.0)])).contains("confirmed in the case"),
        "an old record"
    );
}

#[test]
fn a_prediction_that_was_measured_says_how_far_it_was_off() {
    let mut of = judged();
    (of.what_if[0].ns, of.what_if[0].measured_ns) = (4400.0, Some(4000.0));
    let shown = markdown(&report(vec![of]));
    assert!(shown.contains("4.00 µs") && shown.contains("(10.0 %)"), "{shown}");
    assert!(!shown.contains("not measured: a prediction"), "{shown}");
}
