//! epoll_bench: a line for each interval, as it prints one each second.

use weighbridge_record::CaseId;
use weighbridge_stats::cumulative::uncumulate;

use super::published::{EPOLL_2006, Row, rows};
use super::{Found, NOT_A_RACE, Record, Section, Theirs, below, reasons, table};
use crate::document::Block;
use crate::units::significant;
use crate::words::many;

/// Context switches of the whole machine, as the reader read them between two intervals.
const OF_MACHINE: &str = "machine_switches_per_s";

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
    Section::new(
        "epoll_bench, 2006",
        &[
            "Published: E. Dumazet, linux-kernel, 6 November 2006; two Opteron 246 of 2 GHz, Linux 2.6.18, \"somewhat busy\".",
            &record.machine(),
        ],
        SETTINGS.iter().flat_map(|setting| of_setting(record, setting, &published)).collect::<Vec<_>>(),
        &[
            "Each line is an interval, in the order of time: of one second in the published output, shorter in ours (see below each \
             table) and given per second. Our intervals are those of the run whose value is nearest to the median of all runs.",
            "ctxt/sec: those of the whole system, as /proc/stat has them, there as here (not of intervals below 0.1 s, which reading it would disturb); of both roles: those of reader and writer alone. samples per call: theirs since the \
             beginning of the run, which hides what changes; in that second: taken apart again. Ours are of each interval.",
            "Two threads of one process, the writer nicer by ten, 1 byte to a random stream (in turn with -f), edge-triggered, up \
             to 1,024 events a call, as there. Theirs counts its warm-up, ours does not.",
            NOT_A_RACE,
        ],
    )
    .with(reasons(SETTINGS.iter().map(|(_, _, _, is)| record.find(is))))
}

fn of_setting(record: &Record<'_>, (options, what, average, is): &Setting, published: &[Row]) -> [Block; 2] {
    let theirs: Vec<&Row> = published.iter().filter(|row| row.text("options") == *options).collect();
    let in_that_second = per_call(&theirs);
    let found = record.find(is);
    let run = match found {
        Found::Value(case, _) => case.middle_run(|run| !run.samples.is_empty()),
        _ => None,
    };
    let series = |name: &str, index: usize| -> Option<f64> { run?.series.get(name)?.get(index).copied() };
    let row = |index: usize| {
        let switches = series("voluntary_switches_per_s", index)
            .zip(series("involuntary_switches_per_s", index))
            .map(|(voluntary, involuntary)| voluntary + involuntary);
        let whole = |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.0}"));
        let of_machine = whole(series(OF_MACHINE, index));
        let columns = ["second", "events_per_s", "context_switches_per_s", "events_per_call_cumulative"];
        let ours = [
            in_that_second.get(index).map_or(String::new(), |figure| significant(*figure)),
            whole(run.and_then(|run| run.samples.get(index)).copied()),
            of_machine,
            whole(switches),
            series("events_per_call", index).map_or(String::new(), significant),
        ];
        let published = theirs.get(index);
        let cells = columns.map(|column| published.map_or(String::new(), |row| row.text(column).to_owned()));
        let [_, cells @ ..] = cells;
        std::iter::once((index + 1).to_string()).chain(cells).chain(ours).collect()
    };
    let heads = "|2006:\nevts/sec|\nctxt/sec|samples\nper call|in that\nsecond|ours:\nevts/sec|\nctxt/sec|of both\nroles|samples\nper call";
    let title = format!("epoll_bench {options} ({what})");
    // Theirs are fifteen.
    let lines = theirs.len().max(run.map_or(0, |run| run.samples.len()));
    let rows: Vec<_> = (0..lines).map(row).collect();
    [table(&title, 0, heads, rows), below(&averages(record, found, options, *average))]
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
    let runs = match figure.reach() {
        // Where there is nothing but their number, it is told already.
        reach if reach.starts_with('(') => reach.replace(')', &format!("{interval})")),
        reach => format!("{reach} ({}{interval})", many(figure.runs as usize, "run")),
    };
    let median = format!("median {:.0} evts/sec {runs}", figure.value);
    match mean(found) {
        Some(mean) => format!(
            "{theirs}; ours: mean {mean:.0} evts/sec, {} times as many; {median}.",
            record.times(found, &published, mean)
        ),
        None => format!("{theirs}; ours: {median}; the record has no intervals to take a mean of."),
    }
}

/// Of all intervals of all runs, as theirs is one of all seconds; nothing of a record without intervals.
fn mean(found: Found<'_>) -> Option<f64> {
    let Found::Value(case, _) = found else { return None };
    let intervals = case.runs.iter().flat_map(|run| &run.samples);
    let (sum, count) = intervals.fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
    (count > 0.0).then(|| sum / count)
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
