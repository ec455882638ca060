//! `weighbridge check`: our numbers compared with those of other tools, measured now.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use globset::GlobBuilder;
use indicatif::ProgressBar;
use weighbridge_harness::machine;
use weighbridge_record::{End, Line, Writer};

use super::look_at_host;
use super::measuring::{Bench, header, interrupt, random_seed, warn_of_debug_build};
use crate::args::{Check, TextOrJson};
use crate::check::definition::Definition;
use crate::check::turns::{Compared, Turns};
use crate::check::verdict::{FEWEST_TURNS, Verdict, judge};
use crate::check::{Scope, existing, json, record};
use crate::destination::cannot_create;
use crate::values::spoken;
use crate::{Exit, Failure, output, progress};

/// Compares our numbers with theirs. A ratio outside its band is a finding with a code of its own, not a failure.
pub fn check(args: &Check) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let selected = select(&args.globs)?;
    let host = look_at_host()?;
    let record = match &args.out {
        None => None,
        Some(path) => {
            Some((path, Writer::create(path).map_err(|error| cannot_create(path, "--out", &error))?))
        }
    };
    let began = Instant::now();
    let header = header([("command", "check".to_owned())], machine::describe(&host), 0);
    let mut scope = Scope::new(&selected, &host);
    warn_beforehand(args);
    let coordinator = Bench { host: &host, interrupt: &interrupt, seed: random_seed() }.coordinator();
    let turns = usize::from(args.turns);
    let mut taking = Turns {
        host: &host,
        interrupt: &interrupt,
        coordinator,
        turns,
        budget: args.budget,
        limit: args.limit,
    };
    let mut told = Told::new(args.quiet, scope.compared.len(), turns);
    let mut tell = |turn: usize, compared: &Compared, used: Duration| told.update(turn, compared, used);
    let is_complete = taking.take(&mut scope.compared, &mut tell);
    told.clear();
    let elapsed_s = began.elapsed().as_secs_f64();
    let lines = record::lines(&scope, header, End { complete: is_complete, elapsed_s });
    // The record first: what was measured is kept before anything is shown.
    let kept = record.map_or(Ok(()), |(path, writer)| {
        keep(writer, &lines)
            .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", path.display())))
    });
    output::print(match args.format {
        TextOrJson::Text => record::text(&scope, lines),
        TextOrJson::Json => {
            let document = json::json(&scope, &lines);
            serde_json::to_string_pretty(&document).expect("plain data") + "\n"
        }
    })?;
    kept?;
    conclude(&scope, is_complete)
}

/// How far it is: one line that is drawn anew on a terminal, elsewhere a line for each turn. There is no thread that draws.
struct Told {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    turns: usize,
    next_turn: usize,
}

impl Told {
    fn new(is_quiet: bool, checks: usize, turns: usize) -> Told {
        let is_live = !is_quiet && io::stderr().is_terminal();
        let bar = is_live.then(|| progress::bar((checks * turns) as u64));
        Told { bar, is_quiet, turns, next_turn: 0 }
    }

    fn update(&mut self, turn: usize, compared: &Compared, used: Duration) {
        let text = format!("turn {} of {}, {} used", turn + 1, self.turns, spoken(used));
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{text}, {}", compared.definition.name));
            bar.inc(1);
        } else if !self.is_quiet && turn >= self.next_turn {
            self.next_turn = turn + 1;
            output::say(&text);
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn warn_beforehand(args: &Check) {
    warn_of_debug_build();
    if usize::from(args.turns) < FEWEST_TURNS {
        output::warn(&format!(
            "--turns {} gives no interval and so no verdict; {FEWEST_TURNS} turns do",
            args.turns
        ));
    }
}

fn conclude(scope: &Scope, is_complete: bool) -> Result<Exit, Failure> {
    if !is_complete {
        return Ok(Exit::Interrupted);
    }
    if scope.compared.iter().all(|compared| compared.pairs.is_empty()) {
        return Err(Failure::new("nothing was compared; the reasons are in the table"));
    }
    let failed = |compared: &Compared| compared.has_failed || compared.pairs.is_empty();
    let outside = |compared: &Compared| {
        judge(&compared.pairs, compared.definition.band)
            .is_some_and(|(_, verdict)| verdict == Verdict::Outside)
    };
    Ok(match () {
        () if scope.compared.iter().any(failed) => Exit::Incomplete,
        () if scope.compared.iter().any(outside) => Exit::Outside,
        () => Exit::Fine,
    })
}

/// The checks that a user asks for: a glob is compared with names of checks, a word also with names of tools.
fn select(globs: &[String]) -> Result<Vec<&'static Definition>, Failure> {
    let all: Vec<&Definition> = existing().collect();
    let mut chosen = vec![globs.is_empty(); all.len()];
    for glob in globs {
        let matcher = GlobBuilder::new(glob)
            .build()
            .map_err(|error| Failure::new(format!("`{glob}` is not a glob: {error}")))?
            .compile_matcher();
        let mut has_any = false;
        for (chosen, definition) in chosen.iter_mut().zip(&all) {
            let fits = matcher.is_match(definition.name) || glob == definition.tool.name;
            *chosen |= fits;
            has_any |= fits;
        }
        if !has_any {
            let names: Vec<&str> = all.iter().map(|definition| definition.name).collect();
            return Err(Failure::new(format!("`{glob}` selects no check; there are {}", names.join(", "))));
        }
    }
    Ok(all.into_iter().zip(chosen).filter_map(|(definition, chosen)| chosen.then_some(definition)).collect())
}

fn keep(mut writer: Writer, lines: &[Line]) -> io::Result<()> {
    lines.iter().try_for_each(|line| writer.write(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(globs: &[&str]) -> Vec<&'static str> {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        select(&globs).unwrap().iter().map(|definition| definition.name).collect()
    }

    #[test]
    fn checks_are_selected_by_tool_by_name_and_by_glob() {
        assert!(names(&[]).len() > names(&["perf"]).len());
        assert!(names(&["perf"]).iter().all(|name| name.starts_with("perf-")));
        assert_eq!(names(&["perf-sched-*"]), ["perf-sched-pipe", "perf-sched-messaging"]);
        assert_eq!(names(&["lmbench-lat_pipe", "perf-sched-pipe"]), ["perf-sched-pipe", "lmbench-lat_pipe"]);
    }

    #[test]
    fn a_name_that_does_not_exist_is_refused_with_those_that_do() {
        let why = select(&["netperf".to_owned()]).unwrap_err().to_string();
        assert!(why.contains("`netperf` selects no check") && why.contains("perf-sched-pipe"), "{why}");
    }
}
