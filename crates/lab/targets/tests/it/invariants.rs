//! What `crates/lab/README.md` says of the sources of the laboratory, where the compiler cannot hold it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Calls that read a clock or a counter.
const READINGS: &str = "now_ns( monotonic_ns( ThreadCounters::read( Instant::now( SystemNoise::read( SystemTime::now( \
    TaskSwitches::open( ProcessCounters::open(";

/// What decides what is measured and what a figure means takes nothing on trust: no `unsafe` there.
const SAFE: &str = "allocator axis catalogue compare contract coordinator counter_check crossover ctx explain host interrupt lib \
    machine marks params pattern peer placement plan planner session shared summary touch targets/descriptors targets/suites";

/// Is this file one of those, or in a folder of them?
fn is_of(name: &str, safe: &str) -> bool {
    name.strip_prefix(safe).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[test]
fn every_file_that_reads_a_clock_or_a_counter_is_in_the_list_of_ctx() {
    let text = fs::read_to_string(src("harness").join("ctx.rs")).unwrap();
    let (_, list) = text.split_once("# Who reads a clock or a counter").expect("ctx.rs has the list");
    let listed: BTreeSet<String> = list
        .lines()
        .filter_map(|line| Some(line.strip_prefix("//! | `")?.split_once('`')?.0.to_owned()))
        .collect();
    let reading: BTreeSet<String> =
        sources().into_iter().filter(|(_, text)| reads(text)).map(|(name, _)| name).collect();
    assert_eq!(reading, listed, "files that read, and files that the list in ctx.rs names");
}

#[test]
fn a_reading_is_seen_in_code_and_not_in_comments_or_tests() {
    assert!(reads("fn f() {\n    let began = Instant::now();\n}"));
    assert!(!reads("/// Not [`Instant::now()`].\nfn f() {}"));
    assert!(!reads("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { Instant::now(); }\n}"));
}

#[test]
fn a_file_that_opens_unsafe_code_says_on_which_promise_it_relies_and_is_not_one_that_judges() {
    let mut opened = 0;
    for (name, text) in sources() {
        if !text.contains("allow(unsafe_code") {
            continue;
        }
        opened += 1;
        let (before, _) = text.split_once("allow(unsafe_code").unwrap();
        assert!(before.contains("//! # Safety\n"), "{name} opens unsafe code without a paragraph # Safety");
        assert!(
            !SAFE.split_whitespace().any(|safe| is_of(&name, safe)),
            "{name} must do without unsafe code"
        );
    }
    assert!(opened > 0, "no file of this crate opens unsafe code: this test looks at the wrong place");
    for safe in SAFE.split_whitespace() {
        assert!(sources().iter().any(|(name, _)| is_of(name, safe)), "there is no {safe} any more");
    }
}

fn reads(text: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let without_comments = code.lines().map(|line| line.split("//").next().unwrap_or(""));
    without_comments.into_iter().any(|line| READINGS.split_whitespace().any(|reading| line.contains(reading)))
}

fn src(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(of).join("src")
}

/// Every source of the harness by its path below `src`, every one of the targets below `targets`, and its text.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for (of, prefix) in [("harness", ""), ("targets", "targets/")] {
        let mut folders = vec![src(of)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.strip_prefix(src(of)).unwrap().to_str().unwrap();
                    sources.push((format!("{prefix}{name}"), fs::read_to_string(&path).unwrap()));
                }
            }
        }
    }
    sources
}
