//! What one program does with a broker alone: calls to the broker itself, names, rules, connections, and messages to itself.
//!
//! With `pause-us` the client sleeps before each, so that the broker has nothing to do and sleeps too: what a message costs a bus at rest.
//!
//! Nothing answers a broadcast to nobody, so the client waits before each reading of the broker's counters until the broker has read all
//! of them and sleeps: its work for the counted signals is counted, and a message that asks whether it is done would add to it.

use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_bus::client::Bus;
use causeway_dbus_wire::driver::DO_NOT_QUEUE;
use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Kind as MessageKind};
use causeway_os::socket::is_all_received;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_harness::axis::{Axis, Choice, Values};
use weighbridge_harness::choice;
use weighbridge_harness::contract::{
    Caps, EndResources, Facts, InSuites, PatternInfo, Target, Unit, Unsupported,
};
use weighbridge_harness::ctx::{Ctx, Tally};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;
use weighbridge_harness::shared::Step;
use weighbridge_probe::counters::ProcessCounters;

use crate::broker::{self, Brokered, Kind, Place, Running};
use crate::client::{self, INTERFACE, Incoming, MEMBER, PATH};
use crate::handle::BrokerHandle;
use crate::libraries::{self, Client, Role};

const SOLO: PatternInfo = PatternInfo {
    id: "solo",
    about: "one role does an operation over and over: what one costs",
    needs: Caps::NONE,
    roles: |_| vec!["client"],
    axes: &[],
    unit: Unit::NanosPer("call"),
    is_symmetric: false,
};

#[derive(Debug)]
pub struct Solo<K>(PhantomData<K>);

impl<K: Kind> Brokered for Solo<K> {
    const TARGET: Target = Target {
        id: K::PROGRAM.name(),
        about: K::ABOUT,
        caps: Caps::NONE,
        properties: |_| None,
        waits: client::WAITS,
        axes: &[Method::AXIS, PAUSE, Place::AXIS, broker::NICE, Client::AXIS, client::READ_BYTES],
        patterns: &[SOLO],
        fit: fit::<K>,
        create: |_, params| create::<K>(params),
        drive: |_, resources, params, cx| drive(resources, params, cx),
        // How a broker allocates memory is its own matter.
        counter_check: |_, _| Vec::new(),
        in_suites: InSuites::Never("a broker takes part; brokers have suites of their own"),
        environment: &[],
    };
    const BY_LIBRARY: Target = Target {
        create: |_, _| create_alone(K::PROGRAM),
        drive: |_, resources, params, cx| drive_by_library(&resources, params, cx),
        ..Self::TARGET
    };
}

pub const PAUSE: Axis = Axis {
    name: "pause-us",
    default: "0",
    values: Values::AtLeast(0),
    about: "microseconds that the client sleeps before each operation, so that the broker sleeps too; they are in the time of the \
        operation, not in what the broker does",
};

fn fit<K: Kind>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let (method, pause_us) = (params.choice::<Method>(), params.count(PAUSE));
    if method == Method::Signal && pause_us == 0 {
        let why = "nothing tells when a signal to nobody has passed; give call=signal a pause, such as pause-us=1000";
        return Err(Unsupported(why.into()));
    }
    if !Client::of(params).is_raw() && (method.calls().is_none() || pause_us > 0) {
        let why = "a library makes plain calls without a pause; call=name, connect, relay, signal and pause-us are for client=raw";
        return Err(Unsupported(why.into()));
    }
    broker::fit(K::PROGRAM, host, params)
}

/// Operations before anything is timed.
const VERIFIED: usize = 16;

choice! {
    pub enum Method {
        GetId = "GetId",
        NameHasOwner = "NameHasOwner",
        GetNameOwner = "GetNameOwner",
        Match = "match",
        Name = "name",
        Connect = "connect",
        Relay = "relay",
        Signal = "signal",
    }
    axis "call", default GetNameOwner: "a method of the broker that is called; match: AddMatch and RemoveMatch in turn; name: RequestName and \
        ReleaseName in turn; connect: a connection that is made, authenticated, named by Hello and closed; relay: a message to the \
        client itself; signal: a broadcast to nobody, of which the whole work of the broker is counted though the client does not wait for it"
}

/// A method of the broker, and its argument.
pub type Call = (&'static CStr, Option<&'static CStr>);

/// What the broker is called in calls that ask for a name.
const BROKER: &CStr = c"org.freedesktop.DBus";
const RULE: &CStr = c"type='signal',interface='org.weighbridge.Lab',path='/org/weighbridge/Lab'";

