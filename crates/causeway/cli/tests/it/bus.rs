//! `causeway bus`, at a native socket and at a D-Bus socket.

use std::io::{BufRead, BufReader, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bus::client;
use causeway_bus::wire::{Args, Body, Builder, Header, Kind};
use causeway_bus::{AuthorityOptions, Connection};
use causeway_testkit::{TempDir, proc};
use serde_json::{Value, json};

use crate::support::{Running, causeway, causewayd, complaint, eventually, kill, printed, temp_dir, tied};

const LONG: Duration = Duration::from_secs(60);
const INTROSPECTION: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\" \
    \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node><interface name='com.example.Test'>\
    <method name='Echo'><arg type='s'/><arg type='u' direction='out'/></method><signal name='Rang'><arg type='as'/></signal>\
    <property name='Size' type='u' access='read'/></interface><node name='b'/><node name='not-one'/></node>";

/// Starts a command, and returns the first line that it prints.
fn start(command: &mut Command) -> (Running, String) {
    let mut running = Running::start(command);
    let mut line = String::new();
    BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (running, line.trim().to_owned())
}

/// A bus, which ends when it is dropped, and the option that names it.
pub struct Bus {
    pub option: [String; 2],
    _process: Option<Running>,
    _stop: Option<PipeWriter>,
}

impl Bus {
    /// A native socket.
    pub fn native(folder: &TempDir) -> Bus {
        let path = folder.path().join("native");
        let (end, stop) = std::io::pipe().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let option = ["--socket".into(), path.to_str().unwrap().into()];
        std::thread::spawn(move || {
            let options = AuthorityOptions::default();
            causewayd::serve_alone(&path, options, &end.into(), || ready.send(()).unwrap()).unwrap();
        });
        is_ready.recv().unwrap();
        Bus { option, _process: None, _stop: Some(stop) }
    }

    /// A D-Bus socket.
    pub fn dbus(folder: &TempDir) -> Option<Bus> {
        let address = format!("unix:path={}", folder.path().join("dbus").display());
        let mut command = tied(causewayd()?.to_str().unwrap());
        command.args(["--address", &address, "--nofork", "--print-address"]).stderr(Stdio::null());
        let (process, line) = start(&mut command);
        assert!(line.starts_with(&address), "{line:?}");
        Some(Bus { option: ["--address".into(), address], _process: Some(process), _stop: None })
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = causeway(&["bus"]);
        command.args(&self.option).args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that must succeed.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        printed(output)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(arguments)).unwrap()
    }

    /// Starts a command that waits for messages, and lets `send` be done until it has ended.
    fn hears(&self, arguments: &[&str], mut send: impl FnMut()) -> String {
        let mut child = self.command(arguments).spawn().unwrap();
        eventually(&format!("{arguments:?} does not end"), || {
            send();
            child.try_wait().unwrap().is_some()
        });
        printed(child.wait_with_output().unwrap())
    }

    /// A connection with the name `com.example.Echo` that answers until it is told to quit.
    fn service(&self) -> JoinHandle<()> {
        let [option, place] = &self.option;
        let native = format!("causeway:path={place}");
        let mut bus = client::Bus::open(if option == "--socket" { &native } else { place }).unwrap();
        bus.request_name("com.example.Echo", 0).unwrap();
        std::thread::spawn(move || {
            loop {
                let bytes = bus.receive(LONG).unwrap().expect("somebody tells it to quit");
                let header = Header::parse(&bytes).unwrap();
                if header.kind != Kind::MethodCall {
                    continue;
                }
                let text = |text: &str| Ok(Body::default().text(text));
                let answer = match (header.member.unwrap(), header.path.unwrap()) {
                    ("Echo", _) => text(Args::of(&bytes).first_text().unwrap()).map(|body| body.u32(7)),
                    ("Introspect", "/") => text("<node><node name='a'/><node name='c'/></node>"),
                    ("Introspect", "/a") => text(INTROSPECTION),
                    ("Introspect", _) => text("<node/>"),
                    ("Quit", _) => Err(("com.example.Error.Ends", "it ends")),
                    _ => Err(("com.example.Error.No", "there is no such method")),
                };
                let reply = match answer {
                    Ok(body) => Builder::reply(header.serial).body(body),
                    Err((name, why)) => Builder::error(header.serial, name).body(Body::default().text(why)),
                };
                bus.send(&reply.destination(header.sender.unwrap())).unwrap();
                if header.member == Some("Quit") {
                    bus.ask_driver("GetId", Body::default()).unwrap();
                    return;
                }
            }
        })
    }
}

