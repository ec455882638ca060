//! time_bench and slab_test as they were: the kernel's allocator, measured by our module in the kernel that is to be judged.

use weighbridge_record::CaseId;

use super::published::{Row, SLAB_TEST_2014, TIME_BENCH_2014, rows};
use super::{NOT_A_RACE, Record, Section, Table};
use crate::units::Scale;

/// Theirs, the test and part of our module, and the context.
const TIME_BENCH: [(&str, &str, &str); 5] = [
    ("kmem fastpath reuse", "kmem-cache-reuse:op", "process"),
    ("kmem alloc+free N-pattern", "kmem-cache-pattern", "process"),
    ("qmempool fastpath reuse SOFTIRQ", "pool-reuse:op", "softirq"),
    ("qmempool fastpath reuse BH-disable", "pool-reuse:op", "bh-off"),
    ("qmempool alloc+free N-pattern", "pool-pattern", "process"),
];

pub(super) fn section(record: &Record<'_>) -> Section {
    let unit = if record.header.machine.clock.counts_instructions() { "instructions" } else { "ns" };
    let append =
        record.header.settings.get("guest.append").map_or(String::new(), |append| format!(" with {append}"));
    Section {
        title: "time_bench and slab_test of 2014, and the kernel that was measured here".into(),
        about: vec![
            "Published: J. D. Brouer, linux-kernel, 17 December 2014; Linux 3.18 (f96fe22) with SLUB and PREEMPT, without and \
             with a patch by J. Kim; cycles are ticks of a time-stamp counter of 2.5 GHz."
                .into(),
            format!(
                "Here: Linux {}{append}; {unit} per operation, the loop around it included (what that costs is a note of each case).",
                record.header.machine.kernel
            ),
        ],
        tables: vec![time_bench(record, unit), apart(record, unit), pairs(record, unit)],
        notes: vec![
            "Instructions are not cycles: the columns have units of their own, and only the form of a column can be compared with \
             that of another."
                .to_string(),
            NOT_A_RACE.to_string(),
        ],
    }
}

/// A figure of our module: a test with its part, the bytes of its objects, and settings that are not at their default.
fn ours(record: &Record<'_>, test: &str, bytes: u64, settings: &str) -> Option<f64> {
    let mechanism = format!("kernel-bench:{test}{settings}");
    let is_it = |id: &CaseId| id.mechanism == mechanism && id.payload_bytes == bytes;
    record.find(is_it).figure(|value| value).map(|figure| figure.value)
}

/// A figure in its unit, as a table shows it.
pub(super) fn cell(value: Option<f64>, unit: &str) -> String {
    value.map_or("not measured".into(), |value| Scale { divisor: 1.0, name: unit.into() }.show(value))
}

fn time_bench(record: &Record<'_>, unit: &str) -> Table {
    let published = rows(TIME_BENCH_2014);
    let of = |kernel: &str, test: &str| {
        let row = published.iter().find(|row| row.text("kernel") == kernel && row.text("test") == test);
        row.map_or(String::new(), |row| row.text("tsc_cycles_per_op").to_string())
    };
    let row = |(test, name, context): &(&str, &str, &str)| {
        let settings = if *context == "process" { String::new() } else { format!("_context={context}") };
        // An operation of a pattern is an alloc and a free, which were timed apart.
        let found = if name.contains(':') {
            ours(record, name, 256, &settings)
        } else {
            ["alloc", "free"]
                .map(|part| ours(record, &format!("{name}:{part}"), 256, &settings))
                .into_iter()
                .sum()
        };
        vec![(*test).to_string(), of("baseline", test), of("patched", test), cell(found, unit)]
    };
    Table {
        title: "time_bench: per element".into(),
        heads: Vec::from([
            "Type".into(),
            "3.18:\ncycles".into(),
            "patched:\ncycles".into(),
            format!("here:\n{unit}"),
        ]),
        rows: TIME_BENCH.iter().map(row).collect(),
        labels: 1,
        after: vec![
            "Here: objects of 256 bytes; qmempool is a ring of 512 free objects before a cache.".into(),
        ],
    }
}

/// The sizes of a part of slab_test with the rows of both kernels.
fn of_size<'a>(published: &'a [Row], section: &str) -> Vec<(u64, [&'a Row; 2])> {
    let of = |kernel: &str| -> Vec<&'a Row> {
        published
            .iter()
            .filter(|row| row.text("section") == section && row.text("kernel") == kernel)
            .collect()
    };
    let bytes = |row: &Row| row.number("object_bytes").unwrap_or(0.0) as u64;
    of("baseline").into_iter().zip(of("patched")).map(|(a, b)| (bytes(a), [a, b])).collect()
}

fn apart(record: &Record<'_>, unit: &str) -> Table {
    let published = rows(SLAB_TEST_2014);
    let row = |(bytes, theirs): &(u64, [&Row; 2])| {
        let mut cells = vec![bytes.to_string()];
        for row in theirs {
            cells.extend(["alloc_cycles", "free_cycles"].map(|column| row.text(column).to_string()));
        }
        let part =
            |part: &str| cell(ours(record, &format!("kmalloc-pattern:{part}"), *bytes, "_count=10000"), unit);
        cells.extend(["alloc", "free"].map(part));
        cells
    };
    let text = |text: &str| text.to_owned();
    Table {
        title: "slab_test 1. Repeatedly allocate then free: 10000 times kmalloc(size), then kfree".into(),
        heads: Vec::from([
            text("size"),
            text("3.18:\nalloc"),
            text("\nfree"),
            text("patched:\nalloc"),
            text("\nfree"),
            format!("here, {unit}:\nalloc"),
            text("\nfree"),
        ]),
        rows: of_size(&published, "alloc-all-then-free-all").iter().map(row).collect(),
        labels: 0,
        after: Vec::new(),
    }
}

fn pairs(record: &Record<'_>, unit: &str) -> Table {
    let published = rows(SLAB_TEST_2014);
    let row = |(bytes, theirs): &(u64, [&Row; 2])| {
        let mut cells = vec![bytes.to_string()];
        cells.extend(theirs.map(|row| row.text("pair_cycles").to_string()));
        cells.push(cell(ours(record, "kmalloc-reuse:op", *bytes, ""), unit));
        cells
    };
    Table {
        title: "slab_test 2. alloc/free: kmalloc(size)/kfree".into(),
        heads: Vec::from([
            "size".into(),
            "3.18:\ncycles".into(),
            "patched:\ncycles".into(),
            format!("here:\n{unit}"),
        ]),
        rows: of_size(&published, "alloc-free-pair").iter().map(row).collect(),
        labels: 0,
        after: Vec::new(),
    }
}
