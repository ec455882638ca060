//! Messages to names that nobody has yet, and the programs that will.

use std::ffi::{OsStr, OsString};
use std::rc::Rc;

use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED};

use super::{Action, Bus, RoutedMessage};
use crate::activation::Waiting;
use crate::error;
use crate::limit::Reached;
use crate::log::log;
use crate::member::MemberId;
use crate::message::LazyArgs;
use crate::service_file::Service;
use crate::users;

/// How a program that was started has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// For this reason.
    NotStarted(String),
    Exited(i32),
    Signaled(i32),
}

/// The answer to `StartServiceByName` where a program was started.
const STARTED: u32 = 1;

impl Bus {
    /// Does a file provide a program for this name?
    pub(crate) fn is_service(&mut self, name: &str) -> bool {
        self.service(name).is_some()
    }

    /// All names that files provide programs for now.
    pub(crate) fn service_names(&mut self) -> impl Iterator<Item = &str> {
        self.services.refresh().iter().for_each(|warning| log(warning));
        self.services.names()
    }

    /// The service with this name, from files that are read again if they have changed.
    fn service(&mut self, name: &str) -> Option<&Service> {
        self.services.refresh_for(name).iter().for_each(|warning| log(warning));
        self.services.get(name)
    }

    /// Lets a message wait for the service that provides its destination, or for the start that it asks for.
    pub(crate) fn wait_for_service(
        &mut self,
        from: MemberId,
        name: &str,
        routed: RoutedMessage<'_>,
        asks_to_start: bool,
    ) {
        let message = routed.message;
        if let Err(limit) = self.charge_message(from, message) {
            let why = format!("{name} is being started, and messages for it wait: {limit}");
            return self.refuse(from, routed.header, error::LIMITS_EXCEEDED, &why);
        }
        let waiting = Waiting { sender: from, message: Rc::clone(message), asks_to_start };
        let Err(waiting) = self.starts.join(name, waiting) else { return };
        if let Err((error, why)) = self.begin_start(name, waiting) {
            if error != error::SERVICE_UNKNOWN {
                log(&format!("cannot start {name} for {}: {why}", self.described(from)));
            }
            self.release_message(from, message);
            self.refuse(from, routed.header, error, &why);
        }
    }

    /// Starts the program that provides a name, for the first message that waits for it.
    fn begin_start(&mut self, name: &str, waiting: Waiting) -> Result<(), (&'static str, String)> {
        let Some(service) = self.service(name) else {
            let why = if waiting.asks_to_start {
                format!("no .service file with an Exec= provides the name {name}")
            } else if name.starts_with(':') {
                // Connections alone have these names, and never the same one twice.
                format!("there is no connection {name}")
            } else {
                format!("the name {name} has no owner, and no .service file with an Exec= provides it")
            };
            return Err((error::SERVICE_UNKNOWN, why));
        };
        let Service { command, user } = service.clone();
        // Sessions have one user, and their files are read for the program alone, as by dbus-daemon.
        let is_of_session = self.config.bus_type.as_deref() == Some("session");
        if let Some(user) = user.filter(|user| !is_of_session && users::uid(user) != Some(self.uid)) {
            let why = format!(
                "the program that provides {name} must run as user {user}, but this bus starts programs as its own user, {}",
                self.uid
            );
            return Err((error::SPAWN_PERMISSIONS_INVALID, why));
        }
        let (has, most) = (self.starts.len(), self.config.limits.service_starts);
        if has >= most {
            let what = "services that are being started";
            let limit = Reached::by_one("max_pending_service_starts", "the bus".into(), what, has, most);
            return Err((error::LIMITS_EXCEEDED, limit.to_string()));
        }
        log(&format!("starting {name} for {}: {}", self.described(waiting.sender), command[0]));
        let number = self.starts.begin(name, self.now, self.config.limits.service_start, waiting);
        let environment = self.starter_environment();
        self.act(Action::Start { number, command, environment });
        Ok(())
    }

    fn starter_environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = self.environment.clone();
        // What the bus has inherited is the socket of another one.
        match &self.native.path {
            Some(path) => environment.insert(causeway_bus::ADDRESS_VARIABLE.into(), path.into()),
            None => environment.remove(OsStr::new(causeway_bus::ADDRESS_VARIABLE)),
        };
        let mut set = |name: &str, value: &str| environment.insert(name.into(), value.into());
        set("DBUS_STARTER_ADDRESS", &self.address);
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
        let (error, how) = match ended {
            Ended::Exited(0) => return,
            Ended::NotStarted(why) => (error::SPAWN_EXEC_FAILED, format!("cannot be started: {why}")),
            Ended::Exited(status) => (error::SPAWN_CHILD_EXITED, format!("has ended with status {status}")),
            Ended::Signaled(signal) => {
                (error::SPAWN_CHILD_SIGNALED, format!("was killed by signal {signal}"))
            }
        };
        let why = format!("the program that provides {name} {how}");
        self.fail_start(&name, error, &why);
        self.settle();
    }

    pub(super) fn expire_starts(&mut self) {
        while let Some(name) = self.starts.expired(self.now) {
            let time = self.config.limits.service_start.as_millis();
            let why = format!(
                "the program that provides {name} has not acquired this name within {time} ms (service_start_timeout)"
            );
            self.fail_start(&name, error::TIMED_OUT, &why);
        }
    }

    fn fail_start(&mut self, name: &str, error: &str, why: &str) {
        log(why);
        for waiting in self.starts.end(name) {
            self.release_message(waiting.sender, &waiting.message);
            self.refuse(waiting.sender, &waiting.message.header(), error, why);
        }
    }

    /// A name has got its owner: what has waited for it passes now, in order.
    pub(crate) fn service_came(&mut self, name: &str, owner: MemberId) {
        if let Some(after) = self.starts.age(name, self.now) {
            let (owner, after) = (self.described(owner), after.as_millis());
            log(&format!("{owner} has acquired the name {name} {after} ms after its start"));
        }
        for waiting in self.starts.end(name) {
            self.release_message(waiting.sender, &waiting.message);
            let header = waiting.message.header();
            if !self.members.contains_key(&waiting.sender) {
                continue;
            }
            if waiting.asks_to_start {
                if header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
                    let reply = Builder::reply(header.serial).body(Body::default().u32(STARTED));
                    self.send(waiting.sender, reply);
                }
            } else {
                let args = LazyArgs::new(&header, waiting.message.bytes());
                let routed = RoutedMessage::of(waiting.sender, &header, &args, &waiting.message);
                self.unicast(waiting.sender, owner, routed);
            }
        }
    }
}
