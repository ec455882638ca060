//! The starters as they stand, with stand-ins for what is not here: a ssh that goes nowhere, a kubelet that is this test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, Running, eventually_some, has_program, skipped, temp_dir};
use rustix::process::Signal;

use crate::push::{ends_with, program, said, text};
use crate::support::programs::{both, path_with, plan, python_has, record_in};

fn starter(name: &str) -> String {
    said(0, "examples", name.as_ref(), &[])
}

fn count(store: &std::path::Path, condition: &str) -> String {
    let query = format!("SELECT count(*) AS n FROM results WHERE {condition}");
    said(0, "sql", store, &[&query, "--format", "csv"]).lines().nth(1).unwrap().to_owned()
}

#[test]
fn every_starter_is_listed_and_printed_and_a_wrong_name_says_which_there_are() {
    let listed = ends_with(&program().arg("examples").output().unwrap(), 0);
    for name in ["slurm", "kubernetes", "parallel", "ansible"] {
        assert!(listed.contains(name), "{listed}");
        assert!(starter(name).contains("weighbridge"), "{name}");
    }
    assert!(said(2, "examples", "cron".as_ref(), &[]).contains("slurm, kubernetes, parallel, ansible"));
}

#[test]
fn parallel_measures_machines_over_ssh_and_does_the_rest_the_next_time() {
    // Another program of that name is in moreutils.
    let version = Command::new("parallel").arg("--version").output();
    if !version.is_ok_and(|output| text(&output.stdout).starts_with("GNU parallel")) {
        return skipped(Cause::Missing("GNU parallel"), "");
    }
    let folder = temp_dir("fleet");
    let Some(bin) = both(folder.path()) else { return };
    let plan = plan(folder.path(), &["roundtrip/mock/{1,64}/same-cpu"]);
    let script = folder.path().join("parallel.sh");
    fs::write(&script, starter("parallel")).unwrap();
    // A machine that is away the first time. The others read their script from standard input, as ssh's do.
    let ssh = folder.path().join("ssh");
    fs::write(&ssh, "#!/bin/sh\nif [ \"$1\" = b ] && [ ! -e back ]; then echo 'b is away' >&2; exit 255; fi\necho \"$@\" >> lines\nexport SPOOL=\"$PWD/spool-$1\"\nshift\nexec \"$@\"\n").unwrap();
    for file in [&script, &ssh] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let store = folder.path().join("store");
    let secret = "wJalrXUtnFEMI'K7MDENG";
    let run = || {
        Command::new(&script)
            .args(["a", "b"])
            .current_dir(folder.path())
            .env("PATH", path_with(&bin))
            .env("PLAN", &plan)
            .env("STORE", &store)
            .env("SPOOL", folder.path().join("spool"))
            .env("SSH", &ssh)
            .env("JOBS", "1")
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("CAMPAIGN", "autumn")
            .output()
            .unwrap()
    };
    let first = run();
    assert!(!first.status.success(), "{}", text(&first.stderr));
    assert_eq!(count(&store, "machine = 'a' AND campaign = 'autumn'"), "2", "{}", text(&first.stderr));
    fs::write(folder.path().join("back"), "").unwrap();
    ends_with(&run(), 0);
    assert_eq!(count(&store, "machine = 'b'"), "2");
    assert_eq!(count(&store, "true"), "4", "a was measured once");
    let lines = fs::read_to_string(folder.path().join("lines")).unwrap();
    assert!(!lines.contains("MDENG"), "{lines}");
}

const CONTAINER: &str = "
import json, sys, yaml
job = yaml.safe_load(sys.stdin)
spec = job['spec']['template']['spec']
assert job['apiVersion'] == 'batch/v1' and job['kind'] == 'Job' and spec['restartPolicy'] == 'Never'
assert job['spec']['completionMode'] == 'Indexed'
rules = job['spec']['podFailurePolicy']['rules']
assert [rule['action'] for rule in rules] == ['Ignore', 'FailIndex'] and rules[1]['onExitCodes']['values'] == [2]
container = spec['containers'][0]
assert container['name'] == rules[1]['onExitCodes']['containerName']
resources = container['resources']
assert resources['requests'] == resources['limits'] and str(resources['requests']['cpu']).isdigit()
mounts = {mount['name'] for mount in container['volumeMounts']}
assert mounts == {volume['name'] for volume in spec['volumes']}
print(json.dumps(container['command']))
";

