//! Bisections over kernels that are files: a build makes one of them, and a script in the place of the emulator boots it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_testkit::{TempDir, has_program};
use serde_json::Value;
use weighbridge_guest::port::{self, Answer};
use weighbridge_record::Line;

use crate::emulator::Emulator;
use crate::{Said, folder, said, valid_record, weighbridge};

const CASE: &str = "roundtrip/mock/1/free";
/// Instructions of the good side.
const GOOD: f64 = 10_000.0;
/// Counts differ by no more than a thousandth from boot to boot: one of so many.
const JITTERS: usize = 5;

/// What a kernel does when it is booted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kernel {
    Counts { is_bad: bool },
    DoesNotBoot,
    Hangs,
    DoesNotBuild,
}

/// A repository of kernels, and what boots them.
struct Kernels {
    folder: TempDir,
    emulator: Emulator,
    /// The commits, the good end first.
    commits: Vec<String>,
}

/// Takes the kernel apart: what stands behind its header says what it does. With the plugin it counts by function.
const SCRIPT: &str = r#"here=$(dirname "$0")
while [ $# -gt 0 ]; do case $1 in -kernel) kernel=$2;; -plugin) by=-functions;; esac; shift; done
echo boot >> "$here/boots"
say=$(tail -c +1025 "$kernel")
case $say in
counts*) [ -z "$by" ] || cat "$here/$say.counts" >&6; cat "$here/$say$by" >&4; exec sleep 1000;;
panics) echo 'Kernel panic - not syncing: no way' >&3; exit 0;;
*) exec sleep 1000;;
esac"#;

impl Kernels {
    /// Of these, with a step of this share.
    fn of(kernels: &[Kernel], step: f64) -> Kernels {
        let folder = folder();
        let emulator = Emulator::that(folder.path(), SCRIPT);
        answers(folder.path(), step);
        let commits = repository(&folder.path().join("linux"), kernels);
        Kernels { folder, emulator, commits }
    }

    fn bisect(&self, words: &str) -> Said {
        std::fs::write(self.folder.path().join("emulator/plugin.so"), "").unwrap();
        let build = format!("grep -q fails kernel && exit 1; cat {} kernel > bzImage", self.emulator.kernel);
        let command = weighbridge(self.folder.path())
            .args(["guest", "bisect", "--repository", "linux", "--kernel", "bzImage", "--build", &build])
            .args(["--good", &self.commits[0], "--bad", self.commits.last().unwrap(), "--quiet", CASE])
            .args(words.split_whitespace())
            .env("PATH", &self.emulator.path)
            .env("WEIGHBRIDGE_GUEST_PLUGIN", self.folder.path().join("emulator/plugin.so"));
        Said::by(command)
    }

    fn boots(&self) -> usize {
        let boots = self.folder.path().join("emulator/boots");
        let count = crate::text(&boots).lines().count();
        let _ = std::fs::remove_file(boots);
        count
    }

    /// The repository is on its branch, without changes and without a bisection.
    fn assert_restored(&self) {
        let git = |words: &[&str]| git(&self.folder.path().join("linux"), words);
        assert_eq!(git(&["symbolic-ref", "--short", "HEAD"]), "main");
        assert_eq!(git(&["status", "--porcelain", "--untracked-files=no"]), "");
        assert!(!self.folder.path().join("linux/.git/BISECT_LOG").exists());
    }
}

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A line of commits, each with one kernel.
fn repository(folder: &Path, kernels: &[Kernel]) -> Vec<String> {
    std::fs::create_dir(folder).unwrap();
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    let mut stream = String::new();
    for (index, kernel) in kernels.iter().enumerate() {
        let content = match kernel {
            Kernel::Counts { is_bad } => format!("counts-{is_bad}-{}", index * 7 % JITTERS),
            Kernel::DoesNotBoot => "panics".into(),
            Kernel::Hangs => "hangs".into(),
            Kernel::DoesNotBuild => "fails".into(),
        };
        let message = format!("commit {index}");
        stream += &format!(
            "commit refs/heads/main\nmark :{}\ncommitter A <a@example.invalid> {} +0000\ndata {}\n{message}\n",
            index + 1,
            1_700_000_000 + index,
            message.len()
        );
        if index > 0 {
            stream += &format!("from :{index}\n");
        }
        // Each commit changes something, also where its kernel is that of the one before.
        for (file, text) in [("kernel", content), ("number", index.to_string())] {
            stream += &format!("M 100644 inline {file}\ndata {}\n{text}\n", text.len());
        }
    }
    let mut import = Command::new("git");
    import.arg("-C").arg(folder).args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut import = import.spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    git(folder, &["checkout", "--quiet", "--force", "main"]);
    git(folder, &["rev-list", "--reverse", "main"]).lines().map(str::to_owned).collect()
}

