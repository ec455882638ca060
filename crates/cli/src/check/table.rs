//! The comparisons as text: a line of figures for each, and under it what was run and why the ratio is expected where it is.

use std::fmt::Write;

use textwrap::{Options, WordSeparator, WordSplitter, fill};
use weighbridge_report::{significant, with_unit};

use super::Scope;
use super::definition::Unequal;
use super::definitions::UNEQUAL;
use super::turns::Compared;
use super::verdict::{FEWEST_TURNS, Verdict, judge};

const HEAD: [&str; 7] = ["check", "theirs", "ours", "ours/theirs", "interval", "band", "verdict"];

/// The text, at most `width` columns wide where words can be broken.
pub fn table(scope: &Scope, width: usize) -> String {
    let mut out = String::new();
    if !scope.compared.is_empty() {
        figures(&mut out, &scope.compared, width);
    }
    for (definition, why) in &scope.refused {
        let _ = writeln!(out, "{}  not on this machine", definition.name);
        under(&mut out, &format!("{}: {why}", definition.case), width);
        out.push('\n');
    }
    if !scope.missing.is_empty() {
        out.push_str("Not installed, with the Debian package that has it\n");
        for (tool, names) in &scope.missing {
            under(&mut out, &format!("{}: {} ({})", tool.name, tool.package, names.join(", ")), width);
        }
    }
    if scope.is_everything {
        out.push_str("Not compared, because nothing of ours is equal\n");
        for Unequal { name, why } in UNEQUAL {
            under(&mut out, &format!("{name}: {why}"), width);
        }
    }
    out
}

fn figures(out: &mut String, all: &[Compared], width: usize) {
    let rows: Vec<[String; 7]> = all.iter().map(row).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(HEAD[column].len())
        })
        .collect();
    line(out, &HEAD.map(String::from), &widths);
    let _ = writeln!(out, "{}", "─".repeat(widths.iter().sum::<usize>() + 2 * (HEAD.len() - 1)));
    for (compared, row) in all.iter().zip(&rows) {
        line(out, row, &widths);
        for sentence in sentences(compared) {
            under(out, &sentence, width);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}\n", summary(all));
}

/// How many of each outcome: the one line for a reader in a hurry.
fn summary(all: &[Compared]) -> String {
    let of = |word: &str| all.iter().filter(|compared| compared.outcome() == word).count();
    let counts = ["inside", "outside", "inconclusive", "failed", "not measured"].map(|word| (of(word), word));
    let some = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    format!("{} compared: {}", all.len(), some.collect::<Vec<_>>().join(", "))
}

fn line(out: &mut String, cells: &[String; 7], widths: &[usize]) {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    let _ = writeln!(out, "{}", padded.join("  ").trim_end());
}

fn row(compared: &Compared) -> [String; 7] {
    let definition = compared.definition;
    let name = definition.name.to_owned();
    let none = || "–".to_owned();
    let [low, high] = definition.band;
    let band = format!("{low} to {high}");
    let (Some((ratio, _)), Some(medians)) = (judge(&compared.pairs, definition.band), compared.medians())
    else {
        return [name, none(), none(), none(), none(), band, compared.outcome().into()];
    };
    let [theirs, ours] = medians.map(|value| with_unit(definition.unit, value));
    let interval = ratio.interval.map_or_else(none, |interval| {
        format!("{} to {}", significant(interval.low), significant(interval.high))
    });
    [name, theirs, ours, significant(ratio.median), interval, band, compared.outcome().into()]
}

/// What stands under a line of figures.
fn sentences(compared: &Compared) -> Vec<String> {
    let definition = compared.definition;
    let mut sentences = vec![
        format!("`{}` beside {}", definition.command.join(" "), definition.case),
        format!("counts {}; {}", definition.meaning.counts, definition.meaning.peers),
        format!("band: {}", definition.because),
    ];
    match judge(&compared.pairs, definition.band) {
        Some((_, Verdict::Inside)) | None => {}
        Some((ratio, _)) if ratio.interval.is_none() => sentences.push(format!(
            "inconclusive: {} turns give no interval; {FEWEST_TURNS} do",
            compared.pairs.len()
        )),
        Some((_, Verdict::Outside)) => sentences.push(format!("known reasons: {}", definition.outside)),
        Some((_, Verdict::Inconclusive)) => {
            sentences.push("inconclusive: the interval reaches over an end of the band".into());
            sentences.push(format!("known reasons: {}", definition.outside));
        }
    }
    if let Some(why) = &compared.trouble {
        let turns = compared.pairs.len();
        sentences.push(format!("stopped after {turns} turn{}: {why}", if turns == 1 { "" } else { "s" }));
    }
    sentences
}

fn under(out: &mut String, text: &str, width: usize) {
    // Names of cases and options of commands have hyphens that nothing may be broken at.
    let options = Options::new(width)
        .initial_indent("    ")
        .subsequent_indent("      ")
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    let _ = writeln!(out, "{}", fill(text, options));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::definition::Definition;
    use crate::check::definitions;
    use weighbridge_lab::catalogue;
    use weighbridge_lab::host::Host;

    fn compared(name: &str, pairs: &[(f64, f64)]) -> Compared {
        let definition: &'static Definition =
            definitions::ALL.iter().find(|definition| definition.name == name).unwrap();
        let case = catalogue::prepare(&definition.case.parse().unwrap(), &Host::look().unwrap()).unwrap();
        let mut compared = Compared::new(definition, case, "/usr/bin/true".into());
        compared.pairs = pairs.to_vec();
        compared
    }

    #[test]
    fn a_ratio_inside_its_band_needs_no_excuse_and_one_outside_has_the_known_reasons() {
        let mut scope = Scope::default();
        scope.compared.push(compared("perf-sched-pipe", &[(5000.0, 5100.0); 6]));
        scope.compared.push(compared("lmbench-lat_pipe", &[(5000.0, 8000.0); 6]));
        let text = table(&scope, 100);
        let line = |name| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let inside = line("perf-sched-pipe");
        assert!(inside.contains("5.00 µs/roundtrip") && inside.contains("5.10 µs/roundtrip"), "{text}");
        assert!(inside.contains("1.02 to 1.02") && inside.ends_with("0.85 to 1.15  inside"), "{text}");
        assert!(line("lmbench-lat_pipe").ends_with("outside"), "{text}");
        assert!(text.contains("\n2 compared: 1 inside, 1 outside\n"), "{text}");
        assert_eq!(text.matches("known reasons").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    }

    #[test]
    fn what_failed_or_is_missing_is_there_with_the_reason() {
        let mut scope = Scope::default();
        let mut failed = compared("perf-sched-pipe", &[]);
        failed.trouble = Some("perf ended with exit status: 1: no".into());
        scope.compared.push(failed);
        scope.compared.push(compared("lmbench-lat_unix", &[(9000.0, 9000.0); 3]));
        let tool = definitions::ALL.last().unwrap().tool;
        scope.missing.push((tool, vec!["hackbench", "hackbench-pipe"]));
        let text = table(&scope, 100);
        assert!(text.contains("stopped after 0 turns: perf ended with exit status: 1: no"), "{text}");
        assert!(text.contains("3 turns give no interval; 6 do"), "{text}");
        assert!(text.contains("2 compared: 1 inconclusive, 1 not measured"), "{text}");
        assert!(text.contains("hackbench: rt-tests (hackbench, hackbench-pipe)"), "{text}");
    }
}
