//! The program from outside: options, descriptors, files, signals.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::Body;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_causewayd")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// What it says when it does not start.
fn failure(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "{args:?} starts a bus");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn end(broker: &mut Broker, signal: Signal) {
    broker.child.signal(signal).unwrap();
    let status = broker.child.wait();
    assert!(status.success(), "{status}");
}

fn at(path: &Path) -> String {
    format!("unix:path={}", path.display())
}

#[test]
fn a_socket_goes_with_its_bus_and_one_that_was_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus");
    for signal in [Signal::TERM, Signal::INT] {
        // As a bus leaves it that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let mut broker = Broker::with(&["--address", &at(&path)]);
        let _client = broker.open();
        let second = failure(&["--address", &at(&path), "--nofork"]);
        assert!(second.contains("another process serves there"), "{second}");
        assert!(path.metadata().unwrap().file_type().is_socket());
        end(&mut broker, signal);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

/// Killed, a bus leaves its socket; of several that find it one serves, and the others say so.
#[test]
fn one_of_many_takes_the_socket_that_a_killed_bus_has_left() {
    const CANDIDATES: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus");
    for _ in 0..5 {
        let mut broker = Broker::with(&["--address", &at(&path)]);
        broker.child.kill();
        assert!(path.exists());
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
            command.args(["--nofork", "--address", &at(&path)]).stdin(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut candidates: Vec<_> = (0..CANDIDATES).map(|_| start()).collect();
        let mut running = || {
            candidates.retain_mut(|candidate| {
                candidate.try_wait().unwrap().is_none_or(|status| {
                    let why = std::io::read_to_string(candidate.stderr.take().unwrap()).unwrap();
                    assert!(!status.success() && why.contains("another process serves there"), "{why}");
                    false
                })
            });
            candidates.len()
        };
        eventually_seen("more than one goes on", &mut running, |count| *count <= 1);
        let client = eventually_seen("nobody serves", || Client::open(&at(&path)), |client| client.is_ok());
        drop(client);
        assert_eq!(running(), 1);
        let mut last = candidates.pop().unwrap();
        kill_process(Pid::from_raw(last.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        assert!(last.wait().unwrap().success());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

/// A session without a file for its D-Bus socket serves natively under a name that is never used again.
#[test]
fn what_a_killed_session_leaves_is_removed_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_causewayd"));
        command.args(["--session", "--address", "unix:tmpdir=/tmp"]).stderr(Stdio::null());
        Broker::spawn(command.env("XDG_RUNTIME_DIR", folder.path()))
    };
    let files = || {
        let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    std::fs::write(folder.path().join("causeway-notes.native.lock"), "precious").unwrap();
    let mut running = start();
    let of_running = files();
    assert_eq!(of_running.len(), 3, "{of_running:?}");
    // Killed when it is dropped.
    drop(start());
    assert_eq!(files().len(), 5);
    let mut next = start();
    let left = files();
    assert!(left.len() == 5 && left.is_superset(&of_running), "{left:?}");
    end(&mut next, Signal::TERM);
    end(&mut running, Signal::TERM);
    assert_eq!(files().len(), 1);
}

#[test]
fn a_name_in_the_abstract_namespace_has_one_bus() {
    let broker = Broker::start();
    let address = broker.address.split(',').next().unwrap();
    let second = failure(&["--address", address, "--nofork"]);
    assert!(second.contains(address) && second.contains("in use"), "{second}");
    drop(broker.open());
}

#[test]
fn manual_page_and_completions_have_every_option() {
    let text = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    let help = text(&["--help"]);
    let options: Vec<&str> = help
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--"))
        .map(|word| word.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap())
        .filter(|option| !option.is_empty())
        .collect();
    assert!(options.len() > 15, "{options:?}");
    // A manual page writes hyphens as `\\-`.
    let page = text(&["--man"]).replace('\\', "");
    for option in options {
        assert!(page.contains(&format!("--{option}")), "--{option} is not in the page");
        for shell in ["bash", "zsh", "fish"] {
            assert!(
                text(&["--completions", shell]).contains(option),
                "--{option} is not completed in {shell}"
            );
        }
    }
}

/// The kernel lets every user connect; authentication and the policy decide whom the bus lets in.
#[test]
fn the_files_of_the_sockets_let_in_whom_the_policy_may_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let (path, native) = (folder.path().join("bus"), folder.path().join("native"));
    let _broker = Broker::with(&["--address", &at(&path), "--native", native.to_str().unwrap()]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(&native)), (0o777, 0o600));
}

#[test]
fn several_addresses_are_one_bus() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (at(&folder.path().join("one")), at(&folder.path().join("two")));
    let broker = Broker::with(&["--address", &format!("{one};{two}")]);
    let mut first = Client::open(&one).unwrap();
    let second = Client::open(&two).unwrap();
    let known = first.ask_driver("GetNameOwner", Body::default().text(second.unique_name()));
    assert!(known.is_ok() && broker.address.contains(';'), "{}", broker.address);
}

#[test]
fn in_the_background_it_returns_when_clients_can_connect() {
    let folder = tempfile::tempdir().unwrap();
    let address = at(&folder.path().join("bus"));
    let output = run(&["--address", &address, "--fork", "--print-address", "--print-pid"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with(&address), "{said}");
    drop(Client::open(lines[0]).unwrap());
    assert_eq!(std::fs::read_to_string(format!("/proc/{}/comm", lines[1])).unwrap(), "causewayd\n");
    let pid = Pid::from_raw(lines[1].parse().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    eventually_seen("the socket stays", || folder.path().join("bus").exists(), |exists| !exists);
}

#[test]
fn what_it_cannot_do_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bus.conf");
    let configured = |text: &str| {
        std::fs::write(&file, format!("<busconfig>{text}</busconfig>")).unwrap();
        failure(&["--config-file", file.to_str().unwrap(), "--nofork"])
    };
    assert!(failure(&[]).contains("say where to listen"));
    assert!(failure(&["--address", "tcp:host=localhost"]).contains("unsupported address"));
    assert!(failure(&["--config-file", "/no/such/file"]).contains("/no/such/file"));
    assert!(configured("<allow_anonymous/>").contains("anonymous clients are not supported"));
    assert!(configured("<colour/>").contains("unknown configuration element <colour>"));
    let busy = folder.path().join("busy");
    std::fs::write(&busy, "a file").unwrap();
    assert!(failure(&["--address", &at(&busy)]).contains("a file and not a socket"));
    let free = at(&folder.path().join("free"));
    let native = failure(&["--address", &free, "--native", busy.to_str().unwrap(), "--nofork"]);
    assert!(native.contains("a file and not a socket") && native.matches("busy").count() == 1, "{native}");
    assert_eq!(std::fs::read_to_string(&busy).unwrap(), "a file");
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["bus.conf", "busy"]);
    let closed = failure(&["--address", &free, "--nofork", "--print-address", "77"]);
    assert!(closed.contains("descriptor 77: it is not open"), "{closed}");
    // Nothing is printed: there is no bus whose address that is.
    let nowhere = ["--address", &free, "--nofork", "--print-address", "--print-native"];
    assert!(failure(&nowhere).contains("there is no native socket"));
    let introspected = run(&["--introspect"]);
    assert!(
        String::from_utf8(introspected.stdout).unwrap().contains("<interface name=\"org.freedesktop.DBus\">")
    );
}

/// The names are those of dbus-daemon where it has the number.
#[test]
fn statistics_have_what_is_held_and_its_peaks() {
    let broker = Broker::start();
    let mut client = broker.open();
    let has = |reply: &[u8], name: &str| {
        let name = [name.as_bytes(), &[0]].concat();
        reply.windows(name.len()).any(|part| part == name)
    };
    let stats = |member| driver_call(member).interface("org.freedesktop.DBus.Debug.Stats");
    let of_bus = client.call(&stats("GetStats"), PATIENCE).unwrap();
    for name in ["MatchRules", "BusNames"] {
        assert!(has(&of_bus, name) && has(&of_bus, &format!("Peak{name}")), "{name}");
        assert!(has(&of_bus, &format!("Peak{name}PerConnection")), "{name}");
    }
    let own = Body::default().text(client.unique_name());
    let of_client = client.call(&stats("GetConnectionStats").body(own), PATIENCE).unwrap();
    for name in ["MatchRules", "BusNames", "IncomingBytes", "OutgoingBytes", "OutgoingFDs"] {
        assert!(has(&of_client, name) && has(&of_client, &format!("Peak{name}")), "{name}");
    }
}

#[test]
fn a_configuration_that_is_read_again_holds_for_new_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bus.conf");
    let write = |services: &str| {
        let policy = "<policy context='default'><allow send_destination='*'/><allow receive_sender='*'/><allow own='*'/></policy>";
        let text = format!("<busconfig><listen>unix:tmpdir=/tmp</listen>{policy}{services}</busconfig>");
        std::fs::write(&file, text).unwrap();
    };
    write("");
    let broker = Broker::with(&["--config-file", file.to_str().unwrap()]);
    let mut client = broker.open();
    let names = |client: &mut Client| client.ask_driver("ListActivatableNames", Body::default()).unwrap();
    let has = |reply: Vec<u8>| reply.windows(6).any(|part| part == b"a.Late");
    assert!(!has(names(&mut client)));
    std::fs::write(folder.path().join("a.service"), "[D-BUS Service]\nName=a.Late\nExec=/bin/false\n")
        .unwrap();
    write(&format!("<servicedir>{}</servicedir>", folder.path().display()));
    client.ask_driver("ReloadConfig", Body::default()).unwrap();
    assert!(has(names(&mut client)));
    // One that is broken changes nothing, and who asks for it learns why.
    write("<colour/>");
    match client.ask_driver("ReloadConfig", Body::default()) {
        Err(Error::Refused { name, message }) => {
            assert_eq!(name, "org.freedesktop.DBus.Error.Failed");
            assert!(
                message.contains("bus.conf") && message.contains("unknown configuration element <colour>"),
                "{message}"
            );
        }
        other => panic!("it should have been refused: {other:?}"),
    }
    assert!(has(names(&mut client)));
    kill_process(Pid::from_raw(broker.child.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
    assert!(has(names(&mut client)));
}
