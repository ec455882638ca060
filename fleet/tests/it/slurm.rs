//! A real Slurm with several nodes on this machine, without root services (acceptance 1 and 2).
//!
//! `FLEET_SLURM` names the folder where Debian's packages slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins and the libraries that
//! they need are unpacked (`apt-get download … && dpkg-deb -x … FOLDER`); `/` where they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, Running, TempDir, eventually_some, skipped, temp_dir};
use serde_json::Value;

use crate::push::{ends_with, said, text};
use crate::support::programs::{Boot, both, path_with, plan, python_has, record_in};
use crate::support::servers::free_port;

struct Slurm {
    root: PathBuf,
    folder: TempDir,
    bin: PathBuf,
    _daemons: Vec<Running>,
}

const NODES: usize = 8;

impl Slurm {
    fn start() -> Option<Slurm> {
        let root = std::env::var_os("FLEET_SLURM").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        if !root.join("usr/sbin/slurmctld-wlm").is_file() {
            skipped(
                Cause::Missing("slurm"),
                "Debian's packages are neither installed nor unpacked in FLEET_SLURM",
            );
            return None;
        }
        let folder = temp_dir("slurm");
        let bin = both(folder.path())?;
        let host = text(&Command::new("uname").arg("-n").output().unwrap().stdout).trim().to_owned();
        let user = text(&Command::new("id").arg("-un").output().unwrap().stdout).trim().to_owned();
        let cpus = std::thread::available_parallelism().unwrap();
        let node = |index: usize| {
            fs::create_dir_all(folder.path().join(format!("spool-n{index}"))).unwrap();
            let port = free_port();
            format!(
                "NodeName=n{index} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN\n"
            )
        };
        let nodes: String = (1..=NODES).map(node).collect();
        fs::create_dir(folder.path().join("state")).unwrap();
        let control = free_port().to_string();
        let dir = folder.path().display().to_string();
        let values = [
            ("@ROOT@", root.to_str().unwrap().trim_end_matches('/')),
            ("@DIR@", &dir),
            ("@USER@", &user),
            ("@HOST@", &host),
            ("@CONTROL@", &control),
            ("@NODES@", &nodes),
        ];
        let configuration =
            values.iter().fold(include_str!("../data/slurm.conf").to_owned(), |text, (name, value)| {
                text.replace(name, value)
            });
        fs::write(folder.path().join("slurm.conf"), configuration).unwrap();
        let mut slurm = Slurm { root, folder, bin, _daemons: Vec::new() };
        let daemon = |words: &[&str]| {
            let mut command = slurm.command(&format!("sbin/{}", words[0]));
            command.args(["-D", "-f"]).arg(slurm.folder.path().join("slurm.conf")).args(&words[1..]);
            Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
        };
        let stepd = slurm.root.join("usr/sbin/slurmstepd-wlm");
        let mut daemons = vec![daemon(&["slurmctld-wlm"])];
        daemons.extend(
            (1..=NODES).map(|index| {
                daemon(&["slurmd-wlm", "-d", stepd.to_str().unwrap(), "-N", &format!("n{index}")])
            }),
        );
        slurm._daemons = daemons;
        slurm.wait("idle nodes", &["sinfo", "-h", "-t", "idle", "-p", "low", "-o", "%D"], |said| {
            (said.trim() == NODES.to_string()).then_some(())
        });
        Some(slurm)
    }

    fn command(&self, name: &str) -> Command {
        self.with_variables(Command::new(self.root.join("usr").join(name)))
    }

    fn with_variables(&self, mut command: Command) -> Command {
        let libraries = self.root.join("usr/lib/x86_64-linux-gnu");
        if self.root != Path::new("/") {
            command
                .env("LD_LIBRARY_PATH", format!("{}:{}/slurm-wlm", libraries.display(), libraries.display()));
        }
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf")).env("PATH", path_with(&self.bin));
        command
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = self.command(&format!("bin/{}", words[0])).args(&words[1..]).output().unwrap();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    }

    fn wait<T>(&self, what: &str, words: &[&str], mut look: impl FnMut(&str) -> Option<T>) -> T {
        eventually_some(what, || look(&self.ask(words)))
    }

