//! `weighbridge run --suite kernel-slab`: our kernel module's tests on the kernel that runs here, where its owner may load modules.

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_os::process::poll;
use weighbridge_guest::{kernel_bench, modules};
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::machine;
use weighbridge_record::{End, Line, Reading};
use weighbridge_report::Report;

use super::measuring::{self, Files, interrupt};
use super::{kernel_results, look_at_host, run};
use crate::args::{KERNEL_SLAB as NAME, Run, Selection};
use crate::destination::Destination;
use crate::{Exit, Failure, output};

/// Runs of each test: as many as an interval needs.
const RUNS: u16 = 6;
/// After this time no further round is begun.
const BUDGET: Duration = Duration::from_secs(10 * 60);

/// The module while it is loaded by us.
struct Loaded;

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Err(why) = modules::unload(kernel_bench::MODULE) {
            output::warn(&format!("{why}; `rmmod {}` does so", kernel_bench::MODULE));
        }
    }
}

/// Loads the module, runs its tests in rounds, and takes it out again.
pub fn run(args: &Run) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let Selection { globs, sizes, place, wait, set, .. } = &args.selection;
    if !(globs.is_empty() && sizes.is_none() && place.is_empty() && wait.is_empty() && set.is_empty()) {
        return Err(Failure::mistake(format!(
            "the suite {NAME} is measured as a whole: it takes no cases, sizes or axes"
        )));
    }
    let Some(module) = &args.module else {
        return Err(Failure::mistake(format!(
            "the suite {NAME} needs our module: build it with `make -C kernel` against the headers of this kernel, and name its \
             folder with --module kernel; without root, `weighbridge guest suite slab` measures in a guest"
        )));
    };
    if args.dry_run {
        output::print(kernel_bench::plan(kernel_bench::TIMED_BATCHES).join("\n") + "\n")?;
        return Ok(Exit::Fine);
    }
    let _loaded = load(module)?;
    let host = look_at_host()?;
    let output = &args.output;
    let mut destination = Destination::create(output.of.out.as_deref(), output.html.as_ref())?;
    let began = Instant::now();
    let remove = || _ = std::fs::remove_file(&destination.record);
    let (text, complete) = rounds(args, &interrupt, began).inspect_err(|_| remove())?;
    if text.is_empty() {
        remove();
        output::say("interrupted: no test was run whole, and there is no record");
        return Ok(Exit::Interrupted);
    }
    let lines = kernel_results::lines(text.as_bytes(), NAME).map_err(Failure::of)?;
    let mut reading = Reading { lines, problems: Vec::new() };
    for line in &mut reading.lines {
        match line {
            Line::Header(header) => {
                let seed = header.seed;
                **header =
                    measuring::header(std::mem::take(&mut header.settings), machine::describe(&host), seed);
            }
            Line::End(end) => *end = End { complete, elapsed_s: began.elapsed().as_secs_f64() },
            _ => {}
        }
    }
    destination.write(&reading.lines)?;
    let Destination { record, page, is_in_store, .. } = destination;
    let report = Report::from_reading(reading);
    let files = Files { record, page, is_in_store, is_quiet: output.of.quiet };
    files.show(&report, run::rendered(&report, output.of.format)).check()?;
    Ok(if complete { Exit::Fine } else { Exit::Interrupted })
}

/// Nothing where the module was there before: then its owner takes it out.
fn load(module: &Path) -> Result<Option<Loaded>, Failure> {
    let files = modules::at(module).map_err(Failure::of)?;
    let is_ours = |file: &&std::path::PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(kernel_bench::MODULE))
    };
    let Some(file) = files.iter().find(is_ours) else {
        let (name, folder) = (kernel_bench::MODULE, module.display());
        return Err(Failure::new(format!("there is no {name}.ko in `{folder}`; `make -C kernel` builds it")));
    };
    Ok(modules::load(file, "").map_err(Failure::new)?.then_some(Loaded))
}

/// The results of all rounds that came to their end, and whether these were all.
fn rounds(args: &Run, interrupt: &Interrupt, began: Instant) -> Result<(String, bool), Failure> {
    let is_interrupted =
        || poll(&[interrupt.fd()], Some(Duration::ZERO)).is_ok_and(|ready| ready.first() == Some(&true));
    let (mut text, budget) = (String::new(), args.effort.budget.unwrap_or(BUDGET));
    let runs = args.effort.max_runs.min(RUNS);
    for round in 1..=runs {
        if round > 1 && began.elapsed() > budget {
            output::warn(&format!("the budget was used up after {} of {runs} rounds", round - 1));
            break;
        }
        if !args.output.of.quiet {
            output::say(&format!("round {round} of {runs}"));
        }
        match kernel_bench::round(kernel_bench::TIMED_BATCHES, is_interrupted).map_err(Failure::new)? {
            Some(results) => text += &results,
            None => return Ok((text, false)),
        }
    }
    Ok((text, true))
}
