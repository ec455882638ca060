//! akbench: latencies, then bandwidths, in its order and units.

use weighbridge_record::CaseId;

use super::published::{AKBENCH_2025, Row, rows};
use super::{NOT_A_RACE, Record, Section, Theirs, below, reasons, table};
use crate::axis::Axis;
use crate::chart::{Bar, Drawing, Piece};
use crate::document::{Block, Table};
use crate::look::Look;
use crate::units::significant;

/// Every latency that was published sums eight durations of ten and divides by ten.
const OF_THE_TRUTH: f64 = 0.8;

/// What a line of its table is here: pattern and mechanism, an axis that tells cases apart (`!` before one that must be absent), and
/// what is different nevertheless.
type Same = (&'static str, &'static str, &'static str, &'static str);

const SAME: &[Same] = &[
    ("atomic", "pingpong/atomic", "!order", ""),
    (
        "atomic_rel_acq",
        "pingpong/atomic",
        "order=acqrel",
        "its store is relaxed, although its name says release; ours releases, which on x86 is the same instruction",
    ),
    ("barrier", "pingpong/barrier", "", "without formatting log lines inside the barrier"),
    ("condition_variable", "pingpong/condvar", "", ""),
    ("semaphore", "pingpong/sem-posix", "", "unnamed semaphores in shared memory; named ones there"),
    ("statfs", "solo/statfs", "", ""),
    ("fstatfs", "solo/fstatfs", "", ""),
    ("getpid", "solo/getpid", "", ""),
    ("memcpy", "solo/memcpy", "", ""),
    ("memcpy_mt_1", "parallel/memcpy", "roles=1", THREADS),
    ("memcpy_mt_2", "parallel/memcpy", "roles=2", THREADS),
    ("memcpy_mt_3", "parallel/memcpy", "roles=3", THREADS),
    ("memcpy_mt_4", "parallel/memcpy", "roles=4", THREADS),
    ("tcp", "stream/tcp", "", ""),
    ("uds", "stream/unix-stream", "", ""),
    ("pipe", "stream/pipe", "", FRESH),
    ("fifo", "stream/fifo", "", FRESH),
    ("mq", "stream/mq-posix", "", FRESH),
    ("mmap", "stream/buffers-barrier", "backing=file", ""),
    ("shm", "stream/buffers-barrier", "backing=shm", ""),
];

const THREADS: &str = "our threads run already, each with blocks of its own; the published figure includes the time to start them";
const FRESH: &str = "the receiver copies to memory that is touched for the first time, as in akbench";

fn is((_, of, axis, _): &Same, id: &CaseId) -> bool {
    let has_axis = match (axis.strip_prefix('!'), axis.split_once('=')) {
        (Some(absent), _) => !id.axes.contains_key(absent),
        (None, Some((name, value))) => id.axes.get(name).is_some_and(|known| known == value),
        (None, None) => true,
    };
    of.split_once('/') == Some((id.pattern.as_str(), id.mechanism.as_str())) && has_axis
}

pub(super) fn section(record: &Record<'_>) -> Section {
    let mut differences: Vec<&str> = Vec::new();
    let published = rows(AKBENCH_2025);
    let tables = [
        ("latency", "latency_all, ns", "2025\ncorrected|", ""),
        ("bandwidth", "bandwidth_all, GiByte/sec", "", "|2025 of\nits limit|ours of\nthe limit"),
    ];
    let limit = Limit::of(record);
    let tables = tables.map(|(family, title, corrected, shares)| {
        let of_family = published.iter().filter(|row| row.text("family") == family);
        let heads =
            format!("benchmark|2025|±|{corrected}ours|range in\nthe session|ours/\n2025|note{shares}");
        table(title, 1, &heads, of_family.map(|row| line(record, row, &limit, &mut differences)))
    });
    let tables = tables.into_iter().chain([below(&limit.told), graph(record, &published, &limit)]);
    let numbered = differences.iter().enumerate().map(|(index, text)| format!("{}: {text}.", index + 1));
    Section::new(
        "akbench, 2025",
        &[
            "Published: the slides of akbench (github.com/akawashiro/akbench), 2025; a machine with DDR4-3200 and Linux 6.8, \
             its CPU not named there. Nothing is pinned, there as here.",
            &record.machine(),
        ],
        tables,
        &[
            "corrected: the published latencies are 0.8 of what was measured, because eight of ten durations are added up and \
             divided by ten; the same mistake keeps their ± from ever being below 0.22 of the mean. Ratios are of the corrected \
             figures. Bandwidths are not affected.",
            "Latencies are one way; below 1 ours is shorter. Bandwidths are what the receiver counts; above 1 ours is larger.",
            "1 GiB through buffers of 1 MiB (8 KiB for mq): here messages come from and go to blocks of 256 MiB that both ends walk \
             over again and again, and the figure is the median of windows without a beginning and an end.",
            NOT_A_RACE,
        ],
    )
    .with(numbered)
    .with(reasons(SAME.iter().map(|same| record.find(|id| is(same, id)))))
}

/// What memory can move in a second at most.
struct Limit {
    bytes_per_s: Option<f64>,
    /// A sentence about it, and about that of 2025.
    told: String,
}

/// The limit in the slides, in GiByte/sec: `3200 MHz * 64 bits`.
const LIMIT_2025: f64 = 25.6;

