//! A message of a member on its first steps: shown to monitors, and handed to the driver or to the bus.

mod native;

use std::rc::Rc;
use std::time::Instant;

use causeway_dbus_wire::wire::{Header, Kind};

use crate::bus::{Bus, DRIVER, RoutedMessage};
use crate::connection::Incoming;
use crate::end::End;
use crate::member::{MemberId, Stage};
use crate::message::{LazyArgs, Message};
use crate::{descriptors, driver, error};

/// The specification has receivers ignore such a message; the sender of one to somebody is told, as by dbus-daemon.
const UNKNOWN_TYPE: &str = "the bus passes no messages of an unknown type";

impl Bus {
    /// A member has sent a message. If that was Hello, it has another number from now on.
    pub fn accept(&mut self, from: MemberId, incoming: Incoming<'_>, now: Instant) -> Option<MemberId> {
        self.now = now;
        self.pass(from, incoming);
        self.settle();
        self.said_hello.take()
    }

    fn pass(&mut self, from: MemberId, incoming: Incoming<'_>) {
        match incoming {
            Incoming::Short(header, message) => self.pass_stamped(from, &header, &Rc::new(message)),
            Incoming::Long(message) => {
                let message = Rc::new(message);
                self.pass_stamped(from, &message.header(), &message);
            }
        }
    }

    /// May a member in its stage send a message with this header? If not, it is disconnected, or the message is
    /// ignored.
    fn may_pass(&mut self, from: MemberId, header: &Header<'_>) -> bool {
        let member = self.members.get(&from).filter(|member| !member.is_leaving);
        let why = match member.map(|member| member.stage) {
            None => return false,
            Some(Stage::Monitor) => End::Protocol("a monitor must not send".into()),
            Some(Stage::New) if header.destination != Some(DRIVER) => {
                End::Protocol("it sent a message before Hello".into())
            }
            _ if matches!(header.kind, Kind::Other(_)) => {
                if header.destination.is_some() {
                    self.refuse(from, header, error::ACCESS_DENIED, UNKNOWN_TYPE);
                }
                return false;
            }
            _ => match self.config.limits.check_message(0, header.unix_fds) {
                Ok(()) => return self.has_room_for(from, header),
                Err(limit) => End::Limit(limit),
            },
        };
        self.disconnect(from, why);
        false
    }

    /// May the bus keep the descriptors of a message? Otherwise somebody is told.
    fn has_room_for(&mut self, from: MemberId, header: &Header<'_>) -> bool {
        let count = u64::from(header.unix_fds);
        let checked = if count == 0 { Ok(()) } else { self.room.check(count, descriptors::open_count()) };
        checked.inspect_err(|limit| self.refuse_descriptors(from, header, limit)).is_ok()
    }

    fn pass_stamped(&mut self, from: MemberId, header: &Header<'_>, message: &Rc<Message>) {
        if !self.may_pass(from, header) {
            return;
        }
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
