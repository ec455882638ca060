//! The examples are programs that others begin with: each is compiled and run here.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use causeway_bus::wire::{Body, Builder, Decode, Value, Variant, arguments_of};
use causeway_bus::{Connection, Incoming, Message, name};
use causeway_testkit::watchdog::COMPILING;

use crate::support::*;

/// Those in Rust.
const EXAMPLES: &[&str] = &[
    "clock_client",
    "clock_client_tokio",
    "clock_service",
    "clock_service_tokio",
    "monitor",
    "news",
    "thermostat",
    "zbus_clock",
];
const IN_PYTHON: &str = "clock_client.py";
const IS_SERVED: &str = "is com.example.Clock";

/// Names the folder of the examples where they are compiled already.
const COMPILED: &str = "CAUSEWAY_EXAMPLES";

/// The folder of the compiled examples. A test does not compile them.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    extend_limit(COMPILING);
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os(COMPILED) {
            return folder.into();
        }
        let program = std::env::current_exe().unwrap();
        let profile = program.ancestors().nth(2).expect("target/PROFILE/deps/PROGRAM");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "causeway-bus", "--features", "zbus"]);
        cargo.args(EXAMPLES.iter().flat_map(|example| ["--example", example]));
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", profile.parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the examples cannot be compiled");
        profile.join("examples")
    })
}

/// Whether [`folder`] has them or can have them compiled; prints the skip if not.
fn has_examples() -> bool {
    std::env::var_os(COMPILED).is_some() || has_program("cargo")
}

/// A program that runs, and the lines that it prints. Dropped, it is killed.
struct Example {
    running: Running,
    lines: Receiver<String>,
}

impl Example {
    fn start(command: &mut Command) -> Example {
        let mut running = Running::start(command.stdout(Stdio::piped()).stdin(Stdio::null()));
        let (sender, lines) = channel();
        let output = BufReader::new(running.0.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Example { running, lines }
    }

    fn named(name: &str, args: &[&str]) -> Example {
        Example::start(Command::new(folder().join(name)).args(args))
    }

    /// The next line. It must have this text.
    fn says(&self, text: &str) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(text) => line,
            other => panic!("{text:?} was expected: {other:?}"),
        }
    }

    fn ends_well(mut self) {
        assert!(self.running.wait().success());
    }
}

#[test]
fn every_example_is_run_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bus/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut found: Vec<_> =
        files.map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned()).collect();
    found.sort();
    let mut known: Vec<_> = EXAMPLES.iter().chain([&IN_PYTHON]).copied().collect();
    known.sort_unstable();
    assert_eq!(found, known);
}

#[test]
fn clients_ask_the_clock_and_hear_it_which_says_what_it_has() {
    if !has_examples() {
        return;
    }
    for (service, client, says, describes) in [
        ("clock_service", "clock_client", &["seconds: "][..], &["Seconds"][..]),
        (
            "clock_service_tokio",
            "clock_client_tokio",
            &["seconds: ", "the clock has one method: Seconds", "tick: "],
            &["Seconds", "Tick"],
        ),
    ] {
        let bus = Bus::start();
        let path = bus.path();
        let _service = {
            let service = Example::named(service, &[path.to_str().unwrap()]);
            service.says(IS_SERVED);
            service
        };
        let client = Example::named(client, &[path.to_str().unwrap()]);
        for line in says {
            client.says(line);
        }
        let mut newcomer = bus.member();
        if describes.len() == 1 {
            // It may see its own arrival first, which is announced while it adds its rule.
            while !client.says("").contains(newcomer.unique_name()) {}
        }
        let introspectable = "org.freedesktop.DBus.Introspectable";
        let reply = newcomer.call("com.example.Clock", "/", introspectable, "Introspect", Body::default());
        let reply = reply.unwrap();
        for name in describes {
            let document = reply.text().unwrap();
            assert!(document.contains(&format!("name=\"{name}\"")), "{name}: {document}");
        }
    }
}

