//! Fan-in: thousands of streams into one reader.
//!
//! Measures how many streams a process can serve, and what its way to wait has to do with it. The reader's clock counts,
//! in intervals of a fixed length. An event is one read that returned data: it may hold several messages, so bytes and
//! the writers' own writes are counted beside it. With `rate` each writer sends its share of the messages when they are due, and
//! the time from then until the reader has read a message is kept; without it the pattern cannot show the latency of a message.
//!
//! `fan-in/pipe/1/free/nice=0:10/peers=thread` is what epoll_bench measures with 2,000 streams
//! (`fan-in/unix-stream/…` with its `-u`, `fan-in/tcp/…/nodelay=no` with its `-i`, `…/wait=none` with its `-f`).
//!
//! Causeway has logs in place of streams, and messages in place of bytes; see `causeway`.

mod arrivals;
mod causeway;
mod edges;
mod intake;
mod limits;
mod reader;
mod streams;
mod wait;
mod writer;

use causeway_os::socket;

use crate::many::{Nothing, no_faults, number_axis, with_counters};
use crate::mechanism::tcp::Nodelay;
use crate::prelude::*;
use crate::shared_counters::SharedCounters;
pub use arrivals::{Arrivals, Share};
pub(crate) use edges::Sent;
pub use edges::{Edges, Reads};
use weighbridge_harness::axis::TOUCH_BYTES;
use weighbridge_harness::ctx::{self, RATE};

/// Everything that can be read from by the thousand.
pub const ALL: &[Target] = &[
    PIPE,
    target("unix-stream", "a Unix stream socket pair for each stream", &[]),
    target("tcp", "a TCP connection over loopback for each stream", &[Nodelay::AXIS]),
    causeway::ONE_WRITER,
    causeway::MANY_WRITERS,
    PIPE.harness(
        "the harness itself: the reader's loop and its clock, without a call",
        |_, _, params, cx| harness(params).drive(cx),
    ),
];

const PIPE: Target = target("pipe", "a pipe for each stream", &[]);

const fn target(id: &'static str, about: &'static str, axes: &'static [Axis]) -> Target {
    Target {
        id,
        about,
        caps: Caps::PAYLOAD.and(Caps::BYTE_STREAM).and(Caps::YIELDS),
        properties: |params| Some(properties::of_streams(params)),
        waits: &[],
        axes,
        patterns: &[FAN_IN],
        fit: limits::fit,
        create,
        drive: |_, resources, _, cx| drive(resources, cx),
        counter_check: no_faults,
        in_suites: InSuites::AtEverySize,
        environment: &[],
    }
}

const FAN_IN: PatternInfo = PatternInfo {
    id: "fan-in",
    about: "thousands of streams, or many publishers, into one reader: events per second, an event being a read that \
            returned data, or a message",
    needs: Caps::NONE,
    roles: |params| std::iter::once("reader").chain(std::iter::repeat_n("writer", writers(params))).collect(),
    axes: &[STREAMS, WRITERS, StreamWait::AXIS, Order::AXIS, MAX_EVENTS, YIELD_LIMIT, TOUCH_BYTES, RATE],
    unit: Unit::PerSecond("events"),
    is_symmetric: false,
};

/// The pattern for writers whose messages come over one way, without the axes of streams.
pub const OF_MESSAGES: PatternInfo = PatternInfo { axes: &[RATE], ..FAN_IN };

const STREAMS: Axis = Axis {
    name: "streams",
    default: "2000",
    values: Values::CountOrMax,
    about: "number of streams; the limit of open descriptors decides how many there can be, and max is as many",
};
/// Number of writers.
pub const WRITERS: Axis =
    number_axis("writers", "1", "number of writers; each has its own part of the streams");
choice! {
    /// How the reader learns which streams have data.
    enum StreamWait {
        EpollEdge = "epoll-et", EpollLevel = "epoll-lt", EpollOneshot = "epoll-oneshot", Poll = "poll",
        Select = "select", Uring = "uring", None = "none",
    }
    axis "wait", default EpollEdge: "how the reader learns which streams have data: epoll edge-triggered, level-triggered or \
        re-armed after each event, poll, select, multishot polls of io_uring, or not at all (none): blocking reads in cyclic \
        order, which pass over a stream while it is ahead by a message"
}
choice! {
    enum Order { Default = "default", Random = "random", Cyclic = "cyclic" }
    axis "order", default Default: "which stream a writer takes next; default is random, but cyclic with wait=none \
    and with a rate"
}
const MAX_EVENTS: Axis =
    number_axis("max-events", "1024", "most events that one wait returns (epoll and uring)");
const YIELD_LIMIT: Axis = Axis {
    name: "yield-limit",
    default: "1000",
    values: Values::AtLeast(0),
    about: "the reader gives up the CPU once when a wait returned fewer events than this; 0 is never",
};

/// Least bytes that a read asks for: those that epoll_bench asks for.
const READ_BYTES: usize = 1024;

/// How many writers a case has.
pub fn writers(params: &CaseParams) -> usize {
    params.count(WRITERS)
}

fn is_cyclic(params: &CaseParams) -> bool {
    match params.choice() {
        Order::Default => params.choice::<StreamWait>() == StreamWait::None || ctx::rate(params).is_some(),
        Order::Random => false,
        Order::Cyclic => true,
    }
}

/// The streams of writer `index` (from 0), in its order.
fn part(index: usize, writers: usize, streams: usize) -> impl Iterator<Item = usize> {
    (index..streams).step_by(writers)
}

/// Nothing but the counters, with a line for each role, and a socket from the reader to each writer. The streams are made by
/// the reader, so that no process ever holds both ends of all of them: half as many would fit.
fn create(_host: &Host, params: &CaseParams) -> io::Result<Vec<EndResources>> {
    let mut resources_by_role = with_counters(writers(params) + 1)?;
    let (reader, writers) = resources_by_role.split_first_mut().expect("there is a reader");
    for writer in writers {
        let (of_reader, of_writer) = socket::seqpacket_pair()?;
        reader.fds.push(of_reader);
        writer.fds.push(of_writer);
    }
    Ok(resources_by_role)
}

fn drive(mut resources: EndResources, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    cx.set_step(Step::Attach);
    let (streams, writers) = (limits::streams(cx.params), writers(cx.params));
    let counters = &SharedCounters::open(resources.take_fd(), writers + 1)?;
    match cx.role {
        0 => {
            let ends = &streams::make(streams, cx.params, resources.fds)?;
            reader::Role { ends, counters, cx }.drive()
        }
        role => {
            let ends = streams::receive(resources.take_fd(), part(role - 1, writers, streams).count())?;
            writer::drive(&ends, counters, cx)
        }
    }
}

/// The reader's loop, its counts and its look at the clock, without any call.
fn harness(params: &CaseParams) -> Nothing<impl FnMut(&mut u64) -> u64> {
    let streams = limits::streams(params);
    let ready = params.count(MAX_EVENTS).min(streams);
    let step = move |events: &mut u64| {
        for index in 0..ready {
            std::hint::black_box(index);
            *events += 1;
        }
        1 + ready as u64
    };
    Nothing { step, event_bytes: 1, warm_ops: streams as u64, events: 0 }
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
