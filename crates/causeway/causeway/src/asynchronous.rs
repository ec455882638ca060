//! Receiving and publishing in a tokio program.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use causeway_os::Context as _;
use futures_core::{FusedStream, Stream};
use futures_sink::Sink;
use tokio::net::UnixStream;
use tokio::task::coop::poll_proceed;

use crate::error::{Error, Result};
use crate::log::Position;
use crate::message::{Message, OwnedMessage, Received};
use crate::outcome::or_none;
use crate::publisher::Publisher;
use crate::space::SpaceWait;
use crate::subscriber::{DRAIN_READS_MAX, Subscriber};

/// A subscriber in a tokio program. Its doorbell is registered with the runtime, edge-triggered.
///
/// Also a [`Stream`] of messages with payloads of their own. The stream ends after [`Error::Disconnected`], which it does not
/// return, and after any other error, which it does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> causeway::Result<()> {
/// use causeway::{AsyncPublisher, AsyncSubscriber, Group, GroupOptions, Policy, Received};
///
/// let group = Group::create("prices", GroupOptions::new())?;
/// let mut publisher = AsyncPublisher::new(group.publisher()?);
/// let mut subscriber = AsyncSubscriber::new(group.subscribe(Policy::Reliable)?)?;
///
/// let receiving = tokio::spawn(async move {
///     match subscriber.recv().await? {
///         Received::Message(message) => Ok(message.bytes.to_vec()),
///         Received::Lost { messages, .. } => panic!("{messages} messages lost"),
///         Received::Demoted => unreachable!("the policy has no deadline"),
///     }
/// });
/// publisher.publish(b"42.17").await?;
/// # let received: causeway::Result<Vec<u8>> = receiving.await.expect("no panic");
/// assert_eq!(received?, b"42.17");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncSubscriber {
    /// Before the subscriber, so that it is dropped and deregistered first.
    doorbell: UnixStream,
    subscriber: Subscriber,
    /// The stream has returned its last item.
    has_ended: bool,
}

impl AsyncSubscriber {
    /// Registers a subscriber with the present tokio runtime.
    ///
    /// # Errors
    /// [`Error::Os`] without descriptors, or in a runtime without I/O.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(subscriber: Subscriber) -> Result<AsyncSubscriber> {
        let on = || "the doorbell of a subscriber";
        let doorbell = subscriber.as_fd().try_clone_to_owned().context("register", on)?;
        // The doorbell is one end of a pair of sockets; the runtime owns a second descriptor of it.
        let doorbell = StdUnixStream::from(doorbell);
        doorbell.set_nonblocking(true).context("register", on)?;
        let doorbell = UnixStream::from_std(doorbell).context("register", on)?;
        Ok(AsyncSubscriber { doorbell, subscriber, has_ended: false })
    }

    /// The next message, or the loss before it; waits for it. Cancel-safe: a future that is dropped before it is ready has
    /// consumed nothing. Fails as [`Subscriber::recv`].
    pub async fn recv(&mut self) -> Result<Received<Message<'_>>> {
        loop {
            poll_fn(|cx| self.poll_ready(cx)).await?;
            if let Some(taken) = self.subscriber.take_or_loss()? {
                return Ok(self.subscriber.received(taken));
            }
        }
    }

    /// Waits until the next receive need not wait. Cancel-safe.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    /// The subscriber itself, for calls that do not wait.
    pub fn get_mut(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }

    /// Ready when the next receive need not wait.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // A task that always finds a message must let others run all the same.
        let coop = ready!(poll_proceed(cx));
        while self.subscriber.arm()? {
            ready!(self.doorbell.poll_read_ready(cx))
                .context("wait for", || "the doorbell of a subscriber")?;
            // Drained, so that the runtime waits for a new edge; the next `arm` detects its end. A hostile process may fill it
            // all the time: what is left makes one wait end early.
            for _ in 0..DRAIN_READS_MAX {
                if !self.doorbell.try_read(&mut [0; 64]).is_ok_and(|notifications| notifications > 0) {
                    break;
                }
            }
        }
        self.subscriber.disarm();
        coop.made_progress();
        Poll::Ready(Ok(()))
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Received<OwnedMessage>>> {
        loop {
            ready!(self.poll_ready(cx))?;
            if let Some(taken) = self.subscriber.take_or_loss()? {
                return Poll::Ready(Ok(self.subscriber.received(taken).into_owned()));
            }
        }
    }
}

