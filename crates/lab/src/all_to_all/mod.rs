//! All-to-all: groups of senders and receivers, and a message from each sender to every receiver of its group, over and over.
//!
//! Measures what many communicating processes get done together, which is as much a question to the scheduler as to the
//! mechanism: hackbench and `perf bench sched messaging` ask it, with 20 senders and 20 receivers in a group, messages of
//! 100 bytes that nobody looks at, and Unix stream sockets: `all-to-all/unix-stream/100/PLACEMENT/touch=none`
//! (`all-to-all/pipe/…` with their `-p`, `…/groups=10` with their `-g 10`). As there, all senders of a group write to one
//! end of each receiver's pair. The first receiver leads; an interval's messages are those that all receivers counted.
//! It cannot show the latency of a message.

mod noop;
mod receiver;
mod sender;

use std::io;
use std::os::fd::OwnedFd;

use causeway_os::socket;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::axis::{Axis, Values};
use crate::board::Board;
use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::ctx::Ctx;
use crate::descriptors;
use crate::host::Host;
use crate::link::Link;
use crate::pattern::{Info, Unit};
use crate::shape;
use crate::shared::Step;
use crate::subject::Subject;

/// Everything that several may write to at once.
pub const ALL: &[Subject] = &[
    Subject {
        caps: Caps::HARNESS,
        fit: |_, _| Fit::Yes,
        plan: |_, link| Ok((0..Crowd::of(link).roles()).map(|_| Handoff::default()).collect()),
        drive: |_, _, _, cx| noop::drive(cx),
        ..subject(
            "noop",
            "the harness itself: the leading receiver's counting and its clock, without a call",
            plan_pipes,
        )
    },
    subject("pipe", "a pipe for each receiver, which all senders of its group write to", plan_pipes),
    subject(
        "unix-stream",
        "a Unix stream socket pair for each receiver, which all senders of its group write to",
        |_, link| plan(link, || Ok(socket::stream_pair()?)),
    ),
];

const fn subject(
    id: &'static str,
    about: &'static str,
    plan: fn(&Host, &Link) -> io::Result<Vec<Handoff>>,
) -> Subject {
    Subject {
        id,
        about,
        caps: Caps::PAYLOAD.and(Caps::BYTE_STREAM),
        waits: &[],
        axes: &[],
        patterns: &[ALL_TO_ALL],
        fit,
        plan,
        drive,
        shape: |_, per_op| shape::faulted(per_op.minor_faults).into_iter().collect(),
    }
}

const ALL_TO_ALL: Info = Info {
    id: "all-to-all",
    about: "groups of senders and receivers, each sender writing to every receiver of its group: messages per second",
    needs: Caps::NONE,
    roles: |link| {
        let crowd = Crowd::of(link);
        let receivers = std::iter::repeat_n("receiver", crowd.groups * crowd.receivers);
        receivers.chain(std::iter::repeat_n("sender", crowd.groups * crowd.senders)).collect()
    },
    axes: &[GROUPS, SENDERS, RECEIVERS, TOUCH],
    unit: Unit::PerSecond("messages"),
    is_symmetric: true,
};

const GROUPS: Axis = Axis {
    name: "groups",
    default: "1",
    values: Values::AtLeast(1),
    about: "number of groups; no message leaves its group",
};
const SENDERS: Axis = Axis {
    name: "senders",
    default: "20",
    values: Values::AtLeast(1),
    about: "number of senders in a group",
};
const RECEIVERS: Axis = Axis {
    name: "receivers",
    default: "20",
    values: Values::AtLeast(1),
    about: "number of receivers in a group; each gets every message of every sender of its group",
};
const TOUCH: Axis = Axis {
    name: "touch",
    default: "all",
    values: Values::OneOf(&["none", "all"]),
    about: "are payloads written and read? There is no more to choose: the receivers add up bytes",
};

/// The longest message that the kernel keeps whole while others write to the same end: PIPE_BUF.
const LONGEST_BYTES: usize = 4096;
/// Of each role, in the coordinator: process, control socket, board.
const FDS_OF_A_ROLE: usize = 8;
const OTHER_FDS: usize = 64;

/// Words of each role's line: messages sent or received so far and the sum of their bytes, and whether that is all.
const MESSAGES: usize = 0;
const SUM: usize = 1;
const DONE: usize = 2;

