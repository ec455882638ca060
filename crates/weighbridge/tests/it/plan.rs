//! `plan`, `run --dry-run`, `list` and `env`: they measure nothing and write nothing.

use snapbox::str;

use crate::{Said, files, folder, said, shown};

#[test]
fn a_plan_has_cases_skips_and_an_estimate() {
    let folder = folder();
    let expected = str![[r#"
roundtrip/mock/1/free/latency-ns=10
roundtrip/mock/1/free/latency-ns=20

understood:
  `roundtrip/mock/1/free` (a complete case id): 2 cases
    roundtrip: 1 mechanism (mock) × 1 size (1) × 1 placement (free) × 2 settings of axes (latency-ns=10, latency-ns=20) = 2
  `roundtrip/pipe/0/free` (a complete case id): 0 cases
left out:
  2 cases: roundtrip/pipe has no axis `latency-ns`

2 of 2 cases would be measured, at least 6 runs of each: about 867 ms at best, 6 s at most (until ± 2 % of the median, 40 runs of each or the budget of 109 s).

"#]];
    for command in ["plan", "run --dry-run --out never.jsonl"] {
        let words = format!("{command} roundtrip/mock/1/free roundtrip/pipe/0/free --set latency-ns=10,20");
        said(folder.path(), &words).with(0).shows(expected.clone()).says("");
    }
    assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()));
}

