//! The command, as a shell user sees it, also from containers.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use causeway_testkit::TempDir;

use crate::support::{
    Cause, Running, causeway, complaint, eventually, has_program, kill, printed, temp_dir, tied,
    trial_succeeds,
};

/// A group that a command serves.
struct Served {
    folder: TempDir,
    server: Running,
}

impl Served {
    fn start(options: &[&str]) -> Served {
        Served::by(|path| {
            let mut command = causeway(&["serve", path]);
            command.args(options);
            command
        })
    }

    fn by(command: impl FnOnce(&str) -> Command) -> Served {
        let folder = temp_dir("causeway");
        let path = folder.path().join("group");
        let server = Running::start(&mut command(path.to_str().unwrap()));
        eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
        Served { folder, server }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("group")
    }

    fn run(&self, command: &str) -> Child {
        causeway(&[command, self.path().to_str().unwrap()]).spawn().unwrap()
    }

    /// Publishes this in a process of its own.
    fn publish(&self, bytes: &[u8]) {
        let mut publisher = self.run("publish");
        publisher.stdin.take().unwrap().write_all(bytes).unwrap();
        assert!(publisher.wait().unwrap().success());
    }

    fn report(&self) -> causeway::Report {
        causeway::Group::join(self.path()).unwrap().report().unwrap()
    }

    /// Waits until so many have joined. A subscriber that sleeps has found the end of the log; one that is only listed may not have.
    fn joined(&self, publishers: usize, subscribers: usize) {
        eventually("not all have joined", || {
            let report = self.report();
            let asleep = report.subscribers.iter().filter(|subscriber| subscriber.asleep).count();
            (report.publishers.len(), asleep) == (publishers, subscribers)
        });
    }

    fn received(&self, messages: u64) {
        eventually("not everything is received", || {
            self.report().subscribers.iter().all(|subscriber| subscriber.received == messages)
        });
    }
}

fn output_of(child: Child) -> String {
    printed(child.wait_with_output().unwrap())
}

#[test]
fn what_a_test_starts_ends_with_the_thread_of_the_test() {
    let mut served = std::thread::scope(|scope| scope.spawn(|| Served::start(&[])).join().unwrap());
    assert_eq!(served.server.wait().signal(), Some(9));
}

#[test]
fn lines_cross_from_publish_to_subscribe_and_stat_sees_both() {
    let mut served = Served::start(&[]);
    let (subscriber, mut publisher) = (served.run("subscribe"), served.run("publish"));
    eventually("stat does not show both", || {
        let report = output_of(served.run("stat"));
        ["publisher    0", "subscriber   0", "asleep"].iter().all(|part| report.contains(part))
    });
    publisher.stdin.take().unwrap().write_all(b"one\ntwo\n\nthree").unwrap();
    assert!(publisher.wait().unwrap().success());
    assert_eq!(output_of(subscriber), "one\ntwo\n\nthree\n");
    // Asked to end, the server takes its socket along.
    kill("TERM", served.server.pid());
    assert!(served.server.wait().success());
    assert!(!served.path().exists());
}

#[test]
fn a_publisher_that_is_told_to_wait_for_subscribers_publishes_nothing_before_they_are_there() {
    let mut served = Served::start(&["--late-publishers"]);
    let mut publisher =
        causeway(&["publish", served.path().to_str().unwrap(), "--wait-for-subscribers", "2"])
            .spawn()
            .unwrap();
    publisher.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    eventually("the publisher has not joined", || served.report().publishers.len() == 1);
    let first = served.run("subscribe");
    served.joined(1, 1);
    assert_eq!(served.report().messages, 0);
    let second = served.run("subscribe");
    assert!(publisher.wait().unwrap().success());
    served.received(2);
    kill("TERM", served.server.pid());
    assert!(served.server.wait().success());
    for subscriber in [first, second] {
        assert_eq!(output_of(subscriber), "one\ntwo\n");
    }
}

