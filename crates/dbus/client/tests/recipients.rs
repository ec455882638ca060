//! On a private dbus-daemon, the recipients that are computed are those that get the messages.
#![allow(clippy::print_stderr)]

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use causeway_bus::client::{Bus, Error};
use causeway_dbus_wire::wire::Body;

#[path = "recipients/model.rs"]
mod model;

const PATIENCE: Duration = Duration::from_secs(300);

const CONFIG: &str = "<busconfig><type>session</type><listen>unix:dir=FOLDER</listen><auth>EXTERNAL</auth>\
    <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy>\
    <limit name=\"max_match_rules_per_connection\">10000</limit></busconfig>";

/// A daemon of its own, which ends with the test.
struct Daemon {
    child: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Daemon {
    /// Nothing, with the reason printed, where the program is missing.
    fn start() -> Option<Daemon> {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("bus.conf");
        std::fs::write(&config, CONFIG.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
        let mut command = Command::new("dbus-daemon");
        command.arg("--config-file").arg(&config).args(["--print-address=1", "--nofork", "--nopidfile"]);
        let mut child =
            match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
                Ok(child) => child,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    eprintln!("skipped: dbus-daemon is not installed (package dbus-daemon)");
                    return None;
                }
                Err(error) => panic!("dbus-daemon cannot be started: {error}"),
            };
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(Daemon { child, address: address.trim().into(), _folder: folder })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn computed_recipients_are_those_that_get_the_messages() {
    let Some(daemon) = Daemon::start() else { return };
    model::compare(&daemon.address);
}

/// An address where nothing listens, a call that is refused, and a bus that ends.
#[test]
fn what_goes_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = format!("unix:path={}", folder.path().join("none").display());
    let said = Bus::connect(&nowhere).unwrap_err().to_string();
    assert!(said.starts_with("no bus answers at `unix:path="), "{said}");
    let Some(mut daemon) = Daemon::start() else { return };
    let mut connection = Bus::connect(&daemon.address).unwrap();
    let refused = connection.ask_driver("AddMatch", Body::default().text("nonsense='1'")).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { name, .. } if name.ends_with("MatchRuleInvalid")),
        "{refused}"
    );
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let ended = loop {
        match connection.receive(PATIENCE) {
            Ok(Some(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
