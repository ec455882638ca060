//! When the sending side runs, and where: as a task on the thread of Zenoh that writes to its links.
//!
//! A thread that is woken costs more than all that is done to a message. A publisher's doorbell wakes this thread; a message that comes
//! alone goes into Zenoh's queue, and Zenoh's own task, which runs next, writes it to the link, without another thread. So nothing here
//! may wait for that task: such a message is dropped where there is no space, and comes by a question, as any other that is missing.
//! Whatever may wait, such as more than fits into the queue, or an answer, is done where tokio gives Zenoh another thread meanwhile
//! (`block_in_place`).

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use causeway::Error;
use tokio::io::Interest;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, block_in_place, yield_now};
use tokio::time::sleep_until;
use zenoh_runtime::ZRuntime;

use super::{ALONE_BYTES_MAX, ALONE_MESSAGE_BYTES_MAX, BATCH, Event, Outgoing, Way};
use crate::failure::{Failure, Result};

/// How often a doorbell is looked at that nobody rings any more.
const WITHOUT_DOORBELL: Duration = Duration::from_millis(5);

/// The sending side of a group, at work; it ends when it is dropped.
#[derive(Debug)]
pub struct Sending {
    teller: UnboundedSender<Event>,
    task: Option<JoinHandle<Result<()>>>,
}

impl Sending {
    /// Whether the group has ended, or it cannot go on.
    pub fn is_over(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The group has ended: so does this, when the others have all of it, or after the lease.
    pub fn group_ended(&self) {
        let _ = self.teller.send(Event::GroupEnd);
    }

    /// Ends it, and says why it has ended if that was before.
    pub fn end(mut self) -> Result<()> {
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        let Some(task) = self.task.take() else { return Ok(()) };
        let _ = self.teller.send(Event::End);
        ZRuntime::TX.block_on(task).map_err(Failure::of)?
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

impl Outgoing {
    /// Begins to send, and to answer.
    pub fn start(mut self) -> Sending {
        let teller = self.teller.clone();
        let task = ZRuntime::TX.spawn(async move {
            let done = self.run().await;
            // What it has declared in Zenoh is declared no more, which may wait.
            block_in_place(|| drop(self));
            done
        });
        Sending { teller, task: Some(task) }
    }

    async fn run(&mut self) -> Result<()> {
        while !self.is_over() {
            let head = self.head;
            if !self.send_alone()? {
                block_in_place(|| self.send_all())?;
            } else if self.head != head {
                // Zenoh's task writes it first.
                yield_now().await;
            }
            self.sleep().await?;
        }
        Ok(())
    }

    /// Sends a message that comes alone, without any wait. False if there is more to do than that.
    fn send_alone(&mut self) -> Result<bool> {
        self.hear();
        let now = Instant::now();
        let is_busy = !self.questions.is_empty()
            || self.is_ending
            || self.ended.is_some()
            || self.demoted_until.is_some()
            || now < self.alone_from
            || now >= self.beat_due()
            || self.subscriber.has_next_log()
            || self.is_window_full();
        if is_busy {
            return Ok(false);
        }
        let before = self.bytes_on_their_way();
        if !self.receive(Way::Alone)? {
            return Ok(true);
        }
        let Some(stamp) = &self.pack.stamp else { return Ok(false) };
        let bytes = self.pack.bytes.len() as u64;
        let has_space = before + bytes <= ALONE_BYTES_MAX || before == 0 && bytes <= ALONE_MESSAGE_BYTES_MAX;
        if !has_space || !self.publishers.has(stamp.topic) {
            return Ok(false);
        }
        self.publishers.send(&mut self.pack, Way::Alone, &self.route)?;
        if self.peers.is_empty() {
            self.let_go();
        }
        Ok(!self.receive(Way::Alone)?)
    }

    /// Does everything there is to do, as long as that takes.
    fn send_all(&mut self) -> Result<()> {
        loop {
            self.pass_began = Instant::now();
            self.has_no_answer = false;
            self.hear();
            for (_, query) in std::mem::take(&mut self.questions) {
                self.answer(&query)?;
                // That may have taken its time.
                self.hear();
            }
            self.forget_silent();
            self.beat_if_due();
            let mut received = 0;
            while received < BATCH && self.may_read() && self.receive(Way::Together)? {
                received += 1;
            }
            self.publishers.send(&mut self.pack, Way::Together, &self.route)?;
            self.is_drained = received == 0 && self.may_read();
            self.promote_if_due()?;
            self.hear();
            // Messages that do not cross are never acknowledged, and a receiver may have stood still for too long by now.
            self.let_go();
            if received == 0 || self.is_ending {
                return Ok(());
            }
        }
    }

    /// Sleeps until there is something to do.
    async fn sleep(&mut self) -> Result<()> {
        let mut until = self.beat_due();
        let mut reads = self.may_read();
        if self.ended.is_some() || self.has_no_answer {
            (until, reads) = (until.min(Instant::now() + WITHOUT_DOORBELL), false);
        }
        if reads {
            // A server has the next log, and may stand still.
            let armed = if self.subscriber.has_next_log() {
                block_in_place(|| self.subscriber.arm())
            } else {
                self.subscriber.arm()
            };
            match armed {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // Nobody is left to ring its doorbell, and publishers may go on.
                Err(Error::ServerGone | Error::NoAnswer) => {
                    (until, reads) = (until.min(Instant::now() + WITHOUT_DOORBELL), false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Outgoing { doorbell, events, .. } = self;
        let event = tokio::select! {
            biased;
            rung = doorbell.readable(), if reads => {
                rung?;
                // It is drained where it is armed again: the runtime is to wait for what comes then.
                let _ = doorbell.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                return Ok(());
            }
            event = events.recv() => event,
            () = sleep_until(until.into()) => None,
        };
        if reads {
            self.subscriber.disarm();
        }
        event.into_iter().for_each(|event| self.take(event));
        Ok(())
    }
}
