//! D-Bus through brokers: what was published of dbus-daemon in 2010 and 2011 beside brokers and native members of today, and the curves of a
//! cost model.

mod curves;

pub(super) use curves::curves;
use weighbridge_record::{BrokerTime, CaseId};

use super::published::{DBUS_2011, Row, rows};
use super::{Found, NOT_A_RACE, Record, Section, Theirs, below, table};
use crate::document::Block;
use crate::units::{count, significant, size};

/// In every table.
const BROKERS: [&str; 3] = ["dbus-daemon", "dbus-broker", "busd"];
/// In tables of records that have them.
const OURS: [&str; 2] = ["causewayd", "causeway-bus"];
const PLACES: [&str; 2] = ["same-cpu", "two-cpus"];
const SOURCE: &str = "A. Crequy, 2010 and 2011";
const PUBLISHED: &str = "Published: A. Crequy (Collabora), three articles of 15 September 2010, 24 and 25 February 2011, on dbus-daemon of that \
                         time with libdbus at both ends; machines are named in the rows.";
const RAW: &str = "Our ends write and read the bytes of messages themselves; theirs went through libdbus, whose cost is part of their figures.";

/// A case of these suites, without the axes that stand at their default.
fn case(pattern: &str, broker: &str, bytes: u64, place: &str, axes: &[(&str, &str)]) -> CaseId {
    const DEFAULTS: [(&str, &str); 7] = [
        ("broker", "first"),
        ("burst", "1"),
        ("receivers", "10"),
        ("rules", "0"),
        ("rules-by", "path"),
        ("broker-nice", "0"),
        ("call", "GetNameOwner"),
    ];
    let set = axes.iter().filter(|axis| !DEFAULTS.contains(axis));
    set.fold(CaseId::new(pattern, broker, bytes, place), |id, (name, value)| id.with(name, value))
}

/// What the tables of a record compare.
fn brokers(record: &Record<'_>) -> Vec<&'static str> {
    let is_there = |broker: &&str| !matches!(record.find(|id| id.mechanism == *broker), Found::Absent);
    BROKERS.into_iter().chain(OURS.into_iter().filter(is_there)).collect()
}

fn found<'a>(record: &Record<'a>, id: &CaseId) -> Found<'a> {
    record.find(|other| other == id)
}

/// The figure of a case over a divisor, with its reach: `12.3 ±1%`.
fn figure(found: Found<'_>, convert: impl Fn(f64) -> f64) -> String {
    let shown = found.figure(convert).map(|of| format!("{} {}", significant(of.value), of.reach()));
    shown.unwrap_or(found.blank())
}

fn micros(ns: f64) -> f64 {
    ns / 1e3
}

/// What the broker did for an operation: CPU time in µs, and switches.
fn of_broker(found: Found<'_>) -> Option<(f64, f64)> {
    let Found::Value(_, summary) = found else { return None };
    let per_op = summary.beside.get("broker")?;
    Some((micros(per_op.cpu_ns), per_op.voluntary_switches + per_op.involuntary_switches))
}

/// Context switches of a signal, of all roles and the broker.
fn switches(found: Found<'_>) -> Option<f64> {
    let Found::Value(_, summary) = found else { return None };
    summary.series.get("switches_per_message").copied()
}

/// A published figure as it was published: not rounded.
fn as_published(value: Option<f64>) -> String {
    // Seconds over calls, and the like, leave digits that nobody printed.
    value.map_or(String::new(), |value| ((value * 1e6).round() / 1e6).to_string())
}

fn published(measurement: &str, machine: &str, system: &str) -> Option<f64> {
    let is_it = |row: &Row| {
        row.text("measurement") == measurement
            && row.text("machine") == machine
            && row.text("system") == system
    };
    rows(DBUS_2011).into_iter().find(is_it).and_then(|row| row.number("value"))
}

/// A row: its labels, then cells.
fn row<const N: usize>(labels: [String; N], cells: impl IntoIterator<Item = String>) -> Vec<String> {
    labels.into_iter().chain(cells).collect()
}

