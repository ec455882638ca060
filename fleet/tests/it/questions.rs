//! Report, compare, sql and compact as a user asks them.

use std::fs;
use std::path::{Path, PathBuf};

use causeway_testkit::{TempDir, temp_dir};
use serde_json::Value;

use crate::push::{ends_with, objects, program, spool, text};
use crate::support::world::{Kind, World, record};

fn store(world: &World) -> (TempDir, PathBuf) {
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), world);
    let store = folder.path().join("store");
    ends_with(&program().arg("push").args([&store, &spool]).output().unwrap(), 0);
    (folder, store)
}

fn json(store: &Path, words: &[&str]) -> Value {
    let output =
        program().arg(words[0]).arg(store).args(&words[1..]).args(["--format", "json"]).output().unwrap();
    ends_with(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn result_of(store: &Path, at: usize) -> PathBuf {
    store.join(objects(store).keys().filter(|name| name.ends_with(".parquet")).nth(at).unwrap())
}

#[test]
fn a_report_says_what_is_there_and_a_broken_object_is_named_and_left_out() {
    let (_folder, store) = store(&World::new(Kind::Normal, 8, 5, 1));
    let whole = json(&store, &["report"]);
    assert_eq!(
        (whole["coverage"]["machines"].as_u64(), whole["coverage"]["measured"].as_u64()),
        (Some(8), Some(40))
    );
    let broken = result_of(&store, 2);
    let bytes = fs::read(&broken).unwrap();
    for (bytes, why) in [(&bytes[..bytes.len() / 2], "no Parquet"), (&b"nothing"[..], "no Parquet")] {
        fs::write(&broken, bytes).unwrap();
        let output = program().arg("report").arg(&store).output().unwrap();
        let said = ends_with(&output, 2);
        let name = broken.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name) && said.contains(why), "{said}");
        assert!(text(&output.stdout).contains("7 machines, 7 boots, 7 sessions"), "{said}");
        let output = program()
            .arg("sql")
            .arg(&store)
            .arg("SELECT count(DISTINCT machine) AS n FROM results")
            .output()
            .unwrap();
        let said = ends_with(&output, 2);
        assert!(said.contains(name) && text(&output.stdout).contains("| 7 "), "{said}");
    }
}

#[test]
fn an_object_of_a_newer_table_is_refused_with_both_numbers() {
    let (_folder, store) = store(&World::new(Kind::Normal, 3, 2, 1));
    let object = result_of(&store, 0);
    let newer = fs::read(&object).unwrap();
    // The version stands in the metadata as a text of one character.
    let key = b"weighbridge.results";
    let at = newer.windows(key.len()).position(|part| part == key).unwrap() + key.len();
    let digit = at + newer[at..].iter().position(|byte| *byte == b'1').unwrap();
    let mut newer = newer;
    newer[digit] = b'9';
    fs::write(&object, newer).unwrap();
    let said = ends_with(&program().arg("report").arg(&store).output().unwrap(), 2);
    assert!(said.contains("version 9 of the table, and this program reads up to 1"), "{said}");
}

#[test]
fn conditions_choose_rows_and_a_wrong_one_is_explained_before_anything_is_read() {
    let (_folder, store) = store(&World::new(Kind::Normal, 6, 4, 1));
    let of = json(
        &store,
        &["report", "--where", "machine <> 'n00002' AND mechanism = 'pipe' AND labels['rack'] = 'r6'"],
    );
    assert_eq!((of["coverage"]["machines"].as_u64(), of["coverage"]["cases"].as_u64()), (Some(5), Some(1)));
    assert_eq!(
        json(&store, &["report", "--where", "day = '2026-11-02' AND campaign = 'autumn'"])["coverage"]["machines"],
        6
    );
    for (condition, why) in [
        ("no_such_column = 1", "no_such_column"),
        ("machine", "neither true nor false"),
        ("machine = = 2", "no condition"),
    ] {
        let said = ends_with(
            &program().args(["report", "/nowhere/at/all", "--where", condition]).output().unwrap(),
            2,
        );
        assert!(said.contains(why), "{condition}: {said}");
    }
    assert!(!Path::new("/nowhere").exists());
    let empty = temp_dir("fleet");
    let said = ends_with(&program().arg("report").arg(empty.path()).output().unwrap(), 2);
    assert!(said.contains("no results in"), "{said}");
}

