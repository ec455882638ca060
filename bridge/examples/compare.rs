//! What a bridge costs beside Zenoh's own publish and subscribe over the same router: messages per second and one-way latency, at 64 B
//! and 64 KiB, in one interleaved run.
//!
//! ```sh
//! cargo build --release && cargo run --release --example compare
//! ```
//!
//! Both ends are threads of this process, in both cases: a publisher and a subscriber of two groups with two bridges and the router
//! between them, or two sessions of Zenoh with the router between them. `SLICES` sets how often each takes its turn.
#![allow(clippy::print_stdout, reason = "its result")]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Publisher, Received, SubscribeOptions, Subscriber};
use causeway_bridge::status::{ask, sockets};
use zenoh::qos::CongestionControl;
use zenoh::{Session, Wait};

const CAPACITY_BYTES: u64 = 16 << 20;

struct Ended(Vec<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
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

/// What both have in common: send, and learn how many have come and how long the last took.
trait Path {
    fn send(&mut self, payload: &[u8]);
    fn came(&self) -> u64;
    fn latencies(&self) -> Vec<f64>;
}

#[derive(Default)]
struct Seen {
    count: AtomicU64,
    latencies: Mutex<Vec<f64>>,
}

impl Seen {
    fn take(&self, bytes: &[u8], now_ns: u64) {
        let sent_ns = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if sent_ns != 0 {
            self.latencies.lock().unwrap().push((now_ns - sent_ns) as f64 / 1000.0);
        }
        self.count.fetch_add(1, Ordering::Release);
    }
}

struct Bridged(Publisher, Arc<Seen>);

impl Path for Bridged {
    fn send(&mut self, payload: &[u8]) {
        let _ = self.0.publish(payload).unwrap();
    }
    fn came(&self) -> u64 {
        self.1.count.load(Ordering::Acquire)
    }
    fn latencies(&self) -> Vec<f64> {
        std::mem::take(&mut *self.1.latencies.lock().unwrap())
    }
}

struct Direct(zenoh::pubsub::Publisher<'static>, Arc<Seen>);

impl Path for Direct {
    fn send(&mut self, payload: &[u8]) {
        self.0.put(payload.to_vec()).wait().unwrap();
    }
    fn came(&self) -> u64 {
        self.1.count.load(Ordering::Acquire)
    }
    fn latencies(&self) -> Vec<f64> {
        std::mem::take(&mut *self.1.latencies.lock().unwrap())
    }
}

fn wait_for(path: &dyn Path, count: u64) {
    let end = Instant::now() + Duration::from_secs(60);
    while path.came() < count {
        assert!(Instant::now() < end, "{} of {count} have come", path.came());
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Messages per second.
fn throughput(path: &mut dyn Path, bytes: usize, count: u64) -> f64 {
    let (payload, before, begin) = (vec![0; bytes], path.came(), Instant::now());
    (0..count).for_each(|_| path.send(&payload));
    wait_for(path, before + count);
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Median of the one-way latency, in microseconds.
fn latency(path: &mut dyn Path, bytes: usize, count: u64) -> f64 {
    let (mut payload, before) = (vec![0; bytes], path.came());
    for _ in 0..count {
        payload[..8].copy_from_slice(&causeway_os::clock::monotonic_ns().to_le_bytes());
        path.send(&payload);
        std::thread::sleep(Duration::from_millis(1));
    }
    wait_for(path, before + count);
    median(path.latencies())
}

fn main() {
    let slices: usize = std::env::var("SLICES").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("causeway-bridge");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("tcp/127.0.0.1:{port}");
    let start = |arguments: &[&str]| {
        Command::new(&program)
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("build the program with --release first")
    };
    let mut children = Ended(vec![start(&["router", "--listen", &endpoint])]);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let groups = ["a", "b"].map(|name| {
        let group = Group::create(name, GroupOptions::new().late_publishers().capacity_bytes(CAPACITY_BYTES))
            .unwrap();
        let at = folder.path().join(name);
        std::fs::create_dir(&at).unwrap();
        group.serve_at(at.join("prices")).unwrap();
        let (path, state) = (at.join("prices"), at.join("state"));
        let list = if name == "a" { "--export" } else { "--import" };
        children.0.push(start(&[
            "--realm",
            "compare",
            "--host",
            name,
            "--group",
            path.to_str().unwrap(),
            "--state",
            state.to_str().unwrap(),
            list,
            "prices",
            "--router",
            &endpoint,
            "--patience",
            "60s",
        ]));
        group
    });
    let mut subscriber: Subscriber = groups[1].subscribe(SubscribeOptions::new(Policy::Reliable)).unwrap();
    let seen = Arc::new(Seen::default());
    let taken = Arc::clone(&seen);
    std::thread::spawn(move || {
        while let Ok(received) = subscriber.recv() {
            if let Received::Message(message) = received {
                taken.take(message.bytes, causeway_os::clock::monotonic_ns());
            }
        }
    });
    let state = folder.path().join("a/state");
    loop {
        let stat = sockets(&state).first().and_then(|socket| ask(socket).ok()).unwrap_or_default();
        if stat["routes"].as_array().is_some_and(|routes| routes.iter().any(|route| route["peers"] == 1)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut bridged = Bridged(groups[0].publisher().unwrap(), seen);
    let (from, to, seen) = (session(&endpoint), session(&endpoint), Arc::new(Seen::default()));
    let taken = Arc::clone(&seen);
    let _subscriber = to
        .declare_subscriber("compare/direct")
        .callback(move |sample| taken.take(&sample.payload().to_bytes(), causeway_os::clock::monotonic_ns()))
        .wait()
        .unwrap();
    let publisher =
        from.declare_publisher("compare/direct").congestion_control(CongestionControl::Block).wait().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let mut direct = Direct(publisher, seen);
    println!("| payload | | bridge | Zenoh | bridge ÷ Zenoh |\n|---|---|---|---|---|");
    for (bytes, count) in [(64, 100_000), (65_536, 2_000)] {
        let paths: &mut [&mut dyn Path] = &mut [&mut bridged, &mut direct];
        let mut rates = [const { Vec::new() }; 2];
        let mut delays = [const { Vec::new() }; 2];
        for slice in 0..=slices {
            for which in 0..2 {
                // Each goes first as often as the other; the first slice warms up.
                let at = (which + slice) % 2;
                let (rate, delay) = (throughput(paths[at], bytes, count), latency(paths[at], bytes, 150));
                if slice > 0 {
                    rates[at].push(rate);
                    delays[at].push(delay);
                }
            }
        }
        let ratio = |values: &[Vec<f64>; 2]| {
            median(values[0].iter().zip(&values[1]).map(|(bridge, direct)| bridge / direct).collect())
        };
        let name = if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) };
        let (rate, delay) = (ratio(&rates), ratio(&delays));
        let [bridge, zenoh] = rates.map(median);
        println!("| {name} | messages per second | {bridge:.0} | {zenoh:.0} | {rate:.2} |");
        let [bridge, zenoh] = delays.map(median);
        println!("| {name} | one-way latency, µs | {bridge:.0} | {zenoh:.0} | {delay:.2} |");
    }
}
