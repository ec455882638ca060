//! This program with that of another release, in all roles, while processes of both are killed.
//!
//! The other one is built from the last tag `v…` below this commit, or from the commit in `CAUSEWAY_RELEASE`, into `target/releases`.
//! `CAUSEWAY_RELEASE_FORMATS` gives it other formats than its sources say: `1..=1` makes the release before of this one, `2..=3` the next.
//! Without a tag and a commit the test is skipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use causeway::{FORMATS, Group, Report};
use causeway_testkit::watchdog::{COMPILING, extend_limit};

use crate::support::{
    Cause, Running, complaint, eventually, eventually_seen, has_program, kill, printed, skipped, temp_dir,
    tied,
};

const LAYOUT: &str = "crates/causeway/causeway/src/log/layout.rs";

/// What was built of another release.
struct Release {
    program: PathBuf,
    /// The formats that it has. A release before the handshake has none.
    formats: Option<(u32, u32)>,
}

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
    // Sources without their history have no other release.
    git(&["rev-parse", "--git-dir"])?;
    let named = std::env::var("CAUSEWAY_RELEASE").ok();
    let commit = |name: &str| git(&["rev-parse", &format!("{name}^{{commit}}")]);
    if let Some(name) = named {
        return Some(commit(&name).unwrap_or_else(|| panic!("CAUSEWAY_RELEASE: there is no commit {name}")));
    }
    let head = commit("HEAD")?;
    let tags = git(&["tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname"])?;
    tags.lines().filter_map(commit).find(|commit| *commit != head)
}

/// The text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// The formats that these sources have, and those that they get.
fn formats_of(sources: &Path) -> Option<(u32, u32)> {
    const BEFORE: &str = "pub const FORMATS: std::ops::RangeInclusive<u32> = ";
    const DEFAULT: &str = "pub const FORMAT_DEFAULT: u32 = ";
    let path = sources.join(LAYOUT);
    let mut text = fs::read_to_string(&path).unwrap();
    let own = between(&text, BEFORE, ";")?.to_owned();
    let given = std::env::var("CAUSEWAY_RELEASE_FORMATS").unwrap_or_else(|_| own.clone());
    let (min, max) = given.split_once("..=").expect("formats are written as 1..=2");
    let default = between(&text, DEFAULT, ";").expect("a default").to_owned();
    if given != own {
        text = text.replace(&format!("{BEFORE}{own};"), &format!("{BEFORE}{given};"));
        text = text.replace(&format!("{DEFAULT}{default};"), &format!("{DEFAULT}{min};"));
        fs::write(&path, text).unwrap();
    }
    Some((min.parse().unwrap(), max.parse().unwrap()))
}

/// Builds the program of a commit, unless it is there.
fn release_of(commit: &str) -> Release {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let sources = temp_dir("release");
    let archive = sources.path().join("sources.tar");
    git(&["archive", "--output", archive.to_str().unwrap(), commit]).expect("the sources of that commit");
    // Files of this moment: with those of the commit, what was built of a later one would pass for theirs.
    let unpacked = Command::new("tar").arg("-xmf").arg(&archive).current_dir(sources.path()).status();
    assert!(unpacked.unwrap().success());
    let formats = formats_of(sources.path());
    let name = formats.map_or_else(|| commit.to_owned(), |(min, max)| format!("{commit}-{min}-{max}"));
    let program = target.join("releases").join(name);
    if !program.exists() {
        extend_limit(COMPILING);
        let build = Command::new(env!("CARGO"))
            .args(["build", "--locked", "-p", "causeway-cli", "--target-dir"])
            .arg(target.join("releases/target"))
            .current_dir(sources.path())
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .status();
        assert!(build.unwrap().success(), "{commit} does not build");
        // At once or not at all: whoever finds it may run it.
        let copy = program.with_extension("new");
        fs::copy(target.join("releases/target/debug/causeway"), &copy).unwrap();
        fs::rename(copy, &program).unwrap();
    }
    Release { program, formats }
}

fn run(program: &Path, arguments: &[&str]) -> Child {
    tied(program.to_str().unwrap()).args(arguments).spawn().unwrap()
}

/// A publisher of numbered lines; it ends with its standard input.
struct Lines {
    process: Child,
    name: &'static str,
    count: usize,
}

impl Lines {
    fn publish(program: &Path, socket: &str, name: &'static str) -> Lines {
        Lines { process: run(program, &["publish", socket]), name, count: 0 }
    }

    fn write(&mut self, count: usize) {
        let lines: String =
            (self.count..self.count + count).map(|number| format!("{} {number}\n", self.name)).collect();
        self.process.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        self.count += count;
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        printed(self.process.wait_with_output().unwrap());
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// How many lines of this name there are: all from the first on, in their order.
fn count_of(name: &str, lines: &str, roles: &str) -> usize {
    let numbers = lines.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len()), "{roles}: of {name}: {numbers:?}");
    numbers.len()
}