/// How many there are of whom. Receivers come first among the roles, group by group, then senders, group by group.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    groups: usize,
    senders: usize,
    receivers: usize,
}

impl Crowd {
    fn of(link: &Link) -> Crowd {
        let count = |axis: Axis| link.number(axis.name).expect("the axis takes nothing but numbers");
        Crowd { groups: count(GROUPS), senders: count(SENDERS), receivers: count(RECEIVERS) }
    }

    fn roles(self) -> usize {
        self.groups * (self.senders + self.receivers)
    }

    fn all_receivers(self) -> usize {
        self.groups * self.receivers
    }

    /// The roles that receive.
    fn receiver_roles(self) -> std::ops::Range<usize> {
        0..self.all_receivers()
    }

    /// The roles that send.
    fn sender_roles(self) -> std::ops::Range<usize> {
        self.all_receivers()..self.roles()
    }

    /// The number of a sender in its group, from 0.
    fn sender_in_group(self, role: usize) -> usize {
        (role - self.all_receivers()) % self.senders
    }
}

fn fit(_host: &Host, link: &Link) -> Fit {
    if link.payload_bytes > LONGEST_BYTES {
        return Fit::No(format!(
            "messages of several senders to one end may mix above PIPE_BUF = {LONGEST_BYTES} bytes, which the kernel fixes"
        ));
    }
    let crowd = Crowd::of(link);
    let ends = crowd.groups * crowd.receivers * (crowd.senders + 1);
    let roles = crowd.roles();
    descriptors::fit(ends + roles * FDS_OF_A_ROLE + OTHER_FDS, &format!("{roles} roles"))
}

fn plan_pipes(_host: &Host, link: &Link) -> io::Result<Vec<Handoff>> {
    plan(link, || Ok(pipe_with(PipeFlags::CLOEXEC)?))
}

/// A pair for each receiver: one end for itself, and the other for each sender of its group. `pair` makes the end to read
/// first.
fn plan(link: &Link, pair: impl Fn() -> io::Result<(OwnedFd, OwnedFd)>) -> io::Result<Vec<Handoff>> {
    let crowd = Crowd::of(link);
    let board = Board::create(crowd.roles())?;
    let own = |_| board.try_clone().map(|board| Handoff::of([board]));
    let mut handoffs = (0..crowd.roles()).map(own).collect::<io::Result<Vec<Handoff>>>()?;
    let (receivers, senders) = handoffs.split_at_mut(crowd.all_receivers());
    for (receivers, senders) in receivers.chunks_mut(crowd.receivers).zip(senders.chunks_mut(crowd.senders)) {
        for receiver in receivers {
            let (read, write) = pair()?;
            receiver.fds.push(read);
            for sender in &mut *senders {
                sender.fds.push(write.try_clone()?);
            }
        }
    }
    Ok(handoffs)
}

fn drive(_pattern: &str, mut handoff: Handoff, link: &Link, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let crowd = Crowd::of(link);
    let board = Board::open(handoff.take_fd(), crowd.roles())?;
    if crowd.sender_roles().contains(&cx.role) {
        sender::drive(handoff.fds, &board, link, cx)
    } else {
        receiver::drive(handoff.take_fd(), &board, link, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_has_an_end_of_each_receiver_of_its_group_and_of_no_other() {
        let id = "all-to-all/pipe/1/free/groups=2/receivers=3/senders=2".parse().unwrap();
        let (_, _, link) = crate::subject::resolve(&id).unwrap();
        let handoffs = plan_pipes(&Host::look().unwrap(), &link).unwrap();
        let fds: Vec<usize> = handoffs.iter().map(|handoff| handoff.fds.len() - 1).collect();
        assert_eq!(fds, [1, 1, 1, 1, 1, 1, 3, 3, 3, 3]);
        // The last sender writes to its second receiver: the fifth of all.
        rustix::io::write(&handoffs[9].fds[2], b"x").unwrap();
        for (receiver, handoff) in handoffs[..6].iter().enumerate() {
            let bytes = rustix::io::ioctl_fionread(&handoff.fds[1]).unwrap();
            assert_eq!(bytes, u64::from(receiver == 4));
        }
    }
}
