//! What a case says is what was run: seen from outside, by the system calls of the peers and by a limit on CPU time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, Running, eventually, eventually_some, has_program, proc, skipped};
use rustix::process::Signal;
use weighbridge_record::{CaseId, Line, Summary};

use crate::{PROGRAM, STATE, all, folder, has_ended, start, text, valid_record};

/// System calls of the peers of one run, by name.
struct Calls(BTreeMap<String, usize>);

impl Calls {
    /// Of a run under strace; `Err` says why that cannot be.
    fn of(case: &str) -> Result<Calls, String> {
        let folder = folder();
        let strace = Command::new("strace")
            .current_dir(folder.path())
            .env("XDG_STATE_HOME", folder.path().join(STATE))
            .args(["-f", "-qq", "-o", "trace", "-e"])
            .arg("trace=execve,read,recvfrom,recvmsg,poll,ppoll,epoll_wait,epoll_pwait,epoll_pwait2,io_uring_enter")
            .args([PROGRAM, "run", case, "--alone", "--runs", "1", "--budget", "60s", "--quiet"])
            // A process has one tracer.
            .arg("--no-system-calls")
            .args(["--out", "r.jsonl", "--html", "none"])
            .output()
            .map_err(|error| format!("strace: {error}"))?;
        let record = weighbridge_record::read_file(&folder.path().join("r.jsonl"));
        let was_measured = |line: &Line| matches!(line, Line::Run(_));
        if !record.is_ok_and(|record| record.lines.iter().any(was_measured)) {
            return Err(format!("{case}: {}", String::from_utf8_lossy(&strace.stderr)));
        }
        let trace = text(folder.path().join("trace"));
        let lines = || trace.lines().filter_map(|line| line.trim_start().split_once(char::is_whitespace));
        let is_peer = |call: &str| call.trim_start().starts_with("execve(") && call.contains("\"__peer\"");
        let peers: BTreeSet<&str> = lines().filter(|(_, call)| is_peer(call)).map(|(pid, _)| pid).collect();
        // Two of the case, and two of the harness, which calls next to nothing.
        assert_eq!(peers.len(), 4, "{case}: {trace:.500}");
        let mut calls = BTreeMap::new();
        for (_, call) in lines().filter(|(pid, _)| peers.contains(pid)) {
            if let Some((name, _)) = call.trim_start().split_once('(') {
                *calls.entry(name.to_owned()).or_default() += 1;
            }
        }
        Ok(Calls(calls))
    }

    fn count(&self, names: &[&str]) -> usize {
        names.iter().filter_map(|name| self.0.get(*name)).sum()
    }
}

const READS: &[&str] = &["read", "recvfrom", "recvmsg"];
const POLLS: &[&str] = &["poll", "ppoll"];
const EPOLLS: &[&str] = &["epoll_wait", "epoll_pwait", "epoll_pwait2"];
const URINGS: &[&str] = &["io_uring_enter"];

#[test]
fn each_way_to_wait_makes_the_system_calls_of_its_name() {
    if !has_program("strace") {
        return;
    }
    for (wait, own) in [("block", READS), ("poll", POLLS), ("epoll", EPOLLS), ("uring", URINGS)] {
        let calls = match Calls::of(&format!("roundtrip/unix-stream/64/same-cpu/wait={wait}")) {
            Ok(calls) => calls,
            Err(why) => {
                let cause = if wait == "uring" { Cause::Kernel("io_uring") } else { Cause::Rights("ptrace") };
                skipped(cause, why);
                continue;
            }
        };
        let (own_calls, reads) = (calls.count(own), calls.count(READS));
        assert!(own_calls >= 100, "wait={wait}: {:?}", calls.0);
        for other in [POLLS, EPOLLS, URINGS].into_iter().filter(|other| *other != own) {
            assert!(calls.count(other) < own_calls / 10, "wait={wait}: {:?}", calls.0);
        }
        match wait {
            "uring" => assert!(reads < own_calls / 2, "wait={wait}: {:?}", calls.0),
            // One wait before each read.
            "poll" | "epoll" => assert!(own_calls >= reads * 3 / 4, "wait={wait}: {:?}", calls.0),
            _ => {}
        }
    }
}

/// A control group below ours, without a limit at first.
struct Group(PathBuf);

