//! Theirs and ours in turn, so that what drifts with time hits both.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{Coordinator, Outcome};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::summary::run_line;
use weighbridge_stats as stats;

use super::definition::{Blanks, Definition, Place};
use super::external::{Running, Stopped};
use super::parse::{Captured, figure};
use super::verdict::judge;

/// A run of ours: as long as those of the suite `quick`.
const TIMING: Timing = Timing { sample_ns: 4_700_000, samples: 15, least_samples: 5, run_ns: 90_000_000 };

/// A comparison in the making.
#[derive(Debug)]
pub struct Compared {
    /// What is compared with what.
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

impl Compared {
    /// Nothing has been measured yet.
    pub fn new(definition: &'static Definition, case: Prepared, program: PathBuf) -> Compared {
        Compared {
            definition,
            case,
            program,
            pairs: Vec::new(),
            trouble: None,
            has_failed: false,
            cost: Duration::ZERO,
        }
    }

    /// The word for its verdict, or for why it has none.
    pub fn outcome(&self) -> &'static str {
        match judge(&self.pairs, self.definition.band) {
            Some((_, verdict)) => verdict.word(),
            None if self.has_failed => "failed",
            None => "not measured",
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
    /// The machine.
    pub host: &'a Host,
    /// Ctrl-C.
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
        let definition = compared.definition;
        let everywhere = &self.host.measured_cpus;
        let blanks = blanks(compared, everywhere)?;
        let cpus = match definition.place {
            Place::Ours => &blanks.cpus,
            Place::Own => everywhere,
        };
        let start = |command: &[&str]| {
            let args = Definition::fill_in(&command[1..], &blanks);
            Running::start(&compared.program, &args, cpus, self.limit, self.interrupt)
        };
        let server = match definition.server {
            Some(server) => {
                let mut running = start(server.command)?;
                running.wait_for(server.ready)?;
                Some(running)
            }
            None => None,
        };
        let captured = start(definition.command)?.finish()?;
        server.map(Running::finish).transpose()?;
        Ok(captured)
    }

    fn ours(&mut self, compared: &Compared) -> Result<f64, Stopped> {
        match self.coordinator.run(&compared.case, TIMING) {
            Outcome::Measured(measured) if !measured.samples.is_empty() => {
                Ok(run_line(&compared.case, *measured, 0, 0).value)
            }
            Outcome::Measured(_) => Err(ours_failed(compared, "no sample was taken")),
            Outcome::Failed { step, why } => Err(ours_failed(compared, &format!("in {step}: {why}"))),
            Outcome::Interrupted => Err(Stopped::Interrupted),
        }
    }
}

fn ours_failed(compared: &Compared, why: &str) -> Stopped {
    Stopped::Failed(format!("{}: {why}", compared.case.params.id))
}

fn blanks(compared: &Compared, everywhere: &[u32]) -> Result<Blanks, Stopped> {
    let mut cpus = compared.case.params.cpus.clone();
    if cpus.is_empty() {
        // Our roles run freely; so do theirs.
        cpus = everywhere.to_vec();
    }
    let port = match compared.definition.server {
        Some(_) => {
            free_port().map_err(|error| Stopped::Failed(format!("no free TCP port on loopback: {error}")))?
        }
        None => 0,
    };
    Ok(Blanks { cpus, port })
}

/// A port that no process listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
