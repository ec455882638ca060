//! The charts of the kdbus discussion: SIZE, COPY, MEMFD, MAX, IBENCH, SPEEDUP, for one CPU and two; beside them a socket pair, a whole bus,
//! and a call and a payload by reference over Causeway; and ranges where nothing is pinned.

use std::cmp::Ordering;

use weighbridge_record::{CaseId, Crossover, Line, Summary, derive};
use weighbridge_stats::curve::{Both, Meeting, meeting};

use super::published::{KDBUS_2014, KDBUS_I7_2014, Row, rows};
use super::{Found, NOT_A_RACE, Record, Section, below, reasons, table};
use crate::document::Block;
use crate::units::{reach, size};
use crate::words::many;

/// One of the two charts.
pub(super) struct Chart {
    /// As the carried table calls it.
    harness: &'static str,
    /// The program whose figures on another processor are those of such a bus.
    on_i7: &'static str,
    title: &'static str,
    about: &'static str,
}

pub(super) const IBENCH: Chart = Chart {
    harness: "test-bus-kernel-benchmark",
    on_i7: "test-bus-kernel-benchmark",
    title: "ibench beside test-bus-kernel-benchmark, 2014",
    about: "Published: S. Westerfeld, systemd-devel, March 2014; AMD Phenom 9850 (four cores), Fedora 20, systemd and kdbus \
            from git. COPY and MEMFD there: a method call over kdbus through systemd's library, the payload one way, the reply \
            empty.",
};

pub(super) const KDBENCH: Chart = Chart {
    harness: "kdbench",
    on_i7: "test-kdbus-benchmark",
    title: "kdbench beside ibench, 2014",
    about: "Published: S. Westerfeld, systemd-devel, 15 April 2014; AMD Phenom 9850 (four cores), Fedora 20, kdbus from git. \
            COPY and MEMFD there: blocking calls to kdbus without a library, memory and memory files used again.",
};

/// A mechanism of ours in a chart.
struct Way {
    mechanism: &'static str,
    /// Its column, with a line break where it may be broken.
    head: &'static str,
    /// In sentences.
    name: &'static str,
}

const fn way(mechanism: &'static str, head: &'static str, name: &'static str) -> Way {
    Way { mechanism, head, name }
}

const COPY: Way = way("causeway-sw", "COPY", "copy");
const MEMFD: Way = way("memfd-pass", "MEMFD", "memfd");
const PIPE: Way = way("pipe", "IBENCH", "the pipe");
const BUS: Way = way("causeway-bus", "BUS", "the bus");
/// What has a column and a SPEEDUP of its own beside the chart of 2014.
const BESIDE: [Way; 4] = [
    way("unix-stream", "SOCKET\nPAIR", "the socket pair"),
    BUS,
    way("causeway-call", "CAUSEWAY", "the call"),
    way("causeway-memfd", "CAUSEWAY\n-MEMFD", "the reference"),
];
const PLACEMENTS: [(&str, &str); 2] = [("same-cpu", "single cpu"), ("two-cpus", "dual cpu")];
/// Of the figures that have a least and a most.
const FREE: &str = "free";

/// What is measured for each size.
fn measured() -> impl Iterator<Item = &'static Way> {
    [&COPY, &MEMFD, &PIPE].into_iter().chain(&BESIDE)
}

pub(super) fn section(record: &Record<'_>, chart: &Chart) -> Section {
    let published: Vec<Row> =
        rows(KDBUS_2014).into_iter().filter(|row| row.text("harness") == chart.harness).collect();
    let skips = PLACEMENTS.iter().flat_map(|(placement, _)| {
        published.iter().flat_map(move |row| measured().map(|way| find(record, way, placement, bytes(row))))
    });
    let mut tables: Vec<Block> = PLACEMENTS
        .iter()
        .flat_map(|(placement, name)| of_placement(record, &published, placement, name))
        .collect();
    tables.extend(wherever_they_run(record, chart));
    Section::new(
        chart.title,
        &[chart.about, &record.machine()],
        tables,
        &[
            "COPY here is Causeway, a log in shared memory that its receiver copies from, waiting by blocking; MEMFD passes the \
             descriptor of a memory file that is used again; IBENCH is a pipe each way with poll() before each read, payload \
             there and back. The sender fills each payload and no process reads it, as in 2014.",
            "SOCKETPAIR is ibench over a pair of Unix stream sockets, for which it has a switch. BUS is a call from member to member of \
             Causeway's bus, with all that kdbus did: names, headers, match rules, policy. CAUSEWAY is a call over Causeway: request and \
             reply over a pair of logs, numbered, as a program gets it from the library. \
             CAUSEWAY-MEMFD is a large payload by reference over Causeway: in a memory file that both ends keep mapped and that is used \
             again, while the log carries where it lies. None of them is part of MAX; each has a SPEEDUP of its own.",
            "All columns are round trips per second. MAX is the better of COPY and MEMFD by its median, with the range of that \
             one. SPEEDUP is IBENCH over MAX, the median over pairs of runs of one round with its sign-test interval of 95 %: \
             above 1 the pipe is faster. One without \
             an interval is of the medians.",
            NOT_A_RACE,
        ],
    )
    .with(reasons(skips))
}

