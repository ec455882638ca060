//! What goes: signals, and the way of every message of this connection into the log.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Body, Builder, Header, names};

use super::Connection;
use crate::error::{Error, Result};
use crate::port::{NotSent, To};

impl Connection {
    /// Emits a signal to all who want it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no path, interface or member; the bus or this connection has ended.
    pub fn emit(&mut self, path: &str, interface: &str, member: &str, body: Body) -> Result<()> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let serial = self.next_serial();
        let signal = Builder::signal(path, interface, member).sender(&self.name).body(body);
        let bytes = build(signal, serial)?;
        self.send(To::All, &bytes)
    }

    /// Sends, and waits for space if there is none. Meanwhile it goes on reading, so that two members that send to each other both
    /// get on; a member that does not is put out.
    pub(super) fn send(&mut self, to: To, bytes: &[u8]) -> Result<()> {
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let id = self.port.id();
        let mut blocked: Option<(u16, u64, Instant)> = None;
        loop {
            let slot = match self.port.send(&mut self.link, to, id, &header, bytes) {
                Ok(_) => return Ok(()),
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
    message.build(serial).map_err(|too_long| Error::Invalid(too_long.to_string()))
}

pub(super) fn check(text: &str, is_valid: fn(&str) -> bool, what: &str) -> Result<()> {
    if is_valid(text) { Ok(()) } else { Err(Error::Invalid(format!("{text:?} is no {what}"))) }
}