/// Seconds that a start of Telepathy took in 2010 on an N900: through dbus-daemon, and through the kernel with AF_DBUS.
#[must_use]
pub fn start_of_2010_s() -> Option<[f64; 2]> {
    let of = |system| published("telepathy start-up", "N900/arm", system);
    of("dbus-daemon").zip(of("AF_DBUS")).map(|(daemon, kernel)| [daemon, kernel])
}

const HALF_DECADES: [u64; 15] =
    [1, 3, 10, 31, 100, 316, 1000, 3162, 10_000, 31_622, 100_000, 316_227, 1_000_000, 3_162_277, 10_000_000];

/// Of the half decades, where libraries are compared.
const CLIENT_SIZES: [u64; 3] = [1, 1000, 100_000];
const LIBRARIES: [&str; 4] = ["libdbus", "sd-bus", "gdbus", "zbus"];

/// A call through dbus-daemon by each library.
fn by_library(record: &Record<'_>) -> Block {
    let call = |bytes, axes: &[(&str, &str)]| {
        figure(found(record, &case("roundtrip", "dbus-daemon", bytes, "same-cpu", axes)), micros)
    };
    let rows = CLIENT_SIZES.map(|bytes| {
        let cells = LIBRARIES.map(|library| call(bytes, &[("client", library)]));
        row([bytes.to_string(), call(bytes, &[])], cells)
    });
    let title = "the same through dbus-daemon by what writes and reads the messages, µs";
    table(title, 0, &format!("bytes|our own\nbytes|{}", LIBRARIES.join("|")), rows)
}

/// What was published of two machines, and through what.
const PING_PONG: [(&str, &str); 4] = [
    ("KVM/i386", "dbus-daemon"),
    ("KVM/i386", "AF_DBUS"),
    ("N900/arm", "dbus-daemon"),
    ("N900/arm", "AF_DBUS"),
];

pub(super) fn ping_pong(record: &Record<'_>) -> Section {
    let call =
        |broker: &str, bytes, place: &str| found(record, &case("roundtrip", broker, bytes, place, &[]));
    let small_reads = |bytes| {
        found(record, &case("roundtrip", "dbus-daemon", bytes, "same-cpu", &[("read-bytes", "2048")]))
    };
    let brokers = brokers(record);
    let sizes = HALF_DECADES.map(|bytes| {
        let ratio = record.ratio(call("dbus-daemon", bytes, "same-cpu"), small_reads(bytes));
        let cells = brokers.iter().map(|broker| figure(call(broker, bytes, "same-cpu"), micros));
        let times = ratio.map_or(String::new(), |ratio| significant(ratio.ratio));
        row([bytes.to_string()], cells.chain([figure(small_reads(bytes), micros), times]))
    });
    let then = PING_PONG.map(|(machine, system)| {
        let seconds = published("ping-pong 10000 calls", machine, system);
        let us = seconds.map(|seconds| seconds * 1e6 / 1e4);
        let name = format!("{machine}, {system}");
        let ours = PLACES.map(|place| times(record, call("dbus-daemon", 1, place), micros, &name, "µs", us));
        row([machine.into(), system.into(), as_published(us)], ours)
    });
    let tables = [
        table(
            "a call and its reply with an array of bytes each way, on one CPU, µs",
            0,
            &format!("bytes|{}|dbus-daemon,\nreads of 2 KiB|times", brokers.join("|")),
            sizes,
        ),
        below(
            "times: reads of 2 KiB at both ends over reads of 64 KiB. In 2011 the buffer of the daemon too went from 2 KiB to 64 KiB, which made the test \
             28 % faster.",
        ),
        by_library(record),
        table(
            "10,000 calls, as published, µs each",
            2,
            "machine|through|2010|ours over it,\nsame-cpu|\ntwo-cpus",
            then,
        ),
        below(
            "Ours is dbus-daemon with one byte. The size of theirs is not said; the article of 2011 has almost the same time for all messages below 3,000 bytes.",
        ),
    ];
    let about = [PUBLISHED, &record.machine()];
    Section::new("dbus-ping-pong, 2010 and 2011", &about, tables, &[RAW, NOT_A_RACE]).with(record.skips())
}

/// Ours over what was published, or why there is none.
fn times(
    record: &Record<'_>,
    found: Found<'_>,
    convert: impl Fn(f64) -> f64,
    name: &str,
    unit: &str,
    theirs: Option<f64>,
) -> String {
    let both = found.figure(convert).zip(theirs);
    both.map_or(found.blank(), |(figure, value)| {
        record.times(found, &Theirs { source: SOURCE, name, unit, value }, figure.value)
    })
}

