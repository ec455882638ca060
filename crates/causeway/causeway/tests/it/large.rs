//! Payloads by reference: every size, both trusts, subscribers that keep them, ends that die.

use std::time::Duration;

use crate::common::limits::in_a_process_of_its_own;
use crate::common::{
    LONG, Peer, Role, addresses, descriptors, eventually, eventually_seen, join, place, served,
};
use causeway::call::{Client, ServeOptions};
use causeway::{
    Access, Error, Group, GroupOptions, LargeMessage, LargePublisher, LargeSubscriber, Policy, PoolOptions,
    PublishTimeoutError, Received, RecvTimeoutError, Refusal, SealedBuffer, SealedPayload, SubscribeOptions,
    TryPublishError, TryRecvError,
};

const KIB: usize = 1 << 10;
/// 64 KiB to 64 MiB.
const SIZES: [usize; 6] = [64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16384 * KIB, 65536 * KIB];

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[
    ("receive-sizes", |socket, _| {
        let mut subscriber = join(socket).large_subscribe(Policy::Reliable).unwrap();
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            check(&next(&mut subscriber), bytes, seed as u64);
        }
        assert!(matches!(subscriber.recv(), Err(Error::Disconnected)));
    }),
    ("keep-payloads", |socket, number| {
        let mut subscriber = join(socket).large_subscribe(Policy::Reliable).unwrap();
        let _kept: Vec<_> = (0..number).map(|_| next(&mut subscriber)).collect();
        std::thread::sleep(LONG);
    }),
    ("serve-large", |socket, number| {
        let group = Group::create("served", options()).unwrap();
        let kind = |pool: PoolOptions| if number == 1 { pool.sealed() } else { pool.reused() };
        let mut publisher = group.large_publisher(kind(PoolOptions::new(64 * KIB).files(8))).unwrap();
        group.serve_at(socket).unwrap();
        assert!(publisher.get_mut().wait_for_subscribers(1, Some(LONG)).unwrap());
        (0..4).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
        std::thread::sleep(LONG);
    }),
    ("publish-many", |socket, number| {
        let mut publisher = join(socket).large_publisher(PoolOptions::new(64 * KIB).files(3)).unwrap();
        // Nobody waits for a subscriber that comes later, and a group whose publishers have left has ended.
        assert!(publisher.get_mut().wait_for_subscribers(1, Some(LONG)).unwrap());
        (0..number).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
    }),
    ("leave-nothing", |_, _| leave_nothing()),
];

fn options() -> GroupOptions {
    GroupOptions::new().capacity_bytes(16 << 10).large_payloads()
}

/// Both kinds of pool.
fn kinds(payload_bytes_max: usize, files: u32) -> [PoolOptions; 2] {
    let pool = PoolOptions::new(payload_bytes_max).files(files);
    [pool.clone().reused(), pool.sealed()]
}

