//! Theirs and ours in turn, so that what drifts with time hits both.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{self, Coordinator};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::summary::run_line;
use weighbridge_stats::{self as stats, Ratio, compare, paired_ratio, stopping};

use super::definition::{Blanks, Definition, Place};
use super::external::{Running, Stopped};
use super::parse::{Captured, figure};

/// A run of ours: as long as those of the suite `quick`.
const TIMING: Timing = Timing { sample_ns: 4_700_000, samples: 15, least_samples: 5, run_ns: 90_000_000 };

/// The fewest turns that give an interval.
pub const FEWEST_TURNS: usize = stopping::LOOKS[0];

/// A comparison in the making.
#[derive(Debug)]
pub struct Compared {
    pub definition: &'static Definition,
    /// Our case.
    pub case: Prepared,
    /// Their program.
    pub program: PathBuf,
    /// (theirs, ours) of each turn, in our unit.
    pub pairs: Vec<(f64, f64)>,
    /// Why it has fewer turns than were asked for.
    pub trouble: Option<String>,
    /// Was that a failure, of a tool or of ours?
    pub has_failed: bool,
    cost: Duration,
}

/// What may be said of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval of the ratio lies in the band.
    Inside,
    /// The whole interval lies outside the band.
    Outside,
    /// The interval reaches over an end of the band, or there is none.
    Inconclusive,
    /// No turn, because a tool or our case failed.
    Failed,
    /// No turn, for another reason.
    NotMeasured,
}

impl Verdict {
    /// The word for it in tables and records.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Inside => "inside",
            Verdict::Outside => "outside",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Failed => "failed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

impl Compared {
    /// Nothing has been measured yet.
    pub fn new(definition: &'static Definition, case: Prepared, program: PathBuf) -> Compared {
        let (pairs, cost) = (Vec::new(), Duration::ZERO);
        Compared { definition, case, program, pairs, trouble: None, has_failed: false, cost }
    }

    /// Ours over theirs. `None` before the first turn.
    pub fn ratio(&self) -> Option<Ratio> {
        (!self.pairs.is_empty()).then(|| paired_ratio(&self.pairs, compare::CONFIDENCE))
    }

    /// What may be said of the ratio, or why there is none.
    pub fn verdict(&self) -> Verdict {
        let [low, high] = self.definition.band;
        match self.ratio().map(|ratio| ratio.interval) {
            Some(Some(of)) if of.low >= low && of.high <= high => Verdict::Inside,
            Some(Some(of)) if of.high < low || of.low > high => Verdict::Outside,
            Some(_) => Verdict::Inconclusive,
            None if self.has_failed => Verdict::Failed,
            None => Verdict::NotMeasured,
        }
    }

    /// The median of theirs and the median of ours, in our unit. `None` before the first turn.
    pub fn medians(&self) -> Option<[f64; 2]> {
        let (theirs, ours): (Vec<f64>, Vec<f64>) = self.pairs.iter().copied().unzip();
        (!self.pairs.is_empty()).then(|| [stats::median(&theirs), stats::median(&ours)])
    }
}

/// Runs the external tool and our case in turn.
#[derive(Debug)]
pub struct Turns<'a> {
    pub host: &'a Host,
    pub interrupt: &'a Interrupt,
    /// Measures our case.
    pub coordinator: Coordinator<'a>,
    /// The number of turns of each comparison.
    pub turns: usize,
    /// Time for all of them.
    pub budget: Duration,
    /// Time for one run of a tool.
    pub limit: Duration,
}

/// Is told how far it is: the turn from 0, the comparison that comes next, and the time used. Never during a measurement.
pub type Progress<'a> = dyn FnMut(usize, &Compared, Duration) + 'a;

