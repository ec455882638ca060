//! Once with real mechanisms: not what they cost, only that all of it fits together.

use causeway_testkit::{Cause, skipped};

use crate::{PROGRAM, Said, all, folder, said, shown, text, valid_record};

#[test]
fn real_mechanisms_on_one_cpu_give_numbers() {
    let folder = folder();
    let cases = ["roundtrip/pipe/1/same-cpu", "roundtrip/ring-futex/1/same-cpu"];
    let words = format!("run {} --runs 2 --budget 30s --out r.jsonl --quiet", cases.join(" "));
    let said = said(folder.path(), &words);
    if said.stderr.contains("nothing is left to measure") {
        return skipped(Cause::Rights("pinning"), said.stderr);
    }
    let Said { stdout, stderr, .. } = said.with(0);
    assert!(stderr.contains("--runs 2 gives no intervals"), "{stderr}");
    assert!(stdout.contains("■ roundtrip at same-cpu") && stdout.contains("(2 runs)"), "{stdout}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    for case in cases {
        let median =
            all!(lines, Summary).into_iter().find(|of| of.case.to_string() == case).map(|of| of.median);
        assert!(median.is_some_and(|median| median > 0.0), "{case}: {median:?}");
    }
    assert!(std::fs::metadata(folder.path().join("r.html")).unwrap().len() > 20_000);
}

#[test]
fn what_a_run_shows_at_its_end_is_what_a_report_on_its_record_shows() {
    let folder = folder();
    let cases = "fan-in/pipe/1/free/streams=10 solo/noop/0/free roundtrip/mock/1/free";
    let words = format!("run {cases} --runs 2 --budget 30s --out r.jsonl --html r.html --quiet");
    assert_eq!(shown(folder.path(), &words), shown(folder.path(), "report r.jsonl"));
    shown(folder.path(), "report r.jsonl --format html --out again.html");
    let [page, again] = ["r.html", "again.html"].map(|name| text(folder.path().join(name)));
    let differs = page.lines().zip(again.lines()).find(|(one, other)| one != other);
    assert!(page == again, "the first lines that differ: {differs:?}");
}

#[test]
fn a_case_of_a_suite_stands_beside_its_published_figure() {
    let words = "run solo/getpid/* --suite akbench --runs 1 --out r.jsonl --html none";
    let shown = shown(folder().path(), words);
    let line = shown.lines().find(|line| line.contains("latency_getpid")).unwrap();
    assert!(line.contains("95.559") && line.contains("119.449") && line.contains("(1 run)"), "{line}");
    let other = shown.lines().find(|line| line.contains("latency_statfs")).unwrap();
    assert!(other.contains("not measured"), "{other}");
}

/// A packet that goes elsewhere than its rule or the router sends it is a failed run.
#[test]
fn packets_are_forwarded_and_dropped_by_rules_of_both_forms_or_the_reason_is_told() {
    let folder = folder();
    let rules = "solo/veth-drop/18/same-cpu{,/rule=iptables}{,/rule-for=destination}";
    let words =
        format!("run solo/veth-forward/18/same-cpu {rules} --runs 1 --alone --html none --out r.jsonl");
    let said = said(folder.path(), &words);
    if said.stderr.contains("nothing is left to measure") {
        return skipped(Cause::Rights("namespaces"), said.stderr);
    }
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let skips = all!(lines, Skipped);
    let may = ["networks of its own", "mounted read-only", "of iptables", "of nftables", "not supported"];
    for skip in &skips {
        assert!(may.iter().any(|words| skip.why.contains(words)), "{}: {}", skip.case, skip.why);
        skipped(Cause::Kernel("packet filters"), format!("{}: {}", skip.case, skip.why));
    }
    let summaries = all!(lines, Summary);
    let summaries: Vec<_> =
        summaries.into_iter().filter(|of| of.case.mechanism.starts_with("veth-")).collect();
    assert_eq!(summaries.len() + skips.len(), 5, "{}", said.stderr);
    assert!(summaries.iter().all(|of| of.unit == "packets/s" && of.median > 0.0), "{}", said.stdout);
}

#[test]
fn symbols_of_two_files_are_listed_by_a_glob_and_one_that_matches_nothing_is_told() {
    let folder = folder();
    let of = |glob: &str| said(folder.path(), &format!("bloat {PROGRAM} {PROGRAM} --symbols {glob}"));
    let listed = of("{main,rust_eh_person*}").with(0).stdout;
    assert!(
        listed.starts_with("Symbol ") && listed.lines().any(|line| line.starts_with("main ")),
        "{listed}"
    );
    assert!(listed.lines().skip(1).all(|line| line.ends_with(" +0")), "{listed}");
    assert!(
        of("no_such_symbol*").with(2).stderr.contains("no symbol of either file matches `no_such_symbol*`")
    );
    assert!(of("{main").with(2).stderr.contains("is not a glob"));
}
