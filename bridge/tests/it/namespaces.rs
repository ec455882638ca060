//! Hosts in network namespaces: links that are cut, slow, late, and lose packets; a long message; and random faults.
//!
//! Needs root and the program `ip`; `tc` for slow links, and netem or `iptables` for packets that are lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use causeway::Group;
use causeway_testkit::{Cause, has_program, setting, skipped};
use rustix::process::Signal;

use crate::support::{
    Bridge, GROUP, Host, LOSSES, Relay, Running, Seen, Ticker, eventually, note, options, read_to,
    read_until, router_command, tick,
};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A router and two hosts, each in a namespace of its own with one link to the router's.
struct Net {
    names: [String; 3],
}

fn run(command: &[&str]) -> Result<(), String> {
    let output = Command::new(command[0]).args(&command[1..]).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

impl Net {
    fn new() -> Option<Net> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let of = |name: &str| format!("cwb-{}-{number}-{name}", std::process::id());
        let net = Net { names: ["r", "a", "b"].map(of) };
        if !has_program("ip") {
            return None;
        }
        if let Err(why) = run(&["ip", "netns", "add", &net.names[0]]) {
            skipped(Cause::Rights("namespaces"), why);
            return None;
        }
        net.make().unwrap();
        Some(net)
    }

    fn make(&self) -> Result<(), String> {
        let [router, ..] = &self.names;
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                run(&["ip", "netns", "add", name])?;
            }
            run(&["ip", "-n", name, "link", "set", "lo", "up"])?;
        }
        for (at, name) in self.names.iter().enumerate().skip(1) {
            let near = format!("veth{at}");
            run(&[
                "ip", "-n", router, "link", "add", &near, "type", "veth", "peer", "name", "uplink", "netns",
                name,
            ])?;
            for (name, link, end) in [(router, near.as_str(), 1), (name, "uplink", 2)] {
                run(&["ip", "-n", name, "addr", "add", &format!("10.219.{at}.{end}/24"), "dev", link])?;
                run(&["ip", "-n", name, "link", "set", link, "up"])?;
            }
        }
        Ok(())
    }

    /// The link of a host, 1 or 2, at the router's end.
    fn link(&self, host: usize, state: &str) {
        run(&["ip", "-n", &self.names[0], "link", "set", &format!("veth{host}"), state]).unwrap();
    }

    /// Shapes what goes to a host and comes from it, as `tc` says it; false where this kernel cannot.
    fn shape(&self, host: usize, how: &[&str]) -> bool {
        let near = format!("veth{host}");
        let ends = [(&self.names[0], near.as_str()), (&self.names[host], "uplink")];
        ends.into_iter().all(|(name, link)| {
            run(&[&["tc", "-n", name, "qdisc", "replace", "dev", link, "root"], how].concat()).is_ok()
        })
    }

    /// Loses packets in a hundred that come to a host, by netem or else by a rule of the packet filter; false where there is neither.
    fn lose(&self, host: usize, percent: u32) -> bool {
        let (name, probability) = (&self.names[host], format!("0.{percent:02}"));
        let rule = ["-A", "INPUT", "-i", "uplink", "-m", "statistic", "--mode", "random", "--probability"];
        let filter = [&["ip", "netns", "exec", name, "iptables"][..], &rule, &[&probability, "-j", "DROP"]];
        self.shape(host, &["netem", "loss", &format!("{percent}%")]) || run(&filter.concat()).is_ok()
    }

    fn inside(&self, at: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.names[at]]).arg(command.get_program()).args(command.get_args());
        inside.stdin(Stdio::null());
        inside
    }

    fn router(&self) -> Running {
        let mut command = self.inside(0, &router_command("tcp/0.0.0.0:7447", &[]));
        let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("no router listens", || {
            let probe =
                ["ip", "netns", "exec", &self.names[0], "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7447"];
            run(&probe).is_ok()
        });
        running
    }

    fn bridge(&self, at: usize, host: &Host, more: &[&str]) -> Bridge {
        self.bridge_to(&format!("tcp/10.219.{at}.1:7447"), at, host, more)
    }

    fn bridge_to(&self, endpoint: &str, at: usize, host: &Host, more: &[&str]) -> Bridge {
        let topic = LOSSES.to_string();
        // In one direction: what is counted as lost is then exactly what crosses.
        let list = if at == 1 { "--export" } else { "--import" };
        let arguments = ["--router", endpoint, list, GROUP, "--loss-topic", &topic];
        Bridge::start(self.inside(at, &host.command(&[&arguments, more].concat())), &host.state())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = run(&["ip", "netns", "del", name]);
        }
    }
}

