//! All-to-all: groups of senders and receivers, and a message from each sender to every receiver of its group, over and over.
//!
//! Measures what many communicating processes get done together, which is as much a question to the scheduler as to the
//! mechanism: hackbench and `perf bench sched messaging` ask it, with 20 senders and 20 receivers in a group, messages of
//! 100 bytes that no process reads, and Unix stream sockets: `all-to-all/unix-stream/100/PLACEMENT/touch=none`
//! (`all-to-all/pipe/…` with their `-p`, `…/groups=10` with their `-g 10`). As there, all senders of a group write to one
//! end of each receiver's pair. The first receiver leads; an interval's messages are those that all receivers counted.
//! It cannot show the latency of a message.

mod roles;

use causeway_os::socket;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::descriptors;
use crate::many::{Nothing, no_faults, number_axis, with_counters};
use crate::prelude::*;
use crate::shared_counters::SharedCounters;
use weighbridge_harness::axis::TOUCH_BYTES;

/// Everything that several may write to at once.
pub const ALL: &[Target] = &[
    PIPE.harness(
        "the harness itself: the leading receiver's counting and its clock, without a call",
        |_, _, params, cx| harness(params).drive(cx),
    ),
    PIPE,
    target(
        "unix-stream",
        "a Unix stream socket pair for each receiver, which all senders of its group write to",
    ),
];

const PIPE: Target = target("pipe", "a pipe for each receiver, which all senders of its group write to");

const fn target(id: &'static str, about: &'static str) -> Target {
    Target {
        id,
        about,
        caps: Caps::PAYLOAD.and(Caps::BYTE_STREAM),
        properties: |params| Some(properties::of_streams(params)),
        waits: &[],
        axes: &[],
        patterns: &[ALL_TO_ALL],
        fit,
        create: |_, params| create(params),
        drive: |_, resources, _, cx| drive(resources, cx),
        counter_check: no_faults,
        in_suites: InSuites::AtEverySize,
        environment: &[],
    }
}

const ALL_TO_ALL: PatternInfo = PatternInfo {
    id: "all-to-all",
    about: "groups of senders and receivers, each sender writing to every receiver of its group: messages per second",
    needs: Caps::NONE,
    roles: |params| {
        let concurrent = Concurrent::of(params);
        let receivers = std::iter::repeat_n("receiver", concurrent.groups * concurrent.receivers);
        receivers.chain(std::iter::repeat_n("sender", concurrent.groups * concurrent.senders)).collect()
    },
    axes: &[GROUPS, SENDERS, RECEIVERS, TOUCH_BYTES],
    unit: Unit::PerSecond("messages"),
    is_symmetric: true,
};

const GROUPS: Axis = number_axis("groups", "1", "number of groups; no message leaves its group");
const SENDERS: Axis = number_axis("senders", "20", "number of senders in a group");
const RECEIVERS: Axis = number_axis(
    "receivers",
    "20",
    "number of receivers in a group; each gets every message of every sender of its group",
);

/// The longest message that the kernel keeps whole while others write to the same end: PIPE_BUF.
const LONGEST_BYTES: usize = 4096;

/// How many there are of whom. Receivers come first among the roles, group by group, then senders, group by group.
#[derive(Clone, Copy, Debug)]
struct Concurrent {
    groups: usize,
    senders: usize,
    receivers: usize,
}

impl Concurrent {
    fn of(params: &CaseParams) -> Concurrent {
        let [groups, senders, receivers] = [GROUPS, SENDERS, RECEIVERS].map(|axis| params.count(axis));
        Concurrent { groups, senders, receivers }
    }

    fn roles(self) -> usize {
        self.groups * (self.senders + self.receivers)
    }

    fn all_receivers(self) -> usize {
        self.groups * self.receivers
    }

    fn receiver_roles(self) -> std::ops::Range<usize> {
        0..self.all_receivers()
    }

    fn sender_roles(self) -> std::ops::Range<usize> {
        self.all_receivers()..self.roles()
    }

    /// The number of a sender in its group, from 0.
    fn sender_in_group(self, role: usize) -> usize {
        (role - self.all_receivers()) % self.senders
    }
}

fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    if params.payload_bytes > LONGEST_BYTES {
        return Err(Unsupported(format!(
            "messages of several senders to one end may mix above PIPE_BUF = {LONGEST_BYTES} bytes, which the kernel fixes"
        )));
    }
    let concurrent = Concurrent::of(params);
    let ends = concurrent.groups * concurrent.receivers * (concurrent.senders + 1);
    let roles = concurrent.roles();
    descriptors::fit(roles, ends, &format!("{roles} roles"))
}

/// A pair for each receiver: the end to read for itself, and the other for each sender of its group.
fn create(params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let concurrent = Concurrent::of(params);
    let mut resources_by_role = with_counters(concurrent.roles())?;
    let (receivers, senders) = resources_by_role.split_at_mut(concurrent.all_receivers());
    for (receivers, senders) in
        receivers.chunks_mut(concurrent.receivers).zip(senders.chunks_mut(concurrent.senders))
    {
        for receiver in receivers {
            let (read, write) = match params.id.mechanism.as_str() {
                "pipe" => pipe_with(PipeFlags::CLOEXEC)?,
                _ => socket::stream_pair()?,
            };
            receiver.fds.push(read);
            for sender in &mut *senders {
                sender.fds.push(write.try_clone()?);
            }
        }
    }
    Ok(resources_by_role)
}

fn drive(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let concurrent = Concurrent::of(cx.params);
    let counters = SharedCounters::open(resources.take_fd(), concurrent.roles())?;
    if concurrent.sender_roles().contains(&cx.role) {
        roles::send(resources.fds, &counters, cx)
    } else {
        roles::receive(resources.take_fd(), &counters, cx)
    }
}

/// What the leading receiver does beside its calls.
fn harness(params: &CaseParams) -> Nothing<impl FnMut(&mut u64) -> u64> {
    let step = |messages: &mut u64| {
        *messages = std::hint::black_box(*messages + 1);
        1
    };
    Nothing { step, event_bytes: params.payload_bytes as u64, warm_ops: 1, events: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_an_end_of_each_receiver_of_its_group_and_of_no_other() {
        let id = "all-to-all/pipe/1/free/groups=2/receivers=3/senders=2".parse().unwrap();
        crate::register();
        let (_, _, params) = weighbridge_harness::catalogue::resolve(&id).unwrap();
        let resources_by_role = create(&params).unwrap();
        let fds: Vec<usize> = resources_by_role.iter().map(|resources| resources.fds.len() - 1).collect();
        assert_eq!(fds, [1, 1, 1, 1, 1, 1, 3, 3, 3, 3]);
        // The last sender writes to its second receiver: the fifth of all.
        rustix::io::write(&resources_by_role[9].fds[2], b"x").unwrap();
        for (receiver, resources) in resources_by_role[..6].iter().enumerate() {
            let bytes = rustix::io::ioctl_fionread(&resources.fds[1]).unwrap();
            assert_eq!(bytes, u64::from(receiver == 4));
        }
    }
}