#[test]
fn a_plan_says_what_is_skipped_and_why() {
    let words = "plan roundtrip/mock/1/free roundtrip/pipe/0/free --runs 1";
    said(folder().path(), words)
        .with(0)
        .shows(str![[r#"
roundtrip/mock/1/free

skipped:
  a byte stream cannot carry an empty message; the smallest is 1 byte
    pipe: 0 B at free (roundtrip)

understood:
  `roundtrip/mock/1/free` (a complete case id): 1 case
  `roundtrip/pipe/0/free` (a complete case id): 1 case

1 of 2 cases would be measured in about 72 ms (1 run of each, or as many as the budget allows).

"#]])
        .says("warning: --runs 1 gives no intervals; an interval of 95 % needs 6 runs\n");
}

/// Nine cases of which six runs each take about 4 s.
const NINE: &str = "roundtrip/mock/1/free --set latency-ns=1,2,3,4,5,6,7,8,9";

#[test]
fn a_short_budget_shortens_runs_before_it_drops_cases_and_one_too_short_for_intervals_is_announced() {
    let folder = folder();
    said(folder.path(), &format!("plan {NINE} --budget 3s")).with(0).says(
        "warning: 6 runs of each of 9 cases take about 4 s, more than the budget of 3 s: some cases will have no \
         interval; raise --budget, or select fewer cases\n",
    );
    let said = said(folder.path(), &format!("plan {NINE} --budget 1s")).with(0);
    let shortened = "warning: the budget of 1 s is short: runs have 2";
    assert!(
        said.stderr.starts_with(shortened) && said.stderr.contains("of their usual length"),
        "{}",
        said.stderr
    );
    // What was not given is not short.
    assert_eq!(crate::said(folder.path(), &format!("plan {NINE}")).with(0).stderr, "");
}

#[test]
fn intervals_are_for_what_is_measured_in_intervals() {
    let folder = folder();
    let intervals = "--run-time 3s --interval 500ms";
    said(folder.path(), &format!("plan fan-in/pipe/1/free/streams=2 stream/pipe/64/free {intervals}"))
        .with(0);
    let refused = said(folder.path(), &format!("plan roundtrip/pipe/64/free {intervals}")).with(2).stderr;
    assert!(refused.contains("roundtrip/pipe/64/free is measured in operations"), "{refused}");
    let none = said(folder.path(), "plan stream/pipe/64/free --run-time 1s --interval 2s").with(2).stderr;
    assert!(none.contains("a run of 1 s has 0 intervals of 2 s"), "{none}");
}

#[test]
fn rows_of_another_tool_are_selected_by_its_names() {
    let folder = folder();
    for words in ["latency_barrier", "latency_barrier --suite akbench"] {
        let plan = shown(folder.path(), &format!("plan {words}"));
        assert!(plan.lines().any(|line| line == "pingpong/barrier/0/free"), "{plan}");
        assert!(plan.contains("`latency_barrier` (suite akbench): 1 case"), "{plan}");
    }
    let refused = said(folder.path(), "plan latency_barrier --suite quick").with(2).stderr;
    assert!(
        refused.contains("`latency_barrier` is a row of the suite akbench, and not of quick"),
        "{refused}"
    );
}

#[test]
fn the_default_plan_is_the_quick_suite() {
    let stdout = shown(folder().path(), "plan");
    for id in
        ["roundtrip/noop/1/same-cpu", "roundtrip/pipe/4096/same-cpu", "stream/pipe/65536/two-cpus/idle=busy"]
    {
        assert!(stdout.lines().any(|line| line == id), "{id} is not in\n{stdout}");
    }
}

#[test]
fn list_has_every_kind_of_thing() {
    let Said { stdout, stderr, .. } = said(folder().path(), "list").with(0);
    let has = |start: &str| stdout.lines().any(|line| line.starts_with(start));
    for heading in ["Patterns", "Targets of roundtrip, stream", "Axes of every case", "Placements", "Suites"]
    {
        assert!(has(heading), "{heading} is not in\n{stdout}");
    }
    for name in "roundtrip stream pipe ring-futex mock touch same-cpu quick ipc full".split(' ') {
        assert!(has(&format!("  {name} ")), "{name} is not in\n{stdout}");
    }
    assert!(stderr.is_empty());
}

#[test]
fn list_with_a_name_tells_everything_about_it() {
    let keeps = "keeps message boundaries";
    for (name, has, details) in [
        ("pipe", true, &["patterns: roundtrip, stream", "waits: block; or poll", "axis pipe-size"][..]),
        ("pipe", true, &["axes of fan-in: streams, "]),
        // Streams and logs are of two kinds, and each axis says whose it is.
        (
            "fan-in",
            true,
            &["axis streams (pipe, unix-stream, tcp", "axis receive (causeway-sw, causeway-mw): "],
        ),
        ("unix-seqpacket", true, &[keeps]),
        ("causeway-mw", true, &[keeps]),
        ("pipe", false, &[keeps]),
        ("memcpy", false, &[keeps]),
        // An axis that only some have, under each meaning of its name.
        ("receivers", true, &["axis receivers of fan-out: ", "axis receivers of all-to-all: "]),
        ("quick", true, &["\n  roundtrip/pipe/4096/same-cpu\n"]),
    ] {
        let told = shown(folder().path(), &format!("list {name}"));
        assert!(details.iter().all(|detail| told.contains(detail) == has), "{name}: {details:?}: {told}");
    }
    said(folder().path(), "list pipr")
        .with(2)
        .says("error: there is nothing called `pipr`; the nearest is pipe\n");
}

#[test]
fn list_as_json_tells_of_each_placement_whether_it_is_here() {
    let document = said(folder().path(), "list --format json").json();
    let placements = document["placements"].as_array().unwrap();
    assert!(placements.len() >= 7);
    for placement in placements {
        let says = if placement["here"].as_bool().unwrap() { "resolved" } else { "why" };
        assert!(placement[says].as_str().is_some_and(|text| !text.is_empty()), "{placement}");
    }
    let pipe = document["mechanisms"].as_array().unwrap().iter().find(|one| one["name"] == "pipe").unwrap();
    assert!(pipe["caps"].as_array().unwrap().contains(&"byte stream".into()), "{pipe}");
    assert!(pipe["waits"].as_array().unwrap().contains(&"poll".into()), "{pipe}");
    assert!(document["suites"][0]["cases"].as_u64().unwrap() >= 60, "{}", document["suites"]);
}

#[test]
fn env_describes_the_machine_for_people_and_for_programs() {
    let folder = folder();
    let machine: weighbridge_record::Machine =
        serde_json::from_str(&shown(folder.path(), "env --format json")).unwrap();
    assert!(!machine.allowed_cpus.is_empty() && machine.memory_bytes > 0);
    let text = shown(folder.path(), "env");
    assert!(text.contains(&machine.kernel) && text.contains("not available here"), "{text}");
    for missing in &machine.missing {
        assert!(text.contains(missing.as_str()), "{missing} is not in\n{text}");
    }
}
