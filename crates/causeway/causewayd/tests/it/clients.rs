//! Programs of others talk to the bus, where they are installed.

use std::process::{Child, Command, Output, Stdio};

use causeway_dbus_wire::wire::Body;

use crate::support::*;

/// Runs a program with the bus as its session; nothing, with the reason printed, where it is missing.
fn run(broker: &Broker, program: &str, args: &[&str]) -> Option<Output> {
    let output = Command::new("timeout")
        .args(["60", program])
        .args(args)
        .env("DBUS_SESSION_BUS_ADDRESS", &broker.address)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    if output.status.code() == Some(127) {
        println!("skipped: {program} is not installed");
        return None;
    }
    Some(output)
}

fn succeeds(broker: &Broker, program: &str, args: &[&str], expected: &str) {
    let Some(output) = run(broker, program, args) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {complaint}");
    assert!(said.contains(expected), "{program} {args:?} says {said:?}");
}

const DRIVER: &str = "org.freedesktop.DBus";
const OBJECT: &str = "/org/freedesktop/DBus";

#[test]
fn tools_of_every_kind_call_the_driver() {
    let broker = Broker::start();
    let list = "--dest=org.freedesktop.DBus";
    succeeds(
        &broker,
        "dbus-send",
        &["--print-reply", list, OBJECT, "org.freedesktop.DBus.ListNames"],
        DRIVER,
    );
    let call = ["call", "--session", "-d", DRIVER, "-o", OBJECT, "-m", "org.freedesktop.DBus.GetId"];
    succeeds(&broker, "gdbus", &call, "('");
    succeeds(&broker, "gdbus", &["introspect", "--session", "-d", DRIVER, "-o", OBJECT], "RequestName");
    let address = format!("--address={}", broker.address);
    succeeds(&broker, "busctl", &[&address, "list", "--no-pager"], DRIVER);
    succeeds(&broker, "busctl", &[&address, "introspect", DRIVER, OBJECT, "--no-pager"], "Features");
    succeeds(
        &broker,
        "busctl",
        &[&address, "get-property", DRIVER, OBJECT, DRIVER, "Features"],
        "HeaderFiltering",
    );
}

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that takes a name, and waits until it has it.
fn service(broker: &Broker, name: &str, program: &str, args: &[&str]) -> Option<Running> {
    let mut command = Command::new(program);
    command.args(args).env("DBUS_SESSION_BUS_ADDRESS", &broker.address);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = started else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let mut running = Running(child);
    let mut client = broker.open();
    let has_owner = || {
        if running.0.try_wait().unwrap().is_some() {
            return None;
        }
        Some(client.ask_driver("GetNameOwner", Body::default().text(name)).is_ok())
    };
    let came = eventually_seen("the name has no owner", has_owner, |owned| *owned != Some(false));
    if came.is_none() {
        println!("skipped: {program} {args:?} has ended; what it needs is not installed");
    }
    came.map(|_| running)
}

#[test]
fn an_echo_and_a_flood_of_the_reference_implementation() {
    let broker = Broker::start();
    let name = "a.Echo";
    let Some(_echo) =
        service(&broker, name, "dbus-test-tool", &["echo", "--session", &format!("--name={name}")])
    else {
        return;
    };
    let spam = ["spam", "--session", "--dest=a.Echo", "--count=2000", "--queue=50"];
    succeeds(&broker, "dbus-test-tool", &spam, "");
    let call = ["--print-reply", "--dest=a.Echo", "/", "a.Interface.Method", "string:x"];
    succeeds(&broker, "dbus-send", &call, "method return");
}

const PYTHON: &str = "
import dbus, dbus.service, dbus.mainloop.glib
from gi.repository import GLib
dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
class Adder(dbus.service.Object):
    @dbus.service.method('a.Python', in_signature='ii', out_signature='i')
    def Add(self, a, b):
        self.Added(a + b)
        return a + b
    @dbus.service.signal_of('a.Python', signature='i')
    def Added(self, sum):
        pass
bus = dbus.SessionBus()
name = dbus.service.BusName('a.Python', bus)
Adder(bus, '/a')
GLib.MainLoop().run()
";

#[test]
fn a_python_service_is_called_by_a_glib_client() {
    let broker = Broker::start();
    let Some(_service) = service(&broker, "a.Python", "/usr/bin/python3", &["-c", PYTHON]) else { return };
    let call = ["call", "--session", "-d", "a.Python", "-o", "/a", "-m", "a.Python.Add", "2", "3"];
    succeeds(&broker, "gdbus", &call, "(5,)");
    let address = format!("--address={}", broker.address);
    succeeds(
        &broker,
        "busctl",
        &[&address, "call", "a.Python", "/a", "a.Python", "Add", "ii", "20", "22"],
        "i 42",
    );
    succeeds(&broker, "gdbus", &["introspect", "--session", "-d", "a.Python", "-o", "/a"], "Added");
}
