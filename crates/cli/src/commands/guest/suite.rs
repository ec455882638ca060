//! `weighbridge guest suite`: tests of the kernel from within, in one boot: of its allocator by our module, of packets by its own ones.

use weighbridge_guest::{job, kernel_bench, net_bench};
use weighbridge_lab::interrupt::Interrupt;

use super::machine::{Guest, Read};
use super::run::{Output, measure};
use crate::commands::kernel_results::lines;
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
