//! What goes: signals, and the way of every message of this connection into the log.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Builder, Header, names};

use super::Connection;
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{NotSent, To};

/// A buffer of more bytes is given back after its message.
const BUFFER_BYTES_KEPT: usize = 1 << 16;

impl Connection {
    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no path, interface or member; [`Error::Method`] with `LimitsExceeded` for more descriptors or
    /// bytes than the bus takes now; the bus or this connection has ended.
    pub fn emit(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let Payload { body, descriptors } = body.into();
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let serial = self.next_serial();
        let name = Arc::clone(&self.name);
        let signal = Builder::signal(path, interface, member).sender(&name).body(body);
        self.build_and_send(To::All, &signal.unix_fds(descriptors.len() as u32), serial, &descriptors)
    }

    /// Sends a message whose names were checked.
    pub(super) fn build_and_send(
        &mut self,
        to: To,
        message: &Builder<'_>,
        serial: u32,
        descriptors: &[OwnedFd],
    ) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let sent = match message.build_into(serial, &mut bytes) {
            Ok(header) => match header.check() {
                Ok(()) => self.send(to, &header, &bytes, descriptors),
                Err(fault) => Err(Error::Invalid(format!("no message: {fault}"))),
            },
            Err(too_long) => Err(Error::method(name::LIMITS_EXCEEDED, too_long.to_string())),
        };
        if bytes.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = bytes;
        }
        sent
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two members that send to each other both
    /// get on; a member that does not is put out.
    pub(super) fn send(
        &mut self,
        to: To,
        header: &Header<'_>,
        bytes: &[u8],
        descriptors: &[OwnedFd],
    ) -> Result<()> {
        let parcel = self.deposit(to, header, bytes, descriptors)?;
        let id = self.port.id();
        let mut blocked: Option<(u16, u64, Instant)> = None;
        loop {
            let slot = match self.port.send(&mut self.link, to, id, header, bytes, parcel) {
                Ok(position) => {
                    self.note_sent(parcel, to, position, header, bytes);
                    return Ok(());
                }
                Err(NotSent::Failed(error)) => return Err(error),
                Err(NotSent::Full(slot)) => slot,
            };
            self.take_all()?;
            if slot == self.port.slot() {
                continue;
            }
            self.port.ring(&mut self.link, slot);
            let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
            match blocked {
                Some((who, at, since)) if (who, at) == (slot, cursor) => {
                    if since.elapsed() >= self.options.laggard_deadline {
                        self.port.evict(&mut self.link, slot);
                        blocked = None;
                        continue;
                    }
                }
                _ => blocked = Some((slot, cursor, Instant::now())),
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.serial
    }
}

pub(super) fn build(message: Builder<'_>, serial: u32) -> Result<Vec<u8>> {
    message.build(serial).map_err(|too_long| Error::method(name::LIMITS_EXCEEDED, too_long.to_string()))
}

pub(super) fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("{text:?} is no {what}"))) }
}