    /// Submits a script, and says which job it is.
    fn submit(&self, words: &[&str], script: &Path, exports: &[(&str, &Path)]) -> String {
        let exports: String =
            exports.iter().map(|(name, value)| format!(",{name}={}", value.display())).collect();
        let output = self.folder.path().join("job-%j.out");
        let mut command = self.command("bin/sbatch");
        command
            .arg("--parsable")
            .arg(format!("--export=ALL{exports}"))
            .arg("-o")
            .arg(output)
            .args(words)
            .arg(script);
        let output = command.current_dir(self.folder.path()).output().unwrap();
        ends_with(&output, 0);
        text(&output.stdout).trim().to_owned()
    }

    /// Until none of them is there any more.
    fn ended(&self, job: &str) {
        self.wait("the job ends", &["squeue", "-h", "-j", job], |said| {
            (said.trim().is_empty() || said.contains("Invalid job")).then_some(())
        });
    }

    fn outputs(&self) -> String {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let outputs = files.filter(|path| path.extension().is_some_and(|end| end == "out"));
        outputs.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }

    /// The starter as it is printed, changed where a test has to.
    fn starter(&self, change: impl Fn(&str) -> String) -> PathBuf {
        let file = self.folder.path().join("starter.sh");
        fs::write(&file, change(&said(0, "examples", "slurm".as_ref(), &[]))).unwrap();
        file
    }
}

fn rows(store: &Path, query: &str) -> Vec<Value> {
    let answer = said(0, "sql", store, &[query, "--format", "json"]);
    answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_array_of_eight_nodes_gives_a_row_or_a_reason_for_every_case_and_measures_where_it_may() {
    let Some(slurm) = Slurm::start() else { return };
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        return skipped(Cause::Hardware("two CPUs"), "");
    }
    let folder = slurm.folder.path();
    let plan = plan(folder, &["roundtrip/mock/{1,64}/{same-cpu,two-cpus}"]);
    // As it is: whole nodes. And tasks of one CPU each, for which there is no placement on two.
    type Change = fn(&str) -> String;
    let kinds: [(&str, Change, usize); 2] = [
        ("whole", |text| text.to_owned(), cpus),
        ("one-cpu", |text| text.replace("#SBATCH --exclusive\n", "").replace("-lt 5", "-lt 0"), 1),
    ];
    for (kind, change, allowed) in kinds {
        let store = folder.join(format!("store-{kind}"));
        let spool = folder.join(format!("spool-{kind}"));
        // The nodes of a test share a file system; those of a fleet need not.
        let script =
            slurm.starter(|text| change(text).replace("mkdir -p", "SPOOL=$SPOOL/$SLURMD_NODENAME\nmkdir -p"));
        let job = slurm.submit(&[], &script, &[("PLAN", &plan), ("STORE", &store), ("SPOOL", &spool)]);
        slurm.ended(&job);
        let all = rows(
            &store,
            "SELECT machine, outcome, placement, why, allowed_cpus, scheduler, job_id FROM results ORDER BY machine, case_id",
        );
        let machines: std::collections::BTreeSet<&str> =
            all.iter().map(|row| row["machine"].as_str().unwrap()).collect();
        assert!(
            !machines.is_empty() && machines.iter().all(|name| name.starts_with('n')),
            "{}",
            slurm.outputs()
        );
        if kind == "whole" {
            assert_eq!(machines.len(), NODES, "{}", slurm.outputs());
            let counts = rows(
                &store,
                "SELECT machine, attempt, outcome, min(why) AS why, count(*) AS n FROM results GROUP BY 1, 2, 3 ORDER BY 1, 2",
            );
            assert_eq!(all.len(), 4 * NODES, "{counts:#?}\n{}", slurm.outputs());
        }
        for row in &all {
            let list = row["allowed_cpus"].as_str().unwrap();
            let count: usize = list
                .split(',')
                .map(|part| {
                    part.split_once('-')
                        .map_or(1, |(a, b)| b.parse::<usize>().unwrap() - a.parse::<usize>().unwrap() + 1)
                })
                .sum();
            assert_eq!(count, allowed, "{row}");
            assert_eq!(row["scheduler"], "slurm", "{row}");
            assert!(row["job_id"].as_str().unwrap().starts_with(&job), "{row}");
            let is_skipped = allowed == 1 && row["placement"] == "two-cpus";
            assert_eq!(row["outcome"], if is_skipped { "skipped" } else { "measured" }, "{row}");
            assert_eq!(row["why"].is_string(), is_skipped, "{row}");
        }
        // They were all on this machine at once, whatever they are called.
        let report: Value = serde_json::from_str(&said(0, "report", &store, &["--format", "json"])).unwrap();
        assert_eq!(report["coverage"]["machines"].as_u64().unwrap() as usize, machines.len());
        if kind == "whole" {
            let beside = &report["interference"];
            assert_eq!(beside["machines"], 1, "{beside:#}");
            assert!(beside["sessions"].as_u64() >= Some(2), "{beside:#}");
        }
    }
}