fn word(seed: u64, index: u64) -> u64 {
    (seed << 40 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Publishes a payload of words that follow from `seed`.
fn send(publisher: &mut LargePublisher, bytes: usize, seed: u64) {
    let mut loan = publisher.loan_timeout(bytes, LONG).unwrap();
    for (index, chunk) in loan.chunks_exact_mut(8).enumerate() {
        chunk.copy_from_slice(&word(seed, index as u64).to_ne_bytes());
    }
    loan.publish().unwrap();
}

/// Fails unless this is the payload of [`send`].
#[track_caller]
fn check(message: &LargeMessage, bytes: usize, seed: u64) {
    assert_eq!(message.payload.payload_bytes(), bytes);
    let (mut index, mut wrong) = (0, 0);
    message
        .payload
        .for_each_word(|found| {
            wrong += u64::from(found != word(seed, index));
            index += 1;
        })
        .unwrap();
    assert_eq!((index, wrong), (bytes as u64 / 8, 0), "payload {seed}");
}

#[track_caller]
fn next(subscriber: &mut LargeSubscriber) -> LargeMessage {
    match subscriber.recv_timeout(LONG).unwrap() {
        Received::Message(message) => message,
        lost => panic!("{lost:?}"),
    }
}

/// A group that only this process can reach.
fn group() -> Group {
    crate::common::group(options())
}

/// A group with one publisher and one subscriber.
fn trio(pool: PoolOptions, options: impl Into<SubscribeOptions>) -> (Group, LargePublisher, LargeSubscriber) {
    let group = group();
    let (publisher, subscriber) =
        (group.large_publisher(pool).unwrap(), group.large_subscribe(options).unwrap());
    (group, publisher, subscriber)
}

/// A payload can be read by other threads.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<causeway::LargePayload>();
};

#[test]
fn payloads_of_every_size_arrive_in_another_process_with_either_trust() {
    for (access, is_sealed) in [(Access::SameUser, false), (Access::AnyUser, true)] {
        let (_dir, socket, group) = served(options().subscribers(access));
        let mut publisher = group.large_publisher(PoolOptions::new(SIZES[5]).files(2)).unwrap();
        assert_eq!(publisher.pool_report().is_sealed, is_sealed);
        let mut peer = Peer::start("receive-sizes", &socket, 0);
        assert!(publisher.get_mut().wait_for_subscribers(1, Some(LONG)).unwrap());
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            send(&mut publisher, bytes, seed as u64);
        }
        // The server hands out the files: it stays until the last one was fetched.
        eventually("the last payload is received", || {
            let report = group.report().unwrap();
            report.subscribers.iter().all(|subscriber| subscriber.received == SIZES.len() as u64)
        });
        drop((publisher, group));
        peer.succeed();
    }
}

#[test]
fn a_pool_is_used_again_as_soon_as_its_subscribers_are_done() {
    let group = group();
    let mut publisher = group.large_publisher(PoolOptions::new(64 * KIB).reused()).unwrap();
    let mut subscribers = [Policy::Reliable, Policy::DemoteAfter(LONG), Policy::Lossy]
        .map(|policy| group.large_subscribe(policy).unwrap());
    for seed in 0..100 {
        send(&mut publisher, 64 * KIB, seed);
        subscribers.iter_mut().for_each(|subscriber| check(&next(subscriber), 64 * KIB, seed));
    }
    let report = publisher.pool_report();
    assert_eq!((report.made, report.reused), (1, 99));
    // One that holds a payload keeps one file, and the others are used.
    send(&mut publisher, 64 * KIB, 100);
    let held = next(&mut subscribers[0]);
    for seed in 101..200 {
        send(&mut publisher, 64 * KIB, seed);
        check(&next(&mut subscribers[0]), 64 * KIB, seed);
        check(&next(&mut subscribers[1]), 64 * KIB, seed - 1);
    }
    check(&held, 64 * KIB, 100);
    assert!(publisher.pool_report().made <= 3, "{:?}", publisher.pool_report());
}

#[test]
fn each_sealed_payload_is_a_file_of_its_own_and_no_more_exist_than_the_pool_allows() {
    let (_group, mut publisher, mut subscriber) =
        trio(PoolOptions::new(64 * KIB).files(4).sealed(), Policy::Reliable);
    for seed in 0..50 {
        send(&mut publisher, 64 * KIB, seed);
        let message = next(&mut subscriber);
        check(&message, 64 * KIB, seed);
        let slice = message.payload.as_slice().expect("it is sealed");
        assert_eq!(slice[..8], word(seed, 0).to_ne_bytes());
    }
    let report = publisher.pool_report();
    assert_eq!((report.made, report.reused), (50, 0));
}

#[test]
fn an_exhausted_pool_is_full_until_a_payload_is_dropped() {
    for pool in kinds(64 * KIB, 4) {
        let (_group, mut publisher, mut subscriber) = trio(pool, Policy::Reliable);
        (0..4).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
        assert!(matches!(publisher.try_loan(1), Err(TryPublishError::Full)), "nothing was received");
        let timeout = Duration::from_millis(30);
        let first = next(&mut subscriber);
        assert!(matches!(publisher.loan_timeout(1, timeout), Err(PublishTimeoutError::Timeout)), "held");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| send(&mut publisher, 64 * KIB, 4));
            check(&first, 64 * KIB, 0);
            drop(first);
            waiting.join().unwrap();
        });
        (1..5).for_each(|seed| check(&next(&mut subscriber), 64 * KIB, seed));
    }
}

