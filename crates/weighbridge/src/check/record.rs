//! The comparisons as lines of a record, and as the text that the report makes of these lines.

use weighbridge_record::{Check, End, Header, Line, Meaning, Reading, Turn};
use weighbridge_report::{Report, Style, text as report_text};

use super::Scope;
use super::definition::{Definition, Unequal};
use super::definitions::UNEQUAL;
use super::turns::Compared;
use super::verdict::judge;
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
    std::iter::once(Line::Header(Box::new(header))).chain(checks).chain([Line::End(end)]).collect()
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
    let judged = judge(&compared.pairs, compared.definition.band);
    let interval = judged.and_then(|(ratio, _)| ratio.interval);
    let medians = compared.medians();
    Check {
        program: Some(compared.program.display().to_string()),
        theirs: medians.map(|[theirs, _]| theirs),
        ours: medians.map(|[_, ours]| ours),
        ratio: judged.map(|(ratio, _)| ratio.median),
        ci95: interval.map(|interval| [interval.low, interval.high]),
        verdict: compared.outcome().into(),
        trouble: compared.trouble.clone(),
        turns: compared.pairs.iter().map(|&(theirs, ours)| Turn { theirs, ours }).collect(),
        ..described(compared.definition)
    }
}

/// The report of such a record; where everything was asked for, with what has no equal.
pub fn text(scope: &Scope, lines: Vec<Line>) -> String {
    let style = output::style();
    let style = Style { width: Some(style.width.unwrap_or(WIDTH).max(60)), ..style };
    let report = Report::from_reading(Reading { lines, problems: Vec::new() });
    let mut out = report_text(&report, style);
    if scope.is_everything {
        out.push_str("\n■ Not compared, because weighbridge has no equal case\n");
        for Unequal { name, why } in UNEQUAL {
            let width = usize::from(style.width.unwrap_or(WIDTH));
            let options = textwrap::Options::new(width).initial_indent("  ").subsequent_indent("    ");
            out.push_str(&textwrap::fill(&format!("{name}: {why}"), options));
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::definitions;
    use weighbridge_harness::catalogue;
    use weighbridge_harness::host::Host;

    fn tried(name: &str, pairs: &[(f64, f64)]) -> Compared {
        crate::register();
        let definition: &'static Definition =
            definitions::ALL.iter().find(|definition| definition.name == name).unwrap();
        let case = catalogue::prepare(&definition.case.parse().unwrap(), &Host::look().unwrap()).unwrap();
        let mut compared = Compared::new(definition, case, "/usr/bin/true".into());
        compared.pairs = pairs.to_vec();
        compared
    }

    fn shown(scope: &Scope) -> String {
        let checks =
            lines(scope, serde_json::from_str(HEADER).unwrap(), End { complete: true, elapsed_s: 1.0 });
        let reading = Reading { lines: checks, problems: Vec::new() };
        report_text(&Report::from_reading(reading), Style { color: false, width: Some(120) })
    }

    const HEADER: &str = r#"{"schema":2,"tool":{"name":"x","version":"1","profile":"release"},"started":"","seed":0,
        "settings":{},"machine":{"hostname":"","kernel":"","kernel_build":"","arch":"","cpu_model":"","allowed_cpus":[],
        "cpus":[],"caches":[],"nodes":[],"memory_bytes":0,"clock":{"source":"","kernel_source":"","resolution_ns":1,
        "read_ns":1},"virtualisation":"","pmu":false,"mitigations":{},"power":{},"limits":{},"sysctls":{},"missing":[]}}"#;

    #[test]
    fn a_ratio_inside_its_band_needs_no_excuse_and_one_outside_has_the_known_reasons() {
        let mut scope = Scope::default();
        scope.compared.push(tried("perf-sched-pipe", &[(5000.0, 5100.0); 6]));
        scope.compared.push(tried("lmbench-lat_pipe", &[(5000.0, 8000.0); 6]));
        let text = shown(&scope);
        let line =
            |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
        let inside = line("perf-sched-pipe");
        for part in ["5.00 µs/roundtrip", "5.10 µs/roundtrip", "1.02 to 1.02", "0.85 to 1.15"] {
            assert!(inside.contains(part), "{part}: {text}");
        }
        assert!(inside.contains(" inside ") && line("lmbench-lat_pipe").contains(" outside "), "{text}");
        assert!(text.contains("  2 compared: 1 inside, 1 outside\n"), "{text}");
        assert_eq!(text.matches("known reasons").count(), 1, "{text}");
    }

    #[test]
    fn what_failed_or_is_missing_is_there_with_the_reason_and_without_figures() {
        let mut scope = Scope::default();
        let mut failed = tried("perf-sched-pipe", &[]);
        failed.trouble = Some("perf ended with exit status: 1: no".into());
        scope.compared.push(failed);
        scope.compared.push(tried("lmbench-lat_unix", &[(9000.0, 9000.0); 3]));
        let is_hackbench = |definition: &&Definition| definition.tool.name == "hackbench";
        scope.missing.extend(definitions::ALL.iter().filter(is_hackbench));
        let text = shown(&scope);
        assert!(text.contains("stopped after 0 turns: perf ended with exit status: 1: no"), "{text}");
        assert!(text.contains("3 turns give no interval; 6 do"), "{text}");
        assert!(text.contains("2 compared: 1 inconclusive, 1 not measured"), "{text}");
        assert!(text.contains("hackbench: rt-tests (hackbench, hackbench-pipe)"), "{text}");
    }
}
