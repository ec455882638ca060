//! The suites are here and their tables are in `weighbridge-report`; neither knows the other.

use std::collections::BTreeMap;

use weighbridge_harness::catalogue;
use weighbridge_harness::plan::{Changes, Suite};
use weighbridge_record::{Case, CaseId, Header, Line, Machine, PerOp, Reading, SCHEMA, Summary, Tool};
use weighbridge_report::{Report, Section, sections};

/// What a record of the suite holds.
fn section(suite: &Suite, cases: &[CaseId]) -> Section {
    let header = Header {
        schema: SCHEMA,
        tool: Tool::default(),
        started: "2026-01-02T03:04:05Z".into(),
        command: Vec::new(),
        seed: 1,
        settings: BTreeMap::from([("suite".to_owned(), suite.name.to_owned())]),
        machine: Machine::default(),
    };
    let lines = cases.iter().flat_map(|id| {
        let (_, pattern, params) = catalogue::resolve(id).unwrap();
        let unit = pattern.unit.name(id.payload_bytes);
        let case = Case {
            case: id.clone(),
            pattern: id.pattern.clone(),
            mechanism: id.mechanism.clone(),
            payload_bytes: id.payload_bytes,
            placement: id.placement.clone(),
            resolved_placement: id.placement.clone(),
            cpus: Vec::new(),
            roles: vec!["client".into()],
            axes: params.axes,
            unit: unit.clone(),
            higher_is_better: pattern.unit.higher_is_better(),
            measured_alone: None,
            facts: BTreeMap::new(),
        };
        let broker = PerOp { voluntary_switches: 2.0, cpu_ns: 12_000.0, ..PerOp::default() };
        let summary = Summary {
            ci95: Some([49_000.0, 51_000.0]),
            range: [48_000.0, 52_000.0],
            beside: BTreeMap::from([("broker".to_owned(), broker)]),
            series: BTreeMap::from([("switches_per_message".to_owned(), 12.0)]),
            ..Summary::new(id.clone(), unit, 6, 50_000.0)
        };
        [Line::Case(case), Line::Summary(summary)]
    });
    let lines = std::iter::once(Line::Header(Box::new(header))).chain(lines).collect();
    let mut sections = sections(&Report::from_reading(Reading { lines, problems: Vec::new() }));
    assert_eq!(sections.len(), 1, "{}", suite.name);
    sections.remove(0)
}

#[test]
fn every_case_of_a_suite_has_its_cell_and_every_cell_its_case_and_its_published_figure() {
    weighbridge_dbus_bench::register();
    for suite in weighbridge_dbus_bench::SUITES {
        assert!(Suite::find(suite.name).is_some(), "{} can be found by its name", suite.name);
        let cases = suite.cases(&Changes::default());
        let whole = section(suite, &cases);
        let text = format!("{whole:?}");
        assert!(!text.contains("not measured"), "{}: {whole:#?}", suite.name);
        for index in 0..cases.len() {
            let mut rest = cases.clone();
            let missing = rest.remove(index);
            assert_ne!(section(suite, &rest), whole, "{} has no cell for {missing}", suite.name);
        }
        // 50 µs over the published 388.7 µs; the switches of the experiments; 50 µs for 8 rows over 32.874 s.
        let published: &[&str] = match suite.name {
            "dbus-ping-pong" => &["\"389\"", "\"0.129\"", "\"2800\""],
            "signal-fan-out" => &["\"22\"", "\"12\"", "50.0 ±2.0% · 12", "\"524\"", "\"1030\""],
            "tracker" => &["\"32.9\"", "\"0.0570\""],
            _ => &["12.0 · 2"],
        };
        for figure in published {
            assert!(text.contains(figure), "{} without {figure}: {whole:#?}", suite.name);
        }
    }
}
