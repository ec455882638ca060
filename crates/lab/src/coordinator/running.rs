//! Peers at work: waiting for them without waking, and finding out what failed first.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_os::counters::SystemNoise;
use causeway_os::process::{self, Child, Exit};

use super::{Measured, Outcome};
use crate::contract::Facts;
use crate::interrupt::Interrupt;
use crate::peer::{self, Report, RoleReport};
use crate::shared::{Shared, Step};

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) child: Child,
    pub(super) control: OwnedFd,
    pub(super) roles: Vec<usize>,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Working,
    Done(Vec<RoleReport>),
    Failed { role: usize, why: String, is_consequence: bool },
    Gone(Exit),
}

/// Peers at work. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) shared: Shared,
    pub(super) peers: Vec<Peer>,
    // Dropped after the peers, which may hold what these take away.
    #[expect(dead_code, reason = "held to be dropped")]
    pub(super) guards: Vec<Box<dyn Any + Send>>,
    pub(super) role_names: Vec<&'static str>,
    pub(super) noise: SystemNoise,
    /// From the first failure until its cause is looked at.
    pub(super) grace: Duration,
}

impl Running {
    /// Waits until all have reported, or one has failed, and says what came of it.
    pub(super) fn finish(mut self, interrupt: &Interrupt, began: Instant) -> Outcome {
        while self.peers.iter().any(|peer| matches!(peer.state, State::Working)) {
            match self.wait(interrupt, None) {
                Err(error) => return self.failed(format!("the coordinator cannot wait: {error}")),
                Ok(Waited::Interrupted) => return Outcome::Interrupted,
                Ok(Waited::TimedOut) => {
                    let waited = began.elapsed().as_secs_f64();
                    return self.failed(format!("no progress: stopped after {waited:.1} s"));
                }
                Ok(Waited::Something) => {}
            }
            let is_failing = |peer: &Peer| matches!(peer.state, State::Failed { .. } | State::Gone(_));
            if self.peers.iter().any(is_failing) {
                return self.explain(interrupt);
            }
        }
        let noise = SystemNoise::read().since(&self.noise);
        let start_ns = self.shared.start_ns();
        let elapsed = began.elapsed();
        let since_start_ns = causeway_os::clock::now_ns().saturating_sub(start_ns);
        let mut roles: Vec<RoleReport> = Vec::new();
        for peer in &mut self.peers {
            if let State::Done(reports) = &mut peer.state {
                roles.append(reports);
            }
        }
        roles.sort_by_key(|report| report.role);
        Outcome::Measured(Box::new(Measured {
            samples: self.shared.samples(),
            facts: merge_facts(&roles, &self.role_names),
            roles,
            noise,
            startup_ms: (elapsed.as_secs_f64() - since_start_ns as f64 / 1e9) * 1e3,
            elapsed_ms: elapsed.as_secs_f64() * 1e3,
        }))
    }

