//! `weighbridge compare`: verdicts whose truth is known, through `mock`, and the form of what real peers give.

use std::path::Path;

use serde_json::Value;
use weighbridge_record::{CaseVerdict, Line, Price, Writer};

use crate::{PROGRAM, files, folder, store, valid_record, weighbridge};

const MOCK: &str = "roundtrip/mock/1/free";
const QUIET: [&str; 4] = ["--quiet", "--html", "none", "--seed=7"];

struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn compare(folder: &Path, args: &[&str]) -> Said {
    let output = weighbridge(folder).arg("compare").args(args).output().unwrap();
    Said {
        code: output.status.code().expect("an exit code"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", said.stdout, said.stderr))
}

fn mock(folder: &Path, b: &str, more: &[&str]) -> Said {
    let args = ["--a", "latency-ns=100000", "--b", b, MOCK, "--units", "8..12"];
    compare(folder, &[&args[..], &QUIET, more].concat())
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
        let said = mock(folder.path(), b, &["--format", "json"]);
        let document = json(&said);
        let case = &document["cases"][0];
        assert_eq!(
            (said.code, case["verdict"].as_str()),
            (code, Some(verdict)),
            "{b}: {case} {}",
            said.stderr
        );
        assert!((case["ratio"].as_f64().unwrap() - ratio).abs() < 1e-6, "{case}");
        assert_eq!(case["sets"], 8, "a clear case ends at its first look");
        assert_eq!((&document["margin"], &document["control"]["has_moved"]), (&0.02.into(), &false.into()));
    }
}

#[test]
fn every_number_of_a_comparison_is_in_its_record_and_the_page_has_it() {
    let folder = folder();
    let args = ["--b", "latency-ns=1300", MOCK, "--units", "8..8", "--out", "c.jsonl"];
    let said = compare(folder.path(), &args);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(
        said.stdout.contains("regressed beyond 2.0 %") && said.stdout.contains("1.3000"),
        "{}",
        said.stdout
    );
    assert_eq!(files(folder.path()), ["c.html", "c.jsonl"]);
    let lines = valid_record(folder.path().join("c.jsonl")).lines;
    let sets = lines.iter().filter(|line| matches!(line, Line::ComparedSet(_))).count();
    let controls =
        lines.iter().filter(|line| matches!(line, Line::ComparedSet(set) if set.control.is_some()));
    assert_eq!((sets, controls.count()), (8, 7));
    assert!(lines.iter().any(|line| matches!(line, Line::Verdict(of) if of.verdict == "regressed")));
    assert!(lines.iter().any(|line| matches!(line, Line::Claims(of) if of.claimed == 1)));
    let report = weighbridge(folder.path()).args(["report", "c.jsonl"]).output().unwrap();
    assert!(String::from_utf8(report.stdout).unwrap().contains("regressed beyond 2.0 %"));
    let page = std::fs::read_to_string(folder.path().join("c.html")).unwrap();
    assert!(page.contains("Cost of B over cost of A") && page.contains("regressed beyond"));
}

#[test]
fn a_ci_server_reads_a_regression_as_a_failed_test() {
    let folder = folder();
    let said = mock(folder.path(), "latency-ns=130000", &["--format", "junit"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{}", said.stdout);
    assert!(
        said.stdout.contains("<failure message=\"regressed beyond 2.0 %: cost B/A 1.3000"),
        "{}",
        said.stdout
    );
    let markdown = mock(folder.path(), "latency-ns=100000", &["--format", "markdown"]);
    assert!(markdown.stdout.contains("| equivalent within 2.0 % |"), "{}", markdown.stdout);
}

/// The verdict of a comparison that knows what a system call costs in a place.
fn verdict_with_price(folder: &Path, place: &str, args: &[&str]) -> CaseVerdict {
    let explained =
        ["explain", "--only", "cost", MOCK, "--sets", "6", "--html", "none", "--quiet", "--out", "e.jsonl"];
    assert!(weighbridge(folder).args(explained).output().unwrap().status.success());
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
    let compared = [args, &["--units", "8..8", "--prices", "prices.jsonl", "--out", "c.jsonl"], &QUIET];
    let said = compare(folder, &compared.concat());
    assert_ne!(said.code, 2, "{}", said.stderr);
    let verdict = |line| if let Line::Verdict(of) = line { Some(*of) } else { None };
    valid_record(folder.join("c.jsonl")).lines.into_iter().find_map(verdict).expect("one case is compared")
}

/// A poll before each read is one call more.
#[test]
fn a_difference_has_the_prices_of_idle_busy_and_a_place_without_prices_is_said() {
    let of_mock = ["--b", "latency-ns=1300", MOCK];
    let remarks = |place| verdict_with_price(folder().path(), place, &of_mock).remarks.join("; ");
    let (elsewhere, here) = (remarks("two-cpus"), remarks("free"));
    assert!(elsewhere.contains("none of free, but those of two-cpus"), "{elsewhere}");
    assert!(!here.contains("no part of the difference is named"), "{here}");
    let of_pipe = ["--a", "wait=block", "--b", "wait=poll", "roundtrip/pipe/1/free"];
    let found = verdict_with_price(folder().path(), "free/idle=busy", &of_pipe);
    if found.a_system_calls.is_none() {
        return println!("skipped: system calls cannot be counted here: {:?}", found.remarks);
    }
    let [part] = &found.made_of[..] else { panic!("{found:?}") };
    assert!(part.name == "system calls" && part.b_count > part.a_count && part.ns > 50.0, "{part:?}");
}

/// How they compare is the machine's business; that the answer has its form and its exit code is ours.
#[test]
fn real_peers_take_turns_and_the_exit_code_follows_from_the_verdict() {
    let folder = folder();
    let args = ["--a", "wait=block", "--b", "wait=poll", "roundtrip/pipe/1/same-cpu", "--units", "8..8"];
    let said =
        compare(folder.path(), &[&args[..], &QUIET, &["--format", "json", "--out", "r.jsonl"]].concat());
    if said.code == 2 && said.stderr.contains("needs to pin") {
        println!("skipped: this process may not pin threads");
        return;
    }
    let document = json(&said);
    let case = &document["cases"][0];
    assert_eq!(case["case"], "roundtrip/pipe/1/same-cpu");
    assert_eq!((&case["a"], &case["b"]), (&"wait=block".into(), &"wait=poll".into()));
    assert_eq!((case["sets"].as_u64(), case["ci95"].as_array().map(Vec::len)), (Some(8), Some(2)), "{case}");
    assert!(case["ratio"].as_f64().unwrap() > 0.0 && document["resolution"].as_f64().unwrap() >= 0.0);
    assert_eq!(document["control"]["cases"][0]["control"]["pairs"], 7);
    let code = match case["verdict"].as_str().unwrap() {
        "regressed" | "changed shape" => 1,
        "void" => 4,
        "improved" | "equivalent" | "inconclusive" => 0,
        other => panic!("{other}"),
    };
    assert_eq!(said.code, code, "{case}");
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let in_turn = |line: &Line| matches!(line, Line::ComparedSet(set) if set.b.slices.is_some());
    assert_eq!(lines.iter().filter(|line| in_turn(line)).count(), 8);
    // The next comparison can say what this machine resolves.
    let kept = std::fs::read_to_string(store(folder.path()).join("resolution.json")).unwrap();
    assert!(kept.contains("same-cpu"), "{kept}");
}

#[test]
fn another_program_is_asked_before_its_peers_are_started() {
    let folder = folder();
    let both = compare(
        folder.path(),
        &[&["--a", PROGRAM, "--b", PROGRAM, MOCK, "--units", "8..8", "--format", "json"], &QUIET[..]]
            .concat(),
    );
    assert_eq!(
        (both.code, json(&both)["cases"][0]["verdict"].as_str()),
        (0, Some("equivalent")),
        "{}",
        both.stderr
    );
    for (program, why) in [("/bin/true", "no weighbridge"), ("/etc/passwd", "cannot be started")] {
        let said = compare(folder.path(), &["--b", program, MOCK]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.starts_with(&format!("error: --b {program}: ")), "{}", said.stderr);
        assert!(said.stderr.contains(why) && said.stderr.lines().count() == 1, "{}", said.stderr);
    }
}

/// A build with other words between coordinator and peers.
#[test]
fn a_program_with_another_protocol_is_refused_in_one_sentence() {
    use std::os::unix::fs::PermissionsExt;
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
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let said = compare(folder.path(), &["--b", &format!("./{name}"), MOCK]);
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains(why) && said.stderr.lines().count() == 1, "{}", said.stderr);
    }
}

#[test]
fn mistakes_are_one_sentence_with_exit_code_2() {
    let folder = folder();
    for (args, why) in [
        (&["roundtrip/mock/1/free"][..], "nothing says what to compare"),
        (&["--b", "depth-x=4", MOCK], "no axis `depth-x`"),
        (&["--b", "wait=sleep", MOCK], "side B (wait=sleep)"),
        (&["--b", "sysctl:vm.swappiness", MOCK], "sysctl:NAME=VALUE"),
        (&["--b", "wait=poll", MOCK, "--with", "x.jsonl"], "records are compared as they are"),
        (&["--b", "nice=1", MOCK, "--units", "12..1001"], "no number of sets"),
        (&["none.jsonl", "--with", "also-none.jsonl"], "cannot read `none.jsonl`"),
    ] {
        let said = compare(folder.path(), args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(why), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    }
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_side_that_crashes_is_named_and_what_was_measured_is_kept() {
    let folder = folder();
    let args = ["--b", "fault=dies", MOCK, "--out", "c.jsonl"];
    let said = compare(folder.path(), &[&args[..], &QUIET].concat());
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains("no case gave a ratio"), "{}", said.stderr);
    assert!(said.stdout.contains("side B (fault=dies): "), "{}", said.stdout);
    let lines = valid_record(folder.path().join("c.jsonl")).lines;
    let failed = lines.iter().filter(|line| matches!(line, Line::Skipped(_))).count();
    assert_eq!(failed, 3, "it is not tried again and again");
    assert!(matches!(lines.last(), Some(Line::End(_))));
}

#[test]
fn records_of_one_boot_are_inconclusive_and_what_they_lack_is_said() {
    let folder = folder();
    for (name, case) in [("old", MOCK), ("new", MOCK), ("other", "stream/mock/4096/free")] {
        let out = format!("{name}.jsonl");
        let args = ["run", case, "--max-runs", "6", "--out", &out, "--html", "none", "--quiet"];
        weighbridge(folder.path()).args(args).assert().success();
    }
    let said = compare(folder.path(), &["old.jsonl", "--with", "new.jsonl"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for words in ["inconclusive", "is on both sides", "took turns with a hub", "a verdict needs 4 a side"] {
        assert!(
            said.stdout.replace("\n", " ").split_whitespace().collect::<Vec<_>>().join(" ").contains(words),
            "{words}: {}",
            said.stdout
        );
    }
    let strict =
        compare(folder.path(), &["old.jsonl", "--with", "new.jsonl", "--strict", "--format", "json"]);
    assert_eq!((strict.code, json(&strict)["cases"][0]["sets"].as_u64()), (3, Some(1)));
    let nothing = compare(folder.path(), &["old.jsonl", "--with", "other.jsonl"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (2, ""));
    assert!(nothing.stderr.contains("no case in common"), "{}", nothing.stderr);
}

const SETTING: &str = "/proc/sys/kernel/printk_ratelimit_burst";

fn setting() -> String {
    std::fs::read_to_string(SETTING).unwrap().trim().to_owned()
}

#[test]
fn what_cannot_be_set_is_said_before_anything_is_measured() {
    let folder = folder();
    for (b, sentence) in [
        ("sysctl:kernel.no-such=1", "there is no sysctl `kernel.no-such`"),
        ("sysctl:kernel.ostype=Other", "/proc/sys/kernel/ostype does not take `Other`"),
        ("cgroup:/proc", "is no control group"),
    ] {
        let said = compare(folder.path(), &[&["--b", b, MOCK], &QUIET[..]].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(sentence), "{}", said.stderr);
    }
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// Killed at any time, it leaves the machine as it was.
#[test]
#[allow(clippy::print_stderr, reason = "a test says there why it is skipped")]
fn a_setting_of_the_machine_changes_from_side_to_side_and_is_put_back_whatever_happens() {
    let before = setting();
    if let Err(error) = std::fs::write(SETTING, &before) {
        eprintln!("skipped: {SETTING} cannot be written here: {error}");
        return;
    }
    let other = before.parse::<u32>().unwrap() + 1;
    let b = format!("sysctl:kernel.printk_ratelimit_burst={other}");
    let folder = folder();
    let said = compare(
        folder.path(),
        &[&["--b", &b, MOCK, "--units", "8..8"], &QUIET[..], &["--format", "json"]].concat(),
    );
    assert_eq!((said.code, setting()), (0, before.clone()), "{}", said.stderr);
    assert!(said.stdout.contains("a setting of the whole machine holds for both"), "{}", said.stdout);
    // Now one that is killed while B's value is set.
    let args = [
        "compare",
        "--b",
        &b,
        "roundtrip/{pipe,fifo,unix-stream}/64/free",
        "--units",
        "40..40",
        "--quiet",
        "--html",
        "none",
    ];
    let mut running = std::process::Command::new(PROGRAM)
        .args(args)
        .current_dir(folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let until = |what: &str, value: &str| {
        let began = std::time::Instant::now();
        while setting() != value {
            assert!(began.elapsed().as_secs() < 60, "{what}: it is {}", setting());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    until("B's value is never set", &other.to_string());
    running.kill().unwrap();
    running.wait().unwrap();
    until("the value of before is not put back", &before);
}
