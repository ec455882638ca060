//! Report, compare, sql and compact as a user asks them.

use std::fs;
use std::path::{Path, PathBuf};

use causeway_testkit::{TempDir, temp_dir};
use serde_json::Value;

use crate::push::{objects, pushed, said, spool};
use crate::support::world::{Kind, World, record};

fn store(world: &World) -> (TempDir, PathBuf) {
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), world);
    let store = folder.path().join("store");
    pushed(&store, &spool);
    (folder, store)
}

fn json(store: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&said(0, words[0], store, &[&words[1..], &["--format", "json"]].concat())).unwrap()
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
        let reported = said(2, "report", &store, &[]);
        let name = broken.file_name().unwrap().to_str().unwrap();
        assert!(reported.contains(name) && reported.contains(why), "{reported}");
        assert!(reported.contains("7 machines, 7 boots, 7 sessions"), "{reported}");
        let answered = said(2, "sql", &store, &["SELECT count(DISTINCT machine) AS n FROM results"]);
        assert!(answered.contains(name) && answered.contains("| 7 "), "{answered}");
    }
}

#[test]
fn an_object_of_a_newer_table_is_refused_with_both_numbers() {
    let (_folder, store) = store(&World::new(Kind::Normal, 3, 2, 1));
    let object = result_of(&store, 0);
    let mut newer = fs::read(&object).unwrap();
    // The version stands in the metadata as a text of one character.
    let key = b"weighbridge.results";
    let at = newer.windows(key.len()).position(|part| part == key).unwrap() + key.len();
    let digit = at + newer[at..].iter().position(|byte| *byte == b'1').unwrap();
    newer[digit] = b'9';
    fs::write(&object, newer).unwrap();
    let said = said(2, "report", &store, &[]);
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
        let said = said(2, "report", Path::new("/nowhere/at/all"), &["--where", condition]);
        assert!(said.contains(why), "{condition}: {said}");
    }
    assert!(!Path::new("/nowhere").exists());
    let empty = temp_dir("fleet");
    assert!(said(2, "report", empty.path(), &[]).contains("no results in"));
}

#[test]
fn two_groups_are_compared_by_machines_and_say_how_many_would_do() {
    let mut world = World::new(Kind::Normal, 40, 4, 3);
    (0..20).for_each(|host| world.hosts[host] += 0.1);
    let (_folder, store) = store(&world);
    let compared =
        |code, a: &str, b: &str| said(code, "compare", &store, &["--a", a, "--b", b, "--format", "json"]);
    let found = compared(1, "machine >= 'n00020'", "machine < 'n00020'");
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["hosts"], serde_json::json!([20, 20]));
    for case in found["cases"].as_array().unwrap() {
        assert_eq!(case["verdict"], "costs-more", "{case}");
        assert!(
            (case["ratio"].as_f64().unwrap() - 1.105).abs() < 0.03
                && case["hosts_needed"].as_u64().unwrap() < 60,
            "{case}"
        );
    }
    compared(0, "machine < 'n00020'", "machine >= 'n00020'");
    compared(4, "machine = 'n00000'", "machine = 'n00030'");
    let nobody = compared(4, "machine = 'gone'", "machine = 'n00030'");
    assert!(nobody.contains("A has 0 machines"), "{nobody}");
    let shared = compared(4, "machine > ''", "machine > 'n00010'");
    assert!(shared.contains("29 machines are on both sides"), "{shared}");
}

#[test]
fn closed_days_in_another_store_say_the_same() {
    let world = World::new(Kind::Normal, 20, 5, 1);
    let (folder, from) = store(&world);
    let to = folder.path().join("compacted");
    let compact = |code, to: &Path, before: &str| {
        said(code, "compact", &from, &["--to", to.to_str().unwrap(), "--before", before])
    };
    compact(0, &to, "2026-11-02");
    assert!(objects(&to).is_empty());
    compact(0, &to, "2026-11-03");
    let once = objects(&to);
    assert!(!once.is_empty() && once.len() <= 16, "{:?}", once.keys());
    compact(0, &to, "2026-11-03");
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
    assert!(compact(2, &from, "2026-11-03").contains("another store"));
}

fn sql(store: &Path, query: &str) -> String {
    said(0, "sql", store, &[query, "--format", "json"])
}

#[test]
fn a_query_reads_and_does_nothing_else() {
    let (folder, store) = store(&World::new(Kind::Normal, 3, 2, 1));
    // A later session of the same machine and cases: the last counts.
    let spool = folder.path().join("spool");
    fs::write(spool.join("later.jsonl"), record(&World::new(Kind::Normal, 3, 2, 1).session(1, 4, 2, &[])))
        .unwrap();
    pushed(&store, &spool);
    let answer = sql(&store, "SELECT count(*) AS all, (SELECT count(*) FROM latest) AS latest FROM results");
    assert_eq!(answer.trim(), "{\"all\":8,\"latest\":6}");
    let out = folder.path().join("out.csv");
    for (query, why) in [
        (format!("COPY (SELECT 1) TO '{}'", out.display()), "DML"),
        ("CREATE VIEW x AS SELECT 1".into(), "DDL"),
        ("SELECT nothing FROM results".into(), "nothing"),
    ] {
        let said = said(2, "sql", &store, &[&query]);
        assert!(said.contains(why), "{query}: {said}");
    }
    assert!(!out.exists());
}
