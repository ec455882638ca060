//! The circle of a campaign with the real program: plan, run, push, report, and what the report wants to be measured again (acceptance 2 and 9).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::{Running, eventually, temp_dir};
use serde_json::Value;

use crate::push::{ends_with, pushed, said, text};
use crate::support::programs::{Boot, plan, weighbridge};

/// Carries out a plan as a machine of that name.
fn run(plan: &Path, machine: &str, spool: &Path, boot: &Boot) -> Output {
    let mut command = boot.command(weighbridge().unwrap());
    command.args(["run", "--quiet", "--resume", "--plan"]).arg(plan).arg("--out-dir").arg(spool);
    command.args(["--label", &format!("machine={machine}")]).output().unwrap()
}

fn report(store: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&said(0, "report", store, &[words, &["--format", "json"]].concat())).unwrap()
}

#[test]
fn what_a_report_wants_again_is_a_plan_that_run_carries_out_and_the_next_report_knows_it() {
    if weighbridge().is_none() {
        return;
    }
    let folder = temp_dir("fleet");
    let whole = plan(folder.path(), &["roundtrip/mock/{1,64,512}/free"]);
    let (spool, store) = (folder.path().join("spool"), folder.path().join("store"));
    let machines: Vec<String> = (1..=6).map(|number| format!("n{number}")).collect();
    for machine in &machines {
        ends_with(&run(&whole, machine, &spool, &Boot::This), 0);
    }
    pushed(&store, &spool);
    let again = folder.path().join("again.json");
    let (again_text, whole_text) = (again.to_str().unwrap(), whole.to_str().unwrap());
    assert!(said(2, "report", &store, &["--remeasure", again_text]).contains("--plan"));
    let first = report(&store, &["--remeasure", again_text, "--plan", whole_text]);
    assert_eq!(first["coverage"]["boots"], 6, "{first:#}");
    let asked: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    // Second boots tell how sure a figure is, so all are asked for all.
    let hosts = asked["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 6, "{asked:#}");
    assert_eq!(asked["cases"].as_array().unwrap().len(), 3, "{asked:#}");
    let said = ends_with(&run(&again, "n9", &spool, &Boot::This), 2);
    assert!(said.contains("is for 6 machines") && said.contains("this one is n9"), "{said}");

    // Of one machine only one case is wanted.
    let mut few = asked.clone();
    few["hosts"][0]["cases"] = serde_json::json!(["roundtrip/mock/64/free"]);
    let some = few["hosts"][0]["machine"].as_str().unwrap().to_owned();
    fs::write(folder.path().join("few.json"), few.to_string()).unwrap();
    let spool_of_few = folder.path().join("few");
    let said = ends_with(&run(&folder.path().join("few.json"), &some, &spool_of_few, &Boot::This), 0);
    assert!(said.contains("1 measured, 0 skipped"), "{said}");

    // In this boot everything is done.
    let said = ends_with(&run(&again, "n1", &spool, &Boot::This), 0);
    assert!(
        said.contains("all 3 cases of the plan were finished here since the machine was booted"),
        "{said}"
    );
    let Some(next) = Boot::another(folder.path()) else { return };
    for machine in &machines {
        let said = ends_with(&run(&again, machine, &spool, &next), 0);
        assert!(said.contains("3 measured, 0 skipped"), "{said}");
    }
    pushed(&store, &spool);
    let second = report(&store, &[]);
    assert_eq!(second["coverage"]["boots"], 12, "{second:#}");
    assert_eq!(second["coverage"]["machines"], 6, "{second:#}");
    assert_eq!(second["trouble"]["clones"], serde_json::json!([]), "{second:#}");
    assert_eq!(second["classes"][0]["pairs"], 6, "{second:#}");
}

#[test]
fn two_jobs_on_one_machine_at_once_are_flagged_whatever_they_call_it_and_one_after_the_other_is_not() {
    let Some(weighbridge) = weighbridge() else { return };
    let folder = temp_dir("fleet");
    let plan = plan(folder.path(), &["roundtrip/mock/{1,64}/free"]);
    let spool = folder.path().join("spool");
    // One that is stopped in its middle, as a job that waits for a CPU, and one beside it.
    let mut long = Command::new(weighbridge);
    long.args(["run", "--quiet", "--plan"]).arg(&plan).arg("--out-dir").arg(&spool);
    long.args(["--label", "machine=pod-a"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut long = Running::start(&mut long);
    let names = || fs::read_dir(&spool).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    eventually("a record", || names().any(|name| name.to_string_lossy().ends_with(".jsonl")));
    long.stop();
    // Long enough for starts in whole seconds.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(2) {
        ends_with(&run(&plan, "pod-b", &spool.join(since.elapsed().as_nanos().to_string()), &Boot::This), 0);
    }
    long.resume();
    assert_eq!(long.wait().code(), Some(0));
    let (store, after) = (folder.path().join("store"), folder.path().join("after"));
    let spools: Vec<_> = fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().path()).collect();
    pushed(&store, &spool);
    spools.iter().filter(|path| path.is_dir()).for_each(|path| _ = pushed(&store, path));
    let found = &report(&store, &[])["interference"];
    assert_eq!(found["machines"], 1, "{found:#}");
    assert!(found["sessions"].as_u64() >= Some(2), "{found:#}");
    let names = ["machine", "other"].map(|name| found["overlaps"][0][name].as_str().unwrap());
    assert_eq!(BTreeSet::from(names), BTreeSet::from(["pod-a", "pod-b"]), "{found:#}");

    let spool = folder.path().join("in-turns");
    for machine in ["pod-a", "pod-b"] {
        ends_with(&run(&plan, machine, &spool, &Boot::This), 0);
    }
    pushed(&after, &spool);
    assert_eq!(report(&after, &[])["interference"]["sessions"], 0);
}

#[test]
fn another_boot_is_what_the_program_sees_there() {
    let folder = temp_dir("fleet");
    let Some(boot) = Boot::another(folder.path()) else { return };
    let read = |boot: &Boot| {
        text(&boot.command("cat").arg("/proc/sys/kernel/random/boot_id").output().unwrap().stdout)
    };
    assert_ne!(read(&boot), read(&Boot::This));
}