const SIGNAL_BYTES: u64 = 128;
const LARGE_SIGNAL_BYTES: u64 = 17_000;

/// What was done, its settings, and the switches that were published.
type Experiment =
    (&'static str, &'static [(&'static str, &'static str)], Option<(&'static str, &'static str)>);

const EXPERIMENTS: [Experiment; 10] = [
    ("1 signal at a time", &[], Some(("1 signal to 10 receivers", "dbus-daemon nice 0"))),
    ("10 in a row", &[("burst", "10")], Some(("10 signals to 10 receivers", "dbus-daemon nice 0"))),
    ("1 at a time, broker at nice -15", &[("broker-nice", "-15")], None),
    (
        "10 in a row, broker at nice -15",
        &[("broker-nice", "-15"), ("burst", "10")],
        Some(("10 signals to 10 receivers", "dbus-daemon nice -15")),
    ),
    ("1 at a time, broker at nice 15", &[("broker-nice", "15")], None),
    ("10 in a row, broker at nice 15", &[("broker-nice", "15"), ("burst", "10")], None),
    ("1 at a time, sender at nice -15", &[("nice", "-15:0")], None),
    ("10 in a row, sender at nice -15", &[("burst", "10"), ("nice", "-15:0")], None),
    ("1 at a time, sender at nice 15", &[("nice", "15:0")], None),
    ("10 in a row, sender at nice 15", &[("burst", "10"), ("nice", "15:0")], None),
];

/// The parts that were published of a signal, and what stands for them in a time line.
type PartOf2011 = (&'static str, &'static str, fn(&BrokerTime) -> Option<f64>);

const PARTS_OF_2011: [PartOf2011; 6] = [
    ("receiving", "receiving", |of| Some(of.receiving_ns)),
    ("dispatch", "dispatch", |of| Some(of.dispatch_ns)),
    ("of it match rules", "match rules", |of| of.matching_ns),
    ("sending", "sending", |of| Some(of.sending_ns)),
    ("waiting and other calls", "", |of| Some(of.waiting_ns + of.other_calls_ns)),
    ("all", "total", |of| Some(of.sum_ns())),
];

/// A published size of a signal, in words, and the payload that makes one.
const SIGNALS_OF_2011: [(&str, u64); 2] = [("277 B", SIGNAL_BYTES), ("17 kB", LARGE_SIGNAL_BYTES)];

/// The broker's time of an operation by its system calls, each of some brokers in µs, beside what was published for a signal.
pub fn broker_time(title: &str, brokers: &[(String, Option<&BrokerTime>)], sizes: &[&str]) -> Block {
    let rows = PARTS_OF_2011.map(|(name, part, of)| {
        let then = sizes.iter().map(|size| {
            let theirs = published(&format!("dispatch {size} signal: {part}"), "1 CPU VM", "dbus-daemon");
            theirs.map_or("–".into(), significant)
        });
        let now = brokers.iter().map(|(_, time)| {
            let ns = time.and_then(of);
            ns.map_or("–".into(), |ns| significant(micros(ns)))
        });
        row([name.to_owned()], then.chain(now))
    });
    let then: String = sizes.iter().map(|size| format!("|2011,\n{size}")).collect();
    let now: String = brokers.iter().map(|(name, _)| format!("|{name}")).collect();
    table(title, 1, &format!("{then}{now}"), rows)
}

/// The parts of a signal of both sizes, where the record has time lines.
fn parts_of_signals(record: &Record<'_>, brokers: &[&str]) -> Vec<Block> {
    let time = |broker: &str, bytes| {
        let subject = case("fan-out", broker, bytes, "same-cpu", &[]).to_string();
        record.timeline(&subject).and_then(|timeline| timeline.broker.as_ref())
    };
    let of_size = |(size, bytes): (&str, u64)| {
        let of_brokers: Vec<_> = brokers.iter().map(|name| ((*name).to_owned(), time(name, bytes))).collect();
        broker_time(
            &format!("the parts of a signal of {size} to 10 subscribers on one CPU, µs of the broker"),
            &of_brokers,
            &[size],
        )
    };
    let mut blocks: Vec<Block> = SIGNALS_OF_2011.map(of_size).into();
    blocks.push(below(
        "Parts are by the broker's system calls, in runs of their own: `--timeline` of this suite adds them where tracefs may be used. What match rules \
         take is inside of dispatch: no system call divides it.",
    ));
    blocks
}

