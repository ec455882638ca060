//! `check` with tools that the test makes: scripts first in `PATH` that print what the real ones printed, hang, die, talk
//! nonsense, and leave children behind. What is ours is measured for real; no figure is asserted.

use std::path::Path;
use std::process::Stdio;

use causeway_testkit::{Cause, Running, eventually, eventually_some, skipped};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snapbox::cmd;

use crate::{PROGRAM, Said, folder, has_ended, said, text, weighbridge};

const SCHED_PIPE: &str = "# Running 'sched/pipe' benchmark:
# Executed 100000 pipe operations between two processes

     Total time: 0.498 [sec]

       4.984490 usecs/op
         200622 ops/sec";

/// A shell script that is found as `name`.
fn fake(folder: &Path, name: &str, script: &str) {
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    crate::script(&folder.join("bin").join(name), script);
}

/// The fakes before everything else.
fn path(folder: &Path) -> String {
    format!("{}:/usr/bin:/bin", folder.join("bin").display())
}

/// `check` with these words and the fakes.
fn command(folder: &Path, words: &str) -> cmd::Command {
    weighbridge(folder).arg("check").args(words.split(' ')).env("PATH", path(folder))
}

/// What one turn gives: the document, what was said, and the code.
fn check(folder: &Path, words: &str) -> (Value, String, i32) {
    let said = Said::by(command(folder, &format!("{words} --rounds 1 --format json")));
    (serde_json::from_str(&said.stdout).unwrap_or(Value::Null), said.stderr, said.code.unwrap())
}

/// `check` as a process that the test can kill.
fn start(folder: &Path) -> Running {
    let mut command = std::process::Command::new(PROGRAM);
    command.current_dir(folder).args(["check", "--rounds", "1", "perf-sched-pipe"]).env("PATH", path(folder));
    Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// The numbers that a fake wrote into a file of the folder, once they are all there.
fn pids(folder: &Path, count: usize) -> Vec<u32> {
    eventually_some("the fake's children", || {
        let pids: Vec<u32> =
            text(folder.join("pids")).lines().filter_map(|line| line.trim().parse().ok()).collect();
        (pids.len() >= count).then_some(pids)
    })
}

fn gone(pids: &[u32]) {
    eventually("the end of all that was started", || pids.iter().all(|pid| has_ended(*pid)));
}

fn why(document: &Value) -> &str {
    document["checks"][0]["trouble"].as_str().unwrap_or_default()
}

/// Three processes that would live on: a child, a child in a session of its own, and its child, left by its parent.
const LEAVES_CHILDREN: &str = "sleep 1000 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; exec sleep 1000' &
while [ $(wc -l < pids) -lt 3 ]; do sleep 0.01; done";

#[test]
fn a_figure_is_read_and_compared_with_ours() {
    let folder = folder();
    fake(folder.path(), "perf", &format!("cat <<'END'\n{SCHED_PIPE}\nEND"));
    let (document, stderr, code) = check(folder.path(), "perf-sched-pipe");
    assert_eq!(code, 0, "one turn gives no verdict: {stderr}");
    let row = &document["checks"][0];
    let near = |value: &Value, wanted: f64| (value.as_f64().unwrap() / wanted - 1.0).abs() < 1e-9;
    assert!(near(&row["theirs"], 4984.49), "{row}");
    let ours = row["ours"].as_f64().unwrap();
    assert!(ours > 0.0 && near(&row["ratio"], ours / 4984.49), "{row}");
    assert_eq!(row["verdict"], "inconclusive");
    assert_eq!(row["program"], folder.path().join("bin/perf").display().to_string());
    assert!(!row["because"].as_str().unwrap().is_empty());
}

#[test]
fn a_ratio_outside_its_band_has_a_code_of_its_own_and_its_record_shows_the_same_again() {
    let folder = folder();
    // No machine needs an hour for a round trip.
    fake(folder.path(), "perf", "echo '3600000000.0 usecs/op'");
    let words = "perf-sched-pipe --rounds 6 --quiet --out check.jsonl";
    let said = Said::by(command(folder.path(), words)).with(1);
    assert!(said.stdout.contains("outside") && said.stdout.contains("known reasons:"), "{}", said.stdout);
    let lines: Vec<Value> = text(folder.path().join("check.jsonl"))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [_, check, _] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&check["kind"], &check["verdict"]), (&"check".into(), &"outside".into()));
    assert_eq!(check["turns"].as_array().unwrap().len(), 6);
    let again = weighbridge(folder.path()).args(["report", "check.jsonl"]).env("COLUMNS", "110");
    assert_eq!(Said::by(again).stdout, said.stdout);
}

