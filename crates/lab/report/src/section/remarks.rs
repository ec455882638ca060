//! What must be said about figures, and about those that are missing: failed counter checks, departures from one steady
//! state, cases that ended early, skips. The same reason is said once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weighbridge_record::{CaseId, Place, StoppedBy, Summary};

use super::Context;
use crate::document::{Block, Item, Section};
use crate::model::{Measured, Report};
use crate::notes::{FEW, few};
use crate::words::{IMPORTED, many, plain};
use crate::{coverage, regimes};

/// Those that have something to say.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    let report = cx.report;
    let brief = |items: Vec<Item>| (items, Vec::new());
    [
        (
            "anomalies",
            if report.is_imported() { "What the tools report of runs (!)" } else { "Failed counter checks (!)" },
            "The figure may not mean what its name says. It is shown as measured.",
            anomalies(report),
        ),
        (
            "regimes",
            "Not one steady state (~)",
            "A single figure hides what happened in these cases: two modes (the samples fall into two groups), a step (the level \
             changed once), a slope (the level drifts), correlated neighbors (successive samples resemble each other).",
            regimes::notes(report, &cx.matrices),
        ),
        (
            "not-checked",
            "Checks that did not run",
            "That nothing is said of these cases does not mean that there is nothing to say: they had too few runs.",
            brief(not_checked(report)),
        ),
        (
            "stopped",
            "Ended before the precision asked for",
            "The intervals of these cases are wider than asked, or absent.",
            brief(stopped(report)),
        ),
        ("skipped", "Skipped", "No figure, and why.", brief(skipped(report))),
        (
            "incomplete",
            "Missing beside a figure",
            "These cases have a figure. What is missing is a run of them, or the count of their system calls.",
            brief(reasons(report, true)),
        ),
        ("not-reached", "Not reached", "Planned, but without a single run.", brief(not_reached(report))),
    ]
    .into_iter()
    .filter(|(.., (items, _))| !items.is_empty())
    .flat_map(|(id, title, meaning, (items, full))| {
        let mut blocks = vec![Block::Paragraph(meaning.into()), Block::List(items)];
        if !full.is_empty() {
            blocks.push(Block::fold("All of them, one by one".into(), vec![Block::List(full)]));
        }
        Section::new(id, title, blocks)
    })
    .collect()
}

/// Few of them and all of them.
fn anomalies(report: &Report) -> (Vec<Item>, Vec<Item>) {
    let summaries = report.cases.iter().filter_map(|case| Some((case, case.summary.as_ref()?)));
    let each = summaries.flat_map(|(case, summary)| {
        summary.anomalies.iter().map(move |why| (case.source, &case.id, why.clone()))
    });
    let full = grouped(report, each);
    if full.len() <= FEW {
        return (full, Vec::new());
    }
    let item = |note: &Item| {
        let cases: Vec<&str> = note.items.iter().map(|item| item.text.as_str()).collect();
        Item::from(format!("{}: {}", cases.join("; "), note.text))
    };
    let items = few(full.iter().map(item).collect());
    let cases = report.cases.iter().filter(|case| case.has_anomalies()).count();
    let why = format!(
        "{} with {}:",
        many(cases, "case"),
        if report.is_imported() { "such a report" } else { "a counter check that failed" }
    );
    (vec![Item::over(why, items)], full)
}

/// Each check with the number of cases that had too few runs for it.
fn not_checked(report: &Report) -> Vec<Item> {
    let all: Vec<&Measured> = report.cases.iter().filter(|case| case.summary.is_some()).collect();
    let checks_of =
        |case: &&Measured| case.summary.iter().flat_map(|of| of.not_checked.clone()).collect::<Vec<_>>();
    let mut checks: Vec<String> = Vec::new();
    for check in all.iter().flat_map(checks_of) {
        if !checks.contains(&check) {
            checks.push(check);
        }
    }
    let item = |check: &String| {
        let some: Vec<&Measured> =
            all.iter().copied().filter(|case| checks_of(case).contains(check)).collect();
        let why = format!("{} of {}: {check}", some.len(), many(all.len(), "case"));
        Item::over(why, coverage::described(report, &some, &all))
    };
    checks.iter().map(item).collect()
}

