//! When nothing moves: what is given up, and what is said.

use super::{Player, Wait};
use crate::Error;
use crate::end::Settled;

impl Player<'_> {
    /// Gives up what a bus may rightly not deliver; true if there was something.
    pub(super) fn give_up_soft(&mut self) -> bool {
        let mut missing = Vec::new();
        for (connection, items) in self.plan.inboxes.iter().enumerate() {
            let open = (self.ends[connection].prefix..items.len())
                .filter(|place| items[*place].is_soft && !self.is_settled((connection, *place)));
            missing.extend(
                open.filter(|place| items[*place].step.is_some_and(|step| self.taken[step]))
                    .map(|place| (connection, place)),
            );
        }
        self.run.lost += missing.len() as u64;
        let has_some = !missing.is_empty();
        let moved = self.moved;
        missing.into_iter().for_each(|delivery| self.settle(delivery, Settled::Lost));
        // If this was all, the replay ended when something arrived last.
        if self.steps == self.plan.steps.len() {
            self.moved = moved;
        }
        has_some
    }

    /// Has everything arrived that was sent?
    pub(super) fn nothing_awaited(&self) -> bool {
        self.plan.inboxes.iter().enumerate().all(|(connection, items)| {
            (self.ends[connection].prefix..items.len()).all(|place| {
                items[place].step.is_none_or(|step| !self.taken[step]) || self.is_settled((connection, place))
            })
        })
    }

    pub(super) fn stalled(&self) -> Error {
        Error::Stalled {
            after: self.options.stall,
            taken: self.steps_taken(),
            planned: self.plan.steps.len() as u64,
            reason: self.reason(),
        }
    }

    /// The first message that waits, and for what; or the first that does not arrive.
    fn reason(&self) -> String {
        let is_sent = |place: (usize, usize)| {
            self.plan.inboxes[place.0][place.1].step.is_some_and(|step| self.taken[step])
        };
        // What is under way and does not come is the cause of all that waits.
        let open = self.ends.iter().enumerate().map(|(id, end)| (id, end.prefix));
        let missing =
            open.filter(|(id, place)| *place < self.ends[*id].inbox.len() && is_sent((*id, *place)));
        let first = missing.min_by_key(|(id, place)| self.plan.inboxes[*id][*place].step);
        let waiting = (0..self.plan.steps.len()).find(|step| !self.taken[*step]);
        match (waiting, first) {
            (Some(step), first) => {
                let step = &self.plan.steps[step];
                let held = step.waits.iter().find(|wait| !self.holds(**wait));
                let what = match (held, first) {
                    (Some(Wait::Inbox(id, _)), _) => self.item(*id, self.ends[*id].prefix),
                    (_, Some((id, place))) => self.item(id, place),
                    (_, None) => "the socket to take what was written before".into(),
                };
                format!("{} waits for {what}", self.plan.title(step))
            }
            (None, Some((id, place))) => format!("all was sent; what is missing is {}", self.item(id, place)),
            (None, None) => "the bus does not answer a last call".into(),
        }
    }

    /// An item of an inbox in words.
    fn item(&self, connection: usize, place: usize) -> String {
        let name = &self.plan.connections[connection].name;
        let Some(id) = self.plan.inboxes[connection][place].step else {
            return format!("{name}, which is not there");
        };
        let step = &self.plan.steps[id];
        let title = self.plan.title(step);
        if step.reply == Some(place) && step.from == connection {
            format!("the answer of the bus to {title}")
        } else {
            format!("the arrival of {title} at {name}")
        }
    }
}
