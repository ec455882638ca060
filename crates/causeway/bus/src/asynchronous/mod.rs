//! A connection for the tasks of a tokio program.

mod doorbell;
mod sending;
mod state;
mod streams;

pub use streams::{Calls, Signals};

#[cfg(feature = "zbus")]
pub(crate) use doorbell::{Doorbell, Turn};
#[cfg(feature = "zbus")]
pub(crate) use sending::{MessageSink, send};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, FLAG_NO_REPLY_EXPECTED};
use tokio::task::AbortHandle;

use crate::authority::{DRIVER, DRIVER_PATH, NameReply, ReleaseReply};
use crate::connection::{Call, Connection, ConnectionOptions, Reply, Statistics, name_reply, release_reply};
use crate::content::Payload;
use crate::error::{Error, Result};
use state::{InFlight, Shared};

/// Messages that a task takes before others of the runtime get their turn.
pub(crate) const MESSAGES_PER_TURN: usize = 128;

/// A member of a bus, for the tasks of a tokio program: any number of calls at once, signals and calls as streams.
///
/// A handle: clones are the same member, which leaves the bus when the last handle and the last stream are dropped. One task of
/// the runtime waits for messages on behalf of all. A future that is dropped before it is ready cancels what it waits for: a
/// message that was not sent yet is not sent, unless the bus holds its descriptors already; a reply that comes later is discarded.
///
/// Descriptors pass through the process that serves the bus, and a connection waits for them in the thread of its task: before the first
/// message from or to a member, and with each message that carries descriptors or is longer than a quarter of the outbox. So that process
/// must not run in the same thread.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), causeway_bus::Error> {
/// use causeway_bus::{AsyncConnection, wire::Body};
///
/// let bus = AsyncConnection::session().await?;
/// let ask = |member| bus.call("com.example.Clock", "/", "com.example.Clock", member, Body::default());
/// let (seconds, start) = tokio::try_join!(ask("Seconds"), ask("Start"))?;
/// println!("{:?} {:?}", seconds.args(), start.args());
/// let mut changes = bus.add_match("member='NameOwnerChanged'").await?;
/// while let Some(change) = changes.next().await {
///     println!("{:?}", change?.args());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncConnection(Arc<Inner>);

