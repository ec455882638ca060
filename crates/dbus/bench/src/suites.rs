//! Suites that repeat what was published of dbus-daemon in 2010 and 2011, with other brokers and native members, and the curves of
//! a cost model.
//!
//! The published experiments ran on a machine with one processor, so most cases run on one CPU.

use std::time::Duration;

use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

/// What the laboratory is handed.
pub const SUITES: &[Suite] = &[PING_PONG, SIGNAL_FAN_OUT, TRACKER, CURVES];

/// Those with a process in the path of a message.
const BROKERS: &[&str] = &["dbus-daemon", "dbus-broker", "busd", "causewayd"];
/// And native members, which share memory.
const BUSES: &[&str] = &["dbus-daemon", "dbus-broker", "busd", "causewayd", "causeway-bus"];
const DAEMON: &[&str] = &["dbus-daemon"];
const ONE_CPU: &[&str] = &["same-cpu"];
const TIMING: Timing = Timing { sample_ns: 4_700_000, samples: 20, least_samples: 5, run_ns: 120_000_000 };

/// What they have in common.
const BASE: Suite = Suite {
    name: "",
    about: "",
    timing: TIMING,
    budget: Duration::from_secs(400),
    precision: 0.05,
    crossover: None,
    in_turn: true,
    groups: &[],
};

/// Half decades, as dbus-ping-pong had them.
const HALF_DECADES: &[u64] =
    &[1, 3, 10, 31, 100, 316, 1000, 3162, 10_000, 31_622, 100_000, 316_227, 1_000_000, 3_162_277, 10_000_000];

const PING_PONG: Suite = Suite {
    name: "dbus-ping-pong",
    about: "calls through each broker by size, with reads of 2 KiB, and by library, as dbus-ping-pong was published in 2010 and 2011",
    groups: &[
        Group::of(&["roundtrip"], BUSES, Sizes::These(HALF_DECADES), ONE_CPU),
        Group::of(&["roundtrip"], DAEMON, Sizes::These(&[1]), &["two-cpus"]),
        Group::of(&["roundtrip"], DAEMON, Sizes::These(HALF_DECADES), ONE_CPU)
            .with(&[("read-bytes", &["2048"])]),
        // The ends of 2010 and 2011 went through libdbus.
        Group::of(&["roundtrip"], DAEMON, Sizes::These(CLIENT_SIZES), ONE_CPU)
            .with(&[("client", &["libdbus", "sd-bus", "gdbus", "zbus"])]),
    ],
    ..BASE
};

/// Of the half decades.
const CLIENT_SIZES: &[u64] = &[1, 1000, 100_000];

/// The message of 2011 had 277 bytes with its header.
const SIGNAL_BYTES: &[u64] = &[128];
const LARGE_SIGNAL_BYTES: &[u64] = &[17_000];

const SIGNAL_FAN_OUT: Suite = Suite {
    name: "signal-fan-out",
    about: "signals to 1 to 20 subscribers: context switches of each, with nice values of broker and sender, on one CPU and two",
    groups: &[
        Group::of(&["fan-out"], BUSES, Sizes::These(SIGNAL_BYTES), &["same-cpu", "two-cpus"])
            .with(&[("receivers", &["1", "2", "5", "10", "20"])]),
        Group::of(&["fan-out"], BUSES, Sizes::These(SIGNAL_BYTES), ONE_CPU)
            .with(&[("burst", &["1", "10"]), ("broker-nice", &["0", "-15", "15"])]),
        Group::of(&["fan-out"], BUSES, Sizes::These(SIGNAL_BYTES), ONE_CPU)
            .with(&[("burst", &["1", "10"]), ("nice", &["-15:0", "15:0"])]),
        Group::of(&["fan-out"], BUSES, Sizes::These(LARGE_SIGNAL_BYTES), ONE_CPU),
    ],
    ..BASE
};

/// Rows of 863 bytes: 8 of them were 6,905 bytes. In chunks of 1, 8, 100, 1,000, 10,000 and 100,000 rows.
const CHUNKS: &[u64] = &[863, 6905, 86_300, 863_000, 8_630_000, 86_300_000];

const TRACKER: Suite = Suite {
    name: "tracker",
    about: "300,000 rows of a query in chunks of 1 to 100,000 rows: a call for each chunk, or chunks pushed one after the other",
    groups: &[
        Group::of(&["roundtrip"], BUSES, Sizes::These(CHUNKS), &["same-cpu", "two-cpus"])
            .with(&[("direction", &["request"])]),
        Group::of(&["stream"], BUSES, Sizes::These(CHUNKS), &["same-cpu", "two-cpus"]),
    ],
    ..BASE
};

const CURVE: &[u64] = &[1, 256, 4096, 65_536, 1_048_576];

const CURVES: Suite = Suite {
    name: "dbus-curves",
    about: "what a broker spends on calls, streams and signals by size, on calls to itself, connections, names and match rules, busy and at rest: the \
            curves of a cost model",
    budget: Duration::from_secs(640),
    groups: &[
        Group::of(&["roundtrip"], BROKERS, Sizes::These(CURVE), ONE_CPU),
        // A broker that has several messages to take when it wakes: up to 64 of 4 KiB, as many as fit 256 KiB of larger ones.
        Group::of(&["stream"], BROKERS, Sizes::These(CURVE), ONE_CPU),
        Group::of(&["fan-out"], BROKERS, Sizes::These(CURVE), ONE_CPU).with(&[("receivers", &["1", "10"])]),
        Group::of(&["solo"], BROKERS, Sizes::These(&[0]), ONE_CPU)
            .with(&[("call", &["GetId", "NameHasOwner", "GetNameOwner", "match", "name", "connect"])]),
        // A bus that has nothing to do before each message: on the CPU of the client, which preempts it, and on one of its own.
        Group::of(&["solo"], BROKERS, Sizes::These(&[0]), ONE_CPU).with(&[
            ("broker", &["first", "own"]),
            ("call", &["GetNameOwner", "match", "name", "connect", "relay", "signal"]),
            ("pause-us", &["1000"]),
        ]),
        Group::of(&["fan-out"], BROKERS, Sizes::These(SIGNAL_BYTES), ONE_CPU).with(&[("receivers", &["1"])]),
        Group::of(&["fan-out"], BROKERS, Sizes::These(SIGNAL_BYTES), ONE_CPU).with(&[
            ("receivers", &["1"]),
            ("rules", &["500", "4000"]),
            ("rules-by", &["path", "interface", "arg0"]),
        ]),
    ],
    ..BASE
};