/// All that both kinds of sockets do alike.
fn everything_works(bus: &Bus) {
    const ECHO: &str = "com.example.Echo";
    let service = bus.service();
    let call = |member, arguments: &[&'static str]| {
        [&["call", ECHO, "/", "com.example.Test", member], arguments].concat()
    };
    assert_eq!(bus.says(&call("Echo", &["s", "a\u{1b}b"])), "s \"a\\u{1b}b\"\nu 7\n");
    assert_eq!(bus.says(&call("Echo", &["s", "--", "-1x"])), "s \"-1x\"\nu 7\n");
    assert_eq!(bus.json(&call("Echo", &["s", "-7", "--json"])), json!({"type": "su", "data": ["-7", 7]}));

    let owner = bus.says(&["wait", ECHO, "--timeout", "60s"]);
    let (owner, pid) = (owner.trim(), std::process::id());
    assert!(owner.starts_with(":1."), "{owner}");
    let list = bus.says(&["list"]);
    let row = list.lines().find(|line| line.starts_with("com.example.Echo ")).unwrap();
    assert!(row.contains(owner) && row.contains(&pid.to_string()), "{list}");
    let list = bus.json(&["list", "--json"]);
    let rows = list.as_array().unwrap();
    let own = rows.iter().find(|row| row["name"] == ECHO).unwrap();
    assert_eq!((&own["pid"], &own["owner"]), (&json!(pid), &json!(owner)));
    // The bus itself has no unique name.
    let of_bus: Vec<_> = rows.iter().filter(|row| row["owner"] == "org.freedesktop.DBus").collect();
    assert!(of_bus.len() == 1 && of_bus[0]["name"] == "org.freedesktop.DBus", "{list}");

    assert_eq!(bus.says(&["tree", ECHO]), "/\n├─ /a\n│  └─ /a/b\n└─ /c\n");
    let tree = bus.json(&["tree", ECHO, "--json"]);
    let interface = &tree[1]["interfaces"][0];
    assert_eq!(interface["methods"], json!([{"name": "Echo", "in": "s", "out": "u"}]));
    assert_eq!(interface["signals"], json!([{"name": "Rang", "type": "as"}]));
    assert_eq!(interface["properties"][0]["access"], "read");

    let emit = || drop(bus.says(&["emit", "/", "com.example.Test", "Rang", "a{sv}", "1", "k", "i", "-5"]));
    let rule = "interface='com.example.Test',member='Rang'";
    let heard = bus.hears(&["match", rule, "--limit", "2"], emit);
    let lines = heard.lines().map(|line| line.ends_with("/ com.example.Test Rang a{sv} 1 \"k\" i -5"));
    assert_eq!(lines.collect::<Vec<_>>(), [true, true], "{heard}");
    let heard_as_json = |command| -> Value {
        serde_json::from_str(&bus.hears(&[command, rule, "--limit", "1", "--json"], emit)).unwrap()
    };
    assert_eq!(heard_as_json("match")["data"], json!([{"k": {"type": "i", "data": -5}}]));
    let heard = bus.hears(&["monitor", rule, "member='Echo'", "--limit", "3"], || {
        emit();
        drop(bus.says(&call("Echo", &["s", "x"])));
    });
    assert!(heard.contains("signal") && heard.contains("com.example.Test Echo s \"x\""), "{heard}");
    let object = heard_as_json("monitor");
    assert_eq!((&object["kind"], &object["member"]), (&json!("signal"), &json!("Rang")));
    // A time of the clock of the system, which is beyond that of the first commit of any program that is tested here.
    assert!(object["time_s"].as_f64() > Some(1.7e9), "{object}");

    // On a machine that is busy the time may be over before the bus has answered at all.
    for (arguments, code, said) in [
        (&["wait", "com.example.Nobody"][..], 1, "nobody has the name com.example.Nobody"),
        (&["wait", ":1.4711"], 1, "nobody has the name :1.4711"),
        (&["match", "member='Never'", "--limit", "1"], 1, ""),
        (&["match", "member='Never'"], 0, ""),
    ] {
        eventually(&format!("{arguments:?} does not end as it should"), || {
            let output = bus.output(&[arguments, &["--timeout", "200ms"]].concat());
            assert_eq!(output.stdout.len(), 0, "{arguments:?}");
            output.status.code() == Some(code) && String::from_utf8_lossy(&output.stderr).contains(said)
        });
    }

    for (arguments, expected) in [
        (&["call", "com.example.Nobody", "/", "a.b", "M"][..], "ServiceUnknown"),
        (&["call", ECHO, "/", "a.b", "M"], "no such method"),
        (&["call", "nobody", "/", "a.b", "M"], "\"nobody\" is not the name of a connection"),
        (&["call", "a.b", "x", "a.b", "M"], "\"x\" is not an object path"),
        (&["call", "a.b", "/", "ab", "M"], "\"ab\" is not an interface"),
        (&["call", "a.b", "/", "a.b", "M.M"], "\"M.M\" is not the name of a method"),
        (&["emit", "/", "a.b", "M", "s"], "a value of type \"s\" is missing"),
        (&["emit", "/", "a.b", "M", "u", "x"], "not an unsigned number"),
        (&["emit", "/", "a.b", "M", "z", "x"], "not a signature"),
        (&["monitor", "x"], "not a match rule"),
        (&["match", "type='method_call'"], "matches no signals"),
        (&["tree", "com.example.Nobody"], "ServiceUnknown"),
        (&["wait", "x"], "\"x\" is not the name"),
        (&["wait", "a.b", "--timeout=-1"], "is not a time; write a time"),
        (&["wait", "a.b", "--timeout", "-1"], "is not a time; write a time"),
        (&["wait", "a.b", "--timeout", "inf"], "is not a time; write a time"),
        (&["monitor", "--limit", "-1"], "whole number, 1 or more"),
        (&["call", ":1.4711", "/", "a.b", "M"], "there is no connection :1.4711"),
        (&["call", ECHO, "/", "com.example.Test", "Quit"], "it ends"),
    ] {
        let error = complaint(bus.output(arguments));
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    service.join().unwrap();
}

#[test]
fn every_command_works_at_a_d_bus_socket() {
    let folder = temp_dir("causeway");
    let Some(bus) = Bus::dbus(&folder) else { return };
    let _one = client::Bus::connect(&bus.option[1]).unwrap();
    let stat = bus.says(&["stat"]);
    assert!(stat.starts_with("bus: ") && stat.contains("ActiveConnections"), "{stat}");
    let rows: Vec<Vec<&str>> = stat.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let [headings, row] = &rows[..] else { panic!("one connection and its headings: {stat}") };
    for (name, value) in [("MatchRules", "0"), ("PendingReplies", "0"), ("BusNames", "1")] {
        let column = headings.iter().position(|heading| *heading == name);
        assert_eq!(column.map(|column| row[column]), Some(value), "{name}: {stat}");
    }
    let stat = bus.json(&["stat", "--json"]);
    assert_eq!(stat["connections"][0]["statistics"]["BusNames"], 1);
    assert!(stat["bus"]["ActiveConnections"].is_u64(), "{stat}");
    everything_works(&bus);
}

#[test]
fn every_command_works_at_a_native_socket() {
    let folder = temp_dir("causeway");
    let bus = Bus::native(&folder);
    {
        let _one = Connection::open(&bus.option[1]).unwrap();
        let stat = bus.says(&["stat"]);
        let headings = stat.lines().nth(1).unwrap();
        assert!(headings.starts_with("CONNECTION") && headings.contains("CALLS OPEN"), "{stat}");
        let stat = bus.json(&["stat", "--json"]);
        assert!(stat["messages"].as_u64() > Some(0), "{stat}");
        assert!(stat["connections"][1]["empty_wakes"].is_u64(), "{stat}");
    }
    everything_works(&bus);
}

/// A message above a quarter of the outbox is in a file that a monitor does not get.
#[test]
fn a_long_message_is_counted_and_not_called_broken() {
    let folder = temp_dir("causeway");
    let bus = Bus::native(&folder);
    let long = "x".repeat(70_000);
    let emit = || drop(bus.says(&["emit", "/", "com.example.Test", "Long", "s", &long]));
    let heard = bus.hears(&["monitor", "member='Long'", "--limit", "1"], emit);
    assert!(heard.ends_with("/ com.example.Test Long s with 70005 bytes\n"), "{heard}");
    let heard = bus.hears(&["monitor", "member='Long'", "--limit", "1", "--json"], emit);
    let object: Value = serde_json::from_str(&heard).unwrap();
    assert_eq!((object["body_bytes"].as_u64(), object.get("data")), (Some(70_005), None));
    assert!(object["left_out"].as_str().unwrap().contains("quarter"), "{object}");
}

#[test]
fn a_bus_that_is_stopped_does_not_hold_up_commands_with_a_time_limit() {
    let Some(program) = causewayd() else { return };
    let folder = temp_dir("causeway");
    let [dbus, native] = ["dbus", "native"].map(|name| folder.path().join(name).display().to_string());
    let address = format!("unix:path={dbus}");
    let mut command = tied(program.to_str().unwrap());
    command.args(["--address", &address, "--native", &native, "--nofork", "--print-native"]);
    let (server, line) = start(&mut command);
    assert_eq!(line, native);
    server.stop();
    for option in [["--socket", &native], ["--address", &address]] {
        for (code, arguments) in [
            (1, &["wait", "a.b"][..]),
            (1, &["match", "member='M'", "--limit", "1"]),
            (3, &["match", "member='M'"]),
            (3, &["call", "a.b", "/", "a.b", "M"]),
            (3, &["tree", "a.b"]),
        ] {
            let mut command = causeway(&["bus"]);
            let output = command.args(option).args(arguments).args(["--timeout", "100ms"]).output().unwrap();
            let why = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{arguments:?}: {why}");
            assert_eq!(why, "causeway: the bus does not answer within 100ms\n", "{arguments:?}");
        }
    }
}

#[test]
fn a_wrong_bus_is_said_with_a_way_out() {
    let folder = temp_dir("causeway");
    let error = |arguments: &[&str]| {
        let mut command = causeway(&["bus"]);
        for name in ["CAUSEWAY_BUS", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        let error = complaint(command.args(arguments).output().unwrap());
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let nowhere = folder.path().join("nothing").display().to_string();
    let native = Bus::native(&folder);
    let native = &native.option[1];
    let [at_nowhere, at_native] = [&nowhere, native].map(|path| format!("unix:path={path}"));
    for (arguments, words) in [
        (&["list"][..], "say which bus"),
        (&["list", "--socket", &nowhere], "`causeway bus start` starts one"),
        (&["list", "--address", &at_nowhere], "no bus answers"),
        (&["list", "--address", &at_nowhere], "`causeway bus start` starts"),
        (&["list", "--socket", &at_nowhere], &format!("write --address {at_nowhere}")),
        (&["list", "--address", &at_native], &format!("write --socket {native}")),
        (&["list", "--address", "tcp:host=x"], "not an address of a Unix socket"),
        (&["list", "--socket", "a", "--address", "b"], "leave one of them out"),
    ] {
        let said = error(arguments);
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let twice = error(&["list", "--socket", &nowhere]);
    assert_eq!(twice.matches(&nowhere).count(), 1, "{twice}");
    if let Some(bus) = Bus::dbus(&folder) {
        let path = bus.option[1].strip_prefix("unix:path=").unwrap();
        let wrong = error(&["call", "--socket", path, "a.b", "/", "a.b", "M"]);
        assert!(wrong.contains(&format!("write --address unix:path={path}")), "{wrong}");
        assert!(error(&["run", "--socket", path, "true"]).contains("a bus of its own"));
    }
}

/// `causeway bus run` with a folder of its own for sockets.
fn run(folder: &Path, program: &[&str]) -> Command {
    let mut command = causeway(&["bus", "run", "--"]);
    command.args(program).env("XDG_RUNTIME_DIR", folder);
    command.env("DBUS_STARTER_ADDRESS", "of another bus").env("CAUSEWAY_BUS", "/of/another/bus");
    command
}

/// But for the folder for services, which a session makes and leaves.
fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().all(|entry| entry.unwrap().file_name() == "dbus-1")
}

#[test]
fn a_program_runs_with_a_bus_that_ends_with_it() {
    if causewayd().is_none() {
        return;
    }
    let folder = temp_dir("causeway");
    let own = env!("CARGO_BIN_EXE_causeway");
    let script = "\"$0\" bus list && \"$0\" bus --address \"$DBUS_SESSION_BUS_ADDRESS\" list --json \
        && echo \"$CAUSEWAY_BUS<$DBUS_STARTER_ADDRESS>\" && echo \"$DBUS_SESSION_BUS_ADDRESS\" && cat && exit 7";
    let mut running = run(folder.path(), &["sh", "-c", script, own]).spawn().unwrap();
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), b"from the input\n").unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said}: {}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let [.., native, address, "from the input"] = lines[..] else { panic!("{said}") };
    assert!(address.starts_with("unix:abstract="), "{said}");
    // Both sockets are of the same bus, and nothing of another one.
    let native = native.strip_suffix("<>").unwrap();
    assert_eq!(Path::new(native).parent(), Some(folder.path()), "{said}");
    for name in ["org.freedesktop.DBus  ", "\"name\":\"org.freedesktop.DBus\""] {
        assert!(said.contains(name), "{said}");
    }
    assert!(client::Bus::connect(address).is_err(), "the bus is still there");
    assert!(is_empty(folder.path()));

    for (program, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["no-such-program"], 127),
        (&["/dev/null"], 126),
    ] {
        let output = run(folder.path(), program).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{program:?}");
    }
    assert!(is_empty(folder.path()));
    // Folders for sockets in which none can be made: after `su`, or with a path that is too long.
    let long = folder.path().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let temporary = temp_dir("causeway");
    for unusable in [Path::new("/no/such/folder"), &long] {
        let mut command = run(unusable, &["sh", "-c", "\"$0\" bus list", own]);
        printed(command.env("TMPDIR", temporary.path()).output().unwrap());
        let mut private = std::fs::read_dir(temporary.path()).unwrap();
        assert!(is_empty(&private.next().unwrap().unwrap().path()), "its private folder has something");
        assert!(private.next().is_none());
        assert!(if unusable == long { is_empty(unusable) } else { !unusable.exists() }, "{unusable:?}");
    }
}

