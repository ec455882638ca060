//! What others send that no bridge sends: it is counted, said, and stops nothing.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use causeway_bridge::keys::Realm;
use causeway_bridge::wire::{Kind, Packet, Part, Stamp, host_id};
use causeway_testkit::{Cause, at_another_time, eventually_seen, trial_succeeds};
use serde_json::Value;
use zenoh::Wait;
use zenoh::sample::Sample;

use crate::support::{
    Bridge, GROUP, Host, REALM, Router, eventually, listen, options, plain_zenoh, program, read_to,
    read_until, tick,
};

fn stamp_of(sample: &Sample) -> Stamp {
    Stamp::parse(&sample.attachment().unwrap().to_bytes(), sample.payload().slices()).unwrap()
}

fn said(route: &Value, what: &str) -> bool {
    route["last_error"].as_str().is_some_and(|why| why.contains(what))
}

struct Scene {
    router: Router,
    hosts: [Host; 2],
    bridges: [Bridge; 2],
}

fn scene() -> Scene {
    let router = Router::start();
    let hosts = ["a", "b"].map(Host::new);
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    bridges.iter().for_each(|bridge| bridge.linked(1));
    Scene { router, hosts, bridges }
}

impl Scene {
    /// Everything still works.
    fn works(&self) {
        let mut subscriber = self.hosts[1].subscribe();
        let mut publisher = self.hosts[0].group.publisher().unwrap();
        (0..100).for_each(|number| _ = publisher.publish(&tick(number, 30)).unwrap());
        let seen = read_to(&mut subscriber, 100);
        assert_eq!(seen.received, 100);
    }
}

#[test]
fn a_receiver_that_lies_about_what_it_has_is_not_believed() {
    let scene = scene();
    let session = plain_zenoh(&scene.router);
    let keys = Realm::new(REALM).group(GROUP);
    let host = host_id("liar");
    let hello = Packet::Hello { host, group: 0, next: 0 };
    let ask = |packet: Packet| {
        let replies = session.get(keys.link("a")).payload(packet.to_bytes()).wait().unwrap();
        let reply = replies.recv_timeout(Duration::from_secs(20)).unwrap().expect("an answer");
        reply.into_result().map(|sample| sample.payload().to_bytes().into_owned())
    };
    let Some(Packet::Welcome { group, head, .. }) = Packet::parse(&ask(hello).unwrap()) else {
        panic!("no welcome")
    };
    let refused = ask(Packet::Hello { host, group, next: head + 1_000_000 }).unwrap_err();
    assert!(refused.payload().try_to_string().unwrap().contains("not believed"));
    let ack = Packet::Ack { host, group, next: head + 1_000_000 };
    session.put(keys.ack("a"), ack.to_bytes()).wait().unwrap();
    eventually("the lie is not said", || said(&scene.bridges[0].route("out", ""), "were sent; not believed"));
    session.close().wait().unwrap();
    scene.works();
}

#[test]
fn nonsense_on_every_key_is_counted_and_stops_nothing() {
    let scene = scene();
    let session = plain_zenoh(&scene.router);
    let keys = Realm::new(REALM).group(GROUP);
    for bytes in [&b""[..], b"\x01", b"\x02\x00\x00", &[0xff; 200]] {
        for key in [keys.topic(0), keys.topic(1), keys.ack("a"), keys.beat("c"), keys.beat("a")] {
            session.put(key, bytes).attachment(bytes).wait().unwrap();
        }
        for key in
            [keys.link("a"), format!("{}?from=7;to=2", keys.link("a")), format!("{}?from=x", keys.link("a"))]
        {
            let replies = session.get(key).payload(bytes).wait().unwrap();
            while let Ok(Some(reply)) = replies.recv_timeout(Duration::from_secs(20)) {
                assert!(reply.result().is_err(), "an answer to nonsense");
            }
        }
    }
    // A program that is no bridge publishes under the keys of a group.
    session.put(keys.topic(0), "42").wait().unwrap();
    eventually("nonsense is not counted", || {
        let route = scene.bridges[0].route("in", "");
        route["refused"].as_u64().is_some_and(|count| count >= 8) && route["last_error"].is_string()
    });
    scene.works();
}

