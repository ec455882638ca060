//! Causeway beside what its targets are stated against, so that each ratio is one of runs in the same rounds.

use std::time::Duration;

use super::{BOTH, KIB, MIB, ROUNDTRIP, STREAM};
use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

const SIZES: Sizes = Sizes::These(&[1, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB]);
const COPY_AND_IN_PLACE: &[&str] = &["copy", "in-place"];

pub(super) const SUITE: Suite = Suite {
    name: "causeway",
    about: "Causeway beside what its targets are stated against: pipe, bare cache line, ring",
    timing: Timing { sample_ns: 4_700_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
    budget: Duration::from_secs(5 * 60),
    precision: 0.02,
    crossover: None,
    in_turn: true,
    groups: &[
        Group::of(ROUNDTRIP, &["pipe"], SIZES, BOTH).with(&[("wait", &["poll"])]),
        Group::of(ROUNDTRIP, &["causeway-sw"], SIZES, &["same-cpu"])
            .with(&[("wait", &["block"]), ("receive", COPY_AND_IN_PLACE)]),
        Group::of(ROUNDTRIP, &["causeway-sw"], SIZES, &["two-cpus"])
            .with(&[("wait", &["spin-block"]), ("receive", COPY_AND_IN_PLACE)]),
        Group::of(ROUNDTRIP, &["causeway-sw", "causeway-mw"], Sizes::These(&[8]), &["two-cpus"])
            .with(&[("wait", &["spin"]), ("receive", COPY_AND_IN_PLACE)]),
        Group::one(ROUNDTRIP, &["ring-spin"], &[8], &["two-cpus"], &[]),
        Group::one(&["pingpong"], &["atomic"], &[0], &["two-cpus"], &[]),
        Group::one(STREAM, &["ring-spin"], &[64 * KIB], &["two-cpus"], &[]),
        Group::of(STREAM, &["causeway-sw"], Sizes::These(&[64 * KIB]), &["two-cpus"])
            .with(&[("wait", &["spin"]), ("receive", COPY_AND_IN_PLACE)]),
        Group::one(
            &["fan-out"],
            &["causeway-sw"],
            &[64],
            &["free"],
            &[("receivers", &["100"]), ("burst", &["16"]), ("wait", &["yield"])],
        ),
        Group::of(&["fan-in"], &["causeway-mw", "causeway-sw"], Sizes::These(&[64]), &["free"])
            .with(&[("writers", &["4"])]),
        Group::of(&["fan-in"], &["pipe", "unix-stream"], Sizes::These(&[64]), &["free"])
            .with(&[("streams", &["4"]), ("writers", &["4"])]),
    ],
};