impl Stream for AsyncSubscriber {
    type Item = Result<Received<OwnedMessage>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let item = ready!(self.poll_item(cx));
        self.has_ended = item.is_err();
        Poll::Ready(match item {
            Err(Error::Disconnected) => None,
            item => Some(item),
        })
    }
}

impl FusedStream for AsyncSubscriber {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

/// A publisher in a tokio program. See [`AsyncSubscriber`] for an example.
///
/// Also a [`Sink`] of payloads. An item for which there is no space is copied and kept until the sink is flushed;
/// [`AsyncPublisher::publish`] publishes it first.
///
/// A full log has no descriptor to wait for, because subscribers must not write to memory that a publisher uses. So one thread
/// of the library waits for space, for all such publishers of the process; it starts when a log is full for the first time.
#[derive(Debug)]
pub struct AsyncPublisher {
    publisher: Publisher,
    /// The item of the sink that is not published yet.
    unsent: Option<Vec<u8>>,
    /// The present wait for space.
    space: Option<SpaceWait>,
}

impl AsyncPublisher {
    /// A publisher whose waits suspend a task.
    pub fn new(publisher: Publisher) -> AsyncPublisher {
        AsyncPublisher { publisher, unsent: None, space: None }
    }

    /// Publishes a copy of `payload` and returns its position in the log. While the log is full, other tasks run. Cancel-safe:
    /// a future that is dropped before it is ready has not published `payload`. Fails as [`Publisher::publish`].
    pub async fn publish(&mut self, payload: &[u8]) -> Result<Position> {
        poll_fn(|cx| {
            ready!(self.poll_unsent(cx))?;
            self.poll_publish(payload, cx)
        })
        .await
    }

    /// The publisher itself, for calls that do not wait.
    pub fn get_mut(&mut self) -> &mut Publisher {
        &mut self.publisher
    }

    fn poll_publish(&mut self, payload: &[u8], cx: &mut Context<'_>) -> Poll<Result<Position>> {
        let coop = ready!(poll_proceed(cx));
        loop {
            let published = or_none(self.publisher.try_publish(payload)).transpose();
            if let Some(decided) = published {
                self.space = None;
                coop.made_progress();
                return Poll::Ready(decided);
            }
            if self.space.as_ref().is_some_and(|space| !space.is_over(cx.waker())) {
                return Poll::Pending;
            }
            // The old wait first: its end also ends the announcement that the new one makes.
            self.space = None;
            self.space = Some(SpaceWait::start(self.publisher.space(), cx.waker())?);
        }
    }

    /// Publishes the item that the sink has kept, if there is one. An item that cannot be published is dropped with the error.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(payload) = self.unsent.take() else { return Poll::Ready(Ok(())) };
        match self.poll_publish(&payload, cx) {
            Poll::Pending => {
                self.unsent = Some(payload);
                Poll::Pending
            }
            Poll::Ready(published) => Poll::Ready(published.map(drop)),
        }
    }
}

impl<T: AsRef<[u8]>> Sink<T> for AsyncPublisher {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_unsent(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, item: T) -> Result<()> {
        assert!(self.unsent.is_none(), "start_send was called before poll_ready returned Ready");
        if or_none(self.publisher.try_publish(item.as_ref()))?.is_none() {
            self.unsent = Some(item.as_ref().to_vec());
        }
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_unsent(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_unsent(cx)
    }
}
