//! Calls without reply from many native members to one, as [`crate::fan_in`] has them through a broker.

use std::io;
use std::os::unix::net::UnixStream;

use causeway_bus::{Connection, Incoming, Message};
use causeway_dbus_wire::wire::Body;
use weighbridge_harness::axis::Choice;
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::{EndResources, Facts, InSuites, Target};
use weighbridge_harness::ctx::Ctx;
use weighbridge_harness::params::CaseParams;
use weighbridge_harness::shared::Step;
use weighbridge_targets::fan_in::writers;
use weighbridge_targets::shared_counters::SharedCounters;

use super::{CausewayBus, PROPERTIES, WAITS, failed, join, next, payload};
use crate::broker::{self, Brokered, Kind, Place};
use crate::client::{INTERFACE, MEMBER};
use crate::credit::DEPTH;
use crate::fan_in::{Drive, FanIn as ThroughBroker, Intake, Outlet, WRITERS, create_roles, path};
use crate::handle::BrokerHandle;
use crate::libraries::{recv_name, send_name};

#[derive(Debug)]
pub struct FanIn;

impl Brokered for FanIn {
    const TARGET: Target = Target {
        waits: WAITS,
        properties: |_| Some(PROPERTIES),
        axes: &[WRITERS, Place::AXIS, broker::NICE, DEPTH],
        create: |_, params| create(params),
        drive: |_, resources, params, cx| drive(resources, params, cx),
        in_suites: InSuites::Never("a bus is served for it; brokers have suites of their own"),
        environment: &[],
        ..ThroughBroker::<CausewayBus>::TARGET
    };
}

/// A member joins in the process of its role; the sockets for credit carry the reader's name first.
fn create(params: &CaseParams) -> io::Result<Vec<EndResources>> {
    create_roles(CausewayBus::PROGRAM, params, |_| Ok((None, String::new())))
}

fn drive(mut resources: EndResources, params: &CaseParams, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let broker = BrokerHandle::of(&resources)?;
    let counters = SharedCounters::open(resources.take_fd(), writers(params) + 1)?;
    let connection = join(params, &broker.address)?;
    let facts = Facts::from([("broker_version".into(), broker.version)]);
    if cx.role == 0 {
        let mut credits = Vec::with_capacity(resources.fds.len());
        for socket in resources.fds {
            let mut socket = UnixStream::from(socket);
            send_name(&mut socket, connection.unique_name())?;
            credits.push(socket.into());
        }
        let intake = MemberIntake { connection, taken: None };
        return Drive { counters: &counters, params, cx, facts }.reader(intake, credits);
    }
    let mut socket = UnixStream::from(resources.take_fd());
    let mut outgoing = Buffer::new(params.payload_bytes.max(1))?;
    outgoing.prefault()?;
    let outlet = MemberOutlet {
        connection,
        outgoing,
        payload_bytes: params.payload_bytes,
        reader: recv_name(&mut socket)?,
        path: path(cx.role - 1),
    };
    Drive { counters: &counters, params, cx, facts }.writer(outlet, socket.into())
}

struct MemberIntake {
    connection: Connection,
    taken: Option<Incoming>,
}

impl Intake for MemberIntake {
    #[inline]
    fn take(&mut self, waits: bool) -> io::Result<bool> {
        self.taken = if waits {
            Some(next(&mut self.connection)?)
        } else {
            self.connection.next_now().map_err(failed)?
        };
        Ok(self.taken.is_some())
    }

    #[inline]
    fn payload(&self) -> io::Result<&[u8]> {
        self.taken.as_ref().map_or(Ok(&[]), payload)
    }

    fn whole(&self) -> &[u8] {
        self.taken.as_ref().and_then(Incoming::message).map_or(&[], Message::bytes)
    }
}

struct MemberOutlet {
    connection: Connection,
    /// What the program wants to send; the library copies it into its message.
    outgoing: Buffer,
    payload_bytes: usize,
    reader: String,
    path: String,
}

impl Outlet for MemberOutlet {
    #[inline]
    fn payload(&mut self) -> &mut [u8] {
        &mut self.outgoing.bytes_mut()[..self.payload_bytes]
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        let body = Body::default().blob(&self.outgoing.bytes()[..self.payload_bytes]);
        self.connection.call_without_reply(&self.reader, &self.path, INTERFACE, MEMBER, body).map_err(failed)
    }
}
