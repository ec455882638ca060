//! Messages arrive whole, in order and once: peers check each of the first byte by byte, and the sum of every batch.

use weighbridge_harness::contract::{Caps, Target};
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;

use crate::runs::{SHORT, anywhere, everywhere, measure, measured, prepare, skip};

const SIZES: [u64; 7] = [0, 1, 7, 4096, 65_536, 1 << 20, 4 << 20];

/// Every mechanism carries a page; what does not carry more says by which limit.
pub fn every_size(host: &Host, target: &'static Target) {
    for size in SIZES {
        for id in everywhere(target, size) {
            // What length does to a message it does on one CPU; two are for the order in which the ends run.
            if !(id.placement == "two-cpus" && [7, 4 << 20].contains(&size)) {
                measure_or_refuse(host, target, &id);
            }
        }
    }
}

/// A run that gives numbers, unless the case is refused as it may be.
fn measure_or_refuse(host: &Host, target: &Target, id: &CaseId) {
    match prepare(host, id) {
        Ok(case) => drop(measure(host, &case, SHORT)),
        Err(why) if why.contains("io_uring") => skip(host, id, &why),
        Err(why) => check_refusal(host, id, target, &why),
    }
}

/// What may be refused at all, and in which words.
fn check_refusal(host: &Host, id: &CaseId, target: &Target, why: &str) {
    if why.contains("two CPUs") || why.contains("spinning on one CPU") {
        return skip(host, id, why);
    }
    if id.payload_bytes == 0 && target.caps.has(Caps::NEVER_EMPTY) {
        assert!(why.contains("cannot carry an empty message; the smallest is 1 byte"), "{id}: {why}");
        return;
    }
    assert!(id.payload_bytes > 4096, "{id}: {why}");
    let says_one_of = |words: &[&str]| assert!(words.iter().any(|words| why.contains(words)), "{id}: {why}");
    says_one_of(&[
        "fs.mqueue.msgsize_max",
        "kernel.msgmax",
        "net.core.wmem_default",
        "IPv4 packet",
        "PIPE_BUF",
    ]);
    says_one_of(&["sysctl", "set the axis", "smaller size"]);
}

/// A small message and one that fills most queues, in each way to wait but the default, which all other tests have.
pub fn every_wait(host: &Host, target: &'static Target) {
    for wait in &target.waits[1..] {
        for size in [1, 65_507] {
            for id in everywhere(target, size) {
                // What a stream of small messages waits for is in every size already.
                if !(id.pattern == "stream" && size == 1) {
                    measure_or_refuse(host, target, &id.with("wait", wait.name()));
                }
            }
        }
    }
}

/// Both roles in one process.
pub fn threads(host: &Host, target: &'static Target) {
    for size in [7, 65_507] {
        for id in everywhere(target, size) {
            measure_or_refuse(host, target, &id.with("peers", "thread"));
        }
    }
}

/// A size that is not a multiple of a page, above one where the mechanism carries that.
fn odd_size(host: &Host, target: &Target, placement: &str) -> u64 {
    let carries = |size: &u64| prepare(host, &CaseId::new("roundtrip", target.id, *size, placement)).is_ok();
    [5000, 3000].into_iter().find(carries).expect("every mechanism carries a page")
}

/// A full message one way and an empty one back (one byte on a stream), and payloads touched in part.
pub fn directions_and_touches(host: &Host, target: &'static Target) {
    let Some(placement) = anywhere(target, host) else { return };
    let size = odd_size(host, target, placement);
    let roundtrip = CaseId::new("roundtrip", target.id, size, placement);
    let stream = CaseId::new("stream", target.id, size, placement);
    let mut ids = vec![roundtrip.clone().with("direction", "request")];
    for touch in ["none", "first", "lines", "all", "write"] {
        ids.extend([roundtrip.clone().with("touch", touch), stream.clone().with("touch", touch)]);
    }
    for id in ids {
        let measured = measure(host, &prepare(host, &id).unwrap(), SHORT);
        if id.axes.contains_key("direction") {
            let client = &measured.roles[0].counted;
            let least = u64::from(target.caps.has(Caps::NEVER_EMPTY));
            assert_eq!(client.received_bytes, client.ops * least, "{id}");
        }
    }
}

/// Long enough that the few faults of a beginning do not count.
const WARM: Timing = Timing { sample_ns: 2_000_000, samples: 5, least_samples: 5, run_ns: 10_000_000 };

/// A page that is touched anew for each message, or each fourth, would show.
pub fn no_faults_when_warm(host: &Host, target: &'static Target) {
    let Some(placement) = anywhere(target, host) else { return };
    let id = CaseId::new("roundtrip", target.id, 4096, placement);
    let measured = measure(host, &prepare(host, &id).unwrap(), WARM);
    for role in &measured.roles {
        let (faults, ops) = (role.counted.task.minor_faults, role.counted.ops);
        if target.caps.has(Caps::MAPS) {
            assert!(faults >= ops, "{id}: {faults} faults in {ops} operations, each of which maps")
        } else {
            assert!(faults * 4 < ops, "{id}: {faults} faults in {ops} operations")
        }
    }
}

/// What a stream's receiver copies to fresh memory costs it a fault for each page, and to warm memory none; what came from a
/// working set is compared by the receiver itself.
pub fn fresh_memory_faults_and_warm_does_not(host: &Host, target: &'static Target) {
    let Some(placement) = anywhere(target, host) else { return };
    let stream = |pages| CaseId::new("stream", target.id, pages * 4096, placement);
    let message_pages = if prepare(host, &stream(2)).is_ok() { 2 } else { 1 };
    for (working_set, memory) in [("default", "fresh"), ("300000", "fresh"), ("300000", "warm")] {
        let id = stream(message_pages).with("working-set", working_set).with("memory", memory);
        let measured = measure(host, &prepare(host, &id).unwrap(), WARM);
        let receiver = &measured.roles[1].counted;
        let mapped = if target.caps.has(Caps::MAPS) { receiver.ops * message_pages } else { 0 };
        let (faults, pages) = (receiver.task.minor_faults, receiver.ops * message_pages);
        let wanted =
            if memory == "fresh" { pages..=pages + mapped + pages / 4 } else { 0..=mapped + pages / 4 };
        assert!(wanted.contains(&faults), "{id}: {faults} faults, {pages} pages");
    }
}

/// One role alone has both ends: what it measures holds no wait, and what cannot be says why.
pub fn to_itself(host: &Host, target: &'static Target) {
    for size in [1, 4096, 65_536] {
        let id = CaseId::new("self", target.id, size, "same-cpu");
        match prepare(host, &id) {
            Ok(case) => {
                let measured = measured(host, &case, SHORT);
                let [role] = &measured.roles[..] else { panic!("{id}: one role") };
                assert_eq!(role.counted.received_bytes, 2 * role.counted.ops * size, "{id}: there and back");
                let switches = role.counted.task.voluntary_switches as f64 / role.counted.ops as f64;
                assert!(switches < 0.01, "{id}: {switches} voluntary switches");
            }
            Err(why) if why.contains("has no `self`: ") => {}
            Err(why) => check_refusal(host, &id, target, &why),
        }
    }
    let refused = |id: &CaseId| prepare(host, id).unwrap_err();
    let apart = refused(&CaseId::new("self", target.id, 1, "two-cpus"));
    assert!(apart.contains("one role alone has no two-cpus") || apart.contains("two CPUs"), "{apart}");
}
