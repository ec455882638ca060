//! Comparisons as sentences.

use weighbridge_record::Comparison;

use crate::model::{Report, Sourced};
use crate::units::{significant, size};
use crate::words::{many, pattern, placement, plain};

/// How clear a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clarity {
    /// The interval of the ratio is on one side of 1.
    Clear,
    /// The interval includes 1.
    NoDifference,
    /// Too few pairs for an interval.
    TooFew,
}

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How clear it is.
    pub clarity: Clarity,
    /// `At 4 KiB on one CPU ring-futex is 1.3 × faster than pipe (interval 1.2–1.4).`
    pub sentence: String,
}

/// Findings by pattern, in the order of the record; clear ones first within a pattern.
pub fn findings(report: &Report) -> Vec<(String, Vec<Finding>)> {
    let mut groups: Vec<(String, Vec<Finding>)> = Vec::new();
    for comparison in &report.comparisons {
        let title = pattern(&comparison.what.case.pattern);
        let finding = finding(report, comparison);
        match groups.iter_mut().find(|(name, _)| *name == title) {
            Some((_, findings)) => findings.push(finding),
            None => groups.push((title, vec![finding])),
        }
    }
    for (_, findings) in &mut groups {
        findings.sort_by_key(|finding| finding.clarity);
    }
    groups
}

fn finding(report: &Report, comparison: &Sourced<Comparison>) -> Finding {
    let Comparison { case, baseline, speedup, ci95, pairs } = &comparison.what;
    let alike = case.pattern == baseline.pattern
        && case.payload_bytes == baseline.payload_bytes
        && case.placement == baseline.placement;
    let (place, left, right) = match alike {
        true => (
            place(case.payload_bytes, &case.placement),
            report.variant(comparison.source, case),
            report.variant(comparison.source, baseline),
        ),
        false => ("Of two cases".into(), case.to_string(), baseline.to_string()),
    };
    let (clarity, text) = match ci95 {
        Some([low, high]) if *low <= 1.0 && *high >= 1.0 => (
            Clarity::NoDifference,
            format!(
                "{place} there is no clear difference between {left} and {right} (speed ratio {}, interval {}–{}).",
                ratio(*speedup),
                ratio(*low),
                ratio(*high)
            ),
        ),
        Some([low, high]) if *speedup >= 1.0 => (
            Clarity::Clear,
            format!(
                "{place} {left} is {} × faster than {right} (interval {}–{}).",
                ratio(*speedup),
                ratio(*low),
                ratio(*high)
            ),
        ),
        // The same ratio told from the other side, so that the reader never divides.
        Some([low, high]) => (
            Clarity::Clear,
            format!(
                "{place} {left} is {} × slower than {right} (interval {}–{}).",
                ratio(1.0 / speedup),
                ratio(1.0 / high),
                ratio(1.0 / low)
            ),
        ),
        None => (
            Clarity::TooFew,
            format!(
                "{place} {left} and {right} were compared in {} only, too few for an interval (speed ratio {}).",
                many(*pairs as usize, "pair"),
                ratio(*speedup)
            ),
        ),
    };
    Finding { clarity, sentence: plain(&text) }
}

fn place(payload_bytes: u64, at: &str) -> String {
    let at = placement(at);
    match payload_bytes {
        0 => at[..1].to_uppercase() + &at[1..],
        bytes => format!("At {} {at}", size(bytes)),
    }
}

/// Two decimals near 1, where they matter; three digits elsewhere.
fn ratio(value: f64) -> String {
    if (0.1..10.0).contains(&value) { format!("{value:.2}") } else { significant(value) }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::CaseId;

    use super::*;

    fn sentence(speedup: f64, ci95: Option<[f64; 2]>) -> String {
        let case = |mechanism| CaseId::new("roundtrip", mechanism, 4096, "same-cpu");
        let what = Comparison { case: case("ring-futex"), baseline: case("pipe"), speedup, ci95, pairs: 4 };
        finding(&Report::default(), &Sourced { source: 0, what }).sentence
    }

    #[test]
    fn a_clear_ratio_says_which_side_is_faster() {
        assert_eq!(
            sentence(1.3, Some([1.2, 1.4])),
            "At 4 KiB on one CPU ring-futex is 1.30 × faster than pipe (interval 1.20–1.40)."
        );
        assert_eq!(
            sentence(0.5, Some([0.4, 0.8])),
            "At 4 KiB on one CPU ring-futex is 2.00 × slower than pipe (interval 1.25–2.50)."
        );
    }

    #[test]
    fn an_interval_that_includes_one_is_no_difference() {
        for ci95 in [[0.9, 1.1], [1.0, 1.2], [0.8, 1.0]] {
            let text = sentence(1.05, Some(ci95));
            assert!(text.contains("no clear difference between ring-futex and pipe"), "{text}");
        }
    }

    #[test]
    fn without_an_interval_nothing_is_claimed() {
        let text = sentence(3.0, None);
        assert!(text.contains("4 pairs only") && !text.contains("faster"), "{text}");
    }
}
