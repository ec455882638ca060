//! `causeway bus`, at a native socket and at a D-Bus socket.

use std::io::{BufRead, BufReader, PipeWriter};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::{Running, causeway, eventually, kill, tied};
use causeway_bus::client;
use causeway_bus::wire::{Body, Builder, Header, Kind};
use causeway_bus::{AuthorityOptions, Connection};

const LONG: Duration = Duration::from_secs(60);
const INTROSPECTION: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\" \
    \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node><interface name='com.example.Test'>\
    <method name='Echo'><arg type='s'/><arg type='u' direction='out'/></method><signal name='Rang'><arg type='as'/></signal>\
    <property name='Size' type='u' access='read'/></interface><node name='b'/><node name='not-one'/></node>";

/// causewayd, where it was built.
fn causewayd() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_causeway")).with_file_name("causewayd");
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: `cargo build -p causewayd` puts causewayd next to the program that is tested");
    None
}

/// A bus, and the option that names it.
struct Bus {
    option: [String; 2],
    _server: Server,
}

/// Ends when dropped.
enum Server {
    Process { _process: Running },
    Thread { _stop: PipeWriter },
}

impl Bus {
    /// A native socket.
    fn native(folder: &Path) -> Bus {
        let path = folder.join("native");
        let (end, stop) = std::io::pipe().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let served = path.clone();
        std::thread::spawn(move || {
            let options = AuthorityOptions::default();
            causewayd::serve_alone(&served, options, &end.into(), || ready.send(()).unwrap()).unwrap();
        });
        is_ready.recv().unwrap();
        let option = ["--socket".into(), path.to_str().unwrap().into()];
        Bus { option, _server: Server::Thread { _stop: stop } }
    }

