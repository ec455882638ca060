//! The command, as a shell user sees it, also from containers.
//!
//! # Safety
//!
//! What a test starts is tied to the thread of the test between `fork` and `exec`. There, in the copy of one thread of many,
//! only what needs no lock of another thread may be done: two system calls.
#![allow(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Calls `done` until it returns true; fails with `what` after a minute.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that is killed when the test that starts it ends, however it ends. With pipes to all three streams.
fn tied(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let own = std::process::id();
    // SAFETY: `die_with` makes two system calls. It does more only if no process is left to wait for this one (it
    // ends it) or where the kernel refuses what no kernel is known to refuse.
    unsafe { command.pre_exec(move || Ok(causeway_os::process::die_with(own)?)) };
    command
}

fn causeway(arguments: &[&str]) -> Command {
    let mut command = tied(env!("CARGO_BIN_EXE_causeway"));
    command.args(arguments);
    command
}

/// Sends a signal as a shell does: not every machine has a program for it.
fn kill(signal: &str, pid: u32) {
    let script = format!("kill -s {signal} {pid}");
    assert!(tied("sh").args(["-c", &script]).status().unwrap().success(), "{script}");
}

#[test]
fn what_a_test_starts_ends_with_the_thread_of_the_test() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let serve = || {
        let server = Running(causeway(&["serve", path.to_str().unwrap()]).spawn().unwrap());
        eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
        server
    };
    let mut server = std::thread::scope(|scope| scope.spawn(serve).join().unwrap());
    eventually("the server goes on", || server.0.try_wait().unwrap().is_some());
    assert_eq!(server.0.wait().unwrap().signal(), Some(9));
}