/// What priority brought, in seconds for ten signals.
fn priority(record: &Record<'_>, brokers: &[&str]) -> Block {
    let burst = |broker: &str, axes: &[(&str, &str)]| {
        found(record, &case("fan-out", broker, SIGNAL_BYTES, "same-cpu", axes))
    };
    let usual = |broker: &str| burst(broker, &[("burst", "10")]);
    let before = |broker: &str| burst(broker, &[("broker-nice", "-15"), ("burst", "10")]);
    let seconds = |system: &str| {
        let of = |row: &Row| {
            row.text("measurement") == "10 signals to 10 receivers"
                && row.text("system") == system
                && row.text("unit") == "s"
        };
        rows(DBUS_2011).into_iter().find(of).and_then(|row| row.number("value"))
    };
    let then = [seconds("dbus-daemon nice 0"), seconds("dbus-daemon nice -15")];
    let times = then[0].zip(then[1]).map_or(String::new(), |(usual, before)| significant(usual / before));
    let [usual_then, before_then] = then.map(|seconds| seconds.map_or(String::new(), significant));
    let ten = |ns: f64| ns * 10.0 / 1e9;
    let faster = |broker: &&str| {
        let ratio = record.ratio(before(broker), usual(broker));
        ratio.map_or(usual(broker).blank(), |ratio| significant(ratio.ratio))
    };
    let lines = [
        row(
            ["broker at nice 0, s".to_owned(), usual_then],
            brokers.iter().map(|broker| figure(usual(broker), ten)),
        ),
        row(
            ["broker at nice -15, s".to_owned(), before_then],
            brokers.iter().map(|broker| figure(before(broker), ten)),
        ),
        row(["times faster".to_owned(), times], brokers.iter().map(faster)),
    ];
    table(
        "10 signals in a row to 10 subscribers on one CPU",
        1,
        &format!("|2011|{}", brokers.join("|")),
        lines,
    )
}

pub(super) fn signal_fan_out(record: &Record<'_>) -> Section {
    let brokers = &brokers(record);
    let names = brokers.join("|");
    let signal = |broker: &str, bytes: u64, place: &str, axes: &[(&str, &str)]| {
        found(record, &case("fan-out", broker, bytes, place, axes))
    };
    let cell = |found: Found<'_>| match switches(found) {
        Some(switches) => format!("{} · {}", figure(found, micros), count(switches)),
        None => figure(found, micros),
    };
    let everywhere = || PLACES.iter().flat_map(|place| brokers.iter().map(move |broker| (broker, place)));
    let receivers = ["1", "2", "5", "10", "20"].map(|receivers| {
        let axes = [("receivers", receivers)];
        let cells = everywhere().map(|(broker, place)| cell(signal(broker, SIGNAL_BYTES, place, &axes)));
        row([receivers.to_owned()], cells)
    });
    let experiments = EXPERIMENTS.iter().map(|(what, axes, theirs)| {
        let theirs = theirs.and_then(|(what, system)| published(what, "1 CPU VM", system));
        let cells = brokers.iter().map(|broker| cell(signal(broker, SIGNAL_BYTES, "same-cpu", axes)));
        row([(*what).to_owned(), as_published(theirs)], cells)
    });
    let sizes = SIGNALS_OF_2011.map(|(name, bytes)| {
        let theirs = published(&format!("dispatch {name} signal: total"), "1 CPU VM", "dbus-daemon");
        let cells = brokers.iter().map(|broker| {
            let found = signal(broker, bytes, "same-cpu", &[]);
            of_broker(found).map_or(found.blank(), |(cpu, _)| significant(cpu))
        });
        row([name.to_owned(), as_published(theirs)], cells)
    });
    let heads: String = everywhere().map(|(broker, place)| format!("|{broker}\n{place}")).collect();
    let tables = [
        table(
            "µs until the last subscriber has a signal · context switches of all",
            0,
            &format!("subscribers{heads}"),
            receivers,
        ),
        below(
            "Sender, broker and each subscriber are counted. On two CPUs sender and broker have one, all subscribers the other.",
        ),
        table(
            "10 subscribers on one CPU: µs a signal · context switches a signal",
            1,
            &format!("|switches\nin 2011|{names}"),
            experiments,
        ),
        below(
            "In a row: the sender emits ten and waits until all subscribers have them; it is woken once for ten signals, and the broker may handle several \
             at once. A sum below 12 has such wake-ups in it that serve several signals.",
        ),
        priority(record, brokers),
        below("In 2011 the article says 1.8 times. Ours are seconds of the same ten signals."),
        table(
            "CPU time of the broker for a signal to 10 subscribers, µs",
            1,
            &format!("signal|2011|{names}"),
            sizes,
        ),
        below(
            "Theirs is the time from receiving to the last send in an instrumented daemon, with 3 to 5 µs for each event that it noted.",
        ),
    ];
    let about = [PUBLISHED, &record.machine()];
    let tables = tables.into_iter().chain(parts_of_signals(record, brokers));
    Section::new("Signals to many subscribers, 2011", &about, tables, &[RAW, NOT_A_RACE]).with(record.skips())
}