#[test]
fn the_manifest_is_one_that_kubernetes_knows() {
    if !python_has("python:kubernetes_validate") {
        return;
    }
    let folder = temp_dir("fleet");
    let manifest = folder.path().join("job.yaml");
    let check = "import kubernetes_validate as of, sys, yaml; \
                 of.validate(yaml.safe_load(open(sys.argv[1])), of.latest_version(), strict=True)";
    let check = || Command::new("python3").args(["-c", check]).arg(&manifest).output().unwrap();
    let whole = starter("kubernetes");
    fs::write(&manifest, &whole).unwrap();
    ends_with(&check(), 0);
    fs::write(&manifest, whole.replace("backoffLimitPerIndex", "backoffLimitPerIndexes")).unwrap();
    let said = text(&check().stderr);
    assert!(said.contains("'backoffLimitPerIndexes' was unexpected"), "{said}");
}

/// What a kubelet gives a container: its command, environment and CPUs, and SIGTERM to its first process when the node is drained.
#[test]
fn a_pod_ends_its_record_and_pushes_it_when_it_is_drained() {
    if !python_has("python:yaml") || !has_program("taskset") {
        return;
    }
    let folder = temp_dir("fleet");
    let Some(bin) = both(folder.path()) else { return };
    let manifest = folder.path().join("job.yaml");
    fs::write(&manifest, starter("kubernetes")).unwrap();
    let stdin = fs::File::open(&manifest).unwrap();
    let output = Command::new("python3").args(["-c", CONTAINER]).stdin(stdin).output().unwrap();
    let command: Vec<String> = serde_json::from_str(&ends_with(&output, 0)).unwrap();
    let plan = plan(
        folder.path(),
        &[
            "roundtrip/mock/1/{same-cpu,two-cpus}",
            "roundtrip/pipe/{1,64,512}/same-cpu",
            "--precision",
            "0.1%",
            "--budget",
            "20s",
        ],
    );
    let (spool, store) = (folder.path().join("spool"), folder.path().join("store"));
    fs::create_dir(&spool).unwrap();
    let mut pod = Command::new("taskset");
    pod.args(["-c", "0"])
        .args(&command)
        .env("PATH", path_with(&bin))
        .env("NODE_NAME", "node-7")
        .env("PLAN", &plan);
    pod.env("SPOOL", &spool)
        .env("STORE", &store)
        .env("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        .env("JOB_COMPLETION_INDEX", "3")
        .env("HOSTNAME", "weighbridge-3-x7k2p");
    pod.stdout(Stdio::null()).stderr(Stdio::null());
    let mut pod = Running::start(&mut pod);
    eventually_some("the record has a run of a pipe", || {
        record_in(&spool)?.contains("\"kind\":\"run\",\"case\":\"roundtrip/pipe").then_some(())
    });
    pod.signal(Signal::TERM).unwrap();
    assert_eq!(pod.wait().code(), Some(130));
    assert_eq!(count(&store, "machine = 'node-7' AND scheduler = 'kubernetes'"), "5");
    assert_eq!(count(&store, "outcome = 'interrupted' AND mechanism = 'pipe'"), "3");
    assert_eq!(count(&store, "outcome = 'skipped' AND placement = 'two-cpus'"), "1", "it has one CPU");
}

#[test]
fn the_playbook_measures_and_pushes_and_does_nothing_the_second_time() {
    if !has_program("ansible-playbook") {
        return;
    }
    let folder = temp_dir("fleet");
    let Some(bin) = both(folder.path()) else { return };
    let plan = plan(folder.path(), &["roundtrip/mock/{1,64}/free"]);
    let (file, store) = (folder.path().join("play.yaml"), folder.path().join("store"));
    fs::write(&file, starter("ansible")).unwrap();
    let play = || {
        let mut command = Command::new("ansible-playbook");
        command.args(["-i", "localhost,", "-c", "local"]).arg(&file).env("PATH", path_with(&bin));
        let spool = folder.path().join("spool");
        for (name, value) in [("plan", &plan), ("store", &store), ("spool", &spool)] {
            command.args(["-e", &format!("{name}={}", value.display())]);
        }
        // The one that runs here, and not a name that somebody has put in front of others.
        let python =
            Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        command.env("ANSIBLE_PYTHON_INTERPRETER", text(&python.stdout).trim());
        for (name, below) in [("ANSIBLE_HOME", "ansible"), ("ANSIBLE_ASYNC_DIR", "async")] {
            command.env(name, folder.path().join(below));
        }
        ends_with(&command.output().unwrap(), 0)
    };
    let first = play();
    assert!(first.contains("unreachable=0") && first.contains("failed=0"), "{first}");
    assert_eq!(count(&store, "machine = 'localhost' AND outcome = 'measured'"), "2", "{first}");
    let second = play();
    assert_eq!(count(&store, "true"), "2", "{second}");
    // The folder, the plan and the push change nothing; that a command was started always counts as a change.
    assert!(second.contains("changed=1"), "{second}");
}