impl Method {
    /// The calls that a library makes in turn: those with at most one text as their argument, of which each has an answer.
    pub fn calls(self) -> Option<&'static [Call]> {
        match self {
            Method::GetId => Some(&[(c"GetId", None)]),
            Method::NameHasOwner => Some(&[(c"NameHasOwner", Some(BROKER))]),
            Method::GetNameOwner => Some(&[(c"GetNameOwner", Some(BROKER))]),
            Method::Match => Some(&[(c"AddMatch", Some(RULE)), (c"RemoveMatch", Some(RULE))]),
            Method::Name | Method::Connect | Method::Relay | Method::Signal => None,
        }
    }

    /// The messages that are sent in turn by a connection of this name.
    fn messages(self, own_name: &str) -> io::Result<Vec<Vec<u8>>> {
        let call = |member, body| Builder::of_driver(member).body(body);
        let name = Body::default().text(INTERFACE);
        let empty = Body::default().blob(&[]);
        let as_text = |text: &'static CStr| text.to_str().expect("it is ASCII");
        let messages = match self {
            Method::Name => {
                vec![call("RequestName", name.clone().u32(DO_NOT_QUEUE)), call("ReleaseName", name)]
            }
            Method::Connect => Vec::new(),
            Method::Relay => {
                let message = Builder::call(PATH, MEMBER).interface(INTERFACE).destination(own_name);
                vec![message.flags(FLAG_NO_REPLY_EXPECTED).body(empty)]
            }
            Method::Signal => vec![Builder::signal(PATH, INTERFACE, MEMBER).body(empty)],
            Method::GetId | Method::NameHasOwner | Method::GetNameOwner | Method::Match => {
                let text = |text: &'static CStr| Body::default().text(as_text(text));
                let calls = self.calls().expect("a library makes it too").iter();
                calls.map(|(member, of)| call(as_text(member), of.map(text).unwrap_or_default())).collect()
            }
        };
        messages.iter().map(|message| message.build(1).map_err(io::Error::other)).collect()
    }
}

/// A bus, and the role of a client that connects by itself.
pub fn create_alone(program: Program) -> io::Result<Vec<EndResources>> {
    let running = Running::start(program)?;
    let client = running.resources([], "");
    Ok(vec![EndResources { guard: Some(Box::new(running)), ..client }])
}

/// The client is handed what it needs to know: where to connect to, or its own name.
fn create<K: Kind>(params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let running = Running::start(K::PROGRAM)?;
    let connection = running.connect()?;
    let partner = match params.choice() {
        Method::Connect => running.address().to_owned(),
        _ => connection.unique_name().to_owned(),
    };
    let client = running.resources([broker::socket(connection)?], &partner);
    Ok(vec![EndResources { guard: Some(Box::new(running)), ..client }])
}

fn drive(mut resources: EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let broker = BrokerHandle::of(&resources)?;
    let method = params.choice::<Method>();
    let mut client = Caller {
        method,
        pause: pause(params),
        incoming: match method {
            Method::Relay => Incoming::new(MessageKind::MethodCall, params)?,
            _ => Incoming::of_broker(params)?,
        },
        messages: method.messages(&broker.partner)?,
        address: broker.partner,
        next: 0,
        serial: 0,
        socket: resources.take_fd(),
    };
    cx.set_step(Step::Prefault);
    client.incoming.prefault()?;
    if method == Method::Signal {
        let socket = client.socket.try_clone()?;
        cx.settle_auxiliary(move || await_rest(&socket, broker.pid));
    }
    lead(cx, || client.operate())?;
    client::facts(&client.socket, &broker.version)
}

fn drive_by_library(resources: &EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let broker = BrokerHandle::of(resources)?;
    let mut connected = Client::of(params).connect(&broker.address, Role::Asker, "")?;
    let mut calls = params.choice::<Method>().calls().expect("the case fits").iter().cycle();
    lead(cx, || {
        let (method, argument) = calls.next().expect("a method has at least one call");
        connected.ask(method, *argument)
    })?;
    libraries::facts(&*connected, &broker.version)
}

/// Does an operation some times before anything is timed, and then as often as is timed.
pub fn lead(cx: &mut Ctx<'_>, mut operate: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    cx.set_step(Step::Verify);
    for _ in 0..VERIFIED {
        operate()?;
    }
    cx.lead_alone(|ops| {
        for _ in 0..ops {
            operate()?;
        }
        Ok(Tally::default())
    })
}

/// How long the client sleeps before each operation.
pub fn pause(params: &CaseParams) -> Option<Duration> {
    Some(Duration::from_micros(params.count(PAUSE) as u64)).filter(|pause| !pause.is_zero())
}

/// Sleeps until the broker has read all that was sent to it and does nothing.
fn await_rest(socket: &OwnedFd, broker: u32) -> io::Result<()> {
    const NAP: Duration = Duration::from_micros(50);
    /// Half a minute and more.
    const MOST_NAPS: usize = 600_000;
    for _ in 0..MOST_NAPS {
        if is_all_received(socket)? && ProcessCounters::all_threads_sleep(broker)? {
            return Ok(());
        }
        std::thread::sleep(NAP);
    }
    let why = "the broker has not read the signals, or does not come to rest after them, for half a minute";
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}

/// Writes and reads the bytes of messages itself.
struct Caller {
    method: Method,
    pause: Option<Duration>,
    socket: OwnedFd,
    /// Of the bus, where connections are made.
    address: String,
    incoming: Incoming,
    messages: Vec<Vec<u8>>,
    next: usize,
    serial: u32,
}

impl Caller {
    /// One operation, and its answer where it has one.
    #[inline]
    fn operate(&mut self) -> io::Result<()> {
        if let Some(pause) = self.pause {
            std::thread::sleep(pause);
        }
        match self.method {
            Method::Connect => Bus::connect(&self.address).map(drop).map_err(io::Error::other),
            Method::Signal => self.send(),
            _ => {
                self.send()?;
                self.incoming.next(&self.socket).map(drop)
            }
        }
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        let next = if self.next + 1 == self.messages.len() { 0 } else { self.next + 1 };
        let message = &mut self.messages[std::mem::replace(&mut self.next, next)];
        message[8..12].copy_from_slice(&self.serial.to_ne_bytes());
        client::send_all(&self.socket, message)
    }
}
