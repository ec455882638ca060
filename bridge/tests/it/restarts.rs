//! Processes that are killed: each message comes once, or is counted.

use std::time::Duration;

use crate::support::{Bridge, Host, LOSSES, Router, Ticker, eventually, options, read_to, read_until};

/// Kills something `rounds` times while a ticker runs, and demands all of its numbers at the other end, or a count.
fn survives(
    mut router: Router,
    rounds: usize,
    may_lose: bool,
    mut kill: impl FnMut(usize, &mut Router, &mut [Option<Bridge>; 2], &[Host; 2]),
) {
    // However slow the machine is, the log holds what is published while one is away.
    let hosts = ["a", "b"].map(|name| Host::with(name, options().capacity_bytes(64 << 20)));
    let mut bridges = hosts.each_ref().map(|host| Some(host.telling_bridge(&router)));
    let mut subscriber = hosts[1].subscribe();
    bridges[0].as_ref().unwrap().linked(1);
    // And has heard so: until then it is there for the first time.
    eventually("the receiver is not linked", || bridges[1].as_ref().unwrap().route("in", "a")["peers"] == 1);
    let ticker = Ticker::start(hosts[0].group.publisher().unwrap(), 0, Duration::from_micros(200), 40);
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(100));
        kill(round, &mut router, &mut bridges, &hosts);
        for (host, bridge) in hosts.iter().zip(&mut bridges) {
            bridge.get_or_insert_with(|| host.telling_bridge(&router));
        }
        let [sending, receiving] = bridges.each_ref().map(|bridge| bridge.as_ref().unwrap());
        eventually("the bridges do not find each other again", || {
            sending.route("out", "")["peers"] == 1
                && receiving.route("in", "a")["sent"].as_u64().unwrap_or(0) > 0
        });
    }
    let published = ticker.stop();
    let seen = read_to(&mut subscriber, published);
    let (received, lost) = (seen.received, seen.lost);
    eprintln!("{published} published, {received} received, {lost} lost");
    assert_eq!(received + lost, published);
    // What lay in the logs before the present one is gone with the sender that kept them.
    assert!(may_lose || lost == 0);
}

#[test]
fn a_receiving_bridge_that_is_killed_passes_nothing_twice_and_misses_nothing() {
    survives(Router::start(), 8, false, |_, _, bridges, _| bridges[1].take().unwrap().kill());
}

#[test]
fn a_sending_bridge_that_is_killed_sends_nothing_twice_and_forgets_nothing() {
    survives(Router::start(), 8, true, |_, _, bridges, _| bridges[0].take().unwrap().kill());
}

#[test]
fn a_router_that_is_killed_loses_nothing() {
    survives(Router::start(), 4, false, |_, router, _, _| router.restart());
}

/// For longer than the lease the first time: then each end has given the other up.
#[test]
fn a_late_path_that_stands_still_or_is_cut_in_the_midst_of_messages_loses_nothing() {
    survives(Router::late(Duration::from_millis(40)), 4, false, |round, router, _, _| {
        let relay = router.relay.as_ref().unwrap();
        relay.hold(true);
        std::thread::sleep(Duration::from_millis(if round == 0 { 4000 } else { 300 }));
        // The last one stands still only.
        relay.cut(round < 3);
        relay.hold(false);
        std::thread::sleep(Duration::from_millis(300));
        relay.cut(false);
    });
}

#[test]
fn a_ring_of_three_hosts_and_routers_with_twenty_restarts_has_no_duplicate() {
    let ports = [(); 3].map(|()| crate::support::free_port());
    let routers: Vec<_> = (0..3).map(|at| Router::start_at(ports[at], &[ports[(at + 1) % 3]])).collect();
    let hosts = ["a", "b", "c"].map(Host::new);
    let mut bridges: Vec<_> = (0..3).map(|at| hosts[at].telling_bridge(&routers[at])).collect();
    let mut subscribers = hosts.each_ref().map(Host::subscribe);
    bridges.iter().for_each(|bridge| bridge.linked(2));
    let tickers: Vec<_> = (0..3)
        .map(|topic| {
            let publisher = hosts[topic].group.publisher().unwrap();
            Ticker::start(publisher, topic as u32, Duration::from_micros(500), 24)
        })
        .collect();
    for round in 0..20 {
        let at = round % 3;
        bridges[at].process.kill();
        bridges[at] = hosts[at].telling_bridge(&routers[at]);
        bridges[at].linked(2);
        for other in (0..3).filter(|other| *other != at) {
            bridges[other].linked(2);
        }
    }
    let published: Vec<u64> = tickers.into_iter().map(Ticker::stop).collect();
    for (host, subscriber) in hosts.iter().zip(&mut subscribers) {
        let seen = read_until(subscriber, "not everything has come", |seen| {
            (0..3).all(|topic| seen.get(&topic).is_some_and(|seen| seen.next == published[topic as usize]))
        });
        let received: Vec<u64> = (0..3).map(|topic| seen[&topic].received).collect();
        let lost = seen.get(&LOSSES).map_or(0, |seen| seen.lost);
        eprintln!("{}: {published:?} published, {received:?} received, {lost} lost", host.name);
        // What is lost with a log may have come from others, so that more is counted than published.
        assert!(received.iter().sum::<u64>() + lost >= published.iter().sum(), "at {}", host.name);
    }
}
