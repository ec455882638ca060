//! What iceoryx2 is asked for: a node, a service of byte slices with one publisher, its ports, and the event service of the
//! same name that wakes who sleeps. Pairs and fan-out take all of it from here.
//!
//! # Safety
//! A loaned message is declared initialized before it is written: it lies in a mapping of shared memory, whose bytes are
//! what the kernel or an earlier message left there, and every value of a byte is a `u8`.
#![allow(unsafe_code)]

use ::iceoryx2::node::Node;
use ::iceoryx2::port::listener::{Listener, ListenerWaitError};
use ::iceoryx2::port::notifier::Notifier;
use ::iceoryx2::port::publisher::Publisher;
use ::iceoryx2::port::subscriber::Subscriber;
use ::iceoryx2::port::update_connections::UpdateConnections;
use ::iceoryx2::prelude::{BackpressureStrategy, Config, NodeBuilder, PortFactory, SignalHandlingMode, ipc};
use ::iceoryx2::sample::Sample;
use ::iceoryx2::sample_mut::SampleMut;
use ::iceoryx2::service::port_factory::{event, publish_subscribe};
use iceoryx2_bb_elementary::package_version::PackageVersion;

use super::peer_gone;
use crate::prelude::*;

type Messages = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type Events = event::PortFactory<ipc::Service>;

pub(super) fn node(config: &Config) -> io::Result<Node<ipc::Service>> {
    NodeBuilder::new()
        .config(config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create()
        .map_err(failed("create a node"))
}

/// A service of byte slices, with an event service beside it where receivers block.
pub(super) struct Service {
    messages: Messages,
    events: Option<Events>,
    subscribers: usize,
    payload_bytes: usize,
    wait: Wait,
}

impl Service {
    /// Creates or opens the service `name`. Only its publisher and `subscribers` subscribers can join.
    pub(super) fn open(
        node: &Node<ipc::Service>,
        name: &str,
        subscribers: usize,
        depth: usize,
        params: &CaseParams,
    ) -> io::Result<Service> {
        let name = name.try_into().map_err(failed("name a service"))?;
        let messages = node
            .service_builder(&name)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(depth)
            .subscriber_max_borrowed_samples(1)
            .history_size(0)
            .max_publishers(1)
            .max_subscribers(subscribers)
            .max_nodes(subscribers + 1)
            .open_or_create()
            .map_err(failed("open a publish-subscribe service"))?;
        let events = || {
            node.service_builder(&name)
                .event()
                .max_notifiers(1)
                .max_listeners(subscribers)
                .max_nodes(subscribers + 1)
                .open_or_create()
                .map_err(failed("open an event service"))
        };
        let events = if params.wait == Wait::Block { Some(events()?) } else { None };
        Ok(Service { messages, events, subscribers, payload_bytes: params.payload_bytes, wait: params.wait })
    }

    pub(super) fn publisher(self) -> io::Result<Outgoing> {
        let publisher = self
            .messages
            .publisher_builder()
            .initial_max_slice_len(self.payload_bytes.max(1))
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(failed("create a publisher"))?;
        let notifier = self.events.as_ref().map(|events| events.notifier_builder().create());
        let notifier = notifier.transpose().map_err(failed("create a notifier"))?;
        Ok(Outgoing { publisher, notifier, service: self })
    }

    pub(super) fn subscriber(&self) -> io::Result<Incoming> {
        let subscriber =
            self.messages.subscriber_builder().create().map_err(failed("create a subscriber"))?;
        let listener = self.events.as_ref().map(|events| events.listener_builder().create());
        let listener = listener.transpose().map_err(failed("create a listener"))?;
        Ok(Incoming { subscriber, listener, wait: self.wait })
    }
}

/// What was tried, and iceoryx2's own word for why not.
fn failed<E: std::fmt::Debug>(what: &'static str) -> impl FnOnce(E) -> io::Error {
    move |error| io::Error::other(format!("iceoryx2 cannot {what}: {error:?}"))
}

pub(super) struct Outgoing {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    service: Service,
}

impl Outgoing {
    /// Looks for the subscribers now: else that is done when the next message is sent, in a timed loop.
    pub(super) fn connect(&self) -> io::Result<()> {
        self.publisher.update_connections().map_err(failed("connect the publisher"))
    }

    /// Room for a message of `len` bytes, where its receivers will read it.
    #[inline]
    pub(super) fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        let sample = self.publisher.loan_slice_uninit(len).map_err(io::Error::other)?;
        // SAFETY: the bytes lie in a mapping, where each has a value; see the top of this file.
        let sample = unsafe { sample.assume_init() };
        Ok(Written { sample, notifier: self.notifier.as_ref(), receivers: self.service.subscribers })
    }

    /// The settings of service and publisher, as they are.
    pub(super) fn facts(&self) -> Facts {
        let settings = self.service.messages.static_config();
        let backpressure = match (settings.has_safe_overflow(), self.publisher.backpressure_strategy()) {
            (true, _) => "overflow".into(),
            (false, strategy) => format!("{strategy:?}"),
        };
        Facts::from([
            ("iceoryx2_version".into(), PackageVersion::get().to_string()),
            ("depth".into(), settings.subscriber_max_buffer_size().to_string()),
            ("history".into(), settings.history_size().to_string()),
            ("loaned_max".into(), self.publisher.max_loaned_samples().to_string()),
            ("borrowed_max".into(), settings.subscriber_max_borrowed_samples().to_string()),
            ("payload_bytes_max".into(), self.publisher.initial_max_slice_len().to_string()),
            (
                "payload_alignment_bytes".into(),
                settings.message_type_details().payload.alignment().to_string(),
            ),
            ("allocation".into(), format!("{:?}", self.publisher.allocation_strategy())),
            ("backpressure".into(), backpressure),
        ])
    }
}

pub(super) struct Written<'a> {
    sample: SampleMut<ipc::Service, [u8], ()>,
    notifier: Option<&'a Notifier<ipc::Service>>,
    receivers: usize,
}

impl Written<'_> {
    /// Sends it to all, and wakes those that sleep.
    #[inline]
    pub(super) fn send(self) -> io::Result<()> {
        if self.sample.send().map_err(io::Error::other)? < self.receivers {
            return Err(peer_gone());
        }
        if let Some(notifier) = self.notifier
            && notifier.notify().map_err(io::Error::other)? < self.receivers
        {
            return Err(peer_gone());
        }
        Ok(())
    }
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.sample.payload_mut()
    }
}

pub(super) struct Incoming {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    wait: Wait,
}

impl Incoming {
    /// Looks for the publisher now; see [`Outgoing::connect`].
    pub(super) fn connect(&self) -> io::Result<()> {
        self.subscriber.update_connections().map_err(failed("connect the subscriber"))
    }

    pub(super) fn depth(&self) -> usize {
        self.subscriber.buffer_size()
    }

    #[inline]
    pub(super) fn take(&mut self) -> io::Result<Received> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(io::Error::other)? {
                return Ok(Received(sample));
            }
            match &self.listener {
                Some(listener) => listen(listener)?,
                None if self.wait == Wait::Yield => std::thread::yield_now(),
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// Sleeps until the publisher notifies. What it notified of is in the queue, so the events themselves tell nothing more; one
/// that came before the wait ends it at once.
fn listen(listener: &Listener<ipc::Service>) -> io::Result<()> {
    match listener.blocking_wait(|_| {}) {
        // Stopped and continued: the loop around this looks again.
        Ok(_) | Err(ListenerWaitError::InterruptSignal) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

pub(super) struct Received(Sample<ipc::Service, [u8], ()>);

impl AsRef<[u8]> for Received {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}
