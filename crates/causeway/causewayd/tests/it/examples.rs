//! The examples are programs that others begin with: each is compiled and run here.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use causeway_bus::Connection;
use causeway_bus::wire::Body;

use crate::support::*;

/// Those in Rust.
const EXAMPLES: &[&str] =
    &["clock_client", "clock_client_tokio", "clock_service", "clock_service_tokio", "monitor", "zbus_clock"];
const IN_PYTHON: &str = "clock_client.py";
const IS_SERVED: &str = "is com.example.Clock";

/// Names the folder of the examples where they are compiled already.
const COMPILED: &str = "CAUSEWAY_EXAMPLES";

/// The folder of the compiled examples. A test does not compile them.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os(COMPILED) {
            return folder.into();
        }
        let program = std::env::current_exe().unwrap();
        let profile = program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "causeway-bus", "--features", "zbus"]);
        cargo.args(EXAMPLES.iter().flat_map(|example| ["--example", example]));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", profile.parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the examples cannot be compiled");
        profile.join("examples")
    })
}

/// A program that runs, and the lines that it prints. Dropped, it is killed.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { child, lines }
    }

    fn example(name: &str, args: &[&str]) -> Running {
        Running::start(Command::new(folder().join(name)).args(args))
    }

    /// The next line. It must have this text.
    fn says(&self, text: &str) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(text) => line,
            Ok(line) => panic!("{text:?} was expected, {line:?} came"),
            Err(error) => panic!("{text:?} was expected: {error}"),
        }
    }

    /// One of the next lines has this text.
    fn comes_to_say(&self, text: &str) {
        while !self.says("").contains(text) {}
    }

    /// Ends well.
    fn ends(mut self) {
        let mut status = None;
        eventually("the program does not end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_example_is_run_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bus/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = files
        .map(|path| {
            let name = if path.extension().is_some_and(|kind| kind == "rs") {
                path.file_stem()
            } else {
                path.file_name()
            };
            name.unwrap().to_string_lossy().into_owned()
        })
        .collect();
    found.sort();
    let mut known: Vec<_> = EXAMPLES.iter().chain([&IN_PYTHON]).copied().collect();
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn a_client_asks_the_clock_and_sees_who_comes() {
    let bus = Bus::start();
    let path = bus.path();
    let path = path.to_str().unwrap();
    let service = Running::example("clock_service", &[path]);
    service.says(IS_SERVED);
    let client = Running::example("clock_client", &[path]);
    client.says("seconds: ");
    let newcomer = bus.member();
    // It may see its own arrival first, which is announced while it adds its rule.
    client.comes_to_say(newcomer.unique_name());
    describes(newcomer, &["Seconds"]);
}

/// The clock says what it has.
fn describes(mut member: Connection, names: &[&str]) {
    let introspectable = "org.freedesktop.DBus.Introspectable";
    let reply = member.call("com.example.Clock", "/", introspectable, "Introspect", Body::default()).unwrap();
    let document = reply.text().unwrap();
    for name in names {
        assert!(document.contains(&format!("name=\"{name}\"")), "{name}: {document}");
    }
}

#[test]
fn tasks_of_tokio_ask_the_clock_and_hear_it_tick() {
    let bus = Bus::start();
    let path = bus.path();
    let path = path.to_str().unwrap();
    let service = Running::example("clock_service_tokio", &[path]);
    service.says(IS_SERVED);
    let client = Running::example("clock_client_tokio", &[path]);
    client.says("seconds: ");
    client.says("the clock has one method: Seconds");
    client.says("tick: ");
    describes(bus.member(), &["Seconds", "Tick"]);
}

#[test]
fn a_program_of_zbus_runs_on_either_transport() {
    let bus = Bus::start_with_clients();
    let (path, address) = (bus.path(), bus.address());
    let places = [path.to_str().unwrap(), address];
    for served_at in places {
        let service = Running::example("zbus_clock", &["serve", served_at]);
        service.says(IS_SERVED);
        for place in places {
            let client = Running::example("zbus_clock", &["call", place, "--count", "10"]);
            client.says("seconds: ");
            client.says("10 calls, ");
            client.ends();
        }
    }
}

#[test]
fn a_monitor_prints_what_its_rule_wants_and_nothing_else() {
    let bus = Bus::start();
    let monitor = Running::example("monitor", &[bus.path().to_str().unwrap(), "member='Wanted'"]);
    let mut sender = bus.member();
    let mut seen = 0;
    let start = std::time::Instant::now();
    // Nothing tells when a monitor is there.
    while seen < 3 {
        assert!(start.elapsed() < PATIENCE, "the monitor prints nothing");
        for member in ["Unwanted", "Wanted"] {
            sender.emit(PATH, INTERFACE, member, Body::default().u32(seen)).unwrap();
        }
        match monitor.lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => {
                assert!(
                    line.starts_with(&format!("signal {} >  Wanted [U32(", sender.unique_name())),
                    "{line}"
                );
                seen += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the monitor has ended"),
        }
    }
}

#[test]
fn a_client_in_python_asks_the_clock_at_the_socket_of_dbus() {
    const PYTHON: &str = "/usr/bin/python3";
    let has_library = Command::new(PYTHON).args(["-c", "import dbus"]).stderr(Stdio::null()).status();
    if !has_library.is_ok_and(|status| status.success()) {
        println!("skipped: {PYTHON} has no module dbus; install python3-dbus");
        return;
    }
    let bus = Bus::start_with_clients();
    let service = Running::example("clock_service", &[bus.path().to_str().unwrap()]);
    service.says(IS_SERVED);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bus/examples").join(IN_PYTHON);
    let client = Running::start(Command::new(script).arg(bus.address()));
    client.says("seconds: ");
    client.ends();
}