/// The chart of a placement: the sizes that the record has, and how many of the published ones were not asked for.
fn of_placement(record: &Record<'_>, published: &[Row], placement: &str, name: &str) -> Vec<Block> {
    let title = format!("{name} ({placement}), round trips/s");
    let all: Vec<&Row> = published.iter().filter(|row| row.text("placement") == placement).collect();
    let is_asked = |row: &&&Row| {
        measured().any(|way| !matches!(find(record, way, placement, bytes(row)), Found::Absent))
    };
    let asked: Vec<&Row> = all.iter().filter(is_asked).copied().collect();
    if asked.is_empty() {
        return vec![below(&format!("{title}: not asked for; it has {} in 2014.", many(all.len(), "size")))];
    }
    let left_out = all.len() - asked.len();
    let left_out = (left_out > 0).then(|| {
        let was = if left_out == 1 { "was" } else { "were" };
        below(&format!("{} of 2014 {was} not asked for.", many(left_out, "further size")))
    });
    let rows = asked.into_iter().map(|row| line(record, row, placement)).collect::<Vec<_>>();
    let (at, of_2014) = published_meeting(published, placement);
    let [of_bus, of_copy] = [(&BUS, &PIPE, None), (&COPY, &MEMFD, at)]
        .map(|(one, other, theirs)| equally_fast(record, [one, other], placement, theirs));
    let heads = BESIDE.iter().map(|way| format!("|{}|SPEED\nUP", way.head)).collect::<String>();
    let heads = format!("SIZE|COPY|MEMFD|MAX|IBENCH|SPEED\nUP{heads}|2014:\nCOPY|\nMEMFD|\nIBENCH|SPEED\nUP");
    let sentences = [of_copy, of_2014, of_bus].map(|text| below(&text));
    std::iter::once(table(&title, 0, &heads, rows)).chain(left_out).chain(sentences).collect()
}

fn bytes(row: &Row) -> u64 {
    row.number("payload_bytes").unwrap_or(0.0) as u64
}

fn find<'a>(record: &Record<'a>, way: &Way, placement: &str, bytes: u64) -> Found<'a> {
    record.find(|id| is(id, way, placement) && id.payload_bytes == bytes)
}

fn is(id: &CaseId, way: &Way, placement: &str) -> bool {
    id.pattern == "roundtrip" && id.mechanism == way.mechanism && id.placement == placement
}

/// Round trips in a second at a cost in nanoseconds.
fn per_s(ns: f64) -> f64 {
    1e9 / ns
}

fn line(record: &Record<'_>, row: &Row, placement: &str) -> Vec<String> {
    let found = |way: &Way| find(record, way, placement, bytes(row));
    let cell = |found: Found<'_>| found.figure(per_s).map_or(found.blank(), |figure| figure.whole());
    let pipe = found(&PIPE);
    let better = [&COPY, &MEMFD].map(found).into_iter().filter(|found| found.value().is_some());
    let max = better.max_by(|a, b| b.value().partial_cmp(&a.value()).unwrap_or(Ordering::Equal));
    let max = max.map_or_else(Default::default, |found| [cell(found), speedup(record, pipe, found)]);
    let [max, of_max] = max;
    let beside = BESIDE.iter().flat_map(|way| [cell(found(way)), speedup(record, pipe, found(way))]);
    let theirs = ["copy_roundtrips_per_s", "memfd_roundtrips_per_s", "ibench_roundtrips_per_s", "speedup"];
    [bytes(row).to_string(), cell(found(&COPY)), cell(found(&MEMFD)), max, cell(pipe), of_max]
        .into_iter()
        .chain(beside)
        .chain(theirs.map(|column| row.text(column).to_owned()))
        .collect()
}

/// How many times as many round trips the pipe makes: the other's time over its own, from pairs of runs of one round, or
/// from the medians alone where the record has no such pair.
fn speedup(record: &Record<'_>, ibench: Found<'_>, max: Found<'_>) -> String {
    let Some(line) = record.ratio(ibench, max) else { return String::new() };
    match line.ci95 {
        Some(interval) => format!("{:.2} {}", line.ratio, reach(line.ratio, interval)),
        None if line.pairs == 0 => format!("{:.2}", line.ratio),
        None => format!("{:.2} ({})", line.ratio, many(line.pairs as usize, "pair")),
    }
}

