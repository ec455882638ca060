//! Many senders to many receivers.

use libtest_mimic::Trial;
use weighbridge_harness::contract::{Caps, Target};
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;
use weighbridge_targets::all_to_all;

use crate::measured::measure;
use crate::runs::{PLACEMENTS, Promises, refuses, with};
use crate::{killed, runs};

pub fn trials(host: &'static Host) -> impl Iterator<Item = Trial> {
    let targets = all_to_all::ALL.iter().filter(|target| !target.caps.has(Caps::HARNESS));
    targets.flat_map(move |target| runs::trials_of(host, target, PROMISES))
}

pub const TESTS: &[crate::Test] = &[
    ("the_harness_itself_is_measured", |host| {
        for placement in PLACEMENTS {
            measure(host, &CaseId::new("all-to-all", "noop", 100, placement).with("senders", "3"));
        }
    }),
    ("hundreds_of_roles_on_one_cpu_come_to_an_end", |host| {
        let id = CaseId::new("all-to-all", "pipe", 1, "same-cpu").with("groups", "100");
        let measured = measure(host, &id.with("receivers", "2").with("senders", "2")).expect("no limit");
        assert_eq!(measured.roles.len(), 400);
    }),
    ("what_exceeds_a_limit_is_refused_with_its_name", refusals),
];

const PROMISES: Promises = &[
    ("every_receiver_has_every_message_of_every_sender", reaches_all),
    ("groups_of_twenty_times_twenty_start_in_time", |host, target| {
        let id = CaseId::new("all-to-all", target.id, 100, "free").with("groups", "2").with("touch", "none");
        let measured = measure(host, &id).expect("eighty roles are no limit");
        assert_eq!(measured.roles.len(), 80);
    }),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        let id =
            CaseId::new("all-to-all", target.id, 100, "free").with("receivers", "2").with("senders", "2");
        killed::killed(host, &id, &["receiver", "receiver", "sender", "sender"]);
    }),
];

/// That nothing is lost, doubled or changed is checked by the leading receiver, in every run; here by the counts as well.
fn reaches_all(host: &Host, target: &'static Target) {
    let of = |payload_bytes: u64, placement: &str, axes: &[(&str, &str)]| {
        with(CaseId::new("all-to-all", target.id, payload_bytes, placement), axes)
    };
    for id in [
        of(100, "same-cpu", &[("receivers", "3"), ("senders", "4")]),
        of(1, "two-cpus", &[("receivers", "4"), ("senders", "3")]),
        of(100, "free", &[("peers", "thread"), ("receivers", "5"), ("senders", "2")]),
        of(4096, "two-cpus", &[("groups", "2"), ("receivers", "2"), ("senders", "2")]),
        of(1000, "free", &[("receivers", "1"), ("senders", "1"), ("touch", "none")]),
    ] {
        let Some(measured) = measure(host, &id) else { continue };
        let ops = measured.roles[0].counted.ops;
        assert!(measured.roles.iter().all(|role| role.counted.ops == ops), "{id}: counts are those of all");
        let samples = &measured.samples;
        assert!(samples.iter().all(|sample| sample.bytes == sample.ops * id.payload_bytes), "{id}");
        assert!(samples.iter().map(|sample| sample.ops).sum::<u64>() <= ops, "{id}");
        assert_eq!(measured.roles[0].counted.series["in_flight_messages"].len(), samples.len(), "{id}");
        let received: u64 = measured.facts["receiver.first_run_messages_received"].parse().unwrap();
        let number = |name: &str| id.axes.get(name).map_or(1, |value| value.parse::<u64>().unwrap());
        // Each sender went its round to the end.
        assert!(received.is_multiple_of(number("receivers")), "{id}: {received}");
        assert!(received > ops, "{id}: {received} with the warm-up, {ops} without");
    }
}

fn refusals(host: &Host) {
    refuses(
        host,
        &[
            ("all-to-all/pipe/4097/free", &["PIPE_BUF", "4096"]),
            ("all-to-all/unix-stream/0/free", &["empty message"]),
            ("all-to-all/unix-stream/1/free/groups=13", &["520 roles", "512"]),
        ],
    );
}
