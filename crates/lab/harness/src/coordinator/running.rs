//! Peers at work: waiting for them without waking, and finding out what failed first.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::process::{self, Child, Exit};
use weighbridge_probe::counters::{Frequency, Meter, SystemNoise};
use weighbridge_record::CpuFrequency;

use super::live::Looks;
use super::{Measured, SetOutcome};
use crate::calls::{Calls, Watch};
use crate::contract::Facts;
use crate::control;
use crate::idle::Spinners;
use crate::interrupt::Interrupt;
use crate::marks::Marks;
use crate::peer::{Report, RoleReport};
use crate::shared::{Shared, Step};

pub(super) struct Peer {
    pub(super) child: Child,
    pub(super) control: OwnedFd,
    pub(super) party: usize,
    pub(super) roles: Vec<usize>,
    pub(super) state: State,
    pub(super) watch: Option<Watch>,
}

pub(super) enum State {
    Working,
    Done(Vec<RoleReport>),
    Failed { role: usize, why: String, is_consequence: bool },
    Gone(Exit),
}

/// A case of a run: most runs have one, a set has several.
pub(super) struct Party {
    pub(super) shared: Arc<Shared>,
    pub(super) marks: Option<Marks>,
    pub(super) role_names: Vec<&'static str>,
    // Dropped after the peers, which may hold what these take away.
    #[expect(dead_code, reason = "held to be dropped")]
    pub(super) guards: Vec<Box<dyn Any + Send>>,
}

/// Peers at work. Dropping it kills them.
pub(super) struct Running {
    pub(super) peers: Vec<Peer>,
    pub(super) parties: Vec<Party>,
    pub(super) spinners: Spinners,
    pub(super) noise: SystemNoise,
    /// Of the CPUs of all roles that are pinned.
    pub(super) meter: Meter,
    /// From the first failure until its cause is looked at.
    pub(super) grace: Duration,
}

impl Running {
    /// Waits until all have reported, or one has failed, and says what came of it.
    pub(super) fn finish(
        mut self,
        interrupt: &Interrupt,
        began: Instant,
        mut looks: Option<Looks>,
    ) -> SetOutcome {
        while self.peers.iter().any(|peer| matches!(peer.state, State::Working)) {
            match self.wait(interrupt, looks.as_ref().map(Looks::next)) {
                Err(error) => return self.failed(format!("the coordinator cannot wait: {error}")),
                Ok(Waited::Interrupted) => return SetOutcome::Interrupted,
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
            if let Some(looks) = &mut looks {
                looks.look(&self.parties[0]);
            }
        }
        if let Err(error) = self.spinners.check() {
            return SetOutcome::Failed {
                party: 0,
                step: Step::Batches.name().into(),
                why: error.to_string(),
            };
        }
        let system_calls = match self.end_watches() {
            Ok(calls) => calls,
            Err(error) => return self.failed(format!("system calls cannot be counted: {error}")),
        };
        let frequency = |Frequency { cpu, khz, is_mean }| CpuFrequency { cpu, khz, is_mean };
        let frequencies: Vec<CpuFrequency> = self.meter.end().into_iter().map(frequency).collect();
        let noise = SystemNoise::read().since(&self.noise);
        let (elapsed, now_ns) = (began.elapsed(), causeway_os::clock::now_ns());
        let mut roles: Vec<Vec<RoleReport>> = self.parties.iter().map(|_| Vec::new()).collect();
        for peer in &mut self.peers {
            if let State::Done(reports) = &mut peer.state {
                roles[peer.party].append(reports);
            }
        }
        let measured = |(Party { shared, marks, role_names, .. }, mut roles): (&Party, Vec<RoleReport>)| {
            roles.sort_by_key(|report| report.role);
            let since_start_ns = now_ns.saturating_sub(shared.start_ns());
            let of_roles = |marks: &Marks| roles.iter().map(|of| marks.of_role(of.role)).collect();
            Measured {
                samples: shared.samples(),
                facts: merge_facts(&roles, role_names),
                marks: marks.as_ref().map_or_else(Vec::new, of_roles),
                roles,
                noise,
                frequencies: frequencies.clone(),
                system_calls: system_calls.clone(),
                startup_ms: (elapsed.as_secs_f64() - since_start_ns as f64 / 1e9) * 1e3,
                elapsed_ms: elapsed.as_secs_f64() * 1e3,
            }
        };
        SetOutcome::Measured(self.parties.iter().zip(roles).map(measured).collect())
    }

    /// Waits until the peers whose system calls are counted have ended.
    fn end_watches(&mut self) -> io::Result<BTreeMap<usize, Calls>> {
        let mut calls = BTreeMap::new();
        for peer in &mut self.peers {
            let Some(watch) = peer.watch.take() else { continue };
            // One that does not end after its report is killed, so that its tracer ends.
            if peer.child.wait(Some(Duration::from_secs(10)))?.is_none() {
                peer.child.kill(libc::SIGKILL)?;
            }
            let (role, of_role) = watch.end()?;
            calls.insert(role, of_role);
        }
        Ok(calls)
    }

    /// Sleeps until a peer has something to say, and notes what; until the deadline of the run, or until `until`.
    fn wait(&mut self, interrupt: &Interrupt, until: Option<Instant>) -> io::Result<Waited> {
        let working: Vec<usize> = (0..self.peers.len())
            .filter(|index| matches!(self.peers[*index].state, State::Working))
            .collect();
        let deadlines = self.parties.iter().map(|party| party.shared.deadline().fd());
        let mut fds: Vec<BorrowedFd<'_>> = std::iter::once(interrupt.fd()).chain(deadlines).collect();
        let first_peer = fds.len();
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
        if !ready[first_peer..].contains(&true) {
            for (party, _) in self.parties.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
                if party.shared.deadline().take()? {
                    return Ok(Waited::TimedOut);
                }
            }
            return Ok(Waited::Something);
        }
        for (index, ready) in working.into_iter().zip(ready[first_peer..].chunks(2)) {
            let peer = &mut self.peers[index];
            // A report may lie in the socket of a peer that has already ended, and may have come after poll looked there.
            let may_say =
                || process::poll(&[peer.control.as_fd()], Some(Duration::ZERO)).map(|ready| ready[0]);
            if ready[0] || (ready[1] && may_say()?) {
                peer.state = match control::receive(peer.control.as_fd()) {
                    Ok(Some(Report::Done(reports))) => State::Done(reports),
                    Ok(Some(Report::Failed { role, why, is_consequence })) => {
                        State::Failed { role, why, is_consequence }
                    }
                    Ok(None) => peer.end()?,
                    Err(error) => {
                        State::Failed { role: peer.roles[0], why: error.to_string(), is_consequence: false }
                    }
                };
            } else if ready[1] {
                peer.state = peer.end()?;
            }
        }
        Ok(Waited::Something)
    }

