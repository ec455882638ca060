//! Calls without reply from many writers to one reader, all through one broker.
//!
//! An event is a message. Each writer has at most `depth` messages on their way, for which the reader hands credit back. Every message
//! carries its writer's number in its path; the reader checks that the messages of each come in order, sums what it reads, and accounts
//! for every one at the end.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use causeway_dbus_wire::wire::{Builder, FLAG_NO_REPLY_EXPECTED, Header, Kind as MessageKind};
use causeway_os::socket::stream_pair;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_harness::axis::{Axis, Choice, Values};
use weighbridge_harness::contract::{Caps, EndResources, Facts, InSuites, Side, Target, Unsupported};
use weighbridge_harness::ctx::{Balance, Ctx, Follower, Leader};
use weighbridge_harness::host::Host;
use weighbridge_harness::marks::{Notes, Point, Unmarked};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;
use weighbridge_harness::touch;
use weighbridge_targets::fan_in::{self, Arrivals, Edges, Reads, Share, writers};
use weighbridge_targets::shared_counters::{Counter, SharedCounters};

use crate::broker::{self, Brokered, Kind, Place, Running};
use crate::client::{self, INTERFACE, Incoming, MEMBER, Outgoing, PATH, READ_BYTES, Received};
use crate::credit::{Credit, DEPTH, depth};
use crate::handle::BrokerHandle;

pub const WRITERS: Axis = Axis {
    name: fan_in::WRITERS.name,
    default: "4",
    values: Values::AtLeast(1),
    about: "number of writers, each with a connection of its own",
};

/// Messages of each writer that are checked byte by byte before anything is timed.
const VERIFIED: u64 = 4;
/// Most messages between two looks at whether the reader has enough.
const CHUNK: u64 = 16;
/// Different writers put different words for the same number; there are fewer writers than this.
const WRITERS_BELOW: u64 = 1 << 16;

/// The reader's end: messages of all writers, in one stream.
pub trait Intake {
    /// Takes the next message, waiting for it or not; `false` where none was there. The one before is released.
    fn take(&mut self, waits: bool) -> io::Result<bool>;
    /// The payload of the message that was taken last.
    fn payload(&self) -> io::Result<&[u8]>;
    /// The message that was taken last, as it came.
    fn whole(&self) -> &[u8];
}

pub trait Outlet {
    /// Where the payload of the next message is written.
    fn payload(&mut self) -> &mut [u8];
    fn send(&mut self) -> io::Result<()>;
}

struct SocketIntake {
    socket: OwnedFd,
    incoming: Incoming,
    taken: Option<Received>,
}

impl Intake for SocketIntake {
    #[inline]
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        self.taken = if waits {
            Some(self.incoming.next(&self.socket)?)
        } else {
            self.incoming.try_next(&self.socket)?
        };
        Ok(self.taken.is_some())
    }

    #[inline]
    fn payload(&self) -> io::Result<&[u8]> {
        Ok(self.taken.as_ref().map_or(&[], |message| self.incoming.payload(message)))
    }

    fn whole(&self) -> &[u8] {
        self.incoming.whole()
    }
}

struct SocketOutlet {
    socket: OwnedFd,
    outgoing: Outgoing,
    payload_bytes: usize,
}

impl Outlet for SocketOutlet {
    #[inline]
    fn payload(&mut self) -> &mut [u8] {
        self.outgoing.payload(self.payload_bytes)
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        self.outgoing.send(&self.socket, self.payload_bytes, 0)
    }
}

#[derive(Debug)]
pub struct FanIn<K>(PhantomData<K>);

impl<K: Kind> Brokered for FanIn<K> {
    const TARGET: Target = Target {
        id: K::PROGRAM.name(),
        about: K::ABOUT,
        caps: Caps::PAYLOAD,
        properties: |_| Some(broker::PROPERTIES),
        waits: client::WAITS,
        axes: &[WRITERS, Place::AXIS, broker::NICE, DEPTH, READ_BYTES],
        patterns: &[fan_in::OF_MESSAGES],
        fit: fit::<K>,
        create: |_, params| create::<K>(params),
        drive: |_, resources, params, cx| drive(resources, params, cx),
        // How a broker allocates memory is its own matter.
        counter_check: |_, _| Vec::new(),
        in_suites: InSuites::Never("a broker takes part; brokers have suites of their own"),
        environment: &[],
    };
}

