//! `weighbridge compare`: verdicts whose truth is known, through `mock`, and the form of what real peers give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use causeway_testkit::{Cause, eventually_seen, has_program, skipped};
use weighbridge_record::{CaseVerdict, Line, Price, Writer};

use crate::{PROGRAM, Said, all, files, folder, said, script, shown, start, store, valid_record};

const MOCK: &str = "roundtrip/mock/1/free";
const QUIET: &str = "--quiet --html none --seed=7";

fn compare(folder: &Path, words: &str) -> Said {
    said(folder, &format!("compare {words}"))
}

fn mock(folder: &Path, b: &str, more: &str) -> Said {
    compare(folder, &format!("--a latency-ns=100000 --b {b} {MOCK} --runs 10..40 {QUIET} {more}"))
}

#[test]
fn an_injected_ratio_is_found_with_its_sign_and_equal_sides_are_equivalent() {
    let folder = folder();
    for (b, code, verdict, ratio) in [
        ("latency-ns=130000", 1, "regressed", 1.3),
        ("latency-ns=80000", 0, "improved", 0.8),
        ("latency-ns=100000", 0, "equivalent", 1.0),
        ("latency-ns=101000", 0, "equivalent", 1.01),
    ] {
        let document = mock(folder.path(), b, "--format json").with(code).json();
        let case = &document["cases"][0];
        assert_eq!(case["verdict"], verdict, "{b}: {case}");
        assert!((case["ratio"].as_f64().unwrap() - ratio).abs() < 1e-6, "{case}");
        assert_eq!(case["sets"], 10, "a clear case ends at its first look");
        assert_eq!((&document["margin"], &document["control"]["has_moved"]), (&0.02.into(), &false.into()));
    }
}

#[test]
fn every_number_of_a_comparison_is_in_its_record_and_the_page_has_it() {
    let folder = folder();
    let words = format!("--b latency-ns=1300 {MOCK} --runs 10..10 --out c.jsonl");
    let table = compare(folder.path(), &words).with(1).stdout;
    assert!(table.contains("regressed beyond 2.0 %") && table.contains("1.3000"), "{table}");
    assert_eq!(files(folder.path()), ["c.html", "c.jsonl"]);
    let lines = valid_record(folder.path().join("c.jsonl")).lines;
    let sets = all!(lines, ComparedSet);
    assert_eq!((sets.len(), sets.iter().filter(|set| set.control.is_some()).count()), (10, 10));
    assert!(all!(lines, Verdict).iter().any(|of| of.verdict == "regressed"));
    assert!(all!(lines, Claims).iter().any(|of| of.claimed == 1));
    assert!(shown(folder.path(), "report c.jsonl").contains("regressed beyond 2.0 %"));
    let page = std::fs::read_to_string(folder.path().join("c.html")).unwrap();
    assert!(page.contains("Cost of B over cost of A") && page.contains("regressed beyond"));
}

