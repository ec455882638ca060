//! What tests inside a kernel handed over, as lines of a record.

use std::path::Path;

use weighbridge_guest::Error;
use weighbridge_record::Line;
use weighbridge_record::import::{About, Import, Input};

/// The results of the tests as lines of a record of this suite.
///
/// # Errors
/// They are damaged.
pub fn lines(results: &[u8], suite: &str) -> Result<Vec<Line>, Error> {
    let mut import = Import::default();
    let text = String::from_utf8_lossy(results);
    let problems = import
        .add(Input { path: Path::new("results"), text: &text })
        .map_err(|problem| Error::new(format!("the results of the tests cannot be used: {problem}")))?;
    if let Some(problem) = problems.first() {
        return Err(Error::new(format!("the results of the tests are damaged: {problem}")));
    }
    let importer = format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let mut lines = import.lines(&About { importer, ..About::default() });
    for line in &mut lines {
        if let Line::Header(header) = line {
            header.settings.insert("suite".into(), suite.into());
            // Of a file there is none: they came from a kernel that was just measured.
            header.settings.remove("imported-files");
            header.settings.remove("started");
            header.machine.missing.clear();
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_a_record_of_the_suite() {
        let text = "weighbridge-bench 1\nkernel 6.1.0\ntest kmalloc-reuse size=8\nsample op 10 500\nsample noop 10 20\nend\n";
        let lines = lines(text.as_bytes(), "kernel-slab").unwrap();
        let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
        assert_eq!(header.settings["suite"], "kernel-slab");
        let median = lines.iter().find_map(|line| match line {
            Line::Summary(summary) => Some(summary.median),
            _ => None,
        });
        assert_eq!(median, Some(50.0));
        let report = weighbridge_report::Report::from_reading(weighbridge_record::Reading {
            lines,
            problems: Vec::new(),
        });
        let text = weighbridge_report::markdown(&report);
        assert!(text.contains("| 8 | 68 | 65 | 50.0 |"), "{text}");
        assert!(super::lines(b"nonsense", "kernel-slab").is_err());
    }

    #[test]
    fn packets_have_their_share_of_the_budget_and_what_was_not_measured_its_reason() {
        let text = "weighbridge-bench 1\nkernel 6.1.0\ntest veth size=60\nsample packet 10 20000\nend\ntest nftables-drop size=60\n\
                    sample packet 10 40320\nend\nfailed iptables-drop size=60: cannot set a rule\n";
        let lines =
            weighbridge_guest::counted::in_instructions(lines(text.as_bytes(), "kernel-net").unwrap());
        let report = weighbridge_report::Report::from_reading(weighbridge_record::Reading {
            lines,
            problems: Vec::new(),
        });
        let text = weighbridge_report::markdown(&report);
        // 4032 instructions are 2.016 times the 2000 of the pair alone, and 20 times the 201.6 of 67.2 ns at 3 GHz.
        assert!(text.contains("| drop | nftables | 4032 | 2.016 | 20.0 |"), "{text}");
        assert!(text.contains("| drop | iptables | skipped |"), "{text}");
        assert!(text.contains("cannot set a rule"), "{text}");
        let json = weighbridge_report::json(&report);
        assert!(json.contains("10 Gbit/s Ethernet"), "the share is a line of the report: {json}");
    }
}
