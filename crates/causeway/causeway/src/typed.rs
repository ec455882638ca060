//! Publishers and subscribers of one plain type: a value is published as its bytes, and received as a copy.
//!
//! The group has a type, which its creator states; who joins with another is refused. A type is known by a fingerprint of its name,
//! size and alignment: different programs, perhaps of different languages, cannot compare more.

use std::marker::PhantomData;
use std::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, Result};
use crate::group::Group;
use crate::log::Position;
use crate::message::{Message, MessageOf, Received};
use crate::options::{GroupOptions, SubscribeOptions};
use crate::outcome::{PublishTimeoutError, RecvTimeoutError, TryPublishError, TryRecvError};
use crate::publisher::Publisher;
use crate::subscriber::Subscriber;

/// A type whose values can be messages: any bytes of its size are a value, and a value has no bytes but its fields.
///
/// ```
/// use causeway::{Group, GroupOptions, MessageType, Policy};
/// use zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Price {
///     euros: f64,
///     instrument: u64,
/// }
///
/// impl MessageType for Price {
///     const NAME: &'static str = "example.Price 1";
/// }
///
/// let group = Group::create("prices", GroupOptions::new().message_type::<Price>())?;
/// let mut publisher = group.typed_publisher::<Price>()?;
/// let mut subscriber = group.typed_subscribe::<Price>(Policy::Reliable)?;
///
/// publisher.publish(&Price { euros: 42.17, instrument: 7 })?;
/// let message = subscriber.recv()?.message().expect("a reliable subscriber loses nothing");
/// assert_eq!(message.payload, Price { euros: 42.17, instrument: 7 });
/// # Ok::<(), causeway::Error>(())
/// ```
pub trait MessageType: FromBytes + IntoBytes + Immutable {
    /// Its name, the same in every program. Change it when the meaning of a field changes.
    const NAME: &'static str;
}

/// What stands for a type when a process joins: FNV-1a of its name, size and alignment, never 0.
/// Source of the hash: Fowler, Noll and Vo, `draft-eastlake-fnv`.
fn fingerprint<T: MessageType>() -> u64 {
    let sizes = [size_of::<T>() as u64, align_of::<T>() as u64];
    let bytes = T::NAME.bytes().chain(sizes.into_iter().flat_map(u64::to_le_bytes));
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

impl GroupOptions {
    /// Makes all messages values of `T`. Publishers of bytes and of other types are refused, and subscribers of other types.
    pub fn message_type<T: MessageType>(mut self) -> GroupOptions {
        self.fingerprint = fingerprint::<T>();
        self
    }
}

impl Group {
    /// As [`Group::publisher`], for a group whose messages are values of `T`;
    /// [`Refusal::OtherType`](crate::Refusal::OtherType) for a group of another type, or of none.
    pub fn typed_publisher<T: MessageType>(&self) -> Result<TypedPublisher<T>> {
        Ok(TypedPublisher { publisher: self.publisher_of(fingerprint::<T>())?, of: PhantomData })
    }

    /// As [`Group::subscribe`], for a group whose messages are values of `T`;
    /// [`Refusal::OtherType`](crate::Refusal::OtherType) for a group of another type, or of none.
    pub fn typed_subscribe<T: MessageType>(
        &self,
        options: impl Into<SubscribeOptions>,
    ) -> Result<TypedSubscriber<T>> {
        let options = SubscribeOptions { fingerprint: fingerprint::<T>(), ..options.into() };
        Ok(TypedSubscriber { subscriber: self.subscribe(options)?, of: PhantomData })
    }
}

/// Publishes values of one type. [`Group::typed_publisher`] makes one.
#[derive(Debug)]
pub struct TypedPublisher<T> {
    publisher: Publisher,
    of: PhantomData<fn(&T)>,
}

impl<T: MessageType> TypedPublisher<T> {
    /// As [`Publisher::try_publish`].
    #[inline]
    pub fn try_publish(&mut self, value: &T) -> Result<Position, TryPublishError> {
        self.publisher.try_publish(value.as_bytes())
    }

    /// As [`Publisher::publish`].
    #[inline]
    pub fn publish(&mut self, value: &T) -> Result<Position> {
        self.publisher.publish(value.as_bytes())
    }

    /// As [`Publisher::publish_with_topic`].
    #[inline]
    pub fn publish_with_topic(&mut self, topic: u32, value: &T) -> Result<Position> {
        self.publisher.publish_with_topic(topic, value.as_bytes())
    }

    /// As [`Publisher::publish_timeout`].
    #[inline]
    pub fn publish_timeout(&mut self, value: &T, timeout: Duration) -> Result<Position, PublishTimeoutError> {
        self.publisher.publish_timeout(value.as_bytes(), timeout)
    }

    /// The publisher of bytes. A message that is not a value of the type is an error for its subscribers.
    pub fn get_mut(&mut self) -> &mut Publisher {
        &mut self.publisher
    }
}

/// A value that was received.
pub type TypedMessage<T> = MessageOf<T>;

/// Receives values of one type. [`Group::typed_subscribe`] makes one.
#[derive(Debug)]
pub struct TypedSubscriber<T> {
    subscriber: Subscriber,
    of: PhantomData<fn() -> T>,
}

impl<T: MessageType> TypedSubscriber<T> {
    /// As [`Subscriber::try_recv`]; [`Error::WrongSize`] for a message that is not a value of the type, which is skipped.
    #[inline]
    pub fn try_recv(&mut self) -> Result<Received<TypedMessage<T>>, TryRecvError> {
        Ok(typed(self.subscriber.try_recv()?)?)
    }

    /// As [`Subscriber::recv`], and fails also as [`TypedSubscriber::try_recv`].
    #[inline]
    pub fn recv(&mut self) -> Result<Received<TypedMessage<T>>> {
        typed(self.subscriber.recv()?)
    }

    /// As [`Subscriber::recv_timeout`], and fails also as [`TypedSubscriber::try_recv`].
    #[inline]
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Received<TypedMessage<T>>, RecvTimeoutError> {
        Ok(typed(self.subscriber.recv_timeout(timeout)?)?)
    }

    /// The subscriber of bytes, for waits in event loops.
    pub fn get_mut(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }
}

/// The value that these bytes are.
#[inline]
fn typed<T: MessageType>(received: Received<Message<'_>>) -> Result<Received<TypedMessage<T>>> {
    match received {
        Received::Message(message) => {
            let value = T::read_from_bytes(message.bytes).map_err(|_| Error::WrongSize {
                payload_bytes: message.bytes.len(),
                expected_bytes: size_of::<T>(),
            })?;
            Ok(Received::Message(message.with(value)))
        }
        Received::Lost { messages, bytes } => Ok(Received::Lost { messages, bytes }),
        Received::Demoted => Ok(Received::Demoted),
    }
}
