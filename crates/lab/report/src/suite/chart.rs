//! The charts of the kdbus discussion: SIZE, COPY, MEMFD, MAX, IBENCH, SPEEDUP, for one CPU and two; and a call and a payload by reference over Causeway.

use weighbridge_record::{Crossover, Line, Summary, derive};
use weighbridge_stats::curve::{Both, Meeting, meeting};

use super::published::{KDBUS_2014, Row, rows};
use super::{Found, NOT_A_RACE, Record, Section, below, reasons, table};
use crate::document::Block;
use crate::units::{reach, size};
use crate::words::many;

/// One of the two charts.
pub(super) struct Chart {
    /// As the carried table calls it.
    harness: &'static str,
    title: &'static str,
    about: &'static str,
}

pub(super) const IBENCH: Chart = Chart {
    harness: "test-bus-kernel-benchmark",
    title: "ibench beside test-bus-kernel-benchmark, 2014",
    about: "Published: S. Westerfeld, systemd-devel, March 2014; AMD Phenom 9850 (four cores), Fedora 20, systemd and kdbus \
            from git. COPY and MEMFD there: a method call over kdbus through systemd's library, the payload one way, the reply \
            empty.",
};

pub(super) const KDBENCH: Chart = Chart {
    harness: "kdbench",
    title: "kdbench beside ibench, 2014",
    about: "Published: S. Westerfeld, systemd-devel, 15 April 2014; AMD Phenom 9850 (four cores), Fedora 20, kdbus from git. \
            COPY and MEMFD there: blocking calls to kdbus without a library, memory and memory files used again.",
};

const COPY: &str = "causeway-sw";
const MEMFD: &str = "memfd-pass";
const PIPE: &str = "pipe";
const CALL: &str = "causeway-call";
const REFERENCE: &str = "causeway-memfd";
/// What is measured for each size, in the order of the columns.
const MEASURED: [&str; 5] = [COPY, MEMFD, PIPE, CALL, REFERENCE];
const PLACEMENTS: [(&str, &str); 2] = [("same-cpu", "single cpu"), ("two-cpus", "dual cpu")];

pub(super) fn section(record: &Record<'_>, chart: &Chart) -> Section {
    let published: Vec<Row> =
        rows(KDBUS_2014).into_iter().filter(|row| row.text("harness") == chart.harness).collect();
    let skips = PLACEMENTS.iter().flat_map(|(placement, _)| {
        published.iter().flat_map(move |row| MEASURED.map(|what| find(record, what, placement, bytes(row))))
    });
    let tables = PLACEMENTS.iter().flat_map(|(placement, name)| {
        let title = format!("{name} ({placement}), round trips/s");
        let rows = published.iter().filter(|row| row.text("placement") == *placement);
        let rows = rows.map(|row| line(record, row, placement)).collect::<Vec<_>>();
        let [ours, theirs] = equally_fast(record, &published, placement);
        [table(&title, 0, HEADS, rows), below(&ours), below(&theirs)]
    });
    Section::new(
        chart.title,
        &[chart.about, &record.machine()],
        tables.collect::<Vec<Block>>(),
        &[
            "COPY here is Causeway, a log in shared memory that its receiver copies from, waiting by blocking; MEMFD passes the \
             descriptor of a memory file that is used again; IBENCH is a pipe each way with poll() before each read, payload \
             there and back. The sender fills each payload and no process reads it, as in 2014.",
            "CAUSEWAY is a call over Causeway: request and reply over a pair of logs, numbered, as a program gets it from the library. \
             CAUSEWAY-MEMFD is a large payload by reference over Causeway: in a memory file that both ends keep mapped and that is used \
             again, while the log carries where it lies. Neither is part of MAX; each has a SPEEDUP of its own.",
            "All columns are round trips per second. MAX is the better of COPY and MEMFD by its median, with the range of that \
             one. SPEEDUP is IBENCH over MAX, the median over pairs of runs of one round with its sign-test interval of 95 %: \
             above 1 the pipe is faster. One without \
             an interval is of the medians.",
            NOT_A_RACE,
        ],
    )
    .with(reasons(skips))
}

fn bytes(row: &Row) -> u64 {
    row.number("payload_bytes").unwrap_or(0.0) as u64
}

