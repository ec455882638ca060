//! Events per second over the number of streams, for each way to wait.

use super::{Record, Section, below, reasons, table};

const WAITS: [&str; 6] = ["epoll-et", "epoll-lt", "poll", "select", "uring", "none"];
const STREAMS: [&str; 4] = ["10", "100", "1000", "10000"];

pub(super) fn section(record: &Record<'_>) -> Section {
    let find = |wait: &str, streams: &str| {
        record.find(|id| {
            let axis = |name: &str, default| id.axes.get(name).map_or(default, String::as_str);
            id.pattern == "fan-in" && axis("wait", WAITS[0]) == wait && axis("streams", "2000") == streams
        })
    };
    let row = |streams: &str| {
        let cell = |wait: &str| {
            let found = find(wait, streams);
            found.figure(|rate| rate / 1e3).map_or(found.blank(), |figure| figure.whole())
        };
        std::iter::once(streams.to_owned()).chain(WAITS.map(cell)).collect()
    };
    let heads = format!("streams|{}", WAITS.join("|"));
    let title = "pipes of 1 byte into one reader, thousand events/s";
    let tables = [table(title, 0, &heads, STREAMS.map(row)), below("An event is a read that returned data.")];
    let all = STREAMS.iter().flat_map(|streams| WAITS.map(|wait| find(wait, streams)));
    Section::new("Events per second over the number of streams", &[&record.machine()], tables, &[])
        .with(reasons(all))
}
