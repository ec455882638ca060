//! Peers in time namespaces: their monotonic clocks differ from those of the others by days, and deadlines are the same.

use std::time::{Duration, Instant};

use causeway::{Group, Policy, PublishTimeoutError, Publisher, Received, RecvTimeoutError, SubscribeOptions};

use crate::common::{LONG, Peer, Role, eventually, join, kinds, next, served, subscribers};

/// How far the clocks of the others are ahead, in seconds.
const AHEAD: [i64; 2] = [864_000, -60];
const MESSAGES: u64 = 5_000;
const SHORT: Duration = Duration::from_millis(20);

/// What the processes of these tests do, in a namespace of their own.
pub const ROLES: &[(&str, Role)] = &[
    ("read-at-another-time", |socket, _| {
        let subscriber = SubscribeOptions::new(Policy::DisconnectAfter(LONG)).timeout(LONG);
        let mut subscriber = join(socket).subscribe(subscriber).unwrap();
        let start = Instant::now();
        while !matches!(subscriber.recv_timeout(SHORT), Ok(Received::Message(message)) if message.bytes == b"first")
        {
            assert!(start.elapsed() < LONG, "nothing comes");
        }
        for number in 0..MESSAGES {
            assert_eq!(next(&mut subscriber), number.to_le_bytes());
        }
        let start = Instant::now();
        assert!(matches!(subscriber.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout)));
        assert!(start.elapsed() >= SHORT);
    }),
    ("publish-at-another-time", |socket, _| {
        let mut publisher = join(socket).publisher().unwrap();
        publisher.wait_for_subscribers(1, Some(LONG)).unwrap();
        publish_all(&mut publisher);
        // The reader takes nothing from here on, until this process has ended.
        loop {
            let start = Instant::now();
            match publisher.publish_timeout(b"x", SHORT) {
                Ok(_) => {}
                Err(PublishTimeoutError::Timeout) => break assert!(start.elapsed() >= SHORT),
                Err(error) => panic!("{error}"),
            }
        }
    }),
];

fn publish_all(publisher: &mut Publisher) {
    for number in 0..MESSAGES {
        publisher.publish_timeout(&number.to_le_bytes(), LONG).unwrap();
    }
}

/// The reader is there once it has the message that it waits for.
fn begin(group: &Group, publisher: &mut Publisher) {
    eventually("it joins", || subscribers(group) == 1);
    publisher.publish_timeout(b"first", LONG).unwrap();
}

#[test]
fn a_subscriber_whose_clock_differs_by_days_has_the_deadline_of_others_and_reads_all() {
    for options in kinds() {
        for ahead in AHEAD {
            let (_dir, socket, group) = served(options.clone());
            let mut publisher = group.publisher().unwrap();
            let Some(mut reader) = Peer::start_at_another_time("read-at-another-time", &socket, 0, ahead)
            else {
                return;
            };
            begin(&group, &mut publisher);
            publish_all(&mut publisher);
            reader.succeed();
        }
    }
}

#[test]
fn a_publisher_whose_clock_differs_by_days_gives_others_their_time_and_waits_for_its_own() {
    for ahead in AHEAD {
        let (_dir, socket, group) = served(kinds()[1].clone().remote_publishers(1));
        let subscriber = SubscribeOptions::new(Policy::DisconnectAfter(LONG)).timeout(LONG);
        let Some(mut writer) = Peer::start_at_another_time("publish-at-another-time", &socket, 0, ahead)
        else {
            return;
        };
        let mut reader = group.subscribe(subscriber).unwrap();
        for number in 0..MESSAGES {
            assert_eq!(next(&mut reader), number.to_le_bytes());
        }
        writer.succeed();
    }
}
