//! One group: joined, claimed, and carried in both directions until the program ends; joined again where it ends before that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway::{Error, Group, Policy, Refusal};
use causeway_os::process::poll;
use std::os::fd::AsFd;

use crate::failure::{Failure, Result};
use crate::incoming::Incoming;
use crate::lists::GroupPlace;
use crate::net::Net;
use crate::outgoing::{Outgoing, Sending};
use crate::status::{Direction, Route, Status, log};

/// The role that a bridge claims in a group: there is one for each group and host.
pub const ROLE: u64 = u64::from_le_bytes(*b"CWBRIDGE");
/// How often a group that is not there is looked for.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked whether one of its two directions has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A group that a bridge carries.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Where it is.
    pub place: GroupPlace,
    /// Whether its messages go out.
    pub exports: bool,
    /// Whether those of others come in.
    pub imports: bool,
    /// How long publishers wait for what is not acknowledged.
    pub patience: Duration,
    /// Whether small messages that are there at once go in one.
    pub packs: bool,
    /// Where it is noted what was passed.
    pub folder: PathBuf,
    /// The topic with which losses are published, if they are.
    pub loss_topic: Option<u32>,
}

impl Carried {
    /// Carries it until `stop` is set. Whatever goes wrong is said, and tried again: no other group waits for it.
    pub fn run(&self, net: &Arc<Net>, status: &Arc<Status>, stop: &AtomicBool) {
        let direction = if self.exports { Direction::Out } else { Direction::In };
        let route = status.route("group", &self.place.name, direction, "");
        while !stop.load(Ordering::Relaxed) {
            if let Err(failure) = self.carry(net, status, &route, stop) {
                route.fail(&failure.to_string());
            }
            std::thread::sleep(RETRY);
        }
    }

    fn carry(
        &self,
        net: &Arc<Net>,
        status: &Arc<Status>,
        route: &Arc<Route>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let path = self.place.path.display();
        let group = Group::join(&self.place.path).map_err(|error| Failure::of(format!("{path}: {error}")))?;
        let group = Arc::new(group);
        let claim = group.claim(ROLE).map_err(|error| match error {
            Error::Refused(Refusal::Claimed) => Failure::of(format!(
                "{path}: another bridge carries this group already, and one does for each group and host; end that one first"
            )),
            error => Failure::of(format!("{path}: {error}")),
        })?;
        self.check_kind(&group)?;
        // First: a publisher that joins begins another log, and what lies in the one before it can be read only by who was there.
        let begin = || {
            let outgoing =
                Outgoing::new(net, &group, &self.place, self.patience, self.packs, Arc::clone(route));
            outgoing.map(Outgoing::start)
        };
        let sending = self.exports.then(begin).transpose()?;
        let incoming = self.imports.then(|| self.incoming(net, &group, status)).transpose()?;
        log(&format!("carries the group {} at {path}", self.place.name));
        let is_over = || {
            stop.load(Ordering::Relaxed)
                || incoming.as_ref().is_some_and(Incoming::is_over)
                || sending.as_ref().is_some_and(Sending::is_over)
        };
        while !is_over() && !poll(&[claim.as_fd()], Some(LOOK))?[0] {}
        if let Some(sending) = &sending {
            sending.group_ended();
            while !stop.load(Ordering::Relaxed) && !sending.is_over() {
                std::thread::sleep(LOOK);
            }
        }
        sending.map_or(Ok(()), Sending::end)
    }

    fn incoming(&self, net: &Arc<Net>, group: &Group, status: &Arc<Status>) -> Result<Incoming> {
        Incoming::start(net, group, &self.place, &self.folder, self.loss_topic, status).map_err(|failure| {
            let path = self.place.path.display();
            Failure::of(format!("{path}: {failure} (to publish here, a bridge needs a group with GroupOptions::late_publishers)"))
        })
    }

    /// Payloads by reference lie in memory of this machine: their group does not cross.
    fn check_kind(&self, group: &Group) -> Result<()> {
        match group.large_subscribe(Policy::Lossy) {
            Err(Error::Refused(Refusal::OtherType)) => Ok(()),
            Ok(_) => Err(Failure::of(format!(
                "{}: payloads of this group lie in shared memory, which does not cross; publish copies in a group without large_payloads",
                self.place.path.display()
            ))),
            Err(_) => Ok(()),
        }
    }
}
