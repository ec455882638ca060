//! `weighbridge run` when nothing goes wrong: what it prints, and where.

use causeway_testkit::{Cause, skipped};
use snapbox::str;
use weighbridge_record::{Line, StoppedBy};

use crate::{all, files, folder, measured, said, shown, store, valid_record};

/// Two sizes, two settings, two patterns; and a peer that dies.
const CASES: &str = "roundtrip/mock/1/free roundtrip/mock/4096/free roundtrip/mock/1/free/latency-ns=5000 \
                     roundtrip/mock/64/free/fault=dies stream/mock/4096/free";

#[test]
fn a_run_prints_tables_and_leaves_a_record_and_a_page() {
    let folder = folder();
    said(folder.path(), &format!("run {CASES}"))
        .with(0)
        .shows(str![[r#"
...
■ roundtrip at free, µs/roundtrip
  payload       mock             mock
                      latency-ns=5000
──────────────────────────────────────
  1 B      *1.00 ±0%         5.00 ±0%
  4 KiB     1.00 ±0%

  per operation [..]
...
  mock [..]
  mock latency-ns=5000 [..]

■ stream at free, GiB/s
  Payload 4 KiB.
...
  mock [..]3.81 ±0%[..]
...
■ Skipped
  No figure, and why.
  server ended: signal 6 (SIGABRT) (step: attach)
    mock fault=dies: 64 B at free (roundtrip)

"#]])
        .says(str![[r#"
...
round 1: 0 runs made, 0 of 5 cases done, [..] used, at most [..] to go
...
record: [..]/.state/weighbridge/weighbridge-[..].jsonl
page:   [..]/.state/weighbridge/weighbridge-[..].html

"#]]);
    assert!(files(folder.path()).is_empty(), "the current folder is left alone");
    let names = files(&store(folder.path()));
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0].trim_end_matches(".html"), names[1].trim_end_matches(".jsonl"));
    let page = std::fs::read_to_string(store(folder.path()).join(&names[0])).unwrap();
    assert!(page.starts_with("<!"), "{}", &page[..40]);
}

#[test]
fn the_record_says_everything_from_its_header_to_its_end() {
    let folder = folder();
    let lines = measured(folder.path(), &format!("{CASES} --seed 7 --precision 1% --budget 10m"));
    assert_eq!(files(folder.path()), ["r.jsonl"], "no page was wanted");
    let Line::Header(header) = &lines[0] else { panic!("{:?}", lines[0]) };
    assert_eq!((header.seed, header.tool.name.as_str()), (7, "weighbridge"));
    assert_eq!((&*header.settings["precision"], &*header.settings["budget"]), ("0.01", "600s"));
    assert_eq!(header.settings["cases"].split(',').count(), CASES.split(' ').count());
    assert!(!header.machine.kernel.is_empty());
    let summaries = all!(lines, Summary);
    assert_eq!(summaries.len(), 4);
    for summary in summaries {
        assert_eq!((summary.runs, summary.stopped_by), (6, StoppedBy::Precision), "{}", summary.case);
        assert_eq!(summary.ci95, Some([summary.median; 2]), "a constant has an interval without width");
    }
    assert_eq!(all!(lines, Skipped).len(), 1);
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
    // Mocks of 1 and 5 µs differ surely, so the record has a contest with an order.
    let contests = all!(lines, Contest);
    assert_eq!((contests.len(), contests[0].sure.len()), (1, 1), "{contests:?}");
    assert!((contests[0].contestants[1].times_first - 5.0).abs() < 1e-9, "{contests:?}");
    assert!(all!(lines, Findings).iter().any(|of| (of.contests, of.claimed) == (1, 1)));
}

#[test]
fn what_cannot_run_here_is_skipped_with_its_reason_and_the_run_goes_on() {
    let folder = folder();
    let words = "run roundtrip/pipe/0/free roundtrip/mock/0/free --out r.jsonl --html none -q";
    said(folder.path(), words).with(0).shows(str![[r#"
...
■ Skipped
  No figure, and why.
  a byte stream cannot carry an empty message; the smallest is 1 byte
    pipe: 0 B at free (roundtrip)

"#]]);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert!(matches!(&lines[1], Line::Skipped(skipped) if skipped.step == "fit"), "{:?}", lines[1]);
}

#[test]
fn markdown_and_csv_have_the_same_figures_and_csv_a_line_for_every_case_and_skip() {
    let folder = folder();
    let run =
        |format| said(folder.path(), &format!("run --quiet --html none --format {format} {CASES}")).with(0);
    run("markdown").shows(str![[r#"
# Weighbridge report: [..]
...
## roundtrip at free, µs/roundtrip

| payload | mock | mock latency-ns=5000 |
| --- | --: | --: |
| 1 B | **1.00** 1.00…1.00 | 5.00 5.00…5.00 |
| 4 KiB | 1.00 1.00…1.00 |  |
...
## stream at free, GiB/s

Payload 4 KiB.

| mechanism | median | [..]
| --- | --: | [..]
| mock | 3.81 3.81…3.81 | [..]
...
"#]]);
    run("csv").shows(str![[r#"
record,case,pattern,mechanism,payload_bytes,placement,[..]
,roundtrip/mock/1/free,roundtrip,mock,1,free,free,[..],ns/roundtrip,false,6,1000,1000,1000,1000,1000,,,,,,,1000,1000,0,0,precision,false,[..]
,roundtrip/mock/4096/free,roundtrip,mock,4096,free,free,[..],ns/roundtrip,false,6,1000,1000,1000,1000,1000,,,,,,,1000,1000,0,0,precision,false,[..]
,roundtrip/mock/1/free/latency-ns=5000,roundtrip,mock,1,free,free,[..],ns/roundtrip,false,6,5000,5000,5000,5000,5000,,,,,,,5000,5000,0,0,precision,false,[..]
,stream/mock/4096/free,stream,mock,4096,free,free,[..],bytes/s,true,6,4096000000,4096000000,4096000000,4096000000,4096000000,,,,,,,4096000000,4096000000,0,0,precision,false,[..]
,roundtrip/mock/64/free/fault=dies,roundtrip,mock,64,free,[..],attach,server ended: signal 6 (SIGABRT)

"#]]);
}

#[test]
fn json_on_standard_output_is_one_document_and_progress_stays_out_of_it() {
    let said = said(folder().path(), &format!("run --html none --format json {CASES}")).with(0);
    let document = said.json();
    let median = |id: &str| {
        let case = document["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
        case["summary"]["median"].as_f64().unwrap()
    };
    assert_eq!(median("roundtrip/mock/1/free/latency-ns=5000"), 5000.0);
    assert_eq!(median("stream/mock/4096/free"), 4.096e9);
    assert!(said.stderr.contains("round 1:") && said.stderr.contains("record: "), "{}", said.stderr);
}

/// Of a run that lasts some seconds, one line at least; and what wakes up for them is not said to have slept.
#[test]
fn each_second_of_a_run_is_told_to_who_asks_for_it() {
    let folder = folder();
    let case = "fan-in/pipe/1/free/streams=10";
    let words = format!("run {case} --run-time 4s --interval 200ms --runs 1 --no-system-calls --html none");
    for is_watched in [true, false] {
        let record = folder.path().join(format!("{is_watched}.jsonl"));
        let flag = if is_watched { " --progress" } else { "" };
        let said = said(folder.path(), &format!("{words}{flag} --out {}", record.display())).with(0);
        let lines: Vec<&str> = said.stderr.lines().filter(|line| line.starts_with(case)).collect();
        let has_rate = lines.iter().any(|line| line.contains(" operations, ") && line.ends_with(" a second"));
        assert_eq!((has_rate, !lines.is_empty()), (is_watched, is_watched), "{lines:?}");
        let runs: Vec<_> = valid_record(&record)
            .lines
            .into_iter()
            .filter_map(|line| if let Line::Run(run) = line { Some(run) } else { None })
            .collect();
        assert!(!runs.is_empty());
        for run in &runs {
            assert_eq!(run.noise.coordinator_switches.is_none(), is_watched, "{:?}", run.noise);
            assert!(run.flags.iter().all(|flag| !flag.contains("coordinator")), "{:?}", run.flags);
        }
    }
}

#[test]
fn quiet_leaves_only_warnings_on_standard_error() {
    let said = said(folder().path(), "run roundtrip/mock/1/free --quiet --html none --runs 2");
    assert!(said.stderr.contains("--runs 2 gives no intervals"), "{}", said.stderr);
    assert!(said.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", said.stderr);
    assert!(said.stdout.contains("(2 runs)"));
}

#[test]
fn the_same_seed_gives_the_same_order_of_runs() {
    let order = |seed: u32| -> Vec<String> {
        let latencies = "latency-ns=10001,10002,10003,10004,10005,10006,10007,10008";
        let words = format!("roundtrip/mock/1/free --set {latencies} --runs 2 --seed {seed}");
        all!(measured(folder().path(), &words), Run).iter().map(|run| run.case.to_string()).collect()
    };
    let first = order(11);
    assert_eq!(first.len(), 16);
    assert_eq!(order(11), first);
    assert_ne!(order(12), first);
}

#[test]
fn chosen_cpus_are_the_ones_that_peers_run_on() {
    let folder = folder();
    let machine: serde_json::Value =
        serde_json::from_str(&shown(folder.path(), "env --format json")).unwrap();
    let last = machine["allowed_cpus"].as_array().unwrap().last().unwrap().to_string();
    let words = format!("run roundtrip/mock/1/same-cpu --cpus {last} --runs 1 -q --html none --out r.jsonl");
    let said = said(folder.path(), &words);
    if said.code != Some(0) {
        assert!(said.stderr.contains("needs to pin threads"), "{}", said.stderr);
        return skipped(Cause::Rights("pinning"), "");
    }
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert_eq!(all!(lines, Case)[0].cpus, [last.parse::<u32>().unwrap(); 2]);
}

/// The largest comes last, so that it is what a budget does not hold; how precise the others are is said.
#[test]
fn a_short_budget_measures_every_case_from_the_smallest_and_says_how_precise_that_is() {
    let folder = folder();
    let words = "roundtrip/mock/{65536,64,4096,1,1024,16384}/free --budget 1s --alone";
    let lines = measured(folder.path(), words);
    let Line::Header(header) = &lines[0] else { panic!("{:?}", lines[0]) };
    assert!(header.settings.contains_key("shortened"), "{:?}", header.settings);
    let first: Vec<u64> =
        all!(lines, Run).iter().filter(|run| run.round == 0).map(|run| run.case.payload_bytes).collect();
    assert!(first.is_sorted(), "{first:?}");
    let left_out: Vec<u64> = all!(lines, Skipped).iter().map(|skip| skip.case.payload_bytes).collect();
    assert!(left_out.iter().all(|bytes| Some(bytes) > first.last()), "{first:?} {left_out:?}");
    let report = shown(folder.path(), "report r.jsonl");
    assert!(report.contains("the budget was short, and runs had"), "{report}");
}

#[test]
fn a_run_of_intervals_has_as_many_as_its_time_holds_and_the_record_keeps_what_was_given() {
    let folder = folder();
    let words =
        "fan-in/pipe/1/free/streams=4 --run-time 400ms --interval 100ms --runs 1 --memory-bandwidth 25.6G";
    let lines = measured(folder.path(), words);
    let Line::Header(header) = &lines[0] else { panic!("{:?}", lines[0]) };
    let kept = ["run-time", "interval", "memory-bandwidth"].map(|name| header.settings[name].as_str());
    assert_eq!(kept, ["0.4s", "0.1s", "25600000000"]);
    let runs = all!(lines, Run);
    let run = runs.iter().find(|run| run.case.mechanism == "pipe").expect("a run of the case");
    assert_eq!(run.samples.len(), 4, "{run:?}");
    // Long enough to look at the switches of the whole machine, which has at least those of the roles.
    let of = |name: &str| run.series[name].iter().sum::<f64>();
    assert!(of("machine_switches_per_s") >= of("voluntary_switches_per_s") * 0.9, "{run:?}");
}
