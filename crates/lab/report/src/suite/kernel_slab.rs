//! time_bench and slab_test by our module in the kernel that is to be judged, and two kernels beside each other as they were published.

use weighbridge_record::{CaseId, CaseVerdict};

use super::published::{TIME_BENCH_2014, rows};
use super::slab::{APART, KERNELS, OBJECT_BYTES, PAIRS, Test, by_size, by_test, cells};
use super::{Found, NOT_A_RACE, Record, Section, below, counted, table};
use crate::document::{self, Block};
use crate::model::{Measured, Report, Source};
use crate::units::{Scale, difference, signed, significant};
use crate::words::{KERNEL_BENCH, case_name};

/// A line of time_bench, and the parts of a test of our module that make it.
const TIME_BENCH: [Test<&[&str]>; 5] = [
    ("kmem fastpath reuse", &["kmem-cache-reuse:op"]),
    ("kmem alloc+free N-pattern", &["kmem-cache-pattern:alloc", "kmem-cache-pattern:free"]),
    ("qmempool fastpath reuse SOFTIRQ", &["pool-reuse:op_context=softirq"]),
    ("qmempool fastpath reuse BH-disable", &["pool-bh-reuse:op"]),
    ("qmempool alloc+free N-pattern", &["pool-bh-pattern:alloc", "pool-bh-pattern:free"]),
];
/// The tests of slab_test in the form of its first and second section.
const OF_APART: [&str; 2] = ["kmalloc-pattern:alloc_count=10000", "kmalloc-pattern:free_count=10000"];
const OF_PAIRS: &str = "kmalloc-reuse:op";

const PUBLISHED: &str = "Published: J. D. Brouer, linux-kernel, 17 December 2014; Linux 3.18 (f96fe22) with SLUB and PREEMPT, without and \
     with a patch by J. Kim; cycles are ticks of a time-stamp counter of 2.5 GHz.";

pub(super) fn section(record: &Record<'_>) -> Section {
    let unit = record.unit();
    let is_timed = unit == "ns";
    let tsc_hz = record.header.machine.clock.tsc_hz;
    let found = |test: &str, bytes: u64| record.find(|id: &CaseId| is_test(id, test, bytes));
    let sum =
        |tests: &[&str]| tests.iter().map(|test| found(test, OBJECT_BYTES).value()).sum::<Option<f64>>();
    // Cycles and nanoseconds where there is a clock, and instructions where they are counted.
    let figure = |value: Option<f64>| match value {
        Some(ns) if is_timed => {
            vec![tsc_hz.map_or(String::new(), |hz| significant(ns * hz / 1e9)), significant(ns)]
        }
        None if is_timed => vec![String::new(), counted(None, unit)],
        value => vec![counted(value, unit)],
    };
    let of_case = |test: &str, bytes: u64| {
        let found = found(test, bytes);
        if is_timed {
            cells(found.figure(|ns| ns), found.blank(), tsc_hz).into()
        } else {
            figure(found.value())
        }
    };
    let columns: &[&str] =
        if is_timed { &["tsc_cycles_per_op", "ns_per_op"] } else { &["tsc_cycles_per_op"] };
    let time_bench = by_test(&TIME_BENCH, columns, |tests| figure(sum(tests)));
    let apart = by_size(APART, &["alloc_cycles", "free_cycles"], |bytes| {
        OF_APART.iter().flat_map(|test| of_case(test, bytes)).collect()
    });
    let pairs = by_size(PAIRS, &["pair_cycles"], |bytes| of_case(OF_PAIRS, bytes));
    let verbose = by_test(&TIME_BENCH, &["period_s", "invoke_count", "tsc_interval"], |tests| {
        interval(&tests.iter().map(|test| found(test, OBJECT_BYTES)).collect::<Vec<_>>(), is_timed, tsc_hz)
    });
    let [time_bench_heads, apart_heads, pairs_heads] = if is_timed {
        [
            "Type|3.18:\ncycles|\nns|patched:\ncycles|\nns|here:\ncycles|\nns".to_owned(),
            "size|3.18:\nalloc|\nfree|patched:\nalloc|\nfree|alloc here:\ncycles|\nns|free here:\ncycles|\nns".into(),
            "size|3.18:\ncycles|patched:\ncycles|here:\ncycles|\nns".into(),
        ]
    } else {
        [
            format!("Type|3.18:\ncycles|patched:\ncycles|here:\n{unit}"),
            format!("size|3.18:\nalloc|\nfree|patched:\nalloc|\nfree|here, {unit}:\nalloc|\nfree"),
            format!("size|3.18:\ncycles|patched:\ncycles|here:\n{unit}"),
        ]
    };
    let period = if is_timed { "s" } else { unit };
    let of_period = "period, s|invoke\ncount|tsc_\ninterval";
    let tables = [
        table("time_bench: per element", 1, &time_bench_heads, time_bench),
        below(
            "Here: objects of 256 bytes; qmempool is a pool of two levels before a cache, a queue of 32 objects for each CPU and a ring \
             of 512 that all share, between which 16 move at once. SOFTIRQ runs in a softirq; BH-disable and the pattern disable \
             bottom halves in each operation, in a process.",
        ),
        table(
            "slab_test 1. Repeatedly allocate then free: 10000 times kmalloc(size), then kfree",
            0,
            &apart_heads,
            apart,
        ),
        table("slab_test 2. alloc/free: kmalloc(size)/kfree", 0, &pairs_heads, pairs),
        table(
            "time_bench: measurement period, invoke count, interval of the time-stamp counter",
            1,
            &format!(
                "Type|3.18:\n{of_period}|patched:\n{of_period}|here:\nperiod, {period}|invoke\ncount|tsc_\ninterval"
            ),
            verbose,
        ),
    ];
    let here = format!(
        "Here: {}; {unit} per operation, the loop around it included (what that costs is a note of each case).",
        record.guest()
    );
    let note = match tsc_hz {
        _ if !is_timed => "Instructions are not cycles: the columns have units of their own, and only the form of a column can be \
                           compared with that of another."
            .to_owned(),
        Some(hz) => format!("Cycles here: ns times the {:.4} GHz of this machine's time-stamp counter.", hz / 1e9),
        None => "This machine has no invariant time-stamp counter, so there are no cycles.".into(),
    };
    Section::new(
        "time_bench and slab_test of 2014, and the kernel that was measured here",
        &[PUBLISHED, &here],
        tables,
        &[&note, NOT_A_RACE],
    )
}

