//! System calls of the roles, counted by a tracer.

use std::collections::BTreeMap;

use causeway_testkit::{Cause, skipped};
use weighbridge_harness::coordinator::{Counted, PeerStart};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_record::SystemCalls;

use crate::runs::{coordinator, prepare_or_skip};

pub const TESTS: &[crate::Test] = &[
    ("each_role_calls_what_its_mechanism_needs_and_the_harness_nothing", exact),
    ("roles_that_are_threads_are_not_told_apart", threads),
];

/// `None`, with the skip printed, where the case or tracing is not possible here.
fn count(host: &Host, id: &str) -> Option<Counted> {
    let case = prepare_or_skip(host, &id.parse().unwrap())?;
    let interrupt = Interrupt::install().unwrap();
    let counted = coordinator(host, &interrupt).count_calls(&case, &PeerStart::default());
    if let Counted::Failed { why, .. } = &counted
        && why.contains("cannot trace")
    {
        skipped(Cause::Rights("ptrace"), why);
        return None;
    }
    Some(counted)
}

fn by_role(calls: &SystemCalls) -> BTreeMap<&str, String> {
    let of_role = |calls: &BTreeMap<String, f64>| {
        let frequent = calls.iter().filter(|(_, times)| **times > 0.05);
        frequent.map(|(name, times)| format!("{name} {times:.1}")).collect::<Vec<_>>().join(" ")
    };
    calls.roles.iter().map(|role| (role.role.as_str(), of_role(&role.calls))).collect()
}

fn exact(host: &Host) {
    for (id, roles) in [
        ("roundtrip/noop/1/same-cpu", &[("client", ""), ("server", "")][..]),
        ("roundtrip/pipe/1/same-cpu", &[("client", "read 1.0 write 1.0"), ("server", "read 1.0 write 1.0")]),
        ("roundtrip/ring-spin/1/two-cpus", &[("client", ""), ("server", "")]),
        ("solo/getppid/0/same-cpu", &[("only", "getppid 1.0")]),
        ("stream/pipe/65536/same-cpu", &[("sender", "write"), ("receiver", "read")]),
    ] {
        let Some(counted) = count(host, id) else { continue };
        let Counted::Calls(calls) = counted else { panic!("{id}: {counted:?}") };
        let found = by_role(&calls);
        for (role, wanted) in roles {
            let found = found.get(role).or(found.values().next().filter(|_| *role == "only")).unwrap();
            // The pieces of a stream are as the two roles meet.
            let is_right = if id.starts_with("stream") { found.starts_with(wanted) } else { found == wanted };
            assert!(is_right, "{id}: {role} calls `{found}`, where it must call `{wanted}`: {calls:?}");
        }
        let sum: f64 = calls.roles.iter().flat_map(|role| role.calls.values()).sum();
        assert!((calls.per_op - sum).abs() < 1e-9, "{id}: {calls:?}");
    }
}

fn threads(host: &Host) {
    let counted = count(host, "roundtrip/pipe/1/same-cpu/peers=thread");
    assert!(matches!(counted, Some(Counted::Threads)), "{counted:?}");
}
