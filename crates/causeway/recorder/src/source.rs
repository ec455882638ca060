//! Where messages come from, and when they came.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use causeway::{
    Error, Group, LargeSubscriber, Policy, Received, Refusal, SubscribeOptions, Subscriber, TryRecvError,
};
use causeway_bus::{Monitor, Observed};
use causeway_os::clock::monotonic_ns;
use causeway_os::process::poll;
use rustix::time::{ClockId, clock_gettime};

use crate::channels::Kinds;
use crate::failure::Failure;
use crate::frames::{Frame, HEADER_ONLY};
use crate::ring::{Batch, Stamp, Step};

/// A batch is passed on once it has so many bytes.
pub const BATCH_BYTES: usize = 256 << 10;
/// A step of the clock that is told, in nanoseconds; less is the adjustment of a clock that runs well, and the time between two reads.
const CLOCK_STEP_NS: i64 = 1_000_000;
/// After a burst the recorder looks again this long later, before it asks to be woken: each wake-up is a system call of a publisher.
const PAUSE: Duration = Duration::from_micros(100);
/// Messages that make a burst.
const BURST: usize = 64;
/// In a log that is smaller, a burst could pass during the pause.
const PAUSE_LOG_BYTES: u64 = 128 << 10;

/// Why filling a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// There may be more.
    Full,
    /// There is nothing more now.
    Empty,
    /// Nothing comes any more.
    Ended,
}

/// A group or a bus of which this process is a lossy member.
pub struct Source {
    input: Input,
    clocks: Clocks,
    capacity_bytes: u64,
}

enum Input {
    Group(Subscriber),
    /// Payloads by reference: what they refer to is recorded.
    Large(LargeSubscriber),
    Bus(Box<Monitor>),
}

impl Source {
    /// Joins what is served at a path, or the bus of the session.
    pub fn open(socket: Option<&Path>, oldest: bool) -> Result<Source, Failure> {
        let Some(path) = socket else { return Ok(Source::of(Input::Bus(Box::new(Monitor::session()?)), 0)) };
        let group = Group::join(path)?;
        let report = match group.report() {
            Ok(report) => report,
            // The socket of a bus has no such answer.
            Err(Error::Refused(why)) => return Err(Error::Refused(why).into()),
            Err(no_group) => {
                return match Monitor::open(path) {
                    Ok(monitor) => Ok(Source::of(Input::Bus(Box::new(monitor)), 0)),
                    Err(no_bus) => Err(Failure::Failed(format!(
                        "{} is neither the socket of a group ({no_group}) nor the native socket of a bus ({no_bus})",
                        path.display()
                    ))),
                };
            }
        };
        let options = SubscribeOptions::new(Policy::Lossy);
        let options = if oldest { options.from_oldest() } else { options };
        let input = match group.large_subscribe(options.clone()) {
            Ok(subscriber) => Input::Large(subscriber),
            Err(Error::Refused(Refusal::OtherType)) => Input::Group(group.subscribe(options)?),
            Err(error) => return Err(error.into()),
        };
        Ok(Source::of(input, report.capacity_bytes))
    }

    fn of(input: Input, capacity_bytes: u64) -> Source {
        let clocks = Clocks::new(realtime_ns(), monotonic_ns());
        Source { input, clocks, capacity_bytes }
    }

    pub fn kinds(&self) -> Kinds {
        match self.input {
            Input::Group(_) | Input::Large(_) => Kinds::Group,
            Input::Bus(_) => Kinds::Bus,
        }
    }

