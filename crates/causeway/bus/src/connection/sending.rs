//! What goes: signals, and the way of every message of this connection into the log.

use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_dbus_wire::wire::{Builder, Layout, Templates, Unbuildable};

use super::Connection;
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{NotSent, Outbound, To, TransferRef};

/// A buffer of more bytes is given back after its message.
const BUFFER_BYTES_KEPT: usize = 1 << 16;

/// A message that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub to: To,
    pub serial: u32,
    bytes: Vec<u8>,
    /// Where in `bytes` the fields of its header lie.
    layout: Layout,
    descriptors: Vec<OwnedFd>,
    /// What of it lies with the authority, once that was asked to keep it.
    transfer: Option<TransferRef>,
    /// Others stand in its way.
    is_blocked: bool,
}

impl Outgoing {
    /// A message whose header was parsed from its bytes.
    pub(super) fn parsed(
        to: To,
        layout: Layout,
        bytes: Vec<u8>,
        descriptors: Vec<OwnedFd>,
        serial: u32,
    ) -> Outgoing {
        Outgoing { to, serial, bytes, layout, descriptors, transfer: None, is_blocked: false }
    }

    /// Does the authority hold a part of it already? Then it has to be sent.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_staged(&self) -> bool {
        self.transfer.is_some_and(|transfer| transfer.token != 0)
    }
}

/// Where messages of a connection are built.
#[derive(Debug, Default)]
pub(super) struct Writer {
    serial: u32,
    templates: Templates,
    buffer: Vec<u8>,
}

impl Writer {
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }

    #[inline]
    pub(super) fn prepare(
        &mut self,
        to: To,
        message: &Builder<'_>,
        descriptors: Vec<OwnedFd>,
        serial: u32,
    ) -> Result<Outgoing> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let layout = self.templates.build(message, serial, &mut bytes).map_err(|why| match why {
            Unbuildable::TooLong(too_long) => Error::method(name::LIMITS_EXCEEDED, too_long.to_string()),
            Unbuildable::Invalid(why) => Error::Invalid(why),
        })?;
        Ok(Outgoing::parsed(to, layout, bytes, descriptors, serial))
    }

    /// Keeps the buffer of a message that was sent.
    fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = buffer;
        }
    }
}

impl Connection {
    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid path, interface or member; [`Error::Method`] with `LimitsExceeded` for more descriptors or
    /// bytes than the bus takes now; the bus or this connection has ended.
    pub fn emit(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let signal = self.prepare_signal(path, interface, member, body.into())?;
        self.send(signal)
    }

    pub(crate) fn prepare_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        Payload { body, descriptors }: Payload,
    ) -> Result<Outgoing> {
        let serial = self.next_serial();
        let signal = Builder::signal(path, interface, member).unix_fds(descriptors.len() as u32);
        let signal = signal.sender(&self.name).body(body);
        self.writer.prepare(To::All, &signal, descriptors, serial)
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two that send to each other get on.
    pub(super) fn send(&mut self, mut message: Outgoing) -> Result<()> {
        while !self.try_send(&mut message)? {
            self.drain(usize::MAX)?;
            if message.is_blocked {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.writer.recycle(message.bytes);
        Ok(())
    }

    /// Sends if there is space. Otherwise wakes those that block it, and evicts them after the deadline; drain, and try again.
    pub(crate) fn try_send(&mut self, message: &mut Outgoing) -> Result<bool> {
        let Outgoing { to, bytes, layout, descriptors, transfer, .. } = message;
        let to = *to;
        let transfer = match *transfer {
            Some(transfer) => transfer,
            None => *transfer.insert(self.stage(to, layout, bytes, descriptors)?),
        };
        let outbound = Outbound::of_layout(to, self.port.id(), layout, bytes);
        let slot = match self.port.send(&mut self.link, &outbound, transfer) {
            Ok(position) => {
                self.note_sent(transfer, &outbound, position);
                return Ok(true);
            }
            Err(NotSent::Failed(error)) => return Err(error),
            Err(NotSent::Full(slot)) => slot,
        };
        message.is_blocked = slot != self.port.slot();
        if message.is_blocked {
            self.port.wake_or_evict(&mut self.link, slot, self.laggard_deadline);
        }
        Ok(false)
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.writer.next_serial()
    }
}

pub(super) fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("invalid {what}: {text:?}"))) }
}
