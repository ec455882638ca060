//! Hosts in folders, a router, bridges between them, and what came over.

mod relay;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::{
    Group, GroupOptions, Message, Policy, Publisher, Received, RecvTimeoutError, SubscribeOptions, Subscriber,
};
use causeway_bridge::keys::GroupKeys;
use causeway_testkit::find_program;
pub use causeway_testkit::{Running, TempDir, eventually, temp_dir};
pub use relay::Relay;
use serde_json::Value;
use zenoh::handlers::FifoChannelHandler;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

pub const REALM: &str = "test";
pub const GROUP: &str = "prices";
/// Where bridges say what was lost.
pub const LOSSES: u32 = 99;

/// The program.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway-bridge"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// An unmodified zenohd, if there is one.
pub fn zenohd() -> Option<PathBuf> {
    std::env::var_os("CAUSEWAY_ZENOHD").map(PathBuf::from).or_else(|| find_program("zenohd"))
}

/// A router, killed when it is dropped.
pub struct Router {
    pub process: Running,
    pub port: u16,
    /// The path to it, where that is not the shortest.
    pub relay: Option<Relay>,
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What starts a router that listens there, and connects to others.
pub fn router_command(listen: &str, connect: &[String]) -> Command {
    let mut command = match zenohd() {
        Some(zenohd) => {
            let mut command = Command::new(zenohd);
            command.args(["--no-multicast-scouting", "--rest-http-port", "none", "-l", listen]);
            connect.iter().for_each(|other| _ = command.args(["-e", other]));
            command
        }
        None => {
            let mut command = program(&["router", "--listen", listen]);
            connect.iter().for_each(|other| _ = command.args(["--connect", other]));
            command
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Router {
    pub fn start() -> Router {
        Router::start_at(free_port(), &[])
    }

    /// One that every byte is late at, and that every byte of it is late from.
    pub fn late(by: Duration) -> Router {
        let router = Router::start();
        let relay = Relay::start((Ipv4Addr::LOCALHOST, router.port).into(), by, None);
        Router { relay: Some(relay), ..router }
    }

    pub fn start_at(port: u16, connect: &[u16]) -> Router {
        let connect: Vec<_> = connect.iter().map(|port| format!("tcp/127.0.0.1:{port}")).collect();
        let process = Running::start(&mut router_command(&format!("tcp/127.0.0.1:{port}"), &connect));
        eventually("no router listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Router { process, port, relay: None }
    }

    pub fn endpoint(&self) -> String {
        format!("tcp/127.0.0.1:{}", self.relay.as_ref().map_or(self.port, |relay| relay.port))
    }

    /// Kills it, and starts another one at the same port.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = Router::start_at(self.port, &[]).process;
    }
}

/// A session of a program that is no bridge.
pub fn plain_zenoh(router: &Router) -> Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("mode", "\"client\"".to_owned()),
        ("connect/endpoints", format!("[\"{}\"]", router.endpoint())),
        ("scouting/multicast/enabled", "false".to_owned()),
    ] {
        config.insert_json5(key, &value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

/// Everything under a key from here on, beside the bridge of host a.
pub fn listen(
    session: &Session,
    keys: &GroupKeys,
    key: String,
) -> zenoh::pubsub::Subscriber<FifoChannelHandler<Sample>> {
    let heard = session.declare_subscriber(key).wait().unwrap();
    // The router knows that before it passes this on.
    let answers = session.get(keys.link("a")).wait().unwrap();
    let _ = answers.recv_timeout(Duration::from_secs(20)).unwrap().expect("an answer");
    heard
}

/// A host: a folder with a group.
pub struct Host {
    pub name: String,
    pub folder: TempDir,
    pub group: Group,
}

pub fn options() -> GroupOptions {
    GroupOptions::new().late_publishers().capacity_bytes(1 << 20)
}

impl Host {
    pub fn new(name: &str) -> Host {
        Host::with(name, options())
    }

    pub fn with(name: &str, options: GroupOptions) -> Host {
        let folder = temp_dir("bridge");
        let group = Group::create(name, options).unwrap();
        group.serve_at(folder.path().join(GROUP)).unwrap();
        Host { name: name.to_owned(), folder, group }
    }

    pub fn path(&self) -> String {
        self.folder.path().join(GROUP).to_str().unwrap().to_owned()
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A bridge of this host in both directions.
    pub fn bridge(&self, router: &Router) -> Bridge {
        self.bridge_with(&["--router", &router.endpoint(), "--export", GROUP, "--import", GROUP])
    }

    /// The same, which publishes what was lost.
    pub fn telling_bridge(&self, router: &Router) -> Bridge {
        let (endpoint, topic) = (router.endpoint(), LOSSES.to_string());
        let both = ["--router", &endpoint, "--export", GROUP, "--import", GROUP, "--loss-topic", &topic];
        self.bridge_with(&both)
    }

    pub fn bridge_with(&self, arguments: &[&str]) -> Bridge {
        Bridge::start(self.command(arguments), &self.state())
    }

    /// What starts a bridge here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        bridge_command(&self.name, &self.state(), &[&["--group", &self.path()], arguments].concat())
    }

    pub fn subscribe(&self) -> Subscriber {
        self.group.subscribe(SubscribeOptions::new(Policy::Reliable)).unwrap()
    }
}

/// What starts a bridge of a host.
pub fn bridge_command(host: &str, state: &Path, arguments: &[&str]) -> Command {
    let mut command = program(&["--realm", REALM, "--host", host, "--lease", "3s", "--state"]);
    command.arg(state).args(arguments).stderr(Stdio::inherit());
    command
}

/// A bridge, killed when it is dropped.
pub struct Bridge {
    pub process: Running,
    state: PathBuf,
}

impl Bridge {
    pub fn start(mut command: Command, state: &Path) -> Bridge {
        Bridge { process: Running::start(&mut command), state: state.to_owned() }
    }

    /// What it says of itself; nothing before it does.
    pub fn stat(&self) -> Value {
        let sockets = causeway_bridge::status::sockets(&self.state);
        let answer = sockets.iter().find_map(|socket| {
            causeway_bridge::status::ask(socket).ok().filter(|answer| answer["pid"] == self.process.pid())
        });
        answer.unwrap_or_default()
    }

    /// The route of the group in a direction, of one host or of all.
    pub fn route(&self, direction: &str, host: &str) -> Value {
        let stat = self.stat();
        let is_it = |route: &&Value| {
            route["direction"] == direction && route["host"] == host && route["name"] == GROUP
        };
        stat["routes"].as_array().into_iter().flatten().find(is_it).cloned().unwrap_or_default()
    }

    /// Waits until so many other hosts take what is published here.
    pub fn linked(&self, count: u64) {
        eventually(&format!("{count} hosts are not linked"), || self.route("out", "")["peers"] == count);
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

/// Publishes numbers from 0 on, with pauses, until it is told to stop.
pub struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Ticker {
    pub fn start(mut publisher: Publisher, topic: u32, pause: Duration, bytes: usize) -> Ticker {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let publish = move || {
            let mut number = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                let _ = publisher.publish_with_topic(topic, &tick(number, bytes)).unwrap();
                number += 1;
                std::thread::sleep(pause);
            }
            number
        };
        Ticker { stop, thread: Some(std::thread::spawn(publish)) }
    }

    /// How many it has published.
    pub fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

pub fn tick(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = vec![number as u8; bytes.max(8)];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    payload
}

/// What came: the numbers of one ticker, each at most once and in their order.
#[derive(Debug, Default)]
pub struct Seen {
    pub next: u64,
    pub received: u64,
    /// What a bridge has said is lost, in the topic for that.
    pub lost: u64,
}

impl Seen {
    pub fn take(&mut self, bytes: &[u8]) {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(number >= self.next, "number {number} after {}: twice, or out of order", self.next);
        let is_whole = bytes[8..].iter().all(|byte| *byte == number as u8);
        assert!(is_whole, "torn: {} bytes after number {}: {bytes:?}", bytes.len(), self.next);
        self.next = number + 1;
        self.received += 1;
    }
}

/// Notes a message, by its topic.
pub fn note(seen: &mut BTreeMap<u32, Seen>, message: &Message<'_>) {
    let of = seen.entry(message.topic).or_default();
    if message.topic == LOSSES {
        let said: Value = serde_json::from_slice(message.bytes).unwrap();
        of.lost += said["lost"].as_u64().unwrap();
    } else {
        of.take(message.bytes);
    }
}

/// What came of topic 0, and was said to be lost, when all before number `end` have come or were.
pub fn read_to(subscriber: &mut Subscriber, end: u64) -> Seen {
    let mut seen = read_until(subscriber, &format!("what is before number {end} has not come"), |seen| {
        seen.get(&0).is_some_and(|seen| seen.next == end)
    });
    let lost = seen.remove(&LOSSES).map_or(0, |seen| seen.lost);
    Seen { lost, ..seen.remove(&0).unwrap() }
}

/// Reads what a subscriber has, by topic, until `is_all`.
pub fn read_until(
    subscriber: &mut Subscriber,
    what: &str,
    mut is_all: impl FnMut(&BTreeMap<u32, Seen>) -> bool,
) -> BTreeMap<u32, Seen> {
    let mut seen = BTreeMap::<u32, Seen>::new();
    let mut last = Vec::new();
    eventually(what, || {
        loop {
            match subscriber.recv_timeout(Duration::from_millis(20)) {
                Ok(Received::Message(message)) => {
                    note(&mut seen, &message);
                    last = message.bytes.to_vec();
                }
                Ok(news) => panic!("{news:?}"),
                Err(RecvTimeoutError::Timeout) => break,
                Err(error) => panic!("{error}, after {last:?}"),
            }
        }
        is_all(&seen)
    });
    seen
}
