//! Many streams, or many publishers, into one reader.

use weighbridge_harness::contract::Target;
use weighbridge_harness::ctx::LATE_NS;
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use crate::killed::killed;
use crate::measured::{TIMING, measure, series};
use crate::runs::{PLACEMENTS, Promises, prepare, with};

/// What a target of fan-in promises. Causeway has logs and no streams, so it is other things.
pub fn promises(target: &Target) -> Promises {
    if target.id.starts_with("causeway") { OF_LOGS } else { OF_STREAMS }
}

const OF_STREAMS: Promises = &[
    ("every_way_to_wait_reads_all_that_is_written", waits),
    ("messages_of_every_size_arrive_whole", sizes),
    ("writers_share_the_streams_in_any_order_and_as_threads_too", variants),
    ("each_message_is_timed_from_when_it_was_due", |host, target| {
        for wait in WAITS {
            at_a_rate(host, &fan_in_case(target, 64, "free").with("wait", wait).with("writers", "3"));
        }
    }),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        killed(host, &fan_in_case(target, 1, "free").with("writers", "2"), &["reader", "writer", "writer"]);
    }),
];

const OF_LOGS: Promises = &[
    ("every_way_to_wait_reads_all_that_is_written", log_waits),
    ("messages_of_every_size_arrive_whole", log_sizes),
    ("any_number_of_writers_is_read_as_threads_too", log_writers),
    ("each_message_is_timed_from_when_it_was_due", |host, target| {
        for placement in PLACEMENTS {
            at_a_rate(host, &log_case(target, 64, placement, &[("writers", "3")]));
        }
    }),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        let id = CaseId::new("fan-in", target.id, 64, "free").with("writers", "2");
        killed(host, &id, &["reader", "writer", "writer"]);
    }),
];

/// Writers that send their share of 2000 messages a second.
fn at_a_rate(host: &Host, id: &CaseId) {
    let id = id.clone().with("rate", "2000");
    read_all(host, &id);
    let Some(measured) = measure(host, &id) else { return };
    let counted = &measured.roles[0].counted;
    let bytes: u64 = measured.samples.iter().map(|sample| sample.bytes).sum();
    let timed: u64 =
        counted.latencies.iter().flat_map(|latencies| &latencies.counts).map(|(_, count)| count).sum();
    assert!(
        timed > 0 && timed == bytes / id.payload_bytes,
        "{id}: {timed} messages timed, {bytes} bytes arrived"
    );
    assert!(counted.paced.is_some_and(|paced| paced.operations == timed), "{id}: {:?}", counted.paced);
    assert_eq!(series(&measured, LATE_NS).len(), measured.samples.len(), "{id}");
}

const WAITS: [&str; 7] = ["epoll-et", "epoll-lt", "epoll-oneshot", "poll", "select", "uring", "none"];

fn fan_in_case(target: &Target, payload_bytes: u64, placement: &str) -> CaseId {
    CaseId::new("fan-in", target.id, payload_bytes, placement).with("streams", "50")
}

/// One run of many streams, all bytes of which are accounted for.
fn read_all(host: &Host, id: &CaseId) {
    let Some(measured) = measure(host, id) else { return };
    let fact = |name: &str| -> u64 { measured.facts[&format!("reader.first_run_{name}")].parse().unwrap() };
    assert_eq!(fact("bytes_written"), fact("bytes_read"), "{id}");
    assert_eq!(fact("bytes_written"), fact("writes") * id.payload_bytes, "{id}");
    assert!(fact("reads") > 0, "{id}");
    if id.mechanism.starts_with("causeway") {
        // A message is an event, and none is lost.
        assert_eq!((fact("reads"), fact("lost")), (fact("writes"), 0), "{id}");
    }
    assert_eq!(measured.samples.len(), TIMING.samples, "{id}");
    for name in [
        "events_per_call",
        "bytes_per_s",
        "writes_per_s",
        "empty_reads_per_s",
        "voluntary_switches_per_s",
        "involuntary_switches_per_s",
    ] {
        assert_eq!(series(&measured, name).len(), TIMING.samples, "{id}: {name}");
    }
    for (sample, bytes_per_s) in measured.samples.iter().zip(series(&measured, "bytes_per_s")) {
        let counted = sample.bytes as f64 * 1e9 / sample.elapsed_ns as f64;
        assert!((counted - bytes_per_s).abs() <= 1e-6 * counted, "{id}: {counted}, and {bytes_per_s}");
    }
    // An operation is an event, for all roles.
    assert!(measured.roles.iter().all(|role| role.counted.ops == measured.roles[0].counted.ops), "{id}");
}

