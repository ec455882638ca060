//! What the kernel does while a case runs: cases observed, two of them compared, and what can be used to look.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use weighbridge_lab::catalogue::{self, Refusal};
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::Coordinator;
use weighbridge_lab::host::Host;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::session::{Ended, Sink};
use weighbridge_observe::difference::difference;
use weighbridge_observe::means::{Probe, Probes, Status};
use weighbridge_observe::{Observed, Observer, Outcome, Settings, expected};
use weighbridge_record::{CaseId, Line};

use crate::values::{ExplainFormat, spoken};
use crate::{Exit, Failure, output};

/// How a case is observed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Observation")]
pub struct ObserveArgs {
    /// Show what can be used to look here, and which right or setting would allow the rest; measure nothing
    #[arg(long)]
    pub means: bool,
    /// Observe this case and the one of --b, and compare them
    #[arg(long, value_name = "CASE", requires = "b", conflicts_with_all = ["globs", "suite"])]
    pub a: Option<CaseId>,
    /// The case that is compared with that of --a
    #[arg(long, value_name = "CASE", requires = "a")]
    pub b: Option<CaseId>,
    /// Rounds of an unobserved run and one with each means; fewer than 6 give no interval of the cost of looking [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,
    /// Write all stacks to this file, which must not exist yet, for tools that draw flame graphs
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
}

impl ObserveArgs {
    /// Rounds of each case.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(8)
    }

    /// Makes sure of the file for the stacks before anything is measured.
    ///
    /// # Errors
    /// It is there already.
    pub fn check(&self) -> Result<(), Failure> {
        match self.folded.as_deref().filter(|file| file.exists()) {
            Some(file) => {
                Err(Failure::new(format!("--folded: `{}` exists already; name another file", file.display())))
            }
            None => Ok(()),
        }
    }

    /// The two cases that are to be compared, if that is asked for.
    ///
    /// # Errors
    /// One of them does not exist, or has no place on this machine.
    pub fn sides(&self, host: &Host) -> Result<Option<Vec<Prepared>>, Failure> {
        let (Some(a), Some(b)) = (&self.a, &self.b) else { return Ok(None) };
        let prepare = |id: &CaseId| {
            catalogue::prepare(id, host).map_err(|refusal| match refusal {
                Refusal::NotHere(why) => Failure::new(format!("`{id}` cannot run here: {why}")),
                Refusal::NoSuchCase(why) => Failure::new(format!("no case `{id}`: {why}")),
            })
        };
        [a, b].into_iter().map(prepare).collect::<Result<_, _>>().map(Some)
    }
}

/// Tries every means on the first of the measured CPUs.
fn probes(host: &Host, program: &Path) -> Probes {
    Probes::of(host.measured_cpus.first().copied().unwrap_or(0), program)
}

/// Shows what can be used to look. `program` is this program.
///
/// # Errors
/// Standard output cannot be written.
pub fn means(host: &Host, program: &Path, format: ExplainFormat) -> Result<Exit, Failure> {
    let probes = probes(host, program);
    output::print(match format {
        ExplainFormat::Table => text(&probes.all),
        ExplainFormat::Markdown => markdown(&probes.all),
        ExplainFormat::Json => {
            let all: Vec<_> = probes.all.iter().map(json).collect();
            serde_json::to_string_pretty(&all).expect("plain data") + "\n"
        }
    })?;
    Ok(Exit::Fine)
}

/// A word for what came of a means, and the reason where there is one.
fn in_words(probe: &Probe) -> (&'static str, &str) {
    match &probe.status {
        Status::Usable => ("usable", ""),
        Status::Limited(why) => ("limited", why),
        Status::Refused(why) => ("refused", why),
    }
}

fn json(probe: &Probe) -> serde_json::Value {
    let (status, why) = in_words(probe);
    json!({ "means": probe.means.name(), "tells": probe.means.about(), "status": status, "why": why })
}

fn markdown(probes: &[Probe]) -> String {
    let mut out = String::from("| means | status | tells | why not |\n| --- | --- | --- | --- |\n");
    for probe in probes {
        let (status, why) = in_words(probe);
        let (name, about) = (probe.means.name(), probe.means.about());
        let _ = writeln!(out, "| {name} | {status} | {about} | {} |", why.replace('|', "\\|"));
    }
    out
}

