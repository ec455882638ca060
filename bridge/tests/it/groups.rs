//! Messages of a group on other hosts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use causeway::{Group, GroupOptions, Policy, Received, RecvTimeoutError, SubscribeOptions};
use causeway_bridge::keys::Realm;
use causeway_bridge::wire::Packet;
use causeway_testkit::{eventually_some, proc, rerun};
use serde_json::Value;
use zenoh::Wait;
use zenoh::sample::SampleKind;

use crate::support::{
    Bridge, GROUP, Host, LOSSES, REALM, Router, Running, Seen, bridge_command, eventually, listen, options,
    plain_zenoh, read_to, read_until, tick,
};

#[test]
fn what_is_published_on_one_host_comes_once_and_in_order_on_all_others_with_its_topic() {
    let router = Router::start();
    let hosts = ["a", "b", "c"].map(Host::new);
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    let mut subscribers = hosts.each_ref().map(Host::subscribe);
    bridges.iter().for_each(|bridge| bridge.linked(2));
    // Each host publishes with a topic of its own.
    let mut publishers = hosts.each_ref().map(|host| host.group.publisher().unwrap());
    for number in 0..2000 {
        for (topic, publisher) in publishers.iter_mut().enumerate() {
            let mut loan = publisher.loan(100).unwrap().with_topic(topic as u32);
            loan.copy_from_slice(&tick(number, 100));
            let _ = loan.commit().unwrap();
        }
    }
    for subscriber in &mut subscribers {
        let seen = read_until(subscriber, "not everything has come", |seen| {
            (0..3).all(|topic| seen.get(&topic).is_some_and(|seen| seen.next == 2000))
        });
        assert!(seen.values().all(|seen| seen.received == 2000), "{seen:?}");
    }
    // What came in is not sent out again, to nobody.
    for (host, bridge) in hosts.iter().zip(&bridges) {
        eventually("not everything is acknowledged", || bridge.route("out", "")["acknowledged"] == 2000);
        assert_eq!(bridge.route("out", "")["sent"], 2000);
        for other in hosts.iter().filter(|other| other.name != host.name) {
            let route = bridge.route("in", &other.name);
            let counts = ["sent", "lost", "looped", "refused"].map(|name| route[name].as_u64().unwrap());
            assert_eq!(counts, [2000, 0, 0, 0], "{route}");
        }
    }
}

#[test]
fn nothing_crosses_that_is_not_in_the_list_of_both_ends() {
    let router = Router::start();
    let hosts = ["a", "b", "c"].map(Host::new);
    let endpoint = router.endpoint();
    let arguments: [&[&str]; 3] = [&["--export", GROUP], &["--import", GROUP], &["--export", GROUP]];
    let start = |(host, arguments): (&Host, &[&str])| {
        host.bridge_with(&[&["--router", &endpoint], arguments].concat())
    };
    let bridges: Vec<Bridge> = hosts.iter().zip(arguments).map(start).collect();
    bridges[0].linked(1);
    bridges[2].linked(1);
    let mut subscribers = hosts.each_ref().map(Host::subscribe);
    for host in &hosts {
        let _ = host.group.publisher().unwrap().publish(host.name.as_bytes()).unwrap();
    }
    let mut next = |host: usize| match subscribers[host].recv_timeout(Duration::from_millis(300)) {
        Ok(Received::Message(message)) => Some(String::from_utf8(message.bytes.to_vec()).unwrap()),
        Ok(news) => panic!("{news:?}"),
        Err(RecvTimeoutError::Timeout) => None,
        Err(error) => panic!("{error}"),
    };
    let mut came = Vec::new();
    eventually("what is exported has not come where it is imported", || {
        came.extend(next(1));
        came.len() == 3
    });
    came.sort();
    assert_eq!(came, ["a", "b", "c"]);
    assert_eq!([next(0), next(0)], [Some("a".into()), None], "it imports nothing");
    assert_eq!([next(2), next(2)], [Some("c".into()), None], "it imports nothing");
}

