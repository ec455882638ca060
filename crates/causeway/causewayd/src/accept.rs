//! A message of a member on its first steps: given its sender, update to monitors, and handed to the driver or to the bus.

mod native;

use std::rc::Rc;
use std::time::Instant;

use causeway_dbus_wire::wire::{Header, Kind, stamped};

use crate::bus::{Bus, DRIVER, Eviction, RoutedMessage};
use crate::connection::Incoming;
use crate::driver;
use crate::member::{MemberId, Stage};
use crate::message::{LazyArgs, Message};

impl Bus {
    /// A member has sent a message.
    pub fn accept(&mut self, from: MemberId, incoming: Incoming<'_>, now: Instant) {
        self.now = now;
        self.pass(from, incoming);
        self.settle();
    }

    fn pass(&mut self, from: MemberId, incoming: Incoming<'_>) {
        let Some(member) = self.members.get(&from) else { return };
        let name = Rc::clone(&member.name);
        let Incoming { header, bytes, descriptors } = incoming;
        let is_for_driver = header.destination == Some(DRIVER);
        match member.stage {
            Stage::Monitor => return self.disconnect(from, Eviction::protocol("a monitor must not send")),
            Stage::New if !is_for_driver => {
                return self.disconnect(from, Eviction::protocol("it sent a message before Hello"));
            }
            _ => {}
        }
        // A type of the future: the specification has it ignored.
        if matches!(header.kind, Kind::Other(_)) {
            return;
        }
        if let Err(limit) = self.config.limits.check_message(0, header.unix_fds) {
            return self.disconnect(from, limit.into());
        }
        let Some(stamp) = stamped(bytes, &header, &name) else {
            let why = "a message is too large once its sender is filled in";
            return self.disconnect(from, Eviction::protocol(why));
        };
        self.counters.accepted += 1;
        let header = Header { sender: Some(&name), ..header };
        let args = LazyArgs::new(&header, bytes);
        let message = Rc::new(Message::new(stamp, descriptors));
        let routed = RoutedMessage::of(from, &header, &args, &message);
        self.open_entry(routed);
        self.capture(routed);
        match header.destination {
            Some(DRIVER) => driver::handle(self, from, routed),
            Some(_) => self.route(from, routed),
            None if header.kind == Kind::MethodCall => driver::handle(self, from, routed),
            None => self.broadcast(routed),
        }
        self.close_entry();
    }
}
