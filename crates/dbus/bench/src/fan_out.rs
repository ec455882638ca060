//! Signals from one sender to many receivers, each of which has a match rule for them.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use causeway_bus::client::Bus;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Kind as MessageKind};
use weighbridge_harness::axis::{Axis, Choice, Values};
use weighbridge_harness::choice;
use weighbridge_harness::contract::{Caps, EndResources, Facts, InSuites, Prepared, Target, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_record::{PerOp, Properties};
use weighbridge_targets::fan_out::{
    self, Multicast, MulticastReceiver, MulticastSender, burst, is_one_at_a_time, receivers,
};

use crate::broker::{self, Brokered, Kind, Place, Running};
use crate::client::{self, INTERFACE, Incoming, MEMBER, Outgoing, PATH, READ_BYTES};
use crate::handle::BrokerHandle;
use crate::libraries::Client;
use crate::libraries::signals::SignalsByLibrary;

#[derive(Debug)]
pub struct Signals<K>(PhantomData<K>);

impl<K: Kind> Brokered for Signals<K> {
    const TARGET: Target = Target {
        counter_check: check,
        in_suites: InSuites::Never("a broker takes part; brokers have suites of their own"),
        environment: &[],
        ..fan_out::target::<Signals<K>>()
    };
    const BY_LIBRARY: Target = fan_out::target::<SignalsByLibrary<K>>();
}

const RULES: Axis = Axis {
    name: "rules",
    default: "0",
    values: Values::AtLeast(0),
    about: "match rules that match none of the signals, of all receivers together, in addition to the one of each that does",
};

choice! {
    /// By what the rules fail that match no signal.
    enum RulesBy { Path = "path", Interface = "interface", Argument = "arg0" }
    axis "rules-by", default Path: "what the rules ask for that match no signal: another path, another interface, or another first \
        argument"
}

impl RulesBy {
    /// A rule that no signal of ours matches; each is another one.
    fn rule(self, number: usize) -> String {
        match self {
            RulesBy::Path => format!("type='signal',path='{PATH}/other{number}'"),
            RulesBy::Interface => format!("type='signal',interface='{INTERFACE}.Other{number}'"),
            RulesBy::Argument => format!("type='signal',interface='{INTERFACE}',arg0='other{number}'"),
        }
    }
}

/// The rule of a receiver.
pub fn own_rule() -> String {
    format!("type='signal',interface='{INTERFACE}',member='{MEMBER}',path='{PATH}'")
}

/// So many rules a private broker allows.
const MOST_RULES: usize = 100_000;
/// So much of a burst may wait in a broker, of the 127 MiB that it allows.
const MOST_QUEUED_BYTES: usize = 48 << 20;
/// Of a message in addition to its payload, generously.
const HEADER_BYTES: usize = 512;

/// What a message to all receivers takes in a broker while none of them reads it.
fn queued_bytes(params: &CaseParams) -> usize {
    (params.payload_bytes + HEADER_BYTES).saturating_mul(receivers(params))
}

impl<K: Kind> Multicast for Signals<K> {
    const ID: &'static str = K::PROGRAM.name();
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD;
    const WAITS: &'static [Wait] = client::WAITS;
    const AXES: &'static [Axis] =
        &[Place::AXIS, broker::NICE, Client::AXIS, READ_BYTES, RULES, RulesBy::AXIS];
    type Sender = Sender;
    type Receiver = Receiver;

    fn properties(_params: &CaseParams) -> Properties {
        broker::PROPERTIES
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        broker::fit(K::PROGRAM, host, params)?;
        client::fit(params)?;
        let rules = params.count(RULES);
        if rules > MOST_RULES {
            return Err(Unsupported(format!(
                "{rules} match rules are more than the {MOST_RULES} that a private broker is given; use fewer rules"
            )));
        }
        if rules > 0 && !Client::of(params).is_raw() {
            return Err(Unsupported(
                "further match rules are added with client=raw only; leave out rules or client".into(),
            ));
        }
        let queued = (burst(params) as usize).saturating_mul(queued_bytes(params));
        let why = || {
            format!(
                "a burst of {queued} bytes for all receivers exceeds the {MOST_QUEUED_BYTES} that are left to wait in a broker; use a smaller \
                 burst, payload or number of receivers"
            )
        };
        if queued > MOST_QUEUED_BYTES { Err(Unsupported(why())) } else { Ok(()) }
    }

    fn ahead_max(params: &CaseParams) -> Option<u64> {
        Some((MOST_QUEUED_BYTES / queued_bytes(params)) as u64)
    }

    fn create(params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        let running = Running::start(K::PROGRAM)?;
        let sender = running.resources([broker::socket(running.connect()?)?], "");
        let mut resources_by_role = vec![sender];
        let (rules, by) = (params.count(RULES), params.choice::<RulesBy>());
        for receiver in 0..receivers {
            let mut connection = running.connect()?;
            let others = (receiver..rules).step_by(receivers).map(|number| by.rule(number));
            add_rules(&mut connection, others)?;
            connection.add_match(&own_rule()).map_err(io::Error::other)?;
            resources_by_role.push(running.resources([broker::socket(connection)?], ""));
        }
        resources_by_role[0].guard = Some(Box::new(running));
        Ok(resources_by_role)
    }

    fn sender(mut resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let broker = BrokerHandle::of(&resources)?;
        let mut outgoing = Outgoing::new(&Builder::signal(PATH, INTERFACE, MEMBER), params.payload_bytes)?;
        outgoing.prefault()?;
        let socket = resources.take_fd();
        let facts = client::facts(&socket, &broker.version)?;
        Ok(Sender { socket, outgoing, payload_bytes: params.payload_bytes, facts })
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        let broker = BrokerHandle::of(&resources)?;
        let mut incoming = Incoming::new(MessageKind::Signal, params)?;
        incoming.prefault()?;
        let socket = resources.take_fd();
        let facts = client::facts(&socket, &broker.version)?;
        Ok(Receiver { socket, incoming, facts })
    }
}

/// Adds rules without waiting for each. The broker handles the calls of a connection in their order, so once it has answered a later call
/// it has all of them.
fn add_rules(connection: &mut Bus, rules: impl Iterator<Item = String>) -> io::Result<()> {
    for rule in rules {
        let call = Builder::of_driver("AddMatch").flags(FLAG_NO_REPLY_EXPECTED);
        connection.send(&call.body(Body::default().text(&rule))).map_err(io::Error::other)?;
    }
    Ok(())
}

/// A signal on one CPU wakes the broker, each receiver, and when the last of them has it the sender.
fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let params = &case.params;
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    let receivers = receivers(params) as f64;
    let least = receivers + 2.0;
    let is_on_one_cpu = params.same_cpu() && matches!(params.choice(), Place::First | Place::Last);
    let why = if !is_on_one_cpu || !is_one_at_a_time(params) {
        return Vec::new();
    } else if switches < 0.9 * least {
        format!("where the broker, {receivers} receivers and the sender need {least}")
    // Threads of a library switch among themselves.
    } else if switches > 1.5 * least && !Client::of(params).has_threads() {
        format!("where {least} suffice: receivers run before the broker has sent to all of them")
    } else {
        return Vec::new();
    };
    vec![format!("{switches:.1} context switches a signal on one CPU, {why}")]
}

pub struct Sender {
    socket: OwnedFd,
    outgoing: Outgoing,
    payload_bytes: usize,
    facts: Facts,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        write(self.outgoing.payload(self.payload_bytes));
        self.outgoing.send(&self.socket, self.payload_bytes, 0)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

pub struct Receiver {
    socket: OwnedFd,
    incoming: Incoming,
    facts: Facts,
}

impl MulticastReceiver for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let message = self.incoming.next(&self.socket)?;
        Ok(Some(self.incoming.payload(&message)))
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
