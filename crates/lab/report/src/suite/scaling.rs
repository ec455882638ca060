//! Events per second over the number of streams, for each way to wait.

use weighbridge_record::CaseId;

use super::{Record, Section, Table, reasons};

const WAITS: [&str; 6] = ["epoll-et", "epoll-lt", "poll", "select", "uring", "none"];
const STREAMS: [u64; 4] = [10, 100, 1000, 10_000];

fn is(id: &CaseId, wait: &str, streams: u64) -> bool {
    let axis = |name: &str, default: &str| id.axes.get(name).map_or(default, String::as_str).to_string();
    id.pattern == "fan-in"
        && axis("wait", "epoll-et") == wait
        && axis("streams", "2000") == streams.to_string()
}

pub(super) fn section(record: &Record<'_>) -> Section {
    let row = |streams: u64| {
        let cell = |wait: &str| {
            let found = record.find(|id| is(id, wait, streams));
            found.figure(|rate| rate / 1e3).map_or(found.blank(), |figure| figure.whole())
        };
        std::iter::once(streams.to_string()).chain(WAITS.map(cell)).collect()
    };
    let all = STREAMS.iter().flat_map(|streams| WAITS.map(|wait| record.find(|id| is(id, wait, *streams))));
    Section {
        title: "Events per second over the number of streams".into(),
        about: vec![record.machine()],
        tables: vec![Table {
            title: "pipes of 1 byte into one reader, thousand events/s".into(),
            heads: std::iter::once("streams").chain(WAITS).map(String::from).collect(),
            rows: STREAMS.map(row).to_vec(),
            labels: 0,
            after: vec!["An event is a read that returned data.".into()],
        }],
        notes: reasons(all),
    }
}
