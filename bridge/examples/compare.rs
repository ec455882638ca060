//! What a bridge costs beside Zenoh's own publish and subscribe over the same router: messages per second, one-way latency, and how often
//! a thread is woken for a message, at 64 B and 64 KiB, in one interleaved run. Then, what a dead link costs local publishers.
//!
//! ```sh
//! cargo build --release && cargo run --release --example compare
//! ```
//!
//! Both ends are threads of this process, in both cases: a publisher and a subscriber of two groups with two bridges and the router
//! between them, or two sessions of Zenoh with the router between them. `SLICES` sets how often each takes its turn; `BEFORE` names
//! another build of the program, which takes its turn, too; `CAUSEWAY_ZENOHD` a zenohd as router.
#![allow(clippy::print_stdout, reason = "its result")]

use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Publisher, Received, SubscribeOptions, Subscriber};
use causeway_bridge::status::{ask, sockets};
use causeway_testkit::proc;
use rustix::process::{Pid, Signal, kill_process};
use zenoh::qos::CongestionControl;
use zenoh::{Session, Wait};

const CAPACITY_BYTES: u64 = 16 << 20;
/// How long publishers go on beside a dead link, in slices of this length.
const DEAD_TIME: Duration = Duration::from_secs(16);
const DEAD_SLICE: Duration = Duration::from_millis(50);

struct Ended(Child);

