//! Messages to names that nobody has yet, and the programs that will.

use std::ffi::OsString;
use std::rc::Rc;

use weighbridge_dbus::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};

use super::{Action, Bus, Letter};
use crate::activation::Waiting;
use crate::error;
use crate::member::MemberId;
use crate::message::LazyArgs;
use crate::service_file::Services;

/// How a program that was started has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It could not be started.
    NotStarted(String),
    /// It has returned this status.
    Exited(i32),
    /// This signal has ended it.
    Signalled(i32),
}

/// The answer to `StartServiceByName` where a program was started.
const STARTED: u32 = 1;

impl Bus {
    /// Lets a message wait for the service that provides its destination, or for the start that it asks for.
    pub(crate) fn wait_for_service(
        &mut self,
        from: MemberId,
        name: &str,
        letter: Letter<'_>,
        asks_to_start: bool,
    ) {
        let message = letter.message;
        if self.services.get(name).is_none() && self.services.is_old() {
            self.services = Services::read(&self.config.service_dirs);
        }
        let Some(service) = self.services.get(name) else {
            let why = format!("nobody has the name {name}, and no .service file provides it");
            return self.refuse(from, letter.header, error::SERVICE_UNKNOWN, &why);
        };
        let command = service.command.clone();
        if !self.charge(from, message) {
            let why = "too many bytes wait for services that start";
            return self.refuse(from, letter.header, error::LIMITS_EXCEEDED, why);
        }
        let waiting = Waiting { sender: from, message: Rc::clone(message), asks_to_start };
        let Err(waiting) = self.starts.join(name, waiting) else { return };
        if self.starts.len() >= self.config.limits.service_starts {
            self.release(from, message);
            return self.refuse(
                from,
                letter.header,
                error::LIMITS_EXCEEDED,
                "too many services are being started",
            );
        }
        let number = self.starts.begin(name, self.now + self.config.limits.service_start, waiting);
        let environment = self.starter_environment();
        self.actions.push(Action::Start { number, command, environment });
    }

    fn starter_environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        let mut set = |name: &str, value: &str| environment.insert(name.into(), value.into());
        set("DBUS_STARTER_ADDRESS", &self.address);
        if let Some(path) = self.native.path() {
            set(causeway_bus::ADDRESS_VARIABLE, path);
        }
        if let Some(bus_type) = &self.config.bus_type {
            set("DBUS_STARTER_BUS_TYPE", bus_type);
            if bus_type == "session" {
                set("DBUS_SESSION_BUS_ADDRESS", &self.address);
            }
        }
        environment.into_iter().collect()
    }

    /// What was started has ended. A program that returns success may have left another process behind, which takes the name.
    pub fn service_ended(&mut self, number: u64, ended: &Ended) {
        let Some(name) = self.starts.name_of(number) else { return };
        let (error, why) = match ended {
            Ended::Exited(0) => return,
            Ended::NotStarted(why) => (
                error::SPAWN_EXEC_FAILED,
                format!("the program that provides {name} cannot be started: {why}"),
            ),
            Ended::Exited(status) => (
                error::SPAWN_CHILD_EXITED,
                format!("the program that provides {name} has ended with status {status}"),
            ),
            Ended::Signalled(signal) => (
                error::SPAWN_CHILD_SIGNALED,
                format!("signal {signal} has ended the program that provides {name}"),
            ),
        };
        self.fail_start(&name, error, &why);
        self.settle();
    }

    pub(super) fn expire_starts(&mut self) {
        while let Some(name) = self.starts.expired(self.now) {
            let time = self.config.limits.service_start.as_millis();
            let why = format!("the program that provides {name} has not taken this name within {time} ms");
            self.fail_start(&name, error::TIMED_OUT, &why);
        }
    }

    fn fail_start(&mut self, name: &str, error: &str, why: &str) {
        for waiting in self.starts.end(name) {
            self.release(waiting.sender, &waiting.message);
            self.refuse(waiting.sender, &waiting.message.header(), error, why);
        }
    }

    /// A name has got its owner: what has waited for it passes now, in order.
    pub(crate) fn service_came(&mut self, name: &str, owner: MemberId) {
        for waiting in self.starts.end(name) {
            self.release(waiting.sender, &waiting.message);
            let header = waiting.message.header();
            if !self.members.contains_key(&waiting.sender) {
                continue;
            }
            if waiting.asks_to_start {
                if header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
                    self.send(
                        waiting.sender,
                        Builder::reply(header.serial).body(Body::default().u32(STARTED)),
                    );
                }
            } else {
                let args = LazyArgs::new(&header, waiting.message.bytes());
                let letter = Letter {
                    from: Some(waiting.sender),
                    header: &header,
                    args: &args,
                    message: &waiting.message,
                    is_requested_reply: false,
                };
                self.unicast(waiting.sender, owner, letter);
            }
        }
    }
}
