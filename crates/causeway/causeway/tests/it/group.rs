//! What a group promises its publishers and subscribers, within one process.

use std::time::{Duration, Instant};

use crate::common::limits::allow_many_descriptors;
use crate::common::{LONG, Rng, eventually, group, is_the_end, kinds, next, nothing, small, taken, trio};
use causeway::{
    Error, Group, Policy, Received, Refusal, SubscribeOptions, Subscriber, TryPublishError, TryRecvError,
};

#[test]
fn every_subscriber_gets_every_message_in_one_order() {
    let group = group(small().several_publishers());
    let mut publishers = [group.publisher().unwrap(), group.publisher().unwrap()];
    let mut subscribers: Vec<_> = (0..3).map(|_| group.subscribe(Policy::Reliable).unwrap()).collect();
    for number in 0..1000u32 {
        let publisher = &mut publishers[number as usize % 2];
        publisher.try_publish(&number.to_le_bytes()).unwrap();
        for subscriber in &mut subscribers {
            let message = taken(subscriber);
            assert_eq!(message.bytes, number.to_le_bytes());
            assert_eq!((message.publisher, message.sequence), ((number % 2) as u8, number / 2));
        }
    }
}

#[test]
fn payloads_from_nothing_to_a_quarter_of_the_capacity_arrive_whole() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        assert_eq!(publisher.payload_bytes_max(), 1024);
        for length in (0..=1024).chain([0, 1024, 1023]) {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            publisher.try_publish(&payload).unwrap();
            assert_eq!(next(&mut subscriber), payload);
        }
        let refused = publisher.publish(&[0; 1025]).unwrap_err();
        assert!(matches!(refused, Error::TooLong { payload_bytes: 1025, limit_bytes: 1024 }), "{refused:?}");
    }
}

#[test]
fn a_full_log_refuses_and_no_subscriber_sees_what_was_refused() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        let mut accepted = 0u32;
        while publisher.try_publish(&accepted.to_le_bytes()).is_ok() {
            accepted += 1;
        }
        assert!(accepted >= 4096 / 64 - 1, "only {accepted} messages fit");
        assert!(matches!(publisher.try_publish(b"refused"), Err(TryPublishError::Full)));
        for expected in 0..accepted {
            assert_eq!(next(&mut subscriber), expected.to_le_bytes());
        }
        nothing(&mut subscriber);
        publisher.try_publish(b"again").unwrap();
        assert_eq!(next(&mut subscriber), b"again");
    }
}

#[test]
fn a_publisher_that_joins_late_waits_for_subscribers_that_were_there_before() {
    for _ in 0..200 {
        let group = group(small().several_publishers());
        let mut subscribers =
            [group.subscribe(Policy::Reliable).unwrap(), group.subscribe(Policy::Reliable).unwrap()];
        let mut publisher = group.publisher().unwrap();
        let accepted = (0..1000).take_while(|_| publisher.try_publish(&[0; 900]).is_ok()).count();
        assert!(accepted < 5, "{accepted} messages of 900 bytes in a log of 4096");
        for subscriber in &mut subscribers {
            taken(subscriber);
        }
    }
}

#[test]
fn a_loan_is_written_in_place_and_one_that_is_dropped_publishes_nothing() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        for round in 0..200u8 {
            drop(publisher.try_loan(300).unwrap());
            let mut loan = publisher.try_loan(300).unwrap().with_topic(7);
            loan.fill(round);
            loan.commit().unwrap();
            let view = subscriber.try_recv_in_place().unwrap().message().unwrap();
            assert_eq!((view.payload_bytes(), view.topic()), (300, 7));
            let mut bytes = [0; 300];
            assert_eq!(view.copy_to(&mut bytes), 300);
            assert!(view.finish());
            assert_eq!(bytes, [round; 300]);
        }
    }
}