    /// Something failed; finds out what failed first. A peer that was killed explains the error of its partner, and so does
    /// one that failed for another reason than that its partner was gone.
    fn explain(mut self, interrupt: &Interrupt) -> SetOutcome {
        let until = Instant::now() + self.grace;
        while self.peers.iter().any(|peer| matches!(peer.state, State::Working)) && Instant::now() < until {
            match self.wait(interrupt, Some(until)) {
                Ok(Waited::Interrupted) => return SetOutcome::Interrupted,
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
        let first = self.peers.iter().min_by_key(rank).expect("called when a peer has failed");
        let (role, why) = match &first.state {
            State::Gone(exit) => (first.roles[0], format!(" ended: {exit}")),
            State::Failed { role, why, .. } => (*role, format!(": {why}")),
            State::Working | State::Done(_) => unreachable!("called when a peer has failed"),
        };
        self.outcome(first.party, role, format!("{}{why}", self.parties[first.party].role_names[role]))
    }

    /// The role that is furthest behind is the one that everybody waits for.
    fn failed(self, why: String) -> SetOutcome {
        let (party, role) =
            self.roles().min_by_key(|(party, role)| self.step(*party, *role)).unwrap_or((0, 0));
        self.outcome(party, role, format!("{why}; {}", self.steps()))
    }

    fn roles(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let roles = |party: usize| (0..self.parties[party].role_names.len()).map(move |role| (party, role));
        (0..self.parties.len()).flat_map(roles)
    }

    fn step(&self, party: usize, role: usize) -> Step {
        self.parties[party].shared.step(role)
    }

    /// Where the roles are: `sender in verify, 19 × receiver in batches`.
    fn steps(&self) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for (party, role) in self.roles() {
            let of = format!("{} in {}", self.parties[party].role_names[role], self.step(party, role).name());
            match counts.iter_mut().find(|(other, _)| *other == of) {
                Some((_, count)) => *count += 1,
                None => counts.push((of, 1)),
            }
        }
        let say = |(of, count)| if count == 1 { of } else { format!("{count} × {of}") };
        counts.into_iter().map(say).collect::<Vec<_>>().join(", ")
    }

    fn outcome(&self, party: usize, role: usize, why: String) -> SetOutcome {
        SetOutcome::Failed { party, step: self.parties[party].shared.step(role).name().into(), why }
    }
}

impl Peer {
    /// What became of it: its socket is closed, or it has ended. What goes on without its socket is ended.
    fn end(&mut self) -> io::Result<State> {
        if let Some(exit) = self.child.wait(Some(Duration::from_secs(1)))? {
            return Ok(State::Gone(exit));
        }
        self.child.kill(libc::SIGKILL)?;
        let why = "its process closed the socket to this program and went on; it was killed".into();
        Ok(State::Failed { role: self.roles[0], why, is_consequence: false })
    }
}

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
