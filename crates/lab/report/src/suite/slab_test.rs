//! time_bench and slab_test: allocation and free in cycles, by size.

use weighbridge_record::CaseId;

use super::published::{Row, SLAB_TEST_2014, TIME_BENCH_2014, rows};
use super::{Figure, Found, NOT_A_RACE, Record, Section, Table, reasons};
use crate::figure::marks;
use crate::units::significant;

pub(super) fn section(record: &Record<'_>) -> Section {
    let tsc_hz = record.header.machine.clock.tsc_hz;
    let mut notes = vec![
        "Theirs is the allocator of the kernel, measured by a module; ours is malloc and free of the C library in a process, \
         which is a different program. The forms of the curves can be compared, and two allocators of one machine (--set allocator=system,jemalloc,mimalloc,tcmalloc)."
            .to_string(),
        match tsc_hz {
            Some(hz) => format!(
                "cycles(tsc): ns times the {:.4} GHz of this machine's time-stamp counter, as measured; {} there. They are \
                 ticks of a clock, not work of the processor.",
                hz / 1e9,
                "2.5 GHz (46 cycles are 18.599 ns)"
            ),
            None => "This machine has no invariant time-stamp counter, so there are no cycles.".to_string(),
        },
        NOT_A_RACE.to_string(),
    ];
    let cases = record.report.skipped.iter().filter(|skip| skip.source == record.source);
    notes.extend(reasons(cases.map(|skip| Found::Skipped(&skip.what.case, &skip.what.why))));
    Section {
        title: "time_bench and slab_test, 2014: the kernel's allocator there, the C library's here".into(),
        about: vec![
            "Published: J. D. Brouer, linux-kernel, 17 December 2014; Linux 3.18 (f96fe22) with SLUB and PREEMPT, without and \
             with a patch by J. Kim; the CPU is not named."
                .into(),
            record.machine(),
        ],
        tables: vec![time_bench(record, tsc_hz), apart(record, tsc_hz), pairs(record, tsc_hz), together(record, tsc_hz)],
        notes,
    }
}

fn is(id: &CaseId, pattern: &str, mechanism: &str, bytes: u64, count: Option<&str>) -> bool {
    let same_count = id.axes.get("count").map(String::as_str) == count;
    id.pattern == pattern && id.mechanism == mechanism && id.payload_bytes == bytes && same_count
}

/// `47.3 cyc` and `18.9 ns ±1.2%`, as two cells.
fn cells(figure: Option<Figure>, blank: &str, tsc_hz: Option<f64>) -> [String; 2] {
    match figure {
        None => [String::new(), blank.to_string()],
        Some(figure) => [
            tsc_hz.map_or(String::new(), |hz| significant(figure.value * hz / 1e9)),
            format!("{} {}", significant(figure.value), figure.reach()),
        ],
    }
}

fn heads(heads: &[&str]) -> Vec<String> {
    heads.iter().map(|head| (*head).to_string()).collect()
}

/// The lines of time_bench.
fn time_bench(record: &Record<'_>, tsc_hz: Option<f64>) -> Table {
    let published = rows(TIME_BENCH_2014);
    let of = |kernel: &str, test: &str| {
        let row = published.iter().find(|row| row.text("kernel") == kernel && row.text("test") == test);
        row.map_or([String::new(), String::new()], |row| {
            [row.text("tsc_cycles_per_op").to_string(), row.text("ns_per_op").to_string()]
        })
    };
    const SK_BUFF: u64 = 256;
    let lines: [(&str, &str); 5] = [
        ("kmem fastpath reuse", "alloc-reuse"),
        ("kmem alloc+free N-pattern", "alloc-pattern"),
        ("qmempool fastpath reuse SOFTIRQ", "pool-array-queue"),
        ("qmempool fastpath reuse BH-disable", "pool-array-queue"),
        ("qmempool alloc+free N-pattern", ""),
    ];
    let row = |(test, mechanism): &(&str, &str)| {
        let found = record.find(|id| is(id, "solo", mechanism, SK_BUFF, None));
        let ours = if mechanism.is_empty() {
            [String::new(), String::new()]
        } else {
            cells(found.figure(|ns| ns), &found.blank(), tsc_hz)
        };
        let mut cells = vec![(*test).to_string()];
        cells.extend(of("baseline", test));
        cells.extend(of("patched", test));
        cells.extend(ours);
        cells
    };
    Table {
        title: "time_bench: Per elem, cycles(tsc) and ns".into(),
        heads: heads(&["Type", "3.18:
cycles", "
ns", "patched:
cycles", "
ns", "ours:
cycles", "
ns"]),
        rows: lines.iter().map(row).collect(),
        labels: 1,
        after: vec![
            "Ours: malloc and free of 256 bytes; 256 times malloc, then 256 times free; and where qmempool stands, an object \
             taken out of a pool and put back, the pool being crossbeam's ArrayQueue."
                .into(),
        ],
    }
}

/// The two kernels' figures of a size, in the order in which they were published.
fn of_size<'a>(published: &'a [Row], section: &'a str) -> Vec<(u64, &'a Row, &'a Row)> {
    let rows = |kernel: &'a str| {
        published.iter().filter(move |row| row.text("section") == section && row.text("kernel") == kernel)
    };
    let bytes = |row: &Row| row.number("object_bytes").unwrap_or(0.0) as u64;
    rows("baseline")
        .zip(rows("patched"))
        .map(|(baseline, patched)| (bytes(baseline), baseline, patched))
        .collect()
}