#[test]
fn a_link_that_is_cut_for_longer_than_the_lease_costs_what_the_log_cannot_hold_and_no_more() {
    let Some(net) = Net::new() else { return };
    let _router = net.router();
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(256 << 10)));
    let bridges = [net.bridge(1, &hosts[0], &[]), net.bridge(2, &hosts[1], &[])];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    let cut = Duration::from_secs(setting("CAUSEWAY_BRIDGE_CUT_SECONDS", 5));
    let ticker = Ticker::start(hosts[0].group.publisher().unwrap(), 0, Duration::from_micros(300), 100);
    std::thread::sleep(Duration::from_millis(300));
    net.link(2, "down");
    std::thread::sleep(cut);
    net.link(2, "up");
    eventually("the hosts do not find each other again", || bridges[0].route("out", "")["peers"] == 1);
    std::thread::sleep(Duration::from_secs(1));
    let published = ticker.stop();
    let seen = read_to(&mut subscriber, published);
    let (received, lost) = (seen.received, seen.lost);
    eprintln!("{published} published, {received} received, {lost} lost");
    assert_eq!(received + lost, published);
    assert!(received > 0 && (lost > 0 || published < 1000), "the log held everything");
}

/// TCP has what a link loses again; what the bridge has to bear is the time that this takes.
#[test]
fn a_link_that_loses_packets_loses_no_message() {
    let Some(net) = Net::new() else { return };
    if !net.lose(2, 5) {
        let detail = "no netem (tc qdisc … netem), and no iptables with -m statistic";
        return skipped(Cause::Kernel("packet loss"), detail);
    }
    let _router = net.router();
    let hosts = ["a", "b"].map(Host::new);
    let bridges = [net.bridge(1, &hosts[0], &["--patience", "60s"]), net.bridge(2, &hosts[1], &[])];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    let mut publisher = hosts[0].group.publisher().unwrap();
    for number in 0..5000 {
        let _ = publisher.publish(&tick(number, 200)).unwrap();
    }
    let seen = read_to(&mut subscriber, 5000);
    assert_eq!((seen.received, seen.lost), (5000, 0));
}