fn fit<K: Kind>(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    broker::fit(K::PROGRAM, host, params)?;
    client::fit(params)
}

fn create<K: Kind>(params: &CaseParams) -> io::Result<Vec<EndResources>> {
    create_roles(K::PROGRAM, params, |running| {
        let connection = running.connect()?;
        let name = connection.unique_name().to_owned();
        Ok((Some(broker::socket(connection)?), name))
    })
}

/// Starts the broker, and makes the resources of the reader and of each writer: counters, the socket that `connect` gives with its unique name, and the
/// sockets for credit. Writers are handed the reader's name.
pub fn create_roles(
    program: Program,
    params: &CaseParams,
    connect: impl Fn(&Running) -> io::Result<(Option<OwnedFd>, String)>,
) -> io::Result<Vec<EndResources>> {
    let writers = writers(params);
    let counters = SharedCounters::create(writers + 1)?;
    let running = Running::start(program)?;
    let (socket, name) = connect(&running)?;
    let mut reader = running.resources([counters.try_clone()?].into_iter().chain(socket), "");
    let mut resources_by_role = Vec::with_capacity(writers + 1);
    for _ in 0..writers {
        let (pays, earns) = stream_pair()?;
        let (socket, _) = connect(&running)?;
        let fds = [counters.try_clone()?].into_iter().chain(socket).chain([pays]);
        resources_by_role.push(running.resources(fds, &name));
        reader.fds.push(earns);
    }
    reader.guard = Some(Box::new(running));
    resources_by_role.insert(0, reader);
    Ok(resources_by_role)
}

fn drive(mut resources: EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let broker = BrokerHandle::of(&resources)?;
    let counters = SharedCounters::open(resources.take_fd(), writers(params) + 1)?;
    let socket = resources.take_fd();
    let facts = client::facts(&socket, &broker.version)?;
    cx.set_step(Step::Prefault);
    if cx.role == 0 {
        let mut incoming = Incoming::new(MessageKind::MethodCall, params)?;
        incoming.prefault()?;
        let intake = SocketIntake { socket, incoming, taken: None };
        return Drive { counters: &counters, params, cx, facts }.reader(intake, resources.fds);
    }
    let path = path(cx.role - 1);
    let message = Builder::call(&path, MEMBER).interface(INTERFACE).destination(&broker.partner);
    let mut outgoing = Outgoing::new(&message.flags(FLAG_NO_REPLY_EXPECTED), params.payload_bytes)?;
    outgoing.prefault()?;
    let outlet = SocketOutlet { socket, outgoing, payload_bytes: params.payload_bytes };
    Drive { counters: &counters, params, cx, facts }.writer(outlet, resources.take_fd())
}

/// What a role works with beyond its end.
pub struct Drive<'a, 'cx> {
    pub counters: &'a SharedCounters,
    pub params: &'a CaseParams,
    pub cx: &'a mut Ctx<'cx>,
    pub facts: Facts,
}

impl Drive<'_, '_> {
    /// The reader, over its end and the sockets for credit.
    pub fn reader(self, intake: impl Intake, credits: Vec<OwnedFd>) -> io::Result<Facts> {
        match self.cx.marker() {
            None => self.read(Unmarked, intake, credits),
            Some(marker) => self.read(marker, intake, credits),
        }
    }

    /// A writer, over its end and the socket for credit.
    pub fn writer(self, outlet: impl Outlet, pays: OwnedFd) -> io::Result<Facts> {
        match self.cx.marker() {
            None => self.write(Unmarked, outlet, pays),
            Some(marker) => self.write(marker, outlet, pays),
        }
    }

