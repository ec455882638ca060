//! A disk that is full ends a recording, and nothing else.

use std::process::{Command, Stdio};

use causeway::GroupOptions;
use causeway_testkit::{Cause, Running, has_program, skipped, trial_succeeds};

use crate::support::{Served, contents, end, number, payload, publish_now, recorder, verified};

fn served() -> Served {
    Served::new(GroupOptions::new().capacity_bytes(1 << 20))
}

/// Publishes much more than there is space for, and goes on after the recorder has ended.
fn publish(served: &Served, running: &mut Running) -> u64 {
    let mut publisher = served.group().publisher().unwrap();
    let mut published = 0;
    while running.0.try_wait().unwrap().is_none() {
        publish_now(&mut publisher, &payload(published, 1000));
        published += 1;
        if published % 500 == 0 {
            std::thread::yield_now();
        }
        assert!(published < 20_000_000, "the recorder does not notice that its disk is full");
    }
    for number in 0..2000 {
        publish_now(&mut publisher, &payload(published + number, 1000));
    }
    published
}

/// One sentence, and the file is whole as far as it goes.
fn check(file: &str, (code, said): (i32, String), reason: &str) {
    let complaints: Vec<&str> = said.lines().filter(|line| line.starts_with("causeway-record:")).collect();
    assert_eq!((code, complaints.len()), (3, 1), "{said}");
    assert!(complaints[0].contains(reason) && complaints[0].contains("can be read"), "{said}");
    let found = contents(file);
    assert!(found.is_whole, "{} messages, and no end", found.messages.len());
    assert!(found.messages.len() > 500, "{} messages: there was space for more", found.messages.len());
    assert!(complaints[0].contains(&format!("{} messages are recorded", found.messages.len())), "{said}");
    let numbers: Vec<u64> = found.messages.iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert!(verified(&[file]).0 < 2);
}

#[test]
fn a_file_that_may_not_grow_any_further_is_finished() {
    let served = served();
    let (program, group, file) =
        (env!("CARGO_BIN_EXE_causeway-record"), served.path("group"), served.path("a.mcap"));
    // Blocks of 512 bytes: 2 MiB.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 4096 && exec \"$@\"", "sh", program, &group, "-o", &file]);
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut running = served.joined(running);
    publish(&served, &mut running);
    check(&file, end(running), "File too large");
}

#[test]
fn a_disk_that_fills_ends_a_recording_with_one_sentence_and_a_file_that_can_be_read() {
    let served = served();
    const SCRIPT: &str = "mount -t tmpfs -o size=3m none \"$3\" && \"$1\" \"$2\" -o \"$3/a.mcap\"; code=$?; \
        cp \"$3/a.mcap\" \"$4\"; exit $code";
    let disk = served.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let unshared = |script: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]).args(script);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut trial = unshared(&["mount -t tmpfs -o size=3m none \"$1\"", "sh", &disk]);
    if !has_program("unshare") || !trial_succeeds(&mut trial, Cause::Rights("namespaces")) {
        return;
    }
    let (program, group, copy) =
        (env!("CARGO_BIN_EXE_causeway-record"), served.path("group"), served.path("copy.mcap"));
    let running = Running::start(&mut unshared(&[SCRIPT, "sh", program, &group, &disk, &copy]));
    let mut running = served.joined(running);
    publish(&served, &mut running);
    check(&copy, end(running), "No space left on device");
}

#[test]
fn a_device_that_takes_nothing_ends_a_recording_with_one_sentence() {
    if !std::path::Path::new("/dev/full").exists() {
        return skipped(Cause::Missing("/dev/full"), "");
    }
    let served = served();
    let mut command = recorder(&[&served.path("group"), "-o", "/dev/full"]);
    let mut running = Running::start(&mut command);
    let mut publisher = served.group().publisher().unwrap();
    // It ends when it writes the beginning of the file.
    running.wait();
    publish_now(&mut publisher, b"on");
    let (code, said) = end(running);
    let complaints: Vec<&str> = said.lines().filter(|line| line.starts_with("causeway-record:")).collect();
    assert!(code == 3 && complaints.len() == 1 && said.contains("No space left on device"), "{code}: {said}");
}