#[test]
fn news_are_heard_by_everybody_who_listens() {
    if !has_examples() {
        return;
    }
    let bus = Bus::start();
    let path = bus.path();
    let listeners = [(); 2].map(|()| {
        let listener = Example::named("news", &[path.to_str().unwrap()]);
        listener.says("listening");
        listener
    });
    for text in ["rain", "and later sun"] {
        Example::named("news", &[path.to_str().unwrap(), text]).ends_well();
        listeners.iter().for_each(|listener| drop(listener.says(text)));
    }
}

/// The next signal of the thermostat with this name.
fn heard<'a, T: Decode<'a>>(member: &mut Connection, name: &str, kept: &'a mut Option<Message>) -> T {
    *kept = loop {
        match member.next(Some(PATIENCE)).unwrap() {
            Some(Incoming::Signal(signal)) if signal.header().member == Some(name) => break Some(signal),
            Some(_) => {}
            None => panic!("no signal {name}"),
        }
    };
    kept.as_ref().unwrap().args().unwrap()
}

#[test]
fn a_thermostat_has_a_property_an_array_and_a_variant_and_a_method_of_it_emits_a_signal() {
    if !has_examples() {
        return;
    }
    const THERMOSTAT: &str = "com.example.Thermostat";
    let bus = Bus::start();
    let service = Example::named("thermostat", &[bus.path().to_str().unwrap()]);
    service.says("is com.example.Thermostat");
    let mut member = bus.member();
    member.add_match("type='signal',sender='com.example.Thermostat'").unwrap();
    let tools = Tools::watch(&bus.address, THERMOSTAT);
    let (mut kept, mut ask) = (None, bus.member());
    let mut of_thermostat = |method, body| ask.call(THERMOSTAT, "/", THERMOSTAT, method, body).unwrap();
    assert!(of_thermostat("Measure", Body::of(&19.5).unwrap()).args::<bool>().unwrap());
    assert_eq!(heard::<(bool, f64)>(&mut member, "Switched", &mut kept), (true, 19.5));
    assert!(of_thermostat("Measure", Body::of(&18.5).unwrap()).args::<bool>().unwrap());
    assert_eq!(of_thermostat("History", Body::default()).args::<Vec<f64>>().unwrap(), [19.5, 18.5]);
    let about = of_thermostat("About", Body::default());
    let about: HashMap<&str, Value<'_>> = about.args().unwrap();
    assert_eq!(
        (about["place"].to::<String>().unwrap(), about["last"].to::<Vec<f64>>().unwrap()),
        ("hall".to_owned(), vec![18.5])
    );
    let refused = ask.call(THERMOSTAT, "/", THERMOSTAT, "Measure", Body::of("warm").unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), format!("{}: expected \"d\", found \"s\"", name::INVALID_ARGS));

    const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
    let mut set = |value: &Value<'_>| {
        let body = Body::of(&(THERMOSTAT, "Target", value)).unwrap();
        ask.call(THERMOSTAT, "/", PROPERTIES, "Set", body).map(drop).map_err(|error| error.to_string())
    };
    let invalid = |why: &str| Err(format!("{}: {why}", name::INVALID_ARGS));
    assert_eq!(set(&Value::F64(31.0)), invalid("a target is between 5 and 30 °C"));
    assert_eq!(set(&Value::U32(10)), invalid("expected \"d\", found \"u\""));
    assert_eq!(set(&Value::F64(10.0)), Ok(()));
    let changed: (&str, HashMap<&str, Variant<f64>>, Vec<&str>) =
        heard(&mut member, "PropertiesChanged", &mut kept);
    assert_eq!(changed, (THERMOSTAT, HashMap::from([("Target", Variant(10.0))]), vec![]));
    // Clients of the socket see the same.
    let get = Builder::call("/", "Get").interface(PROPERTIES).destination(THERMOSTAT);
    let get = get.body(Body::of(&(THERMOSTAT, "Target")).unwrap());
    assert_eq!(arguments_of(&bus.client().call(&get, PATIENCE).unwrap()), Ok(Variant(10.0)));
    tools.see("Switched", "PropertiesChanged");
}

