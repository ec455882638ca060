//! Names, calls and signals of the bus on another host.

use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway_bridge::demo::serve_bus;
use causeway_bus::wire::Body;
use causeway_bus::{Connection, ConnectionOptions, DO_NOT_QUEUE, Error, Incoming, NameReply, Payload};
use causeway_testkit::{Cause, has_program, skipped};
use serde_json::Value;

use crate::support::{Bridge, Relay, Router, TempDir, bridge_command, eventually, temp_dir};

const CLOCK: &str = "com.example.Clock";
const NO_REPLY: &str = "org.freedesktop.DBus.Error.NoReply";

pub struct BusHost {
    name: &'static str,
    folder: TempDir,
    _stop: Option<PipeWriter>,
}

impl BusHost {
    pub fn new(name: &'static str) -> BusHost {
        let folder = temp_dir("bridge");
        let stop = serve_bus(&folder.path().join("bus")).unwrap();
        BusHost { name, folder, _stop: Some(stop) }
    }

    fn bus(&self) -> PathBuf {
        self.folder.path().join("bus")
    }

    pub fn member(&self) -> Connection {
        Connection::open(self.bus()).unwrap()
    }

    pub fn bridge(&self, router: &Router, arguments: &[&str]) -> Bridge {
        let state = self.folder.path().join("state");
        let mut command = bridge_command(self.name, &state, &["--router", &router.endpoint(), "--bus"]);
        command.arg(self.bus()).args(arguments);
        Bridge::start(command, &state)
    }
}

/// A service on its own thread: `Echo` answers with what it gets, `Fail` with an error, `Wait` never, `Emit` with signals first.
fn serve_clock(host: &BusHost) -> (std::sync::mpsc::Receiver<String>, std::thread::JoinHandle<()>) {
    let mut bus = host.member();
    assert_eq!(bus.request_name(CLOCK, DO_NOT_QUEUE).unwrap(), NameReply::PrimaryOwner);
    let (called, calls) = std::sync::mpsc::channel();
    let serve = move || {
        while let Ok(Some(incoming)) = bus.next(None) {
            let Incoming::Call(call) = incoming else { continue };
            let member = call.member().unwrap_or("").to_owned();
            let _ = called.send(member.clone());
            match member.as_str() {
                "Echo" => {
                    let header = call.header();
                    let body = Body::marshalled(header.endian, header.signature, call.body());
                    bus.reply(&call, body).unwrap();
                }
                "Fail" => bus.reply_error(&call, "com.example.Error.Late", "too late").unwrap(),
                "Emit" => {
                    for number in 0..200u32 {
                        bus.emit("/clock", CLOCK, "Ticked", Body::default().u32(number)).unwrap();
                    }
                    bus.reply(&call, Body::default()).unwrap();
                }
                "Leave" => return bus.reply(&call, Body::default()).unwrap(),
                _ => {}
            }
        }
    };
    (calls, std::thread::spawn(serve))
}

struct Scene {
    router: Router,
    hosts: [BusHost; 2],
    bridges: [Bridge; 2],
    calls: std::sync::mpsc::Receiver<String>,
    member: Connection,
}

/// A service on one host, and a member of the bus of the other one, on which the name is there.
fn scene() -> Scene {
    scene_with(Router::start())
}

fn scene_with(router: Router) -> Scene {
    let hosts = ["a", "b"].map(BusHost::new);
    let (calls, _) = serve_clock(&hosts[0]);
    let bridges = [
        hosts[0].bridge(&router, &["--export", CLOCK, "--call-timeout", "4s"]),
        hosts[1].bridge(&router, &["--import", "com.example.*", "--call-timeout", "4s"]),
    ];
    let member = hosts[1].member();
    eventually("the name does not come over", || member.name_owner(CLOCK).is_some());
    Scene { router, hosts, bridges, calls, member }
}

