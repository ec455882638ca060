//! time_bench and slab_test, allocation and free by size, in cycles: of malloc.

use weighbridge_record::Run;
use weighbridge_stats::median;

use super::published::{Row, SLAB_TEST_2014, TIME_BENCH_2014, rows};
use super::{Figure, Found, NOT_A_RACE, Record, Section, below, table};
use crate::figure::{Off, marks};
use crate::units::significant;

/// A line of time_bench as it was published, and what is measured here.
pub(super) type Test<T> = (&'static str, T);

/// Ours: a mechanism.
const TIME_BENCH: [Test<&str>; 5] = [
    ("kmem fastpath reuse", "alloc-reuse"),
    ("kmem alloc+free N-pattern", "alloc-pattern"),
    ("qmempool fastpath reuse SOFTIRQ", "pool-array-queue"),
    ("qmempool fastpath reuse BH-disable", ""),
    ("qmempool alloc+free N-pattern", ""),
];

/// The objects of time_bench, as large as an `sk_buff`.
pub(super) const OBJECT_BYTES: u64 = 256;

/// The concurrent tests, of which nothing was published, with their settings.
const TOGETHER: [(&str, Option<&str>); 4] = [
    ("alloc-pattern", Some("10000")),
    ("alloc-reuse", None),
    ("alloc-remote-free", None),
    ("alloc-one-free-all", None),
];

pub(super) fn slab_test(record: &Record<'_>) -> Section {
    let tsc_hz = record.header.machine.clock.tsc_hz;
    let cycles = match tsc_hz {
        Some(hz) => format!(
            "cycles(tsc): ns times the {:.4} GHz of this machine's time-stamp counter, as measured; 2.5 GHz (46 cycles are 18.599 ns) there. \
             They are ticks of a clock, not work of the processor.",
            hz / 1e9,
        ),
        None => "This machine has no invariant time-stamp counter, so there are no cycles.".to_owned(),
    };
    let find = |pattern: &str, mechanism: &str, bytes: u64, count: Option<&str>| {
        record.find(|id| {
            let same_count = id.axes.get("count").map(String::as_str) == count;
            (id.pattern.as_str(), id.mechanism.as_str(), id.payload_bytes) == (pattern, mechanism, bytes)
                && same_count
        })
    };
    let time_bench = by_test(&TIME_BENCH, &["tsc_cycles_per_op", "ns_per_op"], |mechanism| {
        let found = find("solo", mechanism, OBJECT_BYTES, None);
        let blank = if mechanism.is_empty() { String::new() } else { found.blank() };
        cells(found.figure(|ns| ns), blank, tsc_hz).into()
    });
    let apart = by_size(APART, &["alloc_cycles", "free_cycles"], |bytes| {
        let found = find("solo", "alloc-pattern", bytes, Some("10000"));
        ["alloc_ns", "free_ns"].map(|part| cells(part_of(found, part), found.blank(), tsc_hz)).concat()
    });
    let pairs = by_size(PAIRS, &["pair_cycles"], |bytes| {
        let found = find("solo", "alloc-reuse", bytes, None);
        cells(found.figure(|ns| ns), found.blank(), tsc_hz).into()
    });
    let together = (3..=12).map(|power| 1u64 << power).map(|bytes| {
        let each = TOGETHER.iter().flat_map(|(mechanism, count)| {
            let found = find("parallel", mechanism, bytes, *count);
            let counting = counting(found, mechanism);
            cells(found.figure(|per_s| counting * 1e9 / per_s), found.blank(), tsc_hz)
        });
        std::iter::once(bytes.to_string()).chain(each).collect()
    });
    let tables = [
        table(
            "time_bench: Per elem, cycles(tsc) and ns",
            1,
            "Type|3.18:\ncycles|\nns|patched:\ncycles|\nns|ours:\ncycles|\nns",
            time_bench,
        ),
        below(
            "Ours: malloc and free of 256 bytes; 256 times malloc, then 256 times free; and where qmempool stands, an object \
             taken out of a pool and put back, the pool being crossbeam's ArrayQueue. A process has no bottom halves to disable.",
        ),
        table(
            "slab_test 1. Repeatedly allocate then free: 10000 times malloc(size), then free",
            0,
            "size|3.18:\nalloc|\nfree|patched:\nalloc|\nfree|malloc\ncycles|malloc\nns|free\ncycles|free\nns",
            apart,
        ),
        table(
            "slab_test 2. alloc/free: malloc(size)/free",
            0,
            "size|3.18:\ncycles|patched:\ncycles|ours\ncycles|\nns",
            pairs,
        ),
        table(
            "slab_test Concurrent allocs, on all CPUs at once: time of one malloc with its free",
            0,
            "size|N*alloc\nN*free|\nns|N*(alloc\nfree)|\nns|N*remote\nfree|\nns|1 alloc\nN free|\nns",
            together,
        ),
        below(
            "cycles(tsc) and ns. Nothing was published for these in 2014. The last two are times between two frees of a role that \
             frees, whichever role allocated; theirs divide by other numbers.",
        ),
    ];
    Section::new(
        "time_bench and slab_test, 2014: the kernel's allocator there, the C library's here",
        &[
            "Published: J. D. Brouer, linux-kernel, 17 December 2014; Linux 3.18 (f96fe22) with SLUB and PREEMPT, without and \
             with a patch by J. Kim; the CPU is not named.",
            &record.machine(),
        ],
        tables,
        &[
            "Theirs is the allocator of the kernel, measured by a module; ours is malloc and free of the C library in a process, \
             which is a different program. The forms of the curves can be compared, and two allocators of one machine (--set allocator=system,jemalloc,mimalloc,tcmalloc).",
            &cycles,
            NOT_A_RACE,
        ],
    )
    .with(record.skips())
}

/// The rows of time_bench: what was published of both kernels, and ours.
pub(super) fn by_test<T>(
    tests: &[Test<T>],
    columns: &[&str],
    ours: impl Fn(&T) -> Vec<String>,
) -> Vec<Vec<String>> {
    let published = rows(TIME_BENCH_2014);
    let row = |(test, of): &Test<T>| {
        let theirs = KERNELS.iter().flat_map(|kernel| {
            let found =
                published.iter().find(|row| row.text("kernel") == *kernel && row.text("test") == *test);
            columns.iter().map(move |column| found.map_or("", |row| row.text(column)).to_owned())
        });
        std::iter::once((*test).to_owned()).chain(theirs).chain(ours(of)).collect()
    };
    tests.iter().map(row).collect()
}

pub(super) const KERNELS: [&str; 2] = ["baseline", "patched"];

/// 1. Repeatedly allocate, then free: both parts apart.
pub(super) const APART: &str = "alloc-all-then-free-all";
/// 2. One allocated and freed at a time.
pub(super) const PAIRS: &str = "alloc-free-pair";

/// The rows of a section of slab_test: each size, what was published of both kernels, and ours.
pub(super) fn by_size(
    section: &str,
    columns: &[&str],
    ours: impl Fn(u64) -> Vec<String>,
) -> Vec<Vec<String>> {
    let published = rows(SLAB_TEST_2014);
    let of = |kernel: &str| -> Vec<&Row> {
        let is_it = |row: &&Row| row.text("section") == section && row.text("kernel") == kernel;
        published.iter().filter(is_it).collect()
    };
    let [baseline, patched] = KERNELS.map(of);
    let row = |(baseline, patched): (&Row, &Row)| {
        let bytes = baseline.number("object_bytes").unwrap_or(0.0) as u64;
        let theirs =
            [baseline, patched].into_iter().flat_map(|row| columns.iter().map(|of| row.text(of).to_owned()));
        std::iter::once(bytes.to_string()).chain(theirs).chain(ours(bytes)).collect()
    };
    baseline.into_iter().zip(patched).map(row).collect()
}

/// `47.3` cycles and `18.9 ±1.2%` ns, as two cells.
pub(super) fn cells(figure: Option<Figure>, blank: String, tsc_hz: Option<f64>) -> [String; 2] {
    match figure {
        None => [String::new(), blank],
        Some(figure) => [
            tsc_hz.map_or(String::new(), |hz| significant(figure.value * hz / 1e9)),
            format!("{} {}", significant(figure.value), figure.reach()),
        ],
    }
}

/// A part of an operation, which the runs have as a series.
fn part_of(found: Found<'_>, part: &str) -> Option<Figure> {
    let Found::Value(case, summary) = found else { return None };
    let value = *summary.series.get(part)?;
    // What the runs came to: the interval of a median is one of this session, and the figure is absolute.
    let of_run =
        |run: &Run| run.series.get(part).filter(|values| !values.is_empty()).map(|values| median(values));
    let runs: Vec<f64> = case.runs.iter().filter_map(of_run).filter(|value| value.is_finite()).collect();
    let ends = runs
        .iter()
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], run| [low.min(*run), high.max(*run)]);
    let off = if runs.len() < 2 { Off::Runs(summary.runs) } else { Off::Range(ends) };
    Some(Figure { value, off, runs: summary.runs, marks: marks(case) })
}

/// The rate of all roles becomes the time that one role needs; a hand-over is counted where objects are freed.
fn counting(found: Found<'_>, mechanism: &str) -> f64 {
    let roles = match found {
        Found::Value(case, _) => case.case.as_ref().map_or(1, |case| case.roles.len()),
        _ => 1,
    } as f64;
    match mechanism {
        "alloc-remote-free" => 1.0,
        "alloc-one-free-all" => (roles - 1.0).max(1.0),
        _ => roles,
    }
}
