//! `weighbridge guest suite`: tests of the kernel from within, in one boot: of its allocator by our module, of packets by its own ones.

use std::path::Path;

use weighbridge_guest::{Error, job, kernel_bench, net_bench};
use weighbridge_import::{About, Import, Input};
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_record::Line;

use super::machine::{Guest, Read};
use super::run::{Output, measure};
use crate::guest_args::{Suite, SuiteName};
use crate::{Exit, Failure, output};

/// Boots with the modules and runs the tests.
pub fn suite(args: &Suite) -> Result<Exit, Failure> {
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    if args.name == SuiteName::Slab && args.machine.module.is_empty() {
        return Err(Failure::new(
            "the suite slab needs our module: build it with `make -C kernel KDIR=…` against the headers of the kernel that is \
             booted, and name its folder with --module kernel",
        ));
    }
    let mut guest = Guest::new(&args.kernel, &args.append, &args.machine)?;
    let (argument, read): (_, Read) = match args.name {
        SuiteName::Slab => (kernel_bench::ARGUMENT, |results| lines(results, "kernel-slab")),
        SuiteName::Net => {
            add_modules_for_packets(&mut guest)?;
            (net_bench::ARGUMENT, |results| lines(results, "kernel-net"))
        }
    };
    let command = [argument, job::RECORD].map(String::from);
    let output = Output { out: args.out.as_deref(), format: args.format, quiet: args.quiet };
    measure(&guest, &command, read, &output, &interrupt)
}

/// Those of the kernel itself. A packet filter that it lacks leaves out its tests only.
fn add_modules_for_packets(guest: &mut Guest<'_>) -> Result<(), Failure> {
    // What these need comes before them.
    for name in net_bench::MODULES_IF_THERE {
        let _ = guest.add_module(name);
    }
    for name in net_bench::MODULES {
        guest.add_module(name).map_err(|error| super::failure(&error))?;
    }
    for (name, tests) in net_bench::FILTER_MODULES {
        if let Err(error) = guest.add_module(name) {
            output::warn(&format!("without {tests}: {error}"));
        }
    }
    Ok(())
}

/// The results of the tests as lines of a record.
fn lines(results: &[u8], suite: &str) -> Result<Vec<Line>, Error> {
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
            // Of a file there is none: they came from the guest that was just booted.
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
