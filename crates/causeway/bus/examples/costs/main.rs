//! What the native bus costs: a call, signals, a stream and an idle member, in processes that take turns in one program.
//!
//! `costs [ROUNDS]` prints a table: the median of the rounds, its 95 % interval, and the switches of all processes of an operation.
//! In each round every row has its turn, so that the machine is in the same state for all. The ratio is taken in each round.
//! All processes run on one CPU and sleep while they wait, except the receiver of the second stream.
//!
//! `costs loop CALLS` makes calls between two connections of one thread, for a profiler: nobody sleeps.
#![allow(clippy::print_stdout, reason = "this is a command")]

mod roles;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Publisher, SubscribeOptions, Subscriber};
use causeway_bus::Connection;
use causeway_os::memory::Mapping;
use weighbridge_probe::counters::{ProcessCounters, ThreadCounters};
use weighbridge_stats::{median, median_interval};

use roles::{INTERFACE, LONG, PATH, SUBSCRIBERS, body, connect, name_of, pin};

/// Members that sleep beside all rows, with a rule that no signal here matches.
const SLEEPERS: usize = 100;
/// Members of the bus whose memory is measured.
const IDLE_MEMBERS: u64 = 1000;
const CALLS: u32 = 2_000;
const SIGNALS: u32 = 2_000;
const MATCHED_SIGNALS: u32 = 50;
const STREAMED: u32 = 20_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    causeway_os::limits::raise_nofile().expect("the limit of open files");
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["role", role, dir, number] => {
            roles::play(role, Path::new(dir), number.parse().expect("a number"));
        }
        ["loop", calls] => in_one_thread(calls.parse().expect("a number of calls")),
        [] => measure(31),
        [rounds] => measure(rounds.parse().expect("a number of rounds")),
        _ => panic!("usage: costs [ROUNDS] | costs loop CALLS"),
    }
}

/// A process of this program, which ends with its standard input.
struct Role(Child);