const ROWS: f64 = 300_000.0;
const ROW_BYTES: f64 = 863.0;
/// Rows of a chunk, and its bytes.
const CHUNKS: [(u32, u64); 6] =
    [(1, 863), (8, 6905), (100, 86_300), (1000, 863_000), (10_000, 8_630_000), (100_000, 86_300_000)];

pub(super) fn tracker(record: &Record<'_>) -> Section {
    let brokers = brokers(record);
    let fetch = |broker: &str, bytes, place: &str| {
        found(record, &case("roundtrip", broker, bytes, place, &[("direction", "request")]))
    };
    let push = |broker: &str, bytes, place: &str| found(record, &case("stream", broker, bytes, place, &[]));
    let columns = brokers.iter().map(|broker| format!("|{broker}:\nfirst, ms|\nall, s|\nall pushed, s"));
    let heads = format!("rows of\na chunk|\nits size{}", columns.collect::<String>());
    let of_place = PLACES.map(|place| {
        let rows = CHUNKS.map(|(rows, bytes)| {
            let calls = ROWS / f64::from(rows);
            let cells = brokers.iter().flat_map(|broker| {
                let fetched = fetch(broker, bytes, place);
                [
                    figure(fetched, |ns| ns / 1e6),
                    figure(fetched, |ns| ns * calls / 1e9),
                    figure(push(broker, bytes, place), |rate| ROWS * ROW_BYTES / rate),
                ]
            });
            row([rows.to_string(), size(bytes)], cells)
        });
        table(&format!("300,000 rows of 863 bytes, {place}"), 0, &heads, rows)
    });
    let then = ["dbus-daemon", "AF_DBUS"].map(|system| {
        let theirs = published("tracker fetch 300000 rows", "KVM/i386", system);
        let name = format!("tracker, {system}");
        let seconds = |ns: f64| ns * ROWS / 8.0 / 1e9;
        let ours =
            PLACES.map(|place| times(record, fetch("dbus-daemon", 6905, place), seconds, &name, "s", theirs));
        row([format!("KVM/i386, {system}"), as_published(theirs)], ours)
    });
    let published = [
        table("chunks of 8 rows, as published, s", 1, "|2010|ours over it,\nsame-cpu|\ntwo-cpus", then),
        below(
            "Theirs has the query, its rows and their conversion in it; ours is dbus-daemon and nothing but the transport.",
        ),
    ];
    Section::new(
        "300,000 rows of a query, 2010",
        &[PUBLISHED, &record.machine()],
        of_place.into_iter().chain(published),
        &[
            "first: a call with one chunk and an empty reply, which costs what an empty call with a chunk as its reply costs. all: as many of them one \
             after the other. pushed: one-way calls, 256 KiB or two chunks on their way at most.",
            "8 rows were 6,905 bytes in 2010, so a row is taken for 863 bytes; 100,000 of them exceed what a message may hold.",
            RAW,
            NOT_A_RACE,
        ],
    )
    .with(record.skips())
}
