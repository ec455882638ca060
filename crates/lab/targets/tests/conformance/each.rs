//! Cases that time each operation by itself.

use causeway_testkit::eventually;
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_record::{CaseId, Latencies};

use crate::measured::at_a_rate;
use crate::runs::{PLACEMENTS, SHORT, measured, prepare, prepare_or_skip, run};

fn latencies(host: &Host, id: &CaseId) -> Option<(Latencies, u64)> {
    let (timed, ops) = perhaps_timed(host, id)?;
    Some((timed.expect("each operation is timed"), ops))
}

/// The latencies, where there are any, and the operations of all samples.
fn perhaps_timed(host: &Host, id: &CaseId) -> Option<(Option<Latencies>, u64)> {
    let measured = measured(host, &prepare_or_skip(host, id)?, SHORT);
    let ops = measured.samples.iter().map(|sample| sample.ops).sum();
    Some((measured.roles[0].counted.latencies.clone(), ops))
}

/// Every operation of every sample is there, and none is longer than the longest.
pub fn timed(host: &Host) {
    for mechanism in ["pipe", "unix-seqpacket", "mock"] {
        let id = CaseId::new("roundtrip", mechanism, 64, "same-cpu").with("time", "each");
        let Some((timed, ops)) = latencies(host, &id) else { continue };
        assert_eq!(timed.counts.iter().map(|(_, count)| count).sum::<u64>(), ops, "{id}");
        let (longest, _) = timed.counts.last().expect("there are operations");
        assert!(*longest as f64 <= timed.max_ns as f64 * 1.01, "{id}: {longest} {}", timed.max_ns);
        assert!(timed.counts.is_sorted(), "{id}");
        if mechanism == "mock" {
            assert!(matches!(timed.counts[..], [(993..=1007, _)]) && timed.max_ns == 1000, "{id}: {timed:?}");
        }
    }
}

/// A round trip of a microsecond, asked for every two microseconds, takes one; asked for twice in a microsecond, each waits
/// for all that are late before it.
pub fn open_loop(host: &Host) {
    let id = CaseId::new("roundtrip", "mock", 64, "same-cpu");
    let (calm, _) = latencies(host, &id.clone().with("rate", "500000")).expect("needs nothing");
    assert_eq!(calm.max_ns, 1000);
    let (late, ops) = latencies(host, &id.with("rate", "2000000")).expect("needs nothing");
    assert!(late.max_ns > 1000 + ops * 400, "{ops} operations, the last {} ns late", late.max_ns);
    assert!(late.counts.len() > 3, "{late:?}");
}

/// Requests that are due at a rate, one after the other by those who wait in the kernel, and by the calls of both products.
pub fn calls_at_a_rate(host: &Host) {
    for mechanism in ["noop", "pipe", "causeway-sw", "causeway-call", "ring-spin"] {
        for placement in PLACEMENTS {
            let id = CaseId::new("roundtrip", mechanism, 64, placement).with("rate", "2000");
            let Some(case) = prepare_or_skip(host, &id) else { continue };
            at_a_rate(&id, &measured(host, &case, SHORT), 1, 2000);
        }
    }
}

/// The harness exchanges nothing, and so takes less than a reading of the clock.
pub fn too_short(host: &Host) {
    let id = CaseId::new("roundtrip", "noop", 1, "same-cpu").with("time", "each");
    let case = prepare(host, &id).expect("the harness runs everywhere");
    let outcome = run(host, &case, SHORT);
    let Outcome::Failed { step, why } = outcome else { panic!("{outcome:?}") };
    assert!(step == "batches" && why.contains("leave out time=each"), "{step}: {why}");
}

/// Without being asked: of a megabyte each round trip is timed, of a byte on one CPU none is.
pub fn auto(host: &Host) {
    let of = |bytes| CaseId::new("roundtrip", "pipe", bytes, "same-cpu");
    let latencies = |id: CaseId| perhaps_timed(host, &id).expect("every machine has it");
    let (timed, ops) = latencies(of(1 << 20));
    let timed = timed.expect("two readings of the clock are nothing to it");
    assert_eq!(timed.counts.iter().map(|(_, count)| count).sum::<u64>(), ops, "samples, and nothing else");
    assert_eq!(latencies(of(1 << 20).with("time", "batch")).0, None);
    // Beside a load a round trip may take long, as long as that goes on.
    eventually("a byte is timed singly each time", || latencies(of(1)).0.is_none());
}