    /// A D-Bus socket.
    fn dbus(folder: &Path) -> Option<Bus> {
        let address = format!("unix:path={}", folder.join("dbus").display());
        let mut command = tied(causewayd()?.to_str().unwrap());
        command.args(["--address", &address, "--nofork", "--print-address"]).stderr(Stdio::null());
        let mut server = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(&address), "{line:?}");
        Some(Bus { option: ["--address".into(), address], _server: Server::Process { _process: server } })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = causeway(&["bus"]);
        command.args(&self.option).args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command prints that must succeed.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.says(arguments)).unwrap()
    }

    /// Starts a command that waits for messages, and lets `send` be done until it has ended.
    fn hears(&self, arguments: &[&str], mut send: impl FnMut()) -> String {
        let mut child = self.command(arguments).spawn().unwrap();
        eventually(&format!("{arguments:?} does not end"), || {
            send();
            child.try_wait().unwrap().is_some()
        });
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// What the service of these tests answers; nothing to end.
fn answer(member: &str, path: &str, argument: &str) -> Option<Result<Body, (&'static str, &'static str)>> {
    match member {
        "Echo" => Some(Ok(Body::default().text(argument).u32(7))),
        "Introspect" if path == "/" => {
            Some(Ok(Body::default().text("<node><node name='a'/><node name='c'/></node>")))
        }
        "Introspect" if path == "/a" => Some(Ok(Body::default().text(INTROSPECTION))),
        "Introspect" => Some(Ok(Body::default().text("<node/>"))),
        "Quit" => None,
        _ => Some(Err(("com.example.Error.No", "there is no such method"))),
    }
}

/// A client that has the name and answers until it is told to quit.
fn dbus_service(address: &str) -> JoinHandle<()> {
    let mut bus = client::Bus::connect(address).unwrap();
    bus.ask_driver("RequestName", Body::default().text("com.example.Echo").u32(0)).unwrap();
    std::thread::spawn(move || {
        loop {
            let Some(bytes) = bus.receive(LONG).unwrap() else { panic!("nobody has told it to quit") };
            let header = Header::parse(&bytes).unwrap();
            if header.kind != Kind::MethodCall {
                continue;
            }
            let argument = texts(&bytes).into_iter().next().unwrap_or_default();
            let answer = answer(header.member.unwrap(), header.path.unwrap(), &argument);
            let is_last = answer.is_none();
            let reply = match answer.unwrap_or(Err(("com.example.Error.Ends", "it ends"))) {
                Ok(body) => Builder::reply(header.serial).body(body),
                Err((name, text)) => Builder::error(header.serial, name).body(Body::default().text(text)),
            };
            bus.send(&reply.destination(header.sender.unwrap())).unwrap();
            if is_last {
                bus.ask_driver("GetId", Body::default()).unwrap();
                return;
            }
        }
    })
}

/// A member that does the same.
fn native_service(socket: &str) -> JoinHandle<()> {
    let mut bus = Connection::open(socket).unwrap();
    bus.request_name("com.example.Echo", 0).unwrap();
    std::thread::spawn(move || {
        let stop = AtomicBool::new(false);
        let served = bus.serve(&stop, |call| {
            let header = call.header();
            let answer =
                answer(header.member.unwrap(), header.path.unwrap(), call.text().unwrap_or_default());
            // Relaxed: one thread.
            stop.store(answer.is_none(), Ordering::Relaxed);
            let (name, text) = match answer {
                Some(Ok(body)) => return Ok(body),
                Some(Err(error)) => error,
                None => ("com.example.Error.Ends", "it ends"),
            };
            Err((name.into(), text.into()))
        });
        served.unwrap();
    })
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let header = Header::parse(bytes).unwrap();
    let values = causeway_bus::wire::values(&header, &bytes[header.header_bytes..]).unwrap();
    let text =
        |value| if let causeway_bus::wire::Value::Text(text) = value { Some(text.to_owned()) } else { None };
    values.into_iter().filter_map(text).collect()
}

/// All that both kinds of sockets do alike.
fn everything_works(bus: &Bus) {
    let call = |member: &'static str| ["call", "com.example.Echo", "/", "com.example.Test", member];
    let echo = [&call("Echo")[..], &["s", "a\u{1b}b"]].concat();
    assert_eq!(bus.says(&echo), "s \"a\\u{1b}b\"\nu 7\n");
    let echo = [&call("Echo")[..], &["s", "--", "-1x"]].concat();
    assert_eq!(bus.says(&echo), "s \"-1x\"\nu 7\n");
    let echo = [&call("Echo")[..], &["s", "-7", "--json"]].concat();
    assert_eq!(bus.json(&echo), serde_json::json!({"type": "su", "data": ["-7", 7]}));

    let owner = bus.says(&["wait", "com.example.Echo", "--timeout", "60"]);
    assert!(owner.starts_with(":1."), "{owner}");
    let list = bus.says(&["list"]);
    let row = list.lines().find(|line| line.starts_with("com.example.Echo ")).unwrap();
    assert!(row.contains(owner.trim()) && row.contains(&std::process::id().to_string()), "{list}");
    let list = bus.json(&["list", "--json"]);
    let own = list.as_array().unwrap().iter().find(|row| row["name"] == "com.example.Echo").unwrap();
    assert_eq!(
        (own["pid"].as_u64(), own["owner"].as_str()),
        (Some(u64::from(std::process::id())), Some(owner.trim()))
    );
    // The bus itself has no unique name.
    let rows = list.as_array().unwrap();
    let of_bus: Vec<_> = rows.iter().filter(|row| row["owner"] == "org.freedesktop.DBus").collect();
    assert!(of_bus.len() == 1 && of_bus[0]["name"] == "org.freedesktop.DBus", "{list}");
    assert!(rows.iter().all(|row| row["name"] != ":1.1"), "{list}");

    assert_eq!(bus.says(&["tree", "com.example.Echo"]), "/\n├─ /a\n│  └─ /a/b\n└─ /c\n");
    let tree = bus.json(&["tree", "com.example.Echo", "--json"]);
    let interface = &tree[1]["interfaces"][0];
    assert_eq!(interface["methods"], serde_json::json!([{"name": "Echo", "in": "s", "out": "u"}]));
    assert_eq!(interface["signals"], serde_json::json!([{"name": "Rang", "type": "as"}]));
    assert_eq!(interface["properties"][0]["access"], "read");

    let emit = || drop(bus.says(&["emit", "/", "com.example.Test", "Rang", "a{sv}", "1", "k", "i", "-5"]));
    let rule = "interface='com.example.Test',member='Rang'";
    let heard = bus.hears(&["match", rule, "--limit", "2"], emit);
    assert_eq!(heard.lines().count(), 2);
    assert!(
        heard.lines().all(|line| line.ends_with("/ com.example.Test Rang a{sv} 1 \"k\" i -5")),
        "{heard}"
    );
    let heard = bus.hears(&["match", rule, "--limit", "1", "--json"], emit);
    let object: serde_json::Value = serde_json::from_str(&heard).unwrap();
    assert_eq!(object["data"], serde_json::json!([{"k": {"type": "i", "data": -5}}]));
    let heard = bus.hears(&["monitor", rule, "member='Echo'", "--limit", "3"], || {
        emit();
        drop(bus.says(&[&call("Echo")[..], &["s", "x"]].concat()));
    });
    assert!(heard.contains("signal") && heard.contains("com.example.Test Echo s \"x\""), "{heard}");
    let heard = bus.hears(&["monitor", rule, "--limit", "1", "--json"], emit);
    let object: serde_json::Value = serde_json::from_str(&heard).unwrap();
    assert_eq!((object["kind"].as_str(), object["member"].as_str()), (Some("signal"), Some("Rang")));
    // A time of the clock of the system, which is beyond that of the first commit of any program that is tested here.
    assert!(object["time_s"].as_f64() > Some(1.7e9), "{object}");

    // On a machine that is busy the time may be over before the bus has answered at all.
    let over = |arguments: &[&str], code: i32, said: &str| {
        eventually(&format!("{arguments:?} does not end as it should"), || {
            let output = bus.output(&[arguments, &["--timeout", "0.2"]].concat());
            assert_eq!(output.stdout.len(), 0, "{arguments:?}");
            output.status.code() == Some(code) && String::from_utf8_lossy(&output.stderr).contains(said)
        });
    };
    over(&["wait", "com.example.Nobody"], 1, "nobody has the name com.example.Nobody");
    over(&["wait", ":1.1"], 1, "nobody has the name :1.1");
    over(&["match", "member='Never'", "--limit", "1"], 1, "");
    over(&["match", "member='Never'"], 0, "");

    for (arguments, expected) in [
        (&["call", "com.example.Nobody", "/", "a.b", "M"][..], "ServiceUnknown"),
        (&["call", "com.example.Echo", "/", "a.b", "M"], "no such method"),
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
        (&["wait", "a.b", "--timeout=-1"], "from 0 to 1000000000"),
        (&["wait", "a.b", "--timeout", "-1"], "from 0 to 1000000000"),
        (&["wait", "a.b", "--timeout", "inf"], "from 0 to 1000000000"),
        (&["monitor", "--limit", "-1"], "whole number that is not negative"),
        (&["call", ":1.1", "/", "a.b", "M"], "there is no connection :1.1"),
    ] {
        let output = bus.output(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let quit = bus.output(&call("Quit"));
    assert!(String::from_utf8(quit.stderr).unwrap().contains("it ends"));
}

#[test]
fn every_command_works_at_a_d_bus_socket() {
    let folder = tempfile::tempdir().unwrap();
    let Some(bus) = Bus::dbus(folder.path()) else { return };
    let service = dbus_service(&bus.option[1]);
    let stat = bus.says(&["stat"]);
    assert!(stat.starts_with("bus: ") && stat.contains("ActiveConnections"), "{stat}");
    let rows: Vec<Vec<&str>> = stat.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let [headings, service_row] = &rows[..] else { panic!("one connection and its headings: {stat}") };
    for (name, value) in [("MatchRules", "0"), ("PendingReplies", "0"), ("BusNames", "2")] {
        let column = headings.iter().position(|heading| *heading == name);
        assert_eq!(column.map(|column| service_row[column]), Some(value), "{name}: {stat}");
    }
    let stat = bus.json(&["stat", "--json"]);
    assert_eq!(stat["connections"][0]["statistics"]["BusNames"], 2);
    assert!(stat["bus"]["ActiveConnections"].is_u64(), "{stat}");
    everything_works(&bus);
    service.join().unwrap();
}

#[test]
fn every_command_works_at_a_native_socket() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::native(folder.path());
    let service = native_service(&bus.option[1]);
    let stat = bus.says(&["stat"]);
    assert!(stat.lines().nth(1).unwrap().starts_with("CONNECTION") && stat.contains("CALLS OPEN"), "{stat}");
    let stat = bus.json(&["stat", "--json"]);
    assert!(stat["messages"].as_u64() > Some(0) && stat["connections"][1]["empty_wakes"].is_u64(), "{stat}");
    everything_works(&bus);
    service.join().unwrap();
}

/// A message above a quarter of the outbox is in a file that a monitor does not get.
#[test]
fn a_long_message_is_counted_and_not_called_broken() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::native(folder.path());
    let long = "x".repeat(70_000);
    let emit = || drop(bus.says(&["emit", "/", "com.example.Test", "Long", "s", &long]));
    let heard = bus.hears(&["monitor", "member='Long'", "--limit", "1"], emit);
    assert!(heard.ends_with("/ com.example.Test Long s with 70005 bytes\n"), "{heard}");
    let heard = bus.hears(&["monitor", "member='Long'", "--limit", "1", "--json"], emit);
    let object: serde_json::Value = serde_json::from_str(&heard).unwrap();
    assert_eq!((object["body_bytes"].as_u64(), object.get("data")), (Some(70_005), None));
    assert!(object["left_out"].as_str().unwrap().contains("quarter"), "{object}");
}

#[test]
fn a_bus_that_is_stopped_does_not_hold_up_commands_with_a_time_limit() {
    let Some(program) = causewayd() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [dbus, native] = ["dbus", "native"].map(|name| folder.path().join(name).display().to_string());
    let address = format!("unix:path={dbus}");
    let mut command = tied(program.to_str().unwrap());
    command.args(["--address", &address, "--native", &native, "--nofork", "--print-native"]);
    let mut server = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), native);
    kill("STOP", server.0.id());
    for option in [["--socket", &native], ["--address", &address]] {
        for (code, arguments) in [
            (1, &["wait", "a.b"][..]),
            (1, &["match", "member='M'", "--limit", "1"]),
            (2, &["match", "member='M'"]),
            (2, &["call", "a.b", "/", "a.b", "M"]),
            (2, &["tree", "a.b"]),
        ] {
            let mut command = causeway(&["bus"]);
            let output = command.args(option).args(arguments).args(["--timeout", "0.1"]).output().unwrap();
            let why = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{arguments:?}: {why}");
            assert_eq!(why, "causeway: the bus does not answer within 100ms\n", "{arguments:?}");
        }
    }
}