fn stopped(report: &Report) -> Vec<Item> {
    let reasons = [
        (StoppedBy::MaxRuns, "the largest number of runs was made"),
        (StoppedBy::Budget, "the time allowed was used up"),
        (StoppedBy::Interrupted, "interrupted"),
        (StoppedBy::Error, "a run failed"),
    ];
    let all: Vec<&Measured> = report.cases.iter().filter(|case| case.summary.is_some()).collect();
    let note = |(reason, why): (StoppedBy, &str)| {
        let some: Vec<&Measured> =
            report.stopped_early().filter(|(_, by)| *by == reason).map(|(case, _)| case).collect();
        let why = format!("{} of {}: {why}", some.len(), many(all.len(), "case"));
        (!some.is_empty()).then(|| Item::over(why, coverage::described(report, &some, &all)))
    };
    shortened(report).into_iter().chain(reasons.into_iter().filter_map(note)).collect()
}

/// What came of runs that a short budget made shorter.
fn shortened(report: &Report) -> Option<Item> {
    let share = report.sources.iter().find_map(|source| source.header.as_ref()?.settings.get("shortened"))?;
    let percent = share.parse::<f64>().ok()? * 100.0;
    let half_width = |summary: &Summary| {
        summary.ci95.map(|[low, high]| (high - low) / 2.0 / summary.median.abs().max(f64::MIN_POSITIVE))
    };
    let all: Vec<Option<f64>> =
        report.cases.iter().filter_map(|case| case.summary.as_ref()).map(half_width).collect();
    let mut widths: Vec<f64> = all.iter().flatten().copied().collect();
    widths.sort_by(f64::total_cmp);
    let precision = match (widths.get(widths.len() / 2), widths.last()) {
        (Some(middle), Some(widest)) => format!(
            "{} of {} have an interval, ± {:.1} % in the middle and ± {:.1} % at the widest",
            widths.len(),
            many(all.len(), "case"),
            middle * 100.0,
            widest * 100.0
        ),
        _ => format!("none of {} has an interval", many(all.len(), "case")),
    };
    Some(
        format!("the budget was short, and runs had {percent:.0} % of their usual length: {precision}")
            .into(),
    )
}

/// What gave no number, each reason once.
pub fn skipped(report: &Report) -> Vec<Item> {
    reasons(report, false)
}

/// Why something was skipped, of the cases that have a figure or of the others.
fn reasons(report: &Report, have_figure: bool) -> Vec<Item> {
    let figures: HashSet<(usize, &CaseId)> = report
        .cases
        .iter()
        .filter(|case| case.summary.is_some())
        .map(|case| (case.source, &case.id))
        .collect();
    let asked =
        report.skipped.iter().filter(|skip| figures.contains(&(skip.source, &skip.what.case)) == have_figure);
    let each = asked.map(|skip| {
        let why = match skip.what.step.as_str() {
            "fit" => skip.what.why.clone(),
            step => format!("{} (step: {step})", skip.what.why),
        };
        (skip.source, &skip.what.case, why)
    });
    grouped(report, each)
}

fn not_reached(report: &Report) -> Vec<Item> {
    let skipped: HashSet<_> = report.skipped.iter().map(|skip| (skip.source, &skip.what.case)).collect();
    let planned = |case: &&Measured| {
        case.summary.is_some() || !case.runs.is_empty() || !skipped.contains(&(case.source, &case.id))
    };
    let all: Vec<&Measured> = report.cases.iter().filter(planned).collect();
    let is_never = |case: &&Measured| case.summary.is_none() && case.runs.is_empty();
    let never: Vec<&Measured> = all.iter().copied().filter(is_never).collect();
    let why = format!("{} of {}: the program ended before", never.len(), many(all.len(), "case"));
    let items = coverage::described(report, &never, &all);
    if never.is_empty() { Vec::new() } else { vec![Item::over(why, items)] }
}

