//! Many streams into one reader, one sender to many receivers.

use libtest_mimic::Trial;
use weighbridge_harness::contract::{Caps, Target};
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::measured::{self, measure, series};
use crate::runs::{PLACEMENTS, Promises, prepare, refuses, with};
use crate::{fan_in, fan_out, runs};

pub fn trials(host: &'static Host) -> Vec<Trial> {
    let families: [(&'static [Target], _); 2] = [
        (weighbridge_targets::fan_in::ALL, fan_in::promises as fn(&Target) -> Promises),
        (weighbridge_targets::fan_out::ALL, |_| fan_out::PROMISES),
    ];
    let mut trials = Vec::new();
    for (targets, promises) in families {
        for target in targets.iter().filter(|target| !target.caps.has(Caps::HARNESS)) {
            trials.extend(runs::trials_of(host, target, promises(target)));
        }
    }
    trials
}

pub const TESTS: &[crate::Test] = &[
    ("what_exceeds_a_limit_is_refused_with_its_name", refusals),
    ("the_harness_itself_is_measured", harness),
    ("losses_are_counted_where_they_are_missed", losses),
    ("a_hundred_receivers_start_in_time", hundred_receivers),
    ("causeway_reaches_many_that_may_lose_in_every_way_to_wait", causeway_lossy),
    ("who_wants_no_message_sleeps_through_the_run", uninterested),
    // Whichever it is, it is the same for all roles.
    ("a_private_network_is_told_from_the_machines", |host| {
        let Some(measured) = measure(host, &"fan-out/udp-multicast/64/free".parse().unwrap()) else { return };
        let namespace = measured.facts.get("network_namespace").map(String::as_str);
        assert!(matches!(namespace, Some("private" | "shared")), "{:?}", measured.facts);
    }),
];

fn refusals(host: &Host) {
    refuses(
        host,
        &[
            ("fan-in/pipe/1/free/streams=600000000", &["RLIMIT_NOFILE", "ulimit -Hn", "limits.conf"]),
            ("fan-in/pipe/1/free/wait=select", &["FD_SETSIZE", "1024", "another wait"]),
            ("fan-in/tcp/1/free/streams=3/writers=4", &["4 writers", "3 streams"]),
            ("fan-in/tcp/1/free/order=random/wait=none", &["order=cyclic"]),
            ("fan-in/pipe/1/free/order=random/rate=100", &["order=cyclic"]),
            ("fan-in/pipe/0/free", &["empty message"]),
            ("fan-in/pipe/1/free/streams=1000/writers=600", &["512"]),
            (
                "fan-in/causeway-sw/64/free/wait=block",
                &["futex of one log", "4 of them", "5.16", "wait=epoll"],
            ),
            ("fan-in/causeway-sw/64/free/wait=spin-block", &["futex of one log", "causeway-mw"]),
            ("fan-in/causeway-mw/64/free/writers=65", &["64 publishers", "causeway-sw"]),
            ("fan-in/causeway-mw/1025/free/capacity=4096", &["a quarter", "capacity=8192"]),
            ("fan-in/causeway-mw/64/same-cpu/wait=spin", &["spinning on one CPU"]),
            ("fan-out/unix-stream/1/free/receivers=600", &["512"]),
            ("fan-out/unix-seqpacket/1000000000/free", &["net.core.wmem_default", "sysctl"]),
            ("fan-out/udp-multicast/65508/free", &["65507"]),
            ("fan-out/udp-multicast/7/free", &["8 bytes"]),
            ("fan-out/causeway-sw/64/free/receivers=200/uninterested=57", &["256 receivers"]),
            ("fan-out/pipe-tee/65537/free", &["17 pages", "16"]),
            ("fan-out/ring-broadcast/0/free", &["at least 1 byte"]),
        ],
    );
}

fn harness(host: &Host) {
    for placement in PLACEMENTS {
        measure(host, &CaseId::new("fan-in", "noop", 1, placement));
        let paced = CaseId::new("fan-out", "noop", 64, placement).with("rate", "2000");
        measure(host, &paced).inspect(|measured| measured::at_a_rate(&paced, measured, 1, 2000));
        let id = CaseId::new("fan-out", "noop", 64, placement).with("burst", "3");
        let Some(measured) = measure(host, &id) else { continue };
        assert_eq!(series(&measured, "sender_ns").len(), measured.samples.len());
    }
}

/// Bursts of many times what a receive buffer holds, from a sender that the receivers cannot keep up with. Where other programs take the CPU
/// from the sender, a receiver may keep up, or miss what it lost after the last sample; then one more run is.
fn losses(host: &Host) {
    for mechanism in ["udp-multicast", "netlink-multicast"] {
        let axes = [("receivers", "3"), ("burst", "500"), ("nice", "0:19")];
        let id = with(CaseId::new("fan-out", mechanism, 60_000, "same-cpu"), &axes);
        let mut seen = Vec::new();
        while seen.len() < 20 {
            let Some(measured) = measure(host, &id) else { break };
            let by_receiver: Vec<u64> = measured.facts["sender.first_run_lost_by_receiver"]
                .split(' ')
                .map(|lost| lost.parse().unwrap())
                .collect();
            assert_eq!(by_receiver.len(), 3, "{id}");
            let in_samples: f64 = series(&measured, "lost").iter().sum();
            let in_all: u64 = by_receiver.iter().sum();
            assert!(in_samples <= in_all as f64, "{id}: {in_samples} of {by_receiver:?}");
            if in_samples > 0.0 && by_receiver.iter().all(|lost| *lost > 0) {
                seen.clear();
                break;
            }
            seen.push((in_samples, by_receiver));
        }
        assert!(seen.is_empty(), "{id}: {seen:?}");
    }
}

fn hundred_receivers(host: &Host) {
    for mechanism in ["ring-broadcast", "unix-stream"] {
        let id = CaseId::new("fan-out", mechanism, 64, "free").with("receivers", "100");
        let measured = measure(host, &id).expect("a hundred receivers are no limit");
        assert_eq!(measured.roles.len(), 101);
    }
}

fn causeway_lossy(host: &Host) {
    for mechanism in ["causeway-sw", "causeway-mw"] {
        let of = |axes: &[(&str, &str)]| {
            let id =
                with(CaseId::new("fan-out", mechanism, 300, "free"), &[("receivers", "3"), ("burst", "5")]);
            with(id, axes)
        };
        for trust in ["same-user", "strangers"] {
            let measured = measure(host, &of(&[("trust", trust)])).expect("three receivers are no limit");
            let shown = measured.facts.iter().find(|(fact, _)| fact.contains("trust"));
            assert_eq!(shown.map(|(_, shown)| shown.as_str()), Some(trust), "{:?}", measured.facts);
        }
        for wait in ["spin-block", "block", "epoll", "spin", "yield"] {
            measure(host, &of(&[("wait", wait), ("policy", "lossy"), ("peers", "thread")]));
        }
        let why = prepare(host, &of(&[("capacity", "4096")])).map(|_| ()).expect_err("five do not fit");
        assert!(why.contains("capacity="), "{why}");
    }
}

/// The roles themselves fail when a message comes or they are woken by more than their filter explains; that they would is seen without a
/// filter, in the tests of the target. Causeway's are woken once in half a log, to make room.
fn uninterested(host: &Host) {
    for mechanism in ["udp-multicast", "netlink-multicast", "causeway-sw", "causeway-mw"] {
        for (placement, more) in [("free", ("peers", "process")), ("same-cpu", ("peers", "thread"))] {
            let axes = [("receivers", "2"), ("uninterested", "3"), ("burst", "2"), more];
            let Some(measured) =
                measure(host, &with(CaseId::new("fan-out", mechanism, 64, placement), &axes))
            else {
                continue;
            };
            let [sender, interested @ .., _, _, _] = &measured.roles[..] else { panic!("six roles") };
            assert_eq!(interested.len(), 2, "{mechanism}");
            let sent = sender.counted.ops;
            for role in &measured.roles {
                assert_eq!(role.counted.ops, sent, "{mechanism}: role {}", role.role);
            }
            for role in &measured.roles[3..] {
                let (switches, half_logs) = (role.counted.task.voluntary_switches, sent / 500);
                assert!(switches <= 16 + half_logs, "{mechanism}: {switches} switches, {sent} messages");
            }
        }
    }
    // More subscribers than a publisher is told of at once.
    let axes = [("receivers", "10"), ("uninterested", "20")];
    let measured = measure(host, &with(CaseId::new("fan-out", "causeway-sw", 64, "same-cpu"), &axes));
    assert_eq!(measured.expect("thirty are no limit").roles.len(), 31);
}
