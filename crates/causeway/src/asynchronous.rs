//! Receiving and publishing in a tokio program.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::net::UnixStream;

use crate::error::{Error, Result};
use crate::publisher::{Position, Published, Publisher};
use crate::subscriber::{HUSH_READS, Received, Subscriber};

/// A receiver in a tokio program. Its doorbell is registered with the runtime, edge-triggered.
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
///         other => panic!("{other:?}"),
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
    /// Before the subscriber, so that the runtime lets go of the descriptor first.
    bell: UnixStream,
    subscriber: Subscriber,
}

impl AsyncSubscriber {
    /// Registers a receiver with the runtime that this is called in.
    ///
    /// # Errors
    /// No descriptors left; a runtime without I/O.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(subscriber: Subscriber) -> Result<AsyncSubscriber> {
        let failed = |error: io::Error| Error::os("register", "a receiver's doorbell", error);
        let bell = subscriber.as_fd().try_clone_to_owned().map_err(failed)?;
        // The doorbell is one end of a pair of sockets; a second descriptor of it is the runtime's to own.
        let bell = StdUnixStream::from(bell);
        bell.set_nonblocking(true).map_err(failed)?;
        let bell = UnixStream::from_std(bell).map_err(failed)?;
        Ok(AsyncSubscriber { bell, subscriber })
    }

    /// The next message or loss; never [`Received::Empty`]. Cancel-safe: dropped before it is ready, it took nothing.
    ///
    /// # Errors
    /// As [`Subscriber::receive`].
    pub async fn recv(&mut self) -> Result<Received<'_>> {
        while self.subscriber.arm()? {
            self.bell
                .readable()
                .await
                .map_err(|error| Error::os("wait for", "a receiver's doorbell", error))?;
            // Emptied, so that the runtime waits for a new edge. The end of it is noticed by the next arming. Somebody may
            // fill it all the time: what is left costs a wait that ends early.
            for _ in 0..HUSH_READS {
                if !self.bell.try_read(&mut [0; 64]).is_ok_and(|rings| rings > 0) {
                    break;
                }
            }
        }
        self.subscriber.disarm();
        self.subscriber.receive()
    }

    /// The receiver itself, for everything that does not wait.
    pub fn get_mut(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }
}

/// A publisher in a tokio program. See [`AsyncSubscriber`] for an example.
#[derive(Debug)]
pub struct AsyncPublisher(Publisher);

impl AsyncPublisher {
    /// A publisher whose waits are those of a task.
    pub fn new(publisher: Publisher) -> AsyncPublisher {
        AsyncPublisher(publisher)
    }

    /// Publishes a copy of `payload` and returns where it lies; while the log is full, other tasks run. Cancel-safe:
    /// dropped before it is ready, it published nothing.
    ///
    /// A full log has no descriptor to wait for: receivers must not be able to write anything of a publisher's. So the
    /// wait itself is one of a blocking thread of the runtime; it is only taken when the log is full.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub async fn publish(&mut self, payload: &[u8]) -> Result<Position> {
        loop {
            if let Published::At(position) = self.0.publish(payload)? {
                return Ok(position);
            }
            let space = self.0.space();
            tokio::task::spawn_blocking(move || space.wait())
                .await
                .map_err(|error| Error::os("wait for", "space in a log", io::Error::other(error)))?;
        }
    }

    /// The publisher itself, for everything that does not wait.
    pub fn get_mut(&mut self) -> &mut Publisher {
        &mut self.0
    }
}
