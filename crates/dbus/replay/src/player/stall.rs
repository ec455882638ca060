//! When nothing moves: what is given up, and what is said.

use super::{Player, Wait};
use crate::Error;
use crate::end::Settled;
use crate::plan::Item;

impl Player<'_> {
    /// Gives up what a bus may rightly not deliver; true if there was something.
    pub(super) fn give_up_soft(&mut self) -> bool {
        let missing: Vec<_> =
            self.awaited().filter(|(id, place)| self.plan.inboxes[*id][*place].is_soft).collect();
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

    /// What was sent and has not arrived: connections, and places in their inboxes.
    fn awaited(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let open = |(id, items): (usize, &Vec<Item>)| {
            (self.ends[id].prefix..items.len()).map(move |place| (id, place))
        };
        let all = self.plan.inboxes.iter().enumerate().flat_map(open);
        all.filter(|at| self.is_sent(*at) && !self.is_settled(*at))
    }

    fn is_sent(&self, (id, place): (usize, usize)) -> bool {
        self.plan.inboxes[id][place].step.is_some_and(|step| self.taken[step])
    }

    /// Has everything arrived that was sent?
    pub(super) fn nothing_awaited(&self) -> bool {
        self.awaited().next().is_none()
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
        // What is under way and does not come is the cause of all that waits.
        let open = self.ends.iter().enumerate().map(|(id, end)| (id, end.prefix));
        let missing =
            open.filter(|(id, place)| *place < self.ends[*id].inbox.len() && self.is_sent((*id, *place)));
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
