//! Services that systemd starts for the bus, and what the bus tells it.
//!
//! The bus asks for the unit of a service with a signal for systemd alone, and waits for the name; systemd answers only where that will
//! not come. Until systemd has connected, what is for it waits. Source: the behavior of dbus-daemon with `--systemd-activation`, and
//! systemd's own interface `org.freedesktop.systemd1.Activator`.

use causeway_dbus_wire::wire::{Arg, Body, Builder, FLAG_NO_AUTO_START, Header, Kind, names};

use super::{Bus, DRIVER, DRIVER_PATH, RoutedMessage};
use crate::activation::{ALREADY_RUNNING, Phase, Waiting, Wants};
use crate::error;
use crate::limit::Reached;
use crate::log::log;
use crate::member::MemberId;
use crate::message::LazyArgs;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const SYSTEMD_PATH: &str = "/org/freedesktop/systemd1";
const ACTIVATOR: &str = "org.freedesktop.systemd1.Activator";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// Says that systemd will not start a unit?
fn is_failure(header: &Header<'_>) -> bool {
    header.kind == Kind::Signal
        && header.interface == Some(ACTIVATOR)
        && header.member == Some("ActivationFailure")
        && header.destination == Some(DRIVER)
}

impl Bus {
    /// From now on systemd starts the services whose files name a unit.
    pub fn set_systemd_activation(&mut self, is_wanted: bool) {
        self.has_systemd_activation = is_wanted;
    }

    /// systemd comes of itself, and needs no file.
    pub(super) fn is_started_by_systemd(&self, name: &str) -> bool {
        self.has_systemd_activation && name == SYSTEMD
    }

    /// Do monitors see a message after what it causes? As with dbus-daemon, the request to systemd comes before the message for which it
    /// is, and the errors of those who waited before the signal that says that systemd has failed.
    pub(super) fn is_shown_late(&self, from: MemberId, routed: RoutedMessage<'_>) -> bool {
        let header = routed.header;
        let Some(name) = header.destination.filter(|_| self.monitor_count > 0 && self.has_systemd_activation)
        else {
            return false;
        };
        let may_start = || header.flags & FLAG_NO_AUTO_START == 0 && self.may_send(from, None, routed);
        let is_asked_for = || matches!(self.starts.phase(name), None | Some(Phase::LookedUp));
        let is_missing = || name != DRIVER && self.resolve(name).is_none();
        is_failure(header) || (is_missing() && is_asked_for() && may_start())
    }

    /// Shows a message of a member to monitors, unless what it causes comes first.
    pub(crate) fn show_first(&mut self, from: MemberId, routed: RoutedMessage<'_>) {
        if !self.is_shown_late(from, routed) {
            self.capture(routed);
        }
    }

    /// systemd, if it is connected. What is for one that leaves waits for the next.
    fn systemd(&self) -> Option<MemberId> {
        self.names.owner(SYSTEMD).filter(|owner| self.is_reachable(*owner))
    }

    /// Asks for a unit that provides a name.
    pub(super) fn request_unit(
        &mut self,
        name: &str,
        unit: &str,
        whom: &str,
    ) -> Result<(), (&'static str, String)> {
        log(&format!("asking systemd for {unit}, which provides {name}, for {whom}"));
        let request = Builder::signal(DRIVER_PATH, ACTIVATOR, "ActivationRequest").destination(SYSTEMD);
        let request = request.body(Body::default().text(unit));
        match self.systemd() {
            Some(systemd) => self.send_as_driver(Some(systemd), request),
            None => {
                self.keep_for_systemd(request).map_err(|limit| (error::LIMITS_EXCEEDED, limit.to_string()))?
            }
        }
        self.show_waiting(name);
        Ok(())
    }

    /// Has systemd give these variables to what it starts, too.
    ///
    /// # Errors
    /// It has not connected, and there waits too much for it.
    pub(crate) fn tell_systemd_environment(&mut self, pairs: &[(&str, &str)]) -> Result<(), Reached> {
        if !self.has_systemd_activation {
            return Ok(());
        }
        let lines: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let call = Builder::call(SYSTEMD_PATH, "SetEnvironment").interface(MANAGER);
        let call = call.body(Body::default().texts(&lines));
        match self.systemd() {
            Some(systemd) => self.send(systemd, call),
            None => self.keep_for_systemd(call.destination(SYSTEMD))?,
        }
        Ok(())
    }

    /// Lets a message of the bus wait until systemd has connected. Monitors see it now.
    fn keep_for_systemd(&mut self, message: Builder<'_>) -> Result<(), Reached> {
        let of_bus = |waiting: &&mut Waiting| waiting.sender.is_none();
        let has = self.starts.waiting(SYSTEMD).filter(of_bus).count();
        let most = self.config.limits.service_starts;
        if has >= most {
            let what = "messages that wait for systemd";
            return Err(Reached::by_one("max_pending_service_starts", "the bus".into(), what, has, most));
        }
        let message = self.made_by_driver(message);
        let header = message.header();
        let args = LazyArgs::new(&header, message.bytes());
        let (args, is_requested_reply) = (&args, false);
        self.capture(RoutedMessage {
            from: None,
            header: &header,
            args,
            message: &message,
            is_requested_reply,
        });
        self.expect_systemd(Waiting::of(None, &message, Wants::Delivery));
        Ok(())
    }

    /// A message for systemd, or a call that asks for it to be started, waits until it has connected.
    pub(super) fn wait_for_systemd(&mut self, waiting: Waiting) {
        if self.names.owner(SYSTEMD).is_some() {
            self.finish_waiting(&waiting);
            return self.answer(&waiting, Body::default().u32(ALREADY_RUNNING));
        }
        self.expect_systemd(waiting);
    }

    /// Lets something wait until systemd has connected.
    fn expect_systemd(&mut self, waiting: Waiting) {
        if let Err(waiting) = self.starts.join(SYSTEMD, waiting) {
            let limit = self.config.limits.service_start;
            self.starts.begin(SYSTEMD, Phase::Expected, self.now, limit, waiting);
        }
        self.show_waiting(SYSTEMD);
    }

    /// A signal for the bus: if it is systemd's word that a unit will not come, those who wait for that are told. Others than the owner
    /// of its name have no word in it.
    pub(crate) fn take_failure(&mut self, from: MemberId, routed: RoutedMessage<'_>) {
        if !is_failure(routed.header) {
            return;
        }
        if !self.has_systemd_activation {
            log(&format!(
                "{} says that systemd has failed, which this bus did not ask (--systemd-activation)",
                self.described(from)
            ));
        } else if !self.is_privileged(from) || self.names.owner(SYSTEMD) != Some(from) {
            let who = self.described(from);
            log(&format!("{who} says that systemd has failed, and is not the owner of {SYSTEMD}: ignored"));
        } else if !self.may_send(from, None, routed) {
            self.deny(from, routed);
        } else {
            self.fail_unit(routed);
        }
        if self.is_shown_late(from, routed) {
            self.capture(routed);
        }
    }

    fn fail_unit(&mut self, routed: RoutedMessage<'_>) {
        let [Arg::Text(unit), Arg::Text(error), Arg::Text(why), ..] = routed.args.get() else { return };
        // An error must have a name that is one.
        let error = if names::is_interface(error) { error } else { error::FAILED };
        for name in self.starts.of_unit(unit) {
            let logged = format!("systemd cannot start {unit}, which provides {name}: {why}");
            self.fail_start(&name, error, &logged, why);
        }
    }
}
