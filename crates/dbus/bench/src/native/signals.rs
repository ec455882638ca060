//! Signals from one native member to many, each of which has a match rule for them.

use std::io;

use weighbridge_harness::axis::{Axis, Choice};
use weighbridge_harness::contract::{Caps, EndResources, InSuites, Prepared, Target, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_record::{PerOp, Properties};
use weighbridge_targets::fan_out::{self, Multicast, is_one_at_a_time, receivers};

use super::{CausewayBus, PROPERTIES, WAITS};
use crate::broker::{self, Brokered, Kind, Place};
use crate::client;
use crate::libraries::signals::{Emitter, SignalsByLibrary, Subscriber};

/// Broadcasts of a native member. Where the receivers are behind, the sender waits for space; nothing is dropped.
#[derive(Debug)]
pub struct Signals;

impl Brokered for Signals {
    const TARGET: Target = Target {
        counter_check: check,
        in_suites: InSuites::Never("a bus is served for it; brokers have suites of their own"),
        environment: &[],
        ..fan_out::target::<Signals>()
    };
}

impl Multicast for Signals {
    const ID: &'static str = CausewayBus::PROGRAM.name();
    const ABOUT: &'static str = CausewayBus::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = WAITS;
    const AXES: &'static [Axis] = &[Place::AXIS, broker::NICE];
    type Sender = Emitter;
    type Receiver = Subscriber;

    fn properties(_params: &CaseParams) -> Properties {
        PROPERTIES
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        broker::fit(CausewayBus::PROGRAM, host, params)?;
        client::fit(params)
    }

    fn ahead_max(_params: &CaseParams) -> Option<u64> {
        None
    }

    fn create(params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        SignalsByLibrary::<CausewayBus>::create(params, receivers)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Emitter> {
        SignalsByLibrary::<CausewayBus>::sender(resources, params)
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Subscriber> {
        SignalsByLibrary::<CausewayBus>::receiver(resources, params)
    }
}

/// A signal on one CPU wakes each receiver, and when the last of them has it the sender.
fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let params = &case.params;
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    let least = receivers(params) as f64 + 1.0;
    if !params.same_cpu() || !is_one_at_a_time(params) || (0.9 * least..=1.5 * least).contains(&switches) {
        return Vec::new();
    }
    vec![format!(
        "{switches:.1} context switches a signal on one CPU, where the receivers and the sender need {least}"
    )]
}