/// Messages that have been here come back, those of nobody are sent, and a sender numbers as it likes.
#[test]
fn messages_that_went_in_a_circle_come_twice_or_have_impossible_numbers_are_dropped() {
    let scene = scene();
    scene.works();
    let session = plain_zenoh(&scene.router);
    let keys = Realm::new(REALM).group(GROUP);
    let route = |host: &str| scene.bridges[1].route("in", host);
    let mut subscriber = scene.hosts[1].subscribe();
    let heard = listen(&session, &keys, keys.topics());
    let _ = scene.hosts[0].group.publisher().unwrap().publish(&tick(7, 8)).unwrap();
    let sample = heard.recv_timeout(Duration::from_secs(20)).unwrap().expect("a message");
    let stamp = stamp_of(&sample);
    assert_eq!(stamp.hops, [host_id("a")]);
    let put = |stamp: Stamp| {
        session.put(keys.topic(0), tick(9, 8)).attachment(stamp.to_bytes(&tick(9, 8))).wait().unwrap()
    };
    put(stamp.clone());
    put(Stamp {
        hops: vec![host_id("a"), host_id("b")],
        index: stamp.index + 1,
        from: stamp.index + 1,
        ..stamp.clone()
    });
    // The next message, with a payload that is not its own.
    let next = Stamp { index: stamp.index + 1, from: stamp.index + 1, ..stamp.clone() };
    session.put(keys.topic(0), tick(9, 8)).attachment(next.to_bytes(&tick(8, 8))).wait().unwrap();
    put(Stamp { hops: vec![host_id("nobody")], ..stamp.clone() });
    put(Stamp { from: stamp.index + 1_000_000, index: stamp.index + 1_000_001, ..stamp.clone() });
    put(Stamp { kind: Kind::Lost, from: stamp.index + 1, index: stamp.index + 1_000, ..stamp.clone() });
    put(stamp.clone());
    eventually("they are not counted", || {
        let route = route("a");
        let damaged = scene.bridges[1].route("in", "");
        route["duplicates"].as_u64() >= Some(2)
            && route["looped"] == 1
            && said(&damaged, "damaged on its way")
    });
    let seen = read_until(&mut subscriber, "the one message has not come", |seen| seen.contains_key(&0));
    assert_eq!(seen[&0].received, 1);
    scene.works();
    assert_eq!(route("a")["lost"], 0, "the word of somebody else");
}

/// Somebody begins a long message in the name of a host, which then sends another one.
#[test]
fn parts_that_a_host_did_not_send_do_not_get_into_its_long_message() {
    let router = Router::start();
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(32 << 20)));
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    bridges.iter().for_each(|bridge| bridge.linked(1));
    let (session, keys) = (plain_zenoh(&router), Realm::new(REALM).group(GROUP));
    let heard = listen(&session, &keys, keys.topics());
    let mut subscriber = hosts[1].subscribe();
    let mut publisher = hosts[0].group.publisher().unwrap();
    let _ = publisher.publish(&tick(0, 8)).unwrap();
    let sample = heard.recv_timeout(Duration::from_secs(20)).unwrap().expect("a message");
    let stamp = stamp_of(&sample);
    read_until(&mut subscriber, "the first message has not come", |seen| seen.contains_key(&0));
    let (from, index) = (stamp.index + 1, stamp.index + 1);
    for (offset, length, bytes) in [(0, 4 << 20, 100), (0, 0, 1), (7, 1 << 20, 9)] {
        let stamp =
            Stamp { kind: Kind::Part, from, index, part: Some(Part { offset, length }), ..stamp.clone() };
        let attachment = stamp.to_bytes(&vec![7; bytes]);
        session.put(keys.topic(0), vec![7; bytes]).attachment(attachment).wait().unwrap();
    }
    let _ = publisher.publish(&tick(1, 3 << 20)).unwrap();
    let _ = publisher.publish(&tick(2, 8)).unwrap();
    let seen = read_to(&mut subscriber, 3);
    assert_eq!((seen.received, &bridges[1].route("in", "a")["lost"]), (2, &0.into()));
}

#[test]
fn two_hosts_of_one_name_are_told() {
    let router = Router::start();
    let hosts = ["a", "a"].map(Host::new);
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    for bridge in &bridges {
        eventually("they are not told", || said(&bridge.route("in", ""), "another bridge calls itself a"));
    }
}

