//! A publisher and a subscriber of a service of byte slices, with the event service that wakes who sleeps.
//!
//! # Safety
//! iceoryx2 hands out memory as uninitialised that lies in a segment of shared memory. Pages of such a file are filled with
//! zeroes by the kernel, so its bytes are initialised, whatever they hold.
#![allow(unsafe_code)]

use std::fmt;
use std::io;

use iceoryx2::node::{Node, NodeBuilder};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{BackpressureStrategy, Config, ServiceName, SignalHandlingMode, ipc};
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut::SampleMut;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use weighbridge_lab::link::{Link, Wait};

/// Messages that a subscriber holds before a publisher waits for it.
const DEPTH: usize = 64;
/// Bytes of messages that are under way at most, unless two are longer.
const DEPTH_BYTES: usize = 256 << 10;

/// An error of iceoryx2 in its own words.
pub fn error(error: impl fmt::Debug) -> io::Error {
    io::Error::other(format!("iceoryx2: {error:?}"))
}

/// A participant.
pub fn node(config: &Config) -> io::Result<Node<ipc::Service>> {
    // Signals are the laboratory's business.
    NodeBuilder::new()
        .config(config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create()
        .map_err(error)
}

/// A service of byte slices, and its bell.
#[derive(Debug)]
pub struct Channel {
    messages: publish_subscribe::PortFactory<ipc::Service, [u8], ()>,
    bell: event::PortFactory<ipc::Service>,
    rings: bool,
    len: usize,
}

impl Channel {
    /// Opens or creates the service `name`.
    pub fn open(
        node: &Node<ipc::Service>,
        name: &str,
        subscribers: usize,
        depth: usize,
        link: &Link,
    ) -> io::Result<Channel> {
        let name = |what: &str| ServiceName::new(&format!("{name}/{what}")).map_err(error);
        let depth = depth.max((DEPTH_BYTES / link.payload_bytes.max(1)).clamp(2, DEPTH));
        let messages = node
            .service_builder(&name("messages")?)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth)
            .subscriber_max_borrowed_samples(2)
            .history_size(0)
            .max_publishers(1)
            .max_subscribers(subscribers)
            .max_nodes(subscribers + 2)
            .open_or_create()
            .map_err(error)?;
        let bell = node
            .service_builder(&name("bell")?)
            .event()
            .max_listeners(subscribers)
            .max_notifiers(1)
            .max_nodes(subscribers + 2)
            .open_or_create()
            .map_err(error)?;
        Ok(Channel { messages, bell, rings: link.wait == Wait::Block, len: link.payload_bytes })
    }

    /// Its publisher.
    pub fn publisher(&self) -> io::Result<Outgoing> {
        let publisher = self
            .messages
            .publisher_builder()
            .initial_max_slice_len(self.len.max(1))
            .max_loaned_samples(2)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(error)?;
        let bell = match self.rings {
            true => Some(self.bell.notifier_builder().create().map_err(error)?),
            false => None,
        };
        Ok(Outgoing { publisher, bell })
    }

    /// A subscriber.
    pub fn subscriber(&self, wait: Wait) -> io::Result<Incoming> {
        let bell = match self.rings {
            true => Some(self.bell.listener_builder().create().map_err(error)?),
            false => None,
        };
        let subscriber = self.messages.subscriber_builder().create().map_err(error)?;
        Ok(Incoming { subscriber, bell, wait })
    }
}

/// Sends.
#[derive(Debug)]
pub struct Outgoing {
    pub publisher: Publisher<ipc::Service, [u8], ()>,
    pub bell: Option<Notifier<ipc::Service>>,
}

impl Outgoing {
    /// Wakes who sleeps.
    #[inline]
    pub fn ring(bell: Option<&Notifier<ipc::Service>>) -> io::Result<()> {
        match bell {
            Some(bell) => bell.notify().map(|_| ()).map_err(error),
            None => Ok(()),
        }
    }
}

/// Receives.
#[derive(Debug)]
pub struct Incoming {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    bell: Option<Listener<ipc::Service>>,
    wait: Wait,
}

impl Incoming {
    /// The next message, waiting for it.
    #[inline]
    pub fn take(&mut self) -> io::Result<Sample<ipc::Service, [u8], ()>> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(error)? {
                return Ok(sample);
            }
            match (&self.bell, self.wait) {
                // Rung after each message, and a bell that rang before the wait ends it at once.
                (Some(bell), _) => {
                    bell.blocking_wait(|_| ()).map_err(error)?;
                }
                (None, Wait::Yield) => std::thread::yield_now(),
                (None, _) => std::hint::spin_loop(),
            }
        }
    }
}

/// Room for a message, not written twice: its content is arbitrary.
#[inline]
pub fn loan(
    publisher: &Publisher<ipc::Service, [u8], ()>,
    len: usize,
) -> io::Result<SampleMut<ipc::Service, [u8], ()>> {
    let sample = publisher.loan_slice_uninit(len).map_err(error)?;
    // SAFETY: memory of a file is initialised; see above.
    Ok(unsafe { sample.assume_init() })
}
