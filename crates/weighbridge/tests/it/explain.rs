//! `weighbridge explain`: costs that are known, through `mock`, and questions that have no answer.

use std::path::Path;

use causeway_testkit::has_program;
use weighbridge_record::{Explanation, Line, Writer};

use crate::{Said, folder, said, shown, text, valid_record};

fn explain(folder: &Path, words: &str) -> Said {
    said(folder, &format!("explain --only cost {words}"))
}

fn explanations(folder: &Path, record: &str) -> Vec<Explanation> {
    let lines = valid_record(folder.join(record)).lines;
    lines
        .into_iter()
        .filter_map(|line| if let Line::Explanation(of) = line { Some(*of) } else { None })
        .collect()
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
    let words = format!("{WITH_500} {PLAIN} {SLOW} --out e.jsonl --what-if own-work-0.5");
    let stdout = explain(folder.path(), &words).with(0).stdout;
    let all = explanations(folder.path(), "e.jsonl");
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
        // What a mock costs between two roles it costs in one, and where it does not, nothing is left of it.
        let verdict = if id == WITH_500 { "not explained" } else { "self alone" };
        let beyond = of.beyond_self.as_ref().unwrap();
        assert!((beyond.ns - left_ns).abs() < 1e-6, "{beyond:?}");
        assert_eq!(of.verdict, verdict, "{id}");
        let answer = &of.what_if[0];
        assert!((answer.ns - (of.ns - own_ns / 2.0)).abs() < 1e-6, "{answer:?}");
    }
    assert!(stdout.contains("not explained") && stdout.contains("??????"), "{stdout}");
    assert!(text(folder.path().join("e.html")).contains("What the costs are made of"));
    assert!(shown(folder.path(), "report e.jsonl").contains("What the costs are made of"));
}

/// In virtual time one of a dose takes 100 ns, which is what the mock's case must cost more for it.
#[test]
fn the_slope_of_a_dose_with_a_known_cost_is_found() {
    let folder = folder();
    explain(folder.path(), &format!("{PLAIN} --runs 6 --out d.jsonl --html none --quiet")).with(0);
    let [of] = &explanations(folder.path(), "d.jsonl")[..] else { panic!() };
    let [dose] = &of.doses[..] else { panic!("{:?}", of.doses) };
    assert!((dose.slope_ns - 100.0).abs() < 1e-6, "{dose:?}");
    assert!(dose.slope_of_halves_ns.unwrap().iter().all(|ns| (ns - 100.0).abs() < 1e-6), "{dose:?}");
    assert_eq!((dose.verdict.as_str(), dose.sets), ("no price", 5), "virtual time has no price of a call");
    assert!(shown(folder.path(), "report d.jsonl").contains("Dose and response"));
    explain(folder.path(), &format!("{PLAIN} --no-doses --runs 6 --out n.jsonl --html none --quiet")).with(0);
    let [of] = &explanations(folder.path(), "n.jsonl")[..] else { panic!() };
    assert!(of.doses.is_empty());
    let why = of.parts.iter().find_map(|part| part.not_tried.clone()).unwrap();
    assert!(why.contains("cannot be put in"), "{why}");
}

#[test]
fn prices_of_a_record_answer_what_another_machine_would_take() {
    let folder = folder();
    explain(folder.path(), &format!("{PLAIN} --out here.jsonl --quiet --html none")).with(0);
    let mut there = Writer::create(&folder.path().join("there.jsonl")).unwrap();
    for mut line in valid_record(folder.path().join("here.jsonl")).lines {
        if let Line::Price(price) = &mut line {
            price.ns *= 3.0;
            price.ci95 = None;
        }
        there.write(&line).unwrap();
    }
    let words = format!("{PLAIN} --out both.jsonl --what-if prices=there.jsonl --quiet --html none");
    explain(folder.path(), &words).with(0);
    let answer = explanations(folder.path(), "both.jsonl")[0].what_if[0].clone();
    assert!((answer.factor - 3.0).abs() < 1e-6, "{answer:?}");
    assert!(answer.remarks[0].contains("the unexplained part"), "{answer:?}");
}