#[test]
fn everything_is_gone_when_the_program_or_its_starter_is_ended_by_a_signal() {
    if causewayd().is_none() {
        return;
    }
    let folder = temp_dir("causeway");
    for (traps, signal, code) in [
        // Passed on, and told as it ended the program.
        (":", "TERM", Some(143)),
        // A program may end in its own way.
        ("trap 'exit 5' USR1", "USR1", Some(5)),
        // Killed, the starter cannot pass anything on: the kernel does.
        ("trap '' TERM", "KILL", None),
    ] {
        let script = format!("{traps}; echo \"$DBUS_SESSION_BUS_ADDRESS $$\"; while :; do sleep 0.01; done");
        let (mut running, line) = start(&mut run(folder.path(), &["sh", "-c", &script]));
        let (address, pid) = line.split_once(' ').unwrap_or_else(|| panic!("it says {line:?}"));
        assert!(client::Bus::connect(address).is_ok());
        kill(signal, running.pid());
        let status = running.wait();
        assert_eq!((status.code(), status.signal().is_some()), (code, code.is_none()), "{signal}");
        // A process that nobody waits for may stay as a zombie.
        let pid = pid.parse().unwrap();
        eventually("the program goes on", || matches!(proc::state(pid), None | Some('Z')));
        eventually("the bus goes on", || client::Bus::connect(address).is_err());
        eventually("a socket stays", || is_empty(folder.path()));
    }
}