/// What the guests answer: the record of a run of the mock with another median, and with the plugin which functions executed it.
fn answers(folder: &Path, step: f64) {
    said(folder, &format!("run {CASE} --out m.jsonl --html none --quiet --alone --runs 2")).with(0);
    let lines = valid_record(folder.join("m.jsonl")).lines;
    let samples = lines.iter().filter_map(|line| match line {
        Line::Run(run) => Some((run.samples.len(), run.ops_per_sample)),
        _ => None,
    });
    let samples: Vec<(usize, u64)> = samples.collect();
    let write =
        |name: String, bytes: &[u8]| std::fs::write(folder.join("emulator").join(name), bytes).unwrap();
    for (is_bad, jitter) in
        [false, true].into_iter().flat_map(|is_bad| (0..JITTERS).map(move |of| (is_bad, of)))
    {
        let extra = if is_bad { GOOD * step } else { 0.0 };
        let count = (GOOD + extra) * (1.0 + 0.001 * (jitter as f64 / (JITTERS - 1) as f64 - 0.5));
        let mut record = String::new();
        for mut line in lines.clone() {
            if let Line::Summary(summary) = &mut line {
                summary.median = count;
            }
            record += &(serde_json::to_string(&line).unwrap() + "\n");
        }
        let answer = |record: String| {
            [port::up().into_bytes(), port::write(&Answer::Record(record.into_bytes()))].concat()
        };
        let name = format!("counts-{is_bad}-{jitter}");
        write(name.clone(), &answer(record.clone()));
        let symbols = "weighbridge-symbols 1\nfn ffffffff81000000 do_syscall_64\nfn 100 pipe_write\n";
        write(format!("{name}-functions"), &answer(record + symbols));
        let mut counts = String::from("weighbridge-counts 1\n");
        for (windows, ops) in &samples {
            for _ in 0..*windows {
                let own = (count - extra).round();
                counts += &format!(
                    "window\nblock 0 ffffffff81000000 {own} {ops}\nblock 0 ffffffff81000100 {} {ops}\n",
                    100.0 + extra.round()
                );
            }
        }
        write(format!("{name}.counts"), (counts + "end\n").as_bytes());
    }
}

/// So many kernels, of which this is the first bad one.
fn line(count: usize, first_bad: usize) -> Vec<Kernel> {
    (0..count).map(|index| Kernel::Counts { is_bad: index >= first_bad }).collect()
}

fn found(said: &Said) -> (Option<String>, Vec<String>) {
    let document: Value = said.json();
    let names = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|of| of.as_str().unwrap().to_owned()).collect()
    };
    (document["first_bad"].as_str().map(str::to_owned), names(&document["one_of"]))
}

#[test]
fn a_step_of_half_a_per_cent_is_found_in_a_thousand_commits_with_fourteen_boots_and_its_function_is_named() {
    if !has_program("git") {
        return;
    }
    const COMMITS: usize = 1025;
    for seed in 0..6 {
        let first_bad = 1 + (seed * 397 + 211) % (COMMITS - 1);
        let kernels = Kernels::of(&line(COMMITS, first_bad), 0.005);
        let said = kernels.bisect("--format json").with(0);
        let (commit, _) = found(&said);
        assert_eq!(commit.as_ref(), Some(&kernels.commits[first_bad]), "seed {seed}: {}", said.stderr);
        let boots = kernels.boots();
        assert!(boots <= 14, "seed {seed}: {boots} boots");
        let document = said.json();
        assert_eq!(document["functions"][0]["function"], "pipe_write", "{document}");
        assert_eq!(document["boots"], boots);
        kernels.assert_restored();
    }
}

#[test]
fn commits_that_do_not_build_or_boot_or_hang_are_skipped_with_their_reason_or_named_where_they_hide_it() {
    if !has_program("git") {
        return;
    }
    for first_bad in [3, 6, 8, 9, 13] {
        let mut all = line(17, first_bad);
        // The middle, which is always tried, and neighbors of it.
        for (at, kernel) in [
            (8, Kernel::DoesNotBoot),
            (4, Kernel::Hangs),
            (12, Kernel::DoesNotBoot),
            (10, Kernel::DoesNotBuild),
        ] {
            all[at] = kernel;
        }
        let kernels = Kernels::of(&all, 0.005);
        let said = kernels.bisect("--format json --timeout 5s");
        let (commit, one_of) = found(&said);
        match commit {
            Some(commit) => {
                assert_eq!((&commit, said.code), (&kernels.commits[first_bad], Some(0)), "{}", said.stdout)
            }
            None => {
                assert!(one_of.contains(&kernels.commits[first_bad]), "{first_bad}: {}", said.stdout);
                assert_eq!(said.code, Some(4), "{}", said.stdout);
                let count = |is: fn(&Kernel) -> bool| {
                    let at = |commit: &String| kernels.commits.iter().position(|of| of == commit).unwrap();
                    one_of.iter().filter(|commit| is(&all[at(commit)])).count()
                };
                assert_eq!(
                    count(|of| matches!(of, Kernel::Counts { .. })),
                    1,
                    "all but the last were skipped"
                );
            }
        }
        let document = said.json();
        let skipped = document["skipped"].as_array().unwrap();
        assert!(skipped.iter().any(|of| of["commit"] == kernels.commits[8].as_str()), "{document}");
        let why = skipped.iter().map(|of| of["why"].as_str().unwrap()).collect::<Vec<_>>().join("\n");
        assert!(why.contains("the kernel panicked: no way"), "{why}");
        kernels.assert_restored();
    }
}

