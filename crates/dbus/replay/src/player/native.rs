//! Native members of a replay. All of them are in one thread: it reads with each of them before so much is unread that one would have to
//! wait for another.

use causeway_bus::client::native_path;
use causeway_bus::{Monitor, name_of};

use super::Player;
use crate::Error;
use crate::end::End;
use crate::plan::Plan;

/// A program's, unless it asks for another. What a member takes when it joins counts in a replay of short connections.
const LEAST_OUTBOX_BYTES: usize = 256 << 10;
const MOST_OUTBOX_BYTES: usize = 32 << 20;
/// The longest message in an outbox is a quarter of it, and so is what else may be unread: a message stays where it was written until all it is for have
/// passed it.
const PARTS_OF_OUTBOX: usize = 4;
/// Of a message in addition to its bytes in the capture: what precedes it in the outbox, and longer names.
const HEADER_BYTES: usize = 1024;
/// Well below what the order log of a bus holds.
const MOST_UNREAD_MESSAGES: usize = 4096;

/// What is on its way between native members, and who is leaving.
#[derive(Debug, Default)]
pub(super) struct Natives {
    pub outbox_bytes: u64,
    most_unread_bytes: usize,
    unread_bytes: usize,
    unread_messages: usize,
    /// Members that have left and whose departure the bus has not dealt with yet.
    pub leaving: Vec<usize>,
    /// Shows who is there.
    directory: Option<Monitor>,
}

impl Natives {
    /// With outboxes in which the messages of a plan have room.
    pub fn new(plan: &Plan) -> Natives {
        let longest = plan.steps.iter().map(|step| step.at.len() + HEADER_BYTES).max().unwrap_or(0);
        let outbox_bytes =
            (PARTS_OF_OUTBOX * longest).next_power_of_two().clamp(LEAST_OUTBOX_BYTES, MOST_OUTBOX_BYTES);
        Natives {
            outbox_bytes: outbox_bytes as u64,
            most_unread_bytes: outbox_bytes / PARTS_OF_OUTBOX,
            ..Natives::default()
        }
    }

    /// An end is about to send a message.
    pub fn count(&mut self, end: &End, bytes: usize) {
        if end.is_native() {
            self.unread_bytes += bytes + HEADER_BYTES;
            self.unread_messages += 1;
        }
    }

    /// Must all members read before one of them sends?
    pub fn must_read(&self) -> bool {
        self.unread_bytes >= self.most_unread_bytes || self.unread_messages >= MOST_UNREAD_MESSAGES
    }
}

impl Player<'_> {
    /// Prepares native members for a wait; false if one has something to read already.
    pub(super) fn prepare_to_wait(&mut self) -> bool {
        let prepared =
            self.ends.iter_mut().map(End::prepare_to_wait).filter(|is_prepared| *is_prepared).count();
        prepared == self.ends.len() && !self.natives.must_read()
    }

    /// Reads with every native member.
    pub(super) fn read_natives(&mut self) -> Result<(), Error> {
        for id in 0..self.ends.len() {
            if self.ends[id].is_native() {
                self.notes.begin();
                self.read_messages(id)?;
            }
        }
        (self.natives.unread_bytes, self.natives.unread_messages) = (0, 0);
        self.see_departures()
    }

    /// Settles the departures that the bus has dealt with.
    fn see_departures(&mut self) -> Result<(), Error> {
        let (Some(first), Some(path)) = (self.natives.leaving.first(), native_path(self.address)) else {
            return Ok(());
        };
        let directory = match self.natives.directory.take() {
            Some(open) => open,
            None => Monitor::open(path).map_err(|error| self.failed(*first, error.into()))?,
        };
        let members = self.natives.directory.insert(directory).members();
        let is_there =
            |id: &usize| members.iter().any(|(peer, ..)| name_of(peer.id) == self.ends[*id].unique);
        let (leaving, gone): (Vec<usize>, Vec<usize>) =
            self.natives.leaving.iter().partition(|id| is_there(id));
        self.natives.leaving = leaving;
        gone.into_iter().for_each(|id| self.is_gone(id));
        Ok(())
    }
}