/// Cases with the same reason, in the order in which the reasons first come. Reasons that differ in nothing but the payload
/// of their case, and in what to set for it (`name=number`), are one; it is told as it is for the largest, because a limit
/// raised for that one is raised for all.
fn grouped<'a>(report: &Report, each: impl Iterator<Item = (usize, &'a CaseId, String)>) -> Vec<Item> {
    let mut groups: Vec<(String, Vec<(usize, &CaseId)>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (source, id, why) in each {
        let why = plain(&why);
        let index =
            *known.entry(without_settings(&without_number(&why, id.payload_bytes))).or_insert(groups.len());
        match groups.get_mut(index) {
            None => groups.push((why, vec![(source, id)])),
            Some((told, ids)) => {
                if ids.iter().all(|(_, known)| known.payload_bytes < id.payload_bytes) {
                    *told = why;
                }
                ids.push((source, id));
            }
        }
    }
    let note = |(why, ids): (String, Vec<_>)| Item::over(why, described(report, &ids));
    groups.into_iter().map(note).collect()
}

/// A sentence with a blank in place of each number right behind a `=`.
fn without_settings(text: &str) -> String {
    let mut parts = text.split('=');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("=_");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'));
    }
    out
}

/// A sentence with a blank in place of each occurrence of a number, but not where it is a part of another number.
fn without_number(text: &str, number: u64) -> String {
    let number = number.to_string();
    let mut out = String::with_capacity(text.len());
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || c == '.');
    let mut rest = text;
    while let Some(at) = rest.find(&number) {
        let (before, after) = (&rest[..at], &rest[at + number.len()..]);
        out.push_str(before);
        out.push_str(if is_part(out.chars().last()) || is_part(after.chars().next()) {
            &number
        } else {
            "_"
        });
        rest = after;
    }
    out + rest
}

