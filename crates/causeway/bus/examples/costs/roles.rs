//! The processes beside the one that measures.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway::{Group, GroupOptions, Policy, Received, SubscribeOptions};
use causeway_bus::wire::Body;
use causeway_bus::{AuthorityOptions, Connection, ConnectionOptions, Incoming};
use causeway_os::memory::{Access, Mapping};
use causeway_os::sched;

/// Members that a signal is for.
pub const SUBSCRIBERS: usize = 20;
pub const PATH: &str = "/com/example/Costs";
pub const INTERFACE: &str = "com.example.Costs";
/// Longer than any machine takes.
pub const LONG: Duration = Duration::from_secs(60);
const PAGE_BYTES: usize = 4096;

/// Arguments of 64 bytes.
pub fn body() -> Body {
    Body::default().blob(&[7; 60])
}

/// The name of the member in a role.
pub fn name_of(role: &str, number: usize) -> String {
    format!("com.example.{role}.n{number}")
}

/// A member that sleeps at once when there is nothing.
pub fn connect(dir: &Path) -> Connection {
    connect_with(dir, ConnectionOptions::default())
}

fn connect_with(dir: &Path, options: ConnectionOptions) -> Connection {
    let options = ConnectionOptions {
        spin: Duration::ZERO,
        laggard_deadline: Some(Duration::from_secs(60)),
        ..options
    };
    let start = Instant::now();
    loop {
        match Connection::open_with(dir.join("bus"), options.clone()) {
            Ok(connection) => return connection,
            // The process that serves has only just begun.
            Err(_) if start.elapsed() < LONG => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs this thread on the n-th CPU of those it may use.
pub fn pin(index: usize) {
    let cpus = sched::allowed_cpus().expect("the CPUs of this process");
    sched::pin(&[cpus[index % cpus.len()]]).expect("pinned");
}

/// Where subscribers note when they have got a signal: a word in a line of each.
pub fn page(dir: &Path) -> Mapping {
    let path = dir.join("page");
    let file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file");
    file.set_len(PAGE_BYTES as u64).expect("space");
    Mapping::shared(&file, PAGE_BYTES, Access::ReadWrite).expect("memory")
}

/// Plays a role until the standard input of this process or the bus ends.
pub fn play(role: &str, dir: &Path, number: usize) {
    match role {
        "serve" => serve(dir),
        "bare" => bare(dir),
        "idle" => idle(dir, number),
        "echo" => answer(dir, role, number, 0),
        // The first receives on the CPU of the sender, the second on another.
        "sink" => answer(dir, role, number, number),
        "subscribe" => subscribe(dir, number),
        _ => panic!("there is no role {role}"),
    }
}

fn serve(dir: &Path) {
    let stop = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    causewayd::serve_alone(&dir.join("bus"), AuthorityOptions::default(), &stop, || ()).expect("a whole bus");
}

/// Answers each message of one log through another.
fn bare(dir: &Path) {
    pin(0);
    let group = Group::create("replies", GroupOptions::new().capacity_bytes(1 << 18)).expect("memory");
    let requests = Group::join(dir.join("requests")).expect("a group");
    let mut requests = requests.subscribe(SubscribeOptions::new(Policy::Reliable)).expect("a place");
    requests.spin_at_most(Duration::ZERO);
    let mut replies = group.publisher().expect("a place");
    group.serve_at(dir.join("replies")).expect("a path");
    while let Ok(Received::Message(message)) = requests.recv() {
        let reply = message.bytes.to_vec();
        if replies.publish(&reply).is_err() {
            return;
        }
    }
}

/// Members that sleep, one in each thread.
fn idle(dir: &Path, count: usize) {
    pin(0);
    let connect = || {
        let options = ConnectionOptions { outbox_bytes: 4096, ..ConnectionOptions::default() };
        let mut bus = connect_with(dir, options);
        bus.add_match("type='signal',interface='com.example.Never',member='Never'").expect("a rule");
        bus
    };
    let mut members: Vec<Connection> = (0..count).map(|_| connect()).collect();
    members[0].request_name(&name_of("idle", count), 0).expect("a name");
    let threads: Vec<_> = members
        .into_iter()
        .map(|mut bus| {
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn(move || while !has_ended(bus.next(None)) {}).expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn has_ended(outcome: causeway_bus::Result<Option<Incoming>>) -> bool {
    matches!(outcome, Err(_) | Ok(Some(Incoming::AuthorityGone)))
}

/// Answers calls that want a reply.
fn answer(dir: &Path, role: &str, number: usize, cpu: usize) {
    pin(cpu);
    let mut bus = connect(dir);
    bus.request_name(&name_of(role, number), 0).expect("a name");
    loop {
        match bus.next(None) {
            Ok(Some(Incoming::Call(call))) => bus.reply(&call, body()).expect("a caller"),
            Ok(Some(Incoming::AuthorityGone)) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Notes when each signal has come.
fn subscribe(dir: &Path, index: usize) {
    pin(0);
    let page = page(dir);
    let mut bus = connect(dir);
    bus.add_match(&format!("type='signal',interface='{INTERFACE}',member='Heard'")).expect("a rule");
    bus.request_name(&name_of("subscribe", index), 0).expect("a name");
    loop {
        match bus.next(None) {
            Ok(Some(Incoming::Signal(_))) => {
                page.atomic_u64(index * 64).store(causeway_os::clock::now_ns(), Ordering::Relaxed);
            }
            Ok(Some(Incoming::AuthorityGone)) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// A call whose two ends are played by this thread.
#[inline(never)]
pub fn call_in_one_thread(client: &mut Connection, server: &mut Connection, name: &str) {
    let serial = client.start_call(name, PATH, INTERFACE, "Echo", body()).expect("space");
    let Some(Incoming::Call(call)) = server.next_now().expect("a whole bus") else { panic!("no call") };
    server.reply(&call, body()).expect("a caller");
    client.finish_call(serial, Duration::from_secs(25)).expect("a reply");
}