fn route(bridge: &Bridge, kind: &str) -> Value {
    let stat = bridge.stat();
    stat["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|route| route["kind"] == kind)
        .cloned()
        .unwrap_or_default()
}

fn error_of(result: Result<causeway_bus::Reply, Error>) -> (String, String) {
    match result {
        Err(Error::Method { name, message }) => (name, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_of_a_service_on_another_host_is_answered_as_if_it_were_here() {
    let Scene { hosts, bridges, mut member, calls, router: _router } = scene();
    let reply = member.call(CLOCK, "/", CLOCK, "Echo", Body::of(&("hello", 7u32, 2.5f64)).unwrap()).unwrap();
    assert_eq!(reply.args::<(&str, u32, f64)>().unwrap(), ("hello", 7, 2.5));
    let long = "x".repeat(3 << 20);
    let reply = member.call(CLOCK, "/", CLOCK, "Echo", Body::default().text(&long)).unwrap();
    assert_eq!(reply.args::<&str>().unwrap().len(), long.len());
    let (name, text) = error_of(member.call(CLOCK, "/", CLOCK, "Fail", Body::default()));
    assert_eq!((name.as_str(), text.as_str()), ("com.example.Error.Late", "too late"));
    // Several at once, each with its own answer.
    let serials: Vec<_> = (0..50u32)
        .map(|number| member.start_call(CLOCK, "/", CLOCK, "Echo", Body::default().u32(number)).unwrap())
        .collect();
    for (number, serial) in serials.into_iter().enumerate() {
        let reply = member.finish_call(serial, Duration::from_secs(30)).unwrap();
        assert_eq!(reply.args::<u32>().unwrap(), number as u32);
    }
    assert_eq!(calls.try_iter().count(), 53, "each call was made once");
    // A name that is not exported is not there.
    let mut other = hosts[0].member();
    other.request_name("com.example.Other", DO_NOT_QUEUE).unwrap();
    let counts =
        [route(&bridges[0], "calls"), route(&bridges[1], "calls")].map(|route| route["sent"].as_u64());
    assert_eq!(counts, [Some(53), Some(53)]);
    let refused = ConnectionOptions { auto_start: false, ..ConnectionOptions::default() };
    let mut member = Connection::open_with(hosts[1].bus(), refused).unwrap();
    let (name, _) = error_of(member.call("com.example.Other", "/", CLOCK, "Echo", Body::default()));
    assert_eq!(name, "org.freedesktop.DBus.Error.ServiceUnknown");
}

#[test]
fn descriptors_are_refused_by_name_in_both_directions() {
    let Scene { hosts: _hosts, mut member, bridges, router: _router, calls: _calls } = scene();
    let (one, _other) = std::io::pipe().unwrap();
    let payload = Payload::from(Body::default()).descriptor(one.into());
    let (name, text) = error_of(member.call(CLOCK, "/", CLOCK, "Echo", payload));
    assert_eq!(name, "org.freedesktop.DBus.Error.NotSupported");
    assert!(text.contains("file descriptors do not cross"), "{text}");
    assert_eq!(route(&bridges[1], "calls")["refused"], 1);
    member.call(CLOCK, "/", CLOCK, "Echo", Body::default()).unwrap();
}

#[test]
fn signals_of_an_exported_name_come_once_in_order_from_their_object() {
    let Scene { hosts: _hosts, mut member, bridges, router: _router, calls: _calls } = scene();
    member.add_match(&format!("type='signal',sender='{CLOCK}',member='Ticked'")).unwrap();
    member.call(CLOCK, "/", CLOCK, "Emit", Body::default()).unwrap();
    let mut came = Vec::new();
    eventually("not all signals come", || {
        while let Some(incoming) = member.next(Some(Duration::from_millis(20))).unwrap() {
            if let Incoming::Signal(signal) = incoming {
                assert_eq!((signal.header().path, signal.interface()), (Some("/clock"), Some(CLOCK)));
                came.push(signal.args::<u32>().unwrap());
            }
        }
        came.len() >= 200
    });
    assert_eq!(came, (0..200).collect::<Vec<_>>());
    assert_eq!(route(&bridges[1], "signals")["lost"], 0);
}

#[test]
fn a_call_that_nobody_answers_ends_with_no_reply() {
    let Scene { hosts: _hosts, mut member, bridges: _bridges, router: _router, calls: _calls } = scene();
    let begin = Instant::now();
    let (name, _) = error_of(member.call(CLOCK, "/", CLOCK, "Wait", Body::default()));
    assert_eq!(name, NO_REPLY);
    assert!(begin.elapsed() >= Duration::from_secs(4), "after {:?}", begin.elapsed());
}

#[test]
fn the_name_goes_and_calls_end_when_the_service_its_bridge_or_the_router_goes() {
    for victim in ["service", "bridge", "frozen bridge", "router"] {
        let Scene { mut member, mut bridges, mut router, calls, hosts } = scene();
        member.add_match(&format!("type='signal',member='NameOwnerChanged',arg0='{CLOCK}'")).unwrap();
        let serial = member.start_call(CLOCK, "/", CLOCK, "Wait", Body::default()).unwrap();
        assert_eq!(calls.recv_timeout(Duration::from_secs(30)).unwrap(), "Wait");
        match victim {
            "service" => drop(hosts[0].member().call(CLOCK, "/", CLOCK, "Leave", Body::default()).unwrap()),
            "bridge" => bridges[0].process.kill(),
            "frozen bridge" => bridges[0].process.stop(),
            _ => router.process.kill(),
        }
        let (name, text) = error_of(member.finish_call(serial, Duration::from_secs(30)));
        assert_eq!(name, NO_REPLY, "{victim}: {text}");
        eventually("the name stays", || member.name_owner(CLOCK).is_none());
        let mut is_told = false;
        eventually("nobody says that the name is gone", || {
            while let Some(incoming) = member.next(Some(Duration::from_millis(20))).unwrap() {
                is_told |= matches!(incoming, Incoming::Signal(signal) if signal.args::<(&str, &str, &str)>().unwrap().2.is_empty());
            }
            is_told
        });
        if victim == "frozen bridge" {
            bridges[0].process.resume();
            eventually("the name does not come again", || member.name_owner(CLOCK).is_some());
            member.call(CLOCK, "/", CLOCK, "Echo", Body::default()).unwrap();
        }
    }
}

#[test]
fn calls_over_a_late_path_are_made_once_and_end_also_when_it_stands_still_or_is_cut() {
    let router = Router::late(Duration::from_millis(40));
    let Scene { mut member, router, calls, hosts: _hosts, bridges: _bridges } = scene_with(router);
    let relay = router.relay.as_ref().unwrap();
    let start = |member: &mut Connection, name, number| {
        member.start_call(CLOCK, "/", CLOCK, name, Body::default().u32(number)).unwrap()
    };
    let serials: Vec<_> = (0..50).map(|number| start(&mut member, "Echo", number)).collect();
    for (number, serial) in serials.into_iter().enumerate() {
        let reply = member.finish_call(serial, Duration::from_secs(60)).unwrap();
        assert_eq!(reply.args::<u32>().unwrap(), number as u32);
    }
    assert_eq!(calls.try_iter().count(), 50);
    for fault in [Relay::hold, Relay::cut] {
        let serial = start(&mut member, "Wait", 0);
        assert_eq!(calls.recv_timeout(Duration::from_secs(60)).unwrap(), "Wait");
        fault(relay, true);
        let (name, text) = error_of(member.finish_call(serial, Duration::from_secs(60)));
        assert_eq!(name, NO_REPLY, "{text}");
        fault(relay, false);
        eventually("the service does not answer any more", || {
            member.call(CLOCK, "/", CLOCK, "Echo", Body::default()).is_ok()
        });
        assert!(calls.try_iter().all(|name| name == "Echo"), "a call was made twice");
    }
}

#[test]
fn a_name_that_both_sides_have_stays_that_of_its_own_host() {
    let router = Router::start();
    let hosts = ["a", "b"].map(BusHost::new);
    let services = hosts.each_ref().map(serve_clock);
    let both = ["--export", CLOCK, "--import", CLOCK];
    let bridges = hosts.each_ref().map(|host| host.bridge(&router, &both));
    for bridge in &bridges {
        eventually("it is not said", || {
            let stat = bridge.stat();
            stat["routes"].as_array().into_iter().flatten().any(|route| {
                route["direction"] == "in"
                    && route["last_error"]
                        .as_str()
                        .is_some_and(|why| why.contains("this bus has the name, too"))
            })
        });
    }
    for (host, (calls, _)) in hosts.iter().zip(&services) {
        host.member().call(CLOCK, "/", CLOCK, "Echo", Body::default()).unwrap();
        assert_eq!(calls.recv_timeout(Duration::from_secs(30)).unwrap(), "Echo");
    }
    assert!(
        services.iter().all(|(calls, _)| calls.try_iter().next().is_none()),
        "a call was made on both hosts"
    );
}

#[test]
fn a_second_bridge_of_a_bus_is_refused() {
    let Scene { hosts, router, bridges: _bridges, member: _member, calls: _calls } = scene();
    let state = hosts[0].folder.path().join("second");
    let arguments = ["--router", &router.endpoint(), "--export", CLOCK, "--bus"];
    let mut command = bridge_command("a2", &state, &arguments);
    command.arg(hosts[0].bus());
    let second = Bridge::start(command, &state);
    eventually("it is not refused", || {
        second.stat()["last_error"]
            .as_str()
            .is_some_and(|why| why.contains("another bridge carries this bus"))
    });
}

/// The programs of the workspace that this one stands beside.
fn causewayd_program() -> Option<PathBuf> {
    let told = std::env::var_os("CAUSEWAYD").map(PathBuf::from);
    let built = ["release", "debug"]
        .map(|of| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(of).join("causewayd"));
    told.into_iter().chain(built).find(|path| path.is_file())
}

/// Programs that know D-Bus alone, on both ends.
#[test]
fn a_program_of_d_bus_calls_a_service_on_another_host_without_knowing() {
    let Some(causewayd) = causewayd_program() else {
        return skipped(
            Cause::Missing("causewayd"),
            "`cargo build -p causewayd` builds it, CAUSEWAYD names another one",
        );
    };
    let router = Router::start();
    let folders = ["a", "b"].map(|_| temp_dir("bridge"));
    let buses: Vec<_> = folders
        .iter()
        .map(|folder| {
            let address = format!("unix:path={}", folder.path().join("dbus").display());
            let mut command = Command::new(&causewayd);
            command.args(["--address", &address, "--native"]).arg(folder.path().join("bus"));
            let running = crate::support::Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
            eventually("causewayd does not serve", || Connection::open(folder.path().join("bus")).is_ok());
            (address, running)
        })
        .collect();
    let [a, b] = folders;
    let hosts =
        [BusHost { name: "a", folder: a, _stop: None }, BusHost { name: "b", folder: b, _stop: None }];
    let (calls, _) = serve_clock(&hosts[0]);
    let _bridges =
        [hosts[0].bridge(&router, &["--export", CLOCK]), hosts[1].bridge(&router, &["--import", CLOCK])];
    let member = hosts[1].member();
    eventually("the name does not come over", || member.name_owner(CLOCK).is_some());
    let address = &buses[1].0;
    let commands = [
        ("busctl", format!("--address={address} call {CLOCK} / {CLOCK} Echo s hello")),
        (
            "gdbus",
            format!("call --address {address} --dest {CLOCK} --object-path / --method {CLOCK}.Echo hello"),
        ),
        ("dbus-send", format!("--bus={address} --print-reply --dest={CLOCK} / {CLOCK}.Echo string:hello")),
    ];
    let mut made = 0;
    for (client, arguments) in commands {
        if !has_program(client) {
            continue;
        }
        let output = Command::new(client).args(arguments.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("hello"), "{client} {arguments}: {said} {why}");
        made += 1;
    }
    assert_eq!(calls.try_iter().filter(|member| member == "Echo").count(), made);
}
