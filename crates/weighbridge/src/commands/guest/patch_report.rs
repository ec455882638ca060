//! The comparison of two kernels as a text for a mailing list: what was compared, what differs, the figures, what they cannot say.

use std::fmt::Write;

use weighbridge_record::{CaseVerdict, Claims};

use super::code_size;
use super::machine::Guest;

/// In Markdown that reads well as plain text too.
pub fn markdown(guests: &[Guest<'_>], verdicts: &[CaseVerdict], claims: &Claims, boots: u16) -> String {
    let mut text = String::from("# Two kernels compared\n\n");
    for (name, guest) in ["A (before)", "B (after)"].into_iter().zip(guests) {
        let append = if guest.append.is_empty() { "none" } else { &guest.append };
        let _ = writeln!(
            text,
            "* {name}: {}\n  - `{}`\n  - parameters added: {append}",
            guest.kernel.name, guest.kernel.version
        );
    }
    let _ = writeln!(
        text,
        "* {boots} boots of each in random order; the boot is the unit; margin {:.2} %\n* made by `{}`\n",
        claims.margin * 100.0,
        crate::args::typed().join(" ")
    );
    text.push_str("## What differs besides the figures\n\n");
    list(&mut text, &claims.differences, "nothing that was looked at");
    text.push_str("\n## Before and after\n\n");
    text.push_str(&table(verdicts));
    let _ = writeln!(
        text,
        "\nOf {} claimed differences, at most {:.1} are expected to be chance.",
        claims.claimed, claims.expected_by_chance
    );
    let remarked =
        verdicts.iter().flat_map(|of| of.remarks.iter().map(move |remark| format!("{}: {remark}", of.case)));
    text.push('\n');
    list(&mut text, &remarked.collect::<Vec<_>>(), "of no case there is more to say");
    let [a, b] = guests else { unreachable!("a comparison has two sides") };
    let _ = writeln!(text, "\n## Code size\n\n{}", code_size::text(a, b));
    text.push_str("\n## What this cannot say\n\n");
    list(&mut text, &claims.remarks, "nothing is known that limits these figures");
    text
}

fn list(text: &mut String, sentences: &[String], none: &str) {
    for sentence in sentences {
        let _ = writeln!(text, "* {sentence}");
    }
    if sentences.is_empty() {
        let _ = writeln!(text, "* {none}");
    }
}

fn table(verdicts: &[CaseVerdict]) -> String {
    let mut text =
        String::from("| case | unit | before | after | difference | % | 95 % interval | verdict |\n");
    text.push_str("|---|---|---:|---:|---:|---:|---|---|\n");
    for of in verdicts {
        let figure = |value: Option<f64>| value.map_or("–".into(), figure);
        let difference = of.a_value.zip(of.b_value).map(|(a, b)| b - a);
        let percent = |ratio: f64| format!("{:+.2}", (ratio - 1.0) * 100.0);
        let cells = [
            of.case.to_string(),
            of.unit.clone(),
            figure(of.a_value),
            figure(of.b_value),
            difference.map_or("–".into(), signed),
            of.ratio.map_or("–".into(), percent),
            of.ci95.map_or("–".into(), |[low, high]| format!("{} to {}", percent(low), percent(high))),
            of.verdict.clone(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

fn figure(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn signed(value: f64) -> String {
    if value.abs() < 1000.0 { format!("{value:+.2}") } else { format!("{value:+.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_both_figures_their_difference_and_the_verdict() {
        let verdict: CaseVerdict = serde_json::from_value(serde_json::json!({
            "case": "solo/getppid/0/same-cpu", "a": "x", "b": "y", "ratio": 1.05, "ci95": [1.04, 1.06],
            "verdict": "regressed", "sets": 6, "failed_sets": 0, "margin": 0.002, "unit": "instructions/op",
            "a_value": 300.0, "b_value": 315.0
        }))
        .unwrap();
        let text = table(&[verdict]);
        assert!(
            text.ends_with(
                "| solo/getppid/0/same-cpu | instructions/op | 300.00 | 315.00 | +15.00 | +5.00 | +4.00 to +6.00 | regressed |\n"
            ),
            "{text}"
        );
    }
}