#[test]
fn topics_that_are_not_listed_stay_and_are_no_loss() {
    let router = Router::start();
    let (from, to) = (Host::new("a"), Host::new("b"));
    let group = format!("{}:1,5-6", from.path());
    let arguments = ["--group", &group, "--router", &router.endpoint(), "--export", GROUP];
    let sending = Bridge::start(bridge_command(&from.name, &from.state(), &arguments), &from.state());
    let receiving = to.bridge_with(&["--router", &router.endpoint(), "--import", GROUP]);
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let mut publisher = from.group.publisher().unwrap();
    for number in 0..700 {
        let _ = publisher.publish_with_topic((number % 7) as u32, &tick(number, 8)).unwrap();
    }
    let seen = read_until(&mut subscriber, "the listed topics have not come", |seen| {
        [1, 5, 6].iter().all(|topic| seen.get(topic).is_some_and(|seen| seen.received == 100))
    });
    assert_eq!(seen.len(), 3);
    // Many times what the log holds; nobody acknowledges what is not sent.
    (0..100_000).for_each(|number| _ = publisher.publish(&tick(number, 100)).unwrap());
    let _ = publisher.publish_with_topic(1, &tick(1000, 8)).unwrap();
    read_until(&mut subscriber, "what is listed does not come any more", |seen| seen.contains_key(&1));
    assert_eq!(receiving.route("in", "a")["lost"], 0);
    assert_eq!(sending.route("out", "")["last_error"], Value::Null, "nothing was to be waited for");
}

