//! Plans on many machines: parts, attempts, what is done again and what is not, and what a scheduler reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::{eventually, eventually_some};
use rustix::process::Signal;
use serde_json::Value;
use weighbridge_record::{Ending, Header, Line, Outcome};

use crate::{PROGRAM, STATE, Said, all, files, folder, said, shown, start, text, valid_record, weighbridge};

/// Cases that take turns with nothing, and so are finished one after another.
const SIX: &str = "roundtrip/mock/1/free --set latency-ns=11,12,13,14,15,16 --runs 6";

fn ids(plan: &Value) -> Vec<String> {
    let cases = plan["cases"].as_array().unwrap();
    cases.iter().map(|case| case["case"].as_str().unwrap().to_owned()).collect()
}

/// A plan of these words, in the file `plan.json`.
fn plan(folder: &Path, words: &str) -> Value {
    let text = shown(folder, &format!("plan {words} --format json"));
    std::fs::write(folder.join("plan.json"), &text).unwrap();
    serde_json::from_str(&text).unwrap()
}

const RUN: &str = "run --plan plan.json --out-dir spool --quiet";

/// The records of the folder of a plan, each with its header and outcomes, in the order of their names.
fn records(folder: &Path) -> Vec<(PathBuf, Header, Vec<Outcome>)> {
    let spool = folder.join("spool");
    let names = if spool.exists() { files(&spool) } else { Vec::new() };
    // One that has just been created has no header yet.
    let read = |name: &String| {
        let path = spool.join(name);
        let lines = weighbridge_record::read_file(&path).unwrap().lines;
        let Some(Line::Header(header)) = lines.first() else { return None };
        let outcomes = all!(lines, Outcome).into_iter().cloned().collect();
        Some((path, (**header).clone(), outcomes))
    };
    names.iter().filter(|name| name.ends_with(".jsonl")).filter_map(read).collect()
}

/// How often each case was finished.
fn finished(folder: &Path) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for (_, _, outcomes) in records(folder) {
        for outcome in outcomes.iter().filter(|of| of.outcome == Ending::Measured) {
            *count.entry(outcome.case.to_string()).or_default() += 1;
        }
    }
    count
}

#[test]
fn parts_that_are_made_one_by_one_are_disjoint_and_together_the_plan() {
    let folder = folder();
    let words = "--suite quick";
    let whole = plan(folder.path(), words);
    assert_eq!(whole, plan(folder.path(), words), "the same words make the same plan");
    assert!(whole["cases"].as_array().unwrap().iter().all(|case| case["seconds"].as_f64().unwrap() > 0.0));
    let mut all = Vec::new();
    for part in 1..=4 {
        let part =
            said(folder.path(), &format!("plan {words} --format json --shard {part}/4")).with(0).json();
        assert_eq!((&part["plan_id"], &part["seed"]), (&whole["plan_id"], &whole["seed"]));
        all.extend(ids(&part));
    }
    let distinct: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!((distinct.len(), distinct), (all.len(), ids(&whole).into_iter().collect()));
    let refused = said(folder.path(), &format!("plan {words} --shard 1/4")).with(2).stderr;
    assert!(refused.contains("--shard is for a plan as a file; add --format json"), "{refused}");
}

#[test]
fn a_record_of_a_plan_says_which_machine_and_plan_it_is_of_and_what_became_of_each_case() {
    let folder = folder();
    let plan = plan(folder.path(), "roundtrip/mock/1/free roundtrip/pipe/0/free --runs 6");
    let command = weighbridge(folder.path()).args(RUN.split(' ')).args([
        "--label",
        "machine=n17",
        "--label",
        "rack=r7,campaign=autumn,instance_type=n2-standard-8",
    ]);
    let said = Said::by(command.env("SLURM_JOB_ID", "12").env("SLURM_RESTART_COUNT", "1")).with(0);
    assert!(said.stderr.contains("1 measured, 1 skipped, 0 void, 0 interrupted"), "{}", said.stderr);
    let [(path, header, outcomes)] = &records(folder.path())[..] else { panic!("one record") };
    let identity = header.identity.as_ref().unwrap();
    assert_eq!(
        (identity.machine.as_str(), identity.machine_from.as_str(), identity.hw_class.len()),
        ("n17", "label", 16)
    );
    assert_eq!(header.labels["rack"], "r7");
    assert_eq!(
        identity.instance_type.as_deref(),
        Some("n2-standard-8"),
        "the firmware of most clouds tells no type"
    );
    let of = &header.provenance;
    assert_eq!(of.plan_id.as_deref(), plan["plan_id"].as_str());
    assert_eq!(
        (of.campaign.as_deref(), of.scheduler.as_deref(), of.job_id.as_deref()),
        (Some("autumn"), Some("slurm"), Some("12"))
    );
    assert_eq!((of.attempt, of.restarts, of.shard), (Some(0), Some(1), None));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with(&format!("{}-n17-", plan["plan_id"].as_str().unwrap()))
            && name.ends_with("-0.jsonl"),
        "{name}"
    );
    let of_case = |mechanism: &str| outcomes.iter().find(|of| of.case.mechanism == mechanism).unwrap();
    assert_eq!(of_case("mock").outcome, Ending::Measured);
    let skipped = of_case("pipe");
    assert_eq!((skipped.outcome, skipped.step.as_deref()), (Ending::Skipped, Some("fit")));
    assert!(skipped.why.as_ref().unwrap().contains("empty message"), "{skipped:?}");
    assert!(files(&folder.path().join("spool")).iter().all(|name| !name.contains("lock")), "a lock is left");
}

