//! The reader's logs: waiting for any of them, taking what is there.
//!
//! # Safety
//! Reader and writers are this program, which publishes with Causeway and writes nothing in a log that it has published, and
//! the reader receives reliably: so the bytes of a message hold still until the reader has moved on.
#![allow(unsafe_code)]

use causeway::{Received, Subscriber, TryRecvError};

use super::accounts::Seen;
use crate::mechanism::causeway::{Receive, limit_spinning, watch};
use crate::prelude::*;
use crate::sys::epoll::Set;

/// Most messages of one look, as many as one wait of the streams returns.
const MOST_MESSAGES: usize = 1024;
/// Most bytes of one look, so that the clock is looked at in time.
const MOST_BYTES: usize = 1 << 20;

pub(super) struct Logs {
    logs: Vec<Log>,
    wait: Wait,
    set: Option<Set>,
    in_place: bool,
    /// Most messages that a look takes from each log.
    most: usize,
}

struct Log {
    subscriber: Subscriber,
    /// Its next message makes its descriptor readable.
    is_armed: bool,
}

impl Logs {
    pub(super) fn new(subscribers: Vec<Subscriber>, params: &CaseParams) -> io::Result<Logs> {
        let set = watch(&subscribers, params)?;
        let most = MOST_MESSAGES.min(MOST_BYTES / params.payload_bytes.max(1)) / subscribers.len();
        let logs = subscribers.into_iter().map(|mut subscriber| {
            limit_spinning(&mut subscriber, params);
            Log { subscriber, is_armed: false }
        });
        let in_place = params.choice::<Receive>() == Receive::InPlace;
        Ok(Logs { logs: logs.collect(), wait: params.wait, set, in_place, most: most.max(1) })
    }

    /// Waits until a log has a message. A wake-up without a message ends the wait too.
    #[inline]
    pub(super) fn wait(&mut self) -> io::Result<()> {
        while !self.is_ready()? {
            match self.wait {
                Wait::Spin => std::hint::spin_loop(),
                _ => return self.sleep(),
            }
        }
        Ok(())
    }

    #[inline]
    fn is_ready(&mut self) -> io::Result<bool> {
        for log in &mut self.logs {
            if log.subscriber.is_ready().map_err(io::Error::other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[inline(never)]
    fn sleep(&mut self) -> io::Result<()> {
        let Some(set) = &mut self.set else {
            // `fit` refuses to block on several logs.
            return self.logs[0].subscriber.wait(None).map(drop).map_err(io::Error::other);
        };
        for log in self.logs.iter_mut().filter(|log| !log.is_armed) {
            log.is_armed = log.subscriber.arm().map_err(io::Error::other)?;
            if !log.is_armed {
                return Ok(());
            }
        }
        // A doorbell that has rung, if only for a message that was abandoned, does not ring again until it is armed again.
        for event in set.wait()? {
            self.logs[event.u64 as usize].disarm();
        }
        Ok(())
    }

    /// Hands what is there to `each`, log by log. Returns how many messages that were.
    #[inline]
    pub(super) fn take_each(&mut self, each: &mut impl FnMut(Seen<'_>) -> io::Result<()>) -> io::Result<u64> {
        let mut taken = 0;
        for (index, log) in self.logs.iter_mut().enumerate() {
            let mut of_log = 0;
            while of_log < self.most && log.take(index, self.in_place, each)? {
                of_log += 1;
            }
            if of_log > 0 && log.is_armed {
                // Its publisher would look whom to wake at every message.
                log.disarm();
            }
            taken += of_log as u64;
        }
        Ok(taken)
    }

    /// Messages that were overwritten before they were read.
    pub(super) fn lost(&self) -> u64 {
        self.logs.iter().map(|log| log.subscriber.lost_messages()).sum()
    }
}

impl Log {
    fn disarm(&mut self) {
        self.subscriber.disarm();
        self.is_armed = false;
    }

    #[inline]
    fn take(
        &mut self,
        log: usize,
        in_place: bool,
        each: &mut impl FnMut(Seen<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        let subscriber = &mut self.subscriber;
        if !in_place {
            return match subscriber.try_recv() {
                Ok(Received::Message(message)) => {
                    let (publisher, sequence) = (message.publisher, message.sequence);
                    each(Seen { log, publisher, sequence, payload: message.bytes }).map(|()| true)
                }
                Err(TryRecvError::Empty) => Ok(false),
                Ok(Received::Lost { messages, .. }) => Err(lost(messages)),
                Ok(Received::Demoted) => Err(lost(0)),
                Err(error) => Err(io::Error::other(error)),
            };
        }
        match subscriber.try_recv_in_place() {
            Ok(Received::Message(message)) => {
                // SAFETY: trusted publishers, a reliable receiver; see above.
                let payload = unsafe { message.bytes() };
                each(Seen { log, publisher: message.publisher(), sequence: message.sequence(), payload })?;
                if message.finish() { Ok(true) } else { Err(lost(1)) }
            }
            Err(TryRecvError::Empty) => Ok(false),
            Ok(Received::Lost { messages, .. }) => Err(lost(messages)),
            Ok(Received::Demoted) => Err(lost(0)),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

#[cold]
fn lost(messages: u64) -> io::Error {
    io::Error::other(format!("{messages} messages were lost although publishers wait for this reader"))
}
