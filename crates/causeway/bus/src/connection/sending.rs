//! What goes: signals, and the way of every message of this connection into the log.

use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_dbus_wire::wire::{Body, Builder, Layout, Templates, Unbuildable};

use super::Connection;
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{NotSent, Outbound, To, TransferRef};

/// A buffer of more bytes is given back after its message.
const BUFFER_BYTES_KEPT: usize = 1 << 16;

/// The message that was built last: for whom it is, and its serial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Built {
    pub to: To,
    pub serial: u32,
}

/// A message that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    built: Built,
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
        built: Built,
        layout: Layout,
        bytes: Vec<u8>,
        descriptors: Vec<OwnedFd>,
    ) -> Outgoing {
        Outgoing { built, layout, bytes, descriptors, transfer: None, is_blocked: false }
    }

    /// Does the authority hold a part of it already? Then it has to be sent.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_staged(&self) -> bool {
        self.transfer.is_some_and(|transfer| transfer.token != 0)
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn to(&self) -> To {
        self.built.to
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn serial(&self) -> u32 {
        self.built.serial
    }
}

/// Where messages of a connection are built.
#[derive(Debug, Default)]
pub(super) struct Writer {
    serial: u32,
    templates: Templates,
    /// The message that was built last.
    buffer: Vec<u8>,
}

impl Writer {
    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }

    /// Builds a message in the buffer.
    #[inline]
    pub(super) fn build(&mut self, to: To, message: &Builder<'_>, serial: u32) -> Result<Built> {
        match self.templates.build(message, serial, &mut self.buffer) {
            Ok(_) => Ok(Built { to, serial }),
            Err(Unbuildable::TooLong(too_long)) => {
                Err(Error::method(name::LIMITS_EXCEEDED, too_long.to_string()))
            }
            Err(Unbuildable::Invalid(why)) => Err(Error::Invalid(why)),
        }
    }

    /// Takes the message that was built last out of the buffer.
    pub(super) fn take(&mut self, built: Built, descriptors: Vec<OwnedFd>) -> Outgoing {
        Outgoing::parsed(built, *self.templates.last(), std::mem::take(&mut self.buffer), descriptors)
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
        let Payload { body, descriptors } = body.into();
        let signal = self.build_signal(path, interface, member, body, descriptors.len())?;
        self.send_built(signal, descriptors)
    }

    pub(crate) fn prepare_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        Payload { body, descriptors }: Payload,
    ) -> Result<Outgoing> {
        let signal = self.build_signal(path, interface, member, body, descriptors.len())?;
        Ok(self.writer.take(signal, descriptors))
    }

    #[inline]
    fn build_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: Body,
        descriptors: usize,
    ) -> Result<Built> {
        let serial = self.next_serial();
        let signal = Builder::signal(path, interface, member).unix_fds(descriptors as u32);
        let signal = signal.sender(&self.name).body(body);
        let built = self.writer.build(To::All, &signal, serial);
        signal.recycle();
        built
    }

    /// Sends the message that was built last, out of the buffer where it lies; where that is not possible at once, as [`Connection::send`].
    #[inline]
    pub(super) fn send_built(&mut self, built: Built, descriptors: Vec<OwnedFd>) -> Result<()> {
        let bytes = &self.writer.buffer;
        if descriptors.is_empty() && bytes.len() <= self.port.longest_message() {
            let outbound = Outbound::of_layout(built.to, self.port.id(), self.writer.templates.last(), bytes);
            match self.port.send(&mut self.link, &outbound, TransferRef::default()) {
                Ok(_) => {
                    if self.writer.buffer.capacity() > BUFFER_BYTES_KEPT {
                        self.writer.buffer = Vec::new();
                    }
                    return Ok(());
                }
                Err(NotSent::Failed(error)) => return Err(error),
                Err(NotSent::Full(_)) => {}
            }
        }
        let message = self.writer.take(built, descriptors);
        self.send(message)
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
        let Outgoing { built: Built { to, .. }, bytes, layout, descriptors, transfer, .. } = message;
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
