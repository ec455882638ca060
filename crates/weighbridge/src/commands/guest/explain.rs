//! `weighbridge guest explain`: which functions of the kernel execute the instructions of an operation; of two cases or two kernels, in which
//! they differ.

use std::path::{Path, PathBuf};

use weighbridge_record::{CaseId, Functions, FunctionsCompared, Line, Reading};
use weighbridge_report::{self as report, Report};

use super::machine::{self, Guest};
use super::{compare, run};
use crate::args::PROFILE;
use crate::commands::measuring::interrupt;
use crate::destination::{Destination, remove, write_new};
use crate::guest_args::Explain;
use crate::{Exit, Failure, output};

/// Boots once for each side, and prints what its functions executed.
pub fn explain(args: &Explain) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let sides = sides(args)?;
    Destination::check(args.output.out.as_deref())?;
    let folded: Vec<PathBuf> = match &args.folded {
        Some(file) => [file.clone(), of_b(file)].into_iter().take(sides.len()).collect(),
        None => Vec::new(),
    };
    for file in folded.iter().chain(&args.html) {
        write(file, &[])?;
        remove(file)?;
    }
    if PROFILE == "debug" {
        output::warn(
            "this is a debug build: the instructions of the kernel are those of any build, and those in user mode mean nothing; build with --release",
        );
    }
    let mut boots = Vec::new();
    for side in &sides {
        let Some(measured) = side.guest.boot(&side.command, machine::record, interrupt.fd())? else {
            output::say("interrupted: the guest was ended, and there is no record");
            return Ok(Exit::Interrupted);
        };
        if !args.output.quiet {
            output::say(&format!("{}: {}", side.label, run::timing(&side.guest, &measured)));
        }
        boots.push(measured.lines);
    }
    let (lines, functions) = match <[_; 2]>::try_from(boots) {
        Ok(boots) => compared(boots, &sides)?,
        Err(mut boots) => {
            let lines = boots.pop().expect("a boot of each side");
            let functions = functions(&lines)?.clone();
            (lines, vec![functions])
        }
    };
    let shown = Report::from_reading(Reading { lines: lines.clone(), problems: Vec::new() });
    // What was measured is shown, also where it cannot be kept.
    output::print(super::super::run::rendered(&shown, args.output.format))?;
    run::keep(&lines, args.output.out.as_deref(), args.output.quiet)?;
    for (file, of) in folded.iter().zip(&functions) {
        write(file, of.folded().as_bytes())?;
    }
    if let Some(page) = &args.html {
        write(page, report::html(&shown).as_bytes())?;
    }
    Ok(Exit::Fine)
}

/// What is booted, with what it measures.
struct Side<'a> {
    guest: Guest<'a>,
    command: Vec<String>,
    /// In what it differs from the other.
    label: String,
    /// Is it the kernel in which they differ?
    is_kernel: bool,
}

/// One side; or two, which differ in the case or in the kernel.
fn sides(args: &Explain) -> Result<Vec<Side<'_>>, Failure> {
    let side = |of: &compare::Side, case: &String, label: String, is_kernel| {
        let mut guest = of.guest(&args.machine)?;
        guest.count_functions().map_err(|error| super::failure(&error))?;
        Ok(Side { guest, command: command(case, args)?, label, is_kernel })
    };
    match (&args.a, &args.b, &args.cases[..]) {
        (Some(_), Some(_), [_, _]) => {
            Err(Failure::mistake("two kernels are compared by one case, and two cases on one kernel"))
        }
        (Some(a), Some(b), [case]) => {
            compare::sides(a, b)?.iter().map(|of| side(of, case, of.label(), true)).collect()
        }
        _ => {
            let (kernel, append) = (args.kernel.clone().unwrap_or_default(), args.added.append.clone());
            let of = compare::Side { kernel, append, modules: Vec::new() };
            args.cases.iter().map(|case| side(&of, case, case.clone(), false)).collect()
        }
    }
}

fn command(case: &str, args: &Explain) -> Result<Vec<String>, Failure> {
    command_of_one(case, args.machine.cpus, args.runs)
}

/// The command that measures one case in a guest.
pub(super) fn command_of_one(case: &str, cpus: u32, runs: u16) -> Result<Vec<String>, Failure> {
    let command = run::command(&[case.to_owned()], cpus, runs)?;
    match command.iter().rev().take_while(|word| word.parse::<CaseId>().is_ok()).count() {
        1 => Ok(command),
        cases => Err(Failure::mistake(format!(
            "`{case}` means {cases} cases, and one is explained in one boot; write it as roundtrip/pipe/1/same-cpu, and `weighbridge plan` lists those \
             that there are"
        ))),
    }
}

/// The lines of a comparison, and the functions of both sides.
fn compared(boots: [Vec<Line>; 2], sides: &[Side<'_>]) -> Result<(Vec<Line>, Vec<Functions>), Failure> {
    let mut both = Vec::new();
    for (lines, side) in boots.iter().zip(sides) {
        let of = functions(lines)?.clone();
        both.push(Functions { kernel: side.is_kernel.then(|| side.label.clone()), ..of });
    }
    let [a, b] = [0, 1].map(|index| (sides[index].label.as_str(), &both[index]));
    if a.1.unit != b.1.unit {
        return Err(Failure::new(format!(
            "`{}` is measured in {}, and `{}` in {}: their functions cannot be compared",
            a.0, a.1.unit, b.0, b.1.unit
        )));
    }
    let compared = FunctionsCompared::new([a, b]);
    let [first, _] = boots;
    let of_record = |is: fn(&Line) -> bool| first.iter().filter(move |line| is(line)).cloned();
    let lines = of_record(|line| matches!(line, Line::Header(_)))
        .chain(both.iter().cloned().map(|of| Line::Functions(Box::new(of))))
        .chain([Line::FunctionsCompared(Box::new(compared))])
        .chain(of_record(|line| matches!(line, Line::End(_))))
        .collect();
    Ok((lines, both))
}

fn functions(lines: &[Line]) -> Result<&Functions, Failure> {
    let found = lines.iter().find_map(|line| match line {
        Line::Functions(functions) => Some(&**functions),
        _ => None,
    });
    found.ok_or_else(|| Failure::new("the record of the guest has no functions"))
}

/// Where the call stacks of side B go.
fn of_b(folded: &Path) -> PathBuf {
    let mut name = folded.as_os_str().to_owned();
    name.push(".b");
    name.into()
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_new(file, bytes).map_err(|error| {
        Failure::new(format!("cannot create `{}`: {error}; name another file", file.display()))
    })
}