#[test]
fn ends_that_do_not_differ_or_do_not_boot_name_no_commit() {
    if !has_program("git") {
        return;
    }
    let alike = Kernels::of(&line(9, 99), 0.005);
    let said = alike.bisect("").with(4);
    assert!(said.stdout.contains("the ends do not differ by more than --margin"), "{}", said.stdout);
    assert_eq!(alike.boots(), 2);
    alike.assert_restored();
    let mut all = line(9, 4);
    all[8] = Kernel::DoesNotBoot;
    let broken = Kernels::of(&all, 0.005);
    let said = broken.bisect("").with(3);
    assert!(said.stderr.contains("the bad end") && said.stderr.contains("panic"), "{}", said.stderr);
    broken.assert_restored();
}

#[test]
fn a_repository_with_changes_and_ends_in_the_wrong_order_are_refused() {
    if !has_program("git") {
        return;
    }
    let kernels = Kernels::of(&line(5, 2), 0.005);
    let linux: PathBuf = kernels.folder.path().join("linux");
    std::fs::write(linux.join("number"), "changed").unwrap();
    let said = kernels.bisect("").with(2);
    assert!(said.stderr.contains("has changes that are not committed"), "{}", said.stderr);
    git(&linux, &["checkout", "--quiet", "number"]);
    let commits = &kernels.commits;
    let words = format!(
        "guest bisect --repository linux --build true --good {} --bad {} {CASE}",
        commits[3], commits[1]
    );
    let refused = Said::by(
        weighbridge(kernels.folder.path()).args(words.split(' ')).env("PATH", &kernels.emulator.path),
    )
    .with(2);
    assert!(refused.stderr.contains("must be an ancestor"), "{}", refused.stderr);
}

#[test]
fn a_noisy_search_asks_for_commits_and_names_the_one_that_changed_it() {
    if !has_program("git") {
        return;
    }
    let folder = folder();
    let commits = repository(&folder.path().join("linux"), &line(65, 40));
    let words = format!("--repository linux --good {} --bad {} --noise 1%", commits[0], commits[64]);
    said(folder.path(), &format!("bisect start s.json {words}")).with(0);
    said(folder.path(), &format!("bisect start s.json {words}")).with(2);
    let mut random = weighbridge_stats::random::Random::new(5);
    let mut told = 0;
    let answer = loop {
        let next = said(folder.path(), "bisect next s.json");
        if next.code != Some(0) {
            break next;
        }
        let commit = next.stdout.trim();
        let at = commits.iter().position(|of| of == commit).unwrap();
        // One commit does not build.
        if at == 32 {
            said(folder.path(), &format!("bisect tell s.json {commit} --skip")).with(0);
            continue;
        }
        let value = 100.0 * (0.01 * random.normal()).exp() * if at >= 40 { 1.05 } else { 1.0 };
        said(folder.path(), &format!("bisect tell s.json {} --value {value}", &commit[..12])).with(0);
        told += 1;
        assert!(told < 200, "no end");
    };
    let answer = answer.with(1);
    assert!(answer.stdout.contains(&format!("first bad commit: {}", commits[40])), "{}", answer.stdout);
    let document = said(folder.path(), "bisect next s.json --format json").with(1).json();
    assert_eq!(document["measurements"], told);
    let wrong = said(folder.path(), "bisect tell s.json ffffffffffff --value 1").with(2).stderr;
    assert!(wrong.contains("none of the commits of this search"), "{wrong}");
    let nothing = said(folder.path(), &format!("bisect tell s.json {}", commits[1])).with(2).stderr;
    assert!(nothing.contains("nothing is told"), "{nothing}");
    let state = crate::text(folder.path().join("s.json")).replace("\"schema\": 1", "\"schema\": 8");
    std::fs::write(folder.path().join("s.json"), state).unwrap();
    let newer = said(folder.path(), "bisect next s.json").with(2).stderr;
    assert!(newer.contains("schema 8, and this weighbridge reads schemas up to 1"), "{newer}");
}
