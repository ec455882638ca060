//! What goes: signals, and the way of every message of this connection into the log.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Builder, Header, names};

use super::Connection;
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{NotSent, To};

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
        let signal = Builder::signal(path, interface, member).sender(&self.name).body(body);
        let bytes = build(signal.unix_fds(descriptors.len() as u32), serial)?;
        self.send(To::All, &bytes, &descriptors)
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two members that send to each other both
    /// get on; a member that does not is put out.
    pub(super) fn send(&mut self, to: To, bytes: &[u8], descriptors: &[OwnedFd]) -> Result<()> {
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let parcel = self.deposit(to, &header, bytes, descriptors)?;
        let id = self.port.id();
        let mut blocked: Option<(u16, u64, Instant)> = None;
        loop {
            let slot = match self.port.send(&mut self.link, to, id, &header, bytes, parcel) {
                Ok(position) => {
                    self.note_sent(parcel, to, position, &header, bytes);
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
