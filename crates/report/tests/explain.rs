//! Explanations as text, Markdown, JSON and page.

use weighbridge_record::{
    CaseId, ExplainedPart, Explanation, Header, Line, Machine, PerOp, Price, Reading, SCHEMA, Tool, WhatIf,
};
use weighbridge_report::{Report, Style, html, json, markdown, text};

fn explained(mechanism: &str, unexplained_ns: f64) -> Explanation {
    let part = |name: &str, count: f64, price_ns: f64, is_fitted| ExplainedPart {
        name: name.into(),
        count,
        price_ns,
        is_fitted,
        ns: count * price_ns,
        ci95: Some([0.9 * count * price_ns, 1.1 * count * price_ns]),
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
        verdict: if share.abs() > 0.16 { "not explained" } else { "explained" }.into(),
        fitted_from: vec![CaseId::new("roundtrip", "fifo", 1, "same-cpu")],
        what_if: vec![WhatIf {
            change: "switches-1".into(),
            ns: ns - 800.0,
            ci95: Some([ns - 850.0, ns - 750.0]),
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
    let header = Header {
        schema: SCHEMA,
        tool: Tool::default(),
        started: "2026-01-02T03:04:05Z".into(),
        command: Vec::new(),
        seed: 1,
        settings: Default::default(),
        machine: Machine::default(),
    };
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
    let lines =
        [Line::Header(Box::new(header)), Line::Price(price)].into_iter().chain(explanations).collect();
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
        "0.800",
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

#[test]
fn json_and_page_have_explanations_and_prices() {
    let report = report(vec![explained("pipe", 100.0)]);
    let json: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(json["explanations"][0]["parts"][1]["name"], "switches");
    assert_eq!(json["prices"][0]["ns"], 800.0);
    let page = html(&report);
    assert!(page.contains("What the costs are made of") && page.contains("\"barmode\":\"relative\""));
}
