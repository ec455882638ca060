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
    /// A member has sent a message. If that was Hello, it has another number from now on.
    pub fn accept(&mut self, from: MemberId, incoming: Incoming<'_>, now: Instant) -> Option<MemberId> {
        self.now = now;
        self.pass(from, incoming);
        self.settle();
        self.said_hello.take()
    }

    fn pass(&mut self, from: MemberId, incoming: Incoming<'_>) {
        let Some(member) = self.members.get(&from) else { return };
        let name = Rc::clone(&member.name);
        let (header, bytes, descriptors) = match incoming {
            Incoming::Short(header, bytes, descriptors) => (header, bytes, descriptors),
            Incoming::Long(message) => {
                let message = Rc::new(message);
                let header = message.header();
                if self.may_pass(from, &header) {
                    self.pass_stamped(from, &header, &message);
                }
                return;
            }
        };
        if !self.may_pass(from, &header) {
            return;
        }
        let Some(stamp) = stamped(bytes, &header, &name) else {
            let why = "a message is too large once its sender is filled in";
            return self.disconnect(from, Eviction::protocol(why));
        };
        let header = Header { sender: Some(&name), ..header };
        self.pass_stamped(from, &header, &Rc::new(Message::new(stamp, descriptors)));
    }

    /// May a member in its stage send a message with this header? If not, it is disconnected, or the message is ignored.
    fn may_pass(&mut self, from: MemberId, header: &Header<'_>) -> bool {
        let why = match self.members.get(&from).map(|member| member.stage) {
            Some(Stage::Monitor) => Eviction::protocol("a monitor must not send"),
            Some(Stage::New) if header.destination != Some(DRIVER) => {
                Eviction::protocol("it sent a message before Hello")
            }
            // A type of the future: the specification has it ignored.
            _ if matches!(header.kind, Kind::Other(_)) => return false,
            _ => match self.config.limits.check_message(0, header.unix_fds) {
                Ok(()) => return true,
                Err(limit) => limit.into(),
            },
        };
        self.disconnect(from, why);
        false
    }

    fn pass_stamped(&mut self, from: MemberId, header: &Header<'_>, message: &Rc<Message>) {
        self.counters.accepted += 1;
        let args = LazyArgs::new(header, message.bytes());
        let routed = RoutedMessage::of(from, header, &args, message);
        self.open_entry(routed);
        self.show_first(from, routed);
        match header.destination {
            Some(DRIVER) => driver::handle(self, from, routed),
            Some(_) => self.route(from, routed),
            None if header.kind == Kind::MethodCall => driver::handle(self, from, routed),
            None => self.broadcast(routed),
        }
        self.close_entry();
    }
}
