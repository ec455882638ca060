//! What every way to reach many promises.

use weighbridge_harness::contract::{Caps, Target};
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::killed::killed;
use crate::measured::{self, measure, series};
use crate::runs::{Promises, with};

pub const PROMISES: Promises = &[
    ("every_receiver_has_every_message", reaches_all),
    ("waits_in_every_way_that_it_offers", every_wait),
    ("each_receiver_is_timed_from_when_a_message_was_due", at_a_rate),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        let id = CaseId::new("fan-out", target.id, 64, "free").with("receivers", "2");
        killed(host, &id, &["sender", "receiver", "receiver"]);
    }),
];

fn reaches_all(host: &Host, target: &'static Target) {
    let of = |payload_bytes: u64, placement: &str, axes: &[(&str, &str)]| {
        with(CaseId::new("fan-out", target.id, payload_bytes, placement).with("receivers", "5"), axes)
    };
    let cases = [
        of(8, "same-cpu", &[]),
        of(8, "two-cpus", &[]),
        of(4096, "free", &[("burst", "4")]),
        of(100, "free", &[("peers", "thread"), ("burst", "3"), ("touch", "none")]),
        of(16_384, "free", &[("touch", "lines")]),
        of(64, "two-cpus", &[("receivers", "1")]),
        // More than the buffers hold: the sender waits for room while the receivers read.
        of(4096, "same-cpu", &[("burst", "300"), ("touch", "none")]),
    ];
    for id in cases {
        let Some(measured) = measure(host, &id) else { continue };
        let sent = measured.roles[0].counted.ops;
        assert!(measured.roles.iter().all(|role| role.counted.ops == sent), "{id}");
        for name in [
            "sender_ns",
            "switches_per_message",
            "voluntary_switches_per_message",
            "involuntary_switches_per_message",
        ] {
            assert_eq!(series(&measured, name).len(), measured.samples.len(), "{id}: {name}");
        }
        let lost: f64 = series(&measured, "lost").iter().sum();
        assert!(lost == 0.0 || target.caps.has(Caps::LOSSY), "{id}: {lost} lost");
        for (sample, sender_ns) in measured.samples.iter().zip(series(&measured, "sender_ns")) {
            let all_ns = sample.elapsed_ns as f64 / sample.ops as f64;
            assert!(*sender_ns > 0.0 && *sender_ns <= all_ns, "{id}: {sender_ns} of {all_ns} ns");
        }
    }
}

/// A source that does not wait for its receivers.
fn at_a_rate(host: &Host, target: &'static Target) {
    for (placement, burst) in [("same-cpu", 1), ("two-cpus", 1), ("free", 2)] {
        let axes = [("receivers", "3"), ("rate", "2000"), ("burst", &burst.to_string())];
        let id = with(CaseId::new("fan-out", target.id, 64, placement), &axes);
        let Some(measured) = measure(host, &id) else { continue };
        let lost: f64 = series(&measured, "lost").iter().sum();
        if lost == 0.0 {
            measured::at_a_rate(&id, &measured, burst, 2000);
            assert_eq!(
                measured.roles.iter().filter(|role| role.counted.latencies.is_some()).count(),
                3,
                "{id}"
            );
        }
        assert!(lost == 0.0 || target.caps.has(Caps::LOSSY), "{id}: {lost} lost");
    }
}

/// Some receive in bursts; a burst is a message to each of several.
fn every_wait(host: &Host, target: &'static Target) {
    for wait in target.waits {
        let axes = [("receivers", "3"), ("burst", "5"), ("wait", wait.name())];
        let id = with(CaseId::new("fan-out", target.id, 300, "free"), &axes);
        let Some(measured) = measure(host, &id) else { continue };
        assert_eq!(measured.roles.len(), 4);
    }
}
