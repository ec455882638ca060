//! A native member at one end and a D-Bus client of the same bus at the other: each message passes through the process that serves the bus,
//! which takes it from memory and writes it to a socket, or the other way round.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use causeway_bus::client::Bus;
use causeway_dbus_wire::wire::Header;
use weighbridge_harness::choice;
use weighbridge_harness::contract::Side;
use weighbridge_harness::params::CaseParams;

use crate::broker;
use crate::client::{Incoming, Outgoing};
use crate::libraries::{Connected, Role};
use crate::pair::messages;

choice! {
    /// Which role is a D-Bus client.
    pub enum DbusClient {
        None = "none",
        First = "first",
        Last = "last",
    }
    axis "dbus-client", default None: "which role is a D-Bus client of the same bus in place of a native member, so that each message passes \
        through causewayd: none, the first (client, sender) or the last (server, receiver)"
}

impl DbusClient {
    /// That of a case; none where its target has no such axis.
    pub fn of(params: &CaseParams) -> DbusClient {
        params.choice_if_declared().unwrap_or(DbusClient::None)
    }

    /// Is a role of a case a D-Bus client?
    pub fn is(self, role: Role) -> bool {
        match self {
            DbusClient::None => false,
            DbusClient::First => matches!(role, Role::Caller | Role::Sender),
            DbusClient::Last => role == Role::Server,
        }
    }
}

/// A D-Bus client that writes and reads the bytes of messages itself, as the ends of a broker do.
pub struct SocketClient {
    socket: OwnedFd,
    unique_name: String,
    role: Role,
    /// Of a server from its first call on, which says to whom it replies.
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    /// Number of the call that was taken last.
    answers: u32,
    payload_bytes: usize,
}

impl SocketClient {
    /// Connects to the D-Bus socket of the bus, for a role that calls `partner` if it calls.
    pub fn connect(
        params: &CaseParams,
        address: &str,
        role: Role,
        partner: &str,
    ) -> io::Result<SocketClient> {
        let connection = Bus::connect(address).map_err(io::Error::other)?;
        let payload_bytes = params.payload_bytes;
        let side = if role == Role::Server { Side::Far } else { Side::Near };
        let (message, awaited) = messages(side, role == Role::Sender, partner);
        let outgoing = (side == Side::Near).then(|| Outgoing::new(&message, payload_bytes)).transpose()?;
        Ok(SocketClient {
            unique_name: connection.unique_name().to_owned(),
            socket: broker::socket(connection)?,
            role,
            outgoing,
            incoming: Incoming::new(awaited, params)?,
            answers: 0,
            payload_bytes,
        })
    }

    /// Prepares the replies to the sender of the call that was taken last.
    #[cold]
    fn reply_to_caller(&mut self) -> io::Result<()> {
        let call = Header::parse(self.incoming.whole()).map_err(io::Error::other)?;
        let caller = call.sender.ok_or_else(|| io::Error::other("a call came that names no sender"))?;
        let (reply, _) = messages(Side::Far, false, caller);
        let mut outgoing = Outgoing::new(&reply, self.payload_bytes)?;
        outgoing.prefault()?;
        self.outgoing = Some(outgoing);
        Ok(())
    }
}

impl Connected for SocketClient {
    fn unique_name(&self) -> io::Result<String> {
        Ok(self.unique_name.clone())
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let outgoing =
            self.outgoing.as_mut().ok_or_else(|| io::Error::other("there is no call to reply to"))?;
        outgoing.payload(bytes.len()).copy_from_slice(bytes);
        outgoing.send(&self.socket, bytes.len(), self.answers)
    }

    #[inline]
    fn receive(&mut self) -> io::Result<&[u8]> {
        let message = self.incoming.next(&self.socket)?;
        self.answers = message.serial;
        if self.outgoing.is_none() {
            self.reply_to_caller()?;
        }
        Ok(self.incoming.payload(&message))
    }

    fn ask(&mut self, _method: &CStr, _argument: Option<&CStr>) -> io::Result<()> {
        Err(io::Error::other(format!("the role {:?} asks the bus nothing", self.role)))
    }
}