/// What handles and streams hold. The task that waits for messages holds only `shared`, and ends with this.
#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    driver: AbortHandle,
    name: String,
    call_timeout: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl AsyncConnection {
    /// Joins the bus of the session, as [`Connection::session`] finds it.
    ///
    /// # Errors
    /// As [`Connection::session`] and [`AsyncConnection::new`].
    ///
    /// # Panics
    /// As [`AsyncConnection::new`].
    pub async fn session() -> Result<AsyncConnection> {
        AsyncConnection::new(join_session().await?)
    }

    /// Joins the bus that is served at a path.
    ///
    /// # Errors
    /// As [`Connection::open`] and [`AsyncConnection::new`].
    ///
    /// # Panics
    /// As [`AsyncConnection::new`].
    pub async fn open(path: impl AsRef<Path>) -> Result<AsyncConnection> {
        AsyncConnection::new(join(path.as_ref(), ConnectionOptions::default()).await?)
    }

    /// Registers a connection with the present tokio runtime. Match rules that it has already have no stream: their signals are discarded.
    ///
    /// # Errors
    /// The kernel lacks descriptors, or the process that serves the bus is gone.
    ///
    /// # Panics
    /// Outside a tokio runtime, and in one without I/O. Calls panic in a runtime without time.
    pub fn new(connection: Connection) -> Result<AsyncConnection> {
        let (name, call_timeout) = (connection.unique_name().to_owned(), connection.call_timeout());
        let (shared, doorbell) = Shared::new(connection)?;
        let driver = tokio::spawn(state::drive(Arc::clone(&shared), doorbell)).abort_handle();
        Ok(AsyncConnection(Arc::new(Inner { shared, driver, name, call_timeout })))
    }

    /// The unique name of this connection.
    #[must_use]
    pub fn unique_name(&self) -> &str {
        &self.0.name
    }

    /// Calls a method and waits for the reply, at most for [`ConnectionOptions::call_timeout`]. A future that is dropped cancels
    /// the call.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn call(
        &self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<Reply> {
        self.start_call(destination, path, (interface, member), body.into()).await?.reply().await
    }

    /// Calls a method and wants no reply.
    ///
    /// # Errors
    /// As [`Connection::call_without_reply`].
    pub async fn call_without_reply(
        &self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let flags = FLAG_NO_REPLY_EXPECTED;
        let call = self.0.shared.open()?.connection.prepare_call(
            flags,
            destination,
            path,
            (interface, member),
            body.into(),
        )?;
        self.0.shared.send(call).await
    }

    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// As [`Connection::emit`].
    pub async fn emit(
        &self,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let body = body.into();
        let signal = self.0.shared.open()?.connection.prepare_signal(path, interface, member, body)?;
        self.0.shared.send(signal).await
    }

    /// The calls of others to this connection, as a stream; several streams share them. While there is none, calls are answered
    /// with the error `UnknownMethod`. Those of `org.freedesktop.DBus.Peer`, and `Introspect` of objects that were
    /// [described](AsyncConnection::describe), are answered by this library.
    pub fn calls(&self) -> Calls {
        Calls::new(self.clone())
    }

    /// Says which interfaces an object of this program has, for `Introspect`.
    ///
    /// # Errors
    /// As [`Connection::describe`].
    pub fn describe(&self, path: &str, interfaces: &str) -> Result<()> {
        self.0.shared.state().connection.describe(path, interfaces)
    }

    /// Answers a call.
    ///
    /// # Errors
    /// As [`Connection::reply`].
    pub async fn reply(&self, call: &Call, body: impl Into<Payload>) -> Result<()> {
        self.0.shared.answer(call, Ok(body.into())).await
    }

    /// Answers a call with an error, or as [`Connection::reply_error`] does.
    ///
    /// # Errors
    /// As [`Connection::reply_error`].
    pub async fn reply_error(&self, call: &Call, error: &str, text: &str) -> Result<()> {
        self.0.shared.answer(call, Err((error, text))).await
    }

    /// Asks for a name, with the flags of D-Bus (1 allow replacement, 2 replace the owner, 4 do not wait).
    ///
    /// # Errors
    /// As [`Connection::request_name`].
    pub async fn request_name(&self, name: &str, flags: u32) -> Result<NameReply> {
        let body = Body::default().text(name).u32(flags);
        Ok(name_reply(&self.call_driver("RequestName", body).await?.reply().await?))
    }

    /// Gives a name up.
    ///
    /// # Errors
    /// As [`Connection::release_name`].
    pub async fn release_name(&self, name: &str) -> Result<ReleaseReply> {
        let body = Body::default().text(name);
        Ok(release_reply(&self.call_driver("ReleaseName", body).await?.reply().await?))
    }

    /// The signals that a rule matches, from the return of this call on, as a stream; also signals for this connection alone, such as `NameLost`. The rule ends
    /// with the stream.
    ///
    /// # Errors
    /// As [`Connection::add_match`].
    pub async fn add_match(&self, rule: &str) -> Result<Signals> {
        // First the rule, then its registration: a signal between both is received.
        let mut signals = Signals::new(self.clone(), rule)?;
        let call = self.call_driver("AddMatch", Body::default().text(rule)).await?;
        // From here on the authority removes it again when the stream, or this future, is dropped.
        signals.set_registered(true);
        let added = call.reply().await;
        signals.set_registered(added.is_ok());
        added.map(|_| signals)
    }

    /// All names of the bus, from the directory: no message is sent.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        self.0.shared.state().connection.list_names()
    }

    /// The unique name of the owner of a name, from the directory.
    #[must_use]
    pub fn name_owner(&self, name: &str) -> Option<String> {
        self.0.shared.state().connection.name_owner(name)
    }

    /// What this connection has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.shared.state().connection.statistics()
    }

    async fn start_call(
        &self,
        destination: &str,
        path: &str,
        method: (&str, &str),
        body: Payload,
    ) -> Result<InFlight> {
        InFlight::start(&self.0.shared, self.0.call_timeout, destination, path, method, body).await
    }

    async fn call_driver(&self, member: &str, body: Body) -> Result<InFlight> {
        self.start_call(DRIVER, DRIVER_PATH, (DRIVER, member), body.into()).await
    }
}

/// Joins a bus on a thread for work that blocks.
pub(crate) async fn join(path: &Path, options: ConnectionOptions) -> Result<Connection> {
    let path = path.to_owned();
    joined(move || Connection::open_with(path, options)).await
}

/// Joins the bus of the session in a thread that may block.
pub(crate) async fn join_session() -> Result<Connection> {
    joined(Connection::session).await
}

async fn joined(join: impl FnOnce() -> Result<Connection> + Send + 'static) -> Result<Connection> {
    match tokio::task::spawn_blocking(join).await {
        Ok(joined) => joined,
        Err(_) => Err(Error::Disconnected("the runtime of this program shuts down".into())),
    }
}