#[test]
fn a_ci_server_reads_a_regression_as_a_failed_test() {
    let folder = folder();
    let junit = mock(folder.path(), "latency-ns=130000", "--format junit").with(1).stdout;
    assert!(junit.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{junit}");
    assert!(junit.contains("<failure message=\"regressed beyond 2.0 %: cost B/A 1.3000"), "{junit}");
    let markdown = mock(folder.path(), "latency-ns=100000", "--format markdown").stdout;
    let words = "| equivalent within 2.0 %, but up to 25.9 % of B's starts may be slow |";
    assert!(markdown.contains(words), "{markdown}");
}

/// The verdict of a comparison that knows what a system call costs in a place.
fn verdict_with_price(folder: &Path, place: &str, words: &str) -> CaseVerdict {
    shown(folder, &format!("explain --only cost {MOCK} --runs 6 --html none --quiet --out e.jsonl"));
    let price = Price {
        name: "system calls".into(),
        of: None,
        place: place.into(),
        about: "a trivial one".into(),
        ns: 100.0,
        ci95: None,
        fitted_from: Vec::new(),
    };
    let mut writer = Writer::create(&folder.join("prices.jsonl")).unwrap();
    let lines = valid_record(folder.join("e.jsonl")).lines;
    lines.into_iter().chain([Line::Price(price)]).for_each(|line| writer.write(&line).unwrap());
    let said = compare(folder, &format!("{words} --runs 10..10 --prices prices.jsonl --out c.jsonl {QUIET}"));
    assert_ne!(said.code, Some(2), "{}", said.stderr);
    all!(valid_record(folder.join("c.jsonl")).lines, Verdict)[0].as_ref().clone()
}

/// A poll before each read is one call more.
#[test]
fn a_difference_has_the_prices_of_idle_busy_and_a_place_without_prices_is_said() {
    let of_mock = format!("--b latency-ns=1300 {MOCK}");
    let remarks = |place| verdict_with_price(folder().path(), place, &of_mock).remarks.join("; ");
    let (elsewhere, here) = (remarks("two-cpus"), remarks("free"));
    assert!(elsewhere.contains("none of free, but those of two-cpus"), "{elsewhere}");
    assert!(!here.contains("no part of the difference is named"), "{here}");
    let of_pipe = "--a wait=block --b wait=poll roundtrip/pipe/1/free";
    let found = verdict_with_price(folder().path(), "free/idle=busy", of_pipe);
    if found.a_system_calls.is_none() {
        return skipped(Cause::Rights("ptrace"), format!("{:?}", found.remarks));
    }
    let [part] = &found.made_of[..] else { panic!("{found:?}") };
    assert!(part.name == "system calls" && part.b_count > part.a_count && part.ns > 50.0, "{part:?}");
}

/// How they compare is the machine's business; that the answer has its form and its exit code is ours.
#[test]
fn real_peers_take_turns_and_the_exit_code_follows_from_the_verdict() {
    let folder = folder();
    let case = "roundtrip/pipe/1/same-cpu";
    let words =
        format!("--a wait=block --b wait=poll {case} --runs 10..10 {QUIET} --format json --out r.jsonl");
    let said = compare(folder.path(), &words);
    if said.code == Some(2) && said.stderr.contains("needs to pin") {
        return skipped(Cause::Rights("pinning"), "");
    }
    let document = said.json();
    let case = &document["cases"][0];
    assert_eq!(case["case"], "roundtrip/pipe/1/same-cpu");
    assert_eq!((&case["a"], &case["b"]), (&"wait=block".into(), &"wait=poll".into()));
    assert_eq!((case["sets"].as_u64(), case["ci95"].as_array().map(Vec::len)), (Some(10), Some(2)), "{case}");
    assert!(case["ratio"].as_f64().unwrap() > 0.0 && document["resolution"].as_f64().unwrap() >= 0.0);
    assert_eq!(document["control"]["cases"][0]["control"]["pairs"], 10);
    let code = match case["verdict"].as_str().unwrap() {
        "regressed" | "changed shape" => 1,
        "void" => 4,
        "improved" | "equivalent" | "inconclusive" => 0,
        other => panic!("{other}"),
    };
    assert_eq!(said.code, Some(code), "{case}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert_eq!(all!(lines, ComparedSet).iter().filter(|set| set.b.slices.is_some()).count(), 10);
    // The next comparison can say what this machine resolves.
    let kept = std::fs::read_to_string(store(folder.path()).join("resolution.json")).unwrap();
    assert!(kept.contains("same-cpu"), "{kept}");
}

#[test]
fn another_program_is_asked_before_its_peers_are_started() {
    let folder = folder();
    let words = format!("--a {PROGRAM} --b {PROGRAM} {MOCK} --runs 10..10 --format json {QUIET}");
    assert_eq!(compare(folder.path(), &words).with(0).json()["cases"][0]["verdict"], "equivalent");
    for (program, why) in [("/bin/true", "is not a weighbridge"), ("/etc/passwd", "cannot be started")] {
        let stderr = compare(folder.path(), &format!("--b {program} {MOCK}")).refuses(why).stderr;
        assert!(stderr.starts_with(&format!("error: --b {program}: ")), "{stderr}");
    }
}

/// Builds that are told apart by their bytes: this one, started by a script.
fn builds(folder: &Path, name: &str, count: usize) -> Vec<String> {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    for build in 0..count {
        script(&folder.join(build.to_string()), &format!("# {name} {build}\nexec {PROGRAM} \"$@\""));
    }
    std::fs::write(folder.join("notes"), "no program").unwrap();
    (0..count).map(|build| folder.join(build.to_string()).display().to_string()).collect()
}

#[test]
fn builds_of_a_side_take_turns_and_each_set_names_those_that_it_was_started_from() {
    let folder = folder();
    let of_b = builds(folder.path(), "new", 4);
    builds(folder.path(), "old", 4);
    let words = format!("--a old --b new {MOCK} --runs 12..12 --out c.jsonl {QUIET}");
    let table = compare(folder.path(), &words).with(0).stdout;
    assert!(table.contains("A has 4 builds, B has 4 builds"), "{table}");
    assert!(!table.contains("layout of code not varied"), "{table}");
    let lines = valid_record(folder.path().join("c.jsonl")).lines;
    let sets = all!(lines, ComparedSet);
    for side in [0, 1] {
        let mut counts = BTreeMap::<&str, usize>::new();
        for set in &sets {
            let of = if side == 0 { &set.a } else { &set.b };
            *counts.entry(of.build.as_deref().unwrap()).or_default() += 1;
        }
        assert_eq!(counts.values().collect::<Vec<_>>(), [&3; 4], "{counts:?}");
    }
    assert!(sets.iter().all(|set| set.control.as_ref().is_none_or(|control| control.build == set.a.build)));
    let named = &all!(lines, Header)[0].settings["b-builds"];
    assert!(of_b.iter().all(|path| named.contains(path.as_str())), "{named}");
    assert!(sets.iter().all(|set| named.contains(set.b.build.as_deref().unwrap())), "{named}");
    assert!(all!(lines, Verdict).iter().all(|of| of.builds == Some([4, 4])));
}

#[test]
fn one_build_of_each_side_is_said_to_leave_the_layout_of_code_open() {
    let folder = folder();
    builds(folder.path(), "old", 1);
    let table = compare(folder.path(), &format!("--a old/0 {MOCK} --runs 10..10 {QUIET}")).with(0).stdout;
    // Wherever lines break.
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("layout of code not varied") && words.contains("dist/relink"), "{table}");
    let same = compare(folder.path(), &format!("--a {PROGRAM} {MOCK} --runs 10..10 {QUIET}")).with(0).stdout;
    assert!(!same.contains("layout of code"), "one program is one layout: {same}");
}

#[test]
fn builds_that_make_no_side_are_refused() {
    let folder = folder();
    let own = std::process::Command::new(PROGRAM).arg("__protocol").output().unwrap();
    let mut other: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    other["commit"] = "another".into();
    for (name, count) in [("two", 2), ("four", 4), ("five", 5), ("mixed", 4)] {
        builds(folder.path(), name, count);
    }
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    script(&folder.path().join("mixed/9"), &format!("echo '{other}'"));
    for (words, why) in [
        ("--a two", "2 builds of a side say nothing of the next one"),
        ("--a four --b five", "side A has 4 builds and B has 5"),
        ("--a four --a four/0", "is the same build as another one of this side"),
        ("--a mixed", "the builds of a side are of one source"),
        ("--a empty", "there is no program in this folder"),
    ] {
        compare(folder.path(), &format!("{words} {MOCK}")).refuses(why);
    }
}

/// `dist/relink` as the linker, of a program that prints where two of its functions lie.
#[test]
fn relinked_programs_do_the_same_in_another_layout() {
    let folder = folder();
    let source = "#[inline(never)] fn one() -> u32 { 1 }\n#[inline(never)] fn two() -> u32 { 2 }\n\
                  fn main() { println!(\"{}\", (two as fn() -> u32 as isize).wrapping_sub(one as fn() -> u32 as isize)); \
                  std::process::exit((one() + two()) as i32) }\n";
    std::fs::write(folder.path().join("layout.rs"), source).unwrap();
    let to = folder.path().join("relinked");
    std::fs::create_dir(&to).unwrap();
    let linker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/relink");
    if !has_program("rustc") {
        return;
    }
    let built = std::process::Command::new("rustc")
        .args(["layout.rs", "-C", &format!("linker={}", linker.display())])
        .envs([("RELINK_SEEDS", "6"), ("RELINK_PACKAGE", "layout")])
        .env("RELINK_FOLDER", &to)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&built.stderr);
    if stderr.contains("install lld") {
        return skipped(Cause::Missing("ld.lld"), "");
    }
    assert!(built.status.success(), "{stderr}");
    assert_eq!(files(&to), ["1", "2", "3", "4", "5", "6"]);
    let run = |path: &Path| {
        let ran = std::process::Command::new(path).output().unwrap();
        assert_eq!(ran.status.code(), Some(3), "{}", path.display());
        String::from_utf8(ran.stdout).unwrap()
    };
    let plain = run(&folder.path().join("layout"));
    let distances: BTreeSet<String> = files(&to).iter().map(|name| run(&to.join(name))).collect();
    assert!(distances.len() > 2, "the functions lie where they lay: {plain} {distances:?}");
}