#[test]
fn an_ordinary_run_says_too_what_became_of_each_case() {
    let folder = folder();
    let words = "run roundtrip/mock/1/free roundtrip/pipe/0/free --runs 2 --out r.jsonl --html none --quiet";
    said(folder.path(), words).with(0);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let endings: Vec<Ending> = all!(lines, Outcome).iter().map(|outcome| outcome.outcome).collect();
    assert_eq!(endings, [Ending::Measured, Ending::Skipped]);
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert!(header.identity.as_ref().is_some_and(|identity| !identity.machine.is_empty()));
}

#[test]
fn a_plan_that_is_killed_at_any_moment_loses_nothing_that_was_finished_and_measures_nothing_twice() {
    let folder = folder();
    plan(folder.path(), SIX);
    let mut attempts = 0;
    loop {
        let before = finished(folder.path()).len();
        let mut running = start(folder.path(), &format!("{RUN} --resume"));
        // Killed as soon as it has finished one more, whatever it is doing then; or it comes to its end.
        eventually("one more case, or the end", || {
            finished(folder.path()).len() > before || crate::has_ended(running.pid())
        });
        running.kill();
        attempts += 1;
        if finished(folder.path()).len() == 6 {
            break;
        }
        assert!(attempts < 12, "{:?}", finished(folder.path()));
    }
    assert!(attempts > 1, "it was never killed");
    let said = said(folder.path(), &format!("{RUN} --resume")).with(0);
    assert!(said.stderr.contains("all 6 cases of the plan were finished here"), "{}", said.stderr);
    let finished = finished(folder.path());
    assert!(finished.values().all(|count| *count == 1), "{finished:?}");
    let numbers: BTreeSet<Option<u32>> =
        records(folder.path()).iter().map(|of| of.1.provenance.attempt).collect();
    assert_eq!(numbers.len(), records(folder.path()).len(), "each attempt has a number of its own");
}

#[test]
fn what_was_finished_in_another_boot_or_by_another_build_is_measured_again() {
    let folder = folder();
    plan(folder.path(), SIX);
    said(folder.path(), RUN).with(0);
    let (path, header, _) = records(folder.path()).remove(0);
    let original = text(&path);
    let boot = header.machine.boot_id.unwrap();
    let changed = [
        original.replace(&boot, "00000000-0000-0000-0000-000000000000"),
        original.replacen("\"profile\":\"", "\"profile\":\"other-", 1),
    ];
    for (index, text) in changed.into_iter().enumerate() {
        std::fs::write(&path, text).unwrap();
        said(folder.path(), &format!("{RUN} --resume")).with(0);
        let all = records(folder.path());
        let newest = all.iter().find(|(other, ..)| *other != path).unwrap();
        assert_eq!(newest.2.len(), 6, "change {index}");
        std::fs::remove_file(&newest.0).unwrap();
    }
    std::fs::write(&path, original).unwrap();
    said(folder.path(), &format!("{RUN} --resume")).with(0);
    assert_eq!(records(folder.path()).len(), 1, "of this boot nothing is measured again");
    said(folder.path(), RUN).with(0);
    assert_eq!(records(folder.path()).len(), 2, "without --resume everything is");
}

#[test]
fn an_interrupted_plan_names_what_was_not_measured_and_ends_with_130() {
    for _ in 0..20 {
        let folder = folder();
        plan(folder.path(), SIX);
        let mut running = start(folder.path(), RUN);
        eventually("the first case", || !finished(folder.path()).is_empty());
        running.signal(Signal::TERM).unwrap();
        let code = running.wait().code();
        let [(path, _, outcomes)] = &records(folder.path())[..] else { panic!("one record") };
        // It was done before it could be interrupted.
        if code == Some(0) {
            continue;
        }
        assert_eq!(code, Some(130), "{}", text(folder.path().join("stderr")));
        assert!(matches!(valid_record(path).lines.last(), Some(Line::End(end)) if !end.complete));
        assert_eq!(outcomes.len(), 6, "{outcomes:?}");
        assert!(outcomes.iter().any(|of| of.outcome == Ending::Interrupted), "{outcomes:?}");
        return;
    }
    panic!("every run was done before it could be interrupted");
}