/// A message that comes alone does not wait for space in Zenoh's queue: without any, it is dropped there, and asked for.
#[test]
fn a_ticker_loses_nothing_beside_a_group_that_fills_the_same_slow_link() {
    let Some(net) = Net::new() else { return };
    if !net.shape(2, &["tbf", "rate", "5mbit", "burst", "64kb", "latency", "400ms"]) {
        return skipped(Cause::Kernel("tbf"), "");
    }
    let _router = net.router();
    let hosts = ["a", "b"].map(Host::new);
    let bulk = ["a", "b"].map(|name| Group::create(name, options().capacity_bytes(4 << 20)).unwrap());
    let paths = hosts.each_ref().map(|host| host.folder.path().join("bulk"));
    bulk.iter().zip(&paths).for_each(|(group, path)| group.serve_at(path).unwrap());
    let [a, b] = paths.each_ref().map(|path| path.to_str().unwrap());
    let bridges = [
        net.bridge(1, &hosts[0], &["--group", a, "--export", "bulk"]),
        net.bridge(2, &hosts[1], &["--group", b, "--import", "bulk"]),
    ];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    let ticker = Ticker::start(hosts[0].group.publisher().unwrap(), 0, Duration::from_millis(3), 100);
    let mut publisher = bulk[0].publisher().unwrap();
    for number in 0..60 {
        let _ = publisher.publish(&tick(number, 60_000)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let published = ticker.stop();
    let seen = read_to(&mut subscriber, published);
    eprintln!("{published} published, {} sent again", bridges[0].route("out", "")["resent"]);
    assert_eq!((seen.received, seen.lost), (published, 0));
}

/// Longer than Zenoh's session lives without an answer, and the link is cut in the midst of it.
#[test]
fn a_long_message_comes_whole_over_a_slow_link() {
    let Some(net) = Net::new() else { return };
    let mebibytes = setting("CAUSEWAY_BRIDGE_LONG_MIB", 64);
    if !net.shape(2, &["tbf", "rate", "100mbit", "burst", "128kb", "latency", "400ms"]) {
        return skipped(Cause::Kernel("tbf"), "");
    }
    let _router = net.router();
    let capacity = (mebibytes << 20).next_power_of_two() * 4;
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(capacity)));
    let bridges = [net.bridge(1, &hosts[0], &["--patience", "60s"]), net.bridge(2, &hosts[1], &[])];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    let mut publisher = hosts[0].group.publisher().unwrap();
    let begin = Instant::now();
    let _ = publisher.publish(&tick(0, (mebibytes << 20) as usize)).unwrap();
    let _ = publisher.publish(&tick(1, 8)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    net.link(2, "down");
    std::thread::sleep(Duration::from_secs(3));
    net.link(2, "up");
    let seen = read_to(&mut subscriber, 2);
    assert_eq!((seen.received, seen.lost), (2, 0));
    eprintln!("{mebibytes} MiB after {:?}", begin.elapsed());
}

/// An answer takes longer than a question waits.
#[test]
fn a_long_message_comes_over_a_link_that_carries_a_part_of_it_in_a_few_seconds() {
    let Some(net) = Net::new() else { return };
    if !net.shape(2, &["tbf", "rate", "512kbit", "burst", "16kb", "latency", "400ms"]) {
        return skipped(Cause::Kernel("tbf"), "");
    }
    let _router = net.router();
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(8 << 20)));
    let bridges = [net.bridge(1, &hosts[0], &[]), net.bridge(2, &hosts[1], &[])];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    let mut publisher = hosts[0].group.publisher().unwrap();
    let _ = publisher.publish(&tick(0, 1_300_000)).unwrap();
    let _ = publisher.publish(&tick(1, 8)).unwrap();
    let seen = read_to(&mut subscriber, 2);
    assert_eq!((seen.received, seen.lost), (2, 0));
}

#[test]
fn without_a_router_bridges_of_one_machine_find_each_other_and_those_of_another_machine_do_not() {
    let Some(net) = Net::new() else { return };
    let hosts = ["a", "b", "c"].map(Host::new);
    let start = |(at, host): (usize, &Host)| {
        Bridge::start(net.inside(at, &host.command(&["--export", GROUP, "--import", GROUP])), &host.state())
    };
    // The third is a neighbor of the other two, over a link that multicast could take.
    let bridges = [(1, &hosts[0]), (1, &hosts[1]), (0, &hosts[2])].map(start);
    bridges[..2].iter().for_each(|bridge| bridge.linked(1));
    let mut subscriber = hosts[1].subscribe();
    let _ = hosts[0].group.publisher().unwrap().publish(&tick(0, 8)).unwrap();
    read_until(&mut subscriber, "the message has not come", |seen| seen.contains_key(&0));
    eventually("the third does not begin", || bridges[2].route("out", "")["peers"] == 0);
    assert!(bridges[..2].iter().all(|bridge| bridge.route("out", "")["peers"] == 1));
}

