//! `weighbridge check`: our numbers compared with those of other tools, measured now.

use std::time::{Duration, Instant};

use globset::GlobBuilder;
use weighbridge_harness::machine;
use weighbridge_record::{End, Line, laws};

use super::look_at_host;
use super::measuring::{Bench, header, identify, interrupt, random_seed, warn_of_debug_build};
use crate::args::{Check, TextOrJson};
use crate::check::definition::Definition;
use crate::check::turns::{Compared, FEWEST_TURNS, Turns, Verdict};
use crate::check::{Scope, existing, record};
use crate::destination::{cannot_create, create_record};
use crate::progress::ProgressStyle;
use crate::values::spoken;
use crate::{Exit, Failure, output};

/// Compares our numbers with theirs. A ratio outside its band is a finding with a code of its own, not a failure.
pub fn check(args: &Check) -> Result<Exit, Failure> {
    let interrupt = interrupt()?;
    let selected = select(&args.globs)?;
    let host = look_at_host()?;
    let create = |path| create_record(path).map_err(|error| cannot_create(path, "--out", &error));
    let writer = args.out.as_deref().map(create).transpose()?;
    let began = Instant::now();
    let mut header = header([("command", "check".to_owned())], machine::describe(&host), 0);
    identify(&mut header);
    let mut scope = Scope::new(&selected, &host);
    warn_of_debug_build();
    let turns = usize::from(args.rounds);
    if turns < FEWEST_TURNS {
        output::warn(&format!(
            "--rounds {turns} gives no interval and so no verdict; {FEWEST_TURNS} turns do"
        ));
    }
    let mut taking = Turns {
        host: &host,
        interrupt: &interrupt,
        coordinator: Bench { host: &host, interrupt: &interrupt, seed: random_seed(), is_watched: false }
            .coordinator(),
        turns,
        budget: args.budget,
        limit: args.timeout,
    };
    let mut progress = ProgressStyle::new(args.quiet);
    let all = (scope.compared.len() * turns) as f64;
    let mut taken = 0;
    let mut tell = |turn: usize, compared: &Compared, used: Duration| {
        let text = format!("turn {} of {turns}, {} used", turn + 1, spoken(used));
        taken += 1;
        progress.draw(f64::from(taken) / all, || format!("{text}, {}", compared.definition.name));
        progress.say(turn as u32, Duration::ZERO, || text);
    };
    let is_complete = taking.take(&mut scope.compared, &mut tell);
    progress.clear();
    let elapsed_s = began.elapsed().as_secs_f64();
    let lines = record::lines(&scope, header, End { complete: is_complete, elapsed_s });
    // The record first: what was measured is kept before anything is shown.
    let kept = writer.zip(args.out.as_ref()).map_or(Ok(()), |(mut writer, path)| {
        lines
            .iter()
            .try_for_each(|line| writer.write(line))
            .map_err(|error| Failure::new(format!("cannot write to `{}`: {error}", path.display())))
    });
    let is_void = lines.iter().any(|line| matches!(line, Line::Skipped(of) if of.step == laws::STEP));
    output::print(match args.format {
        TextOrJson::Json => output::json(&record::json(&scope, &lines)),
        TextOrJson::Text => record::text(&scope, lines),
    })?;
    kept?;
    if is_void {
        return Ok(Exit::Undecided);
    }
    conclude(&scope.compared, is_complete)
}

fn conclude(all: &[Compared], is_complete: bool) -> Result<Exit, Failure> {
    if !is_complete {
        return Ok(Exit::Interrupted);
    }
    if all.iter().all(|compared| compared.pairs.is_empty()) {
        return Err(Failure::new("nothing was compared; the reasons are in the table"));
    }
    if all.iter().any(|compared| compared.has_failed || compared.pairs.is_empty()) {
        return Ok(Exit::Failed);
    }
    let is_outside = all.iter().any(|compared| compared.verdict() == Verdict::Outside);
    Ok(if is_outside { Exit::Outside } else { Exit::Fine })
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
        let fits = |of: &&Definition| matcher.is_match(of.name) || glob == of.tool.name;
        if !all.iter().any(fits) {
            let names: Vec<&str> = all.iter().map(|definition| definition.name).collect();
            return Err(Failure::mistake(format!(
                "`{glob}` selects no check; there are {}",
                names.join(", ")
            )));
        }
        chosen.iter_mut().zip(&all).for_each(|(chosen, definition)| *chosen |= fits(definition));
    }
    Ok(all.into_iter().zip(chosen).filter_map(|(definition, chosen)| chosen.then_some(definition)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_selected_by_tool_by_name_and_by_glob_and_others_are_refused() {
        crate::register();
        for (globs, wanted) in [
            (&["hackbench"][..], &["hackbench", "hackbench-pipe"][..]),
            (&["perf-sched-*"], &["perf-sched-pipe", "perf-sched-messaging"]),
            (&["lmbench-lat_pipe", "perf-sched-pipe"], &["perf-sched-pipe", "lmbench-lat_pipe"]),
        ] {
            let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
            let names: Vec<&str> = select(&globs).unwrap().iter().map(|of| of.name).collect();
            assert_eq!(names, wanted);
        }
        let why = select(&["netperf".to_owned()]).unwrap_err().to_string();
        assert!(why.contains("`netperf` selects no check") && why.contains("perf-sched-pipe"), "{why}");
    }
}