/// One group: its server, a publisher and a subscriber are each of the one or the other release. Beside them are a publisher and a
/// subscriber of this one. One of each kind is killed, and at last the server, or it is ended.
fn all_see_the_same(other: &Release, roles: u32, kills_server: bool) {
    let own = Path::new(env!("CARGO_BIN_EXE_causeway"));
    let is_other = [0, 1, 2].map(|bit| roles >> bit & 1 == 1);
    let [server, publisher, subscriber] = is_other.map(|is| if is { &*other.program } else { own });
    let (min, max) = other.formats.unwrap();
    let server_max = if is_other[0] { max } else { *FORMATS.end() };
    let said = format!("roles {roles:03b}, server {}", if kills_server { "killed" } else { "ended" });
    let folder = temp_dir("roles");
    let path = folder.path().join("group");
    let socket = path.to_str().unwrap();
    let mut serve = tied(server.to_str().unwrap());
    let highest = server_max.to_string();
    // Smallest, so that it is full again and again.
    serve.args(["serve", socket, "--late-publishers", "--capacity", "4K", "--format", &highest]);
    let mut served = Running::start(&mut serve);
    eventually("no process serves the group", || Group::join(&path).is_ok());
    let report = || Group::join(&path).unwrap().report().unwrap();
    let mut readers = [subscriber, own, subscriber].map(|program| Some(run(program, &["subscribe", socket])));
    let are_there = |count: usize| {
        let is_so = |report: &Report| report.subscribers.len() == count;
        eventually_seen(&format!("{said}: {count} subscribers"), report, is_so);
    };
    are_there(3);
    // What all who are there have: of the other release at least one is, unless it has no role.
    let common = if roles == 0 { server_max } else { server_max.min(*FORMATS.end()).min(max) };
    assert!(common >= min);
    let is_common = |report: &Report| report.format == common;
    let mut killed = Lines::publish(publisher, socket, "killed");
    let mut first = Lines::publish(publisher, socket, "first");
    let mut second = Lines::publish(own, socket, "second");
    for round in 0..10 {
        killed.write(20);
        first.write(20);
        second.write(20);
        if round == 3 {
            let mut reader = readers[2].take().unwrap();
            reader.kill().unwrap();
            reader.wait().unwrap();
        }
    }
    eventually_seen(&format!("{said}: format {common}"), report, is_common);
    killed.kill();
    // It comes when all the others are in the middle of their work.
    let mut last = Lines::publish(publisher, socket, "last");
    last.write(100);
    second.write(100);
    first.end();
    second.end();
    last.end();
    are_there(2);
    let all_received = |report: &Report| report.subscribers.iter().all(|one| one.received == report.messages);
    eventually_seen(&format!("{said}: everything is received"), report, all_received);
    let published = report().messages;
    if kills_server {
        kill("KILL", served.pid());
        served.wait();
    } else {
        kill("TERM", served.pid());
        assert!(served.wait().success(), "{said}");
    }
    let outputs: Vec<Output> =
        readers.into_iter().flatten().map(|reader| reader.wait_with_output().unwrap()).collect();
    let [one, another] = outputs.try_into().unwrap();
    for reader in [&one, &another] {
        // Without publishers it is the end; in the middle of a roll the server had the next log.
        let error = String::from_utf8_lossy(&reader.stderr);
        let is_gone = kills_server && error.contains("serves the group is gone");
        assert!(reader.status.success() || is_gone, "{said}: {error}");
    }
    let lines = String::from_utf8(one.stdout).unwrap();
    assert_eq!(lines, String::from_utf8(another.stdout).unwrap(), "{said}");
    assert_eq!(lines.lines().count() as u64, published, "{said}");
    assert_eq!(
        ["first", "second", "last"].map(|name| count_of(name, &lines, &said)),
        [200, 300, 100],
        "{said}"
    );
    assert!(count_of("killed", &lines, &said) <= 200);
}

/// Neither side takes the other for what it is not, and each names both versions and what to do.
fn refuse_each_other(other: &Release) {
    let own = Path::new(env!("CARGO_BIN_EXE_causeway"));
    for (server, member) in [(own, &*other.program), (&*other.program, own)] {
        let folder = temp_dir("refused");
        let path = folder.path().join("group");
        let socket = path.to_str().unwrap();
        let mut serve = tied(server.to_str().unwrap());
        let mut served = Running::start(serve.args(["serve", socket, "--late-publishers"]));
        eventually("no process serves the group", || Group::join(&path).is_ok());
        for arguments in [&["publish", socket][..], &["subscribe", socket], &["stat", socket]] {
            let refused = complaint(run(member, arguments).wait_with_output().unwrap());
            eprintln!("{}: {refused}", arguments[0]);
            let numbers: Vec<u32> = refused
                .split("version ")
                .skip(1)
                .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
                .collect();
            assert!(numbers.len() == 2 && numbers[0] != numbers[1], "{refused}");
            assert!(refused.contains("use the same version on both sides"), "{refused}");
        }
        kill("TERM", served.pid());
        assert!(served.wait().success(), "the one that was asked goes on");
    }
}

#[test]
fn another_release_and_this_one_serve_publish_and_subscribe_in_one_group_or_refuse_each_other_in_words() {
    if !["git", "tar", "cargo"].into_iter().all(has_program) {
        return;
    }
    let Some(commit) = other_commit() else {
        return skipped(
            Cause::Setting("CAUSEWAY_RELEASE"),
            "there is no tag v… of another release; it names a commit",
        );
    };
    let other = release_of(&commit);
    eprintln!("{commit}: formats {:?}", other.formats);
    if other.formats.is_none() {
        return refuse_each_other(&other);
    }
    for roles in 0..8 {
        for kills_server in [false, true] {
            all_see_the_same(&other, roles, kills_server);
        }
    }
}
