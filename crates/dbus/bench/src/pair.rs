//! Two ends through a broker: in a round trip a method call and its reply, in a stream calls that want no reply.
//!
//! A stream has at most `depth` messages on their way: a broker queues what its receiver has not read, and one without a bound would drop
//! messages or end the connection. The receiver hands credit back over a socket of its own, a byte for half of the depth.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use causeway_dbus_wire::wire::{Builder, FLAG_NO_REPLY_EXPECTED, Kind as MessageKind};
use causeway_os::socket::stream_pair;
use weighbridge_harness::axis::{Axis, Choice};
use weighbridge_harness::contract::{
    Caps, CounterCheck, EndResources, Endpoint, Facts, InSuites, Mechanism, Prepared, Side, Target,
    Unsupported,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_harness::pattern::{self, Pattern};
use weighbridge_record::{PerOp, Properties};

use crate::broker::{self, Brokered, Kind, Place, Running};
use crate::client::{self, INTERFACE, Incoming, MEMBER, Outgoing, PATH, READ_BYTES, Received};
use crate::credit::{Credit, DEPTH, depth};
use crate::handle::BrokerHandle;
use crate::libraries::Client;
use crate::libraries::pair::PairByLibrary;

#[derive(Debug)]
pub struct Pair<K>(PhantomData<K>);

impl<K: Kind> Brokered for Pair<K> {
    const TARGET: Target = pattern::target::<Pair<K>>();
    const BY_LIBRARY: Target = pattern::target::<PairByLibrary<K>>();
}

impl<K: Kind> Mechanism for Pair<K> {
    const ID: &'static str = K::PROGRAM.name();
    const ABOUT: &'static str = K::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX);
    const WAITS: &'static [Wait] = client::WAITS;
    const AXES: &'static [Axis] =
        &[Place::AXIS, broker::NICE, broker::READ_BYTES, Client::AXIS, DEPTH, READ_BYTES];
    const IN_SUITES: InSuites = InSuites::Never("a broker takes part; brokers have suites of their own");
    const COUNTER_CHECK: Option<CounterCheck> = Some(check);
    const TO_ITSELF: Result<usize, &'static str> =
        Err("each message waits for the broker, a process of its own");
    type End = BusEnd;

    fn properties(_params: &CaseParams) -> Properties {
        broker::PROPERTIES
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        broker::fit(K::PROGRAM, host, params)?;
        client::fit(params)
    }

    fn create(_host: &Host, params: &CaseParams) -> io::Result<[EndResources; 2]> {
        let running = Running::of(K::PROGRAM, params)?;
        let (near, far) = (running.connect()?, running.connect()?);
        let (near_name, far_name) = (near.unique_name().to_owned(), far.unique_name().to_owned());
        let (pays, earns) = stream_pair()?;
        let near = running.resources([broker::socket(near)?, pays], &far_name);
        let far = running.resources([broker::socket(far)?, earns], &near_name);
        Ok([EndResources { guard: Some(Box::new(running)), ..near }, far])
    }

    fn attach(side: Side, mut resources: EndResources, params: &CaseParams) -> io::Result<BusEnd> {
        let broker = BrokerHandle::of(&resources)?;
        let is_stream = params.id.pattern == pattern::Stream::ID;
        let (message, awaited) = messages(side, is_stream, &broker.partner);
        Ok(BusEnd {
            outgoing: Outgoing::new(&message, params.payload_bytes)?,
            incoming: Incoming::new(awaited, params)?,
            socket: resources.take_fd(),
            credit: is_stream.then(|| Credit::new(side, resources.take_fd(), depth(params))),
            answers: 0,
            version: broker.version,
        })
    }
}

/// What an end sends to its partner, and the kind of message that comes to it.
pub fn messages(side: Side, is_stream: bool, partner: &str) -> (Builder<'_>, MessageKind) {
    let call = Builder::call(PATH, MEMBER).interface(INTERFACE).destination(partner);
    match side {
        Side::Near if is_stream => (call.flags(FLAG_NO_REPLY_EXPECTED), MessageKind::MethodReturn),
        Side::Near => (call, MessageKind::MethodReturn),
        Side::Far => (Builder::reply(1).destination(partner), MessageKind::MethodCall),
    }
}

fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    // Threads of a library switch among themselves.
    let most = if Client::of(&case.params).has_threads() { f64::INFINITY } else { MOST_SWITCHES_PER_HOP };
    through_broker(case, per_op, most)
}

/// A role that is woken takes the CPU from the one that wakes it, which then runs once more only to wait.
pub const MOST_SWITCHES_PER_HOP: f64 = 2.3;

/// Two messages through a broker are four hops, and on one CPU a switch belongs to each of them. How a broker allocates memory is its own
/// matter: page faults are counted and not judged.
pub fn through_broker(case: &Prepared, per_op: &PerOp, most_per_hop: f64) -> Vec<String> {
    let is_on_one_cpu = matches!(case.params.choice(), Place::First | Place::Last);
    if is_on_one_cpu {
        switches_per_hop(case, per_op, &["client", "broker", "server", "broker", "client"], most_per_hop)
    } else {
        Vec::new()
    }
}

/// In a round trip on one CPU a switch belongs to each hop between the processes of this path.
pub fn switches_per_hop(case: &Prepared, per_op: &PerOp, path: &[&str], most: f64) -> Vec<String> {
    const ONE_PIECE_BYTES: usize = 4096;
    let params = &case.params;
    let per_hop = (per_op.voluntary_switches + per_op.involuntary_switches) / (path.len() - 1) as f64;
    let is_judged =
        case.pattern.id == "roundtrip" && params.same_cpu() && params.payload_bytes <= ONE_PIECE_BYTES;
    if !is_judged || (0.9..=most).contains(&per_hop) {
        return Vec::new();
    }
    vec![format!(
        "{per_hop:.2} context switches per hop on one CPU, where one suffices ({}) and {MOST_SWITCHES_PER_HOP} are many",
        path.join(", ")
    )]
}

pub struct BusEnd {
    socket: OwnedFd,
    outgoing: Outgoing,
    incoming: Incoming,
    credit: Option<Credit>,
    /// Number of the call that was taken last.
    answers: u32,
    version: String,
}

/// A message that is being written behind its header.
pub struct Written<'a> {
    end: &'a mut BusEnd,
    len: usize,
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.end.outgoing.payload(self.len)
    }
}

/// A message in the buffer that it was read into.
pub struct Read<'a> {
    incoming: &'a Incoming,
    message: Received,
}

impl AsRef<[u8]> for Read<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.incoming.payload(&self.message)
    }
}

impl Endpoint for BusEnd {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Read<'a>;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        if let Some(credit) = &mut self.credit {
            credit.spend()?;
        }
        Ok(Written { end: self, len })
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        let BusEnd { outgoing, socket, answers, .. } = tx.end;
        outgoing.send(socket, tx.len, *answers)
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<Read<'_>> {
        let message = self.incoming.next(&self.socket)?;
        self.answers = message.serial;
        if let Some(credit) = &mut self.credit {
            credit.earn()?;
        }
        Ok(Read { incoming: &self.incoming, message })
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.outgoing.prefault()?;
        self.incoming.prefault()
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut facts = client::facts(&self.socket, &self.version)?;
        facts.extend(self.credit.as_ref().map(|credit| ("depth".into(), credit.depth().to_string())));
        Ok(facts)
    }
}