/// What others lack of a group that ends is sent to them before the bridge takes the next one.
#[test]
fn what_a_host_lacks_of_a_group_that_ends_comes_still() {
    let router = Router::start();
    let large = |name| Host::with(name, options().capacity_bytes(16 << 20));
    let (mut from, to) = (large("a"), large("b"));
    let (sending, receiving) = (from.bridge(&router), to.bridge(&router));
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let mut publisher = from.group.publisher().unwrap();
    let _ = publisher.publish(&tick(0, 8)).unwrap();
    read_until(&mut subscriber, "the first message has not come", |seen| seen.contains_key(&0));
    receiving.process.stop();
    (1..1000).for_each(|number| _ = publisher.publish(&tick(number, 30)).unwrap());
    // Fetched, not sent.
    let _ = publisher.publish(&tick(1000, 3 << 20)).unwrap();
    drop(publisher);
    from.group = Group::create("none", GroupOptions::new()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    receiving.process.resume();
    let seen = read_to(&mut subscriber, 1001);
    assert_eq!((seen.received, &receiving.route("in", "a")["lost"]), (1000, &0.into()));
}

/// It answers, but takes nothing, for a subscriber of its host does not.
#[test]
fn a_host_that_stands_still_stops_no_other() {
    let router = Router::start();
    let hosts = ["a", "b", "c"].map(|name| Host::with(name, options().capacity_bytes(64 << 10)));
    let bridges = hosts.each_ref().map(|host| host.bridge(&router));
    bridges[0].linked(2);
    let (mut subscriber, _asleep) = (hosts[1].subscribe(), hosts[2].subscribe());
    let mut publisher = hosts[0].group.publisher().unwrap();
    (0..20_000).for_each(|number| _ = publisher.publish(&tick(number, 100)).unwrap());
    let mut number = 20_000;
    let seen = read_until(&mut subscriber, "the other host gets nothing any more", |seen| {
        let _ = publisher.publish(&tick(number, 100)).unwrap();
        number += 1;
        std::thread::sleep(Duration::from_millis(50));
        seen.get(&0).is_some_and(|seen| seen.next > 20_000)
    });
    let lost = bridges[1].route("in", "a")["lost"].as_u64().unwrap();
    assert_eq!(seen[&0].received + lost, seen[&0].next);
}

#[test]
fn a_group_that_begins_anew_on_either_side_is_carried_on() {
    let router = Router::start();
    let (mut from, mut to) = (Host::new("a"), Host::new("b"));
    let (sending, receiving) = (from.bridge(&router), to.bridge(&router));
    let renew = |host: &mut Host| {
        let path = host.path();
        let group = Group::create("again", options()).unwrap();
        host.group = Group::create("none", GroupOptions::new()).unwrap();
        group.serve_at(path).unwrap();
        host.group = group;
    };
    for round in 0..3u64 {
        sending.linked(1);
        eventually("the receiver is not linked", || receiving.route("in", "a")["peers"] == 1);
        let mut subscriber = to.subscribe();
        let mut publisher = from.group.publisher().unwrap();
        for number in 0..100 {
            let _ = publisher.publish(&tick(number, 16)).unwrap();
        }
        let seen = read_to(&mut subscriber, 100);
        assert_eq!(seen.received, 100, "round {round}");
        drop((subscriber, publisher));
        renew(if round == 0 { &mut from } else { &mut to });
        eventually("the bridge has not noticed the end of the group", || {
            // It has joined the new one when that has a subscriber.
            let host = if round == 0 { &from } else { &to };
            !host.group.report().unwrap().subscribers.is_empty()
        });
    }
}

/// Before, a bridge that waited for acknowledgements would have stopped publishers, as every reliable subscriber does.
#[test]
fn local_publishers_go_on_beside_a_bridge_whose_other_end_stands_still_and_what_is_lost_is_counted() {
    let router = Router::start();
    let (from, to) = (Host::with("a", options().capacity_bytes(64 << 10)), Host::new("b"));
    let (sending, receiving) = (from.bridge(&router), to.bridge(&router));
    let mut subscriber = to.subscribe();
    sending.linked(1);
    receiving.process.stop();
    let mut publisher = from.group.publisher().unwrap();
    // Many times what the log holds.
    let mut published = 20_000;
    for number in 0..published {
        let _ = publisher.publish(&tick(number, 200)).unwrap();
    }
    receiving.process.resume();
    let ticker = move |publisher: &mut causeway::Publisher, number: u64| {
        _ = publisher.publish(&tick(number, 200)).unwrap()
    };
    let mut seen = Seen::default();
    eventually("what is published afterwards does not come", || {
        ticker(&mut publisher, published);
        published += 1;
        while let Ok(received) = subscriber.recv_timeout(Duration::from_millis(50)) {
            seen.take(received.message().expect("the subscriber is reliable").bytes);
        }
        seen.next == published
    });
    let lost = receiving.route("in", "a")["lost"].as_u64().unwrap();
    assert!(lost > 0, "the log held everything");
    assert_eq!(seen.received + lost, published, "sent {published}, received {}, lost {lost}", seen.received);
    assert!(receiving.route("in", "a")["last_error"].as_str().unwrap().contains("of host a are lost"));
    // After a while publishers wait for the bridge again, which begins at what the log has.
    std::thread::sleep(Duration::from_secs(11));
    for _ in 0..3 {
        ticker(&mut publisher, published);
        published += 1;
        eventually("nothing comes once the bridge is waited for again", || {
            while let Ok(received) = subscriber.recv_timeout(Duration::from_millis(50)) {
                seen.take(received.message().expect("the subscriber is reliable").bytes);
            }
            seen.next == published
        });
    }
}

#[test]
fn a_second_bridge_is_refused_by_the_group() {
    let router = Router::start();
    let (host, other) = (Host::new("a"), Host::new("b"));
    let (first, peer) = (host.bridge(&router), other.bridge(&router));
    first.linked(1);
    let (path, state) = (host.path(), host.folder.path().join("second"));
    let arguments = ["--group", &path, "--router", &router.endpoint(), "--export", GROUP];
    let second = Bridge::start(bridge_command("a2", &state, &arguments), &state);
    eventually("the second one is not refused", || {
        second.route("out", "")["last_error"]
            .as_str()
            .is_some_and(|why| why.contains("another bridge carries this group"))
    });
    // Once the first is gone, the second may.
    first.kill();
    eventually("the second one does not begin", || !host.group.report().unwrap().subscribers.is_empty());
    drop(peer);
}

#[test]
fn many_messages_of_many_lengths_come_whole() {
    let router = Router::start();
    let large = || options().capacity_bytes(32 << 20);
    let (from, to) = (Host::with("a", large()), Host::with("b", large()));
    // Publishers wait for the network: they publish more than the log holds.
    let endpoint = router.endpoint();
    let sending = from.bridge_with(&["--router", &endpoint, "--export", GROUP, "--patience", "60s"]);
    let receiving = to.bridge(&router);
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let lengths = [8, 100, 1000, 65_000, 70_000, 300_000, 4 << 20];
    let mut publisher = from.group.publisher().unwrap();
    for number in 0..70u64 {
        let _ = publisher.publish(&tick(number, lengths[number as usize % lengths.len()])).unwrap();
    }
    let seen = read_to(&mut subscriber, 70);
    assert_eq!(seen.received, 70);
    assert_eq!(receiving.route("in", "a")["lost"], 0);
}

#[test]
fn a_message_that_the_other_log_cannot_take_is_lost_and_says_why() {
    let router = Router::start();
    let [from, to] = [("a", 8 << 20), ("b", 16 << 10)]
        .map(|(name, bytes)| Host::with(name, options().capacity_bytes(bytes)));
    let (sending, receiving) = (from.bridge(&router), to.telling_bridge(&router));
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let mut publisher = from.group.publisher().unwrap();
    // One that is sent, and one that is fetched.
    for (number, bytes) in [(0, 100), (1, 100_000), (2, 100), (3, 1_200_000)] {
        let _ = publisher.publish(&tick(number, bytes)).unwrap();
    }
    let seen = read_until(&mut subscriber, "the loss is not told", |seen| {
        seen.get(&LOSSES).is_some_and(|seen| seen.lost == 2)
    });
    let route = receiving.route("in", "a");
    assert_eq!((seen[&0].received, &route["lost"]), (2, &2.into()), "{route}");
    let why = route["last_error"].as_str().unwrap();
    assert!(why.contains("number 3") && why.contains("as large as that of the other"), "{why}");
}

/// A thread that is woken costs more than all that is done to a message: before, one read the log and woke the one that writes.
#[test]
fn a_message_that_comes_alone_wakes_the_thread_of_the_sending_bridge_that_writes_to_the_link_and_no_other() {
    let router = Router::start();
    let (from, to) = (Host::new("a"), Host::new("b"));
    let sending = from.bridge_with(&["--router", &router.endpoint(), "--export", GROUP]);
    let _receiving = to.bridge_with(&["--router", &router.endpoint(), "--import", GROUP]);
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let mut publisher = from.group.publisher().unwrap();
    let mut next = |number: u64| {
        let _ = publisher.publish(&tick(number, 64)).unwrap();
        assert!(matches!(subscriber.recv_timeout(Duration::from_secs(60)), Ok(Received::Message(_))));
    };
    let sleeps = || {
        let (writers, others): (Vec<_>, Vec<_>) =
            proc::sleeps(sending.process.pid()).into_iter().partition(|(name, _)| name.starts_with("tx-"));
        [writers, others].map(|of| of.into_iter().map(|(_, sleeps)| sleeps).sum::<u64>())
    };
    (0..100).for_each(&mut next);
    let (before, messages) = (sleeps(), 2000);
    (100..100 + messages).for_each(&mut next);
    let after = sleeps();
    let [writers, others] = [0, 1].map(|of: usize| after[of] - before[of]);
    eprintln!("{messages} messages: {writers} sleeps of the thread that writes, {others} of all others");
    // Others have acknowledgements to take, and timers.
    assert!(writers > messages / 2 && others < messages / 2, "{writers}, {others}");
}

/// A message for each round trip would be as many acknowledgements.
#[test]
fn over_a_late_path_a_window_is_on_its_way_and_not_one_message_for_each_round_trip() {
    let router = Router::late(Duration::from_millis(40));
    let [from, to] = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(16 << 20)));
    // Publishers wait for the network: they publish more than the log holds.
    let endpoint = router.endpoint();
    let sending = from.bridge_with(&["--router", &endpoint, "--export", GROUP, "--patience", "60s"]);
    let receiving = to.bridge(&router);
    let mut subscriber = to.subscribe();
    sending.linked(1);
    let (session, keys) = (plain_zenoh(&router), Realm::new(REALM).group(GROUP));
    let heard = listen(&session, &keys, keys.ack("a"));
    let messages = 20_000;
    let mut publisher = from.group.publisher().unwrap();
    let publish = move || {
        (0..messages).for_each(|number| _ = publisher.publish(&tick(number, 1000)).unwrap());
        // One that is fetched in parts, and one behind it.
        let _ = publisher.publish(&tick(messages, 3 << 20)).unwrap();
        let _ = publisher.publish(&tick(messages + 1, 8)).unwrap();
    };
    let publishing = std::thread::spawn(publish);
    let mut acknowledged = BTreeSet::new();
    let seen = read_until(&mut subscriber, "not everything has come", |seen| {
        while let Ok(Some(sample)) = heard.try_recv() {
            if let Some(Packet::Ack { next, .. }) = Packet::parse(&sample.payload().to_bytes()) {
                acknowledged.insert(next);
            }
        }
        seen.get(&0).is_some_and(|seen| seen.next == messages + 2)
    });
    publishing.join().unwrap();
    assert_eq!((seen[&0].received, &receiving.route("in", "a")["lost"]), (messages + 2, &0.into()));
    eprintln!("{} acknowledgements", acknowledged.len());
    assert!(acknowledged.len() > 2 && acknowledged.len() < messages as usize / 10, "{acknowledged:?}");
}

