//! What a program that passes messages on relies on: it keeps what it received, marks what it publishes, and is the only one.

use std::time::Duration;

use causeway::{
    Error, Group, GroupOptions, Policy, Position, Received, Refusal, SubscribeOptions, Subscriber,
    TryPublishError,
};

fn keeping(group: &Group, policy: Policy) -> Subscriber {
    group.subscribe(SubscribeOptions::new(policy).keep_received()).unwrap()
}

fn receive(subscriber: &mut Subscriber, count: usize) -> Vec<(Position, Vec<u8>)> {
    let next = |_| match subscriber.try_recv().unwrap() {
        Received::Message(message) => (message.position, message.bytes.to_vec()),
        news => panic!("{news:?}"),
    };
    (0..count).map(next).collect()
}

#[test]
fn what_is_kept_is_read_again_and_holds_its_space_until_it_is_released() {
    let group = Group::create("kept", GroupOptions::new().capacity_bytes(4096)).unwrap();
    let (mut publisher, mut subscriber) = (group.publisher().unwrap(), keeping(&group, Policy::Reliable));
    let mut published = 0u64;
    while publisher.try_publish(&published.to_le_bytes()).is_ok() {
        published += 1;
    }
    let received = receive(&mut subscriber, published as usize);
    assert_eq!(subscriber.messages_before(), published);
    let full = publisher.try_publish(&[0; 8]);
    assert!(matches!(full, Err(TryPublishError::Full)), "what is kept is not overwritten: {full:?}");
    for _ in 0..2 {
        for (position, bytes) in &received {
            let again = subscriber.read_again(*position).unwrap().expect("it is kept");
            assert_eq!((again.bytes, again.position, again.lost_before), (&bytes[..], *position, None));
        }
    }
    let end = subscriber.position();
    for nonsense in [end.0, end.0 + 64, 7, u64::MAX] {
        assert_eq!(subscriber.read_again(Position(nonsense)).unwrap(), None, "at {nonsense}");
    }
    let half = received[received.len() / 2].0;
    subscriber.release(half);
    let _ = publisher.try_publish(&published.to_le_bytes()).expect("there is space again");
    assert_eq!(receive(&mut subscriber, 1)[0].1, published.to_le_bytes(), "what comes next stays the same");
    assert!(subscriber.read_again(half).unwrap().is_some());
    let lost = subscriber.read_again(received[0].0).unwrap().map(|message| message.bytes.to_vec());
    assert!(lost.is_none_or(|bytes| bytes == received[0].1), "another message than that at its place");
}

#[test]
fn a_log_that_has_ended_is_kept_as_long_as_something_in_it_is() {
    let options = GroupOptions::new().several_publishers().capacity_bytes(4096);
    let group = Group::create("kept", options).unwrap();
    let (mut publisher, mut subscriber) = (group.publisher().unwrap(), keeping(&group, Policy::Reliable));
    let mut received = Vec::new();
    for number in 0..5u8 {
        let _ = publisher.publish(&[number; 100]).unwrap();
        received.extend(receive(&mut subscriber, 1));
        group.resize(4096 << (number % 2)).unwrap();
    }
    let _ = publisher.publish(&[5; 100]).unwrap();
    received.extend(receive(&mut subscriber, 1));
    assert_eq!(subscriber.epoch(), 5);
    for (number, (position, _)) in received.iter().enumerate() {
        let again = subscriber.read_again(*position).unwrap().expect("it is kept");
        assert_eq!(again.bytes, [number as u8; 100]);
    }
    subscriber.release(received[3].0);
    let there = |position| subscriber.read_again(position).unwrap().is_some();
    let there: Vec<bool> = received.iter().map(|(position, _)| *position).map(there).collect();
    assert_eq!(there, [false, false, false, true, true, true]);
}

/// Before, a program that kept what it had to send again would have stopped publishers for as long as nobody took it.
#[test]
fn publishers_wait_for_what_is_kept_no_longer_than_the_policy_says() {
    let group = Group::create("kept", GroupOptions::new().capacity_bytes(4096)).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut subscriber = keeping(&group, Policy::DemoteAfter(Duration::from_millis(5)));
    let first = publisher.publish(&[7; 100]).unwrap();
    let _ = receive(&mut subscriber, 1);
    for _ in 0..200 {
        let _ = publisher.publish(&[8; 100]).unwrap();
    }
    assert_eq!(subscriber.read_again(first).unwrap(), None);
    assert!(matches!(subscriber.recv().unwrap(), Received::Demoted));
    let Received::Lost { messages, .. } = subscriber.recv().unwrap() else { panic!("nothing is lost") };
    assert_eq!(subscriber.messages_before(), 1 + messages, "what was lost counts");
}

#[test]
fn a_mark_comes_with_its_message_and_a_group_has_one_number() {
    let options = GroupOptions::new().several_publishers();
    let group = Group::create("marked", options.clone()).unwrap();
    let mut publisher = group.publisher().unwrap();
    let mut subscribers = [(); 2].map(|()| group.subscribe(Policy::Reliable).unwrap());
    let mut loan = publisher.loan(3).unwrap().with_topic(4).with_mark(u64::MAX - 1);
    loan.copy_from_slice(b"abc");
    let _ = loan.commit().unwrap();
    let _ = publisher.publish(b"abc").unwrap();
    let other = Group::create("marked", options).unwrap().subscribe(Policy::Lossy).unwrap();
    for subscriber in &mut subscribers {
        let mut next = || subscriber.recv().unwrap().into_owned().message().unwrap();
        assert_eq!(
            [next(), next()].map(|message| (message.topic, message.mark)),
            [(4, u64::MAX - 1), (0, 0)]
        );
        assert_ne!(subscriber.group_number(), other.group_number());
    }
    let [one, two] = subscribers;
    assert_eq!(one.group_number(), two.group_number());
}

#[test]
fn a_role_is_claimed_by_one_connection_until_it_ends() {
    let folder = causeway_testkit::temp_dir("claim");
    let path = folder.path().join("group");
    let group = Group::create("claimed", GroupOptions::new()).unwrap();
    group.serve_at(&path).unwrap();
    let visitor = Group::join(&path).unwrap();
    let claim = visitor.claim(1).unwrap();
    let other = visitor.claim(2).unwrap();
    for again in [group.claim(1), visitor.claim(2)] {
        assert!(matches!(again, Err(Error::Refused(Refusal::Claimed))), "{again:?}");
    }
    drop(claim);
    let mut claimed = None;
    causeway_testkit::eventually("the claim does not end", || {
        claimed = group.claim(1).ok();
        claimed.is_some()
    });
    let ended =
        || causeway_os::process::poll(&[std::os::fd::AsFd::as_fd(&other)], Some(Duration::ZERO)).unwrap()[0];
    assert!(!ended());
    drop((group, visitor, claimed));
    causeway_testkit::eventually("who has a role is not told of the end of the server", ended);
}