#[test]
fn the_same_part_twice_at_a_time_is_sent_away_with_75() {
    let folder = folder();
    plan(folder.path(), SIX);
    let running = start(folder.path(), RUN);
    let lock = |name: &String| name.ends_with(".lock");
    // A record is begun by who has the lock.
    eventually("a record of a run that holds the folder", || {
        folder.path().join("spool").exists() && !files(&folder.path().join("spool")).iter().all(lock)
    });
    // Stopped, so that it cannot end meanwhile.
    running.stop();
    if files(&folder.path().join("spool")).iter().any(lock) {
        let said = said(folder.path(), RUN).with(75);
        assert!(said.stderr.contains("is being measured on this machine already"), "{}", said.stderr);
    }
    running.resume();
}

#[test]
fn a_machine_that_can_measure_nothing_of_a_plan_says_so_once_up_front_and_ends_with_2() {
    let folder = folder();
    plan(folder.path(), "roundtrip/pipe/1/same-cpu roundtrip/pipe/64/same-cpu --runs 1");
    let output = Command::new("nice")
        .args(["-n", "5", PROGRAM])
        .args(RUN.split(' '))
        .current_dir(folder.path())
        .env("XDG_STATE_HOME", folder.path().join(STATE))
        .output()
        .unwrap();
    let said = Said::of(output).with(2);
    assert_eq!(said.stderr.matches("with nice 5").count(), 1, "{}", said.stderr);
    let [(_, _, outcomes)] = &records(folder.path())[..] else { panic!("a record says why") };
    assert_eq!(outcomes.len(), 2);
    assert!(
        outcomes
            .iter()
            .all(|of| of.outcome == Ending::Skipped && of.why.as_ref().unwrap().contains("nice 5"))
    );
}

#[test]
fn plans_and_records_of_newer_programs_are_refused_and_a_clone_is_warned_of() {
    let folder = folder();
    plan(folder.path(), SIX);
    let good = text(folder.path().join("plan.json"));
    let path = folder.path().join("plan.json");
    for (bad, words) in [
        (
            good.replace("\"schema\": 1", "\"schema\": 7"),
            "schema 7, and this weighbridge reads schemas up to 1",
        ),
        (good.replace("latency-ns=11", "latency-ns=19"), "was changed after it was made"),
        ("{}".into(), "is not a plan"),
    ] {
        std::fs::write(&path, bad).unwrap();
        let said = said(folder.path(), RUN).with(2);
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
    std::fs::write(&path, good).unwrap();
    said(folder.path(), RUN).with(0);
    let (record, header, _) = records(folder.path()).remove(0);
    let original = text(&record);
    std::fs::write(&record, original.replacen("\"schema\":2", "\"schema\":9", 1)).unwrap();
    let newer = said(folder.path(), &format!("{RUN} --resume")).with(2).stderr;
    assert!(
        newer.contains("was written with schema 9, and this weighbridge reads schemas up to 2"),
        "{newer}"
    );
    // A record of this machine in another boot, which began after this boot did.
    let boot = header.machine.boot_id.unwrap();
    std::fs::write(&record, original.replace(&boot, "00000000-0000-0000-0000-000000000000")).unwrap();
    let said = said(folder.path(), RUN).with(0);
    assert!(said.stderr.contains("one is a clone of the other, or a clock is wrong"), "{}", said.stderr);
}

#[test]
fn labels_come_from_the_environment_too_and_credentials_are_in_no_record_and_no_message() {
    let folder = folder();
    let run = |label: &str| {
        let words = "run roundtrip/mock/1/free --runs 1 --out r.jsonl --html none --quiet --force";
        Said::by(weighbridge(folder.path()).args(words.split(' ')).env("WEIGHBRIDGE_LABEL", label))
    };
    run("rack=r7,zone=b").with(0);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    assert_eq!(header.labels.len(), 2, "{:?}", header.labels);
    for label in ["token=hunter2", "store=s3://me:hunter2@bucket"] {
        let said = run(label).with(2);
        assert!(
            said.stderr.contains("labels are public") && !said.stderr.contains("hunter2"),
            "{}",
            said.stderr
        );
    }
    let twice = run("a=1,a=2").with(2).stderr;
    assert!(twice.contains("the label `a` is given twice"), "{twice}");
    let words =
        "compare --b env:MY_TOKEN=hunter2 roundtrip/mock/1/free --runs 12 --out c.jsonl --html none --quiet";
    let _ = said(folder.path(), words);
    let record =
        eventually_some("a record", || Some(text(folder.path().join("c.jsonl"))).filter(|of| !of.is_empty()));
    assert!(record.contains("MY_TOKEN=***") && !record.contains("hunter2"), "{record:.2000}");
}

#[test]
fn a_bisection_by_compare_ends_with_128_for_a_mistake_whatever_its_flag_is_called() {
    let folder = folder();
    for flag in ["--bisect", "--exit bisect", "--exit=bisect"] {
        said(folder.path(), &format!("compare --a wait=block {flag} roundtrip/no-such/1/free")).with(128);
        said(folder.path(), &format!("compare --no-such-flag {flag}")).with(128);
    }
}
