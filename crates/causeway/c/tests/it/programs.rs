//! Programs in C: each area once, loops that sleep and wake, servers that are killed, the examples.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_testkit::{Cause, Running, eventually, has_program, setting, skipped, temp_dir};

use crate::Bus;
use crate::installed::{compiled, compiled_by, installed, knows, succeed};

const VALGRIND: [&str; 6] = [
    "--quiet",
    "--leak-check=full",
    "--show-leak-kinds=definite,indirect",
    "--errors-for-leak-kinds=definite,indirect",
    "--error-exitcode=99",
    "--fair-sched=yes",
];

const SIGABRT: i32 = 6;

fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(VALGRIND).arg(program);
    command
}

fn exercise(mut command: Command) {
    let bus = Bus::start();
    let is_valgrind = command.get_program() == "valgrind";
    let output = succeed(command.arg(bus.folder.path()).arg(bus.path("bus")));
    check_said(&String::from_utf8_lossy(&output.stdout), is_valgrind);
}

/// What a program says at its end.
fn check_said(said: &str, in_valgrind: bool) {
    match said {
        "only the bus\n" if in_valgrind => {
            skipped(Cause::Missing("Valgrind 3.21"), "without its pidfd_open no group was looked at");
        }
        said => assert_eq!(said, "done\n"),
    }
}

#[test]
fn a_program_in_c_uses_logs_large_payloads_calls_and_the_bus() {
    let Some(root) = installed() else { return };
    exercise(Command::new(compiled(root, "tests/c/exercise.c", "exercise", &[], &[])));
}

/// In C as clang reads it, and in C++ as g++ does.
#[test]
fn another_compiler_makes_the_same_program() {
    let Some(root) = installed() else { return };
    if has_program("clang") {
        let program = compiled_by(
            "clang",
            root,
            "tests/c/exercise.c",
            "exercise-clang",
            &[],
            &["-std=c11", "-D_GNU_SOURCE"],
        );
        exercise(Command::new(program));
    }
    if has_program("g++") {
        let flags = ["-std=c++20", "-Wno-missing-field-initializers"];
        compiled_by("g++", root, "examples/subscriber_poll.c", "subscriber_poll-cxx", &[], &flags);
    }
}

/// What a handler catches itself is its own.
#[test]
fn an_exception_that_leaves_a_handler_ends_the_program_with_a_sentence() {
    let Some(root) = installed().filter(|_| has_program("g++")) else { return };
    let throws = compiled_by("g++", root, "tests/c/throws.cc", "throws", &[], &["-std=c++11"]);
    let folder = temp_dir("c");
    let run = |mode: &str| Command::new(&throws).arg(folder.path().join(mode)).arg(mode).output().unwrap();
    let caught = run("catches");
    assert!(caught.status.success() && caught.stdout == b"thrown\n", "{caught:?}");
    let left = run("leaves");
    assert_eq!(left.status.signal(), Some(SIGABRT), "{left:?}");
    let said = String::from_utf8_lossy(&left.stderr);
    assert!(said.contains("an exception has left the handler of a call; catch it in the handler"), "{said}");
}

#[test]
fn the_sanitizers_find_nothing_in_it() {
    let Some(root) = installed() else { return };
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    exercise(Command::new(compiled(root, "tests/c/exercise.c", "exercise-sanitized", &[], &flags)));
}

#[test]
fn valgrind_finds_no_error_and_no_leak_in_it() {
    let Some(root) = installed().filter(|_| has_program("valgrind")) else { return };
    exercise(valgrind(&compiled(root, "tests/c/exercise.c", "exercise-valgrind", &[], &[])));
}

/// Waits until a program says that it is ready; returns what it says after that.
fn ready(running: &mut Running) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    output
}

fn start(command: &mut Command, arguments: [&Path; 3]) -> Running {
    Running::start(command.args(arguments).stdout(Stdio::piped()))
}

/// A subscriber and a member of a bus, whose servers are killed while they wait.
fn outlives_its_servers(subscriber: &mut Command, loops: &Path) {
    let mut bus = Bus::start();
    let (log, at) = (bus.path("log"), bus.path("bus"));
    let mut publisher = start(&mut Command::new(loops), ["publish".as_ref(), &log, "1000000000".as_ref()]);
    let _output = ready(&mut publisher);
    let mut killed = start(subscriber, ["killed".as_ref(), &log, &at]);
    let mut output = ready(&mut killed);
    publisher.kill();
    bus.process.kill();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(killed.wait().success(), "{rest}");
    check_said(&rest, subscriber.get_program() == "valgrind");
}

#[test]
fn after_a_killed_server_nothing_leaks() {
    let Some(root) = installed() else { return };
    let loops = compiled(root, "tests/c/loops.c", "loops-killed", &[], &[]);
    let sanitized =
        compiled(root, "tests/c/loops.c", "loops-sanitized", &[], &["-fsanitize=address,undefined"]);
    outlives_its_servers(&mut Command::new(sanitized), &loops);
    if has_program("valgrind") {
        outlives_its_servers(&mut valgrind(&loops), &loops);
    }
}

/// 100,000 messages, or as many as CAUSEWAY_C_MESSAGES says.
fn messages() -> String {
    setting("CAUSEWAY_C_MESSAGES", 100_000).to_string()
}