/// 1. Repeatedly allocate, then free: both parts apart.
fn apart(record: &Record<'_>, tsc_hz: Option<f64>) -> Table {
    let published = rows(SLAB_TEST_2014);
    let row = |(bytes, baseline, patched): &(u64, &Row, &Row)| {
        let found = record.find(|id| is(id, "solo", "alloc-pattern", *bytes, Some("10000")));
        let mut row = vec![bytes.to_string()];
        for theirs in [baseline, patched] {
            row.extend(["alloc_cycles", "free_cycles"].map(|column| theirs.text(column).to_string()));
        }
        for part in ["alloc_ns", "free_ns"] {
            row.extend(cells(part_of(&found, part), &found.blank(), tsc_hz));
        }
        row
    };
    Table {
        title: "slab_test 1. Repeatedly allocate then free: 10000 times malloc(size), then free".into(),
        heads: heads(&[
            "size",
            "3.18:\nalloc",
            "\nfree",
            "patched:\nalloc",
            "\nfree",
            "malloc\ncycles",
            "malloc\nns",
            "free\ncycles",
            "free\nns",
        ]),
        rows: of_size(&published, "alloc-all-then-free-all").iter().map(row).collect(),
        labels: 0,
        after: Vec::new(),
    }
}

/// A part of an operation, which the runs have as a series.
fn part_of(found: &Found<'_>, part: &str) -> Option<Figure> {
    let Found::Value(case, summary) = found else { return None };
    let interval = summary.series_ci95.get(part).copied();
    let value = *summary.series.get(part)?;
    Some(Figure { value, interval, runs: summary.runs, marks: marks(case) })
}

/// 2. One allocated and freed at a time.
fn pairs(record: &Record<'_>, tsc_hz: Option<f64>) -> Table {
    let published = rows(SLAB_TEST_2014);
    let row = |(bytes, baseline, patched): &(u64, &Row, &Row)| {
        let found = record.find(|id| is(id, "solo", "alloc-reuse", *bytes, None));
        let mut row = vec![bytes.to_string()];
        row.extend([baseline, patched].map(|theirs| theirs.text("pair_cycles").to_string()));
        row.extend(cells(found.figure(|ns| ns), &found.blank(), tsc_hz));
        row
    };
    Table {
        title: "slab_test 2. alloc/free: malloc(size)/free".into(),
        heads: heads(&["size", "3.18:\ncycles", "patched:\ncycles", "ours\ncycles", "\nns"]),
        rows: of_size(&published, "alloc-free-pair").iter().map(row).collect(),
        labels: 0,
        after: Vec::new(),
    }
}

/// The concurrent tests, of which nothing was published there.
fn together(record: &Record<'_>, tsc_hz: Option<f64>) -> Table {
    const TESTS: [(&str, Option<&str>); 4] = [
        ("alloc-pattern", Some("10000")),
        ("alloc-reuse", None),
        ("alloc-remote-free", None),
        ("alloc-one-free-all", None),
    ];
    let sizes = (3..=12).map(|power| 1u64 << power);
    let row = |bytes: u64| {
        let mut row = vec![bytes.to_string()];
        for (mechanism, count) in TESTS {
            let found = record.find(|id| is(id, "parallel", mechanism, bytes, count));
            // The rate of all roles becomes the time that one role needs; a hand-over is counted where objects are freed.
            let roles = match found {
                Found::Value(case, _) => case.case.as_ref().map_or(1, |case| case.roles.len()),
                _ => 1,
            } as f64;
            let counting = match mechanism {
                "alloc-remote-free" => 1.0,
                "alloc-one-free-all" => (roles - 1.0).max(1.0),
                _ => roles,
            };
            row.extend(cells(found.figure(|per_s| counting * 1e9 / per_s), &found.blank(), tsc_hz));
        }
        row
    };
    Table {
        title: "slab_test Concurrent allocs, on all CPUs at once: time of one malloc with its free".into(),
        heads: heads(&[
            "size",
            "N*alloc\nN*free",
            "\nns",
            "N*(alloc\nfree)",
            "\nns",
            "N*remote\nfree",
            "\nns",
            "1 alloc\nN free",
            "\nns",
        ]),
        rows: sizes.map(row).collect(),
        labels: 0,
        after: vec![
            "cycles(tsc) and ns. Nothing was published for these in 2014. The last two are times between two frees of a role that \
             frees, whichever role allocated; theirs divide by other numbers."
                .into(),
        ],
    }
}
