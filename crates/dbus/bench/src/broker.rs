//! The broker of a run, as the coordinator starts, places and connects to it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use causeway_bus::client::Bus;
use causeway_dbus_wire::wire::Body;
use causeway_os::sched;
use weighbridge_dbus_client::brokers;
use weighbridge_dbus_client::brokers::{Limits, Program};
use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::choice;
use weighbridge_harness::contract::{EndResources, Facts, Target, Unsupported};
use weighbridge_harness::ctx::Ctx;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;
use weighbridge_record::{Across, Properties};
use weighbridge_targets::properties::of_kernel;

use crate::handle::BrokerHandle;
use crate::libraries::{self, Client, Connected, Role};

/// Which broker, as a type: a mechanism is one.
pub trait Kind: 'static {
    const PROGRAM: Program;
    /// What a reader should know, in one sentence.
    const ABOUT: &'static str;

    /// Connects an end that does not write and read the bytes of messages itself, in the process of its role.
    fn connect(
        params: &CaseParams,
        address: &str,
        role: Role,
        partner: &str,
    ) -> io::Result<Box<dyn Connected>> {
        Client::of(params).connect(address, role, partner)
    }
}

/// The reference implementation.
#[derive(Debug)]
pub struct DbusDaemon;
/// The broker of most distributions.
#[derive(Debug)]
pub struct DbusBroker;
/// The broker of the zbus project.
#[derive(Debug)]
pub struct Busd;
/// The broker of this project.
#[derive(Debug)]
pub struct Causewayd;

impl Kind for DbusDaemon {
    const PROGRAM: Program = Program::DbusDaemon;
    const ABOUT: &'static str = "D-Bus through a private dbus-daemon, the reference implementation; the ends write and read bytes themselves, or by a library";
}

impl Kind for DbusBroker {
    const PROGRAM: Program = Program::DbusBroker;
    const ABOUT: &'static str = "D-Bus through a private dbus-broker, which this program controls; the ends write and read bytes themselves, or by a library";
}

impl Kind for Busd {
    const PROGRAM: Program = Program::Busd;
    const ABOUT: &'static str = "D-Bus through a private busd, the broker of the zbus project; the ends write and read bytes themselves, or by a library";
}

impl Kind for Causewayd {
    const PROGRAM: Program = Program::Causewayd;
    const ABOUT: &'static str = "D-Bus through a private causewayd, the broker of this project; the ends write and read bytes themselves";
}

choice! {
    /// Where the broker runs.
    pub enum Place {
        First = "first",
        Last = "last",
        Own = "own",
        Free = "free",
    }
    axis "broker", default First: "where the broker runs: on the CPU of the first role (client, sender), on that of the last (server, \
        receiver), on one that no role has, or free; where roles are not pinned, it is free too"
}

/// Nice value of the broker; those of the roles have the axis that every case has.
pub const NICE: Axis =
    Axis { name: "broker-nice", default: "0", values: Values::Nices, about: "nice value of the broker" };

pub const READ_BYTES: Axis = Axis {
    name: "broker-read-bytes",
    default: "default",
    values: Values::Bytes,
    about: "most bytes that the broker takes of a connection in one read (max_bytes_read_per_iteration), of causewayd alone: in dbus-daemon that is a \
        constant of its source; default is 64 KiB",
};

/// The CPUs that the broker may run on, or why there are none.
fn cpus(host: &Host, params: &CaseParams) -> Result<Vec<u32>, Unsupported> {
    let roles = &params.cpus;
    let no_other = "broker=own needs a CPU that no role has, and every CPU that may be measured on has one; use broker=first or another place";
    let cpu = match (params.choice(), &roles[..]) {
        (Place::Free, _) | (_, []) => return Ok(host.measured_cpus.clone()),
        (Place::First, [first, ..]) => Some(first),
        (Place::Last, [.., last]) => Some(last),
        (Place::Own, _) => host.measured_cpus.iter().find(|cpu| !roles.contains(cpu)),
    };
    cpu.map(|cpu| vec![*cpu]).ok_or(Unsupported(no_other.into()))
}

/// Can the broker of a case run here?
pub fn fit(program: Program, host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    if program.path().is_none() {
        return Err(Unsupported(brokers::Error::Missing(program).to_string()));
    }
    if params.axis(NICE.name).contains(':') {
        return Err(Unsupported("broker-nice takes one value: there is one broker".into()));
    }
    if program != Program::Causewayd && read_bytes(params).is_some() {
        return Err(Unsupported(format!(
            "{} has no setting for what it reads at once: broker-read-bytes is of causewayd; in dbus-daemon it is a constant of the source \
             (max_bytes_read_per_iteration), which only another build has",
            program.name()
        )));
    }
    cpus(host, params)?;
    libraries::fit(params)
}

