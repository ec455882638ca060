//! What [docs/containers.md] says, in bare namespaces and control groups: no container engine is needed.
//!
//! [docs/containers.md]: ../../../../docs/containers.md

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{
    Cause, Running, causeway, complaint, eventually, eventually_seen, has_program, kill, printed, skipped,
    temp_dir, tied, trial_succeeds,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_causeway");

/// A command in namespaces; `None`, with the skip printed, where there are none for this user.
fn unshared(namespaces: &[&str], arguments: &[&str]) -> Option<Command> {
    let command = |arguments: &[&str]| {
        let mut command = tied("unshare");
        command.args(namespaces).args(arguments);
        command
    };
    let has_namespaces =
        has_program("unshare") && trial_succeeds(&mut command(&["true"]), Cause::Rights("namespaces"));
    has_namespaces.then(|| command(arguments))
}

fn findings(output: &Output) -> Vec<Value> {
    let findings: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    findings.as_array().unwrap().clone()
}

fn state<'a>(findings: &'a [Value], check: &str) -> &'a Value {
    &findings.iter().find(|finding| finding["check"] == check).unwrap()["state"]
}

#[test]
fn doctor_has_a_line_for_each_check_and_a_remedy_for_each_that_fails() {
    let output = causeway(&["doctor", "--format", "json"]).output().unwrap();
    let found = findings(&output);
    let checks: Vec<&str> = found.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["kernel", "futex_waitv", "peer-pidfd", "leases", "memory", "selinux", "user"]);
    let is_well = found.iter().all(|finding| finding["state"] == "ok");
    assert_eq!(output.status.code(), Some(i32::from(!is_well)));
    for finding in &found {
        assert_eq!(finding["remedy"].is_null(), finding["state"] == "ok", "{finding}");
    }
    // The tests of the library need what this checks.
    assert_eq!(state(&found, "kernel"), "ok");
    let text = causeway(&["doctor"]).output().unwrap();
    assert_eq!(String::from_utf8(text.stdout).unwrap().lines().count(), checks.len());
}

/// What a server says that must end at once.
#[track_caller]
fn refusal(command: &mut Command) -> String {
    let mut running = Running::start(command);
    eventually("it serves", || running.0.try_wait().unwrap().is_some());
    assert_eq!(running.wait().code(), Some(3));
    std::io::read_to_string(running.0.stderr.take().unwrap()).unwrap()
}

/// Users without a number in a namespace are all shown as 65534: one who runs as that would take them for its own.
#[test]
fn nothing_is_served_by_the_user_that_stands_for_all_others() {
    let folder = temp_dir("causeway");
    let path = folder.path().join("group");
    // Without a map nobody has a number.
    let Some(mut serve) = unshared(&["--user"], &[PROGRAM, "serve", path.to_str().unwrap()]) else { return };
    let why = refusal(&mut serve);
    assert!(why.contains("stands for every user without a number") && why.contains("65532"), "{why}");
    assert!(!path.exists());
    let Some(mut doctor) = unshared(&["--user"], &[PROGRAM, "doctor", "--format", "json"]) else { return };
    let output = doctor.output().unwrap();
    assert_eq!((output.status.code(), state(&findings(&output), "user")), (Some(1), &"missing".into()));
    // Where everybody may join there is nobody to be taken for another.
    let arguments = [PROGRAM, "serve", "--subscribers", "any-user", path.to_str().unwrap()];
    let Some(mut serve) = unshared(&["--user"], &arguments) else { return };
    let why = refusal(&mut serve);
    assert!(why.contains("stands for every user"), "publishers are of the same user: {why}");
}