/// A build with other words between coordinator and peers.
#[test]
fn a_program_with_another_protocol_is_refused_in_one_sentence() {
    let folder = folder();
    let own = std::process::Command::new(PROGRAM).arg("__protocol").output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&own).unwrap();
    other["protocol"] = 999.into();
    let other = other.to_string();
    assert_ne!(other, own.trim(), "{own}");
    for (name, answer, why) in [
        ("newer", other, "with protocol 999"),
        ("foreign", own.trim().replace(std::env::consts::ARCH, "vax"), "built for vax"),
    ] {
        script(&folder.path().join(name), &format!("echo '{answer}'"));
        compare(folder.path(), &format!("--b ./{name} {MOCK}")).refuses(why);
    }
}

#[test]
fn mistakes_are_one_sentence() {
    let folder = folder();
    for (words, why) in [
        ("roundtrip/mock/1/free", "nothing says what to compare"),
        ("--b depth-x=4 roundtrip/mock/1/free", "no axis `depth-x`"),
        ("--b wait=sleep roundtrip/mock/1/free", "side B (wait=sleep)"),
        ("--b sysctl:vm.swappiness roundtrip/mock/1/free", "sysctl:NAME=VALUE"),
        ("--b wait=poll roundtrip/mock/1/free --with x.jsonl", "records are compared as they are"),
        ("--b nice=1 roundtrip/mock/1/free --runs 12..1001", "is not a number of sets"),
        ("none.jsonl --with also-none.jsonl", "cannot read `none.jsonl`"),
        // What cannot be set is said before anything is measured.
        ("--b sysctl:kernel.no-such=1 roundtrip/mock/1/free", "there is no sysctl `kernel.no-such`"),
        ("--b cgroup:/proc roundtrip/mock/1/free -q", "is not a control group"),
    ] {
        compare(folder.path(), words).refuses(why);
    }
    let read_only =
        compare(folder.path(), &format!("--b sysctl:kernel.ostype=Other {MOCK} -q")).with(3).stderr;
    assert!(read_only.contains("/proc/sys/kernel/ostype does not take `Other`"), "{read_only}");
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_side_that_crashes_is_named_and_what_was_measured_is_kept() {
    let folder = folder();
    let said = compare(folder.path(), &format!("--b fault=dies {MOCK} --out c.jsonl {QUIET}")).with(3);
    assert!(said.stderr.contains("no case gave a ratio"), "{}", said.stderr);
    assert!(said.stdout.contains("side B (fault=dies): "), "{}", said.stdout);
    let lines = valid_record(folder.path().join("c.jsonl")).lines;
    let failed = all!(lines, Skipped).len();
    assert_eq!(failed, 3, "it is not tried again and again");
    assert!(matches!(lines.last(), Some(Line::End(_))));
}

#[test]
fn records_of_one_boot_are_inconclusive_and_what_they_lack_is_said() {
    let folder = folder();
    for (name, case) in [("old", MOCK), ("new", MOCK), ("other", "stream/mock/4096/free")] {
        shown(folder.path(), &format!("run {case} --runs 6 --out {name}.jsonl --html none --quiet"));
    }
    let shown = compare(folder.path(), "old.jsonl --with new.jsonl").with(0).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["inconclusive", "is on both sides", "took turns with a hub", "a verdict needs 4 a side"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    compare(folder.path(), "old.jsonl --with new.jsonl --bisect").with(0);
    compare(folder.path(), "none.jsonl --with new.jsonl --bisect").with(125);
    compare(folder.path(), "--with new.jsonl --bisect").with(128);
    compare(folder.path(), "old.jsonl --with new.jsonl --bisect --margin much").with(128);
    let strict = compare(folder.path(), "old.jsonl --with new.jsonl --strict --format json").with(4);
    assert_eq!(strict.json()["cases"][0]["sets"], 1);
    compare(folder.path(), "old.jsonl --with other.jsonl").refuses("no case in common");
}

const SETTING: &str = "/proc/sys/kernel/printk_ratelimit_burst";

fn setting() -> String {
    std::fs::read_to_string(SETTING).unwrap().trim().to_owned()
}

/// Killed at any time, it leaves the machine as it was.
#[test]
fn a_setting_of_the_machine_changes_from_side_to_side_and_is_put_back_whatever_happens() {
    let before = setting();
    if let Err(error) = std::fs::write(SETTING, &before) {
        return skipped(Cause::Rights("root"), format!("{SETTING}: {error}"));
    }
    let other = (before.parse::<u32>().unwrap() + 1).to_string();
    let b = format!("sysctl:kernel.printk_ratelimit_burst={other}");
    let folder = folder();
    let said = compare(folder.path(), &format!("--b {b} {MOCK} --runs 10..10 {QUIET} --format json")).with(0);
    assert_eq!(setting(), before, "{}", said.stderr);
    assert!(said.stdout.contains("a setting of the whole machine holds for both"), "{}", said.stdout);
    // Now one that is killed while B's value is set.
    let words = "roundtrip/{pipe,fifo,unix-stream}/64/free --runs 40..40 --quiet --html none";
    let mut running = start(folder.path(), &format!("compare --b {b} {words}"));
    eventually_seen("B's value is set", setting, |value| *value == other);
    running.kill();
    eventually_seen("the value of before is put back", setting, |value| *value == before);
}
