//! Long messages of the bus for native members: each is copied into a file, in parts, before it is staged.

use causeway_bus::MessageFile;

use super::Server;
use crate::bus::Receiver;
use crate::message::Message;

/// So much of a long message is copied at once, and this is one step of a turn.
const COPIED_BYTES: usize = 128 << 10;
const STEP_BYTES: usize = 1 << 10;

impl Server {
    /// Is a message copied that waits for the log?
    pub(super) fn is_copying(&self) -> bool {
        self.native.as_ref().is_some_and(|native| native.copy.is_some())
    }

    /// Can a message be staged at once? One of the bus that goes into a file for native members is copied there first, in parts.
    pub(super) fn is_ready(&mut self, to: Receiver, message: &Message) -> bool {
        let bytes = message.bytes();
        let is_for_members = match to {
            Receiver::All => true,
            Receiver::One(id) => self.bus.is_native(id),
            Receiver::Bus | Receiver::None => false,
        };
        let Some(native) = self.native.as_mut().filter(|_| is_for_members) else { return true };
        if bytes.len() <= native.authority.longest_message()
            || native.transfer.is_some()
            || message.file.borrow().is_some()
        {
            return true;
        }
        // Without memory the message goes to the staged transfer as it is, which fails with the reason.
        let Some(mut copy) = native.copy.take().or_else(|| MessageFile::create().ok()) else { return true };
        while !native.has_copied || self.bus.step(0) {
            native.has_copied = true;
            let rest = &bytes[copy.bytes() as usize..];
            if rest.is_empty() {
                *message.file.borrow_mut() = copy.seal().ok();
                return true;
            }
            let part = &rest[..rest.len().min(COPIED_BYTES)];
            if copy.append(part).is_err() {
                return true;
            }
            self.bus.step(part.len() / STEP_BYTES);
        }
        native.copy = Some(copy);
        false
    }
}