#[test]
fn a_subscriber_that_holds_too_many_payloads_is_told_and_loses_nothing() {
    let most = 16;
    for pool in kinds(64, 20) {
        let (_group, mut publisher, mut subscriber) = trio(pool, Policy::Reliable);
        (0..20).for_each(|seed| send(&mut publisher, 64, seed));
        let mut held: Vec<_> = (0..most).map(|_| next(&mut subscriber)).collect();
        for _ in 0..3 {
            assert!(matches!(subscriber.try_recv(), Err(TryRecvError::Failed(Error::TooManyReferences))));
        }
        for seed in most..20 {
            drop(held.remove(0));
            held.push(next(&mut subscriber));
            check(held.last().unwrap(), 64, seed);
        }
    }
}

#[test]
fn a_subscriber_that_keeps_payloads_beyond_its_deadline_is_waited_for_no_more() {
    let group = group();
    let mut publisher = group.large_publisher(PoolOptions::new(64 * KIB).files(2).reused()).unwrap();
    let mut late = group.large_subscribe(Policy::DemoteAfter(Duration::from_millis(20))).unwrap();
    let mut disconnected = group.large_subscribe(Policy::DisconnectAfter(Duration::from_millis(20))).unwrap();
    (0..2).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
    let held = next(&mut late);
    check(&held, 64 * KIB, 0);
    // Returns although nobody releases anything.
    (2..6).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
    assert!(matches!(held.payload.check_intact(), Err(Error::Overwritten)));
    assert!(matches!(held.payload.copy_to(&mut [0; 8]), Err(Error::Overwritten)));
    drop(held);
    let end = std::iter::repeat_with(|| disconnected.recv().err()).find_map(|error| error).unwrap();
    assert!(matches!(end, Error::MissedDeadline { .. }), "{end}");
    // What was overwritten before it was received is a loss; what is there arrives.
    let mut outcomes = Vec::new();
    while let Ok(received) = late.try_recv() {
        outcomes.push(match received {
            Received::Message(message) => i64::from(message.sequence),
            Received::Lost { messages, .. } => -(messages as i64),
            Received::Demoted => continue,
        });
    }
    assert!(outcomes.len() == 5 && outcomes.last() == Some(&5), "{outcomes:?}");
    let lost = outcomes.iter().filter(|outcome| **outcome == -1).count();
    assert!(lost > 0 && late.lost_payloads() == lost as u64, "{outcomes:?}");
}

#[test]
fn a_lossy_subscriber_delays_nobody_and_is_told_what_it_lost() {
    for pool in kinds(64 * KIB, 4) {
        let group = group();
        let mut publisher = group.large_publisher(pool).unwrap();
        let mut lossy = group.large_subscribe(Policy::Lossy).unwrap();
        let (mut held, mut received, mut lost) = (Vec::new(), 0, 0);
        // With one publisher, each message tells of all that was lost since the one before it.
        let mut told = 0;
        let mut check_told = |message: &LargeMessage, lost: u64| {
            let since = u32::try_from(lost - std::mem::replace(&mut told, lost)).unwrap();
            assert_eq!(message.lost_before, Some(since));
        };
        for seed in 0..600 {
            send(&mut publisher, 64 * KIB, seed);
            if seed % 3 == 0 {
                match lossy.recv_timeout(LONG) {
                    Ok(Received::Message(message)) => {
                        check_told(&message, lost);
                        received += 1;
                        held.push(message);
                    }
                    Ok(Received::Lost { messages, .. }) => lost += messages,
                    // It holds as many as it may.
                    Err(RecvTimeoutError::Failed(Error::TooManyReferences)) => held.clear(),
                    other => panic!("{other:?}"),
                }
            }
        }
        held.clear();
        while let Ok(rest) = lossy.try_recv() {
            match rest {
                Received::Message(message) => {
                    check_told(&message, lost);
                    received += 1;
                }
                Received::Lost { messages, .. } => lost += messages,
                Received::Demoted => {}
            }
        }
        assert_eq!(received + lost, 600, "every message is received or counted");
        assert_eq!(lossy.get_mut().lost_messages(), lost);
        assert!(received > 0 && lost > 0, "{received} received, {lost} lost");
    }
}