#[test]
fn loans_that_are_dropped_again_and_again_do_not_fill_a_log_that_is_read() {
    for options in kinds() {
        let (_group, mut publisher, mut subscriber) = trio(options, Policy::Reliable);
        for round in 0..100 {
            drop(publisher.try_loan(900).unwrap_or_else(|error| panic!("round {round}: {error}")));
            nothing(&mut subscriber);
        }
        // And one that waits for space is woken by a subscriber that finds nothing but padding.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                for _ in 0..20 {
                    drop(publisher.loan_timeout(900, LONG).unwrap());
                }
                publisher.publish_timeout(b"end", LONG).unwrap()
            });
            assert_eq!(next(&mut subscriber), b"end");
            waiting.join().unwrap();
        });
    }
}

#[test]
fn a_subscriber_that_only_checks_its_health_does_not_keep_the_space_of_dropped_loans() {
    let (_group, mut publisher, mut subscriber) = trio(small().several_publishers(), Policy::Reliable);
    for _ in 0..100 {
        drop(publisher.try_loan(900).unwrap());
        assert_eq!(subscriber.health().unwrap().unfinished_by, None);
        nothing(&mut subscriber);
    }
}

#[test]
fn a_lossy_subscriber_blocks_no_publisher_and_is_told_exactly_what_it_lost() {
    for options in kinds() {
        let (group, mut publisher, mut subscriber) = trio(options, Policy::Lossy);
        let (mut expected, mut lost) = (0u64, 0);
        for round in 1..=50u64 {
            for number in (round - 1) * 100..round * 100 {
                publisher.try_publish(&number.to_le_bytes()).unwrap();
            }
            loop {
                match subscriber.try_recv() {
                    Ok(Received::Message(message)) => {
                        assert_eq!(message.bytes, expected.to_le_bytes());
                        expected += 1;
                    }
                    Ok(Received::Lost { messages, bytes }) => {
                        assert_eq!(bytes, messages * 64);
                        expected += messages;
                        lost += messages;
                    }
                    Err(TryRecvError::Empty) => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(expected, round * 100);
        }
        assert!(lost > 0);
        assert_eq!(subscriber.lost_messages(), lost);
        assert_eq!(group.report().unwrap().subscribers[0].lost_messages, lost);
    }
}

#[test]
fn a_subscriber_is_demoted_not_before_its_deadline_and_loses_messages_only_then() {
    let deadline = Duration::from_millis(20);
    let (_group, mut publisher, mut subscriber) = trio(small(), Policy::DemoteAfter(deadline));
    // The clock starts before the log can be full, so a slow machine only makes the time longer.
    let start = Instant::now();
    for _ in 0..100 {
        publisher.publish_timeout(b"x", LONG).unwrap();
    }
    assert!(start.elapsed() >= deadline, "demoted after {:?}", start.elapsed());
    assert!(subscriber.health().unwrap().demoted);
    assert!(matches!(subscriber.try_recv().unwrap(), Received::Demoted));
    assert!(matches!(subscriber.try_recv().unwrap(), Received::Lost { messages: 1.., .. }));
}

#[test]
fn a_subscriber_with_a_bound_on_its_lag_is_never_further_behind_and_delays_no_publisher() {
    for options in kinds() {
        let bound = 8192;
        let (_group, mut publisher, mut subscriber) =
            trio(options.capacity_bytes(64 << 10), Policy::LagAtMost(bound));
        let (mut published, mut received, mut lost) = (0u64, 0u64, 0u64);
        for round in 1..200 {
            for _ in 0..round % 40 * 10 {
                published = publisher.try_publish(b"x").unwrap().0 / 64 + 1;
            }
            match subscriber.try_recv() {
                Ok(Received::Message(message)) => {
                    received += 1;
                    let lag = published * 64 - message.position.0;
                    assert!(lag <= bound + 4096 + 64, "{lag} bytes behind");
                    assert_eq!(message.position.0 / 64 + 1, received + lost, "a message is missing");
                }
                Ok(Received::Lost { messages, .. }) => lost += messages,
                Err(TryRecvError::Empty) => assert_eq!(published, received + lost),
                other => panic!("{other:?}"),
            }
        }
        assert!(lost > 0 && received > 0 && lost == subscriber.lost_messages(), "{received} and {lost}");
    }
}

#[test]
fn late_joiners_begin_at_the_next_message_or_at_the_oldest_still_there() {
    for options in kinds() {
        let group = group(options);
        let mut publisher = group.publisher().unwrap();
        for number in 0..500u32 {
            publisher.try_publish(&number.to_le_bytes()).unwrap();
        }
        let mut newest = group.subscribe(Policy::Reliable).unwrap();
        let mut oldest = group.subscribe(SubscribeOptions::new(Policy::Reliable).from_oldest()).unwrap();
        nothing(&mut newest);
        let first = u32::from_le_bytes(next(&mut oldest).try_into().unwrap());
        assert!((430..480).contains(&first), "history begins at {first}");
        for number in first + 1..500 {
            assert_eq!(next(&mut oldest), number.to_le_bytes());
        }
        publisher.try_publish(b"new").unwrap();
        assert_eq!(next(&mut newest), b"new");
        assert_eq!(next(&mut oldest), b"new");
    }
}

/// Every message that was lost is attributed once its publisher is heard of again.
#[test]
fn a_loss_says_from_whom() {
    for options in [SubscribeOptions::new(Policy::Lossy), SubscribeOptions::new(Policy::LagAtMost(1024))] {
        let group = group(small().several_publishers());
        let mut publishers: Vec<_> = (0..4).map(|_| group.publisher().unwrap()).collect();
        let (mut subscriber, mut random) = (group.subscribe(options.clone()).unwrap(), Rng::with_seed(7));
        // The last one is heard of now, and then only at the end.
        publishers.iter_mut().for_each(|publisher| {
            publisher.publish(b"early").unwrap();
        });
        let (mut published, mut received, mut attributed, mut unknown) = ([1u64; 4], [0u64; 4], [0u64; 4], 0);
        let mut take = |subscriber: &mut Subscriber| {
            let mut lost = false;
            loop {
                match subscriber.try_recv() {
                    Ok(Received::Message(message)) => {
                        let publisher = usize::from(message.publisher);
                        assert!(lost || message.lost_before == Some(0), "{message:?}");
                        received[publisher] += 1;
                        attributed[publisher] += u64::from(message.lost_before.unwrap_or(0));
                        unknown += u64::from(message.lost_before.is_none());
                    }
                    Ok(Received::Lost { messages, .. }) => lost = messages > 0,
                    Err(TryRecvError::Empty) => return (received, attributed, unknown),
                    other => panic!("{other:?}"),
                }
            }
        };
        take(&mut subscriber);
        for round in 0..200 {
            for _ in 0..random.u64(..200) {
                let publisher = random.usize(..3);
                publishers[publisher].publish(b"x").unwrap();
                published[publisher] += 1;
            }
            if round % 3 == 0 {
                take(&mut subscriber);
            }
        }
        for (publisher, published) in publishers.iter_mut().zip(&mut published) {
            publisher.publish(b"last").unwrap();
            *published += 1;
        }
        let (received, attributed, unknown) = take(&mut subscriber);
        let sums: [u64; 4] = std::array::from_fn(|index| received[index] + attributed[index]);
        assert_eq!((sums, unknown), (published, 0));
        assert_eq!(attributed.iter().sum::<u64>(), subscriber.lost_messages());
        assert!(attributed[..3].iter().all(|lost| *lost > 0) && attributed[3] == 0, "{attributed:?}");
        for (publisher, lost) in attributed.into_iter().enumerate() {
            assert_eq!(subscriber.lost_messages_of(publisher as u8), lost);
        }
    }
}

#[test]
fn slots_run_out_with_an_error_and_come_back() {
    let group = group(small());
    let publisher = group.publisher().unwrap();
    let refused = group.publisher().unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::OnePublisher)), "{refused:?}");
    assert!(refused.to_string().contains("several_publishers()"), "{refused}");
    let shared = self::group(small().several_publishers());
    let all: Vec<_> = (0..64).map(|_| shared.publisher().unwrap()).collect();
    assert!(matches!(shared.publisher(), Err(Error::Refused(Refusal::TooMany))));
    drop(all);
    allow_many_descriptors();
    let mut subscribers: Vec<_> = (0..1024).map(|_| group.subscribe(Policy::Lossy).unwrap()).collect();
    let refused = group.subscribe(Policy::Lossy).map(|_| ());
    assert!(matches!(refused, Err(Error::Refused(Refusal::TooMany))), "{refused:?}");
    subscribers.pop();
    eventually("the slot of a subscriber that left is not reused", || group.subscribe(Policy::Lossy).is_ok());
    drop(publisher);
}

