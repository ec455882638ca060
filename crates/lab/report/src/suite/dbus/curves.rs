//! What brokers spend by size and kind of message: the curves of a cost model.

use weighbridge_record::CaseId;

use super::{SIGNAL_BYTES, brokers, case, found, of_broker, row};
use crate::suite::{Record, Section, table};
use crate::units::{count, significant, size};

const CURVE: [u64; 5] = [1, 256, 4096, 65_536, 1_048_576];
const CALLS: [&str; 6] = ["GetId", "NameHasOwner", "GetNameOwner", "match", "name", "connect"];
const AT_REST: [&str; 6] = ["GetNameOwner", "match", "name", "connect", "relay", "signal"];
const RULES: [&str; 2] = ["500", "4000"];
const RULES_BY: [&str; 3] = ["path", "interface", "arg0"];

pub(in crate::suite) fn curves(record: &Record<'_>) -> Section {
    let brokers = brokers(record);
    let cell = |id: CaseId| {
        let found = found(record, &id);
        let shown =
            of_broker(found).map(|(cpu, switches)| format!("{} · {}", significant(cpu), count(switches)));
        shown.unwrap_or(found.blank())
    };
    // A row of what each broker spends for a case.
    let line = |head: String, pattern: &str, bytes: u64, axes: &[(&str, &str)]| {
        row([head], brokers.iter().map(|broker| cell(case(pattern, broker, bytes, "same-cpu", axes))))
    };
    let of = |title: &str, label: &str, rows: Vec<Vec<String>>| {
        let title = format!("{title}: CPU time of the broker, µs · its context switches");
        table(&title, 1, &format!("{label}|{}", brokers.join("|")), rows)
    };
    let of_sizes = |title: &str, pattern: &str, axes: &[(&str, &str)]| {
        of(title, "payload", CURVE.map(|bytes| line(size(bytes), pattern, bytes, axes)).into())
    };
    let mut tables = vec![
        of_sizes("a call and its reply", "roundtrip", &[]),
        of_sizes("one of many calls that want no reply", "stream", &[]),
    ];
    for receivers in ["1", "10"] {
        tables.push(of_sizes(&format!("a signal to {receivers}"), "fan-out", &[("receivers", receivers)]));
    }
    let of_driver = CALLS.map(|call| line(call.into(), "solo", 0, &[("call", call)]));
    tables.push(of("a call to the broker itself", "call", of_driver.into()));
    for (place, cpu) in [("on the CPU of the client", "first"), ("on a CPU of its own", "own")] {
        let rows = AT_REST.map(|call| {
            line(call.into(), "solo", 0, &[("broker", cpu), ("call", call), ("pause-us", "1000")])
        });
        let title = format!("one at a time, after 1 ms in which nothing happens, the broker {place}");
        tables.push(of(&title, "operation", rows.into()));
    }
    let mut rules = vec![line("none".into(), "fan-out", SIGNAL_BYTES, &[("receivers", "1")])];
    for by in RULES_BY {
        rules.extend(RULES.map(|rules| {
            let axes = [("receivers", "1"), ("rules", rules), ("rules-by", by)];
            line(format!("{rules} by {by}"), "fan-out", SIGNAL_BYTES, &axes)
        }));
    }
    tables.push(of("a signal to 1, with rules that match nothing", "rules", rules));
    Section::new(
        "What brokers spend",
        &[&record.machine()],
        tables,
        &[
            "On one CPU with all roles, where nothing else is said. CPU time is that of the broker's process, medians over the runs; the record has its parts, and what the ends spend.",
            "match: AddMatch and RemoveMatch in turn, the mean of both; name: RequestName and ReleaseName likewise. connect: a connection is made, \
             authenticated, says Hello and is closed. relay: a message to the client itself; signal: a broadcast to nobody.",
        ],
    )
    .with(record.skips())
}