impl Role {
    fn start(role: &str, dir: &Path, number: usize) -> Role {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["role", role]).arg(dir).arg(number.to_string()).stdin(Stdio::piped());
        Role(command.spawn().expect("a process"))
    }

    fn counters(&self) -> ProcessCounters {
        ProcessCounters::open(self.0.id()).expect("its counters")
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < LONG, "{what} is not there");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The rows, and what each of them had in each round.
#[derive(Default)]
struct Table(Vec<(&'static str, Vec<f64>, f64)>);

impl Table {
    /// Runs `operations` of a row; `switches` is what processes beside this one have counted.
    fn add(&mut self, row: &'static str, value: f64, switches: f64) {
        match self.0.iter_mut().find(|(name, ..)| *name == row) {
            Some((_, values, all)) => {
                values.push(value);
                *all += switches;
            }
            None => self.0.push((row, vec![value], switches)),
        }
    }

    fn print(&self) {
        println!("| what | median | 95 % interval | switches |\n|---|---|---|---|");
        for (row, values, switches) in &self.0 {
            let interval = median_interval(values, 0.95).map_or_else(
                || "too few rounds".to_owned(),
                |interval| format!("{:.2} – {:.2}", interval.low, interval.high),
            );
            let switches = match row.starts_with("ratio") {
                true => String::new(),
                false => format!("{:.3}", switches / values.len() as f64),
            };
            println!("| {row} | {:.2} | {interval} | {switches} |", median(values));
        }
    }
}

/// Time of each of `count` operations in µs, and their switches in this process and `others`.
fn timed(count: u32, others: &mut [ProcessCounters], mut operation: impl FnMut()) -> (f64, f64) {
    let switches = |counters: ThreadCounters| counters.voluntary_switches + counters.involuntary_switches;
    let mut all = || {
        let others = others.iter_mut().map(|other| switches(other.read().expect("its counters")));
        others.sum::<u64>() + switches(ThreadCounters::read())
    };
    let before = all();
    let start = Instant::now();
    (0..count).for_each(|_| operation());
    let time = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
    (time, (all() - before) as f64 / f64::from(count))
}

struct Bare {
    requests: Publisher,
    replies: Subscriber,
    _group: Group,
}

impl Bare {
    fn create(dir: &Path) -> (Bare, Role) {
        let group = Group::create("requests", GroupOptions::new().capacity_bytes(1 << 18)).expect("memory");
        group.serve_at(dir.join("requests")).expect("a path");
        let role = Role::start("bare", dir, 0);
        let mut replies = None;
        // The socket is there a moment before it can be connected to.
        wait_for("the other end", || {
            replies = Group::join(dir.join("replies")).ok();
            replies.is_some()
        });
        let replies = replies.expect("it is there");
        let mut replies = replies.subscribe(SubscribeOptions::new(Policy::Reliable)).expect("a place");
        replies.spin_at_most(Duration::ZERO);
        let requests = group.publisher().expect("a place");
        (Bare { requests, replies, _group: group }, role)
    }

    fn roundtrip(&mut self) {
        self.requests.publish(&[7; 64]).expect("a whole group");
        let _ = std::hint::black_box(self.replies.recv().expect("a reply"));
    }
}

fn measure(rounds: usize) {
    pin(0);
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let serving = Role::start("serve", dir, 0);
    let mut bus = connect(dir);
    let (mut bare, bare_role) = Bare::create(dir);
    let page = roles::page(dir);
    let names = [("echo", 0), ("idle", SLEEPERS), ("sink", 0), ("sink", 1)];
    let mut roles: Vec<Role> = names.iter().map(|(role, number)| Role::start(role, dir, *number)).collect();
    roles.extend((0..SUBSCRIBERS).map(|index| Role::start("subscribe", dir, index)));
    let wanted = names.iter().map(|(role, number)| name_of(role, *number));
    for name in wanted.chain((0..SUBSCRIBERS).map(|index| name_of("subscribe", index))) {
        wait_for(&name, || bus.name_owner(&name).is_some());
    }
    let mut table = Table::default();
    let [bare_end, echo, idle, near, far] = [&bare_role, &roles[0], &roles[1], &roles[2], &roles[3]];
    for round in 0..=rounds {
        let mut row = |name: &'static str, (value, switches): (f64, f64)| {
            // In the first round the ends find each other.
            if round > 0 {
                table.add(name, value, switches);
            }
            value
        };
        let bare_us = timed(CALLS, &mut [bare_end.counters()], || bare.roundtrip());
        let bare_us = row("bare round trip, µs", bare_us);
        let name = name_of("echo", 0);
        let call_us = timed(CALLS, &mut [echo.counters()], || {
            bus.call(&name, PATH, INTERFACE, "Echo", body()).expect("a reply");
        });
        let call_us = row("call and its reply, µs", call_us);
        row("ratio of a call to a bare round trip", (call_us / bare_us, 0.0));
        let unmatched = timed(SIGNALS, &mut [idle.counters()], || {
            bus.emit(PATH, INTERFACE, "Unheard", body()).expect("space");
        });
        row("signal that nobody matches, 100 members asleep, µs", unmatched);
        let mut others: Vec<_> = roles[names.len()..].iter().map(Role::counters).collect();
        let (sender, last, switches) = matched(&mut bus, &page, &mut others);
        row("signal to 20 subscribers, time of its sender, µs", (sender, 0.0));
        row("signal to 20 subscribers, until the last has it, µs", (last, switches));
        for (index, sink, title) in
            [(0, near, "message of a stream, one CPU, µs"), (1, far, "message of a stream, two CPUs, µs")]
        {
            let name = name_of("sink", index);
            let mut sent = 0;
            let streamed = timed(STREAMED, &mut [sink.counters()], || {
                bus.call_without_reply(&name, PATH, INTERFACE, "Take", body()).expect("space");
                sent += 1;
                if sent == STREAMED {
                    bus.call(&name, PATH, INTERFACE, "Echo", body()).expect("a reply");
                }
            });
            row(title, streamed);
        }
    }
    table.print();
    // The members end with the bus.
    drop(serving);
    drop((bus, bare, roles));
    memory_of_idle_members(folder.path().join("idle"));
}

/// Signals to all subscribers: time of the sender in µs, time until the last has it, switches of each signal.
fn matched(bus: &mut Connection, page: &Mapping, others: &mut [ProcessCounters]) -> (f64, f64, f64) {
    let (mut sender, mut last) = (0, 0);
    let (_, switches) = timed(MATCHED_SIGNALS, others, || {
        let words = || (0..SUBSCRIBERS).map(|index| page.atomic_u64(index * 64));
        words().for_each(|word| word.store(0, Ordering::Relaxed));
        let start = causeway_os::clock::now_ns();
        bus.emit(PATH, INTERFACE, "Heard", body()).expect("space");
        sender += causeway_os::clock::now_ns() - start;
        while words().any(|word| word.load(Ordering::Relaxed) == 0) {
            std::thread::sleep(Duration::from_micros(500));
        }
        let latest = words().map(|word| word.load(Ordering::Relaxed)).max().expect("subscribers");
        last += latest.saturating_sub(start);
    });
    let each = |ns: u64| ns as f64 / 1e3 / f64::from(MATCHED_SIGNALS);
    (each(sender), each(last), switches)
}

/// Memory and CPU time of a serving process with many members that do nothing.
fn memory_of_idle_members(dir: PathBuf) {
    std::fs::create_dir(&dir).expect("a folder");
    let serving = Role::start("serve", &dir, 0);
    let bus = connect(&dir);
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", serving.0.id())).expect("its status");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("its memory");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number of KiB")
    };
    let before = resident();
    let name = name_of("idle", IDLE_MEMBERS as usize);
    let crowd = Role::start("idle", &dir, IDLE_MEMBERS as usize);
    wait_for(&name, || bus.name_owner(&name).is_some());
    let each = (resident() - before) as f64 / IDLE_MEMBERS as f64;
    println!("\n{IDLE_MEMBERS} idle members take {each:.1} KiB each of the serving process,");
    let mut counters = serving.counters();
    let start = counters.read().expect("its counters");
    std::thread::sleep(Duration::from_secs(2));
    let used = counters.read().expect("its counters").since(&start);
    println!(
        "which has used {} ns of CPU time in 2 s and has run {} times.",
        used.cpu_ns, used.voluntary_switches
    );
    drop(serving);
    drop(crowd);
}

/// Calls between two connections of this thread.
fn in_one_thread(calls: u32) {
    let folder = tempfile::tempdir().expect("a folder");
    let _serving = Role::start("serve", folder.path(), 0);
    let (mut client, mut server) = (connect(folder.path()), connect(folder.path()));
    let name = name_of("loop", 0);
    server.request_name(&name, 0).expect("a name");
    // It is told that it has the name.
    while server.next_now().expect("a whole bus").is_some() {}
    let mut call = || roles::call_in_one_thread(&mut client, &mut server, &name);
    (0..1000).for_each(|_| call());
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
    let start = Instant::now();
    for signal in 0..calls {
        client.emit(PATH, INTERFACE, "Unheard", body()).expect("space");
        // It reads, or it would be in the way.
        if signal % 1024 == 0 {
            let _ = server.next_now().expect("a whole bus");
        }
    }
    println!(
        "{each:.0} ns a call, {:.0} ns a signal",
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    );
}