impl Limit {
    /// What was given to the run goes before what the firmware told.
    fn of(record: &Record<'_>) -> Limit {
        let given = record.header.settings.get("memory-bandwidth").and_then(|rate| rate.parse::<f64>().ok());
        let of_firmware = record.header.machine.dram.as_ref().and_then(|dram| dram.bytes_per_s);
        let gib = |rate: f64| significant(rate / GIB);
        let ours = match (given, of_firmware.filter(|rate| *rate > 0.0)) {
            (Some(rate), _) => format!("ours: {} GiByte/sec, as given by --memory-bandwidth", gib(rate)),
            (None, Some(rate)) => format!("ours: {} GiByte/sec, from the firmware's table of modules", gib(rate)),
            (None, None) => {
                "ours is not known here, as no table of the firmware could be read: give it with --memory-bandwidth 25.6G".to_owned()
            }
        };
        let told = format!(
            "Shares are of what memory can move in theory, each byte of a payload counted once. The slides take 25.6 GiByte/sec (3200 MHz × 64 \
             bits, which are 23.8 GiByte/sec) and say 70 % of memcpy, and 140 % where its reading and its writing are both counted; {ours}."
        );
        Limit { bytes_per_s: given.or(of_firmware), told }
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Cells of the longest bar of a terminal.
const WIDEST: f64 = 24.0;

/// The slides' "Graph of bandwidth results on my computer", with ours beside.
fn graph(record: &Record<'_>, published: &[Row], limit: &Limit) -> Block {
    let both: Vec<(String, [Option<f64>; 2])> = published
        .iter()
        .filter(|row| row.text("family") == "bandwidth")
        .map(|row| {
            let benchmark = row.text("benchmark");
            let same = SAME.iter().find(|same| same.0 == benchmark);
            let ours = same.and_then(|same| record.find(|id| is(same, id)).value()).map(|rate| rate / GIB);
            (benchmark.to_owned(), [row.number("mean"), ours])
        })
        .collect();
    let most = both.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
    let limits = [Some(LIMIT_2025), limit.bytes_per_s.map(|rate| rate / GIB)];
    // With its share of the limit, where that is known.
    let told = |value: f64, limit: Option<f64>| {
        let share = limit.map_or(String::new(), |limit| format!(", {}", percent(value / limit)));
        format!("{}{share}", significant(value))
    };
    let bar = |value: Option<f64>, limit: Option<f64>| {
        let value = value?;
        let cells = ((value / most * WIDEST).round() as usize).max(1);
        Some(format!("{} {}", "█".repeat(cells), told(value, limit)))
    };
    let rows = both.iter().map(|(name, values)| {
        let [theirs, ours] =
            [0, 1].map(|who| bar(values[who], limits[who]).unwrap_or_else(|| "no figure".into()));
        [name.clone(), theirs, ours]
    });
    let figures =
        Table::new("", ["", "2025, GiByte/sec, share of its limit", "ours"], rows).with_texts([1, 2]);
    // Drawn from the bottom.
    let bars = both.iter().rev().flat_map(|(name, values)| {
        ["2025", "ours"].into_iter().enumerate().rev().filter_map(move |(index, who)| {
            let value = values[index]?;
            let hover = vec![format!("GiByte/sec, share of the limit: {}", told(value, limits[index]))];
            let piece = Piece { name: who.into(), look: Look::nth(index), value, hover };
            Some(Bar { name: format!("{name}, {who}"), pieces: vec![piece] })
        })
    });
    let drawing = Drawing::Bars(Axis::Linear("GiByte/sec".into()), bars.collect());
    Block::chart("Graph of bandwidth results, 2025 and here", "", drawing, Some(figures))
}

/// A line; what differs is in `differences`, each once, and here its number.
fn line(record: &Record<'_>, row: &Row, limit: &Limit, differences: &mut Vec<&'static str>) -> Vec<String> {
    let benchmark = row.text("benchmark");
    let is_latency = row.text("family") == "latency";
    let mean = row.number("mean").unwrap_or(f64::NAN);
    let truth = if is_latency { mean / OF_THE_TRUTH } else { mean };
    let name = format!("{}_{benchmark}", row.text("family"));
    let mut cells = vec![name.clone(), row.text("mean").into(), row.text("stddev").into()];
    cells.extend(is_latency.then(|| format!("{truth:.3}")));
    let Some(same) = SAME.iter().find(|same| same.0 == benchmark) else { return cells };
    let found = record.find(|id| is(same, id));
    // ns stay ns; bytes per second become GiByte per second.
    let (divisor, unit) = if is_latency { (1.0, "ns") } else { (GIB, "GiB/s") };
    match found.figure(|value| value / divisor) {
        Some(figure) => {
            let theirs = Theirs { source: "akbench, 2025", name: &name, unit, value: truth };
            let times = record.times(found, &theirs, figure.value);
            cells.extend([significant(figure.value), figure.reach(), times]);
        }
        None => cells.extend([found.blank(), String::new(), String::new()]),
    }
    let differs = same.3;
    if !differs.is_empty() && !differences.contains(&differs) {
        differences.push(differs);
    }
    let number = differences.iter().position(|known| *known == differs);
    cells.push(number.map_or(String::new(), |number| (number + 1).to_string()));
    if !is_latency {
        let ours = limit.bytes_per_s.zip(found.value()).map(|(limit, rate)| percent(rate / limit));
        cells.extend([percent(mean / LIMIT_2025), ours.unwrap_or_default()]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_line_has_its_case() {
        let published = rows(AKBENCH_2025);
        let names: Vec<&str> = published.iter().map(|row| row.text("benchmark")).collect();
        assert_eq!(names, SAME.iter().map(|same| same.0).collect::<Vec<_>>());
    }
}
