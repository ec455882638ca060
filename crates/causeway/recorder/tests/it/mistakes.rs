//! What was typed wrongly is one sentence and exit code 2.

use causeway::GroupOptions;

use crate::support::{Served, record_bus, recorder, serve_bus, temp_dir};

#[track_caller]
fn refused(arguments: &[&str], sentence: &str) {
    let output = recorder(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(sentence), "{said}");
}

#[test]
fn a_mistake_on_the_command_line_is_one_sentence_with_a_way_out() {
    refused(
        &["/run/prices", "--outptu", "a.mcap"],
        "there is no option `--outptu`; did you mean `--output`?; see `causeway-record --help`",
    );
    refused(&["/run/prices"], "--output is missing; see `causeway-record --help`");
    refused(&["/run/prices", "-o", "a.mcap", "--ring", "many"], "--ring");
    refused(&["replay", "a.mcap", "/run/again", "--speed", "0"], "--speed: write a number above 0");
    refused(&["/run/prices", "-o", "a.mcap", "--schema", "prices"], "--schema: write the number of a topic");
}

#[test]
fn what_a_source_does_not_have_is_refused_before_there_is_a_file() {
    let served = Served::new(GroupOptions::new());
    let (group, file) = (served.path("group"), served.path("a.mcap"));
    refused(&[&group, "-o", &file, "--json"], "--json is for a bus");
    refused(
        &[&group, "-o", &file, "--schema", "3=/nowhere/a.json"],
        "/nowhere/a.json is not read as a schema",
    );
    let folder = temp_dir("recorder");
    let native = folder.path().join("native");
    let _stop = serve_bus(&native);
    let schema = served.path("schema.json");
    std::fs::write(&schema, "{}").unwrap();
    refused(
        &[native.to_str().unwrap(), "-o", &file, "--schema", &format!("3={schema}")],
        "--schema is for topics of a group",
    );
    assert!(!std::fs::exists(&file).unwrap());
    drop(record_bus(&native, &file, &[]));
}
