//! What one native member does alone: calls of the bus itself, names, rules, joining, and messages to itself.

use std::io;
use std::time::Duration;

use causeway_bus::Connection;
use causeway_bus::client::native_path;
use causeway_dbus_wire::driver::DO_NOT_QUEUE;
use causeway_dbus_wire::wire::Body;
use weighbridge_harness::axis::{Axis, Choice, Values};
use weighbridge_harness::contract::{EndResources, Facts, InSuites, Target};
use weighbridge_harness::ctx::Ctx;
use weighbridge_harness::params::CaseParams;
use weighbridge_harness::shared::Step;

use super::{CausewayBus, Member, WAITS, failed, join, next};
use crate::broker::{self, Brokered, Kind, Place};
use crate::client::{INTERFACE, MEMBER, PATH};
use crate::driver::{Call, Method, PAUSE, Solo as ThroughBroker, create_alone, lead, pause};
use crate::handle::BrokerHandle;
use crate::libraries::{Connected, Role};

const IDLE_MEMBERS: Axis = Axis {
    name: "idle-members",
    default: "0",
    values: Values::AtLeast(0),
    about: "members of the same bus that sleep, each with a match rule that fits no message here; the memory that one of them takes in the \
        process that serves the bus is a fact of the case",
};

#[derive(Debug)]
pub struct Solo;

impl Brokered for Solo {
    const TARGET: Target = Target {
        waits: WAITS,
        axes: &[Method::AXIS, IDLE_MEMBERS, PAUSE, Place::AXIS, broker::NICE],
        fit: |host, params| broker::fit(CausewayBus::PROGRAM, host, params),
        create: |_, _| create_alone(CausewayBus::PROGRAM),
        drive: |_, resources, params, cx| drive(&resources, params, cx),
        in_suites: InSuites::Never("a bus is served for it; brokers have suites of their own"),
        environment: &[],
        ..ThroughBroker::<CausewayBus>::TARGET
    };
}

fn drive(resources: &EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let broker = BrokerHandle::of(resources)?;
    let method = params.choice::<Method>();
    let idle_kib = sleep_beside(params, &broker)?;
    let member = Member::join(params, &broker.address, Role::Asker, "")?;
    let mut alone = Alone {
        method,
        pause: pause(params),
        calls: method.calls().unwrap_or_default(),
        name: member.unique_name()?,
        member,
        address: broker.address,
        operations: 0,
    };
    lead(cx, || alone.operate())?;
    let mut facts = crate::libraries::facts(&alone.member, &broker.version)?;
    facts.extend(idle_kib.map(|kib| ("idle_member_kib".into(), format!("{kib:.1}"))));
    Ok(facts)
}

/// Joins the members that sleep, each in a thread that ends with this process; KiB of each in the process that serves the bus.
fn sleep_beside(params: &CaseParams, broker: &BrokerHandle) -> io::Result<Option<f64>> {
    const STACK_BYTES: usize = 64 << 10;
    let count = params.count(IDLE_MEMBERS);
    if count == 0 {
        return Ok(None);
    }
    let before = resident_kib(broker.pid)?;
    for _ in 0..count {
        let mut member = join(params, &broker.address)?;
        member.add_match("type='signal',interface='org.weighbridge.Never',member='Never'").map_err(failed)?;
        let sleeper = std::thread::Builder::new().stack_size(STACK_BYTES);
        sleeper.spawn(move || while next(&mut member).is_ok() {})?;
    }
    Ok(Some((resident_kib(broker.pid)? - before) / count as f64))
}

fn resident_kib(pid: u32) -> io::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| io::Error::other(format!("/proc/{pid}/status says no VmRSS")))
}

/// A member that does one thing over and over.
struct Alone {
    method: Method,
    pause: Option<Duration>,
    /// What it asks the bus in turn, where it asks.
    calls: &'static [Call],
    member: Member,
    name: String,
    address: String,
    operations: usize,
}

impl Alone {
    /// One operation, and its answer where it has one.
    #[inline]
    fn operate(&mut self) -> io::Result<()> {
        if let Some(pause) = self.pause {
            std::thread::sleep(pause);
        }
        self.operations += 1;
        let connection = &mut self.member.connection;
        let empty = || Body::default().blob(&[]);
        match self.method {
            Method::Connect => {
                let path = native_path(&self.address).expect("the member has joined there");
                Connection::open(path).map(drop).map_err(failed)
            }
            Method::Signal => connection.emit(PATH, INTERFACE, MEMBER, empty()).map_err(failed),
            Method::Relay => {
                connection
                    .call_without_reply(&self.name, PATH, INTERFACE, MEMBER, empty())
                    .map_err(failed)?;
                next(connection).map(drop)
            }
            Method::Name if self.operations % 2 == 1 => {
                connection.request_name(INTERFACE, DO_NOT_QUEUE).map(drop).map_err(failed)
            }
            Method::Name => connection.release_name(INTERFACE).map(drop).map_err(failed),
            Method::GetId | Method::NameHasOwner | Method::GetNameOwner | Method::Match => {
                let (method, argument) = self.calls[(self.operations - 1) % self.calls.len()];
                self.member.ask(method, argument)
            }
        }
    }
}
