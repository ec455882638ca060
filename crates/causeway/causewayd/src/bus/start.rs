//! Messages to names that nobody has yet, and the programs that will.

use std::ffi::{OsStr, OsString};
use std::rc::Rc;

use super::waiters::Outcome;
use super::work::{ENTRY, PARTS, TOLD, Work};
use super::{Action, Bus, RoutedMessage};
use crate::activation::{ALL_NAMES, Phase, Seen, Waiting, Wants};
use crate::error;
use crate::limit::Reached;
use crate::log::log;
use crate::member::MemberId;
use crate::message::LazyArgs;
use crate::service_file::{self, Service};

/// How a program that was started has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// For this reason.
    NotStarted(String),
    Exited(i32),
    Signaled(i32),
}

/// Messages for a service that monitors have seen up to here, in parts: there may be tens of thousands.
#[derive(Debug)]
struct Unseen {
    name: Rc<str>,
    seen: Seen,
}

impl Work for Unseen {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        for _ in 0..PARTS {
            let Some(waiting) = bus.starts.next_unseen(&self.name, &mut self.seen) else { return true };
            bus.show(&waiting);
            if !bus.step(ENTRY) || !bus.is_first() {
                break;
            }
        }
        false
    }
}

impl Bus {
    /// Lets a message wait for the service that provides its destination, or for the start that it asks for.
    pub(crate) fn wait_for_service(
        &mut self,
        from: MemberId,
        name: &str,
        routed: RoutedMessage<'_>,
        wants: Wants,
    ) {
        let is_shown = !self.is_shown_late(from, routed);
        let mut waiting = Waiting::of(Some(from), routed.message, wants);
        waiting.is_shown = is_shown;
        if let Err(limit) = self.charge_message(from, routed.message) {
            let why = format!("{name} is being started, and messages for it wait: {limit}");
            self.show(&waiting);
            return self.refuse(from, routed.header, error::LIMITS_EXCEEDED, &why);
        }
        let Err(waiting) = self.starts.join(name, waiting) else { return };
        if self.is_started_by_systemd(name) {
            return self.wait_for_systemd(waiting);
        }
        if name.starts_with(':') || self.is_known_to_lack(name) {
            self.finish_waiting(&waiting);
            let why = wants.without(name);
            return self.refuse(from, routed.header, error::SERVICE_UNKNOWN, &why);
        }
        self.ask_for(name, waiting);
    }

    /// Lets a call wait that asks for something that files say.
    ///
    /// # Errors
    /// The caller has no bytes left for that.
    pub(crate) fn hold_call(
        &mut self,
        from: MemberId,
        routed: RoutedMessage<'_>,
    ) -> Result<Waiting, Reached> {
        self.charge_message(from, routed.message)?;
        Ok(Waiting::of(Some(from), routed.message, Wants::Names))
    }

    /// What has waited has come to its end: it is not charged any more, and monitors have seen it.
    pub(super) fn finish_waiting(&mut self, waiting: &Waiting) {
        self.show(waiting);
        self.starts.left(waiting);
        if let Some(sender) = waiting.sender {
            self.release_message(sender, &waiting.message);
        }
    }

    /// Shows a message that has waited to monitors, if they have not seen it.
    pub(super) fn show(&mut self, waiting: &Waiting) {
        if let (Some(sender), false) = (waiting.sender, waiting.is_shown) {
            let header = waiting.message.header();
            let args = LazyArgs::new(&header, waiting.message.bytes());
            self.capture(RoutedMessage::of(sender, &header, &args, &waiting.message));
        }
    }

    /// Shows what waits for a service to monitors that have not seen it.
    pub(super) fn show_waiting(&mut self, name: &str) {
        self.begin(Unseen { name: name.into(), seen: Seen::default() });
    }

    /// Has a service started whose file was found, for the first that waits for it.
    pub(super) fn begin_start(&mut self, name: &str, service: Service) {
        let first = self.starts.first_for(name);
        let whom = first.map_or_else(|| "one that has left".into(), |sender| self.described(sender));
        if let Err((error, why)) = self.start(name, service, &whom) {
            self.fail_start(name, error, &format!("cannot start {name} for {whom}: {why}"), &why);
        }
    }

