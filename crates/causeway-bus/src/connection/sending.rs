//! What goes: signals, and the way of every message of this connection into the log.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Builder, Layout, names};

use super::Connection;
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{NotSent, Parcel, To};

/// A buffer of more bytes is given back after its message.
const BUFFER_BYTES_KEPT: usize = 1 << 16;

/// A message that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// For whom it is.
    pub to: To,
    /// Its serial.
    pub serial: u32,
    bytes: Vec<u8>,
    /// Where in `bytes` the fields of its header lie.
    layout: Layout,
    descriptors: Vec<OwnedFd>,
    /// What of it lies with the authority, once that was asked to keep it.
    parcel: Option<Parcel>,
    /// Who stands in the way: a member, at which cursor, since when.
    blocked: Option<(u16, u64, Instant)>,
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
        Outgoing { to, serial, bytes, layout, descriptors, parcel: None, blocked: None }
    }

    /// Does the authority hold a part of it already? Then it has to be sent.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_deposited(&self) -> bool {
        self.parcel.is_some_and(|parcel| parcel.token != 0)
    }
}

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
        let signal = self.prepare_signal(path, interface, member, body.into())?;
        self.send(signal)
    }

    /// A signal, ready to be sent.
    pub(crate) fn prepare_signal(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        Payload { body, descriptors }: Payload,
    ) -> Result<Outgoing> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let serial = self.next_serial();
        let name = Arc::clone(&self.name);
        self.prepare(
            To::All,
            Builder::signal(path, interface, member).sender(&name).body(body),
            descriptors,
            serial,
        )
    }

    /// A message whose names were checked, ready to be sent.
    pub(super) fn prepare(
        &mut self,
        to: To,
        message: Builder<'_>,
        descriptors: Vec<OwnedFd>,
        serial: u32,
    ) -> Result<Outgoing> {
        let mut bytes = std::mem::take(&mut self.buffer);
        let layout = build(&message.unix_fds(descriptors.len() as u32), serial, &mut bytes)?;
        Ok(Outgoing::parsed(to, layout, bytes, descriptors, serial))
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
        if message.bytes.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = message.bytes;
        }
        Ok(())
    }

    /// Sends if there is space. Otherwise wakes the member that is in the way, and puts it out after the deadline; the caller takes what
    /// has come, and tries again.
    pub(crate) fn try_send(&mut self, message: &mut Outgoing) -> Result<bool> {
        let Outgoing { to, bytes, layout, descriptors, parcel, .. } = message;
        let (to, header) = (*to, layout.header(bytes));
        let id = self.port.id();
        let parcel = match *parcel {
            Some(parcel) => parcel,
            None => *parcel.insert(self.deposit(to, &header, bytes, descriptors)?),
        };
        let slot = match self.port.send(&mut self.link, to, id, &header, bytes, parcel) {
            Ok(position) => {
                self.note_sent(parcel, to, position, &header, bytes);
                return Ok(true);
            }
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

/// Builds a message whose names were checked.
pub(super) fn build(message: &Builder<'_>, serial: u32, bytes: &mut Vec<u8>) -> Result<Layout> {
    let layout = message
        .build_into(serial, bytes)
        .map_err(|too_long| Error::method(name::LIMITS_EXCEEDED, too_long.to_string()))?;
    match layout.header(bytes).check() {
        Ok(()) => Ok(layout),
        Err(fault) => Err(Error::Invalid(format!("no message: {fault}"))),
    }
}

pub(super) fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("{text:?} is no {what}"))) }
}
