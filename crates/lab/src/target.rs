//! What is measured, with its types erased: one entry of the laboratory's list.
//!
//! Mechanisms, signals and operations differ in what they promise a pattern. Here they look alike: a name, the patterns
//! that can drive it, its axes, and four functions. A family is a module with a list `ALL`, named in [`all`]; those of
//! other crates are handed over at the start of a program with [`add`].

use std::fmt;
use std::io;
use std::sync::OnceLock;

use weighbridge_record::{CaseId, PerOp};

use crate::axis::{self, Axis, Choice, Peers, Touch};
use crate::contract::{Caps, EndResources, Facts, Fit, Mechanism};
use crate::ctx::{Ctx, Time};
use crate::host::Host;
use crate::params::{CaseParams, Wait};
use crate::pattern::Pattern;
use crate::shared::MAX_ROLES;
use crate::{all_to_all, counter_check, fan_in, fan_out, lock, mechanism, op, pattern, placement, signal};

/// A mechanism, signal or operation behind function pointers: dispatch happens once per case, and the timed loop stays static.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name in case ids.
    pub id: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// What it can do.
    pub caps: Caps,
    /// Ways to wait, the default first.
    pub waits: &'static [Wait],
    /// Settings of its own.
    pub axes: &'static [Axis],
    /// Patterns that can drive it.
    pub patterns: &'static [pattern::Info],
    /// May this case run here?
    pub fit: fn(&Host, &CaseParams) -> Fit,
    /// Creates what the roles share, one resources for each.
    pub create: fn(&Host, &CaseParams) -> io::Result<Vec<EndResources>>,
    /// Attaches and drives one role: pattern, resources, case, context.
    pub drive: fn(&str, EndResources, &CaseParams, &mut Ctx<'_>) -> io::Result<Facts>,
    /// What is odd about the counts of its cases: what its numbers must look like is known to whoever makes them.
    pub counter_check: fn(&Prepared, &PerOp) -> Vec<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Target {
    /// The entry of a mechanism.
    pub const fn of<M: Mechanism>() -> Target {
        Target {
            id: M::ID,
            about: M::ABOUT,
            caps: M::CAPS,
            waits: M::WAITS,
            axes: M::AXES,
            patterns: pattern::ALL,
            fit: M::fit,
            create: |host, params| M::create(host, params).map(Vec::from),
            drive: pattern::drive::<M>,
            counter_check: counter_check::of_messages,
        }
    }

    /// Is it timed in virtual time?
    pub fn time(&self) -> Time {
        if self.caps.has(Caps::VIRTUAL_TIME) { Time::Virtual } else { Time::Raw }
    }

    /// The axes of its cases in a pattern. What never waits has no way to wait, what carries nothing is not touched, and
    /// an axis of the pattern or the target stands in place of a common one of its name.
    pub fn axes_in(&self, pattern: &pattern::Info) -> Vec<Axis> {
        let own = |name: &str| pattern.axes.iter().chain(self.axes).any(|axis| axis.name == name);
        let applies = |axis: &Axis| match axis.name {
            name if own(name) => false,
            name if name == axis::WAIT.name => !self.waits.is_empty(),
            name if name == Touch::AXIS.name => self.caps.has(Caps::PAYLOAD),
            _ => true,
        };
        let common = axis::COMMON.iter().copied().filter(applies);
        common.chain(pattern.axes.iter().copied()).chain(self.axes.iter().copied()).collect()
    }
}

/// Every target, family by family, ours first. A name may stand in several families, with different patterns.
pub fn all() -> impl Iterator<Item = &'static Target> + Clone {
    let further = further().iter().map(|family| family.targets);
    FAMILIES.iter().copied().chain(further).flat_map(|family| family.iter())
}

/// Targets of another crate, and what takes away what they leave.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its entries in the laboratory's list.
    pub targets: &'static [Target],
    /// Takes away what programs that were killed have left of them.
    pub cleanup: fn(),
}

/// Adds the families of other crates to the list. A program does so once, before anything is looked up, and as a peer
/// too: a peer looks its case up in the same list.
///
/// # Panics
/// On the second call, and after something was looked up: the list is one and the same for as long as a program runs.
pub fn add(families: &'static [Family]) {
    assert!(FURTHER.set(families).is_ok(), "families are added once, before anything is looked up");
}

static FURTHER: OnceLock<&'static [Family]> = OnceLock::new();

pub(crate) fn further() -> &'static [Family] {
    FURTHER.get_or_init(|| &[])
}

const FAMILIES: &[&[Target]] =
    &[mechanism::ALL, signal::ALL, lock::ALL, op::ALL, fan_in::ALL, fan_out::ALL, all_to_all::ALL];

/// Every pattern that something can be driven with, each once.
pub fn patterns() -> Vec<&'static pattern::Info> {
    let mut patterns: Vec<&pattern::Info> = Vec::new();
    for pattern in all().flat_map(|target| target.patterns) {
        if !patterns.iter().any(|known| known.id == pattern.id) {
            patterns.push(pattern);
        }
    }
    patterns
}