/// A mounted file is the socket that was there; a mounted folder has the one that is there.
#[test]
fn a_mounted_folder_has_the_socket_of_the_next_server_and_a_mounted_socket_that_of_the_last() {
    let (folder, elsewhere) = (temp_dir("causeway"), temp_dir("causeway"));
    let path = folder.path().join("group");
    let serve = || {
        let running = Running::start(&mut causeway(&["serve", "--late-publishers", path.to_str().unwrap()]));
        eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
        running
    };
    let mut server = serve();
    const SCRIPT: &str = "mount --make-rprivate / && mkdir \"$2/folder\" && touch \"$2/socket\" \
        && mount --bind \"${1%/*}\" \"$2/folder\" && mount --bind \"$1\" \"$2/socket\" || exit 9
        for round in 1 2; do
            \"$3\" stat \"$2/folder/group\" >/dev/null 2>&1; folder=$?
            \"$3\" stat \"$2/socket\" >/dev/null 2>&1; echo \"$folder $?\"
            read next
        done";
    let [socket, place] = [path.as_path(), elsewhere.path()].map(|path| path.to_str().unwrap());
    let arguments = ["sh", "-c", SCRIPT, "sh", socket, place, PROGRAM];
    let Some(mut container) = unshared(&["--user", "--map-root-user", "--mount"], &arguments) else { return };
    let mut container = Running::start(&mut container);
    let mut lines = BufReader::new(container.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0 0", "both lead to the server");
    // Killed, so that it leaves its socket, which the next one replaces.
    server.kill();
    let _server = serve();
    container.0.stdin.as_mut().unwrap().write_all(b"next\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "0 3", "the socket is that of the dead server");
    container.0.stdin.as_mut().unwrap().write_all(b"next\n").unwrap();
}

#[test]
fn stat_says_how_the_end_of_each_is_seen_and_that_a_process_is_in_another_namespace() {
    let (folder, stat) = (temp_dir("causeway"), |path: &Path| {
        printed(causeway(&["stat", path.to_str().unwrap()]).output().unwrap())
    });
    let path = folder.path().join("group");
    let container = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
    let Some(mut serve) = unshared(&container, &[PROGRAM, "serve", path.to_str().unwrap()]) else { return };
    let _server = Running::start(&mut serve);
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let _publisher = Running::start(&mut causeway(&["publish", path.to_str().unwrap()]));
    eventually("the publisher is not there", || stat(&path).contains("publisher "));
    let (near, _far) = causeway_os::socket::seqpacket_pair().unwrap();
    // It has no number there: the kernel has another way to tell, or there is the socket.
    let by = if causeway_os::socket::peer_pidfd(&near).is_ok() { "peer-pidfd" } else { "socket" };
    let text = stat(&path);
    let line = text.lines().find(|line| line.starts_with("publisher ")).unwrap();
    assert!(
        line.contains("pid (another namespace)") && line.contains(&format!("end seen by {by}")),
        "{line}"
    );
}

/// A control group for memory, below that of this process. Removed when it is dropped, once its processes have ended.
struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl MemoryGroup {
    /// Of version 2 where its memory is controlled, else of version 1; `None`, with the skip printed, where this user may make none.
    fn new(name: &str) -> Option<MemoryGroup> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path_of = |prefix: &str| {
            own.lines()
                .find_map(|line| line.split_once(prefix))
                .map(|(_, path)| path.trim_start_matches('/').to_owned())
        };
        let name = format!("causeway-test-{}-{name}", std::process::id());
        let version_2 = path_of("0::").map(|path| Path::new("/sys/fs/cgroup").join(path).join(&name));
        let version_1 =
            path_of(":memory:").map(|path| Path::new("/sys/fs/cgroup/memory").join(path).join(&name));
        let kinds = [
            (version_2, "memory.max", "memory.current"),
            (version_1, "memory.limit_in_bytes", "memory.usage_in_bytes"),
        ];
        for (folder, limit, usage) in kinds {
            let Some(folder) = folder.filter(|folder| fs::create_dir(folder).is_ok()) else { continue };
            let group = MemoryGroup { folder, limit, usage };
            if group.folder.join(limit).exists() {
                return Some(group);
            }
        }
        skipped(Cause::Rights("control groups"), "none whose memory is limited can be made");
        None
    }

    fn limit(&self, bytes: u64) {
        fs::write(self.folder.join(self.limit), bytes.to_string()).unwrap();
    }

    fn used_bytes(&self) -> u64 {
        fs::read_to_string(self.folder.join(self.usage)).unwrap().trim().parse().unwrap()
    }

    /// A command that runs in it.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tied("sh");
        let procs = self.folder.join("cgroup.procs");
        command
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\"", procs.to_str().unwrap(), PROGRAM])
            .args(arguments);
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn the_container_of_the_server_pays_for_the_log_and_those_that_write_and_read_it_do_not() {
    let folder = temp_dir("causeway");
    let path = folder.path().join("group");
    let path = path.to_str().unwrap();
    let groups = ["server", "publisher", "subscriber"].map(MemoryGroup::new);
    let [Some(server), Some(publisher), Some(subscriber)] = &groups else { return };
    // Neither could hold the log, and neither is killed for it.
    [publisher, subscriber].iter().for_each(|group| group.limit(24 * MIB));
    let serving =
        Running::start(&mut server.command(&["serve", "--capacity", &(64 * MIB).to_string(), path]));
    eventually("no process serves the group", || causeway::Group::join(path).is_ok());
    let reading =
        subscriber.command(&["subscribe", path]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut writing = publisher.command(&["publish", "--wait-for-subscribers", "1", path]).spawn().unwrap();
    let line = [&[b'x'; 4095][..], b"\n"].concat();
    let mut input = writing.stdin.take().unwrap();
    // Once around the log, and more.
    for _ in 0..20_000 {
        input.write_all(&line).unwrap();
    }
    let used = [server, publisher, subscriber].map(MemoryGroup::used_bytes);
    drop(input);
    assert!(writing.wait().unwrap().success() && reading.wait_with_output().unwrap().status.success());
    assert!(used[0] >= 64 * MIB && used[1] < 24 * MIB && used[2] < 24 * MIB, "{used:?}");
    kill("TERM", serving.pid());
    drop(serving);
}

#[test]
fn a_log_that_the_container_of_the_server_cannot_hold_is_refused_and_nobody_is_killed() {
    let folder = temp_dir("causeway");
    let path = folder.path().join("group");
    let path = path.to_str().unwrap();
    let Some(server) = MemoryGroup::new("refused") else { return };
    server.limit(24 * MIB);
    let why =
        complaint(server.command(&["serve", "--capacity", &(64 * MIB).to_string(), path]).output().unwrap());
    assert!(why.contains("control group"), "{why}");
    let output = server.command(&["doctor", "--format", "json"]).output().unwrap();
    let found = findings(&output);
    let line = found.iter().find(|finding| finding["check"] == "memory").unwrap();
    assert!(line["found"].as_str().unwrap().contains("control group has"), "{line}");
}

/// A command in a container of podman, rootless or rootful as this test is, which shares `shared` and has the programs of this machine;
/// `None`, with the skip printed, where there is no podman or it runs no container here.
struct Podman {
    root: crate::support::TempDir,
    runtime: &'static [&'static str],
}