#[test]
fn lossy_subscribers_that_keep_every_sealed_payload_leave_enough_for_the_others() {
    let group = group();
    let mut publisher = group.large_publisher(PoolOptions::new(64 * KIB).files(8).sealed()).unwrap();
    let mut honest = group.large_subscribe(Policy::Reliable).unwrap();
    let mut hoarders: Vec<_> = (0..4).map(|_| group.large_subscribe(Policy::Lossy).unwrap()).collect();
    let mut hoard = Vec::new();
    for seed in 0..100 {
        send(&mut publisher, 64 * KIB, seed);
        check(&next(&mut honest), 64 * KIB, seed);
        for hoarder in &mut hoarders {
            hoard.extend(hoarder.try_recv().ok());
        }
    }
    assert!(hoard.len() >= 4);
}

#[test]
fn a_subscriber_that_begins_with_the_oldest_message_is_told_which_payloads_are_gone() {
    for pool in kinds(64 * KIB, 2) {
        let group = group();
        let mut publisher = group.large_publisher(pool).unwrap();
        (0..10).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
        let mut subscriber =
            group.large_subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
        let (mut arrived, mut lost) = (0, 0);
        while let Ok(received) = subscriber.try_recv() {
            match received {
                Received::Message(message) => {
                    check(&message, 64 * KIB, u64::from(message.sequence));
                    arrived += 1;
                }
                Received::Lost { messages, .. } => lost += messages,
                Received::Demoted => {}
            }
        }
        assert!(arrived >= 1 && arrived + lost == 10, "{arrived} arrived, {lost} lost");
    }
}

#[test]
fn the_files_of_a_killed_subscriber_are_free() {
    for pool in kinds(64 * KIB, 8) {
        let (_dir, socket, group) = served(options());
        let mut publisher = group.large_publisher(pool).unwrap();
        let mut peer = Peer::start("keep-payloads", &socket, 2);
        assert!(publisher.get_mut().wait_for_subscribers(1, Some(LONG)).unwrap());
        (0..8).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
        eventually("the subscriber does not receive", || {
            group.report().unwrap().subscribers.first().is_some_and(|subscriber| subscriber.received >= 2)
        });
        assert!(matches!(publisher.try_loan(1), Err(TryPublishError::Full)));
        peer.kill();
        (8..24).for_each(|seed| send(&mut publisher, 64 * KIB, seed));
    }
}