impl Turns<'_> {
    /// Takes all turns, round by round, so that each comparison is spread over the whole time. `false` when the user has
    /// had enough.
    pub fn take(&mut self, all: &mut [Compared], progress: &mut Progress<'_>) -> bool {
        let began = Instant::now();
        for turn in 0..self.turns {
            for compared in all.iter_mut().filter(|compared| compared.trouble.is_none()) {
                if began.elapsed() + compared.cost > self.budget {
                    compared.trouble = Some("the budget is used up; raise it with --budget".into());
                    continue;
                }
                progress(turn, compared, began.elapsed());
                let turn_began = Instant::now();
                match self.turn(turn, compared) {
                    Ok(pair) => compared.pairs.push(pair),
                    Err(Stopped::Failed(why)) => {
                        compared.trouble = Some(why);
                        compared.has_failed = true;
                    }
                    Err(Stopped::Interrupted) => return false,
                }
                compared.cost = compared.cost.max(turn_began.elapsed());
            }
        }
        true
    }

    /// Some runs of theirs and of ours, alternating, and the median of each. Who begins alternates from turn to turn.
    fn turn(&mut self, turn: usize, compared: &Compared) -> Result<(f64, f64), Stopped> {
        let runs = compared.definition.runs;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for run in 0..runs.theirs.max(runs.ours) {
            let theirs_first = turn.is_multiple_of(2);
            for is_theirs in [theirs_first, !theirs_first] {
                if is_theirs && run < runs.theirs {
                    theirs.push(self.theirs(compared)?);
                } else if !is_theirs && run < runs.ours {
                    ours.push(self.ours(compared)?);
                }
            }
        }
        Ok((stats::median(&theirs), stats::median(&ours)))
    }

    fn theirs(&self, compared: &Compared) -> Result<f64, Stopped> {
        let definition = compared.definition;
        let captured = self.captured(compared)?;
        figure(definition.reads, &captured)
            .map(|figure| definition.scale.apply(figure))
            .map_err(|why| Stopped::Failed(format!("{}: {why}", definition.command.join(" "))))
    }

    fn captured(&self, compared: &Compared) -> Result<Captured, Stopped> {
        let Definition { command, server, place, .. } = compared.definition;
        let everywhere = &self.host.measured_cpus;
        // Where our roles run freely, so do theirs.
        let cpus = Some(&compared.case.params.cpus).filter(|cpus| !cpus.is_empty()).unwrap_or(everywhere);
        let port = server.map_or(Ok(0), |_| free_port());
        let port = port.map_err(|error| Stopped::Failed(format!("no free TCP port on loopback: {error}")))?;
        let blanks = Blanks { cpus: cpus.clone(), port };
        let cpus = if *place == Place::Ours { cpus } else { everywhere };
        let start = |command: &[&str]| {
            let args = blanks.fill_in(&command[1..]);
            Running::start(&compared.program, &args, cpus, self.limit, self.interrupt)
        };
        let server = server.map(|server| {
            let mut running = start(server.command)?;
            running.wait_for(server.ready).map(|()| running)
        });
        let server = server.transpose()?;
        let captured = start(command)?.finish()?;
        server.map(Running::finish).transpose()?;
        Ok(captured)
    }

    fn ours(&mut self, compared: &Compared) -> Result<f64, Stopped> {
        let failed = |why: &str| Err(Stopped::Failed(format!("{}: {why}", compared.case.params.id)));
        match self.coordinator.run(&compared.case, TIMING) {
            coordinator::Outcome::Measured(measured) if measured.samples.is_empty() => {
                failed("no sample was taken")
            }
            coordinator::Outcome::Measured(measured) => Ok(run_line(&compared.case, *measured, 0, 0).value),
            coordinator::Outcome::Failed { step, why } => failed(&format!("in {step}: {why}")),
            coordinator::Outcome::Interrupted => Err(Stopped::Interrupted),
        }
    }
}

/// A port that no process listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_harness::catalogue;

    #[test]
    fn the_whole_interval_decides_and_too_few_turns_decide_nothing() {
        crate::register();
        let definition = super::super::definitions::ALL.iter().find(|of| of.band == [0.85, 1.15]).unwrap();
        let id = "roundtrip/mock/1/free".parse().unwrap();
        let case = catalogue::prepare(&id, &Host::look().unwrap()).unwrap();
        for (ratios, verdict) in [
            (&[0.95, 0.97, 0.99, 1.0, 1.02, 1.1][..], Verdict::Inside),
            (&[1.2, 1.3, 1.25, 1.4, 1.22, 1.5], Verdict::Outside),
            (&[0.95, 0.97, 0.99, 1.0, 1.02, 1.2], Verdict::Inconclusive),
            // Wider than the band.
            (&[0.5, 0.9, 1.0, 1.0, 1.1, 2.0], Verdict::Inconclusive),
            (&[1.0; 5], Verdict::Inconclusive),
            (&[], Verdict::NotMeasured),
        ] {
            let pairs = ratios.iter().map(|ratio| (10.0, 10.0 * ratio)).collect();
            let compared = Compared { pairs, ..Compared::new(definition, case.clone(), PathBuf::new()) };
            assert_eq!(compared.verdict(), verdict, "{ratios:?}");
        }
    }
}