/// What moves from CPU to CPU as the scheduler likes has no figure but a range: the least and the most of all runs, beside the three
/// tools on a processor of 2014 with payloads of 8 KiB. Nothing where no case ran so.
fn wherever_they_run(record: &Record<'_>, chart: &Chart) -> Vec<Block> {
    let published = rows(KDBUS_I7_2014);
    let mut lines = Vec::new();
    for way in measured() {
        let theirs = published.iter().find(|row| {
            let tool = row.text("tool");
            tool == "ibench" && way.mechanism == PIPE.mechanism
                || tool == chart.on_i7 && way.mechanism == COPY.mechanism
        });
        for (case, summary) in record.all(|id| is(id, way, FREE)) {
            let rates = case.runs.iter().map(|run| per_s(run.value));
            let [least, most] = rates
                .fold([f64::INFINITY, 0.0], |[least, most], rate: f64| [least.min(rate), most.max(rate)]);
            let is_theirs = |row: &&&Row| bytes(row) == case.id.payload_bytes;
            let cells = ["tool", "least_roundtrips_per_s", "most_roundtrips_per_s"].map(|column| {
                theirs.as_ref().filter(is_theirs).map_or(String::new(), |row| row.text(column).to_owned())
            });
            let ours = [per_s(summary.median), least, most].map(|rate| format!("{rate:.0}"));
            let labels = [way.head.replace('\n', ""), case.id.payload_bytes.to_string()];
            let runs = summary.runs.to_string();
            lines.push(labels.into_iter().chain(ours).chain([runs]).chain(cells).collect::<Vec<_>>());
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let heads = "free|SIZE|median|least|most|runs|2014|\nleast|\nmost";
    vec![
        table("wherever the scheduler puts them (free), round trips/s", 1, heads, lines),
        below(
            "2014: K. Sievers, systemd-devel, March 2014; three tools with payloads of 8 KiB and \"a concurrent CPU setup\" on an Intel \
             i7 of 2.90 GHz, each from its least to its most.",
        ),
    ]
}

/// The size at which two are equally fast, from everything that was measured, further sizes included; beside that of copy and memory file
/// stands the published one.
fn equally_fast(
    record: &Record<'_>,
    [one, other]: [&Way; 2],
    placement: &str,
    theirs: Option<f64>,
) -> String {
    let firsts = record.all(|id| is(id, one, placement) && id.payload_bytes > 0);
    let both =
        firsts.filter_map(|(case, first)| match find(record, other, placement, case.id.payload_bytes) {
            Found::Value(_, second) => Some((first, second)),
            _ => None,
        });
    let both: Vec<(&Summary, &Summary)> = both.collect();
    let is_it = |line: &Crossover| {
        both.iter().any(|(first, second)| line.first == first.case && line.second == second.case)
    };
    let names = [one.name, other.name];
    let held = record.held(&record.report.crossovers, is_it);
    let Some(line) = held.or_else(|| derive::crossover(&both)) else {
        return capitalized(&format!("{} and {} were not measured at a common size.", names[0], names[1]));
    };
    let text = told(&line, names);
    if let (Some(ours), Some(theirs)) = (line.bytes, theirs) {
        let name = format!("size at which COPY and MEMFD cost the same, {placement}");
        let beside = derive::published(&line.first, "S. Westerfeld, 2014", &name, "bytes", theirs, ours);
        record.derived.borrow_mut().extend(beside.map(Line::Published));
    }
    record.derived.borrow_mut().push(Line::Crossover(line));
    text
}

fn told(line: &Crossover, [first, second]: [&str; 2]) -> String {
    let name = |is_first: bool| if is_first { first } else { second };
    let both = capitalized(&format!("{first} and {second}"));
    let [least, most] = line.range_bytes.map(size);
    let measured = format!("{least} to {most}");
    let Some(is_first_below) = line.first_is_cheaper_below else {
        return format!("{both} cost the same at every size measured ({measured}).");
    };
    let (below, above) = (name(is_first_below), name(!is_first_below));
    let Some(bytes) = line.bytes else {
        return format!(
            "{both} are equally fast at no size measured ({measured}): {below} is always faster."
        );
    };
    let ends = match line.between_bytes {
        [Some(low), Some(high)] => format!("; between {low:.0} and {high:.0} they cannot be told apart"),
        [Some(low), None] => format!("; up to {low:.0} {below} is surely faster"),
        [None, Some(high)] => format!("; from {high:.0} on {above} is surely faster"),
        [None, None] => "; the intervals leave open how exactly".into(),
    };
    let others = match line.crossings {
        1 => String::new(),
        count => format!(" The medians cross {count} times; this is the last."),
    };
    format!("{both} are equally fast at {bytes:.0} bytes{ends}. Below, {below} is faster.{others}")
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The same of copy and memory file as published, which have no intervals.
fn published_meeting(published: &[Row], placement: &str) -> (Option<f64>, String) {
    let both = |row: &Row| {
        let cost = |column| row.number(column).map(|rate| (1e9 / rate, None));
        Some(Both {
            size: row.number("payload_bytes")?,
            first: cost("copy_roundtrips_per_s")?,
            second: cost("memfd_roundtrips_per_s")?,
        })
    };
    let rows = published.iter().filter(|row| row.text("placement") == placement);
    match meeting(&rows.filter_map(both).collect::<Vec<_>>()) {
        Some(Meeting::At { size, .. }) => {
            (Some(size), format!("2014, copy and memfd: at about {size:.0} bytes, read off its figures."))
        }
        _ => (None, "2014, copy and memfd: at no size.".into()),
    }
}
