//! epoll_bench: a line for each interval, as it prints one each second.

use weighbridge_record::{CaseId, Run, Summary};
use weighbridge_stats::cumulative::uncumulate;

use super::published::{EPOLL_2006, Row, rows};
use super::{Found, NOT_A_RACE, Record, Section, Table, Theirs, reasons};
use crate::model::Measured;
use crate::units::significant;
use crate::words::many;

/// Options of epoll_bench, what they make it use, the average that it printed, and the case here.
type Setting = (&'static str, &'static str, f64, fn(&CaseId) -> bool);

const SETTINGS: [Setting; 4] = [
    ("-n 2000", "pipes", 259_643.0, |id| is(id, "pipe", false)),
    ("-n 2000 -u", "AF_UNIX", 170_188.0, |id| is(id, "unix-stream", false)),
    ("-n 2000 -i", "AF_INET", 58_771.0, |id| is(id, "tcp", false)),
    ("-n 2000 -i -f", "AF_INET, no epoll", 69_475.0, |id| is(id, "tcp", true)),
];

fn is(id: &CaseId, mechanism: &str, is_without_epoll: bool) -> bool {
    let waits_not = id.axes.get("wait").is_some_and(|wait| wait == "none");
    id.pattern == "fan-in" && id.mechanism == mechanism && waits_not == is_without_epoll
}

pub(super) fn section(record: &Record<'_>) -> Section {
    let published = rows(EPOLL_2006);
    let table = |setting: &Setting| table(record, setting, &published);
    let mut notes = vec![
        "Each line is an interval, in the order of time: of one second in the published output, shorter in ours (see below each \
         table) and given per second. Our intervals are those of the run whose value is nearest to the median of all runs."
            .to_string(),
        "ctxt/sec: theirs are the whole system's, ours those of reader and writer. samples per call: theirs since the \
         beginning of the run, which hides what changes; in that second: taken apart again. Ours are of each interval."
            .to_string(),
        "Two threads of one process, the writer nicer by ten, 1 byte to a random stream (in turn with -f), edge-triggered, up \
         to 1,024 events a call, as there. Theirs counts its warm-up, ours does not."
            .to_string(),
        NOT_A_RACE.to_string(),
    ];
    notes.extend(reasons(SETTINGS.iter().map(|(_, _, _, is)| record.find(is))));
    Section {
        title: "epoll_bench, 2006".into(),
        about: vec![
            "Published: E. Dumazet, linux-kernel, 6 November 2006; two Opteron 246 of 2 GHz, Linux 2.6.18, \"somewhat busy\"."
                .into(),
            record.machine(),
        ],
        tables: SETTINGS.iter().map(table).collect(),
        notes,
    }
}

fn table(record: &Record<'_>, (options, what, average, is): &Setting, published: &[Row]) -> Table {
    let theirs: Vec<&Row> = published.iter().filter(|row| row.text("options") == *options).collect();
    let in_that_second = per_call(&theirs);
    let found = record.find(is);
    let run = match found {
        Found::Value(case, summary) => representative(case, summary),
        _ => None,
    };
    let series = |name: &str, index: usize| -> Option<f64> { run?.series.get(name)?.get(index).copied() };
    let row = |(index, row): (usize, &&Row)| {
        let switches = series("voluntary_switches_per_s", index)
            .zip(series("involuntary_switches_per_s", index))
            .map(|(voluntary, involuntary)| voluntary + involuntary);
        let whole = |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.0}"));
        vec![
            row.text("second").to_string(),
            row.text("events_per_s").to_string(),
            row.text("context_switches_per_s").to_string(),
            row.text("events_per_call_cumulative").to_string(),
            in_that_second.get(index).map_or(String::new(), |figure| significant(*figure)),
            whole(run.and_then(|run| run.samples.get(index)).copied()),
            whole(switches),
            series("events_per_call", index).map_or(String::new(), significant),
        ]
    };
    let heads = [
        "",
        "2006:\nevts/sec",
        "\nctxt/sec",
        "samples\nper call",
        "in that\nsecond",
        "ours:\nevts/sec",
        "\nctxt/sec",
        "samples\nper call",
    ];
    Table {
        title: format!("epoll_bench {options} ({what})"),
        heads: heads.map(String::from).to_vec(),
        rows: theirs.iter().enumerate().map(row).collect(),
        labels: 0,
        after: vec![averages(record, found, options, *average)],
    }
}

/// `Avg:`, as the last line has it.
fn averages(record: &Record<'_>, found: Found<'_>, options: &str, average: f64) -> String {
    let theirs = format!("Avg: {average:.0} evts/sec in 2006");
    let Some(figure) = found.figure(|rate| rate) else {
        return format!("{theirs}; ours: {}.", found.blank());
    };
    let interval = match found {
        Found::Value(case, _) => case.case.as_ref().and_then(|case| case.facts.get("reader.interval_ms")),
        _ => None,
    };
    let interval = interval.map_or(String::new(), |ms| format!(", intervals of {ms} ms"));
    let published = Theirs { source: "epoll_bench, 2006", name: options, unit: "events/s", value: average };
    format!(
        "{theirs}; ours: median {:.0} evts/sec {} ({}{interval}), {} times as many.",
        figure.value,
        figure.reach(),
        many(figure.runs as usize, "run"),
        record.times(found, &published, figure.value)
    )
}

/// Events per call in each second, from the averages since the beginning; nothing where there are none.
fn per_call(rows: &[&Row]) -> Vec<f64> {
    let column = |name: &str| rows.iter().filter_map(|row| row.number(name)).collect::<Vec<f64>>();
    let (events, ratios) = (column("events_per_s"), column("events_per_call_cumulative"));
    if events.len() != ratios.len() {
        return Vec::new();
    }
    let calls = uncumulate(&events, &ratios);
    events
        .iter()
        .zip(calls)
        .map(|(events, calls)| if calls > 0.0 { events / calls } else { f64::NAN })
        .collect()
}

/// The run whose value is nearest to the median of all, among those whose samples are known.
fn representative<'a>(case: &'a Measured, summary: &Summary) -> Option<&'a Run> {
    let distance = |run: &&Run| (run.value - summary.median).abs();
    let usable = case.runs.iter().filter(|run| !run.samples.is_empty());
    usable.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}
