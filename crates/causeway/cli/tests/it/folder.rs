//! Where `causeway bus start` and `run` serve where nobody has a folder for sockets: in a container, in a service, after `su`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Cause, TempDir, causeway, causewayd, complaint, eventually, kill, printed, skipped, temp_dir, tied,
};

/// A command without the folder of a session, whose temporary files are here.
fn homeless(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = causeway(arguments);
    for name in ["XDG_RUNTIME_DIR", "CAUSEWAY_BUS", "DBUS_SESSION_BUS_ADDRESS"] {
        command.env_remove(name);
    }
    command.env("TMPDIR", folder);
    command
}

/// Gives a folder to user 1, if this one may; prints the skip of the test if not.
fn gives_away(folder: &Path) -> bool {
    let given = std::os::unix::fs::chown(folder, Some(1), None);
    if let Err(error) = &given {
        skipped(Cause::Rights("root"), error);
    }
    given.is_ok()
}

fn private(folder: &TempDir) -> PathBuf {
    let own = std::fs::metadata(folder.path()).unwrap().uid();
    folder.path().join(format!("causeway-{own}"))
}

#[test]
fn a_bus_starts_in_a_private_folder_where_there_is_none_of_the_session() {
    if causewayd().is_none() {
        return;
    }
    let folder = temp_dir("causeway");
    // A folder of another user is none of ours; root finds one only where the container has another user.
    let foreign = temp_dir("causeway");
    let runtime = gives_away(foreign.path()).then(|| foreign.path());
    let mut start = homeless(folder.path(), &["bus", "start"]);
    if let Some(runtime) = runtime {
        start.env("XDG_RUNTIME_DIR", runtime);
    }
    let said = printed(start.output().unwrap());
    let private = private(&folder);
    assert!(said.contains(&format!("CAUSEWAY_BUS='{}/causeway-bus.native'", private.display())), "{said}");
    assert_eq!(std::fs::metadata(&private).unwrap().mode() & 0o7777, 0o700);
    // The variables lead back to it, each alone, too; without them the command says which.
    for unset in ["true", "unset CAUSEWAY_BUS", "unset DBUS_SESSION_BUS_ADDRESS"] {
        let script = format!("{said}\n{unset}\n'{}' bus list", env!("CARGO_BIN_EXE_causeway"));
        let mut shell = tied("sh");
        shell.args(["-c", &script]).env_remove("XDG_RUNTIME_DIR").env("TMPDIR", folder.path());
        assert!(printed(shell.output().unwrap()).contains("org.freedesktop.DBus"));
    }
    let lost = complaint(homeless(folder.path(), &["bus", "list"]).output().unwrap());
    assert!(
        lost.contains(&format!("has made one: --socket {}/causeway-bus.native", private.display())),
        "{lost}"
    );
    // One more, without a file for D-Bus, and a private one for a program.
    let second = printed(
        homeless(folder.path(), &["bus", "start", "--address", "unix:tmpdir=/tmp"]).output().unwrap(),
    );
    assert!(second.contains(&format!("CAUSEWAY_BUS='{}/causeway-", private.display())), "{second}");
    let run = ["bus", "run", "--", "sh", "-c", "echo $CAUSEWAY_BUS"];
    let native = printed(homeless(folder.path(), &run).output().unwrap());
    assert!(native.starts_with(&format!("{}/", private.display())), "{native}");
    for said in [&said, &second] {
        let pid = said.lines().find_map(|line| line.strip_prefix("export CAUSEWAYD_PID=")).unwrap();
        kill("TERM", pid.parse().unwrap());
    }
    let is_empty = || std::fs::read_dir(&private).unwrap().next().is_none();
    eventually("a socket stays", is_empty);
}

#[test]
fn a_private_folder_that_is_none_is_refused_with_a_way_out() {
    if causewayd().is_none() {
        return;
    }
    let open_to_all = |path: &Path| {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    let of_another = |path: &Path| {
        std::fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(1), None).unwrap();
    };
    let to_another = |path: &Path| {
        let target = path.with_extension("target");
        std::fs::create_dir(&target).unwrap();
        symlink(target, path).unwrap();
    };
    let can_give_away = gives_away(temp_dir("causeway").path());
    let cases = [
        (open_to_all as fn(&Path), "its mode is 0777 and not 0700"),
        (to_another, "it is not a folder"),
        (of_another, "it belongs to user 1"),
    ];
    for (make, why) in &cases[..if can_give_away { 3 } else { 2 }] {
        let folder = temp_dir("causeway");
        make(&private(&folder));
        for arguments in [&["bus", "start"][..], &["bus", "run", "--", "true"]] {
            let said = complaint(homeless(folder.path(), arguments).output().unwrap());
            assert!(said.contains(why) && said.contains("set XDG_RUNTIME_DIR"), "{said}");
        }
    }
}
