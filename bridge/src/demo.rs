//! Two hosts on one machine: a ticker and a call cross, then everything ends.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use causeway::{Group, GroupOptions, Policy, Received};
use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, DO_NOT_QUEUE, Incoming};

use crate::args::DemoArguments;
use crate::failure::{Failure, Result};
use crate::status::{ask, sockets, to_table};

const CLOCK: &str = "com.example.Clock";
const TICKS: u32 = 10;
/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What ends with the demonstration, however that ends.
#[derive(Default)]
struct Stage {
    folder: PathBuf,
    children: Vec<Child>,
    namespaces: Vec<String>,
    stops: Vec<std::io::PipeWriter>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stops.clear();
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.namespaces {
            let _ = ip(&["netns", "del", name]);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs the program `ip`.
fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(Failure::of(String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Shows a ticker and a call that cross from one host to another.
pub fn run(arguments: &DemoArguments) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("causeway-bridge-demo-{}", std::process::id()));
    crate::state::make_folder(&folder)?;
    let mut stage = Stage::default();
    stage.folder.clone_from(&folder);
    let out = &mut std::io::stdout().lock();
    let router = set(&mut stage, arguments, out)?;
    let hosts = ["a", "b"].map(|name| folder.join(name));
    let mut groups = Vec::new();
    for (name, host) in ["a", "b"].into_iter().zip(&hosts) {
        crate::state::make_folder(host)?;
        let group = Group::create("prices", GroupOptions::new().late_publishers())?;
        group.serve_at(host.join("prices"))?;
        groups.push(group);
        stage.stops.push(serve_bus(&host.join("bus"))?);
        let list = if name == "a" { "--export" } else { "--import" };
        let both = format!("prices,{CLOCK}");
        let (prices, bus, state) = (host.join("prices"), host.join("bus"), host.join("state"));
        let mut command = stage.command(name)?;
        command.args(["--realm", "demo", "--host", name, "--router", &router, list, &both]);
        command.arg("--group").arg(prices).arg("--bus").arg(bus).arg("--state").arg(state);
        stage.children.push(command.stderr(Stdio::null()).spawn()?);
    }
    std::thread::spawn({
        let bus = hosts[0].join("bus");
        move || serve_clock(&bus)
    });
    let until = Instant::now() + PATIENCE;
    wait(until, "the bridges do not find each other", || {
        let out = stat(&hosts[0]);
        out["routes"]
            .as_array()
            .is_some_and(|routes| routes.iter().any(|route| route["kind"] == "group" && route["peers"] == 1))
    })?;
    show_ticker(&groups, out)?;
    show_call(&hosts[1].join("bus"), until, out)?;
    writeln!(out, "\n$ causeway-bridge stat    # on host b")?;
    write!(out, "{}", to_table(&stat(&hosts[1])))?;
    writeln!(out, "\nEverything that was started ends now.")?;
    Ok(())
}

fn stat(host: &Path) -> serde_json::Value {
    sockets(&host.join("state")).first().and_then(|socket| ask(socket).ok()).unwrap_or_default()
}

fn wait(until: Instant, why: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    while !is_so() {
        if Instant::now() >= until {
            return Err(Failure::of(format!("{why}: not within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Makes the network, and starts the router. Returns where it is.
fn set(stage: &mut Stage, arguments: &DemoArguments, out: &mut impl Write) -> Result<String> {
    let own = std::env::current_exe()?;
    let made = if arguments.folders { Err(Failure::of("--folders")) } else { namespaces(stage) };
    let (listen, mut command) = match made {
        Ok(()) => {
            writeln!(
                out,
                "Two hosts in network namespaces, {} and {}, and a router on the first.",
                stage.namespaces[0], stage.namespaces[1]
            )?;
            ("tcp/10.218.77.1:7447".to_owned(), stage.command("a")?)
        }
        Err(why) => {
            for name in std::mem::take(&mut stage.namespaces) {
                let _ = ip(&["netns", "del", &name]);
            }
            writeln!(
                out,
                "Two hosts in two folders, and a router between them (no network namespaces: {why})."
            )?;
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            (format!("tcp/127.0.0.1:{port}"), Command::new(own))
        }
    };
    command.args(["router", "--listen", &listen]).stderr(Stdio::null());
    stage.children.push(command.spawn()?);
    Ok(listen)
}

fn namespaces(stage: &mut Stage) -> Result<()> {
    let of = |name: &str| format!("causeway-demo-{}-{name}", std::process::id());
    let (a, b) = (of("a"), of("b"));
    for name in [&a, &b] {
        ip(&["netns", "add", name])?;
        stage.namespaces.push(name.clone());
        ip(&["-n", name, "link", "set", "lo", "up"])?;
    }
    ip(&["-n", &a, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", &b])?;
    for (name, address) in [(&a, "10.218.77.1/24"), (&b, "10.218.77.2/24")] {
        ip(&["-n", name, "addr", "add", address, "dev", "veth0"])?;
        ip(&["-n", name, "link", "set", "veth0", "up"])?;
    }
    Ok(())
}

impl Stage {
    /// This program, on a host.
    fn command(&self, host: &str) -> Result<Command> {
        let own = std::env::current_exe()?;
        let Some(namespace) = self.namespaces.iter().find(|name| name.ends_with(host)) else {
            return Ok(Command::new(own));
        };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(own);
        Ok(command)
    }
}

/// A bus in this process, which ends when what is returned is dropped.
pub fn serve_bus(path: &Path) -> Result<std::io::PipeWriter> {
    let (end, stop) = std::io::pipe()?;
    let (ready, is_ready) = mpsc::channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let _ = causewayd::serve_alone(&path, AuthorityOptions::default(), &end.into(), || {
            let _ = ready.send(());
        });
    });
    is_ready.recv_timeout(PATIENCE).map_err(|_| Failure::of("the bus does not begin"))?;
    Ok(stop)
}

/// A service that knows the time.
fn serve_clock(path: &Path) -> Result<()> {
    let mut bus = Connection::open(path)?;
    bus.request_name(CLOCK, DO_NOT_QUEUE)?;
    while let Some(incoming) = bus.next(None)? {
        if let Incoming::Call(call) = incoming {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            bus.reply(
                &call,
                Body::default().text(&format!("{} seconds since 1970, as host a knows it", now.as_secs())),
            )?;
        }
    }
    Ok(())
}

fn show_ticker(groups: &[Group], out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "\n$ causeway publish a/prices …    # on host a\n$ causeway subscribe b/prices    # on host b"
    )?;
    let (mut publisher, mut subscriber) = (groups[0].publisher()?, groups[1].subscribe(Policy::Reliable)?);
    for tick in 0..TICKS {
        let price = 4217 + (tick * 7919) % 23;
        let begin = Instant::now();
        let _ = publisher.publish(format!("{}.{:02}", price / 100, price % 100).as_bytes())?;
        let received = subscriber.recv_timeout(PATIENCE).map_err(Failure::of)?;
        if let Received::Message(message) = received {
            let text = String::from_utf8_lossy(message.bytes);
            writeln!(out, "{text}    {} µs after it was published", begin.elapsed().as_micros())?;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn show_call(path: &Path, until: Instant, out: &mut impl Write) -> Result<()> {
    let mut bus = Connection::open(path)?;
    wait(until, "the name does not come over", || bus.name_owner(CLOCK).is_some())?;
    writeln!(out, "\n$ causeway bus call {CLOCK} / {CLOCK} Now    # on host b, of the service on host a")?;
    let begin = Instant::now();
    let reply = bus.call(CLOCK, "/", CLOCK, "Now", Body::default())?;
    writeln!(out, "{}    after {} µs", reply.text().unwrap_or(""), begin.elapsed().as_micros())?;
    Ok(())
}