/// The bridge asks the server for the log that comes next, and the server does not answer.
#[test]
fn a_log_that_goes_on_in_another_one_while_its_server_stands_still_stops_no_other_group() {
    let (from, to) = (Host::new("a"), Host::new("b"));
    let [at, other_at] = [&from, &to].map(|host| host.folder.path().join(OTHER));
    let this = "a_log_that_goes_on_in_another_one_while_its_server_stands_still_stops_no_other_group";
    let (server, frozen) = served_apart(this, &at);
    let other = serve(&other_at);
    let router = Router::start();
    let endpoint = router.endpoint();
    let [sending, _receiving] =
        [(&from, &at, "--export"), (&to, &other_at, "--import")].map(|(host, at, list)| {
            let at = at.to_str().unwrap();
            host.bridge_with(&["--router", &endpoint, "--group", at, list, GROUP, list, OTHER])
        });
    let route = || route_of_other(&sending);
    sending.linked(1);
    eventually("the other group is not linked", || route()["peers"] == 1);
    let (mut subscriber, mut of_other) =
        (to.subscribe(), other.subscribe(SubscribeOptions::new(Policy::Reliable)).unwrap());
    let mut publisher = from.group.publisher().unwrap();
    let mut first = frozen.publisher().unwrap();
    let _ = first.publish(&tick(0, 8)).unwrap();
    read_until(&mut of_other, "the first message has not come", |seen| seen.contains_key(&0));
    let session = plain_zenoh(&router);
    let realm = Realm::new(REALM);
    let presence = session.liveliness().declare_subscriber(realm.host("a")).wait().unwrap();
    // The log ends here, and the bridge finds that when the server stands still, and before another beat is due.
    let beats = session.declare_subscriber(realm.group(OTHER).beat("a")).wait().unwrap();
    (0..2).for_each(|_| _ = beats.recv_timeout(Duration::from_secs(60)).unwrap().expect("a beat"));
    sending.process.stop();
    let _ = first.publish(&tick(1, 8)).unwrap();
    let mut second = frozen.publisher().unwrap();
    let _ = second.publish(&tick(2, 8)).unwrap();
    server.stop();
    sending.process.resume();
    eventually("it is not said", || {
        route()["last_error"].as_str().is_some_and(|why| why.contains("does not answer"))
    });
    // One after the other, and none of them waits for that server, nor does the link.
    for number in 0..50 {
        let _ = publisher.publish(&tick(number, 8)).unwrap();
        let _ = subscriber.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    while let Ok(Some(sample)) = presence.try_recv() {
        assert_eq!(sample.kind(), SampleKind::Put, "the link stood still for as long as the lease");
    }
    server.resume();
    let seen = read_to(&mut of_other, 3);
    assert_eq!((seen.received, seen.lost), (2, 0));
    let received = &frozen.report().unwrap().subscribers[0].received;
    assert_eq!(*received, 3, "the bridge has begun anew");
}

/// What is in the log that comes next went with the server.
#[test]
fn what_is_left_in_a_log_crosses_though_its_server_was_killed_when_it_had_ended() {
    let (from, to) = (Host::new("a"), Host::new("b"));
    let [at, other_at] = [&from, &to].map(|host| host.folder.path().join(OTHER));
    let this = "what_is_left_in_a_log_crosses_though_its_server_was_killed_when_it_had_ended";
    let (mut server, group) = served_apart(this, &at);
    let other = serve(&other_at);
    let router = Router::start();
    let endpoint = router.endpoint();
    let [sending, _receiving] =
        [(&from, &at, "--export"), (&to, &other_at, "--import")].map(|(host, at, list)| {
            host.bridge_with(&["--router", &endpoint, "--group", at.to_str().unwrap(), list, OTHER])
        });
    let mut subscriber = other.subscribe(SubscribeOptions::new(Policy::Reliable)).unwrap();
    eventually("the group is not linked", || route_of_other(&sending)["peers"] == 1);
    let mut first = group.publisher().unwrap();
    let _ = first.publish(&tick(0, 8)).unwrap();
    read_until(&mut subscriber, "the first message has not come", |seen| seen.contains_key(&0));
    sending.process.stop();
    let _ = first.publish(&tick(1, 8)).unwrap();
    let _second = group.publisher().unwrap();
    server.kill();
    sending.process.resume();
    let seen = read_to(&mut subscriber, 2);
    assert_eq!((seen.received, seen.lost), (1, 0));
}

const OTHER: &str = "apart";

fn route_of_other(bridge: &Bridge) -> Value {
    let stat = bridge.stat();
    stat["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|of| of["name"] == OTHER)
        .cloned()
        .unwrap_or_default()
}

fn serve(path: &Path) -> Group {
    let group = Group::create(OTHER, options()).unwrap();
    group.serve_at(path).unwrap();
    group
}

/// A group with a server that is another process: this test, which is told to serve.
fn served_apart(this: &str, path: &Path) -> (Running, Group) {
    const SERVES: &str = "CAUSEWAY_BRIDGE_SERVES";
    if let Some(path) = std::env::var_os(SERVES) {
        let _group = serve(path.as_ref());
        loop {
            std::thread::park();
        }
    }
    let server = Running::start(rerun(module_path!(), this).env(SERVES, path));
    (server, eventually_some("the group is not served", || Group::join(path).ok()))
}