#[test]
fn an_evicted_publisher_cannot_commit_and_the_group_is_closed() {
    let group = group(small().several_publishers());
    let (mut stuck, mut other) = (group.publisher().unwrap(), group.publisher().unwrap());
    let mut subscriber = group.subscribe(Policy::Reliable).unwrap();
    let id = stuck.id();
    let loan = stuck.try_loan(8).unwrap();
    other.try_publish(b"behind").unwrap();
    nothing(&mut subscriber);
    assert_eq!(subscriber.health().unwrap().unfinished_by, Some(id));
    assert!(group.evict(id).unwrap());
    assert!(!group.evict(id).unwrap());
    let late = loan.commit();
    assert!(matches!(late, Err(Error::Evicted)), "{late:?}");
    assert_eq!(next(&mut subscriber), b"behind");
    is_the_end(other.publish(b"no"));
    is_the_end(subscriber.wait(Some(LONG)));
}

#[test]
fn a_report_names_every_peer() {
    let group = group(small());
    let mut publisher = group.publisher().unwrap();
    let _subscriber = group.subscribe(Policy::Lossy).unwrap();
    for _ in 0..3 {
        publisher.try_publish(b"x").unwrap();
    }
    let other = Group::join_socket(group.invite().unwrap()).unwrap();
    for report in [group.report().unwrap(), other.report().unwrap()] {
        assert_eq!((report.capacity_bytes, report.position, report.messages), (4096, 192, 3));
        assert_eq!(report.publishers.len(), 1);
        assert_eq!(report.publishers[0].pid, std::process::id());
        assert_eq!((report.subscribers[0].lag_bytes, report.subscribers[0].policy), (192, Policy::Lossy));
    }
}