#[test]
fn a_wrong_bus_is_said_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let error = |arguments: &[&str]| {
        let mut command = causeway(&["bus"]);
        for name in ["CAUSEWAY_BUS", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        let output = command.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let nowhere = folder.path().join("nothing");
    let nowhere = nowhere.to_str().unwrap();
    assert!(error(&["list"]).contains("say which bus"));
    assert!(error(&["list", "--socket", nowhere]).contains("`causeway bus start` starts one"));
    assert!(error(&["list", "--address", &format!("unix:path={nowhere}")]).contains("no bus answers"));
    assert!(
        error(&["list", "--address", &format!("unix:path={nowhere}")])
            .contains("`causeway bus start` starts")
    );
    let twice = error(&["list", "--socket", nowhere]);
    assert_eq!(twice.matches(nowhere).count(), 1, "{twice}");
    let swapped = error(&["list", "--socket", &format!("unix:path={nowhere}")]);
    assert!(swapped.contains(&format!("write --address unix:path={nowhere}")), "{swapped}");
    let native = Bus::native(folder.path());
    let swapped = error(&["list", "--address", &format!("unix:path={}", native.option[1])]);
    assert!(swapped.contains(&format!("write --socket {}", native.option[1])), "{swapped}");
    assert!(error(&["list", "--address", "tcp:host=x"]).contains("not an address of a Unix socket"));
    assert!(error(&["list", "--socket", "a", "--address", "b"]).contains("leave one of them out"));
    if let Some(bus) = Bus::dbus(folder.path()) {
        let path = bus.option[1].strip_prefix("unix:path=").unwrap();
        let wrong = error(&["call", "--socket", path, "a.b", "/", "a.b", "M"]);
        assert!(wrong.contains(&format!("write --address unix:path={path}")), "{wrong}");
        assert!(error(&["run", "--socket", path, "true"]).contains("a bus of its own"));
        assert!(error(&["start"]).contains("say where to serve"));
    }
}

/// `causeway bus run` with a folder of its own for sockets.
fn run(folder: &Path, program: &[&str]) -> Command {
    let mut command = causeway(&["bus", "run", "--"]);
    command
        .args(program)
        .env("XDG_RUNTIME_DIR", folder)
        .env("DBUS_STARTER_ADDRESS", "of another bus")
        .env("CAUSEWAY_BUS", "/of/another/bus");
    command
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().count() == 0
}

/// Has a process ended? One that nobody waits for may stay as a zombie.
fn has_ended(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

#[test]
fn a_program_runs_with_a_bus_that_ends_with_it() {
    if causewayd().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let own = env!("CARGO_BIN_EXE_causeway");
    let script = "\"$0\" bus list && \"$0\" bus --address \"$DBUS_SESSION_BUS_ADDRESS\" list --json \
        && echo \"$CAUSEWAY_BUS<$DBUS_STARTER_ADDRESS>\" && echo \"$DBUS_SESSION_BUS_ADDRESS\" && cat && exit 7";
    let mut running = run(folder.path(), &["sh", "-c", script, own]).spawn().unwrap();
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), b"from the input\n").unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said}: {}", String::from_utf8_lossy(&output.stderr));
    let mut lines = said.lines().rev();
    assert_eq!(lines.next(), Some("from the input"));
    let address = lines.next().unwrap();
    assert!(address.starts_with("unix:abstract="), "{said}");
    // Both sockets are of the same bus, and nothing of another one.
    let native = lines.next().unwrap().strip_suffix("<>").unwrap();
    assert_eq!(Path::new(native).parent(), Some(folder.path()), "{said}");
    let (as_table, as_json) = ("org.freedesktop.DBus  ", "\"name\":\"org.freedesktop.DBus\"");
    assert!(said.contains(as_table) && said.contains(as_json), "{said}");
    assert!(client::Bus::connect(address).is_err(), "the bus is still there");
    assert!(is_empty(folder.path()));

    let code = |program: &[&str]| run(folder.path(), program).output().unwrap().status.code();
    assert_eq!(code(&["true"]), Some(0));
    assert_eq!(code(&["sh", "-c", "kill -KILL $$"]), Some(137));
    assert_eq!(code(&["no-such-program"]), Some(127));
    assert_eq!(code(&["/dev/null"]), Some(126));
    assert!(is_empty(folder.path()));
    // Folders for sockets in which none can be made: after `su`, or with a path that is too long.
    let long = folder.path().join("x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    for unusable in [Path::new("/no/such/folder"), &long] {
        let mut command = run(unusable, &["sh", "-c", "\"$0\" bus list", own]);
        let output = command.env("TMPDIR", temporary.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(is_empty(temporary.path()) && (!unusable.exists() || is_empty(unusable)));
    }
}

