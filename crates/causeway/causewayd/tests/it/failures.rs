//! What is not there when it is needed: memory for the order log, and a clock that nobody sets.

use std::path::Path;
use std::process::{Command, Stdio};

use causeway_bus::client::Bus as Client;

/// causewayd in a shell that allows no file above 4 KiB, and files in memory are such.
fn limited(folder: &Path, args: &str) -> Command {
    let program = env!("CARGO_BIN_EXE_causewayd");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -f 4 && exec {program} --nofork --print-address {args}")]);
    command.env("XDG_RUNTIME_DIR", folder).stdin(Stdio::null());
    command
}

#[test]
fn without_memory_for_the_order_log_it_says_so_and_a_session_serves_clients_alone() {
    let folder = tempfile::tempdir().unwrap();
    let native = folder.path().join("native");
    let told = limited(folder.path(), &format!("--address unix:tmpdir=/tmp --native {}", native.display()));
    let output = { told }.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot serve native members at") && said.lines().count() == 1, "{said}");
    assert!(!native.exists(), "the socket stays");
    // It was not told to, and does without.
    let mut session = limited(folder.path(), "--session --address unix:tmpdir=/tmp");
    let mut child = session.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut address).unwrap();
    let served = Client::open(address.trim()).map(|connection| connection.unique_name().to_owned());
    let _ = child.kill();
    let _ = child.wait();
    assert!(served.as_deref().is_ok_and(|name| name.starts_with(":1.")), "{served:?}");
}

/// Deadlines are those of the monotonic clock, which nobody sets: no source asks for another one, but the one that compares with the
/// times of files, and at worst reads a file once more.
#[test]
fn no_deadline_depends_on_the_clock_that_can_jump() {
    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    for folder in ["src", "../bus/src"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    assert!(found.iter().any(|(_, text)| text.contains("Instant::now()")), "these are not the sources");
    for (path, text) in found.iter().filter(|(path, _)| !path.ends_with("/service_file.rs")) {
        for word in ["SystemTime::now", "UNIX_EPOCH", "ClockId::Realtime", "CLOCK_REALTIME"] {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
