//! What is measured, with its types erased.
//!
//! Mechanisms, signals, locks and operations differ in what they promise a pattern. Here they look alike: a name, the patterns
//! that can drive it, its axes, and four functions.

use std::io;

use weighbridge_record::{CaseId, PerOp, Properties, Property};

use super::caps::Caps;
use super::pattern::PatternInfo;
use super::resources::{EndResources, Facts};
use crate::axis::{self, Axis, Choice, Touch};
use crate::ctx::{Ctx, Time};
use crate::host::Host;
use crate::params::{CaseParams, Wait};

/// A case that cannot run on this machine: one sentence with the limit's name and how to raise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// Finds what is anomalous about the counters of a case, one sentence for each anomaly.
pub type CounterCheck = fn(&Prepared, &PerOp) -> Vec<String>;

/// The part of a target in the suites that compare everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InSuites {
    /// It is in each of them, at every size.
    AtEverySize,
    /// It is in each of them, but not among those that the quick suite compares at large sizes, for this reason.
    AtSmallSizes(&'static str),
    /// It is in none of them, for this reason.
    Never(&'static str),
}

/// A mechanism, signal or operation behind function pointers: dispatch happens once per case, and the timed loop stays static.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name in case ids.
    pub id: &'static str,
    /// What it is, in one sentence, as `weighbridge list` prints it.
    pub about: &'static str,
    /// Its capabilities.
    pub caps: Caps,
    /// What a choice may demand of it in a case, where it is a way to exchange messages; [`properties_of`](Target::properties_of) says it.
    pub properties: fn(&CaseParams) -> Option<Properties>,
    /// Ways to wait, the default first.
    pub waits: &'static [Wait],
    /// Settings of its own.
    pub axes: &'static [Axis],
    /// Patterns that can drive it.
    pub patterns: &'static [PatternInfo],
    /// Can this case run here?
    pub fit: fn(&Host, &CaseParams) -> Result<(), Unsupported>,
    /// Creates what the roles share: the resources of each, or of none where they share nothing.
    pub create: fn(&Host, &CaseParams) -> io::Result<Vec<EndResources>>,
    /// Attaches and drives one role: pattern, resources, case, context.
    pub drive: fn(&str, EndResources, &CaseParams, &mut Ctx<'_>) -> io::Result<Facts>,
    /// What its counters must look like.
    pub counter_check: CounterCheck,
    /// Its part in the suites that compare everything.
    pub in_suites: InSuites,
    /// Variables that its peers find in their environment: what they must know to have a target that is not compiled in.
    pub environment: &'static [(&'static str, &'static str)],
}

impl Target {
    /// The harness itself in place of `self`: roles that share nothing and exchange nothing, always possible.
    pub const fn harness(
        self,
        about: &'static str,
        drive: fn(&str, EndResources, &CaseParams, &mut Ctx<'_>) -> io::Result<Facts>,
    ) -> Target {
        Target {
            id: "noop",
            about,
            caps: Caps::HARNESS,
            properties: |_| None,
            fit: |_, _| Ok(()),
            create: |_, _| Ok(Vec::new()),
            drive,
            in_suites: InSuites::Never("the harness itself, which each suite measures once"),
            ..self
        }
    }

    /// Is it timed in virtual time?
    pub fn time(&self) -> Time {
        if self.caps.has(Caps::VIRTUAL_TIME) { Time::Virtual } else { Time::Raw }
    }

    /// What a choice may demand of it in this case. Boundaries and losses follow from its capabilities, and an end that spins sleeps on no
    /// descriptor.
    pub fn properties_of(&self, params: &CaseParams) -> Option<Properties> {
        if self.caps.has(Caps::HARNESS) {
            return None;
        }
        let own = (self.properties)(params)?;
        // A policy by which a receiver that is behind is overtaken is the user's own choice of losses.
        let is_overtaken = params.axes.get("policy").is_some_and(|policy| policy == "lossy");
        let loses = self.caps.has(Caps::LOSSY) || is_overtaken;
        let sleeps = !matches!(params.wait, Wait::Spin | Wait::SpinBlock | Wait::Yield);
        Some(
            own.with(Property::Boundaries, self.caps.has(Caps::PAYLOAD) && !self.caps.has(Caps::BYTE_STREAM))
                .with(Property::Lossless, !loses)
                .with(Property::Pollable, own.has(Property::Pollable) && sleeps),
        )
    }

    /// How often the bytes of a payload are copied on one way, the sender's writing and the receiver's reading of them apart.
    pub fn copies(&self) -> u32 {
        match self.caps {
            caps if !caps.has(Caps::PAYLOAD) || caps.has(Caps::ZERO_COPY) || caps.has(Caps::HARNESS) => 0,
            caps if caps.has(Caps::ONE_COPY) => 1,
            _ => 2,
        }
    }

    /// The axes of its cases in a pattern. What never waits has no way to wait, what carries nothing is not touched, and
    /// an axis of the pattern or the target stands in place of a common one of its name.
    pub fn axes_in(&self, pattern: &PatternInfo) -> Vec<Axis> {
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

/// Targets of one kind, and what the harness asks about all of them together.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its entries in the [catalogue](crate::catalogue), in the order in which people read of them.
    pub targets: &'static [Target],
    /// Takes away what programs that were killed have left of them.
    pub cleanup: fn(),
    /// The case that is the same code in the kernel under another name.
    pub same_code: fn(&CaseId) -> Option<CaseId>,
}

impl Family {
    /// Targets that leave nothing behind and of which no two are the same code.
    pub const fn of(targets: &'static [Target]) -> Family {
        Family { targets, cleanup: || (), same_code: |_| None }
    }
}

/// A case that can be run: id, target, pattern, placement, everything checked.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The case as its ends see it.
    pub params: CaseParams,
    /// What is measured.
    pub target: &'static Target,
    /// The pattern in which its ends talk.
    pub pattern: &'static PatternInfo,
    /// The placement with aliases resolved.
    pub resolved_placement: &'static str,
    /// The CPU of each role at every place of the machine that stands alike, the one of `params` first: one for each node or pair of nodes.
    /// None where there is no other.
    pub places: Vec<Vec<u32>>,
}

impl Prepared {
    /// The case at the place with this number, in turn: what holds of one node need not hold of the next.
    pub fn at_place(&self, number: usize) -> Prepared {
        let mut case = self.clone();
        if let Some(cpus) = self.places.get(number % self.places.len().max(1)) {
            case.params.cpus.clone_from(cpus);
        }
        case
    }

    /// Names of its roles.
    pub fn role_names(&self) -> Vec<&'static str> {
        (self.pattern.roles)(&self.params)
    }
}

/// Refuses a payload: the third part of the id of a case without one is 0.
pub fn carries_nothing(params: &CaseParams) -> Result<(), Unsupported> {
    match params.payload_bytes {
        0 => Ok(()),
        _ => {
            let why = format!("{} carries no payload; the third part of its id is 0", params.id.mechanism);
            Err(Unsupported(why))
        }
    }
}