/// The address of the bus and the number of the program, which sleeps.
fn sleeping(folder: &Path, before: &str) -> (Running, String, u32) {
    let script = format!("{before}; echo \"$DBUS_SESSION_BUS_ADDRESS $$\"; while :; do sleep 0.01; done");
    let mut running = Running(run(folder, &["sh", "-c", &script]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (address, pid) = line.trim().split_once(' ').unwrap_or_else(|| panic!("it says {line:?}"));
    assert!(client::Bus::connect(address).is_ok());
    (running, address.to_owned(), pid.parse().unwrap())
}

#[test]
fn everything_is_gone_when_the_program_or_its_starter_is_ended_by_a_signal() {
    if causewayd().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Passed on, and told as it ended the program.
    let (mut running, address, _) = sleeping(folder.path(), ":");
    kill("TERM", running.0.id());
    assert_eq!(running.0.wait().unwrap().code(), Some(143));
    assert!(client::Bus::connect(&address).is_err() && is_empty(folder.path()));
    // A program may end in its own way.
    let (mut running, ..) = sleeping(folder.path(), "trap 'exit 5' USR1");
    kill("USR1", running.0.id());
    assert_eq!(running.0.wait().unwrap().code(), Some(5));
    assert!(is_empty(folder.path()));
    // Killed, the starter cannot pass anything on: the kernel does.
    let (mut running, address, pid) = sleeping(folder.path(), "trap '' TERM");
    kill("KILL", running.0.id());
    assert_eq!(running.0.wait().unwrap().signal(), Some(9));
    eventually("the program goes on", || has_ended(pid));
    eventually("the bus goes on", || client::Bus::connect(&address).is_err());
    eventually("a socket stays", || is_empty(folder.path()));
}

#[test]
fn a_bus_starts_in_the_background_and_says_where() {
    if causewayd().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let start = |arguments: &[&str]| {
        let mut command = causeway(&["bus", "start"]);
        command.args(arguments).env("XDG_RUNTIME_DIR", folder.path()).output().unwrap()
    };
    let output = start(&[]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
        line.unwrap_or_else(|| panic!("no {name} in {said}")).trim_matches('\'').to_owned()
    };
    let pid: u32 = value("CAUSEWAYD_PID").parse().unwrap();
    let address = value("DBUS_SESSION_BUS_ADDRESS");
    assert!(Connection::open(value("CAUSEWAY_BUS")).is_ok(), "{said}");
    assert!(client::Bus::connect(&address).is_ok(), "{address}");
    // The words are those of a shell.
    let script =
        format!("{said}\n[ \"$DBUS_SESSION_BUS_ADDRESS\" = \"$1\" ] && export -p | grep -q CAUSEWAYD_PID");
    assert!(tied("sh").args(["-c", &script, "sh", &address]).status().unwrap().success(), "{said}");
    let second = start(&["--json"]);
    assert_eq!(second.status.code(), Some(2));
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(why.contains("another process serves there") && why.lines().count() == 1, "{why}");
    let ways = [format!("--socket {} uses it", value("CAUSEWAY_BUS")), format!("`kill {pid}` ends it")];
    assert!(ways.iter().all(|way| why.contains(way)) && why.contains("starts another one"), "{why}");
    let mut lost = causeway(&["bus", "list"]);
    lost.env_remove("CAUSEWAY_BUS").env_remove("DBUS_SESSION_BUS_ADDRESS");
    let why = lost.env("XDG_RUNTIME_DIR", folder.path()).output().unwrap().stderr;
    let why = String::from_utf8(why).unwrap();
    assert!(why.contains(&format!("has made one: --socket {}", value("CAUSEWAY_BUS"))), "{why}");
    kill("TERM", pid);
    eventually("its socket stays", || is_empty(folder.path()));
    // Two buses without a file for D-Bus do not meet at a native socket either, also one that is no session.
    let config = tempfile::NamedTempFile::new().unwrap();
    let policy =
        "<policy context='default'><allow send_destination='*'/><allow receive_sender='*'/></policy>";
    std::fs::write(config.path(), format!("<busconfig><type>session</type>{policy}</busconfig>")).unwrap();
    let config = config.path().to_str().unwrap();
    let started = [&["--json"][..], &["--json"], &["--json", "--config-file", config]].map(|arguments| {
        let output = start(&[arguments, &["--address", "unix:tmpdir=/tmp"]].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaint);
        drop(client::Bus::connect(object["address"].as_str().unwrap()).unwrap());
        drop(Connection::open(object["native"].as_str().unwrap()).unwrap());
        object["pid"].as_u64().unwrap().try_into().unwrap()
    });
    started.into_iter().for_each(|pid| kill("TERM", pid));
    eventually("its socket stays", || is_empty(folder.path()));
    let wrong = start(&["--address", "tcp:host=localhost"]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("unsupported address"));
}
