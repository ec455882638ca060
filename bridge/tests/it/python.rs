//! A program of Zenoh in Python that subscribes to a group, and answers calls.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_bus::wire::Body;
use causeway_testkit::{Cause, trial_succeeds};

use crate::names::BusHost;
use crate::support::{Host, Router, Running, eventually};

const PROGRAM: &str = r#"
import struct, sys, time, zenoh
config = zenoh.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", f'["{sys.argv[1]}"]')
config.insert_json5("scouting/multicast/enabled", "false")
session = zenoh.open(config)
out = open(sys.argv[2], "w", buffering=1)
def heard(sample):
    out.write(f"{sample.key_expr} {bytes(sample.payload).decode()}\n")
subscriber = session.declare_subscriber("cw/1/test/prices/**", heard)
key = "cw/1/test/bus/com.example.Python"
def answer(query):
    query.reply(f"{key}/call", struct.pack("<I", 42), encoding="application/x-dbus;u")
service = session.declare_queryable(f"{key}/call", answer)
token = session.liveliness().declare_token(f"{key}/@at/python")
out.write("ready\n")
while True:
    time.sleep(1)
"#;

/// A Python with the client of Zenoh: `pip install eclipse-zenoh`. `CAUSEWAY_PYTHON_ZENOH` names another one.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("CAUSEWAY_PYTHON_ZENOH").map(PathBuf::from);
    let python = named.unwrap_or_else(|| "python3".into());
    let has_zenoh =
        trial_succeeds(Command::new(&python).args(["-c", "import zenoh"]), Cause::Missing("python:zenoh"));
    has_zenoh.then_some(python)
}

#[test]
fn a_client_of_zenoh_in_python_subscribes_to_a_group_and_is_a_service_of_the_bus() {
    let Some(python) = python() else { return };
    let router = Router::start();
    let (host, bus) = (Host::new("a"), BusHost::new("b"));
    let bridge = host.bridge(&router);
    let _other = bus.bridge(&router, &["--import", "com.example.*"]);
    let said = host.folder.path().join("said");
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, &router.endpoint()]).arg(&said).stdin(Stdio::null());
    let _running = Running::start(&mut command);
    let read = || std::fs::read_to_string(&said).unwrap_or_default();
    eventually("the program does not begin", || read().contains("ready"));
    eventually("the bridge does not begin", || {
        bridge.stat()["connected"] == true && !host.group.report().unwrap().subscribers.is_empty()
    });
    let mut publisher = host.group.publisher().unwrap();
    let mut number = 0;
    // What was published before Zenoh knew of the subscriber was for nobody.
    eventually("the program hears nothing", || {
        let _ = publisher.publish_with_topic(7, format!("price {number}").as_bytes()).unwrap();
        number += 1;
        std::thread::sleep(Duration::from_millis(50));
        read().contains("cw/1/test/prices/7 price ")
    });
    let mut member = bus.member();
    eventually("the name does not come", || member.name_owner("com.example.Python").is_some());
    let reply =
        member.call("com.example.Python", "/", "com.example.Python", "Answer", Body::default()).unwrap();
    assert_eq!(reply.args::<u32>().unwrap(), 42);
    assert!(!read().contains('@'), "packets between bridges are no messages: {}", read());
}