/// What a job left that was preempted after its first case, and started once more: rows of the store, and what the job said.
fn preempted(
    slurm: &Slurm,
    starter: impl Fn(&str) -> String,
    exports: &[(&str, &Path)],
) -> (Vec<Value>, String) {
    let folder = slurm.folder.path();
    let words = "roundtrip/mock/1/same-cpu roundtrip/pipe/{1,64,512}/same-cpu --precision 0.1% --budget 30s";
    let plan = plan(folder, &words.split(' ').collect::<Vec<_>>());
    let (store, spool) = (folder.join("store"), folder.join("spool"));
    let script = slurm.starter(|text| starter(&text.replace("--array=1-8", "--array=1-1")));
    let mut all = vec![("PLAN", &*plan), ("STORE", &*store), ("SPOOL", &*spool)];
    all.extend(exports);
    let job = slurm.submit(&["-p", "low", "-w", "n1"], &script, &all);
    // The first case is finished and the second has begun.
    eventually_some("the first case of the first attempt", || {
        let text = record_in(&spool)?;
        (text.contains("\"outcome\":\"measured\"")
            && text.contains("\"kind\":\"run\",\"case\":\"roundtrip/pipe"))
        .then_some(())
    });
    let urgent = folder.join("urgent.sh");
    fs::write(&urgent, "#!/bin/sh\ntrue\n").unwrap();
    let high = slurm.submit(&["-p", "high", "-w", "n1", "--exclusive"], &urgent, &[]);
    slurm.ended(&high);
    // The same job waits; the scheduler would let it for two minutes.
    let states = ["squeue", "-h", "-j", &job, "-o", "%T %A"];
    let waiting = slurm.wait("the job is queued again", &states, |said| {
        said.contains("PENDING").then(|| said.split_whitespace().last().unwrap().to_owned())
    });
    slurm.ask(&["scontrol", "update", &format!("JobId={waiting}"), "StartTime=now"]);
    slurm.ended(&job);
    let query = "SELECT attempt, restarts, boot_id, case_id, outcome, complete FROM results ORDER BY restarts, case_id";
    let all = rows(&store, query);
    let told = format!("{all:#?}\n{}", slurm.outputs());
    (all, told)
}

