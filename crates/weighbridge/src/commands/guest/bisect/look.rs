//! One commit: checked out, built, booted, counted.

use std::path::Path;

use weighbridge_harness::interrupt::Interrupt;
use weighbridge_record::{CaseId, Functions, FunctionsCompared, Line};

use super::super::machine::{self, Guest};
use super::Change;
use crate::Failure;
use crate::check::external::{Running, Stopped};
use crate::guest_args::Bisect;
use crate::repository::Repository;

/// Functions that are named.
const MOST_NAMED: usize = 5;

/// What a commit counts.
#[derive(Debug)]
pub struct Count {
    pub count: f64,
    pub unit: String,
    /// By function, or why not, where that was asked for.
    functions: Option<Result<Box<Functions>, String>>,
}

/// What became of a commit.
#[derive(Debug)]
pub enum Look {
    Interrupted,
    NotBuilt(String),
    /// It hangs, panics, or its case gave no number.
    NotBooted(String),
    Counted(Count),
}

/// Builds and boots.
pub struct Kernels<'a> {
    pub args: &'a Bisect,
    /// What the guest runs.
    pub command: Vec<String>,
    pub repository: &'a Repository,
    pub interrupt: &'a Interrupt,
}

impl Kernels<'_> {
    /// Measures a commit. A failure is one of this program or of git; what is wrong with the commit is a [`Look`].
    pub fn look(&self, commit: &str, by_function: bool) -> Result<Look, Failure> {
        if self.interrupt.take().map_err(Failure::of)? {
            return Ok(Look::Interrupted);
        }
        self.repository.check_out(commit)?;
        match self.build()? {
            Ok(()) => {}
            Err(Stopped::Interrupted) => return Ok(Look::Interrupted),
            Err(Stopped::Failed(why)) => return Ok(Look::NotBuilt(why)),
        }
        let kernel = self.repository.folder.join(&self.args.kernel);
        let mut guest =
            match Guest::new(&kernel.display().to_string(), &self.args.added.append, &self.args.machine) {
                Ok(guest) => guest,
                Err(why) => return Ok(Look::NotBuilt(why.to_string())),
            };
        let refused =
            by_function.then(|| guest.count_functions().err()).flatten().map(|error| error.to_string());
        let measured = match guest.boot(&self.command, machine::record, self.interrupt.fd()) {
            Ok(Some(measured)) => measured,
            Ok(None) => return Ok(Look::Interrupted),
            Err(why) => return Ok(Look::NotBooted(why.to_string())),
        };
        let Ok(case) = self.args.case.parse::<CaseId>() else {
            return Err(Failure::mistake(format!("`{}` is not a case", self.args.case)));
        };
        let summary = measured.lines.iter().find_map(|line| match line {
            Line::Summary(summary) if summary.case == case => Some(summary),
            _ => None,
        });
        let Some(summary) = summary else {
            let why = measured.lines.iter().find_map(|line| match line {
                Line::Skipped(skipped) if skipped.case == case => Some(skipped.why.as_str()),
                _ => None,
            });
            return Ok(Look::NotBooted(format!(
                "gave no number: {}",
                why.unwrap_or("the record has no reason")
            )));
        };
        let functions = by_function.then(|| match refused {
            Some(why) => Err(why),
            None => functions(&measured.lines)
                .ok_or_else(|| "the record of the guest has no functions".to_owned()),
        });
        Ok(Look::Counted(Count { count: summary.median, unit: summary.unit.clone(), functions }))
    }

    /// Runs the command of the user, and ends everything that it leaves behind.
    fn build(&self) -> Result<Result<(), Stopped>, Failure> {
        let cpus = causeway_os::sched::allowed_cpus().map_err(Failure::of)?;
        let folder = self.repository.folder.display().to_string();
        let words = ["-c", "cd \"$1\" && eval \"$2\"", "build", &folder, &self.args.build].map(str::to_owned);
        let limit = self.args.build_timeout;
        let running = Running::start(Path::new("/bin/sh"), &words, &cpus, limit, self.interrupt);
        Ok(running.and_then(Running::finish).map(drop))
    }
}

fn functions(lines: &[Line]) -> Option<Box<Functions>> {
    lines.iter().find_map(|line| match line {
        Line::Functions(functions) => Some(functions.clone()),
        _ => None,
    })
}

/// The functions that changed most from the first to the second, or why that is not known.
pub fn changes(counts: &[Count; 2]) -> Result<Vec<Change>, String> {
    let of = |count: &Count| match &count.functions {
        Some(Ok(functions)) => Ok(functions.clone()),
        Some(Err(why)) => Err(why.clone()),
        None => Err("they were not counted".into()),
    };
    let [before, after] = [of(&counts[0])?, of(&counts[1])?];
    let compared = FunctionsCompared::new([("parent", &before), ("commit", &after)]);
    let change = |of: &weighbridge_record::FunctionChange| Change {
        function: of.function.clone(),
        instructions: of.instructions,
    };
    Ok(compared.functions.iter().take(MOST_NAMED).map(change).collect())
}