impl Group {
    /// In the version of control groups that can limit CPU time here; `Err` says why there is none.
    fn create() -> Result<Group, String> {
        let name = format!("weighbridge-test-{}", std::process::id());
        let own = text("/proc/self/cgroup");
        let path_in = |is_mine: &dyn Fn(&str) -> bool| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let controllers = parts.next()?;
                is_mine(controllers).then(|| parts.next().unwrap_or("/").trim_start_matches('/').to_owned())
            })
        };
        let v1 = path_in(&|controllers| controllers.split(',').any(|one| one == "cpu"));
        let v2 = path_in(&str::is_empty);
        let folders = [
            v1.map(|path| PathBuf::from("/sys/fs/cgroup/cpu").join(path)),
            v2.map(|path| PathBuf::from("/sys/fs/cgroup").join(path)),
        ];
        for folder in folders.into_iter().flatten() {
            let group = folder.join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Group(group);
            if group.limit(None).is_ok() {
                return Ok(group);
            }
        }
        Err("no control group with a limit on CPU time can be made here".into())
    }

    /// Milliseconds of CPU time in each tenth of a second.
    fn limit(&self, ms: Option<u32>) -> std::io::Result<()> {
        let us = ms.map(|ms| ms * 1000);
        let max = us.map_or("max".into(), |us| us.to_string());
        let quota = us.map_or("-1".into(), |us| us.to_string());
        let write = |file: &str, text: String| {
            let path = self.0.join(file);
            if path.exists() { fs::write(path, text) } else { Err(std::io::ErrorKind::NotFound.into()) }
        };
        write("cpu.max", format!("{max} 100000")).or_else(|_| write("cpu.cfs_quota_us", quota))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        eventually("the end of all in the control group", || fs::remove_dir(&self.0).is_ok());
    }
}

/// The lines that were written so far.
fn lines_of(record: &std::path::Path) -> Vec<Line> {
    weighbridge_record::read_file(record).map_or(Vec::new(), |reading| reading.lines)
}

#[test]
fn a_run_from_which_cpu_time_is_withheld_is_void_and_counted_and_does_not_end_its_case() {
    let group = match Group::create() {
        Ok(group) => group,
        Err(why) => return skipped(Cause::Rights("control groups"), why),
    };
    let folder = folder();
    let record = folder.path().join("r.jsonl");
    let script = format!("echo $$ > '{}' && exec \"$@\"", group.0.join("cgroup.procs").display());
    let words = "roundtrip/pipe/1/same-cpu --runs 40 --precision 0.0001% --budget 300s --out r.jsonl --quiet --html none";
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", PROGRAM, "run"]).args(words.split(' ')).current_dir(folder.path());
    command.env("XDG_STATE_HOME", folder.path().join(STATE)).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = Running::start(&mut command);
    let is_own = |case: &CaseId| case.mechanism == "pipe";
    let is_void = |line: &Line| matches!(line, Line::Skipped(skipped) if skipped.step == "throttled" && is_own(&skipped.case));
    let is_run = |line: &&Line| matches!(line, Line::Run(run) if is_own(&run.case));
    eventually("a run", || lines_of(&record).iter().any(|line| is_run(&line)));
    group.limit(Some(20)).unwrap();
    eventually("a void run", || lines_of(&record).iter().any(is_void));
    group.limit(None).unwrap();
    let after = |lines: &[Line]| lines.iter().skip_while(|line| !is_void(line)).filter(is_run).count();
    eventually("a run after that", || after(&lines_of(&record)) > 0);
    child.signal(Signal::INT).unwrap();
    child.wait();

    let lines = valid_record(&record).lines;
    let void = lines.iter().filter(|line| is_void(line)).count() as u32;
    let own = all!(lines, Summary).into_iter().find(|summary| is_own(&summary.case));
    let Summary { attempts, runs, anomalies, .. } = own.expect("a case with runs");
    let attempts = attempts.as_ref().expect("a session counts them");
    assert_eq!((attempts.failed, attempts.begun), (void, runs + void));
    assert!(anomalies.iter().any(|anomaly| anomaly.contains("gave no number")), "{anomalies:?}");
}

/// Processes below `parent` that run only when nothing else wants to.
fn spinners_of(parent: u32) -> Vec<u32> {
    const SCHED_IDLE: &str = "5";
    // The policy is the 39th field behind the name.
    let policy = |pid: u32| {
        Some(text(format!("/proc/{pid}/stat")).rsplit_once(") ")?.1.split(' ').nth(38)?.to_owned())
    };
    proc::children(parent).into_iter().filter(|pid| policy(*pid).as_deref() == Some(SCHED_IDLE)).collect()
}

#[test]
fn a_spinner_ends_with_the_program_even_when_that_is_killed() {
    let folder = folder();
    let case = "roundtrip/pipe/64/same-cpu/idle=busy";
    let words = format!("run {case} --budget 300s --precision 0.0001% --out r.jsonl --html none");
    let mut child = start(folder.path(), &words);
    let spinners =
        eventually_some("a spinner", || Some(spinners_of(child.pid())).filter(|found| !found.is_empty()));
    child.kill();
    eventually("the end of the spinners", || spinners.iter().all(|pid| has_ended(*pid)));
}
