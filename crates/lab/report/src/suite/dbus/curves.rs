//! What brokers spend by size and kind of message: the curves of a cost model.

use weighbridge_record::CaseId;

use super::{SIGNAL_BYTES, brokers, case, found, heads, of_broker, skips};
use crate::suite::{Record, Section, Table};
use crate::units::{count, significant, size};

const CURVE: [u64; 5] = [1, 256, 4096, 65_536, 1_048_576];
const CALLS: [&str; 6] = ["GetId", "NameHasOwner", "GetNameOwner", "match", "name", "connect"];
const AT_REST: [&str; 6] = ["GetNameOwner", "match", "name", "connect", "relay", "signal"];
const RULES: [&str; 2] = ["500", "4000"];
const RULES_BY: [&str; 3] = ["path", "interface", "arg0"];

pub(in crate::suite) fn curves(record: &Record<'_>) -> Section {
    let cell = |id: CaseId| {
        let found = found(record, &id);
        of_broker(found)
            .map_or(found.blank(), |(cpu, switches)| format!("{} · {}", significant(cpu), count(switches)))
    };
    let brokers = brokers(record);
    let by_broker = |make: &dyn Fn(&str) -> CaseId| -> Vec<String> {
        brokers.iter().map(|broker| cell(make(broker))).collect()
    };
    let table = |title: String, label: &str, rows: Vec<(String, Vec<String>)>| Table {
        title: format!("{title}: CPU time of the broker, µs · its context switches"),
        heads: heads([label].into_iter().chain(brokers.iter().copied())),
        rows: rows.into_iter().map(|(head, cells)| std::iter::once(head).chain(cells).collect()).collect(),
        labels: 1,
        after: Vec::new(),
    };
    let of_sizes = |title: &str, make: &dyn Fn(&str, u64) -> CaseId| {
        let rows = CURVE.iter().map(|bytes| (size(*bytes), by_broker(&|broker| make(broker, *bytes))));
        table(title.into(), "payload", rows.collect())
    };
    let calls =
        of_sizes("a call and its reply", &|broker, bytes| case("roundtrip", broker, bytes, "same-cpu", &[]));
    let streams = of_sizes("one of many calls that want no reply", &|broker, bytes| {
        case("stream", broker, bytes, "same-cpu", &[])
    });
    let signals = ["1", "10"].map(|receivers| {
        of_sizes(&format!("a signal to {receivers}"), &|broker, bytes| {
            case("fan-out", broker, bytes, "same-cpu", &[("receivers", receivers)])
        })
    });
    let of_driver = CALLS.map(|call| {
        (call.to_owned(), by_broker(&|broker| case("solo", broker, 0, "same-cpu", &[("call", call)])))
    });
    let at_rest =
        [("on the CPU of the client", "first"), ("on a CPU of its own", "own")].map(|(place, cpu)| {
            let rows = AT_REST.map(|call| {
                let axes = [("broker", cpu), ("call", call), ("pause-us", "1000")];
                (call.to_owned(), by_broker(&|broker| case("solo", broker, 0, "same-cpu", &axes)))
            });
            let title = format!("one at a time, after 1 ms in which nothing happens, the broker {place}");
            table(title, "operation", rows.to_vec())
        });
    let without = |broker: &str| case("fan-out", broker, SIGNAL_BYTES, "same-cpu", &[("receivers", "1")]);
    let rules =
        std::iter::once(("none".to_owned(), by_broker(&without))).chain(RULES_BY.iter().flat_map(|by| {
            RULES.map(|rules| {
                let axes = [("receivers", "1"), ("rules", rules), ("rules-by", *by)];
                let of = |broker: &str| case("fan-out", broker, SIGNAL_BYTES, "same-cpu", &axes);
                (format!("{rules} by {by}"), by_broker(&of))
            })
        }));
    let mut tables = vec![calls, streams];
    tables.extend(signals);
    tables.push(table("a call to the broker itself".into(), "call", of_driver.to_vec()));
    tables.extend(at_rest);
    tables.push(table("a signal to 1, with rules that match nothing".into(), "rules", rules.collect()));
    Section {
        title: "What brokers spend".into(),
        about: vec![record.machine()],
        tables,
        notes: [
            vec![
                "On one CPU with all roles, where nothing else is said. CPU time is that of the broker's process, medians over the runs; the record has its parts, and what the ends spend.".into(),
                "match: AddMatch and RemoveMatch in turn, the mean of both; name: RequestName and ReleaseName likewise. connect: a connection is made, \
                 authenticated, says Hello and is closed. relay: a message to the client itself; signal: a broadcast to nobody."
                    .into(),
            ],
            skips(record),
        ]
        .concat(),
    }
}
