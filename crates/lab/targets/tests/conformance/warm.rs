//! What comes before samples: a warm-up by time on two CPUs, pauses where the case asks for bursts.

use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::ctx::Discarded;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;

use crate::runs::measured_or_skip;

pub const TESTS: &[crate::Test] = &[
    ("roles_on_two_cpus_warm_up_by_time_and_tell_what_was_discarded", by_time),
    ("roles_on_one_cpu_do_not", not_on_one_cpu),
    ("each_burst_follows_a_pause_of_all_roles", bursts),
];

const TIMING: Timing = Timing { sample_ns: 2_000_000, samples: 10, least_samples: 5, run_ns: 40_000_000 };

fn discarded(measured: &Measured) -> Option<Discarded> {
    measured.roles.iter().find_map(|report| report.counted.warm_up)
}

fn by_time(host: &Host) {
    for id in [
        "roundtrip/pipe/64/two-cpus",
        "stream/pipe/4096/two-cpus",
        "contend/mutex/0/two-cpus/roles=2",
        "fan-in/pipe/64/two-cpus/streams=2",
    ] {
        let Some((_, measured)) = measured_or_skip(host, id, TIMING) else { continue };
        let Some(discarded) = discarded(&measured) else { panic!("{id}: no warm-up") };
        // Four times what the samples take.
        let least_ns = if discarded.is_steady { 100_000_000 } else { 160_000_000 };
        assert!(discarded.ns >= least_ns && discarded.batches > 0, "{id}: {discarded:?}");
    }
}

fn not_on_one_cpu(host: &Host) {
    for id in ["roundtrip/pipe/64/same-cpu", "solo/getppid/0/same-cpu", "roundtrip/mock/1/two-cpus"] {
        let Some((_, measured)) = measured_or_skip(host, id, TIMING) else { continue };
        assert_eq!(discarded(&measured), None, "{id}");
    }
}

fn bursts(host: &Host) {
    for id in [
        "roundtrip/pipe/64/two-cpus/warm=cold",
        "roundtrip/ring-spin/64/two-cpus/warm=cold",
        "pingpong/futex/0/same-cpu/warm=cold",
    ] {
        let Some((_, measured)) = measured_or_skip(host, id, TIMING) else { continue };
        // Fewer than asked for where roles that spin have no CPU for themselves.
        let samples = measured.samples.len();
        assert!((TIMING.least_samples..=TIMING.samples).contains(&samples), "{id}: {samples} samples");
        assert_eq!(discarded(&measured), None, "{id}");
        for pair in measured.samples.windows(2) {
            let pause_ns = pair[1].start_ns - (pair[0].start_ns + pair[0].elapsed_ns);
            assert!(pause_ns >= 20_000_000, "{id}: {pause_ns} ns between two bursts");
        }
        for report in &measured.roles {
            let pauses = measured.samples.len() as u64 - 1;
            assert!(report.counted.task.voluntary_switches >= pauses, "{id}: {report:?} does not sleep");
        }
    }
}
