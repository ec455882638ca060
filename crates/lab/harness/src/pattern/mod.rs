//! How the ends talk. A pattern is written once, for every mechanism.

mod marked;
mod roundtrip;
mod stream;
mod to_itself;
pub(crate) mod transfer;
pub(crate) mod working_set;

use std::io;

pub use roundtrip::Roundtrip;
pub use stream::Stream;

use crate::axis::Axis;
use crate::contract::{Caps, EndResources, Endpoint, Facts, Mechanism, PatternInfo, Side, Target, Unit};
use crate::counter_check;
use crate::ctx::Ctx;
use crate::params::CaseParams;
use crate::shared::Step;

/// How two ends of a mechanism talk.
pub trait Pattern {
    /// Its name in case ids.
    const ID: &'static str;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;
    /// The capabilities that a mechanism must have.
    const NEEDS: Caps;
    /// Names of the roles; the first leads, is the near end, and is the one whose clock counts.
    const ROLES: [&'static str; 2];
    /// Settings of its own.
    const AXES: &'static [Axis] = &[];
    /// Unit of its values.
    const UNIT: Unit;

    /// What one role does. `harness` is set where the mechanism exchanges nothing.
    fn drive<E: Endpoint>(end: &mut E, caps: Caps, cx: &mut Ctx<'_>) -> io::Result<()>;
}

const fn info<P: Pattern>() -> PatternInfo {
    PatternInfo {
        id: P::ID,
        about: P::ABOUT,
        needs: P::NEEDS,
        roles: |_| P::ROLES.to_vec(),
        axes: P::AXES,
        unit: P::UNIT,
        is_symmetric: false,
    }
}

/// Every pattern of the two ends of a mechanism.
pub const ALL: &[PatternInfo] = &[info::<Roundtrip>(), info::<Stream>(), to_itself::INFO];

/// Attaches and drives one role of a pattern with a mechanism known at compile time.
pub fn drive_mechanism<M: Mechanism>(
    id: &str,
    resources: EndResources,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    match id {
        Roundtrip::ID => drive_pattern::<M, Roundtrip>(resources, params, cx),
        Stream::ID => drive_pattern::<M, Stream>(resources, params, cx),
        _ if id == to_itself::INFO.id => to_itself::drive::<M>(resources, params, cx),
        _ => unreachable!("a case with the unknown pattern {id} passed the check"),
    }
}

/// The entry of a mechanism in the catalogue.
pub const fn target<M: Mechanism>() -> Target {
    Target {
        id: M::ID,
        about: M::ABOUT,
        caps: M::CAPS,
        properties: |params| Some(M::properties(params)),
        waits: M::WAITS,
        axes: M::AXES,
        patterns: ALL,
        fit: |host, params| {
            to_itself::fit::<M>(params)?;
            transfer::fit(M::caps(params), params)?;
            M::fit(host, params)
        },
        create: |host, params| {
            let [near, far] = M::create(host, params)?;
            Ok(if params.id.pattern == to_itself::INFO.id { vec![near.with(far)] } else { vec![near, far] })
        },
        drive: drive_mechanism::<M>,
        counter_check: match M::COUNTER_CHECK {
            Some(own) => own,
            None => counter_check::of_messages,
        },
        in_suites: M::IN_SUITES,
        environment: &[],
    }
}

fn drive_pattern<M: Mechanism, P: Pattern>(
    resources: EndResources,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let side = if cx.role == 0 { Side::Near } else { Side::Far };
    cx.set_step(Step::Attach);
    let mut end = M::attach(side, resources, params)?;
    cx.set_step(Step::Prefault);
    end.prefault()?;
    let facts = end.facts().map_err(|error| {
        io::Error::new(error.kind(), format!("reading back the settings of {}: {error}", params.id.mechanism))
    })?;
    cx.set_step(Step::Verify);
    let caps = M::caps(params);
    match cx.marks(caps.has(Caps::LOSSY)) {
        None => P::drive(&mut end, caps, cx)?,
        Some(marks) => P::drive(&mut marked::Marked::new(&mut end, marks), caps, cx)?,
    }
    end.settle()?;
    if side == Side::Near {
        let figures = end.figures().map_err(|error| {
            io::Error::new(error.kind(), format!("reading what {} has counted: {error}", params.id.mechanism))
        })?;
        figures.into_iter().for_each(|(name, value)| cx.note_series(name, vec![value]));
    }
    Ok(facts)
}
