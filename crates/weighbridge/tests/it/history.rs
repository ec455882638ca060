//! The store of records: where a run puts its own, what `history` lists, and what happens where there is no room.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use causeway_testkit::{Cause, skipped};
use serde_json::Value;
use snapbox::cmd;
use weighbridge_record::Line;

use crate::{STATE, Said, files, folder, said, shown, start, store, text, valid_record, weighbridge};

const CASE: &str = "roundtrip/mock/1/free";

fn measure(folder: &Path) -> String {
    said(folder, &format!("run {CASE} --runs 6")).with(0).stderr
}

/// The path after `record: `.
fn said_record(stderr: &str) -> &str {
    let line = stderr.lines().find_map(|line| line.strip_prefix("record: "));
    line.unwrap_or_else(|| panic!("no record is named in {stderr}"))
}

fn history(folder: &Path) -> Vec<Value> {
    serde_json::from_str(&said(folder, "history --format json").stdout).unwrap()
}

#[test]
fn records_are_kept_listed_and_the_last_one_is_reported() {
    let folder = folder();
    let first = measure(folder.path());
    let words = "run stream/mock/4096/free roundtrip/mock/1 --runs 6 --html none";
    let second = said(folder.path(), words).stderr;
    assert!(files(folder.path()).is_empty());
    let listed = history(folder.path());
    let paths: Vec<&str> = listed.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [said_record(&first), said_record(&second)], "{listed:?}");
    assert_eq!((listed[0]["cases"].as_u64(), listed[1]["cases"].as_u64()), (Some(1), Some(3)));
    assert_eq!(listed[0]["words"], CASE);
    assert_eq!((&listed[0]["suite"], &listed[0]["complete"]), (&Value::Null, &Value::Bool(true)));
    assert!(!listed[0]["machine"]["kernel"].as_str().unwrap().is_empty());

    let table = shown(folder.path(), "history");
    let [head, first, second_row] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
    assert!(head.starts_with("started ") && first.contains(CASE), "{table}");
    assert!(first.ends_with(".jsonl") && second_row.ends_with(".jsonl"), "{table}");

    let reported = said(folder.path(), "report").with(0).shows("...\n■ stream at free, GiB/s\n...\n");
    reported.says(format!("record: {}\n", said_record(&second)));
    assert_eq!(fs::metadata(store(folder.path())).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn runs_that_start_in_one_second_have_records_of_their_own() {
    let folder = folder();
    let runs: Vec<_> =
        (0..6).map(|_| start(folder.path(), &format!("run {CASE} --runs 2 --quiet"))).collect();
    for mut run in runs {
        assert!(run.wait().success());
    }
    let names = files(&store(folder.path()));
    let ending = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    assert_eq!((ending(".jsonl"), ending(".html")), (6, 6), "{names:?}");
    assert_eq!(history(folder.path()).len(), 6);
}

/// The store is read before a run, so that its figures know of earlier sessions, and afterwards for what these foretold.
#[test]
fn the_fifth_session_of_a_machine_says_where_another_is_expected_and_the_ledger_counts_it() {
    let folder = folder();
    let expected = |out: &str| -> Vec<Value> {
        let words = format!("run {CASE} --runs 6 --html none --quiet --format json{out}");
        let report: Value = serde_json::from_str(&said(folder.path(), &words).with(0).stdout).unwrap();
        let summaries = report["cases"].as_array().unwrap().iter().map(|case| &case["summary"]);
        summaries.filter(|of| of["case"] == CASE).map(|of| of["across_sessions"].clone()).collect()
    };
    // Of five of a sort: if others begin or end to use the CPUs meanwhile, sessions are of both.
    let foretold = (1..=9).find(|_| expected("")[0].is_array());
    let sessions = foretold.expect("of nine sessions five are beside a load, or five are not");
    assert!(sessions >= 5, "{sessions} sessions say nothing of another");
    let elsewhere = (0..20).find(|number| expected(&format!(" --out elsewhere{number}.jsonl"))[0].is_array());
    assert!(elsewhere.is_some(), "the store is known wherever the record goes");

    let ledger: Value =
        serde_json::from_str(&said(folder.path(), "history --coverage --format json").with(0).stdout)
            .unwrap();
    assert_eq!(
        (&ledger["records"], ledger["machines"].as_array().map(Vec::len)),
        (&sessions.into(), Some(1))
    );
    let rows = ledger["rows"].as_array().unwrap();
    let pairs = |promise: &str| {
        let mut of = rows.iter().filter(|row| row["promise"] == promise && row["load"].is_null());
        of.next().map_or(0, |row| row["pairs"].as_u64().unwrap())
    };
    // Each but the first of its sort is compared. The last one foretold something, and nothing came after it.
    let beside_a_load = ledger["loaded"].as_u64().unwrap();
    let sorts = [beside_a_load, sessions - beside_a_load];
    let compared: u64 = sorts.iter().map(|of| of.saturating_sub(1)).sum();
    assert_eq!((pairs("absolute-within-session"), pairs("absolute")), (compared, 0), "{ledger}");
    let table = shown(folder.path(), "history --coverage");
    assert!(table.contains("What was promised and what was kept"), "{table}");
    let page =
        format!("history {} --coverage --format html --out coverage.html", store(folder.path()).display());
    said(folder.path(), &page).with(0);
    assert!(text(folder.path().join("coverage.html")).contains("absolute, within one session"));
    said(folder.path(), "history --coverage --changes").with(2);
    said(folder.path(), "history elsewhere0.jsonl --coverage")
        .with(3)
        .says("error: coverage is counted over pairs [..]\n");
}

#[test]
fn an_empty_store_is_said_in_one_sentence_with_a_way_out() {
    let folder = folder();
    let place = store(folder.path()).display().to_string();
    let none = format!("there is no record in `{place}` yet; `weighbridge run` writes one");
    said(folder.path(), "history").with(0).shows("").says(format!("{none}\n"));
    assert!(history(folder.path()).is_empty());
    let way_out = format!("error: {none}, or name one, as in `weighbridge report FILE`\n");
    said(folder.path(), "report").with(3).shows("").says(way_out);
    assert!(!folder.path().join(STATE).exists(), "looking creates nothing");
}

#[test]
fn folders_and_files_can_be_listed_too_and_what_is_no_record_is_said() {
    let folder = folder();
    fs::create_dir(folder.path().join("results")).unwrap();
    for name in ["results/b.jsonl", "a.jsonl"] {
        shown(folder.path(), &format!("run {CASE} --runs 2 --quiet --html none --out {name}"));
    }
    fs::write(folder.path().join("results/not.jsonl"), "nothing\n").unwrap();
    fs::write(folder.path().join("results/newer.jsonl"), "{\"kind\":\"header\",\"schema\":99}\n").unwrap();
    let cut = text(folder.path().join("a.jsonl"));
    fs::write(folder.path().join("cut.jsonl"), cut.rsplit_once("{\"kind\":\"end").unwrap().0).unwrap();
    let spaced = cut.replace("{\"kind\":\"", "{\"kind\": \"");
    fs::write(folder.path().join("spaced.jsonl"), spaced).unwrap();
    let law =
        format!("{{\"kind\":\"skipped\",\"case\":\"{CASE}\",\"step\":\"law\",\"why\":\"law `counts`\"}}\n");
    fs::write(folder.path().join("void.jsonl"), format!("{cut}{law}")).unwrap();
    fs::write(folder.path().join("both.jsonl"), format!("{cut}{cut}")).unwrap();
    let listed = shown(folder.path(), "history spaced.jsonl void.jsonl both.jsonl --format json");
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    for entry in &listed {
        let path = entry["path"].as_str().unwrap();
        assert_eq!(
            (&entry["cases"], &entry["void"]),
            (&1.into(), &(path == "void.jsonl").into()),
            "{listed:?}"
        );
        assert_eq!(entry["complete"], path != "void.jsonl", "{listed:?}");
    }
    let marked = shown(folder.path(), "history void.jsonl");
    assert!(marked.contains("(with void figures)"), "{marked}");
    let (_, headless) = cut.split_once('\n').unwrap();
    fs::write(folder.path().join("headless.jsonl"), headless).unwrap();
    for command in ["history", "report"] {
        let refused = said(folder.path(), &format!("{command} headless.jsonl")).with(3);
        assert!(refused.stderr.contains("error: `headless.jsonl` is not a record"), "{}", refused.stderr);
    }
    // One is missing.
    let Said { stdout, stderr, .. } = said(folder.path(), "history results cut.jsonl missing").with(3);
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    assert!(stdout.lines().any(|line| line.ends_with("results/b.jsonl")), "{stdout}");
    assert!(stdout.lines().any(|line| line.ends_with("cut.jsonl (ended early)")), "{stdout}");
    assert!(stderr.contains("warning: `results/not.jsonl` is not a record; left out"), "{stderr}");
    assert!(stderr.contains("warning: `results/newer.jsonl` was written with schema 99, "), "{stderr}");
    assert!(stderr.contains("error: `missing` cannot be read: No such file"), "{stderr}");
}

/// Runs in a folder with another environment; what was said and what is in the current folder then.
fn without_store(folder: &Path, prepare: impl FnOnce(cmd::Command) -> cmd::Command) -> String {
    let command = prepare(weighbridge(folder).args(["run", CASE, "--runs", "6"]));
    let Said { stdout, stderr, .. } = Said::by(command).with(0);
    assert!(stdout.contains("■ roundtrip at free"));
    let record = said_record(&stderr);
    assert!(record.starts_with("weighbridge-"), "in the current folder: {stderr}");
    assert!(matches!(valid_record(folder.join(record)).lines.last(), Some(Line::End(end)) if end.complete));
    assert!(folder.join(record).with_extension("html").exists());
    stderr
}

#[test]
fn without_a_home_the_record_is_in_the_current_folder() {
    let unset = |command: cmd::Command| command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let stderr = without_store(folder().path(), unset);
    let why = "neither XDG_STATE_HOME nor HOME is the path of a folder";
    let elsewhere = format!("warning: {why}; the record goes to the current folder instead");
    assert!(stderr.contains(&elsewhere), "{stderr}");
    // A relative path is none, by the specification.
    without_store(folder().path(), |command| command.env_remove("HOME").env("XDG_STATE_HOME", "state"));
    let folder = folder();
    for command in ["report", "history"] {
        Said::by(unset(weighbridge(folder.path()).arg(command)))
            .with(3)
            .says(format!("error: {why}[..] name [..]\n"));
    }
}

#[test]
fn home_is_taken_where_there_is_no_state_directory() {
    let folder = folder();
    let command = weighbridge(folder.path()).args(["run", CASE, "--runs", "2", "--html", "none"]);
    let command = command.env_remove("XDG_STATE_HOME").env("HOME", folder.path().join("home"));
    let stderr = Said::by(command).stderr;
    let place = folder.path().join("home/.local/state/weighbridge/weighbridge-");
    assert!(said_record(&stderr).starts_with(place.to_str().unwrap()), "{stderr}");
}

#[test]
fn a_file_where_the_folder_should_be_is_said_and_left_alone() {
    let folder = folder();
    fs::create_dir(folder.path().join(STATE)).unwrap();
    fs::write(store(folder.path()), "mine").unwrap();
    let stderr = without_store(folder.path(), |command| command);
    assert!(stderr.contains("weighbridge` cannot be used: "), "{stderr}");
    assert_eq!(text(store(folder.path())), "mine");
    said(folder.path(), "report").with(3).says("error: `[..]` cannot be read: [..]\n");
}

#[test]
fn a_store_that_cannot_be_written_is_said() {
    let folder = folder();
    // Where even root may create nothing.
    let stderr = without_store(folder.path(), |command| command.env("XDG_STATE_HOME", "/proc"));
    assert!(stderr.contains("warning: `/proc/weighbridge` cannot be used: "), "{stderr}");
    let read_only = folder.path().join("read-only");
    fs::create_dir(&read_only).unwrap();
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(read_only.join("probe"), "").is_ok() {
        return skipped(Cause::Rights("an ordinary user"), "permissions do not bind root");
    }
    let stderr = without_store(folder.path(), |command| command.env("XDG_STATE_HOME", &read_only));
    assert!(stderr.contains("Permission denied"), "{stderr}");
}

/// Neither place takes a record: nothing is measured that could be lost.
#[test]
fn without_any_place_nothing_is_measured() {
    let said =
        Said::by(weighbridge(Path::new("/proc")).env("XDG_STATE_HOME", "/proc").args(["run", CASE])).with(3);
    assert!(said.stderr.starts_with("error: there is no place for the record: "), "{}", said.stderr);
    assert!(said.stderr.contains("--out") && said.stdout.is_empty(), "{}", said.stderr);
}
