//! What tests inside a kernel handed over, as lines of a record.

use std::path::Path;

use weighbridge_guest::Error;
use weighbridge_record::Line;
use weighbridge_record::import::{About, Import, Input};

/// The results of the tests as lines of a record of this suite.
pub fn lines(results: &[u8], suite: &str) -> Result<Vec<Line>, Error> {
    let mut import = Import::default();
    let input = Input::new(Path::new("results"), results);
    let problems = input.map_or_else(|problem| vec![problem], |input| import.add(input).problems);
    if let Some(problem) = problems.first() {
        return Err(Error::new(format!("the results of the tests are damaged: {problem}")));
    }
    let importer = format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let mut lines: Vec<Line> = import.into_lines(&About { importer, ..About::default() }).collect();
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
    use weighbridge_guest::counted::in_instructions;
    use weighbridge_report::{Report, json, markdown};

    fn report(lines: Vec<Line>) -> Report {
        Report::from_reading(weighbridge_record::Reading { lines, problems: Vec::new() })
    }

    #[test]
    fn results_become_a_record_of_the_suite_and_what_was_not_measured_has_its_reason() {
        let slab = b"weighbridge-bench 1\nkernel 6.1.0\ntest kmalloc-reuse size=8\nsample op 10 500\nsample noop 10 20\nend\n";
        let text = markdown(&report(lines(slab, "kernel-slab").unwrap()));
        // Without a counter there are no cycles beside the nanoseconds.
        assert!(text.contains("| 8 | 68 | 65 |  | 50.0 "), "{text}");
        assert!(lines(b"nonsense", "kernel-slab").is_err());
        let net = b"weighbridge-bench 1\nkernel 6.1.0\ntest veth size=60\nsample packet 10 20000\nend\ntest nftables-drop size=60\n\
                    sample packet 10 40160\nsample packet 10 40320\nsample packet 10 40480\nend\nfailed iptables-drop size=60: cannot set a rule\n";
        let report = report(in_instructions(lines(net, "kernel-net").unwrap()));
        // 4032 instructions are 2.016 times the 2000 of the pair alone, and 20 times the 201.6 of 67.2 ns at 3 GHz.
        for part in [
            "| drop | nftables | 4032 | −16.000 | +16.000 | 2.016 | 20.0 |",
            "| drop | iptables | skipped |",
            "cannot set a rule",
        ] {
            assert!(markdown(&report).contains(part), "{}", markdown(&report));
        }
        assert!(json(&report).contains("10 Gbit/s Ethernet"), "the share is a line of the report");
    }
}