/// A case that can be run: id, target, pattern, placement, everything checked.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The case as its ends see it.
    pub params: CaseParams,
    /// What is measured.
    pub target: &'static Target,
    /// How its ends talk.
    pub pattern: &'static pattern::Info,
    /// The placement with aliases resolved.
    pub resolved_placement: &'static str,
}

impl Prepared {
    /// Names of its roles.
    pub fn role_names(&self) -> Vec<&'static str> {
        (self.pattern.roles)(&self.params)
    }
}

/// Why there is no such case, or not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The id names something that does not exist: a mistake of whoever wrote it.
    NoSuchCase(String),
    /// The case exists, but not on this machine or with these limits.
    NotHere(String),
}

/// Parses names, axes and placement of an id, without asking whether the machine can.
///
/// # Errors
/// A sentence that says which name is wrong and what there is.
pub fn resolve(id: &CaseId) -> Result<(&'static Target, &'static pattern::Info, CaseParams), String> {
    let names = |names: Vec<&str>| names.join(", ");
    if !patterns().iter().any(|pattern| pattern.id == id.pattern) {
        let known = names(patterns().iter().map(|pattern| pattern.id).collect());
        return Err(format!("there is no pattern `{}`; there are {known}", id.pattern));
    }
    let with_pattern = all().filter_map(|target| {
        target.patterns.iter().find(|pattern| pattern.id == id.pattern).map(|pattern| (target, pattern))
    });
    let (target, pattern) =
        with_pattern.clone().find(|(target, _)| target.id == id.mechanism).ok_or_else(|| {
            let known = names(with_pattern.map(|(target, _)| target.id).collect());
            format!("there is no `{}` to {}; there are {known}", id.mechanism, id.pattern)
        })?;
    if !placement::ALL.iter().any(|placement| placement.name == id.placement) {
        let known = names(placement::ALL.iter().map(|placement| placement.name).collect());
        return Err(format!("there is no placement `{}`; there are {known}", id.placement));
    }
    let params = CaseParams::new(id, &target.axes_in(pattern), target.waits)?;
    Ok((target, pattern, params))
}

/// A case on this machine.
///
/// # Errors
/// See [`Refusal`].
pub fn prepare(id: &CaseId, host: &Host) -> Result<Prepared, Refusal> {
    let (target, pattern, mut params) = resolve(id).map_err(Refusal::NoSuchCase)?;
    if !target.caps.has(pattern.needs) {
        return Err(Refusal::NotHere(format!(
            "{} cannot {}: it does not carry what that needs",
            target.id, pattern.id
        )));
    }
    let placed = placement::place(&id.placement, host).map_err(Refusal::NotHere)?;
    // One for each CPU, unless the case says how many.
    if params.axes.get(axis::ROLES).is_some_and(|roles| roles == "default") {
        params.axes.insert(axis::ROLES.into(), host.allowed_cpus.len().to_string());
    }
    let roles = (pattern.roles)(&params).len();
    if roles > MAX_ROLES {
        return Err(Refusal::NotHere(format!(
            "{roles} roles are more than the {MAX_ROLES} that a run can have"
        )));
    }
    params.cpus = if pattern.is_symmetric { placed.cpus_in_turn(roles) } else { placed.cpus_of(roles) };
    if target.caps.has(Caps::ONE_PROCESS) {
        params.axes.insert(Peers::AXIS.name.into(), Peers::Thread.name().into());
    }
    let prepared = Prepared { params, target, pattern, resolved_placement: placed.resolved };
    match fits(&prepared, host) {
        Fit::Yes => Ok(prepared),
        Fit::No(why) => Err(Refusal::NotHere(why)),
    }
}

/// What holds for every mechanism, then what the mechanism itself says.
fn fits(prepared: &Prepared, host: &Host) -> Fit {
    let Prepared { params, target, .. } = prepared;
    if target.caps.has(Caps::NEVER_EMPTY) && params.payload_bytes == 0 {
        let what = if target.caps.has(Caps::BYTE_STREAM) { "a byte stream" } else { target.id };
        return Fit::No(format!("{what} cannot carry an empty message; the smallest is 1 byte"));
    }
    if params.wait == Wait::Spin && params.same_cpu() && params.cpus.len() > 1 {
        return Fit::No(
            "spinning on one CPU waits for the end of a time slice, milliseconds for each hop; use two-cpus or another wait"
                .into(),
        );
    }
    if prepared.pattern.id == pattern::Stream::ID
        && let Fit::No(why) = pattern::working_set::fit(params)
    {
        return Fit::No(why);
    }
    if let (Wait::Uring, Some(why)) = (params.wait, &host.uring_refused) {
        return Fit::No(why.clone());
    }
    (target.fit)(host, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_that_come_after_something_was_looked_up_are_refused() {
        assert!(all().any(|target| target.id == "pipe"));
        assert!(std::panic::catch_unwind(|| add(&[])).is_err());
    }
}