impl Ended {
    fn start(command: &mut Command) -> Ended {
        Ended(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("build it with --release first"),
        )
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn own_program() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("causeway-bridge")
}

/// A router, and where it is.
fn router() -> (Ended, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("tcp/127.0.0.1:{port}");
    let mut command = match std::env::var_os("CAUSEWAY_ZENOHD") {
        Some(zenohd) => {
            let mut command = Command::new(zenohd);
            command.args(["--no-multicast-scouting", "--rest-http-port", "none", "-l", &endpoint]);
            command
        }
        None => {
            let mut command = Command::new(own_program());
            command.args(["router", "--listen", &endpoint]);
            command
        }
    };
    let router = Ended::start(&mut command);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    (router, endpoint)
}

fn session(endpoint: &str) -> Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("mode", "\"client\"".to_owned()),
        ("connect/endpoints", format!("[\"{endpoint}\"]")),
        ("scouting/multicast/enabled", "false".to_owned()),
    ] {
        config.insert_json5(key, &value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How often threads of this process and of others have slept, but for the one that measures.
fn sleeps(processes: &[u32]) -> u64 {
    let own = std::process::id();
    let of = |process: u32| proc::sleeps(process).into_iter().filter(|(name, _)| name != "compare");
    processes.iter().chain([&own]).flat_map(|process| of(*process)).map(|(_, sleeps)| sleeps).sum()
}

#[derive(Default)]
struct Seen {
    count: AtomicU64,
    latencies_us: Mutex<Vec<f64>>,
}

impl Seen {
    fn take(&self, bytes: &[u8]) {
        let sent_ns = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if sent_ns != 0 {
            let elapsed_ns = causeway_os::clock::monotonic_ns() - sent_ns;
            self.latencies_us.lock().unwrap().push(elapsed_ns as f64 / 1000.0);
        }
        self.count.fetch_add(1, Ordering::Release);
    }
}

type Send = dyn FnMut(&[u8]);

/// One path that is measured: its sender, what has arrived, and the processes between.
struct Path {
    name: &'static str,
    send: Box<Send>,
    seen: Arc<Seen>,
    processes: Vec<u32>,
    _keep: Box<dyn std::any::Any>,
}

impl Path {
    fn wait_for(&self, count: u64) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.seen.count.load(Ordering::Acquire) < count {
            assert!(Instant::now() < end, "{}: not all of {count} have come", self.name);
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Messages per second.
    fn throughput(&mut self, bytes: usize, count: u64) -> f64 {
        let (payload, before, begin) =
            (vec![0; bytes], self.seen.count.load(Ordering::Acquire), Instant::now());
        (0..count).for_each(|_| (self.send)(&payload));
        self.wait_for(before + count);
        count as f64 / begin.elapsed().as_secs_f64()
    }

    /// Median of the one-way latency in microseconds, and how often a thread was woken for each message.
    fn latency(&mut self, bytes: usize, count: u64) -> [f64; 2] {
        let (mut payload, before) = (vec![0; bytes], self.seen.count.load(Ordering::Acquire));
        let slept = sleeps(&self.processes);
        for _ in 0..count {
            payload[..8].copy_from_slice(&causeway_os::clock::monotonic_ns().to_le_bytes());
            (self.send)(&payload);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait_for(before + count);
        let woken = (sleeps(&self.processes) - slept) as f64 / count as f64;
        [median(std::mem::take(&mut *self.seen.latencies_us.lock().unwrap())), woken]
    }
}

/// A group, and its bridge by this program.
fn bridged(
    program: &FilePath,
    folder: &FilePath,
    host: &str,
    endpoint: &str,
    arguments: &[&str],
) -> (Group, Ended) {
    let options = GroupOptions::new().late_publishers().capacity_bytes(CAPACITY_BYTES);
    let group = Group::create(host, options).unwrap();
    let at = folder.join(host);
    std::fs::create_dir_all(&at).unwrap();
    group.serve_at(at.join("prices")).unwrap();
    let mut command = Command::new(program);
    command.args(["--host", host, "--router", endpoint]).args(arguments);
    command.arg("--group").arg(at.join("prices")).arg("--state").arg(at.join("state"));
    (group, Ended::start(&mut command))
}

/// What a bridge says of what goes out.
fn outgoing(folder: &FilePath) -> serde_json::Value {
    let state = folder.join("a/state");
    let stat = sockets(&state).first().and_then(|socket| ask(socket).ok()).unwrap_or_default();
    let routes = stat["routes"].as_array().cloned().unwrap_or_default();
    routes.into_iter().find(|route| route["direction"] == "out").unwrap_or_default()
}

fn wait_for_peer(folder: &FilePath) {
    while outgoing(folder)["peers"] != 1 {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// From a publisher over two bridges to a subscriber.
fn over_bridges(
    name: &'static str,
    program: &FilePath,
    router: &Ended,
    endpoint: &str,
    folder: PathBuf,
) -> Path {
    let start = |host, list| {
        let arguments = ["--realm", name, list, "prices", "--patience", "60s"];
        bridged(program, &folder, host, endpoint, &arguments)
    };
    let ((from, out), (to, into)) = (start("a", "--export"), start("b", "--import"));
    let mut subscriber: Subscriber = to.subscribe(SubscribeOptions::new(Policy::Reliable)).unwrap();
    let seen = Arc::new(Seen::default());
    let taken = Arc::clone(&seen);
    let read = move || {
        while let Ok(received) = subscriber.recv() {
            if let Received::Message(message) = received {
                taken.take(message.bytes);
            }
        }
    };
    std::thread::Builder::new().name("subscriber".into()).spawn(read).unwrap();
    wait_for_peer(&folder);
    let mut publisher: Publisher = from.publisher().unwrap();
    let send = Box::new(move |payload: &[u8]| _ = publisher.publish(payload).unwrap());
    let processes = vec![router.0.id(), out.0.id(), into.0.id()];
    Path { name, send, seen, processes, _keep: Box::new((from, to, out, into)) }
}

/// From a publisher of Zenoh to a subscriber of Zenoh.
fn direct(router: &Ended, endpoint: &str) -> Path {
    let (from, to, seen) = (session(endpoint), session(endpoint), Arc::new(Seen::default()));
    let taken = Arc::clone(&seen);
    let subscriber = to.declare_subscriber("compare/direct");
    let subscriber =
        subscriber.callback(move |sample| taken.take(&sample.payload().to_bytes())).wait().unwrap();
    let publisher = from.declare_publisher("compare/direct");
    let publisher = publisher.congestion_control(CongestionControl::Block).wait().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let send = Box::new(move |payload: &[u8]| publisher.put(payload.to_vec()).wait().unwrap());
    let processes = vec![router.0.id()];
    Path { name: "Zenoh", send, seen, processes, _keep: Box::new((from, to, subscriber)) }
}

/// What all paths cost, each beside the last of them.
fn compare(paths: &mut [Path], slices: usize) {
    let names: Vec<_> = paths.iter().map(|path| path.name).collect();
    let reference = names.len() - 1;
    let ratios: Vec<_> = names[..reference].iter().map(|name| format!("{name} ÷ Zenoh")).collect();
    println!("| payload | | {} | {} |", names.join(" | "), ratios.join(" | "));
    println!("|---|---|{}", "---|".repeat(2 * reference + 1));
    for (name, bytes, count) in [("64 B", 64, 100_000), ("64 KiB", 65_536, 2_000)] {
        // What is measured, of which path, in which slice.
        let mut values = [const { Vec::new() }; 3];
        values.iter_mut().for_each(|of: &mut Vec<Vec<f64>>| of.resize(paths.len(), Vec::new()));
        for slice in 0..=slices {
            for turn in 0..paths.len() {
                // Each goes first as often as the others; the first slice warms up.
                let at = (turn + slice) % paths.len();
                let rate = paths[at].throughput(bytes, count);
                let [latency_us, woken] = paths[at].latency(bytes, 150);
                if slice > 0 {
                    [rate, latency_us, woken]
                        .iter()
                        .zip(&mut values)
                        .for_each(|(value, of)| of[at].push(*value));
                }
            }
        }
        let what =
            [("messages per second", 0), ("one-way latency, µs", 0), ("threads woken for a message", 1)];
        for ((what, digits), of) in what.into_iter().zip(values) {
            let ratios: Vec<_> = of[..reference]
                .iter()
                .map(|path| path.iter().zip(&of[reference]).map(|(value, zenoh)| value / zenoh).collect())
                .map(|ratios| format!("{:.2}", median(ratios)))
                .collect();
            let medians: Vec<_> = of.into_iter().map(|path| format!("{:.digits$}", median(path))).collect();
            println!("| {name} | {what} | {} | {} |", medians.join(" | "), ratios.join(" | "));
        }
    }
}

/// The rate of a local publisher beside a bridge whose link is dead, of one beside a lossy subscriber that reads, and of one beside a lossy
/// subscriber that does not.
fn dead_link(folder: &FilePath) {
    let (router, endpoint) = router();
    let start =
        |host, list| bridged(&own_program(), folder, host, &endpoint, &["--realm", "dead", list, "prices"]);
    let ((from, _out), (_to, _into)) = (start("a", "--export"), start("b", "--import"));
    wait_for_peer(folder);
    let local = |name| {
        let options = GroupOptions::new().late_publishers().capacity_bytes(CAPACITY_BYTES);
        let group = Group::create(name, options).unwrap();
        let subscriber = group.subscribe(SubscribeOptions::new(Policy::Lossy)).unwrap();
        (group, subscriber)
    };
    let ((read, mut reader), (unread, _subscriber)) = (local("read"), local("unread"));
    // It ends with the group.
    std::thread::spawn(move || while reader.recv().is_ok() {});
    let mut publishers = [&from, &read, &unread].map(|group| group.publisher().unwrap());
    kill_process(Pid::from_child(&router.0), Signal::STOP).unwrap();
    let (mut counts, mut times, mut longest) = ([0u64; 3], [Duration::ZERO; 3], Duration::ZERO);
    let end = Instant::now() + DEAD_TIME;
    let mut first = 0;
    while Instant::now() < end {
        for at in [first, (first + 1) % 3, (first + 2) % 3] {
            let begin = Instant::now();
            while begin.elapsed() < DEAD_SLICE {
                let one = Instant::now();
                (0..64).for_each(|_| _ = publishers[at].publish(&[7; 64]).unwrap());
                counts[at] += 64;
                longest = if at == 0 { longest.max(one.elapsed()) } else { longest };
            }
            times[at] += begin.elapsed();
        }
        first = (first + 1) % 3;
    }
    let [beside, read, unread] = [0, 1, 2].map(|at| counts[at] as f64 / times[at].as_secs_f64());
    println!("\n| 64 B published per second | | bridge with a dead link ÷ this |\n|---|---|---|");
    println!("| bridge with a dead link | {beside:.0} | |");
    println!("| lossy subscriber that reads | {read:.0} | {:.2} |", beside / read);
    println!("| lossy subscriber that does not | {unread:.0} | {:.2} |", beside / unread);
    println!("\nThe longest wait was {longest:?}; the bridge says: {}.", outgoing(folder)["last_error"]);
    let _ = kill_process(Pid::from_child(&router.0), Signal::CONT);
}

fn main() {
    let slices: usize = std::env::var("SLICES").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let folder = tempfile::tempdir().unwrap();
    {
        let (router, endpoint) = router();
        let over = |name, program: &FilePath| {
            over_bridges(name, program, &router, &endpoint, folder.path().join(name))
        };
        let mut paths = vec![over("bridge", &own_program())];
        paths.extend(std::env::var_os("BEFORE").map(|program| over("before", program.as_ref())));
        paths.push(direct(&router, &endpoint));
        compare(&mut paths, slices);
    }
    dead_link(&folder.path().join("dead"));
}
