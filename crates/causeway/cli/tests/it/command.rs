//! The command, as a shell user sees it, also from containers.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};

use crate::support::{Running, causeway, eventually, kill, tied};

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
