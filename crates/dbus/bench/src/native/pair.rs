//! A call and its reply between native members, or one-way calls; one of the ends may be a D-Bus client of the same bus.

use std::io;

use weighbridge_harness::axis::{Axis, Choice};
use weighbridge_harness::contract::{
    Caps, CounterCheck, EndResources, InSuites, Mechanism, Prepared, Side, Target, Unsupported,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern;
use weighbridge_record::{PerOp, Properties, Property};

use super::mixed::DbusClient;
use super::{CausewayBus, PROPERTIES, SleepsOn, WAITS};
use crate::broker::{self, Brokered, Kind, Place};
use crate::client;
use crate::credit::DEPTH;
use crate::libraries::Client;
use crate::libraries::pair::{LibraryEnd, PairByLibrary};
use crate::pair::{MOST_SWITCHES_PER_HOP, switches_per_hop, through_broker};

/// Two native members of one bus, or one and a D-Bus client.
#[derive(Debug)]
pub struct Pair;

impl Brokered for Pair {
    const TARGET: Target = pattern::target::<Pair>();
}

impl Mechanism for Pair {
    const ID: &'static str = CausewayBus::PROGRAM.name();
    const ABOUT: &'static str = CausewayBus::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = WAITS;
    const AXES: &'static [Axis] =
        &[Place::AXIS, broker::NICE, Client::AXIS, DbusClient::AXIS, DEPTH, SleepsOn::AXIS];
    const IN_SUITES: InSuites = InSuites::Never("a bus is served for it; brokers have suites of their own");
    const COUNTER_CHECK: Option<CounterCheck> = Some(check);
    /// An outbox has room for several messages of the case.
    const TO_ITSELF: Result<usize, &'static str> = Ok(usize::MAX);
    type End = LibraryEnd;

    fn properties(params: &CaseParams) -> Properties {
        // A client is of whatever user the bus lets in, and sleeps on its socket; members are of one user.
        let has_client = DbusClient::of(params) != DbusClient::None;
        let is_pollable = params.choice::<SleepsOn>() == SleepsOn::Descriptor;
        PROPERTIES.with(Property::OtherUsers, has_client).with(Property::Pollable, is_pollable)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        broker::fit(CausewayBus::PROGRAM, host, params)?;
        client::fit(params)?;
        let (library, has_client) = (Client::of(params), DbusClient::of(params) != DbusClient::None);
        let is_one_role = params.id.pattern == "self";
        let refused = if !matches!(library, Client::Raw | Client::Zbus) {
            "only zbus can be a native member; use client=zbus or leave out the axis client"
        } else if library == Client::Zbus && (has_client || params.choice::<SleepsOn>() != SleepsOn::Futex) {
            "zbus sleeps in its own way, at both ends; leave out dbus-client and sleeps-on"
        } else if is_one_role && has_client {
            "one role with both ends would wait for causewayd between them; leave out the axis dbus-client"
        } else if is_one_role && library != Client::Raw {
            "one role with both ends would wait for tasks of zbus between them; leave out the axis client"
        } else {
            return Ok(());
        };
        Err(Unsupported(refused.into()))
    }

    fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        PairByLibrary::<CausewayBus>::create(host, params)
    }

    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<LibraryEnd> {
        PairByLibrary::<CausewayBus>::attach(side, resources, params)
    }

    /// The server tells its name, so it joins first.
    fn attach_both([near, far]: [EndResources; 2], params: &CaseParams) -> io::Result<[LibraryEnd; 2]> {
        let far = Self::attach(Side::Far, far, params)?;
        Ok([Self::attach(Side::Near, near, params)?, far])
    }
}

/// Two messages between two members are two hops; through the process that serves the bus they are four, as through a broker.
fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    match DbusClient::of(&case.params) {
        DbusClient::None => {
            switches_per_hop(case, per_op, &["client", "server", "client"], MOST_SWITCHES_PER_HOP)
        }
        DbusClient::First | DbusClient::Last => through_broker(case, per_op, MOST_SWITCHES_PER_HOP),
    }
}