fn text(probes: &[Probe]) -> String {
    const INDENT: &str = "                        ";
    let width = usize::from(output::style().width.unwrap_or(100).max(50));
    let mut out = String::new();
    for probe in probes {
        let (status, why) = in_words(probe);
        let _ = writeln!(out, "{:<14}  {status:<8}{}", probe.means.name(), probe.means.about());
        let indented = textwrap::Options::new(width).initial_indent(INDENT).subsequent_indent(INDENT);
        if !why.is_empty() {
            let _ = writeln!(out, "{}", textwrap::fill(why, indented));
        }
    }
    out
}

/// Observes the cases one after the other, and compares them where two sides were asked for. Tells every line to `sink`. The stacks of what was
/// observed are written also where the user ends it.
///
/// # Errors
/// Those of `sink`; a file cannot be written; the signals that end the program cannot be read.
pub fn observe(
    args: &ObserveArgs,
    cases: &[Prepared],
    coordinator: Coordinator<'_>,
    (program, interrupt): (&Path, &Interrupt),
    (seed, quiet): (u64, bool),
    sink: &mut dyn Sink,
) -> io::Result<Ended> {
    let probes = probes(coordinator.host(), program);
    let settings = Settings { rounds: args.rounds(), ..Settings::new(seed) };
    if !quiet {
        let takes = expected(&settings, &probes) * cases.len() as u32;
        output::say(&format!("the observation takes about {}", spoken(takes)));
    }
    let mut observer = Observer::new(settings, coordinator, interrupt, &probes);
    let mut all: Vec<Observed> = Vec::new();
    let mut ended = Ended::Complete;
    for case in cases {
        match observer.observe(case)? {
            Outcome::Interrupted => {
                ended = Ended::Interrupted;
                break;
            }
            Outcome::Failed(skipped) => sink.line(Line::Skipped(skipped))?,
            Outcome::Observed(observed) => {
                sink.line(Line::Observation(Box::new(observed.observation.clone())))?;
                if let Some(profile) = &observed.profile {
                    sink.line(Line::Profile(Box::new(profile.clone())))?;
                }
                all.push(*observed);
            }
        }
    }
    if let (Some(_), [a, b]) = (&args.a, &all[..]) {
        let sides = [a, b].map(|of| (&of.observation, of.profile.as_ref()));
        sink.line(Line::Difference(Box::new(difference(sides[0], sides[1]))))?;
    }
    if let Some(path) = args.folded.as_ref().filter(|_| !all.is_empty()) {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the stacks are not in `{}`: {error}", path.display()))
        };
        File::create_new(path).and_then(|mut file| file.write_all(folded(&all).as_bytes())).map_err(named)?;
    }
    Ok(ended)
}

/// Lines of folded stacks; with the case first where there are several.
fn folded(all: &[Observed]) -> String {
    let mut out = String::new();
    for observed in all {
        let case = match all.len() {
            1 => String::new(),
            _ => format!("{};", observed.observation.case),
        };
        for (stack, samples) in &observed.folded {
            let _ = writeln!(out, "{case}{stack} {samples}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_observe::means::Means;

    fn probes() -> Vec<Probe> {
        let probe = |means, status| Probe { means, status };
        vec![
            probe(Means::Software, Status::Usable),
            probe(Means::Sampling, Status::Limited("functions have no names".into())),
            probe(Means::Hardware, Status::Refused("no PMU | none at all".into())),
        ]
    }

    #[test]
    fn what_can_be_used_is_said_with_the_reason_where_it_cannot() {
        let text = text(&probes());
        assert!(text.contains("software        usable  context switches"), "{text}");
        assert!(text.contains("hardware        refused cycles") && text.contains("no PMU"), "{text}");
        assert!(markdown(&probes()).contains("no PMU \\| none"), "a table keeps its columns");
        let json = json(&probes()[1]);
        assert_eq!(
            (json["status"].as_str(), json["why"].as_str()),
            (Some("limited"), Some("functions have no names"))
        );
    }
}
