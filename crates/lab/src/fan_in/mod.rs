//! Fan-in: thousands of streams into one reader.
//!
//! Measures how many streams a process can serve, and what its way to wait has to do with it. The reader's clock counts,
//! in intervals of a fixed length. An event is one read that returned data: it may hold several messages, so bytes and
//! the writers' own writes are counted beside it. It cannot show the latency of a message.
//!
//! `fan-in/pipe/1/free/nice=0:10/peers=thread` is what epoll_bench measures with 2,000 streams
//! (`fan-in/unix-stream/…` with its `-u`, `fan-in/tcp/…/nodelay=no` with its `-i`, `…/wait=none` with its `-f`).
//!
//! Causeway has logs in place of streams, and messages in place of bytes; see `causeway`.

mod causeway;
pub(crate) mod fds;
mod limits;
mod noop;
mod reader;
mod streams;
mod wait;
mod writer;

use std::io;

use causeway_os::socket;

use crate::axis::{Axis, Values};
use crate::board::Board;
use crate::contract::{Caps, Facts, Fit, Handoff};
use crate::ctx::Ctx;
use crate::host::Host;
use crate::link::Link;
use crate::pattern::{Info, Unit};
use crate::shape;
use crate::shared::Step;
use crate::subject::Subject;
use streams::Kind;

/// Everything that can be read from by the thousand.
pub const ALL: &[Subject] = &[
    subject("pipe", "a pipe for each stream", &[], |_, handoff, link, cx| {
        drive(Kind::Pipe, handoff, link, cx)
    }),
    subject("unix-stream", "a Unix stream socket pair for each stream", &[], |_, handoff, link, cx| {
        drive(Kind::UnixStream, handoff, link, cx)
    }),
    subject("tcp", "a TCP connection over loopback for each stream", &[NODELAY], |_, handoff, link, cx| {
        drive(Kind::Tcp, handoff, link, cx)
    }),
    causeway::ONE_WRITER,
    causeway::MANY_WRITERS,
    Subject {
        caps: Caps::HARNESS,
        fit: |_, _| Fit::Yes,
        plan: |_, link| Ok((0..=writers(link)).map(|_| Handoff::default()).collect()),
        ..subject(
            "noop",
            "the harness itself: the reader's loop and its clock, without a call",
            &[],
            |_, _, link, cx| noop::drive(link, cx),
        )
    },
];

const fn subject(
    id: &'static str,
    about: &'static str,
    axes: &'static [Axis],
    drive: fn(&str, Handoff, &Link, &mut Ctx<'_>) -> io::Result<Facts>,
) -> Subject {
    Subject {
        id,
        about,
        caps: Caps::PAYLOAD.and(Caps::BYTE_STREAM).and(Caps::YIELDS),
        waits: &[],
        axes,
        patterns: &[FAN_IN],
        fit: limits::fit,
        plan,
        drive,
        shape: |_, per_op| shape::faulted(per_op.minor_faults).into_iter().collect(),
    }
}

const FAN_IN: Info = Info {
    id: "fan-in",
    about: "thousands of streams, or many publishers, into one reader: events per second, an event being a read that \
            returned data, or a message",
    needs: Caps::NONE,
    roles: |link| std::iter::once("reader").chain(std::iter::repeat_n("writer", writers(link))).collect(),
    axes: &[STREAMS, WRITERS, WAIT, ORDER, MAX_EVENTS, YIELD_LIMIT, TOUCH],
    unit: Unit::PerSecond("events"),
    is_symmetric: false,
};

const STREAMS: Axis = Axis {
    name: "streams",
    default: "2000",
    values: Values::AtLeast(1),
    about: "number of streams; the limit of open descriptors decides how many there can be",
};
const WRITERS: Axis = Axis {
    name: "writers",
    default: "1",
    values: Values::AtLeast(1),
    about: "number of writers; each has its own part of the streams",
};
const WAIT: Axis = Axis {
    name: "wait",
    default: "epoll-et",
    values: Values::OneOf(&["epoll-et", "epoll-lt", "epoll-oneshot", "poll", "select", "uring", "none"]),
    about: "how the reader learns which streams have data: epoll edge-triggered, level-triggered or re-armed after each \
            event, poll, select, multishot polls of io_uring, or not at all: blocking reads in cyclic order",
};
const ORDER: Axis = Axis {
    name: "order",
    default: "default",
    values: Values::OneOf(&["default", "random", "cyclic"]),
    about: "which stream a writer takes next; default is random, but cyclic with wait=none",
};
const MAX_EVENTS: Axis = Axis {
    name: "max-events",
    default: "1024",
    values: Values::AtLeast(1),
    about: "most events that one wait returns (epoll and uring)",
};
const YIELD_LIMIT: Axis = Axis {
    name: "yield-limit",
    default: "1000",
    values: Values::AtLeast(0),
    about: "the reader gives up the CPU once when a wait returned fewer events than this; 0 is never",
};
const TOUCH: Axis = Axis {
    name: "touch",
    default: "all",
    values: Values::OneOf(&["none", "all"]),
    about: "are payloads written and read? There is no more to choose: reads do not keep the boundaries of messages",
};
const NODELAY: Axis = Axis {
    name: "nodelay",
    default: "yes",
    values: Values::OneOf(&["yes", "no"]),
    about: "TCP_NODELAY: no waiting for acknowledgements of small segments",
};

/// Least bytes that a read asks for: those that epoll_bench asks for.
const READ_BYTES: usize = 1024;

fn writers(link: &Link) -> usize {
    count(link, WRITERS)
}

/// The value of an axis of this family that is a number.
fn count(link: &Link, axis: Axis) -> usize {
    link.number(axis.name).expect("the axis takes nothing but numbers")
}

/// In which order streams are written to.
fn is_cyclic(link: &Link) -> bool {
    match link.axis(ORDER.name) {
        "default" => link.axis(WAIT.name) == "none",
        order => order == "cyclic",
    }
}

/// The streams of writer `index` (from 0), in its order.
fn part(index: usize, writers: usize, streams: usize) -> impl Iterator<Item = usize> {
    (index..streams).step_by(writers)
}

/// Nothing but the board, with a line for each role, and a socket from the reader to each writer. The streams are made by
/// the reader, so that no process ever holds both ends of all of them: half as many would fit.
fn plan(_host: &Host, link: &Link) -> io::Result<Vec<Handoff>> {
    let writers = writers(link);
    let board = Board::create(writers + 1)?;
    let mut handoffs = vec![Handoff::of([board.try_clone()?])];
    for _ in 0..writers {
        let (of_reader, of_writer) = socket::seqpacket_pair()?;
        handoffs[0].fds.push(of_reader);
        handoffs.push(Handoff::of([board.try_clone()?, of_writer]));
    }
    Ok(handoffs)
}

fn drive(kind: Kind, mut handoff: Handoff, link: &Link, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let (streams, writers) = (count(link, STREAMS), writers(link));
    let board = Board::open(handoff.take_fd(), writers + 1)?;
    match cx.role {
        0 => reader::drive(&streams::make(kind, streams, link, handoff.fds)?, board, link, cx),
        role => {
            let ends = streams::receive(handoff.take_fd(), part(role - 1, writers, streams).count())?;
            writer::drive(role, &ends, board, link, cx)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_writers_are_all_streams_each_once() {
        for (writers, streams) in [(1, 7), (3, 7), (7, 7), (4, 2000)] {
            let mut all: Vec<usize> = (0..writers).flat_map(|index| part(index, writers, streams)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..streams), "{writers} writers, {streams} streams");
        }
    }
}
