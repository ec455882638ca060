//! Which targets exist, and how a case id becomes a case that can run here.
//!
//! The harness has no targets of its own. Crates that have some hand over their families at the start of a program with
//! [`add`]. What a target is stands in [`contract`](crate::contract).

use std::collections::BTreeSet;
use std::fmt;

use weighbridge_record::CaseId;

use crate::axis::{self, Choice, Idle, Peers};
use crate::contract::{Caps, Family, PatternInfo, Prepared, Target, Unsupported};
use crate::ctx;
use crate::host::Host;
use crate::params::{CaseParams, Wait};
use crate::pattern::{self, Pattern};
use crate::placement::{self, Placed};
use crate::registry::Registry;
use crate::shared::MAX_ROLES;

static FAMILIES: Registry<Family> = Registry::new("families");

/// Adds families to the list; panics once something was looked up. A program does so at its start, and as a peer too: a peer looks its case up
/// in the same list.
pub fn add(families: &'static [Family]) {
    FAMILIES.add(families);
}

/// Has a target that was added until now this name? More may be added afterwards.
pub fn is_taken(name: &str) -> bool {
    FAMILIES.until_now().iter().flat_map(|family| family.targets).any(|target| target.id == name)
}

/// Every target, family by family. A name may stand in several families, with different patterns.
pub fn all() -> impl Iterator<Item = &'static Target> + Clone {
    FAMILIES.list().iter().flat_map(|family| family.targets)
}

/// Removes what dead processes of this user have left: directories of FIFOs, POSIX queues where they can be listed, System V
/// queues and semaphores, and whatever else a family leaves. What cannot be removed stays; the next call tries again.
pub fn cleanup() {
    for family in FAMILIES.list() {
        (family.cleanup)();
    }
}

/// The case that is the same code in the kernel under another name and so must agree with this one, if there is such a case.
pub fn same_code(case: &CaseId) -> Option<CaseId> {
    FAMILIES.list().iter().find_map(|family| (family.same_code)(case))
}

/// Every pattern that something can be driven with, each once.
pub fn patterns() -> Vec<&'static PatternInfo> {
    let mut seen = BTreeSet::new();
    all().flat_map(|target| target.patterns).filter(|pattern| seen.insert(pattern.id)).collect()
}

/// Why there is no such case, or not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The id names something that does not exist: a mistake in the id.
    NoSuchCase(String),
    /// The case exists, but not on this machine or with these limits.
    NotHere(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::NoSuchCase(why) | Refusal::NotHere(why)) = self;
        f.write_str(why)
    }
}

/// Parses names, axes and placement of an id, without asking whether the machine can; or says which name is wrong and what there is.
pub fn resolve(id: &CaseId) -> Result<(&'static Target, &'static PatternInfo, CaseParams), String> {
    let unknown =
        |what: String, known: Vec<&str>| format!("there is no {what}; there are {}", known.join(", "));
    let patterns = patterns();
    if !patterns.iter().any(|pattern| pattern.id == id.pattern) {
        let known = patterns.iter().map(|pattern| pattern.id).collect();
        return Err(unknown(format!("pattern `{}`", id.pattern), known));
    }
    let with_pattern = all().filter_map(|target| {
        target.patterns.iter().find(|pattern| pattern.id == id.pattern).map(|pattern| (target, pattern))
    });
    let found = with_pattern.clone().find(|(target, _)| target.id == id.mechanism);
    let (target, pattern) = found.ok_or_else(|| {
        let known = with_pattern.map(|(target, _)| target.id).collect();
        unknown(format!("`{}` to {}", id.mechanism, id.pattern), known)
    })?;
    placement::named(&id.placement)?;
    let params = CaseParams::new(id, &target.axes_in(pattern), target.waits)?;
    Ok((target, pattern, params))
}