    /// Sleeps until a peer has something to say, and notes what; until the deadline of the run, or until `until`.
    fn wait(&mut self, interrupt: &Interrupt, until: Option<Instant>) -> io::Result<Waited> {
        let working: Vec<usize> = (0..self.peers.len())
            .filter(|index| matches!(self.peers[*index].state, State::Working))
            .collect();
        let deadline = self.shared.deadline();
        let mut fds: Vec<BorrowedFd<'_>> = vec![interrupt.fd(), deadline.fd()];
        for index in &working {
            fds.push(self.peers[*index].control.as_fd());
            fds.push(self.peers[*index].child.pidfd());
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let ready = process::poll(&fds, left)?;
        if ready[0] && interrupt.take()? {
            return Ok(Waited::Interrupted);
        }
        // What peers have said counts, even if it came at the last moment.
        if !ready[2..].contains(&true) {
            return Ok(if ready[1] && deadline.take()? { Waited::TimedOut } else { Waited::Something });
        }
        for (index, ready) in working.into_iter().zip(ready[2..].chunks(2)) {
            let peer = &mut self.peers[index];
            // A report may lie in the socket of a peer that has already ended.
            if ready[0] {
                peer.state = match peer::receive_report(peer.control.as_fd()) {
                    Ok(Some(Report::Done(reports))) => State::Done(reports),
                    Ok(Some(Report::Failed { role, why, is_consequence })) => {
                        State::Failed { role, why, is_consequence }
                    }
                    Ok(None) => State::Gone(peer.exit()?),
                    Err(error) => {
                        State::Failed { role: peer.roles[0], why: error.to_string(), is_consequence: false }
                    }
                };
            } else if ready[1] {
                peer.state = State::Gone(peer.exit()?);
            }
        }
        Ok(Waited::Something)
    }

    /// Something failed; finds out what failed first. A peer that was killed explains the error of its partner, and so does
    /// one that failed for another reason than that its partner was gone.
    fn explain(mut self, interrupt: &Interrupt) -> Outcome {
        let until = Instant::now() + self.grace;
        while self.peers.iter().any(|peer| matches!(peer.state, State::Working)) && Instant::now() < until {
            match self.wait(interrupt, Some(until)) {
                Ok(Waited::Interrupted) => return Outcome::Interrupted,
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let rank = |peer: &&Peer| match peer.state {
            State::Gone(_) => 0,
            State::Failed { is_consequence: false, .. } => 1,
            State::Failed { .. } => 2,
            State::Working | State::Done(_) => 3,
        };
        match self.peers.iter().min_by_key(rank).map(|peer| (&peer.state, peer.roles[0])) {
            Some((State::Gone(exit), role)) => {
                self.outcome(role, format!("{} ended: {exit}", self.role_names[role]))
            }
            Some((State::Failed { role, why, .. }, _)) => {
                self.outcome(*role, format!("{}: {why}", self.role_names[*role]))
            }
            _ => unreachable!("called when a peer has failed"),
        }
    }

    /// The role that is furthest behind is the one that everybody waits for.
    fn failed(self, why: String) -> Outcome {
        let role = (0..self.role_names.len()).min_by_key(|role| self.shared.step(*role)).unwrap_or(0);
        self.outcome(role, format!("{why}; {}", self.steps()))
    }

    /// Where the roles are: `sender in verify, 19 × receiver in batches`.
    fn steps(&self) -> String {
        let mut counts: Vec<((&str, Step), usize)> = Vec::new();
        for (role, name) in self.role_names.iter().enumerate() {
            let of = (*name, self.shared.step(role));
            match counts.iter_mut().find(|(other, _)| *other == of) {
                Some((_, count)) => *count += 1,
                None => counts.push((of, 1)),
            }
        }
        let say = |((name, step), count): ((&str, Step), usize)| match count {
            1 => format!("{name} in {}", step.name()),
            count => format!("{count} × {name} in {}", step.name()),
        };
        counts.into_iter().map(say).collect::<Vec<_>>().join(", ")
    }

    fn outcome(&self, role: usize, why: String) -> Outcome {
        Outcome::Failed { step: self.shared.step(role).name().into(), why }
    }
}

impl Peer {
    fn exit(&mut self) -> io::Result<Exit> {
        Ok(self.child.wait(Some(Duration::from_secs(1)))?.unwrap_or(Exit::Code(0)))
    }
}

#[derive(Debug)]
enum Waited {
    Something,
    TimedOut,
    Interrupted,
}

/// A fact that all roles agree on stands once, under its own name; others carry the role.
fn merge_facts(roles: &[RoleReport], names: &[&str]) -> Facts {
    let mut merged = Facts::new();
    for report in roles {
        for (name, value) in &report.facts {
            let agreed = roles.iter().all(|other| other.facts.get(name) == Some(value));
            let name = if agreed { name.clone() } else { format!("{}.{name}", names[report.role]) };
            merged.insert(name, value.clone());
        }
    }
    merged
}
