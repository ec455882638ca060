//! A call and its reply between native members, or one-way calls.

use std::io;

use weighbridge_lab::axis::{Axis, Choice};
use weighbridge_lab::contract::{
    Caps, CounterCheck, EndResources, InSuites, Mechanism, Prepared, Side, Target, Unsupported,
};
use weighbridge_lab::host::Host;
use weighbridge_lab::params::{CaseParams, Wait};
use weighbridge_lab::pattern;
use weighbridge_record::PerOp;

use super::{CausewayBus, WAITS};
use crate::broker::{self, Kind, Place, through_a_broker};
use crate::client;
use crate::credit::DEPTH;
use crate::libraries::pair::{LibraryEnd, PairByLibrary};

/// The entry of two native members in the catalogue.
pub const fn target() -> Target {
    through_a_broker!(pattern::target::<Pair>())
}

/// Two native members of one bus.
#[derive(Debug)]
pub struct Pair;

impl Mechanism for Pair {
    const ID: &'static str = CausewayBus::PROGRAM.name();
    const ABOUT: &'static str = CausewayBus::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = WAITS;
    const AXES: &'static [Axis] = &[Place::AXIS, broker::NICE, DEPTH];
    const IN_SUITES: InSuites = InSuites::Never("a bus is served for it; brokers have suites of their own");
    const COUNTER_CHECK: Option<CounterCheck> = Some(check);
    const TO_ITSELF: Result<usize, &'static str> =
        Err("the ends join the bus one after the other, each as a process does");
    type End = LibraryEnd;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        broker::fit(CausewayBus::PROGRAM, host, params)?;
        client::fit(params)
    }

    fn create(host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        PairByLibrary::<CausewayBus>::create(host, params)
    }

    fn attach(side: Side, resources: EndResources, params: &CaseParams) -> io::Result<LibraryEnd> {
        PairByLibrary::<CausewayBus>::attach(side, resources, params)
    }
}

/// Two messages between two processes are two hops, and on one CPU a switch belongs to each of them.
fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    const HOPS: f64 = 2.0;
    const ONE_PIECE_BYTES: usize = 4096;
    /// A role that is woken takes the CPU from the one that wakes it, which then runs once more only to wait.
    const MOST_PER_HOP: f64 = 2.3;
    let params = &case.params;
    let per_hop = (per_op.voluntary_switches + per_op.involuntary_switches) / HOPS;
    let is_judged =
        case.pattern.id == "roundtrip" && params.same_cpu() && params.payload_bytes <= ONE_PIECE_BYTES;
    if is_judged && !(0.9..=MOST_PER_HOP).contains(&per_hop) {
        return vec![format!(
            "{per_hop:.2} context switches per hop on one CPU, where one suffices (client, server, client) and {MOST_PER_HOP} are many"
        )];
    }
    Vec::new()
}