#[test]
fn a_bus_starts_in_the_background_and_says_where() {
    if causewayd().is_none() {
        return;
    }
    let folder = temp_dir("causeway");
    let start = |arguments: &[&str]| {
        let mut command = causeway(&["bus", "start"]);
        command.args(arguments).env("XDG_RUNTIME_DIR", folder.path()).output().unwrap()
    };
    let said = printed(start(&[]));
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
        line.unwrap_or_else(|| panic!("no {name} in {said}")).trim_matches('\'').to_owned()
    };
    let pid: u32 = value("CAUSEWAYD_PID").parse().unwrap();
    let (address, native) = (value("DBUS_SESSION_BUS_ADDRESS"), value("CAUSEWAY_BUS"));
    assert!(Connection::open(&native).is_ok(), "{said}");
    assert!(client::Bus::connect(&address).is_ok(), "{address}");
    // The words are those of a shell.
    let script =
        format!("{said}\n[ \"$DBUS_SESSION_BUS_ADDRESS\" = \"$1\" ] && export -p | grep -q CAUSEWAYD_PID");
    printed(tied("sh").args(["-c", &script, "sh", &address]).output().unwrap());
    let why = complaint(start(&["--json"]));
    let (use_it, end_it) = (format!("--socket {native} uses it"), format!("`kill {pid}` ends it"));
    for words in ["another process serves there", &use_it, &end_it, "starts another one"] {
        assert!(why.contains(words) && why.lines().count() == 1, "{why}");
    }
    let mut lost = causeway(&["bus", "list"]);
    lost.env_remove("CAUSEWAY_BUS").env_remove("DBUS_SESSION_BUS_ADDRESS");
    let why = complaint(lost.env("XDG_RUNTIME_DIR", folder.path()).output().unwrap());
    assert!(why.contains(&format!("has made one: --socket {native}")), "{why}");
    kill("TERM", pid);
    eventually("its socket stays", || is_empty(folder.path()));
    // Two buses without a file for D-Bus do not meet at a native socket either, also one that is no session.
    let elsewhere = temp_dir("causeway");
    let config = elsewhere.path().join("bus.conf");
    let policy =
        "<policy context='default'><allow send_destination='*'/><allow receive_sender='*'/></policy>";
    std::fs::write(&config, format!("<busconfig><type>session</type>{policy}</busconfig>")).unwrap();
    let config = ["--config-file", config.to_str().unwrap()];
    let started = [&[][..], &[], &config].map(|arguments| {
        let output = printed(start(&[&["--json", "--address", "unix:tmpdir=/tmp"], arguments].concat()));
        let object: Value = serde_json::from_str(&output).unwrap();
        drop(client::Bus::connect(object["address"].as_str().unwrap()).unwrap());
        drop(Connection::open(object["native"].as_str().unwrap()).unwrap());
        object["pid"].as_u64().unwrap().try_into().unwrap()
    });
    started.into_iter().for_each(|pid| kill("TERM", pid));
    eventually("its socket stays", || is_empty(folder.path()));
    assert!(complaint(start(&["--address", "tcp:host=localhost"])).contains("unsupported address"));
}
