//! Where a message goes that is neither for the driver nor for all, and what it waits for on the way.

use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::names;

use super::build::Building;
use super::{Destination, LeftOut, Wait};

pub(super) struct Route {
    pub to: Destination,
    /// Who gets it, if anybody, and whether a bus may rightly not deliver it.
    pub arrives: Option<(usize, bool)>,
    pub waits: Vec<Wait>,
    /// The driver answers it in place of the destination.
    pub driver_answers: bool,
}

impl<'a> Building<'a> {
    /// The beginnings of the connections that the argument of a call to the driver names, and what makes the owner of a
    /// well-known name its owner.
    pub(super) fn named(&self, text: Option<&str>, is_rule: bool) -> Vec<Wait> {
        let Some(text) = text else { return Vec::new() };
        let begins = |name: &str| self.ids.get(name).map(|id| Wait::Inbox(*id, 1));
        if is_rule {
            let parts = causeway_dbus_wire::rule::parts(text).unwrap_or_default();
            return parts.iter().filter_map(|part| begins(&part.value)).collect();
        }
        begins(text).into_iter().chain(self.names.ready(text).iter().copied()).collect()
    }

    pub(super) fn route_of_answer(&mut self, at: usize, to: &'a str) -> Result<Option<Route>, LeftOut> {
        let call = *self.index.call.get(&at).ok_or(LeftOut::WithoutCall)?;
        if !self.step_of.contains_key(&call) {
            return Err(LeftOut::WithoutCall);
        }
        let caller = *self.ids.get(to).ok_or(LeftOut::Stranger)?;
        // Brokers differ in what they do with a second answer, and with one that nobody asked for.
        let is_first = self.index.answer.get(&call) == Some(&at);
        let is_soft = !is_first || !self.headers[call].expects_reply();
        Ok(Some(self.to_unique(caller, is_soft, false)))
    }

    /// To a connection by its unique name, which it keeps when it has left.
    fn to_unique(&self, id: usize, is_soft: bool, driver_answers: bool) -> Route {
        let (arrives, waits) = if self.has_left[id] {
            (None, vec![self.inbox(id)])
        } else {
            (Some((id, is_soft)), vec![Wait::Inbox(id, 1)])
        };
        let driver_answers = driver_answers || arrives.is_none();
        Route { to: Destination::Connection(id), arrives, waits, driver_answers }
    }

    /// Where a call or a signal goes. Nothing if it waits for its destination to be started.
    pub(super) fn route(&mut self, at: usize, to: &'a str) -> Result<Option<Route>, LeftOut> {
        let answer = self.index.answer.get(&at).map(|answer| &self.headers[*answer]);
        let of_driver = answer.filter(|answer| answer.sender == Some(DRIVER));
        let error = of_driver.map(|answer| answer.error_name.unwrap_or_default());
        let short = error.map_or("", |error| error.trim_start_matches("org.freedesktop.DBus.Error."));
        let finds_nobody = matches!(short, "ServiceUnknown" | "NameHasNoOwner") || short.starts_with("Spawn");
        let is_given_up = matches!(short, "NoReply" | "Timeout" | "TimedOut" | "Disconnected");
        if of_driver.is_some() && !finds_nobody && !is_given_up {
            return Err(LeftOut::Refused);
        }
        let replier = answer.filter(|_| of_driver.is_none()).and_then(|answer| answer.sender);
        if names::is_unique(to) {
            if finds_nobody && !self.ids.contains_key(to) {
                return Err(LeftOut::Stranger);
            }
            let id = self.meet(to);
            return Ok(Some(self.to_unique(id, false, is_given_up)));
        }
        let name = self.names.get(to);
        if finds_nobody {
            let latest = name.latest();
            let waits = latest.map(|connection| self.inbox(connection)).collect();
            let to = Destination::AsCaptured;
            return Ok(Some(Route { to, arrives: None, waits, driver_answers: true }));
        }
        let Some(owner) = name.owner else {
            let answer = self.index.answer.get(&at).copied().unwrap_or(at);
            let comes = self.index.acquisitions.get(to).is_some_and(|all| {
                all.iter().any(|(when, who)| (at..answer).contains(when) && Some(*who) == replier)
            });
            if !comes {
                return Err(LeftOut::Stranger);
            }
            self.names.get(to).deferred.push(at);
            return Ok(None);
        };
        if replier.is_some_and(|replier| self.ids.get(replier) != Some(&owner)) {
            return Err(LeftOut::Stranger);
        }
        let waits = name.ready.clone();
        let to = Destination::AsCaptured;
        Ok(Some(Route { to, arrives: Some((owner, false)), waits, driver_answers: is_given_up }))
    }
}