/// A reliable subscriber that sleeps through messages of other topics must not keep the log full with them.
#[test]
fn a_subscriber_gets_the_topics_that_it_wants_in_order_and_holds_up_no_others() {
    for trust in [causeway::Trust::SameUser, causeway::Trust::Strangers] {
        for own_descriptor in [false, true] {
            let topics = SubscribeOptions::new(Policy::Reliable).topics([7, 8]);
            let (_group, mut publisher, mut subscriber) =
                trio(small().several_publishers().trust(trust), topics);
            subscriber.spin_at_most(Duration::ZERO);
            subscriber.sleep_on_descriptor(own_descriptor);
            std::thread::scope(|scope| {
                let receiving = scope.spawn(move || {
                    let receive = |_| {
                        let message = subscriber.recv_timeout(LONG).unwrap().message().unwrap();
                        (message.topic, message.bytes[0], message.sequence)
                    };
                    (0..20).map(receive).collect::<Vec<_>>()
                });
                let mut expected = Vec::new();
                for sequence in 0..2000u32 {
                    let topic = if sequence % 100 == 99 { 7 + sequence / 100 % 2 } else { sequence % 7 };
                    if topic >= 7 {
                        expected.push((topic, sequence as u8, sequence));
                    }
                    publisher.publish_with_topic(topic, &[sequence as u8; 100]).unwrap();
                }
                assert_eq!(receiving.join().unwrap(), expected);
            });
        }
    }
}

#[test]
fn a_subscriber_of_no_topic_receives_nothing_and_is_told_of_the_end() {
    let (group, mut publisher, mut subscriber) =
        trio(small(), SubscribeOptions::new(Policy::Reliable).topics([]));
    for _ in 0..100 {
        publisher.publish_timeout(b"x", LONG).unwrap();
        nothing(&mut subscriber);
    }
    drop((publisher, group));
    is_the_end(subscriber.recv());
}
