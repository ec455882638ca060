//! The comparisons as lines of a record, and as what is shown of these lines: the report's text, or one document for programs.

use serde_json::{Value, json};
use weighbridge_record::{Check, End, Header, Line, Meaning, Reading, SCHEMA, Turn, laws};
use weighbridge_report::{Report, Style, text as report_text};

use super::Scope;
use super::definition::{Definition, Unequal};
use super::turns::Compared;
use super::unequal::UNEQUAL;
use crate::output;

/// Columns of a table that is not shown on a terminal.
const WIDTH: u16 = 110;

/// A record: a line for each check that was asked for, also of tools that are not here.
pub fn lines(scope: &Scope, header: Header, end: End) -> Vec<Line> {
    let refused = scope.refused.iter().map(|(definition, why)| Check {
        verdict: "not here".into(),
        trouble: Some(why.clone()),
        ..described(definition)
    });
    let missing = scope.missing.iter().map(|definition| Check {
        verdict: "not installed".into(),
        trouble: Some(format!("the Debian package {} has it", definition.tool.package)),
        ..described(definition)
    });
    let checks = scope.compared.iter().map(compared).chain(refused).chain(missing);
    let checks = checks.map(|check| Line::Check(Box::new(check)));
    let lines = std::iter::once(Line::Header(Box::new(header))).chain(checks).collect();
    let mut reading = Reading { lines, problems: Vec::new() };
    laws::audit(&mut reading);
    reading.lines.push(Line::End(end));
    reading.lines
}

fn described(definition: &Definition) -> Check {
    let meaning = &definition.meaning;
    Check {
        check: definition.name.into(),
        tool: definition.tool.name.into(),
        debian_package: definition.tool.package.into(),
        command: definition.command.iter().map(|word| (*word).to_owned()).collect(),
        case: super::case(definition),
        unit: definition.unit.into(),
        theirs_is: Meaning {
            counts: meaning.counts.into(),
            message: meaning.message.into(),
            peers: meaning.peers.into(),
            warm_up: meaning.warm_up.into(),
        },
        band: definition.band,
        because: definition.because.into(),
        known_reasons: definition.outside.into(),
        ..Check::default()
    }
}

fn compared(compared: &Compared) -> Check {
    let ratio = compared.ratio();
    let medians = compared.medians();
    Check {
        program: Some(compared.program.display().to_string()),
        theirs: medians.map(|[theirs, _]| theirs),
        ours: medians.map(|[_, ours]| ours),
        ratio: ratio.map(|ratio| ratio.median),
        ci95: ratio.and_then(|ratio| ratio.interval).map(|interval| [interval.low, interval.high]),
        verdict: compared.verdict().word().into(),
        trouble: compared.trouble.clone(),
        turns: compared.pairs.iter().map(|&(theirs, ours)| Turn { theirs, ours }).collect(),
        ..described(compared.definition)
    }
}

/// The report of such a record; where everything was asked for, with what has no equal.
pub fn text(scope: &Scope, lines: Vec<Line>) -> String {
    let style = output::style();
    let width = style.width.unwrap_or(WIDTH).max(60);
    let report = Report::from_reading(Reading { lines, problems: Vec::new() });
    let mut out = report_text(&report, Style { width: Some(width), ..style });
    if scope.is_everything {
        out.push_str("\n■ Not compared, because weighbridge has no equal case\n");
        let indented = textwrap::Options::new(width.into()).initial_indent("  ").subsequent_indent("    ");
        for Unequal { name, why } in UNEQUAL {
            out += &textwrap::fill(&format!("{name}: {why}"), &indented);
            out.push('\n');
        }
    }
    out
}

/// One document of the lines, with what is missing by tool and what has no equal.
pub fn json(scope: &Scope, lines: &[Line]) -> Value {
    let mut document = json!({ "schema": SCHEMA, "checks": [], "not_here": [] });
    for line in lines {
        match line {
            Line::Header(header) => {
                document["tool"] = json!(header.tool);
                document["started"] = json!(header.started);
                document["command"] = json!(header.command);
                document["kernel"] = json!(header.machine.kernel);
            }
            Line::Check(check) if check.verdict == "not installed" => {}
            Line::Check(check) => {
                let list = if check.verdict == "not here" { "not_here" } else { "checks" };
                document[list].as_array_mut().expect("made above").push(json!(check));
            }
            Line::End(end) => document["complete"] = json!(end.complete),
            _ => {}
        }
    }
    // The checks of a tool stand together.
    let of_tool = |of: &[&Definition]| {
        let names: Vec<&str> = of.iter().map(|definition| definition.name).collect();
        json!({ "tool": of[0].tool.name, "debian_package": of[0].tool.package, "checks": names })
    };
    document["not_installed"] =
        scope.missing.chunk_by(|a, b| a.tool.name == b.tool.name).map(of_tool).collect();
    document["not_compared"] =
        UNEQUAL.iter().map(|Unequal { name, why }| json!({ "figure": name, "why": why })).collect();
    document
}
