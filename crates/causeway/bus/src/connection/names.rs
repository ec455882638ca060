//! Names: asked for, given up, listed, and where messages for them go.

use causeway_dbus_wire::wire::{Body, FLAG_NO_AUTO_START, names};

use super::calls::Callee;
use super::sending::check;
use super::{Connection, Message, Reply};
use crate::authority::{DRIVER, NameReply, ReleaseReply, unique_name};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, TO_BUS, To};
use crate::shared::directory::State;
use crate::shared::unique_name::unique_number;

impl Connection {
    /// Asks for a name, with the flags of D-Bus: [`ALLOW_REPLACEMENT`](crate::ALLOW_REPLACEMENT),
    /// [`REPLACE_EXISTING`](crate::REPLACE_EXISTING), [`DO_NOT_QUEUE`](crate::DO_NOT_QUEUE).
    ///
    /// # Errors
    /// The bus refuses it: the name is not valid, the policy or a limit forbids it; or the authority is gone, or the
    /// connection has ended.
    pub fn request_name(&mut self, name: &str, flags: u32) -> Result<NameReply> {
        let reply = self.call_driver("RequestName", Body::default().text(name).u32(flags))?;
        Ok(name_reply(&reply))
    }

    /// Gives a name up.
    ///
    /// # Errors
    /// The name is not valid, the authority is gone, or the connection has ended.
    pub fn release_name(&mut self, name: &str) -> Result<ReleaseReply> {
        let reply = self.call_driver("ReleaseName", Body::default().text(name))?;
        Ok(release_reply(&reply))
    }

    /// All names of the bus, from the directory: no message is sent. Unique names of clients that it does not show are
    /// missing.
    pub fn list_names(&self) -> Vec<String> {
        let directory = self.port.directory();
        let unique = (1..directory.peers() as u16).filter_map(|peer| directory.peer(peer));
        let unique = unique.filter(|peer| peer.state == State::Active);
        let mut all = vec![DRIVER.to_owned()];
        all.extend(unique.map(|peer| unique_name(peer.id)));
        all.extend(directory.all_names());
        all
    }

    /// The unique name of the owner of a name, from the directory; a unique name, and the name of the bus, own
    /// themselves.
    pub fn name_owner(&self, name: &str) -> Option<String> {
        let directory = self.port.directory();
        match unique_number(name) {
            Some(id) => directory.find(id).map(|_| name.to_owned()),
            None if name == DRIVER => Some(DRIVER.to_owned()),
            None => directory.owner(name).map(|owner| unique_name(owner.id)),
        }
    }

    pub(super) fn call_driver(&mut self, member: &str, body: Body) -> Result<Reply> {
        self.call_and_wait(&Callee::driver(member), body.into())
    }

    /// The GUID of this bus, 32 hexadecimal digits.
    pub fn bus_id(&self) -> String {
        self.port.directory().bus_id()
    }

    #[cfg(feature = "zbus")]
    pub(crate) fn credentials_of_bus(&self) -> Option<(u32, u32)> {
        self.port.directory().peer(crate::port::AUTHORITY).map(|authority| (authority.uid, authority.pid))
    }

    /// Where messages for a unique name, or one that it owns, go, without a system call; `None` if the directory does
    /// not show it.
    pub(super) fn find(&mut self, name: &str) -> Option<To> {
        if name == DRIVER {
            return Some(TO_BUS);
        }
        self.destinations.resolve(name, self.port.directory())
    }

    /// Where messages for the sender of a message go, whose unique name is this.
    pub(super) fn find_sender(&mut self, message: &Message, name: &str) -> To {
        let (slot, id) = message.sender_slot_and_id();
        if slot != AUTHORITY && self.port.directory().is_active(slot, id) {
            return To::Peer { slot, id };
        }
        // One that the directory does not show has left, or is a client that the bus knows.
        self.find(name).unwrap_or(TO_BUS)
    }

    /// Where a call with these flags goes. The bus gets one for a well-known name that the directory does not show: it
    /// may start a service, and knows all owners. It also gets one for a connection that may be a client that the
    /// directory does not show.
    pub(super) fn resolve_call(&mut self, name: &str, flags: u8) -> Result<To> {
        if let Some(to) = self.find(name) {
            return Ok(to);
        }
        check(name, names::is_bus_name, "bus name")?;
        let (directory, is_unique) = (self.port.directory(), unique_number(name).is_some());
        let may_be_unlisted = directory.is_partial() && (is_unique || directory.owner(name).is_some());
        if may_be_unlisted || flags & FLAG_NO_AUTO_START == 0 && !is_unique {
            return Ok(TO_BUS);
        }
        let why = if is_unique { "there is no connection" } else { "no connection has the name" };
        Err(Error::method(name::SERVICE_UNKNOWN, format!("{why} {name}")))
    }
}

pub(crate) fn name_reply(reply: &Reply) -> NameReply {
    match reply.args() {
        Ok(1u32) => NameReply::PrimaryOwner,
        Ok(2) => NameReply::InQueue,
        Ok(4) => NameReply::AlreadyOwner,
        _ => NameReply::Exists,
    }
}

pub(crate) fn release_reply(reply: &Reply) -> ReleaseReply {
    match reply.args() {
        Ok(1u32) => ReleaseReply::Released,
        Ok(2) => ReleaseReply::NonExistent,
        _ => ReleaseReply::NotOwner,
    }
}