fn find<'a>(record: &Record<'a>, mechanism: &str, placement: &str, bytes: u64) -> Found<'a> {
    record.find(|id| {
        id.pattern == "roundtrip"
            && id.mechanism == mechanism
            && id.placement == placement
            && id.payload_bytes == bytes
    })
}

const HEADS: &str = "SIZE|COPY|MEMFD|MAX|IBENCH|SPEED\nUP|CAUSEWAY|SPEED\nUP|CAUSEWAY\n-MEMFD|SPEED\nUP\
                     |2014:\nCOPY|\nMEMFD|\nIBENCH|SPEED\nUP";

fn line(record: &Record<'_>, row: &Row, placement: &str) -> Vec<String> {
    let ours = MEASURED.map(|what| find(record, what, placement, bytes(row)));
    let [copy, memfd, ibench, call, reference] =
        ours.map(|found| found.figure(|ns| 1e9 / ns).map_or(found.blank(), |figure| figure.whole()));
    let figures = [(ours[0], &copy), (ours[1], &memfd)];
    let values = figures.map(|(found, cell)| Some((found.figure(|ns| 1e9 / ns)?.value, found, cell)));
    let max = values.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
    let (of_max, max) =
        max.map_or_else(Default::default, |(_, found, cell)| (speedup(record, ours[2], found), cell.clone()));
    let [of_call, of_reference] = [3, 4].map(|index| speedup(record, ours[2], ours[index]));
    let theirs = ["copy_roundtrips_per_s", "memfd_roundtrips_per_s", "ibench_roundtrips_per_s", "speedup"];
    let size = bytes(row).to_string();
    let cells = [size, copy, memfd, max, ibench, of_max, call, of_call, reference, of_reference];
    cells.into_iter().chain(theirs.map(|column| row.text(column).to_owned())).collect()
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

/// The size at which copy and memory file are equally fast, from everything that was measured, further sizes included; then the same
/// of the published figures.
fn equally_fast(record: &Record<'_>, published: &[Row], placement: &str) -> [String; 2] {
    let theirs = published_crossing(published, placement);
    let told_of_theirs = match theirs {
        Some(bytes) => format!("2014: at about {bytes:.0} bytes, read off its figures."),
        None => "2014: at no size.".into(),
    };
    let copies = record.all(|id| id.mechanism == COPY && id.placement == placement && id.payload_bytes > 0);
    let both =
        copies.filter_map(|(case, first)| match find(record, MEMFD, placement, case.id.payload_bytes) {
            Found::Value(_, second) => Some((first, second)),
            _ => None,
        });
    let both: Vec<(&Summary, &Summary)> = both.collect();
    let is_it = |line: &Crossover| {
        both.iter().any(|(first, second)| line.first == first.case && line.second == second.case)
    };
    let held = record.held(&record.report.crossovers, is_it);
    let Some(line) = held.or_else(|| derive::crossover(&both)) else {
        return ["Copy and memfd were not measured at a common size.".into(), told_of_theirs];
    };
    let text = told(&line);
    if let (Some(ours), Some(theirs)) = (line.bytes, theirs) {
        let name = format!("size at which COPY and MEMFD cost the same, {placement}");
        let beside = derive::published(&line.first, "S. Westerfeld, 2014", &name, "bytes", theirs, ours);
        record.derived.borrow_mut().extend(beside.map(Line::Published));
    }
    record.derived.borrow_mut().push(Line::Crossover(line));
    [text, told_of_theirs]
}

fn told(line: &Crossover) -> String {
    let name = |is_copy: bool| if is_copy { "copy" } else { "memfd" };
    let [least, most] = line.range_bytes.map(size);
    let measured = format!("{least} to {most}");
    let Some(is_copy_below) = line.first_is_cheaper_below else {
        return format!("Copy and memfd cost the same at every size measured ({measured}).");
    };
    let (below, above) = (name(is_copy_below), name(!is_copy_below));
    let Some(bytes) = line.bytes else {
        return format!(
            "Copy and memfd are equally fast at no size measured ({measured}): {below} is always faster."
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
    format!("Copy and memfd are equally fast at {bytes:.0} bytes{ends}. Below, {below} is faster.{others}")
}

/// The same of the published figures, which have no intervals.
fn published_crossing(published: &[Row], placement: &str) -> Option<f64> {
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
        Some(Meeting::At { size, .. }) => Some(size),
        _ => None,
    }
}
