//! One end: a node of iceoryx2 with the ports of both services.
//!
//! # Safety
//! A loaned message is declared initialised before it is written: it lies in a mapping of shared memory, whose bytes are
//! what the kernel or an earlier message left there, and every value of a byte is a `u8`.
#![allow(unsafe_code)]

use std::io;

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
use weighbridge_lab::contract::{Endpoint, Facts, Side};
use weighbridge_lab::link::{Link, Wait};

use super::{Meeting, peer_gone};

type Messages = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type Events = event::PortFactory<ipc::Service>;

/// The smallest page of any machine.
const PAGE_BYTES: usize = 4096;

/// What an end has in order to block: one to wake the other, one to be woken by it.
#[derive(Debug)]
struct Bells {
    notifier: Notifier<ipc::Service>,
    listener: Listener<ipc::Service>,
}

/// One end: publisher of its own service, subscriber of the other's. Ports go before the node.
#[derive(Debug)]
pub struct Iceoryx2End {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    bells: Option<Bells>,
    service: Messages,
    meeting: Meeting,
    payload_bytes: usize,
    _node: Node<ipc::Service>,
}

impl Iceoryx2End {
    /// Creates or opens both services and takes part in them, one end after the other: of two that create the same
    /// service at the same time, one has to wait and try again.
    pub(super) fn attach(
        side: Side,
        meeting: Meeting,
        config: &Config,
        link: &Link,
        depth: usize,
    ) -> io::Result<Iceoryx2End> {
        if side == Side::Far {
            meeting.hear()?;
        }
        let end = Iceoryx2End::open(side, meeting, config, link, depth)?;
        end.meeting.tell()?;
        if side == Side::Near {
            end.meeting.hear()?;
        }
        // Who looks for the other end when the first message is sent would do so in a timed loop.
        end.publisher.update_connections().map_err(failed("connect the publisher"))?;
        end.subscriber.update_connections().map_err(failed("connect the subscriber"))?;
        Ok(end)
    }

    fn open(
        side: Side,
        meeting: Meeting,
        config: &Config,
        link: &Link,
        depth: usize,
    ) -> io::Result<Iceoryx2End> {
        let node = NodeBuilder::new()
            .config(config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(failed("create a node"))?;
        let (own, theirs) = match side {
            Side::Near => ("from-near", "from-far"),
            Side::Far => ("from-far", "from-near"),
        };
        let (service, other) = (messages(&node, own, depth)?, messages(&node, theirs, depth)?);
        let publisher = service
            .publisher_builder()
            .initial_max_slice_len(link.payload_bytes.max(1))
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(failed("create a publisher"))?;
        let subscriber = other.subscriber_builder().create().map_err(failed("create a subscriber"))?;
        let bells = match link.wait {
            Wait::Block => Some(Bells {
                notifier: events(&node, own)?
                    .notifier_builder()
                    .create()
                    .map_err(failed("create a notifier"))?,
                listener: events(&node, theirs)?
                    .listener_builder()
                    .create()
                    .map_err(failed("create a listener"))?,
            }),
            _ => None,
        };
        let payload_bytes = link.payload_bytes;
        Ok(Iceoryx2End { publisher, subscriber, bells, service, meeting, payload_bytes, _node: node })
    }

    /// Waits until the other end is as far as this one.
    fn meet(&self) -> io::Result<()> {
        self.meeting.tell()?;
        self.meeting.hear()
    }

    /// Sends a message that is there for its place only.
    fn send_blank(&mut self, len: usize) -> io::Result<()> {
        let mut tx = self.loan(len)?;
        tx.as_mut().fill(0);
        Self::commit(tx)
    }
}

fn messages(node: &Node<ipc::Service>, name: &str, depth: usize) -> io::Result<Messages> {
    node.service_builder(&name.try_into().map_err(failed("name a service"))?)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(depth)
        .subscriber_max_borrowed_samples(1)
        .history_size(0)
        .max_publishers(1)
        .max_subscribers(1)
        .max_nodes(2)
        .open_or_create()
        .map_err(failed("open a publish-subscribe service"))
}

fn events(node: &Node<ipc::Service>, name: &str) -> io::Result<Events> {
    node.service_builder(&name.try_into().map_err(failed("name a service"))?)
        .event()
        .max_notifiers(1)
        .max_listeners(1)
        .max_nodes(2)
        .open_or_create()
        .map_err(failed("open an event service"))
}

/// What was tried, and iceoryx2's own word for why not.
fn failed<E: std::fmt::Debug>(what: &'static str) -> impl FnOnce(E) -> io::Error {
    move |error| io::Error::other(format!("iceoryx2 cannot {what}: {error:?}"))
}

/// A message that is being written where its receiver will read it.
#[derive(Debug)]
pub struct Written<'a> {
    sample: SampleMut<ipc::Service, [u8], ()>,
    notifier: Option<&'a Notifier<ipc::Service>>,
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.sample.payload_mut()
    }
}

