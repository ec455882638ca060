//! The program from outside: options, descriptors, files, signals, what is not there when it is needed, and programs of others.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::{Body, Value, arguments_of};
use causeway_testkit::help::{Page, assert_one_form, pages};
use causeway_waiting::{duration, size};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

fn run(args: &[&str]) -> Output {
    causewayd(args).stderr(Stdio::piped()).output().unwrap()
}

/// What it says when it does not start.
fn failure(args: &[&str]) -> String {
    let output = run(&[args, &["--nofork"]].concat());
    assert!(!output.status.success(), "{args:?} starts a bus");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn end(bus: &mut Broker, signal: Signal) {
    bus.child.signal(signal).unwrap();
    let status = bus.child.wait();
    assert!(status.success(), "{status}");
}

fn files(folder: &TempDir) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    // A session makes a folder for services there, and leaves it.
    let files = entries.filter(|entry| !entry.file_type().unwrap().is_dir());
    files.map(|entry| entry.file_name()).collect()
}

#[test]
fn a_socket_goes_with_its_bus_and_one_that_was_left_is_replaced() {
    let folder = temp_dir("program");
    let path = folder.path().join("bus");
    for signal in [Signal::TERM, Signal::INT] {
        // As a bus leaves it that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let mut bus = Broker::with(&["--address", &at(&path)]);
        let _client = bus.client();
        let second = failure(&["--address", &at(&path)]);
        assert!(second.contains("another process serves there"), "{second}");
        assert!(path.metadata().unwrap().file_type().is_socket());
        end(&mut bus, signal);
        assert!(files(&folder).is_empty());
    }
}

/// Before, the system's log was told alone, and without one nobody.
#[test]
fn a_bus_that_logs_to_the_system_says_at_standard_error_why_it_does_not_start() {
    let folder = temp_dir("program");
    let config = configuration(&folder, "<syslog/>");
    let why = failure(&["--config-file", &config, "--address", "unix:path=/nonexistent/bus"]);
    assert!(why.contains("cannot listen on unix:path=/nonexistent/bus"), "{why}");
}

/// Before, a bus that may not remove its file, as in a folder of root, was its last.
#[test]
fn a_pid_file_whose_process_is_gone_is_taken_over_and_no_other_one_is() {
    let folder = temp_dir("program");
    let pid_file = folder.path().join("pid");
    let config = configuration(&folder, &format!("<pidfile>{}</pidfile>", pid_file.display()));
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let begin = || Broker::with(&["--address", &at(&folder.path().join("bus")), "--config-file", &config]);
    for left in [format!("{}\n", gone.id()), format!("{} ", gone.id())] {
        std::fs::write(&pid_file, left).unwrap();
        let mut bus = begin();
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", bus.child.pid()));
        end(&mut bus, Signal::TERM);
        assert!(!pid_file.exists());
    }
    for (left, words) in [
        (std::process::id().to_string(), "and process"),
        ("precious".into(), "has no number of a process"),
        ("1234567890123456789".into(), "has no number of a process"),
        (String::new(), "has no number of a process"),
    ] {
        std::fs::write(&pid_file, &left).unwrap();
        let why = failure(&["--address", "unix:tmpdir=/tmp", "--config-file", &config]);
        assert!(why.contains(words) && why.contains("remove it if no bus runs"), "{left}: {why}");
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), left);
    }
}

#[test]
fn a_pid_file_that_cannot_be_removed_is_said() {
    let folder = temp_dir("program");
    let pid_file = folder.path().join("pid");
    let config = configuration(&folder, &format!("<pidfile>{}</pidfile>", pid_file.display()));
    let args = ["--nofork", "--print-address", "--config-file", &config, "--address", "unix:tmpdir=/tmp"];
    let mut bus = Running::start(causewayd(&args).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // It says so when it serves, and takes signals then.
    let mut address = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(bus.0.stdout.take().unwrap()), &mut address)
        .unwrap();
    // A file that is gone cannot be removed, by root neither, so that this holds for every user who runs the tests.
    std::fs::remove_file(&pid_file).unwrap();
    bus.signal(Signal::TERM).unwrap();
    let said = std::io::read_to_string(bus.0.stderr.take().unwrap()).unwrap();
    assert!(said.contains(&format!("cannot remove {}", pid_file.display())), "{said}");
}

