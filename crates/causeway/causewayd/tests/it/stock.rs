//! The configuration of the system bus as a distribution installs it, with the files of its services: what it allows and limits, as dbus-daemon
//! does with the same files.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_bus::client::Bus as Client;
use causeway_testkit::Running;

use crate::support::*;

const STOCK: &str = "/usr/share/dbus-1/system.conf";
const NOBODY: u32 = 65534;

/// A call that the policy denies, to a name that nobody has or provides.
const TO_NOBODY: &str = "com.example.None.Call";

/// Calls of the driver and of others, as `dbus-send` has them: destination, member, arguments.
const CALLS: &[(&str, &str, &[&str])] = &[
    (DRIVER, "org.freedesktop.DBus.GetId", &[]),
    (DRIVER, "org.freedesktop.DBus.AddMatch", &["string:type='signal'"]),
    // Nobody owns a name for which no file makes a hole.
    (DRIVER, "org.freedesktop.DBus.RequestName", &["string:com.example.Test", "uint32:0"]),
    (DRIVER, "org.freedesktop.DBus.RequestName", &["string:org.freedesktop.login1", "uint32:0"]),
    (DRIVER, "org.freedesktop.DBus.UpdateActivationEnvironment", &["dict:string:string:A,B"]),
    (DRIVER, "org.freedesktop.DBus.Debug.Stats.GetStats", &[]),
    (DRIVER, "org.freedesktop.DBus.Monitoring.BecomeMonitor", &["array:string:", "uint32:0"]),
    (DRIVER, "org.freedesktop.systemd1.Activator.ActivationFailure", &[]),
    (DRIVER, "org.freedesktop.DBus.ReloadConfig", &[]),
    ("com.example.None", TO_NOBODY, &[]),
    ("org.freedesktop.DBus.Local", "com.example.None.Call", &[]),
];

/// dbus-daemon or causewayd with that configuration at an address of its own.
fn start(mut command: Command, name: &str) -> (Running, String) {
    let address = format!("unix:abstract=causeway-stock-{name}-{}", std::process::id());
    command.args(["--config-file", STOCK, "--address", &address]);
    command.args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"]);
    let mut bus =
        Running::start(command.stdin(Stdio::null()).stderr(Stdio::inherit()).stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(bus.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(&address), "{name} does not serve: {line:?}");
    (bus, address)
}

/// What a user is answered: `method return`, or the name of the error.
fn answer(address: &str, uid: u32, (destination, member, arguments): (&str, &str, &[&str])) -> String {
    let mut command = Command::new("setpriv");
    let own = [format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".into()];
    command.args(own).args(["dbus-send", "--print-reply", "--reply-timeout=10000"]);
    command.arg(format!("--bus={address}")).arg(format!("--dest={destination}"));
    let output = command.arg("/org/freedesktop/DBus").arg(member).args(arguments).output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    match said.strip_prefix("Error ") {
        Some(error) => error.split(':').next().unwrap_or_default().to_owned(),
        None => said.split(" time").next().unwrap_or_default().to_owned(),
    }
}

/// Rules of one connection, and connections of this user, up to what is refused.
fn limits(address: &str) -> (usize, usize) {
    let mut client = Client::open(address).unwrap();
    let rule = |number: usize| format!("type='signal',path='/a{number}'");
    let rules = (0..1000).take_while(|number| client.add_match(&rule(*number)).is_ok()).count();
    drop(client);
    let mut clients = Vec::new();
    while let Ok(client) = Client::open(address) {
        clients.push(client);
        assert!(clients.len() < 1000, "there is no limit");
    }
    (rules, clients.len())
}

#[test]
fn root_starts_the_system_bus_of_the_distribution_which_gives_up_roots_rights() {
    if !is_root() || !has_program("setpriv") || !has_program("dbus-send") {
        return;
    }
    let account = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let account = account.lines().find(|line| line.starts_with("messagebus:"));
    let Some(account) = account.filter(|_| Path::new(STOCK).exists()) else {
        let detail = format!("there is no {STOCK}, or no user messagebus");
        return skipped(Cause::Missing("a system bus"), detail);
    };
    let (ours, address) = start(causewayd(&[]), "ours");
    let status = std::fs::read_to_string(format!("/proc/{}/status", ours.pid())).unwrap();
    let field = |name: &str| -> Vec<&str> {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().split_whitespace().collect()
    };
    let ids: Vec<&str> = account.split(':').collect();
    assert_eq!((field("Uid:"), field("Gid:")), (vec![ids[2]; 4], vec![ids[3]; 4]), "{status}");
    assert!(field("CapEff:") == ["0000000000000000"] && field("CapPrm:") == ["0000000000000000"], "{status}");
    assert!(!field("Groups:").contains(&"0"), "{status}");
    let answers = |address: &str| -> Vec<(u32, &str, String)> {
        let users = [0, NOBODY].into_iter().flat_map(|uid| CALLS.iter().map(move |call| (uid, *call)));
        users.map(|(uid, call)| (uid, call.1, answer(address, uid, call))).collect()
    };
    let our_answers = answers(&address);
    let denied = "org.freedesktop.DBus.Error.AccessDenied";
    let unknown = "org.freedesktop.DBus.Error.ServiceUnknown";
    let of = |uid, index: usize| our_answers[if uid == 0 { index } else { CALLS.len() + index }].2.as_str();
    for (index, root, nobody) in [
        (0, "method return", "method return"),
        (2, denied, denied),
        (3, "method return", denied),
        (5, "method return", denied),
        (6, "method return", denied),
        (9, unknown, unknown),
    ] {
        assert_eq!((of(0, index), of(NOBODY, index)), (root, nobody), "{:?}", CALLS[index]);
    }
    let our_limits = limits(&address);
    assert_eq!(our_limits.0, 512);
    if !has_program("dbus-daemon") {
        return;
    }
    let (_theirs, address) = start(Command::new("dbus-daemon"), "theirs");
    assert_eq!(answers(&address), our_answers);
    assert_eq!(our_limits, limits(&address));
}