/// Names cases in few words: first sizes together, then places, then patterns.
fn described(report: &Report, ids: &[(usize, &CaseId)]) -> Vec<Item> {
    type Names<'a> = BTreeSet<&'a str>;
    type Places<'a> = BTreeSet<Place<'a>>;
    let mut sizes: BTreeMap<(String, &str, Place<'_>), BTreeSet<u64>> = BTreeMap::new();
    for (source, id) in ids {
        let key = (report.variant(*source, id), id.pattern.as_str(), id.place());
        sizes.entry(key).or_default().insert(id.payload_bytes);
    }
    let mut places: BTreeMap<(String, &str, BTreeSet<u64>), Places<'_>> = BTreeMap::new();
    for ((variant, pattern, place), sizes) in sizes {
        places.entry((variant, pattern, sizes)).or_default().insert(place);
    }
    let mut patterns: BTreeMap<(String, BTreeSet<u64>, Places<'_>), Names<'_>> = BTreeMap::new();
    for ((variant, pattern, sizes), places) in places {
        patterns.entry((variant, sizes, places)).or_default().insert(pattern);
    }
    let line = |((variant, sizes, places), patterns): ((_, _, Places<'_>), Names<'_>)| {
        let places: Vec<String> = places.iter().map(Place::to_string).collect();
        let patterns: Vec<&str> = patterns.into_iter().collect();
        let (sizes, places, patterns) = (coverage::size_list(&sizes), places.join(", "), patterns.join(", "));
        // A tool whose output was imported tells neither, and most tell no payload.
        let text = match (patterns.as_str(), sizes.as_str()) {
            (IMPORTED, "0 B") => variant,
            (IMPORTED, _) => format!("{variant}: {sizes}"),
            _ => format!("{variant}: {sizes} at {places} ({patterns})"),
        };
        plain(&text).into()
    };
    patterns.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{Comparison, Line, Reading, Skipped, Summary};

    use super::*;

    fn skip(id: &str, step: &str, why: &str) -> Line {
        Line::Skipped(Skipped { case: id.parse().unwrap(), step: step.into(), why: why.into() })
    }

    #[test]
    fn reasons_that_differ_only_in_the_payload_are_told_once_as_for_the_largest() {
        let limit = |bytes: u64| format!("{bytes} bytes exceed 8192; raise it with limit={}", bytes / 2);
        let skip = |name: &str, bytes| skip(&format!("stream/{name}/{bytes}/free"), "fit", &limit(bytes));
        let mut lines = [65536, 1 << 20, 10000].map(|bytes| skip("mq-posix", bytes)).to_vec();
        // Here 8192 is the payload, and what is left of the sentence is another.
        lines.push(skip("msg-sysv", 8192));
        let notes = skipped(&Report::from_reading(Reading { lines, problems: Vec::new() }));
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(texts, [limit(1 << 20), limit(8192)]);
        assert_eq!(notes[0].items[0].text, "mq-posix: 10000 B, 64 KiB, 1 MiB at free (stream)");
        assert_eq!(notes[0].items.len(), 1);
    }

    #[test]
    fn what_is_missing_of_a_case_with_a_figure_is_not_called_skipped() {
        let figure = Summary::new("roundtrip/pipe/1/free".parse().unwrap(), "ns/roundtrip", 6, 1000.0);
        let lines = vec![
            Line::Summary(figure),
            skip("roundtrip/pipe/1/free", "batches", "its system calls were not counted: no tracer"),
            skip("roundtrip/pipe/64/free", "fit", "no room"),
        ];
        let report = Report::from_reading(Reading { lines, problems: Vec::new() });
        let texts = |items: Vec<Item>| items.into_iter().map(|item| item.text).collect::<Vec<_>>();
        assert_eq!(texts(skipped(&report)), ["no room"]);
        let missing = ["its system calls were not counted: no tracer (step: batches)"];
        assert_eq!(texts(reasons(&report, true)), missing);
    }

    #[test]
    fn a_case_that_breaks_a_law_has_no_figure_and_is_in_no_comparison_and_the_law_is_told_once() {
        let of = |bytes: u64, void: &[&str]| {
            let id = format!("roundtrip/pipe/{bytes}/free").parse().unwrap();
            let void = void.iter().map(|why| (*why).to_owned()).collect();
            Line::Summary(Summary { void, ..Summary::new(id, "ns/roundtrip", 6, 1000.0) })
        };
        let comparison = |case: &str, baseline: &str| {
            let [case, baseline] = [case, baseline].map(|id| id.parse().unwrap());
            Line::Comparison(Comparison { case, baseline, speedup: 2.0, ci95: None, pairs: 6 })
        };
        let why = "law `placed`: client ran on CPU 1";
        let [one, other, third] = [1, 64, 4096].map(|bytes| format!("roundtrip/pipe/{bytes}/free"));
        let lines = vec![
            of(1, &[]),
            of(64, &[why]),
            of(4096, &[why]),
            skip(&third, "law", why),
            comparison(&one, &one),
            comparison(&one, &other),
            comparison(&third, &one),
        ];
        let report = Report::from_reading(Reading { lines, problems: Vec::new() });
        let figures: Vec<u64> = report
            .cases
            .iter()
            .filter(|case| case.summary.is_some())
            .map(|case| case.id.payload_bytes)
            .collect();
        assert_eq!((figures, report.comparisons.len(), report.is_void()), (vec![1], 1, true));
        let texts: Vec<String> = skipped(&report).into_iter().map(|item| item.text).collect();
        assert_eq!(texts, [format!("{why} (step: law)")]);
    }

    #[test]
    fn a_check_that_did_not_run_is_named_once_with_its_cases() {
        let of = |bytes: u64, checks: &[&str]| {
            let id = format!("roundtrip/pipe/{bytes}/free").parse().unwrap();
            let not_checked = checks.iter().map(|check| (*check).to_owned()).collect();
            Line::Summary(Summary { not_checked, ..Summary::new(id, "ns/roundtrip", 6, 1000.0) })
        };
        let (modes, trend) = ("two modes: fewer than 10 runs", "trend: fewer than 8 runs");
        let lines = vec![of(1, &[modes, trend]), of(64, &[modes]), of(4096, &[])];
        let report = Report::from_reading(Reading { lines, problems: Vec::new() });
        let texts: Vec<String> = not_checked(&report).into_iter().map(|item| item.text).collect();
        assert_eq!(texts, [format!("2 of 3 cases: {modes}"), format!("1 of 3 cases: {trend}")]);
    }

    #[test]
    fn a_number_is_blanked_only_where_it_stands_alone() {
        assert_eq!(without_number("5 of 15, 1.5, 50 and 5.", 5), "_ of 15, 1.5, 50 and 5.");
        assert_eq!(without_number("msgmax=55", 55), "msgmax=_");
        assert_eq!(without_number("none", 7), "none");
    }
}
