//! Causeway: many publishers, one receiver.
//!
//! `causeway-mw` is one group that all writers publish to: the reader makes it and invites them. `causeway-sw` is a log of
//! its own for each writer, and a reader that has subscribed to all of them. An event is a message. A look is one wait and
//! everything that lay there after it, up to a limit. Messages keep their boundaries, so a payload may be empty and may be
//! touched in any way that other messages can be.
//!
//! Everything is reliable: a writer whose log is full waits, and a loss is a failure. Every message has a number among those
//! of its publisher, which Causeway carries and the reader checks; what was read is summed and compared with what was written.

mod accounts;
mod logs;
mod roles;

use causeway::{Group, Policy, Publisher, Subscriber};
use causeway_os::socket;

use super::writers;
use crate::descriptors;
use crate::many::no_faults;
use crate::mechanism::causeway::{
    CAPACITY, Causeway, Kind, ManyWriters, OneWriter, Receive, SURVIVES, accept_invitation, capacity_bytes,
    create, hear, invite,
};
use crate::prelude::*;
use crate::shared_counters::SharedCounters;

pub(super) const ONE_WRITER: Target = target(
    OneWriter::ID,
    "Causeway, a log for each writer and a reader that has subscribed to all; sleeps in epoll, as a futex is one log's",
    &[Wait::Epoll, Wait::Spin, Wait::Block, Wait::SpinBlock],
);
pub(super) const MANY_WRITERS: Target = target(
    ManyWriters::ID,
    "Causeway, one log that all writers publish to, in one order",
    &[Wait::SpinBlock, Wait::Block, Wait::Epoll, Wait::Spin],
);

const fn target(id: &'static str, about: &'static str, waits: &'static [Wait]) -> Target {
    Target {
        id,
        about,
        caps: Caps::PAYLOAD,
        // Several publishers of one log, or logs of several publishers.
        properties: |params| Some(SURVIVES.with(Property::Pollable, params.wait == Wait::Epoll)),
        waits,
        axes: &[WRITERS, CAPACITY, Receive::AXIS],
        patterns: &[super::OF_MESSAGES],
        fit,
        create: super::create,
        drive: |_, resources, _, cx| drive(resources, cx),
        counter_check: no_faults,
        in_suites: InSuites::AtEverySize,
        environment: &[],
    }
}

const WRITERS: Axis =
    Axis { default: "4", about: "number of writers, each of which is a publisher", ..super::WRITERS };

const PUBLISHERS_MAX: usize = 64;
/// Descriptors of each log in the reader: sockets, pages, a doorbell and what watches its server.
const EACH_LOG: usize = 8;

fn has_one_log(params: &CaseParams) -> bool {
    params.id.mechanism == ManyWriters::ID
}

fn logs(params: &CaseParams) -> usize {
    if has_one_log(params) { 1 } else { writers(params) }
}

fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let (writers, logs) = (writers(params), logs(params));
    if has_one_log(params) && writers > PUBLISHERS_MAX {
        return Err(Unsupported(format!(
            "a group has at most {PUBLISHERS_MAX} publishers; {} has a log for each writer",
            OneWriter::ID
        )));
    }
    if logs > 1 && matches!(params.wait, Wait::Block | Wait::SpinBlock) {
        return Err(Unsupported(format!(
            "wait={} sleeps on the futex of one log and cannot wait for {logs} of them (futex_waitv could, from Linux 5.16, \
             and is not used); use wait=epoll or wait=spin, or {}, which has one log",
            params.wait.name(),
            ManyWriters::ID
        )));
    }
    Causeway::<OneWriter>::fit(host, params)?;
    descriptors::fit(writers + 1, EACH_LOG * (logs + writers), &format!("{writers} writers"))
}

fn drive(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    cx.set_step(Step::Attach);
    let counters = SharedCounters::open(resources.take_fd(), writers(params) + 1)?;
    match cx.role {
        0 => roles::read(Inbox::open(&resources.fds, params)?, &counters, cx),
        _ => roles::write(Outbox::open(&resources.take_fd(), params)?, &counters, cx),
    }
}

/// What the reader reads from: its logs, and which publisher each writer is.
struct Inbox {
    subscribers: Vec<Subscriber>,
    publishers: Vec<u8>,
    _groups: Vec<Group>,
}

impl Inbox {
    /// Makes or joins the groups, and lets the writers begin.
    fn open(control_sockets: &[OwnedFd], params: &CaseParams) -> io::Result<Inbox> {
        let groups = if has_one_log(params) {
            vec![invite_all(control_sockets, params)?]
        } else {
            control_sockets.iter().map(accept_invitation).collect::<io::Result<Vec<Group>>>()?
        };
        // Before subscribing: a group delivers nothing until all of its publishers have joined.
        let publishers = control_sockets.iter().map(hear).collect::<io::Result<Vec<u8>>>()?;
        let subscribe = |group: &Group| group.subscribe(Policy::Reliable).map_err(io::Error::other);
        let subscribers = groups.iter().map(subscribe).collect::<io::Result<Vec<Subscriber>>>()?;
        // A message sent before would not have reached the reader.
        for control_socket in control_sockets {
            socket::send_with_fds(control_socket, &[0], &[])?;
        }
        Ok(Inbox { subscribers, publishers, _groups: groups })
    }
}

fn invite_all(control_sockets: &[OwnedFd], params: &CaseParams) -> io::Result<Group> {
    let options = ManyWriters::options().remote_publishers(control_sockets.len() as u32);
    let group = create(options, capacity_bytes(params))?;
    for control_socket in control_sockets {
        invite(&group, control_socket)?;
    }
    Ok(group)
}

struct Outbox {
    publisher: Publisher,
    _group: Group,
}

impl Outbox {
    fn open(control_socket: &OwnedFd, params: &CaseParams) -> io::Result<Outbox> {
        let group = if has_one_log(params) {
            accept_invitation(control_socket)?
        } else {
            let own = create(OneWriter::options(), capacity_bytes(params))?;
            invite(&own, control_socket)?;
            own
        };
        let publisher = group.publisher().map_err(io::Error::other)?;
        socket::send_with_fds(control_socket, &[publisher.id()], &[])?;
        hear(control_socket)?;
        Ok(Outbox { publisher, _group: group })
    }
}