/// Routers, bridges, links and publishers are killed, frozen, cut, slowed and late at random; what was sent is received once or counted.
#[test]
fn whatever_fails_what_was_sent_was_received_once_or_is_counted() {
    let Some(net) = Net::new() else { return };
    let seconds = setting("CAUSEWAY_BRIDGE_FAULTS_SECONDS", 10);
    let seed = setting("CAUSEWAY_BRIDGE_SEED", u64::from(std::process::id()));
    eprintln!("CAUSEWAY_BRIDGE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut router = net.router();
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(512 << 10)));
    let relays = [1, 2].map(|at| {
        let router = SocketAddr::from(([10, 219, at as u8, 1], 7447));
        Relay::start(router, Duration::ZERO, Some(&net.names[at]))
    });
    let bridge = |at: usize| {
        let endpoint = format!("tcp/127.0.0.1:{}", relays[at].port);
        net.bridge_to(&endpoint, at + 1, &hosts[at], &[])
    };
    let mut bridges = [bridge(0), bridge(1)];
    let mut subscriber = hosts[1].subscribe();
    bridges[0].linked(1);
    // A ticker that numbers across publishers, each of which may end.
    let (mut published, mut seen) = (0u64, BTreeMap::new());
    let mut publisher = hosts[0].group.publisher().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut next_fault = Instant::now();
    let mut faults = BTreeMap::<&str, u32>::new();
    let mut drain = |seen: &mut BTreeMap<u32, Seen>| {
        while let Ok(received) = subscriber.try_recv() {
            note(seen, &received.message().expect("the subscriber is reliable"));
        }
    };
    let mut frozen: Option<(usize, Instant)> = None;
    let mut cut: Option<(usize, Instant)> = None;
    while Instant::now() < end {
        for _ in 0..10 {
            let _ = publisher.publish(&tick(published, 16 + random.usize(..200))).unwrap();
            published += 1;
        }
        drain(&mut seen);
        std::thread::sleep(Duration::from_millis(2));
        if let Some((at, _)) = frozen.filter(|(_, until)| Instant::now() >= *until) {
            bridges[at].process.signal(Signal::CONT).unwrap();
            frozen = None;
        }
        if let Some((at, _)) = cut.filter(|(_, until)| Instant::now() >= *until) {
            net.link(at, "up");
            cut = None;
        }
        if Instant::now() < next_fault {
            continue;
        }
        next_fault = Instant::now() + Duration::from_millis(random.u64(200..2000));
        let (at, time) = (random.usize(..2), Duration::from_millis(random.u64(50..4000)));
        let fault = match random.u8(..7) {
            0 => {
                router.kill();
                router = net.router();
                "router killed"
            }
            1 if frozen.is_none() => {
                bridges[at].process.kill();
                bridges[at] = bridge(at);
                "bridge killed"
            }
            2 if frozen.is_none() => {
                bridges[at].process.signal(Signal::STOP).unwrap();
                frozen = Some((at, Instant::now() + time));
                "bridge frozen"
            }
            3 if cut.is_none() => {
                net.link(at + 1, "down");
                cut = Some((at + 1, Instant::now() + time));
                "link cut"
            }
            4 => {
                let rate = ["1mbit", "10mbit", "1000mbit"][random.usize(..3)];
                net.shape(at + 1, &["tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]);
                "link slowed"
            }
            5 => {
                relays[at].delay(Duration::from_millis(random.u64(..80)));
                "link late"
            }
            _ => {
                publisher = hosts[0].group.publisher().unwrap();
                "publisher replaced"
            }
        };
        *faults.entry(fault).or_default() += 1;
    }
    if let Some((at, _)) = frozen {
        bridges[at].process.signal(Signal::CONT).unwrap();
    }
    for at in [1, 2] {
        net.link(at, "up");
        net.shape(at, &["tbf", "rate", "1000mbit", "burst", "128kb", "latency", "400ms"]);
    }
    // What is looked for below is the last message, 100 ms after it.
    relays.iter().for_each(|relay| relay.delay(Duration::ZERO));
    eventually("the hosts do not find each other again", || bridges[0].route("out", "")["peers"] == 1);
    eventually("the last message does not come", || {
        let _ = publisher.publish(&tick(published, 16)).unwrap();
        published += 1;
        std::thread::sleep(Duration::from_millis(100));
        drain(&mut seen);
        seen.get(&0).is_some_and(|seen| seen.next == published)
    });
    let (received, lost) = (seen[&0].received, seen.get(&LOSSES).map_or(0, |seen| seen.lost));
    eprintln!("{faults:?}: {published} published, {received} received, {lost} lost");
    assert_eq!(received + lost, published);
}