#[test]
fn lines_cross_from_publish_to_subscribe_and_stat_sees_both() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let socket = path.to_str().unwrap();
    let mut server = Running(causeway(&["serve", socket]).spawn().unwrap());
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let subscriber = causeway(&["subscribe", socket]).spawn().unwrap();
    let mut publisher = causeway(&["publish", socket]).spawn().unwrap();
    let report = || {
        let out = causeway(&["stat", socket]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    eventually("stat does not show both", || {
        let report = report();
        report.contains("publisher    0") && report.contains("subscriber   0") && report.contains("asleep")
    });
    let mut lines = publisher.stdin.take().unwrap();
    lines.write_all(b"one\ntwo\n\nthree").unwrap();
    drop(lines);
    assert!(publisher.wait().unwrap().success());
    let out = subscriber.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "one\ntwo\n\nthree\n");
    // Asked to end, the server takes its socket along.
    kill("TERM", server.0.id());
    assert!(server.0.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn publishers_that_come_after_a_subscriber_are_received_where_the_server_lets_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let socket = path.to_str().unwrap();
    let mut server = Running(causeway(&["serve", socket, "--late-publishers"]).spawn().unwrap());
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let subscriber = causeway(&["subscribe", socket]).spawn().unwrap();
    let report = || causeway::Group::join(&path).unwrap().report().unwrap();
    eventually("the subscriber waits for publishers", || {
        report().subscribers.iter().any(|subscriber| subscriber.asleep)
    });
    for line in ["one", "two", "three"] {
        let mut publisher = causeway(&["publish", socket]).spawn().unwrap();
        publisher.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        assert!(publisher.wait().unwrap().success());
    }
    eventually("not all lines were received", || report().subscribers[0].received == 3);
    kill("TERM", server.0.id());
    assert!(server.0.wait().unwrap().success());
    let out = subscriber.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn a_group_that_is_not_there_is_one_line_and_exit_code_two() {
    let out = causeway(&["subscribe", "/nonexistent/group"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("/nonexistent/group") && message.contains("No such file"), "{message}");
}

#[test]
fn wrong_flags_and_impossible_sizes_are_exit_code_two_and_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let socket = path.to_str().unwrap();
    let wrong: [&[&str]; 5] = [
        &["serve"],
        &["subscribe", socket, "--policy", "hasty"],
        &["serve", socket, "--capacity", "5000"],
        &["serve", socket, "--publishers", "many"],
        &["gossip", socket],
    ];
    for arguments in wrong {
        let out = causeway(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(!out.stderr.is_empty() && out.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!path.exists());
}

/// The socket, bind-mounted, is all that another mount namespace needs.
#[test]
fn a_socket_that_is_bind_mounted_into_another_namespace_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (dir.path().join("group"), dir.path().join("elsewhere"));
    std::fs::write(&elsewhere, "").unwrap();
    let script = "mount --make-rprivate / && mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let inside = |arguments: &[&str]| {
        let mut command = tied("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(&path).arg(&elsewhere).args(arguments);
        command
    };
    let _server = Running(causeway(&["serve", path.to_str().unwrap()]).spawn().unwrap());
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    match inside(&["true"]).output() {
        Ok(out) if out.status.success() => {}
        Ok(out) => return eprintln!("skipped: {}", String::from_utf8_lossy(&out.stderr)),
        Err(error) => return eprintln!("skipped: unshare: {error}"),
    }
    let program = env!("CARGO_BIN_EXE_causeway");
    let subscriber = causeway(&["subscribe", path.to_str().unwrap()]).spawn().unwrap();
    let mut publisher = inside(&[program, "publish", elsewhere.to_str().unwrap()]).spawn().unwrap();
    eventually("not both have joined", || {
        let report = causeway::Group::join(&path).unwrap().report().unwrap();
        // A subscriber that sleeps has found the end of the log; one that is only listed may not have.
        report.publishers.len() == 1 && report.subscribers.iter().any(|subscriber| subscriber.asleep)
    });
    publisher.stdin.take().unwrap().write_all(b"from elsewhere\n").unwrap();
    assert!(publisher.wait().unwrap().success());
    let out = subscriber.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "from elsewhere\n");
}

/// A container: user, mount, PID, IPC, network and host name namespaces of its own, made without root.
const CONTAINER: [&str; 9] =
    ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--net", "--uts"];

/// A command in a container that has nothing of the folder of `socket` but the socket, as `elsewhere/group`.
fn contained(socket: &Path, elsewhere: &Path, arguments: &[&str]) -> Command {
    const SCRIPT: &str = "mount --make-rprivate / && mount -t tmpfs none \"$2\" && touch \"$2/group\" \
        && mount --bind \"$1\" \"$2/group\" && mount -t tmpfs none \"${1%/*}\" && test ! -e \"$1\" \
        && shift 2 && exec \"$@\"";
    let mut command = tied("unshare");
    command.args(CONTAINER).args(["sh", "-c", SCRIPT, "sh"]).arg(socket).arg(elsewhere).args(arguments);
    command
}

/// Why there are no containers here, if there are none.
fn no_containers(mut trial: Command) -> Option<String> {
    match trial.output() {
        Ok(out) if out.status.success() => None,
        Ok(out) => Some(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

fn report(path: &Path) -> causeway::Report {
    causeway::Group::join(path).unwrap().report().unwrap()
}

fn all_subscribers_sleep(path: &Path, subscribers: usize) -> bool {
    let report = report(path);
    let asleep = report.subscribers.iter().filter(|subscriber| subscriber.asleep).count();
    report.publishers.len() == 1 && asleep == subscribers
}

/// What a subscriber printed, once it has ended by itself.
fn printed(subscriber: Child) -> String {
    let out = subscriber.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn containers_that_share_one_bind_mounted_socket_share_the_group_and_the_news_of_a_death() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("group");
    let _server = Running(causeway(&["serve", path.to_str().unwrap()]).spawn().unwrap());
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    if let Some(why) = no_containers(contained(&path, elsewhere.path(), &["true"])) {
        return eprintln!("skipped: {why}");
    }
    let program = env!("CARGO_BIN_EXE_causeway");
    let inside = elsewhere.path().join("group");
    let start = |what| {
        contained(&path, elsewhere.path(), &[program, what, inside.to_str().unwrap()]).spawn().unwrap()
    };
    let mut publisher = Running(start("publish"));
    let subscribers = [start("subscribe"), causeway(&["subscribe", path.to_str().unwrap()]).spawn().unwrap()];
    eventually("not all have joined", || all_subscribers_sleep(&path, 2));
    publisher.0.stdin.as_mut().unwrap().write_all(b"from a container\n").unwrap();
    eventually("the line is not received", || {
        report(&path).subscribers.iter().all(|subscriber| subscriber.received == 1)
    });
    // Killed, with its input still open: only the kernel can say that it is gone, across the namespaces.
    let pid = report(&path).publishers[0].pid;
    kill("KILL", pid);
    for subscriber in subscribers {
        assert_eq!(printed(subscriber), "from a container\n");
    }
}

#[test]
fn a_server_in_a_container_serves_those_outside_whose_numbers_it_cannot_see() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let contained = |arguments: &[&str]| {
        let mut command = tied("unshare");
        command.args(CONTAINER).args(arguments);
        command
    };
    if let Some(why) = no_containers(contained(&["true"])) {
        return eprintln!("skipped: {why}");
    }
    let socket = path.to_str().unwrap();
    let _server = Running(contained(&[env!("CARGO_BIN_EXE_causeway"), "serve", socket]).spawn().unwrap());
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let mut publisher = Running(causeway(&["publish", socket]).spawn().unwrap());
    let subscriber = causeway(&["subscribe", socket]).spawn().unwrap();
    eventually("not both have joined", || all_subscribers_sleep(&path, 1));
    let seen = report(&path);
    assert_eq!((seen.publishers[0].pid, seen.subscribers[0].pid), (0, 0), "{seen:?}");
    publisher.0.stdin.as_mut().unwrap().write_all(b"from outside\n").unwrap();
    eventually("the line is not received", || report(&path).subscribers[0].received == 1);
    publisher.0.kill().unwrap();
    assert_eq!(printed(subscriber), "from outside\n");
}

/// The whole life of a bus, from its start to the member that calls a service.
#[test]
fn a_bus_is_served_listed_called_monitored_and_counted() {
    use causeway_bus::Connection;
    use causeway_bus::wire::Body;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus");
    let socket = path.to_str().unwrap();
    let (stop, _stopper) = std::io::pipe().unwrap();
    let (is_ready, ready) = std::sync::mpsc::channel();
    let served = path.clone();
    std::thread::spawn(move || {
        let options = causeway_bus::AuthorityOptions::default();
        causewayd::serve_alone(&served, options, &stop.into(), || is_ready.send(()).unwrap()).unwrap();
    });
    ready.recv().unwrap();
    let mut service = Connection::open(&path).unwrap();
    service.request_name("com.example.Echo", 0).unwrap();
    let thread = std::thread::spawn(move || {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let result = service.serve(&stop, |call| match call.header().member {
            Some("Echo") => Ok(Body::default().text(call.text().unwrap_or_default()).u32(7)),
            _ => {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                Err(("com.example.Error.No".into(), "there is no such method".into()))
            }
        });
        result.unwrap();
    });
    let run = |arguments: &[&str]| {
        let all: Vec<&str> = ["bus", "--socket", socket].iter().chain(arguments).copied().collect();
        let output = causeway(&all).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let monitor =
        causeway(&["bus", "--socket", socket, "monitor", "--count", "2", "interface='com.example.Test'"]);
    let monitor = { monitor }.spawn().unwrap();
    let is_watched = || {
        let comm = format!("/proc/{}/maps", monitor.id());
        std::fs::read_to_string(comm).unwrap_or_default().contains("causeway-directory")
    };
    eventually("the monitor does not join", is_watched);
    let call = ["call", "com.example.Echo", "/", "com.example.Test", "Echo", "s", "a\u{1b}b"];
    assert_eq!(run(&call), (true, "s \"a\\u{1b}b\"\nu 7\n".into(), String::new()));
    let (is_success, list, _) = run(&["list"]);
    assert!(
        is_success && list.contains("org.freedesktop.DBus") && list.contains("com.example.Echo"),
        "{list}"
    );
    let (_, list, _) = run(&["list", "--json"]);
    assert!(list.contains("\"names\":[\"com.example.Echo\"]"), "{list}");
    let (_, stat, _) = run(&["stat", "--json"]);
    assert!(stat.contains("\"empty_wakes\":") && stat.starts_with("{\"connections\""), "{stat}");
    assert!(run(&["stat"]).1.contains("calls open 0"));
    assert!(run(&["emit", "/", "com.example.Test", "Signal", "u", "5"]).0);
    let watched = String::from_utf8(monitor.wait_with_output().unwrap().stdout).unwrap();
    assert!(
        watched.contains(" call ") && watched.contains(" signal ") && watched.contains("-> all"),
        "{watched}"
    );
    for (arguments, expected) in [
        (&["call", "com.example.Nobody", "/", "a.b", "M"][..], "ServiceUnknown"),
        (&["emit", "/", "a.b", "M", "s"], "not the types of 0 arguments"),
        (&["emit", "/", "a.b", "M", "u", "x"], "no unsigned number"),
        (&["emit", "/", "a.b", "M", "z", "x"], "cannot be written here"),
        (&["monitor", "x"], "no match rule"),
        (&["call", "com.example.Echo", "/", "a.b", "Quit"], "no such method"),
    ] {
        let (is_success, _, error) = run(arguments);
        assert!(!is_success && error.contains(expected), "{error}");
    }
    thread.join().unwrap();
    assert!(run(&["list"]).0);
    let nobody = causeway(&["bus", "list"]).env_remove("CAUSEWAY_BUS").output().unwrap();
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("say which bus"));
}