impl Podman {
    fn find() -> Option<Podman> {
        if !has_program("podman") {
            return None;
        }
        let mut root = temp_dir("causeway-root");
        for folder in ["proc", "sys", "dev", "tmp", "run", "etc", "usr", "lib", "lib64", "bin", "shared"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let mut why = String::new();
        // The user of a container may be another one.
        fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let runtimes: [&'static [&'static str]; 2] =
            [&[], &["--runtime", "runc", "--cgroup-manager", "cgroupfs"]];
        for runtime in runtimes {
            let podman = Podman { root, runtime };
            match podman.command(Path::new("/tmp"), &[], &["/usr/bin/true"]).output() {
                Ok(output) if output.status.success() => return Some(podman),
                Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(error) => panic!("podman: {error}"),
            }
            root = podman.root;
        }
        skipped(Cause::Rights("podman"), why);
        None
    }

    fn command(&self, shared: &Path, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = tied("podman");
        command.args(self.runtime).args(["run", "--rm", "--interactive", "--network=none"]);
        // Less than what podman asks for, which not every machine gives.
        command.args([
            "--security-opt",
            "label=disable",
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
        ]);
        for folder in ["/usr", "/lib", "/lib64", "/bin"].iter().filter(|folder| Path::new(folder).exists()) {
            command.args(["--volume", &format!("{folder}:{folder}:ro")]);
        }
        command.args(["--volume", &format!("{}:/shared", shared.display())]);
        command.args(["--volume", &format!("{PROGRAM}:/run/causeway:ro")]).args(options);
        command.args(["--rootfs", self.root.path().to_str().unwrap()]).args(arguments);
        command
    }
}

