//! Targets for unit tests: what is judged needs a name, capabilities and roles, and nothing that runs.

use weighbridge_record::CaseId;

use crate::axis::{Axis, ROLES, Values};
use crate::contract::{Caps, InSuites, PatternInfo, Prepared, Target, Unit, role_names};
use crate::counter_check;
use crate::params::{CaseParams, Wait};
use crate::pattern;

const fn own_pattern(id: &'static str, axes: &'static [Axis]) -> PatternInfo {
    let (about, needs, unit, is_symmetric) = ("", Caps::NONE, Unit::NanosPer("op"), false);
    PatternInfo { id, about, needs, roles: |_| role_names(2), axes, unit, is_symmetric }
}

const PINGPONG: &[PatternInfo] = &[own_pattern("pingpong", &[])];
const SOLO: &[PatternInfo] = &[own_pattern("solo", &[])];
const FAN_IN: &[PatternInfo] = &[own_pattern("fan-in", &[])];
const FAN_OUT: &[PatternInfo] = &[own_pattern("fan-out", &[])];
const CONTEND: &[PatternInfo] =
    &[own_pattern("contend", &[Axis { name: ROLES, default: "2", values: Values::Count, about: "" }])];

const fn target(
    id: &'static str,
    patterns: &'static [PatternInfo],
    caps: Caps,
    waits: &'static [Wait],
) -> Target {
    Target {
        id,
        about: "",
        caps,
        properties: |_| None,
        waits,
        axes: &[],
        patterns,
        fit: |_, _| Ok(()),
        create: |_, _| unreachable!("it is only looked at"),
        drive: |_, _, _, _| unreachable!("it is only looked at"),
        counter_check: counter_check::of_messages,
        in_suites: InSuites::AtEverySize,
        environment: &[],
    }
}

const KERNEL: &[Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::Uring];
const COPIED: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
const IN_PLACE: Caps = COPIED.and(Caps::ZERO_COPY);

static TARGETS: &[Target] = &[
    target("noop", pattern::ALL, COPIED.and(Caps::HARNESS), KERNEL),
    target("pipe", pattern::ALL, COPIED.and(Caps::BYTE_STREAM), KERNEL),
    target("unix-stream", pattern::ALL, COPIED.and(Caps::BYTE_STREAM), KERNEL),
    target("ring-spin", pattern::ALL, IN_PLACE, &[Wait::Spin]),
    target("memfd-pass", pattern::ALL, IN_PLACE.and(Caps::MAPS), KERNEL),
    target("mock", pattern::ALL, COPIED.and(Caps::HARNESS).and(Caps::VIRTUAL_TIME), KERNEL),
    target("noop", PINGPONG, Caps::HARNESS, KERNEL),
    target("spin-yield", PINGPONG, Caps::YIELDS, KERNEL),
    target("noop", SOLO, Caps::HARNESS, &[]),
    target("getppid", SOLO, Caps::NONE, &[]),
    target("sched-yield", SOLO, Caps::YIELDS, &[]),
    target("memcpy", SOLO, Caps::PAYLOAD, &[]),
    target("noop", FAN_IN, Caps::HARNESS, &[]),
    target("pipe", FAN_IN, Caps::YIELDS, &[]),
    target("unix-stream", FAN_OUT, Caps::PAYLOAD, &[]),
    target("mutex", CONTEND, Caps::NONE, KERNEL),
];

/// The case with this id, whose roles have these CPUs.
pub(crate) fn case(id: &str, cpus: &[u32]) -> Prepared {
    let id: CaseId = id.parse().unwrap();
    let drives = |target: &&Target| {
        target.id == id.mechanism && target.patterns.iter().any(|own| own.id == id.pattern)
    };
    let target = TARGETS.iter().find(drives).unwrap_or_else(|| panic!("no target for {id}"));
    let pattern = target.patterns.iter().find(|own| own.id == id.pattern).unwrap();
    let mut params = CaseParams::new(&id, &target.axes_in(pattern), target.waits).unwrap();
    params.cpus = cpus.to_vec();
    Prepared { params, target, pattern, resolved_placement: "same-llc", places: Vec::new() }
}
