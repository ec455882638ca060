//! `weighbridge guest suite`: one boot, and the tables of a suite: the kernel's allocator by our module, packets by its own ones, round trips
//! by the laboratory.

use weighbridge_guest::{Error, job, kernel_bench, net_bench};
use weighbridge_harness::plan::{Changes, Suite as CasesOfSuite};
use weighbridge_record::{CaseId, Line};

use super::machine::{self, Guest, Read};
use super::run::{self, measure};
use crate::commands::kernel_results::lines;
use crate::commands::measuring::interrupt;
use crate::guest_args::{Suite, SuiteName};
use crate::{Exit, Failure, output};

/// Runs of a round trip: two show that a figure repeats, and instructions have no noise that more would average.
const RUNS: u16 = 2;
/// Payloads of the round trips, in bytes.
const SIZES: [u64; 2] = [1, 4096];

pub fn suite(args: &Suite) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    if args.name == SuiteName::Slab && args.guest.machine.module.is_empty() {
        return Err(Failure::new(
            "the suite slab needs our module: build it with `make -C kernel KDIR=…` against the headers of the kernel that is \
             booted, and name its folder with --module kernel",
        ));
    }
    if args.runs.is_some() && args.name != SuiteName::Ipc {
        return Err(Failure::new("--runs is for the suite ipc: the tests of the others run once in a boot"));
    }
    let mut guest = Guest::new(&args.guest.kernel, &args.guest.append, &args.guest.machine)?;
    let in_kernel = |argument: &str| [argument, job::RECORD].map(String::from).to_vec();
    let (command, read): (Vec<String>, Read) = match args.name {
        SuiteName::Slab => (in_kernel(kernel_bench::ARGUMENT), |results| lines(results, "kernel-slab")),
        SuiteName::Net => {
            add_modules_for_packets(&mut guest)?;
            (in_kernel(net_bench::ARGUMENT), |results| lines(results, "kernel-net"))
        }
        SuiteName::Ipc => {
            let cases: Vec<String> = round_trips().iter().map(ToString::to_string).collect();
            (run::command(&cases, args.guest.machine.cpus, args.runs.unwrap_or(RUNS))?, of_round_trips)
        }
    };
    measure(&guest, &command, read, &args.output, &interrupt)
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

/// Every mechanism of the suite quick on one CPU, and a pipe that is polled before each read, with which kdbus was compared.
fn round_trips() -> Vec<CaseId> {
    let changes = Changes {
        sizes: Some(SIZES.into()),
        placements: Some(vec!["same-cpu".into()]),
        ..Changes::default()
    };
    let quick = CasesOfSuite::find("quick").expect("the default suite").cases(&changes);
    let polled = SIZES.map(|bytes| CaseId::new("roundtrip", "pipe", bytes, "same-cpu").with("wait", "poll"));
    quick.into_iter().filter(|id| id.pattern == "roundtrip").chain(polled).collect()
}

/// The record of the round trips, as one of this suite.
fn of_round_trips(record: &[u8]) -> Result<Vec<Line>, Error> {
    let mut lines = machine::record(record)?;
    for line in &mut lines {
        if let Line::Header(header) = line {
            header.settings.insert("suite".into(), "kernel-ipc".into());
            // The suite says them shorter.
            header.settings.remove("cases");
        }
    }
    Ok(lines)
}