#[test]
fn a_container_of_podman_joins_through_a_mounted_folder_and_its_end_is_seen() {
    let Some(podman) = Podman::find() else { return };
    let folder = temp_dir("causeway");
    let path = folder.path().join("group");
    let _server = Running::start(&mut causeway(&["serve", path.to_str().unwrap()]));
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let mut publisher = Running::start(&mut podman.command(
        folder.path(),
        &[],
        &["/run/causeway", "publish", "/shared/group"],
    ));
    let subscriber = causeway(&["subscribe", path.to_str().unwrap()]).spawn().unwrap();
    let report = || causeway::Group::join(&path).unwrap().report().unwrap();
    eventually("the container has not joined", || {
        let report = report();
        (report.publishers.len(), report.subscribers.len()) == (1, 1)
    });
    publisher.0.stdin.as_mut().unwrap().write_all(b"from podman\n").unwrap();
    eventually("nothing is received", || report().subscribers[0].received == 1);
    kill("KILL", report().publishers[0].pid);
    // The only publisher is gone, and with it the group.
    assert_eq!(printed(subscriber.wait_with_output().unwrap()), "from podman\n");
    publisher.wait();
}

#[test]
fn a_container_of_podman_is_told_what_it_lacks_and_serves_nothing_as_the_user_of_all_others() {
    let Some(podman) = Podman::find() else { return };
    let folder = temp_dir("causeway");
    let output = podman
        .command(folder.path(), &[], &["/run/causeway", "doctor", "--format", "json"])
        .output()
        .unwrap();
    let found = findings(&output);
    assert_eq!(
        (found.len(), state(&found, "kernel"), state(&found, "user")),
        (7, &"ok".into(), &"ok".into()),
        "{found:?}"
    );
    // Root of the container, whose numbers are not all there are.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let options = ["--user", "65534", "--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536"];
    let serve = ["/run/causeway", "serve", "/shared/group"];
    let output = podman.command(folder.path(), &options, &serve).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(3) {
        assert!(why.contains("stands for every user without a number"), "{why}");
    } else {
        skipped(Cause::Rights("podman"), format!("it has no user namespace of its own: {why}"));
    }
}

/// The rows for podman of the table *who is who* of docs/containers.md: rootful if root runs this test, rootless if another user does.
#[test]
fn a_server_sees_the_users_of_a_container_of_podman_by_the_numbers_that_the_documents_say() {
    let Some(podman) = Podman::find() else { return };
    let folder = temp_dir("causeway");
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = folder.path().join("group");
    let serve = ["serve", "--late-publishers", "--subscribers", "any-user", path.to_str().unwrap()];
    let _server = Running::start(&mut causeway(&serve));
    eventually("no process serves the group", || causeway::Group::join(&path).is_ok());
    let subscribers = || causeway::Group::join(&path).unwrap().report().unwrap().subscribers;
    let seen = |options: &[&str]| {
        // Publishers would not wait for a user that is not the server's.
        let arguments = ["/run/causeway", "subscribe", "--policy", "lossy", "/shared/group"];
        let mut container = Running::start(&mut podman.command(folder.path(), options, &arguments));
        let subscribes = || {
            let first = subscribers().first().copied();
            if first.is_none() && container.0.try_wait().unwrap().is_some() {
                panic!(
                    "{options:?}: {}",
                    std::io::read_to_string(container.0.stderr.take().unwrap()).unwrap()
                );
            }
            first
        };
        let subscriber = eventually_seen("it subscribes", subscribes, Option::is_some).unwrap();
        kill("KILL", subscriber.pid);
        container.wait();
        eventually("its end is not seen", || subscribers().is_empty());
        subscriber.uid
    };
    let own = rustix::process::getuid().as_raw();
    assert_eq!(seen(&[]), own, "root of a container is who has started it");
    let other = seen(&["--user", "1234:1234"]);
    if own == 0 {
        assert_eq!(other, 1234, "numbers of a rootful container are those of this machine");
        return;
    }
    // One of those that belong to this user.
    assert!(![0, own, 1234, 65534].contains(&other), "{other}");
    let number = own.to_string();
    assert_eq!(seen(&["--userns=keep-id", "--user", &number]), own);
    let root = seen(&["--userns=keep-id", "--user", "0:0"]);
    assert!(![0, own, 65534].contains(&root), "{root}");
}
