//! `weighbridge guest suite`: tests inside the kernel, by its module, in one boot.

use std::path::Path;

use weighbridge_guest::{Error, job, kernel_bench};
use weighbridge_import::{About, Import, Input};
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_record::Line;

use super::machine::Guest;
use super::run::{Output, measure};
use crate::guest_args::{Suite, SuiteName};
use crate::{Exit, Failure};

/// Boots with the module and runs its tests.
pub fn suite(args: &Suite) -> Result<Exit, Failure> {
    let SuiteName::Slab = args.name;
    // Before anything may start a thread, so that no thread has these signals open.
    let interrupt =
        Interrupt::install().map_err(|error| Failure::new(format!("Ctrl-C cannot be handled: {error}")))?;
    if args.machine.module.is_empty() {
        return Err(Failure::new(
            "the suite slab needs our module: build it with `make -C kernel KDIR=…` against the headers of the kernel that is \
             booted, and name its folder with --module kernel",
        ));
    }
    let guest = Guest::new(&args.kernel, &args.append, &args.machine)?;
    let command = [kernel_bench::ARGUMENT, job::RECORD].map(String::from);
    let output = Output { out: args.out.as_deref(), format: args.format, quiet: args.quiet };
    measure(&guest, &command, lines, &output, &interrupt)
}

/// The results of the module as lines of a record.
fn lines(results: &[u8]) -> Result<Vec<Line>, Error> {
    let mut import = Import::default();
    let text = String::from_utf8_lossy(results);
    let problems = import
        .add(Input { path: Path::new("results"), text: &text })
        .map_err(|problem| Error::new(format!("the results of the module cannot be used: {problem}")))?;
    if let Some(problem) = problems.first() {
        return Err(Error::new(format!("the results of the module are damaged: {problem}")));
    }
    let importer = format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let mut lines = import.lines(&About { importer, ..About::default() });
    for line in &mut lines {
        if let Line::Header(header) = line {
            header.settings.insert("suite".into(), "kernel-slab".into());
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
        let lines = lines(text.as_bytes()).unwrap();
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
        assert!(super::lines(b"nonsense").is_err());
    }
}
