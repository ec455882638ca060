//! `weighbridge guest compare`: two kernels, booted in random order, and the verdicts of `weighbridge compare` on their
//! instructions.

use std::path::{Path, PathBuf};
use std::time::Instant;

use weighbridge_guest::config;
use weighbridge_guest::net_bench::Shape;
use weighbridge_guest::qemu::Accel;
use weighbridge_harness::compare::{Rules, SideRecords, compare_records};
use weighbridge_harness::duet::Random;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::session::Ended;
use weighbridge_record::{CaseId, CaseVerdict, Claims, Header, Line, Reading, Writer};

use super::machine::{self, Guest, Read};
use super::{patch_report, run, suite};
use crate::commands::compare::{conclude, first_header, judged, rendered};
use crate::commands::measuring::{interrupt, random_seed, warn_of_debug_build};
use crate::destination::Destination;
use crate::guest_args::Compare;
use crate::values::CompareFormat;
use crate::{Exit, Failure, output};

/// The mechanism that is the loop of the harness alone.
const HARNESS: &str = "noop";
/// Boots a side below which chance alone gives the best order too often for a claim about one of many cases.
const MANY_CASES: u16 = 6;

pub fn compare(args: &Compare) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let cases = match args.suite {
        None => Some(cases(args)?),
        Some(_) => None,
    };
    let [a, b] = sides(&args.a, &args.b)?;
    let mut guests = [a.guest(&args.machine)?, b.guest(&args.machine)?];
    let mut jobs: Vec<(Vec<String>, Read)> = Vec::new();
    for guest in &mut guests {
        jobs.push(match (args.suite, &cases) {
            (Some(name), _) => suite::job(name, guest, args.runs, Shape::default())?,
            (None, cases) => (cases.clone().unwrap_or_default(), machine::record as Read),
        });
    }
    Destination::check(args.output.out.as_deref())?;
    warn_of_debug_build();
    machine::warn_of(&args.machine);
    if args.rounds < MANY_CASES {
        output::warn(&format!(
            "{} boots a side: where many cases are compared, no difference is sure with fewer than {MANY_CASES}, and all are inconclusive",
            args.rounds
        ));
    }
    let began = Instant::now();
    let seed = args.seed.unwrap_or_else(random_seed);
    let Some(boots) = booted(args, &guests, &jobs, seed, &interrupt)? else {
        output::say("interrupted: the guest was ended, and there is no comparison");
        return Ok(Exit::Interrupted);
    };
    let labels = [a, b].map(|side| side.label());
    let rules = Rules { margin: args.margin, fdr: args.fdr, any_difference: args.any_difference };
    let (header, verdicts, claims) = compared(boots, &guests, labels, rules, seed)?;
    let (lines, report) = judged(header, &verdicts, &claims, began.elapsed().as_secs_f64());
    // What was measured is shown, also where it cannot be kept.
    output::print(match args.output.format {
        CompareFormat::Markdown => {
            patch_report::document(&guests, &verdicts, &claims, args.rounds).markdown()
        }
        format => rendered(&report, format),
    })?;
    let record = run::keep(&lines, args.output.out.as_deref(), args.output.quiet)?;
    conclude(args.strict, Ended::Complete, &report, Some(&record))
}

/// What the guests run. The harness itself is compared where it is named only: it is no way to do what the others do.
fn cases(args: &Compare) -> Result<Vec<String>, Failure> {
    let mut command = run::command(&args.globs, args.machine.cpus, args.runs)?;
    if !args.globs.iter().any(|glob| glob.contains(HARNESS)) {
        command.retain(|word| word.parse::<CaseId>().map_or(true, |id| id.mechanism != HARNESS));
    }
    Ok(command)
}

/// One side, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub kernel: String,
    /// Modules of this side only.
    pub modules: Vec<PathBuf>,
    /// What is added to the kernel's command line.
    pub append: String,
}

impl Side {
    /// `KERNEL[,module=DIR]…[,append=PARAMETERS]`: parameters are last, because they may hold commas.
    fn read(text: &str) -> Side {
        let (front, append) = text.split_once(",append=").unwrap_or((text, ""));
        let mut parts = front.split(",module=");
        let kernel = parts.next().unwrap_or_default();
        Side { kernel: kernel.into(), modules: parts.map(PathBuf::from).collect(), append: append.into() }
    }

    pub fn label(&self) -> String {
        let modules = self.modules.iter().map(|path| format!("module={}", path.display()));
        let append = (!self.append.is_empty()).then(|| self.append.clone());
        std::iter::once(self.kernel.clone()).chain(modules).chain(append).collect::<Vec<_>>().join(" ")
    }