    fn start(&mut self, name: &str, service: Service, whom: &str) -> Result<(), (&'static str, String)> {
        let Service { exec, user, unit } = service;
        let (has, most) = (self.starts.len(), self.config.limits.service_starts);
        if has >= most {
            let what = "services that are being started";
            let limit = Reached::by_one("max_pending_service_starts", "the bus".into(), what, has, most);
            return Err((error::LIMITS_EXCEEDED, limit.to_string()));
        }
        if let Some(unit) = unit.filter(|_| self.has_systemd_activation) {
            self.starts.advance(name, Phase::Unit(unit.clone()));
            return self.request_unit(name, &unit, whom);
        }
        // Sessions have one user, and their files are read for the program alone, as by dbus-daemon.
        let is_of_session = self.config.bus_type.as_deref() == Some("session");
        if let Some((user, _)) = user.filter(|(_, uid)| !is_of_session && *uid != Some(self.uid)) {
            let why = format!(
                "the program that provides {name} must run as user {user}, but this bus starts programs as its own user, {}",
                self.uid
            );
            return Err((error::SPAWN_PERMISSIONS_INVALID, why));
        }
        let Some(mut command) = service_file::words(&exec) else {
            let why =
                format!("the Exec= of {name} has a quote, an escape or a comment without an end: `{exec}`");
            return Err((error::INVALID_ARGS, why));
        };
        // As in dbus-daemon, PATH is not searched.
        if !command[0].is_empty() && !command[0].contains('/') {
            command[0].insert_str(0, "./");
        }
        log(&format!("starting {name} for {whom}: {}", command[0]));
        let environment = self.starter_environment();
        self.step(environment.len());
        if let Some(number) = self.starts.advance(name, Phase::Program) {
            self.push_action(Action::Start { number, command, environment });
        }
        self.show_waiting(name);
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
        self.fail_start(&name, error, &why, &why);
        self.settle();
    }

    pub(super) fn expire_starts(&mut self) {
        while let Some(name) = self.starts.expired(self.now) {
            let (time, phase) = (self.config.limits.service_start.as_millis(), self.starts.phase(&name));
            let what = match phase {
                Some(Phase::LookedUp) if *name == *ALL_NAMES => {
                    "the files of services have not been read".into()
                }
                Some(Phase::LookedUp) => format!("no file has been found yet that provides {name}"),
                Some(Phase::Unit(unit)) => {
                    format!("the unit {unit} of systemd, which provides {name}, has not acquired this name")
                }
                Some(Phase::Expected) => format!("{name} has not connected"),
                _ => format!("the program that provides {name} has not acquired this name"),
            };
            // One that hangs would stay beside the next that is started.
            if let Some(number) = self.starts.program_of(&name) {
                self.push_action(Action::Kill(number));
            }
            let why = format!("{what} within {time} ms (service_start_timeout)");
            self.fail_start(&name, error::TIMED_OUT, &why, &why);
            if !self.step(TOLD) {
                break;
            }
        }
    }

    /// Ends a start with an error for all that wait for it, and another text for the log.
    pub(super) fn fail_start(&mut self, name: &str, error: &str, logged: &str, why: &str) {
        log(logged);
        let waiting = self.starts.end(name);
        self.tell_waiting(waiting, Outcome::Refusal(error.into(), why.into()));
    }

    /// A name has got its owner: what has waited for it passes now, in order.
    pub(crate) fn service_came(&mut self, name: &str, owner: MemberId) {
        if let Some(after) = self.starts.age(name, self.now) {
            let (owner, after) = (self.described(owner), after.as_millis());
            log(&format!("{owner} has acquired the name {name} {after} ms after its start"));
        }
        let waiting = self.starts.came(name);
        self.tell_waiting(waiting, Outcome::Owner(owner));
    }
}
