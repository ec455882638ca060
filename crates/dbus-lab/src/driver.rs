//! Calls to the broker itself: what a program asks of the bus, with no other connection involved.

use std::ffi::CStr;
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
use crate::libraries::{self, Client, Role};

/// The entry of a broker that is asked itself in the catalogue.
pub const fn target<K: Kind>() -> Target {
    through_a_broker!(inner::<K>(), by_library::<K>())
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
        axes: &[Method::AXIS, Place::AXIS, broker::NICE, Client::AXIS, client::READ_BYTES],
        patterns: &[SOLO],
        fit: fit::<K>,
        create: |_, _| create::<K>(),
        drive: |_, resources, params, cx| drive(resources, params, cx),
        // How a broker allocates memory is its own matter.
        counter_check: |_, _| Vec::new(),
        in_suites: InSuites::Never("a broker takes part; brokers have suites of their own"),
    }
}

/// The same, with a library that calls.
const fn by_library<K: Kind>() -> Target {
    Target {
        create: |_, _| {
            let running = Running::start(K::PROGRAM)?;
            let client = running.handed([], "");
            Ok(vec![EndResources { guard: Some(Box::new(running)), ..client }])
        },
        drive: |_, resources, params, cx| drive_by_library(&resources, params, cx),
        ..inner::<K>()
    }
}

fn fit<K: Kind>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    broker::fit(K::PROGRAM, host, params)
}

/// Calls before anything is timed.
const VERIFIED: usize = 16;

choice! {
    /// What is asked.
    enum Method { GetId = "GetId", NameHasOwner = "NameHasOwner", GetNameOwner = "GetNameOwner", Match = "match" }
    axis "call", default GetNameOwner: "the method of the broker that is called; match: AddMatch and RemoveMatch in turn"
}

/// A method of the broker, and its argument.
type Call = (&'static CStr, Option<&'static CStr>);

/// A call as bytes.
fn message((method, argument): &Call) -> io::Result<Vec<u8>> {
    let text = |text: &'static CStr| text.to_str().expect("it is ASCII");
    let body = argument.map_or(Body::default(), |argument| Body::default().text(text(argument)));
    let call = Builder::call("/org/freedesktop/DBus", text(method)).interface(DRIVER).destination(DRIVER);
    call.body(body).build(1).map_err(io::Error::other)
}

impl Method {
    /// The calls that are made in turn.
    fn calls(self) -> &'static [Call] {
        const RULE: &CStr = c"type='signal',interface='org.weighbridge.Lab',path='/org/weighbridge/Lab'";
        const DRIVER: &CStr = c"org.freedesktop.DBus";
        match self {
            Method::GetId => &[(c"GetId", None)],
            Method::NameHasOwner => &[(c"NameHasOwner", Some(DRIVER))],
            Method::GetNameOwner => &[(c"GetNameOwner", Some(DRIVER))],
            Method::Match => &[(c"AddMatch", Some(RULE)), (c"RemoveMatch", Some(RULE))],
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
    let mut client = Caller {
        incoming: Incoming::of_broker(params)?,
        calls: params.choice::<Method>().calls().iter().map(message).collect::<io::Result<_>>()?,
        next: 0,
        serial: 0,
        socket,
    };
    cx.set_step(Step::Prefault);
    client.incoming.prefault()?;
    cx.set_step(Step::Verify);
    for _ in 0..VERIFIED {
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

fn drive_by_library(resources: &EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let handed = Handed::of(resources)?;
    let mut connected = Client::of(params).connect(&handed.address, Role::Asker, "")?;
    let mut calls = params.choice::<Method>().calls().iter().cycle();
    let mut call = || {
        let (method, argument) = calls.next().expect("a method has at least one call");
        connected.ask(method, *argument)
    };
    cx.set_step(Step::Verify);
    for _ in 0..VERIFIED {
        call()?;
    }
    cx.lead_alone(|ops| {
        for _ in 0..ops {
            call()?;
        }
        Ok(Tally::default())
    })?;
    libraries::facts(&*connected, &handed.version)
}

/// Writes and reads the bytes of calls itself.
struct Caller {
    socket: OwnedFd,
    incoming: Incoming,
    calls: Vec<Vec<u8>>,
    next: usize,
    serial: u32,
}

impl Caller {
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
