//! What the kernel does while a case runs: cases are observed by [`weighbridge_observe`], two of them compared; and what can be used to look.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde_json::json;
use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::host::Host;
use weighbridge_harness::session::{Ended, Sink};
use weighbridge_observe::difference::difference;
use weighbridge_observe::probe::{Probes, Status, Tried};
use weighbridge_observe::{Observed, Observer, Outcome, Settings, expected};
use weighbridge_record::{CaseId, Line};
use weighbridge_report::{Block, Document, Section, Table};

use crate::commands::THIS_PROGRAM;
use crate::commands::measuring::Bench;
use crate::destination::write_new;
use crate::explain_args::ObserveArgs;
use crate::values::{DocumentFormat, spoken};
use crate::{Exit, Failure, output};

/// The two cases that are to be compared, if that is asked for. Both must exist, and have a place on this machine.
pub fn sides(args: &ObserveArgs, host: &Host) -> Result<Option<Vec<Prepared>>, Failure> {
    let (Some(a), Some(b)) = (&args.a, &args.b) else { return Ok(None) };
    let prepare = |id: &CaseId| {
        catalogue::prepare(id, host).map_err(|refusal| match refusal {
            Refusal::NotHere(why) => Failure::new(format!("`{id}` cannot run here: {why}")),
            Refusal::NoSuchCase(why) => Failure::mistake(format!("no case `{id}`: {why}")),
        })
    };
    [a, b].into_iter().map(prepare).collect::<Result<_, _>>().map(Some)
}

/// Tries every probe on the first of the measured CPUs.
fn probes(host: &Host) -> Probes {
    Probes::of(host.measured_cpus.first().copied().unwrap_or(0), Path::new(THIS_PROGRAM))
}

/// Shows what can be used to look.
pub fn show_probes(host: &Host, format: DocumentFormat) -> Result<Exit, Failure> {
    let probes = probes(host).all;
    let all: Vec<_> = probes.iter().map(json).collect();
    output::print(output::rendered(format, || document(&probes), &all)).map(|()| Exit::Fine)
}

/// A word for what came of a probe, and the reason where there is one.
fn in_words(tried: &Tried) -> (&'static str, &str) {
    match &tried.status {
        Status::Usable => ("usable", ""),
        Status::Limited(why) => ("limited", why),
        Status::Refused(why) => ("refused", why),
    }
}

fn json(tried: &Tried) -> serde_json::Value {
    let (status, why) = in_words(tried);
    json!({ "means": tried.probe.name(), "tells": tried.probe.about(), "status": status, "why": why })
}

fn document(all: &[Tried]) -> Document {
    let row =
        |tried: &Tried| [tried.probe.name(), in_words(tried).0, tried.probe.about()].map(String::from).into();
    let mut blocks = Table::of_first(&["probe", "status", "tells"], 3, all.len(), all, row).blocks();
    let missing = all.iter().filter(|tried| tried.status != Status::Usable);
    let whys: Vec<String> =
        missing.map(|tried| format!("{}: {}", tried.probe.name(), in_words(tried).1)).collect();
    if !whys.is_empty() {
        blocks.push(Block::Heading("What is missing, and what would allow it".into()));
        blocks.push(Block::sentences(whys));
    }
    let section = Section::of("What can be used to look here", [], blocks);
    Document { title: section.title.clone(), warnings: Vec::new(), sections: vec![section] }
}

/// Observes the cases one after the other, and compares them where two sides were asked for. Tells every line to `sink`. The stacks of what was
/// observed are written also where the user ends it.
pub fn observe(
    args: &ObserveArgs,
    cases: &[Prepared],
    bench: Bench<'_>,
    is_quiet: bool,
    sink: &mut dyn Sink,
) -> io::Result<Ended> {
    let probes = probes(bench.host);
    let settings = Settings { rounds: args.rounds(), ..Settings::new(bench.seed) };
    if !is_quiet {
        let takes = expected(&settings, &probes) * cases.len() as u32;
        output::say(&format!("the observation takes about {}", spoken(takes)));
    }
    let mut observer = Observer::new(settings, bench.coordinator(), bench.interrupt, &probes);
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
        let [a, b] = [a, b].map(|of| (&of.observation, of.profile.as_ref()));
        sink.line(Line::Difference(Box::new(difference(a, b))))?;
    }
    if let Some(path) = args.folded.as_ref().filter(|_| !all.is_empty()) {
        write_new(path, folded(&all).as_bytes()).map_err(|error| {
            io::Error::new(error.kind(), format!("the stacks are not in `{}`: {error}", path.display()))
        })?;
    }
    Ok(ended)
}

/// Lines of folded stacks; with the case first where there are several.
fn folded(all: &[Observed]) -> String {
    let mut out = String::new();
    for observed in all {
        let case = if all.len() == 1 { String::new() } else { format!("{};", observed.observation.case) };
        for (stack, samples) in &observed.folded {
            let _ = writeln!(out, "{case}{stack} {samples}");
        }
    }
    out
}
