//! zbus on Tokio's runtime of one thread: each operation is a `block_on` of its own, and the connection's tasks run inside it.
//!
//! Calls are `Connection::call_method`; a server takes calls from a `MessageStream` and answers with `Connection::reply`, without
//! `ObjectServer`. Not on the runtime of its own that zbus has by default: that one hands the connection to a helper thread whenever
//! no `block_on` runs, which would be after each operation here, and not in a program that is asynchronous throughout.

use std::ffi::CStr;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use causeway_bus::client::native_path;
use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
use futures_core::Stream;
use tokio::runtime::{self, Runtime};
use zbus::message::{Body, Flags, Type};
use zbus::{Connection, MatchRule, Message, MessageStream, connection};

use super::{Connected, Role};
use crate::client::{INTERFACE, MEMBER, PATH};

const VERSION: &str = "6.2.1";

pub struct Zbus {
    runtime: Runtime,
    connection: Connection,
    role: Role,
    partner: String,
    /// What comes to a server or a subscriber.
    incoming: Option<MessageStream>,
    /// The call that may be replied to.
    call: Option<Message>,
    /// The body whose bytes were handed out last.
    body: Option<Body>,
}

impl Zbus {
    pub fn connect(address: &str, role: Role, partner: &str) -> io::Result<Zbus> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let connected = runtime.block_on(async {
            let connection = match native_path(address) {
                // Also as a member where the bus has those.
                Some(path) => causeway_bus::zbus::builder(path).await.map_err(io::Error::other)?,
                None => connection::Builder::address(address),
            };
            let connection = connection.build().await?;
            let incoming = match role {
                Role::Server => Some(MessageStream::from(&connection)),
                Role::Subscriber => {
                    let rule = MatchRule::builder().msg_type(Type::Signal).interface(INTERFACE);
                    let rule = rule.member(MEMBER).path(PATH).build()?;
                    Some(MessageStream::for_match_rule(rule, &connection, None).await?)
                }
                _ => None,
            };
            Ok((connection, incoming))
        });
        let (connection, incoming) = connected.map_err(|error: zbus::Error| io::Error::other(error))?;
        Ok(Zbus { runtime, connection, role, partner: partner.into(), incoming, call: None, body: None })
    }

    #[cold]
    fn failure(&self, error: zbus::Error) -> io::Error {
        if self.connection.is_closed() {
            // Not as a partner that is gone: nothing else has failed before.
            io::Error::new(
                io::ErrorKind::ConnectionAborted,
                format!("the broker closed the connection: {error}"),
            )
        } else {
            io::Error::other(error)
        }
    }
}

/// The next message that is a call or a signal of ours.
async fn next(incoming: &mut MessageStream) -> zbus::Result<Message> {
    loop {
        let message = poll_fn(|cx| Pin::new(&mut *incoming).poll_next(cx)).await;
        let message =
            message.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()))?;
        let header = message.header();
        if header.member().is_some_and(|member| member == MEMBER) {
            drop(header);
            return Ok(message);
        }
    }
}

impl Connected for Zbus {
    fn unique_name(&self) -> io::Result<String> {
        let name = self.connection.unique_name();
        name.map(ToString::to_string).ok_or_else(|| io::Error::other("zbus has no name on the bus"))
    }

    fn version(&self) -> String {
        VERSION.into()
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let Zbus { runtime, connection, partner, call, .. } = self;
        let partner = partner.as_str();
        self.body = None;
        let result = runtime.block_on(async {
            match self.role {
                Role::Caller => {
                    let reply =
                        connection.call_method(Some(partner), PATH, Some(INTERFACE), MEMBER, &payload);
                    return reply.await.map(Some);
                }
                Role::Server => {
                    let call = call.take().expect("a server replies to a call");
                    connection.reply(&call.header(), &payload).await?;
                }
                Role::Emitter => {
                    connection.emit_signal(None::<&str>, PATH, INTERFACE, MEMBER, &payload).await?;
                }
                Role::Sender | Role::Subscriber | Role::Asker => {
                    let call = Message::method_call(PATH, MEMBER).destination(partner).interface(INTERFACE);
                    let call = call.with_flags(Flags::NO_REPLY_EXPECTED).build(&payload)?;
                    connection.send(&call).await?;
                }
            }
            Ok(None)
        });
        let reply = result.map_err(|error| self.failure(error))?;
        self.body = reply.map(|reply| reply.body());
        Ok(())
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        if let Some(incoming) = &mut self.incoming {
            let message = self.runtime.block_on(next(incoming)).map_err(|error| self.failure(error))?;
            self.body = Some(message.body());
            self.call = Some(message);
        }
        let body =
            self.body.as_ref().ok_or_else(|| io::Error::other("a reply is taken where no call was made"))?;
        body.deserialize().map_err(io::Error::other)
    }

    fn ask(&mut self, method: &CStr, argument: Option<&CStr>) -> io::Result<()> {
        let text = |text: &CStr| text.to_str().map(str::to_owned).map_err(io::Error::other);
        let (method, argument) = (text(method)?, argument.map(text).transpose()?);
        let destination = Some(DRIVER);
        let reply = self.runtime.block_on(async {
            match &argument {
                Some(text) => {
                    self.connection.call_method(destination, DRIVER_PATH, destination, method, text).await
                }
                None => self.connection.call_method(destination, DRIVER_PATH, destination, method, &()).await,
            }
        });
        reply.map(drop).map_err(|error| self.failure(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = include_str!("../../../../../Cargo.lock");
        let locked = lock.split("[[package]]").find(|package| package.contains("\nname = \"zbus\"\n"));
        let locked = locked.expect("zbus is locked");
        assert!(
            locked.contains(&format!("\nversion = \"{VERSION}\"\n")),
            "{VERSION}, and in the lock file{locked}"
        );
    }
}
