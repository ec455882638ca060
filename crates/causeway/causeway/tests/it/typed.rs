//! Groups whose messages are values of one type.

use crate::common::{LONG, Peer, Role, join, served, small};
use causeway::{
    Error, Group, GroupOptions, MessageType, Policy, Received, Refusal, TryRecvError, TypedMessage,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Price {
    euros: f64,
    instrument: u64,
}

impl MessageType for Price {
    const NAME: &'static str = "test.Price 1";
}

/// Of the same layout, with another meaning.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Place {
    latitude: f64,
    number: u64,
}

impl MessageType for Place {
    const NAME: &'static str = "test.Place 1";
}

/// Of the same name, with another size.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct LongerPrice {
    euros: f64,
    instrument: u64,
    currency: u64,
}

impl MessageType for LongerPrice {
    const NAME: &'static str = Price::NAME;
}

fn price(number: u64) -> Price {
    Price { euros: number as f64 / 4.0, instrument: number }
}

/// What the processes of these tests do.
pub const ROLES: &[(&str, Role)] = &[("publish-prices", |socket, number| {
    let mut publisher = join(socket).typed_publisher::<Price>().unwrap();
    assert!(publisher.get_mut().wait_for_subscribers(1, Some(LONG)).unwrap());
    for n in 0..number {
        publisher.publish_timeout(&price(n), LONG).unwrap();
    }
})];

#[test]
fn values_of_another_process_arrive_as_they_were() {
    let (_dir, socket, group) = served(small().remote_publishers(1).message_type::<Price>());
    let mut peer = Peer::start("publish-prices", &socket, 1000);
    let mut subscriber = group.typed_subscribe::<Price>(Policy::Reliable).unwrap();
    for n in 0..1000 {
        let Received::Message(TypedMessage { payload, sequence, .. }) =
            subscriber.recv_timeout(LONG).unwrap()
        else {
            panic!("a loss")
        };
        assert_eq!((payload, u64::from(sequence)), (price(n), n));
    }
    peer.succeed();
}

#[test]
fn who_joins_with_another_type_is_refused() {
    let (_dir, socket, typed) = served(GroupOptions::new().message_type::<Price>());
    let joined = Group::join(&socket).unwrap();
    let is_refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Refused(Refusal::OtherType))), "{result:?}")
    };
    for group in [&typed, &joined] {
        is_refused(group.typed_subscribe::<Place>(Policy::Lossy).map(drop));
        is_refused(group.typed_subscribe::<LongerPrice>(Policy::Lossy).map(drop));
        is_refused(group.typed_publisher::<Place>().map(drop));
        is_refused(group.publisher().map(drop));
        // Who only reads bytes, to show them perhaps, may.
        group.subscribe(Policy::Lossy).unwrap();
        group.typed_subscribe::<Price>(Policy::Lossy).unwrap();
    }
    typed.typed_publisher::<Price>().unwrap();
    let bytes = Group::create("bytes", GroupOptions::new()).unwrap();
    is_refused(bytes.typed_subscribe::<Price>(Policy::Lossy).map(drop));
    is_refused(bytes.typed_publisher::<Price>().map(drop));
}

#[test]
fn a_message_of_another_size_is_an_error_and_the_next_one_is_received() {
    let group = Group::create("typed", GroupOptions::new().message_type::<Price>()).unwrap();
    let mut publisher = group.typed_publisher::<Price>().unwrap();
    let mut subscriber = group.typed_subscribe::<Price>(Policy::Reliable).unwrap();
    for bytes in [0, 15, 17] {
        publisher.get_mut().publish(&vec![0; bytes]).unwrap();
        publisher.publish(&price(1)).unwrap();
        let wrong = subscriber.try_recv();
        assert!(
            matches!(wrong, Err(TryRecvError::Failed(Error::WrongSize { payload_bytes, expected_bytes: 16 })) if payload_bytes == bytes),
            "{wrong:?}"
        );
        assert_eq!(subscriber.recv().unwrap().message().map(|message| message.payload), Some(price(1)));
    }
}
