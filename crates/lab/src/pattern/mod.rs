//! How the ends talk. A pattern is written once, for every mechanism.

mod roundtrip;
mod stream;
pub(crate) mod working_set;

use std::io;
use std::sync::LazyLock;

pub use roundtrip::Roundtrip;
pub use stream::Stream;

use crate::axis::Axis;
use crate::contract::{Caps, EndResources, Endpoint, Mechanism};
use crate::ctx::Ctx;
use crate::params::CaseParams;
use crate::shared::MAX_ROLES;

/// How two ends of a mechanism talk.
pub trait Pattern {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// What it needs of a mechanism.
    const NEEDS: Caps;
    /// Names of the roles; the first leads, is the near end, and is the one whose clock counts.
    const ROLES: [&'static str; 2];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// Unit of its values.
    const UNIT: Unit;

    /// What one role does. `harness` is set where the mechanism exchanges nothing.
    ///
    /// # Errors
    /// The endpoint's, or a message that arrived damaged.
    fn drive<E: Endpoint>(end: &mut E, caps: Caps, cx: &mut Ctx<'_>) -> io::Result<()>;
}

/// What a sample is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of an operation, with the name of one.
    NanosPer(&'static str),
    /// Bytes that arrived in a second; messages where they are empty.
    BytesPerSecond,
    /// Operations in a second, with the name of many.
    PerSecond(&'static str),
}

impl Unit {
    /// As the record spells it.
    pub fn name(self, payload_bytes: u64) -> String {
        match self {
            Unit::NanosPer(op) => format!("ns/{op}"),
            Unit::BytesPerSecond if payload_bytes == 0 => "messages/s".into(),
            Unit::BytesPerSecond => "bytes/s".into(),
            Unit::PerSecond(ops) => format!("{ops}/s"),
        }
    }

    /// Is more better?
    pub fn higher_is_better(self) -> bool {
        !matches!(self, Unit::NanosPer(_))
    }
}

/// Which pattern, once types are erased. Signals, operations and whatever else has patterns of its own describe them with
/// this too.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Name in case ids.
    pub id: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// Needs of a mechanism.
    pub needs: Caps,
    /// Names of the roles of a case; how many there are may depend on an axis.
    pub roles: fn(&CaseParams) -> Vec<&'static str>,
    /// Settings of its own.
    pub axes: &'static [Axis],
    /// Unit of its values.
    pub unit: Unit,
    /// Do all roles do the same? Then they take the CPUs of a placement in turn; otherwise the first role has the first
    /// CPU, and all others the second.
    pub is_symmetric: bool,
}

/// Names of `count` roles that all do the same: `role-0`, `role-1` …
pub fn role_names(count: usize) -> Vec<&'static str> {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..MAX_ROLES).map(|role| format!("role-{role}")).collect());
    // More than there can be are refused before anybody is named.
    (0..count).map(|role| NAMES.get(role).map_or("role", String::as_str)).collect()
}

/// Lists the patterns once; everything that asks "which" goes through what this makes.
macro_rules! patterns {
    ($($pattern:ident),+ $(,)?) => {
        /// Every pattern of two ends that exchange messages.
        pub const ALL: &[Info] = &[$(Info {
            id: $pattern::ID,
            about: $pattern::ABOUT,
            needs: $pattern::NEEDS,
            roles: |_| $pattern::ROLES.to_vec(),
            axes: $pattern::AXES,
            unit: $pattern::UNIT,
            is_symmetric: false,
        }),+];

        /// Attaches and drives one role of a pattern with a mechanism known at compile time.
        ///
        /// # Errors
        /// The mechanism's or the pattern's.
        ///
        /// # Panics
        /// If there is no such pattern: cases are checked before a peer is started.
        pub fn drive<M: Mechanism>(id: &str, resources: EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
            match id {
                $($pattern::ID => drive_as::<M, $pattern>(resources, params, cx),)+
                _ => unreachable!("a case with the unknown pattern {id} passed the check"),
            }
        }
    };
}

patterns!(Roundtrip, Stream);

use crate::contract::{Facts, Side};
use crate::shared::Step;

fn drive_as<M: Mechanism, P: Pattern>(
    resources: EndResources,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let side = if cx.role == 0 { Side::Near } else { Side::Far };
    cx.set_step(Step::Attach);
    let mut end = M::attach(side, resources, params)?;
    cx.set_step(Step::Prefault);
    end.prefault()?;
    cx.set_step(Step::Verify);
    P::drive(&mut end, M::CAPS, cx)?;
    end.settle()?;
    Ok(end.facts())
}
