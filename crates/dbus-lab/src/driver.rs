//! Calls to the broker itself: what a program asks of the bus, with no other connection involved.

use std::io;
use std::os::fd::OwnedFd;

use weighbridge_dbus::bus::DRIVER;
use weighbridge_dbus::wire::{Body, Builder};
use weighbridge_lab::axis::Choice;
use weighbridge_lab::choice;
use weighbridge_lab::contract::{
    Caps, EndResources, Facts, InSuites, PatternInfo, Target, Unit, Unsupported,
};
use weighbridge_lab::ctx::{Ctx, Tally};
use weighbridge_lab::host::Host;
use weighbridge_lab::params::CaseParams;
use weighbridge_lab::shared::Step;

use crate::broker::{self, Kind, Place, Running, through_a_broker};
use crate::client::{self, Incoming};
use crate::handed::Handed;

/// The entry of a broker that is asked itself in the catalogue.
pub const fn target<K: Kind>() -> Target {
    through_a_broker!(inner::<K>())
}

const SOLO: PatternInfo = PatternInfo {
    id: "solo",
    about: "one role does an operation over and over: what one costs",
    needs: Caps::NONE,
    roles: |_| vec!["client"],
    axes: &[],
    unit: Unit::NanosPer("call"),
    is_symmetric: false,
};

const fn inner<K: Kind>() -> Target {
    Target {
        id: K::PROGRAM.name(),
        about: K::ABOUT,
        caps: Caps::NONE,
        waits: client::WAITS,
        axes: &[Method::AXIS, Place::AXIS, broker::NICE, client::READ_BYTES],
        patterns: &[SOLO],
        fit: fit::<K>,
        create: |_, _| create::<K>(),
        drive: |_, resources, params, cx| drive(resources, params, cx),
        // How a broker allocates memory is its own matter.
        counter_check: |_, _| Vec::new(),
        in_suites: InSuites::Never("a broker takes part; brokers have suites of their own"),
    }
}

fn fit<K: Kind>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    broker::fit(K::PROGRAM, host, params)
}

choice! {
    /// What is asked.
    enum Method { GetId = "GetId", NameHasOwner = "NameHasOwner", GetNameOwner = "GetNameOwner", Match = "match" }
    axis "call", default GetNameOwner: "the method of the broker that is called; match: AddMatch and RemoveMatch in turn"
}

impl Method {
    /// The calls that are made in turn.
    fn calls(self) -> io::Result<Vec<Vec<u8>>> {
        const RULE: &str = "type='signal',interface='org.weighbridge.Lab',path='/org/weighbridge/Lab'";
        let call = |member: &str, argument: Option<&str>| {
            let body = argument.map_or(Body::default(), |text| Body::default().text(text));
            let call = Builder::call("/org/freedesktop/DBus", member).interface(DRIVER).destination(DRIVER);
            call.body(body).build(1).map_err(io::Error::other)
        };
        match self {
            Method::GetId => Ok(vec![call("GetId", None)?]),
            Method::NameHasOwner => Ok(vec![call("NameHasOwner", Some(DRIVER))?]),
            Method::GetNameOwner => Ok(vec![call("GetNameOwner", Some(DRIVER))?]),
            Method::Match => Ok(vec![call("AddMatch", Some(RULE))?, call("RemoveMatch", Some(RULE))?]),
        }
    }
}

fn create<K: Kind>() -> io::Result<Vec<EndResources>> {
    let running = Running::start(K::PROGRAM)?;
    let client = running.handed([broker::socket(running.connect()?)?], "");
    Ok(vec![EndResources { guard: Some(Box::new(running)), ..client }])
}

fn drive(mut resources: EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let handed = Handed::of(&resources)?;
    let socket = resources.take_fd();
    let mut client = Client {
        incoming: Incoming::of_broker(params)?,
        calls: params.choice::<Method>().calls()?,
        next: 0,
        serial: 0,
        socket,
    };
    cx.set_step(Step::Prefault);
    client.incoming.prefault()?;
    cx.set_step(Step::Verify);
    for _ in 0..16 {
        client.call()?;
    }
    cx.lead_alone(|ops| {
        for _ in 0..ops {
            client.call()?;
        }
        Ok(Tally::default())
    })?;
    client::facts(&client.socket, &handed.version)
}

struct Client {
    socket: OwnedFd,
    incoming: Incoming,
    calls: Vec<Vec<u8>>,
    next: usize,
    serial: u32,
}

impl Client {
    /// Calls, and waits for the answer to that call.
    #[inline]
    fn call(&mut self) -> io::Result<()> {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        let next = if self.next + 1 == self.calls.len() { 0 } else { self.next + 1 };
        let call = &mut self.calls[std::mem::replace(&mut self.next, next)];
        call[8..12].copy_from_slice(&self.serial.to_ne_bytes());
        client::send_all(&self.socket, call)?;
        self.incoming.next(&self.socket).map(drop)
    }
}