/// Cases with this outcome of the job as it was started for the first time (no restarts) or later.
fn cases(rows: &[Value], restarts: Option<u64>, outcome: &str) -> Vec<String> {
    let is_of = |row: &&Value| row["restarts"].as_u64() == restarts && row["outcome"] == outcome;
    rows.iter().filter(is_of).map(|row| row["case_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_job_that_is_preempted_goes_on_where_it_was() {
    let Some(slurm) = Slurm::start() else { return };
    let (all, told) = preempted(&slurm, str::to_owned, &[]);
    let (before, after) = (cases(&all, None, "measured"), cases(&all, Some(1), "measured"));
    assert!(before.contains(&"roundtrip/mock/1/same-cpu".to_owned()), "{told}");
    let interrupted = cases(&all, None, "interrupted");
    assert!(!interrupted.is_empty() && interrupted.iter().all(|case| after.contains(case)), "{told}");
    assert!(before.iter().all(|case| !after.contains(case)), "{told}");
    assert!(all.iter().all(|row| row["attempt"] == u64::from(row["restarts"] == 1)), "{told}");
}

#[test]
fn a_job_whose_node_was_booted_meanwhile_measures_everything_again() {
    let Some(slurm) = Slurm::start() else { return };
    let folder = slurm.folder.path();
    let Some(Boot::Another(id)) = Boot::another(folder) else { return };
    let script = "#!/bin/sh\n[ \"${SLURM_RESTART_COUNT:-0}\" = 0 ] && exec \"$@\"\n\
                  exec unshare --mount sh -c 'mount --bind \"$BOOT\" /proc/sys/kernel/random/boot_id && exec \"$@\"' sh \"$@\"\n";
    let wrapper = folder.join("booted.sh");
    fs::write(&wrapper, script).unwrap();
    let (all, told) = preempted(
        &slurm,
        |text| text.replace("weighbridge run", "sh \"$BOOTED\" weighbridge run"),
        &[("BOOTED", &wrapper), ("BOOT", &id)],
    );
    let (before, after) = (cases(&all, None, "measured"), cases(&all, Some(1), "measured"));
    assert!(!before.is_empty() && !cases(&all, None, "interrupted").is_empty(), "{told}");
    assert_eq!(after.len(), 4, "{told}");
    // The first attempt in that boot.
    assert!(all.iter().all(|row| row["attempt"] == 0), "{told}");
    let boots: std::collections::BTreeSet<&str> =
        all.iter().map(|row| row["boot_id"].as_str().unwrap()).collect();
    assert_eq!(boots.len(), 2, "{told}");
}

/// The walk-through of the page as a script: what stands behind prompts, with the port and the extension that there are.
fn walk_through(port: u16, extension: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet.md")).unwrap();
    let part = page.split_once("## From beginning to end").unwrap().1.split("\n## ").next().unwrap();
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n");
    let mut in_python = false;
    for line in part.split("```text\n").skip(1).flat_map(|block| block.split("```").next().unwrap().lines()) {
        let python = line.strip_prefix(">>> ").or_else(|| line.strip_prefix("...  "));
        if in_python && python.is_none() {
            script.push_str("END_OF_PYTHON\n");
            in_python = false;
        }
        let shell = line.strip_prefix("$ ").or_else(|| line.strip_prefix("> "));
        match (python, shell) {
            (Some(python), _) if python.ends_with(".fetchall()") => script += &format!("print({python})\n"),
            (Some(python), _) => script += &format!("{python}\n"),
            (_, Some("python3")) => {
                script += "python3 - <<'END_OF_PYTHON'\n";
                in_python = true;
            }
            (_, Some(shell)) => script += &format!("{shell}\n"),
            _ => panic!("{line} is behind no prompt"),
        }
    }
    assert!(!in_python, "Python comes to no end");
    script.replace("5055", &port.to_string()).replace("…/httpfs.duckdb_extension", extension)
}

#[test]
fn the_walk_through_of_the_page_works_from_its_beginning_to_its_end() {
    if !["python:moto.server", "python:duckdb", "python:duckdb_extension_httpfs"].into_iter().all(python_has)
    {
        return;
    }
    let find = "import duckdb_extension_httpfs, pathlib; \
                print(*pathlib.Path(duckdb_extension_httpfs.__file__).parent.rglob('httpfs.duckdb_extension'))";
    let found = Command::new("python3").args(["-c", find]).output().unwrap();
    let Some(slurm) = Slurm::start() else { return };
    let script = walk_through(free_port(), text(&found.stdout).trim());
    let mut command = slurm.with_variables(Command::new("bash"));
    let path = format!("{}:{}", path_with(&slurm.bin), slurm.root.join("usr/bin").display());
    let folder = slurm.folder.path().join("walk");
    fs::create_dir(&folder).unwrap();
    let output = command.args(["-c", &script]).env("PATH", path).current_dir(&folder).output().unwrap();
    let said = ends_with(&output, 0);
    let jobs = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let jobs: Vec<_> = jobs.filter(|path| path.extension().is_some_and(|end| end == "out")).collect();
    assert_eq!(jobs.len(), 12, "{said}");
    for case in ["roundtrip/pipe/1/same-cpu", "roundtrip/pipe/64/same-cpu"] {
        assert!(said.contains(&format!("('{case}', 6, ")), "{said}");
    }
    let page = fs::read_to_string(folder.join("fleet.html")).unwrap();
    assert!(page.contains("6 machines, 6 boots, 12 sessions"), "{said}");
}
