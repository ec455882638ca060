//! Sections of suites that repeat another tool: made-up records, and what is printed of them.

use std::collections::BTreeMap;

use snapbox::{assert_data_eq, file};
use weighbridge_record::{Case, CaseId, Line, Reading, Run, Skipped, Summary};
use weighbridge_report::{Block, Cell, Report, Section, Style, derived, json, markdown, sections};

use crate::common;

/// A record of a suite: each case with what it gave, in its unit.
fn record(suite: &str, cases: &[(&str, &str, f64)], skipped: &[(&str, &str)]) -> Reading {
    let Line::Header(mut header) = common::header() else { panic!("a header") };
    header.settings = [("suite".to_string(), suite.to_string())].into();
    let mut lines = vec![Line::Header(header)];
    for (id, unit, median) in cases {
        let id: CaseId = id.parse().unwrap();
        let (case, summary) = (common::case(&id, unit), common::summary(&id, unit, *median));
        lines.extend([Line::Case(case), Line::Summary(summary)]);
    }
    for (id, why) in skipped {
        let what = Skipped { case: id.parse().unwrap(), step: "fit".into(), why: (*why).into() };
        lines.push(Line::Skipped(what));
    }
    Reading { lines, problems: Vec::new() }
}

/// The part of the terminal's text that is the suite's: what comes after the machine.
fn text(reading: Reading) -> String {
    let style = Style { color: false, width: Some(100), ascii: false };
    let text = weighbridge_report::text(&Report::from_reading(reading), style);
    let mut sections = text.split("\n■ ").skip_while(|section| !section.contains("Machine\n"));
    format!("■ {}\n", sections.nth(1).expect("the suite after the machine").trim_end())
}

/// The cells of each table of a section.
fn tables(section: &Section) -> Vec<Vec<Vec<String>>> {
    let text = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        other => panic!("not a text: {other:?}"),
    };
    let rows = |rows: &Vec<Vec<Cell>>| rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let table = |block: &Block| match block {
        Block::Table(table) => Some(rows(&table.rows)),
        _ => None,
    };
    section.blocks.iter().filter_map(table).collect()
}

/// A copy that costs 1,000 ns and a nanosecond a byte, a call of 1.25 times that, a file that costs 40,000 ns, a pipe of twice
/// the copy's price.
fn chart(direction: &str) -> Vec<(String, &'static str, f64)> {
    let mut cases = Vec::new();
    for (placement, factor, more) in [("same-cpu", 1.0, &[36_000, 42_000][..]), ("two-cpus", 3.0, &[])] {
        for bytes in (0..=22).map(|power| 1u64 << power).chain(more.iter().copied()) {
            let mut add = |mechanism: &str, axes: &str, ns: f64| {
                let id = format!("roundtrip/{mechanism}/{bytes}/{placement}{axes}");
                cases.push((id, "ns/roundtrip", ns));
            };
            let copy = (1000.0 + bytes as f64) * factor;
            let blocking = format!("{direction}/touch=write/wait=block");
            add("causeway-sw", &blocking, copy);
            add("causeway-call", &blocking, copy * 1.25);
            // A price that does not depend on the size.
            add("causeway-memfd", &blocking, 1600.0 * factor);
            // On two CPUs it is always more expensive.
            let file = if placement == "same-cpu" { 40_000.0 } else { 1e8 };
            add("memfd-pass", &format!("{direction}/touch=write"), file);
            if bytes != 4096 {
                add("pipe", "/touch=write/wait=poll", copy * 2.0);
            }
            add("unix-stream", "/touch=write/wait=poll", copy * 2.5);
            // More than the pipe below 20,000 bytes, less above.
            add("causeway-bus", &format!("{direction}/touch=write"), (21_000.0 + bytes as f64) * factor);
        }
    }
    cases
}

fn borrowed<'a>(cases: &'a [(String, &'a str, f64)]) -> Vec<(&'a str, &'a str, f64)> {
    cases.iter().map(|(id, unit, median)| (id.as_str(), *unit, *median)).collect()
}

#[test]
fn the_chart_of_ibench_with_where_copy_and_memfd_meet() {
    let skipped = [("roundtrip/pipe/4096/same-cpu/touch=write/wait=poll", "made up")];
    let text = text(record("ibench", &borrowed(&chart("/direction=request")), &skipped));
    assert_data_eq!(&text, file!["snapshots/suite-ibench-100.txt"].raw());
    assert!(text.contains("equally fast at 38997 bytes; between 36000 and 42000"), "{text}");
    assert!(text.contains("The bus and the pipe are equally fast at 19"), "{text}");
    assert!(
        text.contains("equally fast at no size measured (1 B to 4 MiB): copy is always faster"),
        "{text}"
    );
}

#[test]
fn the_chart_of_kdbench_is_the_other_published_one() {
    let report = Report::from_reading(record("kdbench", &borrowed(&chart("")), &[]));
    let tables = tables(&sections(&report)[0]);
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[0][0][14..], ["136586", "54022", "185287", "1.36"].map(String::from));
    assert_eq!(tables[1][22][14..], ["286", "461", "139", "0.30"].map(String::from));
}

