//! What arrives, and which item of which inbox it is.

use std::time::{Duration, Instant};

use causeway_bus::client::Error as ClientError;
use causeway_dbus_wire::driver::DRIVER;
use causeway_dbus_wire::wire::{Args, Header, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Player;
use crate::Error;
use crate::end::{End, Settled};
use crate::plan::Step;
use crate::tape::HAS_NAME;

/// How soon the player looks again for a native member that has left.
const LOOK_FOR_DEPARTURE: Duration = Duration::from_micros(100);

impl<'p> Player<'p> {
    /// Reads and writes what can be, waiting for at most this time.
    pub(super) fn poll(&mut self, patience: Duration) -> Result<(), Error> {
        let most = match (self.prepare_to_wait(), self.natives.leaving.is_empty()) {
            (false, _) => Duration::ZERO,
            (true, true) => patience,
            // Nothing wakes this thread when the bus has seen a departure.
            (true, false) => LOOK_FOR_DEPARTURE,
        };
        let patience = patience.min(most);
        let (watched, mut fds): (Vec<usize>, Vec<PollFd<'_>>) =
            self.ends.iter().enumerate().filter_map(watch).unzip();
        let patience =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        match poll(&mut fds, Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Poll(error.into())),
        }
        let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        for (id, events) in watched.into_iter().zip(events) {
            if self.ends[id].is_native() {
                continue;
            }
            if events.contains(PollFlags::OUT) {
                self.ends[id].flush().map_err(|error| self.failed(id, error))?;
            }
            if events.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read(id)?;
            }
        }
        self.read_natives()
    }

    fn read(&mut self, id: usize) -> Result<(), Error> {
        self.notes.begin();
        let is_open = self.ends[id].fill().map_err(|error| self.failed(id, error))?;
        self.read_messages(id)?;
        if is_open {
            return Ok(());
        }
        if !self.ends[id].is_leaving {
            return Err(self.failed(id, ClientError::Closed));
        }
        self.ends[id].close();
        self.is_gone(id);
        Ok(())
    }

    /// What a connection waits for last is its own end.
    pub(super) fn is_gone(&mut self, id: usize) {
        let end = self.ends[id].inbox.len() - 1;
        self.settle((id, end), Settled::Arrived);
    }

    pub(super) fn read_messages(&mut self, id: usize) -> Result<(), Error> {
        while let Some(message) = self.ends[id].next_message().map_err(|error| self.failed(id, error))? {
            let header =
                Header::parse(&message).map_err(|fault| self.failed(id, ClientError::Protocol(fault)))?;
            self.run.received += 1;
            if header.sender == Some(DRIVER) {
                self.run.of_driver += 1;
                self.driver_says(id, &header, &message)?;
            } else {
                self.arrived(id, &header);
            }
        }
        Ok(())
    }

    fn arrived(&mut self, id: usize, header: &Header<'_>) {
        let sender = header.sender.and_then(|sender| self.by_unique.get(sender)).copied();
        let Some(sender) = sender else {
            self.run.foreign += 1;
            return;
        };
        let step = self.ends[sender].step_of(header.serial).map(|step| &self.plan.steps[step]);
        if let Some(step) = step {
            self.notes.end(id, step.number, false);
        }
        let delivery = step.and_then(|step| step.deliveries.iter().find(|(to, _)| *to == id));
        match delivery {
            Some(delivery) if !self.is_settled(*delivery) => {
                self.run.broadcast_deliveries += u64::from(header.is_broadcast());
                self.settle(*delivery, Settled::Arrived);
            }
            _ => self.run.unplanned += 1,
        }
    }

    fn driver_says(&mut self, id: usize, header: &Header<'_>, message: &[u8]) -> Result<(), Error> {
        let Some(serial) = header.reply_serial else { return Ok(()) };
        if self.ends[id].closing == Some(serial) {
            self.ends[id].closing = None;
            self.moved = Instant::now();
            return Ok(());
        }
        let Some(step) = self.ends[id].step_of(serial).map(|step| &self.plan.steps[step]) else {
            return Ok(());
        };
        if step.owns && !Args::of(message).first_u32().is_some_and(|answer| HAS_NAME.contains(&answer)) {
            let name = Args::of(self.plan.message(step)).first_text();
            return Err(Error::NameTaken(name.unwrap_or_default().into()));
        }
        if header.kind == Kind::Error {
            if step.deliveries.iter().any(|delivery| !self.is_settled(*delivery)) {
                self.run.refused += 1;
                self.note_refusal(step, header);
                // The destination does not get it, and so does not answer.
                if let Some(answer) = step.answered_by {
                    self.dropped[answer] = true;
                }
            } else if step.is_granted {
                self.run.denied += 1;
                self.note_refusal(step, header);
            }
            step.deliveries.iter().for_each(|delivery| self.settle(*delivery, Settled::Lost));
        }
        if let Some(reply) = step.reply {
            self.settle((id, reply), Settled::Arrived);
        }
        Ok(())
    }

    fn note_refusal(&mut self, step: &Step, header: &Header<'_>) {
        let why = header.error_name.unwrap_or_default();
        let title = self.plan.title(step);
        self.run.first_refusal.get_or_insert_with(|| format!("{title}: {why}"));
    }
}

fn watch((id, end): (usize, &End)) -> Option<(usize, PollFd<'_>)> {
    let out = if end.backlog() > 0 { PollFlags::OUT } else { PollFlags::empty() };
    Some((id, PollFd::from_borrowed_fd(end.fd()?, PollFlags::IN | out)))
}