/// What programs of others see of a service at the socket of D-Bus.
struct Tools {
    address: String,
    service: &'static str,
    gdbus: Option<Example>,
}

impl Tools {
    fn watch(address: &str, service: &'static str) -> Tools {
        let mut command = Command::new("gdbus");
        command.args(["monitor", "--session", "--dest", service]).env("DBUS_SESSION_BUS_ADDRESS", address);
        let gdbus = has_program("gdbus").then(|| Example::start(&mut command));
        if let Some(gdbus) = &gdbus {
            // It says so once it listens.
            gdbus.says("Monitoring signals");
            gdbus.says("is owned by");
        }
        Tools { address: address.to_owned(), service, gdbus }
    }

    /// The signals came in this order, and the property is there.
    fn see(self, first: &str, second: &str) {
        if let Some(gdbus) = self.gdbus {
            gdbus.says(first);
            gdbus.says(second);
        }
        if !has_program("busctl") {
            return;
        }
        let busctl = |args: &[&str]| {
            let mut command = Command::new("busctl");
            command.args([&format!("--address={}", self.address), "--no-pager", "--full"]).args(args);
            let output = command.stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let all = busctl(&["introspect", self.service, "/"]);
        let property =
            all.lines().find(|line| line.starts_with(".Target")).unwrap_or_else(|| panic!("{all}"));
        assert!(
            property.contains("property") && property.contains("10") && property.contains("writable"),
            "{property}"
        );
        assert_eq!(busctl(&["get-property", self.service, "/", self.service, "Target"]), "d 10\n");
    }
}

#[test]
fn a_program_of_zbus_runs_on_either_transport() {
    if !has_examples() {
        return;
    }
    let bus = Bus::start();
    let path = bus.path();
    let places = [path.to_str().unwrap(), &bus.address];
    for served_at in places {
        let service = Example::named("zbus_clock", &["serve", served_at]);
        service.says(IS_SERVED);
        for place in places {
            let client = Example::named("zbus_clock", &["call", place, "--count", "10"]);
            client.says("seconds: ");
            client.says("10 calls, ");
            client.ends_well();
        }
    }
}

#[test]
fn a_monitor_prints_what_its_rule_wants_and_nothing_else() {
    if !has_examples() {
        return;
    }
    let bus = Bus::start();
    let monitor = Example::named("monitor", &[bus.path().to_str().unwrap(), "member='Wanted'"]);
    let mut sender = bus.member();
    let mut seen = 0;
    // Nothing tells when a monitor is there.
    eventually("the monitor prints nothing", || {
        for member in ["Unwanted", "Wanted"] {
            sender.emit(PATH, INTERFACE, member, Body::default().u32(seen)).unwrap();
        }
        match monitor.lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => {
                let expected = format!("signal {} >  Wanted [U32(", sender.unique_name());
                assert!(line.starts_with(&expected), "{line}");
                seen += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the monitor has ended"),
        }
        seen == 3
    });
}

#[test]
fn a_client_in_python_asks_the_clock_at_the_socket_of_dbus() {
    const PYTHON: &str = "/usr/bin/python3";
    if !has_examples() {
        return;
    }
    if !trial_succeeds(Command::new(PYTHON).args(["-c", "import dbus"]), Cause::Missing("python:dbus")) {
        return;
    }
    let bus = Bus::start();
    let service = Example::named("clock_service", &[bus.path().to_str().unwrap()]);
    service.says(IS_SERVED);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bus/examples").join(IN_PYTHON);
    let client = Example::start(Command::new(script).arg(&bus.address));
    client.says("seconds: ");
    client.ends_well();
}