    /// The kernel in the machine that was typed, with the modules of this side too.
    pub fn guest<'a>(&self, machine: &'a crate::guest_args::Machine) -> Result<Guest<'a>, Failure> {
        let mut guest = Guest::new(&self.kernel, &self.append, machine)?;
        let added = self.modules.iter().try_for_each(|module| guest.add_modules_at(module));
        added.map(|()| guest).map_err(|error| super::failure(&error))
    }
}

/// Both sides. One that names no kernel has that of the other.
pub(super) fn sides(a: &str, b: &str) -> Result<[Side; 2], Failure> {
    let [mut a, mut b] = [a, b].map(Side::read);
    if a.kernel.is_empty() {
        a.kernel.clone_from(&b.kernel);
    } else if b.kernel.is_empty() {
        b.kernel.clone_from(&a.kernel);
    }
    if a.kernel.is_empty() {
        return Err(Failure::mistake(
            "neither side names a kernel; write --a KERNEL --b ',append=PARAMETERS'",
        ));
    }
    Ok([a, b])
}

/// Boots each side as often as asked, in blocks of one boot of each whose order is random. Nothing where the user has had enough.
fn booted(
    args: &Compare,
    guests: &[Guest<'_>],
    jobs: &[(Vec<String>, Read)],
    seed: u64,
    interrupt: &Interrupt,
) -> Result<Option<[SideRecords; 2]>, Failure> {
    let mut random = Random::new(seed);
    let mut records: [SideRecords; 2] = Default::default();
    let mut accel: Option<Accel> = None;
    for boot in 1..=args.rounds {
        let mut order = [0, 1];
        random.shuffle(&mut order);
        for side in order {
            let name = ["a", "b"][side];
            let Some(measured) = guests[side].boot(&jobs[side].0, jobs[side].1, interrupt.fd())? else {
                return Ok(None);
            };
            if *accel.get_or_insert(measured.accel) != measured.accel {
                return Err(Failure::new(
                    "one boot had a clock of its own and another counted instructions, which cannot be compared; name one with \
                     --accel",
                ));
            }
            if !args.output.quiet {
                let [_, seconds] = measured.seconds;
                output::say(&format!("boot {boot} of {}, side {name}: {seconds:.1} s", args.rounds));
            }
            if let Some(folder) = &args.keep {
                keep(folder, &format!("{name}-{boot}.jsonl"), &measured.lines)?;
            }
            let reading = Reading { lines: measured.lines, problems: Vec::new() };
            records[side].push((format!("{name}-{boot}"), reading));
        }
    }
    Ok(Some(records))
}

fn keep(folder: &Path, name: &str, lines: &[Line]) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| Writer::create(&path))
        .and_then(|mut writer| lines.iter().try_for_each(|line| writer.write(line)));
    written.map_err(|error| Failure::new(format!("cannot keep the record `{}`: {error}", path.display())))
}

/// The verdicts, with what differs between the kernels before they run in front of what differed while they ran.
fn compared(
    boots: [SideRecords; 2],
    guests: &[Guest<'_>],
    labels: [String; 2],
    rules: Rules,
    seed: u64,
) -> Result<(Header, Vec<CaseVerdict>, Claims), Failure> {
    let header = boots.iter().find_map(first_header).cloned();
    let mut header = header.ok_or_else(|| Failure::new("no guest sent a record"))?;
    header.seed = seed;
    header.settings.retain(|name, _| !["guest.kernel", "guest.append"].contains(&name.as_str()));
    header.settings.extend(["a", "b"].map(String::from).into_iter().zip(labels.clone()));
    let [a, b] = boots;
    let (mut verdicts, mut claims) = compare_records(a, b, rules, false).map_err(Failure::new)?;
    for verdict in &mut verdicts {
        [verdict.a, verdict.b] = labels.clone();
    }
    claims.differences.splice(0..0, config::differences(&guests[0].kernel, &guests[1].kernel));
    if header.machine.clock.counts_instructions() {
        // Nothing drifts in a machine whose clock is its instructions, so no hub is missed.
        claims.remarks.retain(|remark| !remark.contains("took turns with a hub"));
        claims.remarks.push(
            "instructions are counted, of the kernel and of the program: cache misses, waiting, and what an instruction costs \
             are not in these figures"
                .into(),
        );
    }
    Ok((header, verdicts, claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_kernel_with_modules_and_parameters_that_may_hold_commas() {
        let of = |a: &str, b: &str| sides(a, b).unwrap().map(|side| side.label());
        let [a, b] = of("old,append=slub_debug=F,kmalloc-64", "new");
        assert_eq!([&*a, &*b], ["old slub_debug=F,kmalloc-64", "new"]);
        let [a, b] = of("host,module=before", ",module=after,module=x.ko,append=mitigations=off");
        assert_eq!([&*a, &*b], ["host module=before", "host module=after module=x.ko mitigations=off"]);
        assert!(sides("", ",append=x").is_err());
    }
}