/// How long the operations of a line of time_bench were measured, how many these were, and the ticks meanwhile.
fn interval(parts: &[Found<'_>], is_timed: bool, tsc_hz: Option<f64>) -> Vec<String> {
    let of_part = |found: &Found<'_>| {
        let Found::Value(case, _) = found else { return None };
        let runs = || case.runs.iter();
        let ops: f64 = runs().map(|run| run.ops_per_sample as f64 * run.samples.len() as f64).sum();
        let time: f64 = runs().map(|run| run.ops_per_sample as f64 * run.samples.iter().sum::<f64>()).sum();
        (ops > 0.0).then_some((ops, time))
    };
    let Some(parts) = parts.iter().map(of_part).collect::<Option<Vec<_>>>().filter(|parts| !parts.is_empty())
    else {
        return ["", "not measured", ""].map(String::from).into();
    };
    // An alloc with its free is one.
    let (ops, time) = (parts[0].0, parts.iter().map(|(_, time)| time).sum::<f64>());
    let period = if is_timed { format!("{:.9}", time / 1e9) } else { format!("{time:.0}") };
    let ticks = tsc_hz.filter(|_| is_timed).map_or("–".into(), |hz| format!("{:.0}", time * hz / 1e9));
    vec![period, format!("{ops:.0}"), ticks]
}

/// Is it this part of a test, by objects of this size?
fn is_test(id: &CaseId, test: &str, bytes: u64) -> bool {
    id.payload_bytes == bytes && id.mechanism.strip_prefix(KERNEL_BENCH) == Some(test)
}

/// Both sides of a test.
struct Both<'a> {
    unit: &'a str,
    a: f64,
    b: f64,
    verdict: String,
}