#[test]
fn a_tool_that_dies_or_talks_nonsense_is_a_failure_that_says_so() {
    let folder = folder();
    let expected = "a number before `usecs/op`";
    for (script, wanted) in [
        ("echo no such bench >&2; exit 3", "ended with code 3: no such bench"),
        ("kill -SEGV $$", "ended with signal 11"),
        ("echo 'soon usecs/op'", expected),
        ("echo '-1 usecs/op'", expected),
        ("head -c 3000000 /dev/urandom", expected),
        ("true", expected),
    ] {
        fake(folder.path(), "perf", script);
        let (document, _, code) = check(folder.path(), "perf-sched-pipe");
        assert_eq!((code, &document["checks"][0]["verdict"]), (3, &"failed".into()), "{script}");
        assert!(why(&document).contains(wanted), "{script}: {document}");
    }
}

#[test]
fn a_tool_that_hangs_is_killed_at_its_deadline_with_all_that_it_started() {
    let folder = folder();
    fake(folder.path(), "perf", &format!("{LEAVES_CHILDREN}\nwait"));
    let (document, _, code) = check(folder.path(), "perf-sched-pipe --timeout 2s");
    assert_eq!(code, 3);
    assert!(why(&document).contains("perf did not end within 2 s and was killed"), "{document}");
    gone(&pids(folder.path(), 3));
}

#[test]
fn what_a_tool_leaves_behind_ends_with_it_and_holds_nothing_up() {
    let folder = folder();
    fake(folder.path(), "perf", &format!("{LEAVES_CHILDREN}\necho '5.0 usecs/op'"));
    let (document, stderr, code) = check(folder.path(), "perf-sched-pipe");
    assert_eq!(code, 0, "{stderr} {document}");
    gone(&pids(folder.path(), 3));
}

#[test]
fn ctrl_c_ends_a_tool_that_hangs_with_all_that_it_started() {
    let folder = folder();
    fake(folder.path(), "perf", &format!("{LEAVES_CHILDREN}\nwait"));
    let mut child = start(folder.path());
    let pids = pids(folder.path(), 3);
    child.signal(Signal::INT).unwrap();
    assert_eq!(child.wait().code(), Some(130));
    gone(&pids);
}

#[test]
fn a_killed_program_takes_the_tool_along_with_all_that_it_started() {
    let folder = folder();
    fake(folder.path(), "perf", &format!("echo $$ >> pids\n{LEAVES_CHILDREN}\nwait"));
    let mut child = start(folder.path());
    let pids = pids(folder.path(), 4);
    child.kill();
    gone(&pids);
}

#[test]
fn a_killed_supervisor_takes_the_tool_along_and_is_said() {
    let folder = folder();
    // Here all stay in one session: a process that leaves it and loses the supervisor too has no one left to end it.
    fake(folder.path(), "perf", "echo $PPID >> pids; echo $$ >> pids; sleep 1000 & echo $! >> pids; wait");
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(|| check(folder.path(), "perf-sched-pipe"));
        let pids = pids(folder.path(), 3);
        kill_process(Pid::from_raw(pids[0].cast_signed()).unwrap(), Signal::KILL).unwrap();
        gone(&pids);
        run.join().unwrap()
    });
    assert_eq!(output.2, 3);
    assert!(why(&output.0).contains("ended with its supervisor, by signal 9"), "{}", output.0);
}

#[test]
fn a_server_that_says_it_listens_and_ends_at_once_was_heard() {
    let folder = folder();
    let report = r#"{"end":{"sum_received":{"bits_per_second":8e9}}}"#;
    // The words are the last thing that the server does, so its end and its output are there at the same time.
    let script = format!(
        "case \"$*\" in *-s*) echo starting; echo 'Server listening on 1' ;; *) echo '{report}' ;; esac"
    );
    fake(folder.path(), "iperf3", &script);
    for _ in 0..3 {
        let (document, stderr, code) = check(folder.path(), "iperf3");
        if document["checks"].as_array().is_none_or(Vec::is_empty) {
            return skipped(Cause::Hardware("two CPUs"), "");
        }
        assert_eq!(code, 0, "{stderr} {document}");
    }
    fake(folder.path(), "iperf3", "echo unable to listen; exit 1");
    let (document, ..) = check(folder.path(), "iperf3");
    assert!(
        why(&document).contains("ended before it wrote `Server listening`: unable to listen"),
        "{document}"
    );
}