#[test]
fn a_realm_that_does_not_match_is_named() {
    let router = Router::start();
    let (one, other) = (Host::new("a"), Host::new("b"));
    let _one = one.bridge(&router);
    let mut command = program(&["--realm", "elsewhere", "--router", &router.endpoint(), "--import", GROUP]);
    command.args(["--group", &other.path(), "--state"]).arg(other.state());
    let other = Bridge::start(command, &other.state());
    eventually("the other realm is not named", || {
        said(&other.stat(), "of the realm test and none of elsewhere")
    });
}

#[test]
fn without_a_router_the_bridge_says_so_and_begins_when_there_is_one() {
    let port = crate::support::free_port();
    let (one, other) = (Host::new("a"), Host::new("b"));
    let endpoint = format!("tcp/127.0.0.1:{port}");
    let bridges = [&one, &other]
        .map(|host| host.bridge_with(&["--router", &endpoint, "--export", GROUP, "--import", GROUP]));
    eventually("it does not say that there is no router", || said(&bridges[0].stat(), "no router at"));
    // Nothing local waits.
    let mut publisher = one.group.publisher().unwrap();
    (0..10_000).for_each(|number| _ = publisher.publish(&tick(number, 100)).unwrap());
    let _router = Router::start_at(port, &[]);
    bridges.iter().for_each(|bridge| bridge.linked(1));
}

/// What a router of another version does: it closes the connection, with a reason, in answer to the first message.
#[test]
fn a_router_of_another_version_is_refused_and_the_log_of_zenoh_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp/{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Two bytes of length, Close of a session, and the reason: unsupported.
            let _ = stream.read(&mut [0; 1024]).and_then(|_| stream.write_all(&[2, 0, 0x23, 0x01]));
        }
    });
    let host = Host::new("a");
    let log = host.folder.path().join("log");
    let mut command = host.command(&["--router", &endpoint, "--export", GROUP]);
    command.env("RUST_LOG", "zenoh=warn").stdout(std::fs::File::create(&log).unwrap());
    let bridge = Bridge::start(command, &host.state());
    eventually("it is not said", || said(&bridge.stat(), &format!("no router at {endpoint}")));
    assert_eq!(bridge.stat()["connected"], false);
    eventually_seen(
        "the reason is not in the log",
        || std::fs::read_to_string(&log).unwrap(),
        |log| log.contains("a close message (reason 1)"),
    );
}

/// Clocks are compared with none of another host: only those that measure time differ in a time namespace, and no other is read.
#[test]
fn hosts_whose_clocks_differ_by_hours_take_messages_of_each_other() {
    let router = Router::start();
    let hosts = ["a", "b"].map(Host::new);
    let arguments = ["--router", &router.endpoint(), "--export", GROUP, "--import", GROUP];
    let Some(later) = at_another_time(&hosts[1].command(&arguments), 5 * 3600) else { return };
    let bridges = [hosts[0].bridge(&router), Bridge::start(later, &hosts[1].state())];
    for (from, to) in [(0, 1), (1, 0)] {
        let mut subscriber = hosts[to].subscribe();
        eventually("the hosts are not linked", || bridges[from].route("out", "")["peers"] == 1);
        let mut publisher = hosts[from].group.publisher().unwrap();
        (0..500).for_each(|number| _ = publisher.publish(&tick(number, 30)).unwrap());
        let seen = read_to(&mut subscriber, 500);
        assert_eq!(seen.received, 500);
        assert_eq!(bridges[to].route("in", &hosts[from].name)["lost"], 0);
    }
}

/// A folder in which nothing can be written, since its file system is full.
struct Full(PathBuf);

impl Full {
    fn at(path: &Path) -> Option<Full> {
        std::fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(path);
        if !trial_succeeds(&mut mount, Cause::Rights("mount")) {
            return None;
        }
        let full = Full(path.to_owned());
        let written = std::fs::write(path.join("full"), vec![1; 1 << 20]);
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        Some(full)
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A folder in memory is full where memory is.
#[test]
fn a_state_that_cannot_be_written_since_disk_or_memory_is_full_is_said_and_messages_come() {
    let router = Router::start();
    let hosts = ["a", "b"].map(Host::new);
    let Some(full) = Full::at(&hosts[1].state()) else { return };
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    bridges.iter().for_each(|bridge| bridge.linked(1));
    let why = bridges[1].route("in", "")["last_error"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("may come twice after a restart") && why.contains("No space left"), "{why}");
    let scene = Scene { router, hosts, bridges };
    scene.works();
    drop(full);
}