    /// What the files say of it.
    pub fn about(&self) -> BTreeMap<String, String> {
        let kind = match &self.input {
            Input::Group(_) | Input::Large(_) => ("capacity_bytes", self.capacity_bytes.to_string(), "group"),
            Input::Bus(monitor) => ("bus_id", monitor.bus_id(), "bus"),
        };
        let (key, value, source) = kind;
        let payloads = if matches!(self.input, Input::Large(_)) { "by reference" } else { "in the log" };
        let about = [
            ("source", source.to_owned()),
            (key, value),
            ("format", "1".to_owned()),
            ("payloads", payloads.to_owned()),
        ];
        about.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// CLOCK_REALTIME less CLOCK_MONOTONIC, if messages are stamped by the latter.
    pub fn offset_ns(&self) -> Option<i64> {
        (self.kinds() == Kinds::Bus).then_some(self.clocks.offset_ns)
    }

    /// Adds what is there to a batch, up to its bound.
    pub fn fill(&mut self, batch: &mut Batch) -> Result<Filled, Failure> {
        if let Some(offset_ns) = self.clocks.step(realtime_ns(), monotonic_ns())
            && self.kinds() == Kinds::Bus
        {
            batch.steps.push(Step::Clock { offset_ns });
        }
        // A monitor notices the end of its bus where it waits.
        let patience = if batch.is_empty() { LOOK_AGAIN } else { Duration::ZERO };
        while batch.bytes() < BATCH_BYTES {
            let step = match &mut self.input {
                Input::Group(subscriber) => of_group(subscriber, &mut self.clocks, &mut batch.payloads),
                Input::Large(subscriber) => of_large(subscriber, &mut self.clocks, &mut batch.payloads),
                Input::Bus(monitor) => match monitor.next(Some(patience)) {
                    Ok(Some(observed)) => Ok(of_bus(observed, &mut self.clocks, &mut batch.payloads)),
                    Ok(None) => Err(TryRecvError::Empty),
                    Err(causeway_bus::Error::AuthorityGone) => Err(TryRecvError::Disconnected),
                    Err(error) => return Err(error.into()),
                },
            };
            match step {
                Ok(step) => batch.steps.extend(step),
                Err(TryRecvError::Empty) => return Ok(Filled::Empty),
                Err(TryRecvError::Disconnected) => return Ok(Filled::Ended),
                Err(TryRecvError::Failed(error)) => return Err(error.into()),
            }
        }
        Ok(Filled::Full)
    }

    /// Waits until there may be something to read, one of `others` is readable or hung up, or the time is over. `found` is how many messages
    /// the last look has found.
    pub fn wait(
        &mut self,
        others: &[BorrowedFd<'_>; 2],
        found: usize,
        timeout: Option<Duration>,
    ) -> Result<[bool; 2], Failure> {
        let Some(subscriber) = (match &mut self.input {
            Input::Group(subscriber) => Some(subscriber),
            Input::Large(subscriber) => Some(subscriber.get_mut()),
            Input::Bus(_) => None,
        }) else {
            // Nobody wakes a monitor. With nothing in the batch, it has waited.
            return both(others, Some(timeout.unwrap_or_default().min(LOOK_AGAIN)));
        };
        if found >= BURST && self.capacity_bytes >= PAUSE_LOG_BYTES {
            return both(others, Some(PAUSE));
        }
        match subscriber.arm() {
            Ok(true) => {}
            Ok(false) | Err(Error::Disconnected) => return both(others, Some(Duration::ZERO)),
            // Nobody is left to ring its doorbell; publishers wake it all the same, and their end ends the recording.
            Err(Error::ServerGone) => {
                let _ = subscriber.wait(Some(timeout.unwrap_or(WITHOUT_SERVER).min(WITHOUT_SERVER)));
                return both(others, Some(Duration::ZERO));
            }
            Err(error) => return Err(error.into()),
        }
        let [first, second] = *others;
        let ready = poll(&[subscriber.as_fd(), first, second], timeout)?;
        if !ready[0] {
            subscriber.disarm();
        }
        Ok([ready[1], ready[2]])
    }
}

/// A monitor that has nothing to read looks again after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long signals wait in a group whose server is gone.
const WITHOUT_SERVER: Duration = Duration::from_millis(50);

fn both(others: &[BorrowedFd<'_>; 2], timeout: Option<Duration>) -> Result<[bool; 2], Failure> {
    let ready = poll(others, timeout)?;
    Ok([ready[0], ready[1]])
}

type Found = Result<Option<Step>, TryRecvError>;

fn of_group(subscriber: &mut Subscriber, clocks: &mut Clocks, payloads: &mut Vec<u8>) -> Found {
    let (frame, sequence, topic, bytes) = match subscriber.try_recv()? {
        Received::Message(message) => {
            payloads.extend_from_slice(message.bytes);
            let (position, slot) = (message.position.0, u16::from(message.publisher));
            (
                Frame { position, slot, ..Frame::default() },
                message.sequence,
                message.topic,
                message.bytes.len(),
            )
        }
        Received::Lost { messages, bytes } => return Ok(Some(clocks.lost(messages, bytes))),
        Received::Demoted => return Ok(None),
    };
    let frame = Frame { epoch: epoch_of(subscriber), ..frame };
    Ok(Some(Step::Message { stamp: clocks.now(), frame, sequence, topic, bytes }))
}

fn of_large(subscriber: &mut LargeSubscriber, clocks: &mut Clocks, payloads: &mut Vec<u8>) -> Found {
    let message = match subscriber.try_recv() {
        Ok(Received::Message(message)) => message,
        Ok(Received::Lost { messages, bytes }) => return Ok(Some(clocks.lost(messages, bytes))),
        Ok(Received::Demoted) => return Ok(None),
        // A reference that leads to nothing was skipped.
        Err(TryRecvError::Failed(Error::Invalid { .. })) => return Ok(Some(clocks.lost(1, 0))),
        Err(error) => return Err(error),
    };
    let (begin, bytes) = (payloads.len(), message.payload.payload_bytes());
    payloads.resize(begin + bytes, 0);
    if message.payload.copy_to(&mut payloads[begin..]).is_err() {
        payloads.truncate(begin);
        return Ok(Some(clocks.lost(1, 0)));
    }
    let (position, slot) = (message.position.0, u16::from(message.publisher));
    let frame = Frame { position, slot, epoch: epoch_of(subscriber.get_mut()), flags: 0 };
    let (sequence, topic) = (message.sequence, message.topic);
    Ok(Some(Step::Message { stamp: clocks.now(), frame, sequence, topic, bytes }))
}

fn epoch_of(subscriber: &Subscriber) -> u32 {
    u32::try_from(subscriber.epoch()).unwrap_or(u32::MAX)
}

fn of_bus(observed: Observed, clocks: &mut Clocks, payloads: &mut Vec<u8>) -> Option<Step> {
    let message = match observed {
        Observed::Message(message) => message,
        Observed::Lost { messages } => return Some(clocks.lost(messages, 0)),
    };
    payloads.extend_from_slice(message.bytes());
    let flags = if message.is_header_only() { HEADER_ONLY } else { 0 };
    let frame = Frame { position: message.position(), epoch: 0, slot: message.slot(), flags };
    let stamp = Stamp { publish_ns: clocks.of_monotonic(message.sent_ns()), ..clocks.now() };
    let (sequence, bytes) = (message.header().serial, message.bytes().len());
    Some(Step::Message { stamp, frame, sequence, topic: 0, bytes })
}

fn realtime_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Times that never go back, so that every reader shows the order of the log.
#[derive(Debug)]
struct Clocks {
    last_ns: u64,
    offset_ns: i64,
}

impl Clocks {
    fn new(realtime_ns: u64, monotonic_ns: u64) -> Clocks {
        Clocks { last_ns: 0, offset_ns: apart(realtime_ns, monotonic_ns) }
    }

    /// The new distance of the clocks, if one was set.
    fn step(&mut self, realtime_ns: u64, monotonic_ns: u64) -> Option<i64> {
        let offset_ns = apart(realtime_ns, monotonic_ns);
        let is_step = offset_ns.abs_diff(self.offset_ns) >= CLOCK_STEP_NS as u64;
        is_step.then(|| {
            self.offset_ns = offset_ns;
            offset_ns
        })
    }

    fn stamp(&mut self, realtime_ns: u64) -> Stamp {
        self.last_ns = self.last_ns.max(realtime_ns);
        Stamp { log_ns: self.last_ns, publish_ns: self.last_ns }
    }

    fn now(&mut self) -> Stamp {
        self.stamp(realtime_ns())
    }

    fn of_monotonic(&self, sent_ns: u64) -> u64 {
        sent_ns.saturating_add_signed(self.offset_ns)
    }

    fn lost(&mut self, messages: u64, bytes: u64) -> Step {
        Step::Lost { stamp: self.now(), messages, bytes }
    }
}

fn apart(realtime_ns: u64, monotonic_ns: u64) -> i64 {
    i64::try_from(i128::from(realtime_ns) - i128::from(monotonic_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_log_never_goes_back_and_a_clock_that_was_set_is_told_once() {
        let (day, ms) = (86_400_000_000_000, 1_000_000);
        let mut clocks = Clocks::new(100 * day, day);
        assert_eq!(clocks.step(100 * day + ms, day + ms), None);
        assert_eq!(clocks.stamp(100 * day + ms).log_ns, 100 * day + ms);
        // Set back by an hour, and two milliseconds pass.
        let hour = day / 24;
        assert_eq!(clocks.step(100 * day + 3 * ms - hour, day + 3 * ms), Some((99 * day - hour) as i64));
        assert_eq!(clocks.step(100 * day + 4 * ms - hour, day + 4 * ms), None);
        let stamp = clocks.stamp(100 * day + 4 * ms - hour);
        assert_eq!(stamp.log_ns, 100 * day + ms, "it stays where it was");
        assert_eq!(
            clocks.of_monotonic(day),
            100 * day - hour,
            "what was sent is told by the clock as it is now"
        );
        assert_eq!(clocks.stamp(101 * day).log_ns, 101 * day);
    }
}