fn waits(host: &Host, target: &'static Target) {
    for wait in WAITS {
        for placement in PLACEMENTS {
            read_all(host, &fan_in_case(target, 1, placement).with("wait", wait).with("writers", "2"));
        }
    }
}

fn sizes(host: &Host, target: &'static Target) {
    for payload_bytes in [1023, 1025, 5_000, 100_000] {
        for wait in ["epoll-et", "poll", "uring", "none"] {
            let id = fan_in_case(target, payload_bytes, "free").with("wait", wait).with("streams", "7");
            // Without optimisation, reading all that TCP keeps in its buffers takes long.
            read_all(host, &if payload_bytes > 5_000 { id.with("touch", "none") } else { id });
        }
    }
    // Reads that end inside a message, in every order in which streams may be written to. That blocking reads never wait
    // for a writer that waits for them is tested over many more sizes and numbers of streams beside the reader itself.
    for (wait, order) in [("epoll-et", "random"), ("epoll-lt", "cyclic"), ("none", "cyclic")] {
        for (payload_bytes, streams, writers) in [(1023, "2", "1"), (700, "13", "3"), (4097, "50", "50")] {
            let axes = [
                ("streams", streams),
                ("touch", "none"),
                ("writers", writers),
                ("wait", wait),
                ("order", order),
            ];
            read_all(host, &with(fan_in_case(target, payload_bytes, "free"), &axes));
        }
    }
}

fn variants(host: &Host, target: &'static Target) {
    let of = |axes: &[(&str, &str)]| with(fan_in_case(target, 3, "free"), axes);
    read_all(host, &of(&[("peers", "thread"), ("writers", "3")]));
    read_all(host, &of(&[("order", "cyclic"), ("max-events", "1"), ("touch", "none")]));
    read_all(host, &of(&[("yield-limit", "0"), ("streams", "1")]));
    // More than one message full of descriptors for each writer.
    read_all(host, &of(&[("streams", "450"), ("writers", "2")]));
    if target.id == "tcp" {
        read_all(host, &of(&[("nodelay", "no")]));
    }
}

fn log_case(target: &Target, payload_bytes: u64, placement: &str, axes: &[(&str, &str)]) -> CaseId {
    with(CaseId::new("fan-in", target.id, payload_bytes, placement), axes)
}

/// Ways that can wait for the logs of several writers; a futex is that of one log.
fn waits_of_logs(target: &Target, writers: &str) -> &'static [&'static str] {
    if target.id == "causeway-mw" || writers == "1" {
        &["spin-block", "block", "epoll", "spin"]
    } else {
        &["epoll", "spin"]
    }
}

fn log_waits(host: &Host, target: &'static Target) {
    for wait in waits_of_logs(target, "4") {
        for placement in ["same-cpu", "two-cpus", "free"] {
            // On one CPU spinning is refused, and that is tested elsewhere.
            if (*wait, placement) == ("spin", "same-cpu") {
                continue;
            }
            for receive in ["copy", "in-place"] {
                let axes = [("wait", *wait), ("receive", receive), ("writers", "2")];
                read_all(host, &log_case(target, 64, placement, &axes));
            }
        }
    }
}

fn log_sizes(host: &Host, target: &'static Target) {
    for payload_bytes in [0, 1, 64, 4096, 65_536, 1_000_000] {
        for receive in ["copy", "in-place"] {
            read_all(host, &log_case(target, payload_bytes, "free", &[("receive", receive)]));
        }
    }
    // The smallest log holds four of these at most; the writers wait for room all the time.
    for touch in ["none", "first", "lines", "all", "write"] {
        read_all(host, &log_case(target, 1000, "free", &[("capacity", "4096"), ("touch", touch)]));
    }
}

fn log_writers(host: &Host, target: &'static Target) {
    for writers in ["1", "2", "8"] {
        for wait in waits_of_logs(target, writers) {
            for peers in ["process", "thread"] {
                let axes = [("writers", writers), ("wait", wait), ("peers", peers)];
                let id = log_case(target, 24, "free", &axes);
                read_all(host, &id);
                let roles = prepare(host, &id).unwrap().role_names().len();
                assert_eq!(roles, 1 + writers.parse::<usize>().unwrap());
            }
        }
    }
}