#[test]
fn publishers_that_come_after_a_subscriber_are_received_where_the_server_lets_them() {
    let mut served = Served::start(&["--late-publishers"]);
    let subscriber = served.run("subscribe");
    served.joined(0, 1);
    for line in ["one", "two", "three"] {
        served.publish(line.as_bytes());
    }
    served.received(3);
    kill("TERM", served.server.pid());
    assert!(served.server.wait().success());
    assert_eq!(output_of(subscriber), "one\ntwo\nthree\n");
}

#[test]
fn a_publisher_of_too_many_messages_is_disconnected_and_others_are_received() {
    let mut served = Served::start(&["--late-publishers", "--publisher-rate-max", "1000"]);
    let mut spammer = served.run("publish");
    let mut lines = spammer.stdin.take().unwrap();
    // Until the command has ended.
    while lines.write_all(&b"spam\n".repeat(1000)).is_ok() {}
    let spammer_pid = spammer.id();
    let why = complaint(spammer.wait_with_output().unwrap());
    assert!(why.contains("has disconnected this publisher"), "{why}");
    let subscriber = served.run("subscribe");
    served.joined(0, 1);
    served.publish(b"one\ntwo\n");
    served.received(2);
    kill("TERM", served.server.pid());
    assert!(served.server.wait().success());
    assert_eq!(output_of(subscriber), "one\ntwo\n");
    let said = std::io::read_to_string(served.server.0.stderr.take().unwrap()).unwrap();
    let about = format!("(process {spammer_pid} of user ");
    assert!(said.lines().any(|line| line.contains(&about) && line.contains("it is disconnected")), "{said}");
    assert_eq!(said.matches("messages too many").count(), 1, "{said}");
}

/// Before, all of it was read into memory, and there was no end of it.
#[test]
fn a_line_longer_than_any_message_of_the_group_is_refused_before_its_end_is_read() {
    let served = Served::start(&["--capacity", "65536"]);
    let mut publisher = served.run("publish");
    let mut line = publisher.stdin.take().unwrap();
    line.write_all(&[b'x'; 16384]).unwrap();
    line.write_all(b"\n").unwrap();
    // Without an end; its input stays open.
    let _ = line.write_all(&[b'y'; 20000]);
    eventually("it waits for the end of the line", || publisher.try_wait().unwrap().is_some());
    let why = complaint(publisher.wait_with_output().unwrap());
    assert!(why.contains("a line is longer than 16384 bytes"), "{why}");
    assert_eq!(served.report().messages, 1);
    drop(line);
}

