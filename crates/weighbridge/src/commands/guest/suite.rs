//! `weighbridge guest suite`: one boot, and the tables of a suite: the kernel's allocator by our module, packets by its own ones, round trips
//! by the laboratory.

use weighbridge_guest::net_bench::{self, Shape};
use weighbridge_guest::{Error, job, kernel_bench};
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
    if args.runs.is_some() && args.name != SuiteName::Ipc {
        return Err(Failure::mistake(
            "--runs is for the suite ipc: the tests of the others run once in a boot",
        ));
    }
    if (args.frame.is_some() || args.flows.is_some()) && args.name != SuiteName::Net {
        return Err(Failure::mistake(
            "--frame and --flows are for the suite net, whose packets they describe",
        ));
    }
    let usual = Shape::default();
    let packets = Shape {
        frame_bytes: args.frame.unwrap_or(usual.frame_bytes),
        flows: args.flows.unwrap_or(usual.flows),
    };
    let is_without_module = args.guest.machine.module.is_empty();
    if args.name == SuiteName::Slab && is_without_module {
        return Err(needs_module());
    }
    let mut guest = Guest::new(&args.guest.kernel, &args.guest.added.append, &args.guest.machine)?;
    let (command, read) = job(args.name, &mut guest, args.runs.unwrap_or(RUNS), packets)?;
    measure(&guest, &command, read, &args.output, &interrupt)
}

fn needs_module() -> Failure {
    Failure::new(
        "the suite slab needs our module: build it with `make -C kernel KDIR=…` against the headers of the kernel that is \
         booted, and name its folder with --module kernel",
    )
}

/// What a guest runs for a suite, with the modules that this needs, and what makes lines of its results.
pub fn job(
    name: SuiteName,
    guest: &mut Guest<'_>,
    runs: u16,
    packets: Shape,
) -> Result<(Vec<String>, Read), Failure> {
    let in_kernel = |argument: &str| [argument, job::RECORD].map(String::from).to_vec();
    Ok(match name {
        SuiteName::Slab if guest.modules.is_empty() => return Err(needs_module()),
        SuiteName::Slab => (in_kernel(kernel_bench::ARGUMENT), |results| lines(results, "kernel-slab")),
        SuiteName::Net => {
            add_modules_for_packets(guest)?;
            let mut command = in_kernel(net_bench::ARGUMENT);
            command.push(packets.to_string());
            (command, |results| lines(results, "kernel-net"))
        }
        SuiteName::Ipc => {
            let cases: Vec<String> = round_trips().iter().map(ToString::to_string).collect();
            (run::command(&cases, guest.args.cpus, runs)?, of_round_trips)
        }
    })
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
