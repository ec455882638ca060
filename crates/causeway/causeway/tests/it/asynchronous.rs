//! The stream of a subscriber and the sink of a publisher, in a tokio program.

use std::future::poll_fn;
use std::pin::Pin;

use crate::common::{LONG, fill, kinds, small, trio};
use causeway::{AsyncPublisher, AsyncSubscriber, Error, Group, OwnedMessage, Policy, Received};
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;
use tokio::time::timeout;

async fn next(subscriber: &mut AsyncSubscriber) -> Option<causeway::Result<Received<OwnedMessage>>> {
    let item = poll_fn(|cx| Pin::new(&mut *subscriber).poll_next(cx));
    timeout(LONG, item).await.expect("the stream has an item or ends")
}

/// Waits for the sink, and sends it an item.
async fn send(publisher: &mut AsyncPublisher, item: &[u8]) {
    let ready = poll_fn(|cx| Sink::<&[u8]>::poll_ready(Pin::new(&mut *publisher), cx));
    timeout(LONG, ready).await.expect("the sink becomes ready").unwrap();
    Pin::new(publisher).start_send(item).unwrap();
}

async fn close(publisher: &mut AsyncPublisher) {
    let closed = poll_fn(|cx| Sink::<&[u8]>::poll_close(Pin::new(&mut *publisher), cx));
    timeout(LONG, closed).await.expect("the sink closes").unwrap();
}

#[tokio::test]
async fn a_stream_has_every_message_of_a_sink_in_order_and_then_ends() {
    const MESSAGES: u32 = 1000;
    for options in kinds() {
        let (group, publisher, subscriber) = trio(options, Policy::Reliable);
        let mut publisher = AsyncPublisher::new(publisher);
        let mut subscriber = AsyncSubscriber::new(subscriber).unwrap();
        // The smallest log holds 63 messages: the sink has to wait for the stream.
        let sending = tokio::spawn(async move {
            for number in 0..MESSAGES {
                send(&mut publisher, &number.to_le_bytes()).await;
            }
            close(&mut publisher).await;
        });
        for number in 0..MESSAGES {
            let Some(Ok(Received::Message(message))) = next(&mut subscriber).await else {
                panic!("no message {number}")
            };
            assert_eq!((message.bytes, message.sequence), (number.to_le_bytes().to_vec(), number));
            // Not when the publisher may have sent all and left.
            if number < MESSAGES / 2 && number.is_multiple_of(97) {
                group.resize(4096 << (number / 97 % 2)).unwrap();
            }
        }
        drop(group);
        assert!(!subscriber.is_terminated());
        assert!(next(&mut subscriber).await.is_none());
        assert!(subscriber.is_terminated() && next(&mut subscriber).await.is_none());
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_has_losses_too_and_ends_after_an_error() {
    let (group, mut publisher, lossy) = trio(small(), Policy::Lossy);
    let mut lossy = AsyncSubscriber::new(lossy).unwrap();
    let policy = Policy::DisconnectAfter(std::time::Duration::from_millis(1));
    let mut disconnected = AsyncSubscriber::new(group.subscribe(policy).unwrap()).unwrap();
    for _ in 0..200 {
        publisher.publish_timeout(b"x", LONG).unwrap();
    }
    let lost = next(&mut lossy).await;
    assert!(matches!(lost, Some(Ok(Received::Lost { messages: 1.., .. }))), "{lost:?}");
    assert!(matches!(next(&mut lossy).await, Some(Ok(Received::Message(_)))));
    let missed = next(&mut disconnected).await;
    assert!(matches!(missed, Some(Err(Error::MissedDeadline { .. }))), "{missed:?}");
    assert!(next(&mut disconnected).await.is_none());
}

#[tokio::test]
async fn an_item_that_the_sink_has_kept_is_published_before_the_next_message() {
    let (_group, publisher, mut subscriber) = trio(small(), Policy::Reliable);
    let mut publisher = AsyncPublisher::new(publisher);
    fill(publisher.get_mut(), b"fill");
    send(&mut publisher, b"kept").await;
    let receiving = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != b"next") {
            seen.push(crate::common::next(&mut subscriber));
        }
        seen
    });
    timeout(LONG, publisher.publish(b"next")).await.expect("there is space").unwrap();
    let seen = receiving.join().unwrap();
    assert!(seen.ends_with(&[b"kept".to_vec(), b"next".to_vec()]), "{seen:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_task_receives_payloads_by_reference() {
    use causeway::{AsyncLargeSubscriber, PoolOptions};
    let group = Group::create("large", small().large_payloads()).unwrap();
    let mut publisher = group.large_publisher(PoolOptions::new(64 << 10).sealed()).unwrap();
    let mut subscriber = AsyncLargeSubscriber::new(group.large_subscribe(Policy::Reliable).unwrap()).unwrap();
    let publishing = tokio::task::spawn_blocking(move || {
        for number in 0..20 {
            let mut loan = publisher.loan(64 << 10).unwrap();
            loan.fill(number);
            loan.publish().unwrap();
        }
    });
    for number in 0..20 {
        let message = subscriber.recv().await.unwrap().message().unwrap();
        assert!(message.payload.as_slice().unwrap().iter().all(|byte| *byte == number));
    }
    publishing.await.unwrap();
    assert!(matches!(timeout(LONG, subscriber.recv()).await, Ok(Err(Error::Disconnected))));
}