/// A message where its sender wrote it.
#[derive(Debug)]
pub struct Received(Sample<ipc::Service, [u8], ()>);

impl AsRef<[u8]> for Received {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}

impl Endpoint for Iceoryx2End {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Received;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        let sample = self.publisher.loan_slice_uninit(len).map_err(io::Error::other)?;
        // SAFETY: the bytes lie in a mapping, where each has a value; see the top of this file.
        let sample = unsafe { sample.assume_init() };
        Ok(Written { sample, notifier: self.bells.as_ref().map(|bells| &bells.notifier) })
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        if tx.sample.send().map_err(io::Error::other)? == 0 {
            return Err(peer_gone());
        }
        if let Some(notifier) = tx.notifier
            && notifier.notify().map_err(io::Error::other)? == 0
        {
            return Err(peer_gone());
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<Received> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(io::Error::other)? {
                return Ok(Received(sample));
            }
            match &self.bells {
                None => std::hint::spin_loop(),
                Some(bells) => listen(&bells.listener)?,
            }
        }
    }

    /// Has every message's place written here and read there. Both ends do this at the same time.
    fn prefault(&mut self) -> io::Result<()> {
        let (depth, len) = (self.subscriber.buffer_size(), self.payload_bytes);
        for _ in 0..depth {
            self.send_blank(len)?;
        }
        self.meet()?;
        // One that is read leaves room for one more in the queue, and a last one is written: that is all there are.
        let held = self.take(len)?;
        read_pages(held.as_ref());
        self.meet()?;
        self.send_blank(len)?;
        self.loan(len)?.as_mut().fill(0);
        drop(held);
        for _ in 0..depth {
            read_pages(self.take(len)?.as_ref());
        }
        self.meet()
    }

    fn settle(&mut self) -> io::Result<()> {
        // Who is gone needs nothing any more, and the coordinator knows that it went too early.
        match self.meet() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn facts(&self) -> Facts {
        let settings = self.service.static_config();
        let backpressure = match (settings.has_safe_overflow(), self.publisher.backpressure_strategy()) {
            (true, _) => "overflow".into(),
            (false, strategy) => format!("{strategy:?}"),
        };
        Facts::from([
            ("iceoryx2_version".into(), PackageVersion::get().to_string()),
            ("depth".into(), self.subscriber.buffer_size().to_string()),
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

/// Reads a byte of every page.
fn read_pages(payload: &[u8]) {
    payload.chunks(PAGE_BYTES).for_each(|page| {
        std::hint::black_box(page[0]);
    });
}

/// Sleeps until the other end notifies. What it notified of is in the queue, so the events themselves tell nothing more.
fn listen(listener: &Listener<ipc::Service>) -> io::Result<()> {
    match listener.blocking_wait(|_| {}) {
        // Stopped and continued: the loop around this looks again.
        Ok(_) | Err(ListenerWaitError::InterruptSignal) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