/// Killed, a bus leaves its socket; of several that find it one serves, and the others say so.
#[test]
fn one_of_many_takes_the_socket_that_a_killed_bus_has_left() {
    let folder = temp_dir("program");
    let path = folder.path().join("bus");
    for _ in 0..5 {
        let mut bus = Broker::with(&["--address", &at(&path)]);
        bus.child.kill();
        assert!(path.exists());
        let start = |()| {
            let mut command = causewayd(&["--nofork", "--address", &at(&path)]);
            Running::start(command.stderr(Stdio::piped()))
        };
        let mut candidates = Vec::from([(); 4].map(start));
        let mut running = || {
            candidates.retain_mut(|candidate| {
                candidate.0.try_wait().unwrap().is_none_or(|status| {
                    let why = std::io::read_to_string(candidate.0.stderr.take().unwrap()).unwrap();
                    assert!(!status.success() && why.contains("another process serves there"), "{why}");
                    false
                })
            });
            candidates.len()
        };
        eventually_seen("more than one goes on", &mut running, |count| *count <= 1);
        eventually("nobody serves", || Client::open(&at(&path)).is_ok());
        assert_eq!(running(), 1);
        candidates[0].signal(Signal::TERM).unwrap();
        assert!(candidates[0].wait().success());
        assert!(files(&folder).is_empty());
    }
}

/// A session without a file for its D-Bus socket serves natively under a name that is never used again.
#[test]
fn what_a_killed_session_leaves_is_removed_by_the_next_one() {
    let folder = temp_dir("program");
    let start = || {
        let mut command = causewayd(&["--session", "--address", "unix:tmpdir=/tmp"]);
        Broker::spawn(command.env("XDG_RUNTIME_DIR", folder.path()))
    };
    std::fs::write(folder.path().join("causeway-notes.native.lock"), "precious").unwrap();
    let mut running = start();
    let of_running = files(&folder);
    assert_eq!(of_running.len(), 3, "{of_running:?}");
    // Killed when it is dropped.
    drop(start());
    assert_eq!(files(&folder).len(), 5);
    let mut next = start();
    let left = files(&folder);
    assert!(left.len() == 5 && left.is_superset(&of_running), "{left:?}");
    end(&mut next, Signal::TERM);
    end(&mut running, Signal::TERM);
    assert_eq!(files(&folder).len(), 1);
}

#[test]
fn manual_page_and_completions_have_every_option() {
    let text = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    let options: Vec<String> =
        pages(causewayd).iter().flat_map(Page::options).map(|option| option.name).collect();
    assert!(options.len() > 15, "{options:?}");
    // A manual page writes hyphens as `\\-`.
    let page = text(&["--man"]).replace('\\', "");
    let scripts = ["bash", "zsh", "fish"].map(|shell| text(&["--completions", shell]));
    for option in options {
        assert!(page.contains(&format!("--{option}")), "--{option} is not in the page");
        assert!(scripts.iter().all(|script| script.contains(&option)), "--{option} is not completed");
    }
}

/// As all programs of this project do.
#[test]
fn what_was_typed_wrongly_is_one_sentence() {
    let refused = run(&["--completions", "nonsense"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(
        said.starts_with("error: --completions takes bash, ") && said.contains("not `nonsense`"),
        "{said}"
    );
}

#[test]
fn bytes_and_times_are_written_as_for_the_other_programs() {
    let [_, times] = assert_one_form(causewayd, size::FORM, duration::FORM);
    assert!(times >= 1);
}

#[test]
fn a_verbose_bus_logs_who_comes_and_goes_and_others_do_not() {
    let folder = temp_dir("program");
    let said = |options: &[&str]| {
        let log = folder.path().join(format!("log-{}", options.len()));
        let mut command = causewayd(&[&["--address", "unix:tmpdir=/tmp"], options].concat());
        let mut bus = Broker::spawn(command.stderr(std::fs::File::create(&log).unwrap()));
        let client = bus.client();
        let name = client.unique_name().to_owned();
        drop(client);
        // The bus has seen the end before it answers the next one.
        let mut next = bus.client();
        eventually("the first one leaves", || next.name_owner(&name).unwrap().is_none());
        end(&mut bus, Signal::TERM);
        (name, std::fs::read_to_string(log).unwrap())
    };
    let (name, log) = said(&["-v"]);
    for what in ["joined", "left"] {
        let is_it = |line: &str| {
            line.starts_with(&format!("causewayd: {name} (user ")) && line.ends_with(&format!(" has {what}"))
        };
        assert!(log.lines().any(is_it), "{what}: {log}");
    }
    assert_eq!(said(&[]).1, "");
}

/// The kernel lets every user connect; authentication and the policy decide whom the bus lets in.
#[test]
fn several_addresses_are_one_bus_and_their_files_let_in_whom_the_policy_may_let_in() {
    let folder = temp_dir("program");
    let [one, two, native] = ["one", "two", "native"].map(|name| folder.path().join(name));
    let addresses = format!("{};{}", at(&one), at(&two));
    let bus = Broker::with(&["--address", &addresses, "--native", native.to_str().unwrap()]);
    let mut first = Client::open(&at(&one)).unwrap();
    let second = Client::open(&at(&two)).unwrap();
    assert!(first.name_owner(second.unique_name()).unwrap().is_some());
    let [of_one, of_two] = bus.address.split(';').collect::<Vec<_>>()[..] else { panic!("{}", bus.address) };
    for (shown, path) in [(of_one, &one), (of_two, &two)] {
        assert!(shown.starts_with(&format!("{},guid=", at(path))), "{shown}");
    }
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&one), mode(&native)), (0o777, 0o600));
}

