//! Once with real mechanisms: not what they cost, only that all of it fits together.

use weighbridge_record::Line;

use crate::{folder, text, valid_record, weighbridge};

#[test]
fn real_mechanisms_on_one_cpu_give_numbers() {
    let folder = folder();
    let cases = ["roundtrip/pipe/1/same-cpu", "roundtrip/ring-futex/1/same-cpu"];
    let output = weighbridge(folder.path())
        .arg("run")
        .args(cases)
        .args(["--max-runs", "2", "--budget", "30s", "--out", "r.jsonl", "--quiet"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    if stderr.contains("nothing is left to measure") {
        println!("skipped: {stderr}");
        return;
    }
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("--max-runs 2 gives no intervals"), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("■ roundtrip at same-cpu") && stdout.contains("(2 runs)"), "{stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    for case in cases {
        let median = lines.iter().find_map(|line| match line {
            Line::Summary(summary) if summary.case.to_string() == case => Some(summary.median),
            _ => None,
        });
        assert!(median.is_some_and(|median| median > 0.0), "{case}: {median:?}");
    }
    assert!(std::fs::metadata(folder.path().join("r.html")).unwrap().len() > 100_000);
}

#[test]
fn what_a_run_shows_at_its_end_is_what_a_report_on_its_record_shows() {
    let folder = folder();
    let run = weighbridge(folder.path())
        .args([
            "run",
            "fan-in/pipe/1/free/streams=10",
            "solo/noop/0/free",
            "roundtrip/mock/1/free",
            "--max-runs",
            "2",
        ])
        .args(["--budget", "30s", "--out", "r.jsonl", "--html", "r.html", "--quiet"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let report = weighbridge(folder.path()).args(["report", "r.jsonl"]).output().unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap(), String::from_utf8(report.stdout).unwrap());
    let page = ["report", "r.jsonl", "--format", "html", "--out", "again.html"];
    weighbridge(folder.path()).args(page).assert().success();
    let [page, again] = ["r.html", "again.html"].map(|name| text(folder.path().join(name)));
    let differs = page.lines().zip(again.lines()).find(|(one, other)| one != other);
    assert!(page == again, "the first lines that differ: {differs:?}");
}

#[test]
fn a_case_of_a_suite_stands_beside_its_published_figure() {
    let folder = folder();
    let output = weighbridge(folder.path())
        .args([
            "run",
            "solo/getpid/*",
            "--suite",
            "akbench",
            "--max-runs",
            "1",
            "--out",
            "r.jsonl",
            "--html",
            "none",
        ])
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = stdout.lines().find(|line| line.contains("latency_getpid")).unwrap();
    assert!(line.contains("95.559") && line.contains("119.449") && line.contains("(1 run)"), "{line}");
    let other = stdout.lines().find(|line| line.contains("latency_statfs")).unwrap();
    assert!(other.contains("not measured"), "{other}");
}
