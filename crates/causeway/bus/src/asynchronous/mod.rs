//! A connection for the tasks of a tokio program.

mod doorbell;
pub(crate) mod driver;
mod state;
mod streams;

pub use streams::{Calls, Signals};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, Decode, Encode, FLAG_NO_REPLY_EXPECTED};

use crate::authority::{NameReply, ReleaseReply};
use crate::connection::{
    Call, Callee, Connection, Outgoing, Refusal, Reply, Statistics, name_reply, release_reply,
};
use crate::content::Payload;
use crate::error::{Error, Result};
use driver::Driven;
use state::{InFlight, Waiters};

/// A member of a bus, for the tasks of a tokio program: any number of calls at once, signals and calls as streams.
///
/// A handle: clones are the same member, which leaves the bus when the last handle and the last stream are dropped. One
/// task of the runtime waits for messages on behalf of all. A future that is dropped before it is ready cancels what it
/// waits for: a message that was not sent yet is not sent, unless the bus holds its descriptors already; a reply that
/// comes later is discarded.
///
/// A connection asks the process that serves the bus for descriptors, and waits in the thread of its task: before the
/// first message from or to a member, and with each that carries some or is longer than a quarter of the outbox. That
/// process must not run in this thread.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), causeway_bus::Error> {
/// use causeway_bus::{AsyncConnection, wire::Body};
///
/// let bus = AsyncConnection::session().await?;
/// let ask = |member| bus.call("com.example.Clock", "/", "com.example.Clock", member, Body::default());
/// let (seconds, start) = tokio::try_join!(ask("Seconds"), ask("Start"))?;
/// println!("{} s since {}", seconds.args::<u32>()?, start.args::<&str>()?);
/// let mut changes = bus.add_match("member='NameOwnerChanged'").await?;
/// while let Some(change) = changes.next().await {
///     let change = change?;
///     let (name, _, owner): (&str, &str, &str) = change.args()?;
///     println!("{name} is {owner}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// A method that [`Connection`] has, too, does here what it does there, and fails as it does there.
#[derive(Clone, Debug)]
pub struct AsyncConnection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    driven: Driven<Waiters>,
    name: String,
    call_timeout: Duration,
}

impl AsyncConnection {
    /// Joins the bus of the session, as [`Connection::session`] finds it, and registers with the present runtime as
    /// [`AsyncConnection::new`].
    pub async fn session() -> Result<AsyncConnection> {
        AsyncConnection::new(join_session().await?)
    }

    /// Joins the bus that is served at a path, and registers with the present runtime as [`AsyncConnection::new`].
    pub async fn open(path: impl AsRef<Path>) -> Result<AsyncConnection> {
        AsyncConnection::new(join(path.as_ref()).await?)
    }

    /// Registers a connection with the present tokio runtime. Match rules that it has already have no stream: their
    /// signals are discarded.
    ///
    /// # Errors
    /// The kernel lacks descriptors, or the process that serves the bus is gone.
    ///
    /// # Panics
    /// Outside a tokio runtime, and in one without I/O. Calls panic in a runtime without time.
    pub fn new(connection: Connection) -> Result<AsyncConnection> {
        let (name, call_timeout) = (connection.unique_name().to_owned(), connection.call_timeout());
        let driven = Driven::new(connection, Waiters::default())?;
        Ok(AsyncConnection(Arc::new(Inner { driven, name, call_timeout })))
    }

    /// The unique name of this connection.
    pub fn unique_name(&self) -> &str {
        &self.0.name
    }