#[test]
fn payloads_of_a_killed_publisher_stay_readable_and_those_not_fetched_yet_are_lost() {
    for kind in [0, 1] {
        let (_dir, socket) = place();
        let mut peer = Peer::start("serve-large", &socket, kind);
        let mut subscriber = join(&socket).large_subscribe(Policy::Reliable).unwrap();
        let held = [next(&mut subscriber), next(&mut subscriber)];
        peer.kill();
        let mut lost = 0;
        loop {
            match subscriber.recv_timeout(LONG) {
                Ok(Received::Message(message)) => check(&message, 64 * KIB, u64::from(message.sequence)),
                Ok(Received::Lost { messages, .. }) => lost += messages,
                Err(RecvTimeoutError::Disconnected) => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(lost <= 2);
        drop(subscriber);
        check(&held[0], 64 * KIB, 0);
        check(&held[1], 64 * KIB, 1);
    }
}

#[test]
fn publishers_of_several_processes_and_of_this_one_share_a_group() {
    let (_dir, socket, group) = served(options().several_publishers().remote_publishers(2));
    let mut own = group.large_publisher(PoolOptions::new(64 * KIB).files(2)).unwrap();
    let mut peers = [60, 60].map(|count| Peer::start("publish-many", &socket, count));
    let mut subscriber =
        group.large_subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest().timeout(LONG)).unwrap();
    let mut expected = [0; 64];
    std::thread::scope(|scope| {
        scope.spawn(|| (0..60).for_each(|seed| send(&mut own, 64 * KIB, seed)));
        let mut lost = 0;
        while expected.iter().sum::<u64>() + lost < 180 {
            match subscriber.recv_timeout(LONG).unwrap() {
                Received::Message(message) => {
                    let sequence = u64::from(message.sequence);
                    // A publisher that takes the place of one that has left continues its numbers.
                    check(&message, 64 * KIB, sequence % 60);
                    assert!(expected[message.publisher as usize] + lost >= sequence);
                    expected[message.publisher as usize] += 1;
                }
                // Published before this subscriber was there.
                Received::Lost { messages, .. } => lost += messages,
                Received::Demoted => {}
            }
        }
    });
    peers.iter_mut().for_each(Peer::succeed);
}

#[test]
fn short_messages_and_payloads_share_one_order() {
    let group = group();
    let mut publisher = group.large_publisher(PoolOptions::new(64 * KIB)).unwrap();
    let mut subscriber =
        group.large_subscribe(SubscribeOptions::new(Policy::Reliable).topics([0, 7])).unwrap();
    publisher.get_mut().publish(b"short").unwrap();
    publisher.get_mut().publish_with_topic(9, b"unwanted").unwrap();
    let mut loan = publisher.loan(5).unwrap().with_topic(7);
    loan.copy_from_slice(b"large");
    loan.try_publish().unwrap();
    assert!(loan.try_publish().is_err() && loan.is_empty(), "it was published already");
    drop(loan);
    drop(publisher.loan(10).unwrap());
    publisher.get_mut().publish(b"last").unwrap();
    for (bytes, topic) in [(&b"short"[..], 0), (b"large", 7), (b"last", 0)] {
        let message = next(&mut subscriber);
        let mut copy = vec![0; 100];
        let length = message.payload.copy_to(&mut copy).unwrap();
        assert_eq!((&copy[..length], message.topic), (bytes, topic));
    }
    assert!(matches!(subscriber.try_recv(), Err(TryRecvError::Empty)));
}

#[test]
fn a_subscriber_that_sleeps_through_other_topics_keeps_no_files() {
    for pool in kinds(64 * KIB, 2) {
        let group = group();
        let mut publisher = group.large_publisher(pool).unwrap();
        let wanted = SubscribeOptions::new(Policy::Reliable).topics([7]);
        let mut subscriber = group.large_subscribe(wanted).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(next(&mut subscriber).topic, 7));
            for topic in [1; 30].into_iter().chain([7]) {
                publisher.loan_timeout(64, LONG).unwrap().with_topic(topic).publish().unwrap();
            }
        });
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let plain = Group::create("plain", GroupOptions::new()).unwrap();
    let pool = || PoolOptions::new(64);
    let is_other_type = |error| matches!(error, Error::Refused(Refusal::OtherType));
    assert!(is_other_type(plain.large_publisher(pool()).unwrap_err()));
    assert!(is_other_type(plain.large_subscribe(Policy::Lossy).unwrap_err()));
    // More memory than there is: an error, and the publisher goes on with what it can have.
    for pool in kinds(1 << 46, 2) {
        let mut greedy = group().large_publisher(pool).unwrap();
        for _ in 0..5 {
            let refused = greedy.loan(1 << 46).unwrap_err();
            assert!(matches!(refused, Error::Os(_) | Error::Refused(Refusal::Exhausted)), "{refused}");
        }
        if greedy.pool_report().is_sealed {
            drop(greedy.loan(64).unwrap());
        }
    }
    let group = group();
    assert!(is_other_type(group.publisher().unwrap_err()));
    for bad in [pool().files(0), pool().files(65), PoolOptions::new(0), PoolOptions::new(usize::MAX)] {
        assert!(matches!(group.large_publisher(bad), Err(Error::Invalid { .. })));
    }
    let mut publisher = group.large_publisher(pool()).unwrap();
    assert!(matches!(publisher.loan(0), Err(Error::Invalid { .. })));
    let too_long = publisher.loan(65).unwrap_err();
    assert!(matches!(too_long, Error::TooLong { payload_bytes: 65, limit_bytes: 64 }));
}