    fn read<N: Notes>(self, notes: N, intake: impl Intake, credits: Vec<OwnedFd>) -> io::Result<Facts> {
        let Drive { counters, params, cx, mut facts } = self;
        let depth = depth(params);
        let mut reader = Reader {
            intake,
            credits: credits.into_iter().map(|credit| Credit::new(Side::Far, credit, depth)).collect(),
            next: vec![0; writers(params)],
            payload_bytes: params.payload_bytes,
            touch: params.touch,
            depth,
            events: 0,
            bytes: 0,
            sum: 0,
            calls: 0,
            edges: Edges::new(counters, params),
            arrivals: Arrivals::new(cx, counters, 0)?,
            notes,
        };
        cx.set_step(Step::Verify);
        for _ in 0..VERIFIED * writers(params) as u64 {
            reader.verify()?;
        }
        cx.lead_intervals(&mut reader)?;
        reader.edges.tell(cx);
        if let Some(arrivals) = &reader.arrivals {
            arrivals.tell(cx);
        }
        facts.insert("depth".into(), depth.to_string());
        facts.insert("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string());
        facts.insert("first_run_reads".into(), reader.events.to_string());
        facts.insert("first_run_writes".into(), reader.edges.of_writers(Counter::Messages).to_string());
        Ok(facts)
    }

    fn write<N: Notes>(self, notes: N, outlet: impl Outlet, pays: OwnedFd) -> io::Result<Facts> {
        let Drive { counters, params, cx, facts } = self;
        let mut writer = Writer {
            outlet,
            credit: Credit::new(Side::Near, pays, depth(params)),
            counters,
            role: cx.role,
            writer: cx.role - 1,
            payload_bytes: params.payload_bytes,
            touch: params.touch,
            sent: 0,
            sum: 0,
            writers: writers(params),
            share: Share::new(cx, counters),
            notes,
        };
        cx.set_step(Step::Verify);
        for sequence in 0..VERIFIED {
            writer.send(sequence, Touch::All)?;
        }
        cx.follow_intervals(&mut writer)?;
        Ok(facts)
    }
}

/// The object of a writer.
pub fn path(writer: usize) -> String {
    format!("{PATH}/{writer}")
}

/// The word that message `sequence` of a writer (from 0) is filled with.
fn word(writer: usize, sequence: u64) -> u64 {
    touch::word(sequence * WRITERS_BELOW + writer as u64, 0)
}

/// The number of that message among those of all writers, as a time line shows it.
fn number(writer: usize, sequence: u64, writers: usize) -> u64 {
    sequence * writers as u64 + writer as u64
}

struct Reader<'a, N, I> {
    intake: I,
    credits: Vec<Credit>,
    /// The number that the next message of each writer has.
    next: Vec<u64>,
    payload_bytes: usize,
    touch: Touch,
    depth: usize,
    events: u64,
    bytes: u64,
    sum: u64,
    calls: u64,
    edges: Edges<'a>,
    /// At a rate.
    arrivals: Option<Arrivals<'a>>,
    notes: N,
}

impl<N: Notes, I: Intake> Reader<'_, N, I> {
    /// Which writer the message that was taken last is from, which must be its next; then credit goes back to that.
    #[inline]
    fn account(&mut self, payload_bytes: usize) -> io::Result<(usize, u64)> {
        let writer = sender(self.intake.whole(), self.next.len())?;
        if payload_bytes != self.payload_bytes {
            return Err(io::Error::other(format!(
                "a message of writer {} has {payload_bytes} bytes, sent were {}",
                writer + 1,
                self.payload_bytes
            )));
        }
        let sequence = self.next[writer];
        self.next[writer] += 1;
        self.credits[writer].earn()?;
        Ok((writer, sequence))
    }

    /// A message before anything is timed, byte by byte.
    fn verify(&mut self) -> io::Result<()> {
        self.intake.take(true)?;
        let (writer, sequence) = self.account(self.intake.payload()?.len())?;
        if touch::is_filled_with(self.intake.payload()?, word(writer, sequence)) {
            Ok(())
        } else {
            Err(io::Error::other(format!("message {sequence} of writer {} arrived damaged", writer + 1)))
        }
    }

    /// A message of the timed part, waiting for it or not; `false` where none was there.
    #[inline]
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        self.notes.note(Point::WaitBegins, None);
        if !self.intake.take(waits)? {
            return Ok(false);
        }
        let payload = self.intake.payload()?;
        let (len, sum) = (payload.len(), touch::read(payload, self.touch));
        let (writer, sequence) = self.account(len)?;
        self.notes.note(Point::Read, Some(number(writer, sequence, self.next.len())));
        // The sum over all would not tell two messages of one writer that changed places.
        if sum != touch::expected(len, word(writer, sequence), self.touch) {
            return Err(io::Error::other(format!(
                "message {sequence} of writer {} arrived damaged or out of order",
                writer + 1
            )));
        }
        self.sum = self.sum.wrapping_add(sum);
        self.events += 1;
        self.bytes += len as u64;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.arrived(writer, sequence - VERIFIED);
        }
        Ok(true)
    }
}