/// Two kernels' figures in the tables that were published of a baseline and a patch, and the verdicts that stand in none of them.
pub fn compared<'a>(
    verdicts: &[&'a CaseVerdict],
    in_words: impl Fn(&CaseVerdict) -> String,
) -> (Vec<Block>, Vec<&'a CaseVerdict>) {
    let mut shown = Vec::new();
    let mut find = |test: &str, bytes: u64| -> Option<Both<'a>> {
        let at = verdicts.iter().position(|of| is_test(&of.case, test, bytes))?;
        let of = verdicts[at];
        let both = Both { unit: &of.unit, a: of.a_value?, b: of.b_value?, verdict: in_words(of) };
        shown.push(at);
        Some(both)
    };
    let published = rows(TIME_BENCH_2014);
    let mut time_bench = Vec::new();
    for (test, parts) in TIME_BENCH {
        let Some(parts) = parts.iter().map(|part| find(part, OBJECT_BYTES)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        let ns = KERNELS.map(|kernel| {
            let is_it =
                |row: &&super::published::Row| row.text("kernel") == kernel && row.text("test") == test;
            published.iter().find(is_it).and_then(|row| row.number("ns_per_op"))
        });
        let theirs = ns[0].zip(ns[1]).map_or(String::new(), |(a, b)| signed(b - a, |ns| format!("{ns:.3}")));
        let ns = ns.map(|ns| ns.map_or(String::new(), |ns| format!("{ns:.3}")));
        let sum = |side: fn(&Both<'_>) -> f64| parts.iter().map(side).sum::<f64>();
        // An alloc and its free have a verdict each.
        let verdict = match &parts[..] {
            [alloc, free] if alloc.verdict != free.verdict => {
                format!("alloc {}, free {}", alloc.verdict, free.verdict)
            }
            parts => parts[0].verdict.clone(),
        };
        let both = Both { unit: parts[0].unit, a: sum(|of| of.a), b: sum(|of| of.b), verdict };
        time_bench.push([vec![test.to_owned()], ns.into(), vec![theirs], both.cells()].concat());
    }
    let of_sizes = |tests: &[&str], find: &mut dyn FnMut(&str, u64) -> Option<Both<'a>>| {
        let mut found = Vec::new();
        for bytes in (3..=14).map(|power| 1 << power) {
            for test in tests {
                let Some(both) = find(test, bytes) else { continue };
                let (_, part) = test.split_once(':').unwrap_or_default();
                let part = if tests.len() > 1 { part.split('_').next().unwrap_or_default() } else { "pair" };
                found.push([vec![bytes.to_string(), part.to_owned()], both.cells()].concat());
            }
        }
        found
    };
    let apart = of_sizes(&OF_APART, &mut find);
    let pairs = of_sizes(&[OF_PAIRS], &mut find);
    let heads = "A: without\npatch|B: with\npatch|B − A|verdict";
    let tables = [
        (
            "time_bench, per element",
            format!("Type|2014, ns:\nwithout|\nwith|\ndifference|{heads}"),
            1,
            time_bench,
        ),
        (
            "slab_test 1. Repeatedly allocate then free: 10000 times kmalloc(size), then kfree",
            format!("size|part|{heads}"),
            2,
            apart,
        ),
        ("slab_test 2. alloc/free: kmalloc(size)/kfree", format!("size|part|{heads}"), 2, pairs),
    ];
    let tables = tables.into_iter().filter(|(.., rows)| !rows.is_empty());
    let blocks = tables.map(|(title, heads, labels, rows)| table(title, labels, &heads, rows)).collect();
    let is_other = |(at, _): &(usize, &&CaseVerdict)| !shown.contains(at);
    (blocks, verdicts.iter().enumerate().filter(is_other).map(|(_, of)| *of).collect())
}

/// Two records of tests in kernels beside each other, in the same tables, and all other tests of both below.
pub fn of_two(report: &Report) -> Option<document::Section> {
    let [a, b] = &report.sources[..] else { return None };
    let of = |source: usize| report.cases.iter().filter(move |case| case.source == source);
    let both = |of_a: &Measured| {
        let of_b = of(1).find(|case| case.id == of_a.id)?;
        let [a_value, b_value] = [of_a, of_b].map(|case| case.summary.as_ref().map(|summary| summary.median));
        let is_shown = of_a.id.mechanism.starts_with(KERNEL_BENCH) && of_a.unit() == of_b.unit();
        let (case, unit) = (of_a.id.clone(), of_a.unit()?.to_owned());
        is_shown.then(|| CaseVerdict { case, unit, a_value, b_value, ..CaseVerdict::default() })
    };
    let found: Vec<CaseVerdict> = of(0).filter_map(both).collect();
    if found.is_empty() {
        return None;
    }
    let not_judged = "one record a side";
    let (mut blocks, others) = compared(&found.iter().collect::<Vec<_>>(), |_| not_judged.into());
    let rows = others.iter().filter_map(|of| {
        let both = Both { unit: &of.unit, a: of.a_value?, b: of.b_value?, verdict: not_judged.into() };
        Some([vec![case_name(&of.case), of.unit.clone()], both.cells()].concat())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        blocks.push(table("Other tests", 2, "test|unit|A|B|B − A|verdict", rows));
    }
    let name = |source: &Source| {
        let settings = source.header.as_ref().map(|header| &header.settings);
        let append = settings.and_then(|settings| settings.get("guest.append"));
        format!("{}{}", source.name, append.map_or(String::new(), |append| format!(" ({append})")))
    };
    let about = format!(
        "A: {}; B: {}. Two records of one boot each show figures; `weighbridge compare A… --with B…` judges several boots of each.",
        name(a),
        name(b)
    );
    blocks.insert(0, below(&about));
    let title = "Two kernels beside each other".to_owned();
    Some(document::Section { id: "kernels".into(), title, blocks })
}

impl Both<'_> {
    /// Both figures, their difference in their unit, and the verdict.
    fn cells(&self) -> Vec<String> {
        let scale = Scale { divisor: 1.0, name: self.unit.to_owned() };
        let more = difference(self.unit, self.a, self.b);
        vec![scale.show(self.a), scale.show(self.b), more, self.verdict.clone()]
    }
}