#[test]
fn a_pool_is_used_again_after_the_process_that_serves_is_gone() {
    let (_dir, socket, group) = served(options().remote_publishers(1));
    let mut peer = Peer::start("publish-many", &socket, 500);
    let mut subscriber =
        join(&socket).large_subscribe(SubscribeOptions::new(Policy::Reliable).timeout(LONG)).unwrap();
    let mut received = 0;
    let mut group = Some(group);
    loop {
        match subscriber.recv_timeout(LONG) {
            Ok(Received::Message(message)) => {
                check(&message, 64 * KIB, u64::from(message.sequence));
                received += 1;
                if received == 100 {
                    drop(group.take());
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            other => panic!("{other:?} after {received}"),
        }
    }
    assert!(received >= 400, "{received} received");
    peer.succeed();
}

#[test]
fn a_sealed_payload_travels_with_a_call_and_with_its_reply() {
    let (_dir, path) = place();
    let _server = ServeOptions::new()
        .descriptors(true)
        .serve(&path, |mut request| {
            let payload = SealedPayload::open(&request.descriptors.remove(0)).unwrap();
            let mut reply = SealedBuffer::new(payload.len()).unwrap();
            reply.iter_mut().zip(payload.iter().rev()).for_each(|(to, from)| *to = *from);
            let fd = reply.seal().unwrap();
            let _ = request.responder.reply_with_descriptors(b"", &[std::os::fd::AsFd::as_fd(&fd)]);
        })
        .unwrap();
    let mut client = Client::connect(&path).unwrap();
    let mut buffer = SealedBuffer::new(100_000).unwrap();
    buffer.iter_mut().zip(0..).for_each(|(byte, index): (&mut u8, u32)| *byte = index as u8);
    let fd = buffer.seal().unwrap();
    let call = client.begin_with_descriptors(b"", &[std::os::fd::AsFd::as_fd(&fd)], Some(LONG)).unwrap();
    let reply = client.wait(call).unwrap();
    let payload = SealedPayload::open(&reply.descriptors[0]).unwrap();
    assert!(payload.iter().rev().zip(0..).all(|(byte, index): (&u8, u32)| *byte == index as u8));
    assert!(matches!(SealedBuffer::new(0), Err(Error::Invalid { .. })));
}

#[test]
fn no_descriptor_and_no_mapping_is_left() {
    in_a_process_of_its_own("leave-nothing", 0);
}

fn leave_nothing() {
    let round = || {
        for pool in kinds(64 * KIB, 8) {
            let (group, mut publisher, mut subscriber) = trio(pool, Policy::Reliable);
            for seed in 0..20 {
                send(&mut publisher, 64 * KIB, seed);
                check(&next(&mut subscriber), 64 * KIB, seed);
            }
            send(&mut publisher, 64 * KIB, 20);
            let held = next(&mut subscriber);
            send(&mut publisher, 64 * KIB, 21);
            drop((publisher, group, subscriber));
            check(&held, 64 * KIB, 20);
        }
    };
    round();
    let belongings = || (descriptors(), addresses("causeway-payload"));
    let before = belongings();
    (0..10).for_each(|_| round());
    // Threads that close sockets may need a moment.
    let after = eventually_seen("nothing is left", belongings, |after| *after <= before);
    assert_eq!(after.1, 0, "mappings of payloads");
}