    /// Calls a method and waits for the reply, at most for [`call_timeout`](crate::ConnectionOptions::call_timeout).
    pub async fn call(
        &self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<Reply> {
        let callee = Callee { destination, path, interface, member };
        self.start_call(&callee, body.into()).await?.reply().await
    }

    /// Calls a method and wants no reply.
    pub async fn call_without_reply(
        &self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let (callee, payload) = (Callee { destination, path, interface, member }, body.into());
        self.send(|connection| connection.prepare_call(FLAG_NO_REPLY_EXPECTED, &callee, payload).map(Some))
            .await
    }

    /// Emits a signal to all who want it.
    pub async fn emit(
        &self,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let payload = body.into();
        self.send(|connection| connection.prepare_signal(path, interface, member, payload).map(Some)).await
    }

    /// The calls of others to this connection, as a stream; several streams share them. While there is none, calls are
    /// answered with the error `UnknownMethod`. Those of `org.freedesktop.DBus.Peer`, and `Introspect` of objects that
    /// were
    /// [described](AsyncConnection::describe), and properties that have a [value](AsyncConnection::set_property), are answered by this library.
    pub fn calls(&self) -> Calls {
        Calls::new(self.clone())
    }

    /// Says which interfaces an object of this program has, for `Introspect`.
    pub fn describe(&self, path: &str, interfaces: &str) -> Result<()> {
        self.0.driven.state().open()?.describe(path, interfaces)
    }

    /// Says the value of a property, as [`Connection::set_property`].
    pub async fn set_property<T: Encode + ?Sized>(
        &self,
        path: &str,
        interface: &str,
        name: &str,
        value: &T,
    ) -> Result<()> {
        self.send(|connection| connection.prepare_property(path, interface, name, value)).await
    }

    /// The value of a property, as [`Connection::property`].
    pub fn property<T: for<'a> Decode<'a>>(&self, path: &str, interface: &str, name: &str) -> Result<T> {
        self.0.driven.state().open()?.property(path, interface, name)
    }

    /// Answers a call.
    pub async fn reply(&self, call: &Call, body: impl Into<Payload>) -> Result<()> {
        let payload = body.into();
        let prepare = |connection: &mut Connection| {
            Ok((connection.apply_set(call)?, connection.prepare_answer(call, Ok(payload))?))
        };
        let (changed, answer) = self.0.driven.state().open().and_then(prepare)?;
        for message in changed.into_iter().chain(answer) {
            self.0.driven.send(message).await?;
        }
        Ok(())
    }

    /// Answers a call with an error, or as [`Connection::reply_error`] does.
    pub async fn reply_error(&self, call: &Call, error: &str, text: &str) -> Result<()> {
        self.send(|connection| connection.prepare_answer(call, Err(Refusal::new(error, text)))).await
    }

    /// Asks for a name, as [`Connection::request_name`].
    pub async fn request_name(&self, name: &str, flags: u32) -> Result<NameReply> {
        let body = Body::default().text(name).u32(flags);
        Ok(name_reply(&self.call_driver("RequestName", body).await?.reply().await?))
    }

    /// Gives a name up.
    pub async fn release_name(&self, name: &str) -> Result<ReleaseReply> {
        let body = Body::default().text(name);
        Ok(release_reply(&self.call_driver("ReleaseName", body).await?.reply().await?))
    }

    /// The signals that a rule matches from the return of this call on, and those for this connection alone, such as
    /// `NameLost`.
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
    pub fn list_names(&self) -> Vec<String> {
        self.ask(|connection| connection.list_names())
    }

    /// The unique name of the owner of a name, from the directory.
    pub fn name_owner(&self, name: &str) -> Option<String> {
        self.ask(|connection| connection.name_owner(name))
    }

    /// What this connection has done.
    pub fn statistics(&self) -> Statistics {
        self.ask(Connection::statistics)
    }

    fn ask<T: Default>(&self, ask: impl FnOnce(&mut Connection) -> T) -> T {
        self.0.driven.state().connection.as_mut().map(ask).unwrap_or_default()
    }

    /// Sends what `prepare` returns, if anything.
    async fn send(&self, prepare: impl FnOnce(&mut Connection) -> Result<Option<Outgoing>>) -> Result<()> {
        let prepared = self.0.driven.state().open().and_then(prepare)?;
        match prepared {
            Some(message) => self.0.driven.send(message).await,
            None => Ok(()),
        }
    }

    async fn start_call(&self, callee: &Callee<'_>, payload: Payload) -> Result<InFlight> {
        InFlight::start(self.0.driven.shared(), self.0.call_timeout, callee, payload).await
    }

    async fn call_driver(&self, member: &str, body: Body) -> Result<InFlight> {
        self.start_call(&Callee::driver(member), body.into()).await
    }
}

/// Joins a bus in a thread that may block.
pub(crate) async fn join(path: &Path) -> Result<Connection> {
    let path = path.to_owned();
    joined(move || Connection::open(path)).await
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