/// The writer's number in the path of a message.
#[inline]
fn sender(message: &[u8], writers: usize) -> io::Result<usize> {
    let header = Header::parse(message)
        .map_err(|fault| io::Error::other(format!("the broker sent an invalid message: {fault}")))?;
    let number =
        header.path.and_then(|path| path.strip_prefix(PATH)?.strip_prefix('/')?.parse::<usize>().ok());
    number
        .filter(|writer| *writer < writers)
        .ok_or_else(|| io::Error::other(format!("a call to {:?} is from no writer", header.path)))
}

impl<N: Notes, I: Intake> Leader for Reader<'_, N, I> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.calls += 1;
        self.take(true).map(|_| 1)
    }

    fn count(&self) -> (u64, u64) {
        (self.events, self.bytes)
    }

    fn warm_ops(&self) -> u64 {
        (self.depth * self.next.len()) as u64
    }

    fn edge(&mut self, now_ns: u64) {
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| self.edges.is_empty()) {
            arrivals.begin();
        }
        let reads = Reads { events: self.events, bytes: self.bytes, calls: self.calls, empty: 0 };
        self.edges.push(now_ns, reads);
    }

    fn balance(&mut self) -> io::Result<Balance> {
        self.arrivals.iter_mut().for_each(Arrivals::end);
        while self.take(false)? {}
        Ok(self.edges.balance("messages", Counter::Messages, (self.events, self.sum)))
    }
}

struct Writer<'a, N, O> {
    outlet: O,
    credit: Credit,
    counters: &'a SharedCounters,
    role: usize,
    writer: usize,
    payload_bytes: usize,
    touch: Touch,
    /// Messages after those that were verified, and the sum that the reader must take over them.
    sent: u64,
    sum: u64,
    writers: usize,
    /// At a rate.
    share: Option<Share<'a>>,
    notes: N,
}

impl<N: Notes, O: Outlet> Writer<'_, N, O> {
    #[inline]
    fn send(&mut self, sequence: u64, touch: Touch) -> io::Result<u64> {
        let number = Some(number(self.writer, sequence, self.writers));
        self.notes.note(Point::WriteBegins, number);
        self.credit.spend()?;
        let word = word(self.writer, sequence);
        touch::write(self.outlet.payload(), word, touch);
        self.outlet.send()?;
        self.notes.note(Point::Written, number);
        Ok(word)
    }
}

impl<N: Notes, O: Outlet> Follower for Writer<'_, N, O> {
    fn step(&mut self) -> io::Result<()> {
        // Who sleeps between two messages looks after each.
        let chunk = if self.share.is_some() { 1 } else { CHUNK };
        for _ in 0..chunk {
            if let Some(share) = &mut self.share {
                share.await_due(self.sent);
            }
            let word = self.send(VERIFIED + self.sent, self.touch)?;
            self.sum = self.sum.wrapping_add(touch::expected(self.payload_bytes, word, self.touch));
            self.sent += 1;
        }
        self.counters.set(self.role, Counter::Messages, self.sent);
        self.counters.set(self.role, Counter::Bytes, self.sent * self.payload_bytes as u64);
        self.counters.set(self.role, Counter::Sum, self.sum);
        self.counters.set_switches(self.role);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.counters.set_switches(self.role);
        Ok(())
    }
}
