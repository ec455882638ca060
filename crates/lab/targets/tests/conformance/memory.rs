//! What the kernel does not see: messages in shared memory, counted by the mechanism itself, and who waits for them.

use weighbridge_harness::conditions::violations;
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::host::Host;
use weighbridge_harness::hub;
use weighbridge_record::CaseId;

use crate::duet;
use crate::runs::{SHORT, measured_or_skip, prepare_or_skip};

pub const TESTS: &[crate::Test] = &[
    ("operations_that_the_mechanism_has_not_counted_make_a_run_void", uncounted),
    ("a_stream_in_memory_of_two_that_never_sleep_is_no_stream_of_two_that_block", spins),
    ("a_receiver_that_blocks_has_slept_in_a_stream_in_memory", sleeps),
];

/// Every mechanism that counts, and every pattern whose operations can be counted so.
const COUNTED: &[&str] = &[
    "roundtrip/ring-spin/64/two-cpus",
    "roundtrip/ring-futex/64/same-cpu/direction=request",
    "roundtrip/ring-eventfd/64/same-cpu",
    "roundtrip/buffers-barrier/64/two-cpus",
    "roundtrip/causeway-sw/64/same-cpu",
    "roundtrip/causeway-sw/4096/same-cpu/receive=in-place",
    "roundtrip/causeway-mw/64/same-cpu",
    "roundtrip/causeway-memfd/4096/same-cpu",
    "roundtrip/memfd-pass/64/same-cpu",
    "stream/ring-futex/4096/same-cpu",
    "stream/causeway-sw/4096/same-cpu",
    "stream/causeway-mw/100/same-cpu",
    "stream/memfd-pass/4096/same-cpu",
    "self/ring-futex/64/same-cpu",
    "self/causeway-sw/64/same-cpu",
    "fan-out/ring-broadcast/64/free/receivers=2",
    "fan-out/causeway-sw/64/free/receivers=2",
    "fan-out/unix-stream/64/free/receivers=2",
];

/// Three in a hundred more, and at least one, in the samples and in every role, with the bytes that follow from them.
fn more(case: &Prepared, measured: &mut Measured) {
    let more = |ops: &mut u64| *ops += *ops * 3 / 100 + 1;
    measured.samples.iter_mut().for_each(|sample| more(&mut sample.ops));
    let sampled = measured.samples.iter().map(|sample| sample.ops).sum();
    for role in &mut measured.roles {
        let each_bytes = role.counted.received_bytes / role.counted.ops.max(1);
        more(&mut role.counted.ops);
        role.counted.received_bytes = role.counted.ops * each_bytes;
        role.counted.sampled.ops = sampled;
    }
    let is_stream = case.params.id.pattern == "stream";
    let bytes = |ops: u64| if is_stream { ops * case.params.id.payload_bytes } else { 0 };
    measured.samples.iter_mut().for_each(|sample| sample.bytes = bytes(sample.ops));
}

fn uncounted(host: &Host) {
    for id in COUNTED {
        let Some((case, mut measured)) = measured_or_skip(host, id, SHORT) else { continue };
        assert_eq!(violations(&case, &measured), [""; 0], "{id}");
        more(&case, &mut measured);
        let found = violations(&case, &measured);
        let words = "is how far its mechanism says that it came";
        assert!(
            found.iter().any(|why| why.contains("law `messages`") && why.contains(words)),
            "{id}: {found:?}"
        );
    }
}

/// A set of a stream and its hub; the case says afterwards that its roles block. As if no other program had taken the receiver's CPU, which
/// decides whether anything is said of it.
fn in_turn(host: &Host, id: &str) -> Option<(Prepared, Measured)> {
    let id: CaseId = id.parse().unwrap();
    let mut case = prepare_or_skip(host, &id)?;
    let hub = hub::of(&case).expect("a stream takes turns");
    let mut measured = duet::measure(host, &[id, hub])?.swap_remove(0);
    case.params.axes.insert("wait".into(), "block".into());
    let elapsed_ns: u64 = measured.samples.iter().map(|sample| sample.elapsed_ns).sum();
    measured.roles[1].counted.sampled.cpu_ns = elapsed_ns * 95 / 100;
    Some((case, measured))
}

fn slept(case: &Prepared, measured: &Measured) -> bool {
    violations(case, measured).iter().all(|why| !why.contains("law `sleeps`"))
}

fn spins(host: &Host) {
    for id in ["stream/ring-spin/4096/two-cpus", "stream/causeway-sw/4096/two-cpus/wait=spin"] {
        // Something else may have put a role to sleep, a page of a file for instance.
        let mut seen = Vec::new();
        let is_told = (0..5).any(|_| {
            let Some((case, measured)) = in_turn(host, id) else { return true };
            let is_told = !slept(&case, &measured);
            seen.push(measured.roles);
            is_told
        });
        assert!(is_told, "{id}: {seen:?}");
    }
}

fn sleeps(host: &Host) {
    for id in [
        "stream/ring-futex/4096/two-cpus",
        "stream/ring-futex/64/same-cpu",
        "stream/ring-eventfd/64/two-cpus",
        "stream/causeway-sw/4096/two-cpus/wait=block",
        "stream/causeway-sw/64/two-cpus/wait=block",
        "stream/causeway-sw/64/same-cpu/wait=block",
    ] {
        let Some((case, mut measured)) = in_turn(host, id) else { continue };
        assert!(slept(&case, &measured), "{id}: {measured:?}");
        measured.roles.iter_mut().for_each(|role| role.counted.task.voluntary_switches = 0);
        assert!(!slept(&case, &measured), "{id}: nothing would be said of one that does not sleep");
    }
}