/// A case on this machine.
pub fn prepare(id: &CaseId, host: &Host) -> Result<Prepared, Refusal> {
    let (target, pattern, mut params) = resolve(id).map_err(Refusal::NoSuchCase)?;
    if !target.caps.has(pattern.needs) {
        let why = format!("{} cannot {}: it does not carry what that needs", target.id, pattern.id);
        return Err(Refusal::NotHere(why));
    }
    let placed = placement::place(&id.placement, host).map_err(Refusal::NotHere)?;
    // One for each CPU, unless the case says how many.
    if params.axes.get(axis::ROLES).is_some_and(|roles| roles == "default") {
        params.axes.insert(axis::ROLES.into(), host.allowed_cpus.len().to_string());
    }
    let roles = (pattern.roles)(&params).len();
    if roles > MAX_ROLES {
        let why = format!("{roles} roles are more than the {MAX_ROLES} that a run can have");
        return Err(Refusal::NotHere(why));
    }
    let of_roles = |cpus: &Vec<u32>| {
        let placed = Placed { cpus: cpus.clone(), ..placed.clone() };
        if pattern.is_symmetric { placed.cpus_in_turn(roles) } else { placed.cpus_of(roles) }
    };
    let all: Vec<Vec<u32>> = std::iter::once(&placed.cpus).chain(&placed.others).map(of_roles).collect();
    params.cpus.clone_from(&all[0]);
    let places = if all.len() > 1 { all } else { Vec::new() };
    if target.caps.has(Caps::ONE_PROCESS) {
        params.axes.insert(Peers::AXIS.name.into(), Peers::Thread.name().into());
    }
    let prepared = Prepared { params, target, pattern, resolved_placement: placed.resolved, places };
    fits(&prepared, host).map_err(|Unsupported(why)| Refusal::NotHere(why))?;
    Ok(prepared)
}

/// A role at its default has the nice value and the policy of this program: where these are no defaults, the case cannot hold what it says.
fn inherited(prepared: &Prepared, host: &Host) -> Result<(), Unsupported> {
    let roles = prepared.role_names().len();
    let policy = host.policy.replace(':', "-");
    for (axis, own) in [(axis::NICE, host.nice.to_string()), (axis::SCHED, policy)] {
        let Some(value) = prepared.params.axes.get(axis.name).filter(|_| own != axis.default) else {
            continue;
        };
        if (0..roles).any(|role| axis::of_role(value, role) == axis.default) {
            let (name, default) = (axis.name, axis.default);
            return Err(Unsupported(format!(
                "this program runs with {name} {own} and so would the roles, where the case says {name}={default}; start it without \
                 that, or measure what there is with --set {name}={own}"
            )));
        }
    }
    Ok(())
}

/// What holds for every mechanism, then what the mechanism itself says.
fn fits(prepared: &Prepared, host: &Host) -> Result<(), Unsupported> {
    let Prepared { params, target, .. } = prepared;
    if target.caps.has(Caps::NEVER_EMPTY) && params.payload_bytes == 0 {
        let what = if target.caps.has(Caps::BYTE_STREAM) { "a byte stream" } else { target.id };
        return Err(Unsupported(format!("{what} cannot carry an empty message; the smallest is 1 byte")));
    }
    if params.wait == Wait::Spin && params.same_cpu() && params.cpus.len() > 1 {
        let why = "spinning on one CPU waits for the end of a time slice, milliseconds for each hop; use two-cpus or another wait";
        return Err(Unsupported(why.into()));
    }
    inherited(prepared, host)?;
    let policies = params.axes.get(axis::SCHED.name).map_or("", String::as_str);
    if params.choice_if_declared() == Some(Idle::Busy) && policies.split(':').any(|policy| policy == "idle") {
        let why = "idle=busy has a spinner of the policy SCHED_IDLE on each CPU, with which a role of sched=idle would share it";
        return Err(Unsupported(why.into()));
    }
    if prepared.pattern.id == pattern::Stream::ID {
        pattern::working_set::fit(params)?;
    }
    if let Some(why) = ctx::refusal(params) {
        return Err(Unsupported(why));
    }
    if let (Wait::Uring, Some(why)) = (params.wait, &host.uring_refused) {
        return Err(Unsupported(why.clone()));
    }
    (target.fit)(host, params)
}