#[test]
fn in_the_background_it_returns_when_clients_can_connect() {
    let folder = temp_dir("program");
    let path = folder.path().join("bus");
    let output = run(&["--address", &at(&path), "--fork", "--print-address", "--print-pid"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let [address, pid] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(address.starts_with(&at(&path)), "{said}");
    drop(Client::open(address).unwrap());
    let pid: u32 = pid.parse().unwrap();
    assert_eq!(causeway_testkit::proc::name(pid).as_deref(), Some("causewayd"));
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM).unwrap();
    eventually("the socket stays", || !path.exists());
}

#[test]
fn what_it_cannot_do_is_said_in_a_sentence() {
    let folder = temp_dir("program");
    let [file, busy, free] = ["bus.conf", "busy", "free"].map(|name| folder.path().join(name));
    let [file, native] = [&file, &busy].map(|path| path.to_str().unwrap());
    std::fs::write(&busy, "a file").unwrap();
    let (busy, free) = (at(&busy), at(&free));
    for (settings, args, words) in [
        ("", &[][..], "say where to listen"),
        ("", &["--address", "tcp:host=localhost"], "unsupported address"),
        ("", &["--config-file", "/no/such/file"], "/no/such/file"),
        ("<color/>", &["--config-file", file], "unknown element <color>"),
        ("", &["--address", &busy], "a file and not a socket"),
        ("", &["--address", &free, "--native", native], "a file and not a socket"),
        ("", &["--address", &free, "--print-address", "77"], "descriptor 77: it is not open"),
        // Nothing is printed: there is no bus whose address that is.
        ("", &["--address", &free, "--print-address", "--print-native"], "there is no native socket"),
    ] {
        std::fs::write(file, format!("<busconfig>{settings}</busconfig>")).unwrap();
        let said = failure(args);
        assert!(said.contains(words) && said.matches("busy").count() < 2, "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(native).unwrap(), "a file");
    assert_eq!(files(&folder), BTreeSet::from(["bus.conf".into(), "busy".into()]));
    // A name in the abstract namespace has one bus.
    let bus = Broker::start();
    let address = bus.address.split(',').next().unwrap();
    let second = failure(&["--address", address]);
    assert!(second.contains(address) && second.contains("in use"), "{second}");
    drop(bus.client());
    let introspected = String::from_utf8(run(&["--introspect"]).stdout).unwrap();
    assert!(introspected.contains("<interface name=\"org.freedesktop.DBus\">"), "{introspected}");
}

/// A shell allows it no file above 4 KiB, and files in memory are such.
#[test]
fn without_memory_for_the_order_log_it_says_so_and_a_session_serves_clients_alone() {
    let folder = temp_dir("program");
    let native = folder.path().join("native");
    let limited = |args: String| {
        let program = env!("CARGO_BIN_EXE_causewayd");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("ulimit -f 4 && exec {program} {args} \"$@\""), "sh"]);
        command.env("XDG_RUNTIME_DIR", folder.path()).stdin(Stdio::null());
        command
    };
    let told = format!("--nofork --address unix:tmpdir=/tmp --native {}", native.display());
    let output = limited(told).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot serve native members at") && said.lines().count() == 1, "{said}");
    assert!(!native.exists(), "the socket stays");
    // It was not told to, and does without.
    let mut session = limited("--session --address unix:tmpdir=/tmp".into());
    drop(Broker::spawn(session.stderr(Stdio::null())).client());
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

/// The names are those of dbus-daemon where it has the number.
#[test]
fn statistics_have_what_is_held_and_its_peaks_and_the_longest_turn_of_the_loop() {
    let bus = Broker::start();
    let mut client = bus.client();
    (0..100).for_each(|_| sync(&mut client));
    let stats = |member| driver_call(member).interface("org.freedesktop.DBus.Debug.Stats");
    let of_bus = client.call(&stats("GetStats"), PATIENCE).unwrap();
    for name in ["MatchRules", "BusNames"] {
        for name in [name, &format!("Peak{name}"), &format!("Peak{name}PerConnection")] {
            assert!(contains(&of_bus, name), "{name}");
        }
    }
    let own = text(client.unique_name());
    let of_client = client.call(&stats("GetConnectionStats").body(own), PATIENCE).unwrap();
    for name in ["MatchRules", "BusNames", "IncomingBytes", "OutgoingBytes", "OutgoingFDs"] {
        assert!(contains(&of_client, name) && contains(&of_client, &format!("Peak{name}")), "{name}");
    }
    let facts: HashMap<&str, Value<'_>> = arguments_of(&of_bus).unwrap();
    let number = |name| facts[name].to::<u32>().unwrap();
    let (turn, cpu) = (number("PeakTurnMicroseconds"), number("PeakTurnCPUMicroseconds"));
    assert!(turn > 0 && cpu <= turn, "{turn} µs, of them {cpu} µs of CPU time");
}

#[test]
fn a_configuration_that_is_read_again_holds_for_new_requests() {
    let folder = temp_dir("program");
    let file = configuration(&folder, "");
    let bus = Broker::with(&["--config-file", &file]);
    let mut client = bus.client();
    let mut has = || contains(&client.ask_driver("ListActivatableNames", Body::default()).unwrap(), "a.Late");
    assert!(!has());
    write_service(folder.path(), "a.Late", "/bin/false", "");
    with_services(&folder, "");
    let mut other = bus.client();
    other.ask_driver("ReloadConfig", Body::default()).unwrap();
    assert!(has());
    // One that is broken changes nothing, and who asks for it learns why.
    configuration(&folder, "<color/>");
    match other.ask_driver("ReloadConfig", Body::default()) {
        Err(Error::Refused { name, message }) => {
            assert_eq!(name, "org.freedesktop.DBus.Error.Failed");
            for words in ["bus.conf", "unknown element <color>"] {
                assert!(message.contains(words), "{message}");
            }
        }
        other => panic!("it should have been refused: {other:?}"),
    }
    assert!(has());
    bus.child.signal(Signal::HUP).unwrap();
    assert!(has());
}

/// Tools and libraries of others succeed where they do so with dbus-daemon.
#[test]
fn programs_of_others_that_are_installed_talk_to_the_bus() {
    /// As the script calls them.
    const CLIENTS: [&str; 8] = [
        "dbus-send",
        "dbus-monitor",
        "dbus-test-tool",
        "gdbus",
        "busctl",
        "python:dbus",
        "python:gi.repository",
        "python:dbus_next",
    ];
    if !has_program("dbus-daemon") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/all.sh");
    let mut compared = Command::new("timeout");
    compared.arg("120").arg(script).arg("clients").env("CAUSEWAYD", env!("CARGO_BIN_EXE_causewayd"));
    let output = compared.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    let missing = |name: &&&str| said.contains(&format!(": {name} is not installed"));
    CLIENTS.iter().filter(missing).for_each(|name| skipped(Cause::Missing(name), ""));
    let explained =
        |line: &str| CLIENTS.iter().any(|name| line.ends_with(&format!(": {name} is not installed")));
    assert!(said.lines().filter(|line| line.starts_with("left out")).all(explained), "{said}");
}

/// Users without a number in a user namespace are all shown as 65534: a bus of that user would take them for its own.
#[test]
fn no_bus_is_served_by_the_user_that_stands_for_all_others() {
    if !has_program("unshare") {
        return;
    }
    let folder = causeway_testkit::temp_dir("causewayd");
    let native = folder.path().join("native");
    let address = format!("unix:path={}", folder.path().join("bus").display());
    let mut command = Command::new("unshare");
    // Without a map nobody has a number.
    command.args(["--user", env!("CARGO_BIN_EXE_causewayd"), "--nofork", "--address", &address, "--native"]);
    let mut running = Running::start(command.arg(&native).stderr(Stdio::piped()));
    causeway_testkit::eventually("it serves", || running.0.try_wait().unwrap().is_some());
    let status = running.wait();
    let why = std::io::read_to_string(running.0.stderr.take().unwrap()).unwrap();
    if why.starts_with("unshare:") {
        return skipped(Cause::Rights("namespaces"), why);
    }
    assert!(!status.success() && why.contains("stands for every user without a number"), "{why}");
    assert!(!native.exists());
}