#[test]
fn two_groups_are_compared_by_machines_and_say_how_many_would_do() {
    let mut world = World::new(Kind::Normal, 40, 4, 3);
    (0..20).for_each(|host| world.hosts[host] += 0.1);
    let (_folder, store) = store(&world);
    let words = |a: &str, b: &str| ["compare", "--a", a, "--b", b].map(String::from).to_vec();
    let run = |words: &[String]| {
        program().arg(&words[0]).arg(&store).args(&words[1..]).args(["--format", "json"]).output().unwrap()
    };
    let output = run(&words("machine >= 'n00020'", "machine < 'n00020'"));
    ends_with(&output, 1);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["hosts"], serde_json::json!([20, 20]));
    for case in found["cases"].as_array().unwrap() {
        assert_eq!(case["verdict"], "costs-more", "{case}");
        assert!(
            (case["ratio"].as_f64().unwrap() - 1.105).abs() < 0.03
                && case["hosts_needed"].as_u64().unwrap() < 60,
            "{case}"
        );
    }
    ends_with(&run(&words("machine < 'n00020'", "machine >= 'n00020'")), 0);
    let output = run(&words("machine = 'n00000'", "machine = 'n00030'"));
    ends_with(&output, 4);
    let said = ends_with(&run(&words("machine = 'gone'", "machine = 'n00030'")), 4);
    assert!(said.contains("A has 0 machines"), "{said}");
    let said = ends_with(&run(&words("machine > ''", "machine > 'n00010'")), 4);
    assert!(said.contains("29 machines are on both sides"), "{said}");
}

#[test]
fn closed_days_in_another_store_say_the_same() {
    let world = World::new(Kind::Normal, 20, 5, 1);
    let (folder, from) = store(&world);
    let to = folder.path().join("compacted");
    let compact = |before: &str| {
        program().arg("compact").arg(&from).arg("--to").arg(&to).args(["--before", before]).output().unwrap()
    };
    ends_with(&compact("2026-11-02"), 0);
    assert!(objects(&to).is_empty());
    ends_with(&compact("2026-11-03"), 0);
    let once = objects(&to);
    assert!(!once.is_empty() && once.len() <= 16, "{:?}", once.keys());
    ends_with(&compact("2026-11-03"), 0);
    assert_eq!(once, objects(&to));
    let strip = |mut value: Value| {
        value["store"] = Value::Null;
        value["coverage"]["objects"] = Value::Null;
        // When the machines pushed is not known any more.
        value["trouble"]["late_sessions"] = Value::Null;
        value
    };
    assert_eq!(strip(json(&from, &["report"])), strip(json(&to, &["report"])));
    let same = |query: &str| assert_eq!(sql(&from, query), sql(&to, query), "{query}");
    same("SELECT machine, case_id, value, labels['rack'] AS rack FROM results ORDER BY machine, case_id");
    let said = ends_with(
        &program()
            .arg("compact")
            .arg(&from)
            .arg("--to")
            .arg(&from)
            .args(["--before", "2026-11-03"])
            .output()
            .unwrap(),
        2,
    );
    assert!(said.contains("another store"), "{said}");
}

fn sql(store: &Path, query: &str) -> String {
    let output = program().arg("sql").arg(store).arg(query).args(["--format", "json"]).output().unwrap();
    ends_with(&output, 0);
    text(&output.stdout)
}

#[test]
fn a_query_reads_and_does_nothing_else() {
    let (folder, store) = store(&World::new(Kind::Normal, 3, 2, 1));
    // A later session of the same machine and cases: the last counts.
    let spool = folder.path().join("spool");
    fs::write(spool.join("later.jsonl"), record(&World::new(Kind::Normal, 3, 2, 1).session(1, 4, 2, &[])))
        .unwrap();
    ends_with(&program().arg("push").args([&store, &spool]).output().unwrap(), 0);
    let answer = sql(&store, "SELECT count(*) AS all, (SELECT count(*) FROM latest) AS latest FROM results");
    assert_eq!(answer.trim(), "{\"all\":8,\"latest\":6}");
    let out = folder.path().join("out.csv");
    for (query, why) in [
        (format!("COPY (SELECT 1) TO '{}'", out.display()), "DML"),
        ("CREATE VIEW x AS SELECT 1".into(), "DDL"),
        ("SELECT nothing FROM results".into(), "nothing"),
    ] {
        let said = ends_with(&program().arg("sql").arg(&store).arg(&query).output().unwrap(), 2);
        assert!(said.contains(why), "{query}: {said}");
    }
    assert!(!out.exists());
}
