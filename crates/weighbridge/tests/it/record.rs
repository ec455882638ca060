//! `weighbridge record`: another program does it, which need not be there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use causeway_testkit::temp_dir;

use crate::PROGRAM;

#[test]
fn records_are_handed_to_the_program_that_has_the_libraries_and_its_absence_is_one_clear_sentence() {
    let folder = temp_dir("record");
    let record = |words: &[&str]| {
        let output = Command::new(PROGRAM).arg("record").args(words).env("PATH", folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let push = ["push", "s3://bucket/x", "spool", "--patience", "3", "a file.jsonl"];
    let (code, said) = record(&push);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("error: weighbridge-fleet is neither beside this program nor on PATH"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let other = folder.path().join("weighbridge-fleet");
    fs::write(&other, "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nexit 75\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let words = "[push]\n[--patience]\n[3]\n[--]\n[s3://bucket/x]\n[spool]\n[a file.jsonl]\n";
    assert_eq!(record(&push), (Some(75), words.into()));
    let words = "[parquet]\n[--out]\n[a.parquet]\n[--]\n[a.jsonl]\n";
    assert_eq!(record(&["parquet", "a.jsonl", "--out", "a.parquet"]), (Some(75), words.into()));
    assert_eq!(record(&["push", "s3://bucket/x"]).0, Some(2), "without a record");
}
