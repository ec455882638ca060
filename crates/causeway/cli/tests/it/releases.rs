//! This program with that of another release, in all roles.
//!
//! The other one is built from the last tag `v…` below this commit, or from the commit in `CAUSEWAY_RELEASE`, into
//! `target/releases`. Without either the test says so and ends.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use causeway::Group;

use crate::support::{Running, eventually, kill, printed, skipped, temp_dir, tied};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_owned()
}

/// What `git` says of this repository; nothing where there is none, or it knows no answer.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The commit of the other release.
fn other_commit() -> Option<String> {
    let named = std::env::var("CAUSEWAY_RELEASE").ok();
    let head = git(&["rev-parse", "HEAD"])?;
    let tags = || git(&["tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname"]);
    let names = named.map_or_else(tags, Some)?;
    let commits = names.lines().filter_map(|name| git(&["rev-parse", &format!("{name}^{{commit}}")]));
    let asked = std::env::var_os("CAUSEWAY_RELEASE").is_some();
    commits.into_iter().find(|commit| asked || *commit != head)
}

/// Builds the program of a commit, unless it is there.
fn program_of(commit: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let kept = target.join("releases").join(commit);
    if !kept.exists() {
        let sources = temp_dir("release");
        let archive = sources.path().join("sources.tar");
        git(&["archive", "--output", archive.to_str().unwrap(), commit]).expect("the sources of that commit");
        let unpacked = Command::new("tar").arg("-xf").arg(&archive).current_dir(sources.path()).status();
        assert!(unpacked.unwrap().success());
        let build = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "-p", "causeway-cli", "--target-dir"])
            .arg(target.join("releases/target"))
            .current_dir(sources.path())
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .status();
        assert!(build.unwrap().success(), "{commit} does not build");
        // At once or not at all: whoever finds it may run it.
        let copy = kept.with_extension("new");
        fs::copy(target.join("releases/target/release/causeway"), &copy).unwrap();
        fs::rename(copy, &kept).unwrap();
    }
    kept
}

fn run(program: &Path, arguments: &[&str]) -> Child {
    tied(program.to_str().unwrap()).args(arguments).spawn().unwrap()
}

#[test]
fn the_release_before_and_this_one_serve_publish_and_subscribe_in_one_group() {
    let Some(commit) = other_commit() else {
        return skipped("there is no tag v… of another release; name a commit in CAUSEWAY_RELEASE");
    };
    let programs = [PathBuf::from(env!("CARGO_BIN_EXE_causeway")), program_of(&commit)];
    for roles in 0..8 {
        let [server, publisher, subscriber] = [0, 1, 2].map(|bit| &programs[roles >> bit & 1]);
        let folder = temp_dir("roles");
        let path = folder.path().join("group");
        let socket = path.to_str().unwrap();
        let mut serve = tied(server.to_str().unwrap());
        let mut served = Running::start(serve.args(["serve", socket, "--late-publishers"]));
        eventually("no process serves the group", || Group::join(&path).is_ok());
        // This and another one, which is killed.
        let mut readers =
            [run(subscriber, &["subscribe", socket]), run(&programs[0], &["subscribe", socket])];
        let report = || Group::join(&path).unwrap().report().unwrap();
        eventually("not all subscribers are there", || report().subscribers.len() == 2);
        let publish = |program: &Path, lines: &str| {
            let mut publishing = run(program, &["publish", socket]);
            publishing.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            assert!(publishing.wait().unwrap().success(), "roles {roles:03b}");
        };
        publish(publisher, "one\ntwo\n");
        publish(&programs[0], "three\n");
        readers[1].kill().unwrap();
        readers[1].wait().unwrap();
        publish(publisher, "four\n");
        eventually("not everything is received", || {
            report().subscribers.iter().all(|subscriber| subscriber.received == 4)
        });
        kill("TERM", served.pid());
        assert!(served.wait().success());
        let [reader, _] = readers;
        assert_eq!(
            printed(reader.wait_with_output().unwrap()),
            "one\ntwo\nthree\nfour\n",
            "roles {roles:03b}"
        );
    }
}
