//! Causeway beside what its targets are stated against, so that each ratio is one of runs in the same rounds.

use std::time::Duration;

use super::{BOTH, Group, KIB, MIB, Sizes, Suite};
use crate::planner::Timing;

const SIZES: Sizes = Sizes::These(&[1, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB]);
const COPY_AND_IN_PLACE: &[&str] = &["copy", "in-place"];

pub(super) const SUITE: Suite = Suite {
    name: "causeway",
    about: "Causeway beside what its targets are stated against: pipe, bare cache line, ring",
    timing: Timing { sample_ns: 4_000_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
    budget: Duration::from_secs(5 * 60),
    precision: 0.02,
    meet: None,
    groups: &[
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["pipe"],
            sizes: SIZES,
            placements: BOTH,
            axes: &[("wait", &["poll"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["causeway-sw"],
            sizes: SIZES,
            placements: &["same-cpu"],
            axes: &[("wait", &["block"]), ("receive", COPY_AND_IN_PLACE)],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["causeway-sw"],
            sizes: SIZES,
            placements: &["two-cpus"],
            axes: &[("wait", &["spin-block"]), ("receive", COPY_AND_IN_PLACE)],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["causeway-sw", "causeway-mw"],
            sizes: Sizes::These(&[8]),
            placements: &["two-cpus"],
            axes: &[("wait", &["spin"]), ("receive", COPY_AND_IN_PLACE)],
        },
        Group::one(&["roundtrip"], &["ring-spin"], &[8], &["two-cpus"], &[]),
        Group::one(&["handoff"], &["atomic"], &[0], &["two-cpus"], &[]),
        Group::one(&["stream"], &["ring-spin"], &[64 * KIB], &["two-cpus"], &[]),
        Group {
            patterns: &["stream"],
            mechanisms: &["causeway-sw"],
            sizes: Sizes::These(&[64 * KIB]),
            placements: &["two-cpus"],
            axes: &[("wait", &["spin"]), ("receive", COPY_AND_IN_PLACE)],
        },
        Group::one(
            &["fan-out"],
            &["causeway-sw"],
            &[64],
            &["free"],
            &[("receivers", &["100"]), ("burst", &["16"]), ("wait", &["yield"])],
        ),
        Group {
            patterns: &["fan-in"],
            mechanisms: &["causeway-mw", "causeway-sw"],
            sizes: Sizes::These(&[64]),
            placements: &["free"],
            axes: &[("writers", &["4"])],
        },
        Group {
            patterns: &["fan-in"],
            mechanisms: &["pipe", "unix-stream"],
            sizes: Sizes::These(&[64]),
            placements: &["free"],
            axes: &[("streams", &["4"]), ("writers", &["4"])],
        },
    ],
};
