//! Work that one turn of the loop does not finish. Whatever may be long (a signal to very many, the end of a client with tens of
//! thousands of names, a list of everything) is done in parts, and goes on in the next turn where it stopped.
//!
//! What the bus does in a turn is counted in steps: a condition that is compared is one, a copy that is delivered a few. When the steps of
//! the turn are used up, the rest waits. *Ordered* work has its place among all messages: until it is done, whatever the bus says waits
//! behind it, and the loop passes no further messages. Work *beside* them goes on while messages pass, each a few parts at a time.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use super::ending::Ending;
use super::filters::Narrowing;
use super::listing::Listing;
use super::passing::Broadcast;
use super::waiters::Waiters;
use super::{Action, Bus};
use crate::message::Message;

/// Steps of a turn.
pub const TURN_STEPS: usize = 5_000;
/// Parts of one work beside messages before the next has its turn.
pub(super) const PARTS: usize = 32;
/// Steps of an entry that is taken out of a table, and of one whose end is told.
pub(super) const ENTRY: usize = 4;
pub(super) const TOLD: usize = 16;
/// Steps of a message that is forgotten.
const FORGOTTEN: usize = 2;
/// So many messages are forgotten at once.
const FORGOTTEN_AT_ONCE: usize = 64;

/// Messages that wait for a client.
pub type Output = VecDeque<(Rc<Message>, Instant)>;

/// Something that is done in parts.
#[derive(Debug)]
pub(super) enum Work {
    /// To be done outside of the bus, behind what stands before it.
    Act(Action),
    Broadcast(Broadcast),
    Waiters(Waiters),
    Listing(Box<Listing>),
    Ending(Ending),
    Narrowing(Narrowing),
    /// Nobody gets these messages any more.
    Forget(Output),
}

/// What is to be done, and the steps that are left in this turn.
#[derive(Debug)]
pub(super) struct Agenda {
    ordered: VecDeque<Work>,
    /// Ordered work that what is done now has begun: it comes before all other.
    begun: Vec<Work>,
    beside: VecDeque<Work>,
    steps: usize,
    /// What is done now stood at the front of the ordered work.
    is_going_on: bool,
    /// The most steps of one turn.
    most: usize,
    used: usize,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            ordered: VecDeque::new(),
            begun: Vec::new(),
            beside: VecDeque::new(),
            steps: TURN_STEPS,
            is_going_on: false,
            most: 0,
            used: 0,
        }
    }
}

impl Bus {
    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        self.agenda.steps = TURN_STEPS;
        self.agenda.used = 0;
    }

    /// Takes so many steps; false if none are left now.
    pub(super) fn step(&mut self, count: usize) -> bool {
        let agenda = &mut self.agenda;
        agenda.used += count;
        agenda.most = agenda.most.max(agenda.used);
        agenda.steps = agenda.steps.saturating_sub(count);
        agenda.steps > 0
    }

    pub(super) fn steps_left(&self) -> usize {
        self.agenda.steps
    }

    /// The most steps of one turn.
    pub fn most_steps(&self) -> usize {
        self.agenda.most
    }

    /// Must something be done before any further message is passed?
    pub fn is_passing(&self) -> bool {
        !self.agenda.ordered.is_empty()
    }

    /// Has something begun that goes on in the next turn?
    pub fn has_work(&self) -> bool {
        self.is_passing() || !self.agenda.beside.is_empty()
    }

    /// May ordered work begin now, because nothing stands before it?
    pub(super) fn is_first(&self) -> bool {
        self.agenda.begun.is_empty() && (self.agenda.is_going_on || self.agenda.ordered.is_empty())
    }

    /// Leaves something to be done outside, behind ordered work.
    pub(crate) fn act(&mut self, action: Action) {
        if self.is_first() {
            self.actions.push(action);
        } else {
            self.put(Work::Act(action));
        }
    }

    /// Leaves ordered work for later, behind what there is.
    pub(super) fn put(&mut self, work: Work) {
        if self.agenda.is_going_on {
            self.agenda.begun.push(work);
        } else {
            self.agenda.ordered.push_back(work);
        }
    }

    /// Does ordered work, in this turn as far as its steps go.
    pub(super) fn begin(&mut self, work: Work) {
        let mut rest = Some(work);
        while let Some(work) = rest.take_if(|_| self.is_first() && self.agenda.steps > 0) {
            rest = self.advance(work);
        }
        rest.into_iter().for_each(|rest| self.put(rest));
    }

    /// Has work done beside the messages.
    pub(super) fn begin_beside(&mut self, work: Work) {
        self.agenda.beside.push_back(work);
    }

    /// What is done beside the messages.
    pub(super) fn work_beside(&mut self) -> impl Iterator<Item = &mut Work> {
        self.agenda.beside.iter_mut()
    }

    /// The order log has ended: what was to be said in it is said nowhere, and a new one is shown everything as it is then.
    pub(super) fn forget_log(&mut self) {
        let is_of_log =
            |work: &Work| matches!(work, Work::Act(Action::UpdateDirectory(_) | Action::Append { .. }));
        self.agenda.ordered.retain(|work| !is_of_log(work));
        self.agenda.beside.retain(|work| !matches!(work, Work::Narrowing(_)));
    }

    /// Goes on with ordered work, as far as the steps of this turn go. Then members that leave are to be settled.
    pub fn go_on(&mut self) {
        while self.agenda.steps > 0
            && let Some(work) = self.agenda.ordered.pop_front()
        {
            self.agenda.is_going_on = true;
            let rest = self.advance(work);
            self.agenda.is_going_on = false;
            let agenda = &mut self.agenda;
            for work in agenda.begun.drain(..).chain(rest).rev() {
                agenda.ordered.push_front(work);
            }
        }
    }

    /// Goes on with one work beside the messages; false if there is none, or nothing more can be done in this turn.
    pub(super) fn go_on_beside(&mut self) -> bool {
        if self.is_passing() || self.agenda.steps == 0 {
            return false;
        }
        let Some(work) = self.agenda.beside.pop_front() else { return false };
        let rest = self.advance(work);
        self.agenda.beside.extend(rest);
        true
    }

    /// Does a few parts; what is left comes back.
    fn advance(&mut self, work: Work) -> Option<Work> {
        match work {
            Work::Act(action) => {
                self.step(1);
                self.actions.push(action);
                None
            }
            Work::Broadcast(broadcast) => self.spread_on(broadcast).map(Work::Broadcast),
            Work::Waiters(waiters) => self.serve_waiters(waiters).map(Work::Waiters),
            Work::Listing(listing) => self.list_on(listing).map(Work::Listing),
            Work::Ending(ending) => self.end_on(ending).map(Work::Ending),
            Work::Narrowing(narrowing) => self.narrow_on(narrowing).map(Work::Narrowing),
            Work::Forget(mut output) => {
                for _ in 0..PARTS * PARTS {
                    output.pop_front()?;
                    if !self.step(FORGOTTEN) {
                        break;
                    }
                }
                Some(Work::Forget(output))
            }
        }
    }

    /// A client has gone that was to get these messages.
    pub fn forget(&mut self, output: Output) {
        if output.len() > FORGOTTEN_AT_ONCE {
            self.begin_beside(Work::Forget(output));
        }
    }
}