#[test]
fn a_chart_has_the_sizes_that_were_asked_for_and_counts_the_others() {
    let some = [
        ("roundtrip/causeway-sw/8192/same-cpu/touch=write/wait=block", "ns/roundtrip", 10_000.0),
        ("roundtrip/causeway-bus/8192/same-cpu/touch=write", "ns/roundtrip", 20_000.0),
    ];
    let report = Report::from_reading(record("kdbench", &some, &[]));
    let section = &sections(&report)[0];
    let [rows]: [Vec<Vec<String>>; 1] = tables(section).try_into().expect("one placement was asked for");
    let sizes: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(sizes, ["8192"]);
    assert!(rows[0][8].starts_with("50000 "), "{:?}", rows[0]);
    let text = format!("{section:?}");
    for told in
        ["22 further sizes of 2014 were not asked for", "dual cpu (two-cpus), round trips/s: not asked for"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn what_runs_wherever_the_scheduler_likes_has_its_least_and_its_most_beside_those_of_2014() {
    let pipe = "roundtrip/pipe/8192/free/touch=write/wait=poll";
    let mut reading = record("kdbench", &[(pipe, "ns/roundtrip", 10_000.0)], &[]);
    for (round, ns) in [(0, 8_000.0), (1, 10_000.0), (2, 20_000.0)] {
        reading.lines.push(Line::Run(Run { round, ..common::run(&pipe.parse().unwrap(), round, ns) }));
    }
    let report = Report::from_reading(reading);
    let all = tables(&sections(&report)[0]);
    let expected = ["IBENCH", "8192", "100000", "50000", "125000"];
    assert_eq!(all[0][0][..5], expected, "{all:?}");
    assert_eq!(all[0][0][6..], ["ibench", "55036", "128807"], "{all:?}");
}

/// A machine that becomes four times as slow in six rounds: the medians say little of the ratio, the pairs all of it.
#[test]
fn the_speedup_of_a_chart_has_an_interval_from_runs_of_one_round() {
    let cases = chart("");
    let mut reading = record("kdbench", &borrowed(&cases), &[]);
    let run = |id: &CaseId, round: u32, value: f64| Line::Run(Run { round, ..common::run(id, round, value) });
    for (id, _, median) in &cases {
        let id: CaseId = id.parse().unwrap();
        let is_pipe = id.mechanism == "pipe";
        for round in 0..6 {
            // The pipe is slower by a twentieth in every other round.
            let uneven = if is_pipe && round % 2 == 1 { 1.05 } else { 1.0 };
            reading.lines.push(run(&id, round, median * f64::from(1 + round) * uneven));
        }
    }
    let report = Report::from_reading(reading);
    let rows = &tables(&sections(&report)[0])[0];
    let max = |row: usize| rows[row][3].as_str();
    assert_eq!(max(0), rows[0][1], "below, COPY is the better one, with its interval: {:?}", rows[0]);
    assert_eq!(max(20), rows[20][2], "above, MEMFD: {:?}", rows[20]);
    assert_eq!(rows[0][5], "0.49 ±2.5%", "{:?}", rows[0]);
    assert_eq!(rows[0][11], "0.61 ±2.5%", "of the call: {:?}", rows[0]);
    let text = weighbridge_report::text(&report, Style::default());
    for text in [markdown(&report), text, weighbridge_report::html(&report)] {
        assert!(text.contains("0.49 ±2.5%"), "{text}");
    }
    // The number is that of a line in the record's form.
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let line = &document["derived"][0];
    assert_eq!((&line["kind"], &line["pairs"]), (&"ratio".into(), &6.into()), "{line}");
    assert_eq!(format!("{:.2}", line["ratio"].as_f64().unwrap()), "0.49");
    assert_eq!(line["baseline"], "roundtrip/pipe/1/same-cpu/touch=write/wait=poll", "{line}");
}

#[test]
fn akbench_in_its_order_and_units_with_the_published_means_put_right() {
    let cases = [
        ("pingpong/atomic/0/free/layout=one-line/peers=thread", "ns/hop", 31.0),
        ("pingpong/atomic/0/free/layout=one-line/order=acqrel/peers=thread", "ns/hop", 30.0),
        ("pingpong/barrier/0/free", "ns/hop", 95.0),
        ("solo/getpid/0/free", "ns/op", 119.0),
        ("solo/memcpy/1073741824/free", "bytes/s", 18.0 * f64::from(1 << 30)),
        ("parallel/memcpy/536870912/free/peers=thread/roles=2", "bytes/s", 20.0 * f64::from(1 << 30)),
        ("stream/buffers-barrier/1048576/free/backing=file/working-set=268435456", "bytes/s", 11e9),
        ("stream/buffers-barrier/1048576/free/backing=shm/working-set=268435456", "bytes/s", 12e9),
    ];
    let skipped =
        [("stream/mq-posix/8192/free/memory=fresh/working-set=268435456", "fs.mqueue.msgsize_max is 4096")];
    assert_data_eq!(
        text(record("akbench", &cases, &skipped)),
        file!["snapshots/suite-akbench-100.txt"].raw()
    );
}

#[test]
fn bandwidths_of_akbench_are_drawn_beside_those_of_2025_with_their_share_of_the_limit() {
    let cases = [("solo/memcpy/1073741824/free", "bytes/s", 10.0 * f64::from(1 << 30))];
    let mut reading = record("akbench", &cases, &[]);
    let unknown = markdown(&Report::from_reading(reading.clone()));
    assert!(unknown.contains("memory-bandwidth 25.6G"), "{unknown}");
    let Line::Header(header) = &mut reading.lines[0] else { panic!("a header") };
    header.settings.insert("memory-bandwidth".into(), (20.0 * f64::from(1 << 30)).to_string());
    let report = Report::from_reading(reading);
    let section = sections(&report).remove(0);
    let row = &tables(&section)[1][0];
    assert_eq!(
        (&*row[0], &row[7..]),
        ("bandwidth_memcpy", &["71%".to_string(), "50%".to_string()][..]),
        "{row:?}"
    );
    let graph = section.blocks.iter().find_map(|block| match block {
        Block::Chart(chart) => Some(chart),
        _ => None,
    });
    let figures = graph.and_then(|graph| graph.figures.as_ref()).expect("a graph with its figures");
    assert_eq!(figures.rows.len(), 12, "a row for each published bandwidth");
    let text = weighbridge_report::text(&report, Style { color: false, width: Some(100), ascii: false });
    assert!(text.contains("███████████████████████ 18.1, 71%"), "{text}");
    assert!(text.contains("█████████████ 10.0, 50%"), "{text}");
    assert!(weighbridge_report::html(&report).contains("memcpy, ours"));
}

#[test]
fn epoll_bench_prints_a_line_for_each_interval_and_takes_theirs_apart() {
    let pipes = "fan-in/pipe/1/free/nice=0:10/peers=thread";
    let mut reading = record(
        "epoll_bench",
        &[(pipes, "events/s", 812_345.0)],
        &[(
            "fan-in/tcp/1/free/nice=0:10/nodelay=no/peers=thread",
            "2000 streams need 4000 descriptors; raise it with ulimit -n",
        )],
    );
    let Line::Case(Case { facts, .. }) = &mut reading.lines[1] else { panic!("a case") };
    facts.insert("reader.interval_ms".into(), "200".into());
    let run = |value: f64| {
        let Some(Line::Run(run)) =
            common::truncated().lines.into_iter().find(|line| matches!(line, Line::Run(_)))
        else {
            panic!("a run")
        };
        let series = |factor: f64| (0..15).map(|index| factor * f64::from(index + 1)).collect::<Vec<_>>();
        Line::Run(Run {
            case: pipes.parse().unwrap(),
            value,
            samples: series(1000.0),
            series: BTreeMap::from([
                ("events_per_call".to_string(), series(1.5)),
                ("voluntary_switches_per_s".to_string(), series(10.0)),
                ("involuntary_switches_per_s".to_string(), series(1.0)),
                ("machine_switches_per_s".to_string(), series(25.0)),
            ]),
            ..run
        })
    };
    reading.lines.extend([run(800_000.0), run(812_000.0)]);
    let told = text(reading.clone());
    // Of 1,000 to 15,000 events in an interval.
    let mean =
        "259643 evts/sec in 2006; ours: mean 8000 evts/sec, 0.0308 times as many; median 812345 evts/sec";
    assert!(told.replace("\n  ", " ").contains(mean), "{told}");
    assert_data_eq!(text(reading), file!["snapshots/suite-epoll_bench-100.txt"].raw());
}

#[test]
fn slab_test_in_cycles_and_nanoseconds_under_the_names_of_what_is_measured() {
    let cases = [
        ("solo/alloc-reuse/256/same-cpu", "ns/op", 10.0),
        ("solo/alloc-pattern/256/same-cpu", "ns/op", 20.0),
        ("solo/alloc-pattern/8/same-cpu/count=10000", "ns/op", 30.0),
        ("solo/alloc-reuse/8/same-cpu", "ns/op", 9.0),
        ("parallel/alloc-reuse/8/spread", "ops/s", 2e8),
        ("parallel/alloc-one-free-all/8/spread", "ops/s", 1e7),
    ];
    let mut reading = record("slab_test", &cases, &[]);
    for line in &mut reading.lines {
        if let Line::Summary(Summary { case, series, .. }) = line
            && case.axes.contains_key("count")
        {
            series.extend([("alloc_ns".to_string(), 18.0), ("free_ns".to_string(), 12.0)]);
        }
    }
    assert_data_eq!(text(reading), file!["snapshots/suite-slab_test-100.txt"].raw());
}

#[test]
fn scaling_has_a_row_for_each_number_of_streams() {
    let cases = [
        ("fan-in/pipe/1/two-cpus/streams=10", "events/s", 1e6),
        ("fan-in/pipe/1/two-cpus/streams=10/wait=poll", "events/s", 9e5),
        ("fan-in/pipe/1/two-cpus/streams=10000", "events/s", 4e5),
    ];
    let skipped = [("fan-in/pipe/1/two-cpus/streams=10000/wait=select", "FD_SETSIZE is 1024")];
    assert_data_eq!(
        text(record("scaling", &cases, &skipped)),
        file!["snapshots/suite-scaling-100.txt"].raw()
    );
}

#[test]
fn round_trips_of_a_guest_as_multiples_of_a_pipe_beside_those_of_kdbus() {
    let unit = "instructions/roundtrip";
    let cases = [
        ("roundtrip/noop/1/same-cpu", unit, 120.0),
        ("roundtrip/pipe/1/same-cpu", unit, 13_000.0),
        ("roundtrip/pipe/4096/same-cpu", unit, 14_000.0),
        ("roundtrip/pipe/1/same-cpu/wait=poll", unit, 15_000.0),
        ("roundtrip/pipe/4096/same-cpu/wait=poll", unit, 16_000.0),
        ("roundtrip/causeway-sw/1/same-cpu", unit, 12_000.0),
        ("roundtrip/causeway-sw/4096/same-cpu", unit, 12_800.0),
        ("roundtrip/memfd-pass/1/same-cpu", unit, 30_000.0),
    ];
    let skipped = [
        ("roundtrip/mq-posix/1/same-cpu", "this kernel has no POSIX message queues"),
        ("roundtrip/mq-posix/4096/same-cpu", "this kernel has no POSIX message queues"),
    ];
    let mut reading = record("kernel-ipc", &cases, &skipped);
    let Line::Header(header) = &mut reading.lines[0] else { panic!("a header") };
    header.machine.clock.source = weighbridge_record::CLOCK_OF_INSTRUCTIONS.into();
    let report = Report::from_reading(reading.clone());
    let section = sections(&report).remove(0);
    let [all, kdbus]: [Vec<Vec<String>>; 2] = tables(&section).try_into().unwrap();
    let row = |rows: &[Vec<String>], first: &str| {
        let found = rows.iter().find(|row| row[0] == first);
        found.unwrap_or_else(|| panic!("{first} is not among {rows:?}")).clone()
    };
    assert_eq!(row(&all, "pipe"), ["pipe", "13000", "", "14000", ""]);
    assert_eq!(row(&all, "causeway-sw"), ["causeway-sw", "12000", "0.923", "12800", "0.914"]);
    assert_eq!(row(&all, "memfd-pass"), ["memfd-pass", "30000", "2.308", "not measured", ""]);
    assert_eq!(row(&all, "mq-posix"), ["mq-posix", "skipped", "", "skipped", ""]);
    let order: Vec<&str> = all.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(order, ["noop", "causeway-sw", "pipe", "pipe wait=poll", "memfd-pass", "mq-posix"]);
    // 185287 round trips of a pipe in a second and 136586 of kdbus: 1.36 times its time.
    assert_eq!(kdbus[0], ["kdbus, copy", "1 B", "136586", "1.36", "causeway-sw", "0.80", "0.590"]);
    assert_eq!(kdbus[3][4..6], ["memfd-pass", "not measured"]);
    let published = derived(&report).into_iter().filter(|line| matches!(line, Line::Published(_))).count();
    assert_eq!(published, 3, "each figure beside a published one is a line");
    assert_data_eq!(text(reading), file!["snapshots/suite-kernel-ipc-100.txt"].raw());
}

#[test]
fn every_format_has_the_section_and_other_records_have_none() {
    let report = || Report::from_reading(record("akbench", &[("solo/getpid/0/free", "ns/op", 119.0)], &[]));
    assert!(markdown(&report()).contains("| latency\\_getpid | 95.559 | 21.436 | 119.449 | 119 |"));
    assert!(json(&report()).contains("\"derived\""));
    assert!(
        weighbridge_report::html(&report()).contains("<th scope=\"row\" class=\"text\">latency_getpid</th>")
    );
    let other = Report::from_reading(common::whole());
    assert!(sections(&other).is_empty() && !json(&other).contains("\"derived\""));
}

/// What a run wrote into its record is what the tables show, once.
#[test]
fn lines_that_the_record_holds_are_shown_as_they_are() {
    let all = chart("");
    let mut reading = record("kdbench", &borrowed(&all), &[]);
    let report = Report::from_reading(reading.clone());
    let mut lines = derived(&report);
    let ratio = lines.iter_mut().find_map(|line| match line {
        Line::Ratio(ratio) => Some(ratio),
        _ => None,
    });
    ratio.expect("a speed-up").ratio = 77.0;
    let crossing = lines.iter().find_map(|line| match line {
        Line::Published(line) if line.unit == "bytes" => Some((line.theirs, line.ours)),
        _ => None,
    });
    let (theirs, ours) = crossing.expect("the published crossover beside ours");
    assert!(theirs > 0.0 && (ours - 38_997.0).abs() < 1.0, "{theirs} {ours}");
    let count = lines.len();
    reading.lines.extend(lines);
    let report = Report::from_reading(reading);
    assert_eq!(derived(&report).len(), count);
    let text = markdown(&report);
    assert_eq!(text.matches("77.00").count(), 1, "{text}");
    assert!(!text.contains("Compared with"), "ratios of a suite have no table of their own");
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert!(
        document.get("ratios").is_none()
            && document["derived"].as_array().is_some_and(|all| all.len() == count)
    );
}

#[test]
fn two_records_of_a_suite_have_a_section_each() {
    let one = |ns: f64| record("akbench", &[("solo/getpid/0/free", "ns/op", ns)], &[]);
    let report =
        Report::from_readings([("before".to_string(), one(100.0)), ("after".to_string(), one(110.0))]);
    let sections = sections(&report);
    assert_eq!(sections[1].title, "akbench, 2025 [after]");
    let ours = |index: usize| tables(&sections[index])[0][7][4].clone();
    assert_eq!((ours(0), ours(1)), ("100".to_string(), "110".to_string()));
}

/// Each test of the module in nanoseconds, with the size of its objects.
const IN_KERNEL: [(&str, u64, f64); 6] = [
    ("kmem-cache-reuse:op", 256, 20.0),
    ("kmem-cache-pattern:alloc", 256, 30.0),
    ("kmem-cache-pattern:free", 256, 12.0),
    ("pool-bh-reuse:op", 256, 19.0),
    ("kmalloc-reuse:op", 64, 40.0),
    ("list:op", 0, 2.0),
];

fn in_kernel(times: f64, clock: &str) -> Reading {
    let unit = if clock == "icount" { "instructions/op" } else { "ns/op" };
    let ids = IN_KERNEL.map(|(test, bytes, _)| format!("imported/kernel-bench:{test}/{bytes}/unknown"));
    let cases: Vec<(&str, &str, f64)> =
        ids.iter().zip(IN_KERNEL).map(|(id, (.., ns))| (id.as_str(), unit, ns * times)).collect();
    let mut reading = record("kernel-slab", &cases, &[]);
    if let Line::Header(header) = &mut reading.lines[0] {
        header.machine.clock.source = clock.into();
        header.machine.clock.tsc_hz = (clock != "icount").then_some(2.5e9);
        header.settings.insert("guest.preempt".into(), "PREEMPT".into());
    }
    let id: CaseId = ids[0].parse().unwrap();
    let run = Run { samples: vec![20.0; 4], ops_per_sample: 25_000_000, ..common::run(&id, 0, 20.0) };
    reading.lines.push(Line::Run(run));
    reading
}

#[test]
fn a_kernel_with_a_clock_has_cycles_and_nanoseconds_on_both_sides_and_the_columns_of_time_bench() {
    let report = Report::from_reading(in_kernel(1.0, "CLOCK_MONOTONIC_RAW"));
    let sections = sections(&report);
    let tables = tables(&sections[0]);
    let row = |of: &str| of.split('|').map(String::from).collect::<Vec<_>>();
    assert_eq!(tables[0][0], row("kmem fastpath reuse|46|18.599|43|17.523|50.0|20.0"));
    assert_eq!(tables[0][1], row("kmem alloc+free N-pattern|100|40.077|100|40.369|105|42.0"));
    assert_eq!(tables[0][3], row("qmempool fastpath reuse BH-disable|47|19.180|||47.5|19.0"));
    let here = "2.000000000|100000000|5000000000";
    let published = "1.859917529|100000000|4649791431|1.752338378|100000000|4380843588";
    assert_eq!(tables[3][0], row(&format!("kmem fastpath reuse|{published}|{here}")));
    let text = markdown(&report);
    assert!(!text.contains("Instructions are not cycles"), "{text}");
    assert!(text.contains("6.12.9, PREEMPT;") && text.contains("2.5000 GHz"), "{text}");
}

#[test]
fn counted_instructions_have_their_note_and_neither_an_order_by_chance_nor_a_legend_of_sessions() {
    let mut reading = in_kernel(10.0, "icount");
    // Two ways to do the same, of which nothing is sure after one run each.
    for line in &mut reading.lines {
        if let Line::Case(case) = line {
            case.facts.insert("alternative to".into(), "the same".into());
        }
    }
    let counted = markdown(&Report::from_reading(reading.clone()));
    assert!(counted.contains("Instructions are not cycles"), "{counted}");
    for words in ["could be told apart", "earlier ones in the store of records", "× hub:"] {
        assert!(!counted.contains(words), "{words}: {counted}");
    }
    let Line::Header(header) = &mut reading.lines[0] else { panic!("a header") };
    header.machine.clock.source = "CLOCK_MONOTONIC_RAW".into();
    let timed = markdown(&Report::from_reading(reading));
    assert!(timed.contains("earlier ones in the store of records") && timed.contains("× hub:"), "{timed}");
}

#[test]
fn two_kernels_stand_beside_each_other_as_they_were_published_and_by_names() {
    let [a, b] = [1.0, 0.9].map(|times| in_kernel(times, "CLOCK_MONOTONIC_RAW"));
    let report = Report::from_readings(vec![("a.jsonl".into(), a), ("b.jsonl".into(), b)]);
    let section = &sections(&report)[0];
    let tables = tables(section);
    let published = ["kmem fastpath reuse", "18.599", "17.523", "−1.076"];
    assert_eq!(tables[0][0][..4], published);
    assert_eq!(tables[0][0][4..7], ["20.0", "18.0", "−2.00 ns/op"]);
    assert_eq!(tables[0][1][4..7], ["42.0", "37.8", "−4.20 ns/op"], "an alloc and its free are one");
    assert_eq!(tables[1][0][..5], ["64", "pair", "40.0", "36.0", "−4.00 ns/op"]);
    assert_eq!(tables[2][0][..5], ["list: op", "ns/op", "2.00", "1.80", "−0.200 ns/op"]);
    let text = markdown(&report);
    assert!(!text.contains("imported/kernel-bench:"), "a raw id: {text}");
}

#[test]
fn the_loop_of_the_harness_is_no_multiple_of_a_pipe() {
    let cases = [
        ("roundtrip/noop/1/same-cpu", "instructions/roundtrip", 100.0),
        ("roundtrip/pipe/1/same-cpu", "instructions/roundtrip", 13_000.0),
        ("roundtrip/unix-stream/1/same-cpu", "instructions/roundtrip", 26_000.0),
    ];
    let report = Report::from_reading(record("kernel-ipc", &cases, &[]));
    let rows = &tables(&sections(&report)[0])[0];
    assert_eq!(rows[0][..3], ["noop", "100", ""].map(String::from));
    assert_eq!(rows[2][..3], ["unix-stream", "26000", "2.000"].map(String::from));
}