#[test]
fn wrong_flags_are_exit_code_two_and_what_fails_is_three_and_both_say_so() {
    let folder = temp_dir("causeway");
    let path = folder.path().join("group");
    let socket = path.to_str().unwrap();
    for (code, arguments, words) in [
        (2, &["serve"][..], "<SOCKET>"),
        (2, &["subscribe", socket, "--policy", "hasty"], "hasty"),
        (3, &["serve", socket, "--capacity", "5000"], "5000"),
        (2, &["serve", socket, "--publishers", "many"], "many"),
        (2, &["serve", socket, "--publishers", "0"], "1 to 64"),
        (2, &["serve", socket, "--publishers", "65"], "1 to 64"),
        (3, &["serve", "/nonexistent/group"], "the folder of /nonexistent/group does not exist"),
        (2, &["serve", socket, "--publisher-rate-max", "9"], "--late-publishers"),
        (2, &["gossip", socket], "gossip"),
        (3, &["subscribe", "/nonexistent/group"], "/nonexistent/group"),
        (3, &["subscribe", socket], "No such file"),
    ] {
        let output = causeway(arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let why = complaint(output);
        assert!(why.contains(words), "{arguments:?}: {why}");
        assert!(why.lines().count() == 1 || arguments[0] != "subscribe" || arguments.len() > 2, "{why}");
    }
    assert!(!path.exists());
}

/// A container: user, mount, PID, IPC, network and host name namespaces of its own, made without root.
const CONTAINER: [&str; 9] =
    ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--net", "--uts"];

/// A command in namespaces, which a script prepares.
fn inside(namespaces: &[&str], script: &[&str], arguments: &[&str]) -> Command {
    let mut command = tied("unshare");
    command.args(namespaces).args(script).args(arguments);
    command
}

/// The socket, bind-mounted, is all that another mount namespace needs: a command in a container that has nothing of the folder of `socket` but the socket, as `elsewhere/group`.
fn contained(socket: &Path, elsewhere: &TempDir, arguments: &[&str]) -> Command {
    const SCRIPT: &str = "mount --make-rprivate / && mount -t tmpfs none \"$2\" && touch \"$2/group\" \
        && mount --bind \"$1\" \"$2/group\" && mount -t tmpfs none \"${1%/*}\" && test ! -e \"$1\" \
        && shift 2 && exec \"$@\"";
    let [socket, elsewhere] = [socket, elsewhere.path()].map(|path| path.to_str().unwrap());
    inside(&CONTAINER, &["sh", "-c", SCRIPT, "sh", socket, elsewhere], arguments)
}

/// Are there containers, for this command as well?
fn can(mut trial: Command) -> bool {
    has_program("unshare") && trial_succeeds(&mut trial, Cause::Rights("namespaces"))
}

#[test]
fn containers_that_share_one_bind_mounted_socket_share_the_group_and_the_news_of_a_death() {
    let (served, elsewhere) = (Served::start(&[]), temp_dir("causeway"));
    let start = |arguments: &[&str]| contained(&served.path(), &elsewhere, arguments);
    if !can(start(&["true"])) {
        return;
    }
    let group = elsewhere.path().join("group");
    let start =
        |what| start(&[env!("CARGO_BIN_EXE_causeway"), what, group.to_str().unwrap()]).spawn().unwrap();
    let mut publisher = Running::from(start("publish"));
    let subscribers = [start("subscribe"), served.run("subscribe")];
    served.joined(1, 2);
    publisher.0.stdin.as_mut().unwrap().write_all(b"from a container\n").unwrap();
    served.received(1);
    // Killed, with its input still open: only the kernel can say that it is gone, across the namespaces.
    kill("KILL", served.report().publishers[0].pid);
    for subscriber in subscribers {
        assert_eq!(output_of(subscriber), "from a container\n");
    }
}

#[test]
fn a_server_in_a_container_serves_those_outside_whose_numbers_it_cannot_see() {
    if !can(inside(&CONTAINER, &[], &["true"])) {
        return;
    }
    let served = Served::by(|path| inside(&CONTAINER, &[env!("CARGO_BIN_EXE_causeway")], &["serve", path]));
    let (mut publisher, subscriber) = (Running::from(served.run("publish")), served.run("subscribe"));
    served.joined(1, 1);
    let seen = served.report();
    assert_eq!((seen.publishers[0].pid, seen.subscribers[0].pid), (0, 0), "{seen:?}");
    publisher.0.stdin.as_mut().unwrap().write_all(b"from outside\n").unwrap();
    served.received(1);
    publisher.kill();
    assert_eq!(output_of(subscriber), "from outside\n");
}

#[test]
fn a_group_that_is_upgraded_goes_on_in_a_log_of_the_next_format() {
    let mut served = Served::start(&["--late-publishers"]);
    let subscriber = served.run("subscribe");
    served.joined(0, 1);
    served.publish(b"one");
    assert!(output_of(served.run("stat")).contains("format 1"));
    assert!(output_of(served.run("upgrade")).ends_with(" has format 2 from its next log on\n"));
    eventually("it does not", || output_of(served.run("stat")).contains("format 2"));
    served.publish(b"two");
    served.received(2);
    kill("TERM", served.server.pid());
    assert!(served.server.wait().success());
    assert_eq!(output_of(subscriber), "one\ntwo\n");

    let fixed = Served::start(&["--format", "2"]);
    let refused = complaint(Served::start(&[]).run("upgrade").wait_with_output().unwrap());
    assert!(refused.contains("cannot change its format"), "{refused}");
    assert!(output_of(fixed.run("stat")).contains("format 2"));
    let unknown = causeway(&["serve", "/nowhere", "--format", "3"]).output().unwrap();
    assert!(complaint(unknown).contains("1 to 2"));
}
