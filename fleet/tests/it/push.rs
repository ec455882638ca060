//! Records into a store that is a folder: the same whatever happens on the way (part of acceptance 3; the rest is in `servers`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use causeway_testkit::temp_dir;

use crate::support::world::{Kind, World, record};

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weighbridge-fleet"));
    for (name, _) in std::env::vars()
        .filter(|(name, _)| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|of| name.starts_with(of)))
    {
        command.env_remove(name);
    }
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Ends with that exit code, or says what it said.
#[track_caller]
pub fn ends_with(output: &Output, code: i32) -> String {
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{all}");
    all
}

/// All that the program says, errors last, of a store, a file or an example, with this exit code in the end.
#[track_caller]
pub fn said(code: i32, command: &str, of: &Path, words: &[&str]) -> String {
    ends_with(&program().arg(command).arg(of).args(words).output().unwrap(), code)
}

/// All records of a folder into a store.
#[track_caller]
pub fn pushed(store: &Path, spool: &Path) -> String {
    said(0, "push", store, &[spool.to_str().unwrap()])
}

/// Records of so many machines in a folder.
pub fn spool(folder: &Path, world: &World) -> PathBuf {
    let spool = folder.join("spool");
    fs::create_dir_all(&spool).unwrap();
    for host in 0..world.hosts.len() {
        fs::write(spool.join(format!("{host}.jsonl")), record(&world.session(host, 0, 0, &[]))).unwrap();
    }
    spool
}

/// The objects of a store that is a folder, with their bytes.
pub fn objects(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            // What a killed writer was about to write is no object.
            } else if !path.to_string_lossy().contains('#') {
                let name = path.strip_prefix(store).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn pushed_twice_the_store_is_the_same_and_a_row_implies_its_record() {
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 5, 3, 1));
    let store = folder.path().join("store");
    assert!(pushed(&store, &spool).contains("5 new, 0 there already"));
    let first = objects(&store);
    assert!(pushed(&store, &spool).contains("0 new, 5 there already"));
    assert_eq!(first, objects(&store));
    let spooled = (0..5).map(|host| fs::read(spool.join(format!("{host}.jsonl"))).unwrap());
    let mut names: Vec<String> = Vec::new();
    for record in spooled {
        let id = weighbridge_fleet::rows::digest(&record);
        let partition = "campaign=autumn/day=2026-11-02";
        let raw = format!("v1/raw/{partition}/{id}.jsonl.zst");
        assert_eq!(zstd::decode_all(&first[&raw][..]).unwrap(), record);
        names.extend([raw, format!("v1/results/{partition}/{id}.parquet")]);
    }
    names.sort();
    assert_eq!(names, first.into_keys().collect::<Vec<_>>());
}

#[test]
fn what_is_no_record_is_named_and_the_others_are_pushed() {
    let folder = temp_dir("fleet");
    let world = World::new(Kind::Normal, 2, 3, 1);
    let spool = spool(folder.path(), &world);
    fs::write(spool.join("newer.jsonl"), "{\"kind\":\"header\",\"schema\":99}\n").unwrap();
    fs::write(spool.join("text.jsonl"), "# not a record\n").unwrap();
    fs::write(spool.join("empty.jsonl"), "").unwrap();
    let whole = record(&world.session(1, 5, 0, &[]));
    // A machine that went away in the middle of a line has left a smaller record.
    fs::write(spool.join("cut.jsonl"), &whole[..whole.len() - 30]).unwrap();
    let store = folder.path().join("store");
    let said = said(2, "push", &store, &[spool.to_str().unwrap()]);
    assert!(said.contains("3 new, 0 there already, 3 not pushed"), "{said}");
    assert!(
        said.contains(
            "newer.jsonl: line 1: written with schema 99, and this weighbridge reads schemas up to 2"
        ),
        "{said}"
    );
    assert!(said.contains("text.jsonl: line 1: not a line of a record"), "{said}");
    assert!(said.contains("empty.jsonl: "), "{said}");
}

#[test]
fn a_credential_in_a_record_is_not_stored_and_not_shown() {
    let folder = temp_dir("fleet");
    let world = World::new(Kind::Normal, 1, 3, 1);
    let secret = "wJalrXUtnFEMIK7MDENG";
    let with_it = text(&record(&world.session(0, 0, 0, &[])))
        .replace("\"seed\":1", &format!("\"seed\":1,\"command\":[\"weighbridge\",\"--url\",\"{secret}\"]"));
    let file = folder.path().join("a.jsonl");
    fs::write(&file, with_it).unwrap();
    let store = folder.path().join("store");
    let output =
        program().env("AWS_SECRET_ACCESS_KEY", secret).arg("push").args([&store, &file]).output().unwrap();
    let said = ends_with(&output, 2);
    assert!(said.contains("AWS_SECRET_ACCESS_KEY") && !said.contains(secret), "{said}");
    assert!(objects(&store).is_empty());
}

#[test]
fn a_store_that_is_away_is_to_be_tried_again_and_a_mistake_is_not() {
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 1, 2, 1));
    let spool = spool.to_str().unwrap();
    let push = |url: &str| {
        program()
            .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENG")
            // Nobody listens on this port.
            .env("AWS_ENDPOINT", "http://127.0.0.1:9")
            .env("AWS_REGION", "us-east-1")
            .args(["push", url, spool, "--patience", "1"])
            .output()
            .unwrap()
    };
    let said = ends_with(&push("s3://bucket/fleet"), 75);
    assert!(said.contains("the store is away, try again later"), "{said}");
    assert!(!said.contains("wJalr") && !said.contains("AKIA"), "{said}");
    let said = ends_with(&push("ftp://bucket/fleet"), 2);
    assert!(said.contains("no address of a store") || said.contains("no store that"), "{said}");
    let said =
        ends_with(&program().args(["push", "https://me:hunter2hunter2@host/x", spool]).output().unwrap(), 2);
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_record_that_a_session_is_writing_is_left_for_the_next_push() {
    let folder = temp_dir("fleet");
    let world = World::new(Kind::Normal, 1, 3, 1);
    let whole = record(&world.session(0, 0, 0, &[]));
    let spool = folder.path().join("spool");
    fs::create_dir(&spool).unwrap();
    let without_end =
        &whole[..whole.len() - whole.split_inclusive(|byte| *byte == b'\n').next_back().unwrap().len()];
    fs::write(spool.join("plan-n1-b007-0.jsonl"), without_end).unwrap();
    let lock = fs::File::create(spool.join(".plan-n1-b007.lock")).unwrap();
    lock.lock().unwrap();
    let store = folder.path().join("store");
    assert!(pushed(&store, &spool).contains("0 new, 0 there already, 1 still being written"));
    // Killed: what there is of it is a smaller record.
    drop(lock);
    assert!(pushed(&store, &spool).contains("1 new, 0 there already"));
}

#[test]
fn parquet_of_a_record_needs_no_store() {
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 1, 4, 1));
    let out = spool.join("0.parquet");
    assert!(said(0, "parquet", &spool.join("0.jsonl"), &[]).contains("4 cases") && out.exists());
    assert!(said(2, "parquet", &spool.join("no.jsonl"), &[]).contains("No such file"));
}
