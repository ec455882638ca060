//! `weighbridge explain`: costs that are known, through `mock`, and questions that have no answer.

use std::path::Path;

use weighbridge_record::{Explanation, Line, Writer};

use crate::{folder, valid_record, weighbridge};

fn explain(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = weighbridge(folder).args(["explain", "--only", "cost"]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

fn explanations(record: &Path) -> Vec<Explanation> {
    let of = |line| if let Line::Explanation(of) = line { Some(*of) } else { None };
    valid_record(record).lines.into_iter().filter_map(of).collect()
}

fn part(of: &Explanation, name: &str) -> f64 {
    of.parts.iter().filter(|part| part.name == name).map(|part| part.ns).sum()
}

const WITH_500: &str = "roundtrip/mock/64/free/apart-ns=500";
const PLAIN: &str = "roundtrip/mock/64/free";
const SLOW: &str = "roundtrip/mock/64/free/latency-ns=1500";

/// 500 ns that a message costs only between two roles are the remainder of their case and of no other; 500 ns that it costs always are
/// work of the mechanism.
#[test]
fn an_injected_cost_is_the_remainder_of_its_case_and_nowhere_else() {
    let folder = folder();
    let record = folder.path().join("e.jsonl");
    let args = [WITH_500, PLAIN, SLOW, "--out", "e.jsonl", "--what-if", "own-work-0.5"];
    let (code, stdout, stderr) = explain(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let all = explanations(&record);
    assert_eq!(all.len(), 3, "{stdout}");
    for of in &all {
        let id = of.case.to_string();
        let (own_ns, left_ns) = match id.as_str() {
            WITH_500 => (1000.0, 500.0),
            SLOW => (1500.0, 0.0),
            _ => (1000.0, 0.0),
        };
        assert!((of.unexplained_ns - left_ns).abs() < 1e-6, "{id}: {} ns left", of.unexplained_ns);
        assert!((part(of, "own work") - own_ns).abs() < 1e-6, "{id}: {:?}", of.parts);
        let verdict = if id == WITH_500 { "not explained" } else { "explained" };
        assert_eq!(of.verdict, verdict, "{id}");
        let answer = &of.what_if[0];
        assert!((answer.ns - (of.ns - own_ns / 2.0)).abs() < 1e-6, "{answer:?}");
    }
    assert!(stdout.contains("not explained") && stdout.contains("??????"), "{stdout}");
    let page = std::fs::read_to_string(record.with_extension("html")).unwrap();
    assert!(page.contains("What the costs are made of"));
    let again = weighbridge(folder.path()).args(["report", "e.jsonl"]).output().unwrap();
    assert!(String::from_utf8(again.stdout).unwrap().contains("What the costs are made of"));
}

#[test]
fn prices_of_a_record_answer_what_another_machine_would_take() {
    let folder = folder();
    let quiet = ["--quiet", "--html", "none"];
    let (code, _, stderr) = explain(folder.path(), &[&[PLAIN, "--out", "here.jsonl"][..], &quiet].concat());
    assert_eq!(code, 0, "{stderr}");
    let mut there = Writer::create(&folder.path().join("there.jsonl")).unwrap();
    for mut line in valid_record(folder.path().join("here.jsonl")).lines {
        if let Line::Price(price) = &mut line {
            price.ns *= 3.0;
            price.ci95 = None;
        }
        there.write(&line).unwrap();
    }
    let args = [PLAIN, "--out", "both.jsonl", "--what-if", "prices=there.jsonl"];
    let (code, _, stderr) = explain(folder.path(), &[&args[..], &quiet].concat());
    assert_eq!(code, 0, "{stderr}");
    let answer = explanations(&folder.path().join("both.jsonl"))[0].what_if[0].clone();
    assert!((answer.factor - 3.0).abs() < 1e-6, "{answer:?}");
    assert!(answer.remarks[0].contains("the unexplained part"), "{answer:?}");
}

#[test]
fn what_cannot_be_explained_says_why_and_what_can() {
    let folder = folder();
    for (args, wanted) in [
        (&["solo/getppid/0/same-cpu"][..], "it is a price itself"),
        (&["stream/pipe/64/same-cpu"], "its operations overlap"),
        (&["roundtrip/dbus-daemon/64/same-cpu"], "waits for the broker"),
        (&["roundtrip/pipe/64/same-cpu/warm=cold"], "cannot take turns with a hub"),
        (&[], "name a case"),
        (&[PLAIN, "--what-if", "interrupts-1"], "the parts are system-calls"),
        (&[PLAIN, "--what-if", "halts-1", "--html", "none", "--out", "x.jsonl"], "no part is called `halts`"),
        (&[PLAIN, "--what-if", "prices=missing.jsonl"], "missing.jsonl"),
        (&["roundtrip/nothing/64/same-cpu"], "nothing"),
    ] {
        let (code, stdout, stderr) = explain(folder.path(), args);
        assert_eq!(code, 2, "{args:?}: {stdout}{stderr}");
        assert!(stderr.contains(wanted), "{args:?}: {stderr}");
    }
    let kept = explanations(&folder.path().join("x.jsonl"));
    assert!(kept.len() == 1 && kept[0].remarks.iter().any(|remark| remark.contains("halts-1")), "{kept:?}");
    let compared = ["compare", "--b", "latency-ns=2000", PLAIN, "--prices", "missing.jsonl"];
    let output = weighbridge(folder.path()).args(compared).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("missing.jsonl"));
}

#[test]
fn an_option_of_a_question_that_is_not_answered_is_refused_with_the_question() {
    let folder = folder();
    let many = ["roundtrip/pipe/1/free", "roundtrip/fifo/1/free", "roundtrip/unix-stream/1/free"];
    std::fs::write(folder.path().join("stacks"), "mine").unwrap();
    for (args, wanted) in [
        (
            &[&many[..], &["--folded", "s"]].concat()[..],
            "--folded has no effect, because the question `kernel`",
        ),
        (&[&many[..], &["--rounds", "2"]].concat(), "of 3 cases unless it is named"),
        (&[many[0], "--only", "cost", "--rounds", "2"], "--only kernel"),
        (&[many[0], "--only", "kernel", "--what-if", "switches-1"], "--what-if has no effect"),
        (&[many[0], "--only", "kernel", "--sets", "6"], "--only cost"),
        (&[many[0], "--only", "kernel", "--budget", "9s"], "the question `cost`"),
        (&["--only", "cost", "--a", many[0], "--b", many[1]], "--a with --b has no effect"),
        (&["solo/getppid/0/same-cpu", "--what-if", "switches-1"], "none of the selected cases has an answer"),
        (&[PLAIN, "--only", "timeline", "--timeline", "--trace-out", "t"], "--trace-out has no effect"),
        (&[many[0], "--only", "kernel", "--folded", "stacks"], "`stacks` exists already"),
    ] {
        let output = weighbridge(folder.path()).arg("explain").args(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(wanted), "{args:?}: {stderr}");
    }
    assert_eq!(crate::files(folder.path()), ["stacks"], "nothing was measured");
}

#[test]
fn the_header_says_what_was_asked() {
    let folder = folder();
    let args = [PLAIN, "--sets", "6", "--no-system-calls", "--out", "e.jsonl", "--html", "none", "--quiet"];
    let (code, _, stderr) = explain(folder.path(), &args);
    assert_eq!(code, 0, "{stderr}");
    let lines = valid_record(folder.path().join("e.jsonl")).lines;
    let [Line::Header(header), ..] = &lines[..] else { panic!("{lines:?}") };
    let setting = |name: &str| header.settings.get(name).map(String::as_str);
    let found = ["only", "sets", "rounds", "no-system-calls", "timeline"].map(setting);
    assert_eq!(found, [Some("cost"), Some("6"), Some("8"), Some("yes"), None]);
}

/// Real processes, without a claim about their speed: everything that is counted has its part, and the parts and the rest are the cost.
#[test]
fn a_real_round_trip_has_all_its_parts() {
    let folder = folder();
    let args = [
        "roundtrip/ring-futex/4096/same-cpu",
        "--sets",
        "6",
        "--budget",
        "30s",
        "--out",
        "e.jsonl",
        "--quiet",
    ];
    let (code, stdout, stderr) = explain(folder.path(), &args);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let all = explanations(&folder.path().join("e.jsonl"));
    let [of] = &all[..] else { panic!("{stdout}{stderr}") };
    let sum: f64 = of.parts.iter().map(|part| part.ns).sum();
    assert!((sum + of.unexplained_ns - of.ns).abs() < 1e-6 * of.ns, "{of:?}");
    let has = |name: &str| of.parts.iter().any(|part| part.name == name);
    assert!(has("own work") && has("switches") && has("block and wake"), "{of:?}");
    assert!(of.fitted_from.iter().all(|case| case.mechanism != "ring-futex"), "{of:?}");
    match &of.system_calls {
        Some(_) => assert!(has("futex calls"), "{of:?}"),
        None => assert!(of.remarks.iter().any(|remark| remark.contains("system calls were not counted"))),
    }
}