#[test]
fn tools_that_are_missing_are_listed_with_their_package() {
    let folder = folder();
    fake(folder.path(), "perf", "echo '5.0 usecs/op'");
    let run = |words: &str| Said::by(command(folder.path(), words).env("PATH", folder.path().join("bin")));
    let shown = run("perf-sched-pipe iperf3 hackbench --rounds 1 --quiet").with(0).stdout;
    assert!(
        shown.contains("1 compared: 1 inconclusive") && shown.contains("no interval from 1 turn"),
        "{shown}"
    );
    assert!(shown.contains("Not installed, with the Debian package that has it"), "{shown}");
    assert!(shown.contains("iperf3: iperf3 (iperf3, iperf3-touched)"), "{shown}");
    assert!(shown.contains("hackbench: rt-tests (hackbench, hackbench-pipe)"), "{shown}");
    // Nothing was compared.
    let document = run("hackbench --format json").with(3).json();
    assert_eq!(document["not_installed"][0]["debian_package"], "rt-tests");
}

/// What the programs of lmbench write, all to standard error, by the form that their manual pages give.
const LMBENCH: &[(&str, &str)] = &[
    ("lat_pipe", "echo 'Pipe latency: 5.0756 microseconds' >&2"),
    ("lat_unix", "echo 'AF_UNIX sock stream latency: 8.8831 microseconds' >&2"),
    ("lat_sem", "echo 'Semaphore latency: 1.8046 microseconds' >&2"),
    ("lat_proc", "echo 'Process fork+exit: 148.3243 microseconds' >&2"),
    ("bw_pipe", "echo 'Pipe bandwidth: 4383.36 MB/sec' >&2"),
    ("bw_unix", "echo 'AF_UNIX sock stream bandwidth: 4817.89 MB/sec' >&2"),
    (
        "lat_syscall",
        "case $1 in
            null) echo 'Simple syscall: 0.1644 microseconds' ;;
            read) echo 'Simple read: 0.2311 microseconds' ;;
            write) echo 'Simple write: 0.1951 microseconds' ;;
            stat) echo 'Simple stat: 0.6040 microseconds' ;;
            fstat) echo 'Simple fstat: 0.3161 microseconds' ;;
            open) echo 'Simple open/close: 1.0547 microseconds' ;;
            *) exit 1 ;;
        esac >&2",
    ),
    ("bw_mem", "[ \"$1\" = 64m ] && echo '67.11 11096.07' >&2"),
];

#[test]
fn every_figure_of_lmbench_is_found_and_has_our_unit() {
    let folder = folder();
    for (name, script) in LMBENCH {
        fake(folder.path(), name, script);
    }
    let (document, stderr, code) = check(folder.path(), "lmbench");
    assert_eq!(code, 0, "{stderr} {document}");
    let checks = document["checks"].as_array().unwrap();
    assert!(checks.len() >= 14 && checks.iter().all(|row| row["theirs"].is_f64()), "{document}");
    for (name, theirs) in [
        // In nanoseconds, and its MB are powers of ten.
        ("lmbench-lat_pipe", 5075.6),
        ("lmbench-lat_syscall-open", 1054.7),
        ("lmbench-lat_syscall-fstat", 316.1),
        ("lmbench-bw_pipe", 4_383_360_000.0),
        ("lmbench-bw_mem-frd", 11_096_070_000.0),
    ] {
        let row = checks.iter().find(|row| row["check"] == name).unwrap();
        assert!((row["theirs"].as_f64().unwrap() / theirs - 1.0).abs() < 1e-9, "{row}");
    }
}

#[test]
fn a_supervisor_is_for_the_program_itself() {
    for argument in ["__supervisor", "__child"] {
        let said = said(folder().path(), argument).with(2);
        assert!(said.stderr.contains("only this program itself uses"), "{}", said.stderr);
    }
    // A parent that is not ours: the number may be that of any process by now.
    said(folder().path(), "__supervisor 1 1000 0 /bin/false").with(2);
}