fn receives_all(loops: &Path, sender: &str, receiver: &str, at: &Path) {
    let count = messages();
    let mut sending = start(&mut Command::new(loops), [sender.as_ref(), at, count.as_ref()]);
    let _output = (sender == "publish").then(|| ready(&mut sending));
    let mut receiving = Running::start(Command::new(loops).args([receiver.as_ref(), at, count.as_ref()]));
    // The programs themselves fail where nothing comes for a minute.
    let status = receiving.0.wait().unwrap();
    assert!(status.success(), "{receiver}: {status}");
    assert!(sending.wait().success());
}

#[test]
fn a_loop_of_poll_loses_no_wake_up() {
    let Some(root) = installed() else { return };
    let folder = temp_dir("c");
    let loops = compiled(root, "tests/c/loops.c", "loops-poll", &[], &[]);
    receives_all(&loops, "publish", "poll", &folder.path().join("log"));
}

#[test]
fn a_loop_of_libevent_loses_no_wake_up() {
    let Some(root) = installed().filter(|_| knows("libevent")) else { return };
    let folder = temp_dir("c");
    let loops = compiled(root, "tests/c/loops.c", "loops-libevent", &["libevent"], &["-DWITH_LIBEVENT"]);
    receives_all(&loops, "publish", "libevent", &folder.path().join("log"));
}

#[test]
fn a_loop_of_sd_event_loses_no_wake_up() {
    let Some(root) = installed().filter(|_| knows("libsystemd")) else { return };
    let bus = Bus::start();
    let loops = compiled(root, "tests/c/loops.c", "loops-sd-event", &["libsystemd"], &["-DWITH_SD_EVENT"]);
    receives_all(&loops, "emit", "sd-event", &bus.path("bus"));
}

#[test]
fn examples_have_less_than_sixty_lines_and_do_what_they_say() {
    for example in std::fs::read_dir(crate::header::package().join("examples")).unwrap() {
        let path = example.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "c") {
            continue;
        }
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 60, "{} has {lines} lines", path.display());
    }
    let Some(root) = installed() else { return };
    let example = |name: &str| compiled(root, &format!("examples/{name}.c"), name, &[], &[]);
    let folder = temp_dir("c");
    let speaks = |command: &mut Command| {
        let mut running = Running::start(command.stdout(Stdio::piped()));
        let output = BufReader::new(running.0.stdout.take().unwrap());
        (running, output)
    };
    let line = |output: &mut BufReader<std::process::ChildStdout>| {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };

    let (frames, at) = (example("frames"), folder.path().join("frames"));
    let mut publisher = Running::start(Command::new(&frames).arg("publish").arg(&at));
    // The file is there before anybody listens.
    eventually("frames are served", || causeway::Group::join(&at).is_ok());
    let output = succeed(Command::new(&frames).arg(&at));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mean 0.0\nmean 1.0\nmean 2.0\n");
    assert!(publisher.wait().success());

    let at = folder.path().join("prices");
    let group = causeway::Group::create("prices", causeway::GroupOptions::new()).unwrap();
    group.serve_at(&at).unwrap();
    let mut publisher = group.publisher().unwrap();
    let (mut subscriber, mut output) = speaks(Command::new(example("subscriber_poll")).arg(&at));
    assert!(publisher.wait_for_subscribers(1, Some(causeway_testkit::PATIENCE)).unwrap());
    for price in ["42.17", "42.18"] {
        publisher.publish(price.as_bytes()).unwrap();
        assert_eq!(line(&mut output), price);
    }
    drop((publisher, group));
    assert!(subscriber.wait().success());

    let at = folder.path().join("more prices");
    let mut publisher = Running::start(Command::new(example("publisher")).arg(&at));
    eventually("prices are served", || causeway::Group::join(&at).is_ok());
    let mut subscriber = causeway::Group::join(&at).unwrap().subscribe(causeway::Policy::Reliable).unwrap();
    for price in ["42.17", "42.18", "42.19"] {
        let Ok(causeway::Received::Message(message)) = subscriber.recv_timeout(causeway_testkit::PATIENCE)
        else {
            panic!("no price {price} came")
        };
        assert_eq!(String::from_utf8_lossy(message.bytes), price);
    }
    assert!(publisher.wait().success());

    let (news, bus) = (example("news"), Bus::start());
    let (_listener, mut output) = speaks(Command::new(&news).arg(bus.path("bus")));
    assert_eq!(line(&mut output), "listening");
    succeed(Command::new(&news).arg(bus.path("bus")).arg("rain"));
    assert_eq!(line(&mut output), "rain");

    if !knows("libsystemd") {
        return;
    }
    let bus = Bus::start();
    let service = compiled(root, "examples/service_sd_event.c", "service_sd_event", &["libsystemd"], &[]);
    let _service = Running::start(Command::new(service).arg(bus.path("bus")));
    let mut member = causeway_bus::Connection::open(bus.path("bus")).unwrap();
    eventually("the clock has its name", || member.name_owner("com.example.Clock").is_some());
    let ask = |member: &mut causeway_bus::Connection, method: &str| {
        let clock = "com.example.Clock";
        member.call(clock, "/", clock, method, causeway_bus::wire::Body::default())
    };
    let reply = ask(&mut member, "Seconds").unwrap();
    assert!(reply.args::<u32>().unwrap() > 1_600_000_000);
    let refused = ask(&mut member, "Minutes").unwrap_err();
    assert_eq!(refused.name(), Some(causeway_bus::name::UNKNOWN_METHOD));
    let output = succeed(Command::new(example("clock_client")).arg(bus.path("bus")));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("seconds: "));
}