/// What it reads at once, where the case says it.
fn read_bytes(params: &CaseParams) -> Option<u64> {
    params.axes.get(READ_BYTES.name)?.parse().ok()
}

/// A broker that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    broker: brokers::Broker,
    program: Program,
}

impl Running {
    pub fn start(program: Program) -> io::Result<Running> {
        Running::with(program, &Limits::default())
    }

    /// With the settings of a case.
    pub fn of(program: Program, params: &CaseParams) -> io::Result<Running> {
        Running::with(program, &Limits { read_bytes: read_bytes(params), ..Limits::default() })
    }

    fn with(program: Program, limits: &Limits) -> io::Result<Running> {
        let broker = brokers::Broker::start(program, limits).map_err(io::Error::other)?;
        Ok(Running { broker, program })
    }

    pub fn address(&self) -> &str {
        self.broker.address()
    }

    /// A connection that is authenticated and has a unique name.
    pub fn connect(&self) -> io::Result<Bus> {
        Bus::connect(self.broker.address()).map_err(io::Error::other)
    }

    /// The resources of a role that sends to `partner` over this socket.
    pub fn resources(&self, sockets: impl IntoIterator<Item = OwnedFd>, partner: &str) -> EndResources {
        let broker = BrokerHandle {
            pid: self.broker.pid(),
            version: version(self.program).into(),
            partner: partner.into(),
            address: self.broker.address().into(),
        };
        EndResources { words: broker.into_words(), ..EndResources::of(sockets) }
    }
}

/// Puts the broker of these roles where the case says.
pub fn place(resources_by_role: &[EndResources], host: &Host, params: &CaseParams) -> io::Result<()> {
    let pid = BrokerHandle::of_role(&resources_by_role[0], params)?.pid;
    let cpus = cpus(host, params).map_err(|Unsupported(why)| io::Error::other(why))?;
    if host.pin_refused.is_none() {
        sched::pin_process(pid, &cpus)?;
    }
    let nice = params.axis(NICE.name);
    if nice != NICE.default {
        let value = nice.parse().expect("the axis was checked");
        sched::set_process_nice(pid, value).map_err(|error| {
            let why = format!(
                "broker-nice={nice} is refused: {error}; it needs root, CAP_SYS_NICE or a higher ulimit"
            );
            io::Error::new(error.os().kind(), why)
        })?;
    }
    Ok(())
}

/// Of clients, which talk over sockets whatever the broker is: an end is announced as NameOwnerChanged.
pub const PROPERTIES: Properties = of_kernel(Across::SharedPath);

/// Roles that talk through a broker. The coordinator places the broker, and what it does is counted as an auxiliary process.
pub trait Brokered: 'static {
    /// The roles, which write and read the bytes of messages themselves.
    const TARGET: Target;
    /// The roles with a library in place of our own bytes, where that makes a difference.
    const BY_LIBRARY: Target = Self::TARGET;
}

/// The entry of such roles in the catalogue.
pub const fn target<B: Brokered>() -> Target {
    Target { create: create::<B>, drive: drive::<B>, ..B::TARGET }
}

fn chosen<B: Brokered>(params: &CaseParams) -> &'static Target {
    if Client::of(params).is_raw() { const { &B::TARGET } } else { const { &B::BY_LIBRARY } }
}

fn create<B: Brokered>(host: &Host, params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let resources_by_role = (chosen::<B>(params).create)(host, params)?;
    place(&resources_by_role, host, params)?;
    Ok(resources_by_role)
}

fn drive<B: Brokered>(
    pattern: &str,
    resources: EndResources,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    cx.count_auxiliary("broker", BrokerHandle::of_role(&resources, params)?.pid)?;
    libraries::count_threads(params);
    (chosen::<B>(params).drive)(pattern, resources, params, cx)
}

/// The socket of a connection on which nothing waits to be read but what comes from now on.
pub fn socket(mut connection: Bus) -> io::Result<OwnedFd> {
    // What the broker says of itself (NameAcquired) comes before its answer to this.
    connection.ask_driver("GetId", Body::default()).map_err(io::Error::other)?;
    while connection.receive(Duration::ZERO).map_err(io::Error::other)?.is_some() {}
    let (stream, unread, _) = connection.into_parts().map_err(io::Error::other)?;
    if !unread.is_empty() {
        return Err(io::Error::other("messages were received that are not taken yet"));
    }
    Ok(stream.into())
}

/// Asked once: it takes a process.
fn version(program: Program) -> &'static str {
    static VERSIONS: [OnceLock<String>; Program::ALL.len()] = [const { OnceLock::new() }; Program::ALL.len()];
    let index = Program::ALL.iter().position(|known| *known == program).expect("it is one of all");
    VERSIONS[index].get_or_init(|| program.version().unwrap_or_else(|| "unknown".into()))
}