#[test]
fn what_cannot_be_explained_says_why_and_what_can() {
    let folder = folder();
    for (words, wanted) in [
        ("solo/getppid/0/same-cpu", "it is a price itself"),
        ("stream/pipe/64/same-cpu", "its operations overlap"),
        ("roundtrip/dbus-daemon/64/same-cpu", "waits for the broker"),
        ("roundtrip/pipe/64/same-cpu/warm=cold", "cannot take turns with a hub"),
        ("", "name a case"),
        ("roundtrip/mock/64/free --what-if interrupts-1", "the parts are system-calls"),
        ("roundtrip/mock/64/free --what-if halts-1 --html none --out x.jsonl", "no part is called `halts`"),
        ("roundtrip/mock/64/free --what-if prices=missing.jsonl", "missing.jsonl"),
        ("roundtrip/nothing/64/same-cpu", "nothing"),
    ] {
        if words.contains("dbus-daemon") && !has_program("dbus-daemon") {
            continue;
        }
        let stderr = explain(folder.path(), words).fails().stderr;
        assert!(stderr.contains(wanted), "{words}: {stderr}");
    }
    let kept = explanations(folder.path(), "x.jsonl");
    assert!(kept.len() == 1 && kept[0].remarks.iter().any(|remark| remark.contains("halts-1")), "{kept:?}");
    let compared = format!("compare --b latency-ns=2000 {PLAIN} --prices missing.jsonl");
    assert!(said(folder.path(), &compared).with(3).stderr.contains("missing.jsonl"));
}

#[test]
fn an_option_of_a_question_that_is_not_answered_is_refused_with_the_question() {
    let folder = folder();
    let pipe = "roundtrip/pipe/1/free";
    let many = format!("{pipe} roundtrip/fifo/1/free roundtrip/unix-stream/1/free");
    std::fs::write(folder.path().join("stacks"), "mine").unwrap();
    for (words, wanted) in [
        (format!("{many} --folded s"), "--folded has no effect, because the question `kernel`"),
        (format!("{many} --rounds 2"), "of 3 cases unless it is named"),
        (format!("{pipe} --only cost --rounds 2"), "--only kernel"),
        (format!("{pipe} --only kernel --what-if switches-1"), "--what-if has no effect"),
        (format!("{pipe} --only kernel --runs 6"), "--only cost"),
        (format!("{pipe} --only kernel --budget 9s"), "the question `cost`"),
        (format!("{pipe} --only kernel --no-doses"), "--no-doses has no effect"),
        (format!("--only cost --a {pipe} --b roundtrip/fifo/1/free"), "--a with --b has no effect"),
        ("solo/getppid/0/same-cpu --what-if switches-1".into(), "none of the selected cases has an answer"),
        (format!("{PLAIN} --only timeline --timeline --trace-out t"), "--trace-out has no effect"),
        (format!("{pipe} --only kernel --folded stacks"), "`stacks` exists already"),
    ] {
        let stderr = said(folder.path(), &format!("explain {words}")).with(2).stderr;
        assert!(stderr.contains(wanted), "{words}: {stderr}");
    }
    assert_eq!(crate::files(folder.path()), ["stacks"], "nothing was measured");
}

#[test]
fn the_header_says_what_was_asked() {
    let folder = folder();
    let words = format!("{PLAIN} --runs 6 --no-system-calls --out e.jsonl --html none --quiet");
    explain(folder.path(), &words).with(0);
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
    let words = "roundtrip/ring-futex/4096/same-cpu --runs 6 --budget 30s --out e.jsonl --quiet";
    explain(folder.path(), words).with(0);
    let all = explanations(folder.path(), "e.jsonl");
    let [of] = &all[..] else { panic!("{all:?}") };
    let sum: f64 = of.parts.iter().map(|part| part.ns).sum();
    assert!((sum + of.unexplained_ns - of.ns).abs() < 1e-6 * of.ns, "{of:?}");
    let has = |name: &str| of.parts.iter().any(|part| part.name == name);
    assert!(has("own work") && has("switches") && has("block and wake"), "{of:?}");
    assert!(of.fitted_from.iter().all(|case| case.mechanism != "ring-futex"), "{of:?}");
    let dose = |kind: &str| of.doses.iter().find(|dose| dose.kind == kind);
    let handoffs = dose("handoffs").unwrap_or_else(|| panic!("{:?}", of.doses));
    assert_eq!(handoffs.steps_ns.len(), 2, "{handoffs:?}");
    // Other tests run on the same CPU, so that a switch may have no price; then a handoff has none either, and both say so.
    let switches = of.parts.iter().find(|part| part.name == "switches").unwrap();
    assert_eq!(handoffs.price_ns.is_some(), switches.no_price.is_none(), "{of:?}");
    assert_eq!(handoffs.verdict == "no price", switches.no_price.is_some(), "{handoffs:?}");
    // What was put in was done: a tracer counts it.
    for dose in &of.doses {
        assert_ne!(dose.verdict, "not shown", "{dose:?}");
    }
    let part = |name: &str| of.parts.iter().find(|part| part.name == name).unwrap();
    assert_eq!(part("switches").dose.as_deref(), Some("handoffs"));
    assert!(part("own work").not_tried.as_ref().unwrap().contains("cannot be put in"), "{of:?}");
    match &of.system_calls {
        Some(_) => assert!(has("futex calls"), "{of:?}"),
        None => assert!(of.remarks.iter().any(|remark| remark.contains("system calls were not counted"))),
    }
}
