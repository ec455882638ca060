//! What goes: signals, and the way of every message of this connection into the log.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Body, Builder, Header, names};

use super::Connection;
use crate::error::{Error, Result};
use crate::port::{NotSent, To};

/// A message that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// For whom it is.
    pub to: To,
    /// Its serial.
    pub serial: u32,
    bytes: Vec<u8>,
    /// Who stands in the way: a member, at which cursor, since when.
    blocked: Option<(u16, u64, Instant)>,
}

impl Outgoing {
    pub(super) fn new(to: To, bytes: Vec<u8>, serial: u32) -> Outgoing {
        Outgoing { to, serial, bytes, blocked: None }
    }
}

impl Connection {
    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no path, interface or member; the bus or this connection has ended.
    pub fn emit(&mut self, path: &str, interface: &str, member: &str, body: Body) -> Result<()> {
        let signal = self.prepare_signal(path, interface, member, body)?;
        self.send(signal)
    }

    /// A signal, ready to be sent.
    pub(crate) fn prepare_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: Body,
    ) -> Result<Outgoing> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let serial = self.next_serial();
        let signal = Builder::signal(path, interface, member).sender(&self.name).body(body);
        Ok(Outgoing::new(To::All, build(signal, serial)?, serial))
    }

    /// A message that was built elsewhere, with a serial of its own, ready to be sent: its sender is this connection, whatever it says. A
    /// reply that it wants is waited for from here on, until [`Connection::drop_call`].
    #[cfg(feature = "zbus")]
    pub(crate) fn prepare_message(&mut self, header: &Header<'_>, bytes: &[u8]) -> Result<Outgoing> {
        use weighbridge_dbus::wire::{Kind, stamped};

        let to = match (header.destination, header.kind) {
            (Some(name), _) => self.resolve(name)?,
            (None, Kind::Signal) => To::All,
            (None, Kind::MethodCall) => self.resolve(crate::authority::DRIVER)?,
            (None, _) => return Err(Error::Invalid("a reply has no destination".into())),
        };
        let bytes = match header.sender {
            Some(sender) if sender == self.name => bytes.to_vec(),
            _ => stamped(bytes, header, &self.name).ok_or_else(|| {
                Error::Invalid("the message is too long with the name of its sender".into())
            })?,
        };
        if header.expects_reply() {
            self.expect_reply(header.serial, to);
        }
        Ok(Outgoing::new(to, bytes, header.serial))
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two members that send to each other both
    /// get on; a member that does not is put out.
    pub(super) fn send(&mut self, mut message: Outgoing) -> Result<()> {
        while !self.try_send(&mut message)? {
            self.take_all()?;
            if message.blocked.is_some() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    /// Sends if there is space. Otherwise wakes the member that is in the way, and puts it out after the deadline; the caller takes what
    /// has come, and tries again.
    pub(crate) fn try_send(&mut self, message: &mut Outgoing) -> Result<bool> {
        let Outgoing { to, bytes, .. } = message;
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let id = self.port.id();
        let slot = match self.port.send(&mut self.link, *to, id, &header, bytes) {
            Ok(_) => return Ok(true),
            Err(NotSent::Failed(error)) => return Err(error),
            Err(NotSent::Full(slot)) => slot,
        };
        if slot == self.port.slot() {
            message.blocked = None;
            return Ok(false);
        }
        self.port.ring(&mut self.link, slot);
        let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
        match message.blocked {
            Some((who, at, since)) if (who, at) == (slot, cursor) => {
                if since.elapsed() >= self.options.laggard_deadline {
                    self.port.evict(&mut self.link, slot);
                    message.blocked = None;
                }
            }
            _ => message.blocked = Some((slot, cursor, Instant::now())),
        }
        Ok(false)
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }
}

pub(super) fn build(message: Builder<'_>, serial: u32) -> Result<Vec<u8>> {
    message.build(serial).map_err(|too_long| Error::Invalid(too_long.to_string()))
}

pub(super) fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("{text:?} is no {what}"))) }
}
