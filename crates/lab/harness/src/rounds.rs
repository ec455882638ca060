//! The scheduler of everything that is measured in rounds: sessions, comparisons and explanations.
//!
//! A round is a list of cases, each of which runs once, in the order that the subject draws. Between two runs the user may end it all, and
//! what the budget does not hold any more does not begin. What runs, and what follows from it, is the subject's.

use std::io;
use std::time::{Duration, Instant};

use weighbridge_record::{CaseId, Line, Skipped};

use crate::interrupt::Interrupt;
use crate::session::{Ended, Progress, Sink};

/// What is measured in rounds. Every `false` says that the user has had enough.
pub(crate) trait InRounds {
    /// What one run of a case is called.
    const RUN: &'static str;

    /// Which cases run in this round, in order; none ends the session.
    fn next_round(&mut self, round: u32) -> Vec<usize>;

    /// Before the runs of a round.
    fn begin_round(&mut self, _clock: &Clock, _sink: &mut dyn Sink) -> io::Result<bool> {
        Ok(true)
    }

    /// One run of a case.
    fn run_once(&mut self, index: usize, round: u32, sink: &mut dyn Sink) -> io::Result<bool>;

    /// After the runs of a round.
    fn end_round(&mut self, _round: u32) -> io::Result<bool> {
        Ok(true)
    }

    fn id(&self, index: usize) -> &CaseId;

    /// What a run of a case takes at most, as far as that is known.
    fn cost(&self, index: usize) -> Duration;

    /// The budget does not hold another run of this case. Was it never run, and is it not said yet?
    fn close(&mut self, index: usize) -> bool;

    /// How far it is when a run of this case in this round begins.
    fn extent(&self, index: usize, round: u32) -> Extent;
}

/// How far a subject is.
pub(crate) struct Extent {
    pub(crate) runs: usize,
    pub(crate) closed: usize,
    pub(crate) cases: usize,
    /// What all runs that the open cases may make would take.
    pub(crate) needed: Duration,
}

/// When it began, and when it must end.
pub(crate) struct Clock {
    began: Instant,
    budget: Duration,
}

impl Clock {
    /// Does the budget hold something that takes so long?
    pub(crate) fn holds(&self, cost: Duration) -> bool {
        self.began.elapsed() + cost <= self.budget
    }
}

/// Runs a subject to its end, the first round being `first`.
pub(crate) fn run(
    subject: &mut impl InRounds,
    first: u32,
    budget: Duration,
    interrupt: &Interrupt,
    sink: &mut dyn Sink,
) -> io::Result<Ended> {
    let clock = Clock { began: Instant::now(), budget };
    for round in first.. {
        let order = subject.next_round(round);
        if order.is_empty() {
            break;
        }
        let goes_on = subject.begin_round(&clock, sink)?
            && run_round(subject, round, &order, &clock, interrupt, sink)?
            && subject.end_round(round)?;
        if !goes_on {
            return Ok(Ended::Interrupted);
        }
    }
    Ok(Ended::Complete)
}

fn run_round(
    subject: &mut impl InRounds,
    round: u32,
    order: &[usize],
    clock: &Clock,
    interrupt: &Interrupt,
    sink: &mut dyn Sink,
) -> io::Result<bool> {
    for &index in order {
        if interrupt.take()? {
            return Ok(false);
        }
        if !clock.holds(subject.cost(index)) {
            if subject.close(index) {
                sink.line(Line::Skipped(never_run(subject, index)))?;
            }
            continue;
        }
        let Extent { runs, closed, cases, needed } = subject.extent(index, round);
        let elapsed = clock.began.elapsed();
        let remaining = needed.min(clock.budget.saturating_sub(elapsed));
        let case = subject.id(index);
        sink.progress(&Progress { case, runs, closed, cases, round, elapsed, remaining });
        if !subject.run_once(index, round, sink)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn never_run<S: InRounds>(subject: &S, index: usize) -> Skipped {
    let why = format!("the budget was used up before its first {}; raise it with --budget", S::RUN);
    Skipped { case: subject.id(index).clone(), step: "plan".into(), why }
}
